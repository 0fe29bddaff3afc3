//! Keyspace notifications: changes of keys are published as messages.

use harness::{Connection, Random, Reply, Server, encode_command, until};
use std::thread;

/// Commands of every family, in an order in which each command finds the keys that it needs.
const COMMANDS: &[&str] = &[
    // Strings.
    "SET a 1",
    "SET a 2 EX 100",
    "SET a 3 KEEPTTL",
    "SET a 3 NX",
    "SET a 4 XX GET",
    "SET none 4 XX",
    "SET got 4 GET",
    "SETNX b 1",
    "SETNX b 1",
    "SETEX b 100 1",
    "PSETEX b 100000 1",
    "GET a",
    "GET none",
    "MGET a none b none",
    "GETSET b 5",
    "GETSET new:1 5",
    "GETEX b",
    "GETEX b EX 50",
    "GETEX b PERSIST",
    "GETEX b PERSIST",
    "GETEX none EX 5",
    "GETEX b PXAT 1",
    "MSET a 1 b 2 new:2 3",
    "MSETNX a 1 b 2",
    "MSETNX x 1 y 2",
    "APPEND a 1",
    "APPEND new:3 text",
    "SETRANGE a 2 zz",
    "SETRANGE new:4 2 zz",
    "SETRANGE a 2 ''",
    "GETRANGE a 0 1",
    "GETRANGE none 0 1",
    "STRLEN none",
    "INCR n",
    "DECR n",
    "INCRBY n 5",
    "DECRBY n 5",
    "INCRBYFLOAT n 0.5",
    "INCRBYFLOAT new:5 0.5",
    "INCR a",
    "GETDEL a",
    "GETDEL none",
    "LCS b none",
    // Bitmaps and sketches.
    "SETBIT bits 7 1",
    "SETBIT bits 7 1",
    "SETBIT bits 7 0",
    "GETBIT bits 7",
    "GETBIT none 7",
    "BITCOUNT none",
    "BITPOS none 1",
    "BITFIELD bits SET u8 0 255",
    "BITFIELD bits SET u8 0 255",
    "BITFIELD bits GET u8 0",
    "BITFIELD new:6 SET u8 0 255",
    "BITFIELD_RO none GET u8 0",
    "BITOP NOT d bits",
    "BITOP OR d bits none",
    "BITOP AND d none none",
    "BITOP AND d none none",
    "PFADD p x",
    "PFADD p x",
    "PFCOUNT p",
    "PFCOUNT none",
    "PFCOUNT p none",
    "PFMERGE q p",
    "PFMERGE q p none",
    // Keys.
    "SET a 1",
    "EXISTS a none",
    "TYPE none",
    "TTL none",
    "PTTL a",
    "EXPIRETIME none",
    "TOUCH a none",
    "OBJECT ENCODING none",
    "DUMP none",
    "EXPIRE a 100",
    "EXPIRE a 100 NX",
    "PEXPIRE a 100000",
    "PERSIST a",
    "PERSIST a",
    "EXPIRE none 100",
    "EXPIRE a -1",
    "SET b 1",
    "SET c 1",
    "RENAME b c",
    "RENAME c b",
    "RENAMENX b c",
    "RENAMENX c x",
    "RENAME c c",
    "RENAME none c",
    "COPY c e",
    "COPY c e",
    "COPY c e REPLACE",
    "COPY none e",
    "COPY c e DB 1",
    "COPY c e DB 1 REPLACE",
    "MOVE c 2",
    "MOVE none 2",
    "SET c 1",
    "MOVE c 2",
    "DEL x y none x",
    "UNLINK n none",
    "DEL none",
    "SET a 1",
    "SELECT 3",
    "SET a 1",
    "DEL a",
    "SELECT 0",
    // Lists.
    "LPUSHX l a",
    "LPUSH l a b",
    "RPUSH l c d a",
    "LPUSHX l b",
    "RPUSHX l b",
    "LRANGE none 0 -1",
    "LLEN none",
    "LINDEX none 0",
    "LPOS none a",
    "LPOP none",
    "LPOP l",
    "LPOP l 0",
    "RPOP l 2",
    "LSET l 0 x",
    "LSET l 9 x",
    "LSET none 0 x",
    "LINSERT l BEFORE x y",
    "LINSERT l AFTER none y",
    "LINSERT none AFTER x y",
    "LREM l 0 y",
    "LREM l 0 y",
    "LTRIM l 0 -1",
    "LTRIM none 0 -1",
    "LMOVE l m LEFT RIGHT",
    "LMOVE l m RIGHT LEFT",
    "RPOPLPUSH l m",
    "RPOPLPUSH none m",
    "LMOVE m m LEFT RIGHT",
    "LMPOP 2 none m RIGHT COUNT 2",
    "LMPOP 2 l m LEFT COUNT 9",
    "LMPOP 1 none LEFT",
    "RPUSH l a a",
    "LREM l 0 a",
    "RPUSH l a b",
    "LTRIM l 1 0",
    "RPUSH l a b",
    "RPOP l 9",
    "RPUSH one 1",
    "LMOVE one one LEFT RIGHT",
    // Sets.
    "SADD s 1 2 3",
    "SADD s 1",
    "SREM s 1 9",
    "SREM s 1",
    "SREM none 1",
    "SISMEMBER none 1",
    "SMISMEMBER none 1",
    "SMEMBERS none",
    "SCARD none",
    "SRANDMEMBER none",
    "SRANDMEMBER none 2",
    "SMOVE s o 2",
    "SMOVE s o 2",
    "SMOVE none o 2",
    "SADD s 2",
    "SMOVE s o 2",
    "SMOVE s o 3",
    "SMOVE o o 3",
    "SUNION o none",
    "SINTER o none",
    "SDIFF o none",
    "SINTERCARD 2 o none",
    "SUNIONSTORE s o",
    "SUNIONSTORE s o",
    "SINTERSTORE s o s",
    "SINTERSTORE s o none",
    "SDIFFSTORE s o none",
    "SDIFFSTORE s s o",
    "SUNIONSTORE s none",
    "SPOP o",
    "SPOP o 0",
    "SPOP o 5",
    "SPOP o",
    // Hashes.
    "HSET h a 1 b 2",
    "HSET h a 1",
    "HMSET h c 3",
    "HSETNX h a 1",
    "HSETNX h d 4",
    "HSETNX new:7 d 4",
    "HINCRBY h a 1",
    "HINCRBY new:8 a 1",
    "HINCRBYFLOAT h a 0.5",
    "HGET none a",
    "HMGET none a b",
    "HGETALL none",
    "HKEYS none",
    "HVALS none",
    "HLEN none",
    "HEXISTS none a",
    "HSTRLEN none a",
    "HRANDFIELD none",
    "HDEL h none",
    "HDEL none a",
    "HDEL h a b c",
    "HDEL h d",
    // Sorted sets.
    "ZADD z 1 a 2 b 3 c",
    "ZADD z 1 a",
    "ZADD z NX 5 a",
    "ZADD z XX 5 a 5 new",
    "ZADD none XX 5 a",
    "ZADD z INCR 1 a",
    "ZADD z NX INCR 1 a",
    "ZINCRBY z 1 a",
    "ZINCRBY z 0 a",
    "ZINCRBY new:9 1 a",
    "ZSCORE none a",
    "ZMSCORE none a",
    "ZRANK none a",
    "ZCARD none",
    "ZCOUNT none 0 1",
    "ZLEXCOUNT none - +",
    "ZRANGE none 0 -1",
    "ZRANDMEMBER none",
    "ZREM z a none",
    "ZREM z a",
    "ZREM none a",
    "ZPOPMIN z",
    "ZPOPMIN z 0",
    "ZPOPMAX z 5",
    "ZPOPMAX z",
    "ZADD z 1 a 2 b 3 c 4 d",
    "ZMPOP 2 none z MIN",
    "ZMPOP 1 none MIN",
    "ZRANGESTORE y z 0 1",
    "ZRANGESTORE y z 9 9",
    "ZRANGESTORE y z 9 9",
    "ZRANGESTORE y none 0 1",
    "ZUNION 2 z none",
    "ZINTER 2 z none",
    "ZDIFF 2 z none",
    "ZINTERCARD 2 z none",
    "ZUNIONSTORE y 2 z none",
    "ZINTERSTORE y 2 z y",
    "ZDIFFSTORE y 1 z",
    "ZDIFFSTORE y 2 z z",
    "ZREMRANGEBYRANK z 0 0",
    "ZREMRANGEBYSCORE z 9 9",
    "ZREMRANGEBYSCORE z 3 3",
    "ZREMRANGEBYLEX z - +",
    "ZREMRANGEBYLEX none - +",
    "GEOADD g 15 37 a 16 38 b",
    "GEOADD g 15 37 a",
    "GEOPOS none a",
    "GEODIST none a b",
    "GEOHASH none a",
    "GEOSEARCH none FROMLONLAT 0 0 BYRADIUS 1 km",
    "GEOSEARCHSTORE f g FROMMEMBER a BYRADIUS 1 km",
    "GEORADIUS g 15 37 1 km STORE f",
    "GEORADIUSBYMEMBER g a 1 km STOREDIST f",
    "GEORADIUS g 0 0 1 km STORE f",
    "GEORADIUS none 0 0 1 km STORE f",
    "DEL g",
    // Values of another type.
    "SET a 1",
    "LPUSH a 1",
    "SADD a 1",
    "SUNIONSTORE a a",
    "ZADD z 1 a",
    "SADD s 1",
    "SUNIONSTORE a s",
    "ZUNIONSTORE a 1 z",
    // Transactions.
    "MULTI",
    "SET t 1",
    "GET none",
    "LPUSH u 1",
    "RENAME t v",
    "INCR u",
    "EXEC",
    "MULTI",
    "DEL v",
    "DISCARD",
    // Whole databases.
    "FLUSHDB",
    "FLUSHALL",
];

