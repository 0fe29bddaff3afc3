//! `/readyz` and `nagi_ready`: whether writes are taken, whatever keeps them from that.

use crate::persistence::{Folder, Pipe};
use crate::status::get;
use harness::{Reply, Server, until};
use rustix::process::Signal;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::process::Command;

/// The status of `/readyz`, without a look at the sample.
fn readiness(server: &Server) -> u16 {
    let (head, body) = get(server, "/readyz");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    assert_eq!(body, if status == 200 { "ready\n" } else { "not ready\n" }, "{head}");
    status
}

fn wait_for_readiness(server: &Server, status: u16) {
    let what = format!("status {status}");
    until(&what, || (readiness(server) == status).then_some(())).expect("it comes");
    let gauge = format!("\nnagi_ready {}\n", u8::from(status == 200));
    let sampled = || get(server, "/metrics").1.contains(&gauge).then_some(());
    until("the same in metrics", sampled).expect("it comes");
}

#[test]
fn full_memory_without_a_key_that_may_go_is_not_ready() {
    let server = Server::nagi_with(&["--http-port", "any", "--maxmemory-policy", "volatile-lru"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    wait_for_readiness(&server, 200);
    client.check("CONFIG SET maxmemory 1", "+OK\r\n");
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    client.check("SET key other", full);
    assert_eq!(readiness(&server), 503);
    wait_for_readiness(&server, 503);
    // A key that may go changes that, though no write is tried.
    client.check("EXPIRE key 1000", ":1\r\n");
    wait_for_readiness(&server, 200);
    client.check("SET key value", "+OK\r\n");
}

#[test]
fn loading_is_not_ready() {
    let folder = Folder::new("readiness-loading");
    let path = folder.0.join("dump.rdb");
    let source = folder.nagi(&[]);
    let mut client = source.connect_resp();
    client.check("SET key value", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    let saved = fs::read(&path).expect("a file");
    drop((client, source));
    fs::remove_file(&path).expect("it is there");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("makes a pipe");
    let mut command = Command::new(harness::nagi_binary());
    command.args(["serve", "--save", "", "--http-port", "any", "--dir"]).arg(&folder.0);
    let server = Server::start_nagi(command).expect("it listens");
    wait_for_readiness(&server, 503);
    let (_, lines) = get(&server, "/server-status?auto");
    let board = lines.lines().find_map(|it| it.strip_prefix("Scoreboard: ")).expect("letters");
    assert!(board.starts_with('S') && board.ends_with("S."), "{board}");
    let mut pipe = OpenOptions::new().write(true).open(&path).expect("it is read");
    pipe.write_all(&saved).expect("writes");
    drop(pipe);
    wait_for_readiness(&server, 200);
    server.connect_resp().check("GET key", "$5\r\nvalue\r\n");
}

#[test]
fn a_failed_save_that_stops_writes_is_not_ready() {
    let folder = Folder::new("readiness-save");
    let gone = folder.0.join("gone");
    fs::create_dir_all(&gone).expect("creates a folder");
    let place = gone.to_str().expect("text");
    let server = Server::nagi_with(&["--http-port", "any", "--dir", place]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    fs::remove_dir(&gone).expect("it is empty");
    client.check("CONFIG SET save \"3600 1\"", "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    wait_for_readiness(&server, 503);
    let refused = client.run("SET key other");
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with("MISCONF")), "{refused:?}");
    client.check("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n");
    wait_for_readiness(&server, 200);
    client.check("SET key other", "+OK\r\n");
}

#[test]
fn a_server_that_saves_before_it_stops_is_not_ready() {
    let folder = Folder::new("readiness-stop");
    let server = folder.nagi(&["--save", "3600 1", "--http-port", "any"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    wait_for_readiness(&server, 200);
    let pipe = Pipe::new(&folder, &server);
    server.signal(Signal::TERM);
    let mut disk = pipe.open();
    wait_for_readiness(&server, 503);
    client.check("SHUTDOWN ABORT", "+OK\r\n");
    io::copy(&mut disk, &mut io::sink()).expect("reads");
    wait_for_readiness(&server, 200);
}
