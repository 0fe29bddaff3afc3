//! One run: probes and samples for some seconds, and the server's statistics before and after.
//!
//! Anything that cannot be observed becomes a line of [`Observation::unseen`], and the run
//! continues.

use crate::options::DoctorOptions;
use crate::probes::{self, Sampler, Sent, failure_of, is_turned_away, refusal_of};
use crate::readers::{self, Latest, MAX_CLIENTS, ProcessReader, SocketReader, System, process_of};
use nagi_client::{Address, Protocol};
use nagi_findings::observation::{Failure, Observation, Probes, Server};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::figures;
use nagi_load::interrupt::Interrupt;
use nagi_load::target::Target;
use nagi_load::wire::{Answer, Wire};
use rustix::net::{getpeername, getsockname, sockopt::socket_peercred};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// How long the server may take to answer requests other than those of the probes.
const ANSWER_TIMEOUT_NS: u64 = 2 * SECOND;

/// How long the final requests may take together, since the user cannot interrupt them.
const FINAL_NS: u64 = 6 * SECOND;

/// Errors that show that a server speaks RESP, although it is busy or denies the request.
const BUSY: [&str; 4] = ["LOADING", "BUSY", "MASTERDOWN", "NOPERM"];

/// Observes a server.
///
/// # Errors
/// No server accepts connections at the address; the error is one line.
pub(crate) fn observe(
    target: &Target,
    options: &DoctorOptions,
    interrupt: &Interrupt,
) -> Result<Observation, String> {
    let mut querier = Querier::new(target, interrupt);
    let place = first_contact(target, &mut querier)?;
    let running = probes::start(target);
    let start_ns = now_ns();
    let mut server = Server { is_memcached: target.protocol != Protocol::Resp, ..<_>::default() };
    server.counters.before = querier.figures();
    let sampling = probes::start_sampler(sampler(&place, &server.counters.before));
    let beginning = querier.begin(options);
    server.settings =
        querier.query("CONFIG GET", Protocol::Resp, readers::settings).unwrap_or_default();
    querier.list_clients(&mut server);
    let sent = querier.transfer(options);
    let length_ns = (options.seconds * SECOND as f64) as u64;
    let _ = interrupt.sleep_until(start_ns + length_ns / 2);
    if options.sample_commands && !interrupt.is_set() {
        server.sample = querier.sample(options.show_keys);
    }
    let _ = interrupt.sleep_until(start_ns + length_ns);
    // Results so far are reported even after Ctrl-C; only a second Ctrl-C ends the program at once.
    querier.reset();
    let not_interrupted = Interrupt::default();
    querier.interrupt = &not_interrupted;
    querier.last_ns = now_ns() + FINAL_NS;
    server.counters.after = querier.figures();
    let seconds = (now_ns() - start_ns) as f64 / 1e9;
    querier.end(beginning, &mut server, options);
    querier.list_clients(&mut server);
    let host = sampling.stop()?;
    let mut probes = running.stop()?;
    (probes.sent_bytes, probes.sent_requests) = (sent.bytes, sent.requests);
    probes.transfers = sent.transfers;
    querier.unseen.extend(failed_connections(&probes));
    server.name = name(&server);
    if server.counters.before.is_empty() && !server.counters.after.is_empty() {
        let missing = "what has grown meanwhile: the server did not answer at the beginning";
        querier.unseen.push(missing.to_owned());
    }
    Ok(Observation { seconds, server, probes, host, placement: None, unseen: querier.unseen })
}

/// Describes the doctor's own failed connections in one line, if there are any.
fn failed_connections(probes: &Probes) -> Option<String> {
    let failures = probes.failures.iter();
    let shown = failures.map(|(why, count)| format!("{count} {}", why.name()));
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("connections that failed: {}", shown.join(", ")))
}

/// The location of the server as seen from this host.
#[derive(Debug, Default)]
struct Place {
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// The process at the other end of a Unix socket.
    process: Option<u32>,
    is_unix: bool,
}

/// Connects for the first time. Returns the location of the server.
fn first_contact(target: &Target, querier: &mut Querier<'_>) -> Result<Place, String> {
    let mut place = Place::default();
    match &target.address {
        Address::Unix(_) => place.is_unix = true,
        Address::Tcp { resolved, .. } => place.remote = resolved.first().copied(),
    }
    let socket = match target.address.connect() {
        Ok(socket) => socket,
        Err(error) => {
            let failure = failure_of(&error);
            // The probes will fail in the same way and count the failure.
            if matches!(failure, Failure::NoPort | Failure::TimedOut) {
                querier.unseen.push(error.to_string());
                return Ok(place);
            }
            return Err(error.to_string());
        }
    };
    if place.is_unix {
        let peer = socket_peercred(&socket).ok();
        place.process = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
    } else {
        place.local = getsockname(&socket).ok().and_then(|it| it.try_into().ok());
        let peer = getpeername(&socket).ok().flatten().and_then(|it| it.try_into().ok());
        place.remote = peer.or(place.remote);
    }
    let start_ns = now_ns();
    match Wire::over(socket, target, querier.interrupt, ANSWER_TIMEOUT_NS) {
        Ok(wire) => querier.handshake(wire)?,
        Err(why) => querier.unanswered(why, start_ns)?,
    }
    Ok(place)
}

