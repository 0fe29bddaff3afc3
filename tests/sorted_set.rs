//! Sorted sets: scores, ranges, removal of elements at an end, and combinations of several sets.

use harness::{Server, as_redis, encode_command, size};

const SYNTAX: &str = "-ERR syntax error\r\n";
const NOT_A_FLOAT: &str = "-ERR value is not a valid float\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn members_get_scores() {
    as_redis(&[
        ("ZADD z 1 a 2 b", ":2\r\n"),
        ("ZADD z 1 a 3 b", ":0\r\n"),
        ("ZADD z CH 1 a 4 b 5 c", ":2\r\n"),
        ("ZADD z NX 9 a 9 d", ":1\r\n"),
        ("ZADD z XX CH 8 a 8 new", ":1\r\n"),
        ("ZADD z GT CH 7 a 10 b 1 new", ":2\r\n"),
        ("ZADD z LT CH 7 a 20 b", ":1\r\n"),
        ("ZADD z INCR 1.5 a", "$3\r\n8.5\r\n"),
        ("ZADD z NX INCR 1 a", "$-1\r\n"),
        ("ZADD z GT INCR -1 a", "$-1\r\n"),
        ("ZADD none XX INCR 1 a", "$-1\r\n"),
        ("ZADD none XX 1 a", ":0\r\n"),
        ("EXISTS none", ":0\r\n"),
        ("ZINCRBY z -0.5 a", "$1\r\n8\r\n"),
        ("ZINCRBY z inf a", "$3\r\ninf\r\n"),
        ("ZINCRBY z -inf a", "-ERR resulting score is not a number (NaN)\r\n"),
        ("ZSCORE z a", "$3\r\ninf\r\n"),
        ("ZSCORE z nobody", "$-1\r\n"),
        ("ZSCORE none a", "$-1\r\n"),
        ("ZMSCORE z a nobody b", "*3\r\n$3\r\ninf\r\n$-1\r\n$2\r\n10\r\n"),
        ("ZMSCORE none a", "*1\r\n$-1\r\n"),
        ("ZCARD z", ":5\r\n"),
        ("ZREM z a nobody b", ":2\r\n"),
        ("ZREM z c d new", ":3\r\n"),
        ("EXISTS z", ":0\r\n"),
        ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command\r\n"),
        ("ZADD z 1 a 2", SYNTAX),
        ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible\r\n"),
        (
            "ZADD z GT LT 1 a",
            "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n",
        ),
        ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair\r\n"),
        ("ZADD z 1 a x b", NOT_A_FLOAT),
        ("ZADD z nan a", NOT_A_FLOAT),
        ("ZADD z 1e400 a", NOT_A_FLOAT),
        ("EXISTS z", ":0\r\n"),
        ("ZADD z 0x10 a", ":1\r\n"),
        ("ZSCORE z a", "$2\r\n16\r\n"),
    ]);
}

#[test]
fn a_zero_below_zero_is_kept_where_redis_keeps_it() {
    as_redis(&[
        ("ZADD z -0 a 0 b -0 c", ":3\r\n"),
        (
            "ZRANGE z 0 -1 WITHSCORES",
            "*6\r\n$1\r\na\r\n$1\r\n0\r\n$1\r\nb\r\n$1\r\n0\r\n$1\r\nc\r\n$1\r\n0\r\n",
        ),
        ("CONFIG SET zset-max-listpack-entries 2", "+OK\r\n"),
        ("ZADD z -0 d", ":1\r\n"),
        ("ZADD z CH -0 a", ":0\r\n"),
        ("ZSCORE z a", "$1\r\n0\r\n"),
        ("ZSCORE z d", "$2\r\n-0\r\n"),
        ("ZADD z CH 0 d", ":0\r\n"),
        ("ZRANGEBYSCORE z 0 0", "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZCOUNT z (-0 1", ":0\r\n"),
        ("ZRANK z d", ":3\r\n"),
        ("ZUNIONSTORE u 1 z", ":4\r\n"),
        ("ZSCORE u d", "$2\r\n-0\r\n"),
        ("CONFIG SET zset-max-listpack-entries 128", "+OK\r\n"),
        ("ZUNIONSTORE u 1 z", ":4\r\n"),
        ("ZSCORE u d", "$1\r\n0\r\n"),
        ("ZREM z d", ":1\r\n"),
    ]);
}

