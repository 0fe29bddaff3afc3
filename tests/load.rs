//! `nagi bench` shows a server that stops for a second for what it was.

use harness::{Server, nagi_binary};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Runs 8 s at 5,000/s while the server stands still for one; what bench found.
fn stopped_for_a_second(rate: &[&str]) -> serde_json::Value {
    let server = Server::memcached();
    let port = server.memcached_address().port().to_string();
    let mut bench = Command::new(nagi_binary())
        .args(["bench", "--protocol", "memcached", "--port", &port, "--seconds", "8"])
        .args(["--keys", "1000", "--fill", "--timeline", "--json", "-"])
        .args(rate)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nagi starts");
    // A line a second is the clock: it goes on while the server stands still.
    let progress = BufReader::new(bench.stderr.take().expect("piped")).lines();
    let mut seconds = 0;
    for line in progress.map_while(Result::ok) {
        let is_second = line.split_whitespace().next().is_some_and(|word| word.contains('.'));
        seconds += u32::from(is_second);
        match seconds {
            2 if is_second => server.signal(Signal::STOP),
            3 if is_second => server.signal(Signal::CONT),
            _ => {}
        }
    }
    let mut json = String::new();
    bench.stdout.take().expect("piped").read_to_string(&mut json).expect("a report");
    assert!(bench.wait().expect("it ends").success(), "{json}");
    assert!(seconds >= 7, "{seconds} lines");
    serde_json::from_str(&json).expect("JSON")
}

#[test]
fn a_paced_load_shows_a_stall_in_every_request_that_it_held_up() {
    let report = stopped_for_a_second(&["--rate", "5000"]);
    let us = |name: &str| report["latency_us"][name].as_f64().expect("a number");
    assert!(us("max") >= 950_000.0, "{report}");
    assert!(us("p99") >= 500_000.0, "{report}");
    assert!(us("p50") < 500_000.0, "{report}");
}

#[test]
fn a_closed_loop_hides_a_stall_and_says_that_it_is_one() {
    let report = stopped_for_a_second(&[]);
    let us = |name: &str| report["latency_us"][name].as_f64().expect("a number");
    assert!(us("max") >= 900_000.0, "{report}");
    assert!(us("p99") < 500_000.0, "{report}");
    assert!(report["rate"].is_null(), "{report}");
}
