//! MONITOR: the requests of all clients, as they are executed.

use crate::memcached::binary::{encode, receive};
use harness::{Connection, Server};
use std::io::Write as _;
use std::os::unix::net::UnixStream;

/// Returns the words of the next request that a monitor receives.
fn shown(monitor: &mut Connection) -> String {
    let line = monitor.line();
    let (head, words) = line.split_once("] ").unwrap_or_else(|| panic!("{line}"));
    let (time, client) = head.split_once(" [").unwrap_or_else(|| panic!("{line}"));
    let (seconds, micros) = time.strip_prefix('+').and_then(|time| time.split_once('.')).unwrap();
    assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000 && micros.len() == 6, "{line}");
    let (database, address) = client.split_once(' ').unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    format!("{database} {words}")
}

#[test]
fn requests_are_shown_as_redis_shows_them() {
    for server in [Server::nagi(), Server::redis()] {
        let mut monitor = server.connect_resp();
        let mut client = server.connect_resp();
        monitor.check("MONITOR", "+OK\r\n");
        client.check("SET key value", "+OK\r\n");
        client.check("select 9", "+OK\r\n");
        client.send("GET \"a\\x00\\n\\\"\\\\\\xff\\a\"\r\n");
        client.expect("$-1\r\n");
        client.run("NO SUCH COMMAND");
        client.run("SET key");
        client.run("INCRBY key x");
        client.run("CONFIG GET maxmemory");
        client.run("AUTH secret");
        client.run("AUTH default secret");
        client.run("HELLO 3 AUTH default secret");
        client.run("RESET");
        for expected in [
            r#"0 "SET" "key" "value""#,
            r#"9 "select" "9""#,
            r#"9 "GET" "a\x00\n\"\\\xff\a""#,
            r#"9 "INCRBY" "key" "x""#,
            r#"9 "AUTH" "(redacted)""#,
            r#"9 "AUTH" "(redacted)" "(redacted)""#,
            r#"9 "HELLO" "3" "AUTH" "(redacted)" "(redacted)""#,
            r#"0 "RESET""#,
        ] {
            assert_eq!(shown(&mut monitor), expected);
        }
    }
}

#[test]
fn a_long_value_is_shown_and_stored() {
    let server = Server::nagi();
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    let mut client = server.connect_resp();
    let value = "v".repeat(300_000);
    client.check(&format!("SET key {value}"), "+OK\r\n");
    assert_eq!(shown(&mut monitor), format!("0 \"SET\" \"key\" \"{value}\""));
    client.check("GET key", format!("$300000\r\n{value}\r\n"));
}

#[test]
fn a_monitor_does_not_touch_keys_until_reset() {
    for server in [Server::nagi(), Server::redis()] {
        let mut monitor = server.connect_resp();
        let mut client = server.connect_resp();
        monitor.check("MONITOR", "+OK\r\n");
        let line = client.run("CLIENT LIST").text();
        assert!(line.contains(" flags=O "), "{line}");
        monitor.check("GET key", "-ERR Replica can't interact with the keyspace\r\n");
        monitor.send("*1\r\n$5\r\nRESET\r\n");
        monitor.expect("+RESET\r\n");
        client.check("SET key value", "+OK\r\n");
        monitor.check("GET key", "$5\r\nvalue\r\n");
    }
}

#[test]
fn lines_come_in_the_order_of_changes() {
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    let (clients, rounds) = (4, 500);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let mut connection = server.connect_resp();
            scope.spawn(move || {
                for round in 0..rounds {
                    connection.run(&format!("SET key {client}:{round}"));
                }
            });
        }
    });
    let mut last = String::new();
    for _ in 0..clients * rounds {
        last = shown(&mut monitor);
    }
    let value = server.connect_resp().run("GET key").text();
    assert_eq!(last, format!("0 \"SET\" \"key\" \"{value}\""));
}

#[test]
fn a_monitor_that_does_not_read_delays_no_client() {
    let server = Server::nagi();
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    let mut client = server.connect_resp();
    let value = "v".repeat(1 << 20);
    let mut sent = 0;
    while client.run("CLIENT LIST").text().contains(" flags=O ") {
        client.check(&format!("SET key {value}"), "+OK\r\n");
        sent += 1;
        assert!(sent < 400, "it is let go when enough waits for it");
    }
    assert!(sent > 50, "some may wait: {sent}");
    client.check("SET key value", "+OK\r\n");
}

