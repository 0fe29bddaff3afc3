//! What a slot notes of what is done to its key, while there is a listener.

use crate::effects::change::{Effect, EntryEffect, KeyChange, KeyEffect};
use crate::effects::event::Event;
use crate::entry::view::EntryView;
use crate::value::string::StringValue;
use nagi_chunk::Chunk;
use std::ops::Range;

/// What has been done to a key so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Whether something stood there to begin with.
    pub(crate) was_there: bool,
    /// Whether there is another value now.
    pub(crate) is_put: bool,
    /// Whether the string has grown where it lies.
    pub(crate) is_resized: bool,
    /// What was overwritten of a string.
    pub(crate) written: Vec<Range<usize>>,
    /// Whether attributes are others.
    pub(crate) is_reshaped: bool,
    pub(crate) events: Vec<Event>,
    /// Whether the key counts as new, where that does not follow from what stands there.
    pub(crate) is_new: Option<bool>,
    /// What the effect is, or that there is none, where it is not what follows from the rest.
    pub(crate) chosen: Option<Option<Effect>>,
}

/// What came of a slot.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) key: KeyChange,
    pub(crate) effect: Option<Effect>,
}

impl Record {
    /// That of a slot in which nothing has been done yet.
    #[cold]
    pub(crate) fn begin(was_there: bool) -> Box<Self> {
        Box::new(Record { was_there, ..Record::default() })
    }

    /// What came of it, given what stands there now and how often it was changed; nothing if
    /// nothing happened.
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
        let is_modified = changes > 0;
        if self.is_new.unwrap_or(!self.was_there && now.is_some()) {
            // After the miss of a command that looks first.
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

/// A part of a string, which lies within it.
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
