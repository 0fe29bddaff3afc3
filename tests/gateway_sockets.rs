//! Commands over WebSockets: subscriptions that end, and the closing handshake (RFC 6455, section
//! 7).

use harness::until;

use crate::gateway::{Client, Socket, nagi};

const MASK: [u8; 4] = [9, 8, 7, 6];

/// Encodes a frame of a client, whose first byte is `head`.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    let mut frame = vec![head, 0x80 | length];
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[test]
fn a_close_frame_is_answered() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    for (payload, answer) in [
        (&b""[..], &b"\x88\x00"[..]),
        (b"\x03\xe8", b"\x88\x02\x03\xe8"),
        (b"\x03\xe9bye", b"\x88\x05\x03\xe9bye"),
    ] {
        for is_subscribed in [false, true] {
            let mut socket = Socket::open(&server, "/.json");
            if is_subscribed {
                let confirmed = r#"{"SUBSCRIBE":["subscribe","news",1]}"#;
                socket.check(r#"["SUBSCRIBE","news"]"#, confirmed);
            }
            let connection = &mut socket.0.connection;
            connection.send(frame(0x88, payload));
            assert_eq!(connection.rest(), answer, "{is_subscribed}");
        }
    }
    until("the subscriptions have ended", || {
        (redis.run("PUBSUB NUMSUB news").list()[1].integer() == 0).then_some(())
    })
    .expect("they end with their sockets");
}

#[test]
fn a_socket_that_breaks_the_protocol_is_closed_with_a_code() {
    const TOO_LONG: u64 = (64 << 20) + 1;
    let server = nagi(&[]);
    let mut too_long = vec![0x82, 0xff];
    too_long.extend(TOO_LONG.to_be_bytes());
    // The client continues to send, and must still receive the close frame.
    too_long.resize(3 << 20, 0);
    let unmasked = b"\x81\x02[]".to_vec();
    for (what, bytes, code) in [
        ("an unmasked frame", unmasked, 1002_u16),
        ("an unknown frame", frame(0x83, b""), 1002),
        ("a reserved bit", frame(0xc1, b"[]"), 1002),
        ("half a ping", frame(0x09, b""), 1002),
        ("half a code", frame(0x88, b"\x03"), 1002),
        ("a code that is never sent", frame(0x88, b"\x03\xed"), 1002),
        ("text that is not UTF-8", frame(0x81, b"\xff"), 1007),
        ("a long message", too_long, 1009),
    ] {
        let mut connection = Socket::open(&server, "/.json").0.connection;
        connection.send(bytes);
        let rest = connection.rest();
        assert_eq!(rest.first(), Some(&0x88), "{what}: {rest:?}");
        assert_eq!(rest.get(2..4), Some(&code.to_be_bytes()[..]), "{what}: {rest:?}");
    }
}

#[test]
fn drafts_are_told_the_version_of_the_standard() {
    let server = nagi(&[]);
    for version in ["8", "0", "13, 8"] {
        let headers = format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: {version}\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        let response = Client::of(&server).ask("GET", "/.json", &headers, b"");
        assert_eq!(response.status, 400, "{version}");
        assert_eq!(response.header("sec-websocket-version"), Some("13"), "{version}");
    }
}

