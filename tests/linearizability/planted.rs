//! Tests of the checker: it must accept valid histories, and find each kind of fault.

use std::time::Duration;

use harness::{Reply, words};

use super::checker::{Found, Operation, check as order_of};
use super::model::Request;

/// A request: the client, the time of sending, the time of the reply, the words (commands of a
/// transaction are separated by semicolons), and the reply.
type Row = (usize, u64, u64, &'static str, Reply);

fn operation(&(client, sent, answered, request, ref reply): &Row) -> Operation {
    let owned = |command: &str| words(command).into_iter().map(str::to_owned).collect();
    let request = match request.strip_prefix("EXEC ") {
        Some(commands) => Request::Transaction(commands.split(';').map(owned).collect()),
        None => Request::Command(owned(request)),
    };
    let [sent, answered] = [sent, answered].map(Duration::from_millis);
    Operation { client, request, sent, answered, reply: reply.clone() }
}

fn is_valid(rows: &[Row]) -> bool {
    let history: Vec<Operation> = rows.iter().map(operation).collect();
    order_of(&history).is_ok()
}

/// Parses a reply: an integer, `OK`, `nil` or a bulk string, or an array of them in brackets.
fn reply(text: &str) -> Reply {
    if let Some(items) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Reply::Array(items.split_whitespace().map(reply).collect());
    }
    match text {
        "OK" => Reply::Simple("OK".to_owned()),
        "nil" => Reply::Null,
        _ => match text.strip_prefix(':') {
            Some(number) => Reply::Integer(number.parse().expect("an integer")),
            None => Reply::Bulk(text.into()),
        },
    }
}

/// Checks that a history is valid with each of the replies `valid` of its last operation, and
/// invalid with each of `faulty`.
fn check(rows: &[Row], valid: &[&str], faulty: &[&str]) {
    let (last, earlier) = rows.split_last().expect("there are operations");
    for (replies, expected) in [(valid, true), (faulty, false)] {
        for text in replies {
            let last = (last.0, last.1, last.2, last.3, reply(text));
            let rows: Vec<Row> = earlier.iter().cloned().chain([last]).collect();
            assert_eq!(is_valid(&rows), expected, "{text}, after {earlier:?}");
        }
    }
}

fn row(client: usize, sent: u64, answered: u64, request: &'static str, replied: &str) -> Row {
    (client, sent, answered, request, reply(replied))
}

#[test]
fn clients_that_waited_are_counted() {
    let rows = [
        row(0, 0, 9, "BLPOP q 5", "[q x]"),
        row(1, 5, 6, "EXEC LLEN q;RPUSH q x y", "[:0 :2]"),
        row(1, 6, 7, "LPOP q", "y"),
        row(1, 10, 20, "BLPOP q 0.001", "nil"),
    ];
    let history: Vec<Operation> = rows.iter().map(operation).collect();
    assert_eq!(order_of(&history).ok(), Some(Found { served: 1, timed_out: 1 }));
}

#[test]
fn a_transaction_counts_keys_at_one_instant() {
    let rows = [
        row(0, 0, 1, "SET a 1", "OK"),
        row(1, 2, 9, "RENAME a b", "OK"),
        row(0, 3, 8, "EXEC DBSIZE", "?"),
    ];
    check(&rows, &["[:1]"], &["[:0]", "[:2]"]);
}

#[test]
fn operations_that_overlap_may_be_in_any_order() {
    let set = [row(0, 0, 1, "SET k 1", "OK"), row(0, 2, 9, "SET k 2", "OK")];
    for replied in ["1", "2"] {
        assert!(is_valid(&[&set[..], &[row(1, 3, 8, "GET k", replied)]].concat()));
    }
    // A value that one client has seen must not be undone for another client later.
    let seen = [&set[..], &[row(1, 3, 4, "GET k", "2"), row(2, 5, 6, "GET k", "?")]].concat();
    check(&seen, &["2"], &["1", "nil"]);
}

#[test]
fn a_stale_read_is_found() {
    let rows =
        [row(0, 0, 1, "SET k 1", "OK"), row(0, 2, 3, "SET k 2", "OK"), row(1, 4, 5, "GET k", "?")];
    check(&rows, &["2"], &["1", "nil", "3"]);
}

