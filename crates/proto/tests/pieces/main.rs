//! What parsers make of bytes does not depend on the pieces in which they arrive.

#[cfg(test)]
mod feed;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod requests;
