//! Measures one server with one size of data: fills it, saves, and finally loads the dump file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{Reply, Server};
use serde_json::Value;

use super::super::client::probe_beside;
use super::super::contestants::{Contestant, Folder, Placement};
use super::super::fill::KEY_BYTES;
use super::memory::{Sampler, outline, peak};
use super::row::{Busy, Counters, Latency, Limited, Overwriting, Pair, Row};
use crate::process;

/// Length of a value in bytes.
const VALUE_BYTES: usize = 1000;
const CONNECTIONS: u32 = 50;
/// Time measured before and after a save, in seconds.
const MARGIN_S: f64 = 0.5;
/// The same time for a closed-loop load, whose rates before and after are compared, in seconds.
const BUSY_MARGIN_S: f64 = 2.0;
/// The time limit of every operation.
const PATIENCE: Duration = Duration::from_secs(600);
/// The values of `save-cpu-limit` that are measured.
const LIMITS: [&str; 5] = ["10", "20", "50", "75", "100"];

/// The plan of measurements, the same for all servers.
pub(super) struct Plan<'a> {
    /// The path of nagi's binary, which generates the load.
    pub(super) load: &'a Path,
    pub(super) gigabytes: f64,
    pub(super) pairs: u32,
    /// Minimum and maximum length of a window without a save, in seconds.
    pub(super) quiet_s: (f64, f64),
    /// Requests per second of the open-loop load.
    pub(super) rate: f64,
    /// How often each limit on the processor time of a save is measured; only with nagi.
    pub(super) limit_rounds: usize,
    /// Whether keys are overwritten during a save, if one is measured without load.
    pub(super) overwrites: bool,
    /// Whether a save is measured without load.
    pub(super) saves_idle: bool,
}

/// A server that is being measured.
struct Session<'a> {
    plan: &'a Plan<'a>,
    name: &'a str,
    server: Server,
    /// Another server, which only answers a probe.
    idle: Server,
    folder: &'a Folder,
}

/// Performs all measurements of one server.
pub(super) fn measure(contestant: &Contestant, plan: &Plan<'_>) -> Result<Row> {
    let folder = contestant.new_folder()?;
    let server = contestant.start_in(&folder)?;
    let idle = contestant.start(Placement::Free)?;
    let session = Session { plan, name: contestant.name, server, idle, folder: &folder };
    session.fill()?;
    let resident_bytes = session.server.resident_bytes() as f64;
    let idle_seconds = plan.saves_idle.then(|| session.save_idle()).transpose()?;
    session.command("CONFIG RESETSTAT");
    let (mut pairs, mut memory) = (Vec::new(), Vec::new());
    for number in 1..=plan.pairs {
        let (pair, samples) = session.pair(number)?;
        pairs.push(pair);
        memory = samples;
    }
    let busy = session.busy()?;
    let file_bytes = session.file_bytes()?;
    let counters = contestant.is_nagi().then(|| session.counters());
    let overwriting = match plan.overwrites {
        true => Some(session.overwrite(file_bytes / session.save_awaited()? / 2.0)?),
        false => None,
    };
    // The limits are measured last, because the setting is not restored.
    let limits = if contestant.is_nagi() { LIMITS.repeat(plan.limit_rounds) } else { Vec::new() };
    let limited = if limits.is_empty() { Vec::new() } else { session.limited(&limits)? };
    if !session.file().exists() {
        session.save_idle()?;
    }
    let keys = plan.keys();
    read_through(&session.file())?;
    drop(session.server);
    let load_seconds = load(contestant, &folder, keys)?;
    println!("bench:   loaded in {load_seconds:.1} s");
    Ok(Row {
        server: contestant.name.to_owned(),
        gigabytes: plan.gigabytes,
        keys,
        rate: plan.rate,
        resident_bytes,
        pairs: pairs.len(),
        windows: Pair::together(&pairs),
        idle_seconds,
        file_bytes,
        busy,
        overwriting,
        load_seconds,
        counters,
        limited,
        memory: outline(&memory),
    })
}

/// Reads a file into the page cache, because some servers drop it from there.
fn read_through(path: &Path) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    io::copy(&mut file, &mut io::sink())?;
    Ok(())
}

/// Starts the server with its dump file. Returns the seconds until all keys are loaded.
fn load(contestant: &Contestant, folder: &Folder, keys: u64) -> Result<f64> {
    let started = Instant::now();
    let server = contestant.start_in(folder)?;
    let mut client = server.connect_resp();
    loop {
        if client.run("DBSIZE") == Reply::Integer(i64::try_from(keys)?)
            && field(&client.run("INFO persistence").text(), "loading") == Some(0.0)
        {
            return Ok(started.elapsed().as_secs_f64());
        }
        ensure!(started.elapsed() < PATIENCE, "{}: it does not load", contestant.name);
        thread::sleep(Duration::from_millis(10));
    }
}

