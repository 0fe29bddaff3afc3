//! `nagi bench` against scripted servers.
#![expect(clippy::unwrap_used, reason = "a test stops where it finds something wrong")]

mod objective;
mod scripted;
mod verify;

use parking_lot::Mutex;
use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use nagi_client::ring::slot_of;
use nagi_load::bench::{self, BenchOptions, Error, Report};
use nagi_load::interrupt::Interrupt;
use nagi_load::responder::Responder;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: BenchOptions,
}

fn options(arguments: &str) -> BenchOptions {
    let words = arguments.split_whitespace();
    Arguments::try_parse_from(["bench", "--quiet"].into_iter().chain(words)).unwrap().options
}

fn measure(address: SocketAddr, arguments: &str) -> Report {
    bench::measure(
        &options(&format!("--port {} {arguments}", address.port())),
        &Interrupt::default(),
    )
    .unwrap()
}

/// The number of requests that identify a server before a run.
const QUESTIONS: u64 = 1;

#[test]
fn every_request_is_sent_and_answered_once() {
    for (arguments, reads) in [
        ("--requests 1000 --connections 1", None),
        ("--requests 10007 --connections 7 --threads 3 --ratio 1:0", Some(10_007)),
        ("--requests 10007 --pipeline 16 --threads 2 --ratio 0:1", Some(0)),
        ("--requests 5000 --connections 2 --pipeline 3000 --value-bytes 2000", None),
        ("--requests 10007 --protocol memcached --pipeline 16 --ratio 1:0", Some(10_007)),
        ("--requests 5000 --protocol memcached --key-distribution zipf:1.1", None),
        ("--requests 3000 --rate 20000 --threads 2 --pipeline 4", None),
    ] {
        let responder = Responder::start(0, 2).unwrap();
        let report = measure(responder.address(), arguments);
        let asked: u64 = arguments.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(report.requests, asked, "{arguments}");
        assert_eq!(responder.requests(), asked + QUESTIONS, "{arguments}");
        assert_eq!((report.errors, report.hits), (0, 0), "{arguments}");
        assert!(reads.is_none_or(|reads| report.misses == reads), "{arguments}: {report}");
        let listed: u64 = report.timeline.iter().map(|second| second.requests).sum();
        assert_eq!(listed, asked, "{arguments}");
    }
}

#[test]
fn a_run_takes_the_time_that_was_asked_for() {
    let responder = Responder::start(0, 1).unwrap();
    for arguments in [
        "--seconds 0.5",
        "--seconds 0.5 --warmup-seconds 0.3 --rate 1000",
        "--seconds 0.5 --rate 3",
        "--seconds 0.5 --requests 1000000000",
    ] {
        let report = measure(responder.address(), arguments);
        assert!((0.5..1.0).contains(&report.seconds), "{arguments}: {}", report.seconds);
    }
}

#[test]
fn a_run_that_the_user_ends_still_reports() {
    let responder = Responder::start(0, 1).unwrap();
    let judged = "--rate 1000 --seconds 1000 --slo p99<100s";
    for arguments in ["--requests 1000000000", "--rate 1000 --seconds 1000", judged] {
        let interrupt = Interrupt::default();
        let port = responder.address().port();
        let options = options(&format!("--port {port} {arguments}"));
        let (run, user) = (interrupt.clone(), interrupt);
        let report = std::thread::scope(|scope| {
            let before = responder.requests();
            let run = scope.spawn(move || bench::measure(&options, &run).unwrap());
            while responder.requests() <= before + QUESTIONS {
                std::thread::yield_now();
            }
            user.set();
            run.join().unwrap()
        });
        assert!(report.interrupted && report.seconds < 100.0, "{report}");
        assert!(report.to_string().contains("Interrupted"), "{report}");
        assert_eq!(report.errors, 0, "{report}");
        if let Some(objective) = report.objective {
            assert!(!objective.is_met() && !objective.is_judged(), "{objective}");
            assert_eq!(objective.to_string(), "p99<100s cannot be judged at 1,000/s: interrupted");
        }
    }
}

#[test]
fn warming_up_is_not_measured() {
    let responder = Responder::start(0, 1).unwrap();
    let report = measure(responder.address(), "--warmup-seconds 0.2 --requests 500");
    assert_eq!(report.requests, 500);
    assert!(responder.requests() > 500, "nothing was sent before");
    let paced = measure(responder.address(), "--warmup-seconds 0.2 --seconds 0.4 --rate 1000");
    assert_eq!(paced.requests, 400);
}