/// The channel of marks. When a mark arrives, all earlier events have arrived.
const MARK: &str = "__key:mark";

/// Receives all events of a server.
struct Listener {
    subscriber: Connection,
    publisher: Connection,
}

impl Listener {
    /// Makes the server publish events of these classes, and subscribes to them.
    fn of(server: &Server, classes: &str) -> Self {
        let mut publisher = server.connect_resp();
        publisher.check(&format!("CONFIG SET notify-keyspace-events \"{classes}\""), "+OK\r\n");
        let mut subscriber = server.connect_resp();
        subscriber.run("PSUBSCRIBE __key*");
        Listener { subscriber, publisher }
    }

    /// Returns the next message: its channel and its text.
    fn next(&mut self) -> (String, String) {
        let message = self.subscriber.reply();
        let [.., channel, word] = message.list() else { panic!("{message:?}") };
        (channel.text(), word.text())
    }

    /// Returns the events so far, with `__keyspace@` and `__keyevent@` shortened to `k` and `e`.
    fn take(&mut self) -> String {
        self.publisher.run(&format!("PUBLISH {MARK} mark"));
        let mut words = Vec::new();
        loop {
            let (channel, word) = self.next();
            if channel == MARK {
                return words.join(" ");
            }
            let channel = channel.replace("__keyspace@", "k").replace("__keyevent@", "e");
            words.push(format!("{}:{word}", channel.replace("__", "")));
        }
    }
}