impl Plan<'_> {
    fn keys(&self) -> u64 {
        (self.gigabytes * 1e9 / VALUE_BYTES as f64) as u64
    }
}

impl Session<'_> {
    /// Runs the load tool against this server. Returns its JSON report.
    fn load(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(self.plan.load);
        command
            .args(["bench", "--quiet", "--json", "-", "--ignore-errors"])
            .args(["--port", &self.server.resp().port().to_string()])
            .args(["--keys", &self.plan.keys().to_string()])
            .args(["--key-bytes", &KEY_BYTES.to_string()])
            .args(["--value-bytes", &VALUE_BYTES.to_string()])
            .args(arguments);
        let report = process::output(&mut command)?;
        serde_json::from_str(&report).context("nagi bench prints JSON")
    }

    /// Runs the load tool with a save in the middle. First removes the last dump file to make room.
    fn load_and_save(&self, arguments: &[&str], margin_s: f64) -> Result<Value> {
        self.remove_file();
        let margin = margin_s.to_string();
        let connections = CONNECTIONS.to_string();
        let common = ["--bgsave-after-seconds", &margin, "--connections", &connections];
        let report = self.load(&[&common[..], arguments].concat())?;
        if report.pointer("/save/seconds").is_none() {
            bail!("{} did not save: {report}", self.name);
        }
        Ok(report)
    }

    fn command(&self, command: &str) -> Reply {
        self.server.connect_resp().run(command)
    }

    fn info(&self) -> String {
        self.command("INFO everything").text()
    }

    fn remove_file(&self) {
        // The file does not exist before the first save.
        let _ = fs::remove_file(self.file());
    }

    fn file(&self) -> PathBuf {
        self.folder.ours.join("dump.rdb")
    }

    fn file_bytes(&self) -> Result<f64> {
        let file = fs::metadata(self.file());
        Ok(file.with_context(|| format!("{} saved nothing", self.name))?.len() as f64)
    }

    fn fill(&self) -> Result<()> {
        let started = Instant::now();
        let report = self.load(&["--fill", "--requests", "1", "--connections", "8"])?;
        ensure!(figure(&report, "/errors") == 0.0, "filling failed: {report}");
        let keys = self.command("DBSIZE").integer();
        ensure!(u64::try_from(keys)? == self.plan.keys(), "{}: only {keys} keys", self.name);
        println!(
            "bench: {} with {} GB, filled in {:.1} s",
            self.name,
            self.plan.gigabytes,
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Saves while there are no requests. Returns the duration in seconds.
    fn save_idle(&self) -> Result<f64> {
        self.remove_file();
        let mut client = self.server.connect_resp();
        let started = Instant::now();
        client.run("BGSAVE");
        loop {
            let info = client.run("INFO persistence").text();
            if field(&info, "rdb_bgsave_in_progress") == Some(0.0) {
                break;
            }
            ensure!(started.elapsed() < PATIENCE, "{}: a save does not end", self.name);
            thread::sleep(Duration::from_millis(10));
        }
        let seconds = started.elapsed().as_secs_f64();
        self.file_bytes()?;
        println!("bench:   saved without load in {seconds:.1} s");
        Ok(seconds)
    }

    /// Saves while a client waits for the save (SAVE), which makes the saver run at full speed.
    /// Returns the duration in seconds.
    fn save_awaited(&self) -> Result<f64> {
        self.remove_file();
        let started = Instant::now();
        ensure!(self.command("SAVE") == Reply::Simple("OK".to_owned()), "{}: SAVE", self.name);
        let seconds = started.elapsed().as_secs_f64();
        println!("bench:   SAVE took {seconds:.1} s");
        Ok(seconds)
    }

    /// Measures a window with a save, and a window without. The latter is as long as the save,
    /// within bounds.
    fn pair(&self, number: u32) -> Result<(Pair, Vec<(f64, f64)>)> {
        let (rate, connections) = (self.plan.rate.to_string(), CONNECTIONS.to_string());
        let sampler = Sampler::start();
        let saving = || self.load_and_save(&["--rate", &rate], MARGIN_S);
        let (idle, report) = probe_beside(self.idle.resp(), saving)?;
        let memory = sampler.finish(MARGIN_S);
        let seconds = figure(&report, "/save/seconds");
        let (least_s, most_s) = self.plan.quiet_s;
        let quiet_s = seconds.clamp(least_s, most_s).to_string();
        let open = ["--connections", &connections, "--rate", &rate, "--seconds", &quiet_s];
        // This window has a probe as well, because the probe adds load to the window with the save.
        let (_, quiet) = probe_beside(self.idle.resp(), || self.load(&open))?;
        let pair = Pair {
            fork_us: figure(&report, "/save/fork_us"),
            seconds,
            saving: latency(&report, "/windows/1/latency_us"),
            quiet: latency(&quiet, "/latency_us"),
            idle_max_us: Some(idle.max_us),
            extra_bytes: peak(&memory),
            errors: figure(&report, "/errors"),
        };
        let of = self.plan.pairs;
        println!(
            "bench:   pair {number} of {of}: saved in {seconds:.1} s, p99 {:.1} and slowest {:.1} \
             ms; without {:.1} and {:.1} ms; an idle server's {:.1} ms",
            pair.saving.p99 / 1e3,
            pair.saving.max / 1e3,
            pair.quiet.p99 / 1e3,
            pair.quiet.max / 1e3,
            idle.max_us / 1e3
        );
        ensure!(is_saved(&report), "{}: the save failed: {}", self.name, self.server.log());
        Ok((pair, memory))
    }

    /// Measures a closed-loop load before, during and after a save.
    fn busy(&self) -> Result<Busy> {
        let report = self.load_and_save(&[], BUSY_MARGIN_S)?;
        let sum = |name: &str| -> f64 {
            [0, 2].iter().map(|window| figure(&report, &format!("/windows/{window}/{name}"))).sum()
        };
        let busy = Busy {
            seconds: figure(&report, "/save/seconds"),
            requests_per_second: figure(&report, "/windows/1/requests_per_second"),
            quiet_requests_per_second: sum("requests") / sum("seconds"),
            is_saved: is_saved(&report),
        };
        println!(
            "bench:   {:.0} requests/s while saving for {:.1} s, {:.0} without",
            busy.requests_per_second, busy.seconds, busy.quiet_requests_per_second
        );
        Ok(busy)
    }

    /// Measures a save while keys are overwritten one after another, at a rate in bytes per second.
    fn overwrite(&self, asked_bytes_per_second: f64) -> Result<Overwriting> {
        let rate = (asked_bytes_per_second / VALUE_BYTES as f64).to_string();
        let arguments = ["--rate", &rate, "--ratio", "0:1", "--key-distribution", "sequential"];
        let deep = ["--pipeline", "16", "--reply-timeout-seconds", "1"];
        let sampler = Sampler::start();
        let report = self.load_and_save(&[&arguments[..], &deep].concat(), MARGIN_S)?;
        let extra_bytes = peak(&sampler.finish(MARGIN_S));
        let overwriting = Overwriting {
            asked_bytes_per_second,
            bytes_per_second: figure(&report, "/windows/1/requests_per_second")
                * VALUE_BYTES as f64,
            seconds: figure(&report, "/save/seconds"),
            extra_bytes,
            max_us: figure(&report, "/windows/1/latency_us/max"),
            is_saved: is_saved(&report),
        };
        println!(
            "bench:   {:.0} MB/s written over while saving for {:.1} s took {:.0} MB more",
            overwriting.bytes_per_second / 1e6,
            overwriting.seconds,
            extra_bytes / 1e6
        );
        Ok(overwriting)
    }

    /// Measures a save at each of these limits on its processor time, if the server has the
    /// setting.
    fn limited(&self, limits: &[&str]) -> Result<Vec<Limited>> {
        let mut saves: Vec<Limited> = Vec::new();
        let rate = self.plan.rate.to_string();
        for &setting in limits {
            let answer = self.command(&format!("CONFIG SET save-cpu-limit {setting}"));
            if answer != Reply::Simple("OK".to_owned()) {
                println!("bench:   it has no save-cpu-limit");
                return Ok(Vec::new());
            }
            let report = self.load_and_save(&["--rate", &rate], MARGIN_S)?;
            let seconds = figure(&report, "/save/seconds");
            let saving = latency(&report, "/windows/1/latency_us");
            println!("bench:   save-cpu-limit {setting}: {seconds:.1} s, p99 {:.0} us", saving.p99);
            saves.push(Limited { setting: setting.to_owned(), seconds, saving });
        }
        Ok(LIMITS.map(|setting| Limited::median(setting, &saves)).to_vec())
    }

    fn counters(&self) -> Counters {
        let info = self.info();
        let count = |name: &str| field(&info, name);
        Counters {
            longest_slice_us: count("longest_slice_usec").unwrap_or(f64::NAN),
            longest_latch_hold_us: count("longest_latch_hold_usec").unwrap_or(f64::NAN),
            pre_image_peak_bytes: count("snapshot_preimage_peak_bytes").unwrap_or(f64::NAN),
            longest_delay_us: count("snapshot_longest_writer_delay_usec"),
            delayed_writes: count("snapshot_writers_delayed"),
        }
    }
}

fn is_saved(report: &Value) -> bool {
    report.pointer("/save/status").and_then(Value::as_str) == Some("ok")
}

/// Returns a number from INFO.
fn field(info: &str, name: &str) -> Option<f64> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

/// Returns a number from a report; NaN if it is missing.
fn figure(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn latency(report: &Value, pointer: &str) -> Latency {
    let at = |name: &str| figure(report, &format!("{pointer}/{name}"));
    Latency { p50: at("p50"), p99: at("p99"), p99_9: at("p99_9"), max: at("max") }
}