/// Starts a server of a ring that needs `time` to send any value.
fn server_of_values(time: Duration) -> SocketAddr {
    scripted::serve(move |words| {
        let count = words.len() - 1;
        match words.first().map(Vec::as_slice) {
            Some(b"MGET") => {
                scripted::stall(time);
                [format!("*{count}\r\n"), "$1\r\nx\r\n".repeat(count)].concat().into_bytes()
            }
            Some(b"GET") => {
                scripted::stall(time);
                b"$1\r\nx\r\n".to_vec()
            }
            _ => b"+OK\r\n".to_vec(),
        }
    })
}

#[test]
fn a_multi_get_of_a_ring_lasts_until_its_last_part_is_answered() {
    let times = [Duration::from_millis(1), Duration::from_millis(50)];
    let [fast, slow] = times.map(server_of_values);
    let arguments = "--multi-get 40 --ratio 1:0 --requests 20 --connections 2 --keys 1000";
    let options = options(&format!("redis://{fast} redis://{slow} {arguments}"));
    let report = bench::measure(&options, &Interrupt::default()).unwrap();
    assert_eq!((report.requests, report.errors, report.hits), (20, 0, 800), "{report}");
    // The chance that none of 40 keys is on the slow server is negligible.
    assert!(report.latency_us.p50 >= 50_000.0, "{report}");
}

/// Starts a server that answers at once, except that after `after` requests it answers no client
/// for [`STALL`].
fn stalling_server(after: u32) -> SocketAddr {
    let seen = Mutex::new(0);
    scripted::serve(move |_| {
        let mut seen = seen.lock();
        *seen += 1;
        if *seen == after {
            scripted::stall(STALL);
        }
        b"+OK\r\n".to_vec()
    })
}

const STALL: Duration = Duration::from_millis(600);

#[test]
fn a_paced_run_shows_a_stall_in_all_requests_that_it_delayed() {
    let report = measure(stalling_server(500), "--rate 2000 --seconds 1.5 --connections 8");
    assert_eq!(report.requests, 3000, "a stall makes requests late, never fewer");
    // All requests but the first 500, due by 0.25 s, are answered when the stall ends, at 0.85 s at
    // the earliest. A request due at time t after the start of the stall takes at least 0.6 s - t.
    // A share of 1 - q of the 1.5 s lies above percentile q, which is therefore at least 0.6 s - (1
    // - q) * 1.5 s. A busy machine makes it longer, never shorter. A margin of 10 ms covers the
    // requests at the edge.
    let latency = &report.latency_us;
    for (us, quantile) in
        [(latency.p90, 0.9), (latency.p99, 0.99), (latency.p99_9, 0.999), (latency.max, 1.0)]
    {
        let least_s = STALL.as_secs_f64() - (1.0 - quantile) * 1.5 - 0.01;
        assert!(us >= least_s * 1e6, "{quantile}: {report}");
    }
}

/// Coordinated omission: a closed loop sends nothing while the server stalls, so the stall delays
/// only one request of each connection. This verifies the statement in --help.
#[test]
fn a_closed_loop_hides_a_stall_from_its_percentiles() {
    let report = measure(stalling_server(500), "--requests 20000 --connections 8");
    let stall_us = STALL.as_secs_f64() * 1e6;
    assert!(report.latency_us.max >= stall_us * 0.99, "{report}");
    assert!(report.latency_us.p99 < stall_us / 6.0, "{report}");
}

/// Starts a server that answers no client for [`STALL`] after a request to save, as during a fork,
/// and reports the save as running until the third query.
fn forking_server() -> SocketAddr {
    let (fork, asked) = (Mutex::new(()), Mutex::new(0));
    scripted::serve(move |arguments| {
        let name = arguments.first().map(Vec::as_slice).unwrap_or_default();
        let held = fork.lock();
        match name {
            b"BGSAVE" => {
                scripted::stall(STALL);
                b"+Background saving started\r\n".to_vec()
            }
            b"INFO" => {
                let mut asked = asked.lock();
                *asked += 1;
                let saving = u8::from(*asked <= 6);
                let info = format!(
                    "rdb_bgsave_in_progress:{saving}\r\nrdb_last_bgsave_status:ok\r\n\
                     latest_fork_usec:600000\r\n"
                );
                format!("${}\r\n{info}\r\n", info.len()).into_bytes()
            }
            _ => {
                drop(held);
                b"+OK\r\n".to_vec()
            }
        }
    })
}