#[test]
fn requests_of_memcached_are_shown_as_well() {
    let server = Server::nagi();
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    let mut text = server.connect_memcached();
    text.check_raw("set key 0 0 5\r\nva\"ue\r\n", "STORED\r\n");
    text.check_raw("get key none\r\n", "VALUE key 0 5\r\nva\"ue\r\nEND\r\n");
    text.check_raw("mg key\r\n", "HD\r\n");
    let mut binary = server.connect_memcached();
    binary.send(encode(0x01, 1, 0, &[0; 8], "key", "other"));
    assert_eq!(receive(&mut binary).status, 0);
    binary.send(encode(0x0a, 1, 0, b"", "", ""));
    assert_eq!(receive(&mut binary).status, 0);
    for expected in [
        r#"0 "set" "key" "0" "0" "5" "va\"ue""#,
        r#"0 "get" "key" "none""#,
        r#"0 "mg" "key""#,
        r#"0 "set" "key" "other""#,
        r#"0 "noop""#,
    ] {
        assert_eq!(shown(&mut monitor), expected);
    }
}

#[test]
fn requests_in_a_transaction_are_shown_in_the_database_that_they_select() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut monitor, mut client) = (server.connect_resp(), server.connect_resp());
        client.check("ACL SETUSER ann on nopass ~* +@all", "+OK\r\n");
        client.check("AUTH ann any", "+OK\r\n");
        monitor.check("MONITOR", "+OK\r\n");
        for command in ["MULTI", "SELECT 9", "GET a", "SET a 1"] {
            client.run(command);
        }
        server.connect_resp().check("ACL SETUSER ann -set", "+OK\r\n");
        client.run("EXEC");
        let expected = [r#"0 "MULTI""#, r#"9 "SELECT" "9""#, r#"9 "GET" "a""#, r#"9 "EXEC""#];
        for expected in expected {
            assert_eq!(shown(&mut monitor), expected);
        }
    }
}

#[test]
fn a_database_that_a_script_selects_is_shown() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut monitor, mut client) = (server.connect_resp(), server.connect_resp());
        monitor.check("MONITOR", "+OK\r\n");
        client.run("EVAL \"redis.call('select', 9) return redis.call('get', KEYS[1])\" 1 a");
        monitor.line();
        for expected in [r#"[9 lua] "select" "9""#, r#"[9 lua] "get" "a""#] {
            let line = monitor.line();
            assert!(line.ends_with(expected), "{line}");
        }
    }
}

#[test]
fn clients_of_a_unix_socket_are_shown_as_such() {
    let path = std::env::temp_dir().join(format!("nagi-monitor-{}.sock", std::process::id()));
    let path = path.to_str().expect("text");
    let server = Server::nagi_with(&["--unixsocket", path]);
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    let mut client = UnixStream::connect(path).expect("it listens");
    client.write_all(b"SET a 1\r\n").expect("it reads");
    assert!(monitor.line().ends_with(&format!("[0 unix:{path}] \"SET\" \"a\" \"1\"")));
    let clients = server.connect_resp().run("CLIENT LIST").text();
    let is_shown =
        |line: &str| line.contains(&format!("addr={path}:0")) && line.contains("flags=U");
    assert!(clients.lines().any(is_shown), "{clients}");
}

#[test]
fn a_transaction_with_a_script_is_shown_in_the_order_of_redis() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut monitor, mut client) = (server.connect_resp(), server.connect_resp());
        monitor.check("MONITOR", "+OK\r\n");
        for command in ["MULTI", "SET a 1", "EVAL \"return redis.call('get','a')\" 1 a", "GET a"] {
            client.run(command);
        }
        client.run("EXEC");
        for expected in [
            r#"0 "MULTI""#,
            r#"0 "SET" "a" "1""#,
            r#"0 "EVAL" "return redis.call('get','a')" "1" "a""#,
        ] {
            assert_eq!(shown(&mut monitor), expected);
        }
        assert!(monitor.line().ends_with("[0 lua] \"get\" \"a\""));
        assert_eq!(shown(&mut monitor), r#"0 "GET" "a""#);
        assert_eq!(shown(&mut monitor), r#"0 "EXEC""#);
        for command in ["PUBLISH channel x", "GET a", "EVAL \"return 1\" 0"] {
            monitor.check(command, "-ERR Replica can't interact with the keyspace\r\n");
        }
    }
}

#[test]
fn a_client_that_monitors_uses_no_keys_in_a_transaction_either() {
    const REFUSED: &str = "-ERR Replica can't interact with the keyspace";
    const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";
    for server in [Server::nagi(), Server::redis()] {
        server.connect_resp().check("SET k v", "+OK\r\n");
        let mut monitor = server.connect_resp();
        for request in ["SET k w", "GET k", "PUBLISH a b"] {
            monitor.check("MONITOR", "+OK\r\n");
            for line in ["MULTI", request, "EXEC", "RESET"] {
                monitor.send(format!("{line}\r\n"));
            }
            let mut replies = Vec::new();
            while replies.last().is_none_or(|it| it != "+RESET") {
                let line = monitor.line();
                // It also sees its own requests.
                if !line.contains('[') {
                    replies.push(line);
                }
            }
            assert_eq!(replies, ["+OK", REFUSED, ABORTED, "+RESET"], "{request}");
        }
        server.connect_resp().check("GET k", "$1\r\nv\r\n");
    }
}
