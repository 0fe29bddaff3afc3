//! Hash fields that expire.
//!
//! The Redis with which tests compare is too old for them, so the replies of Redis 8.0.6 and the
//! events that it published are in `reference/field-expiry.txt`. If `NAGI_REDIS_8_PORT` names the
//! port of such a server without data, the file is rewritten.

use crate::persistence::Folder;
use harness::{Connection, Reply, Server, until};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/field-expiry.txt");

/// Collects a server's replies to requests, and the events that it publishes after each request.
struct Conversation {
    client: Connection,
    subscriber: Connection,
}

impl Conversation {
    fn begin(mut client: Connection, mut subscriber: Connection) -> Self {
        client.check("CONFIG SET notify-keyspace-events AE", "+OK\r\n");
        subscriber.run("SUBSCRIBE end");
        subscriber.run("PSUBSCRIBE __keyevent@0__:*");
        Conversation { client, subscriber }
    }

    /// Returns a line in the format of the file: the request, `=>`, the reply with `|` in place of
    /// line breaks, and the events.
    fn line(&mut self, request: &str) -> String {
        self.client.send(harness::encode_command(&harness::words(request)));
        let (_, reply) = self.client.reply_and_bytes();
        self.client.run("PUBLISH end x");
        let mut events = Vec::new();
        // The events end with a message to a channel, which has three parts.
        loop {
            let message = self.subscriber.reply();
            let [kind, _, channel, key] = message.list() else { break };
            assert_eq!(kind.text(), "pmessage");
            let event = channel.text().rsplit(':').next().unwrap_or_default().to_owned();
            events.push(format!("{event}({})", key.text()));
        }
        let reply = String::from_utf8(reply).expect("text").replace("\r\n", "|");
        let mut line = format!("{request} => {reply}");
        if !events.is_empty() {
            line.push_str(&format!("  # {}", events.join(" ")));
        }
        line
    }
}

#[test]
fn replies_and_events_are_those_of_redis_8() {
    let text = std::fs::read_to_string(REFERENCE).expect("the reference");
    let requests = text.lines().filter_map(|line| Some(line.split_once(" =>")?.0));
    if let Ok(port) = std::env::var("NAGI_REDIS_8_PORT") {
        let port: u16 = port.parse().expect("NAGI_REDIS_8_PORT is a port");
        let open = || Connection::open(([127, 0, 0, 1], port).into());
        let mut redis = Conversation::begin(open(), open());
        let lines = requests.map(|request| redis.line(request) + "\n");
        std::fs::write(REFERENCE, lines.collect::<String>()).expect("it can be written");
        return;
    }
    let server = Server::nagi();
    let mut nagi = Conversation::begin(server.connect_resp(), server.connect_resp());
    for (expected, request) in text.lines().zip(requests) {
        assert_eq!(nagi.line(request), expected);
    }
}

#[test]
fn expired_fields_are_gone_and_published() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut subscriber = server.connect_resp();
    client.check("CONFIG SET notify-keyspace-events Eh", "+OK\r\n");
    subscriber.run("PSUBSCRIBE __keyevent@0__:h*");
    // A small hash, and one that is stored as a tree.
    client.check("HSET small a 1 b 2", ":2\r\n");
    let pairs: String = (0..2000).map(|number| format!(" field:{number} value:{number}")).collect();
    client.check(&format!("HSET large{pairs}"), ":2000\r\n");
    for key in ["small", "large"] {
        assert_eq!(subscriber.reply().list()[2].text(), "__keyevent@0__:hset", "{key}");
    }
    client.check("HPEXPIRE small 1 FIELDS 1 a", "*1\r\n:1\r\n");
    let names: String = (0..1000).map(|number| format!(" field:{number}")).collect();
    let replies = client.run(&format!("HPEXPIRE large 1 FIELDS 1000{names}"));
    // Some of the fields may expire while these requests are executed.
    assert!(replies.list().iter().all(|reply| [1, 2].contains(&reply.integer())));
    for (key, left) in [("small", 1), ("large", 1000)] {
        let gone =
            until(key, || (client.run(&format!("HLEN {key}")).integer() == left).then_some(()));
        gone.unwrap_or_else(|error| panic!("{error}: {:?}", client.run(&format!("HLEN {key}"))));
    }
    client.check("HMGET small a b", "*2\r\n$-1\r\n$1\r\n2\r\n");
    let mut events = Vec::new();
    while !events.contains(&"hexpired small".to_owned()) {
        let message = subscriber.reply();
        let [_, _, channel, key] = message.list() else { panic!("{message:?}") };
        let channel = channel.text();
        events.push(format!("{} {}", channel.rsplit(':').next().unwrap_or_default(), key.text()));
    }
    assert!(events.contains(&"hexpire small".to_owned()), "{events:?}");
    let info = client.run("INFO stats").text();
    let (_, count) = info.split_once("expired_subkeys:").expect("a count");
    assert!(!count.starts_with("0\r"), "{info}");
    client.check("EXISTS small large", ":2\r\n");
    client.check("HPEXPIRE small 1 FIELDS 1 b", "*1\r\n:1\r\n");
    until("the hash is gone with its last field", || {
        (client.run("EXISTS small").integer() == 0).then_some(())
    })
    .expect("it goes");
}

