//! The counters of memcached's `stats`, request by request.

use harness::{Connection, Server};
use std::collections::BTreeMap;

/// Counters that requests change. The length of a counter's digits decides in memcached, but not
/// here, whether counting stores an item, so no number below becomes longer.
const COUNTERS: [&str; 18] = [
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_misses",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "curr_items",
    "total_items",
];

/// Requests of one line, and of a line and a value.
const LINES: [&str; 30] = [
    "get a",
    "get a none a",
    "gat 9 a",
    "gat 9 none",
    "touch a 9",
    "touch none 9",
    "incr n 1",
    "incr none 1",
    "incr a 1",
    "decr n 1",
    "decr none 1",
    "delete a",
    "delete none",
    "mg a v",
    "mg none v",
    "mg a T30",
    "mg none T30",
    "mg a N30 v",
    "mg none N30 v",
    "mg none N30 T30",
    "md a",
    "md none",
    "md a I",
    "md a C1",
    "md a C1 I",
    "md none I",
    "ma n",
    "ma none",
    "ma none N0",
    "ma none N0 MD",
];
const VALUES: [&str; 13] = [
    "set a 0 0 1",
    "add a 0 0 1",
    "add none 0 0 1",
    "replace a 0 0 1",
    "replace none 0 0 1",
    "append a 0 0 1",
    "append none 0 0 1",
    "cas a 0 0 1 1",
    "cas none 0 0 1 1",
    "ms a 1",
    "ms a 1 ME",
    "ms none 1 MA",
    "ms a 1 C1",
];

fn counters(client: &mut Connection) -> BTreeMap<String, i64> {
    client.send("stats\r\n");
    let mut counters = BTreeMap::new();
    loop {
        let line = client.line();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["STAT", name, value] if COUNTERS.contains(&name) => {
                counters.insert(name.to_owned(), value.parse().expect("a number"));
            }
            ["END"] => return counters,
            _ => {}
        }
    }
}

/// Sends requests, and reads their replies.
fn run(client: &mut Connection, requests: &str) {
    client.send(format!("{requests}mn\r\n"));
    while client.line() != "MN" {}
}

/// What a request adds to the counters of a server with two keys.
fn grown(client: &mut Connection, request: &str) -> Vec<(String, i64)> {
    run(client, "flush_all\r\ndelete a\r\ndelete n\r\ndelete none\r\n");
    run(client, "set a 0 0 1\r\nx\r\nset n 0 0 1\r\n5\r\n");
    let before = counters(client);
    run(client, request);
    let grown = counters(client).into_iter().map(|(name, now)| {
        let then = before[&name];
        (name, now - then)
    });
    grown.filter(|(_, by)| *by != 0).collect()
}

#[test]
fn each_request_counts_as_in_memcached() {
    let servers = [Server::nagi(), Server::memcached()];
    let mut clients = servers.each_ref().map(Server::connect_memcached);
    assert_eq!(counters(&mut clients[0]).len(), COUNTERS.len());
    let lines = LINES.iter().map(|line| format!("{line}\r\n"));
    let values = VALUES.iter().map(|line| format!("{line}\r\ny\r\n"));
    for request in lines.chain(values) {
        let [nagi, memcached] = clients.each_mut().map(|client| grown(client, &request));
        assert_eq!(nagi, memcached, "{request}");
    }
    // memcached 1.6.18 lacks the flag; 1.6.45 counts so.
    let cleared = ["delete_hits", "total_items"].map(|name| (name.to_owned(), 1));
    assert_eq!(grown(&mut clients[0], "md a x\r\n"), cleared);
}
