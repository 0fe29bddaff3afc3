//! The cost of parsing a request, and of writing and parsing a reply. `cargo bench -p nagi-proto`
//! prints nanoseconds. The first argument selects rows whose name contains it, the second one sets
//! the number of rounds. For instruction counts, which do not depend on the load of the machine,
//! run the binary under `valgrind --tool=callgrind` with 10 and with 110 rounds: the difference is
//! the cost of 6400.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nagi_proto::{MalformedReply, Output, Span, memcached, resp};

/// The number of requests in one round: a full receive buffer of a busy connection.
const PIPELINE: usize = 64;
const ROUNDS: usize = 200_000;
/// The memory that a connection's output keeps between rounds.
const KEEP_BYTES: usize = 1 << 20;

struct Row {
    name: &'static str,
    /// Processes [`PIPELINE`] requests or replies. Returns how many it processed.
    work: Box<dyn FnMut() -> usize>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let wanted = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    for mut row in rows().into_iter().filter(|row| row.name.contains(&wanted)) {
        let elapsed = run(&mut row, rounds);
        let each_ns = elapsed.as_nanos() as f64 / (rounds * PIPELINE) as f64;
        println!("{:<24}{each_ns:>8.1} ns", row.name);
    }
}

fn rows() -> Vec<Row> {
    let key = "key:000000000123";
    let value = "x".repeat(32);
    let keys = format!(" {key}").repeat(10);
    let bulks = format!("$16\r\n{key}\r\n").repeat(10);
    vec![
        parse_resp("resp get", format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n")),
        parse_resp("resp set", format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$32\r\n{value}\r\n")),
        parse_resp("resp mget", format!("*11\r\n$4\r\nMGET\r\n{bulks}")),
        parse_resp("inline get", format!("GET {key}\r\n")),
        parse_memcached("memcached get", format!("get {key}\r\n")),
        parse_memcached("memcached set", format!("set {key} 0 0 32\r\n{value}\r\n")),
        parse_memcached("memcached multiget", format!("get{keys}\r\n")),
        find("reply resp ok", "+OK\r\n".to_owned(), |parsers, rest| parsers.0.next(rest)),
        find("reply resp bulk", format!("$32\r\n{value}\r\n"), |parsers, rest| {
            parsers.0.next(rest)
        }),
        find(
            "reply memcached value",
            format!("VALUE {key} 0 32\r\n{value}\r\nEND\r\n"),
            |parsers, rest| parsers.1.next(rest),
        ),
        write("write resp ok", |out| resp::Writer::new(out, resp::Version::Two).ok()),
        write("write resp integer", |out| {
            resp::Writer::new(out, resp::Version::Two).integer(black_box(1234));
        }),
        write("write resp bulk", |out| {
            resp::Writer::new(out, resp::Version::Two).bulk(black_box(&[b'x'; 32]));
        }),
        write("write memcached value", |out| {
            let mut writer = memcached::Writer::new(out, false);
            writer.value_header(black_box(b"key:000000000123"), black_box(0), 32, None);
            writer.data(black_box(&[b'x'; 32]));
            writer.line("END");
        }),
    ]
}

fn run(row: &mut Row, rounds: usize) -> Duration {
    let started = Instant::now();
    for _ in 0..rounds {
        assert_eq!((row.work)(), PIPELINE, "{}", row.name);
    }
    started.elapsed()
}

fn parse_resp(name: &'static str, request: String) -> Row {
    let limits = resp::Limits { bulk_bytes: 512 << 20, authenticated: true };
    let mut input = request.repeat(PIPELINE).into_bytes();
    let mut spans: Vec<Span> = Vec::with_capacity(64);
    let work = move || {
        let mut parser = resp::Parser::default();
        let mut rest = black_box(&mut input[..]);
        let mut found = 0;
        while let Ok(Some(taken)) = parser.parse(rest, &limits, &mut spans) {
            black_box(&spans);
            spans.clear();
            found += 1;
            rest = rest.get_mut(taken..).unwrap_or_default();
        }
        found
    };
    Row { name, work: Box::new(work) }
}

fn parse_memcached(name: &'static str, request: String) -> Row {
    let limits = memcached::Limits { item_bytes: 1 << 20, login_only: false };
    let input = request.repeat(PIPELINE).into_bytes();
    let mut spans: Vec<Span> = Vec::with_capacity(64);
    let work = move || {
        let mut parser = memcached::Parser::default();
        let mut rest = black_box(&input[..]);
        let mut found = 0;
        while let memcached::Parsed::Request { consumed, .. } =
            parser.parse(rest, &limits, &mut spans)
        {
            black_box(&spans);
            spans.clear();
            found += 1;
            rest = rest.get(consumed..).unwrap_or_default();
        }
        found
    };
    Row { name, work: Box::new(work) }
}

/// Parsers of replies for both protocols.
type ReplyParsers = (resp::ReplyParser, memcached::ReplyParser);

fn find(
    name: &'static str,
    reply: String,
    next: fn(&mut ReplyParsers, &[u8]) -> Result<Option<usize>, MalformedReply>,
) -> Row {
    let input = reply.repeat(PIPELINE).into_bytes();
    let mut parsers = ReplyParsers::default();
    let work = move || {
        let mut rest = black_box(&input[..]);
        let mut found = 0;
        while let Ok(Some(len)) = next(&mut parsers, rest) {
            found += 1;
            rest = rest.get(len..).unwrap_or_default();
        }
        found
    };
    Row { name, work: Box::new(work) }
}

fn write(name: &'static str, reply: fn(&mut Output)) -> Row {
    let mut out = Output::default();
    let work = move || {
        for _ in 0..PIPELINE {
            reply(black_box(&mut out));
        }
        out.clear(KEEP_BYTES);
        PIPELINE
    };
    Row { name, work: Box::new(work) }
}