#[test]
fn ranks_and_ranges_are_shown() {
    as_redis(&[
        ("ZADD z 1 a 2 b 3 c 4 d", ":4\r\n"),
        ("ZRANK z a", ":0\r\n"),
        ("ZREVRANK z a", ":3\r\n"),
        ("ZRANK z nobody", "$-1\r\n"),
        ("ZREVRANK none a", "$-1\r\n"),
        ("ZRANGE z 1 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGE z -2 -1 WITHSCORES", "*4\r\n$1\r\nc\r\n$1\r\n3\r\n$1\r\nd\r\n$1\r\n4\r\n"),
        ("ZRANGE z 0 0 REV", "*1\r\n$1\r\nd\r\n"),
        ("ZRANGE z 3 1", "*0\r\n"),
        ("ZRANGE z (1 3 BYSCORE", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2", "*2\r\n$1\r\nc\r\n$1\r\nb\r\n"),
        ("ZRANGE z -inf +inf BYSCORE LIMIT -1 2", "*0\r\n"),
        ("ZRANGE z -inf +inf BYSCORE LIMIT 2 -1", "*2\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZREVRANGE z 0 1", "*2\r\n$1\r\nd\r\n$1\r\nc\r\n"),
        ("ZRANGEBYSCORE z 2 3", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZREVRANGEBYSCORE z 3 (1 LIMIT 1 1", "*1\r\n$1\r\nb\r\n"),
        ("ZCOUNT z (1 +inf", ":3\r\n"),
        ("ZADD l 0 a 0 b 0 c 0 d", ":4\r\n"),
        ("ZLEXCOUNT l - +", ":4\r\n"),
        ("ZLEXCOUNT l (a [c", ":2\r\n"),
        ("ZRANGE l [b + BYLEX", "*3\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZRANGEBYLEX l - (c LIMIT 1 5", "*1\r\n$1\r\nb\r\n"),
        ("ZREVRANGEBYLEX l + [c", "*2\r\n$1\r\nd\r\n$1\r\nc\r\n"),
        ("ZRANGE l + - BYLEX", "*0\r\n"),
        ("ZRANGESTORE to z 1 2", ":2\r\n"),
        ("ZRANGE to 0 -1", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("ZRANGESTORE to z (4 9 BYSCORE", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("ZRANGE z x 1", "-ERR value is not an integer or out of range\r\n"),
        ("ZCOUNT z x 1", "-ERR min or max is not a float\r\n"),
        ("ZLEXCOUNT z a b", "-ERR min or max not valid string range item\r\n"),
        ("ZRANGE z 0 -1 NONSENSE", SYNTAX),
        ("ZRANGESTORE to z 0 -1 WITHSCORES", SYNTAX),
        (
            "ZRANGE z 0 -1 LIMIT 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
             BYLEX\r\n",
        ),
        (
            "ZRANGE z - + BYLEX WITHSCORES",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX\r\n",
        ),
    ]);
}

#[test]
fn members_are_popped_and_removed() {
    as_redis(&[
        ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5\r\n"),
        ("ZPOPMIN z", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("ZPOPMAX z 2", "*4\r\n$1\r\ne\r\n$1\r\n5\r\n$1\r\nd\r\n$1\r\n4\r\n"),
        ("ZPOPMIN z 0", "*0\r\n"),
        ("ZPOPMIN none", "*0\r\n"),
        ("ZPOPMIN z -1", "-ERR value is out of range, must be positive\r\n"),
        ("ZMPOP 2 none z MAX", "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("ZMPOP 1 z MIN COUNT 9", "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZMPOP 1 z MIN", "*-1\r\n"),
        ("ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0\r\n"),
        ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0\r\n"),
        ("ZMPOP 1 z NONSENSE", SYNTAX),
        ("EXISTS z", ":0\r\n"),
        ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5\r\n"),
        ("ZREMRANGEBYRANK z -1 -1", ":1\r\n"),
        ("ZREMRANGEBYSCORE z (1 2", ":1\r\n"),
        ("ZREMRANGEBYSCORE z 7 9", ":0\r\n"),
        ("ZRANGE z 0 -1", "*3\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("ZREMRANGEBYSCORE z -inf +inf", ":3\r\n"),
        ("EXISTS z", ":0\r\n"),
        ("ZADD z 0 a 0 b 0 c", ":3\r\n"),
        ("ZREMRANGEBYLEX z [a (c", ":2\r\n"),
        ("ZRANDMEMBER z", "$1\r\nc\r\n"),
        ("ZRANDMEMBER z 5", "*1\r\n$1\r\nc\r\n"),
        ("ZRANDMEMBER z -2 WITHSCORES", "*4\r\n$1\r\nc\r\n$1\r\n0\r\n$1\r\nc\r\n$1\r\n0\r\n"),
        ("ZRANDMEMBER none", "$-1\r\n"),
        ("ZSCAN z 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nc\r\n$1\r\n0\r\n"),
        ("ZSCAN z 0 MATCH x*", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
}

#[test]
fn sorted_sets_are_combined() {
    as_redis(&[
        ("ZADD a 1 x 2 y", ":2\r\n"),
        ("ZADD b 10 y 20 z", ":2\r\n"),
        ("ZUNION 2 a b", "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n"),
        ("ZINTER 2 a b WITHSCORES", "*2\r\n$1\r\ny\r\n$2\r\n12\r\n"),
        ("ZINTER 2 a b WEIGHTS 2 3 AGGREGATE MAX WITHSCORES", "*2\r\n$1\r\ny\r\n$2\r\n30\r\n"),
        ("ZDIFF 2 a b", "*1\r\n$1\r\nx\r\n"),
        ("ZINTERCARD 2 a b LIMIT 5", ":1\r\n"),
        ("ZUNIONSTORE to 2 a b AGGREGATE MIN", ":3\r\n"),
        ("ZSCORE to y", "$1\r\n2\r\n"),
        ("ZINTERSTORE to 2 a none", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("ZDIFFSTORE to 2 b a", ":1\r\n"),
        ("ZRANGE to 0 -1 WITHSCORES", "*2\r\n$1\r\nz\r\n$2\r\n20\r\n"),
        ("ZADD i inf x", ":1\r\n"),
        ("ZADD j -inf x", ":1\r\n"),
        ("ZUNION 2 i j WITHSCORES", "*2\r\n$1\r\nx\r\n$1\r\n0\r\n"),
        ("ZUNION 1 i WEIGHTS 0 WITHSCORES", "*2\r\n$1\r\nx\r\n$1\r\n0\r\n"),
        ("SET s x", "+OK\r\n"),
        ("ZUNION 2 a s NONSENSE", WRONG_TYPE),
        ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command\r\n"),
        ("ZUNION 3 a b", SYNTAX),
        ("ZUNION 2 a b WEIGHTS 1 x", "-ERR weight value is not a float\r\n"),
        ("ZDIFF 2 a b WEIGHTS 1 1", SYNTAX),
        ("ZINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative\r\n"),
        ("ZUNIONSTORE to 1 a WITHSCORES", SYNTAX),
        ("ZUNIONSTORE s 1 a", ":2\r\n"),
        ("TYPE s", "+zset\r\n"),
    ]);
}

#[test]
fn scores_are_doubles_in_resp3() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.run("HELLO 3");
    for (command, reply) in [
        ("ZADD z INCR 0.1 a", ",0.1\r\n"),
        ("ZADD z 2 b", ":1\r\n"),
        ("ZRANGE z 0 -1 WITHSCORES", "*2\r\n*2\r\n$1\r\na\r\n,0.1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
        ("ZMSCORE z a nobody", "*2\r\n,0.1\r\n_\r\n"),
        ("ZRANK z b WITHSCORE", "*2\r\n:1\r\n,2\r\n"),
        ("ZRANK z nobody WITHSCORE", "_\r\n"),
        ("ZUNION 1 z WITHSCORES", "*2\r\n*2\r\n$1\r\na\r\n,0.1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
        ("ZSCAN z 0", "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$3\r\n0.1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ZPOPMIN z", "*2\r\n$1\r\na\r\n,0.1\r\n"),
        ("ZPOPMIN z 1", "*1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
        ("ZPOPMIN z 1", "*0\r\n"),
        ("ZMPOP 1 z MIN", "_\r\n"),
    ] {
        client.check(command, reply);
    }
}

#[test]
fn commands_on_sorted_sets_refuse_other_types() {
    as_redis(&[
        ("SET s x", "+OK\r\n"),
        ("ZADD s 1 a", WRONG_TYPE),
        ("ZADD s x a", NOT_A_FLOAT),
        ("ZINCRBY s 1 a", WRONG_TYPE),
        ("ZSCORE s a", WRONG_TYPE),
        ("ZMSCORE s a", WRONG_TYPE),
        ("ZCARD s", WRONG_TYPE),
        ("ZREM s a", WRONG_TYPE),
        ("ZRANK s a", WRONG_TYPE),
        ("ZCOUNT s 0 1", WRONG_TYPE),
        ("ZLEXCOUNT s - +", WRONG_TYPE),
        ("ZRANGE s 0 -1", WRONG_TYPE),
        ("ZRANGESTORE to s 0 -1", WRONG_TYPE),
        ("ZPOPMIN s 0", WRONG_TYPE),
        ("ZMPOP 2 none s MIN", WRONG_TYPE),
        ("ZREMRANGEBYRANK s 0 -1", WRONG_TYPE),
        ("ZRANDMEMBER s", WRONG_TYPE),
        ("ZRANDMEMBER s 0", WRONG_TYPE),
        ("ZSCAN s x", "-ERR invalid cursor\r\n"),
        ("ZSCAN s 0", WRONG_TYPE),
        ("ZUNIONSTORE to 1 s", WRONG_TYPE),
        ("GET s", "$1\r\nx\r\n"),
    ]);
}

/// The sorted sets have more members than are processed in one slice.
#[test]
fn large_sorted_sets_are_worked_on_in_slices() {
    const MEMBERS: usize = 20_000;
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let mut words = vec!["ZADD".to_owned(), "z".to_owned()];
    for number in 0..MEMBERS {
        words.extend([number.to_string(), format!("m{number:05}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    client.send(encode_command(&words));
    client.expect(format!(":{MEMBERS}\r\n"));
    assert_eq!(client.run("ZRANGE z 0 -1 WITHSCORES").list().len(), 2 * MEMBERS);
    assert_eq!(client.run("ZREVRANGEBYSCORE z +inf 10000").list().len(), MEMBERS / 2);
    client.check("ZUNIONSTORE u 2 z z", ":20000\r\n");
    client.check("ZSCORE u m00007", "$2\r\n14\r\n");
    client.check("ZINTERCARD 2 z u", ":20000\r\n");
    client.check("ZDIFFSTORE d 2 z u", ":0\r\n");
    client.check("ZRANGESTORE r z 5 1004", ":1000\r\n");
    client.check("ZREMRANGEBYRANK r 100 899", ":800\r\n");
    client.check("ZCARD r", ":200\r\n");
    client.check("ZRANGE r 99 100", "*2\r\n$6\r\nm00104\r\n$6\r\nm00905\r\n");
    let popped = client.run("ZPOPMAX u 15000");
    assert_eq!(popped.list()[0].text(), "m19999");
    assert_eq!(popped.list().len(), 30_000);
    client.check("ZCARD u", ":5000\r\n");
    let popped = client.run("ZMPOP 2 none u MIN COUNT 4999");
    assert_eq!(popped.list()[1].list().len(), 4999);
    client.check("ZRANGE u 0 -1", "*1\r\n$6\r\nm04999\r\n");
    client.check("ZREMRANGEBYSCORE z -inf +inf", ":20000\r\n");
    client.check("EXISTS z", ":0\r\n");
}

/// A scan must return every member, even if all of them have the same score.
#[test]
fn equal_scores_are_walked_over_a_slice_at_a_time() {
    let count = size(60_000, 1_000_000);
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    for first in (0..count).step_by(1000) {
        let mut words = vec!["ZADD".to_owned(), "z".to_owned()];
        (first..first + 1000).for_each(|it| words.extend(["7".to_owned(), it.to_string()]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        client.send(encode_command(&words));
        client.expect(":1000\r\n");
    }
    let (mut seen, mut cursor, mut calls) = (std::collections::BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let reply = client.run(&format!("ZSCAN z {cursor} COUNT 100"));
        let members = reply.list()[1].list();
        seen.extend(members.chunks(2).map(|pair| pair[0].text()));
        cursor = reply.list()[0].text();
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), count);
    assert!(calls > 10, "{calls} calls");
}

/// A listpack has no -0, but a large sorted set has.
#[test]
fn negative_zeros_of_large_sorted_sets_are_loaded() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    let members: String = (0..200).map(|member| format!(" -0 m{member}")).collect();
    client.check(&format!("ZADD z 1 first{members}"), ":201\r\n");
    client.check("ZADD small -0 m", ":1\r\n");
    client.check("DEBUG RELOAD", "+OK\r\n");
    for member in [1, 100, 199] {
        client.check(&format!("ZSCORE z m{member}"), "$2\r\n-0\r\n");
    }
    client.check("ZSCORE small m", "$1\r\n0\r\n");
}
