//! Strings as they were at one moment, to work on for as long as it takes while others go on; and a
//! change that happens only if they still are as they were.

use crate::database::Database;
use crate::entry::EntryView;
use crate::key::Key;
use crate::rope::{CHUNK_BYTES, Rope};
use crate::slot::Slot;
use crate::value::{Attributes, NewValue, Value};

/// What becomes of a key whose value was worked out from a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// It is removed.
    Nothing,
    /// Another string, as if it were set.
    Anew(&'a Rope),
    /// The same string, changed: expiry and flags stay.
    Changed(&'a Rope),
    /// The same, and OBJECT ENCODING shows it like a string that was set.
    Rewritten(&'a [u8]),
}

impl Database<'_> {
    /// The strings under several keys, all as of one moment. Long ones are shared, not copied.
    #[must_use]
    pub fn snapshot(&self, keys: &[Key<'_>]) -> Vec<Option<Rope>> {
        let mut strings = Vec::with_capacity(keys.len());
        self.get_many(keys, |entry| {
            strings.push(entry.map(|entry| match entry.value() {
                Value::Rope(rope) => rope.clone(),
                value => value.with_bytes(Rope::from_bytes),
            }));
        });
        strings
    }

    /// Gives `to` its outcome, at one moment, if each of `keys` still holds what `seen` says;
    /// whether it did.
    pub fn commit(
        &self,
        keys: &[Key<'_>],
        seen: &[Option<Rope>],
        to: Key<'_>,
        outcome: Outcome<'_>,
    ) -> bool {
        let mut all = keys.to_vec();
        all.push(to);
        self.write_all(&all, |slots| {
            let holds = |(key, seen): (&Key<'_>, &Option<Rope>)| {
                slots.with(*key, |slot| is_same(slot.entry(), seen.as_ref()))
            };
            let unchanged = keys.iter().zip(seen).all(holds);
            if unchanged {
                slots.with(to, |slot| apply(slot, outcome));
            }
            unchanged
        })
    }
}

fn is_same(entry: Option<EntryView<'_>>, seen: Option<&Rope>) -> bool {
    match (entry.map(|entry| entry.value()), seen) {
        (None, None) => true,
        (Some(Value::Rope(rope)), Some(seen)) => rope.is_same(seen),
        (Some(value), Some(seen)) => {
            let seen = seen.chunk(0).map_or(&[][..], |chunk| chunk);
            value.len() <= CHUNK_BYTES && value.with_bytes(|bytes| bytes == seen)
        }
        _ => false,
    }
}

fn apply(slot: &mut Slot<'_>, outcome: Outcome<'_>) {
    let whole = |rope: &Rope| rope.chunk(0).filter(|_| rope.len() <= CHUNK_BYTES).cloned();
    match outcome {
        Outcome::Nothing => {
            slot.remove();
        }
        Outcome::Anew(rope) => match whole(rope) {
            Some(bytes) => slot.put(NewValue::Raw(&bytes), Attributes::default()),
            None => slot.put(NewValue::Rope(rope.clone()), Attributes::default()),
        },
        Outcome::Changed(rope) => match whole(rope) {
            Some(bytes) => slot.set_or_put(NewValue::Raw(&bytes)),
            None => slot.set_or_put(NewValue::Rope(rope.clone())),
        },
        Outcome::Rewritten(bytes) => slot.set_or_put(NewValue::from_bytes(bytes)),
    }
}
