//! Turns options into a load: fills in defaults and rejects contradictions.

use std::sync::Arc;

use fastrand::Rng;
use nagi_client::ring::{self, Library, Ring};

use super::cluster;
use super::error::Error;
use super::keys::Keys;
use super::ledger::Ledger;
use super::mix::{Mix, Source};
use super::names::Names;
use super::options::BenchOptions;
use super::protocol::Protocol;
use super::requests::{MEMCACHED_KEY_BYTES, Requests, Shape};
use super::servers::{Server, servers};
use super::trace::Trace;
use super::values::Values;
use super::worker::Load;
use crate::clock::now_ns;
use crate::pace::{Arrivals, Share};
use crate::target::Scheme;

/// Default length of measuring, in seconds.
pub(crate) const DEFAULT_SECONDS: f64 = 10.0;

/// Maximum bytes of requests that all connections together may have in flight.
const IN_FLIGHT_BYTES: u64 = 4 << 30;

/// The setup of a run, without its connections.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The options, with all defaults filled in.
    pub(crate) options: BenchOptions,
    pub(crate) servers: Arc<Vec<Server>>,
    pub(crate) load: Load,
    /// The number of keys, or of rows if a trace is replayed.
    pub(crate) keys: u64,
    /// The approximate length of the longest request, in bytes.
    pub(crate) longest: usize,
}

/// Fills in the defaults of the options and checks them. The protocol comes from the URLs.
pub(crate) fn resolve(mut options: BenchOptions) -> Result<BenchOptions, Error> {
    options.threads = options.threads.min(options.connections);
    options.seed.get_or_insert_with(|| Rng::with_seed(now_ns()).u64(..1 << 32));
    if options.unix.is_none() && options.urls.is_empty() {
        options.port.get_or_insert(options.protocol.default_port());
    }
    if options.arrivals != Arrivals::Uniform && options.rate.is_none() && options.slo.is_none() {
        return Err(Error::Options("--arrivals needs --rate or --slo".to_owned()));
    }
    let is_ramp = options.rate.is_some_and(|rate| !rate.is_even());
    if is_ramp && (options.requests.is_some() || options.warmup_seconds > 0.0) {
        let why = "a changing --rate needs --seconds, without --requests or --warmup-seconds";
        return Err(Error::Options(why.to_owned()));
    }
    if options.multi_get > 1 && options.like.library() == Library::RedisCluster {
        let why = "--multi-get does not work with --like redis-cluster, whose MGET takes keys of \
                   one slot";
        return Err(Error::Options(why.to_owned()));
    }
    if options.requests.is_none() && (options.bgsave_after_seconds.is_none() || is_ramp) {
        options.seconds.get_or_insert(DEFAULT_SECONDS);
    }
    if options.seconds == Some(0.0) {
        return Err(Error::Options("--seconds is 0: nothing to measure".to_owned()));
    }
    if let Some((after, seconds)) = options.bgsave_after_seconds.zip(options.seconds)
        && after >= seconds
    {
        return Err(Error::Options(format!(
            "--bgsave-after-seconds {after}: the run ends before the save, after {seconds} s"
        )));
    }
    Ok(options)
}

impl Setup {
    /// # Errors
    /// The options contradict each other, a file cannot be read, or a host has no address.
    pub(crate) fn new(mut options: BenchOptions) -> Result<Self, Error> {
        let trace = options.trace.as_deref().map(Trace::from_file).transpose();
        let trace = trace.map_err(Error::Options)?;
        if let Some(trace) = &trace
            && options.seconds.is_none()
        {
            options.requests.get_or_insert(trace.len());
        }
        let mut options = resolve(options)?;
        let (mut servers, protocol) = servers(&options).map_err(Error::Unreachable)?;
        options.protocol = protocol;
        let mut ring = None;
        if options.like.library() == Library::RedisCluster {
            if protocol != Protocol::Resp {
                return Err(Error::Options("--like redis-cluster needs RESP".to_owned()));
            }
            let (all, cluster) = cluster::servers(&servers).map_err(Error::Unreachable)?;
            (servers, ring) = (all, Some(Ring::Cluster(cluster)));
        } else if servers.len() > 1 {
            ring = Some(options.like.ring(servers.iter().map(in_ring).collect()));
        }
        let names = match &options.key_file {
            Some(path) => Names::from_file(path),
            None => Names::numbered(options.keys, options.key_bytes),
        };
        let names = names.map_err(Error::Options)?;
        options.keys = names.listed().unwrap_or(options.keys);
        check(&options, &names, trace.as_ref(), servers.len()).map_err(Error::Options)?;
        let keys = trace.as_ref().map_or(options.keys, Trace::len);
        let largest = largest_value(&options, trace.as_ref());
        let longest_key = names.samples().iter().map(Vec::len).max().unwrap_or(0);
        let ring = ring.filter(|_| servers.len() > 1);
        let load = load(&options, (&servers, ring), names, trace, largest);
        let servers = Arc::new(servers);
        Ok(Setup { options, servers, load, keys, longest: largest + longest_key + 64 })
    }

    /// Returns the keys that the thread of `share` draws from.
    pub(crate) fn keys_of(&self, share: Share) -> Keys {
        if self.options.trace.is_some() {
            return Keys::strided(self.keys, share.first, share.stride);
        }
        let first = u128::from(self.keys) * u128::from(share.first) / u128::from(share.stride);
        Keys::new(self.options.key_distribution, self.keys, first as u64)
    }
}

