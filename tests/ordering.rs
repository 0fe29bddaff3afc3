//! Each request must be answered exactly once and in order: clients number their requests, and each
//! reply contains the number.

use harness::{Random, Server, encode_command};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// Returns requests numbered from `first`, whose replies contain the number.
fn numbered(first: usize, count: usize) -> Vec<u8> {
    (first..first + count)
        .flat_map(|number| encode_command(&["ECHO".to_owned(), number.to_string()]))
        .collect()
}

/// Returns the replies to these requests.
fn answers(first: usize, count: usize) -> Vec<u8> {
    let answer = |number: usize| {
        let digits = number.to_string();
        format!("${}\r\n{digits}\r\n", digits.len()).into_bytes()
    };
    (first..first + count).flat_map(answer).collect()
}

#[test]
fn a_hundred_thousand_requests_and_then_a_close() {
    let server = Server::nagi();
    let count = 100_000;
    let mut stream = TcpStream::connect(server.resp()).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        got
    });
    stream.write_all(&numbered(0, count)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(reading.join().unwrap() == answers(0, count));
}

#[test]
fn replies_keep_their_order_however_clients_send_and_leave() {
    let server = Server::nagi();
    let mut random = Random::announced();
    std::thread::scope(|scope| {
        for client in 0..20 {
            let mut random = random.fork();
            let address = server.resp();
            scope.spawn(move || {
                for round in 0..10 {
                    converse(TcpStream::connect(address).unwrap(), client + round, &mut random);
                }
            });
        }
    });
    server.connect_resp().check("PING", "+PONG\r\n");
}

/// Sends requests on one connection in pieces of any length. `kind` selects how the connection
/// ends.
fn converse(mut stream: TcpStream, kind: usize, random: &mut Random) {
    let count = 1 + random.below(3000) as usize;
    let requests = numbered(0, count);
    let mut writer = stream.try_clone().unwrap();
    let sizes: Vec<usize> = (0..100).map(|_| 1 + random.below(5000) as usize).collect();
    let sending = std::thread::spawn(move || {
        let mut rest = &requests[..];
        for size in sizes.into_iter().cycle() {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            if rest.is_empty() || writer.write_all(piece).is_err() {
                break;
            }
            rest = after;
        }
        if kind % 4 == 1 {
            // The connection is half-closed. The requests sent before must still be answered.
            let _ = writer.shutdown(Shutdown::Write);
        }
    });
    match kind % 4 {
        // The connection is closed with unread replies, which resets it.
        2 => drop(stream),
        // Some of the replies are read, then the connection is reset.
        3 => {
            let mut got = vec![0; answers(0, count / 2).len()];
            stream.read_exact(&mut got).unwrap();
            assert!(got == answers(0, count / 2));
            drop(stream);
        }
        kind => {
            let mut got = vec![0; answers(0, count).len()];
            stream.read_exact(&mut got).unwrap();
            assert!(got == answers(0, count));
            if kind == 1 {
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and nothing more");
            }
        }
    }
    sending.join().unwrap();
}

#[test]
fn counters_see_each_request_once() {
    let server = Server::nagi();
    let clients = 20;
    let each = 2000;
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(server.resp()).unwrap();
                stream.write_all(&encode_command(&["INCR", "counter"]).repeat(each)).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut replies = String::new();
                stream.read_to_string(&mut replies).unwrap();
                let numbers: Vec<usize> =
                    replies.lines().map(|line| line[1..].parse().unwrap()).collect();
                assert_eq!(numbers.len(), each);
                assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
            });
        }
    });
    let total = (clients * each).to_string();
    server.connect_resp().check("GET counter", format!("${}\r\n{total}\r\n", total.len()));
}
