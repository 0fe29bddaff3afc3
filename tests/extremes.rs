//! Values, numbers and counts at their limits.

use harness::{Connection, Server, as_redis, encode_command, size, until};

const NOT_A_FLOAT: &str = "-ERR value is not a valid float\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";

const TOO_LOW: &str = "-ERR value is out of range, value must between -9223372036854775807 and \
                       9223372036854775807\r\n";

/// The commands of one way to store a long member.
struct Way<'a> {
    add: &'a [&'a str],
    find: &'a [&'a str],
    found: &'a str,
    show_all: &'a str,
    remove: &'a [&'a str],
}

/// Members are as long as a request allows, and longer. Other clients of the same worker are served
/// meanwhile.
#[test]
fn members_are_as_long_as_a_string_may_be() {
    let long = "m".repeat(size(6 << 20, 512 << 20));
    let bulk = format!("${}\r\n{long}\r\n", long.len());
    let ways = [
        Way {
            add: &["SADD", "key", &long],
            find: &["SISMEMBER", "key", &long],
            found: ":1\r\n",
            show_all: "SMEMBERS key",
            remove: &["SREM", "key", &long],
        },
        Way {
            add: &["ZADD", "key", "2.5", &long],
            find: &["ZSCORE", "key", &long],
            found: "$3\r\n2.5\r\n",
            show_all: "ZRANGE key 0 -1",
            remove: &["ZREM", "key", &long],
        },
        Way {
            add: &["HSET", "key", &long, "value"],
            find: &["HGET", "key", &long],
            found: "$5\r\nvalue\r\n",
            show_all: "HKEYS key",
            remove: &["HDEL", "key", &long],
        },
        Way {
            add: &["HSET", "key", "field", &long],
            find: &["HSTRLEN", "key", "field"],
            found: &format!(":{}\r\n", long.len()),
            show_all: "HVALS key",
            remove: &["HDEL", "key", "field"],
        },
        Way {
            add: &["RPUSH", "key", &long],
            find: &["LPOS", "key", &long],
            found: ":0\r\n",
            show_all: "LRANGE key 0 -1",
            remove: &["LREM", "key", "0", &long],
        },
    ];
    let server = Server::nagi_with(&["--workers", "1"]);
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    for way in ways {
        for (request, reply) in [(way.add, ":1\r\n"), (way.find, way.found)] {
            client.send(encode_command(request));
            other.check("PING", "+PONG\r\n");
            client.expect(reply);
        }
        client.check(way.show_all, format!("*1\r\n{bulk}"));
        client.send(encode_command(way.remove));
        client.expect(":1\r\n");
        other.check("EXISTS key", ":0\r\n");
    }
    client.send(format!("*3\r\n$4\r\nSADD\r\n$3\r\nkey\r\n${}\r\n", (512 << 20) + 1));
    client.expect("-ERR Protocol error: invalid bulk length\r\n");
    other.check("EXISTS key", ":0\r\n");
}

/// The keys are unwatched when EXEC is executed or the client ends, and a change of one of them is
/// noticed.
#[test]
fn very_many_keys_are_watched() {
    let count = size(100_000, 1_000_000);
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut other = server.connect_resp();
    let names: Vec<String> = (0..count).map(|number| format!("key:{number}")).collect();
    let watch_all = |client: &mut Connection, other: &mut Connection| {
        for names in names.chunks(count / 10) {
            let words: Vec<&str> =
                ["WATCH"].into_iter().chain(names.iter().map(String::as_str)).collect();
            client.send(encode_command(&words));
            other.check("PING", "+PONG\r\n");
            client.expect("+OK\r\n");
        }
        assert_eq!(other.info::<usize>("total_watched_keys"), count);
    };
    let until_none = |other: &mut Connection| {
        let is_so = || (other.info::<usize>("total_watched_keys") == 0).then_some(());
        until("no key to be watched", is_so).unwrap();
        assert_eq!(other.info::<usize>("watching_clients"), 0);
    };
    let mut client = server.connect_resp();
    for (change, reply) in [(count - 1, "*-1\r\n"), (count, "*1\r\n+PONG\r\n")] {
        watch_all(&mut client, &mut other);
        other.check(&format!("SET key:{change} value"), "+OK\r\n");
        client.check("MULTI", "+OK\r\n");
        client.check("PING", "+QUEUED\r\n");
        client.check("EXEC", reply);
        until_none(&mut other);
    }
    watch_all(&mut client, &mut other);
    drop(client);
    until_none(&mut other);
    other.check("DBSIZE", ":2\r\n");
}

