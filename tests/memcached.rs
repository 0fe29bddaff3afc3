//! memcached's text protocol.

use harness::{Server, as_memcached};

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
