//! CLIENT: how connections are shown to other clients, and how other clients can change them.

use crate::memcached::binary::{encode, receive};
use harness::{Connection, Server, allow_open_files, as_redis, encode_command, until, words};

fn wait_for_blocked(client: &mut Connection, count: u64) {
    let waits = || (client.info::<u64>("blocked_clients") == count).then_some(());
    until("clients to wait", waits).expect("that many clients wait");
}

#[test]
fn nonsense_is_refused() {
    as_redis(&[
        ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command\r\n"),
        ("CLIENT KILL 1.2.3.4:5", "-ERR No such client\r\n"),
        ("CLIENT KILL ID 10 x", "-ERR syntax error\r\n"),
        ("CLIENT KILL ID x", "-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL ID -1", "-ERR client-id should be greater than 0\r\n"),
        ("CLIENT KILL TYPE x", "-ERR Unknown client type 'x'\r\n"),
        ("CLIENT KILL USER x", "-ERR No such user 'x'\r\n"),
        ("CLIENT KILL SKIPME maybe", "-ERR syntax error\r\n"),
        ("CLIENT KILL ID 999 SKIPME no", ":0\r\n"),
        ("CLIENT KILL TYPE pubsub", ":0\r\n"),
        ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'\r\n"),
        ("CLIENT LIST ID x", "-ERR Invalid client ID\r\n"),
        ("CLIENT LIST x", "-ERR syntax error\r\n"),
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range\r\n"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative\r\n"),
        ("CLIENT PAUSE 1 maybe", "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n"),
        (
            "CLIENT PAUSE 1 ALL x",
            "-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. \
             Try CLIENT HELP.\r\n",
        ),
        ("CLIENT UNPAUSE", "+OK\r\n"),
        ("CLIENT REPLY maybe", "-ERR syntax error\r\n"),
        ("CLIENT NO-EVICT maybe", "-ERR syntax error\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT NO-EVICT off", "+OK\r\n"),
        ("CLIENT UNBLOCK 1 maybe", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
        ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range\r\n"),
        ("CLIENT UNBLOCK 999 ERROR", ":0\r\n"),
        ("CLIENT GETREDIR", ":-1\r\n"),
        (
            "CLIENT TRACKINGINFO",
            "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n\
             $8\r\nprefixes\r\n*0\r\n",
        ),
    ]);
}

/// Redis has this since 7.2.
#[test]
fn reads_need_not_count_as_use() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n");
    client.check("CLIENT NO-TOUCH on", "+OK\r\n");
    assert!(client.run("CLIENT INFO").text().contains(" flags=T "));
    client.check("CLIENT NO-TOUCH off", "+OK\r\n");
    assert!(client.run("CLIENT INFO").text().contains(" flags=N "));
}

#[test]
fn replies_can_be_turned_off() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let say = |client: &mut Connection, commands: &[&str]| {
            let requests = commands.iter().flat_map(|command| encode_command(&words(command)));
            client.send(requests.collect::<Vec<u8>>());
        };
        say(
            &mut client,
            &["CLIENT REPLY OFF", "PING 1", "NONSENSE", "CLIENT REPLY SKIP", "PING 2"],
        );
        say(&mut client, &["CLIENT REPLY ON", "PING 3", "CLIENT REPLY SKIP", "KEYS *", "PING 4"]);
        client.expect("+OK\r\n$1\r\n3\r\n$1\r\n4\r\n");
        say(&mut client, &["CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING 5"]);
        client.expect("+OK\r\n$1\r\n5\r\n");
        say(&mut client, &["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING 6", "PING 7"]);
        client.expect("$1\r\n7\r\n");
    }
}

#[test]
fn connections_can_be_killed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let mut others: Vec<_> = (0..4).map(|_| server.connect_resp()).collect();
        let ids: Vec<_> = others.iter_mut().map(|other| other.run("CLIENT ID").integer()).collect();
        let list = client.run("CLIENT LIST").text();
        let line = list.lines().find(|line| line.starts_with(&format!("id={} ", ids[1])));
        let address = line.unwrap().split_once("addr=").unwrap().1.split(' ').next().unwrap();
        client.check(&format!("CLIENT KILL ID {}", ids[0]), ":1\r\n");
        client.check(&format!("CLIENT KILL {address}"), "+OK\r\n");
        client.check(&format!("CLIENT KILL {address}"), "-ERR No such client\r\n");
        assert_eq!(others[0].rest(), b"");
        assert_eq!(others[1].rest(), b"");
        others[2].check("PING", "+PONG\r\n");
        client.check("CLIENT KILL SKIPME yes", ":2\r\n");
        assert_eq!(client.run("CLIENT LIST").text().lines().count(), 1);
        assert_eq!(others[3].rest(), b"");
        client.check("CLIENT KILL TYPE normal SKIPME no", ":1\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn a_connection_of_any_worker_can_be_killed() {
    let server = Server::nagi_with(&["--workers", "3"]);
    let mut others: Vec<_> = (0..9).map(|_| server.connect_resp()).collect();
    others.iter_mut().for_each(|other| other.check("PING", "+PONG\r\n"));
    let mut memcached = server.connect_memcached();
    memcached.check_raw("get a\r\n", "END\r\n");
    let mut client = server.connect_resp();
    client.check("CLIENT KILL SKIPME yes", ":10\r\n");
    assert!(others.iter_mut().all(|other| other.rest().is_empty()));
    assert_eq!(memcached.rest(), b"");
    assert_eq!(client.info::<u64>("connected_clients"), 1);
}

