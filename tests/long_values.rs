//! Arguments that are too long to be copied at once. The results must be the same as with short
//! arguments, and no other client may be delayed.

use harness::{Connection, Reply, Server, encode_command};

/// Returns bytes each of which differs from its neighbours.
fn numbered(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn long_values_give_the_results_of_short_ones() {
    let (short, long) = (numbered(5), numbered(300_001));
    let requests: &[&[&[u8]]] = &[
        &[b"APPEND", b"new", &long],
        &[b"APPEND", b"new", &long],
        &[b"SET", b"key", &short],
        &[b"APPEND", b"key", &long],
        &[b"EXPIRE", b"key", b"1000"],
        &[b"SETRANGE", b"key", b"3", &long],
        &[b"SETRANGE", b"key", b"900000", &long],
        &[b"SETRANGE", b"key", b"800001", &long],
        &[b"APPEND", b"key", &long],
        &[b"TTL", b"key"],
        &[b"SETRANGE", b"other", b"131072", &long],
        &[b"SETRANGE", b"other", b"-1", &long],
        &[b"SETRANGE", b"other", b"536870000", &long],
        &[b"APPEND", b"other", &long],
        &[b"ECHO", &long],
        &[b"PING", &long],
        &[b"GETSET", b"key", &long],
        &[b"MGET", b"new", b"key", b"other"],
        &[b"DBSIZE"],
    ];
    let servers = [Server::nagi(), Server::redis()];
    let [mut ours, mut theirs] = [servers[0].connect_resp(), servers[1].connect_resp()];
    for request in requests {
        let same = ours.run_words(request) == theirs.run_words(request);
        let words: Vec<_> = request.iter().map(|word| &word[..word.len().min(9)]).collect();
        assert!(same, "{words:?}");
    }
}

#[test]
fn long_values_give_the_results_of_short_ones_in_memcached_too() {
    let server = Server::nagi();
    let (mut client, mut resp) = (server.connect_memcached(), server.connect_resp());
    let block = "x".repeat(200_001);
    let request = |line: &str| format!("{line}\r\n{block}\r\n");
    client.send(request("ms k 200001 c"));
    let version = client.line().split_off("HD c".len());
    client.check_raw(request(&format!("cas k 7 0 200001 {version}")), "STORED\r\n");
    client.check_raw(request(&format!("cas k 7 0 200001 {version}")), "EXISTS\r\n");
    client.check_raw(request("append k 0 0 200001"), "STORED\r\n");
    client.check_raw(request("prepend k 0 0 200001"), "STORED\r\n");
    client.check_raw(request("ms k 200001 MA"), "HD\r\n");
    client.check_raw(request("ms none 200001 MA"), "NS\r\n");
    client.check_raw(request("ms none 200001 MA N0 s"), "HD s200001\r\n");
    assert!(resp.run("GET k") == Reply::Bulk(block.repeat(4).into()));
    assert!(resp.run("GET none") == Reply::Bulk(block.clone().into()));
}

/// Returns the longest time, in microseconds, for which a connection has held its worker since the
/// last call.
fn longest_slice_us(client: &mut Connection) -> u64 {
    let text = client.run("INFO stats").text();
    let value = text.lines().find_map(|line| line.strip_prefix("longest_slice_usec:"));
    client.check("CONFIG RESETSTAT", "+OK\r\n");
    value.expect("INFO has it").parse().expect("a number")
}

#[test]
fn long_values_delay_no_other_client() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let value = numbered(100_000_000);
    for request in [&[&b"APPEND"[..], b"key"][..], &[b"SETRANGE", b"key", b"77"], &[b"ECHO"]] {
        let request = encode_command(&[request, &[&value]].concat());
        let mut slices = (0..30).map(|_| {
            client.check(&format!("SET key {}", "v".repeat(1000)), "+OK\r\n");
            longest_slice_us(&mut client);
            client.send(&request);
            drop(client.reply());
            longest_slice_us(&mut client)
        });
        // The machine may interrupt a slice, but not in every attempt.
        let short = slices.any(|longest_us| longest_us < 30_000);
        assert!(short, "{} holds its worker for long", request[4..20].escape_ascii());
    }
}

#[test]
fn an_unknown_command_may_be_very_long() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let long = vec![b'x'; 1 << 20];
    let shown = "x".repeat(128);
    for (words, error) in [
        (
            [&long[..], b"a"],
            format!("ERR unknown command '{shown}', with args beginning with: 'a' "),
        ),
        (
            [&b"nosuch"[..], &long[..]],
            format!("ERR unknown command 'nosuch', with args beginning with: '{shown}' "),
        ),
    ] {
        assert_eq!(client.run_words(&words), Reply::Error(error));
    }
}
