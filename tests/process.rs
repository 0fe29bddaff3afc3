//! nagi as a process: how it starts, what it says, how it stops.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

#[test]
fn what_was_asked_before_the_signal_is_answered() {
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
fn nobody_is_waited_for_who_does_not_read() {
    let mut server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SETRANGE key 99999999 x", ":100000000\r\n");
    client.send("GET key\r\n");
    client.expect("$100000000\r\n");
    let asked = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success());
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
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

#[test]
fn a_port_in_use_is_named_with_the_flag_that_changes_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let running = Server::nagi();
    for (flag, other, port) in [
        ("--port", "--memcached-port", taken.local_addr().expect("an address").port()),
        ("--memcached-port", "--port", taken.local_addr().expect("an address").port()),
        // Two servers that share a port by SO_REUSEPORT would each get half of the clients.
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
fn a_log_that_nobody_reads_keeps_no_server_from_stopping() {
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
