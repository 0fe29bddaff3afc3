//! The limits of clients, and the treatment of clients that exceed them.

use std::process::Command;

use crate::persistence::Folder;
use harness::{Connection, Reply, Server, encode_command, nagi_binary, until};

/// Waits until a number in INFO has this value.
fn await_info(client: &mut Connection, name: &str, value: i64) {
    until(name, || (client.info::<i64>(name) == value).then_some(())).expect("it is counted");
}

/// The length of a reply that exceeds any socket's buffer, in bytes.
const REPLY_BYTES: usize = 11 + 20_000_000 + 2;

/// Stores a value whose reply has that length.
fn store_large(client: &mut Connection) {
    client.check(&format!("SET large {}", "v".repeat(20_000_000)), "+OK\r\n");
}

#[test]
fn a_client_that_leaves_too_much_unread_is_closed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        store_large(&mut client);
        let mut reader = server.connect_resp();
        reader.send(encode_command(&["GET", "large"]));
        reader.take(REPLY_BYTES);
        client.check(r#"CONFIG SET client-output-buffer-limit "normal 1mb 0 0""#, "+OK\r\n");
        client.check("GET missing", "$-1\r\n");
        reader.send(encode_command(&["GET", "large"]));
        assert!(reader.rest().len() < REPLY_BYTES, "it is closed in the middle");
        client.check(
            "CONFIG GET client-output-buffer-limit",
            "*2\r\n$26\r\nclient-output-buffer-limit\r\n$73\r\n\
             normal 1048576 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60\r\n",
        );
    }
}

#[test]
fn a_client_that_leaves_much_unread_for_long_is_closed() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    store_large(&mut client);
    client.check(r#"CONFIG SET client-output-buffer-limit "normal 100mb 10kb 1""#, "+OK\r\n");
    let mut reader = server.connect_resp();
    reader.send(encode_command(&["GET", "large"]));
    await_info(&mut client, "client_output_buffer_limit_disconnections", 1);
    assert!(reader.rest().len() < REPLY_BYTES, "it is closed in the middle");
    let said = "closed: unread replies exceed client-output-buffer-limit";
    assert_eq!(server.log().matches(said).count(), 1);
}

#[test]
fn without_a_limit_no_client_that_reads_late_is_closed() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    store_large(&mut client);
    let mut reader = server.connect_resp();
    reader.send(encode_command(&["GET", "large"]));
    until("replies that wait", || {
        client
            .run("CLIENT LIST")
            .text()
            .lines()
            .any(|line| !line.contains(" omem=0 "))
            .then_some(())
    })
    .expect("they do not fit");
    reader.take(REPLY_BYTES);
    reader.check("PING", "+PONG\r\n");
    until("none to wait", || {
        client.run("CLIENT LIST").text().lines().all(|line| line.contains(" omem=0 ")).then_some(())
    })
    .expect("they were read");
}

#[test]
fn administrators_get_in_when_all_places_are_taken() {
    let server = Server::nagi_with(&["--maxclients", "3"]);
    // Each client is answered before the next one connects, because workers number connections that
    // arrive at the same time in any order.
    let mut clients = [(); 3].map(|()| {
        let mut client = server.connect_resp();
        client.check("PING", "+PONG\r\n");
        client
    });
    let full = "-ERR max number of clients reached\r\n";
    for request in ["PING", "GET key", "SELECT 1", "FLUSHALL", "DBSIZE"] {
        let mut another = server.connect_resp();
        another.check(request, full);
        assert_eq!(another.rest(), b"", "{request}");
    }
    let mut admin = server.connect_resp();
    assert_eq!(admin.info::<i64>("connected_clients"), 4);
    let counts = ["total_connections_received", "rejected_connections"];
    assert_eq!(counts.map(|name| admin.info::<u64>(name)), [3, 5], "each is counted once");
    admin.check("RESET", "+RESET\r\n");
    let list = admin.run("CLIENT LIST").text();
    let ids = list.split([' ', '\n']).filter_map(|field| field.strip_prefix("id="));
    // The administrator's connection takes one of the places that become free.
    for id in ids.take(2) {
        admin.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
    }
    assert_eq!(clients[0].rest(), b"");
    until("a place", || {
        let mut another = server.connect_resp();
        // The server may have closed the connection before anything is sent.
        let _ = another.try_send("PING\r\nQUIT\r\n");
        another.rest().starts_with(b"+PONG\r\n").then_some(())
    })
    .expect("the clients that were killed have left one");
    admin.check("GET key", full);
    assert_eq!(admin.rest(), b"", "it is no place for other clients");
}

#[test]
fn the_reserve_has_an_end_as_well() {
    let server = Server::nagi_with(&["--maxclients", "3"]);
    let mut clients: Vec<Connection> = (0..3 + 8).map(|_| server.connect_resp()).collect();
    clients.iter_mut().for_each(|client| assert!(client.run("CLIENT ID").integer() > 0));
    assert_eq!(server.connect_resp().rest(), b"-ERR max number of clients reached\r\n");
}

