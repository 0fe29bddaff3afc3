//! Hashes: fields with values under one key.

use harness::{Server, as_redis};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

#[test]
fn fields_are_set_read_and_removed() {
    as_redis(&[
        ("HSET h a 1 b two", ":2\r\n"),
        ("HSET h a 2 c 3", ":1\r\n"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command\r\n"),
        ("HGET h a", "$1\r\n2\r\n"),
        ("HGET h nothing", "$-1\r\n"),
        ("HGET nothing a", "$-1\r\n"),
        ("HMGET h a nothing b", "*3\r\n$1\r\n2\r\n$-1\r\n$3\r\ntwo\r\n"),
        ("HMGET nothing a b", "*2\r\n$-1\r\n$-1\r\n"),
        ("HGETALL h", "*6\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\nb\r\n$3\r\ntwo\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("HKEYS h", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("HVALS h", "*3\r\n$1\r\n2\r\n$3\r\ntwo\r\n$1\r\n3\r\n"),
        ("HGETALL nothing", "*0\r\n"),
        ("HKEYS nothing", "*0\r\n"),
        ("HVALS nothing", "*0\r\n"),
        ("HLEN h", ":3\r\n"),
        ("HLEN nothing", ":0\r\n"),
        ("HSTRLEN h b", ":3\r\n"),
        ("HSTRLEN h nothing", ":0\r\n"),
        ("HEXISTS h b", ":1\r\n"),
        ("HEXISTS h nothing", ":0\r\n"),
        ("HEXISTS nothing b", ":0\r\n"),
        ("HSETNX h b 3", ":0\r\n"),
        ("HSETNX h new 3", ":1\r\n"),
        ("HSETNX other new 3", ":1\r\n"),
        ("HMSET h a 5", "+OK\r\n"),
        ("HDEL h a nothing a", ":1\r\n"),
        ("HDEL nothing a", ":0\r\n"),
        ("HDEL h b c new", ":3\r\n"),
        ("EXISTS h", ":0\r\n"),
        ("TYPE other", "+hash\r\n"),
    ]);
}

#[test]
fn a_hash_in_resp3_is_a_map() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.run("HELLO 3");
        client.check("HSET h a 1", ":1\r\n");
        client.check("HGETALL h", "%1\r\n$1\r\na\r\n$1\r\n1\r\n");
        client.check("HGETALL nothing", "%0\r\n");
        client.check("HKEYS h", "*1\r\n$1\r\na\r\n");
        client.check("HRANDFIELD h", "$1\r\na\r\n");
        client.check("HRANDFIELD h 1 WITHVALUES", "*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
        client.check("HRANDFIELD h -2", "*2\r\n$1\r\na\r\n$1\r\na\r\n");
        client.check("HRANDFIELD nothing", "_\r\n");
        client.check("HSCAN h 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    }
}

#[test]
fn fields_are_counted_with() {
    as_redis(&[
        ("HINCRBY h n 5", ":5\r\n"),
        ("HINCRBY h n -7", ":-2\r\n"),
        ("HINCRBY h n x", NOT_AN_INTEGER),
        ("HSET h text word big 9223372036854775807", ":2\r\n"),
        ("HINCRBY h text 1", "-ERR hash value is not an integer\r\n"),
        ("HINCRBY h big 1", "-ERR increment or decrement would overflow\r\n"),
        ("HINCRBYFLOAT h n 1.5", "$4\r\n-0.5\r\n"),
        ("HINCRBYFLOAT h f 3.0e2", "$3\r\n300\r\n"),
        ("HINCRBYFLOAT h text 1", "-ERR hash value is not a float\r\n"),
        ("HINCRBYFLOAT h n x", "-ERR value is not a valid float\r\n"),
        ("HGET h n", "$4\r\n-0.5\r\n"),
        ("HINCRBY h n 1", "-ERR hash value is not an integer\r\n"),
        ("HLEN h", ":4\r\n"),
    ]);
}

#[test]
fn some_are_drawn() {
    as_redis(&[
        ("HSET h a 1", ":1\r\n"),
        ("HRANDFIELD h", "$1\r\na\r\n"),
        ("HRANDFIELD h 0", "*0\r\n"),
        ("HRANDFIELD h 5", "*1\r\n$1\r\na\r\n"),
        ("HRANDFIELD h -3", "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"),
        ("HRANDFIELD h -2 WITHVALUES", "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("HRANDFIELD nothing", "$-1\r\n"),
        ("HRANDFIELD nothing 5", "*0\r\n"),
        ("HRANDFIELD h x", NOT_AN_INTEGER),
        ("HRANDFIELD h 1 NONSENSE", SYNTAX),
        (
            "HRANDFIELD h -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807\r\n",
        ),
        ("HRANDFIELD h -9223372036854775807 WITHVALUES", "-ERR value is out of range\r\n"),
    ]);
}

#[test]
fn values_of_other_types_are_refused() {
    as_redis(&[
        ("SET s 1", "+OK\r\n"),
        ("HSET s a 1", WRONG_TYPE),
        ("HSETNX s a 1", WRONG_TYPE),
        ("HGET s a", WRONG_TYPE),
        ("HMGET s a", WRONG_TYPE),
        ("HGETALL s", WRONG_TYPE),
        ("HKEYS s", WRONG_TYPE),
        ("HVALS s", WRONG_TYPE),
        ("HLEN s", WRONG_TYPE),
        ("HEXISTS s a", WRONG_TYPE),
        ("HSTRLEN s a", WRONG_TYPE),
        ("HDEL s a", WRONG_TYPE),
        ("HINCRBY s a 1", WRONG_TYPE),
        ("HINCRBYFLOAT s a 1", WRONG_TYPE),
        ("HRANDFIELD s", WRONG_TYPE),
        ("HSCAN s 0", WRONG_TYPE),
        ("GET s", "$1\r\n1\r\n"),
    ]);
}

#[test]
fn the_encoding_follows_the_settings() {
    as_redis(&[
        ("CONFIG SET hash-max-listpack-entries 3 hash-max-listpack-value 8", "+OK\r\n"),
        ("HSET h a 1 b 2 c 3", ":3\r\n"),
        ("OBJECT ENCODING h", "$8\r\nlistpack\r\n"),
        ("HSET h d 4", ":1\r\n"),
        ("OBJECT ENCODING h", "$9\r\nhashtable\r\n"),
        ("HDEL h d c", ":2\r\n"),
        ("OBJECT ENCODING h", "$9\r\nhashtable\r\n"),
        ("HSET long a 12345678", ":1\r\n"),
        ("OBJECT ENCODING long", "$8\r\nlistpack\r\n"),
        ("HSET long a 123456789", ":0\r\n"),
        ("OBJECT ENCODING long", "$9\r\nhashtable\r\n"),
        ("COPY h other", ":1\r\n"),
        ("OBJECT ENCODING other", "$9\r\nhashtable\r\n"),
        ("RENAME other another", "+OK\r\n"),
        ("HMGET another a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
    ]);
}

/// As in Redis 8, a hash is a table if a request gives it more fields than a listpack may have,
/// even if some of them are the same.
#[test]
fn the_encoding_follows_the_number_of_given_fields() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for (given, encoding) in
        [(3, "listpack"), (512, "listpack"), (513, "hashtable"), (700, "hashtable")]
    {
        let pairs: Vec<String> = (0..given).map(|it| format!("{} v", it % 100)).collect();
        for command in ["HSET k".to_owned(), format!("HSETEX k FIELDS {given}")] {
            client.run("DEL k");
            client.run(&format!("{command} {}", pairs.join(" ")));
            assert_eq!(client.run("HLEN k").integer(), given.min(100), "{command}");
            assert_eq!(client.run("OBJECT ENCODING k").text(), encoding, "{command} of {given}");
        }
    }
}

/// Returns the fields and values of `key`, as returned by HSCAN.
fn scanned(client: &mut harness::Connection, key: &str, options: &str) -> Vec<(String, String)> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = client.run(&format!("HSCAN {key} {cursor} {options}"));
        let [next, elements] = reply.list() else { panic!("{reply:?}") };
        let texts: Vec<String> = elements.list().iter().map(|it| it.text()).collect();
        found.extend(texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())));
        cursor = next.text();
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn a_large_hash_is_walked_shown_copied_saved_and_removed() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    let count = 20_000;
    let fields: Vec<(String, String)> =
        (0..count).map(|number| (format!("field:{number}"), format!("value:{number}"))).collect();
    for part in fields.chunks(700) {
        let words = part.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let request: Vec<&str> = ["HSET", "h"].into_iter().chain(words).collect();
        assert_eq!(client.run_words(&request).integer(), part.len() as i64);
    }
    assert_eq!(client.run("HLEN h").integer(), count);
    let mut expected = fields.clone();
    expected.sort();
    let sorted = |mut pairs: Vec<(String, String)>| {
        pairs.sort();
        pairs.dedup();
        pairs
    };
    assert_eq!(sorted(scanned(&mut client, "h", "COUNT 300")), expected);
    let few = sorted(scanned(&mut client, "h", "MATCH field:1999? COUNT 1000"));
    assert_eq!(few, sorted(fields[19_990..].to_vec()));
    let all = client.run("HGETALL h");
    let pairs = all.list().chunks(2).map(|it| (it[0].text().to_owned(), it[1].text().to_owned()));
    assert_eq!(sorted(pairs.collect()), expected);
    assert_eq!(client.run("HKEYS h").list().len(), fields.len());
    assert_eq!(client.run("HRANDFIELD h 500").list().len(), 500);
    assert_eq!(client.run("HRANDFIELD h -30000").list().len(), 30_000);
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let wanted: Vec<&str> = ["HMGET", "h"].into_iter().chain(names.iter().copied()).collect();
    let values = client.run_words(&wanted);
    let values = values.list().iter().map(|it| it.text());
    assert!(values.eq(fields.iter().map(|(_, value)| value.clone())));
    let digest = client.run("DEBUG DIGEST-VALUE h").list()[0].text();
    client.check("COPY h copy", ":1\r\n");
    client.check("HSET copy field:0 changed", ":0\r\n");
    client.check("HGET h field:0", "$7\r\nvalue:0\r\n");
    client.check("DEBUG RELOAD", "+OK\r\n");
    assert_eq!(client.run("DEBUG DIGEST-VALUE h").list()[0].text(), digest);
    let payload = client.run("DUMP h");
    let harness::Reply::Bulk(payload) = payload else { panic!("{payload:?}") };
    let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", &payload];
    client.send(harness::encode_command(&restore));
    assert_eq!(client.reply().text(), "OK");
    assert_eq!(client.run("DEBUG DIGEST-VALUE restored").list()[0].text(), digest);
    let gone: Vec<&str> = ["HDEL", "h"].into_iter().chain(names).collect();
    assert_eq!(client.run_words(&gone).integer(), count);
    client.check("EXISTS h", ":0\r\n");
    client.check("UNLINK copy restored", ":2\r\n");
}

#[test]
fn redis_reads_the_hashes_that_nagi_dumps_and_the_other_way_round() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let long = "x".repeat(100);
    let many: Vec<String> = (0..1000).map(|number| format!("f{number} {number}")).collect();
    let repeated = "word ".repeat(40_000).replace(' ', "_");
    for content in
        ["a 1 b two", &format!("a {long} {long} b"), &many.join(" "), &format!("a {repeated}")]
    {
        let mut clients = [nagi.connect_resp(), redis.connect_resp()];
        for from in 0..2 {
            clients[from].run("DEL h");
            clients[from].run(&format!("HSET h {content}"));
            let mut expected = texts(&clients[from].run("HGETALL h"));
            let harness::Reply::Bulk(payload) = clients[from].run("DUMP h") else { panic!() };
            let to = &mut clients[1 - from];
            let words: [&[u8]; 5] = [b"RESTORE", b"there", b"0", &payload, b"REPLACE"];
            to.send(harness::encode_command(&words));
            assert_eq!(to.reply().text(), "OK");
            let mut found = texts(&to.run("HGETALL there"));
            expected.sort();
            found.sort();
            assert_eq!(found, expected);
        }
    }
}

fn texts(reply: &harness::Reply) -> Vec<String> {
    reply.list().iter().map(|it| it.text()).collect()
}
