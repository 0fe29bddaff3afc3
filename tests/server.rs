//! COMMAND, CONFIG, INFO, SHUTDOWN: what a server reports about itself, and how it is stopped.

use harness::{Reply, Server, as_redis};

#[test]
fn commands_are_described() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let count = client.run("COMMAND COUNT").integer();
        assert_eq!(client.run("COMMAND").list().len() as i64, count);
        let listed = client.run("COMMAND LIST");
        for name in ["get", "client|id"] {
            assert!(listed.list().iter().any(|it| it.text() == name), "{name} is not listed");
        }
        let described = client.run("COMMAND INFO GET nothing");
        let get = described.list()[0].list();
        assert_eq!((get[0].text(), get[1].integer()), ("get".to_owned(), 2));
        let (first, last, step) = (get[3].integer(), get[4].integer(), get[5].integer());
        assert_eq!((first, last, step), (1, 1, 1));
        assert_eq!(described.list()[1], Reply::Null);
        let documented = client.run("COMMAND DOCS GET");
        assert_eq!(documented.list()[0].text(), "get");
        assert!(!client.run("COMMAND HELP").list().is_empty());
    }
    as_redis(&[
        ("COMMAND GETKEYS MSET a 1 b 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS PING a", "-ERR The command has no key arguments\r\n"),
        ("COMMAND GETKEYS NONSENSE a", "-ERR Invalid command specified\r\n"),
    ]);
}

#[test]
fn configuration_is_read_and_changed() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET maxmemory 100mb", "+OK\r\n");
    client.check("CONFIG GET maxmemory", "*2\r\n$9\r\nmaxmemory\r\n$9\r\n104857600\r\n");
    assert!(client.run("CONFIG GET *").list().len() > 2);
    assert!(matches!(client.run("CONFIG SET maxmemory x"), Reply::Error(_)));
    assert!(matches!(client.run("CONFIG SET nonsense 1"), Reply::Error(_)));
    client.check("CONFIG GET nonsense", "*0\r\n");
    assert!(!client.run("CONFIG HELP").list().is_empty());
    as_redis(&[("CONFIG REWRITE", "-ERR The server is running without a config file\r\n")]);
}

#[test]
fn statistics_are_counted_and_reset() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("SET key value", "+OK\r\n");
        client.check("GET key", "$5\r\nvalue\r\n");
        client.check("GET nothing", "$-1\r\n");
        let statistics = client.run("INFO stats").text();
        for line in ["keyspace_hits:1\r", "keyspace_misses:1\r"] {
            assert!(statistics.contains(line), "{line} is not in {statistics}");
        }
        // Writes that return or copy a value look it up too; MEMORY USAGE does not.
        for request in ["GETSET key a", "SET key b GET", "GETSET new c", "COPY key other"] {
            client.run(request);
        }
        for request in ["MEMORY USAGE key", "OBJECT ENCODING key", "COPY nothing other"] {
            client.run(request);
        }
        let counted: [u64; 2] = ["keyspace_hits", "keyspace_misses"].map(|name| client.info(name));
        assert_eq!(counted, [5, 3]);
        assert!(!statistics.contains("# Memory"), "only the section that was asked for");
        let keyspace = client.run("INFO keyspace").text();
        assert!(keyspace.contains("db0:keys=3,expires=0"), "{keyspace}");
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        assert!(client.run("INFO stats").text().contains("keyspace_hits:0\r"));
    }
}

/// One request is one hit, also if it takes many slices; a write is none.
#[test]
fn requests_for_large_collections_are_counted_once() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for number in 0..300 {
            client.run(&format!("HSET h {number} {number}"));
            client.run(&format!("SADD s m{number}"));
            client.run(&format!("RPUSH l {number}"));
            client.run(&format!("ZADD z {number} {number}"));
        }
        let mut hits = |request: &str| {
            client.check("CONFIG RESETSTAT", "+OK\r\n");
            client.run(request);
            let statistics = client.run("INFO stats").text();
            let hits = statistics.lines().find_map(|line| line.strip_prefix("keyspace_hits:"));
            hits.and_then(|hits| hits.parse::<u64>().ok()).expect("hits")
        };
        for request in [
            "HGETALL h",
            "HKEYS h",
            "SMEMBERS s",
            "SRANDMEMBER s 200",
            "LRANGE l 0 -1",
            "LPOS l 299",
            "ZRANGE z 0 -1",
            "ZRANDMEMBER z 200",
        ] {
            assert_eq!(hits(request), 1, "{request}");
        }
        let long = "x".repeat(2000);
        let (lrem, linsert) = (format!("LREM l 0 {long}"), format!("LINSERT l BEFORE {long} x"));
        for request in [lrem.as_str(), linsert.as_str(), "SPOP s 200"] {
            assert_eq!(hits(request), 0, "{}", &request[..7]);
        }
    }
}

#[test]
fn the_time_is_reported() {
    let server = Server::nagi();
    let reply = server.connect_resp().run("TIME");
    let seconds: u64 = reply.list()[0].text().parse().expect("seconds");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    assert!(now.as_secs().abs_diff(seconds) < 60);
}

#[test]
fn shutdown_stops_it() {
    for command in ["SHUTDOWN", "SHUTDOWN NOSAVE"] {
        let mut server = Server::nagi();
        let mut client = server.connect_resp();
        client.send(harness::encode_command(&harness::words(command)));
        assert_eq!(client.rest(), b"");
        assert!(server.wait_for_exit().success());
    }
    let server = Server::nagi();
    server.connect_resp().check("SHUTDOWN nonsense", "-ERR syntax error\r\n");
    server.connect_resp().check("PING", "+PONG\r\n");
}
