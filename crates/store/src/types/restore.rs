//! Putting back what was kept elsewhere, with what was known of its use.

use super::string::{Expiry, SetOptions};
use crate::access::AccessClock;
use crate::database::Database;
use crate::key::Key;
use crate::value::{Given, NewValue};

/// What was known of a value's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// For how many milliseconds it had not been used.
    IdleMs(u64),
    /// Its logarithmic counter of uses.
    Frequency(u8),
}

impl Usage {
    /// What an entry is to have that was used like this, if the policy goes by it.
    pub(crate) fn access(self, clock: AccessClock) -> Option<u32> {
        match self {
            Usage::IdleMs(idle_ms) => clock.idle_for(idle_ms),
            Usage::Frequency(counter) => clock.used_often(counter),
        }
    }
}

impl Database<'_> {
    /// Puts a string under `key`; whether that was allowed, which it always is where `replace`.
    /// What is told of its use counts only under a policy that goes by it.
    pub fn restore<'v>(
        &self,
        key: Key<'_>,
        value: impl Into<Given<'v>>,
        expiry: Expiry,
        replace: bool,
        usage: Option<Usage>,
    ) -> bool {
        let value = NewValue::from_given(value);
        self.write(key, |slot| {
            let allowed = replace || slot.entry().is_none();
            if allowed {
                self.put(slot, value, SetOptions { expiry, ..SetOptions::default() });
                usage.into_iter().for_each(|usage| slot.set_usage(usage));
            }
            allowed
        })
    }
}
