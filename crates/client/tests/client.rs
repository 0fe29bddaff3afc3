//! Connections to scripted peers.
#![expect(clippy::unwrap_used, reason = "a test stops where it finds something wrong")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use nagi_client::{Address, Client, Connection, Error, Outcome, Protocol, Reply};

/// A listener and its address.
fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    (listener, address)
}

/// A connection and its other end.
fn pair(protocol: Protocol) -> (Connection, TcpStream) {
    let (listener, address) = listen();
    let connection = Connection::open(&address, protocol).unwrap();
    (connection, listener.accept().unwrap().0)
}

/// Receives until `count` outcomes have arrived or the connection fails. Returns the outcomes as
/// text.
fn receive(connection: &mut Connection, count: usize) -> Result<Vec<String>, Error> {
    let mut outcomes = Vec::new();
    let mut scratch = vec![0; 1000];
    while outcomes.len() < count {
        connection.receive(&mut scratch, |outcome| {
            outcomes.push(match outcome {
                Outcome::Done => "done".to_owned(),
                Outcome::Hit => "hit".to_owned(),
                Outcome::Miss => "miss".to_owned(),
                Outcome::Error(text) => String::from_utf8(text.to_vec()).unwrap(),
            });
        })?;
        thread::yield_now();
    }
    Ok(outcomes)
}

#[test]
fn replies_are_counted_however_they_arrive() {
    let large = [b"$100000\r\n", vec![b'x'; 100_000].as_slice(), b"\r\n"].concat();
    let replies = [b"+OK\r\n$-1\r\n", large.as_slice(), b"-ERR no\r\n", &large, b":1\r\n"].concat();
    for step in [7, 999, 1000, 1001, replies.len()] {
        let (mut connection, mut peer) = pair(Protocol::Resp);
        connection.send(b"six requests", 6).unwrap();
        let bytes = replies.clone();
        let writer = thread::spawn(move || {
            peer.read_exact(&mut [0; 12]).unwrap();
            bytes.chunks(step).for_each(|piece| peer.write_all(piece).unwrap());
            peer
        });
        let outcomes = receive(&mut connection, 6).unwrap();
        assert_eq!(outcomes, ["done", "miss", "hit", "ERR no", "hit", "done"], "{step} at a time");
        assert_eq!(connection.in_flight(), 0);
        drop(writer.join().unwrap());
        assert!(matches!(receive(&mut connection, 1), Err(Error::Closed)));
    }
}

#[test]
fn bytes_that_the_socket_has_no_room_for_are_sent_later() {
    let (mut connection, mut peer) = pair(Protocol::Memcached);
    let request = vec![b'r'; 5_000_000];
    for _ in 0..4 {
        connection.send(&request, 1).unwrap();
    }
    assert!(connection.has_unsent(), "the socket took 20 MB at once");
    let reader = thread::spawn(move || {
        let mut all = vec![0; 20_000_000];
        peer.read_exact(&mut all).unwrap();
        peer.write_all(b"STORED\r\nEND\r\nSERVER_ERROR full\r\nVALUE k 0 1\r\nv\r\nEND\r\n")
            .unwrap();
        (peer, all.iter().all(|&byte| byte == b'r'))
    });
    while connection.has_unsent() {
        connection.flush().unwrap();
        thread::yield_now();
    }
    let outcomes = receive(&mut connection, 4).unwrap();
    assert_eq!(outcomes, ["done", "miss", "SERVER_ERROR full", "hit"]);
    assert!(reader.join().unwrap().1, "the bytes are those sent");
}

#[test]
fn an_unexpected_reply_ends_the_connection() {
    for (bytes, named) in [("HTTP/1.1 400\r\n", "HTTP/1.1 400"), ("-ERR full\r\n", "ERR full")] {
        let (mut connection, mut peer) = pair(Protocol::Resp);
        peer.write_all(bytes.as_bytes()).unwrap();
        match receive(&mut connection, 1) {
            Err(Error::Protocol(text)) => assert!(text.contains(named), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_failure_to_connect_names_the_address() {
    let (listener, address) = listen();
    drop(listener);
    let error = Client::connect(&address).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    let nowhere = Address::Unix("/nonexistent/nagi".into());
    let error = Client::connect(&nowhere).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/nagi"), "{error}");
}

#[test]
fn a_command_is_answered_with_its_reply() {
    let (listener, address) = listen();
    let server = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut request = [0; 28];
        peer.read_exact(&mut request).unwrap();
        peer.write_all(b"*2\r\n$1\r\na\r\n:7\r\n+next\r\n").unwrap();
        request
    });
    let mut client = Client::connect(&address).unwrap();
    let reply = client.command(&[b"MGET", b"", b"\r\n"]).unwrap();
    assert_eq!(reply, Reply::Array(vec![Reply::Bulk(b"a".to_vec()), Reply::Integer(7)]));
    assert_eq!(client.receive().unwrap(), Reply::Simple("next".to_owned()));
    assert_eq!(&server.join().unwrap(), b"*3\r\n$4\r\nMGET\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    assert!(matches!(client.receive(), Err(Error::Closed)));
}

/// Sends `header` and then bytes without end, until the peer closes the connection.
fn endless(listener: TcpListener, header: &'static [u8]) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.read_exact(&mut [0; 4]).unwrap();
        let mut sent = peer.write(header).unwrap();
        while let Ok(bytes) = peer.write(&[b'x'; 64 * 1024]) {
            sent += bytes;
        }
        sent
    })
}

#[test]
fn a_reply_without_end_is_given_up_at_its_limit() {
    const LIMIT_BYTES: usize = 1 << 20;
    let (listener, address) = listen();
    let server = endless(listener, b"$4000000000\r\n");
    let mut client = Client::connect(&address).unwrap();
    client.set_reply_limit(LIMIT_BYTES);
    let error = client.command(&[b"GET", b"k"]).unwrap_err();
    assert!(matches!(error, Error::TooLong { limit_bytes: LIMIT_BYTES }), "{error}");
    assert!(error.to_string().contains("1048576"), "{error}");
    drop(client);
    assert!(server.join().unwrap() >= LIMIT_BYTES);

    let (listener, address) = listen();
    let server = endless(listener, b"VALUE k 0 4000000000\r\n");
    let mut connection = Connection::open(&address, Protocol::Memcached).unwrap();
    connection.set_reply_limit(LIMIT_BYTES);
    connection.send(b"get k\r\n", 1).unwrap();
    let error = receive(&mut connection, 1).unwrap_err();
    assert!(matches!(error, Error::TooLong { limit_bytes: LIMIT_BYTES }), "{error}");
    drop(connection);
    server.join().unwrap();
}
