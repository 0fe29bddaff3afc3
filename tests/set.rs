//! Sets.

use harness::{Reply, Server, as_redis, encode_command};

const SYNTAX: &str = "-ERR syntax error\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NOT_POSITIVE: &str = "-ERR value is out of range, must be positive\r\n";

#[test]
fn members_are_added_removed_and_looked_for() {
    as_redis(&[
        ("SADD s 3 1 2 1", ":3\r\n"),
        ("SADD s 1", ":0\r\n"),
        ("OBJECT ENCODING s", "$6\r\nintset\r\n"),
        ("SMEMBERS s", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"),
        ("SADD s -9223372036854775808 9223372036854775807", ":2\r\n"),
        ("SMEMBERS nothing", "*0\r\n"),
        ("SCARD s", ":5\r\n"),
        ("SCARD nothing", ":0\r\n"),
        ("SISMEMBER s 3", ":1\r\n"),
        ("SISMEMBER s 03", ":0\r\n"),
        ("SISMEMBER nothing 3", ":0\r\n"),
        ("SMISMEMBER s 3 x -9223372036854775808", "*3\r\n:1\r\n:0\r\n:1\r\n"),
        ("SMISMEMBER nothing 1 2", "*2\r\n:0\r\n:0\r\n"),
        ("SREM s 1 1 x", ":1\r\n"),
        ("SREM nothing 1", ":0\r\n"),
        ("EXPIRE s 100", ":1\r\n"),
        ("SADD s x", ":1\r\n"),
        ("TTL s", ":100\r\n"),
        ("TYPE s", "+set\r\n"),
        ("SREM s 2 3 x -9223372036854775808 9223372036854775807", ":5\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("SADD s", "-ERR wrong number of arguments for 'sadd' command\r\n"),
        ("SREM s", "-ERR wrong number of arguments for 'srem' command\r\n"),
    ]);
}

#[test]
fn members_are_drawn_and_popped() {
    as_redis(&[
        ("SADD s a", ":1\r\n"),
        ("SRANDMEMBER s", "$1\r\na\r\n"),
        ("SRANDMEMBER s 5", "*1\r\n$1\r\na\r\n"),
        ("SRANDMEMBER s -3", "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"),
        ("SRANDMEMBER s 0", "*0\r\n"),
        ("SRANDMEMBER nothing", "$-1\r\n"),
        ("SRANDMEMBER nothing 3", "*0\r\n"),
        ("SRANDMEMBER s x", NOT_AN_INTEGER),
        ("SRANDMEMBER s 1 2", SYNTAX),
        (
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807\r\n",
        ),
        ("SPOP s 0", "*0\r\n"),
        ("SPOP s -1", NOT_POSITIVE),
        ("SPOP s x", NOT_POSITIVE),
        ("SPOP s 1 2", SYNTAX),
        ("SPOP s", "$1\r\na\r\n"),
        ("SPOP s", "$-1\r\n"),
        ("SPOP s 1", "*0\r\n"),
        ("SADD s a", ":1\r\n"),
        ("SPOP s 9223372036854775807", "*1\r\n$1\r\na\r\n"),
        ("EXISTS s", ":0\r\n"),
    ]);
}

#[test]
fn resp3_has_sets() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let _ = client.run("HELLO 3");
        for (command, reply) in [
            ("SADD s a", ":1\r\n"),
            ("SMEMBERS s", "~1\r\n$1\r\na\r\n"),
            ("SRANDMEMBER s 2", "*1\r\n$1\r\na\r\n"),
            ("SUNION s s", "~1\r\n$1\r\na\r\n"),
            ("SINTER s nothing", "~0\r\n"),
            ("SDIFF s nothing", "~1\r\n$1\r\na\r\n"),
            ("SPOP s 2", "~1\r\n$1\r\na\r\n"),
            ("SPOP s 2", "~0\r\n"),
            ("SPOP s", "_\r\n"),
            ("SMEMBERS s", "~0\r\n"),
        ] {
            client.check(command, reply);
        }
    }
}

