//! Clients that block until a key has elements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{
    Connection, Random, Reply, Server, allow_open_files, encode_command, size, until, words,
};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const TIME_IS_UP: &str = "*-1\r\n";

/// A step of a client, which is identified by its number.
enum Step {
    /// Sends a request, and receives its reply.
    Ask(usize, &'static str, &'static str),
    /// Sends a request that blocks.
    Wait(usize, &'static str),
    /// Receives the reply to a blocked request.
    Hear(usize, &'static str),
}
use Step::{Ask, Hear, Wait};

/// Waits until `count` clients are blocked.
pub(crate) fn until_blocked(client: &mut Connection, count: usize) {
    let field = format!("blocked_clients:{count}\r\n");
    let is_so = || client.run("INFO clients").text().contains(&field).then_some(());
    until("clients that wait", is_so).unwrap();
}

/// Executes the steps one after another.
fn play(server: &Server, steps: &[Step]) {
    let mut clients: Vec<Connection> = (0..5).map(|_| server.connect_resp()).collect();
    let mut observer = server.connect_resp();
    let mut waiting = Vec::new();
    for step in steps {
        match *step {
            Ask(client, request, reply) => clients[client].check(request, reply),
            Wait(client, request) => {
                clients[client].send(encode_command(&words(request)));
                waiting.push(client);
                until_blocked(&mut observer, waiting.len());
            }
            Hear(client, reply) => {
                clients[client].expect(reply);
                waiting.retain(|it| *it != client);
            }
        }
    }
}

/// Executes the steps with nagi, with several numbers of workers, and with redis-server.
fn play_as_redis(steps: &[Step]) {
    play(&Server::redis(), steps);
    for workers in ["1", "2"] {
        play(&Server::nagi_with(&["--workers", workers]), steps);
    }
}

#[test]
fn clients_do_not_wait_for_existing_elements() {
    play_as_redis(&[
        Ask(0, "RPUSH a 1 2 3 4", ":4\r\n"),
        Ask(0, "BLPOP none a 0", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        Ask(0, "BRPOP a none 0", "*2\r\n$1\r\na\r\n$1\r\n4\r\n"),
        Ask(0, "BLMOVE a b LEFT RIGHT 0", "$1\r\n2\r\n"),
        Ask(0, "BRPOPLPUSH a b 0", "$1\r\n3\r\n"),
        Ask(0, "EXISTS a", ":0\r\n"),
        Ask(0, "BLMPOP 0 2 a b LEFT COUNT 5", "*2\r\n$1\r\nb\r\n*2\r\n$1\r\n3\r\n$1\r\n2\r\n"),
        Ask(0, "SET text x", "+OK\r\n"),
        Ask(0, "BLPOP text 0", WRONG_TYPE),
        Ask(0, "BLPOP none text 0", WRONG_TYPE),
        Ask(0, "BLMOVE text a LEFT LEFT 0", WRONG_TYPE),
    ]);
}

#[test]
fn the_time_that_is_waited_is_checked() {
    let not_a_number = "-ERR timeout is not a float or out of range\r\n";
    let syntax = "-ERR syntax error\r\n";
    play_as_redis(&[
        Ask(0, "BLPOP a x", not_a_number),
        Ask(0, "BRPOP a nan", not_a_number),
        Ask(0, "BLPOP a -1", "-ERR timeout is negative\r\n"),
        Ask(0, "BLMOVE a b LEFT LEFT -0.5", "-ERR timeout is negative\r\n"),
        Ask(0, "BLMOVE a b UP LEFT x", syntax),
        Ask(0, "BRPOPLPUSH a b x", not_a_number),
        Ask(0, "BLMPOP x 1 a LEFT", not_a_number),
        Ask(0, "BLMPOP x 1 a UP", syntax),
        Ask(0, "BLMPOP 0 0 a LEFT", "-ERR numkeys should be greater than 0\r\n"),
        Ask(0, "BLMPOP 0 2 a LEFT", syntax),
        Ask(0, "BLPOP a 0.001", TIME_IS_UP),
        Ask(0, "BLMOVE a b LEFT LEFT 0.01", TIME_IS_UP),
        Ask(0, "BRPOPLPUSH a b 1e-2", TIME_IS_UP),
        Ask(0, "BLMPOP 0.01 1 a LEFT", TIME_IS_UP),
    ]);
    // Redis replies in this way since 7.0.3.
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for far in ["1e20", "inf", "9223372036854775.807"] {
        client.check(&format!("BLPOP a {far}"), "-ERR timeout is out of range\r\n");
    }
    let _ = client.run("HELLO 3");
    client.check("BLPOP a 0.001", "_\r\n");
}

#[test]
fn the_first_to_wait_is_the_first_to_be_served() {
    play_as_redis(&[
        Wait(0, "BLPOP q 0"),
        Wait(1, "BRPOP q 0"),
        Wait(2, "BLMPOP 0 2 other q LEFT COUNT 2"),
        Wait(3, "BLPOP q 0"),
        Ask(4, "RPUSH q a b c d", ":4\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\na\r\n"),
        Hear(1, "*2\r\n$1\r\nq\r\n$1\r\nd\r\n"),
        Hear(2, "*2\r\n$1\r\nq\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        Ask(4, "EXISTS q", ":0\r\n"),
        Ask(4, "LPUSH q e", ":1\r\n"),
        Hear(3, "*2\r\n$1\r\nq\r\n$1\r\ne\r\n"),
        Ask(4, "LLEN q", ":0\r\n"),
    ]);
}

#[test]
fn elements_never_stay_while_a_client_waits_for_them() {
    play_as_redis(&[
        Wait(0, "BLPOP q 0"),
        Ask(4, "MULTI", "+OK\r\n"),
        Ask(4, "RPUSH q 1", "+QUEUED\r\n"),
        Ask(4, "LLEN q", "+QUEUED\r\n"),
        Ask(4, "DEL q", "+QUEUED\r\n"),
        Ask(4, "EXEC", "*3\r\n:1\r\n:1\r\n:1\r\n"),
        Ask(4, "MULTI", "+OK\r\n"),
        Ask(4, "RPUSH q 2 3", "+QUEUED\r\n"),
        Ask(4, "LPUSH q 1", "+QUEUED\r\n"),
        Ask(4, "EXEC", "*2\r\n:2\r\n:3\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\n1\r\n"),
        Ask(4, "LRANGE q 0 -1", "*2\r\n$1\r\n2\r\n$1\r\n3\r\n"),
        Ask(4, "MULTI", "+OK\r\n"),
        Ask(4, "BLPOP none 0", "+QUEUED\r\n"),
        Ask(4, "BLMOVE none q LEFT LEFT 0", "+QUEUED\r\n"),
        Ask(4, "BLMPOP 0 1 none LEFT", "+QUEUED\r\n"),
        Ask(4, "BLPOP q 0", "+QUEUED\r\n"),
        Ask(4, "EXEC", "*4\r\n*-1\r\n$-1\r\n*-1\r\n*2\r\n$1\r\nq\r\n$1\r\n2\r\n"),
    ]);
}

#[test]
fn whatever_makes_a_list_appear_serves_waiting_clients() {
    play_as_redis(&[
        Ask(4, "RPUSH source a b c d e", ":5\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "COPY source q", ":1\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\na\r\n"),
        Ask(4, "DEL q", ":1\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "LMOVE source q LEFT LEFT", "$1\r\na\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\na\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "RPOPLPUSH source q", "$1\r\ne\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\ne\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "BLMOVE source q LEFT RIGHT 0", "$1\r\nb\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\nb\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "RENAME source q", "+OK\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\nc\r\n"),
        Ask(4, "MOVE q 1", ":1\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "SWAPDB 0 1", "+OK\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\nd\r\n"),
        Wait(0, "BLPOP q 0"),
        Ask(4, "SELECT 1", "+OK\r\n"),
        Ask(4, "RPUSH q elsewhere", ":1\r\n"),
        Ask(4, "MOVE q 0", ":1\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$9\r\nelsewhere\r\n"),
    ]);
    for server in [Server::nagi(), Server::redis()] {
        let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
        client.check("RPUSH source a", ":1\r\n");
        let Reply::Bulk(payload) = client.run("DUMP source") else { panic!("a payload") };
        other.send("BLPOP q 0\r\n");
        until_blocked(&mut client, 1);
        client.send(encode_command(&[b"RESTORE", &b"q"[..], b"0", &payload]));
        client.expect("+OK\r\n");
        other.expect("*2\r\n$1\r\nq\r\n$1\r\na\r\n");
        // The same, with more elements than are pushed at once.
        other.send("BRPOP q 0\r\n");
        until_blocked(&mut client, 1);
        let many: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
        let words = ["RPUSH", "q"].into_iter().chain(many.iter().map(String::as_str));
        client.send(encode_command(&words.collect::<Vec<_>>()));
        client.expect(":5000\r\n");
        other.expect("*2\r\n$1\r\nq\r\n$4\r\n4999\r\n");
        client.check("LLEN q", ":4999\r\n");
    }
}

#[test]
fn an_element_that_is_moved_serves_a_client_at_its_destination() {
    play_as_redis(&[
        Wait(0, "BLMOVE a b LEFT RIGHT 0"),
        Wait(1, "BLMOVE b c LEFT LEFT 0"),
        Wait(2, "BLPOP c 0"),
        Ask(4, "RPUSH a 1 2", ":2\r\n"),
        Hear(0, "$1\r\n1\r\n"),
        Hear(1, "$1\r\n1\r\n"),
        Hear(2, "*2\r\n$1\r\nc\r\n$1\r\n1\r\n"),
        Ask(4, "LRANGE a 0 -1", "*1\r\n$1\r\n2\r\n"),
        Ask(4, "EXISTS b c", ":0\r\n"),
        Wait(0, "BRPOPLPUSH self self 0"),
        Ask(4, "RPUSH self 1 2", ":2\r\n"),
        Hear(0, "$1\r\n2\r\n"),
        Ask(4, "LRANGE self 0 -1", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n"),
        Wait(0, "BLMOVE x text LEFT LEFT 0"),
        Wait(1, "BLPOP x 0"),
        Ask(4, "SET text x", "+OK\r\n"),
        Ask(4, "RPUSH x 1", ":1\r\n"),
        Hear(0, WRONG_TYPE),
        Hear(1, "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"),
    ]);
}

#[test]
fn values_of_other_types_are_waited_out() {
    play_as_redis(&[
        Wait(0, "BLPOP q 0"),
        Ask(4, "SET q x", "+OK\r\n"),
        Ask(4, "DEL q", ":1\r\n"),
        Ask(4, "HSET q f v", ":1\r\n"),
        Ask(4, "DEL q", ":1\r\n"),
        Ask(4, "RPUSH q 1", ":1\r\n"),
        Hear(0, "*2\r\n$1\r\nq\r\n$1\r\n1\r\n"),
    ]);
    // Since 7.2, a client that is served checks all of its keys again, in its own order.
    play(
        &Server::nagi(),
        &[
            Wait(0, "BLPOP x y 0"),
            Ask(4, "SET x text", "+OK\r\n"),
            Ask(4, "LPUSH y 1", ":1\r\n"),
            Hear(0, WRONG_TYPE),
            Ask(4, "LLEN y", ":1\r\n"),
            Ask(4, "FLUSHALL", "+OK\r\n"),
            Wait(0, "BLPOP x y 0"),
            Ask(4, "MULTI", "+OK\r\n"),
            Ask(4, "LPUSH y 1", "+QUEUED\r\n"),
            Ask(4, "LPUSH x 2", "+QUEUED\r\n"),
            Ask(4, "EXEC", "*2\r\n:1\r\n:1\r\n"),
            Hear(0, "*2\r\n$1\r\nx\r\n$1\r\n2\r\n"),
        ],
    );
}

#[test]
fn members_of_sorted_sets_are_waited_for() {
    play_as_redis(&[
        Ask(0, "ZADD z 1 a 2 b 3 c 4 d", ":4\r\n"),
        Ask(0, "BZPOPMIN none z 0", "*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n"),
        Ask(0, "BZPOPMAX z none 0", "*3\r\n$1\r\nz\r\n$1\r\nd\r\n$1\r\n4\r\n"),
        Ask(
            0,
            "BZMPOP 0 2 none z MIN COUNT 9",
            "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n",
        ),
        Ask(0, "EXISTS z", ":0\r\n"),
        Ask(0, "BZPOPMIN z 0.001", TIME_IS_UP),
        Ask(0, "BZMPOP 0.001 1 z MAX", TIME_IS_UP),
        Ask(0, "BZMPOP x 1 z MAX", "-ERR timeout is not a float or out of range\r\n"),
        Ask(0, "BZMPOP x 1 z UP", "-ERR syntax error\r\n"),
        Ask(0, "BZMPOP 0 0 z MIN", "-ERR numkeys should be greater than 0\r\n"),
        Ask(0, "BZMPOP 0 1 z MIN COUNT 0", "-ERR count should be greater than 0\r\n"),
        Ask(0, "SET text x", "+OK\r\n"),
        Ask(0, "BZPOPMAX none text 0", WRONG_TYPE),
        Wait(0, "BZPOPMIN z 0"),
        Wait(1, "BZPOPMAX other z 0"),
        Wait(2, "BZMPOP 0 1 z MAX COUNT 2"),
        Ask(4, "RPUSH z a list", ":2\r\n"),
        Ask(4, "DEL z", ":1\r\n"),
        Ask(4, "ZADD z 1 a 2 b 3 c 4 d 5 e", ":5\r\n"),
        Hear(0, "*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n"),
        Hear(1, "*3\r\n$1\r\nz\r\n$1\r\ne\r\n$1\r\n5\r\n"),
        Hear(2, "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nd\r\n$1\r\n4\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        Ask(4, "ZRANGE z 0 -1", "*1\r\n$1\r\nb\r\n"),
        Ask(4, "MULTI", "+OK\r\n"),
        Ask(4, "BZPOPMIN none 0", "+QUEUED\r\n"),
        Ask(4, "BZMPOP 0 1 none MIN", "+QUEUED\r\n"),
        Ask(4, "EXEC", "*2\r\n*-1\r\n*-1\r\n"),
        Wait(0, "BZPOPMIN union 0"),
        Ask(4, "ZUNIONSTORE union 1 z", ":1\r\n"),
        Hear(0, "*3\r\n$5\r\nunion\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        Ask(4, "DEL z", ":1\r\n"),
        Wait(0, "BZPOPMIN z 0"),
        Ask(4, "ZADD y 9 i", ":1\r\n"),
        Ask(4, "RENAME y z", "+OK\r\n"),
        Hear(0, "*3\r\n$1\r\nz\r\n$1\r\ni\r\n$1\r\n9\r\n"),
        Wait(0, "BZPOPMIN earth 0"),
        Ask(4, "GEOADD earth 13.361389 38.115556 Palermo", ":1\r\n"),
        Hear(0, "*3\r\n$5\r\nearth\r\n$7\r\nPalermo\r\n$16\r\n3479099956230698\r\n"),
    ]);
    let server = Server::nagi();
    let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
    let _ = other.run("HELLO 3");
    other.send("BZPOPMIN z 0\r\n");
    until_blocked(&mut client, 1);
    client.check("ZADD z 1.5 a", ":1\r\n");
    other.expect("*3\r\n$1\r\nz\r\n$1\r\na\r\n,1.5\r\n");
    // More elements than are taken at once.
    other.send("BZMPOP 0 1 z MIN COUNT 1000\r\n");
    until_blocked(&mut client, 1);
    let many: String = (0..1001).map(|number| format!(" {number} m{number}")).collect();
    client.check(&format!("ZADD z{many}"), ":1001\r\n");
    let (reply, replies) = (other.reply(), 1000);
    assert_eq!(reply.list()[1].list().len(), replies);
    client.check("ZRANGE z 0 -1", "*1\r\n$5\r\nm1000\r\n");
}

#[test]
fn another_client_ends_a_wait() {
    for server in [Server::nagi(), Server::redis()] {
        let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
        let id = other.run("CLIENT ID").integer();
        client.check(&format!("CLIENT UNBLOCK {id}"), ":0\r\n");
        for (reason, reply) in [
            ("", TIME_IS_UP),
            (" timeout", TIME_IS_UP),
            (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ] {
            other.send("BLPOP a b 0\r\nPING\r\n");
            until_blocked(&mut client, 1);
            let line = client.run(&format!("CLIENT LIST ID {id}")).text();
            assert!(line.contains(" flags=b ") && line.contains(" cmd=blpop "), "{line}");
            client.check(&format!("CLIENT UNBLOCK {id}{reason}"), ":1\r\n");
            other.expect(reply);
            other.expect("+PONG\r\n");
            until_blocked(&mut client, 0);
            client.check(&format!("CLIENT UNBLOCK {id}{reason}"), ":0\r\n");
            client.check("RPUSH a 1", ":1\r\n");
            client.check("LPOP a", "$1\r\n1\r\n");
        }
    }
}

/// Since 7.2, a request that was blocked is refused like others while memory is short.
#[test]
fn without_memory_no_element_is_moved_for_blocked_clients() {
    let server = Server::nagi();
    let [mut moves, mut pops, mut other] = [(); 3].map(|()| server.connect_resp());
    other.check("RPUSH full 1 2", ":2\r\n");
    // Small data alone may count as nothing: memory is added up in steps.
    other.run_words(&["SET", "large", &"x".repeat(1 << 20)]);
    moves.send(encode_command(&words("BLMOVE from to LEFT LEFT 0")));
    until_blocked(&mut other, 1);
    pops.send(encode_command(&words("BLPOP from 0")));
    until_blocked(&mut other, 2);
    other.check("CONFIG SET maxmemory 1", "+OK\r\n");
    other.check("RENAME full from", "+OK\r\n");
    moves.expect("-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    pops.expect("*2\r\n$4\r\nfrom\r\n$1\r\n1\r\n");
    other.check("LRANGE from 0 -1", "*1\r\n$1\r\n2\r\n");
    other.check("EXISTS to", ":0\r\n");
}

/// Timeouts must hold even if the clocks of the threads differ.
#[test]
fn no_wait_exceeds_its_timeout() {
    let server = Server::nagi_with(&["--workers", "4"]);
    thread::scope(|scope| {
        for number in 0..16 {
            let mut client = server.connect_resp();
            scope.spawn(move || {
                let request = format!("BLPOP none{number} 0.001");
                (0..300).for_each(|_| client.check(&request, TIME_IS_UP));
            });
        }
    });
}

#[test]
fn a_wait_that_ends_with_an_error_has_failed() {
    let server = Server::nagi();
    let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
    let id = other.run("CLIENT ID").integer();
    for (reason, reply) in
        [("TIMEOUT", TIME_IS_UP), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
    {
        other.send("BLPOP a 0\r\n");
        until_blocked(&mut client, 1);
        client.check(&format!("CLIENT UNBLOCK {id} {reason}"), ":1\r\n");
        other.expect(reply);
    }
    let counted = client.run("INFO commandstats").text();
    let blpop = counted.lines().find(|line| line.starts_with("cmdstat_blpop:"));
    let blpop = blpop.expect("BLPOP was called");
    assert!(blpop.contains(":calls=2,"), "{blpop}");
    assert!(blpop.ends_with(",rejected_calls=0,failed_calls=1"), "{blpop}");
}

/// The client may have sent more after its request, and may close one direction or both.
#[test]
fn a_client_that_disconnects_while_it_waits_receives_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for after in ["", "PING\r\n", &"SET key value\r\n".repeat(100)] {
        for ends_one_direction in [true, false] {
            let mut other = server.connect_resp();
            other.send(format!("BLPOP q 0\r\n{after}"));
            until_blocked(&mut client, 1);
            if ends_one_direction {
                other.finish_sending();
            } else {
                drop(other);
            }
            until_blocked(&mut client, 0);
            client.check("RPUSH q 1", ":1\r\n");
            client.check("LPOP q", "$1\r\n1\r\n");
        }
    }
    let mut other = server.connect_resp();
    let id = other.run("CLIENT ID").integer();
    other.send("BLPOP q 0\r\n");
    until_blocked(&mut client, 1);
    client.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
    client.check("RPUSH q 1", ":1\r\n");
    client.check("LLEN q", ":1\r\n");
    client.check("EXISTS key", ":0\r\n");
}

/// Requests that a client sends after a blocking request, in any amount, are executed after it.
#[test]
fn requests_after_one_that_blocks_are_executed_after_it() {
    let server = Server::nagi();
    let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
    let requests = 100_000;
    let mut sent = b"BLPOP q 0\r\n".to_vec();
    sent.extend("INCR n\r\n".repeat(requests).bytes());
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            other.send(&sent);
            other.expect("*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
            (1..=requests).for_each(|number| other.expect(format!(":{number}\r\n")));
        });
        until_blocked(&mut client, 1);
        client.check("EXISTS n", ":0\r\n");
        client.check("RPUSH q x", ":1\r\n");
        sender.join().unwrap();
    });
}

#[test]
fn a_wait_does_not_count_as_slow() {
    let server = Server::nagi_with(&["--slowlog-log-slower-than", "100000"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-total-slower-than 100000", "+OK\r\n");
    client.check("BLPOP q 0.3", TIME_IS_UP);
    client.check("SLOWLOG LEN", ":0\r\n");
}

/// Many clients that wait for one key disconnect at once, and one element is moved through a chain
/// of clients, each of which moves it on.
#[test]
fn many_clients_wait() {
    // Both groups together stay below the process' limit of file descriptors.
    let count = size(3000, 9500);
    allow_open_files(2 * count as u64 + 500);
    let most = (2 * count + 100).to_string();
    let server = Server::nagi_with(&["--workers", "2", "--maxclients", &most]);
    let mut client = server.connect_resp();
    let crowd = |request: &str| -> Vec<Connection> {
        let connect = |_| {
            let mut other = server.connect_resp();
            other.send(encode_command(&words(request)));
            other
        };
        (0..count).map(connect).collect()
    };
    let crowd_that_leaves = crowd("BLPOP a 0");
    until_blocked(&mut client, count);
    drop(crowd_that_leaves);
    until_blocked(&mut client, 0);
    client.check("RPUSH a 1", ":1\r\n");
    client.check("LPOP a", "$1\r\n1\r\n");
    let there = crowd("BLMOVE a b LEFT RIGHT 0");
    let back = crowd("BLMOVE b a LEFT RIGHT 0");
    until_blocked(&mut client, 2 * count);
    client.check("RPUSH a 1", ":1\r\n");
    there.into_iter().chain(back).for_each(|mut other| other.expect("$1\r\n1\r\n"));
    client.check("LRANGE a 0 -1", "*1\r\n$1\r\n1\r\n");
    client.check("EXISTS b", ":0\r\n");
}

/// Many producers and consumers, and a client that moves elements from list to list.
#[test]
fn no_element_is_lost_or_received_twice() {
    const ELEMENTS: usize = 2000;
    let server = Server::nagi_with(&["--workers", "3"]);
    let mut random = Random::announced();
    let randoms = [(); 4].map(|()| random.fork());
    let is_over = AtomicBool::new(false);
    let mut taken: Vec<String> = thread::scope(|scope| {
        let (server, is_over) = (&server, &is_over);
        let consumers =
            [0, 1, 2, 3].map(|number| scope.spawn(move || consume(server, number, is_over)));
        let producers: Vec<_> = (0..)
            .zip(randoms)
            .map(|(number, random)| scope.spawn(move || produce(server, number, ELEMENTS, random)))
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    let mut client = server.connect_resp();
    for queue in ["q0", "q1", "q2"] {
        taken.extend(client.run(&format!("LRANGE {queue} 0 -1")).list().iter().map(Reply::text));
    }
    let count = taken.len();
    taken.sort();
    taken.dedup();
    assert_eq!((count, taken.len()), (4 * ELEMENTS, 4 * ELEMENTS));
    until_blocked(&mut client, 0);
}

fn produce(server: &Server, number: usize, elements: usize, mut random: Random) {
    let mut client = server.connect_resp();
    for element in 0..elements {
        let push = format!("RPUSH q{} {number}:{element}", random.below(3));
        match random.below(4) {
            0 => {
                client.check("MULTI", "+OK\r\n");
                client.check(&push, "+QUEUED\r\n");
                let _ = client.run("EXEC");
            }
            1 => {
                client.check(&push.replace(" q", &format!(" own{number}q")), ":1\r\n");
                let (_, queue) = push.split_once(' ').unwrap();
                let queue = queue.split(' ').next().unwrap();
                let _ = client.run(&format!("LMOVE own{number}{queue} {queue} LEFT RIGHT"));
            }
            _ => drop(client.run(&push)),
        }
    }
}

/// Takes elements until none has arrived for a while and no more will arrive.
fn consume(server: &Server, number: usize, is_over: &AtomicBool) -> Vec<String> {
    let mut client = server.connect_resp();
    let mut taken = Vec::new();
    loop {
        let request = match number {
            0 => "BLMOVE q1 q0 LEFT RIGHT 0.05",
            1 => "BLMPOP 0.05 3 q2 q1 q0 LEFT COUNT 2",
            _ => "BRPOP q0 q1 q2 0.05",
        };
        let reply = client.run(request);
        match &reply {
            Reply::Array(items) => match &items[1] {
                Reply::Array(elements) => taken.extend(elements.iter().map(Reply::text)),
                element => taken.push(element.text()),
            },
            Reply::Bulk(_) => {}
            _ if is_over.load(Ordering::Relaxed) => return taken,
            _ => {}
        }
    }
}

/// Clients that move elements end in several ways: they or other clients close their connections
/// while they wait or are served, and some are unblocked.
#[test]
fn no_end_of_a_client_that_moves_elements_loses_or_doubles_one() {
    const ELEMENTS: usize = 600;
    let server = Server::nagi_with(&["--workers", "3"]);
    let mut random = Random::announced();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (server, is_over) = (&server, &is_over);
        for (from, to) in [("m0", "m1"), ("m1", "m2"), ("m2", "all")] {
            let random = random.fork();
            scope.spawn(move || move_elements(server, [from, to], is_over, random));
        }
        for producer in 0..3 {
            let mut random = random.fork();
            scope.spawn(move || {
                let mut client = server.connect_resp();
                for element in 0..ELEMENTS {
                    let list = random.below(3);
                    let _ = client.run(&format!("RPUSH m{list} {producer}:{element}"));
                }
            });
        }
        let mut client = server.connect_resp();
        let have_arrived = || {
            let count = client.run("LLEN all").integer();
            (count >= 3 * ELEMENTS as i64).then_some(())
        };
        let arrived = until("all elements at the last list", have_arrived);
        is_over.store(true, Ordering::Relaxed);
        arrived.unwrap();
    });
    let mut client = server.connect_resp();
    until_blocked(&mut client, 0);
    client.check("EXISTS m0 m1 m2", ":0\r\n");
    let mut found: Vec<String> =
        client.run("LRANGE all 0 -1").list().iter().map(Reply::text).collect();
    let of = |producer| (0..ELEMENTS).map(move |element| format!("{producer}:{element}"));
    let mut expected: Vec<String> = (0..3).flat_map(of).collect();
    found.sort();
    expected.sort();
    assert!(found == expected, "{} elements instead of {}", found.len(), expected.len());
}

/// Moves elements from one list to another, and sometimes disconnects in the middle of a move.
fn move_elements(server: &Server, [from, to]: [&str; 2], is_over: &AtomicBool, mut random: Random) {
    let request = format!("BLMOVE {from} {to} LEFT RIGHT 0.05");
    let mut killer = server.connect_resp();
    let mut client = server.connect_resp();
    let mut id = client.run("CLIENT ID").integer();
    while !is_over.load(Ordering::Relaxed) {
        client.send(encode_command(&words(&request)));
        match random.below(8) {
            0 => drop(client),
            1 => {
                client.finish_sending();
                let _ = client.rest();
            }
            2 => {
                let _ = killer.run(&format!("CLIENT KILL ID {id}"));
                let _ = client.rest();
            }
            3 => {
                let _ = killer.run(&format!("CLIENT UNBLOCK {id}"));
                let _ = client.reply();
                continue;
            }
            _ => {
                let _ = client.reply();
                continue;
            }
        }
        client = server.connect_resp();
        id = client.run("CLIENT ID").integer();
    }
}

/// Its disconnect must be noticed although more has arrived than is kept behind other requests.
#[test]
fn a_blocked_client_with_much_behind_its_request_is_noticed_when_it_has_gone() {
    let server = Server::nagi();
    let (mut client, mut blocked) = (server.connect_resp(), server.connect_resp());
    blocked.send(encode_command(&["BLPOP", "queue", "0"]));
    until_blocked(&mut client, 1);
    let set = encode_command(&["SET", "key", &"x".repeat(10_000)]);
    blocked.send(set.repeat(100));
    drop(blocked);
    until_blocked(&mut client, 0);
    client.check("RPUSH queue element", ":1\r\n");
    client.check("LLEN queue", ":1\r\n");
}

#[test]
fn clients_that_are_no_longer_counted_receive_no_elements() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    // Takes the server a while to free.
    let behind = encode_command(&["SET", "key", &"x".repeat(10_000)]).repeat(100);
    for _ in 0..100 {
        let mut blocked = server.connect_resp();
        let list = format!("CLIENT LIST ID {}", blocked.run("CLIENT ID").integer());
        blocked.send(encode_command(&["BLPOP", "queue", "0"]));
        until_blocked(&mut client, 1);
        blocked.send(&behind);
        drop(blocked);
        while client.run(&list).text().contains("id=") {}
        client.check("RPUSH queue element", ":1\r\n");
        client.check("LPOP queue", "$7\r\nelement\r\n");
    }
}

#[test]
fn served_clients_no_longer_wait() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, mut pusher) = (server.connect_resp(), server.connect_resp());
    for (end, last) in [("RPUSH queue a", ":1\r\n"), ("CLIENT UNBLOCK {id}", ":1\r\n")] {
        let end = end.replace("{id}", &client.run("CLIENT ID").integer().to_string());
        for _ in 0..50 {
            client.send("BLPOP queue 0\r\n");
            until_blocked(&mut pusher, 1);
            pusher.send(format!("{end}\r\nINFO clients\r\n"));
            pusher.expect(last);
            let text = pusher.reply().text();
            assert!(text.contains("blocked_clients:0\r\n"), "after {end}");
            client.reply();
        }
    }
}

/// An element goes to a client that was killed only before the reply of CLIENT KILL.
#[test]
fn killed_clients_receive_no_elements() {
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut killer = server.connect_resp();
    for round in 0..300 {
        // Very many keys are entered in parts.
        let keys = "other ".repeat(if round % 2 == 0 { 1 } else { 2000 });
        let mut victim = server.connect_resp();
        let id = victim.run("CLIENT ID").integer();
        victim.send(format!("BLPOP {keys} queue 0\r\n"));
        killer.send(format!("CLIENT KILL ID {id}\r\nRPUSH queue a\r\n"));
        killer.expect(":1\r\n:1\r\n");
        let received = victim.rest();
        let left = i64::from(received.is_empty());
        assert_eq!(killer.run("LLEN queue").integer(), left, "{}", received.escape_ascii());
        killer.run("DEL queue");
    }
}

/// The wait for elements is no latency.
#[test]
fn waits_are_no_latency_spikes() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET latency-monitor-threshold 100", "+OK\r\n");
    client.check("BLPOP none 0.3", TIME_IS_UP);
    client.check("LATENCY LATEST", "*0\r\n");
}

#[test]
fn the_first_of_many_lists_is_popped() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("RPUSH key:250 a", ":1\r\n");
    client.check("RPUSH key:260 b", ":1\r\n");
    let keys: Vec<String> = (0..300).map(|key| format!("key:{key}")).collect();
    let pop = ["BLPOP".to_owned()].into_iter().chain(keys).chain(["0".to_owned()]);
    let pop: Vec<String> = pop.collect();
    client.send(encode_command(&pop));
    client.expect("*2\r\n$7\r\nkey:250\r\n$1\r\na\r\n");
    client.send(encode_command(&pop));
    client.expect("*2\r\n$7\r\nkey:260\r\n$1\r\nb\r\n");
    client.send(encode_command(&pop));
    let mut other = server.connect_resp();
    until_blocked(&mut other, 1);
    other.check("RPUSH key:299 c", ":1\r\n");
    client.expect("*2\r\n$7\r\nkey:299\r\n$1\r\nc\r\n");
}

/// A key that another request has claimed may be in the middle of its changes.
#[test]
fn clients_do_not_see_the_middle_of_another_request() {
    let server = Server::nagi_with(&["--workers", "4"]);
    let [mut waiter, mut script, mut pusher, mut observer] =
        [(); 4].map(|()| server.connect_resp());
    observer.run("XGROUP CREATE s g $ MKSTREAM");
    observer.run("XGROUP CREATE t g $ MKSTREAM");
    for (wait, key, [change, undo], [push, remove]) in [
        ("BLPOP b a 0", "b", ["'SET','b','x'", "'DEL','b'"], ["RPUSH a 1", "DEL a"]),
        ("BZPOPMIN b a 0", "b", ["'SET','b','x'", "'DEL','b'"], ["ZADD a 1 x", "DEL a"]),
        (
            "XREAD BLOCK 0 STREAMS b s $ $",
            "b",
            ["'SET','b','x'", "'DEL','b'"],
            ["XADD s * f v", "XGROUP SETID s g $"],
        ),
        (
            "XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >",
            "t",
            ["'XGROUP','DESTROY','t','g'", "'XGROUP','CREATE','t','g','$'"],
            ["XADD s * f v", "DEL s"],
        ),
    ] {
        waiter.send(format!("{wait}\r\n"));
        until_blocked(&mut observer, 1);
        // It is busy for a few tenths of a second.
        let text =
            format!("redis.call({change}) for i = 1, 2e7 do end redis.call({undo}) return 'end'");
        script.send(encode_command(&["EVAL", &text, "1", key]));
        let runs = || observer.run("CLIENT LIST").text().contains("cmd=eval").then_some(());
        until("the script to begin", runs).unwrap();
        pusher.run(push);
        let reply = waiter.reply();
        assert!(matches!(reply, Reply::Array(_)), "{wait}: {reply:?}");
        script.expect("$3\r\nend\r\n");
        pusher.run(remove);
        script.check("PING", "+PONG\r\n");
    }
}
