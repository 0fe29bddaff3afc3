//! Malformed input must only end the connection on which it was sent.

use std::net::SocketAddr;

use harness::{Connection, Random, Server, encode_command};

/// A server, and one connection to each of its ports that was opened before the malformed input.
struct Witness {
    server: Server,
    resp: Connection,
    memcached: Connection,
}

impl Witness {
    fn new() -> Self {
        let server = Server::nagi();
        let resp = server.connect_resp();
        let memcached = server.connect_memcached();
        Self { server, resp, memcached }
    }

    /// Checks that the process is running, and that old and new connections are served.
    fn check(&mut self, after: &[u8]) {
        let shown = after.get(..200.min(after.len())).unwrap_or_default().escape_ascii();
        assert!(self.server.is_running(), "the server died of {shown}");
        self.resp.check("PING", "+PONG\r\n");
        self.memcached.check_raw("get nothing\r\n", "END\r\n");
        self.server.connect_resp().check("PING", "+PONG\r\n");
        self.server.connect_memcached().check_raw("get nothing\r\n", "END\r\n");
    }

    fn ports(&self) -> [SocketAddr; 2] {
        [self.server.resp(), self.server.memcached_address()]
    }
}

/// Sends `bytes`, closes the sending direction, and returns everything that the server replied.
fn converse(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut connection = Connection::open(address);
    if connection.try_send(bytes).is_ok() {
        // The server may have closed the connection already, which is a valid reaction.
        connection.finish_sending();
    }
    connection.rest()
}

#[test]
fn malformed_resp_is_answered_with_an_error_and_a_close() {
    let mut witness = Witness::new();
    let long = [b"PING ".as_slice(), &vec![b'x'; 70_000]].concat();
    let long_count = [b"*".as_slice(), &vec![b'1'; 70_000]].concat();
    let long_length = [b"*1\r\n$".as_slice(), &vec![b'1'; 70_000]].concat();
    let cases: [(&[u8], &str); 12] = [
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*-x\r\n", "invalid multibulk length"),
        (b"*9999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n$abc\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"SET key \"unbalanced\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&long_count, "too big mbulk count string"),
        (&long_length, "too big bulk count string"),
    ];
    for (bytes, error) in cases {
        let answer = converse(witness.server.resp(), bytes);
        let expected = format!("-ERR Protocol error: {error}\r\n");
        assert_eq!(String::from_utf8_lossy(&answer), expected);
        witness.check(bytes);
    }
}

#[test]
fn malformed_memcached_lines_are_answered_with_an_error() {
    let mut witness = Witness::new();
    let long_key = format!("get {}\r\n", "k".repeat(251));
    let format = "CLIENT_ERROR bad command line format\r\n";
    let cases: [(&str, &str); 12] = [
        ("nonsense\r\n", "ERROR\r\n"),
        (" get k\r\n", "ERROR\r\n"),
        ("\r\n", format),
        ("get\r\n", format),
        ("gat 0\r\n", format),
        ("set k 0 0\r\n", format),
        ("set k x 0 1\r\nv\r\n", format),
        ("set k 0 0 -1\r\n", format),
        ("incr k\r\n", format),
        (&long_key, format),
        ("incr k x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("touch k x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ];
    for (line, expected) in cases {
        let mut connection = witness.server.connect_memcached();
        connection.check_raw(line, expected);
        witness.check(line.as_bytes());
    }
}

#[test]
fn input_that_ends_at_any_byte_is_answered_as_far_as_it_went() {
    let mut witness = Witness::new();
    let resp = [
        encode_command(&["SET", "key", "value"]),
        encode_command(&["GET", "key"]),
        b"PING\r\n".to_vec(),
        encode_command(&["DEL", "key"]),
    ];
    check_prefixes(
        witness.server.resp(),
        &resp,
        &["+OK\r\n", "$5\r\nvalue\r\n", "+PONG\r\n", ":1\r\n"],
    );
    let memcached = ["set a 0 0 1\r\nx\r\n", "get a\r\n", "incr none 1\r\n", "delete a\r\n"];
    let memcached = memcached.map(|request| request.as_bytes().to_vec());
    check_prefixes(
        witness.server.memcached_address(),
        &memcached,
        &["STORED\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n", "NOT_FOUND\r\n", "DELETED\r\n"],
    );
    witness.check(b"truncated input");
}

/// Sends every prefix of `requests`, and expects exactly the replies to its complete requests.
fn check_prefixes(address: SocketAddr, requests: &[Vec<u8>], replies: &[&str]) {
    let all = requests.concat();
    let mut ends = Vec::new();
    for request in requests {
        ends.push(ends.last().unwrap_or(&0) + request.len());
    }
    for length in 0..=all.len() {
        let complete = ends.iter().filter(|&&end| end <= length).count();
        let answer = converse(address, &all[..length]);
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, replies[..complete].concat(), "after {length} bytes");
    }
}

#[test]
fn random_bytes_harm_no_other_client() {
    let mut witness = Witness::new();
    let mut random = Random::announced();
    let pieces: [&[u8]; 14] = [
        b"*",
        b"$",
        b"\r\n",
        b"3",
        b"-1",
        b"GET",
        b"set k 0 0 5",
        b" ",
        b"\0",
        b"\"",
        b"SET",
        b"key",
        b"gets",
        b"99999999999999999999",
    ];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(40) {
            if random.below(4) == 0 {
                bytes.push(random.below(256) as u8);
            } else {
                bytes.extend_from_slice(pieces[random.below(pieces.len() as u64) as usize]);
            }
        }
        for address in witness.ports() {
            converse(address, &bytes);
        }
        witness.check(&bytes);
    }
}

#[test]
fn an_announced_value_costs_no_memory_before_it_comes() {
    let witness = Witness::new();
    let before = witness.server.resident_bytes();
    let held: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = witness.server.connect_resp();
            connection.send("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$536870912\r\nstart");
            connection
        })
        .collect();
    witness.server.connect_resp().check("PING", "+PONG\r\n");
    let grown = witness.server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{} announcements took {grown} bytes", held.len());
}

#[test]
fn a_value_beyond_memcacheds_limit_is_refused_and_its_bytes_are_skipped() {
    let mut witness = Witness::new();
    let mut connection = witness.server.connect_memcached();
    let value = vec![b'x'; 1024 * 1024 + 1];
    connection.send(format!("set big 0 0 {}\r\n", value.len()));
    connection.send(&value);
    connection.send("\r\n");
    connection.expect("SERVER_ERROR object too large for cache\r\n");
    connection.check_raw("get big\r\n", "END\r\n");
    witness.check(b"a large value");
}

#[test]
fn clients_that_leave_without_reading_harm_no_other_client() {
    let mut witness = Witness::new();
    let value = "v".repeat(100_000);
    witness.resp.check(&format!("SET large {value}"), "+OK\r\n");
    for _ in 0..50 {
        let mut connection = witness.server.connect_resp();
        connection.send(encode_command(&["GET", "large"]).repeat(100));
    }
    witness.check(b"replies that were not read");
}
