//! `nagi bench` must show correctly that a server stops for a second, and its verdicts must be
//! usable in scripts.

use harness::{Server, nagi_binary, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// Requests per second, and the duration in seconds.
const RATE: f64 = 5000.0;
const SECONDS: f64 = 8.0;

/// Starts a bench that prints a line each second, and its report because of `--json -`.
fn start_bench(arguments: &[&str]) -> Child {
    Command::new(nagi_binary())
        .args(["bench", "--timeline", "--json", "-"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nagi starts")
}

/// Calls `at` with the number of each second of a run when its line is printed: a clock that
/// continues while a server is stopped. Returns the report and the exit status.
fn followed(mut bench: Child, mut at: impl FnMut(u32)) -> (serde_json::Value, Option<i32>) {
    let progress = BufReader::new(bench.stderr.take().expect("piped")).lines();
    let mut seconds = 0;
    for line in progress.map_while(Result::ok) {
        if line.split_whitespace().next().is_some_and(|word| word.contains('.')) {
            seconds += 1;
            at(seconds);
        }
    }
    let mut json = String::new();
    bench.stdout.take().expect("piped").read_to_string(&mut json).expect("a report");
    let status = bench.wait().expect("it ends");
    (serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json}")), status.code())
}

/// Waits until `seconds` have passed since `start`, because lines may be late or arrive together.
fn pass(start: Instant, seconds: f64) {
    until("time to pass", || (start.elapsed().as_secs_f64() >= seconds).then_some(()))
        .unwrap_or_else(|problem| panic!("{problem}"));
}

/// Stops a process. Returns the time at which none of its threads was running any more.
pub(crate) fn stop(process: u32) -> Instant {
    signal(process, Signal::STOP);
    until("every thread is stopped", || is_stopped(process).then_some(()))
        .unwrap_or_else(|problem| panic!("{problem}"));
    Instant::now()
}

fn signal(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Runs for 8 s, during which the server is stopped for a second. Returns the report of `nagi
/// bench`, and the minimum time in seconds for which the server was stopped.
fn stopped_for_a_second(
    server: &Server,
    port: u16,
    arguments: &[&str],
) -> (serde_json::Value, f64) {
    let port = port.to_string();
    let arguments =
        [&["--port", &port, "--seconds", "8", "--keys", "1000", "--fill"], arguments].concat();
    let (mut stopped, mut stood_still, mut seconds) = (None, 0.0, 0);
    let (report, status) = followed(start_bench(&arguments), |second| {
        seconds = second;
        match (second, stopped) {
            (2, _) => stopped = Some(stop(server.process_id())),
            (3, Some(since)) => {
                pass(since, 1.0);
                stood_still = since.elapsed().as_secs_f64();
                server.signal(Signal::CONT);
            }
            _ => {}
        }
    });
    assert_eq!(status, Some(0), "{report}");
    assert!(seconds >= 7, "{seconds} lines");
    (report, stood_still)
}

/// Whether no thread of the process is running.
fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it is there");
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

/// A request that comes due while the server is stopped waits until the stop ends. Of the requests
/// due within a stop of `s` seconds, those of the first `s - t` seconds wait for at least `t`. A
/// share `1 - q` of all requests lies above percentile `q`, which is therefore at least `s - (1 -
/// q) * 8 s`; any other load of the machine makes it longer, never shorter. If requests were timed
/// from when they were sent, only one request of each connection would show the wait.
#[test]
fn a_paced_load_shows_a_stall_in_every_request_that_it_delayed() {
    let memcached = Server::every_memcached(&[]).into_iter().chain([Server::nagi()]);
    let redis = Server::every_redis().into_iter().chain([Server::nagi()]);
    let memcached =
        memcached.map(|server| (server.memcached_address().port(), "memcached", server));
    let all = memcached.chain(redis.map(|server| (server.resp().port(), "resp", server)));
    // The servers are tested at the same time: each is stopped for one second of eight.
    std::thread::scope(|scope| {
        for (port, protocol, server) in all {
            scope.spawn(move || {
                let arguments = ["--rate", "5000", "--protocol", protocol];
                let (report, stood_still) = stopped_for_a_second(&server, port, &arguments);
                check_stall(&report, stood_still);
            });
        }
    });
}

fn check_stall(report: &serde_json::Value, stood_still: f64) {
    let requests = report["requests"].as_f64().expect("a number");
    // A request that is due at the end of the last second may count.
    let due = RATE * SECONDS..=RATE * SECONDS + 1.0;
    assert!(due.contains(&requests), "late, and never fewer: {report}");
    for (name, quantile) in [("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)] {
        let seconds = report["latency_us"][name].as_f64().expect("a number") / 1e6;
        // Two requests that are due at the edges of the stop may have been answered early.
        let least = stood_still - (1.0 - quantile) * SECONDS - 2.0 / RATE;
        assert!(seconds >= least, "{name}: {seconds} < {least}: {report}");
    }
    // Seven of eight requests did not come due during the stop.
    assert!(stood_still >= 1.0, "{stood_still}");
}

#[test]
fn a_closed_loop_hides_a_stall_and_says_that_it_is_one() {
    let server = Server::memcached();
    let port = server.memcached_address().port();
    let arguments = ["--protocol", "memcached"];
    let (report, stood_still) = stopped_for_a_second(&server, port, &arguments);
    let us = |name: &str| report["latency_us"][name].as_f64().expect("a number");
    assert!(us("max") >= stood_still * 1e6, "{report}");
    assert!(us("p99") < 500_000.0, "{report}");
    assert!(report["rate"].is_null() && report["loop"] == "closed", "{report}");
}

/// A load generator that is stopped is late with every request that comes due meanwhile, including
/// those that wait for another request on their connection. It must report this instead of a fault
/// of the server.
#[test]
fn a_stop_of_the_load_generator_is_not_attributed_to_the_server() {
    let server = Server::nagi();
    let port = server.resp().port().to_string();
    let bench =
        start_bench(&["--port", &port, "--rate", "3000", "--seconds", "5", "--slo", "p99<100ms"]);
    let process = bench.id();
    let (report, status) = followed(bench, |second| {
        if second == 2 {
            pass(stop(process), 1.0);
            signal(process, Signal::CONT);
        }
    });
    let us = |of: &str, name: &str| report[of][name].as_f64().expect("a number");
    assert!(us("latency_us", "p99") > 800_000.0, "{report}");
    assert!(us("send_delay_us", "p99") > us("latency_us", "p99") / 2.0, "{report}");
    assert_eq!(report["objective"]["trials"][0]["verdict"], "load_was_late", "{report}");
    assert_eq!(status, Some(1), "nothing is said of the server, which status 3 would");
}

/// An interrupted run says nothing about the server, so it must not end with status 3.
#[test]
fn an_interrupted_run_gives_no_verdict() {
    let server = Server::nagi();
    let port = server.resp().port().to_string();
    let bench = start_bench(&["--port", &port, "--slo", "p99<5s", "--seconds", "2"]);
    let process = bench.id();
    let at = |second| {
        if second == 1 {
            signal(process, Signal::INT)
        }
    };
    let (report, status) = followed(bench, at);
    assert!(report["objective"]["rate"].is_null(), "{report}");
    assert_eq!(status, Some(1));
    let keys = "100000000";
    let bench = start_bench(&["--port", &port, "--fill", "--keys", keys, "--seconds", "1"]);
    let mut client = server.connect_resp();
    let has_begun = || (client.run("DBSIZE").integer() > 1000).then_some(());
    until("the fill to begin", has_begun).unwrap_or_else(|problem| panic!("{problem}"));
    signal(bench.id(), Signal::INT);
    let output = bench.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.ends_with("interrupted before all keys were filled\n"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

/// Starts a server that answers every request, on a port that another server has used before.
fn responder_on(port: &str) -> Child {
    let mut command = Command::new(nagi_binary());
    command.args(["bench-responder", "--port", port]).spawn().expect("nagi starts")
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_asked_again() {
    for pace in [&["--rate", "1000"][..], &[]] {
        let mut command = Command::new(nagi_binary());
        command.arg("bench-responder");
        let mut server = Server::start_responder(command).expect("it starts");
        let port = server.resp().port().to_string();
        let mut second_life = None;
        let arguments = [&["--port", &port, "--seconds", "5", "--ratio", "0:1"], pace].concat();
        let (report, status) = followed(start_bench(&arguments), |second| {
            if second == 1 {
                server.signal(Signal::KILL);
                server.wait_for_exit();
                pass(Instant::now(), 0.5);
                second_life = Some(responder_on(&port));
            }
        });
        let mut second_life = second_life.expect("a second has passed");
        second_life.kill().and_then(|()| second_life.wait()).expect("it was there");
        assert_eq!(status, Some(1), "{report}");
        let number = |name: &str| report[name].as_u64().expect("a number");
        assert!(number("reconnects") >= 50, "{report}");
        assert!(report["seconds"].as_f64() >= Some(5.0), "{report}");
        let last = report["timeline"][4]["requests"].as_u64().expect("a second");
        if pace.is_empty() {
            assert!(last > 1000, "{report}");
        } else {
            // Each request that came due is either answered or an error. The loss of a connection
            // is a separate error if it had no open request.
            let due = number("requests") + number("errors");
            assert!((5000..=5051).contains(&due) && number("errors") >= 300, "{report}");
            assert!(last >= 990, "{report}");
        }
    }
}

#[test]
fn a_dead_server_of_a_ring_does_not_end_the_load_on_the_other() {
    for pace in [&["--rate", "1000"][..], &[], &["--multi-get", "3"]] {
        let servers = [Server::nagi(), Server::nagi()];
        let urls = servers.each_ref().map(|server| format!("redis://{}", server.resp()));
        let [one, other] = &urls;
        let arguments = [&[one.as_str(), other, "--seconds", "4"], pace].concat();
        let (report, status) = followed(start_bench(&arguments), |second| {
            if second == 1 {
                servers[0].signal(Signal::KILL);
            }
        });
        assert_eq!(status, Some(1), "{report}");
        let second = &report["timeline"][3];
        for name in ["requests", "errors"] {
            assert!(second[name].as_u64() > Some(300), "{name}: {report}");
        }
    }
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

    assert!(read(&table).contains("#[nagi bench") && read(&table).contains("open loop"));

    let compared = bench(&["compare", &json, &json]);
    let error = String::from_utf8_lossy(&compared.stderr);
    assert!(compared.status.code() == Some(1) && error.contains("given twice"), "{compared:?}");
    let sweep = file("sweep.json");
    bench(&["--port", &port, "--sweep", "pipeline=1,2", "-n", "100", "--json", &sweep]);
    let compared = bench(&["compare", &json, &sweep]);
    let error = String::from_utf8_lossy(&compared.stderr);
    assert!(error.contains("the results of a --sweep; only single runs"), "{compared:?}");
    let other = file("b.json");
    let again = bench(&["--port", &port, "--rate", "1000", "--seconds", "0.2", "--json", &other]);
    assert!(again.status.success(), "{again:?}");
    let compared = bench(&["compare", &json, &other, "--fail-above", "1"]);
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.code() == Some(1) && text.contains("too few runs"), "{compared:?}");
    assert!(text.contains("open loop"), "{text}");

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

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    // A run would fail because no server listens at port 1.
    for (program, option) in [
        ("bench --port 1", "--json"),
        ("bench --port 1", "--html"),
        ("bench --port 1", "--hdr-log"),
        ("bench --port 1", "--percentiles"),
        ("calm --quick 127.0.0.1:1", "--json"),
        ("calm --quick 127.0.0.1:1", "--html"),
        ("storm -s 127.0.0.1:1", "--json"),
    ] {
        let words = program.split(' ').chain([option, "/nonexistent/file"]);
        let run = Command::new(nagi_binary()).args(words).output().expect("nagi starts");
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{program}: {error}");
        assert!(error.starts_with("nagi: /nonexistent/file: No such file"), "{error}");
    }
    for option in ["--html", "--hdr-log", "--percentiles"] {
        let run = bench(&["--port", "1", option, "-"]);
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && error.contains("only --json"), "{error}");
    }
}

#[test]
fn unread_output_is_no_failure() {
    let server = Server::nagi();
    let (resp, memcached) = (server.resp().port(), server.memcached_address());
    for arguments in [
        "calm --list".to_owned(),
        format!("bench --port {resp} -n 10 -c 1"),
        format!("storm -n 10 -s {memcached}"),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut run = Command::new(nagi_binary());
        let run = run.args(arguments.split(' ')).stdout(writer).output().expect("nagi starts");
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && error.is_empty(), "{arguments}: {error}");
    }
}

#[test]
fn a_save_that_the_run_does_not_reach_is_not_made() {
    let server = Server::nagi();
    let port = server.resp().port().to_string();
    let late = bench(&["--port", &port, "--seconds", "1", "--bgsave-after-seconds", "1"]);
    let error = String::from_utf8_lossy(&late.stderr);
    assert!(late.status.code() == Some(1) && error.contains("before the save"), "{error}");
    let run = ["--port", &port, "-n", "10", "-c", "1", "--bgsave-after-seconds", "3600"];
    let text = String::from_utf8_lossy(&bench(&run).stdout).into_owned();
    assert!(text.contains("BGSAVE: the run ended before the save"), "{text}");
    let commands = server.connect_resp().run("INFO commandstats").text();
    assert!(!commands.contains("cmdstat_bgsave"), "{commands}");
}

#[test]
fn the_wait_for_a_server_that_stalls_is_a_part_of_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer_five));
    let run = ["--port", &port, "-c", "1", "-n", "99", "--ratio", "0:1", "--json", "-"];
    let run = bench(&[&run[..], &["--reply-timeout-seconds", "0.5"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((&report["requests"], &report["errors"]), (&5.into(), &1.into()), "{report}");
    assert!(report["seconds"].as_f64() >= Some(0.5), "{report}");
}

/// Answers five writes of a connection, and no more. Its first requests are about the server.
fn answer_five(mut socket: TcpStream) {
    let (mut buffer, mut answered) = ([0; 4096], 0);
    while let Ok(received @ 1..) = socket.read(&mut buffer) {
        let is_write = buffer[..received].windows(3).any(|word| word == b"SET");
        answered += u32::from(is_write);
        let reply: &[u8] = if is_write { b"+OK\r\n" } else { b"-ERR unknown\r\n" };
        if answered <= 5 && socket.write_all(reply).is_err() {
            return;
        }
    }
}
