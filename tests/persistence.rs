//! Saving and loading from the user's view: the data is restored, however the server is stopped,
//! and a damaged file is neither loaded nor overwritten.

use harness::{Connection, Reply, Server, nagi_binary, until};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A folder that is removed on drop.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nagi-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("creates a folder");
        Folder(path)
    }

    pub(crate) fn nagi(&self, arguments: &[&str]) -> Server {
        let mut all = vec!["--dir", self.0.to_str().expect("text")];
        all.extend(arguments);
        Server::nagi_with(&all)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("reads the folder");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        entries.map(name).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's clean-up of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A pipe in place of the next file that a server will write. Bytes are accepted as they are read.
pub(crate) struct Pipe(PathBuf);

impl Pipe {
    pub(crate) fn new(folder: &Folder, server: &Server) -> Self {
        let path = folder.0.join(format!("temp-{}.rdb", server.process_id()));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("makes a pipe");
        Pipe(path)
    }

    /// Waits until the server begins to write. Returns the reading end.
    pub(crate) fn open(self) -> fs::File {
        fs::File::open(self.0).expect("opens the other end")
    }
}

pub(crate) fn info(server: &Server, field: &str) -> String {
    let text = server.connect_resp().run("INFO everything").text();
    let prefix = format!("{field}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("no {field} in\n{text}")).trim().to_owned()
}

#[test]
fn saved_data_is_loaded_after_a_restart() {
    let folder = Folder::new("restart");
    let mut server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    let long = "long".repeat(100_000);
    client.check("SET plain value", "+OK\r\n");
    client.check("SET number 12345", "+OK\r\n");
    client.check("SET volatile soon PXAT 33177117420000", "+OK\r\n");
    client.check("SET gone soon PX 1", "+OK\r\n");
    assert_eq!(client.run_words(&["SET", "long", &long]), Reply::Simple("OK".to_owned()));
    client.check("SELECT 3", "+OK\r\n");
    client.check("SET plain other", "+OK\r\n");
    let mut memcached = server.connect_memcached();
    memcached.check_raw("set flagged 77 0 5\r\nvalue\r\n", "STORED\r\n");
    memcached.send("gets flagged\r\n");
    let versioned = memcached.line();
    client.check("SAVE", "+OK\r\n");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "0");
    client.check("SET plain unsaved", "+OK\r\n");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "1");
    server.signal(Signal::KILL);
    server.wait_for_exit();
    assert_eq!(folder.names(), ["dump.rdb"]);

    let server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    client.check("GET plain", "$5\r\nvalue\r\n");
    client.check("GET number", "$5\r\n12345\r\n");
    client.check("PEXPIRETIME volatile", ":33177117420000\r\n");
    client.check("EXISTS gone", ":0\r\n");
    assert_eq!(client.run("GET long").text(), long);
    client.check("SELECT 3", "+OK\r\n");
    client.check("GET plain", "$5\r\nother\r\n");
    let mut memcached = server.connect_memcached();
    memcached.send("gets flagged\r\n");
    assert_eq!(memcached.line(), versioned, "flags and version are as they were");
    memcached.take("value\r\nEND\r\n".len());
    let cas = versioned.split_whitespace().last().expect("a number").to_owned();
    memcached.check_raw(format!("cas flagged 0 0 1 {cas}\r\nx\r\n"), "STORED\r\n");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "1", "the one just made");
}

/// A client may hold the version of a value that was replaced before the restart.
#[test]
fn versions_are_not_assigned_again_after_a_restart() {
    let folder = Folder::new("versions");
    let mut server = folder.nagi(&[]);
    let mut memcached = server.connect_memcached();
    memcached.check_raw("set key 0 0 1\r\na\r\n", "STORED\r\n");
    memcached.send("gets key\r\n");
    let first = memcached.line();
    memcached.take("a\r\nEND\r\n".len());
    memcached.check_raw("set key 0 0 1\r\nb\r\n", "STORED\r\n");
    server.connect_resp().check("SHUTDOWN SAVE", "");
    assert!(server.wait_for_exit().success());

    let server = folder.nagi(&[]);
    let mut memcached = server.connect_memcached();
    memcached.send("gets key\r\n");
    assert_ne!(memcached.line(), first);
    memcached.take("b\r\nEND\r\n".len());
    let version = first.split_whitespace().last().expect("a number").to_owned();
    memcached.check_raw(format!("cas key 0 0 1 {version}\r\nc\r\n"), "EXISTS\r\n");
}

