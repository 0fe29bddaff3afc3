//! Many clients at the same time.

use std::fs;

use harness::{Connection, Reply, Server, allow_open_files, encode_command, until, words};
use rustix::process::Signal;

const CLIENTS: usize = 1000;
/// More clients than the default of `maxclients` permits.
const CROWD: usize = 10_000;
/// The number of clients that connect together, whose order is not defined.
const GROUP: usize = 20;
/// Bytes that a worker may keep for the next client after a client has disconnected.
const KEPT_BYTES: u64 = 50;
/// Bytes that may count as data for each blocked client.
const WAITING_BYTES: u64 = 300;

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

/// With Redis' default backlog of 511, the remaining clients would send their SYN again a second
/// later.
#[test]
fn many_clients_may_connect_while_the_server_is_stopped() {
    allow_open_files(4096);
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux has a limit");
    let most: usize = most.trim().parse().expect("a number");
    let server = Server::nagi();
    server.signal(Signal::STOP);
    // A stopped server accepts no client, so a client for which the backlog has no room cannot
    // connect.
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

/// Both are in one test, because two such crowds at the same time would exceed the file descriptors
/// of a process.
#[test]
fn ten_thousand_wait_for_one_key_and_listen_to_one_channel() {
    allow_open_files(CROWD as u64 + 2000);
    let server = Server::nagi_with(&["--workers", "2", "--maxclients", "11000"]);
    let mut client = server.connect_resp();
    let bytes_alone = client.info::<u64>("used_memory");
    let mut crowd: Vec<Connection> = (0..CROWD).map(|_| server.connect_resp()).collect();
    served_in_the_order_of_their_coming(&mut client, &mut crowd);
    sent_one_message_each(&mut client, &mut crowd);
    gone_at_once(&mut client, crowd, bytes_alone);
}

/// One request serves half of the clients, and one request each serves the others.
fn served_in_the_order_of_their_coming(client: &mut Connection, crowd: &mut [Connection]) {
    const HALF: usize = CROWD / 2;
    for (number, group) in crowd.chunks_mut(GROUP).enumerate() {
        group.iter_mut().for_each(|other| other.send("BLPOP q 0\r\n"));
        until_info(client, "blocked_clients", ((number + 1) * GROUP) as u64);
    }
    // The last value pushed is the first of the list.
    let values: Vec<String> = (0..HALF).rev().map(|value| value.to_string()).collect();
    let push = ["LPUSH", "q"].into_iter().chain(values.iter().map(String::as_str));
    client.send(encode_command(&push.collect::<Vec<_>>()));
    client.expect(format!(":{HALF}\r\n"));
    until_info(client, "blocked_clients", HALF as u64);
    let pushes =
        (HALF..CROWD).flat_map(|value| encode_command(&words(&format!("RPUSH q {value}"))));
    client.send(pushes.collect::<Vec<u8>>());
    client.expect(":1\r\n".repeat(HALF));
    for (number, group) in crowd.chunks_mut(GROUP).enumerate() {
        let value = |other: &mut Connection| match other.reply() {
            Reply::Array(reply) => reply[1].text().parse::<usize>().expect("a value"),
            other => panic!("{other:?}"),
        };
        let mut values: Vec<usize> = group.iter_mut().map(value).collect();
        values.sort_unstable();
        let first = number * GROUP;
        assert!(values.iter().copied().eq(first..first + GROUP), "{values:?} from {first} on");
    }
    client.check("EXISTS q", ":0\r\n");
    until_info(client, "blocked_clients", 0);
}

fn sent_one_message_each(client: &mut Connection, crowd: &mut [Connection]) {
    crowd.iter_mut().for_each(|other| other.send("SUBSCRIBE c\r\n"));
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    crowd.iter_mut().for_each(|other| other.expect(confirmed));
    client.check("PUBLISH c first", format!(":{CROWD}\r\n"));
    client.check("PUBLISH c second", format!(":{CROWD}\r\n"));
    // A message that was repeated or lost would move the bytes that follow.
    let message =
        |text: &str| format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{text}\r\n", text.len());
    let messages = [message("first"), message("second")].concat();
    crowd.iter_mut().for_each(|other| other.expect(&messages));
    crowd.iter_mut().for_each(|other| other.send("UNSUBSCRIBE\r\n"));
    let confirmed = "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n";
    crowd.iter_mut().for_each(|other| other.expect(confirmed));
    client.check("PUBLISH c third", ":0\r\n");
}

/// The clients disconnect while they wait; none of their memory may remain.
fn gone_at_once(client: &mut Connection, mut crowd: Vec<Connection>, bytes_alone: u64) {
    crowd.iter_mut().for_each(|other| other.send("BLPOP q other 0\r\n"));
    until_info(client, "blocked_clients", CROWD as u64);
    assert_eq!(client.info::<u64>("total_blocking_keys"), 2);
    // The memory of blocked clients must not count as data, because it would evict entries.
    let data_bytes = client.info::<u64>("used_memory_dataset");
    assert!(data_bytes < CROWD as u64 * WAITING_BYTES, "{data_bytes} bytes of data");
    drop(crowd);
    until_info(client, "blocked_clients", 0);
    until_info(client, "connected_clients", 1);
    assert_eq!(client.info::<u64>("total_blocking_keys"), 0);
    client.check("RPUSH q 1", ":1\r\n");
    client.check("LPOP q", "$1\r\n1\r\n");
    until_memory_is_free(client, bytes_alone, CROWD as u64 * KEPT_BYTES);
}

/// Waits until the used memory is at most `kept_bytes` per client above `bytes_alone`.
pub(crate) fn until_memory_is_free(client: &mut Connection, bytes_alone: u64, kept_bytes: u64) {
    let mut bytes = 0;
    let is_little = || {
        bytes = client.info::<u64>("used_memory");
        (bytes < bytes_alone + kept_bytes).then_some(())
    };
    until("memory to be free again", is_little)
        .unwrap_or_else(|problem| panic!("{problem}: {bytes} bytes, {bytes_alone} before"));
}

fn until_info(client: &mut Connection, field: &str, value: u64) {
    let is_so = || (client.info::<u64>(field) == value).then_some(());
    until(&format!("{field} to be {value}"), is_so).expect("it becomes so");
}
