//! Records short histories of two to four clients, and checks each of them.
//!
//! The requests are random, from a seed that is printed; their timing depends on the machine.
//! Several groups of clients, each in its own database, run at the same time, so that blocked
//! clients do not leave the server idle. One more client saves all the time. `NAGI_HISTORIES` sets
//! the number of histories.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use harness::{Connection, Random, Reply, Server, encode_command, newest};

use super::checker::{Found, Operation, check as order_of};
use super::model::{Request, Words};
use super::requests::{Generator, Keys};
use super::scripts::to_send;

/// The number of histories, unless `NAGI_HISTORIES` is set.
const HISTORIES: u64 = 3000;
const HISTORIES_VARIABLE: &str = "NAGI_HISTORIES";

/// Number of groups that run at the same time.
const GROUPS: usize = 8;
/// Maximum number of clients in a group.
const CLIENTS: usize = 4;

#[test]
fn histories_of_several_clients_are_linearizable() {
    let histories = std::env::var(HISTORIES_VARIABLE).ok().and_then(|it| it.parse().ok());
    let server = Server::nagi_with(&["--workers", "4", "--adaptive-workers", "no"]);
    check(&server, histories.unwrap_or(HISTORIES));
}

/// This tests the model, because redis-server executes one request after another.
#[test]
fn histories_of_the_newest_redis_are_linearizable() {
    let Some(command) = newest("redis-server") else { return };
    let server = Server::start_redis(command).unwrap_or_else(|problem| panic!("{problem}"));
    check(&server, HISTORIES / 10);
}

/// Connects a client of a group to the group's database.
fn connect(server: &Server, group: usize) -> Connection {
    let mut client = server.connect_resp();
    client.check(&format!("SELECT {group}"), "+OK\r\n");
    client
}

/// Counts over all recorded histories.
#[derive(Default)]
struct Totals {
    histories: AtomicU64,
    operations: AtomicU64,
    served: AtomicU64,
    timed_out: AtomicU64,
    aborted: AtomicU64,
}

fn check(server: &Server, histories: u64) {
    let mut random = Random::announced();
    let (totals, begun) = (Totals::default(), AtomicU64::new(0));
    let fault = thread::scope(|scope| {
        let groups: Vec<_> = (0..GROUPS)
            .map(|group| {
                let (mut random, totals, begun) = (random.fork(), &totals, &begun);
                scope.spawn(move || {
                    let mut clients: Vec<_> =
                        (0..CLIENTS).map(|_| connect(server, group)).collect();
                    loop {
                        let number = begun.fetch_add(1, Ordering::Relaxed);
                        if number >= histories {
                            return None;
                        }
                        let prefix = format!("{group}:{number}:");
                        let history = record(&mut clients, &mut random, &prefix);
                        match order_of(&history) {
                            Ok(found) => totals.add(&history, &found),
                            Err(fault) => {
                                begun.store(histories, Ordering::Relaxed);
                                return Some(fault);
                            }
                        }
                    }
                })
            })
            .collect();
        let (mut saver, mut saves) = (server.connect_resp(), 0);
        while saves == 0 || begun.load(Ordering::Relaxed) < histories {
            saver.check("SAVE", "+OK\r\n");
            saves += 1;
        }
        let faults =
            groups.into_iter().filter_map(|group| group.join().expect("a group ends well"));
        faults.last()
    });
    if let Some(fault) = fault {
        panic!("{fault}");
    }
    let [histories, operations, served, timed_out, aborted] =
        [totals.histories, totals.operations, totals.served, totals.timed_out, totals.aborted]
            .map(AtomicU64::into_inner);
    println!(
        "{histories} histories, {operations} operations: {served} clients waited and were served, \
         {timed_out} until their time was up; {aborted} transactions were aborted"
    );
    assert!(served > 0 && timed_out > 0 && aborted > 0, "clients meet");
}

impl Totals {
    fn add(&self, history: &[Operation], &Found { served, timed_out }: &Found) {
        let is_aborted = |it: &&Operation| {
            matches!(it.request, Request::Transaction(_)) && it.reply == Reply::Null
        };
        let aborted = history.iter().filter(is_aborted).count() as u64;
        for (total, count) in [
            (&self.histories, 1),
            (&self.operations, history.len() as u64),
            (&self.served, served),
            (&self.timed_out, timed_out),
            (&self.aborted, aborted),
        ] {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Records one history. The first operation fills the keys, the last one reads and removes them.
fn record(clients: &mut [Connection], random: &mut Random, prefix: &str) -> Vec<Operation> {
    let keys = Keys::choose(random, prefix);
    let count = 2 + random.below(CLIENTS as u64 - 1) as usize;
    let start = Instant::now();
    let mut history = vec![operate(&mut clients[0], 0, start, keys.setup(random))];
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        let threads: Vec<_> = clients[..count]
            .iter_mut()
            .enumerate()
            .map(|(client, connection)| {
                let length = 6 + random.below(5) as usize;
                let generator = Generator { keys: &keys, random: random.fork(), client, count: 0 };
                let (requests, barrier) = (generator.requests(length), &barrier);
                scope.spawn(move || -> Vec<Operation> {
                    barrier.wait();
                    let operate = |request| operate(connection, client, start, request);
                    requests.into_iter().map(operate).collect()
                })
            })
            .collect();
        history.extend(threads.into_iter().flat_map(|it| it.join().expect("a client ends well")));
    });
    history.push(operate(&mut clients[0], 0, start, keys.clean_up()));
    history
}

/// Sends a request and receives the reply.
fn operate(
    connection: &mut Connection,
    client: usize,
    start: Instant,
    request: Request,
) -> Operation {
    let bytes = match &request {
        Request::Command(words) => encode_command(&to_send(words)),
        Request::Transaction(commands) => {
            let commands = commands.iter().flat_map(|words| encode_command(&to_send(words)));
            [encode_command(&["MULTI"]), commands.collect(), encode_command(&["EXEC"])].concat()
        }
    };
    let sent = start.elapsed();
    connection.send(bytes);
    let reply = match &request {
        Request::Command(words) => normal(words, connection.reply()),
        Request::Transaction(commands) => {
            for _ in 0..=commands.len() {
                let reply = connection.reply();
                assert!(matches!(reply, Reply::Simple(_)), "{reply:?} to {request:?}");
            }
            match connection.reply() {
                Reply::Array(replies) => {
                    let replies = commands.iter().zip(replies);
                    Reply::Array(replies.map(|(words, reply)| normal(words, reply)).collect())
                }
                other => other,
            }
        }
    };
    Operation { client, sent, answered: start.elapsed(), request, reply }
}

/// Normalizes a reply to the form that the model gives: elements without a defined order are
/// sorted, and errors are reduced to their kind.
fn normal(words: &Words, reply: Reply) -> Reply {
    let pair_length = match words[0].as_str() {
        "SMEMBERS" => 1,
        "HGETALL" => 2,
        _ => 0,
    };
    match reply {
        Reply::Error(text) => Reply::Error(text.split(' ').next().unwrap_or_default().to_owned()),
        Reply::Array(items) if pair_length > 0 => {
            let mut pairs: Vec<&[Reply]> = items.chunks(pair_length).collect();
            pairs.sort_by_key(|pair| pair[0].text());
            Reply::Array(pairs.concat())
        }
        other => other,
    }
}
