//! Clients move elements and amounts between keys while files are saved one after another. Each
//! file must contain all of them, because it shows the keyspace at one instant.
//!
//! `NAGI_CUTS` sets the number of files; by default there are twelve. The transfers of the store
//! itself, and claims over several slices, are in `crates/persist/tests/rdb/transfers.rs`.

mod file;
mod movers;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use harness::{Connection, Folder, Random, Server, until};

use file::Contents;
use movers::{Mover, all};

/// The number of files, unless `NAGI_CUTS` is set.
const CUTS: usize = 12;
const CUTS_VARIABLE: &str = "NAGI_CUTS";

/// A kind of transfer, with the keys that it needs and the check of every file.
struct Kind {
    name: &'static str,
    /// Creates the keys.
    setup: fn(&mut Connection),
    /// The functions of its clients, each of which is called repeatedly.
    movers: &'static [fn(&mut Mover)],
    /// Returns the fault in a file, if there is one.
    check: fn(&Contents) -> Result<(), String>,
}

/// Saves a file, and waits until it is complete.
fn save(client: &mut Connection) {
    client.check("BGSAVE", "+Background saving started\r\n");
    let is_over = || {
        let info = client.run("INFO persistence").text();
        info.contains("rdb_bgsave_in_progress:0\r\n").then_some(info)
    };
    let info = until("the end of the save", is_over).expect("it ends");
    assert!(info.contains("rdb_last_bgsave_status:ok\r\n"), "{info}");
}

fn check(file: &Path, kinds: &[Kind], number: usize) {
    let contents = Contents::load(file);
    for kind in kinds {
        if let Err(fault) = (kind.check)(&contents) {
            panic!("file {number}, {}: {fault}", kind.name);
        }
    }
}

/// Ends the transfers on drop, even if a check fails.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_file_contains_what_is_moved_meanwhile() {
    let cuts = std::env::var(CUTS_VARIABLE).map_or(CUTS, |cuts| cuts.parse().expect("a number"));
    let mut random = Random::announced();
    let folder = Folder::new("moved");
    let path = folder.path().to_str().expect("text");
    let server = Server::nagi_with(&[
        "--dir",
        path,
        "--save",
        "",
        "--workers",
        "4",
        "--adaptive-workers",
        "no",
    ]);
    let kinds = all();
    let mut client = server.connect_resp();
    kinds.iter().for_each(|kind| (kind.setup)(&mut client));
    let (is_over, mut saw_blocked) = (AtomicBool::new(false), 0);
    let counts: Vec<AtomicU64> = kinds.iter().map(|_| AtomicU64::new(0)).collect();
    let dump = folder.path().join("dump.rdb");
    thread::scope(|scope| {
        let _at_the_end = AtTheEnd(&is_over);
        for (kind, count) in kinds.iter().zip(&counts) {
            for run in kind.movers {
                let (client, random) = (server.connect_resp(), random.fork());
                let mut mover = Mover { client, random, count };
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        run(&mut mover);
                    }
                });
            }
        }
        for number in 0..cuts {
            let before: Vec<u64> = counts.iter().map(|it| it.load(Ordering::Relaxed)).collect();
            save(&mut client);
            check(&dump, &kinds, number);
            fs::remove_file(&dump).expect("it is there");
            let info = client.run("INFO clients").text();
            saw_blocked += usize::from(!info.contains("blocked_clients:0\r\n"));
            // Without transfers between the saves, the files would prove nothing.
            let goes_on = || {
                let mut pairs = counts.iter().zip(&before);
                pairs.all(|(count, before)| count.load(Ordering::Relaxed) > *before).then_some(())
            };
            until("transfers of every kind", goes_on).expect("they go on");
        }
    });
    let counts = kinds.iter().zip(counts).map(|(kind, count)| (kind.name, count.into_inner()));
    println!("{cuts} files, blocked clients after {saw_blocked}; {:?}", counts.collect::<Vec<_>>());
    assert!(saw_blocked > 0, "moves are served, too");
}