#[test]
fn members_are_walked_by_cursor() {
    as_redis(&[
        ("SADD s 1 2 30", ":3\r\n"),
        ("SSCAN s 0", "*2\r\n$1\r\n0\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$2\r\n30\r\n"),
        ("SSCAN s 0 MATCH 3* COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\n30\r\n"),
        ("SSCAN nothing 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SSCAN nothing 0 NONSENSE", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SSCAN s x", "-ERR invalid cursor\r\n"),
        ("SSCAN s 0 COUNT 0", SYNTAX),
        ("SSCAN s 0 COUNT x", NOT_AN_INTEGER),
    ]);
}

#[test]
fn sets_are_combined() {
    let too_many = "-ERR Number of keys can't be greater than number of args\r\n";
    as_redis(&[
        ("SADD a 1 2 3 4", ":4\r\n"),
        ("SADD b 3 4 5", ":3\r\n"),
        ("SINTER a b", "*2\r\n$1\r\n3\r\n$1\r\n4\r\n"),
        ("SUNION a b nothing", "*5\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n"),
        ("SDIFF a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("SDIFF a a", "*0\r\n"),
        ("SDIFF nothing a", "*0\r\n"),
        ("SINTERCARD 2 a b", ":2\r\n"),
        ("SINTERCARD 2 a b LIMIT 1", ":1\r\n"),
        ("SINTERCARD 2 a b limit 5 LIMIT 0", ":2\r\n"),
        ("SINTERCARD 2 a nothing", ":0\r\n"),
        ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD x a", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD 2 a", too_many),
        ("SINTERCARD 1 a b", SYNTAX),
        ("SINTERCARD 1 a LIMIT", SYNTAX),
        ("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative\r\n"),
        ("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative\r\n"),
        ("SET d text EX 100", "+OK\r\n"),
        ("SUNIONSTORE d a b", ":5\r\n"),
        ("TTL d", ":-1\r\n"),
        ("SINTERSTORE d d a", ":4\r\n"),
        ("SMEMBERS d", "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n"),
        ("SDIFFSTORE d d b", ":2\r\n"),
        ("SMEMBERS d", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("SDIFFSTORE d d d", ":0\r\n"),
        ("EXISTS d", ":0\r\n"),
        ("SMOVE a b 1", ":1\r\n"),
        ("SMOVE a b 1", ":0\r\n"),
        ("SMOVE b b 1", ":1\r\n"),
        ("SMOVE a new 2", ":1\r\n"),
        ("SMEMBERS new", "*1\r\n$1\r\n2\r\n"),
        ("SUNION a b new", "*5\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n"),
    ]);
}

/// The names are those of Redis since 7.2, which has listpacks for sets.
#[test]
fn encodings_change_at_their_limits_and_not_back() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let long = "x".repeat(64);
    for (request, encoding) in [
        ("SADD s 1", "intset"),
        ("SADD s x", "listpack"),
        ("SREM s x", "listpack"),
        (&format!("SADD s {long}"), "listpack"),
        (&format!("SADD s {long}x"), "hashtable"),
        (&format!("SREM s {long}x"), "hashtable"),
        ("SUNIONSTORE s s", "listpack"),
        (&format!("SREM s {long}"), "listpack"),
        ("SUNIONSTORE s s", "intset"),
        ("CONFIG SET set-max-intset-entries 2", "intset"),
        ("SADD s 1 2", "intset"),
        ("SADD s 3", "hashtable"),
        ("CONFIG SET set-max-listpack-entries 2", "hashtable"),
        ("SDIFFSTORE s s nothing", "hashtable"),
        ("SREM s 3", "hashtable"),
        ("SINTERSTORE s s", "intset"),
        ("SADD s x", "hashtable"),
        ("DEL s", "none"),
        // While an intersection is being computed, all of its members may turn out to be integers.
        ("CONFIG SET set-max-intset-entries 1", "none"),
        ("SADD s 1 2", "listpack"),
        ("SINTERSTORE s s s", "listpack"),
        ("SREM s 1", "listpack"),
        ("SINTERSTORE s s s", "intset"),
        ("CONFIG SET set-max-intset-entries 0", "intset"),
        ("SUNIONSTORE s s", "hashtable"),
    ] {
        let _ = client.run(request);
        let found = match client.run("OBJECT ENCODING s") {
            Reply::Null => "none".to_owned(),
            found => found.text(),
        };
        assert_eq!(found, encoding, "{request}");
    }
}

/// Long commands are executed in slices, but see their sets at a single moment.
#[test]
fn clients_are_served_while_large_sets_are_combined() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let members: Vec<String> = (0..200_000).map(|number| format!("member:{number}")).collect();
    for batch in members.chunks(10_000) {
        let words: Vec<&str> =
            ["SADD", "a"].into_iter().chain(batch.iter().map(|it| &**it)).collect();
        client.send(encode_command(&words));
        client.expect(":10000\r\n");
    }
    client.check("COPY a b", ":1\r\n");
    client.check("SREM b member:7", ":1\r\n");
    let mut other = server.connect_resp();
    client.send(encode_command(&["SINTERSTORE", "dest", "a", "b"]));
    other.check("SADD unrelated x", ":1\r\n");
    // The request waits until the set has been stored.
    other.check("SCARD dest", ":199999\r\n");
    client.expect(":199999\r\n");
    client.check("SDIFF a b", "*1\r\n$8\r\nmember:7\r\n");
    client.check("SINTERCARD 2 a b", ":199999\r\n");
    client.check("SUNIONSTORE dest a b", ":200000\r\n");
    client.send(encode_command(&["SPOP", "a", "150000"]));
    let popped = client.reply();
    assert_eq!(popped.list().len(), 150_000);
    client.check("SCARD a", ":50000\r\n");
    client.check("SINTERCARD 2 a dest", ":50000\r\n");
}

/// A command that runs in slices has one time: its key does not expire between two of them.
#[test]
fn a_key_does_not_expire_during_a_command() {
    const MEMBERS: usize = 200_000;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let members: Vec<String> = (0..MEMBERS).map(|member| member.to_string()).collect();
    let mut words = vec!["SADD", "key"];
    words.extend(members.iter().map(String::as_str));
    let request = encode_command(&words);
    for ttl_ms in [1, 5, 10, 20, 30, 50, 80] {
        client.run("DEL key");
        client.check("SADD key before", ":1\r\n");
        client.check(&format!("PEXPIRE key {ttl_ms}"), ":1\r\n");
        client.send(&request);
        client.reply();
        let count = client.run("SCARD key").integer();
        let is_whole = [0, MEMBERS as i64, MEMBERS as i64 + 1].contains(&count);
        assert!(is_whole, "{count} members with {ttl_ms} ms");
    }
}

/// The length of a request counts once.
#[test]
fn repeated_members_of_a_long_request_leave_a_listpack() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check(&format!("SADD s 1 a{}", " a".repeat(128)), ":2\r\n");
    client.check("OBJECT ENCODING s", "$8\r\nlistpack\r\n");
}

/// Redis 7.0, with which the other scans are compared, lacks the option.
#[test]
fn only_scans_of_hashes_may_omit_values() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SADD s a", ":1\r\n");
    client.check("ZADD z 1 a", ":1\r\n");
    for scan in ["SCAN", "SSCAN s", "ZSCAN z"] {
        let error = "-ERR NOVALUES option can only be used in HSCAN\r\n";
        client.check(&format!("{scan} 0 NOVALUES"), error);
    }
}
