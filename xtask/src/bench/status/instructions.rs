//! Counts the server's user-space instructions per request with callgrind, whose counts do not
//! depend on the load of the machine. Instructions count from received bytes to the reply passed to
//! the kernel, because the number of waits varies.
//!
//! Work for sampled requests is counted separately: the sampling rate depends on the clock, and
//! callgrind slows down the server about fifty times, so a larger share of requests is sampled.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use harness::{Server, until};

use super::{BLIND, Contestants, INSTRUCTIONS, Measured, PIPELINES, RATIOS, SEEN, pages};
use crate::bench::Arguments;
use crate::bench::contestants::Contestant;
use crate::bench::report::Table;
use crate::{process, workspace};

/// The function that handles each batch of requests. It is counted with all functions that it
/// calls.
const FROM_BYTES_TO_REPLY: &str = "nagi_server::worker::Sessions::feed";
/// Functions that are only called for sampled requests.
const OF_SAMPLES: [&str; 3] = [
    "nagi_server::session::timing::Stopwatch::report",
    "nagi_server::worker::Sessions::keep_until_sent",
    "nagi_server::session::batch::count_keys",
];
const KEYS: &str = "10000";
/// Number of requests to count, per pipeline depth: the counts of the first few requests differ
/// from the rest.
const REQUESTS: u32 = 50_000;
/// How long the page is open before requests are counted, so that connections have begun to record
/// keys.
const BEFORE: Duration = Duration::from_secs(3);

/// How the server is observed.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// The server has no pages, and does not measure times.
    None,
    /// The server has pages, which are not requested.
    Possible,
    /// The page is open and metrics are scraped, once a second.
    Open,
}

/// The instructions of a request.
#[derive(Clone, Copy)]
struct Counted {
    /// Instructions per request without the work for samples.
    each: f64,
    samples: f64,
}

/// Counts GET and SET at each depth and each degree of observation.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    ensure!(process::in_path("valgrind"), "valgrind is missing (apt-get install valgrind)");
    let (first, last) = (["build", "request", "pipeline"], ["for samples under callgrind"]);
    let mut table = Table::new(&[&first[..], &INSTRUCTIONS, &last].concat());
    let requests = if arguments.quick { REQUESTS / 10 } else { REQUESTS };
    for contestant in contestants.iter().filter(|it| it.is_build()) {
        for (name, ratio) in RATIOS {
            for pipeline in PIPELINES {
                let requests = requests * pipeline.min(4);
                let count = |look| count(contestant, look, (ratio, pipeline), requests);
                let [none, possible, open] =
                    [count(Look::None)?, count(Look::Possible)?, count(Look::Open)?];
                let change = |it: Counted| format!("{:+.2} %", (it.each / none.each - 1.0) * 100.0);
                table.row(vec![
                    contestant.name.to_owned(),
                    name.to_owned(),
                    pipeline.to_string(),
                    format!("{:.0}", none.each),
                    format!("{:.0}", possible.each),
                    format!("{:.0}", open.each),
                    change(possible),
                    change(open),
                    format!("{:.0}", open.samples),
                ]);
            }
        }
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// Runs a server under callgrind, and counts the instructions of requests.
fn count(
    contestant: &Contestant,
    look: Look,
    (ratio, pipeline): (&str, u32),
    requests: u32,
) -> Result<Counted> {
    let folder = contestant.new_folder()?;
    let out = folder.ours.join("callgrind.out");
    // Without this script, valgrind ends nagi at its start; the script explains the reason.
    let mut command = Command::new(workspace::root().join("bench/without-auxv.py"));
    command
        .args(["valgrind", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(contestant.program())
        .args(["serve", "--workers", "1", "--io", "epoll"])
        .args(if look == Look::None { &BLIND[..] } else { &SEEN });
    let server = Server::start_nagi(command).map_err(|problem| anyhow!("callgrind: {problem}"))?;
    let load = |more: &[&str]| {
        let mut load = Command::new(contestant.program());
        load.args(["bench", "--quiet", "--port", &server.resp().port().to_string()])
            .args(["--keys", KEYS, "--ratio", ratio, "--pipeline", &pipeline.to_string()])
            .args(more);
        process::output(&mut load)
    };
    load(&["--fill", "--requests", KEYS])?;
    let counted = || {
        control(&server, "--zero")?;
        load(&["--requests", &requests.to_string()])?;
        control(&server, "--dump")
    };
    match look {
        Look::Open => pages::beside(server.http(), || {
            thread::sleep(BEFORE);
            counted()
        })?,
        Look::None | Look::Possible => counted()?,
    }
    // The first dump has a number after its name.
    let dump = out.with_extension("out.1");
    until("the counts", || dump.exists().then_some(())).map_err(|problem| anyhow!(problem))?;
    read(&dump, requests, look).with_context(|| format!("{} {ratio}, {pipeline}", contestant.name))
}

/// Makes callgrind reset or dump its counts, and waits until it has done so.
fn control(server: &Server, what: &str) -> Result<()> {
    let process_id = server.process_id().to_string();
    process::output(Command::new("callgrind_control").args([what, &process_id])).map(drop)
}

/// Reads the counts of a dump, and divides them by the number of requests.
fn read(dump: &Path, requests: u32, look: Look) -> Result<Counted> {
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--threshold=100", "--auto=no", "--inclusive=yes"]).arg(dump);
    let text = process::output(&mut annotate)?;
    // If this fails, the file is removed together with its folder.
    let _ = fs::remove_file(dump);
    let cost = |name| {
        let found = inclusive(&text, name).map(|cost| cost as f64 / f64::from(requests));
        found.with_context(|| format!("no function is called {name} any more"))
    };
    let all = cost(FROM_BYTES_TO_REPLY)?;
    let samples = OF_SAMPLES.into_iter().map(cost);
    let samples: f64 = match look {
        Look::Open => samples.sum::<Result<f64>>()?,
        // Without pages, not all kinds of samples are taken.
        Look::None | Look::Possible => samples.flatten().sum(),
    };
    Ok(Counted { each: all - samples, samples })
}

/// Returns the instructions of a function and all functions that it calls. Code inlined from other
/// files has separate rows, which are included in the largest row.
fn inclusive(text: &str, name: &str) -> Option<u64> {
    let rows = text.lines().filter_map(|row| {
        let (cost, function) = row.trim_start().split_once(' ')?;
        let (_, function) = function.split_once(&format!(":{name}"))?;
        // The row is that of the function itself, of an instance of it, or of its name followed by
        // the binary's.
        let is_whole = function.is_empty() || function.starts_with([' ', '<', ':', '\'']);
        is_whole.then(|| cost.replace(',', "").parse().ok())?
    });
    rows.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_from_rows_of_functions() {
        let text = "Profile data file\n\
            12,345 (90.0%)  ???:a::b::Sessions::feed [/bin/nagi]\n \
            1,000 ( 7.3%)  cell.rs:a::b::Sessions::feed\n\
            20,000 (99.0%)  ???:a::b::Sessions::feed_all [/bin/nagi]\n\
            77 (0.1%)  ???:a::b::Sessions::keep\n";
        assert_eq!(inclusive(text, "a::b::Sessions::feed"), Some(12_345));
        assert_eq!(inclusive(text, "a::b::Sessions::keep"), Some(77));
        assert_eq!(inclusive(text, "a::b::Sessions::send"), None);
    }
}
