//! Transactions: requests that are queued and executed as one.

use harness::{Connection, Random, Reply, Server, as_redis, encode_command, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn requests_are_queued_and_executed() {
    as_redis(&[
        ("MULTI", "+OK\r\n"),
        ("SET a 1", "+QUEUED\r\n"),
        ("INCR a", "+QUEUED\r\n"),
        ("HSET h f v", "+QUEUED\r\n"),
        ("EXEC", "*3\r\n+OK\r\n:2\r\n:1\r\n"),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed\r\n"),
        ("GET a", "+QUEUED\r\n"),
        ("INCR h", "+QUEUED\r\n"),
        (
            "EXEC",
            "*2\r\n$1\r\n2\r\n-WRONGTYPE Operation against a key holding the wrong kind of \
             value\r\n",
        ),
        ("MULTI", "+OK\r\n"),
        ("SET a 9", "+QUEUED\r\n"),
        ("DISCARD", "+OK\r\n"),
        ("GET a", "$1\r\n2\r\n"),
        ("MULTI", "+OK\r\n"),
        ("NONSENSE", "-ERR unknown command 'NONSENSE', with args beginning with: \r\n"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET a", "-ERR wrong number of arguments for 'set' command\r\n"),
        ("SET a 9", "+QUEUED\r\n"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("MULTI", "+OK\r\n"),
        ("EXEC", "*0\r\n"),
        ("WATCH a b", "+OK\r\n"),
        ("SET a 3", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*-1\r\n"),
        ("WATCH a b", "+OK\r\n"),
        ("SET a 4", "+OK\r\n"),
        ("UNWATCH", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("UNWATCH", "+QUEUED\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n+PONG\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SELECT 2", "+QUEUED\r\n"),
        ("SET other 1", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n+OK\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("MULTI", "+OK\r\n"),
        ("RESET", "+RESET\r\n"),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
    ]);
}

#[test]
fn keys_of_the_whole_keyspace_are_one_moment() {
    as_redis(&[
        ("MSET a 1 b 2", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("DBSIZE", "+QUEUED\r\n"),
        ("DEL a", "+QUEUED\r\n"),
        ("KEYS *", "+QUEUED\r\n"),
        ("SCAN 0", "+QUEUED\r\n"),
        ("RANDOMKEY", "+QUEUED\r\n"),
        ("FLUSHALL", "+QUEUED\r\n"),
        ("DBSIZE", "+QUEUED\r\n"),
        (
            "EXEC",
            "*7\r\n:2\r\n:1\r\n*1\r\n$1\r\nb\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n$1\r\nb\r\n\
             +OK\r\n:0\r\n",
        ),
    ]);
}

/// A command that looks at all keys must not see another request half done.
#[test]
fn looks_at_all_keys_are_isolated() {
    let server = Server::nagi_with(&["--workers", "4"]);
    let [mut client, mut script, mut observer] = [(); 3].map(|()| server.connect_resp());
    client.check("SET k 1", "+OK\r\n");
    for (look, found) in [
        ("DBSIZE", ":1\r\n"),
        ("KEYS *", "*1\r\n$1\r\nk\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n"),
        ("RANDOMKEY", "$1\r\nk\r\n"),
    ] {
        // It is busy for a few tenths of a second.
        let text = "redis.call('DEL', KEYS[1]) for i = 1, 2e7 do end redis.call('SET', KEYS[1], 1)";
        script.send(encode_command(&["EVAL", text, "1", "k"]));
        let runs = || observer.run("CLIENT LIST").text().contains("cmd=eval").then_some(());
        until("the script to begin", runs).unwrap();
        client.check("MULTI", "+OK\r\n");
        client.check(look, "+QUEUED\r\n");
        client.check("EXEC", format!("*1\r\n{found}"));
        script.expect("$-1\r\n");
        script.check("PING", "+PONG\r\n");
    }
}

#[test]
fn changes_by_another_client_are_seen_at_exec() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
        for (change, is_executed) in [
            ("SET k 2", false),
            ("APPEND k 2", false),
            ("PEXPIRE k 100000", false),
            ("PERSIST k", true),
            ("DEL k", false),
            ("COPY o k REPLACE", false),
            ("RENAME o k", false),
            ("MOVE k 3", false),
            ("FLUSHDB", false),
            ("FLUSHALL", false),
            ("GET k", true),
            ("SET o 2", true),
            ("HSET other f 1", true),
        ] {
            client.check("FLUSHALL", "+OK\r\n");
            client.check("MSET k 1 o 1", "+OK\r\n");
            client.check("WATCH k", "+OK\r\n");
            let _ = other.run(change);
            client.check("MULTI", "+OK\r\n");
            client.check("SET result 1", "+QUEUED\r\n");
            let expected = if is_executed { "*1\r\n+OK\r\n" } else { "*-1\r\n" };
            client.check("EXEC", expected);
            let exists = if is_executed { ":1\r\n" } else { ":0\r\n" };
            client.check("EXISTS result", exists);
        }
        client.check("SET k v PX 1", "+OK\r\n");
        while client.run("PTTL k").integer() >= 0 {}
        client.check("WATCH k", "+OK\r\n");
        other.check("DEL k", ":0\r\n");
        client.check("MULTI", "+OK\r\n");
        client.check("PING", "+QUEUED\r\n");
        client.check("EXEC", "*1\r\n+PONG\r\n");
    }
}

#[test]
fn a_watched_key_that_expires_stops_it() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        // A key that has expired before it is watched does not expire later.
        loop {
            client.check("SET k v PX 20", "+OK\r\n");
            client.check("WATCH k", "+OK\r\n");
            if client.run("PTTL k").integer() >= 0 {
                break;
            }
            client.check("UNWATCH", "+OK\r\n");
        }
        let mut other = server.connect_resp();
        while other.run("PTTL k").integer() >= 0 {}
        client.check("MULTI", "+OK\r\n");
        client.check("PING", "+QUEUED\r\n");
        client.check("EXEC", "*-1\r\n");
    }
}

/// Moves an amount from one of ten accounts to another; the sum of all accounts does not change.
fn transfer(client: &mut Connection, random: &mut Random) {
    let (from, to) = (random.below(10), random.below(10));
    let amount = random.below(100);
    client.check("MULTI", "+OK\r\n");
    client.check(&format!("DECRBY account:{from} {amount}"), "+QUEUED\r\n");
    client.check(&format!("INCRBY account:{to} {amount}"), "+QUEUED\r\n");
    assert_eq!(client.run("EXEC").list().len(), 2);
}

fn sum(balances: &harness::Reply) -> i64 {
    balances.list().iter().map(|it| it.text().parse::<i64>().unwrap()).sum()
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let accounts: Vec<String> = (0..10).map(|number| format!("account:{number}")).collect();
    let set: Vec<String> = accounts.iter().map(|account| format!("{account} 1000")).collect();
    server.connect_resp().check(&format!("MSET {}", set.join(" ")), "+OK\r\n");
    let (is_over, mut seeds) = (AtomicBool::new(false), Random::announced());
    thread::scope(|scope| {
        for _ in 0..3 {
            let (server, mut random) = (&server, seeds.fork());
            scope.spawn(move || {
                let mut client = server.connect_resp();
                (0..2000).for_each(|_| transfer(&mut client, &mut random));
            });
        }
        let readers: Vec<_> = [true, false]
            .map(|in_transaction| {
                let (server, accounts, is_over) = (&server, &accounts, &is_over);
                scope.spawn(move || {
                    let mut client = server.connect_resp();
                    let mget = format!("MGET {}", accounts.join(" "));
                    let mut seen = 0;
                    while !is_over.load(Ordering::Relaxed) || seen < 100 {
                        let found = if in_transaction {
                            client.check("MULTI", "+OK\r\n");
                            client.check(&mget, "+QUEUED\r\n");
                            client.check("DBSIZE", "+QUEUED\r\n");
                            let reply = client.run("EXEC");
                            assert_eq!(reply.list()[1].integer(), 10);
                            sum(&reply.list()[0])
                        } else {
                            sum(&client.run(&mget))
                        };
                        assert_eq!(found, 10_000);
                        seen += 1;
                        if seen >= 1000 {
                            is_over.store(true, Ordering::Relaxed);
                        }
                    }
                })
            })
            .into_iter()
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn counting_under_watch_loses_nothing() {
    let server = Server::nagi_with(&["--workers", "2"]);
    server.connect_resp().check("SET counter 0", "+OK\r\n");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (mut client, mut counted) = (server.connect_resp(), 0);
                while counted < 300 {
                    client.check("WATCH counter", "+OK\r\n");
                    let next = client.run("GET counter").text().parse::<i64>().unwrap() + 1;
                    client.check("MULTI", "+OK\r\n");
                    client.check(&format!("SET counter {next}"), "+QUEUED\r\n");
                    client.send(harness::encode_command(&["EXEC"]));
                    let (_, bytes) = client.reply_and_bytes();
                    counted += i32::from(bytes == b"*1\r\n+OK\r\n");
                }
            });
        }
    });
    server.connect_resp().check("GET counter", "$3\r\n900\r\n");
    assert_eq!(server.connect_resp().info::<u64>("watching_clients"), 0);
    assert_eq!(server.connect_resp().info::<u64>("total_watched_keys"), 0);
}

#[test]
fn transactions_on_everything_and_on_keys_do_not_wait_for_each_other_forever() {
    let server = Server::nagi_with(&["--workers", "2"]);
    thread::scope(|scope| {
        for number in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect_resp();
                for turn in 0..300 {
                    client.check("MULTI", "+OK\r\n");
                    client.check(&format!("SET key:{number} {turn}"), "+QUEUED\r\n");
                    let whole = ["FLUSHALL", "DBSIZE", "GET other", "KEYS *"];
                    client.check(whole[(number + turn) % 4], "+QUEUED\r\n");
                    assert_eq!(client.run("EXEC").list().len(), 2);
                    client.check("PING", "+PONG\r\n");
                }
            });
        }
    });
}

