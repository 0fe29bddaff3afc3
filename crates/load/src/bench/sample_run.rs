//! A sample run, for tests of reports.

use std::sync::mpsc;

use clap::Parser;

use super::options::BenchOptions;
use super::phases::{self, Measured};
use super::report::Report;
use super::run::Interval;
use super::servers::Identity;
use super::setup;
use super::timeline::{Phase, Timeline};
use super::verified::Verified;
use crate::clock::SECOND;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::tally::Tally;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: BenchOptions,
}

/// The options of a command line.
pub(crate) fn options(arguments: &[&str]) -> BenchOptions {
    Arguments::try_parse_from([&["bench"], arguments].concat()).unwrap().options
}

/// A run of 1.5 s with known counts.
pub(crate) fn measured(arguments: &[&str]) -> Measured {
    let options = setup::resolve(options(arguments)).unwrap();
    let plan = phases::measure_plan(&options, &Interrupt::default());
    let mut timeline = Timeline::new(false).unwrap();
    timeline.begin(Phase::Measure, 7 * SECOND, 17 * SECOND / 2);
    let (sender, receiver) = mpsc::channel();
    for (end_ns, reached_ns, latencies_us) in
        [(8 * SECOND, 8 * SECOND - 1, 50..1050), (9 * SECOND, 17 * SECOND / 2, 1000..2200)]
    {
        let mut tally = Tally::new().unwrap();
        tally.requests = latencies_us.end - latencies_us.start;
        latencies_us.for_each(|us| tally.latencies.record(us * 1000).unwrap());
        tally.delays.record(4_000).unwrap();
        (tally.hits, tally.misses) = (400, 80);
        (tally.sent_bytes, tally.received_bytes) = (60_000, 30_000_000);
        tally.cpu_ns = 300_000_000;
        tally.errors.count("ERR unknown command", 3);
        sender
            .send(Interval {
                end_ns,
                reached_ns,
                tally,
                last: end_ns == 9 * SECOND,
                windows: None,
                verified: Verified::default(),
            })
            .unwrap();
    }
    drop(sender);
    timeline.follow(&receiver, 1);
    let mut errors = timeline.errors().clone();
    errors.count("connection closed by the server", 1);
    let server = Identity {
        address: "/run/nagi.sock".to_owned(),
        name: "nagi 1.2.3".to_owned(),
        settings: [("maxmemory".to_owned(), "0".to_owned())].into(),
    };
    let mut report = Report::new(&options, vec![server], &plan, &timeline, &errors, None);
    report.machine = Machine { system: "Linux".to_owned(), ..Machine::default() };
    report.version = "1.2.3";
    report.started_unix_seconds = 1_000_000_000.5;
    Measured { report, total: timeline.total().clone(), log: None }
}
