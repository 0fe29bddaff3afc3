//! Money moves between keys during consecutive saves, and each file must contain all of it. Money
//! is moved by commands on two keys at once, by renaming and copying, and by operations that claim
//! their keys and run for several slices, during which the total is temporarily wrong.
//!
//! `NAGI_CUTS` sets the number of saves; by default there are few.

use fastrand::Rng;
use nagi_persist::rdb::{
    Batch, Fault, LoadOptions, LoadedValue, NoCollections, Preamble, Progress, Version,
    WriterOptions, load,
};
use nagi_persist::save::{SaveHost, SaveProgress, Target, save};
use nagi_store::types::string::SetOptions;
use nagi_store::{
    Claim, ClaimProgress, Counters, CutError, Database, Intent, Snapshot, Store, StringInput,
    Walker, parse_i64,
};
use std::convert::Infallible;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread;

/// The number of keys for each kind of transfer.
const ACCOUNTS: u32 = 60;
const START: i64 = 1000;

/// The workers: two that transfer atomically, two that claim.
const AT_ONCE: [usize; 2] = [1, 2];
const CLAIMING: [usize; 2] = [3, 4];

/// Walks continuously, as workers do.
struct Walking;

impl SaveHost for Walking {
    fn resume(&self) {}

    fn pace(&self) {}
}

fn number(db: Database<'_>, name: &[u8]) -> i64 {
    let text = db.get(db.key(name), |entry| {
        entry
            .expect("no account is ever without a key")
            .string()
            .unwrap()
            .with_bytes(<[u8]>::to_vec)
    });
    parse_i64(&text).expect("a number")
}

fn put(db: Database<'_>, name: &[u8], number: i64) {
    db.set(db.key(name), number.to_string().as_bytes(), SetOptions::default());
}

/// Returns an account that only one worker uses, so that it knows the balance.
fn own(worker: usize, pick: u32) -> Vec<u8> {
    format!("own:{worker}:{pick}").into_bytes()
}

fn shared(pick: u32) -> Vec<u8> {
    format!("shared:{pick}").into_bytes()
}

/// Executes an atomic transfer.
fn at_once(db: Database<'_>, worker: usize, random: &mut Rng) {
    let (from, to) = (own(worker, random.u32(..ACCOUNTS)), own(worker, random.u32(..ACCOUNTS)));
    if from == to {
        return;
    }
    let elsewhere = format!("elsewhere:{worker}").into_bytes();
    match random.u32(..6) {
        0 => {
            db.rename(db.key(&from), db.key(&elsewhere), true);
            db.rename(db.key(&elsewhere), db.key(&from), true);
        }
        1 => {
            // An account without money may exist any number of times.
            let nothing = format!("nothing:{worker}").into_bytes();
            put(db, &nothing, 0);
            let _ = db.copy(db.key(&nothing), 1, db.key(&from), true);
        }
        _ => {
            let amount = i64::from(random.u32(..50));
            let less = (number(db, &from) - amount).to_string();
            let more = (number(db, &to) + amount).to_string();
            let pair = vec![
                (db.key(&from), less.as_bytes().into()),
                (db.key(&to), more.as_bytes().into()),
            ];
            db.set_many(pair, false);
        }
    }
}

/// The rest of a transfer in two slices by a worker that has claimed both keys.
struct InSlices {
    to: Vec<u8>,
    amount: i64,
    claim: Claim,
}

fn begin(store: &Store, counters: &Counters, random: &mut Rng) -> Option<InSlices> {
    let (from, to) = (shared(random.u32(..ACCOUNTS)), shared(random.u32(..ACCOUNTS)));
    let amount = i64::from(random.u32(..50));
    let mut claiming = store.claiming();
    [&from, &to].iter().for_each(|name| claiming.add(store.key(name), Intent::Write));
    loop {
        let _batch = store.batch(counters);
        let db = store.database(0, counters, 1);
        match db.take_claims(&mut claiming, Waker::noop(), || true) {
            ClaimProgress::Held(_) if from == to => return None,
            ClaimProgress::Held(claim) => {
                put(db, &from, number(db, &from) - amount);
                return Some(InSlices { to, amount, claim });
            }
            ClaimProgress::More | ClaimProgress::Wait => thread::yield_now(),
        }
    }
}

