//! A process is killed while it saves. Whenever that happens, the last complete save must remain,
//! and the incomplete one must never be loaded.

use crate::persistence::{Folder, info};
use harness::{Random, Reply, Server, encode_command, until};
use rustix::process::Signal;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

/// Number of keys, and bytes of each value: enough to kill the process in the middle of a save.
const KEYS: usize = 12_000;
const VALUE_BYTES: usize = 1000;
/// How often the process is killed, unless `NAGI_KILLS` is set.
const KILLS: u64 = 5;
const KILLS_VARIABLE: &str = "NAGI_TEST_KILLS";

/// Returns a value that identifies the round in which it was written, and that cannot be
/// compressed.
fn value(key: usize, round: u64) -> Vec<u8> {
    let noise = (0..).map(|at: u64| {
        let seed = (key as u64) << 32 | at;
        (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    });
    format!("{round}:{key}:").bytes().chain(noise).take(VALUE_BYTES).collect()
}

fn write_all(server: &Server, round: u64) {
    let mut client = server.connect_resp();
    for first in (0..KEYS).step_by(500) {
        let words = (first..KEYS.min(first + 500))
            .flat_map(|key| [key.to_string().into_bytes(), value(key, round)]);
        let words: Vec<Vec<u8>> = std::iter::once(b"MSET".to_vec()).chain(words).collect();
        client.send(encode_command(&words));
        client.expect("+OK\r\n");
    }
}

/// Returns the round in which the keys were written, which must be the same for all keys.
fn round_of(server: &Server) -> u64 {
    let mut client = server.connect_resp();
    client.check("DBSIZE", format!(":{KEYS}\r\n"));
    let first = client.run("GET 0").text();
    let round: u64 = first.split(':').next().expect("a number").parse().expect("a number");
    for first in (0..KEYS).step_by(500) {
        let keys = first..KEYS.min(first + 500);
        let words = keys.clone().map(|key| key.to_string());
        let words: Vec<String> = std::iter::once("MGET".to_owned()).chain(words).collect();
        let Reply::Array(values) = client.run_words(&words) else { panic!("values") };
        for (key, found) in keys.zip(values) {
            assert!(found == Reply::Bulk(value(key, round)), "key {key} is not of round {round}");
        }
    }
    round
}

/// Sets the time of the files that killed processes have left to long ago.
fn age(folder: &Folder) {
    for name in folder.names().iter().filter(|name| name.starts_with("temp-")) {
        let file = File::options().write(true).open(folder.0.join(name)).expect("opens it");
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(long_ago).expect("sets its time");
    }
}

#[test]
fn whenever_it_is_killed_the_last_good_file_is_whole() {
    let kills = std::env::var(KILLS_VARIABLE).ok().and_then(|kills| kills.parse().ok());
    let kills = kills.unwrap_or(KILLS);
    let mut random = Random::announced();
    let folder = Folder::new("killed");
    let mut server = folder.nagi(&[]);
    write_all(&server, 0);
    server.connect_resp().check("SAVE", "+OK\r\n");
    let dump = folder.0.join("dump.rdb");
    let whole = fs::metadata(&dump).expect("a file").len();
    let (mut good, mut in_the_middle, mut replaced) = (0, 0, 0);
    for round in 1..=kills {
        write_all(&server, round);
        let before = fs::metadata(&dump).expect("a file").modified().expect("a time");
        let temporary = folder.0.join(format!("temp-{}.rdb", server.process_id()));
        // The bound is a little larger than the file, so that some processes are killed during the
        // rename or later.
        let enough = random.below(whole * 11 / 10);
        server.connect_resp().check("BGSAVE", "+Background saving started\r\n");
        let is_time = || {
            let written = fs::metadata(&temporary).map_or(0, |file| file.len());
            let is_over = fs::metadata(&dump).is_ok_and(|it| it.modified().ok() != Some(before));
            (written >= enough || is_over).then_some(())
        };
        until("the save to get so far", is_time).expect("it does");
        server.signal(Signal::KILL);
        server.wait_for_exit();
        in_the_middle += u64::from(temporary.exists());
        server = folder.nagi(&[]);
        let kept = round_of(&server);
        assert!(kept == round || kept == good, "{kept} of {round}, and {good} was saved last");
        good = kept;
        replaced += u64::from(kept == round);
        age(&folder);
        if random.below(4) == 0 {
            server.connect_resp().check("SAVE", "+OK\r\n");
            assert_eq!(folder.names(), ["dump.rdb"], "what was left is removed");
            assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok");
        }
    }
    server.connect_resp().check("SAVE", "+OK\r\n");
    assert_eq!(folder.names(), ["dump.rdb"]);
    eprintln!("killed {kills} times, {in_the_middle} of them in the middle, {replaced} too late");
}
