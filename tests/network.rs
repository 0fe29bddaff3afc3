//! Slow, broken and misbehaving clients must not delay other clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{Connection, Server, allow_open_files, encode_command, nagi_binary, until};
use rustix::net::sockopt;

/// Opens a connection that may misbehave.
fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.resp()).expect("the server listens")
}

/// Closes a connection with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("sets linger");
    drop(stream);
}

/// Checks that other clients are served on old and new connections, in both protocols.
fn check_other_clients(server: &Server, witness: &mut Connection) {
    witness.check("PING", "+PONG\r\n");
    server.connect_resp().check("PING", "+PONG\r\n");
    server.connect_memcached().check_raw("mn\r\n", "MN\r\n");
}

#[test]
fn resets_at_any_point_end_only_their_own_connection() {
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let value = "v".repeat(2_000_000);
    witness.check(&format!("SET large {value}"), "+OK\r\n");
    let set = encode_command(&["SET", "other", &value]);
    let get = encode_command(&["GET", "large"]);
    for round in 0..20 {
        // The connection breaks in the middle of a request's name, length and value.
        for part in [3, 20, 40, 100_000 + round * 1000, 1_900_000] {
            let mut stream = connect(&server);
            stream.write_all(&set[..part]).expect("the server reads");
            reset(stream);
        }
        // The connection breaks in the middle of a reply, and before any of the reply has been
        // read.
        for part in [0, 5, 100_000] {
            let mut stream = connect(&server);
            stream.write_all(&get).expect("the server reads");
            stream.read_exact(&mut vec![0; part]).expect("the server replies");
            reset(stream);
        }
        check_other_clients(&server, &mut witness);
    }
    witness.check("EXISTS other", ":0\r\n");
    let alone = || (witness.info::<i64>("connected_clients") == 1).then_some(());
    until("the other clients to be gone", alone).expect("nothing is left of them");
}

#[test]
fn half_open_connections_are_answered_and_then_closed() {
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let mut streams: Vec<TcpStream> = (0..100).map(|_| connect(&server)).collect();
    for (number, stream) in streams.iter_mut().enumerate() {
        let begun = &encode_command(&["SET", "unfinished", "value"])[..10 + number % 20];
        stream.write_all(&encode_command(&["ECHO", &number.to_string()])).expect("sends");
        stream.write_all(begun).expect("sends");
        stream.shutdown(Shutdown::Write).expect("shuts down");
    }
    check_other_clients(&server, &mut witness);
    for (number, stream) in streams.iter_mut().enumerate() {
        let mut got = String::new();
        stream.read_to_string(&mut got).expect("the server closes");
        assert_eq!(got.lines().nth(1), Some(number.to_string().as_str()));
    }
    witness.check("EXISTS unfinished", ":0\r\n");
}

#[test]
fn a_hundred_thousand_commands_and_then_a_reset() {
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let mut stream = connect(&server);
    stream.write_all(&encode_command(&["INCR", "n"]).repeat(100_000)).expect("sends");
    reset(stream);
    check_other_clients(&server, &mut witness);
    let alone = || (witness.info::<i64>("connected_clients") == 1).then_some(());
    until("it to be gone", alone).expect("nothing is left of it");
    // The number of requests that arrived before the reset depends on the network.
    let count: usize = match witness.run("GET n") {
        harness::Reply::Null => 0,
        reply => reply.text().parse().expect("a number"),
    };
    assert!(count <= 100_000, "{count}");
}

#[test]
fn a_pipeline_of_a_million_commands_lets_other_clients_through() {
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let count = 1_000_000;
    let stream = connect(&server);
    let done = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = encode_command(&["INCR", "n"]).repeat(1000);
            (0..count / 1000).for_each(|_| (&stream).write_all(&request).expect("sends"));
            stream.shutdown(Shutdown::Write).expect("shuts down");
        });
        scope.spawn(|| {
            let mut replies = Vec::new();
            (&stream).read_to_end(&mut replies).expect("the server replies");
            done.store(true, Ordering::Relaxed);
            let expected: String = (1..=count).map(|number| format!(":{number}\r\n")).collect();
            assert!(replies == expected.as_bytes(), "each once, in order");
        });
        let mut served = 0;
        while !done.load(Ordering::Relaxed) {
            witness.check("PING", "+PONG\r\n");
            served += 1;
        }
        served
    });
    assert!(served >= 100, "other clients were served {served} times meanwhile");
    check_other_clients(&server, &mut witness);
}

