//! Strings as arrays of bits, and of integers of any width.

use harness::{Server, as_redis};

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NOT_AN_OFFSET: &str = "-ERR bit offset is not an integer or out of range\r\n";
const NOT_A_BIT: &str = "-ERR bit is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

#[test]
fn bits_are_set_and_read() {
    as_redis(&[
        ("SETBIT key 7 1", ":0\r\n"),
        ("SETBIT key 7 0", ":1\r\n"),
        ("SETBIT key 20 0", ":0\r\n"),
        ("GET key", "$3\r\n\0\0\0\r\n"),
        ("GETBIT key 100", ":0\r\n"),
        ("GETBIT nothing 0", ":0\r\n"),
        ("SET n 1", "+OK\r\n"),
        ("SETBIT n 6 1", ":0\r\n"),
        ("GET n", "$1\r\n3\r\n"),
        ("OBJECT ENCODING n", "$3\r\nraw\r\n"),
        ("SETBIT key 4294967295 1", ":0\r\n"),
        ("STRLEN key", ":536870912\r\n"),
        ("GETBIT key 4294967295", ":1\r\n"),
        ("BITCOUNT key", ":1\r\n"),
        ("BITPOS key 1", ":4294967295\r\n"),
        ("SETBIT key 4294967296 1", NOT_AN_OFFSET),
        ("SETBIT key -1 1", NOT_AN_OFFSET),
        ("GETBIT key x", NOT_AN_OFFSET),
        ("SETBIT key 0 2", NOT_A_BIT),
        ("SETBIT key 0 -1", NOT_A_BIT),
    ]);
}

#[test]
fn bits_are_counted_and_found() {
    as_redis(&[
        ("SET key foobar", "+OK\r\n"),
        ("BITCOUNT key", ":26\r\n"),
        ("BITCOUNT key 1 1", ":6\r\n"),
        ("BITCOUNT key 1 1 BYTE", ":6\r\n"),
        ("BITCOUNT key 5 30 BIT", ":17\r\n"),
        ("BITCOUNT key -2 -1", ":7\r\n"),
        ("BITCOUNT key 3 1", ":0\r\n"),
        ("BITCOUNT key 0 -100 BIT", ":0\r\n"),
        ("BITCOUNT key 0", SYNTAX),
        ("BITCOUNT key 0 1 NONSENSE", SYNTAX),
        ("BITCOUNT key x 1", NOT_AN_INTEGER),
        ("BITPOS key 1", ":1\r\n"),
        ("BITPOS key 1 2", ":17\r\n"),
        ("BITPOS key 0 1 -1", ":8\r\n"),
        ("BITPOS key 1 7 15 BIT", ":9\r\n"),
        ("BITPOS key 1 -1 -5", ":-1\r\n"),
        ("BITPOS key 1 -10 -50", ":1\r\n"),
        ("BITPOS key 1 100", ":-1\r\n"),
        ("BITPOS key 2", "-ERR The bit argument must be 1 or 0.\r\n"),
        ("BITPOS key x", NOT_AN_INTEGER),
        ("BITPOS key 1 x", NOT_AN_INTEGER),
        ("BITPOS key 1 0 0 NONSENSE", SYNTAX),
        ("BITPOS key 1 0 0 BIT x", SYNTAX),
        ("BITPOS nothing 0", ":0\r\n"),
        ("BITPOS nothing 1", ":-1\r\n"),
    ]);
    // Redis replies in this way since 7.2; earlier versions check less if the key does not exist.
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("BITCOUNT nothing x 1", NOT_AN_INTEGER);
    client.check("BITCOUNT nothing 0", SYNTAX);
    client.check("BITPOS nothing 1 0 0 NONSENSE", SYNTAX);
}

#[test]
fn strings_are_combined_bit_by_bit() {
    as_redis(&[
        ("MSET a abcd b Ab", "+OK\r\n"),
        ("BITOP AND dest a b", ":4\r\n"),
        ("GET dest", "$4\r\nAb\0\0\r\n"),
        ("BITOP or dest a b nothing", ":4\r\n"),
        ("GET dest", "$4\r\nabcd\r\n"),
        ("BITOP XOR dest a b", ":4\r\n"),
        ("GET dest", "$4\r\n \0cd\r\n"),
        ("BITOP NOT dest b", ":2\r\n"),
        ("BITOP NOT dest dest", ":2\r\n"),
        ("GET dest", "$2\r\nAb\r\n"),
        ("EXPIRE dest 100", ":1\r\n"),
        ("BITOP AND dest a", ":4\r\n"),
        ("TTL dest", ":-1\r\n"),
        ("BITOP AND dest nothing", ":0\r\n"),
        ("EXISTS dest", ":0\r\n"),
        ("BITOP NOT dest a b", "-ERR BITOP NOT must be called with a single source key.\r\n"),
        ("BITOP NONSENSE dest a", SYNTAX),
        ("SETBIT long 4294967295 1", ":0\r\n"),
        ("BITOP OR dest long a", ":536870912\r\n"),
        ("BITCOUNT dest", ":14\r\n"),
        ("BITPOS dest 1 4", ":4294967295\r\n"),
    ]);
}