#[test]
fn a_lost_update_is_found() {
    let both = [row(0, 0, 9, "INCR k", ":1"), row(1, 0, 9, "INCR k", "?")];
    check(&both, &[":2"], &[":1", ":3"]);
    let read = [
        row(0, 0, 9, "HINCRBY k f 1", ":1"),
        row(1, 0, 9, "HINCRBY k f 1", ":2"),
        row(0, 10, 11, "HGETALL k", "?"),
    ];
    check(&read, &["[f 2]"], &["[f 1]"]);
}

#[test]
fn a_torn_mset_is_found() {
    let rows = [
        row(0, 0, 1, "MSET a 1 b 1", "OK"),
        row(0, 2, 9, "MSET a 2 b 2", "OK"),
        row(1, 3, 8, "MGET a b", "?"),
    ];
    check(&rows, &["[1 1]", "[2 2]"], &["[1 2]", "[2 1]"]);
}

#[test]
fn a_torn_transaction_or_script_is_found() {
    for transfer in [
        row(0, 2, 9, "EXEC INCRBY a 5;INCRBY b -5", "[:5 :-5]"),
        row(0, 2, 9, "EVAL transfer 2 a b 5", ":-5"),
    ] {
        let rows = [row(0, 0, 1, "MSET a 0 b 0", "OK"), transfer, row(1, 3, 8, "MGET a b", "?")];
        check(&rows, &["[0 0]", "[5 -5]"], &["[5 0]", "[0 -5]"]);
    }
}

#[test]
fn an_element_that_a_move_loses_or_doubles_is_found() {
    let read = "EXEC LRANGE a 0 -1;LRANGE b 0 -1;SMEMBERS s;SMEMBERS t";
    let lists = |replies: [&str; 4]| Reply::Array(replies.map(reply).into());
    let rows = |last: Reply| {
        let rows = [
            row(0, 0, 1, "RPUSH a x y", ":2"),
            row(0, 2, 3, "SADD s m", ":1"),
            row(0, 4, 9, "LMOVE a b LEFT RIGHT", "x"),
            row(1, 4, 9, "RPOPLPUSH a b", "y"),
            row(2, 4, 9, "SMOVE s t m", ":1"),
        ];
        [&rows[..], &[(0, 10, 11, read, last)]].concat()
    };
    assert!(is_valid(&rows(lists(["[]", "[y x]", "[]", "[m]"]))));
    for faulty in [
        ["[]", "[x]", "[]", "[m]"],
        ["[x]", "[y x]", "[]", "[m]"],
        ["[]", "[y x x]", "[]", "[m]"],
        ["[]", "[y x]", "[m]", "[m]"],
        ["[]", "[y x]", "[]", "[]"],
    ] {
        assert!(!is_valid(&rows(lists(faulty))), "{faulty:?}");
    }
    // Two clients cannot both have moved the same element.
    let both = [
        row(0, 0, 1, "RPUSH a x", ":1"),
        row(0, 2, 9, "LMOVE a b LEFT LEFT", "x"),
        row(1, 2, 9, "LMOVE a b LEFT LEFT", "?"),
    ];
    check(&both, &["nil"], &["x"]);
}

#[test]
fn blocked_clients_are_served_in_the_order_in_which_they_began_to_wait() {
    // The first client has waited since before the request that shows it; the second began to wait
    // later.
    let rows = [
        row(0, 0, 9, "BLPOP q 5", "[q x]"),
        row(1, 0, 9, "BLPOP q 5", "[q y]"),
        row(2, 5, 6, "RPUSH q x", ":1"),
        row(2, 7, 8, "RPUSH q y", ":1"),
        row(2, 10, 11, "LLEN q", "?"),
    ];
    check(&rows, &[":0"], &[":1"]);
    // A client that was served before another client began to wait cannot have received the second
    // element. One element cannot serve both clients.
    let one_after_the_other = |replies: [&str; 2]| {
        is_valid(&[
            row(0, 0, 3, "BLPOP q 5", replies[0]),
            row(2, 1, 2, "RPUSH q x", ":1"),
            row(1, 4, 7, "BLPOP q 5", replies[1]),
            row(2, 5, 6, "RPUSH q y", ":1"),
        ])
    };
    assert!(one_after_the_other(["[q x]", "[q y]"]));
    assert!(!one_after_the_other(["[q y]", "[q x]"]));
    assert!(!one_after_the_other(["[q x]", "[q x]"]));
}

