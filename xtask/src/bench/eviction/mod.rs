//! Measures the quality of eviction: the misses of a read-through cache over sockets, compared with
//! Redis, an exact LRU and S3-FIFO. Also measures the actual memory of a server at its limit.

mod client;
mod memory_shape;
mod reference;
mod trace;

use anyhow::{Context, Result};
use harness::Server;
use serde_json::{Value, json};

use super::Arguments;
use super::contestants::{Contestant, Placement};
use super::report::{DOCUMENT, Report, Table, ratio};
use client::{BATCH, Client};
use memory_shape::Usage;
use trace::Shape;

const POLICIES: [&str; 2] = ["allkeys-lru", "allkeys-lfu"];
/// Shares of the keys that fit, in percent.
const SHARES_PERCENT: [u64; 2] = [1, 10];
const VALUE_BYTES: usize = 100;
/// How often the number of keys is read during the warm-up, and again during the measurement.
const LOOKS: usize = 50;

/// Tolerated relative deviation of the average number of keys from the capacity.
const TOLERATED_FAULT: f64 = 0.02;

/// The size of a measurement.
#[derive(Clone, Copy)]
struct Scale {
    keys: u64,
    warm_up: usize,
    requests: usize,
}

/// The capacity of a server.
#[derive(Clone, Copy)]
enum Room {
    /// The capacity is this number of keys. The limit is adjusted during the warm-up until they
    /// fit.
    Keys(u64),
    /// The capacity is this number of bytes beyond the memory of the empty server.
    Bytes(u64),
}

/// The result of one server on one trace.
struct Outcome {
    miss_ratio: f64,
    /// The average number of keys that the server held.
    held: f64,
    /// The memory limit minus the memory of the empty server, in bytes.
    bytes: u64,
}

/// The results for one trace, cache size and policy.
struct Comparison {
    shape: Shape,
    share_percent: u64,
    capacity: u64,
    policy: &'static str,
    redis: Option<Outcome>,
    same_keys: Outcome,
    /// The result of nagi with the same number of bytes as Redis.
    same_bytes: Option<Outcome>,
    exact_lru: f64,
    s3_fifo: f64,
}

/// Measures both misses and memory.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let scale = if arguments.quick {
        Scale { keys: 200_000, warm_up: 100_000, requests: 200_000 }
    } else {
        Scale { keys: 400_000, warm_up: 300_000, requests: 500_000 }
    };
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let redis = contestants.iter().find(|it| it.name == "Redis");
    let mut all = Vec::new();
    for shape in Shape::ALL {
        for share_percent in SHARES_PERCENT {
            for policy in POLICIES {
                let name = format!("{}, {share_percent} % of the keys, {policy}", shape.name());
                if name.contains(&arguments.only) {
                    let compared = compare(nagi, redis, shape, share_percent, policy, scale);
                    all.push(compared.with_context(|| name.clone())?);
                    println!("bench: {name} is done");
                }
            }
        }
    }
    let memory = if memory_shape::NAME.contains(&arguments.only) {
        Some(memory_shape::measure(nagi, arguments)?)
    } else {
        None
    };
    let mut results: Vec<Value> = all.iter().map(Comparison::as_json).collect();
    results.extend(memory.as_ref().map(Usage::as_json));
    Ok(Report {
        name: "eviction",
        table: format!("{}\n{}", table(&all), memory.map_or(String::new(), |it| it.table())),
        summary: summary(&all),
        details: String::new(),
        results,
        document: DOCUMENT,
        pictures: Vec::new(),
    })
}

fn compare(
    nagi: &Contestant,
    redis: Option<&Contestant>,
    shape: Shape,
    share_percent: u64,
    policy: &'static str,
    scale: Scale,
) -> Result<Comparison> {
    let capacity = scale.keys * share_percent / 100;
    let trace = shape.trace(scale.keys, capacity, scale.warm_up + scale.requests);
    let run = |contestant: &Contestant, room| {
        run(contestant, policy, room, &trace, scale.warm_up, capacity).context(contestant.name)
    };
    let redis = redis.map(|redis| run(redis, Room::Keys(capacity))).transpose()?;
    let same_bytes = redis.as_ref().map(|redis| run(nagi, Room::Bytes(redis.bytes))).transpose()?;
    Ok(Comparison {
        shape,
        share_percent,
        capacity,
        policy,
        same_keys: run(nagi, Room::Keys(capacity))?,
        redis,
        same_bytes,
        exact_lru: reference::lru(&trace, scale.warm_up, capacity as usize),
        s3_fifo: reference::s3_fifo(&trace, scale.warm_up, capacity as usize),
    })
}