#[test]
fn commands_cause_the_events_of_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut listeners = [&nagi, &redis].map(|server| Listener::of(server, "AKEnm"));
    let mut clients = [&nagi, &redis].map(Server::connect_resp);
    let mut differences = Vec::new();
    for command in COMMANDS {
        clients.iter_mut().for_each(|client| drop(client.run(command)));
        let [heard, expected] = listeners.each_mut().map(Listener::take);
        if heard != expected {
            differences.push(format!("{command}: {heard} instead of {expected}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// However many steps it takes.
#[test]
fn a_command_with_many_fields_causes_one_event() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut listeners = [&nagi, &redis].map(|server| Listener::of(server, "AKEnm"));
    let mut clients = [&nagi, &redis].map(Server::connect_resp);
    let fields = |numbers: std::ops::Range<u32>, value: &str| {
        let each: Vec<String> = numbers.map(|number| format!("field:{number}{value}")).collect();
        each.join(" ")
    };
    for command in [
        format!("HSET h {}", fields(0..200, " v")),
        format!("HMSET h {}", fields(0..200, " v")),
        format!("HDEL h {}", fields(0..150, "")),
        format!("HDEL h {}", fields(0..150, "")),
        format!("HDEL h {} {}", fields(150..151, ""), fields(0..100, "")),
        format!("HDEL h {}", fields(100..300, "")),
    ] {
        clients.iter_mut().for_each(|client| drop(client.run(&command)));
        let [heard, expected] = listeners.each_mut().map(Listener::take);
        assert_eq!(heard, expected, "{}", &command[..20]);
    }
}

/// The payload is that of another server; it replaces a key or creates one.
#[test]
fn restored_keys_are_new() {
    let servers = [Server::nagi(), Server::redis()];
    let mut client = servers[1].connect_resp();
    client.run("SET source value");
    let Reply::Bulk(payload) = client.run("DUMP source") else { panic!("a payload") };
    for server in &servers {
        let mut listener = Listener::of(server, "AEn");
        let mut client = server.connect_resp();
        for is_replaced in [false, true] {
            let mut words: Vec<&[u8]> = vec![b"RESTORE", b"r", b"0", &payload];
            words.extend(is_replaced.then_some(&b"REPLACE"[..]));
            client.send(encode_command(&words));
            client.expect("+OK\r\n");
            assert_eq!(listener.take(), "e0:new:r e0:restore:r");
        }
        let words: [&[u8]; 5] = [b"RESTORE", b"r", b"5000", &payload, b"REPLACE"];
        client.send(encode_command(&words));
        client.expect("+OK\r\n");
        assert_eq!(listener.take(), "e0:new:r e0:restore:r");
        for (key, events) in [("r", "e0:del:r"), ("missing", "")] {
            let key = key.as_bytes();
            let words: [&[u8]; 6] = [b"RESTORE", key, b"1", &payload, b"REPLACE", b"ABSTTL"];
            client.send(encode_command(&words));
            client.expect("+OK\r\n");
            assert_eq!(listener.take(), events);
        }
    }
}

#[test]
fn only_classes_that_are_named_are_published() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let mut of = |classes: &str| {
            client.run("FLUSHALL");
            let mut listener = Listener::of(&server, classes);
            for command in ["SET a 1", "LPUSH l 1", "SADD s 1", "ZADD z 1 a", "GET none", "DEL a"] {
                client.run(command);
            }
            listener.take()
        };
        assert_eq!(of(""), "");
        assert_eq!(of("KE"), "");
        assert_eq!(of("A"), "");
        assert_eq!(of("K$"), "k0:a:set");
        assert_eq!(of("E$"), "e0:set:a");
        assert_eq!(of("KElg"), "k0:l:lpush e0:lpush:l k0:a:del e0:del:a");
        assert_eq!(of("Esz"), "e0:sadd:s e0:zadd:z");
        assert_eq!(of("Km"), "k0:none:keymiss");
        assert_eq!(of("En"), "e0:new:a e0:new:l e0:new:s e0:new:z");
        // CONFIG GET omits the n next to A, but the server publishes its events.
        assert!(of("EAn").starts_with("e0:new:a e0:set:a"));
    }
}

#[test]
fn keys_expire_when_their_time_has_come_or_when_they_are_looked_at() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut listener = Listener::of(&server, "KExm");
    let mut client = server.connect_resp();
    client.check("SET a 1 PX 1", "+OK\r\n");
    for (channel, word) in [("__keyspace@0__:a", "expired"), ("__keyevent@0__:expired", "a")] {
        assert_eq!(listener.next(), (channel.to_owned(), word.to_owned()));
    }
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    client.check("SET a 1 PX 1", "+OK\r\n");
    until("a to expire", || (client.run("GET a") == Reply::Null).then_some(())).unwrap();
    assert_eq!(listener.take(), "k0:a:expired e0:expired:a k0:a:keymiss e0:keymiss:a");
    client.check("SET a 1 PX 1", "+OK\r\n");
    until("a to expire", || (client.run("EXISTS a none") == Reply::Integer(0)).then_some(()))
        .unwrap();
    assert!(listener.take().contains("k0:a:expired e0:expired:a k0:a:keymiss e0:keymiss:a"));
    client.check("SET a 1 PX 1", "+OK\r\n");
    until("a to expire", || (client.run("SETNX a 2") == Reply::Integer(1)).then_some(())).unwrap();
    assert_eq!(listener.take(), "k0:a:expired e0:expired:a");
}