#[test]
fn latencies_are_separated_by_a_save_that_ends_the_run() {
    for pace in ["--rate 2000", "", "--rate 2000 --threads 2"] {
        let arguments = format!("{pace} --connections 8 --bgsave-after-seconds 0.3");
        let report = measure(forking_server(), &arguments);
        assert_eq!(report.errors, 0, "{report}");
        let save = report.save.as_ref().unwrap();
        assert_eq!((save.status.as_str(), save.fork_us), ("ok", Some(600_000.0)));
        let stall_s = STALL.as_secs_f64();
        assert!(save.answered_after_us >= stall_s * 1e6 && save.seconds >= stall_s, "{report}");
        let [before, saving, after] = report.windows.as_slice() else { panic!("{report}") };
        assert_eq!([before.name, saving.name, after.name], ["before", "saving", "after"]);
        let sum = before.requests + saving.requests + after.requests;
        assert_eq!(sum, report.requests, "{report}");
        assert!((0.3..0.5).contains(&before.seconds) && after.seconds >= 0.29, "{report}");
        assert!((saving.seconds - save.seconds).abs() < 1e-6, "{report}");
        assert!(saving.latency_us.max >= stall_s * 0.99e6, "{report}");
        assert!(before.latency_us.max < stall_s * 0.9e6, "{report}");
        if pace.contains("rate") {
            assert!(saving.requests as f64 >= 2000.0 * stall_s, "{report}");
            assert!(saving.latency_us.p50 > stall_s * 1e6 / 4.0, "{report}");
        }
        assert!(report.to_string().contains("fork or cut 600,000 us"), "{report}");
    }
}