fn work(store: &Store, worker: usize, is_done: &AtomicBool, held_over: &AtomicU64) {
    let counters = store.counters(worker);
    let (mut walker, mut random) = (Walker::default(), Rng::with_seed(worker as u64));
    while !is_done.load(Ordering::Relaxed) {
        if CLAIMING.contains(&worker) {
            if let Some(InSlices { to, amount, claim }) = begin(store, &counters, &mut random) {
                held_over.fetch_add(1, Ordering::Relaxed);
                store.walk(&mut walker, || true);
                thread::yield_now();
                let _batch = store.batch(&counters);
                let db = store.database(0, &counters, 1);
                put(db, &to, number(db, &to) + amount);
                drop(claim);
            }
        } else {
            let _batch = store.batch(&counters);
            at_once(store.database(0, &counters, 1), worker, &mut random);
        }
        store.walk(&mut walker, || true);
    }
}

fn cut(store: &Store) -> Snapshot<'_> {
    let mut _place;
    loop {
        match store.cut(usize::MAX, Waker::noop()) {
            Ok(snapshot) => return snapshot,
            Err(CutError::Busy) => panic!("one at a time"),
            Err(CutError::Claimed(wait)) => {
                _place = wait;
                thread::yield_now();
            }
        }
    }
}

/// Returns the sum of the accounts in a file.
fn sum(path: &Path) -> i64 {
    let options = LoadOptions { databases: 16, now_ms: None, verify_checksum: true };
    let mut sum = 0;
    let mut take = |mut batch: Batch<Infallible>| -> Result<(), Fault> {
        while let Some(loaded) = batch.next_key(&NoCollections)? {
            let LoadedValue::String(StringInput::Bytes(text)) = loaded.value else {
                panic!("numbers are short strings")
            };
            sum += parse_i64(text).expect("a number");
        }
        Ok(())
    };
    let file = File::open(path).expect("a file");
    load(file, &options, &Progress::default(), &NoCollections, &mut take).expect("a whole file");
    sum
}

#[test]
fn every_file_contains_the_total_balance() {
    let cuts: usize = std::env::var("NAGI_CUTS").map_or(25, |cuts| cuts.parse().expect("a number"));
    let folder = std::env::temp_dir().join(format!("nagi-transfers-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("creates a folder");
    let path = folder.join("dump.rdb");
    let store =
        Store::new(&nagi_store::StoreOptions { workers: 5, ..nagi_store::StoreOptions::default() });
    let counters = store.counters(0);
    let db = store.database(0, &counters, 1);
    for pick in 0..ACCOUNTS {
        AT_ONCE.iter().for_each(|worker| put(db, &own(*worker, pick), START));
        put(db, &shared(pick), START);
    }
    let (is_done, held_over) = (AtomicBool::default(), AtomicU64::default());
    let sums = thread::scope(|scope| {
        for worker in AT_ONCE.into_iter().chain(CLAIMING) {
            let (store, is_done, held_over) = (&store, &is_done, &held_over);
            scope.spawn(move || work(store, worker, is_done, held_over));
        }
        let sums = (0..cuts).map(|_| {
            let target = Target {
                path: &path,
                options: WriterOptions { version: Version::LOWEST, compress: true, checksum: true },
                is_version_fixed: false,
                preamble: Preamble {
                    redis_version: "7.2.4",
                    created_at_s: 0,
                    used_memory_bytes: 0,
                    is_aof_base: false,
                },
                libraries: &[],
            };
            let progress = SaveProgress::default();
            save(&store, cut(&store), &target, &progress, &Walking).expect("it is saved");
            sum(&path)
        });
        let sums: Vec<i64> = sums.collect();
        is_done.store(true, Ordering::Relaxed);
        sums
    });
    fs::remove_dir_all(&folder).expect("removes the folder");
    assert_eq!(sums, vec![3 * i64::from(ACCOUNTS) * START; cuts]);
    let held_over = held_over.into_inner();
    assert!(held_over > 0, "claims were held while other transfers went on");
    println!("{cuts} files; {held_over} transfers in slices");
}
