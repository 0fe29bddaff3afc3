//! `nagi bench` shows a server that stops for a second for what it was, and scripts its verdicts.

use harness::{Server, nagi_binary, until};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Requests per second, and for how long.
const RATE: f64 = 5000.0;
const SECONDS: f64 = 8.0;

/// Runs for 8 s while the server stands still for a second; what bench found, and for how long the
/// server stood still at least, in seconds.
fn stopped_for_a_second(arguments: &[&str]) -> (serde_json::Value, f64) {
    let server = Server::memcached();
    let port = server.memcached_address().port().to_string();
    let mut bench = Command::new(nagi_binary())
        .args(["bench", "--protocol", "memcached", "--port", &port, "--seconds", "8"])
        .args(["--keys", "1000", "--fill", "--timeline", "--json", "-"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nagi starts");
    // A line a second is the clock: it goes on while the server stands still.
    let progress = BufReader::new(bench.stderr.take().expect("piped")).lines();
    let (mut seconds, mut stopped, mut stood_still) = (0, None, 0.0);
    for line in progress.map_while(Result::ok) {
        let is_second = line.split_whitespace().next().is_some_and(|word| word.contains('.'));
        seconds += u32::from(is_second);
        match seconds {
            2 if is_second => {
                server.signal(Signal::STOP);
                let pid = server.process_id();
                until("every thread is stopped", || is_stopped(pid).then_some(()))
                    .unwrap_or_else(|problem| panic!("{problem}"));
                stopped = Some(Instant::now());
            }
            3 if is_second => {
                let stopped: Instant = stopped.expect("it was stopped a line before");
                // Lines may come late, one close behind the other.
                until("a second has passed", || {
                    (stopped.elapsed() >= Duration::from_secs(1)).then_some(())
                })
                .unwrap_or_else(|problem| panic!("{problem}"));
                stood_still = stopped.elapsed().as_secs_f64();
                server.signal(Signal::CONT);
            }
            _ => {}
        }
    }
    let mut json = String::new();
    bench.stdout.take().expect("piped").read_to_string(&mut json).expect("a report");
    assert!(bench.wait().expect("it ends").success(), "{json}");
    assert!(seconds >= 7, "{seconds} lines");
    (serde_json::from_str(&json).expect("JSON"), stood_still)
}

/// Whether no thread of the process runs.
fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it is there");
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

/// A request that is due while the server stands still waits for the end of that, so that of the
/// requests due within `s` seconds of standing still, those of the first `s - t` wait for `t` or
/// longer. A share `1 - q` of all requests is above the percentile `q`, which is thus at least
/// `s - (1 - q) * 8 s`: whatever else the machine does makes it longer, never shorter. Timed from
/// when they were sent, only one request of each connection would have waited.
#[test]
fn a_paced_load_shows_a_stall_in_every_request_that_it_held_up() {
    let (report, stood_still) = stopped_for_a_second(&["--rate", "5000"]);
    let requests = report["requests"].as_f64().expect("a number");
    // One that is due at the end of the last second may count.
    let due = RATE * SECONDS..=RATE * SECONDS + 1.0;
    assert!(due.contains(&requests), "late, and never fewer: {report}");
    for (name, quantile) in [("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)] {
        let seconds = report["latency_us"][name].as_f64().expect("a number") / 1e6;
        // Two requests that are due at the edges may have got away.
        let least = stood_still - (1.0 - quantile) * SECONDS - 2.0 / RATE;
        assert!(seconds >= least, "{name}: {seconds} < {least}: {report}");
    }
    // Seven of eight requests were not due then.
    assert!(stood_still >= 1.0, "{stood_still}");
}

#[test]
fn a_closed_loop_hides_a_stall_and_says_that_it_is_one() {
    let (report, stood_still) = stopped_for_a_second(&[]);
    let us = |name: &str| report["latency_us"][name].as_f64().expect("a number");
    assert!(us("max") >= stood_still * 1e6, "{report}");
    assert!(us("p99") < 500_000.0, "{report}");
    assert!(report["rate"].is_null() && report["loop"] == "closed", "{report}");
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(nagi_binary());
    command.arg("bench").args(arguments).output().expect("nagi starts")
}

#[test]
fn results_are_saved_compared_and_judged_for_scripts() {
    let server = Server::nagi();
    let port = server.resp().port().to_string();
    let folder = std::env::temp_dir().join(format!("nagi-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    let (json, log, table, page) = (file("a.json"), file("a.hlog"), file("a.hgrm"), file("a.html"));
    let run = bench(&[
        "--port",
        &port,
        "--rate",
        "1000",
        "--seconds",
        "6",
        "--fill",
        "--keys",
        "100",
        "--verify",
        "--quiet",
        "--json",
        &json,
        "--hdr-log",
        &log,
        "--percentiles",
        &table,
        "--html",
        &page,
    ]);
    assert!(run.status.success(), "{run:?}");
    let read = |path: &str| fs::read_to_string(path).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!(report["verified"]["damaged"], 0, "{report}");
    assert!(report["verified"]["replies"].as_u64() >= Some(6100), "{report}");
    let intervals = read(&log).lines().filter(|line| line.contains(",HISTFAAAA")).count();
    assert!(intervals >= 6, "{}", read(&log));
    assert!(read(&table).contains("Total count    =         6000]"), "{}", read(&table));
    assert!(read(&page).contains("</svg>") && read(&page).ends_with("</html>\n"));

    let compared = bench(&["compare", &json, &json, "--fail-above", "1"]);
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success() && text.contains("no change beyond noise"), "{compared:?}");

    let missed =
        bench(&["--port", &port, "--rate", "1000", "--seconds", "0.3", "--slo", "max<1us"]);
    assert_eq!(missed.status.code(), Some(3), "{missed:?}");
    let swept =
        bench(&["--port", &port, "--seconds", "0.2", "--sweep", "pipeline=1,4", "--html", &page]);
    assert!(swept.status.success(), "{swept:?}");
    assert!(String::from_utf8_lossy(&swept.stdout).contains("a sweep of pipeline"), "{swept:?}");
    let full = bench(&["--port", &port, "--seconds", "0.1", "--json", "/dev/full"]);
    let error = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.code() == Some(1) && error.contains("/dev/full"), "{full:?}");
    fs::remove_dir_all(&folder).expect("the folder is there");
}
