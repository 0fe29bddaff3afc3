//! Measures the server's cost of scripts, and the number of scripts per second.

use std::net::TcpListener;
use std::slice;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::Server;

use super::{ComparedTable, Contestants, Measured, ratio, started};
use crate::bench::Arguments;
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::pipelined::{Cost, Load, encoded};
use crate::bench::report::Table;

/// Makes three calls on declared keys.
const THREE_CALLS: &str = "local count = redis.call('INCR', KEYS[1]) \
    redis.call('SET', KEYS[2], count) return redis.call('GET', KEYS[3])";

/// Adds a job to a queue like BullMQ's. Keys are built from a prefix and are not declared.
const ADD: &str = "local queue = ARGV[1] \
    local id = redis.call('INCR', queue .. ':id') \
    redis.call('HMGET', queue .. ':meta', 'paused', 'concurrency', 'max', 'duration') \
    redis.call('HMSET', queue .. ':' .. id, 'name', ARGV[2], 'data', ARGV[3], 'opts', ARGV[3], \
        'timestamp', ARGV[4], 'delay', 0, 'priority', 0) \
    redis.call('XADD', queue .. ':events', 'MAXLEN', '~', 10000, '*', 'event', 'added', \
        'jobId', id, 'name', ARGV[2]) \
    redis.call('LPUSH', queue .. ':wait', id) \
    redis.call('ZADD', queue .. ':marker', 0, '0') \
    redis.call('XADD', queue .. ':events', 'MAXLEN', '~', 10000, '*', 'event', 'waiting', \
        'jobId', id) return id";
/// Takes a job from the queue.
const TAKE: &str = "local queue = ARGV[1] \
    redis.call('HMGET', queue .. ':meta', 'paused', 'concurrency', 'max', 'duration') \
    redis.call('ZRANGE', queue .. ':delayed', 0, ARGV[4], 'BYSCORE', 'LIMIT', 0, 1000) \
    local id = redis.call('RPOPLPUSH', queue .. ':wait', queue .. ':active') \
    if not id then return 0 end \
    redis.call('SET', queue .. ':' .. id .. ':lock', ARGV[2], 'PX', 30000) \
    redis.call('HMGET', queue .. ':' .. id, 'rjk', 'pb') \
    redis.call('XADD', queue .. ':events', 'MAXLEN', '~', 10000, '*', 'event', 'active', \
        'jobId', id, 'prev', 'waiting') \
    redis.call('HMSET', queue .. ':' .. id, 'processedOn', ARGV[4], 'attemptsMade', 1) \
    return #redis.call('HGETALL', queue .. ':' .. id)";
/// Finishes a job, so that a run does not change the number of jobs.
const FINISH: &str = "local queue = ARGV[1] \
    local id = redis.call('RPOP', queue .. ':active') \
    if not id then return 0 end \
    redis.call('XADD', queue .. ':events', 'MAXLEN', '~', 10000, '*', 'event', 'completed', \
        'jobId', id, 'returnvalue', '1') \
    return redis.call('DEL', queue .. ':' .. id, queue .. ':' .. id .. ':lock')";

const THREE_KEYS: &str = "3 counter:{key} copy:{key} copy:{key}";
const JOB: &str = "0 queue send-mail {\"to\":\"somebody@example.org\",\"number\":{}} 1764000000000";

/// Scripts that each connection runs one after another.
struct Workload {
    name: &'static str,
    scripts: &'static [&'static str],
    /// The arguments after each script's name, in the format of [`Load`].
    words: &'static str,
    pipeline: u64,
    /// The target: at most this multiple of Valkey's processor time.
    asked: f64,
    /// The target with default workers: at least this multiple of Valkey's rate.
    asked_rate: Option<f64>,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "three calls, declared keys, pipeline 1",
        scripts: &[THREE_CALLS],
        words: THREE_KEYS,
        pipeline: 1,
        asked: 1.5,
        asked_rate: None,
    },
    Workload {
        name: "three calls, declared keys, pipeline 16",
        scripts: &[THREE_CALLS],
        words: THREE_KEYS,
        pipeline: 16,
        asked: 1.5,
        asked_rate: None,
    },
    Workload {
        name: "a queue's jobs, undeclared keys, pipeline 1",
        scripts: &[ADD, TAKE, FINISH],
        words: JOB,
        pipeline: 1,
        asked: 2.0,
        asked_rate: Some(1.0),
    },
];

