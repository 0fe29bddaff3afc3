//! The counters of memcached's `stats`.

use nagi_store::Counter;

macro_rules! tallies {
    ($($name:ident: $shown:literal,)+) => {
        /// A worker's counters of memcached's verbs.
        #[derive(Debug, Default)]
        pub(crate) struct VerbTally {
            pub(crate) calls: Counter,
            /// The execution time, in nanoseconds.
            pub(crate) busy_ns: Counter,
            /// Values that were stored.
            pub(crate) stored: Counter,
            $(pub(crate) $name: Counter,)+
        }

        /// The sum over all workers.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct VerbTotals {
            pub(crate) calls: u64,
            stored: u64,
            $($name: u64,)+
        }

        impl VerbTotals {
            pub(crate) fn add(&mut self, tally: &VerbTally) {
                self.calls = self.calls.wrapping_add(tally.calls.get());
                self.stored = self.stored.wrapping_add(tally.stored.get());
                $(self.$name = self.$name.wrapping_add(tally.$name.get());)+
            }

            /// The number of executed verbs.
            pub(crate) fn calls(&self) -> u64 {
                self.calls
            }

            pub(crate) fn subtract(&mut self, baseline: &VerbTotals) {
                self.calls = self.calls.wrapping_sub(baseline.calls);
                self.stored = self.stored.wrapping_sub(baseline.stored);
                $(self.$name = self.$name.wrapping_sub(baseline.$name);)+
            }

            /// Writes that were refused for lack of memory.
            pub(crate) fn no_memory(&self) -> u64 {
                self.no_memory
            }

            /// Values that were stored.
            pub(crate) fn stored(&self) -> u64 {
                self.stored
            }

            /// The counters of memcached, by their names there.
            pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($shown, self.$name),)+].into_iter()
            }
        }
    };
}

tallies! {
    get_keys: "cmd_get",
    sets: "cmd_set",
    flushes: "cmd_flush",
    touches: "cmd_touch",
    meta: "cmd_meta",
    get_hits: "get_hits",
    get_misses: "get_misses",
    delete_misses: "delete_misses",
    delete_hits: "delete_hits",
    incr_misses: "incr_misses",
    incr_hits: "incr_hits",
    decr_misses: "decr_misses",
    decr_hits: "decr_hits",
    cas_misses: "cas_misses",
    cas_hits: "cas_hits",
    cas_changed: "cas_badval",
    touch_hits: "touch_hits",
    touch_misses: "touch_misses",
    too_large: "store_too_large",
    no_memory: "store_no_memory",
    logins: "auth_cmds",
    failed_logins: "auth_errors",
}
