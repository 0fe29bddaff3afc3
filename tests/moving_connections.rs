//! Connections that move to another worker, here after every request. Clients must not notice it.

use harness::{Connection, Random, Server, encode_command, until};
use std::thread;

/// Starts a server whose connections move after every request.
fn restless() -> Server {
    let server = Server::nagi_with(&["--workers", "3", "--enable-debug-command", "yes"]);
    server.connect_resp().check("DEBUG RELOCATE 1", "+OK\r\n");
    server
}

/// Returns the number of times that connections have moved.
fn moves(server: &Server) -> u64 {
    let info = server.connect_resp().run("INFO stats").text();
    let line = info.lines().find_map(|line| line.strip_prefix("relocated_connections:"));
    line.expect("it is a field").parse().expect("a number")
}

/// Returns a field of CLIENT INFO.
fn own(client: &mut Connection, field: &str) -> String {
    let info = client.run("CLIENT INFO").text();
    let words = info.split_whitespace().find_map(|word| word.strip_prefix(field));
    words.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
}

#[test]
fn requests_are_answered_while_the_connection_moves() {
    let server = restless();
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME traveller", "+OK\r\n");
    let id = own(&mut client, "id=");
    client.check("SELECT 3", "+OK\r\n");
    for number in 1..=200 {
        client.check("INCR counter", format!(":{number}\r\n"));
    }
    client.check("MULTI", "+OK\r\n");
    client.check("INCR counter", "+QUEUED\r\n");
    client.check("GET counter", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n:201\r\n$3\r\n201\r\n");
    client.check("WATCH counter", "+OK\r\n");
    let mut second = server.connect_resp();
    second.check("SELECT 3", "+OK\r\n");
    second.check("INCR counter", ":202\r\n");
    client.check("MULTI", "+OK\r\n");
    client.check("GET counter", "+QUEUED\r\n");
    client.check("EXEC", "*-1\r\n");
    assert_eq!(own(&mut client, "id="), id);
    assert_eq!(own(&mut client, "name="), "traveller");
    assert_eq!(own(&mut client, "db="), "3");
    let moves = moves(&server);
    assert!(moves > 50, "{moves} moves");
}

#[test]
fn requests_in_pieces_and_long_values_arrive_whole() {
    let server = restless();
    let mut client = server.connect_resp();
    for piece in ["*3\r\n$3\r\nSE", "T\r\n$3\r\nke", "y\r\n$5\r\nva", "lue\r", "\n"] {
        client.send(piece);
        server.connect_resp().check("PING", "+PONG\r\n");
    }
    client.expect("+OK\r\n");
    let long = "x".repeat(3_000_000);
    client.send(encode_command(&["SET", "long", &long]));
    client.expect("+OK\r\n");
    client.check("STRLEN long", ":3000000\r\n");
    client.check("GET long", format!("$3000000\r\n{long}\r\n"));
    client.check("GET key", "$5\r\nvalue\r\n");
    let mut memcached = server.connect_memcached();
    for piece in ["set pie", "ce 7 0 1", "0\r\n01234", "56789\r", "\nget piece\r\n"] {
        memcached.send(piece);
        server.connect_resp().check("PING", "+PONG\r\n");
    }
    memcached.expect("STORED\r\nVALUE piece 7 10\r\n0123456789\r\nEND\r\n");
}

#[test]
fn pipelines_are_answered_in_order() {
    let server = restless();
    let mut random = Random::announced();
    thread::scope(|scope| {
        for number in 0..8 {
            let (mut client, mut random) = (server.connect_resp(), random.fork());
            scope.spawn(move || {
                let key = format!("counter:{number}");
                let request = encode_command(&["INCR", &key]);
                let (all, mut sent, mut answered) = (request.repeat(20_000), 0, 0);
                while sent < all.len() {
                    let end = (sent + random.below(5000) as usize + 1).min(all.len());
                    client.send(&all[sent..end]);
                    sent = end;
                    while answered < sent / request.len() {
                        answered += 1;
                        client.expect(format!(":{answered}\r\n"));
                    }
                }
            });
        }
    });
    assert!(moves(&server) > 8);
}

#[test]
fn blocked_clients_subscribers_and_trackers_are_served() {
    let server = restless();
    let mut pusher = server.connect_resp();
    let mut blocked = server.connect_resp();
    let mut subscriber = server.connect_resp();
    let mut tracker = server.connect_resp();
    tracker.run("HELLO 3");
    tracker.check("CLIENT TRACKING ON", "+OK\r\n");
    for round in 0..50 {
        blocked.send(encode_command(&["BLPOP", "list", "0"]));
        let waits = || {
            let info = pusher.run("INFO clients").text();
            info.contains("blocked_clients:1\r\n").then_some(())
        };
        until("a client to wait", waits).expect("it waits");
        pusher.check(&format!("RPUSH list {round}"), ":1\r\n");
        let len = round.to_string().len();
        blocked.expect(format!("*2\r\n$4\r\nlist\r\n${len}\r\n{round}\r\n"));

        subscriber.check("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        pusher.check("PUBLISH news x", ":1\r\n");
        subscriber.expect("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
        subscriber.check("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");

        tracker.check("GET tracked", "_\r\n");
        pusher.check("SET tracked x", "+OK\r\n");
        tracker.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\ntracked\r\n");
        pusher.check("DEL tracked", ":1\r\n");
    }
}

#[test]
fn a_client_that_is_killed_while_it_moves_is_closed() {
    let server = restless();
    let mut killer = server.connect_resp();
    for _ in 0..100 {
        let mut client = server.connect_resp();
        let id = client.run("CLIENT ID").integer();
        client.send(encode_command(&["PING"]).repeat(50));
        killer.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        // The rest contains some replies and then the end of the connection.
        client.rest();
    }
    let gone = || {
        let info = killer.run("INFO clients").text();
        info.contains("connected_clients:1\r\n").then_some(())
    };
    until("all to be gone", gone).expect("they are closed");
}

#[test]
fn all_workers_serve_when_they_are_not_to_adapt() {
    let server = Server::nagi_with(&["--workers", "3"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET adaptive-workers no", "+OK\r\n");
    let all = || {
        let info = client.run("INFO server").text();
        info.contains("workers_active:3\r\n").then_some(())
    };
    until("all workers to be active", all).expect("they are");
}
