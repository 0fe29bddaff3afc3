//! memcached's text protocol.

use harness::{Reply, Server, as_memcached, until};

#[test]
fn every_way_to_store() {
    as_memcached(&[
        ("get a\r\n", "END\r\n"),
        ("replace a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("prepend a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("add a 7 0 1\r\nb\r\n", "STORED\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append a 9 0 1\r\nc\r\n", "STORED\r\n"),
        ("prepend a 9 0 1\r\na\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 7 3\r\nabc\r\nEND\r\n"),
        ("replace a 4294967295 0 0\r\n\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 4294967295 0\r\n\r\nEND\r\n"),
        ("set a 0 0 4\r\n\r\n\r\n\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 0 4\r\n\r\n\r\n\r\nEND\r\n"),
        ("set a 0 0 1\r\nlong\r\n", "CLIENT_ERROR bad data chunk\r\n"),
    ]);
}

/// Clients in C may store the NUL that ends a string.
#[test]
fn numbers_may_be_surrounded() {
    let invalid = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    for (value, result) in [
        ("12\0", "13\r\n"),
        ("+12", "13\r\n"),
        ("  12 abc", "13\r\n"),
        ("12\tx", "13\r\n"),
        ("12\x0b", "13\r\n"),
        ("000000000000000000000012", "13\r\n"),
        ("12x", invalid),
        ("x12", invalid),
        ("18446744073709551616", invalid),
        ("", invalid),
    ] {
        let set = format!("set n 0 0 {}\r\n{value}\r\n", value.len());
        as_memcached(&[(&set, "STORED\r\n"), ("incr n 1\r\n", result)]);
    }
}

#[test]
fn a_wrong_line_with_a_value_that_is_too_long_removes_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_memcached();
    let value = "x".repeat(1_500_000);
    client.check_raw("set k 0 0 1\r\na\r\n", "STORED\r\n");
    for line in ["set k x 0", "set k 0 x", "set k -1 0", "ms k"] {
        let rest = if line == "ms k" { " Cx" } else { "" };
        client.send(format!("{line} 1500000{rest}\r\n{value}\r\n"));
        client.line();
        client.check_raw("get k\r\n", "VALUE k 0 1\r\na\r\nEND\r\n");
    }
}

/// A version that is given out is no change of the key.
#[test]
fn reads_with_versions_change_nothing_for_clients_that_watch() {
    let server = Server::nagi();
    let (mut resp, mut client) = (server.connect_resp(), server.connect_memcached());
    for read in ["gets k\r\n", "lru_crawler metadump all\r\n"] {
        resp.check("SET k 5", "+OK\r\n");
        resp.check("WATCH k", "+OK\r\n");
        client.send(read);
        // The lines of a dump end with a line feed alone.
        while !client.line().ends_with("END") {}
        resp.check("MULTI", "+OK\r\n");
        resp.check("EXEC", "*0\r\n");
    }
}

#[test]
fn writes_of_meta_gets_wait_in_a_pause() {
    let server = Server::nagi();
    let (mut resp, mut client) = (server.connect_resp(), server.connect_memcached());
    let mut other = server.connect_resp();
    resp.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    client.check_raw("mg k v\r\n", "EN\r\n");
    client.send("mg k N0 v\r\n");
    let waits = || other.run("INFO clients").text().contains("blocked_clients:1").then_some(());
    until("the client to wait", waits).unwrap();
    other.check("EXISTS k", ":0\r\n");
    resp.check("CLIENT UNPAUSE", "+OK\r\n");
    client.expect("VA 0 W\r\n\r\n");
}

#[test]
fn lookups_are_counted_as_by_memcached() {
    const FIELDS: [&str; 7] = [
        "cmd_get",
        "get_hits",
        "get_misses",
        "cmd_touch",
        "touch_hits",
        "touch_misses",
        "cmd_meta",
    ];
    for server in Server::every_memcached(&[]).into_iter().chain([Server::nagi()]) {
        let mut client = server.connect_memcached();
        client.check_raw("set k 0 0 1\r\nx\r\n", "STORED\r\n");
        for (request, last) in [
            ("get k none\r\n", "END"),
            ("gat 0 k\r\n", "END"),
            ("gat 0 none\r\n", "END"),
            ("mg k v\r\n", "x"),
            ("mg k T0\r\n", "HD"),
            ("mg none T0 v\r\n", "EN"),
            ("mg new N0\r\n", "HD W"),
        ] {
            client.send(request);
            while client.line() != last {}
        }
        client.send("stats\r\n");
        let mut counts = Vec::new();
        loop {
            let line = client.line();
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["END"] => break,
                ["STAT", name, count] if FIELDS.contains(name) => {
                    counts.push((FIELDS.iter().position(|it| it == name), count.to_string()));
                }
                _ => {}
            }
        }
        counts.sort();
        let counts: Vec<String> = counts.into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, ["5", "3", "2", "3", "2", "1", "0"]);
    }
}