/// Runs a trace against a fresh server. If the capacity is a number of keys, the run is repeated
/// with another limit and smaller corrections until the number of keys is right; the best run
/// counts.
fn run(
    contestant: &Contestant,
    policy: &str,
    room: Room,
    trace: &[u64],
    warm_up: usize,
    capacity: u64,
) -> Result<Outcome> {
    let fault = |outcome: &Outcome| (outcome.held / capacity as f64 - 1.0).abs();
    let mut best: Option<Outcome> = None;
    let mut first_limit = None;
    for damping in [2.0, 4.0, 8.0, 16.0] {
        let server = contestant.start(Placement::Free)?;
        let mut cache = Cache::start(&server, policy, room, capacity)?;
        cache.damping = damping;
        cache.begin_at(first_limit)?;
        let outcome = measure_once(&mut cache, room, trace, warm_up)?;
        let missing = capacity as f64 - outcome.held;
        first_limit = Some((cache.limit as f64 + missing * cache.bytes_per_key) as u64);
        let is_good = fault(&outcome) < TOLERATED_FAULT || matches!(room, Room::Bytes(_));
        if best.as_ref().is_none_or(|best| fault(&outcome) < fault(best)) {
            best = Some(outcome);
        }
        if is_good {
            break;
        }
    }
    best.context("a run was made")
}

fn measure_once(
    cache: &mut Cache<'_>,
    room: Room,
    trace: &[u64],
    warm_up: usize,
) -> Result<Outcome> {
    let (before, measured) = trace.split_at(warm_up);
    for part in before.chunks(warm_up.div_ceil(LOOKS)) {
        cache.ask(part)?;
        cache.adjust(room)?;
    }
    let (mut missed, mut held) = (0, 0.0);
    let parts = measured.chunks(measured.len().div_ceil(LOOKS));
    let looks = parts.len() as f64;
    for part in parts {
        missed += cache.ask(part)?;
        held += cache.client.keys()? as f64 / looks;
    }
    Ok(Outcome {
        miss_ratio: missed as f64 / measured.len() as f64,
        held,
        bytes: cache.limit.saturating_sub(cache.empty_bytes),
    })
}

/// A server at its limit.
struct Cache<'a> {
    client: Client,
    policy: &'a str,
    value: String,
    limit: u64,
    empty_bytes: u64,
    bytes_per_key: f64,
    /// The divisor of each correction of the limit.
    damping: f64,
    /// The number of evicted keys when the limit was last adjusted.
    evicted: u64,
}

impl<'a> Cache<'a> {
    /// Measures the memory of the empty server and of `capacity` keys, removes the keys, and sets
    /// the limit.
    fn start(server: &Server, policy: &'a str, room: Room, capacity: u64) -> Result<Self> {
        let mut client = Client::connect(server)?;
        let value = "v".repeat(VALUE_BYTES);
        // These keys are in no trace, but they have the same form and are sent in the same batches,
        // so that the server's buffers are included in the memory.
        let strange: Vec<u64> = (0..capacity).map(|key| key + 1_000_000_000).collect();
        let first_batch: Vec<u64> = strange.iter().copied().take(BATCH).collect();
        client.read_through(&first_batch, &value)?;
        client.ask("FLUSHALL")?;
        let empty_bytes = client.settled_memory()?;
        for keys in strange.chunks(BATCH) {
            client.read_through(keys, &value)?;
        }
        let full_bytes = client.info("used_memory")?;
        client.ask("FLUSHALL")?;
        client.settled_memory()?;
        let limit = match room {
            Room::Keys(_) => full_bytes,
            Room::Bytes(bytes) => empty_bytes + bytes,
        };
        client.limit(limit, policy)?;
        let bytes_per_key = full_bytes.saturating_sub(empty_bytes) as f64 / capacity as f64;
        let damping = 1.0;
        Ok(Self { client, policy, value, limit, empty_bytes, bytes_per_key, damping, evicted: 0 })
    }

