//! What memcached's `stats` counts.

use nagi_store::Counter;

macro_rules! tallies {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What one worker counts of memcached's verbs.
        #[derive(Debug, Default)]
        pub struct Tally {
            $($(#[doc = $doc])+ pub(crate) $name: Counter,)+
        }

        /// The sum over all workers.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Totals {
            pub(crate) fn add(&mut self, tally: &Tally) {
                $(self.$name = self.$name.wrapping_add(tally.$name.get());)+
            }

            pub(crate) fn subtract(&mut self, baseline: &Totals) {
                $(self.$name = self.$name.wrapping_sub(baseline.$name);)+
            }
        }
    };
}

tallies! {
    /// Requests.
    calls,
    /// Keys that `get` and its kin found.
    get_hits,
    /// Keys that `get` and its kin did not find.
    get_misses,
}
