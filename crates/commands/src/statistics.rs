//! What is counted beside the keyspace's own counters: connections, bytes, calls and errors, by
//! each worker for itself and summed up when somebody asks.

use crate::{memcached, table};
use nagi_store::Counter;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

macro_rules! tallies {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What one worker counts, on cache lines of its own. Only that worker adds; anyone may
        /// read.
        #[derive(Debug)]
        #[repr(align(128))]
        pub struct Tally {
            $($(#[doc = $doc])+ pub $name: Counter,)+
            pub(crate) commands: Box<[CommandTally]>,
            pub(crate) verbs: memcached::Tally,
            errors: Mutex<BTreeMap<String, u64>>,
        }

        /// The sum over all workers since the last reset.
        #[derive(Clone, Debug, Default)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// By the index of a command's row.
            pub commands: Vec<CommandTotals>,
            /// memcached's verbs.
            pub verbs: memcached::Totals,
            /// Error replies by their code.
            pub errors: BTreeMap<String, u64>,
        }

        impl Totals {
            fn add(&mut self, tally: &Tally) {
                $(self.$name = self.$name.wrapping_add(tally.$name.get());)+
            }

            fn subtract(&mut self, baseline: &Totals) {
                $(self.$name = self.$name.wrapping_sub(baseline.$name);)+
            }
        }

        impl Default for Tally {
            fn default() -> Self {
                Tally {
                    $($name: Counter::default(),)+
                    commands: table::entries().iter().map(|_| CommandTally::default()).collect(),
                    verbs: memcached::Tally::default(),
                    errors: Mutex::default(),
                }
            }
        }
    };
}

tallies! {
    /// Connections accepted.
    connections,
    /// Connections turned away because there were `maxclients` already.
    refused_connections,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
}

/// What one worker counts of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandTally {
    calls: Counter,
    failed: Counter,
}

/// What was counted of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// How often it ran.
    pub calls: u64,
    /// How often it answered an error.
    pub failed: u64,
}

/// Everything counted, by all workers.
#[derive(Debug)]
pub struct Statistics {
    workers: Box<[Arc<Tally>]>,
    /// What the counters showed at the last reset. They themselves are never set back, since each
    /// has one writer, which could overwrite the reset with what it had read before.
    baseline: Mutex<Totals>,
}

impl Tally {
    /// Counts a call of the command with this index.
    #[inline]
    pub(crate) fn count_call(&self, index: usize) {
        if let Some(command) = self.commands.get(index) {
            command.calls.add(1);
        }
    }

    /// Counts an error reply by its code, the text's first word.
    #[cold]
    pub(crate) fn count_error(&self, text: &str) {
        let code = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        match errors.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                errors.insert(code.to_owned(), 1);
            }
        }
    }

    /// Counts a command that answered an error.
    #[cold]
    pub(crate) fn count_failure(&self, index: usize) {
        if let Some(command) = self.commands.get(index) {
            command.failed.add(1);
        }
    }
}

impl Statistics {
    /// A tally for each of so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Statistics {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            baseline: Mutex::default(),
        }
    }

    /// The tally of worker `index`, the same one at every call.
    #[must_use]
    pub fn worker(&self, index: usize) -> Arc<Tally> {
        self.workers.get(index).map_or_else(Arc::default, Arc::clone)
    }

    /// The sum over all workers since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.sum();
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        totals.subtract(&baseline);
        totals.verbs.subtract(&baseline.verbs);
        for (command, before) in totals.commands.iter_mut().zip(&baseline.commands) {
            command.calls = command.calls.wrapping_sub(before.calls);
            command.failed = command.failed.wrapping_sub(before.failed);
        }
        for (code, count) in &mut totals.errors {
            *count -= baseline.errors.get(code).copied().unwrap_or(0).min(*count);
        }
        totals.errors.retain(|_, count| *count > 0);
        totals
    }

    /// Starts again from zero (CONFIG RESETSTAT, memcached's `stats reset`).
    pub fn reset(&self) {
        let sum = self.sum();
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = sum;
    }

    fn sum(&self) -> Totals {
        let mut totals = Totals {
            commands: vec![CommandTotals::default(); table::entries().len()],
            ..Totals::default()
        };
        for tally in &self.workers {
            totals.add(tally);
            totals.verbs.add(&tally.verbs);
            for (total, command) in totals.commands.iter_mut().zip(&tally.commands) {
                total.calls = total.calls.wrapping_add(command.calls.get());
                total.failed = total.failed.wrapping_add(command.failed.get());
            }
            let errors = tally.errors.lock().unwrap_or_else(PoisonError::into_inner);
            for (code, count) in errors.iter() {
                *totals.errors.entry(code.clone()).or_default() += count;
            }
        }
        totals
    }
}