#[test]
fn integers_within_strings() {
    let no_type = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                   supported but i64 is.\r\n";
    as_redis(&[
        ("BITFIELD key", "*0\r\n"),
        ("BITFIELD key OVERFLOW SAT", "*0\r\n"),
        ("BITFIELD key GET u8 0", "*1\r\n:0\r\n"),
        ("EXISTS key", ":0\r\n"),
        ("BITFIELD key SET i5 #1 -3 GET u5 5", "*2\r\n:0\r\n:29\r\n"),
        ("BITFIELD key INCRBY u2 100 3 OVERFLOW SAT INCRBY u2 102 5", "*2\r\n:3\r\n:3\r\n"),
        ("BITFIELD key INCRBY u2 100 1 OVERFLOW FAIL INCRBY u2 102 1", "*2\r\n:0\r\n$-1\r\n"),
        ("BITFIELD key SET u8 0 -1 GET i8 0", "*2\r\n:7\r\n:-1\r\n"),
        ("BITFIELD key OVERFLOW FAIL SET i8 0 128 SET i8 0 -128", "*2\r\n$-1\r\n:-1\r\n"),
        (
            "BITFIELD key SET i64 3 -9223372036854775808 GET i64 3",
            "*2\r\n:144115188075855872\r\n:-9223372036854775808\r\n",
        ),
        ("BITFIELD_RO key GET u4 0", "*1\r\n:9\r\n"),
        ("BITFIELD_RO key SET u4 0 1", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"),
        ("BITFIELD far SET u63 4294967295 -1", "*1\r\n:0\r\n"),
        ("STRLEN far", ":536870920\r\n"),
        ("BITFIELD key GET u64 0", no_type),
        ("BITFIELD key GET i65 0", no_type),
        ("BITFIELD key GET I8 0", no_type),
        ("BITFIELD key GET u8 4294967296", NOT_AN_OFFSET),
        ("BITFIELD key GET u8 #536870912", NOT_AN_OFFSET),
        ("BITFIELD key GET u8 x", NOT_AN_OFFSET),
        ("BITFIELD key SET u8 0 x", NOT_AN_INTEGER),
        ("BITFIELD key SET u8 0", SYNTAX),
        ("BITFIELD key OVERFLOW NONSENSE", "-ERR Invalid OVERFLOW type specified\r\n"),
    ]);
}

/// Long commands are executed in slices, but see their strings at a single moment.
#[test]
fn clients_are_served_while_long_bitmaps_are_combined() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    for key in ["a", "b", "c"] {
        client.check(&format!("SETBIT {key} 4294967295 1"), ":0\r\n");
    }
    let mut other = server.connect_resp();
    client.send(harness::encode_command(&["BITOP", "NOT", "dest", "a"]));
    other.check("SETBIT b 7 1", ":0\r\n");
    other.check("GETBIT a 4294967295", ":1\r\n");
    // A request that needs the result waits until it is complete.
    other.check("EXISTS dest", ":1\r\n");
    client.expect(":536870912\r\n");
    client.check("BITCOUNT dest", ":4294967295\r\n");
}

/// A key that is given repeatedly is read once.
#[test]
fn keys_may_be_repeated_very_often() {
    const LENGTH: usize = 60_000;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.run_words(&[b"SET".as_slice(), b"k", &vec![1; LENGTH]]);
    client.run_words(&[b"SET".as_slice(), b"other", b"\x02"]);
    let before = server.resident_bytes();
    let words =
        ["BITOP", "OR", "d"].into_iter().chain(std::iter::repeat_n("k", 5000)).chain(["other"]);
    let words: Vec<&str> = words.collect();
    assert_eq!(client.run_words(&words).integer(), LENGTH as i64);
    let peak = server.status("VmHWM") * 1024 - before;
    assert!(peak < 30 << 20, "{peak}");
    client.check("GETRANGE d 0 1", "$2\r\n\x03\x01\r\n");
}
