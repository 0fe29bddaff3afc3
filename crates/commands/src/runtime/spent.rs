//! The time of requests that run inside another request: EXEC or a script. The session only times
//! the outer request.

use crate::runtime::context::Context;
use crate::runtime::shown;
use crate::state::client::Restrictions;
use crate::state::large_values::{self, MAX_KEY_BYTES, MAX_KEYS};
use crate::state::phases::Phases;
use crate::state::slow_log::SlowRequest;
use nagi_proto::Args;
use nagi_store::since_1970;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time and reply bytes of a request.
pub(crate) struct Spent {
    began: Instant,
    /// The part of the time since `began` in which the request was executed.
    pub(crate) executed: Duration,
    pub(crate) reply_bytes: usize,
}

impl Spent {
    /// The counts of a request that has just begun.
    pub(crate) fn since(began: Instant) -> Self {
        Spent { began, executed: Duration::ZERO, reply_bytes: 0 }
    }

    /// Counts the time of a request that was completed at `ended`. Records its values if it was
    /// large, and logs it if it was large or slow.
    pub(crate) fn report(&self, cx: &Context<'_>, (row, args): (usize, Args<'_>), ended: Instant) {
        self.note_values(cx, (row, args));
        let (config, total) = (cx.server.config(), ended.duration_since(self.began));
        if config.latency_tracking.is_on() {
            cx.tally.time_calls(row, 1, nanoseconds(self.executed));
        }
        let passes = |took: Duration, least_us: i64| {
            u64::try_from(least_us).is_ok_and(|least_us| took >= Duration::from_micros(least_us))
        };
        let request_bytes = args.total_len();
        let is_slow = passes(self.executed, config.slowlog_log_slower_than_us.signed())
            || passes(total, config.slowlog_total_slower_than_us.signed());
        if !is_slow && !config.log_limits().are_passed_by(request_bytes, self.reply_bytes) {
            return;
        }
        let phases = Phases {
            queue_ns: nanoseconds(total.saturating_sub(self.executed)),
            execute_ns: nanoseconds(self.executed),
            ..Phases::default()
        };
        // Commands run by a script are not requests of a client.
        let is_of_client = !cx.client.restrictions.contains(Restrictions::IN_SCRIPT);
        let address = is_of_client.then(|| cx.client.info.shown_address().into_owned());
        let request = SlowRequest {
            at_s: since_1970().saturating_sub(total).as_secs(),
            phases,
            request_bytes,
            received_bytes: request_bytes,
            reply_bytes: self.reply_bytes,
            arguments: shown::kept_arguments(cx.server.commands().entries().get(row), args),
            address: address.unwrap_or_default(),
            name: cx.client.info.name(),
            ..SlowRequest::default()
        };
        cx.server.statistics().command_logs.add(&Arc::new(request), is_slow, config.log_limits());
    }

    /// Records the values of a large request as candidates for the largest values.
    fn note_values(&self, cx: &Context<'_>, (row, args): (usize, Args<'_>)) {
        let (values, bytes) = (&cx.tally.large_values, args.total_len() + self.reply_bytes);
        if bytes < large_values::MIN_BYTES || !values.wants(bytes) {
            return;
        }
        if let Some(entry) = cx.server.commands().entries().get(row) {
            let keys = entry.command.keys.some_of(MAX_KEYS, MAX_KEY_BYTES, args);
            values.note(cx.db.sibling(cx.client.database), keys, entry.full_name.as_str());
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