#[test]
fn several_keys_are_got_in_the_order_asked() {
    as_memcached(&[
        ("set a 1 0 1\r\nx\r\n", "STORED\r\n"),
        ("set b 2 0 1\r\ny\r\n", "STORED\r\n"),
        (
            "get b nothing a b\r\n",
            "VALUE b 2 1\r\ny\r\nVALUE a 1 1\r\nx\r\nVALUE b 2 1\r\ny\r\nEND\r\n",
        ),
    ]);
}

#[test]
fn numbers_wrap_upwards_and_stop_at_zero() {
    as_memcached(&[
        ("incr a 1\r\n", "NOT_FOUND\r\n"),
        ("set a 3 0 2\r\n10\r\n", "STORED\r\n"),
        ("incr a 5\r\n", "15\r\n"),
        ("decr a 100\r\n", "0\r\n"),
        ("incr a 18446744073709551615\r\n", "18446744073709551615\r\n"),
        ("incr a x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("set a 0 0 4\r\nword\r\n", "STORED\r\n"),
        ("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
    let server = Server::nagi();
    let mut client = server.connect_memcached();
    client.check_raw("set a 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n");
    client.check_raw("incr a 1\r\n", "0\r\n");
}

#[test]
fn keys_are_deleted_touched_and_flushed() {
    as_memcached(&[
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("touch a 100\r\n", "NOT_FOUND\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch a 100\r\n", "TOUCHED\r\n"),
        ("gat 100 a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("touch a -1\r\n", "TOUCHED\r\n"),
        ("get a\r\n", "END\r\n"),
        ("set a 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("get a\r\n", "END\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("flush_all\r\n", "OK\r\n"),
        ("get a\r\n", "END\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
    ]);
}

#[test]
fn a_unique_number_guards_a_value() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        client.check_raw("cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n");
        client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        client.send("gets a\r\n");
        let line = client.line();
        let unique = line.rsplit(' ').next().expect("a number").to_owned();
        client.expect("x\r\nEND\r\n");
        client.check_raw("gats 0 a\r\n", format!("VALUE a 0 1 {unique}\r\nx\r\nEND\r\n"));
        client.check_raw(format!("cas a 0 0 1 {unique}\r\ny\r\n"), "STORED\r\n");
        client.check_raw(format!("cas a 0 0 1 {unique}\r\nz\r\n"), "EXISTS\r\n");
        client.check_raw("get a\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n");
    }
}

#[test]
fn requests_may_ask_for_no_reply() {
    as_memcached(&[(
        "set a 0 0 1 noreply\r\n1\r\nadd a 0 0 1 noreply\r\nx\r\nincr a 1 noreply\r\n\
         append a 0 0 1 noreply\r\n0\r\ntouch a 100 noreply\r\ndelete b noreply\r\n\
         verbosity 0 noreply\r\nget a\r\n",
        "VALUE a 0 2\r\n20\r\nEND\r\n",
    )]);
}

#[test]
fn quit_closes() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        client.send("quit\r\nget a\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn it_says_its_version_and_statistics() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        client.send("version\r\n");
        assert!(client.line().starts_with("VERSION "));
        client.check_raw("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
        client.send("stats\r\n");
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != "END") {
            lines.push(client.line());
        }
        for line in ["STAT curr_items 1", "STAT get_hits 1", "STAT cmd_set 1"] {
            assert!(lines.iter().any(|it| it == line), "{line} is not in {lines:?}");
        }
        assert!(lines.iter().any(|it| *it == format!("STAT pid {}", server.process_id())));
    }
}

#[test]
fn a_flush_may_come_later() {
    let server = Server::nagi();
    let mut client = server.connect_memcached();
    client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.check_raw("flush_all 1\r\n", "OK\r\n");
    client.check_raw("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    let mut resp = server.connect_resp();
    let empty = || (resp.run("DBSIZE").integer() == 0).then_some(());
    harness::until("the flush", empty).expect("the cache is empty");
}

/// Starts an empty nagi, and the newest memcached that is installed.
fn newest() -> impl Iterator<Item = (&'static str, Server)> {
    let newest = crate::differential::newest_memcached();
    [("nagi", Some(Server::nagi())), ("memcached", newest)]
        .into_iter()
        .filter_map(|(name, server)| Some((name, server?)))
}

/// Storage commands keep the lower 32 bits of a time. In all other commands, the time must fit into
/// 32 bits.
#[test]
fn times_at_the_ends_of_their_range() {
    let stored = [
        ("-0", "HD t-1"),
        ("-1", "EN"),
        ("2592001", "EN"),
        ("2147483648", "EN"),
        ("4102444800", "EN"),
        ("4294967296", "HD t-1"),
        ("6442450944", "EN"),
        ("9223372036854775807", "EN"),
        ("-4294967296", "HD t-1"),
        ("-9223372036854775808", "HD t-1"),
    ];
    let beyond = ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "1x"];
    let (bad_line, bad_time) =
        ("CLIENT_ERROR bad command line format", "CLIENT_ERROR invalid exptime argument");
    let (bad_token, bad_flag) =
        ("CLIENT_ERROR bad token in command line format", "CLIENT_ERROR invalid or duplicate flag");
    for (name, server) in newest() {
        eprintln!("asking {name}");
        let mut client = server.connect_memcached();
        for verb in ["set", "add"] {
            for (time, shown) in stored {
                client.check_raw("ms a 1\r\nx\r\nmd a\r\n", "HD\r\nHD\r\n");
                client.check_raw(format!("{verb} a 0 {time} 1\r\nx\r\n"), "STORED\r\n");
                client.check_raw("mg a t\r\n", format!("{shown}\r\n"));
            }
            for time in beyond {
                let refused = format!("{bad_line}\r\n");
                client.check_raw(format!("{verb} b 0 {time} 1\r\nx\r\n"), refused);
            }
        }
        client.check_raw("set a 0 0 1\r\n1\r\n", "STORED\r\n");
        let beyond_32_bits = ["2147483648", "4294967296", "-2147483649", "+1"];
        for time in beyond.into_iter().chain(beyond_32_bits) {
            for (request, refused) in [
                (format!("touch a {time}"), bad_time),
                (format!("gat {time} a"), bad_time),
                (format!("gats {time} a"), bad_time),
                (format!("mg a T{time}"), bad_token),
                (format!("mg b N{time}"), bad_token),
                (format!("mg a R{time}"), bad_token),
                (format!("md a I T{time}"), bad_token),
                (format!("ma a T{time}"), bad_flag),
                (format!("flush_all {time}"), bad_time),
            ] {
                client.check_raw(format!("{request}\r\n"), format!("{refused}\r\n"));
            }
            client.check_raw(format!("ms a 1 T{time}\r\nx\r\n"), format!("{bad_token}\r\n"));
        }
        for (time, shown) in [("-2147483648", "EN"), ("2592000", "HD t2592000"), ("-0", "HD t-1")] {
            client.check_raw(format!("ms a 1 T{time}\r\nx\r\n"), "HD\r\n");
            client.check_raw("mg a t\r\n", format!("{shown}\r\n"));
            client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
            client.check_raw(format!("touch a {time}\r\n"), "TOUCHED\r\n");
            client.check_raw("mg a t\r\n", format!("{shown}\r\n"));
        }
        client.check_raw("set a 0 100 1\r\nx\r\n", "STORED\r\n");
        client.check_raw("mg a R2592001\r\n", "HD\r\n");
        client.check_raw("mg a R-1\r\n", "HD\r\n");
        client.check_raw("mg a R2147483647\r\n", "HD W\r\n");
    }
}

/// A line without a line break may be up to 2 KB long; it may be longer if it names many keys.
#[test]
fn a_line_without_an_end_closes_the_connection() {
    let verbs = [("a", true), ("gat 0", true), ("GET", true), ("get", false), ("  gets", false)];
    for (name, server) in newest() {
        eprintln!("asking {name}");
        for (verb, closes) in verbs {
            let line = |len: usize| {
                let keys = " key".repeat(len / 4 + 1);
                format!("{verb}{keys}").as_bytes()[..len].to_vec()
            };
            for (len, closes) in [(2048, false), (2049, closes)] {
                let mut client = server.connect_memcached();
                client.send(line(len));
                if closes {
                    assert_eq!(client.rest(), b"", "{verb} and {len} bytes");
                } else {
                    client.send("\r\nversion\r\n");
                    let mut lines = std::iter::from_fn(|| Some(client.line()));
                    assert!(lines.any(|line| line.starts_with("VERSION ")));
                }
            }
            let mut client = server.connect_memcached();
            client.send([&line(3000)[..], b"\r\nversion\r\n"].concat());
            let mut lines = std::iter::from_fn(|| Some(client.line()));
            assert!(lines.any(|line| line.starts_with("VERSION ")), "{verb} in one piece");
        }
    }
}

#[test]
fn reads_with_versions_leave_what_has_expired_in_a_pause() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let (mut resp, mut client) = (server.connect_resp(), server.connect_memcached());
    resp.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    resp.check("MSET a 1 b 2", "+OK\r\n");
    for key in ["a", "b"] {
        resp.check(&format!("PEXPIRE {key} 1"), ":1\r\n");
    }
    resp.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    let missing = || (resp.run("EXISTS a b") == Reply::Integer(0)).then_some(());
    until("the keys to expire", missing).unwrap();
    client.check_raw("gets a\r\n", "END\r\n");
    client.check_raw("mg b v\r\n", "EN\r\n");
    resp.check("DBSIZE", ":2\r\n");
}