#[test]
fn a_save_that_is_refused_is_an_error_and_ends_the_run() {
    let address = scripted::serve(|arguments| match arguments.first().map(Vec::as_slice) {
        Some(b"BGSAVE") => b"-ERR not now\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    let report = measure(address, "--rate 1000 --bgsave-after-seconds 0.1");
    assert_eq!(report.errors_by_text.get("BGSAVE: ERR not now"), Some(&1), "{report}");
    assert!(report.save.is_none() && report.requests >= 90, "{report}");
    let limited = measure(address, "--seconds 0.4 --bgsave-after-seconds 0.1");
    assert!(limited.seconds >= 0.4, "it lasts as long as was asked for: {limited}");
    let options = options("--protocol memcached --bgsave-after-seconds 1");
    assert!(matches!(bench::measure(&options, &Interrupt::default()), Err(Error::Options(_))));
}

#[test]
fn a_stall_at_the_end_is_waited_for() {
    let report = measure(stalling_server(1500), "--rate 2000 --seconds 0.75 --connections 8");
    assert_eq!(report.requests, 1500);
    assert!(report.latency_us.max >= STALL.as_secs_f64() * 1e6 * 0.99, "{report}");
    assert!(report.seconds > 1.2, "{report}");
}

#[test]
fn requests_without_a_reply_are_errors() {
    let silent = scripted::serve(|arguments| {
        if arguments.first().is_some_and(|name| name == b"SET") {
            scripted::stall(Duration::from_secs(2));
        }
        b"+OK\r\n".to_vec()
    });
    let limits = "--seconds 0.2 --reply-timeout-seconds 0.1 --ratio 0:1 --connections 3";
    for pace in ["", "--rate 50"] {
        let report = measure(silent, &format!("{limits} {pace}"));
        let expected = if pace.is_empty() { 3 } else { 10 };
        assert_eq!(report.errors_by_text.get("no reply"), Some(&expected), "{report}");
        assert!(report.latency_us.max > 200_000.0, "{report}");
        assert!(report.seconds < 1.8, "{report}");
    }
}

#[test]
fn errors_are_counted_by_their_text() {
    let address = scripted::serve(|arguments| {
        if arguments.first().is_some_and(|name| name == b"GET") {
            b"$3\r\nyes\r\n".to_vec()
        } else {
            b"-OOM command not allowed\r\n".to_vec()
        }
    });
    let report = measure(address, "--requests 1000 --ratio 1:1");
    let errors = report.errors_by_text.get("OOM command not allowed").copied().unwrap_or_default();
    assert_eq!((report.hits + errors, report.errors), (1000, errors));
    assert!((350..650).contains(&errors), "{report}");

    let to = format!("--port {} --requests 100 --json /dev/null", address.port());
    let result = bench::run(&options(&to));
    assert!(matches!(result, Err(Error::Failures(failures)) if failures > 0), "{result:?}");
    bench::run(&options(&format!("{to} --ignore-errors"))).unwrap();
}

#[test]
fn a_closed_connection_is_an_error_and_other_connections_go_on() {
    let seen = Mutex::new(0);
    let address = scripted::serve(move |_| {
        let mut seen = seen.lock();
        *seen += 1;
        if *seen == 100 { Vec::new() } else { b"+OK\r\n".to_vec() }
    });
    let report = measure(address, "--requests 1000 --connections 4");
    assert_eq!((report.requests, report.errors), (999, 1));
    assert_eq!(report.errors_by_text.get("connection closed by the server"), Some(&1));
}

#[test]
fn each_unanswered_request_of_a_lost_connection_is_an_error_and_it_is_reopened() {
    let seen = Mutex::new(0);
    let address = scripted::serve(move |_| {
        let mut seen = seen.lock();
        *seen += 1;
        if *seen == 41 + QUESTIONS { Vec::new() } else { b"+OK\r\n".to_vec() }
    });
    let report = measure(address, "--requests 1000 --connections 1 --pipeline 10");
    assert_eq!((report.requests, report.errors), (990, 10), "{report}");
    assert_eq!(report.reconnects, 1, "{report}");
}

/// The second of two servers of a cluster has the upper half of the slots.
#[test]
fn the_servers_of_a_cluster_are_asked_for_their_slots() {
    let ports: Arc<Mutex<Vec<u16>>> = Arc::default();
    let served = Arc::new([Mutex::new(0), Mutex::new(0)]);
    let addresses = [0_usize, 1].map(|place| {
        let (ports, served) = (Arc::clone(&ports), Arc::clone(&served));
        scripted::serve(move |arguments| match arguments {
            [name, _] if name == b"CLUSTER" => {
                let ports = ports.lock();
                let range = |from, to, port| {
                    format!("*3\r\n:{from}\r\n:{to}\r\n*2\r\n$0\r\n\r\n:{port}\r\n")
                };
                let (one, other) = (range(0, 8191, ports[0]), range(8192, 16383, ports[1]));
                format!("*2\r\n{one}{other}").into_bytes()
            }
            [_, key, ..] => {
                *served[place].lock() += 1;
                match usize::from(slot_of(key) / 8192) == place {
                    true => b"+OK\r\n".to_vec(),
                    false => b"-MOVED 1 127.0.0.1:1\r\n".to_vec(),
                }
            }
            _ => b"+OK\r\n".to_vec(),
        })
    });
    ports.lock().extend(addresses.map(|address| address.port()));
    let report = measure(addresses[1], "--requests 2000 --like redis-cluster --connections 3");
    assert_eq!((report.requests, report.errors), (2000, 0), "{report}");
    assert_eq!(report.servers.len(), 2, "{report}");
    assert!(served.iter().all(|served| *served.lock() > 500), "{served:?}");

    let partly = scripted::serve(|arguments| match arguments.first().map(Vec::as_slice) {
        Some(b"CLUSTER") => b"*0\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    });
    let port = partly.port();
    let options = options(&format!("--port {port} --like redis-cluster"));
    let error = bench::measure(&options, &Interrupt::default()).unwrap_err().to_string();
    assert!(error.contains("only 0 of the cluster's 16384 slots"), "{error}");
}

#[test]
fn refused_connections_are_named() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error =
        bench::measure(&options(&format!("--port {}", closed.port())), &Interrupt::default())
            .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unreachable(_)), "{text}");
    assert!(text.contains(&closed.to_string()) && text.contains("refused"), "{text}");
}

#[test]
fn filling_writes_each_key_once() {
    let written: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let log = Arc::clone(&written);
    let address = scripted::serve(move |arguments| match arguments {
        [name, key, _] if name == b"SET" => {
            log.lock().push(key.clone());
            b"+OK\r\n".to_vec()
        }
        _ => b"$-1\r\n".to_vec(),
    });
    let report = measure(
        address,
        "--fill --keys 1003 --key-bytes 12 --threads 2 --connections 5 --ratio 1:0 --requests 10",
    );
    assert_eq!(report.requests, 10);
    let written = written.lock();
    assert_eq!(written.len(), 1003);
    let distinct: HashSet<&Vec<u8>> = written.iter().collect();
    assert_eq!(distinct.len(), 1003);
    assert!(distinct.contains(&b"key:00000000".to_vec()), "the first key");
    assert!(distinct.contains(&b"key:00001002".to_vec()), "the last key");
}

#[test]
fn values_larger_than_any_buffer_are_hits() {
    let value = vec![b'\n'; 300_000];
    let reply = [b"$300000\r\n", value.as_slice(), b"\r\n"].concat();
    let address = scripted::serve(move |_| reply.clone());
    let report = measure(address, "--requests 100 --connections 2 --pipeline 3 --ratio 1:0");
    assert_eq!((report.hits, report.errors), (100, 0));
}

#[test]
fn unix_sockets_are_measured_too() {
    let folder = std::env::temp_dir().join(format!("nagi-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    scripted::serve_unix(&path, |_| b"+OK\r\n".to_vec());
    let arguments = format!("--unix {} --requests 1000 --pipeline 4", path.display());
    let report = bench::measure(&options(&arguments), &Interrupt::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((report.requests, report.errors), (1000, 0));
    assert_eq!(report.address, path.display().to_string());
}
