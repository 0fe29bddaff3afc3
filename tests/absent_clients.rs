//! Clients that send without end, do not read, or end their own connection while a request of
//! theirs is under way.

use harness::{Reply, Server, encode_command, until};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a part again and again until the server closes the connection. Returns whether that took
/// less than `most` bytes.
fn is_cut_off(mut stream: TcpStream, part: &[u8], most: usize) -> bool {
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    let mut sent = 0;
    while sent < most {
        match stream.write(part) {
            Ok(bytes) => sent += bytes,
            Err(_) => return true,
        }
    }
    false
}

#[test]
fn a_blocked_client_may_not_send_without_end() {
    let server = Server::nagi_with(&["--client-query-buffer-limit", "1mb"]);
    for request in [&["BLPOP", "nothing", "0"][..], &["WAIT", "1", "0"]] {
        let mut stream = TcpStream::connect(server.resp()).expect("connects");
        stream.write_all(&encode_command(request)).expect("sends");
        let ping = encode_command(&["PING", &"x".repeat(10_000)]);
        assert!(is_cut_off(stream, &ping, 64 << 20), "{request:?}");
    }
    let info = server.connect_resp().run("INFO stats").text();
    assert!(info.contains("client_query_buffer_limit_disconnections:2\r\n"), "{info}");
}

#[test]
fn a_line_before_the_login_is_short() {
    let server = Server::nagi_with(&["--requirepass", "secret"]);
    let mut stream = TcpStream::connect(server.memcached_address()).expect("connects");
    stream.write_all(b"get ").expect("sends");
    // The kernel's queues alone take 4 MB before the server has read anything.
    assert!(is_cut_off(stream, "a ".repeat(1000).as_bytes(), 64 << 20));
}

/// A client that never reads, with a small buffer.
fn deaf(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.resp()).expect("connects");
    set_socket_recv_buffer_size(&stream, 65_536).expect("a socket");
    stream
}

