//! Strings that are computed from other strings: under the latches if that is quick, otherwise
//! under a claim on their keys, so that they do not change meanwhile.

use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::key::Key;
use crate::entry::value::{Encoding, NewValue, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::rope::Rope;
use crate::value::string::StringValue;
use nagi_chunk::CHUNK_BYTES;

/// The result of computing a key's value.
#[derive(Debug)]
pub enum Outcome {
    /// The key does not change.
    Same,
    /// The key is removed.
    Nothing,
    /// A new string, as if it were set.
    Anew(Rope),
    /// The same string, changed: expiry and flags stay.
    Changed(Rope),
    /// Like `Changed`, for at most [`CHUNK_BYTES`]; OBJECT ENCODING does not report the string as
    /// an integer.
    Rewritten(String),
}

impl Database<'_> {
    /// Returns the strings under several keys, read atomically. Long ones are shared, not copied.
    ///
    /// # Errors
    /// One of the values is not a string.
    pub fn strings(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Rope>>, WrongType> {
        let mut strings = Vec::with_capacity(keys.len());
        self.get_many(keys, |entry| {
            strings.push(entry.map(|entry| entry.string().map(shared)).transpose());
        });
        strings.into_iter().collect()
    }

    /// Computes a value from the strings under `keys` and stores it in `to`, atomically; `event`,
    /// if given, is reported unless `to` is removed. Returns `None`, with nothing changed, if the
    /// strings are longer than `most_bytes` together, since latches would be held for too long.
    ///
    /// # Errors
    /// An error of `make`, or one of the values is not a string; nothing has changed.
    pub fn derive<R, E: From<WrongType>>(
        &self,
        keys: &[Key<'_>],
        to: Key<'_>,
        most_bytes: usize,
        event: Option<Event>,
        make: impl FnOnce(Vec<Option<Rope>>) -> Result<(Outcome, R), E>,
    ) -> Option<Result<R, E>> {
        let mut all = keys.to_vec();
        all.push(to);
        self.latched(&all, |db| match db.quick_strings(keys, most_bytes).transpose()? {
            Err(wrong_type) => Some(Err(wrong_type.into())),
            Ok(strings) => Some(make(strings).map(|(outcome, result)| {
                db.write(to, |slot| slot.settle(outcome, event));
                result
            })),
        })
    }

    /// Returns the strings under keys that are latched; `None` if they are longer than `most_bytes`
    /// together.
    fn quick_strings(
        &self,
        keys: &[Key<'_>],
        most_bytes: usize,
    ) -> Result<Option<Vec<Option<Rope>>>, WrongType> {
        let len =
            |key: &Key<'_>| self.write(*key, |slot| Ok(slot.string()?.map_or(0, |it| it.len())));
        if keys.iter().map(len).sum::<Result<usize, WrongType>>()? > most_bytes {
            return Ok(None);
        }
        let string = |key: &Key<'_>| {
            self.write(*key, |slot| {
                self.note_miss_in(slot);
                Ok(slot.string()?.map(shared))
            })
        };
        keys.iter().map(string).collect::<Result<_, _>>().map(Some)
    }

    /// Stores a key's outcome, reported as `event` unless the key is removed. A caller that
    /// computed it from the key's own string has claimed the key. If that string, whose existence
    /// `is_there` reports, has expired meanwhile, nothing is stored.
    pub fn settle(&self, key: Key<'_>, outcome: Outcome, is_there: bool, event: Event) {
        self.write(key, |slot| {
            if slot.entry().is_some() || !is_there {
                slot.settle(outcome, Some(event));
            }
        });
    }
}

fn shared(string: StringValue<'_>) -> Rope {
    match string {
        StringValue::Rope(rope) => rope.clone(),
        string => string.with_bytes(Rope::from_bytes),
    }
}

impl Slot<'_> {
    fn settle(&mut self, outcome: Outcome, event: Option<Event>) {
        let whole = |rope: &Rope| rope.chunk(0).filter(|_| rope.len() <= CHUNK_BYTES).cloned();
        match outcome {
            Outcome::Same => return,
            Outcome::Nothing => {
                self.delete();
                return;
            }
            Outcome::Anew(rope) => match whole(&rope) {
                Some(bytes) => self.put(NewValue::raw(&bytes), Attributes::default()),
                None => self.put(NewValue::rope(rope), Attributes::default()),
            },
            Outcome::Changed(rope) => match whole(&rope) {
                Some(bytes) => self.set_or_put(NewValue::raw(&bytes)),
                None => self.set_or_put(NewValue::rope(rope)),
            },
            Outcome::Rewritten(text) => {
                self.set_or_put(NewValue::Piece(Encoding::Text, text.as_bytes()));
            }
        }
        event.into_iter().for_each(|event| self.note(event));
    }
}