/// Sets `keys` keys to the same value.
fn fill(client: &mut harness::Connection, keys: usize, value: &str) {
    let set = |key| harness::encode_command(&["SET", &format!("key:{key}"), value]);
    client.send((0..keys).flat_map(set).collect::<Vec<u8>>());
    (0..keys).for_each(|_| client.expect("+OK\r\n"));
}

#[test]
fn a_background_save_contains_the_data_at_its_reply() {
    let folder = Folder::new("background");
    let mut server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    let value = "v".repeat(1000);
    fill(&mut client, 2000, &value);
    client.check("BGSAVE", "+Background saving started\r\n");
    client.check("FLUSHDB", "+OK\r\n");
    client.check("SET new value", "+OK\r\n");
    let done = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
    until("the save", done).expect("it ends");
    assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok");
    assert_eq!(info(&server, "rdb_last_save_keys"), "2000");
    client.check("SHUTDOWN NOSAVE", "");
    assert!(server.wait_for_exit().success());
    let server = folder.nagi(&[]);
    server.connect_resp().check("DBSIZE", ":2000\r\n");
    server.connect_resp().check("EXISTS new key:0 key:1999", ":2\r\n");
}

#[test]
fn stopping_saves_where_it_is_asked_to() {
    for (arguments, stop, kept) in [
        (&["--save", "3600 1"][..], "", true),
        (&["--save", "3600 1"], "SHUTDOWN", true),
        (&["--save", "3600 1"], "SHUTDOWN NOSAVE", false),
        (&[], "", false),
        (&[], "SHUTDOWN", false),
        (&[], "SHUTDOWN SAVE", true),
    ] {
        let folder = Folder::new("stopping");
        let mut server = folder.nagi(arguments);
        server.connect_resp().check("SET key value", "+OK\r\n");
        match stop {
            "" => server.signal(Signal::TERM),
            command => server.connect_resp().check(command, ""),
        }
        assert!(server.wait_for_exit().success(), "{}", server.log());
        let expected: &[&str] = if kept { &["dump.rdb"] } else { &[] };
        assert_eq!(folder.names(), expected, "{arguments:?} {stop}");
    }
}

