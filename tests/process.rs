//! nagi as a process: start, output, stop.

use crate::disks::write;
use crate::persistence::{Folder, Pipe};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use harness::{Connection, Server, nagi_binary, until};
use rustix::process::{Pid, Signal};

#[test]
fn terminating_it_ends_it_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::nagi();
        let (address, mut client) = (server.resp(), server.connect_resp());
        client.check("SET key value", "+OK\r\n");
        server.signal(signal);
        let status = server.wait_for_exit();
        assert!(status.success(), "{signal:?}: {status}\n{}", server.log());
        assert_eq!(client.rest(), b"");
        TcpListener::bind(address).expect("the port is free again");
    }
}

/// As with Redis and memcached, the server continues when its terminal or session ends.
#[test]
fn hangups_and_broken_pipes_do_not_end_the_server() {
    let mut server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    server.signal(Signal::PIPE);
    server.signal(Signal::HUP);
    let told = || server.log().contains("SIGHUP is ignored").then_some(());
    until("a line about it", told).unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    client.check("GET key", "$5\r\nvalue\r\n");
    server.connect_resp().check("PING", "+PONG\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success(), "{}", server.log());
}

#[test]
fn requests_before_the_signal_are_answered() {
    let mut server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("PING", "+PONG\r\n");
    client.send(harness::encode_command(&["INCR", "visits"]).repeat(1000));
    client.expect(":1\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    let rest = client.rest();
    let replies = String::from_utf8(rest).expect("text");
    let expected: String = (2..=1000).map(|number| format!(":{number}\r\n")).collect();
    assert!(expected.starts_with(&replies), "replies break off: {replies}");
}

#[test]
fn stopping_waits_for_no_client_that_does_not_read() {
    let mut server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SETRANGE key 99999999 x", ":100000000\r\n");
    client.send("GET key\r\n");
    client.expect("$100000000\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    let received = client.rest().len();
    assert!(received < 100_000_000, "all of the reply was sent: {received} bytes");
}

#[test]
fn the_port_of_a_process_that_was_killed_is_taken_over_at_once() {
    let mut server = Server::nagi();
    let bind = server.resp().to_string();
    for _ in 0..5 {
        let clients: Vec<Connection> = (0..20).map(|_| server.connect_resp()).collect();
        server.signal(Signal::KILL);
        server.wait_for_exit();
        server = Server::nagi_with(&["--bind", &bind, "--memcached-bind", "127.0.0.1"]);
        assert_eq!(server.resp().to_string(), bind);
        server.connect_resp().check("PING", "+PONG\r\n");
        drop(clients);
    }
}

/// With io_uring, the kernel would continue to accept clients for a process that was ended by a
/// signal.
#[test]
fn a_process_that_is_stopped_while_it_starts_ends_well_and_closes_its_port() {
    let path = std::env::temp_dir().join(format!("nagi-starting-{}.sock", std::process::id()));
    for round in 0..20 {
        let mut command = Command::new(nagi_binary());
        command.args(["serve", "--port", "0", "--memcached-port", "0", "--save", "", "--workers"]);
        // The more workers there are, the longer it takes from listening until the server is ready.
        command
            .arg("16")
            .arg("--unixsocket")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(io) = std::env::var_os("NAGI_TEST_IO") {
            command.arg("--io").arg(io);
        }
        let mut server = command.spawn().expect("starts");
        let listens = until("the socket", || UnixStream::connect(&path).ok());
        rustix::process::kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
        let status = until("its end", || server.try_wait().expect("it is ours"));
        listens.expect("it listens");
        assert_eq!(status.expect("it stops").code(), Some(0), "round {round}");
        let refused = UnixStream::connect(&path).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::NotFound), "its path is gone with it");
    }
}

#[test]
fn a_second_signal_while_it_saves_closes_its_port_and_ends_it() {
    let folder = Folder::new("second-signal");
    for _ in 0..10 {
        let mut server = folder.nagi(&["--save", "3600 1"]);
        let (address, mut client) = (server.resp(), server.connect_resp());
        // The data does not fit into the pipe, so the save continues until the other end is closed.
        write(&mut client, "key", 300);
        let pipe = Pipe::new(&folder, &server);
        server.signal(Signal::TERM);
        let _disk = pipe.open();
        server.signal(Signal::INT);
        assert_eq!(server.wait_for_exit().code(), Some(128 + 2), "{}", server.log());
        let refused = TcpStream::connect(address).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
        let log = server.log();
        assert!(log.contains("changes since the last save are lost changes=300"), "{log}");
    }
}

#[test]
fn a_stop_says_how_many_unsaved_changes_are_lost() {
    let told = |server: &Server| server.log().contains("changes since the last save are lost");
    let mut server = Server::nagi_with(&["--save", ""]);
    let mut client = server.connect_resp();
    client.check("MSET one 1 two 2", "+OK\r\n");
    client.check("DEL one", ":1\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    let log = server.log();
    assert!(log.contains("changes since the last save are lost changes=3"), "{log}");

    let folder = Folder::new("unsaved-changes");
    let mut server = folder.nagi(&["--save", "3600 1"]);
    server.connect_resp().check("SET key value", "+OK\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    assert!(!told(&server), "it has saved them: {}", server.log());
}

#[test]
fn a_background_save_that_a_stop_cancels_is_reported() {
    let folder = Folder::new("cancelled-save");
    let mut server = folder.nagi(&["--save", ""]);
    let mut client = server.connect_resp();
    // The data does not fit into the pipe, so the save continues until the other end is closed.
    write(&mut client, "key", 300);
    let pipe = Pipe::new(&folder, &server);
    client.check("BGSAVE", "+Background saving started\r\n");
    let disk = pipe.open();
    server.signal(Signal::TERM);
    let stopping = || server.log().contains("stopping; a second signal").then_some(());
    until("the stop", stopping).expect("it is told");
    drop(disk);
    assert!(server.wait_for_exit().success(), "{}", server.log());
    let log = server.log();
    let cancelled = "save cancelled: the server is stopping unsaved_changes=300";
    assert!(log.contains(cancelled), "{log}");
}

#[test]
fn a_unix_socket_takes_the_place_of_a_socket_only() {
    let folder = Folder::new("unixsocket");
    let path = folder.0.join("precious");
    fs::write(&path, "data").expect("writes");
    for option in ["--unixsocket", "--memcached-unixsocket"] {
        let mut command = Command::new(nagi_binary());
        command.args(["serve", option]).arg(&path);
        let error = Server::start_nagi(command).err().expect("it does not start");
        assert!(error.contains("not a socket") && error.contains(option), "{error}");
        assert!(error.contains("move it away, or choose another path"), "{error}");
        assert_eq!(fs::read(&path).expect("it is there"), b"data");
    }
    fs::remove_file(&path).expect("it is there");
    drop(UnixListener::bind(&path).expect("binds"));
    let mut server = folder.nagi(&["--unixsocket", path.to_str().expect("text")]);
    UnixStream::connect(&path).expect("it listens where a socket was left behind");
    fs::remove_file(&path).expect("it is there");
    fs::write(&path, "data").expect("writes");
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    assert_eq!(fs::read(&path).expect("it is not the server's file"), b"data");
}

#[test]
fn a_port_in_use_is_named_with_the_flag_that_changes_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let running = Server::nagi();
    for (flag, other, port) in [
        ("--port", "--memcached-port", taken.local_addr().expect("an address").port()),
        ("--memcached-port", "--port", taken.local_addr().expect("an address").port()),
        // Two servers that shared a port through SO_REUSEPORT would each receive half of the
        // clients.
        ("--port", "--memcached-port", running.resp().port()),
        ("--memcached-port", "--port", running.memcached_address().port()),
    ] {
        let output = Command::new(nagi_binary())
            .args(["serve", flag, &port.to_string(), other, "any"])
            .output()
            .expect("starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{flag} {port}: {error}");
        assert!(error.contains(&port.to_string()) && error.contains(flag), "{flag}: {error}");
    }
    running.connect_resp().check("PING", "+PONG\r\n");
}

#[test]
fn a_port_that_is_given_to_two_protocols_is_not_reported_as_another_servers() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("an address").port().to_string();
    drop(free);
    for option in ["--port", "--memcached-port"] {
        let output = Command::new(nagi_binary())
            .args(["serve", "--port", "any", option, &port, "--http-port", &port])
            .output()
            .expect("starts");
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("nagi: {option} and --http-port are both {port}: each protocol");
        assert!(!output.status.success() && error.contains(&expected), "{error}");
    }
}

#[test]
fn errors_name_the_flags_of_memcached_where_these_are_used() {
    let folder = Folder::new("flags");
    let file = folder.0.join("file");
    fs::write(&file, "data").expect("writes");
    let file = file.to_str().expect("text");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for (flags, advice) in [
        (["-l", "127.0.0.1", "-p", &port], "is in use; choose another port with -p (or"),
        (["-p", "any", "-l", &format!("127.0.0.1:{port}")], "another port with -l (or"),
        (["-p", "any", "-l", "nonsense"], "cannot listen on nonsense (-l): "),
        (["-p", "any", "-l", "192.0.2.1"], "(-l): "),
        (["-p", "any", "-s", file], "(-s): there is a file that is not a socket"),
        (["-p", "any", "-e", "/nonexistent/x"], "-e /nonexistent: "),
        (["-p", "0", "-U", "0"], "give one of -p, -s"),
    ] {
        let mut command = Command::new(nagi_binary());
        let output = command.arg("memcached").args(flags).output().expect("starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(advice), "{flags:?}: {error}");
        assert!(!error.contains("--"), "{flags:?}: {error}");
    }
}

#[test]
fn it_says_where_it_listens_and_how_to_stop_it() {
    let server = Server::nagi();
    server.connect_resp().check("PING", "+PONG\r\n");
    let log = server.log();
    for address in [server.resp(), server.memcached_address()] {
        assert!(log.contains(&address.to_string()), "{address} is not in: {log}");
    }
    for word in ["worker", "memory", "stop"] {
        assert!(log.to_lowercase().contains(word), "{word} is not in: {log}");
    }
    assert!(log.lines().count() <= 24, "it is more than a screen: {log}");
}

#[test]
fn the_number_of_workers_can_be_chosen() {
    for workers in ["1", "3"] {
        let server = Server::nagi_with(&["--workers", workers]);
        let mut clients: Vec<Connection> = (0..10).map(|_| server.connect_resp()).collect();
        for client in &mut clients {
            client.check("PING", "+PONG\r\n");
        }
    }
}

#[test]
fn a_wrong_argument_is_refused_with_a_hint() {
    let output =
        Command::new(nagi_binary()).args(["serve", "--prot", "1"]).output().expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("--port"), "{error}");
}

#[test]
fn a_log_that_is_not_read_keeps_no_server_from_stopping() {
    let mut server = Command::new(nagi_binary())
        .args(["serve", "--port", "any", "--memcached-port", "0", "--save", ""])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(server.stderr.take().expect("it is a pipe")).lines();
    let ready = |line: &str| line.contains("Ready to accept connections");
    assert!(lines.any(|line| ready(&line.expect("the log is text"))));
    drop(lines);
    let id = Pid::from_child(&server);
    rustix::process::kill_process(id, Signal::TERM).expect("it runs");
    let ended = until("its end", || server.try_wait().expect("it is ours"));
    if ended.is_err() {
        server.kill().expect("it is ours");
    }
    assert!(ended.expect("it stops").success());
}
