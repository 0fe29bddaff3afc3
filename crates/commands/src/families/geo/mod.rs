//! Positions on the earth: members of sorted sets whose scores are their geohashes.

mod area;
mod geohash;
pub(crate) mod position;
pub(crate) mod radius;
mod search;
