//! Access control without users: passwords, protected mode, and requests that no client would send.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Instant;

use harness::{Connection, Reply, Server, encode_command, nagi_binary, skipped, tool, until};

const PASSWORD: &str = "open sesame";
const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// A nagi and a redis-server that require the password.
fn both_with_a_password() -> [Server; 2] {
    let mut redis = tool("redis-server");
    redis.args(["--requirepass", PASSWORD]);
    let redis = Server::start_redis(redis).unwrap_or_else(|problem| panic!("{problem}"));
    [Server::nagi_with(&["--requirepass", PASSWORD]), redis]
}

#[test]
fn commands_are_refused_before_the_password() {
    for server in both_with_a_password() {
        let mut client = server.connect_resp();
        for command in ["PING", "GET key", "SET key value", "INFO", "CONFIG GET *", "CLIENT ID"] {
            client.check(command, NOAUTH);
        }
        client.check("GET", "-ERR wrong number of arguments for 'get' command\r\n");
        client.check("FOO", "-ERR unknown command 'FOO', with args beginning with: \r\n");
        client.check("AUTH wrong", WRONGPASS);
        client.check("AUTH \"open sesam\"", WRONGPASS);
        client.check("AUTH someone \"open sesame\"", WRONGPASS);
        client.check("AUTH a b c", "-ERR syntax error\r\n");
        client.check("PING", NOAUTH);
        client.check("AUTH \"open sesame\"", "+OK\r\n");
        client.check("PING", "+PONG\r\n");
        // A failed login does not revoke an earlier one.
        client.check("AUTH wrong", WRONGPASS);
        client.check("PING", "+PONG\r\n");
        client.check("RESET", "+RESET\r\n");
        client.check("PING", NOAUTH);
        client.check("AUTH default \"open sesame\"", "+OK\r\n");
        client.check("PING", "+PONG\r\n");
        client.check("QUIT", "+OK\r\n");
    }
}

#[test]
fn hello_takes_the_password_as_well() {
    for server in both_with_a_password() {
        let mut client = server.connect_resp();
        let Reply::Error(refused) = client.run("HELLO 3") else {
            panic!("an unauthenticated HELLO is refused")
        };
        assert!(refused.starts_with("NOAUTH HELLO must be called with the client already"));
        client.check("HELLO 3 AUTH default wrong", WRONGPASS);
        client.check("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'\r\n");
        client.check("PING", NOAUTH);
        let greeting = client.run("HELLO 3 AUTH default \"open sesame\" SETNAME me");
        assert!(matches!(greeting, Reply::Map(_)), "{greeting:?}");
        client.check("GET nothing", "_\r\n");
        client.check("CLIENT GETNAME", "$2\r\nme\r\n");
    }
}

