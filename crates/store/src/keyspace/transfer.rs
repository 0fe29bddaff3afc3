//! An entry put under another key, or into another database.

use crate::effects::change::Effect;
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::keyspace::database::Database;
use crate::keyspace::slot::kept_key;

/// What is reported of it: at the key that the entry leaves, and at the one that it comes to.
pub(crate) type TransferEvents = (Option<Event>, Option<Event>);

impl Database<'_> {
    /// Puts a copy of the entry of `from` under `to`, in place of what stands there, both of which
    /// are latched; where `is_moved`, the entry itself goes.
    pub(crate) fn transfer(
        &self,
        from: Key<'_>,
        (there, to): (Database<'_>, Key<'_>),
        is_moved: bool,
        (left, arrived): TransferEvents,
    ) {
        let taken = self.write(from, |slot| {
            let (copy, is_reported) = (slot.copy(), slot.is_reported());
            // It follows from what is done at the other key.
            slot.choose_effect(|| None);
            if is_moved {
                slot.remove();
            }
            copy.map(|copy| (copy, is_reported))
        });
        let Some(((value, attributes), is_reported)) = taken else { return };
        if is_reported {
            // The new one is reported before the removal of the other.
            there.write(to, |slot| slot.note(Event::New));
            if let Some(left) = left.filter(|_| is_moved) {
                self.write(from, |slot| slot.note(left));
            }
        }
        there.write(to, |slot| {
            slot.put(value.as_new(), attributes);
            slot.choose_new(false);
            arrived.into_iter().for_each(|event| slot.note(event));
            slot.choose_effect(|| {
                let (from, to) = ((self.index, kept_key(from)), (there.index, kept_key(to)));
                Some(Effect::Transfer { from, to, is_moved })
            });
        });
    }
}