/// Measures processor time and rate with each server on one core, and the rate also with the
/// default workers, where scripts and connections have threads of their own.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let pinned = started(contestants, Placement::Pinned)?;
    let names: Vec<&str> = pinned.iter().map(|(name, _)| *name).collect();
    let mut cpu = ComparedTable::new("CPU us of a script", names.clone());
    let mut rate = ComparedTable::new("scripts a second, one core", names.clone());
    for workload in &WORKLOADS {
        let costs = workload.run_on_each(&pinned, arguments)?;
        let asked = workload.asked.to_string();
        cpu.row(
            workload.name,
            &medians(&costs, |cost| cost.cpu_us),
            |us| format!("{us:.2}"),
            &asked,
        );
        rate.row(workload.name, &medians(&costs, |cost| cost.per_second), whole, "");
    }
    let claims = beside_claims(&pinned, seconds(arguments), arguments.repetitions)?;
    drop(pinned);

    let free = started(contestants, Placement::Free)?;
    let mut shared = ComparedTable::new("scripts a second, default workers", names);
    for workload in &WORKLOADS {
        let costs = workload.run_on_each(&free, arguments)?;
        let asked = workload.asked_rate.map_or(String::new(), |least| least.to_string());
        shared.row(workload.name, &medians(&costs, |cost| cost.per_second), whole, &asked);
    }
    let tables = [cpu, rate, shared].map(ComparedTable::into_table);
    Ok(Measured { tables: tables.into_iter().chain([claims]).collect(), details: None })
}

fn seconds(arguments: &Arguments) -> Duration {
    Duration::from_secs_f64(arguments.seconds)
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

/// Returns the median of a figure over each server's repetitions.
fn medians(costs: &[Vec<Cost>], figure: fn(&Cost) -> f64) -> Vec<f64> {
    costs.iter().map(|costs| median(costs.iter().map(figure).collect())).collect()
}

impl Workload {
    /// Runs the scripts on each server in turn, for each repetition. Returns each server's costs.
    fn run_on_each(
        &self,
        servers: &[(&'static str, Server)],
        arguments: &Arguments,
    ) -> Result<Vec<Vec<Cost>>> {
        let mut costs = vec![Vec::new(); servers.len()];
        for _ in 0..arguments.repetitions {
            for ((_, server), costs) in servers.iter().zip(&mut costs) {
                costs.push(self.run(server, seconds(arguments))?);
            }
        }
        Ok(costs)
    }

    fn run(&self, server: &Server, length: Duration) -> Result<Cost> {
        let mut client = server.connect_resp();
        let requests: Vec<String> = self
            .scripts
            .iter()
            .map(|script| {
                let reply = client.run_words(&["SCRIPT", "LOAD", script]).text();
                let name = reply.lines().last().unwrap_or_default();
                format!("EVALSHA {name} {}", self.words)
            })
            .collect();
        let load = Load { requests: &requests, pipeline: self.pipeline, opening: &[] };
        load.run(server, length)
    }
}

/// Measures nagi's cost of GET and SET while another key is claimed, as by a running script, so
/// that each request has to check whether its own key is claimed.
fn beside_claims(
    servers: &[(&'static str, Server)],
    length: Duration,
    repetitions: u32,
) -> Result<Table> {
    let (_, nagi) = servers.iter().find(|(name, _)| *name == "nagi").context("nagi takes part")?;
    let mut table = Table::new(&[
        "nagi's CPU us of a request, pipeline 16",
        "no key claimed",
        "another key claimed",
        "ratio",
        "target",
    ]);
    for (name, words) in [("GET", "GET key:{key}"), ("SET", "SET key:{key} {}")] {
        let words = words.to_owned();
        let load = Load { requests: slice::from_ref(&words), pipeline: 16, opening: &[] };
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            without.push(load.run(nagi, length)?.cpu_us);
            with.push(beside_a_claim(nagi, || load.run(nagi, length))?.cpu_us);
        }
        let (without, with) = (median(without), median(with));
        let figures = [without, with].map(|us| format!("{us:.3}"));
        let compared = [ratio(with, without), "1.03".to_owned()];
        table.row([name.to_owned()].into_iter().chain(figures).chain(compared).collect());
    }
    Ok(table)
}

/// Runs `work` while a MIGRATE waits for a server that never replies. The key of the MIGRATE stays
/// claimed without using processor time.
fn beside_a_claim<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port();
    let mut client = server.connect_resp();
    client.check("SET claimed value", "+OK\r\n");
    client.send(encoded(&format!("MIGRATE 127.0.0.1 {port} claimed 0 600000")));
    let (connection, _) = silent.accept()?;
    let done = work();
    drop(connection);
    done
}
