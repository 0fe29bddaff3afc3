//! Faults that the server detects in itself, by the rules of `nagi doctor` over the last twenty
//! seconds.

use crate::{Marks, Server};
use nagi_findings::observation::{self as seen, Counters, Host, Observation, Process};
use nagi_findings::{Diagnosis, UNREAD_BYTES, diagnose_from_within};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The number of samples that are kept: twenty seconds, and the sample at their start.
const MAX_MOMENTS: usize = 21;
/// The number of latest samples in all of which a client must have left replies unread.
const LISTS: usize = 3;
/// With more connections, no clients are examined, since a worker that accepts a connection would
/// have to wait.
const MAX_CLIENTS: usize = 1000;
/// The minimum time over which the busy time of a worker is measured.
const MIN_BUSY_S: f64 = 10.0;
/// The number of sampled requests from which on a hot key is reported: about a thousand a second.
const MANY_REQUESTS: f64 = 5000.0;

/// Figures at one moment.
#[derive(Debug)]
pub(super) struct Moment {
    /// The time.
    pub(super) at: Instant,
    /// Counters by their names in INFO.
    pub(super) counters: BTreeMap<String, String>,
    /// The running time of each worker's thread, in nanoseconds.
    pub(super) cpu_ns: Vec<u64>,
    /// The clients that a finding may concern; `None` if there are too many connections.
    pub(super) clients: Option<Vec<seen::Client>>,
}

/// The moments of the last seconds, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments(VecDeque<Arc<Moment>>);

impl Moments {
    /// A copy with a further moment, without the oldest one if there are too many.
    pub(super) fn with(&self, moment: Moment) -> Moments {
        let surplus = (self.0.len() + 1).saturating_sub(MAX_MOMENTS);
        let kept = self.0.iter().skip(surplus).cloned();
        Moments(kept.chain([Arc::new(moment)]).collect())
    }

    /// Evaluates the rules. `keys` has the number of requests that the sample of keys represents,
    /// and the share of the hottest key.
    pub(super) fn diagnose(&self, keys: Option<(f64, f64)>) -> Diagnosis {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return Diagnosis::default();
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let behind = self.0.len().saturating_sub(LISTS);
        let counters = Counters { before: first.counters.clone(), after: last.counters.clone() };
        let sample = keys.filter(|(requests, _)| *requests >= MANY_REQUESTS);
        let busiest = busiest(first, last, seconds).filter(|_| seconds >= MIN_BUSY_S);
        diagnose_from_within(&Observation {
            seconds,
            server: seen::Server {
                name: "nagi".to_owned(),
                counters,
                clients: self.0.iter().skip(behind).filter_map(|it| it.clients.clone()).collect(),
                sample: sample.map(|(requests, share)| seen::Sample {
                    requests: requests as u64,
                    // Reports must not show the key to users without the permission for it.
                    keys: vec![("one key (HOTKEYS)".to_owned(), (requests * share) as u64)],
                }),
                ..<_>::default()
            },
            host: Host {
                has_server: true,
                process: Some(Process { id: std::process::id(), busiest, ..<_>::default() }),
                ..<_>::default()
            },
            ..<_>::default()
        })
    }
}

fn busiest(first: &Moment, last: &Moment, seconds: f64) -> Option<seen::BusyThread> {
    let ran = last.cpu_ns.iter().zip(&first.cpu_ns).enumerate();
    let (index, (now, before)) =
        ran.max_by_key(|(_, (now, before))| now.saturating_sub(**before))?;
    let ran_s = now.saturating_sub(*before) as f64 / 1e9;
    Some(seen::BusyThread {
        name: format!("W{index}"),
        used: ran_s / seconds.max(0.1),
        waited: 0.0,
    })
}

