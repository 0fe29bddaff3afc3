//! Values: what callers hand in and what readers see, of every type.

pub(crate) mod attributes;
pub(crate) mod encoding;
pub(crate) mod hash;
#[expect(dead_code, reason = "the commands of collections come next")]
pub(crate) mod item;
pub(crate) mod number;
pub(crate) mod root;
pub(crate) mod rope;
pub(crate) mod string;
pub(crate) mod typed;
