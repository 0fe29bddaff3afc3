//! Many clients at the same time.

use std::fs;

use harness::{Connection, Server, allow_open_files};
use rustix::process::Signal;

const CLIENTS: usize = 1000;

#[test]
fn a_crowd_finds_room_for_its_descriptors() {
    let server = Server::nagi_with(&["--maxclients", "5000"]);
    let slots = server.status("FDSize");
    assert!(slots >= 5000, "there is room for {slots}");
}

#[test]
fn a_thousand_clients_are_served_at_once() {
    allow_open_files(4096);
    let server = Server::nagi();
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect_resp()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(harness::encode_command(&["SET", &format!("key:{number}"), "value"]));
    }
    for client in &mut clients {
        client.expect("+OK\r\n");
    }
    for (number, client) in clients.iter_mut().enumerate().rev() {
        client.check(&format!("GET key:{number}"), "$5\r\nvalue\r\n");
    }
    clients[0].check("DBSIZE", format!(":{CLIENTS}\r\n"));
    let listed = clients[0].run("CLIENT LIST").text().lines().count();
    assert_eq!(listed, CLIENTS);
}

/// Redis' usual backlog of 511 has the others send their SYN again a second later.
#[test]
fn a_crowd_may_come_while_the_server_does_not_look() {
    allow_open_files(4096);
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux has a limit");
    let most: usize = most.trim().parse().expect("a number");
    let server = Server::nagi();
    server.signal(Signal::STOP);
    // A stopped server accepts no client, so one for which the backlog has no room never gets in.
    let mut clients: Vec<Connection> =
        (0..CLIENTS.min(most)).map(|_| server.connect_resp()).collect();
    server.signal(Signal::CONT);
    clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
}

#[test]
fn clients_of_both_protocols_come_and_go() {
    let server = Server::nagi();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..250 {
                    let key = format!("{thread}:{round}");
                    server.connect_resp().check(&format!("SET {key} 1"), "+OK\r\n");
                    let reply = format!("VALUE {key} 0 1\r\n1\r\nEND\r\n");
                    server.connect_memcached().check_raw(format!("get {key}\r\n"), reply);
                }
            });
        }
    });
    server.connect_resp().check("DBSIZE", ":1000\r\n");
}
