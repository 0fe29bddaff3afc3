//! The server's instructions for a request outside the kernel, by callgrind, which a busy machine
//! does not blur: on the way from received bytes to the reply that has been handed to the kernel,
//! since how often the server waits is up to chance.
//!
//! What is done for a sample of requests is counted apart: its rate goes by the clock, and
//! callgrind slows the server down some fifty times, so that of as many requests it samples many
//! more.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use harness::{Server, until};

use super::{BLIND, Contestants, Measured, PIPELINES, RATIOS, SEEN, pages};
use crate::bench::Arguments;
use crate::bench::contestants::Contestant;
use crate::bench::report::Table;
use crate::{process, workspace};

/// The function that each batch of requests passes, with all that it calls.
const FROM_BYTES_TO_REPLY: &str = "nagi_server::worker::Sessions::feed";
/// Functions of it that are for a sample of requests.
const OF_SAMPLES: [&str; 3] = [
    "nagi_server::session::timing::Stopwatch::report",
    "nagi_server::worker::Sessions::keep_until_sent",
    "nagi_commands::state::hot_keys::Counters::note",
];
const KEYS: &str = "10000";
/// Requests that are counted for each that is sent at once; a few of the first are not like the
/// rest.
const REQUESTS: u32 = 50_000;
/// For how long the page is looked at before requests are counted: until connections note keys.
const BEFORE: Duration = Duration::from_secs(3);

/// How the server is looked at.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// Not at all: it has no pages, and times nothing.
    None,
    /// It has pages, which are not asked for.
    Possible,
    /// The page is open and metrics are scraped, once a second.
    Open,
}

/// Instructions of a request.
#[derive(Clone, Copy)]
struct Counted {
    /// Without those for samples.
    each: f64,
    samples: f64,
}

/// Counts GET and SET at each depth, for each way in which the server is looked at.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    ensure!(process::in_path("valgrind"), "valgrind is missing (apt-get install valgrind)");
    let mut table = Table::new(&[
        "build",
        "request",
        "pipeline",
        "nothing timed, no pages",
        "pages",
        "page open",
        "change by pages",
        "by the open page",
        "for samples under callgrind",
    ]);
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

/// Runs a server under callgrind, and counts so many requests.
fn count(
    contestant: &Contestant,
    look: Look,
    (ratio, pipeline): (&str, u32),
    requests: u32,
) -> Result<Counted> {
    let folder = contestant.new_folder()?;
    let out = folder.ours.join("callgrind.out");
    // Without it valgrind ends nagi at its start: the script says why.
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
    read(&dump, requests).with_context(|| format!("{} {ratio}, {pipeline}", contestant.name))
}

/// Makes callgrind begin again or write down what it has counted; by the time that this returns, it
/// has.
fn control(server: &Server, what: &str) -> Result<()> {
    let process_id = server.process_id().to_string();
    process::output(Command::new("callgrind_control").args([what, &process_id])).map(drop)
}

/// What a dump says of functions, for each of so many requests.
fn read(dump: &Path, requests: u32) -> Result<Counted> {
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--threshold=100", "--auto=no", "--inclusive=yes"]).arg(dump);
    let text = process::output(&mut annotate)?;
    // What is left of a large file, which the folder's owner removes.
    let _ = fs::remove_file(dump);
    let cost = |name| inclusive(&text, name).unwrap_or(0) as f64 / f64::from(requests);
    let all = cost(FROM_BYTES_TO_REPLY);
    ensure!(all > 0.0, "no function is called {FROM_BYTES_TO_REPLY} any more");
    let samples: f64 = OF_SAMPLES.into_iter().map(cost).sum();
    Ok(Counted { each: all - samples, samples })
}

/// The instructions of a function with all that it calls. What was inlined into it from other files
/// has rows of its own, which the largest has in it.
fn inclusive(text: &str, name: &str) -> Option<u64> {
    let rows = text.lines().filter_map(|row| {
        let (cost, function) = row.trim_start().split_once(' ')?;
        let (_, function) = function.split_once(&format!(":{name}"))?;
        // Its own name, that of an instance of it, or the name of the binary behind it.
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
