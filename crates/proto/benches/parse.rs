//! What parsing costs per request. `cargo bench -p nagi-proto` prints nanoseconds; an argument
//! keeps the rows whose name holds it. For instruction counts, run the binary under
//! `valgrind --tool=callgrind --toggle-collect='*parse*'` with a row's name and `1`, the number
//! of rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nagi_proto::{Span, memcached, resp};

/// Requests in one round: a full receive buffer of a busy connection.
const PIPELINE: usize = 64;
const ROUNDS: usize = 200_000;

struct Row {
    name: &'static str,
    request: Vec<u8>,
    parse: fn(&mut [u8], &mut Vec<Span>) -> usize,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let wanted = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    for row in rows().iter().filter(|row| row.name.contains(&wanted)) {
        let elapsed = run(row, rounds);
        let each_ns = elapsed.as_nanos() as f64 / (rounds * PIPELINE) as f64;
        println!("{:<20}{each_ns:>8.1} ns/request", row.name);
    }
}

fn rows() -> Vec<Row> {
    let key = "key:000000000123";
    let value = "x".repeat(32);
    let keys = format!(" {key}").repeat(10);
    let bulks = format!("$16\r\n{key}\r\n").repeat(10);
    let resp = |name, request: String| Row { name, request: request.into(), parse: parse_resp };
    let text =
        |name, request: String| Row { name, request: request.into(), parse: parse_memcached };
    vec![
        resp("resp get", format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n")),
        resp("resp set", format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$32\r\n{value}\r\n")),
        resp("resp mget", format!("*11\r\n$4\r\nMGET\r\n{bulks}")),
        resp("inline get", format!("GET {key}\r\n")),
        text("memcached get", format!("get {key}\r\n")),
        text("memcached set", format!("set {key} 0 0 32\r\n{value}\r\n")),
        text("memcached multiget", format!("get{keys}\r\n")),
    ]
}

fn run(row: &Row, rounds: usize) -> Duration {
    let mut input = row.request.repeat(PIPELINE);
    let mut spans = Vec::with_capacity(64);
    let started = Instant::now();
    for _ in 0..rounds {
        let found = (row.parse)(black_box(&mut input), &mut spans);
        assert_eq!(found, PIPELINE, "{}", row.name);
    }
    started.elapsed()
}

fn parse_resp(mut input: &mut [u8], spans: &mut Vec<Span>) -> usize {
    let limits = resp::Limits { bulk_bytes: 512 << 20, authenticated: true };
    let mut parser = resp::Parser::default();
    let mut found = 0;
    while let Ok(Some(taken)) = parser.parse(input, &limits, spans) {
        black_box(&spans);
        spans.clear();
        found += 1;
        input = input.get_mut(taken..).unwrap_or_default();
    }
    found
}

fn parse_memcached(input: &mut [u8], spans: &mut Vec<Span>) -> usize {
    let limits = memcached::Limits { item_bytes: 1 << 20 };
    let mut parser = memcached::Parser::default();
    let mut found = 0;
    let mut rest = &*input;
    while let memcached::Step::Request { consumed, .. } = parser.parse(rest, &limits, spans) {
        black_box(&spans);
        spans.clear();
        found += 1;
        rest = rest.get(consumed..).unwrap_or_default();
    }
    found
}