#[test]
fn a_full_server_answers_as_redis_does() {
    for server in [Server::nagi_with(&["--maxclients", "3"]), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET maxclients 3", "+OK\r\n");
        let mut others: Vec<Connection> = (0..2).map(|_| server.connect_resp()).collect();
        others.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
        until("the first connection to be gone", || {
            let mut another = server.connect_resp();
            // The server may have closed the connection before anything is sent.
            let _ = another.try_send("PING\r\n");
            (another.rest() == b"-ERR max number of clients reached\r\n").then_some(())
        })
        .expect("it is refused");
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn there_are_no_more_clients_than_descriptors() {
    const MOST: usize = 52;
    let folder = Folder::new("descriptors");
    let mut command = Command::new("sh");
    let script = format!("ulimit -n 100; exec '{}' serve \"$@\"", nagi_binary().display());
    command.args(["-c", &script, "sh", "--workers", "2", "--dir"]).arg(&folder.0);
    let server = Server::start_nagi(command).expect("starts");
    assert!(server.log().contains("maxclients is lowered from 10000 to 52"), "{}", server.log());
    let mut clients: Vec<Connection> = (0..MOST).map(|_| server.connect_resp()).collect();
    clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
    for _ in 0..100 {
        let mut more = server.connect_resp();
        // The server may have closed the connection before anything is sent.
        let _ = more.try_send("GET key\r\n");
        assert_eq!(more.rest(), b"-ERR max number of clients reached\r\n");
    }
    let first = &mut clients[0];
    first.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n52\r\n");
    first.check(
        "CONFIG SET maxclients 53",
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system \
         is not able to handle the specified number of clients, try with 52\r\n",
    );
    first.check("SAVE", "+OK\r\n");
}

/// Returns the beginning of a request whose last bytes are never sent.
fn unfinished_set(bytes: usize) -> Vec<u8> {
    let mut request = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${}\r\n", bytes + 1).into_bytes();
    request.resize(request.len() + bytes, b'v');
    request
}

#[test]
fn those_with_the_most_memory_are_closed_first() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let mut spared = server.connect_resp();
        spared.check("CLIENT NO-EVICT on", "+OK\r\n");
        spared.send(unfinished_set(9_000_000));
        let mut small = server.connect_resp();
        small.send(unfinished_set(1_000_000));
        let mut large = server.connect_resp();
        large.send(unfinished_set(5_000_000));
        until("them to arrive", || {
            let list = client.run("CLIENT LIST").text();
            let qbuf = |line: &str| {
                let field = line.split(' ').find_map(|field| field.strip_prefix("qbuf="));
                field.and_then(|field| field.parse::<u64>().ok()).unwrap_or(0)
            };
            (list.lines().map(qbuf).sum::<u64>() >= 15_000_000).then_some(())
        })
        .expect("the server takes them");
        client.check("CONFIG SET maxmemory-clients 14mb", "+OK\r\n");
        assert_eq!(large.rest(), b"");
        await_info(&mut client, "evicted_clients", 1);
        for other in [&mut small, &mut spared] {
            other.send("v\r\n");
            other.expect("+OK\r\n");
        }
        // A client that uses more than all clients may use together is closed before it has sent
        // everything.
        let mut largest = server.connect_resp();
        let _ = largest.try_send(unfinished_set(15_000_000));
        assert_eq!(largest.rest(), b"");
        client.check(
            "CONFIG SET maxmemory-clients 150%",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
             percentage argument must be less or equal to 100\r\n",
        );
        client.check(
            "CONFIG SET maxmemory-clients x",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - \
             argument must be a memory or percent value\r\n",
        );
        client.check("CONFIG SET maxmemory-clients 5%", "+OK\r\n");
        client.check(
            "CONFIG GET maxmemory-clients",
            "*2\r\n$17\r\nmaxmemory-clients\r\n$2\r\n5%\r\n",
        );
    }
}