#[test]
fn after_the_last_unsubscription_a_socket_takes_other_commands() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut socket = Socket::open(&server, "/.json");
    socket.check(r#"["SUBSCRIBE","a","b"]"#, r#"{"SUBSCRIBE":["subscribe","a",1]}"#);
    assert_eq!(socket.receive(), r#"{"SUBSCRIBE":["subscribe","b",2]}"#);
    socket.check(r#"["PSUBSCRIBE","c*"]"#, r#"{"PSUBSCRIBE":["psubscribe","c*",3]}"#);
    socket.send(r#"["GET","x"]"#);
    let refused = socket.receive();
    assert!(refused.starts_with(r#"{"GET":[false,"ERR Can't execute 'get': only"#), "{refused}");
    redis.check("PUBLISH cc y", ":1\r\n");
    assert_eq!(socket.receive(), r#"{"PSUBSCRIBE":["pmessage","c*","cc","y"]}"#);
    socket.check(r#"["UNSUBSCRIBE","b"]"#, r#"{"SUBSCRIBE":["unsubscribe","b",2]}"#);
    redis.check("PUBLISH a y", ":1\r\n");
    assert_eq!(socket.receive(), r#"{"SUBSCRIBE":["message","a","y"]}"#);
    socket.check(r#"["PING"]"#, r#"{"PING":["pong",""]}"#);
    socket.check(r#"["UNSUBSCRIBE"]"#, r#"{"SUBSCRIBE":["unsubscribe","a",1]}"#);
    socket.check(r#"["punsubscribe"]"#, r#"{"PSUBSCRIBE":["punsubscribe","c*",0]}"#);
    socket.check(r#"["GET","x"]"#, r#"{"GET":null}"#);
    socket.check(r#"["UNSUBSCRIBE"]"#, r#"{"UNSUBSCRIBE":["unsubscribe",null,0]}"#);
    socket.check(r#"["PING"]"#, r#"{"PING":[true,"PONG"]}"#);
    redis.check("PUBLISH a y", ":0\r\n");
    let mut raw = Socket::open(&server, "/.raw");
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
    raw.check("*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n", subscribed);
    let ended = "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n";
    raw.check("*1\r\n$11\r\nUNSUBSCRIBE\r\n", ended);
    raw.check("*1\r\n$6\r\nDBSIZE\r\n", ":0\r\n");
    // A plain request has no subscriptions that it could end.
    let mut client = Client::of(&server);
    assert_eq!(client.post("/UNSUBSCRIBE", "").0, 403);
    assert_eq!(client.post("/", r#"["PUNSUBSCRIBE"]"#).0, 403);
}

/// While a command waits, the socket stays alive; and replies are read while a command is sent.
#[test]
fn a_socket_reads_while_it_sends() {
    const LONG: usize = 200_000;
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let long = |byte: &str| format!(r#"["SET","k","{}"]"#, byte.repeat(LONG));
    let message = |text: &str| {
        let mut frame = vec![0x81, 0xff];
        frame.extend((text.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.bytes());
        frame
    };
    let mut socket = Socket::open(&server, "/.json");
    socket.0.connection.send(message(r#"["BLPOP","q","0"]"#));
    socket.0.connection.send(message(&long("a")));
    socket.0.connection.send(frame(0x89, b"ping"));
    socket.0.connection.expect(b"\x8a\x04ping");
    drop(socket);
    until("the client is not blocked any more", || {
        redis.run("INFO clients").text().contains("blocked_clients:0\r\n").then_some(())
    })
    .expect("its end is noticed");
    redis.run_words(&[b"SET".as_slice(), b"large", &vec![b'x'; 40 << 20]]);
    let mut socket = Socket::open(&server, "/.json");
    let connection = &mut socket.0.connection;
    for _ in 0..3 {
        connection.send(message(r#"["GET","large"]"#));
    }
    connection.send(message(&long("b")));
    for _ in 0..3 {
        let head = connection.take(10);
        assert_eq!(head[..2], [0x81, 0x7f]);
        let length = u64::from_be_bytes(head[2..].try_into().expect("eight bytes"));
        connection.take(usize::try_from(length).expect("a length"));
    }
    connection.expect(b"\x81\x13{\"SET\":[true,\"OK\"]}");
}

/// While so many replies are awaited that nothing is read, the end of the connection is noticed.
#[test]
fn a_socket_with_many_awaited_replies_ends_with_its_client() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut blocked = |count: usize| {
        let field = format!("blocked_clients:{count}\r\n");
        until("clients to block or go", || {
            redis.run("INFO clients").text().contains(&field).then_some(())
        })
    };
    let mut socket = Socket::open(&server, "/.json");
    for _ in 0..1100 {
        socket.send(r#"["BLPOP","q","0"]"#);
    }
    blocked(1).expect("the first command blocks");
    drop(socket);
    blocked(0).expect("its end is noticed");
}

/// A client assigns replies to its commands by their order.
#[test]
fn refusals_keep_the_order_of_the_commands() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut raw = Socket::open(&server, "/.raw");
    raw.send("*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n");
    raw.send("*1\r\n$6\r\nNOSUCH\r\n");
    raw.send("*1\r\n$4\r\nPING\r\n");
    raw.send("nonsense");
    let blocked = || redis.run("INFO clients").text().contains("blocked_clients:1").then_some(());
    until("the first command to block", blocked).unwrap();
    redis.check("RPUSH q x", ":1\r\n");
    assert_eq!(raw.receive(), "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    assert_eq!(raw.receive(), "-ERR unknown command\r\n");
    assert_eq!(raw.receive(), "+PONG\r\n");
    assert_eq!(raw.receive(), "-ERR the message is not a command\r\n");
}