#[test]
fn thousands_of_connections_can_be_killed() {
    const COUNT: usize = 3000;
    allow_open_files(2 * COUNT as u64 + 500);
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut others: Vec<_> = (0..COUNT).map(|_| server.connect_resp()).collect();
    others.iter_mut().for_each(|other| other.send("*1\r\n$4\r\nPING\r\n"));
    others.iter_mut().for_each(|other| other.expect("+PONG\r\n"));
    let mut client = server.connect_resp();
    client.check("CLIENT KILL SKIPME yes", format!(":{COUNT}\r\n"));
    client.check("PING", "+PONG\r\n");
    assert!(others.iter_mut().all(|other| other.rest().is_empty()));
    until("all places to be free", || {
        (client.info::<usize>("connected_clients") == 1).then_some(())
    })
    .unwrap();
}

#[test]
fn a_pause_delays_writes() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let (mut first, mut second) = (server.connect_resp(), server.connect_resp());
        client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        first.check("GET key", "$-1\r\n");
        first.send(encode_command(&words("SET key value")));
        first.send(encode_command(&words("PING")));
        second.send("append other \"a b\"\r\nGET other\r\n");
        wait_for_blocked(&mut client, 2);
        client.check("EXISTS key other", ":0\r\n");
        client.check("CLIENT UNPAUSE", "+OK\r\n");
        first.expect("+OK\r\n+PONG\r\n");
        second.expect(":3\r\n$3\r\na b\r\n");
        assert_eq!(client.info::<u64>("blocked_clients"), 0);
    }
}

#[test]
fn a_pause_delays_memcached_clients_too() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let (mut text, mut binary) = (server.connect_memcached(), server.connect_memcached());
    binary.send(encode(0x0a, 1, 0, b"", "", ""));
    assert_eq!(receive(&mut binary).status, 0);
    client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    text.check_raw("get key\r\nmg key v\r\nmn\r\n", "END\r\nEN\r\nMN\r\n");
    binary.send(encode(0x00, 1, 0, b"", "key", ""));
    assert_eq!(receive(&mut binary).status, 1);
    text.send("set key 0 0 5 noreply\r\nvalue\r\nget key\r\n");
    binary.send(encode(0x01, 1, 0, &[0; 8], "other", "value"));
    binary.send(encode(0x00, 1, 0, b"", "other", ""));
    wait_for_blocked(&mut client, 2);
    client.check("EXISTS key other", ":0\r\n");
    client.check("CLIENT UNPAUSE", "+OK\r\n");
    text.expect("VALUE key 0 5\r\nvalue\r\nEND\r\n");
    assert_eq!(receive(&mut binary).status, 0);
    assert_eq!(receive(&mut binary).value, b"value");
    wait_for_blocked(&mut client, 0);
    client.check("CLIENT PAUSE 50 ALL", "+OK\r\n");
    let started = std::time::Instant::now();
    text.check_raw("get none\r\n", "END\r\n");
    assert!(started.elapsed().as_millis() >= 45, "{:?}", started.elapsed());
}

#[test]
fn a_pause_ends_by_itself() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CLIENT PAUSE 50", "+OK\r\n");
        let started = std::time::Instant::now();
        client.check("PING", "+PONG\r\n");
        assert!(started.elapsed().as_millis() >= 45, "{:?}", started.elapsed());
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn clients_that_wait_in_a_pause_can_be_killed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let mut other = server.connect_resp();
        let id = other.run("CLIENT ID").integer();
        client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        other.send(encode_command(&words("SET key value")));
        wait_for_blocked(&mut client, 1);
        client.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        assert_eq!(other.rest(), b"");
        client.check("CLIENT UNPAUSE", "+OK\r\n");
        client.check("EXISTS key", ":0\r\n");
    }
}

#[test]
fn reads_of_a_connection_may_leave_no_trace() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n");
    client.check("SET key value", "+OK\r\n");
    client.check("CLIENT NO-TOUCH on", "+OK\r\n");
    assert!(client.run("CLIENT INFO").text().contains(" flags=T "));
    let idles = || {
        client.check("GET key", "$5\r\nvalue\r\n");
        (client.run("OBJECT IDLETIME key").integer() > 0).then_some(())
    };
    until("the key to idle", idles).expect("reading does not touch it");
    client.check("CLIENT NO-TOUCH off", "+OK\r\n");
    client.check("GET key", "$5\r\nvalue\r\n");
    client.check("OBJECT IDLETIME key", ":0\r\n");
}

#[test]
fn the_last_command_is_shown_even_if_it_was_not_executed() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut client, mut observer) = (server.connect_resp(), server.connect_resp());
        let id = client.run("CLIENT ID").integer();
        for (request, shown) in [
            ("SET key value", "set"),
            ("MULTI", "multi"),
            ("GET key", "get"),
            ("CONFIG GET maxmemory", "config|get"),
            ("GET", "get"),
            ("nonsense", "NULL"),
            ("EXEC", "exec"),
            ("CLIENT nonsense", "NULL"),
            ("CLIENT KILL", "client|kill"),
        ] {
            client.run(request);
            let line = observer.run(&format!("CLIENT LIST ID {id}")).text();
            assert!(line.contains(&format!(" cmd={shown} ")), "{request}: {line}");
        }
        let stats = observer.run("INFO commandstats").text();
        let rejected = |command: &str| {
            let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
            line.is_some_and(|line| line.contains(",rejected_calls=1,"))
        };
        assert_eq!(["get", "client|kill"].map(rejected), [true; 2], "{stats}");
        assert!(!stats.contains("cmdstat_client:"), "it is no call of CLIENT: {stats}");
    }
}
