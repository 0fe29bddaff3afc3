//! Patterns designed to be slow: with very many asterisks, or long and nearly matching everywhere.

use harness::{Connection, Server, encode_command, until};

const STARS: usize = 20_000;

/// Returns a pattern with very many asterisks, a text that matches it, and a text that does not.
fn stars() -> [String; 3] {
    ["a*".repeat(STARS) + "b", "a".repeat(STARS) + "xb", "a".repeat(2 * STARS)]
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn list(items: &[&str]) -> String {
    format!("*{}\r\n{}", items.len(), items.iter().map(|it| bulk(it)).collect::<String>())
}

fn check(client: &mut Connection, words: &[&str], reply: impl AsRef<[u8]>) {
    client.check_raw(encode_command(words), reply);
}

#[test]
fn patterns_of_many_stars_find_keys_and_elements() {
    let [pattern, fits, other] = &stars();
    let server = Server::nagi();
    let client = &mut server.connect_resp();
    check(client, &["MSET", fits, "1", other, "2"], "+OK\r\n");
    check(client, &["KEYS", pattern], list(&[fits]));
    let all = client.run_words(&["KEYS", &"*".repeat(10 * STARS)]);
    assert_eq!(all.list().len(), 2);
    let found = format!("*2\r\n$1\r\n0\r\n{}", list(&[fits]));
    check(client, &["SCAN", "0", "MATCH", pattern, "COUNT", "1000"], &found);
    check(client, &["FLUSHALL"], "+OK\r\n");
    check(client, &["SADD", "set", fits, other], ":2\r\n");
    check(client, &["SSCAN", "set", "0", "MATCH", pattern], &found);
    check(client, &["HSET", "hash", fits, "1", other, "2"], ":2\r\n");
    let pair = format!("*2\r\n$1\r\n0\r\n{}", list(&[fits, "1"]));
    check(client, &["HSCAN", "hash", "0", "MATCH", pattern], &pair);
    check(client, &["ZADD", "sorted", "1", fits, "2", other], ":2\r\n");
    check(client, &["ZSCAN", "sorted", "0", "MATCH", pattern], &pair);
    for request in [
        &["CONFIG", "GET", pattern][..],
        &["COMMAND", "LIST", "FILTERBY", "PATTERN", pattern],
        &["FUNCTION", "LIST", "LIBRARYNAME", pattern],
        &["PUBSUB", "CHANNELS", pattern],
    ] {
        check(client, request, "*0\r\n");
    }
}

#[test]
fn patterns_of_many_stars_receive_messages() {
    let [pattern, fits, other] = &stars();
    let server = Server::nagi();
    let [listener, publisher] = &mut [(); 2].map(|()| server.connect_resp());
    listener.run_words(&["PSUBSCRIBE", pattern]);
    check(publisher, &["PUBLISH", other, "m"], ":0\r\n");
    check(publisher, &["PUBLISH", fits, "m"], ":1\r\n");
    let message = format!("*4\r\n$8\r\npmessage\r\n{}{}$1\r\nm\r\n", bulk(pattern), bulk(fits));
    listener.expect(message);
    listener.run_words(&["SUBSCRIBE", fits]);
    check(publisher, &["PUBSUB", "CHANNELS", pattern], list(&[fits]));
}

#[test]
fn patterns_of_many_stars_limit_a_user() {
    let [pattern, fits, other] = &stars();
    let server = Server::nagi();
    let [user, admin] = &mut [(); 2].map(|()| server.connect_resp());
    let (keys, channels) = (format!("~{pattern}"), format!("&{pattern}"));
    let rules = ["ACL", "SETUSER", "ann", "on", "nopass", "+@all", &keys, &channels];
    check(admin, &rules, "+OK\r\n");
    check(user, &["AUTH", "ann", ""], "+OK\r\n");
    check(user, &["SET", fits, "1"], "+OK\r\n");
    check(user, &["GET", fits], "$1\r\n1\r\n");
    check(user, &["PUBLISH", fits, "m"], ":0\r\n");
    for request in [&["GET", other.as_str()][..], &["PUBLISH", other, "m"]] {
        let refused = format!("{:?}", user.run_words(request));
        assert!(refused.contains("NOPERM"), "{refused}");
    }
    // A user with access to this pattern only is refused other patterns, even if this one covers
    // them.
    let refused = format!("{:?}", user.run_words(&["PSUBSCRIBE", "*"]));
    assert!(refused.contains("NOPERM"), "{refused}");
    check(admin, &["ACL", "DRYRUN", "ann", "GET", fits], "+OK\r\n");
}

/// The pattern nearly matches at every position, which takes time proportional to its length times
/// the key's length: minutes. Other clients of the same worker must be served meanwhile, and the
/// request must end with its client.
#[test]
fn a_pattern_that_takes_very_long_keeps_only_its_own_client_waiting() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut other = server.connect_resp();
    // The second pattern is so long that comparisons share it instead of copying it.
    for length in [120_000, 4_000_000] {
        check(&mut other, &["SET", &"a".repeat(length), "1"], "+OK\r\n");
        for element in ["a", "?", "[ab]"] {
            let pattern = format!("*{}b", element.repeat(50_000));
            for request in [&["KEYS", &pattern][..], &["SCAN", "0", "MATCH", &pattern]] {
                let mut slow = server.connect_resp();
                let id = slow.run("CLIENT ID").integer();
                slow.send(encode_command(request));
                let name = format!(" cmd={} ", request[0].to_lowercase());
                let is_running = || other.run("CLIENT LIST").text().contains(&name).then_some(());
                until("the request", is_running).unwrap();
                for count in 1..=50 {
                    other.check("INCR served", format!(":{count}\r\n"));
                }
                other.check("DEL served", ":1\r\n");
                other.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
                assert_eq!(slow.rest(), b"");
            }
        }
        other.check("FLUSHALL", "+OK\r\n");
    }
}

/// Comparisons that are executed in parts must give the same results.
#[test]
fn long_keys_are_found_by_long_patterns() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let keys: Vec<String> =
        (0..200).map(|number| "a".repeat(500 + number) + "b" + &"a".repeat(number)).collect();
    keys.iter().for_each(|key| check(&mut client, &["SET", key, "1"], "+OK\r\n"));
    for (pattern, count) in [
        (format!("*{}b*", "a".repeat(600)), 100),
        (format!("*{}b*", "?".repeat(600)), 100),
        (format!("{}b*", "a".repeat(600)), 1),
        (format!("*b{}", "a".repeat(100)), 1),
        (format!("*b{}*", "a".repeat(100)), 100),
        (format!("*{}b{}*", "[a-b]".repeat(510), "a".repeat(5)), 190),
    ] {
        let found = client.run_words(&["KEYS", &pattern]).list().len();
        assert_eq!(found, count, "{pattern}");
        let mut scanned = 0;
        let mut cursor = "0".to_owned();
        loop {
            let step = client.run_words(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", "7"]);
            scanned += step.list()[1].list().len();
            cursor = step.list()[0].text();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(scanned, count, "{pattern}");
    }
}