#[test]
fn a_client_served_before_one_that_had_waited_longer_is_found() {
    // One client waits for two lists, and is served by the push to the second list at the latest.
    // Because it receives an element of the first list, it was still waiting when the other clients
    // began.
    let in_order = |first: &str, second: &str| {
        is_valid(&[
            row(0, 0, 9, "BRPOP q 5", first),
            row(1, 0, 1, "RPUSH other a", ":1"),
            row(1, 2, 9, "EXEC LLEN q;RPUSH q x y", "[:0 :2]"),
            row(2, 0, 9, "BRPOP q 5", second),
            row(1, 10, 11, "LLEN q", ":0"),
        ])
    };
    assert!(in_order("[q y]", "[q x]") && in_order("[q x]", "[q y]"));
    assert!(!in_order("[q x]", "[q x]"));
    // The client of BLMOVE was answered before the other client began to wait, so it is first in
    // the queue.
    let rows = |taken: &str, left: &str| {
        is_valid(&[
            row(0, 0, 4, "BLMOVE q r LEFT LEFT 5", taken),
            row(1, 1, 2, "RPUSH q x y", ":2"),
            row(2, 5, 6, "BLPOP q 5", left),
        ])
    };
    assert!(rows("x", "[q y]"));
    assert!(!rows("y", "[q x]"));
}

#[test]
fn a_blocked_client_that_is_forgotten_is_found() {
    let rows = |replied: &str, left: &str| {
        is_valid(&[
            row(0, 0, 100, "BLPOP q 0.1", replied),
            row(1, 10, 11, "RPUSH q x", ":1"),
            row(1, 12, 13, "LRANGE q 0 -1", left),
        ])
    };
    assert!(rows("[q x]", "[]"));
    // The server may have received the blocking request after the others. The request then finds an
    // element and does not block.
    assert!(rows("[q x]", "[x]"));
    assert!(!rows("nil", "[x]"), "its time was not up");
    assert!(!rows("nil", "[]"), "the element is lost");
}

#[test]
fn other_clients_see_no_element_that_serves_a_blocked_client() {
    let rows = [
        row(0, 0, 20, "BLMOVE q r LEFT RIGHT 5", "x"),
        row(1, 10, 11, "EXEC RPUSH q x;LLEN q", "[:1 :1]"),
        row(2, 5, 15, "EXEC LLEN q;LLEN r", "?"),
        row(2, 21, 22, "EXEC LRANGE q 0 -1;LRANGE r 0 -1", "?"),
    ];
    let rows = |seen: [&str; 2]| {
        let last = Reply::Array(["[]", "[x]"].map(reply).into());
        let seen = Reply::Array(seen.map(reply).into());
        let mut rows = rows.to_vec();
        (rows[2].4, rows[3].4) = (seen, last);
        is_valid(&rows)
    };
    assert!(rows([":0", ":0"]) && rows([":0", ":1"]));
    assert!(!rows([":1", ":1"]));
    // An element that is pushed and popped within one transaction serves no client.
    let at_once = [
        row(0, 0, 5, "BLPOP q 0.004", "nil"),
        row(1, 2, 3, "EVAL push-and-pop 1 q x", "x"),
        row(1, 2, 3, "LLEN q", ":0"),
    ];
    assert!(is_valid(&at_once));
}

#[test]
fn a_transaction_runs_exactly_if_no_watched_key_was_changed() {
    let rows = |between: Row, replied: &str| {
        is_valid(&[row(0, 0, 1, "WATCH k", "OK"), between, row(0, 8, 9, "EXEC GET k", replied)])
    };
    assert!(rows(row(1, 2, 3, "SET k 1", "OK"), "nil"));
    assert!(!rows(row(1, 2, 3, "SET k 1", "OK"), "[1]"), "a change was missed");
    assert!(!rows(row(1, 2, 3, "DEL k", ":0"), "nil"), "there was no change");
    assert!(rows(row(1, 2, 3, "DEL k", ":0"), "[nil]"));
    for replied in ["nil", "[nil]"] {
        assert!(rows(row(1, 7, 10, "SET k 1", "OK"), replied), "the change may be later");
    }
}
