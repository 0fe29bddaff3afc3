//! What one connection gets of a tick, told by what the others see of its work: times would tell
//! of the machine.
//!
//! One worker serves clients that each count their requests in a key of their own, and a witness
//! whose pipeline reads the counts. The witness stops at the end of its slice too, so that between
//! two of its turns each of the others had one or two: no count may have grown by more than theirs.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Connection, Reply, Server, allow_open_files, encode_command};

/// What a slice is, as ARCHITECTURE.md says, and the batch that may pass its end.
const SLICE_REQUESTS: u64 = 1024;
const SLICE_BYTES: u64 = 64 << 10;
const SLICE_REPLY_BYTES: u64 = 256 << 10;
const BATCH: u64 = 32;

const PIPELINE: u64 = 1_000_000;
const VALUE_BYTES: u64 = 4000;
/// Slices of the witness at a time; its requests arrive in one piece.
const TURNS: usize = 4;

/// Sends `request` again and again until `done`, and takes what comes back.
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

/// Sends all of the pipeline, and checks that each request was answered once and in order.
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

/// Sends a request byte by byte until `done`; each is answered.
fn one_by_one(server: &Server, done: &AtomicBool) {
    let mut client = server.connect_resp();
    while !done.load(Ordering::Relaxed) {
        encode_command(&["ECHO", "slow"]).into_iter().for_each(|byte| client.send([byte]));
        client.expect("$4\r\nslow\r\n");
    }
}

/// The counts of one reply to the witness.
fn counts(reply: Reply) -> [u64; 3] {
    let Reply::Array(values) = reply else { panic!("{reply:?}") };
    let numbers: Vec<u64> =
        values.iter().map(|value| value.text().parse().expect("a count")).collect();
    numbers.try_into().expect("three of them")
}

/// By how much the counts grew between the witness's turns, until `done`.
fn watch(witness: &mut Connection, done: &AtomicBool) -> Vec<[u64; 3]> {
    let request = b"MGET a b c\r\n";
    let turns = TURNS * SLICE_REQUESTS as usize;
    let mut grown = Vec::new();
    while !done.load(Ordering::Relaxed) {
        witness.send(request.repeat(turns));
        let mut before = counts(witness.reply());
        for _ in 1..turns {
            let now = counts(witness.reply());
            if now != before {
                grown.push([0, 1, 2].map(|at| now[at] - before[at]));
            }
            before = now;
        }
    }
    grown
}

#[test]
fn nobody_gets_more_than_a_slice_while_others_wait() {
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

    // A batch of two kinds of requests holds as many of each.
    let most = [
        SLICE_REQUESTS + BATCH,
        SLICE_BYTES / VALUE_BYTES + BATCH / 2,
        SLICE_REPLY_BYTES / VALUE_BYTES + BATCH / 2,
    ];
    for (at, most) in most.into_iter().enumerate() {
        let mut steps: Vec<u64> =
            grown.iter().map(|step| step[at]).filter(|step| *step > 0).collect();
        steps.sort_unstable();
        assert!(steps.len() >= 50, "{steps:?}");
        assert!(steps[steps.len() / 2] <= most, "a slice is {most}: {steps:?}");
        // A turn at the end of one tick may be followed by one at the start of the next. More than
        // that is seen when the system holds up the witness in the middle of sending.
        assert!(steps[steps.len() * 3 / 4] <= 2 * most, "two slices are {most} each: {steps:?}");
    }
    // They have not been forgotten.
    let reply = format!("${VALUE_BYTES}\r\n{value}\r\n").repeat(1000);
    readers.iter_mut().step_by(20).for_each(|reader| reader.expect(&reply));
}
