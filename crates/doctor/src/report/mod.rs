//! The report: the verdict first, then its evidence, the findings without a fault, and those that
//! could not be evaluated.

mod differences;
mod json;
mod outcome;
mod page;
mod text;

pub(crate) use outcome::Report;
pub(crate) use text::list;
