//! Lists.

use harness::{Server, as_redis, encode_command};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

#[test]
fn elements_are_pushed_and_popped_at_both_sides() {
    let negative = "-ERR value is out of range, must be positive\r\n";
    as_redis(&[
        ("LPUSHX key a", ":0\r\n"),
        ("RPUSHX key a", ":0\r\n"),
        ("EXISTS key", ":0\r\n"),
        ("RPUSH key a b c", ":3\r\n"),
        ("LPUSH key 1 -7 \"\"", ":6\r\n"),
        ("LPUSHX key x", ":7\r\n"),
        ("RPUSHX key y z", ":9\r\n"),
        ("LLEN key", ":9\r\n"),
        ("LPOP key", "$1\r\nx\r\n"),
        ("RPOP key", "$1\r\nz\r\n"),
        ("LPOP key 2", "*2\r\n$0\r\n\r\n$2\r\n-7\r\n"),
        ("RPOP key 2", "*2\r\n$1\r\ny\r\n$1\r\nc\r\n"),
        ("LPOP key 0", "*0\r\n"),
        ("LPOP key x", negative),
        ("LPOP key -1", negative),
        ("RPOP key 1 1", "-ERR wrong number of arguments for 'rpop' command\r\n"),
        ("RPOP key 100", "*3\r\n$1\r\nb\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("EXISTS key", ":0\r\n"),
        ("LPOP key", "$-1\r\n"),
        ("LPOP key 0", "*-1\r\n"),
        ("LPOP key 5", "*-1\r\n"),
        ("LLEN key", ":0\r\n"),
        ("SET key x", "+OK\r\n"),
        ("LPUSH key x", WRONG_TYPE),
        ("LPOP key", WRONG_TYPE),
        ("LLEN key", WRONG_TYPE),
    ]);
}

#[test]
fn elements_are_found_by_their_places() {
    as_redis(&[
        ("RPUSH key a b c d e", ":5\r\n"),
        ("LRANGE key 0 -1", "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n"),
        ("LRANGE key -2 100", "*2\r\n$1\r\nd\r\n$1\r\ne\r\n"),
        ("LRANGE key 3 2", "*0\r\n"),
        ("LRANGE key 5 9", "*0\r\n"),
        ("LRANGE key 0 -6", "*0\r\n"),
        ("LRANGE none 0 -1", "*0\r\n"),
        ("LRANGE none x -1", NOT_AN_INTEGER),
        ("LINDEX key 0", "$1\r\na\r\n"),
        ("LINDEX key -1", "$1\r\ne\r\n"),
        ("LINDEX key 5", "$-1\r\n"),
        ("LINDEX key -6", "$-1\r\n"),
        ("LINDEX key x", NOT_AN_INTEGER),
        ("LINDEX none x", "$-1\r\n"),
        ("LSET key 1 B", "+OK\r\n"),
        ("LSET key -2 12", "+OK\r\n"),
        ("LSET key 5 x", "-ERR index out of range\r\n"),
        ("LSET key x x", NOT_AN_INTEGER),
        ("LSET none x x", "-ERR no such key\r\n"),
        ("LRANGE key 1 3", "*3\r\n$1\r\nB\r\n$1\r\nc\r\n$2\r\n12\r\n"),
        ("LTRIM key 1 -2", "+OK\r\n"),
        ("LRANGE key 0 -1", "*3\r\n$1\r\nB\r\n$1\r\nc\r\n$2\r\n12\r\n"),
        ("LTRIM key 0 x", NOT_AN_INTEGER),
        ("LTRIM none 0 0", "+OK\r\n"),
        ("LTRIM key 5 9", "+OK\r\n"),
        ("EXISTS key", ":0\r\n"),
    ]);
}

#[test]
fn elements_are_found_by_their_bytes() {
    let rank_zero = "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list\r\n";
    as_redis(&[
        ("RPUSH key a b c 1 2 3 c c", ":8\r\n"),
        ("LPOS key c", ":2\r\n"),
        ("LPOS key x", "$-1\r\n"),
        ("LPOS key x COUNT 0", "*0\r\n"),
        ("LPOS none x", "$-1\r\n"),
        ("LPOS none x COUNT 0", "*0\r\n"),
        ("LPOS key c RANK -1 COUNT 2", "*2\r\n:7\r\n:6\r\n"),
        ("LPOS key c RANK 2 COUNT 0", "*2\r\n:6\r\n:7\r\n"),
        ("LPOS key c COUNT 0 MAXLEN 7", "*2\r\n:2\r\n:6\r\n"),
        ("LPOS key c RANK 0", rank_zero),
        ("LPOS key c RANK x", NOT_AN_INTEGER),
        ("LPOS key c COUNT -1", "-ERR COUNT can't be negative\r\n"),
        ("LPOS key c MAXLEN x", "-ERR MAXLEN can't be negative\r\n"),
        ("LPOS key c COUNT", SYNTAX),
        ("LINSERT key BEFORE c x", ":9\r\n"),
        ("LINSERT key after c 42", ":10\r\n"),
        ("LINSERT key AFTER none x", ":-1\r\n"),
        ("LINSERT none AFTER a x", ":0\r\n"),
        ("LINSERT key BESIDE c x", SYNTAX),
        ("LRANGE key 1 4", "*4\r\n$1\r\nb\r\n$1\r\nx\r\n$1\r\nc\r\n$2\r\n42\r\n"),
        ("LREM key 1 c", ":1\r\n"),
        ("LREM key -1 c", ":1\r\n"),
        ("LPOS key c COUNT 0", "*1\r\n:7\r\n"),
        ("LREM key 0 none", ":0\r\n"),
        ("LREM key x c", NOT_AN_INTEGER),
        ("LREM none 0 c", ":0\r\n"),
        ("RPUSH all x x x", ":3\r\n"),
        ("LREM all -5 x", ":3\r\n"),
        ("EXISTS all", ":0\r\n"),
    ]);
}

#[test]
fn elements_move_between_lists() {
    as_redis(&[
        ("RPUSH a 1 2 3", ":3\r\n"),
        ("LMOVE a b LEFT RIGHT", "$1\r\n1\r\n"),
        ("LMOVE a b RIGHT left", "$1\r\n3\r\n"),
        ("LRANGE b 0 -1", "*2\r\n$1\r\n3\r\n$1\r\n1\r\n"),
        ("RPOPLPUSH b b", "$1\r\n1\r\n"),
        ("LRANGE b 0 -1", "*2\r\n$1\r\n1\r\n$1\r\n3\r\n"),
        ("RPOPLPUSH a b", "$1\r\n2\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("RPOPLPUSH a b", "$-1\r\n"),
        ("LMOVE a b UP LEFT", SYNTAX),
        ("EXPIRE b 100", ":1\r\n"),
        ("LMOVE b b LEFT RIGHT", "$1\r\n2\r\n"),
        ("TTL b", ":100\r\n"),
        ("LMPOP 2 a b LEFT", "*2\r\n$1\r\nb\r\n*1\r\n$1\r\n1\r\n"),
        ("LMPOP 1 b RIGHT COUNT 5", "*2\r\n$1\r\nb\r\n*2\r\n$1\r\n2\r\n$1\r\n3\r\n"),
        ("LMPOP 2 a b LEFT", "*-1\r\n"),
        ("LMPOP 0 a LEFT", "-ERR numkeys should be greater than 0\r\n"),
        ("LMPOP 1 a LEFT COUNT 0", "-ERR count should be greater than 0\r\n"),
        ("LMPOP 2 a LEFT", SYNTAX),
        ("RPUSH a 1", ":1\r\n"),
        ("SET text x", "+OK\r\n"),
        ("LMOVE a text LEFT LEFT", WRONG_TYPE),
        ("LMOVE text a LEFT LEFT", WRONG_TYPE),
        ("LMOVE none text LEFT LEFT", "$-1\r\n"),
        ("LMPOP 2 text a LEFT", WRONG_TYPE),
        ("LRANGE a 0 -1", "*1\r\n$1\r\n1\r\n"),
    ]);
}

#[test]
fn there_is_one_null_in_resp3() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let _ = client.run("HELLO 3");
        for request in ["LPOP none", "LPOP none 5", "LINDEX none 0", "LPOS none x"] {
            client.check(request, "_\r\n");
        }
        client.check("LMOVE none key LEFT LEFT", "_\r\n");
        client.check("LMPOP 1 none LEFT", "_\r\n");
        client.check("RPUSH key a", ":1\r\n");
        client.check("LINDEX key 5", "_\r\n");
        client.check("LPOP key 0", "*0\r\n");
    }
}