/// A key that is set with an expiry in the past is set first, and then expires.
#[test]
fn keys_that_are_already_expired_are_set_too() {
    for server in [Server::nagi(), Server::redis()] {
        let mut listener = Listener::of(&server, "AE");
        let mut client = server.connect_resp();
        let events = "e0:set:a e0:expire:a e0:expired:a";
        for (request, reply) in [
            ("SET a 1 PXAT 1", "+OK\r\n"),
            ("SET a 1 EXAT 1 NX", "+OK\r\n"),
            ("SET a 1 PXAT 1 GET", "$-1\r\n"),
        ] {
            client.check(request, reply);
            client.check("EXISTS a", ":0\r\n");
            assert_eq!(listener.take(), events, "{request}");
        }
        // The set and the expiry are a change, which other clients notice.
        let mut watcher = server.connect_resp();
        watcher.check("WATCH a", "+OK\r\n");
        client.check("SET a 1 PXAT 1", "+OK\r\n");
        watcher.check("MULTI", "+OK\r\n");
        watcher.check("PING", "+QUEUED\r\n");
        watcher.check("EXEC", "*-1\r\n");
        client.check("EXISTS a", ":0\r\n");
        assert_eq!(listener.take(), events);
        client.check("SET a 1", "+OK\r\n");
        client.check("SET a 2 PXAT 1 XX", "+OK\r\n");
        client.check("EXISTS a", ":0\r\n");
        assert_eq!(listener.take(), format!("e0:set:a {events}"));
        let counted = client.run("INFO stats").text();
        assert!(counted.contains("expired_keys:5\r\n"), "{counted}");
        // Other commands remove a key whose new expiry is in the past.
        client.check("SET a 1", "+OK\r\n");
        client.check("EXPIRE a -1", ":1\r\n");
        assert_eq!(listener.take(), "e0:set:a e0:del:a");
    }
}

