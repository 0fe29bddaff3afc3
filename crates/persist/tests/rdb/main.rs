//! Tests of RDB files: round trips, files of real servers, old versions, and damaged files.

#[cfg(test)]
mod collections;
#[cfg(test)]
mod collections_written;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod files;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod load;
#[cfg(test)]
mod long;
#[cfg(test)]
mod old;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod transfers;
