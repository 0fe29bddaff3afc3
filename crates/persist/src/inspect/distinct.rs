//! Detects duplicate members of a set or fields of a hash, in bounded memory, regardless of their
//! length and number.

use crate::rdb::{Element, ElementText, Rejected};
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The maximum number of members of one value that are recorded; duplicates after them are not
/// found.
const MAX_MEMBERS: usize = 1 << 20;

/// The members of a value, each as a 128-bit keyed hash with random keys: a collision is less
/// likely than a memory error.
#[derive(Default)]
pub(super) struct Distinct {
    hashers: [RandomState; 2],
    seen: HashSet<u128>,
}

impl Distinct {
    /// Begins another value.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// Adds an element.
    pub(super) fn add(&mut self, element: &Element<'_>) -> Result<(), Rejected> {
        let name = match element {
            Element::Item(_) | Element::Part(_) => return Ok(()),
            Element::Member(name) | Element::Scored(name, _) | Element::Field { name, .. } => name,
        };
        if self.seen.len() >= MAX_MEMBERS || self.seen.insert(self.hash(name)) {
            Ok(())
        } else {
            Err(Rejected::Duplicate)
        }
    }

    fn hash(&self, text: &ElementText<'_>) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|state| {
            let mut hasher = state.build_hasher();
            match text {
                ElementText::Int(number) => {
                    hasher.write(itoa::Buffer::new().format(*number).as_bytes());
                }
                ElementText::Bytes(bytes) => hasher.write(bytes),
                ElementText::Long(rope) => rope.chunks().for_each(|chunk| hasher.write(chunk)),
            }
            hasher.finish()
        });
        u128::from(high) << 64 | u128::from(low)
    }
}