#[test]
fn evictions_are_published() {
    let server = Server::nagi_with(&["--maxmemory", "2mb", "--maxmemory-policy", "allkeys-random"]);
    let mut listener = Listener::of(&server, "Ee");
    let mut client = server.connect_resp();
    let value = "v".repeat(10_000);
    for index in 0..400 {
        client.check(&format!("SET key:{index} {value}"), "+OK\r\n");
    }
    let mut events = 0;
    // Memory that grows without a request may cause an eviction between the two replies.
    until("as many events as evictions", || {
        let evicted = listener.take();
        let evicted: Vec<&str> = evicted.split(' ').filter(|event| !event.is_empty()).collect();
        assert!(evicted.iter().all(|event| event.starts_with("e0:evicted:key:")), "{evicted:?}");
        events += evicted.len();
        let counted = client.run("INFO stats").text();
        let line = counted.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        (events > 0 && line == Some(&events.to_string())).then_some(())
    })
    .unwrap();
}

#[test]
fn verbs_of_memcached_cause_events() {
    let server = Server::nagi();
    let mut listener = Listener::of(&server, "AEnm");
    let mut client = server.connect_memcached();
    for (request, reply, events) in [
        ("set k 0 100 1\r\n5", "STORED", "e0:new:k e0:set:k e0:expire:k"),
        ("incr k 3", "8", "e0:incrby:k"),
        ("get none", "END", "e0:keymiss:none"),
        ("touch k 0", "TOUCHED", "e0:persist:k"),
        ("ms k 1\r\nx", "HD", "e0:set:k"),
        ("delete k", "DELETED", "e0:del:k"),
        ("mg none v", "EN", "e0:keymiss:none"),
    ] {
        client.check_raw(format!("{request}\r\n"), format!("{reply}\r\n"));
        assert_eq!(listener.take(), events, "{request}");
    }
}

