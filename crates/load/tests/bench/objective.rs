//! `nagi bench --slo` against servers with known limits.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use nagi_load::bench::{self, BenchOptions, Error, Report, Verdict};
use nagi_load::interrupt::Interrupt;
use nagi_load::responder::Responder;
use parking_lot::Mutex;

use crate::scripted;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: BenchOptions,
}

fn options(address: SocketAddr, arguments: &str) -> BenchOptions {
    let line = format!("bench --quiet --port {} {arguments}", address.port());
    Arguments::try_parse_from(line.split_whitespace()).unwrap().options
}

fn measure(address: SocketAddr, arguments: &str) -> Report {
    bench::measure(&options(address, arguments), &Interrupt::default()).unwrap()
}

/// A server that takes two milliseconds for each request, one after the other.
fn slow_server() -> SocketAddr {
    let turn = Mutex::new(());
    scripted::serve(move |_| {
        let held = turn.lock();
        scripted::stall(Duration::from_millis(2));
        drop(held);
        b"+OK\r\n".to_vec()
    })
}

#[test]
fn a_search_finds_no_more_than_the_server_can_do() {
    let arguments =
        "--slo p90<100ms --seconds 1 --slo-at-least 100 --connections 20 --warmup-seconds 0";
    let report = measure(slow_server(), arguments);
    let objective = report.objective.as_ref().unwrap();
    assert!(objective.trials.len() >= 2, "{report}");
    // The server answers at most 500 requests per second. At r/s for T s, the queue at time t takes
    // (r / 500 - 1) t to be served, so a request after nine tenths of the others waits 0.9 T (r /
    // 500 - 1). The limit of 0.1 s thus holds only up to r = 500 (1 + 0.1 / 0.9), however busy the
    // machine is.
    for trial in &objective.trials {
        let most = 500.0 * (1.0 + 0.1 / 0.9) * 1.05;
        let may_hold = trial.rate <= most || trial.seconds < 0.9;
        assert!(trial.verdict != Verdict::Holds || may_hold, "{report}");
    }
    if let Some(rate) = objective.rate {
        assert!(rate <= 560.0 * 1.05, "{report}");
        let last = objective.trials.last().unwrap();
        assert_eq!((last.step, last.rate, last.verdict), ("confirm", rate, Verdict::Holds));
        assert!(report.seconds >= 2.9, "the confirmation is three times as long: {report}");
    }
}

#[test]
fn one_rate_is_judged_by_the_exit_status() {
    let responder = Responder::start(0, 1).unwrap();
    let pace = "--rate 500 --seconds 0.5 --json /dev/null";
    bench::run(&options(responder.address(), &format!("{pace} --slo max<1000s"))).unwrap();
    let missed = bench::run(&options(slow_server(), &format!("{pace} --slo p50<1ms")));
    let error = missed.unwrap_err();
    assert!(matches!(error, Error::Verdict(_)), "{error}");
    assert_eq!(error.exit_status(), 3);
    assert!(error.to_string().starts_with("p50<1ms does not hold at 500/s"), "{error}");
}

#[test]
fn a_search_that_finds_too_little_is_reported() {
    let arguments =
        "--slo p50<1ms --seconds 0.3 --slo-at-least 400 --json /dev/null --connections 4";
    // No request takes less than two milliseconds.
    let error = bench::run(&options(slow_server(), arguments)).unwrap_err();
    assert_eq!(error.exit_status(), 3, "{error}");
    assert!(error.to_string().contains("was not confirmed at any rate"), "{error}");
}

#[test]
fn a_trial_ends_once_it_is_lost() {
    // A trial has 20,000 requests. About 200 may be slow, and 10,000 can be answered in time.
    let arguments = "--slo p99<10ms --seconds 20 --slo-at-least 1000 --connections 50";
    let report = measure(slow_server(), arguments);
    let objective = report.objective.as_ref().unwrap();
    assert_eq!((objective.rate, objective.trials.len()), (None, 2), "{report}");
    for trial in &objective.trials {
        assert!(trial.requests < 5000 && trial.verdict != Verdict::Holds, "{report}");
    }
}
