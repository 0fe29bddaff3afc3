//! Every operation on a counter must take effect at one instant between its request and its reply.
//!
//! Threads record the time of each request, the time of its reply, and the value. A history of
//! reads and increments by one has a valid order exactly if no operation that saw a larger value
//! ended before an operation that saw a smaller value began. The results of increments determine
//! their order, and a read of N belongs right after the increment to N.

use std::time::Instant;

use harness::{Connection, Server};

const THREADS: u32 = 8;
const OPERATIONS: u32 = 3000;

/// One request and its reply.
#[derive(Clone, Copy, Debug)]
struct Operation {
    sent: Instant,
    answered: Instant,
    value: u64,
    is_increment: bool,
}

/// Describes the fault in a history, if there is one.
fn fault_of(mut history: Vec<Operation>) -> Option<String> {
    let mut results: Vec<u64> =
        history.iter().filter(|it| it.is_increment).map(|it| it.value).collect();
    results.sort_unstable();
    if let Some((expected, found)) = (1..).zip(results).find(|(expected, found)| expected != found)
    {
        return Some(format!("the increment to {expected} was answered with {found}"));
    }
    // A read of N comes after the increment to N. Reads of the same value may be in any order.
    let place = |it: &Operation| (it.value, !it.is_increment);
    history.sort_by_key(place);
    let mut earliest_end_of_later: Option<Operation> = None;
    for group in history.chunk_by(|a, b| place(a) == place(b)).rev() {
        for operation in group {
            if let Some(later) = earliest_end_of_later.filter(|it| it.answered < operation.sent) {
                return Some(format!("{later:?} was over before {operation:?} began"));
            }
        }
        let ends = group.iter().copied().chain(earliest_end_of_later);
        earliest_end_of_later = ends.min_by_key(|it| it.answered);
    }
    None
}

/// The protocol of a thread.
enum Client {
    Resp(Connection),
    Memcached(Connection),
}

impl Client {
    fn increment(&mut self, key: &str) -> u64 {
        match self {
            Self::Resp(it) => it.run_words(&["INCR", key]).integer().try_into().expect("counts up"),
            Self::Memcached(it) => {
                it.send(format!("incr {key} 1\r\n"));
                it.line().parse().expect("a number")
            }
        }
    }

    fn read(&mut self, key: &str) -> u64 {
        let text = match self {
            Self::Resp(it) => it.run_words(&["GET", key]).text(),
            Self::Memcached(it) => {
                it.send(format!("get {key}\r\n"));
                let lines = [it.line(), it.line(), it.line()];
                lines[1].clone()
            }
        };
        text.trim().parse().expect("a number")
    }
}

#[test]
fn counters_are_linearizable_across_threads_and_protocols() {
    let server = Server::nagi();
    let keys = ["counter:a", "counter:b"];
    for key in keys {
        server.connect_resp().check(&format!("SET {key} 0"), "+OK\r\n");
    }
    for key in keys {
        let history = record(&server, key);
        assert_eq!(history.len() as u32, THREADS * OPERATIONS);
        assert_eq!(fault_of(history), None);
    }
}

/// Runs all threads on one counter. Returns the operations that they have recorded.
fn record(server: &Server, key: &str) -> Vec<Operation> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut client = match thread % 2 {
                    0 => Client::Resp(server.connect_resp()),
                    _ => Client::Memcached(server.connect_memcached()),
                };
                scope.spawn(move || {
                    let operate = |number: u32| {
                        let is_increment = !(number + thread).is_multiple_of(3);
                        let sent = Instant::now();
                        let value =
                            if is_increment { client.increment(key) } else { client.read(key) };
                        Operation { sent, answered: Instant::now(), value, is_increment }
                    };
                    (0..OPERATIONS).map(operate).collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("the thread ends well"))
            .collect()
    })
}

mod checker {
    //! Tests of the check itself: it must accept valid histories and find each kind of fault.

    use std::time::{Duration, Instant};

    use super::{Operation, fault_of};

    /// Operations as (sent, answered, value, is an increment), in milliseconds.
    fn fault(operations: &[(u64, u64, u64, bool)]) -> Option<String> {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let history = operations.iter().map(|&(sent, answered, value, is_increment)| Operation {
            sent: at(sent),
            answered: at(answered),
            value,
            is_increment,
        });
        fault_of(history.collect())
    }

    #[test]
    fn overlapping_operations_may_be_in_any_order() {
        assert_eq!(fault(&[(0, 10, 2, true), (1, 11, 1, true), (2, 9, 2, false)]), None);
        assert_eq!(fault(&[(0, 1, 0, false), (2, 3, 1, true), (4, 5, 1, false)]), None);
    }

    #[test]
    fn a_result_given_twice_is_found() {
        assert!(fault(&[(0, 1, 1, true), (2, 3, 1, true)]).is_some());
    }

    #[test]
    fn increments_against_the_order_of_time_are_found() {
        assert!(fault(&[(0, 1, 2, true), (2, 3, 1, true)]).is_some());
    }

    #[test]
    fn a_read_of_the_past_is_found() {
        assert!(fault(&[(0, 1, 1, true), (2, 3, 0, false)]).is_some());
        let last = [(0, 1, 1, true), (2, 3, 2, true), (4, 5, 1, false)];
        assert!(fault(&last).is_some());
    }

    #[test]
    fn a_read_of_the_future_is_found() {
        assert!(fault(&[(0, 1, 1, false), (2, 3, 1, true)]).is_some());
    }
}
