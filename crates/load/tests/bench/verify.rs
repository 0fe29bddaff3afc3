//! `nagi bench --verify` against correct and faulty stores.

use std::collections::HashMap;
use std::net::SocketAddr;

use clap::Parser;
use nagi_load::bench::{self, BenchOptions, Error, Report, Verified};
use nagi_load::interrupt::Interrupt;
use parking_lot::Mutex;

use crate::scripted;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: BenchOptions,
}

fn options(address: SocketAddr, arguments: &str) -> BenchOptions {
    let line = format!("bench --quiet --verify --port {} {arguments}", address.port());
    Arguments::try_parse_from(line.split_whitespace()).unwrap().options
}

fn measure(address: SocketAddr, arguments: &str) -> Report {
    bench::measure(&options(address, arguments), &Interrupt::default()).unwrap()
}

/// A store's answer to a read, given all values that a key has had, the newest last.
type Read = fn(key: &[u8], values: &[Vec<u8>], number: u64, all: &Store) -> Vec<u8>;
type Store = HashMap<Vec<u8>, Vec<Vec<u8>>>;

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// Serves a store that writes correctly, and answers reads with `read`.
fn store(read: Read) -> SocketAddr {
    let state = Mutex::new((Store::new(), 0));
    scripted::serve(move |arguments| {
        let mut state = state.lock();
        state.1 += 1;
        let (store, number) = &mut *state;
        match arguments {
            [name, key, value] if name == b"SET" => {
                store.entry(key.clone()).or_default().push(value.clone());
                b"+OK\r\n".to_vec()
            }
            [name, key] if name == b"GET" => match store.get(key) {
                None => b"$-1\r\n".to_vec(),
                Some(values) => read(key, values, *number, store),
            },
            _ => b"+OK\r\n".to_vec(),
        }
    })
}

const LOADS: [&str; 4] = [
    "--requests 3000 --keys 20 --connections 8 --pipeline 4 --value-bytes 100",
    "--requests 3000 --keys 5 --connections 4 --threads 2 --value-bytes 32",
    "--requests 2000 --keys 20 --rate 20000 --fill --value-bytes 40-200",
    "--requests 2000 --keys 20 --reconnect-every 50 --value-bytes 8",
];

#[test]
fn a_correct_store_has_no_violations() {
    let address = store(|_, values, _, _| bulk(values.last().unwrap()));
    // All loads use the same store, which therefore has values of other lengths from earlier runs.
    for arguments in LOADS {
        let report = measure(address, arguments);
        let verified = report.verified.as_ref().unwrap();
        assert_eq!((verified.wrong(), report.errors), (0, 0), "{arguments}: {report}");
        assert!(verified.replies >= report.requests && report.hits > 500, "{arguments}: {report}");
    }
}

/// The findings for a store that answers every third read wrongly.
fn found(read: Read) -> (Verified, u64) {
    let address = store(read);
    let arguments = "--fill --requests 3000 --keys 10 --connections 4 --value-bytes 64";
    let report = measure(address, arguments);
    let verified = report.verified.clone().unwrap();
    assert_eq!(report.errors, verified.wrong(), "{report}");
    assert!(!verified.examples.is_empty(), "{report}");
    // Wrong replies fail the run even with `ignore_errors`.
    let result =
        bench::run(&options(address, &format!("{arguments} --ignore-errors --json /dev/null")));
    assert!(matches!(result, Err(Error::Wrong(wrong)) if wrong > 0), "{result:?}");
    (verified, report.hits)
}

#[test]
fn damaged_values_are_found() {
    let (verified, hits) = found(|_, values, number, _| {
        let mut value = values.last().unwrap().clone();
        if number % 3 == 0 {
            value[40] ^= 1;
        }
        bulk(&value)
    });
    assert_eq!(verified.damaged, verified.wrong());
    assert!(verified.damaged > hits / 6 && verified.damaged < hits, "{verified:?} of {hits}");
}

#[test]
fn values_of_other_keys_are_found() {
    let (verified, _) = found(|key, values, number, all| {
        let other = all.iter().find(|(other, _)| other.as_slice() != key);
        match other.filter(|_| number % 3 == 0) {
            Some((_, values)) => bulk(values.last().unwrap()),
            None => bulk(values.last().unwrap()),
        }
    });
    assert_eq!(verified.of_another_key, verified.wrong());
    assert!(verified.of_another_key > 100, "{verified:?}");
}

#[test]
fn values_that_were_overwritten_long_ago_are_found() {
    // The store returns the value of ten writes before. With four connections, some of the later
    // writes have been confirmed.
    let (verified, _) = found(|_, values, number, _| {
        let back = if number % 3 == 0 { 10 } else { 1 };
        bulk(&values[values.len().saturating_sub(back)])
    });
    assert_eq!(verified.stale, verified.wrong());
    assert!(verified.stale > 100, "{verified:?}");
}

#[test]
fn stale_values_are_allowed_for_as_long_as_replicas_have_them() {
    let address = store(|_, values, _, _| bulk(&values[values.len().saturating_sub(10)]));
    let arguments = "--requests 3000 --keys 10 --connections 4 --verify-stale-ms 3600000";
    let report = measure(address, arguments);
    assert_eq!(report.verified.unwrap().wrong(), 0);
}

#[test]
fn answers_of_another_kind_are_found() {
    let (verified, _) = found(|_, values, number, _| match number % 3 {
        0 => b"+OK\r\n".to_vec(),
        _ => bulk(values.last().unwrap()),
    });
    assert_eq!(verified.other_answers, verified.wrong());
    assert!(verified.other_answers > 100, "{verified:?}");
}
