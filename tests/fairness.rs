//! Many clients keep one worker busy: each must be served continually, and all replies must be in
//! order.
//!
//! Each client increments a key. A witness, whose pipeline reads these counts, checks that all of
//! them grow while the witness itself is served. The server's unit tests check which share of a
//! tick each client gets, because ticks can be counted there; observed from here, the share depends
//! on how the system schedules the processes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Connection, Reply, Server, allow_open_files, encode_command};

const PIPELINE: u64 = 1_000_000;
const VALUE_BYTES: u64 = 4000;
/// Number of requests that the witness sends at once: several slices, as defined in
/// ARCHITECTURE.md.
const WITNESSED: usize = 4096;

/// Sends `request` repeatedly until `done`, and receives the replies.
fn flood(server: &Server, request: &[u8], done: &AtomicBool) {
    let stream = TcpStream::connect(server.resp()).expect("the server listens");
    std::thread::scope(|scope| {
        scope.spawn(|| std::io::copy(&mut &stream, &mut std::io::sink()).expect("reads"));
        while !done.load(Ordering::Relaxed) {
            (&stream).write_all(request).expect("sends");
        }
        stream.shutdown(Shutdown::Write).expect("shuts down");
    });
}

/// Sends a pipeline at once, and checks that each request is answered once and in order.
fn pipeline(server: &Server, done: &AtomicBool) {
    let stream = TcpStream::connect(server.resp()).expect("the server listens");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let requests = encode_command(&["INCR", "a"]).repeat(1000);
            (0..PIPELINE / 1000).for_each(|_| (&stream).write_all(&requests).expect("sends"));
            stream.shutdown(Shutdown::Write).expect("shuts down");
        });
        let mut replies = Vec::new();
        (&stream).read_to_end(&mut replies).expect("the server replies");
        done.store(true, Ordering::Relaxed);
        let expected: String = (1..=PIPELINE).map(|number| format!(":{number}\r\n")).collect();
        assert!(replies == expected.as_bytes(), "each once, in order");
    });
}

/// Sends requests byte by byte until `done`; each must be answered.
fn one_by_one(server: &Server, done: &AtomicBool) {
    let mut client = server.connect_resp();
    while !done.load(Ordering::Relaxed) {
        encode_command(&["ECHO", "slow"]).into_iter().for_each(|byte| client.send([byte]));
        client.expect("$4\r\nslow\r\n");
    }
}

/// Returns the counts in a reply to the witness.
fn counts(reply: Reply) -> [u64; 3] {
    let Reply::Array(values) = reply else { panic!("{reply:?}") };
    let numbers: Vec<u64> =
        values.iter().map(|value| value.text().parse().expect("a count")).collect();
    numbers.try_into().expect("three of them")
}

/// Returns how often each count has grown between two requests of the witness, until `done`.
fn watch(witness: &mut Connection, done: &AtomicBool) -> [u64; 3] {
    let request = b"MGET a b c\r\n";
    let mut grown = [0; 3];
    while !done.load(Ordering::Relaxed) {
        witness.send(request.repeat(WITNESSED));
        let mut before = counts(witness.reply());
        for _ in 1..WITNESSED {
            let now = counts(witness.reply());
            for (at, count) in grown.iter_mut().enumerate() {
                assert!(now[at] >= before[at], "{before:?} {now:?}");
                *count += u64::from(now[at] > before[at]);
            }
            before = now;
        }
    }
    grown
}

#[test]
fn all_are_served_while_some_clients_never_stop() {
    allow_open_files(1024);
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut witness = server.connect_resp();
    let value = "v".repeat(VALUE_BYTES as usize);
    witness.check(&format!("MSET a 0 b 0 c 0 value {value}"), "+OK\r\n");
    let get = encode_command(&["GET", "value"]);
    let mut readers: Vec<Connection> = (0..100).map(|_| server.connect_resp()).collect();
    readers.iter_mut().for_each(|reader| reader.send(get.repeat(1000)));

    let with_count =
        |request: &[u8], key: &str| [request, &encode_command(&["INCR", key])].concat();
    let sets = with_count(&encode_command(&["SET", "other", &value]), "b").repeat(100);
    let gets = with_count(&get, "c").repeat(100);
    let done = AtomicBool::new(false);
    let grown = std::thread::scope(|scope| {
        scope.spawn(|| flood(&server, &sets, &done));
        scope.spawn(|| flood(&server, &gets, &done));
        scope.spawn(|| one_by_one(&server, &done));
        scope.spawn(|| pipeline(&server, &done));
        watch(&mut witness, &done)
    });

    assert!(
        grown.iter().all(|count| *count > 0),
        "each was served between other clients: {grown:?}"
    );
    // The clients that were connected first must receive all of their replies, too.
    let reply = format!("${VALUE_BYTES}\r\n{value}\r\n").repeat(1000);
    readers.iter_mut().step_by(20).for_each(|reader| reader.expect(&reply));
}