/// The names are those that Redis uses since 7.2.
#[test]
fn encodings_follow_the_contents_of_a_list() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("RPUSH key a b c d", ":4\r\n");
    client.check("OBJECT ENCODING key", "$8\r\nlistpack\r\n");
    client.check("CONFIG SET list-max-listpack-size 4", "+OK\r\n");
    client.check("RPUSH key e", ":5\r\n");
    client.check("OBJECT ENCODING key", "$9\r\nquicklist\r\n");
    client.check("LPOP key 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    client.check("OBJECT ENCODING key", "$9\r\nquicklist\r\n");
    client.check("LPOP key", "$1\r\nc\r\n");
    client.check("OBJECT ENCODING key", "$8\r\nlistpack\r\n");
    client.check("CONFIG SET list-max-listpack-size -1", "+OK\r\n");
    let long = "x".repeat(4097);
    client.check(&format!("LSET key 0 {long}"), "+OK\r\n");
    client.check("OBJECT ENCODING key", "$9\r\nquicklist\r\n");
    client.check("LSET key 0 short", "+OK\r\n");
    client.check("OBJECT ENCODING key", "$8\r\nlistpack\r\n");
    client.check(&format!("RPUSH other {long}"), ":1\r\n");
    client.check("LMOVE other key LEFT LEFT", format!("$4097\r\n{long}\r\n"));
    client.check("OBJECT ENCODING key", "$9\r\nquicklist\r\n");
    client.check(&format!("LREM key 0 {long}"), ":1\r\n");
    client.check("OBJECT ENCODING key", "$8\r\nlistpack\r\n");
}

