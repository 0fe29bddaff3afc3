//! Strings: GET, SET and related commands.

use harness::{Server, as_redis};

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";
const WRONG_TIME: &str = "-ERR invalid expire time in 'set' command\r\n";

#[test]
fn a_value_that_is_set_can_be_read() {
    as_redis(&[
        ("GET key", "$-1\r\n"),
        ("SET key value", "+OK\r\n"),
        ("get key", "$5\r\nvalue\r\n"),
        ("SET key \"\"", "+OK\r\n"),
        ("GET key", "$0\r\n\r\n"),
        ("SET \"\" empty", "+OK\r\n"),
        ("GET \"\"", "$5\r\nempty\r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("GET a b", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("SET key", "-ERR wrong number of arguments for 'set' command\r\n"),
    ]);
}

#[test]
fn every_option_of_set() {
    as_redis(&[
        ("SET key 1 XX", "$-1\r\n"),
        ("SET key 1 NX", "+OK\r\n"),
        ("SET key 2 NX", "$-1\r\n"),
        ("SET key 2 XX", "+OK\r\n"),
        ("SET key 3 GET", "$1\r\n2\r\n"),
        ("SET key 4 NX GET", "$1\r\n3\r\n"),
        ("GET key", "$1\r\n3\r\n"),
        ("SET other 1 GET", "$-1\r\n"),
        ("SET key 5 EX 100", "+OK\r\n"),
        ("TTL key", ":100\r\n"),
        ("SET key 6 KEEPTTL", "+OK\r\n"),
        ("TTL key", ":100\r\n"),
        ("SET key 7", "+OK\r\n"),
        ("TTL key", ":-1\r\n"),
        ("SET key 8 px 100000", "+OK\r\n"),
        ("TTL key", ":100\r\n"),
        ("SET key 9 EXAT 4000000000", "+OK\r\n"),
        ("EXPIRETIME key", ":4000000000\r\n"),
        ("SET key 10 PXAT 4000000000001", "+OK\r\n"),
        ("PEXPIRETIME key", ":4000000000001\r\n"),
        ("SET key 11 EXAT 1", "+OK\r\n"),
        ("GET key", "$-1\r\n"),
    ]);
}

#[test]
fn options_of_set_that_do_not_go_together() {
    as_redis(&[
        ("SET key 1 NX XX", SYNTAX),
        ("SET key 1 EX", SYNTAX),
        ("SET key 1 EX 10 PX 10", SYNTAX),
        ("SET key 1 EX 10 KEEPTTL", SYNTAX),
        ("SET key 1 nonsense", SYNTAX),
        ("SET key 1 EX x", NOT_AN_INTEGER),
        ("SET key 1 EX 0", WRONG_TIME),
        ("SET key 1 EX -1", WRONG_TIME),
        ("SET key 1 EX 9223372036854775807", WRONG_TIME),
        ("GET key", "$-1\r\n"),
    ]);
}

#[test]
fn older_ways_to_set_and_get() {
    as_redis(&[
        ("SETNX key 1", ":1\r\n"),
        ("SETNX key 2", ":0\r\n"),
        ("GETSET key 3", "$1\r\n1\r\n"),
        ("GETDEL key", "$1\r\n3\r\n"),
        ("GETDEL key", "$-1\r\n"),
        ("SETEX key 100 value", "+OK\r\n"),
        ("TTL key", ":100\r\n"),
        ("SETEX key 0 value", "-ERR invalid expire time in 'setex' command\r\n"),
        ("PSETEX key 100000 value", "+OK\r\n"),
        ("TTL key", ":100\r\n"),
        ("PSETEX key 0 value", "-ERR invalid expire time in 'psetex' command\r\n"),
        ("GETEX key", "$5\r\nvalue\r\n"),
        ("TTL key", ":100\r\n"),
        ("GETEX key PERSIST", "$5\r\nvalue\r\n"),
        ("TTL key", ":-1\r\n"),
        ("GETEX key EX 50", "$5\r\nvalue\r\n"),
        ("TTL key", ":50\r\n"),
        ("GETEX key EX 0", "-ERR invalid expire time in 'getex' command\r\n"),
        ("GETEX nothing EX 50", "$-1\r\n"),
    ]);
}

#[test]
fn many_keys_at_once() {
    as_redis(&[
        ("MSET a 1 b 2 c 3", "+OK\r\n"),
        ("MGET a nothing c", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"),
        ("MSETNX c 4 d 5", ":0\r\n"),
        ("GET d", "$-1\r\n"),
        ("MSETNX d 4 e 5", ":1\r\n"),
        ("MSET a 1 a 2", "+OK\r\n"),
        ("GET a", "$1\r\n2\r\n"),
    ]);
}

#[test]
fn numbers_count_within_64_bits() {
    as_redis(&[
        ("INCR n", ":1\r\n"),
        ("INCRBY n 41", ":42\r\n"),
        ("DECR n", ":41\r\n"),
        ("DECRBY n 50", ":-9\r\n"),
        ("GET n", "$2\r\n-9\r\n"),
        ("INCRBY n x", NOT_AN_INTEGER),
        ("SET n 9223372036854775807", "+OK\r\n"),
        ("INCR n", "-ERR increment or decrement would overflow\r\n"),
        ("SET n -9223372036854775808", "+OK\r\n"),
        ("DECR n", "-ERR increment or decrement would overflow\r\n"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow\r\n"),
        ("SET n 007", "+OK\r\n"),
        ("INCR n", NOT_AN_INTEGER),
        ("SET n \" 7\"", "+OK\r\n"),
        ("INCR n", NOT_AN_INTEGER),
        ("GET n", "$2\r\n 7\r\n"),
    ]);
}

#[test]
fn strings_grow_and_are_measured() {
    as_redis(&[
        ("APPEND key abc", ":3\r\n"),
        ("APPEND key def", ":6\r\n"),
        ("GET key", "$6\r\nabcdef\r\n"),
        ("STRLEN key", ":6\r\n"),
        ("STRLEN nothing", ":0\r\n"),
        ("SET n 10", "+OK\r\n"),
        ("APPEND n 5", ":3\r\n"),
        ("INCR n", ":106\r\n"),
        ("STRLEN n", ":3\r\n"),
    ]);
}

#[test]
fn values_of_every_size_come_back_whole() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for length in [0, 1, 7, 44, 45, 511, 4095, 16_384, 65_535, 65_536, 1_000_003, 20_000_000] {
        let value: Vec<u8> = (0..length).map(|at: u32| (at.wrapping_mul(31) >> 3) as u8).collect();
        client.run_words(&[b"SET".as_slice(), b"key", &value]);
        assert_eq!(client.run("STRLEN key").integer(), i64::from(length));
        assert!(client.run("GET key") == harness::Reply::Bulk(value), "{length} bytes");
    }
}

#[test]
fn parts_of_strings_are_read_and_overwritten() {
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    as_redis(&[
        ("SETRANGE key 0 \"\"", ":0\r\n"),
        ("EXISTS key", ":0\r\n"),
        ("SETRANGE key 6 redis", ":11\r\n"),
        ("GET key", "$11\r\n\0\0\0\0\0\0redis\r\n"),
        ("SETRANGE key 0 hello,", ":11\r\n"),
        ("GETRANGE key 0 4", "$5\r\nhello\r\n"),
        ("GETRANGE key -5 -1", "$5\r\nredis\r\n"),
        ("GETRANGE key -1 -5", "$0\r\n\r\n"),
        ("GETRANGE key 5 100", "$6\r\n,redis\r\n"),
        ("GETRANGE key 100 200", "$0\r\n\r\n"),
        ("GETRANGE nothing 0 -1", "$0\r\n\r\n"),
        ("SUBSTR key 1 3", "$3\r\nell\r\n"),
        ("GETRANGE key x 1", NOT_AN_INTEGER),
        ("SETRANGE key x 1", NOT_AN_INTEGER),
        ("SETRANGE key -1 x", "-ERR offset is out of range\r\n"),
        ("SETRANGE key 536870912 x", too_long),
        ("SETRANGE key 9223372036854775807 x", too_long),
        ("SETRANGE far 536870911 x", ":536870912\r\n"),
        ("GETRANGE far -3 -1", "$3\r\n\0\0x\r\n"),
        ("APPEND far x", too_long),
        ("SET n 1234", "+OK\r\n"),
        ("SETRANGE n 1 \"\"", ":4\r\n"),
        ("OBJECT ENCODING n", "$3\r\nint\r\n"),
        ("SETRANGE n 1 9", ":4\r\n"),
        ("OBJECT ENCODING n", "$3\r\nraw\r\n"),
        ("INCR n", ":1935\r\n"),
    ]);
}

#[test]
fn numbers_with_decimals_are_added() {
    let not_a_float = "-ERR value is not a valid float\r\n";
    as_redis(&[
        ("INCRBYFLOAT n 1.5", "$3\r\n1.5\r\n"),
        ("INCRBYFLOAT n 1.5", "$1\r\n3\r\n"),
        ("INCRBYFLOAT n -1e1", "$2\r\n-7\r\n"),
        ("INCRBYFLOAT n 0.1", "$4\r\n-6.9\r\n"),
        ("INCRBYFLOAT n 17179869184.3", "$29\r\n17179869177.40000000037252903\r\n"),
        ("INCRBYFLOAT small 1e-30", "$1\r\n0\r\n"),
        ("INCRBYFLOAT hexadecimal 0x1.8p1", "$1\r\n3\r\n"),
        ("SET n 18446744073709551619", "+OK\r\n"),
        ("INCRBYFLOAT n 0", "$20\r\n18446744073709551620\r\n"),
        ("SET n 99999999999999999999999", "+OK\r\n"),
        ("INCRBYFLOAT n 1", "$24\r\n100000000000000000000000\r\n"),
        ("INCRBYFLOAT n inf", "-ERR increment would produce NaN or Infinity\r\n"),
        ("INCRBYFLOAT n nan", not_a_float),
        ("INCRBYFLOAT n 1e5000", not_a_float),
        ("INCRBYFLOAT n 1e-5000", not_a_float),
        ("INCRBYFLOAT n \" 1\"", not_a_float),
        ("INCRBYFLOAT n 1x", not_a_float),
        ("SET n \" 1\"", "+OK\r\n"),
        ("INCRBYFLOAT n 1", not_a_float),
    ]);
}

#[test]
fn longest_common_subsequences() {
    as_redis(&[
        ("MSET a ohmytext b mynewtext", "+OK\r\n"),
        ("LCS a b", "$6\r\nmytext\r\n"),
        ("LCS b a LEN", ":6\r\n"),
        (
            "LCS a b IDX",
            "*4\r\n$7\r\nmatches\r\n*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n\
             *2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n$3\r\nlen\r\n:6\r\n",
        ),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n\
             $3\r\nlen\r\n:6\r\n",
        ),
        ("LCS a nothing", "$0\r\n\r\n"),
        (
            "LCS a b LEN IDX",
            "-ERR If you want both the length and indexes, please just use IDX.\r\n",
        ),
        ("LCS a b NONSENSE", SYNTAX),
        ("LCS a b MINMATCHLEN x", NOT_AN_INTEGER),
    ]);
}
