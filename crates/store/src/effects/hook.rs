//! The hook that numbers changes and reports them to listeners.

use crate::effects::change::{Effect, EntryEffect, KeyChange, KeyEffect, StoreChange};
use crate::effects::event::Event;
use crate::effects::record::Recorded;
use crate::entry::view::EntryView;
use nagi_chunk::Chunk;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Receives changes. It is called with all latches of the operation held, so it only records data
/// and must not access the store.
pub trait ChangeListener: Send + Sync {
    /// Called after each change. Effects on single keys are present only if a listener requests
    /// them.
    fn changed(&self, change: &StoreChange);
}

/// The listeners, and the number of the last change.
#[derive(Default)]
pub(crate) struct ChangeHook {
    /// The listener for events, and the one for effects.
    listeners: [OnceLock<Box<dyn ChangeListener>>; 2],
    last_number: AtomicU64,
    /// The handling of lookups that find nothing.
    misses: AtomicU8,
    /// Whether removals by expiry and eviction are reported even while no other change is.
    reports_removals: AtomicBool,
}

/// The handling of lookups that find nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissInterest {
    /// No handling.
    #[default]
    Nothing,
    /// Expired entries are removed at once, which is reported.
    Expiry,
    /// Expired entries are removed at once, and all misses are reported.
    Miss,
}

impl ChangeHook {
    /// Registers a listener in one of the two places. Returns whether it was free.
    pub(crate) fn attach(&self, listener: Box<dyn ChangeListener>, wants_effects: bool) -> bool {
        let [events, effects] = &self.listeners;
        if wants_effects { effects } else { events }.set(listener).is_ok()
    }

    /// Sets the handling of lookups that find nothing.
    pub(crate) fn set_miss_interest(&self, interest: MissInterest) {
        self.misses.store(interest as u8, Ordering::Relaxed);
    }

    /// Whether lookups that find nothing need any handling.
    #[inline]
    pub(crate) fn listens_for_misses(&self) -> bool {
        self.misses.load(Ordering::Relaxed) != MissInterest::Nothing as u8
    }

    /// Whether misses are reported.
    #[inline]
    pub(crate) fn reports_misses(&self) -> bool {
        self.misses.load(Ordering::Relaxed) == MissInterest::Miss as u8
    }

    /// Sets whether removals by expiry and eviction are reported while no other change is.
    pub(crate) fn report_removals(&self, reports: bool) {
        self.reports_removals.store(reports, Ordering::Relaxed);
    }

    /// Whether removals by expiry and eviction are reported while no other change is.
    pub(crate) fn reports_removals(&self) -> bool {
        self.reports_removals.load(Ordering::Relaxed)
    }

    /// Whether a listener requests effects, and so all changes.
    pub(crate) fn has_effects_listener(&self) -> bool {
        let [_, effects] = &self.listeners;
        effects.get().is_some()
    }

    /// Numbers a change and reports it. All latches of the operation must be held.
    #[cold]
    pub(crate) fn report(&self, epoch: u8, keys: Vec<KeyChange>, effects: Vec<Effect>) {
        // Changes of one key are numbered in the order in which its latch was held.
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let change = StoreChange { number, epoch, keys, effects };
        self.listeners.iter().filter_map(OnceLock::get).for_each(|it| it.changed(&change));
    }

    /// Reports a change of one key.
    #[cold]
    pub(crate) fn report_one(&self, epoch: u8, recorded: Recorded) {
        self.report(epoch, vec![recorded.key], recorded.effect.into_iter().collect());
    }

    /// Reports a miss. No latch may be held.
    #[cold]
    pub(crate) fn report_miss(&self, epoch: u8, (database, key): (usize, Chunk)) {
        let change = KeyChange { database, key, events: vec![Event::KeyMiss], is_modified: false };
        self.report(epoch, vec![change], Vec::new());
    }

    /// Reports all changes made while the latches were held once.
    #[cold]
    pub(crate) fn report_many(&self, epoch: u8, records: Vec<Recorded>) {
        let (keys, effects): (_, Vec<_>) =
            { records }.drain(..).map(|it| (it.key, it.effect)).unzip();
        self.report(epoch, keys, effects.into_iter().flatten().collect());
    }

    /// Reports the removal of an entry by eviction or expiry, not by an operation on its key.
    #[cold]
    pub(crate) fn report_removed(
        &self,
        epoch: u8,
        database: usize,
        entry: &EntryView<'_>,
        event: Event,
    ) {
        let key = entry.kept_key();
        self.report_gone(epoch, (database, key), event);
    }

    /// Like [`ChangeHook::report_removed`], given only the key.
    #[cold]
    pub(crate) fn report_gone(&self, epoch: u8, (database, key): (usize, Chunk), event: Event) {
        let change =
            KeyChange { database, key: key.clone(), events: vec![event], is_modified: true };
        let effect = KeyEffect { database, key, entry: EntryEffect::Remove };
        self.report(epoch, vec![change], vec![Effect::Key(effect)]);
    }
}

impl fmt::Debug for ChangeHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeHook").field("last_number", &self.last_number).finish_non_exhaustive()
    }
}
