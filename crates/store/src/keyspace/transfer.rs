//! Copies or moves an entry to another key or database.

use crate::effects::change::Effect;
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::keyspace::database::Database;
use crate::keyspace::slot::kept_key;
use crate::snapshot::ValueOutcome;

/// The events to report: at the key that the entry leaves, and at the one that receives it.
pub(crate) type TransferEvents = (Option<Event>, Option<Event>);

impl Database<'_> {
    /// Copies the entry of `from` to `to`, replacing any entry there. Both keys are latched. With
    /// `is_moved`, the original is removed.
    pub(crate) fn transfer(
        &self,
        from: Key<'_>,
        (there, to): (Database<'_>, Key<'_>),
        is_moved: bool,
        (left, arrived): TransferEvents,
    ) {
        let taken = self.write(from, |slot| {
            let (copy, is_reported) = (slot.copy(), slot.is_reported());
            let access = slot.entry().map(|entry| entry.access()).filter(|_| is_moved);
            // The effect reported at the other key includes this one.
            slot.choose_effect(|| None);
            if is_moved {
                // The copy shares the value.
                slot.remove_as(ValueOutcome::Stays);
            }
            copy.map(|copy| (copy, access, is_reported))
        });
        let Some(((value, attributes), access, is_reported)) = taken else { return };
        if is_reported {
            // The new key is reported before the removal of the old one.
            there.write(to, |slot| slot.note(Event::New));
            if let Some(left) = left.filter(|_| is_moved) {
                self.write(from, |slot| slot.note(left));
            }
        }
        there.write(to, |slot| {
            slot.put(value.as_new(), attributes);
            access.into_iter().for_each(|access| slot.set_access(access));
            slot.choose_new(false);
            arrived.into_iter().for_each(|event| slot.note(event));
            slot.choose_effect(|| {
                let (from, to) = ((self.index, kept_key(from)), (there.index, kept_key(to)));
                Some(Effect::Transfer { from, to, is_moved })
            });
        });
    }
}
