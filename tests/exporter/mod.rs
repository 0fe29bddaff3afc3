//! Prometheus and its exporters read a server's metrics and statistics.
//!
//! The metrics that an exporter reports for nagi are compared with a list in `tests/reference` that
//! has a line for each metric that the exporter knows:
//! ```text
//! redis_up = 1                  every series has this value
//! redis_memory_used_bytes >= 1  every series has at least this value
//! redis_db_keys same            the series of another server, with their values
//! redis_commands_total alike    the series of another server, with any values
//! redis_aof_base_size_bytes absent it has no append-only file
//! ```

mod apache;
mod memcached;
mod prometheus;
mod redis;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use harness::{Connection, root};

/// Values, by names and labels as they were written.
type Samples = BTreeMap<String, f64>;

/// Returns the body of a page.
fn fetch(address: SocketAddr, target: &str, accept: &str) -> String {
    let mut client = Connection::open(address);
    client.send(format!("GET {target} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n"));
    let text = String::from_utf8(client.rest()).expect("metrics are text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(" 200 OK"), "{target}: {text}");
    body.to_owned()
}

/// Returns the samples of a page whose names begin with `prefix`.
fn samples(page: &str, prefix: &str) -> Samples {
    let lines = page.lines().filter(|line| line.starts_with(prefix));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(sample).collect()
}

fn name(series: &str) -> &str {
    series.split('{').next().unwrap_or_default()
}

/// The expected values of a metric.
enum Check {
    Absent,
    Is(f64),
    AtLeast(f64),
    Same,
    Alike,
}

/// The metrics of an exporter according to a list in `tests/reference`.
struct List(BTreeMap<String, Check>);

impl List {
    fn read(file: &str) -> Self {
        let path = root().join("tests/reference").join(file);
        let text = std::fs::read_to_string(path).expect("a list");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        List(lines.map(|line| Self::line(line).unwrap_or_else(|| panic!("{line}"))).collect())
    }

    fn line(line: &str) -> Option<(String, Check)> {
        let (name, rest) = line.split_once(' ')?;
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let check = match word {
            "=" => Check::Is(rest.parse().ok()?),
            ">=" => Check::AtLeast(rest.parse().ok()?),
            "same" => Check::Same,
            "alike" => Check::Alike,
            "absent" if !rest.is_empty() => Check::Absent,
            _ => return None,
        };
        Some((name.to_owned(), check))
    }

    /// Returns the differences from the list; `other` contains the samples of the server to compare
    /// with.
    fn faults(&self, ours: &Samples, other: &Samples) -> Vec<String> {
        let mut faults = Vec::new();
        for unlisted in ours.keys().filter(|series| !self.0.contains_key(name(series))) {
            faults.push(format!("{unlisted} is not in the list"));
        }
        for (metric, check) in &self.0 {
            let of = |samples: &Samples| -> Samples {
                let samples = samples.iter().filter(|(series, _)| name(series) == metric);
                samples.map(|(series, value)| (series.clone(), *value)).collect()
            };
            let (ours, other) = (of(ours), of(other));
            let is_fine = match check {
                Check::Absent => ours.is_empty(),
                Check::Is(value) => !ours.is_empty() && ours.values().all(|it| it == value),
                Check::AtLeast(value) => !ours.is_empty() && ours.values().all(|it| it >= value),
                Check::Same => !ours.is_empty() && ours == other,
                Check::Alike => !ours.is_empty() && ours.keys().eq(other.keys()),
            };
            if !is_fine {
                let theirs = match check {
                    Check::Same | Check::Alike => format!(", and elsewhere {other:?}"),
                    Check::Absent | Check::Is(_) | Check::AtLeast(_) => String::new(),
                };
                faults.push(format!("{metric}: {ours:?}{theirs}"));
            }
        }
        faults
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[test]
fn lists_are_compared_with_samples() {
    let list = |text: &str| List(text.lines().map(|line| List::line(line).unwrap()).collect());
    let page = |text: &str| samples(text, "a");
    let text = "# HELP a Text.\na 1\nab{c=\"x y\"} 2\nab{c=\"z\"} 3\n";
    let fine = "a = 1\nab >= 2\nac absent for a reason";
    let (ours, none) = (page(text), Samples::new());
    assert_eq!(list(fine).faults(&ours, &none), Vec::<String>::new());
    assert_eq!(list(fine).names(), ["a", "ab", "ac"].into());
    assert_eq!(list("a same\nab alike").faults(&ours, &ours), Vec::<String>::new());
    let other = page("a 2\nab{c=\"z\"} 3\n");
    assert_eq!(list("a same\nab alike").faults(&ours, &other).len(), 2);
    for wrong in ["a = 2\nab >= 2", "a = 1\nab >= 3", "a = 1", "a = 1\nab absent x", "a same"] {
        assert_ne!(list(wrong).faults(&ours, &none), Vec::<String>::new(), "{wrong}");
    }
    for wrong in ["a", "a absent", "a = x", "a > 1"] {
        assert!(List::line(wrong).is_none(), "{wrong}");
    }
}
