//! memcached's metadata of keys, in a form that Redis and Valkey skip.
//!
//! RDB has no place for client flags and CAS numbers, but servers skip unknown AUX fields, with a
//! message only at the debug level. One such field precedes a block of keys and contains the
//! metadata of those that have any:
//!
//! ```text
//! AUX "nagi-memcached" [keys to skip, mask of what follows:1, flags, CAS, the marks:1] ...
//! ```

use crate::length::{self, Length};
use nagi_store::Marks;

/// The name of the field.
pub(super) const FIELD: &[u8] = b"nagi-memcached";

const FLAGS: u8 = 1;
const CAS: u8 = 1 << 1;
const MARKS: u8 = 1 << 2;

const FETCHED: u8 = 1;
const STALE: u8 = 1 << 1;
const WON: u8 = 1 << 2;

/// memcached's metadata of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memcached {
    /// The client flags.
    pub flags: u32,
    /// The unique number of this version, if a client has requested one.
    pub cas: Option<u64>,
    /// The marks on this version.
    pub marks: Marks,
}

/// The metadata of keys that are about to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct NotesOut {
    pub(super) bytes: Vec<u8>,
    /// The number of keys since the last one with metadata.
    passed: u64,
}

impl NotesOut {
    /// Adds the metadata of the next key.
    pub(super) fn push(&mut self, known: &Memcached) {
        let Memcached { flags, cas, marks } = *known;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let marks = bit(marks.fetched, FETCHED) | bit(marks.stale, STALE) | bit(marks.won, WON);
        let follows = bit(flags != 0, FLAGS) | bit(cas.is_some(), CAS) | bit(marks != 0, MARKS);
        if follows == 0 {
            self.passed += 1;
            return;
        }
        length::write(&mut self.bytes, self.passed);
        self.passed = 0;
        self.bytes.push(follows);
        if flags != 0 {
            length::write(&mut self.bytes, flags.into());
        }
        if let Some(cas) = cas {
            length::write(&mut self.bytes, cas);
        }
        if marks != 0 {
            self.bytes.push(marks);
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.passed = 0;
    }
}

/// The metadata of keys that are about to be read.
#[derive(Debug)]
pub(super) struct NotesIn {
    bytes: Vec<u8>,
    at: usize,
    /// The number of keys to skip before the next key with metadata.
    pass: u64,
}

/// More keys than any file contains.
const NO_NOTE: u64 = u64::MAX;

impl Default for NotesIn {
    fn default() -> Self {
        NotesIn { bytes: Vec::new(), at: 0, pass: NO_NOTE }
    }
}

impl NotesIn {
    /// Decodes the value of a field; `None` if it is invalid.
    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            number(&mut rest)?;
            note(&mut rest)?;
        }
        let mut notes = NotesIn { bytes, ..NotesIn::default() };
        notes.pass = notes.read(number).unwrap_or(NO_NOTE);
        Some(notes)
    }

    /// Returns the metadata of the next key.
    #[inline]
    pub(super) fn next(&mut self) -> Memcached {
        if self.pass > 0 {
            self.pass -= 1;
            return Memcached::default();
        }
        let known = self.read(note).unwrap_or_default();
        self.pass = self.read(number).unwrap_or(NO_NOTE);
        known
    }

    fn read<T>(&mut self, read: fn(&mut &[u8]) -> Option<T>) -> Option<T> {
        let mut rest = self.bytes.get(self.at..)?;
        let found = read(&mut rest);
        self.at = self.bytes.len() - rest.len();
        found
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    match length::read(rest) {
        Ok(Length::Plain(number)) => Some(number),
        _ => None,
    }
}

fn note(rest: &mut &[u8]) -> Option<Memcached> {
    let [follows] = length::take(rest).ok()?;
    let mut known = Memcached::default();
    if follows & FLAGS != 0 {
        known.flags = u32::try_from(number(rest)?).ok()?;
    }
    if follows & CAS != 0 {
        known.cas = Some(number(rest)?);
    }
    if follows & MARKS != 0 {
        let [marks] = length::take(rest).ok()?;
        known.marks = Marks {
            fetched: marks & FETCHED != 0,
            stale: marks & STALE != 0,
            won: marks & WON != 0,
        };
    }
    (follows & !(FLAGS | CAS | MARKS) == 0).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_known() -> impl Strategy<Value = Memcached> {
        let marks = (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(fetched, stale, won)| Marks { fetched, stale, won });
        prop_oneof![
            Just(Memcached::default()),
            (any::<u32>(), any::<Option<u64>>(), marks).prop_map(|(flags, cas, marks)| Memcached {
                flags,
                cas,
                marks
            }),
        ]
    }

    proptest! {
        #[test]
        fn notes_are_restored_to_their_keys(
            known in prop::collection::vec(any_known(), 0..40),
            gap in 0_usize..300,
        ) {
            let mut out = NotesOut::default();
            let all: Vec<_> =
                std::iter::repeat_n(Memcached::default(), gap).chain(known).collect();
            all.iter().for_each(|known| out.push(known));
            let mut notes = NotesIn::new(out.bytes).unwrap();
            for known in all {
                prop_assert_eq!(notes.next(), known);
            }
            prop_assert_eq!(notes.next(), Memcached::default());
        }

        #[test]
        fn arbitrary_notes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(mut notes) = NotesIn::new(bytes) {
                (0..50).for_each(|_| _ = notes.next());
            }
        }
    }
}