#[test]
fn scores_end_where_doubles_do() {
    let zeros = "*6\r\n$1\r\na\r\n$1\r\n0\r\n$1\r\nb\r\n$1\r\n0\r\n$1\r\nc\r\n$1\r\n0\r\n";
    as_redis(&[
        ("ZADD z inf a -inf b 1.7976931348623157e308 c", ":3\r\n"),
        ("ZADD z nan d", NOT_A_FLOAT),
        ("ZADD z 1e309 d", NOT_A_FLOAT),
        ("ZSCORE z b", "$4\r\n-inf\r\n"),
        ("ZSCORE z c", "$23\r\n1.7976931348623157e+308\r\n"),
        ("ZINCRBY z 1.7976931348623157e308 c", "$3\r\ninf\r\n"),
        ("ZADD z INCR -inf a", "-ERR resulting score is not a number (NaN)\r\n"),
        ("ZSCORE z a", "$3\r\ninf\r\n"),
        ("ZCOUNT z -inf +inf", ":3\r\n"),
        ("ZCOUNT z (-inf (inf", ":0\r\n"),
        ("ZCOUNT z inf -inf", ":0\r\n"),
        ("ZRANGEBYSCORE z nan 1", "-ERR min or max is not a float\r\n"),
        ("ZUNIONSTORE u 1 z WEIGHTS nan", "-ERR weight value is not a float\r\n"),
        // A product that is not a number (NaN) counts as 0.
        ("ZUNIONSTORE u 2 z z WEIGHTS 1 -1", ":3\r\n"),
        ("ZRANGE u 0 -1 WITHSCORES", zeros),
        ("ZUNIONSTORE u 1 z WEIGHTS 0", ":3\r\n"),
        ("ZRANGE u 0 -1 WITHSCORES", zeros),
        ("ZREMRANGEBYSCORE z inf inf", ":2\r\n"),
    ]);
}

#[test]
fn counts_and_places_end_where_integers_do() {
    as_redis(&[
        ("ZADD z 1 a 2 b", ":2\r\n"),
        ("ZRANGE z 9223372036854775807 -1", "*0\r\n"),
        ("ZRANGE z -9223372036854775808 9223372036854775807", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("ZRANGE z 0 9223372036854775808", NOT_AN_INTEGER),
        ("ZRANGEBYSCORE z 0 9 LIMIT 9223372036854775807 9223372036854775807", "*0\r\n"),
        ("ZRANGEBYSCORE z 0 9 LIMIT -1 5", "*0\r\n"),
        ("ZREMRANGEBYRANK z 9223372036854775807 -1", ":0\r\n"),
        ("RPUSH l a b", ":2\r\n"),
        ("LINDEX l -9223372036854775808", "$-1\r\n"),
        ("LINDEX l 9223372036854775807", "$-1\r\n"),
        ("LRANGE l -9223372036854775808 9223372036854775807", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("LRANGE l 9223372036854775807 -9223372036854775808", "*0\r\n"),
        ("LRANGE l 0 9223372036854775808", NOT_AN_INTEGER),
        ("LSET l 9223372036854775807 x", "-ERR index out of range\r\n"),
        ("LREM l -9223372036854775807 a", ":1\r\n"),
        ("LTRIM l -9223372036854775808 9223372036854775807", "+OK\r\n"),
        ("LPOP l 9223372036854775807", "*1\r\n$1\r\nb\r\n"),
        ("SADD s a", ":1\r\n"),
        ("SRANDMEMBER s 9223372036854775807", "*1\r\n$1\r\na\r\n"),
        ("SRANDMEMBER s -9223372036854775808", TOO_LOW),
        ("SPOP s 9223372036854775807", "*1\r\n$1\r\na\r\n"),
        ("SPOP s -1", "-ERR value is out of range, must be positive\r\n"),
        ("HSET h f 9223372036854775807", ":1\r\n"),
        ("HINCRBY h f 1", "-ERR increment or decrement would overflow\r\n"),
        ("HINCRBY h f -9223372036854775808", ":-1\r\n"),
        ("HRANDFIELD h -9223372036854775808", TOO_LOW),
    ]);
}