/// Clients that monitor requests, and clients that do not read their replies; `None` if there are
/// too many connections.
pub(super) fn remarkable_clients(
    server: &dyn Server,
    connections: usize,
) -> Option<Vec<seen::Client>> {
    if connections > MAX_CLIENTS {
        return None;
    }
    let clients = server.clients();
    let remarkable = clients.iter().filter_map(|client| {
        let monitors = client.marks().contains(Marks::MONITOR);
        let output_bytes = client.output_bytes.load(Relaxed) as u64;
        (monitors || output_bytes >= UNREAD_BYTES).then(|| seen::Client {
            id: client.id,
            flags: if monitors { "O" } else { "N" }.to_owned(),
            command: server.commands().label(client.last_command.load(Relaxed)).to_owned(),
            output_bytes,
            input_bytes: client.query_bytes.load(Relaxed) as u64,
        })
    });
    Some(remarkable.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::time::Duration;

    /// A time on one clock for all moments of a test.
    fn at(ms: u64) -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START + Duration::from_millis(ms)
    }

    fn moment(at_ms: u64, counters: &[(&str, &str)], cpu_ns: u64) -> Arc<Moment> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let counters = counters.iter().map(owned).collect();
        let (at, cpu_ns) = (at(at_ms), vec![0, cpu_ns]);
        Arc::new(Moment { at, counters, cpu_ns, clients: Some(Vec::new()) })
    }

    fn names(moments: &Moments, keys: Option<(f64, f64)>) -> Vec<&'static str> {
        moments.diagnose(keys).findings().map(|(_, it)| it.finding.name).collect()
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let evicted =
            |count| [("used_memory", "99"), ("maxmemory", "100"), ("evicted_keys", count)];
        let moments = [(0, "100"), (10_000, "100"), (20_000, "300")];
        let moments = Moments(moments.map(|(at_ms, it)| moment(at_ms, &evicted(it), 0)).into());
        let diagnosis = moments.diagnose(None);
        let verdicts: Vec<&str> = diagnosis.found.iter().map(|it| &*it.evidence.verdict).collect();
        let expected =
            "Memory is at its limit: 10 keys a second are evicted, 99 B of 100 B in use.";
        assert_eq!(verdicts, [expected]);
        let before = Moments(moments.0.iter().take(2).cloned().collect()).diagnose(None);
        assert_eq!((before.found.len(), before.noticed.len()), (0, 1));
        assert_eq!(names(&Moments::default(), None), [""; 0]);
    }

    #[test]
    fn a_worker_is_busy_after_some_time_and_a_key_hot_among_many_requests() {
        let busy = |ms: u64| Moments([moment(0, &[], 0), moment(ms, &[], ms * 950_000)].into());
        assert_eq!(names(&busy(9000), None), [""; 0]);
        assert_eq!(names(&busy(20_000), None), ["one-thread-busy"]);
        assert!(busy(20_000).diagnose(None).found[0].evidence.verdict.contains("(W1)"));
        assert_eq!(names(&busy(1000), Some((100.0, 1.0))), [""; 0]);
        assert_eq!(names(&busy(1000), Some((20_000.0, 0.1))), [""; 0]);
        assert_eq!(names(&busy(1000), Some((20_000.0, 0.5))), ["hot-key"]);
    }

    /// nagi's allocator prevents fragmentation, so no test can produce it.
    #[test]
    fn fragmented_memory_is_found() {
        let with = |resident: &str| {
            let sizes = [("used_memory", "300000000"), ("used_memory_rss", resident)];
            names(&Moments([moment(0, &sizes, 0), moment(1000, &sizes, 0)].into()), None)
        };
        assert_eq!(with("390000000"), [""; 0]);
        assert_eq!(with("900000000"), ["swapping"]);
    }

    #[test]
    fn a_client_is_behind_if_it_is_so_in_several_samples() {
        let with = |bytes: [u64; 3]| {
            let client = |output_bytes| seen::Client { id: 7, output_bytes, ..<_>::default() };
            let moments = bytes.into_iter().enumerate().map(|(second, bytes)| {
                let clients = Some(vec![client(bytes)]);
                let (at, counters) = (at(second as u64 * 1000), BTreeMap::new());
                Arc::new(Moment { at, counters, cpu_ns: Vec::new(), clients })
            });
            names(&Moments(moments.collect()), None)
        };
        assert_eq!(with([2 << 20, 2 << 20, 3 << 20]), ["slow-reader"]);
        assert_eq!(with([2 << 20, 0, 3 << 20]), [""; 0]);
    }
}