#[test]
fn large_arguments_and_many_requests_are_queued() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let (value, long_key) = ("v".repeat(1_000_000), "k".repeat(300_000));
    client.check("MULTI", "+OK\r\n");
    client.check(&format!("SET large {value}"), "+QUEUED\r\n");
    client.check("STRLEN large", "+QUEUED\r\n");
    client.check(&format!("SET {long_key} 1"), "+QUEUED\r\n");
    client.check(&format!("GET {long_key}"), "+QUEUED\r\n");
    client.check("EXEC", "*4\r\n+OK\r\n:1000000\r\n+OK\r\n$1\r\n1\r\n");
    client.check("MULTI", "+OK\r\n");
    for number in 0..20_000 {
        client.send(harness::encode_command(&["SET", &format!("key:{number}"), "1"]));
    }
    for _ in 0..20_000 {
        client.expect("+QUEUED\r\n");
    }
    assert_eq!(client.run("EXEC").list().len(), 20_000);
    client.check("DBSIZE", ":20002\r\n");
    client.check("MULTI", "+OK\r\n");
    let names: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
    client.check(&format!("DEL {}", names.join(" ")), "+QUEUED\r\n");
    client.check("HSET h f 1", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n:20000\r\n:1\r\n");
    let list = client.run("CLIENT LIST").text();
    assert!(list.contains(" multi=-1 watch=0 "), "{list}");
    client.check("WATCH a b c", "+OK\r\n");
    client.check("MULTI", "+OK\r\n");
    client.check("GET a", "+QUEUED\r\n");
    let list = server.connect_resp().run("CLIENT LIST").text();
    assert!(list.contains("flags=x ") && list.contains(" multi=1 watch=3 "), "{list}");
    client.check("DISCARD", "+OK\r\n");
}

