//! Tests that the results of parsers do not depend on the pieces in which bytes arrive.

#[cfg(test)]
mod feed;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod requests;