#[test]
fn a_client_with_unread_replies_counts_until_it_has_read_them() {
    let server = Server::nagi_with(&["--maxclients", "2"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(30 << 20);
    assert_eq!(client.run_words(&["SET", "key", &value]).text(), "OK");
    let mut reader = deaf(&server);
    reader.write_all(b"GET key\r\nQUIT\r\n").expect("sends");
    let is_gone = || {
        let list = client.run("CLIENT LIST").text();
        (list.lines().count() == 1).then_some(())
    };
    until("the session's end", is_gone).unwrap();
    let is_counted = || {
        let mut third = TcpStream::connect(server.memcached_address()).expect("connects");
        // A client that is accepted is told nothing.
        third.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        let mut answer = [0; 5];
        third.read_exact(&mut answer).is_ok_and(|()| answer == *b"ERROR").then_some(())
    };
    until("the refusal of another client", is_counted).expect("it counts");
    let mut replies = Vec::new();
    reader.read_to_end(&mut replies).expect("the rest");
    assert!(replies.ends_with(b"\r\n+OK\r\n"), "{} bytes", replies.len());
    let is_free = || is_counted().is_none().then_some(());
    until("room for another client", is_free).expect("it has left");
}

#[test]
fn a_transaction_that_ends_its_own_connection_is_executed() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    for set in ["big1", "big2"] {
        let members = (0..100_000).map(|member| format!("{set}:{member}"));
        let words: Vec<String> =
            ["SADD".to_owned(), set.to_owned()].into_iter().chain(members).collect();
        assert_eq!(client.run_words(&words), Reply::Integer(100_000));
    }
    let mut victim = server.connect_resp();
    let id = victim.run("CLIENT ID").integer();
    let kill = format!("CLIENT KILL ID {id} SKIPME no");
    for command in ["MULTI", "SET a 1", &kill, "SUNIONSTORE union big1 big2", "SET b 2", "EXEC"] {
        victim.send(encode_command(&harness::words(command)));
    }
    let is_done = || (client.run("GET b") == Reply::Bulk(b"2".to_vec())).then_some(());
    until("the whole transaction", is_done).unwrap();
    client.check("SCARD union", ":200000\r\n");
}

/// A transaction whose client is killed is executed to its end.
#[test]
fn a_client_that_has_gone_subscribes_to_nothing() {
    let server = Server::nagi_with(&["--workers", "1", "--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    client.check("DEBUG POPULATE 200000", "+OK\r\n");
    let mut victim = server.connect_resp();
    let id = victim.run("CLIENT ID").integer();
    let kill = format!("CLIENT KILL ID {id} SKIPME no");
    victim.run("HELLO 3");
    for command in [
        "MULTI",
        &kill,
        "KEYS none*",
        "SUBSCRIBE channel",
        "PSUBSCRIBE pattern*",
        "CLIENT TRACKING ON BCAST PREFIX key:",
        "SET done 1",
        "EXEC",
    ] {
        victim.send(encode_command(&harness::words(command)));
    }
    let is_done = || (client.run("EXISTS done").integer() == 1).then_some(());
    until("the whole transaction", is_done).unwrap();
    let left = ["pubsub_clients:", "tracking_clients:", "tracking_total_prefixes:"];
    let is_over = || {
        let text = client.run("INFO").text();
        let lines = || text.lines().filter(|line| left.iter().any(|it| line.starts_with(it)));
        assert_eq!(lines().count(), left.len());
        lines().all(|line| line.ends_with(":0")).then_some(())
    };
    until("no subscriptions", is_over).unwrap();
    client.check("PUBLISH channel x", ":0\r\n");
    client.check("PUBSUB NUMPAT", ":0\r\n");
}

/// A worker that has ended takes no more messages, and the transactions of killed clients on the
/// other one publish some.
#[test]
fn messages_for_clients_that_have_gone_do_not_keep_the_server_from_stopping() {
    const CHANNELS: usize = 20_000;
    let options = ["--workers", "2", "--adaptive-workers", "no", "--save", ""];
    let events = ["--notify-keyspace-events", "KA", "--enable-debug-command", "yes"];
    let mut server = Server::nagi_with(&[&options[..], &events[..]].concat());
    let mut client = server.connect_resp();
    client.check("DEBUG POPULATE 60000", "+OK\r\n");
    let mut subscribers = [server.connect_resp(), server.connect_resp()];
    for subscriber in &mut subscribers {
        subscriber.run("HELLO 3");
        let names = (0..CHANNELS).map(|number| format!("__keyspace@0__:k{number}"));
        let words: Vec<String> = std::iter::once("SUBSCRIBE".to_owned()).chain(names).collect();
        subscriber.send(encode_command(&words));
        for _ in 0..CHANNELS {
            subscriber.reply();
        }
    }
    let mut victims = [server.connect_resp(), server.connect_resp()];
    let mut ids = Vec::new();
    for victim in &mut victims {
        ids.push(victim.run("CLIENT ID").integer());
        let mut requests = encode_command(&["MULTI"]);
        requests.extend(encode_command(&["KEYS", "none*"]).repeat(20));
        for number in 0..4 * CHANNELS {
            let key = format!("k{}", number % CHANNELS);
            requests.extend(encode_command(&["SET", &key, "value"]));
        }
        requests.extend(encode_command(&["PUBLISH", "queued", "1"]));
        victim.send(requests);
        for _ in 0..22 + 4 * CHANNELS {
            victim.reply();
        }
        victim.send(encode_command(&["EXEC"]));
    }
    for id in ids {
        client.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
    }
    client.send(encode_command(&["SHUTDOWN", "NOSAVE"]));
    assert!(server.wait_for_exit().success(), "{}", server.log());
}

#[test]
fn a_transaction_with_scripts_does_not_keep_the_server_from_stopping() {
    let mut server = Server::nagi_with(&["--save", "", "--busy-reply-threshold", "1"]);
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    for command in ["MULTI", "EVAL \"while true do end\" 0", "EVAL \"return 1\" 0"] {
        client.run(command);
    }
    client.send(encode_command(&["EXEC"]));
    crate::scripting::until_busy(&mut other);
    other.send(encode_command(&["SHUTDOWN", "NOSAVE"]));
    assert!(server.wait_for_exit().success(), "{}", server.log());
}

/// A client that reads slowly is not idle; one that reads nothing is, and is cut off.
#[test]
fn only_clients_that_read_nothing_are_idle() {
    const BYTES: usize = 30 << 20;
    let server = Server::nagi_with(&["--timeout", "2", "--workers", "1"]);
    let mut client = server.connect_resp();
    assert_eq!(client.run_words(&["SET", "key", &"v".repeat(BYTES)]).text(), "OK");
    let [mut slow, mut deaf] = [deaf(&server), deaf(&server)];
    slow.write_all(b"GET key\r\n").expect("sends");
    deaf.write_all(b"GET key\r\n").expect("sends");
    let mut part = vec![0; 256 << 10];
    let mut parts = 0;
    while client.run("CLIENT LIST").text().lines().count() == 3 {
        slow.read_exact(&mut part).expect("it is not idle");
        parts += 1;
        assert!(parts * part.len() < BYTES - (8 << 20), "no client is idle");
        client.check("SET clock x PX 100", "+OK\r\n");
        let has_passed = || (client.run("EXISTS clock").integer() == 0).then_some(());
        until("time", has_passed).unwrap();
    }
    let head = format!("${BYTES}\r\n").len() + "\r\n".len();
    slow.read_exact(&mut vec![0; BYTES + head - parts * part.len()]).expect("the rest");
    // The worker closes the connection within a few turns after it has removed the client.
    (0..10).for_each(|_| client.check("PING", "+PONG\r\n"));
    let mut received = Vec::new();
    // The connection may be reset.
    let _ = deaf.read_to_end(&mut received);
    assert!(received.len() < BYTES, "it got all {} bytes", received.len());
}