#[test]
fn a_server_that_cannot_save_does_not_stop() {
    let folder = Folder::new("cannot-stop");
    let gone = folder.0.join("gone");
    fs::create_dir(&gone).expect("creates a folder");
    let mut server = Server::nagi_with(&[
        "--save",
        "3600 1",
        "--stop-writes-on-bgsave-error",
        "no",
        "--dir",
        gone.to_str().expect("text"),
    ]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    fs::remove_dir(&gone).expect("it is empty");
    for round in 1..=2 {
        server.signal(Signal::TERM);
        let told = || (server.log().matches("can't exit").count() >= round).then_some(());
        until("the failure", told).expect("it is told");
        client.check("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        client.check("SET key value", "+OK\r\n");
    }
    fs::create_dir(&gone).expect("creates the folder again");
    client.check("DEL key", ":1\r\n");
    let mut memcached = server.connect_memcached();
    memcached.check_raw("set other 0 0 1\r\nx\r\n", "STORED\r\n");
    client.check("SHUTDOWN NOSAVE", "");
    assert!(server.wait_for_exit().success());
}

#[test]
fn saves_come_by_themselves_once_there_were_changes() {
    let folder = Folder::new("points");
    let server = folder.nagi(&["--save", "1 2"]);
    server.connect_resp().check("SET key value", "+OK\r\n");
    server.connect_resp().check("SET other value", "+OK\r\n");
    let saved = || (info(&server, "rdb_saves") == "1").then_some(());
    until("a save", saved).expect("it comes");
    server.connect_resp().check("CONFIG SET save \"\"", "+OK\r\n");
}

#[test]
fn a_file_that_is_damaged_stops_the_start_and_stays() {
    let folder = Folder::new("damaged");
    let mut server = folder.nagi(&[]);
    server.connect_resp().check("SET key value", "+OK\r\n");
    server.connect_resp().check("SHUTDOWN SAVE", "");
    server.wait_for_exit();
    let path = folder.0.join("dump.rdb");
    let mut bytes = fs::read(&path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("writes the file");
    let output = Command::new(nagi_binary())
        .args(["serve", "--port", "any", "--memcached-port", "0", "--save", "1 1"])
        .arg("--dir")
        .arg(&folder.0)
        .output()
        .expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("dump.rdb") && error.contains("check-rdb"), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), bytes, "it is as it was");
}

#[test]
fn a_save_that_fails_is_reported_and_leaves_the_last_file() {
    let folder = Folder::new("failing");
    let server = folder.nagi(&["--enable-protected-configs", "yes"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    let good = fs::read(folder.0.join("dump.rdb")).expect("a file");
    let name = "x".repeat(300);
    client.check(&format!("CONFIG SET dbfilename {name}"), "+OK\r\n");
    let Reply::Error(error) = client.run("SAVE") else { panic!("no file has so long a name") };
    assert!(error.contains("could not be saved"), "{error}");
    assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok", "that was not in the background");
    assert_eq!(fs::read(folder.0.join("dump.rdb")).expect("a file"), good);
    client.check("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    client.check("CONFIG SET dbfilename dump.rdb", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok");
    assert_eq!(folder.names(), ["dump.rdb"]);
}

#[test]
fn nothing_is_saved_without_a_name_for_the_file() {
    let folder = Folder::new("nameless");
    let arguments = ["--save", "1 1", "--dbfilename", "", "--enable-debug-command", "yes"];
    let mut server = folder.nagi(&arguments);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    for command in ["SAVE", "BGSAVE", "SHUTDOWN SAVE", "DEBUG RELOAD", "DEBUG RELOAD NOSAVE"] {
        let Reply::Error(error) = client.run(command) else { panic!("{command} has no file") };
        assert!(error.contains("since dbfilename is empty: set it"), "{command}: {error}");
    }
    client.check("GET key", "$5\r\nvalue\r\n");
    client.check("FLUSHALL", "+OK\r\n");
    client.check("SET key value", "+OK\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success(), "{}", server.log());
    for words in ["save point", "save started", "save failed"] {
        assert!(!server.log().contains(words), "{}", server.log());
    }
    let mut server = folder.nagi(&arguments);
    server.connect_resp().check("SHUTDOWN", "");
    assert!(server.wait_for_exit().success(), "{}", server.log());
    let mut server = folder.nagi(&arguments);
    server.connect_resp().check("SHUTDOWN SAVE FORCE", "");
    assert!(server.wait_for_exit().success(), "{}", server.log());
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn only_one_save_at_a_time_and_none_to_cancel() {
    let folder = Folder::new("single");
    let server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    let idle = "-ERR Background saving is currently not in progress or scheduled\r\n";
    client.check("BGSAVE CANCEL", idle);
    client.check("BGSAVE FOO", "-ERR syntax error\r\n");
    let no_file = "-ERR there is no append-only file; BGSAVE saves the data\r\n";
    client.check("BGREWRITEAOF", no_file);
    client.check("ACL SETUSER user +@all -bgrewriteaof", "+OK\r\n");
    client.check("BGSAVE SCHEDULE FOO", "-ERR syntax error\r\n");
    let before = client.run("LASTSAVE").integer();
    client.check("BGSAVE SCHEDULE", "+Background saving started\r\n");
    let done = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
    until("the save", done).expect("it ends");
    assert!(client.run("LASTSAVE").integer() >= before);
}

#[test]
fn saves_are_cancelled_one_after_the_other() {
    let folder = Folder::new("cancelled");
    let mut server = folder.nagi(&["--rdbcompression", "no"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(1000);
    fill(&mut client, 3000, &value);
    client.check("SAVE", "+OK\r\n");
    let good = fs::read(folder.0.join("dump.rdb")).expect("a file");
    for round in 0..20 {
        let pipe = Pipe::new(&folder, &server);
        let command = if round % 2 == 0 { "BGSAVE" } else { "BGSAVE SCHEDULE" };
        client.check(command, "+Background saving started\r\n");
        let mut disk = pipe.open();
        client.check(&format!("APPEND key:{round} changed"), ":1007\r\n");
        for command in ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"] {
            client.check(command, "-ERR Background save already in progress\r\n");
        }
        client.check("BGSAVE CANCEL", "+Background saving cancelled\r\n");
        std::io::copy(&mut disk, &mut std::io::sink()).expect("reads");
        let done = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
        until("the save", done).expect("it ends");
        for (field, value) in [
            ("rdb_last_bgsave_status", "ok"),
            ("rdb_last_bgsave_error", ""),
            ("rdb_saves", "1"),
            ("snapshot_preimage_bytes", "0"),
        ] {
            assert_eq!(info(&server, field), value, "{field}");
        }
        assert_eq!(folder.names(), ["dump.rdb"], "what was begun is gone");
        assert!(fs::read(folder.0.join("dump.rdb")).expect("a file") == good);
    }
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "20");
    client.check("SAVE", "+OK\r\n");
    client.check("SHUTDOWN NOSAVE", "");
    server.wait_for_exit();
    let server = folder.nagi(&[]);
    server.connect_resp().check("STRLEN key:19", ":1007\r\n");
    server.connect_resp().check("DBSIZE", ":3000\r\n");
}

#[test]
fn data_flushed_during_a_save_does_not_come_back() {
    let folder = Folder::new("flushed");
    let server = folder.nagi(&["--rdbcompression", "no"]);
    let mut client = server.connect_resp();
    fill(&mut client, 100_000, "value");
    client.check("CONFIG SET save-cpu-limit 1", "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    client.check("FLUSHALL", "+OK\r\n");
    let is_over = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
    until("the save", is_over).expect("it ends");
    assert_eq!(folder.names(), [""; 0]);
    client.check("BGSAVE", "+Background saving started\r\n");
    until("the save", is_over).expect("it ends");
    assert_eq!(folder.names(), ["dump.rdb"], "the next save is not what was given up");
}

/// With pauses, such a save would make thousands of them, one after each slice.
#[test]
fn a_save_that_is_to_end_makes_no_pauses() {
    const KEYS: usize = 200_000;
    const WORKERS: u64 = 2;
    let folder = Folder::new("pauses");
    let points = ["--save", "3600 1000000"];
    let mut server =
        folder.nagi(&[points, ["--rdbcompression", "no"], ["--workers", "2"]].concat());
    let mut client = server.connect_resp();
    fill(&mut client, KEYS, "value");
    let pauses = || -> u64 { info(&server, "snapshot_pauses").parse().expect("a number") };
    let mut begin = || {
        client.check("CONFIG SET save-cpu-limit 1", "+OK\r\n");
        client.check("BGSAVE", "+Background saving started\r\n");
        until("the save", || (pauses() > 0).then_some(())).expect("it pauses");
    };
    for (command, reply) in [
        ("BGSAVE CANCEL", "+Background saving cancelled\r\n"),
        ("CONFIG SET save-cpu-limit 100", "+OK\r\n"),
    ] {
        begin();
        server.connect_resp().check(command, reply);
        let before = pauses();
        let done = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
        until("the save", done).expect("it ends");
        // A worker or the saver may have been about to pause.
        let after = pauses();
        assert!(after <= before + WORKERS + 1, "{command}: {before} pauses, then {after}");
    }
    server.connect_resp().check("CONFIG SET save-cpu-limit 1", "+OK\r\n");
    server.connect_resp().check("SAVE", "+OK\r\n");
    assert_eq!(pauses(), 0, "SAVE is waited for");
    begin();
    client.check("SHUTDOWN", "");
    assert!(server.wait_for_exit().success(), "{}", server.log());
    let log = server.log();
    let saved = log.lines().rfind(|line| line.contains("DB saved on disk")).expect("it was saved");
    assert!(saved.contains("pauses=0"), "{saved}");
}

/// The folders of both servers have been removed, so nothing can be saved.
#[test]
fn writing_is_refused_while_saving_fails() {
    let folder = Folder::new("misconf");
    for (name, mut command) in
        [("nagi", Command::new(nagi_binary())), ("redis-server", harness::tool("redis-server"))]
    {
        let gone = folder.0.join(name);
        fs::create_dir_all(&gone).expect("creates a folder");
        if name == "nagi" {
            command.args(["serve", "--memcached-port", "any"]);
        }
        command.arg("--dir").arg(&gone);
        let server = Server::start_redis(command).expect("it starts");
        let mut client = server.connect_resp();
        client.check("SET key value", "+OK\r\n");
        fs::remove_dir(&gone).expect("it is empty");
        client.check("CONFIG SET save \"3600 1\"", "+OK\r\n");
        // Only the client that requested the save is notified of its failure.
        assert!(matches!(client.run("SAVE"), Reply::Error(_)), "{name}");
        client.check("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok", "{name}");
        client.check("SET key value", "+OK\r\n");
        client.check("BGSAVE", "+Background saving started\r\n");
        let failed = || (info(&server, "rdb_last_bgsave_status") == "err").then_some(());
        until("the failure", failed).expect("it comes");
        for command in ["SET key other", "DEL key", "PING", "FLUSHALL"] {
            client.check(command, MISCONF);
        }
        client.check("GET key", "$5\r\nvalue\r\n");
        if name == "nagi" {
            let port = info(&server, "memcached_port").parse().expect("a port");
            let mut memcached =
                harness::Connection::open(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
            let refused = "SERVER_ERROR saving has failed, see the log\r\n";
            memcached.check_raw("set key 0 0 1\r\nx\r\n", refused);
            memcached.check_raw("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
            memcached.check_raw("mg key v\r\n", "VA 5\r\nvalue\r\n");
        }
        client.check("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n");
        client.check("SET key other", "+OK\r\n");
        client.check("CONFIG SET stop-writes-on-bgsave-error yes", "+OK\r\n");
        client.check("SET key third", MISCONF);
        client.check("CONFIG SET save \"\"", "+OK\r\n");
        client.check("SET key third", "+OK\r\n");
        client.check("CONFIG SET save \"3600 1\"", "+OK\r\n");
        client.check("SET key fourth", MISCONF);
        fs::create_dir_all(&gone).expect("creates the folder again");
        if name == "nagi" {
            client.check("BGSAVE", "+Background saving started\r\n");
            let saved = || (info(&server, "rdb_last_bgsave_status") == "ok").then_some(());
            until("the save", saved).expect("it goes well again");
            client.check("SET key fourth", "+OK\r\n");
        }
    }
}

const MISCONF: &str = "-MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.\r\n";

#[test]
fn reloading_restores_saved_data() {
    let folder = Folder::new("reload");
    let nagi = folder.nagi(&["--enable-debug-command", "yes"]);
    let other = Folder::new("reload-redis");
    let mut command = harness::tool("redis-server");
    command.args(["--enable-debug-command", "yes", "--dir"]).arg(&other.0);
    let redis = Server::start_redis(command).expect("it starts");
    for (name, server) in [("nagi", nagi), ("redis-server", redis)] {
        eprintln!("asking {name}");
        let mut client = server.connect_resp();
        for (command, reply) in [
            ("SET key value", "+OK\r\n"),
            ("SET volatile value PXAT 33177117420000", "+OK\r\n"),
            ("DEBUG RELOAD", "+OK\r\n"),
            ("MGET key volatile", "*2\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n"),
            ("PEXPIRETIME volatile", ":33177117420000\r\n"),
            ("SET key other", "+OK\r\n"),
            ("SET new value", "+OK\r\n"),
            ("DEBUG RELOAD NOSAVE", "+OK\r\n"),
            ("MGET key new", "*2\r\n$5\r\nvalue\r\n$-1\r\n"),
            ("SET key other", "+OK\r\n"),
            ("SET new value", "+OK\r\n"),
            ("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK\r\n"),
            ("MGET key new", "*2\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n"),
            (
                "DEBUG RELOAD FOO",
                "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.\r\n",
            ),
            ("DBSIZE", ":3\r\n"),
        ] {
            client.check(command, reply);
        }
    }
}

/// The disk is a pipe that is not read for some time.
#[test]
fn writers_wait_for_a_disk_that_is_slow_and_readers_do_not() {
    const KEYS: usize = 1500;
    let folder = Folder::new("slow-disk");
    let server = folder.nagi(&["--snapshot-preimage-limit", "1mb", "--rdbcompression", "no"]);
    let mut client = server.connect_resp();
    let set_all = |byte: &str| {
        let value = byte.repeat(10_000);
        let set = |key| harness::encode_command(&["SET", &format!("key:{key}"), &value]);
        (0..KEYS).flat_map(set).collect::<Vec<u8>>()
    };
    client.send(set_all("a"));
    (0..KEYS).for_each(|_| client.expect("+OK\r\n"));
    let pipe = Pipe::new(&folder, &server);
    client.check("BGSAVE", "+Background saving started\r\n");
    let mut pipe = pipe.open();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            client.send(set_all("b"));
            (0..KEYS).for_each(|_| client.expect("+OK\r\n"));
        });
        let near = || {
            let taken: usize = info(&server, "snapshot_preimage_bytes").parse().expect("a number");
            assert!(taken <= 1 << 20);
            (taken > 950_000).then_some(())
        };
        until("images to be near their limit", near).expect("they get there");
        server.connect_resp().check("STRLEN key:0", ":10000\r\n");
        let mut memcached = server.connect_memcached();
        memcached.check_raw("get none\r\n", "END\r\n");
        memcached.send("set other 0 0 1\r\nx\r\n");
        assert!(!writer.is_finished());
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("reads");
        memcached.expect("STORED\r\n");
    });
    assert_ne!(info(&server, "snapshot_writers_delayed"), "0");
    assert_ne!(info(&server, "snapshot_writer_delay_usec"), "0");
    let peak = info(&server, "snapshot_preimage_peak_bytes").parse::<usize>().expect("a number");
    assert!(peak <= 1 << 20, "{peak}");
}

/// The save is slowed down until the value has been changed in many places.
#[test]
fn a_large_value_is_saved_as_it_was_at_the_cut() {
    const BYTES: usize = 200_000_000;
    let folder = Folder::new("giant");
    let mut server = folder.nagi(&["--rdbcompression", "no", "--save-cpu-limit", "10"]);
    let mut client = server.connect_resp();
    let places = (0..BYTES).step_by(BYTES / 50);
    let tell = |at: usize, what: &str| format!("SETRANGE giant {at} {what}{at:09}");
    client.check(&format!("SETRANGE giant {} .", BYTES - 1), format!(":{BYTES}\r\n"));
    for at in places.clone() {
        client.check(&tell(at, "before"), format!(":{BYTES}\r\n"));
    }
    client.check("BGSAVE", "+Background saving started\r\n");
    for (number, at) in places.clone().enumerate() {
        let len = BYTES + 5 * number;
        client.check(&tell(at, "during"), format!(":{len}\r\n"));
        client.check("APPEND giant after", format!(":{}\r\n", len + 5));
    }
    assert_eq!(info(&server, "rdb_bgsave_in_progress"), "1");
    client.check("CONFIG SET save-cpu-limit 100", "+OK\r\n");
    let done = || (info(&server, "rdb_bgsave_in_progress") == "0").then_some(());
    until("the save", done).expect("it ends");
    assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok");
    client.check("SHUTDOWN NOSAVE", "");
    assert!(server.wait_for_exit().success());

    let server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    client.check("STRLEN giant", format!(":{BYTES}\r\n"));
    for at in places {
        let text = client.run(&format!("GETRANGE giant {at} {}", at + 14)).text();
        assert_eq!(text, format!("before{at:09}"));
    }
    client.check("GETRANGE giant -2 -1", "$2\r\n\0.\r\n");
}

#[test]
fn changes_are_counted_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let [ours, theirs] = [nagi, redis].map(|server| {
        let mut client = server.connect_resp();
        let mut count = 0;
        let mut counts = Vec::new();
        for command in [
            "SET a 1",
            "MSET a 1 b 2",
            "SETBIT bits 7 1",
            "SETBIT bits 7 1",
            "SETBIT bits 7 0",
            "SETBIT bits 20 0",
            "SETBIT bits 20 0",
            "BITFIELD bits SET u8 0 5 GET u8 8",
            "BITFIELD bits SET u8 0 5",
            "BITFIELD bits SET u8 0 6 INCRBY u8 8 1 INCRBY u8 16 0",
            "BITFIELD bits SET u8 100 0",
            "BITFIELD bits OVERFLOW FAIL INCRBY u2 0 100",
            "SETRANGE range 5 x",
            "APPEND range y",
            "DEL a b none",
            "SET c 1",
            "SET d 1",
            "SWAPDB 0 1",
            "FLUSHDB",
            "SELECT 1",
            "FLUSHALL",
            "FLUSHALL",
            "SET c 1",
            "CONFIG SET save \"3600 1\"",
            "FLUSHALL",
            "SET c 1",
            "FLUSHDB",
        ] {
            let reply = client.run(command);
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
            let info = client.run("INFO persistence").text();
            let field = info.lines().find_map(|it| it.strip_prefix("rdb_changes_since_last_save:"));
            let now: i64 = field.and_then(|text| text.trim().parse().ok()).expect("a number");
            counts.push((command, now - count));
            count = now;
        }
        counts
    });
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn flushed_data_does_not_come_back() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let folder = Folder::new(flush);
        let mut server = folder.nagi(&["--save", "3600 1"]);
        let mut client = server.connect_resp();
        client.check("SET a 1", "+OK\r\n");
        client.check("SAVE", "+OK\r\n");
        client.check(flush, "+OK\r\n");
        server.signal(Signal::TERM);
        assert!(server.wait_for_exit().success());
        folder.nagi(&[]).connect_resp().check("DBSIZE", ":0\r\n");
    }
}

/// No save can be cut while keys are claimed: the reply must not wait for it.
#[test]
fn flushall_saves_afterwards_where_keys_are_claimed() {
    let server = Server::nagi_with(&["--save", "3600 1"]);
    let (mut client, mut blocked) = (server.connect_resp(), server.connect_resp());
    let saves = |client: &mut Connection| {
        let info = client.run("INFO persistence").text();
        let number = |name: &str| -> u64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
        };
        (number("rdb_bgsave_in_progress:") == 0).then(|| number("rdb_saves:"))
    };
    let before = saves(&mut client).expect("no save yet");
    for step in 0..3 {
        client.check("SET a 1", "+OK\r\n");
        match step {
            0 => {
                client.check("MULTI", "+OK\r\n");
                client.check("FLUSHALL", "+QUEUED\r\n");
                client.check("EXEC", "*1\r\n+OK\r\n");
            }
            1 => client.check("EVAL \"return redis.call('FLUSHALL')\" 0", "+OK\r\n"),
            _ => {
                blocked.send(harness::encode_command(&["BLPOP", "queue", "0"]));
                let is_blocked = || {
                    let info = client.run("INFO clients").text();
                    info.contains("blocked_clients:1\r\n").then_some(())
                };
                until("the client is blocked", is_blocked).unwrap();
                client.check("FLUSHALL", "+OK\r\n");
            }
        }
        client.check("DBSIZE", ":0\r\n");
        let is_saved =
            || saves(&mut client).filter(|count| *count == before + step + 1).map(|_| ());
        until("the save", is_saved).unwrap();
    }
    client.check("RPUSH queue x", ":1\r\n");
    blocked.expect("*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n");
}
