//! The cost of requests by key, while a HOTKEYS session runs: execution time without waits, and
//! bytes of requests and replies.

use crate::registry::keys::Keys;
use crate::runtime::context::{CommandSet, Context, Job};
use crate::runtime::suspension::JobProgress;
use crate::state::key_costs::{Cost, MAX_BYTES};
use nagi_proto::Args;
use nagi_store::ticks;

/// Maximum keys that are counted per request. For a request with more keys, each counted key
/// represents several.
const MAX_KEYS: usize = 256;

/// Where a request has its keys.
pub(crate) enum Named {
    /// Among its arguments.
    Arguments(&'static Keys),
    /// A single key, truncated to `MAX_BYTES`: its encoding in the arguments differs (base64), or
    /// the request has no arguments (memcached's binary protocol).
    Key(Box<[u8]>),
}

impl Named {
    /// A request with a single key.
    pub(crate) fn key(key: &[u8]) -> Self {
        Named::Key(key.get(..MAX_BYTES).unwrap_or(key).into())
    }
}

/// Measures a part of the execution of a request.
pub(crate) struct Meter {
    began: u64,
    replied: usize,
}

impl Meter {
    /// Starts the measurement.
    pub(crate) fn start<C: CommandSet>(cx: &Context<'_, C>) -> Self {
        cx.tally.key_costs.take_elsewhere_ns();
        Meter { began: ticks::now(), replied: C::written(&cx.reply) }
    }

    /// Ends the measurement.
    pub(crate) fn stop<C: CommandSet>(self, cx: &Context<'_, C>) -> Cost {
        let worked = ticks::duration(ticks::now().saturating_sub(self.began));
        let here_ns = u64::try_from(worked.as_nanos()).unwrap_or(u64::MAX);
        Cost {
            ns: here_ns.saturating_add(cx.tally.key_costs.take_elsewhere_ns()),
            bytes: C::written(&cx.reply).saturating_sub(self.replied) as u64,
        }
    }
}

/// Runs a request of this length in bytes, and counts its cost when it completes.
pub(crate) fn measure<'a, C: CommandSet>(
    named: Named,
    request_bytes: usize,
    cx: &mut Context<'a, C>,
    run: impl FnOnce(&mut Context<'a, C>),
) {
    let meter = Meter::start(cx);
    run(cx);
    let mut cost = meter.stop(cx);
    cost.bytes = cost.bytes.saturating_add(request_bytes as u64);
    match cx.suspension.take() {
        None => note(&named, cx.args, cost, cx),
        // No part of the request has run; it is measured when it restarts.
        Some(suspension) if suspension.is_restart() => cx.suspension = Some(suspension),
        Some(suspension) => {
            cx.suspension = Some(suspension.map_job(|job| measured(job, named, cost)));
        }
    }
}

/// Wraps a job so that its cost is added to `cost`, the cost of the request so far.
fn measured<C: CommandSet>(mut job: Job<C>, named: Named, mut cost: Cost) -> Job<C> {
    Box::new(move |cx| {
        let meter = Meter::start(cx);
        let progress = job(cx);
        cost += meter.stop(cx);
        if progress.as_ref().map_or(true, |progress| *progress == JobProgress::Done) {
            note(&named, cx.args, cost, cx);
        }
        progress
    })
}

/// Counts the cost of a request, if it has keys.
pub(crate) fn note<C: CommandSet>(named: &Named, args: Args<'_>, cost: Cost, cx: &Context<'_, C>) {
    let counted = match named {
        Named::Arguments(keys) => keys.sample(MAX_KEYS, ticks::now(), args),
        Named::Key(key) => vec![&**key],
    };
    if !counted.is_empty() {
        cx.tally.key_costs.note(cost, cx.db.now_ms(), &counted);
    }
}

/// The length of a request in bytes.
pub(crate) fn request_bytes(args: Args<'_>) -> usize {
    args.bytes().len() + args.large_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, KeyGroup};
    use nagi_proto::Span;

    fn chosen(keys: &Keys, count: usize, random: u64) -> Vec<String> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for word in (0..=count).map(|number| number.to_string()) {
            spans.push(Span { start: bytes.len() as u32, len: word.len() as u32 });
            bytes.extend_from_slice(word.as_bytes());
        }
        let chosen = keys.sample(MAX_KEYS, random, Args::new(&bytes, &spans));
        chosen.into_iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn of_very_many_keys_some_are_counted_each_of_them_as_often() {
        let all = Keys::all(Access::RO);
        assert_eq!(chosen(&all, 3, 7), ["1", "2", "3"]);
        assert_eq!(chosen(&Keys::pairs(Access::RW), 6, 7), ["1", "3", "5"]);
        let (count, step) = (100_000, 391);
        let mut times = vec![0; count + 1];
        for random in 0..step {
            let chosen = chosen(&all, count, random);
            assert!((MAX_KEYS - 1..=MAX_KEYS).contains(&chosen.len()), "{}", chosen.len());
            chosen.iter().for_each(|key| times[key.parse::<usize>().unwrap()] += 1);
        }
        assert!(times[1..].iter().all(|times| *times == 1));
        static GROUPS: [KeyGroup; 2] =
            [KeyGroup::at(1, Access::RW), KeyGroup::range(2, -1, 1, Access::RO)];
        let chosen = chosen(&Keys::groups(&GROUPS), 1000, 1);
        assert_eq!(chosen[..2], ["3", "7"]);
    }
}