/// Watching keys and receiving events are independent of each other.
#[test]
fn watching_keys_and_receiving_events_are_independent() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut other = server.connect_resp();
    let mut stopped = |client: &mut Connection| {
        client.check("WATCH a", "+OK\r\n");
        other.check("SET a 1", "+OK\r\n");
        client.check("MULTI", "+OK\r\n");
        client.check("EXEC", "*-1\r\n");
    };
    stopped(&mut client);
    let mut listener = Listener::of(&server, "E$");
    stopped(&mut client);
    assert_eq!(listener.take(), "e0:set:a");
    client.check("SET a 2", "+OK\r\n");
    assert_eq!(listener.take(), "e0:set:a");
    client.check("CONFIG SET notify-keyspace-events \"\"", "+OK\r\n");
    stopped(&mut client);
    assert_eq!(listener.take(), "");
    client.check("CONFIG SET notify-keyspace-events E$", "+OK\r\n");
    client.check("SET a 2", "+OK\r\n");
    assert_eq!(listener.take(), "e0:set:a");
    drop(listener);
    stopped(&mut client);
}

#[test]
fn events_follow_the_first_of_many_confirmations() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET notify-keyspace-events KEA", "+OK\r\n");
    let patterns = (0..20_000).map(|number| format!("none:{number}"));
    let words: Vec<String> = ["PSUBSCRIBE".to_owned(), "__keyevent*:set".to_owned()]
        .into_iter()
        .chain(patterns)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut listener = server.connect_resp();
    listener.send(harness::encode_command(&words));
    assert_eq!(listener.reply().list()[2].integer(), 1);
    client.check("SET a 1", "+OK\r\n");
    let is_event = |reply: harness::Reply| reply.list()[0].text() == "pmessage";
    assert!((0..20_001).any(|_| is_event(listener.reply())));
}

/// Clients on all workers change a few keys in transactions. Subscribers must receive all changes
/// of a key in the order in which they happened.
#[test]
fn events_of_a_key_come_in_order() {
    const CHANGES: usize = 500;
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut listeners: Vec<_> = (0..3).map(|_| Listener::of(&server, "Kgl$")).collect();
    let mut random = Random::announced();
    thread::scope(|scope| {
        for _ in 0..4 {
            let (mut client, mut random) = (server.connect_resp(), random.fork());
            scope.spawn(move || {
                for _ in 0..CHANGES {
                    let key = random.below(3);
                    client.run("MULTI");
                    client.run(&format!("SET k{key} 1"));
                    client.run(&format!("APPEND k{key} 1"));
                    client.run(&format!("DEL k{key}"));
                    client.run("EXEC");
                }
            });
        }
    });
    let heard: Vec<_> = listeners.iter_mut().map(Listener::take).collect();
    assert_eq!(heard[0].split(' ').count(), 4 * CHANGES * 3);
    for key in 0..3 {
        let own = format!("k0:k{key}:");
        let of_key: Vec<_> = heard[0].split(' ').filter_map(|it| it.strip_prefix(&own)).collect();
        let expected = ["set", "append", "del"].iter().cycle().take(of_key.len());
        assert!(of_key.iter().eq(expected), "k{key}: {of_key:?}");
    }
    assert!(heard.iter().all(|other| *other == heard[0]), "all subscribers hear the same");
}