/// As in Redis, that counts as an expiry.
#[test]
fn fields_whose_time_has_passed_are_counted() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("HSET h a 1 b 1 c 1 d 1", ":4\r\n");
    for (command, count) in [
        ("HPEXPIRE h 0 FIELDS 1 a", 1),
        ("HGETEX h PXAT 1 FIELDS 1 b", 2),
        ("HSETEX h PXAT 1 FIELDS 2 c 2 none 2", 4),
        ("HPEXPIREAT h 1 FIELDS 2 d none", 5),
    ] {
        client.run(command);
        let info = client.run("INFO stats").text();
        assert!(info.contains(&format!("expired_subkeys:{count}\r\n")), "{command}: {info}");
    }
}

#[test]
fn expired_fields_that_must_stay_are_hidden() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    let pairs: String = (0..300).map(|number| format!(" {number} {number}")).collect();
    for key in ["small 0 0 1 1 2 2", &format!("large{pairs}")] {
        client.run(&format!("HSET {key}"));
    }
    client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    // Paused clients wait before they write, so the fields expire meanwhile.
    let server_time = |client: &mut Connection| {
        let time = client.run("TIME");
        time.list()[0].text().parse::<u64>().expect("seconds") * 1000
    };
    client.check("CLIENT UNPAUSE", "+OK\r\n");
    let due_ms = server_time(&mut client) + 2000;
    let names: String = (0..300).step_by(2).map(|number| format!(" {number}")).collect();
    client.run(&format!("HPEXPIREAT small {due_ms} FIELDS 2 0 2"));
    client.run(&format!("HPEXPIREAT large {due_ms} FIELDS 150{names}"));
    client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    until("the time has come", || (server_time(&mut client) > due_ms).then_some(())).expect("it");
    client.check("HLEN large", ":300\r\n");
    client.check("HGETALL small", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    client.check("HGET small 0", "$-1\r\n");
    client.check("HEXISTS large 2", ":0\r\n");
    client.check("HSTRLEN large 2", ":0\r\n");
    client.check("HRANDFIELD small 9 WITHVALUES", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    client.check("HRANDFIELD small", "$1\r\n1\r\n");
    client.check("HTTL small FIELDS 2 0 1", "*2\r\n:-2\r\n:-1\r\n");
    let is_odd = |reply: &harness::Reply| reply.text().parse::<u32>().expect("a number") % 2 == 1;
    for (request, count) in
        [("HKEYS large", 150), ("HRANDFIELD large 1000", 150), ("HRANDFIELD large -500", 500)]
    {
        let names = client.run(request);
        assert_eq!(names.list().len(), count, "{request}");
        assert!(names.list().iter().all(is_odd), "{request}");
    }
    let scanned = client.run("HSCAN large 0 COUNT 1000 NOVALUES");
    assert_eq!(scanned.list()[1].list().len(), 150);
    client.check("CLIENT UNPAUSE", "+OK\r\n");
    until("they are removed", || (client.run("HLEN large").integer() == 150).then_some(()))
        .expect("they are");
}

#[test]
fn times_are_saved_in_a_file_of_version_12() {
    let folder = Folder::new("field-expiry");
    let start = || folder.nagi(&["--save", "900 1"]);
    let mut server = start();
    let mut client = server.connect_resp();
    let version = || {
        let file = std::fs::read(folder.0.join("dump.rdb")).expect("the file");
        String::from_utf8_lossy(&file[..9]).into_owned()
    };
    client.check("HSET plain a 1", ":1\r\n");
    client.check("SAVE", "+OK\r\n");
    assert_eq!(version(), "REDIS0010");
    client.check("HSETEX small EXAT 4000000000 FIELDS 1 a 1", ":1\r\n");
    client.check("HSET small b 2", ":1\r\n");
    let pairs: String = (0..2000).map(|number| format!(" {number} {number}")).collect();
    client.check(&format!("HSETEX large PXAT 4000000000123 FIELDS 2000{pairs}"), ":1\r\n");
    client.check("SAVE", "+OK\r\n");
    assert_eq!(version(), "REDIS0012");
    client.check("CONFIG SET rdb-version 10", "+OK\r\n");
    let refused = client.run("SAVE");
    assert!(matches!(&refused, harness::Reply::Error(_)), "{refused:?}");
    assert!(server.log().contains("fields of the hash"), "{}", server.log());
    client.check("CONFIG SET rdb-version 80", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    assert_eq!(version(), "VALKEY080");
    for rdb_version in ["80", "lowest"] {
        client.check(&format!("CONFIG SET rdb-version {rdb_version}"), "+OK\r\n");
        client.check("SAVE", "+OK\r\n");
        server.signal(rustix::process::Signal::KILL);
        server.wait_for_exit();
        server = start();
        client = server.connect_resp();
        client.check("HEXPIRETIME small FIELDS 2 a b", "*2\r\n:4000000000\r\n:-1\r\n");
        client.check(
            "HPEXPIRETIME large FIELDS 2 0 1999",
            "*2\r\n:4000000000123\r\n:4000000000123\r\n",
        );
        client.check("HLEN large", ":2000\r\n");
        let info = client.run("INFO keyspace").text();
        assert!(info.contains("keys=3,expires=0,avg_ttl=0,subexpiry=2"), "{info}");
    }
    // Payloads contain the expiry times, too.
    let payload = client.run("DUMP small");
    let harness::Reply::Bulk(payload) = payload else { panic!("{payload:?}") };
    let words: [&[u8]; 4] = [b"RESTORE", b"again", b"0", &payload];
    assert_eq!(client.run_words(&words), harness::Reply::Simple("OK".into()));
    client.check("HEXPIRETIME again FIELDS 2 a b", "*2\r\n:4000000000\r\n:-1\r\n");
}

/// Its end is published before the sweep, if a request replaces it.
#[test]
fn an_expired_field_that_is_replaced_has_expired() {
    for replacement in
        ["HINCRBY h f 1", "HINCRBYFLOAT h f 1", "HSETNX h f 1", "HSETEX h FNX FIELDS 1 f 1"]
    {
        let server = Server::nagi_with(&["--notify-keyspace-events", "Eh", "--hz", "1"]);
        let (mut client, mut listener) = (server.connect_resp(), server.connect_resp());
        listener.run("SUBSCRIBE __keyevent@0__:hexpired");
        // Whether the sweep or the request comes first, there is one event.
        client.check("HSET h f 1 g 1", ":2\r\n");
        client.run("HPEXPIRE h 1 FIELDS 1 f");
        until("the field to expire", || {
            (client.run("HEXISTS h f") == Reply::Integer(0)).then_some(())
        })
        .unwrap();
        client.run(replacement);
        let message = "*3\r\n$7\r\nmessage\r\n$23\r\n__keyevent@0__:hexpired\r\n$1\r\nh\r\n";
        listener.expect(message);
        assert!(client.run("INFO stats").text().contains("expired_subkeys:1\r\n"));
    }
}
