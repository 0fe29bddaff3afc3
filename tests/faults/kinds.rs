//! The kinds of servers that faults are injected into, the combinations that cannot occur, and how
//! often a fault must be named.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{Connection, Server, nagi_binary, newest, skipped, tool, until};
use serde_json::{Map, Value};

use super::machine::CONTENDED;
use crate::doctor::Run;
use Kind::{Memcached, Nagi, Redis, Valkey};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Nagi,
    Redis,
    /// The Valkey of Debian sid, if `cargo xtask bench` has installed it.
    Valkey,
    Memcached,
}

/// Combinations that cannot occur: a fault, the kinds of servers that cannot have it, and the
/// reason.
const IMPOSSIBLE: [(&str, &[Kind], &str); 10] = [
    ("large-values", &[Nagi], "small requests are answered between the pieces of a large value"),
    ("slow-commands", &[Nagi], "other clients do not wait for a long command"),
    ("slow-commands", &[Memcached], "there are no long commands"),
    ("fork-stall", &[Nagi, Memcached], "nothing forks"),
    ("slow-disk", &[Nagi, Memcached], "there is no append-only file"),
    ("failed-saves", &[Memcached], "nothing is saved"),
    (
        "swapping",
        &[Nagi, Memcached],
        "memory is given back, or kept in pages of one size, so that \
     none is fragmented; swap cannot be set up everywhere",
    ),
    ("slow-reader", &[Memcached], "nothing tells of unread replies"),
    (
        "mass-expiry",
        &[Nagi, Memcached],
        "what has expired is removed in short slices, or when it is looked up",
    ),
    ("monitor-running", &[Memcached], "nothing tells which connections watch"),
];

impl Kind {
    /// Returns the kinds of servers that are installed.
    pub(crate) fn available() -> impl Iterator<Item = Kind> {
        let is_there = |kind: &Kind| *kind != Valkey || newest("valkey-server").is_some();
        [Nagi, Redis, Valkey, Memcached].into_iter().filter(is_there)
    }

    fn name(self) -> &'static str {
        match self {
            Nagi => "nagi",
            Redis => "Redis",
            Valkey => "Valkey",
            Memcached => "memcached",
        }
    }

    pub(super) fn start(self, arguments: &[&str]) -> Server {
        self.start_as(self.program(), arguments)
    }

    pub(super) fn program(self) -> Command {
        match self {
            Nagi => {
                let mut command = Command::new(nagi_binary());
                command.arg("serve");
                command
            }
            Redis => tool("redis-server"),
            Valkey => newest("valkey-server").expect("it is there, or it would not be asked for"),
            Memcached => tool("memcached"),
        }
    }

    /// Starts the server with a command whose last word is the program, such as a wrapper.
    pub(super) fn start_as(self, mut command: Command, arguments: &[&str]) -> Server {
        command.args(arguments);
        let started = match self {
            Nagi => Server::start_nagi(command),
            Redis | Valkey => Server::start_redis(command),
            Memcached => Server::start_memcached(command),
        };
        started.unwrap_or_else(|problem| panic!("{problem}"))
    }

    pub(crate) fn address(self, server: &Server) -> SocketAddr {
        if self == Memcached { server.memcached_address() } else { server.resp() }
    }

    pub(super) fn url(self, server: &Server) -> String {
        self.url_of(self.address(server))
    }

    pub(crate) fn url_of(self, address: SocketAddr) -> String {
        let scheme = if self == Memcached { "memcached" } else { "redis" };
        format!("{scheme}://{address}")
    }

    pub(crate) fn connect(self, server: &Server) -> Connection {
        Connection::open(self.address(server))
    }

    pub(super) fn set(self, client: &mut Connection, key: &str, value: &str) {
        if self == Memcached {
            client.send(format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
            client.line();
        } else {
            client.run_words(&["SET", key, value]);
        }
    }

    /// Requests a key that does not exist.
    pub(super) fn miss(self, client: &mut Connection, key: &str) {
        if self == Memcached {
            client.check_raw(format!("get {key}\r\n"), "END\r\n");
        } else {
            client.run_words(&["GET", key]);
        }
    }
}

/// How often a fault is injected again if it was not named. The doctor reports less while other
/// tests use the processors.
const ATTEMPTS: u32 = 5;