/// If there are more events than workers send at once, the requests that cause them wait, and no
/// event is lost.
#[test]
fn requests_that_cause_too_many_events_wait() {
    const KEYS: usize = 20_000;
    const SUBSCRIBERS: usize = 50;
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET notify-keyspace-events E$g", "+OK\r\n");
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| server.connect_resp()).collect();
    for subscriber in &mut subscribers {
        subscriber.run("SUBSCRIBE __keyevent@0__:del");
    }
    let keys: Vec<_> = (0..KEYS).map(|index| format!("key:{index}")).collect();
    let set: Vec<_> = keys.iter().flat_map(|key| [key.as_str(), "x"]).collect();
    client.send(encode_command(&[&["MSET"], &set[..]].concat()));
    client.expect("+OK\r\n");
    let removed: Vec<_> = keys.iter().map(String::as_str).collect();
    client.send(encode_command(&[&["DEL"], &removed[..]].concat()));
    thread::scope(|scope| {
        for subscriber in &mut subscribers {
            let keys = &keys;
            scope.spawn(move || {
                for key in keys {
                    assert_eq!(subscriber.reply().list()[2].text(), *key);
                }
            });
        }
        client.expect(format!(":{KEYS}\r\n"));
    });
}

/// Many patterns make it take longer to publish the events of one request than publishers do at
/// once.
#[test]
fn messages_follow_the_events_of_earlier_requests() {
    const ROUNDS: usize = 20;
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, mut listener) = (server.connect_resp(), server.connect_resp());
    client.check("CONFIG SET notify-keyspace-events E$", "+OK\r\n");
    let patterns = (0..1000).map(|number| format!("__keyevent@0__:*{number}"));
    let words: Vec<String> = std::iter::once("PSUBSCRIBE".to_owned()).chain(patterns).collect();
    listener.run_words(&words);
    (1..1000).for_each(|_| drop(listener.reply()));
    for channel in ["__keyevent@0__:set", "messages"] {
        listener.run(&format!("SUBSCRIBE {channel}"));
    }
    let keys: Vec<_> = (0..100).map(|index| format!("key:{index}")).collect();
    let set: Vec<_> = keys.iter().flat_map(|key| [key.as_str(), "x"]).collect();
    let mut round = encode_command(&[&["MSET"], &set[..]].concat());
    round.extend(encode_command(&["PUBLISH", "messages", "end"]));
    client.send(round.repeat(ROUNDS));
    for _ in 0..ROUNDS {
        for expected in keys.iter().map(String::as_str).chain(["end"]) {
            assert_eq!(listener.reply().list()[2].text(), expected);
        }
    }
}

/// A long value takes another way than a short one.
#[test]
fn append_to_a_missing_key_publishes_append() {
    let words = ["APPEND", "key", &"x".repeat(200_000)];
    for server in [Server::nagi(), Server::redis()] {
        let (mut client, mut listener) = (server.connect_resp(), server.connect_resp());
        client.check("CONFIG SET notify-keyspace-events K$", "+OK\r\n");
        listener.run("SUBSCRIBE __keyspace@0__:key __keyspace@0__:short");
        listener.reply();
        let event = |key: &str| {
            let channel = format!("__keyspace@0__:{key}");
            format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n$6\r\nappend\r\n", channel.len())
        };
        client.run_words(&words);
        listener.expect(event("key"));
        client.run("APPEND short x");
        listener.expect(event("short"));
    }
}