#[test]
fn an_unauthenticated_client_gets_little_memory() {
    for server in both_with_a_password() {
        let mut client = server.connect_resp();
        client.send("*11\r\n");
        client.expect("-ERR Protocol error: unauthenticated multibulk length\r\n");
        assert_eq!(client.rest(), b"");
        let mut client = server.connect_resp();
        client.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n");
        client.expect("-ERR Protocol error: unauthenticated bulk length\r\n");
        assert_eq!(client.rest(), b"");
        // Requests after the login in the same packet are authenticated.
        let mut client = server.connect_resp();
        let value = "v".repeat(20_000);
        let mut pipeline = encode_command(&["AUTH", PASSWORD]);
        pipeline.extend(encode_command(&["SET", "key", &value]));
        pipeline.extend(encode_command(&["DEL", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a"]));
        client.check_raw(pipeline, "+OK\r\n+OK\r\n:0\r\n");
    }
}

#[test]
fn the_password_is_changed_while_the_server_runs() {
    for server in [Server::nagi(), Server::redis()] {
        let mut first = server.connect_resp();
        first.check("CONFIG SET requirepass one", "+OK\r\n");
        first.check("CONFIG GET requirepass", "*2\r\n$11\r\nrequirepass\r\n$3\r\none\r\n");
        first.check("PING", "+PONG\r\n");
        let mut second = server.connect_resp();
        second.check("PING", NOAUTH);
        first.check("CONFIG SET requirepass two", "+OK\r\n");
        second.check("AUTH one", WRONGPASS);
        second.check("AUTH two", "+OK\r\n");
        let mut third = server.connect_resp();
        third.check("PING", NOAUTH);
        second.check("CONFIG SET requirepass \"\"", "+OK\r\n");
        third.check("PING", "+PONG\r\n");
        server.connect_resp().check("PING", "+PONG\r\n");
    }
}

/// Everything except a login must be refused, even if the request asks for no reply. After lines
/// that cannot be a login, the connection is closed without a reply.
fn check_before_login(server: &Server) {
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    for request in [
        "delete key noreply",
        "flush_all noreply",
        "verbosity 1 noreply",
        "shutdown",
        "stats settings",
        "watch",
        "lru_crawler metadump all",
        "mg key v",
        "gat 0 key",
        "incr key 1",
        "abcde",
        "set key 0 0",
        "set key 0 0 -1",
    ] {
        let client = &mut server.connect_memcached();
        for _ in 0..2 {
            client.check_raw(format!("{request}\r\n"), refused);
        }
    }
    let client = &mut server.connect_memcached();
    let malformed = "CLIENT_ERROR bad authentication token format\r\n";
    client.check_raw("set key 0 0 1 noreply\r\nx\r\n", malformed);
    for request in ["", "  ", "mn", "quit", "get", "abcd", "mg a"] {
        let client = &mut server.connect_memcached();
        client.send(format!("{request}\r\n\r\n"));
        assert_eq!(client.rest(), b"", "{request:?}");
    }
    let client = &mut server.connect_memcached();
    client.send("set key 0 0 14\r\ndefault sesameX\r\n");
    client.expect("CLIENT_ERROR bad command line termination\r\n");
}

/// A login of up to 16 KB is checked. The data after the command line of a longer one is treated as
/// another line.
fn check_long_logins(server: &Server) {
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    let client = &mut server.connect_memcached();
    let longest = format!("default {}", "x".repeat(16_000 - 8));
    let failure = "CLIENT_ERROR authentication failure\r\n";
    client.check_raw(format!("set any 0 0 16000\r\n{longest}\r\n"), failure);
    for bytes in [16_385, 1_000_000, i32::MAX - 2] {
        for end in ["", " noreply"] {
            let line = format!("set any 0 0 {bytes}{end}\r\n");
            client.check_raw(line, "CLIENT_ERROR auth token too long\r\n");
            client.check_raw("default sesame\r\n", refused);
        }
    }
    client.check_raw("add any 0 0 16385\r\n", refused);
    client.check_raw("set any 0 0 14\r\ndefault sesame\r\n", "STORED\r\n");
    let client = &mut server.connect_memcached();
    client.check_raw("set any 0 0 16385\r\n", "CLIENT_ERROR auth token too long\r\n");
    // Data without a line break within 2 KB is no line.
    client.send("x".repeat(2049));
    assert_eq!(client.rest(), b"");
}

#[test]
fn memcached_clients_log_in_by_a_set() {
    let nagi = Server::nagi_with(&["--requirepass", "sesame"]);
    assert!(nagi.log().contains("memcached clients must also log in"), "{}", nagi.log());
    let name = format!("nagi-users-{}", std::process::id());
    // The root folder of the memcached from .peers must contain its file.
    let folders = [std::env::temp_dir(), harness::root().join(".peers/sid/tmp")];
    let files = folders.map(|folder| folder.join(&name));
    for file in &files {
        let is_written = std::fs::write(file, "default:sesame\n").is_ok();
        assert!(is_written || file.starts_with(harness::root()), "writes the users");
    }
    let memcached = crate::differential::newest_memcached_with(&["-Y", &format!("/tmp/{name}")]);
    let unauthenticated = "CLIENT_ERROR unauthenticated\r\n";
    let with_file = Server::nagi_with(&["--memcached-auth-file", &files[0].to_string_lossy()]);
    with_file.connect_resp().check("PING", "+PONG\r\n");
    for server in [Some(nagi), memcached, Some(with_file)].into_iter().flatten() {
        let mut client = server.connect_memcached();
        for request in ["get key\r\n", "version\r\n", "stats\r\n", "delete key\r\n", "hello\r\n"] {
            client.check_raw(request, unauthenticated);
        }
        let failure = "CLIENT_ERROR authentication failure\r\n";
        client.check_raw("set any 0 0 12\r\ndefault open\r\n", failure);
        client.check_raw("set any 0 0 13\r\nnobody sesame\r\n", failure);
        let malformed = "CLIENT_ERROR bad authentication token format\r\n";
        client.check_raw("set any 0 0 7\r\n sesame\r\n", failure);
        client.check_raw("set any 0 0 7\r\ndefault\r\n", malformed);
        client.check_raw("get any\r\n", unauthenticated);
        check_before_login(&server);
        check_long_logins(&server);
        let long_key = "k".repeat(251);
        let unread_words =
            ["set any x y 14", "set any 0 0 14 noreply", &format!("set {long_key} 0 0 14")];
        for line in unread_words {
            let request = format!("{line}\r\ndefault sesame\r\nget any\r\n");
            server.connect_memcached().check_raw(request, "STORED\r\nEND\r\n");
        }
        client.check_raw("set any 0 0 14\r\ndefault sesame\r\n", "STORED\r\n");
        client.check_raw("get any\r\n", "END\r\n");
        client.check_raw(
            "set any 0 0 1\r\nx\r\nget any\r\n",
            "STORED\r\nVALUE any 0 1\r\nx\r\nEND\r\n",
        );
    }
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}

#[test]
fn an_unauthenticated_memcached_client_changes_nothing() {
    let server = Server::nagi();
    let mut owner = server.connect_memcached();
    owner.check_raw("set key 0 0 5\r\nvalue\r\n", "STORED\r\n");
    server.connect_resp().check("CONFIG SET requirepass sesame", "+OK\r\n");
    let mut client = server.connect_memcached();
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    client.check_raw(
        "set key 0 0 1 noreply\r\nx\r\n",
        "CLIENT_ERROR bad authentication token format\r\n",
    );
    client.check_raw("delete key noreply\r\n", refused);
    client.check_raw("flush_all noreply\r\n", refused);
    client.check_raw("set key 0 0 2000000\r\n", "CLIENT_ERROR auth token too long\r\n");
    client.check_raw("flush_all\r\n", refused);
    owner.check_raw("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
}

/// Returns an address of this machine other than loopback. Connecting a UDP socket finds it without
/// sending a packet.
pub(crate) fn outer_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn without_a_password_other_machines_are_refused() {
    let Some(outer) = outer_address() else {
        return skipped("this machine has no address but loopback");
    };
    let nagi = Server::nagi_with(&["--bind", "0.0.0.0"]);
    assert!(nagi.log().contains("only clients on loopback are served"), "{}", nagi.log());
    let outside = |address: SocketAddr| SocketAddr::new(outer, address.port());
    let inside = |address: SocketAddr| SocketAddr::from(([127, 0, 0, 1], address.port()));
    let resp = outside(nagi.resp());
    let refused = String::from_utf8(Connection::open(resp).rest()).expect("text");
    assert!(refused.starts_with("-DENIED ") && refused.ends_with("\r\n"), "{refused}");
    assert!(refused.contains("protected-mode no") && refused.contains("requirepass"), "{refused}");
    assert!(refused.contains("through the loopback interface (127.0.0.1 or ::1)"), "{refused}");
    assert_eq!(refused.lines().count(), 1);
    let memcached = outside(nagi.memcached_address());
    let refused = String::from_utf8(Connection::open(memcached).rest()).expect("text");
    assert!(refused.starts_with("SERVER_ERROR nagi is in protected mode"), "{refused}");

    let mut owner = Connection::open(inside(nagi.resp()));
    let stats = owner.run("INFO stats").text();
    assert!(
        stats.contains("rejected_connections:2\r\nrejected_by_protected_mode:2\r\n"),
        "{stats}"
    );
    owner.check("CONFIG SET protected-mode no", "+OK\r\n");
    Connection::open(resp).check("PING", "+PONG\r\n");
    Connection::open(memcached).check_raw("get a\r\n", "END\r\n");
    owner.check("CONFIG SET protected-mode yes requirepass sesame", "+OK\r\n");
    Connection::open(resp).check("PING", NOAUTH);
    Connection::open(memcached).check_raw("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
}

#[test]
fn with_the_flags_of_memcached_these_are_advised() {
    let Some(outer) = outer_address() else {
        return skipped("this machine has no address but loopback");
    };
    let mut command = Command::new(nagi_binary());
    command.args(["memcached", "-v"]);
    let nagi =
        Server::start_memcached_everywhere(command).unwrap_or_else(|fault| panic!("{fault}"));
    let outside = SocketAddr::new(outer, nagi.memcached_address().port());
    let refused = String::from_utf8(Connection::open(outside).rest()).expect("text");
    assert!(refused.starts_with("SERVER_ERROR nagi is in protected mode"), "{refused}");
    let log = nagi.log();
    let told = log.lines().find(|line| line.contains("only clients on loopback are served"));
    for text in [refused.as_str(), told.unwrap_or_else(|| panic!("{log}"))] {
        assert!(text.contains("-Y") && text.contains("-l"), "{text}");
        assert!(!text.contains("--") && !text.contains("CONFIG"), "{text}");
    }
}

#[test]
fn redis_refuses_them_with_the_same_code() {
    let Some(outer) = outer_address() else {
        return skipped("this machine has no address but loopback");
    };
    let mut redis = tool("redis-server");
    redis.args(["--protected-mode", "yes"]);
    let redis =
        Server::start_redis_bound(redis, Some(outer)).unwrap_or_else(|fault| panic!("{fault}"));
    let outside = SocketAddr::new(outer, redis.resp().port());
    assert!(Connection::open(outside).rest().starts_with(b"-DENIED "));
}

#[test]
fn clients_cannot_fill_the_log() {
    /// Many more clients than are logged in a second.
    const CLIENTS: usize = 300;
    let server = Server::nagi();
    for (request, line) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "closed: an HTTP request on the port"),
        ("*1\r\nPING\r\n", "closed: Protocol error"),
    ] {
        let start = Instant::now();
        for _ in 0..CLIENTS {
            let mut client = server.connect_resp();
            client.send(request);
            client.rest();
        }
        // A second of the log's limit begins with its first line.
        let most = 10 * (start.elapsed().as_secs() as usize + 1);
        let told = || {
            let log = server.log();
            let lines: Vec<&str> = log.lines().filter(|it| it.contains(line)).collect();
            let left_out = |it: &&str| {
                let (before, _) = it.split_once(" more lines were left out: ")?;
                before.rsplit(' ').next()?.parse::<usize>().ok()
            };
            let left_out: Vec<usize> = lines.iter().filter_map(left_out).collect();
            let written = lines.len() - left_out.len();
            let all = written + left_out.iter().sum::<usize>();
            (all == CLIENTS).then_some(written)
        };
        let written = until("lines or their number for all", told);
        let written = written.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
        assert!(written <= most, "{written} of {most}: {}", server.log());
    }
}

#[test]
fn requests_of_a_browser_are_refused_on_every_port() {
    let server = Server::nagi();
    for address in [server.resp(), server.memcached_address()] {
        for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
            let mut browser = Connection::open(address);
            browser.send(format!("{head}\r\nset key 0 0 5\r\nvalue\r\nSET key value\r\n"));
            browser.rest();
        }
    }
    let told = server.log().matches("closed: an HTTP request on the port of the Redis").count();
    assert_eq!(told, 2, "once for each connection: {}", server.log());
    let mut browser = server.connect_memcached();
    browser.send("GET / HTTP/1.1\r\nset key 0 0 5\r\nvalue\r\n");
    assert_eq!(browser.rest(), b"", "memcached closes as well");
    server.connect_resp().check("EXISTS key", ":0\r\n");
}
