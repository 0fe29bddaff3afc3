//! `cargo xtask doctor`: measures how often `nagi doctor` reports a fault first that was injected
//! into a real server, and writes the table in docs/doctor.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::bench::report::{Table, replace_between_markers};
use crate::{process, workspace};

/// The faults to inject, the servers and the number of rounds.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How often each fault is injected into each kind of server, from weak to strong; healthy
    /// servers are observed thirty times as often
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Only these kinds of servers, such as nagi or valkey
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Add to the results of the last run
    #[arg(long)]
    resume: bool,
    /// Only these tests of tests/faults.rs, such as slow_keys
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
}

/// The kinds of servers, which are the columns of the table.
const KINDS: [&str; 4] = ["nagi", "Redis", "Valkey", "memcached"];

/// A parsed line of the tests' output.
#[derive(Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum Noted {
    Injected { fault: String, kind: String, rounds: u64, named: u64, void: u64 },
    Impossible { fault: String, kind: String, reason: String },
    Skipped { fault: String, reason: String },
    Healthy { looks: u64, found: u64, void: u64 },
}

/// Runs the tests, and writes their results into the page.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let notes = workspace::root().join("target/doctor-results");
    if !arguments.resume && notes.exists() {
        fs::remove_file(&notes)?;
    }
    let ended = process::run(&mut tests(arguments, &notes));
    let text = fs::read_to_string(&notes).context("no test has noted a result")?;
    let section = section(&parse(&text)?);
    println!("\n{section}");
    let path = workspace::root().join("docs/doctor.md");
    let page = fs::read_to_string(&path)?;
    let replaced = replace_between_markers(&page, "faults", &section)
        .with_context(|| format!("{} has no markers of faults", path.display()))?;
    fs::write(&path, replaced)?;
    println!("wrote {}", path.display());
    ended.context("a fault was named too seldom, or a test failed")
}

fn tests(arguments: &Arguments, notes: &Path) -> Command {
    let mut command =
        workspace::cargo(&["test", "--package", "nagi-tests", "--test", "black-box", "--"]);
    match arguments.tests.as_slice() {
        [] => command.arg("faults::"),
        tests => command.args(tests.iter().map(|test| format!("faults::{test}"))),
    };
    // Tests run one at a time, because concurrent tests would compete for processors.
    command.args(["--test-threads", "1", "--nocapture"]);
    command.env("NAGI_DOCTOR_ROUNDS", arguments.rounds.to_string());
    command.env("NAGI_DOCTOR_KINDS", arguments.kinds.join(","));
    command.env("NAGI_DOCTOR_RESULTS", notes);
    command
}

fn parse(text: &str) -> Result<Vec<Noted>> {
    let noted = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not a result: {line}")));
    noted.collect()
}

/// The results of one fault in one kind of server.
#[derive(Default)]
struct Pair<'a> {
    /// For each test, how often the fault was named first, and the number of rounds.
    named: Vec<(u64, u64)>,
    impossible: Option<&'a str>,
}

/// Formats the table, with notes below it.
fn section(noted: &[Noted]) -> String {
    let (mut pairs, mut skipped) = (BTreeMap::<(&str, &str), Pair<'_>>::new(), BTreeMap::new());
    let (mut healthy, mut healthy_found, mut healthy_void, mut void_attempts) = (0, 0, 0, 0);
    for note in noted {
        match note {
            Noted::Injected { fault, kind, rounds, named, void } => {
                void_attempts += void;
                pairs.entry((&**fault, &**kind)).or_default().named.push((*named, *rounds));
            }
            Noted::Impossible { fault, kind, reason } => {
                pairs.entry((&**fault, &**kind)).or_default().impossible = Some(&**reason);
            }
            Noted::Skipped { fault, reason } => {
                skipped.insert(&**fault, &**reason);
            }
            Noted::Healthy { looks, found, void } => {
                healthy_void += void;
                healthy += looks;
                healthy_found += found;
            }
        }
    }
    let mut table = Table::new(&["fault", KINDS[0], KINDS[1], KINDS[2], KINDS[3]]);
    let mut faults: Vec<&str> = pairs.keys().map(|(fault, _)| *fault).collect();
    faults.dedup();
    for fault in faults {
        let cell = |kind: &&str| pairs.get(&(fault, *kind)).map_or("".to_owned(), shown);
        let cells = KINDS.iter().map(cell);
        table.row([format!("`{fault}`")].into_iter().chain(cells).collect());
    }
    let mut text = format!("{table}\n`–` cannot occur; empty cells, if any, were not run.\n\n");
    for ((fault, kind), pair) in &pairs {
        if let Some(reason) = pair.impossible {
            text += &format!("- `{fault}` with {kind}: {reason}\n");
        }
    }
    for (fault, reason) in skipped {
        text += &format!("- `{fault}` could not be injected on this machine: {reason}\n");
    }
    if void_attempts > 0 {
        text += &format!(
            "\n{void_attempts} more attempts were void and were repeated, whether the fault was \
             named or not: other programs had a quarter of all processors or more.\n"
        );
    }
    if healthy > 0 {
        text += &format!(
            "\n{healthy} observations of healthy servers had {healthy_found} findings. \
             {healthy_void} more were void and were repeated: other programs had a quarter of all \
             processors or more, a limit throttled the machine, or the server waited for \
             processors.\n"
        );
    }
    text
}

/// Formats the result of the test with the fewest successes, because the worst case counts.
fn shown(pair: &Pair<'_>) -> String {
    if pair.impossible.is_some() {
        return "–".to_owned();
    }
    let share = |(named, rounds): &&(u64, u64)| named * 1000 / rounds.max(&1);
    let least = pair.named.iter().min_by_key(share);
    least.map_or(String::new(), |(named, rounds)| format!("{named} of {rounds}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_test_of_a_pair_is_shown() {
        let lines = [
            r#"{"what":"injected","fault":"frozen","kind":"Redis","rounds":9,"named":9,"void":0}"#,
            r#"{"what":"injected","fault":"frozen","kind":"Redis","rounds":10,"named":9,"void":2}"#,
            r#"{"what":"injected","fault":"frozen","kind":"nagi","rounds":10,"named":10,"void":0}"#,
            r#"{"what":"impossible","fault":"frozen","kind":"memcached","reason":"no ice"}"#,
            r#"{"what":"skipped","fault":"slow-disk","reason":"there is no strace"}"#,
            r#"{"what":"healthy","looks":300,"found":1,"void":4}"#,
        ];
        let text = section(&parse(&lines.join("\n")).unwrap());
        let row = text.lines().find(|line| line.contains("`frozen`")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "`frozen`", "10 of 10", "9 of 10", "", "–", ""]);
        assert!(text.contains("- `frozen` with memcached: no ice\n"), "{text}");
        assert!(text.contains("- `slow-disk` could not be injected"), "{text}");
        assert!(text.contains("\n2 more attempts were void and were repeated, whether"), "{text}");
        let healthy = "\n300 observations of healthy servers had 1 findings. 4 more were void and";
        assert!(text.contains(healthy), "{text}");
        assert!(parse("{").is_err());
    }
}