/// Converts a server for use in a ring.
fn in_ring(server: &Server) -> ring::Server {
    let host = match server.site.scheme {
        Scheme::Unix => server.site.host.clone(),
        _ => server.site.host.trim_matches(['[', ']']).to_owned(),
    };
    ring::Server::new(host, server.site.port)
}

fn largest_value(options: &BenchOptions, trace: Option<&Trace>) -> usize {
    let commands = options.command.iter().map(super::command::Command::largest_value);
    let elsewhere = trace.map_or(0, Trace::largest_value).max(commands.max().unwrap_or(0));
    elsewhere.max(if trace.is_some() { 0 } else { options.value_bytes.largest() })
}

/// Checks that the options do not contradict each other. The error is one line.
fn check(
    options: &BenchOptions,
    names: &Names,
    trace: Option<&Trace>,
    servers: usize,
) -> Result<(), String> {
    let protocol = options.protocol;
    if options.bgsave_after_seconds.is_some() && (protocol != Protocol::Resp || servers > 1) {
        return Err(match protocol {
            Protocol::Memcached => "memcached has no BGSAVE".to_owned(),
            _ => "--bgsave-after-seconds needs one server that speaks RESP".to_owned(),
        });
    }
    if options.multi_get > 1 && protocol == Protocol::Http {
        return Err(
            "--multi-get needs redis:// or memcached://: over HTTP, a request reads one key"
                .to_owned(),
        );
    }
    if protocol == Protocol::Http
        && (options.verify || trace.is_some() || !options.command.is_empty())
    {
        return Err("--verify, --trace and --command need redis:// or memcached://".to_owned());
    }
    if options.verify && trace.is_some_and(Trace::has_partial_writes) {
        return Err("--verify knows values that are written as a whole: the trace has append, \
                    prepend, incr or decr"
            .to_owned());
    }
    if options.command.iter().any(|command| !command.has_key()) && servers > 1 {
        return Err("a ring needs a {key} in each --command".to_owned());
    }
    options.command.iter().try_for_each(|command| command.check(protocol))?;
    if protocol == Protocol::Memcached {
        for key in names.samples() {
            check_memcached_key(&key)?;
        }
        if trace.is_some_and(|trace| trace.longest_key() > MEMCACHED_KEY_BYTES) {
            return Err(format!("memcached's keys have at most {MEMCACHED_KEY_BYTES} bytes"));
        }
    }
    let requests = u64::from(options.connections) * u64::from(options.pipeline);
    let in_flight = requests.saturating_mul(largest_value(options, trace) as u64);
    if in_flight > IN_FLIGHT_BYTES {
        return Err(format!(
            "{} connections with {} values of up to {} bytes in flight need {} GB: lower one of \
             them",
            options.connections,
            options.pipeline,
            largest_value(options, trace),
            in_flight >> 30
        ));
    }
    Ok(())
}

fn check_memcached_key(key: &[u8]) -> Result<(), String> {
    let shown = || key.get(..40).unwrap_or(key).escape_ascii();
    if key.len() > MEMCACHED_KEY_BYTES {
        return Err(format!("memcached's keys have at most {MEMCACHED_KEY_BYTES} bytes"));
    }
    if key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return Err(format!("the key \"{}\" has a blank or control character", shown()));
    }
    Ok(())
}

fn load(
    options: &BenchOptions,
    (servers, ring): (&[Server], Option<Ring>),
    names: Names,
    trace: Option<Trace>,
    largest: usize,
) -> Load {
    let (gets, sets) = (options.ratio.gets, options.ratio.sets);
    let seed = options.seed.unwrap_or_default();
    let ttl_seconds = options.ttl.map(|ttl| ttl.from);
    let has_one_ttl = options.ttl.is_none_or(|ttl| ttl.from == ttl.to);
    let heads: Vec<String> = servers.iter().map(Server::http_head).collect();
    let tails: Vec<String> = servers.iter().map(Server::http_fields).collect();
    let is_plain = servers.len() == 1
        && trace.is_none()
        && names.listed().is_none()
        && options.command.is_empty()
        && options.multi_get == 1
        && options.reconnect_every.is_none()
        && !options.verify
        && has_one_ttl;
    if let Some(value_bytes) = options.value_bytes.fixed().filter(|_| is_plain) {
        let http =
            (heads.first().map_or("", String::as_str), tails.first().map_or("", String::as_str));
        let shape = Shape {
            protocol: options.protocol,
            names: &names,
            value_bytes,
            ttl_seconds,
            seed,
            http,
        };
        return Load::Plain { requests: Arc::new(Requests::new(&shape)), gets, sets };
    }
    let source = match trace {
        Some(trace) => Source::Trace(trace),
        None if options.command.is_empty() => {
            Source::Values { gets, sets, keys_a_get: options.multi_get }
        }
        None => Source::Commands(options.command.clone()),
    };
    Load::Mixed(Arc::new(Mix {
        protocol: options.protocol,
        source,
        names,
        values: Values::new(options.value_bytes.clone(), largest, seed, options.verify),
        ttl: options.ttl,
        ring,
        http_tails: tails,
        http_heads: heads,
        ledger: options.verify.then(|| Ledger::new(options.verify_stale_ms * 1_000_000)),
    }))
}
