//! Clients that send without end, do not read, or end their own connection while a request of
//! theirs is under way.

use harness::{Reply, Server, encode_command, nagi_binary, until};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
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
    assert!(is_cut_off(stream, "a ".repeat(1000).as_bytes(), 4 << 20));
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

/// Runs `nagi client` with options and an action, and returns what it prints.
fn client_of(port: u16, words: &[&str]) -> String {
    let servers = format!("127.0.0.1:{port}");
    let mut command = Command::new(nagi_binary());
    let output =
        command.args(["client", "--servers", &servers]).args(words).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Only URLs of servers have passwords to hide.
#[test]
fn values_that_look_like_urls_are_stored_as_they_are() {
    let server = Server::nagi();
    let port = server.memcached_address().port();
    let value = "https://me@example.com/x?y=1";
    client_of(port, &["set", "http://medium.com/@bob", value]);
    assert_eq!(client_of(port, &["get", "http://medium.com/@bob"]), value);
    server.connect_resp().check("EXISTS http://medium.com/@bob", ":1\r\n");
}

#[test]
fn a_prefix_of_the_library_is_a_part_of_the_key() {
    let server = Server::nagi();
    let port = server.memcached_address().port();
    let like = ["--like", "libmemcached,prefix=app:"];
    client_of(port, &[&like[..], &["set", "key", "value"]].concat());
    server.connect_resp().check("GET app:key", "$5\r\nvalue\r\n");
    assert_eq!(client_of(port, &[&like[..], &["get", "key"]].concat()), "value");
}

#[test]
fn another_server_of_a_cluster_is_asked_if_one_is_dead() {
    let server = Server::nagi();
    server.connect_resp().check("SET key value", "+OK\r\n");
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (dead, port) = (dead.local_addr().expect("an address").port(), server.resp().port());
    let output = Command::new(nagi_binary())
        .args(["client", "--like", "redis-cluster", "--protocol", "resp"])
        .args(["--servers", &format!("127.0.0.1:{dead},127.0.0.1:{port}"), "get", "key"])
        .output()
        .expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "value\n", "{error}");
}

#[test]
fn passwords_may_have_quotes_and_blanks() {
    let server = Server::nagi_with(&["--requirepass=a'b' \"c"]);
    let mut client = server.connect_resp();
    let reply = client.run_words(&["AUTH", "a'b' \"c"]);
    assert_eq!(reply, Reply::Simple("OK".to_owned()));
    let folder = crate::persistence::Folder::new("quoted-user");
    let file = folder.0.join("redis.conf");
    std::fs::write(&file, "user bob on \">p w\" ~* +@all\n").expect("writes");
    let mut command = Command::new(nagi_binary());
    command.arg("serve").arg(&file);
    let server = Server::start_nagi(command).expect("it starts");
    let reply = server.connect_resp().run_words(&["AUTH", "bob", "p w"]);
    assert_eq!(reply, Reply::Simple("OK".to_owned()));
}