fn sampler(place: &Place, figures: &BTreeMap<String, String>) -> Sampler {
    let proc = Path::new("/proc");
    let canonical = |address: Option<SocketAddr>| address.map(|it| it.ip().to_canonical());
    let local = canonical(place.local);
    let is_here = place.is_unix || local.is_some() && local == canonical(place.remote);
    let reported = ["process_id", "pid"].iter().find_map(|name| figures.get(*name)?.parse().ok());
    let remote = place.remote.map(|it| SocketAddr::new(it.ip().to_canonical(), it.port()));
    let sockets = remote.map(|remote| SocketReader::new(proc.to_path_buf(), remote));
    // A server that does not answer cannot report its process ID.
    let id = place.process.or(reported).filter(|_| is_here);
    let id = id.or_else(|| sockets.as_ref().filter(|_| is_here)?.listener());
    let process = id.and_then(|id: u32| Some(ProcessReader::new(id, process_of(proc, id)?)));
    Sampler {
        system: System::new(PathBuf::from("/")),
        sockets,
        process,
        has_server: is_here,
        local,
        remote: remote.map_or(String::new(), |it| it.to_string()),
    }
}

/// Returns the server's name and version, such as `Redis 7.0.15`, from its statistics.
fn name(server: &Server) -> String {
    figures::server_name(match server.counters.after.is_empty() {
        true => &server.counters.before,
        false => &server.counters.after,
    })
}

/// The positions of the server's logs at the start of the run; later entries belong to the run.
struct Beginning {
    newest_slow: Option<i64>,
    newest_large: Option<[i64; 2]>,
    latest_events: Option<Latest>,
    /// Whether the server counts the time that keys take.
    counts_keys: bool,
}

/// Sends queries to the server, one after another.
struct Querier<'a> {
    target: &'a Target,
    interrupt: &'a Interrupt,
    wire: Option<Wire>,
    /// Whether an answer took too long; no further query is sent then.
    is_silent: bool,
    /// When the last answer must have arrived.
    last_ns: u64,
    unseen: Vec<String>,
}

impl<'a> Querier<'a> {
    fn new(target: &'a Target, interrupt: &'a Interrupt) -> Self {
        let (wire, unseen) = (None, Vec::new());
        Querier { target, interrupt, wire, is_silent: false, last_ns: u64::MAX, unseen }
    }

    /// Keeps the connection if the server answers on it in the expected protocol. A server that is
    /// silent, busy or full is observed nevertheless.
    fn handshake(&mut self, mut wire: Wire) -> Result<(), String> {
        let start_ns = now_ns();
        let refusal = match wire.protocol {
            Protocol::Resp => wire.command(&[b"PING"]).map(|answer| match answer {
                Answer::Error(text) => text,
                _ => String::new(),
            }),
            _ => wire.lines("version").map(|lines| {
                let line = lines.concat();
                if line.starts_with("VERSION ") { String::new() } else { line }
            }),
        };
        match refusal {
            Ok(text) if text.is_empty() => self.wire = Some(wire),
            Ok(text) if is_turned_away(&text) => self.unseen.push(text),
            Ok(text) if BUSY.iter().any(|it| text.starts_with(it)) => {
                self.unseen.push(text);
                self.wire = Some(wire);
            }
            Ok(text) => return Err(format!("{}: {text}", self.target.name)),
            Err(why) => return self.unanswered(why, start_ns),
        }
        Ok(())
    }

    /// Records that a server is full, or has been silent since `start_ns`.
    ///
    /// # Errors
    /// The server is neither full nor silent, so it does not speak the expected protocol; the error
    /// is one line.
    fn unanswered(&mut self, why: String, start_ns: u64) -> Result<(), String> {
        let is_silent = now_ns() - start_ns >= ANSWER_TIMEOUT_NS;
        if refusal_of(&why) == Some(Failure::Closed) {
            return Err(format!(
                "{why} without an answer: is the port for another protocol, such as TLS, or for a \
                 proxy without a server?"
            ));
        }
        if !is_turned_away(&why) && !is_silent {
            return Err(why);
        }
        self.is_silent |= is_silent;
        self.unseen.push(why);
        Ok(())
    }