#[test]
fn a_thousand_slow_readers_delay_no_other_client() {
    allow_open_files(4096);
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let value = "v".repeat(300_000);
    witness.check(&format!("SET large {value}"), "+OK\r\n");
    let reply = format!("${}\r\n{value}\r\n", value.len());
    let mut readers: Vec<Connection> = (0..1000).map(|_| server.connect_resp()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        // The replies exceed the buffer of a socket.
        reader.send(encode_command(&["GET", "large"]).repeat(20));
        if number % 100 == 0 {
            check_other_clients(&server, &mut witness);
        }
    }
    for _ in 0..100 {
        check_other_clients(&server, &mut witness);
    }
    for reader in readers.iter_mut().step_by(100) {
        (0..20).for_each(|_| reader.expect(&reply));
        witness.check("PING", "+PONG\r\n");
    }
    drop(readers);
    let alone = || (witness.info::<i64>("connected_clients") == 1).then_some(());
    until("the readers to be gone", alone).expect("nothing is left of them");
}

#[test]
fn bytes_that_come_one_by_one_make_whole_requests() {
    let server = Server::nagi();
    let mut witness = server.connect_resp();
    let mut slow = server.connect_resp();
    let mut slow_text = server.connect_memcached();
    let set = encode_command(&["SET", "key", "value"]);
    let text = b"set key2 0 0 5\r\nvalue\r\n";
    for at in 0..set.len().max(text.len()) {
        // Between any two bytes of the request, other clients are served.
        if let Some(byte) = set.get(at) {
            slow.send([*byte]);
        }
        if let Some(byte) = text.get(at) {
            slow_text.send([*byte]);
        }
        check_other_clients(&server, &mut witness);
    }
    slow.expect("+OK\r\n");
    slow_text.expect("STORED\r\n");
    witness.check("MGET key key2", "*2\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n");
}

#[test]
fn a_flooding_client_lets_other_clients_through() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut witness = server.connect_resp();
    let stream = connect(&server);
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = encode_command(&["INCR", "n"]).repeat(1000);
            while !stop.load(Ordering::Relaxed) {
                (&stream).write_all(&request).expect("sends");
                sent.fetch_add(1000, Ordering::Relaxed);
            }
            stream.shutdown(Shutdown::Write).expect("shuts down");
        });
        scope.spawn(|| std::io::copy(&mut &stream, &mut std::io::sink()).expect("reads"));
        let flooded = || (sent.load(Ordering::Relaxed) > 100_000).then_some(());
        until("a flood", flooded).expect("it is read");
        for _ in 0..500 {
            witness.check("PING", "+PONG\r\n");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let count = sent.load(Ordering::Relaxed).to_string();
    let counted = || (witness.run("GET n").text() == count).then_some(());
    until("all of the flood", counted).expect("nothing of it is lost");
}

#[test]
fn without_descriptors_accepting_pauses_and_continues() {
    let mut command = Command::new("bash");
    // The server inherits more open file descriptors than it expects.
    let script = format!(
        "ulimit -n 130; for _ in {{1..80}}; do exec {{fd}}</dev/null; done; exec '{}' serve \"$@\"",
        nagi_binary().display()
    );
    command.args(["-c", &script, "bash", "--workers", "2"]);
    let server = Server::start_nagi(command).expect("starts");
    let mut clients: Vec<Connection> = (0..5).map(|_| server.connect_resp()).collect();
    clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
    let began = Instant::now();
    let mut waiting: Vec<Connection> = (0..100).map(|_| server.connect_resp()).collect();
    waiting.iter_mut().for_each(|client| client.send("PING\r\n"));
    let said = "cannot accept connections";
    until("the log", || server.log().contains(said).then_some(())).expect("it says why");
    // The server waits for free descriptors through many pauses of 100 ms.
    let mut served = 0;
    while began.elapsed() < Duration::from_secs(3) {
        clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
        served += clients.len();
    }
    assert!(served >= 100, "{served}");
    let (lines, seconds) = (server.log().matches(said).count() as u64, began.elapsed().as_secs());
    assert!(lines <= seconds + 2, "{lines} lines in {seconds} s:\n{}", server.log());
    // When clients disconnect, new ones are accepted in their place.
    for mut client in waiting {
        client.expect("+PONG\r\n");
    }
    clients.iter_mut().for_each(|client| client.check("PING", "+PONG\r\n"));
    server.connect_resp().check("PING", "+PONG\r\n");
}