/// Whether an attempt does not count because other programs used the machine. If several rounds are
/// run, hits are counted, so hits and misses are void under the same condition: a condition for
/// misses only would raise the share of hits. A single round only shows whether the fault can be
/// named, so a hit counts on any machine.
fn is_void(others: f64, is_miss: bool, rounds: u32) -> bool {
    others >= CONTENDED && (is_miss || rounds > 1)
}

#[test]
fn hits_and_misses_are_void_alike_where_they_are_counted() {
    for (others, is_void_for_all) in [(CONTENDED / 2.0, false), (CONTENDED, true)] {
        for is_miss in [false, true] {
            assert_eq!(is_void(others, is_miss, 10), is_void_for_all, "{others} {is_miss}");
        }
    }
    assert!(is_void(CONTENDED, true, 1) && !is_void(CONTENDED, false, 1));
}

/// Injects a fault into each kind of server that can have it, with strengths from 0 to 1, and
/// checks how often the fault is named first. If the fault cannot be injected, prints the reason
/// instead.
pub(super) fn check(name: &str, inject: impl Fn(Kind, f64) -> Result<Run, String>) {
    let rounds = std::env::var("NAGI_DOCTOR_ROUNDS").map_or(1, |it| it.parse().expect("a number"));
    let only = std::env::var("NAGI_DOCTOR_KINDS").unwrap_or_default().to_lowercase();
    let is_wanted = |kind: Kind| only.is_empty() || only.contains(&kind.name().to_lowercase());
    for kind in Kind::available() {
        let pair = [("fault", name.into()), ("kind", kind.name().into())];
        let reason = IMPOSSIBLE.iter().find(|(it, kinds, _)| *it == name && kinds.contains(&kind));
        if let Some((_, _, reason)) = reason {
            note("impossible", &[&pair[..], &[("reason", (*reason).into())]].concat());
            continue;
        }
        if !is_wanted(kind) {
            continue;
        }
        let (mut missed, mut void) = (Vec::new(), 0);
        let attempts = if rounds == 1 { ATTEMPTS } else { rounds };
        let mut attempt = 0;
        while attempt < attempts {
            let strength =
                if rounds == 1 { 0.5 } else { f64::from(attempt) / f64::from(rounds - 1) };
            let run = match inject(kind, strength) {
                Ok(run) => run,
                Err(reason) => {
                    note("skipped", &[("fault", name.into()), ("reason", (&*reason).into())]);
                    return skipped(format_args!("no {name} here: {reason}"));
                }
            };
            let is_named = run.names().first().map(String::as_str) == Some(name);
            let is_miss = !is_named || run.status != Some(1);
            let shown = format!("strength {strength}: {:?} {}", run.names(), run.printed);
            if is_void(run.others, is_miss, rounds) && void < attempts * 2 {
                println!("void, as others had {:.2} of all processors: {shown}", run.others);
                void += 1;
                continue;
            }
            attempt += 1;
            if is_miss {
                missed.push(shown);
            } else if rounds == 1 {
                missed.clear();
                break;
            }
        }
        println!("{name}: missed {} of {rounds} with {kind:?}, {void} void", missed.len());
        let named = u64::from(rounds).saturating_sub(missed.len() as u64);
        let counts = [("rounds", rounds.into()), ("named", named.into()), ("void", void.into())];
        note("injected", &[&pair[..], &counts].concat());
        assert!(missed.len() as u32 * 10 <= rounds, "{name} {kind:?}: {}", missed.join("\n"));
    }
}

/// Prints a result as a line with a JSON object, if `cargo xtask doctor` runs the tests.
pub(super) fn note(what: &str, fields: &[(&str, Value)]) {
    let Some(path) = std::env::var_os("NAGI_DOCTOR_RESULTS") else { return };
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let object: Map<String, Value> =
        [("what".to_owned(), what.into())].into_iter().chain(fields).collect();
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    writeln!(file, "{}", Value::Object(object)).expect("it is written");
}

/// Interpolates between two numbers according to the strength.
pub(super) fn between(weak: f64, strong: f64, strength: f64) -> f64 {
    weak + (strong - weak) * strength
}

/// Pauses, as a part of the fault.
pub(super) fn pass(milliseconds: f64) {
    let (start, time) = (Instant::now(), Duration::from_secs_f64(milliseconds / 1e3));
    until("time to pass", || (start.elapsed() >= time).then_some(())).expect("time passes");
}