/// Long commands are executed in slices, but see the list at a single moment.
#[test]
fn clients_are_served_while_long_lists_are_worked_on() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let mut other = server.connect_resp();
    let elements: Vec<String> = (0..200_000).map(|number| (number % 1000).to_string()).collect();
    let mut words = vec!["RPUSH", "key"];
    words.extend(elements.iter().map(String::as_str));
    client.send(encode_command(&words));
    client.expect(":200000\r\n");
    client.send(encode_command(&["LREM", "key", "0", "500"]));
    other.check("SET elsewhere x", "+OK\r\n");
    // A request for the list waits until the command has completed.
    let len = other.run("LLEN key").integer();
    assert!([199_800, 200_000].contains(&len), "{len}");
    client.expect(":200\r\n");
    other.check("LPOS key 500", "$-1\r\n");
    client.check("LINSERT key BEFORE 999 pivot", ":199801\r\n");
    client.check("LINDEX key 998", "$5\r\npivot\r\n");
    client.send("LRANGE key 0 -1\r\n");
    other.check("LTRIM key 0 0", "+OK\r\n");
    let shown = client.reply();
    assert!([199_801, 1].contains(&shown.list().len()));
    other.check("LRANGE key 0 -1", "*1\r\n$1\r\n0\r\n");
}

#[test]
fn elements_of_many_megabytes_are_kept_and_found() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let long = "x".repeat(5_000_000);
    let other = format!("{}y", &long[1..]);
    for element in [&long, &other] {
        client.send(encode_command(&["RPUSH", "key", element]));
    }
    client.expect(":1\r\n");
    client.expect(":2\r\n");
    client.send(encode_command(&["LPOS", "key", &other]));
    client.expect(":1\r\n");
    client.send(encode_command(&["LINSERT", "key", "BEFORE", &other, &long]));
    client.expect(":3\r\n");
    client.check("LMOVE key moved RIGHT LEFT", format!("${}\r\n{other}\r\n", other.len()));
    client.check("LINDEX moved 0", format!("${}\r\n{other}\r\n", other.len()));
    client.send(encode_command(&["LREM", "key", "0", &long]));
    client.expect(":2\r\n");
    client.check("EXISTS key", ":0\r\n");
    client.send(encode_command(&["LSET", "moved", "0", &long]));
    client.expect("+OK\r\n");
    client.check("RPOP moved", format!("${}\r\n{long}\r\n", long.len()));
}

/// An element must always be in exactly one of the two lists.
#[test]
fn moves_happen_at_one_moment() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    client.check("RPUSH a x", ":1\r\n");
    let mut watcher = server.connect_resp();
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut mover = server.connect_resp();
            for _ in 0..2000 {
                mover.check("LMOVE a b LEFT LEFT", "$1\r\nx\r\n");
                mover.check("LMOVE b a LEFT LEFT", "$1\r\nx\r\n");
            }
        });
        while !mover.is_finished() {
            watcher.check("EXISTS a b", ":1\r\n");
        }
    });
}

/// The comparisons of one step take longer than a slice.
#[test]
fn long_elements_are_inserted_beside_however_slowly_they_compare() {
    const LONG: usize = 500_000;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let element = |number: u8| [&vec![b'x'; LONG][..], &[number]].concat();
    for number in 0..200 {
        client.run_words(&[b"RPUSH".as_slice(), b"l", &element(number)]);
    }
    for (pivot, reply) in [(250, -1), (199, 201), (100, 202)] {
        let words = [b"LINSERT".as_slice(), b"l", b"BEFORE", &element(pivot), b"new"];
        assert_eq!(client.run_words(&words).integer(), reply);
    }
    client.check("LINDEX l 200", "$3\r\nnew\r\n");
    client.check("LINDEX l 100", "$3\r\nnew\r\n");
}