    /// Sets another initial limit.
    fn begin_at(&mut self, limit: Option<u64>) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        self.limit = limit;
        self.client.limit(self.limit, self.policy)
    }

    /// Sends requests. Returns the number of misses.
    fn ask(&mut self, keys: &[u64]) -> Result<usize> {
        let mut missed = 0;
        for batch in keys.chunks(BATCH) {
            missed += self.client.read_through(batch, &self.value)?;
        }
        Ok(missed)
    }

    /// Moves the number of keys closer to the target, if the capacity is a number of keys.
    fn adjust(&mut self, room: Room) -> Result<()> {
        let Room::Keys(wanted) = room else { return Ok(()) };
        let evicted = self.client.info("evicted_keys")?;
        let is_at_limit = std::mem::replace(&mut self.evicted, evicted) < evicted;
        let more = wanted as f64 - self.client.keys()? as f64;
        if is_at_limit || more < 0.0 {
            self.limit = (self.limit as f64 + more * self.bytes_per_key / self.damping) as u64;
            self.client.limit(self.limit, self.policy)?;
        }
        Ok(())
    }
}

impl Outcome {
    fn as_json(&self) -> Value {
        json!({
            "miss_ratio": self.miss_ratio,
            "keys_held": self.held,
            "bytes_beyond_empty": self.bytes,
        })
    }
}

impl Comparison {
    fn as_json(&self) -> Value {
        json!({
            "trace": self.shape.name(),
            "share_percent": self.share_percent,
            "capacity": self.capacity,
            "policy": self.policy,
            "redis": self.redis.as_ref().map(Outcome::as_json),
            "nagi_same_keys": self.same_keys.as_json(),
            "nagi_same_bytes": self.same_bytes.as_ref().map(Outcome::as_json),
            "exact_lru_miss_ratio": self.exact_lru,
            "s3_fifo_miss_ratio": self.s3_fifo,
        })
    }

    /// Returns nagi's misses as a multiple of Redis', with equal numbers of keys and with equal
    /// bytes.
    fn to_redis(&self) -> [Option<f64>; 2] {
        [Some(&self.same_keys), self.same_bytes.as_ref()]
            .map(|outcome| Some(outcome?.miss_ratio / self.redis.as_ref()?.miss_ratio))
    }
}

/// A ratio as formatted in tables.
fn cell(to_redis: Option<f64>) -> String {
    to_redis.map_or(String::new(), |it| ratio(it, 1.0))
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

fn table(all: &[Comparison]) -> String {
    let mut table = Table::new(&[
        "trace",
        "keys that fit",
        "policy",
        "Redis misses",
        "nagi, as many keys",
        "to Redis",
        "nagi, as many bytes",
        "keys held",
        "to Redis",
        "exact LRU",
        "S3-FIFO",
    ]);
    for one in all {
        let misses = |it: &Outcome| percent(it.miss_ratio);
        let bytes = one.same_bytes.as_ref();
        let [keys_to_redis, bytes_to_redis] = one.to_redis().map(cell);
        let mut row = vec![one.shape.name()];
        row.push(format!("{} % = {}", one.share_percent, one.capacity));
        row.push(one.policy.to_owned());
        row.push(one.redis.as_ref().map_or(String::new(), misses));
        row.push(misses(&one.same_keys));
        row.push(keys_to_redis);
        row.push(bytes.map_or(String::new(), misses));
        row.push(bytes.map_or(String::new(), |it| format!("{:.0}", it.held)));
        row.push(bytes_to_redis);
        row.extend([percent(one.exact_lru), percent(one.s3_fifo)]);
        table.row(row);
    }
    table.to_string()
}

/// Formats the misses with the same bytes as Redis, as multiples of Redis' misses: the range over
/// all shares.
fn summary(all: &[Comparison]) -> String {
    let header = [&["misses at the same memory, to Redis'"], &POLICIES[..]].concat();
    let mut table = Table::new(&header);
    for shape in all.chunk_by(|a, b| a.shape == b.shape) {
        let Some(first) = shape.first() else { continue };
        let mut row = vec![first.shape.name()];
        row.extend(POLICIES.iter().map(|policy| {
            let of_policy = shape.iter().filter(|one| one.policy == *policy);
            let ratios = of_policy.filter_map(|one| {
                let [_, bytes] = one.to_redis();
                bytes
            });
            span(ratios.collect())
        }));
        table.row(row);
    }
    table.to_string()
}

/// The range of the ratios.
fn span(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let mut cells: Vec<String> = ratios.into_iter().map(|it| cell(Some(it))).collect();
    cells.dedup();
    cells.join(" to ")
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn ratios_are_in_the_order_of_numbers() {
        assert_eq!(span(vec![10.5, 0.92, 9.25, 0.921]), "0.92 to 9.25 to 10.50");
    }
}
