//! Records the changes to a slot's key, while there is a listener.

use crate::effects::change::{Effect, EntryEffect, KeyChange, KeyEffect};
use crate::effects::event::Event;
use crate::entry::view::EntryView;
use crate::value::string::StringValue;
use nagi_chunk::Chunk;
use std::ops::Range;

/// The changes to a key so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Whether there was an entry at the beginning.
    pub(crate) was_there: bool,
    /// Whether the value has been replaced.
    pub(crate) is_put: bool,
    /// Whether the string was extended in place.
    pub(crate) is_resized: bool,
    /// The overwritten part of a string.
    pub(crate) written: Vec<Range<usize>>,
    /// Whether attributes have changed.
    pub(crate) is_reshaped: bool,
    pub(crate) events: Vec<Event>,
    /// Whether the key counts as new, if that does not follow from the slot.
    pub(crate) is_new: Option<bool>,
    /// Whether changes of an existing entry do not count as modifications.
    pub(crate) keeps_content: bool,
    /// Whether the key counts as modified though nothing has changed.
    pub(crate) is_touched: bool,
    /// The effect, or `Some(None)` for no effect, if it differs from the default.
    pub(crate) chosen: Option<Option<Effect>>,
}

/// The result of an operation on a slot.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) key: KeyChange,
    pub(crate) effect: Option<Effect>,
}

impl Record {
    /// Creates the record of a slot without changes.
    #[cold]
    pub(crate) fn begin(was_there: bool) -> Box<Self> {
        Box::new(Record { was_there, ..Record::default() })
    }

    /// Returns the result, given the current entry and the number of changes; `None` if nothing has
    /// changed.
    pub(crate) fn close(
        mut self,
        (database, key): (usize, Chunk),
        now: Option<EntryView<'_>>,
        changes: u32,
        reports_effects: bool,
    ) -> Option<Recorded> {
        let chosen = if reports_effects { self.chosen.take() } else { Some(None) };
        let effect = chosen.unwrap_or_else(|| {
            let (entry, key) = (self.effect_on(now)?, key.clone());
            Some(Effect::Key(KeyEffect { database, key, entry }))
        });
        let keeps_content = self.keeps_content && self.was_there && now.is_some();
        let is_modified = (changes > 0 || self.is_touched) && !keeps_content;
        if self.is_new.unwrap_or(!self.was_there && now.is_some()) {
            // The event follows a miss: the command may have looked the key up before creating it.
            let place = self.events.iter().take_while(|event| **event == Event::KeyMiss).count();
            self.events.insert(place, Event::New);
        }
        if effect.is_none() && self.events.is_empty() && !is_modified {
            return None;
        }
        let key = KeyChange { database, key, events: self.events, is_modified };
        Some(Recorded { key, effect })
    }

    fn effect_on(&self, now: Option<EntryView<'_>>) -> Option<EntryEffect> {
        let Some(entry) = now else { return self.was_there.then_some(EntryEffect::Remove) };
        let attributes = entry.attributes();
        if self.is_put {
            return Some(EntryEffect::Put(entry.share_value(), attributes));
        }
        if self.is_resized || !self.written.is_empty() {
            let string = entry.string().ok()?;
            let part = |range: &Range<usize>| (range.start, part_of(string, range.clone()));
            let parts = self.written.iter().map(part).collect();
            return Some(EntryEffect::Write(parts, string.len(), attributes));
        }
        self.is_reshaped.then_some(EntryEffect::Attributes(attributes))
    }
}

/// Returns a copy of a range of a string, which must lie within the string.
fn part_of(string: StringValue<'_>, range: Range<usize>) -> Box<[u8]> {
    match string {
        StringValue::Rope(rope) => {
            let mut part = Vec::with_capacity(range.len());
            rope.copy_range(range, &mut part);
            part.into()
        }
        string => string.with_bytes(|bytes| bytes.get(range).unwrap_or_default().into()),
    }
}
