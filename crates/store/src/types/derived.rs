//! Strings that are worked out from others: at one moment where that takes no time, and else by
//! who has claimed their keys, so that nobody changes them meanwhile.

use crate::entry::key::Key;
use crate::keyspace::database::{Database, Slots};
use crate::keyspace::slot::Slot;
use crate::value::rope::{CHUNK_BYTES, Rope};
use crate::value::string::{Attributes, NewValue, Value};

/// What becomes of a key whose value was worked out.
#[derive(Debug)]
pub enum Outcome {
    /// It stays as it is.
    Same,
    /// It is removed.
    Nothing,
    /// Another string, as if it were set.
    Anew(Rope),
    /// The same string, changed: expiry and flags stay.
    Changed(Rope),
    /// The same, of no more than [`CHUNK_BYTES`], and to OBJECT ENCODING it is no number.
    Rewritten(String),
}

impl Database<'_> {
    /// The strings under several keys, all as of one moment. Long ones are shared, not copied.
    #[must_use]
    pub fn strings(&self, keys: &[Key<'_>]) -> Vec<Option<Rope>> {
        let mut strings = Vec::with_capacity(keys.len());
        self.get_many(keys, |entry| strings.push(entry.map(|entry| shared(entry.value()))));
        strings
    }

    /// Gives `to` what `make` works out from the strings under `keys`, all at one moment. `None`,
    /// and nothing has happened, if they are longer than `most_bytes` together, so that it would
    /// hold latches for too long.
    ///
    /// # Errors
    /// Those of `make`; nothing has happened then either.
    pub fn derive<R, E>(
        &self,
        keys: &[Key<'_>],
        to: Key<'_>,
        most_bytes: usize,
        make: impl FnOnce(Vec<Option<Rope>>) -> Result<(Outcome, R), E>,
    ) -> Option<Result<R, E>> {
        let mut all = keys.to_vec();
        all.push(to);
        self.write_all(&all, |slots| {
            let len = |slots: &mut Slots<'_>, key: Key<'_>| {
                slots.with(key, |slot| slot.entry().map_or(0, |entry| entry.value().len()))
            };
            if keys.iter().map(|key| len(slots, *key)).sum::<usize>() > most_bytes {
                return None;
            }
            let string =
                |key: &Key<'_>| slots.with(*key, |slot| Some(shared(slot.entry()?.value())));
            let strings = keys.iter().map(string).collect();
            Some(make(strings).map(|(outcome, result)| {
                slots.with(to, |slot| slot.settle(outcome));
                result
            }))
        })
    }

    /// Gives a key its outcome. Who has worked that out from the string under the key itself has
    /// claimed it: then the string can have gone meanwhile (`is_there` tells that there was one),
    /// and nothing takes its place.
    pub fn settle(&self, key: Key<'_>, outcome: Outcome, is_there: bool) {
        self.write(key, |slot| {
            if slot.entry().is_some() || !is_there {
                slot.settle(outcome);
            }
        });
    }
}

fn shared(value: Value<'_>) -> Rope {
    match value {
        Value::Rope(rope) => rope.clone(),
        value => value.with_bytes(Rope::from_bytes),
    }
}

impl Slot<'_> {
    fn settle(&mut self, outcome: Outcome) {
        let whole = |rope: &Rope| rope.chunk(0).filter(|_| rope.len() <= CHUNK_BYTES).cloned();
        match outcome {
            Outcome::Same => {}
            Outcome::Nothing => {
                self.remove();
            }
            Outcome::Anew(rope) => match whole(&rope) {
                Some(bytes) => self.put(NewValue::Raw(&bytes), Attributes::default()),
                None => self.put(NewValue::Rope(rope), Attributes::default()),
            },
            Outcome::Changed(rope) => match whole(&rope) {
                Some(bytes) => self.set_or_put(NewValue::Raw(&bytes)),
                None => self.set_or_put(NewValue::Rope(rope)),
            },
            Outcome::Rewritten(text) => self.set_or_put(NewValue::Text(text.as_bytes())),
        }
    }
}