#[test]
fn a_transaction_does_not_wait_for_itself() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("MULTI", "+OK\r\n");
    client.check("SET key value", "+QUEUED\r\n");
    client.check("DEBUG RELOAD", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n+OK\r\n-ERR DEBUG RELOAD is not possible inside a transaction\r\n");
    client.check("GET key", "$5\r\nvalue\r\n");
}

/// A key that exists neither before nor after SWAPDB has not changed; a key that appears with its
/// database has changed.
#[test]
fn exchanged_databases_change_the_keys_that_differ() {
    as_redis(&[
        ("SET here 1", "+OK\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("SET there 1", "+OK\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("WATCH nowhere", "+OK\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("EXISTS nowhere there", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n:1\r\n"),
        ("WATCH here", "+OK\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*-1\r\n"),
        ("WATCH here", "+OK\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*-1\r\n"),
        ("SET here 1", "+OK\r\n"),
        ("WATCH here", "+OK\r\n"),
        ("SWAPDB 0 0", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n+PONG\r\n"),
    ]);
}

/// WATCH covers the entries of a stream, but not its groups and IDs.
#[test]
fn consumers_of_a_watched_stream_do_not_end_a_transaction() {
    const PREPARATION: [&str; 4] = [
        "XADD s 1-1 field value",
        "XADD s 2-1 field value",
        "XADD s 3-1 field value",
        "XGROUP CREATE s g 0",
    ];
    const KEEPING: [&str; 11] = [
        "XGROUP CREATE s n 0",
        "XGROUP CREATECONSUMER s g d",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XREADGROUP GROUP g c NOACK COUNT 1 STREAMS s >",
        "XACK s g 1-1",
        "XCLAIM s g d 0 2-1",
        "XAUTOCLAIM s g c 0 0",
        "XGROUP SETID s g 0",
        "XGROUP DELCONSUMER s g c",
        "XGROUP DESTROY s n",
        "XSETID s 9-9",
    ];
    const CHANGING: [&str; 4] = [
        "XADD s 10-1 field value",
        "XDEL s 10-1",
        "XTRIM s MAXLEN 1",
        "XGROUP CREATE new g 0 MKSTREAM",
    ];
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        PREPARATION.iter().for_each(|command| drop(client.run(command)));
        let commands = KEEPING.iter().map(|it| (it, "*0\r\n"));
        for (command, reply) in commands.chain(CHANGING.iter().map(|it| (it, "*-1\r\n"))) {
            client.check("WATCH s new", "+OK\r\n");
            let done = client.run(command);
            assert!(!matches!(done, Reply::Error(_)), "{command}: {done:?}");
            client.check("MULTI", "+OK\r\n");
            eprintln!("after {command}");
            client.check("EXEC", reply);
        }
    }
}

#[test]
fn a_list_counts_as_changed_when_nothing_is_trimmed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("RPUSH list a b", ":2\r\n");
        for (command, reply) in [("LTRIM list 0 -1", "*-1\r\n"), ("LTRIM none 0 -1", "*0\r\n")] {
            client.check("WATCH list none", "+OK\r\n");
            client.check(command, "+OK\r\n");
            client.check("MULTI", "+OK\r\n");
            client.check("EXEC", reply);
        }
    }
}

#[test]
fn queued_requests_count_towards_the_limit_of_a_query() {
    const REQUESTS: usize = 2000;
    let server = Server::nagi_with(&["--client-query-buffer-limit", "1mb"]);
    let mut client = TcpStream::connect(server.resp()).expect("it listens");
    // Each request arrives whole, so that nothing of it waits in the buffer of the query.
    let mut is_answered = |request: &[u8]| {
        let mut reply = [0; 64];
        client.write_all(request).and_then(|()| client.read(&mut reply)).is_ok_and(|len| len > 0)
    };
    assert!(is_answered(b"MULTI\r\n"));
    let get = harness::encode_command(&["GET", &"k".repeat(1000)]);
    let queued = (0..REQUESTS).take_while(|_| is_answered(&get)).count();
    assert!((500..1000).contains(&queued), "{queued}");
}

#[test]
fn monitor_is_refused_in_a_transaction() {
    as_redis(&[
        ("MULTI", "+OK\r\n"),
        ("MONITOR", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n"),
        ("GET a", "$-1\r\n"),
    ]);
}