    fn reset(&mut self) {
        self.is_silent = false;
        self.wire = None;
    }

    /// Queries the server if it speaks `protocol`. An error is recorded in `unseen`.
    fn query<T>(
        &mut self,
        what: &str,
        protocol: Protocol,
        request: impl FnOnce(&mut Wire) -> Result<T, String>,
    ) -> Option<T> {
        if self.is_silent || self.interrupt.is_set() || protocol != self.target.protocol {
            return None;
        }
        let start_ns = now_ns();
        if start_ns >= self.last_ns {
            self.unseen.push(format!("{what}: the server's last answers took too long"));
            self.is_silent = true;
            return None;
        }
        match self.answer(request) {
            Ok(answer) => Some(answer),
            Err(why) => {
                self.wire = None;
                self.is_silent = now_ns() - start_ns >= ANSWER_TIMEOUT_NS;
                let why = why.strip_prefix(&format!("{what}: ")).unwrap_or(&why).to_owned();
                let line = format!("{what}: {why}");
                if !self.unseen.contains(&line) && !self.interrupt.is_set() {
                    self.unseen.push(line);
                }
                None
            }
        }
    }

    fn answer<T>(
        &mut self,
        request: impl FnOnce(&mut Wire) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::open_within(self.target, self.interrupt, ANSWER_TIMEOUT_NS)?,
        };
        wire.set_answer_timeout(ANSWER_TIMEOUT_NS);
        wire.end_by(self.last_ns);
        let answer = request(&mut wire)?;
        self.wire = Some(wire);
        Ok(answer)
    }

    fn figures(&mut self) -> BTreeMap<String, String> {
        let info = self.query("INFO", Protocol::Resp, figures::info);
        let figures = info.or_else(|| {
            self.query("stats", Protocol::Memcached, |wire| figures::stats(wire, "stats"))
        });
        figures.unwrap_or_default()
    }

    fn begin(&mut self, options: &DoctorOptions) -> Beginning {
        let start = |wire: &mut Wire| readers::start_key_costs(wire, options.seconds);
        Beginning {
            newest_slow: self.query("SLOWLOG", Protocol::Resp, readers::slow_log_newest),
            newest_large: self
                .query("COMMANDLOG", Protocol::Resp, readers::large_log_newest)
                .flatten(),
            latest_events: self.query("LATENCY", Protocol::Resp, readers::latest_events),
            counts_keys: self.query("HOTKEYS", Protocol::Resp, start).unwrap_or(false),
        }
    }

    fn end(&mut self, beginning: Beginning, server: &mut Server, options: &DoctorOptions) {
        if let Some(newest) = beginning.newest_slow {
            let read = |wire: &mut Wire| readers::slow_log(wire, newest);
            server.slow = self.query("SLOWLOG", Protocol::Resp, read);
        }
        if let Some(newest) = beginning.newest_large {
            let read = |wire: &mut Wire| readers::large_log(wire, newest);
            server.large = self.query("COMMANDLOG", Protocol::Resp, read).unwrap_or_default();
        }
        if let Some(latest) = beginning.latest_events {
            let read = |wire: &mut Wire| readers::events_since(wire, &latest);
            server.latency = self.query("LATENCY", Protocol::Resp, read).unwrap_or_default();
        }
        if beginning.counts_keys {
            let read = |wire: &mut Wire| readers::key_costs(wire, options.show_keys);
            server.key_costs = self.query("HOTKEYS", Protocol::Resp, read).flatten();
        }
    }

    fn list_clients(&mut self, server: &mut Server) {
        let figures = &server.counters;
        let count = [&figures.after, &figures.before]
            .iter()
            .find_map(|fields| fields.get("connected_clients")?.parse::<f64>().ok());
        if count.is_none_or(|count| count > MAX_CLIENTS) {
            return;
        }
        let list = self.query("CLIENT LIST", Protocol::Resp, readers::clients);
        server.clients.extend(list);
    }

    fn transfer(&mut self, options: &DoctorOptions) -> Sent {
        let may = self.target.protocol == Protocol::Resp || options.probe_writes;
        let sent = may.then(|| self.query("values", self.target.protocol, probes::transfers));
        sent.flatten().unwrap_or_default()
    }

    /// Watches requests on a separate connection, which is closed afterwards.
    fn sample(&mut self, show_keys: bool) -> Option<nagi_findings::observation::Sample> {
        self.wire = None;
        let watch = |wire: &mut Wire| readers::sample(wire, show_keys);
        let sample = self.query("the sample", self.target.protocol, watch);
        self.wire = None;
        sample
    }
}