/// The memory for names of a client, such as its watched keys, counts as the client's memory, too.
#[test]
fn clients_with_many_names_are_closed_for_their_memory() {
    const NAMES: usize = 3000;
    let names = |prefix: &str| -> Vec<String> {
        let pairs = (0..NAMES).map(|number| [prefix.to_owned(), format!("{number:012}")]);
        pairs.flatten().filter(|word| !word.is_empty()).collect()
    };
    let with = |first: &[&str], names: Vec<String>, last: &[&str]| {
        let words = first.iter().copied().chain(names.iter().map(String::as_str));
        encode_command(&words.chain(last.iter().copied()).collect::<Vec<_>>())
    };
    let server = Server::nagi();
    let mut control = server.connect_resp();
    control.check("CLIENT NO-EVICT on", "+OK\r\n");
    for (request, replies) in [
        (with(&["WATCH"], names(""), &[]), 1),
        (with(&["CLIENT", "TRACKING", "ON"], names("PREFIX"), &["BCAST"]), 1),
        (with(&["PSUBSCRIBE"], names(""), &[]), NAMES),
    ] {
        control.check("CONFIG SET maxmemory-clients 0", "+OK\r\n");
        control.check("CONFIG RESETSTAT", "+OK\r\n");
        let mut client = server.connect_resp();
        client.run("HELLO 3");
        client.send(request);
        for _ in 0..replies {
            client.reply();
        }
        control.check("CONFIG SET maxmemory-clients 200000", "+OK\r\n");
        await_info(&mut control, "evicted_clients", 1);
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn the_log_says_which_limit_it_was() {
    let server = Server::nagi_with(&["--client-query-buffer-limit", "1mb", "--timeout", "1"]);
    let mut long = server.connect_resp();
    // The server closes the connection while this is being sent.
    let _ = long.try_send(unfinished_set(3_000_000));
    long.rest();
    let mut silent = server.connect_resp();
    assert_eq!(silent.rest(), b"");
    let mut invalid = server.connect_resp();
    invalid.send("*2\r\n$3\r\nGET\r\n$536870913\r\n");
    invalid.rest();
    let log = server.log();
    for line in [
        "closed: a request exceeds client-query-buffer-limit",
        "closed: idle for longer than timeout",
        "closed: Protocol error: invalid bulk length",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}\n{log}");
    }
    assert_eq!(server.connect_resp().info::<i64>("client_query_buffer_limit_disconnections"), 1);
}

#[test]
fn clients_that_receive_invalidations_are_not_idle() {
    let server = Server::nagi_with(&["--timeout", "1"]);
    let mut tracker = server.connect_resp();
    tracker.run("HELLO 3");
    tracker.check("CLIENT TRACKING ON BCAST", "+OK\r\n");
    let mut writer = server.connect_resp();
    // One client after another that sends nothing is closed, the last one long after the tracker
    // would be.
    for _ in 0..2 {
        let mut silent = server.connect_resp();
        let clients = until("the silent client to be closed", || {
            writer.check("SET key value", "+OK\r\n");
            assert!(matches!(tracker.reply(), Reply::Push(_)));
            let clients = writer.run("CLIENT LIST").text();
            (clients.lines().count() < 3).then_some(clients)
        });
        let clients = clients.unwrap();
        assert!(clients.contains("cmd=client|tracking"), "{clients}");
        assert_eq!(silent.rest(), b"");
    }
    tracker.check("PING", "+PONG\r\n");
}

#[test]
fn readers_share_the_memory_of_a_value() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    store_large(&mut client);
    let mut readers: Vec<Connection> = (0..3).map(|_| server.connect_resp()).collect();
    for reader in &mut readers {
        reader.send(encode_command(&["GET", "large"]));
    }
    client.check("CONFIG SET maxmemory-clients 14mb", "+OK\r\n");
    /// Returns the readers in CLIENT LIST: the size of their unread replies, and the memory that
    /// each reader uses.
    fn readers_of(client: &mut Connection) -> Vec<(u64, u64)> {
        let list = client.run("CLIENT LIST").text();
        let number = |line: &str, name| {
            let field = line.split(' ').find_map(|field: &str| field.strip_prefix(name));
            field.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let of = |line: &str| (number(line, "omem="), number(line, "tot-mem="));
        list.lines().filter(|line| line.contains("cmd=get ")).map(of).collect()
    }
    let shown = until("replies to wait", || {
        let shown = readers_of(&mut client);
        Some(shown).filter(|shown| shown.iter().filter(|(unread, _)| *unread > 0).count() == 3)
    });
    for (unread, total) in shown.unwrap() {
        assert!(total >= unread, "as with Redis, tot-mem comprises omem: {total}, {unread}");
    }
    assert_eq!(client.info::<i64>("evicted_clients"), 0, "a quarter of it is the keyspace's");
    client.check("SET large other", "+OK\r\n");
    // The old value stays in memory while at least one reader is left.
    await_info(&mut client, "evicted_clients", 3);
}

/// Returns the memory that counts as data, in bytes.
fn data_bytes(client: &mut Connection) -> i64 {
    client.info::<i64>("used_memory_dataset")
}

#[test]
fn watched_or_tracked_keys_do_not_count_as_data() {
    const KEYS: usize = 4000;
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let mut other = server.connect_resp();
    other.run("HELLO 3");
    other.check("CLIENT TRACKING ON NOLOOP", "+OK\r\n");
    // Each command is called once before, because its statistics are created by the first call.
    for command in ["WATCH a", "GET a", "UNWATCH", "DEL a"] {
        other.run(command);
    }
    let before = data_bytes(&mut client);
    let name = |key: usize| format!("{key}{}", "k".repeat(1000));
    for key in 0..KEYS {
        other.run_words(&["WATCH", &name(key)]);
        other.run_words(&["GET", &name(key)]);
    }
    let during = data_bytes(&mut client) - before;
    // The names exist three times, and all of this is the client's memory.
    assert!(during < (KEYS * 400) as i64, "{during} bytes while they are watched");
    other.check("UNWATCH", "+OK\r\n");
    for key in 0..KEYS {
        other.run_words(&["SET", &name(key), "v"]);
    }
    client.check("FLUSHALL", "+OK\r\n");
    let left = || {
        let left = data_bytes(&mut client) - before;
        (left < 150_000).then_some(())
    };
    until("no table is left", left).expect("what is empty has no room");
}
