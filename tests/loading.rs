//! What clients see while a file is being loaded, and what happens to the file. The file is a pipe,
//! so that the test decides when each part of it is available.

use crate::persistence::{Folder, info};
use harness::{Connection, Server, nagi_binary, until};
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// Returns a file of `keys` keys with 200 bytes each, as nagi saves them.
fn saved(test: &str, keys: usize) -> Vec<u8> {
    let folder = Folder::new(&format!("{test}-source"));
    let server = folder.nagi(&["--rdbcompression", "no"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(200);
    for key in 0..keys {
        client.send(harness::encode_command(&["SET", &format!("key:{key}"), &value]));
    }
    (0..keys).for_each(|_| client.expect("+OK\r\n"));
    client.check("SAVE", "+OK\r\n");
    fs::read(folder.0.join("dump.rdb")).expect("a file")
}

/// Starts a server that loads the bytes written to the returned end of a pipe. The server reads
/// nothing before this end is open; by then INFO shows that it is loading.
fn start_loading(folder: &Folder) -> (Server, File) {
    let path = folder.0.join("dump.rdb");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600))
        .expect("makes a pipe");
    let mut command = Command::new(nagi_binary());
    command.args(["serve", "--memcached-port", "any", "--dir"]).arg(&folder.0);
    if let Some(io) = std::env::var_os("NAGI_TEST_IO") {
        command.arg("--io").arg(io);
    }
    let server = Server::start_redis(command).expect("it listens");
    assert_eq!(info(&server, "loading"), "1", "nothing has been read yet");
    let pipe = OpenOptions::new().write(true).open(Path::new(&path)).expect("it reads");
    (server, pipe)
}

#[test]
fn only_commands_without_data_are_answered_while_loading() {
    let file = saved("loading", 10_000);
    let folder = Folder::new("loading");
    let (server, mut pipe) = start_loading(&folder);
    let half = file.len() / 2;
    pipe.write_all(&file[..half]).expect("writes");
    let begun = || (info(&server, "loading_loaded_bytes") != "0").then_some(());
    until("some keys", begun).expect("it loads");
    let mut client = server.connect_resp();
    for (command, reply) in [
        ("PING", "+PONG\r\n"),
        ("GET key:1", LOADING),
        ("SET key:1 x", LOADING),
        ("DBSIZE", LOADING),
        ("FLUSHALL", LOADING),
        ("KEYS *", LOADING),
        ("BGSAVE", LOADING),
        ("SAVE", LOADING),
        ("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n"),
        ("CONFIG SET maxmemory-policy allkeys-lru", "+OK\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("FOO", "-ERR unknown command 'FOO', with args beginning with: \r\n"),
    ] {
        client.check(command, reply);
    }
    assert_eq!(info(&server, "loading"), "1");
    assert_eq!(info(&server, "async_loading"), "0");
    assert_ne!(info(&server, "loading_rdb_used_mem"), "0");
    for field in ["loading_start_time", "loading_total_bytes", "loading_loaded_perc"] {
        assert!(info(&server, field).parse::<f64>().is_ok(), "{field}");
    }
    assert!(info(&server, "loading_eta_seconds").parse::<u64>().is_ok());
    let port = info(&server, "memcached_port").parse().expect("a port");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut memcached = Connection::open(address);
    memcached.check_raw("get key:1\r\n", "SERVER_ERROR loading the data\r\n");
    memcached.check_raw("set key:1 0 0 1\r\nx\r\n", "SERVER_ERROR loading the data\r\n");
    memcached.check_raw("flush_all\r\n", "SERVER_ERROR loading the data\r\n");
    memcached.check_raw("mn\r\n", "MN\r\n");
    let mut binary = Connection::open(address);
    let get =
        |opcode: u8| [&[0x80, opcode, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 12], b"k"].concat();
    let refused = |opcode: u8| {
        let head = [0x81, opcode, 0, 0, 0, 0, 0, 0x86, 0, 0, 0, 16];
        [&head[..], &[0; 12], b"loading the data"].concat()
    };
    binary.check_raw(get(0), refused(0));
    binary.check_raw(get(4), refused(4));

    pipe.write_all(&file[half..]).expect("writes");
    drop(pipe);
    let done = || (info(&server, "loading") == "0").then_some(());
    until("the end of the file", done).expect("it is loaded");
    client.check("SELECT 0", "+OK\r\n");
    client.check("DBSIZE", ":10000\r\n");
    memcached.check_raw("get none\r\n", "END\r\n");
    assert_eq!(info(&server, "rdb_last_load_keys_loaded"), "10000");
    let text = server.connect_resp().run("INFO persistence").text();
    assert!(!text.contains("loading_total_bytes"), "{text}");
    let log = server.log();
    let place = |words: &str| log.find(words).unwrap_or_else(|| panic!("no {words} in {log}"));
    assert!(place("DB loaded from disk") < place("Ready to accept connections"), "{log}");
}

#[test]
fn a_stop_while_it_loads_leaves_the_file_as_it_is() {
    let file = saved("loading-stop", 5000);
    for stop in ["", "SHUTDOWN", "SHUTDOWN SAVE"] {
        let folder = Folder::new("loading-stop");
        let (mut server, mut pipe) = start_loading(&folder);
        server.connect_resp().check("CONFIG SET save \"3600 1\"", "+OK\r\n");
        pipe.write_all(&file[..file.len() / 2]).expect("writes");
        let begun = || (info(&server, "loading_loaded_bytes") != "0").then_some(());
        until("some keys", begun).expect("it loads");
        match stop {
            "" => server.signal(Signal::TERM),
            command => server.connect_resp().check(command, ""),
        }
        let is_deaf = || TcpStream::connect(server.resp()).is_err().then_some(());
        until("the listeners to close", is_deaf).expect("it stops");
        drop(pipe);
        let ended = server.wait_for_exit();
        assert!(ended.success(), "{stop}: {}", server.log());
        assert_eq!(folder.names(), ["dump.rdb"]);
        let kind = fs::metadata(folder.0.join("dump.rdb")).expect("it is there").file_type();
        assert!(!kind.is_file(), "{stop}: it was written over");
    }
}

#[test]
fn a_file_that_ends_too_early_ends_the_server() {
    let file = saved("loading-short", 5000);
    let folder = Folder::new("loading-short");
    let (mut server, mut pipe) = start_loading(&folder);
    server.connect_resp().check("CONFIG SET save \"3600 1\"", "+OK\r\n");
    pipe.write_all(&file[..file.len() - 100]).expect("writes");
    drop(pipe);
    assert!(!server.wait_for_exit().success());
    assert!(server.log().contains("check-rdb"), "{}", server.log());
    assert_eq!(folder.names(), ["dump.rdb"]);
}
