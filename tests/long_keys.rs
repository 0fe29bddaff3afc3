//! Keys of megabytes: they are stored in a different way from short ones, and must behave the same.

use harness::{Server, tool};
use std::process::Command;

/// Returns a long key that differs from other keys only in its last byte.
fn key(len: usize, last: u8) -> Vec<u8> {
    let mut key: Vec<u8> = (0..len).map(|at| b'a' + (at * at % 23) as u8).collect();
    key.push(last);
    key
}

#[test]
fn long_keys_behave_like_short_ones() {
    // The lengths at which the storage of keys changes, the length of chunks, and much longer keys.
    for len in [2047, 2048, 65_511, 65_512, 200_000, 5_000_000] {
        let [a, b, c] = [b'a', b'b', b'c'].map(|last| key(len, last));
        let (start, pattern) = (&a[..len], [&a[..300], b"*[ab]"].concat());
        let requests: &[&[&[u8]]] = &[
            &[b"SET", &a, b"1"],
            &[b"MSET", &b, b"2", b"short", b"3", &b, b"4"],
            &[b"MSETNX", &c, b"5", &b, b"6"],
            &[b"MGET", &a, &b, &c, start],
            &[b"SCAN", b"0", b"COUNT", b"100", b"MATCH", &[&a[..], b"?"].concat()],
            &[b"DBSIZE"],
            &[b"RENAMENX", &a, &b],
            &[b"RENAME", &a, &c],
            &[b"EXISTS", &a, &b, &c, &c],
            &[b"INCR", &c],
            &[b"APPEND", &c, b"0"],
            &[b"EXPIRE", &c, b"1000"],
            &[b"COPY", &c, &a],
            &[b"TTL", &a],
            &[b"MOVE", &a, b"1"],
            &[b"MOVE", &a, b"1"],
            &[b"DEL", &b, &b, b"short"],
            &[b"KEYS", &pattern],
            &[b"RANDOMKEY"],
            &[b"SCAN", b"0", b"MATCH", b"*", b"COUNT", b"10"],
            &[b"OBJECT", b"ENCODING", &c],
            &[b"SWAPDB", b"0", b"1"],
            &[b"RANDOMKEY"],
            &[b"GETDEL", &a],
            &[b"RANDOMKEY"],
            &[b"TYPE", &a],
        ];
        let servers = [Server::nagi(), Server::redis()];
        let [mut ours, mut theirs] = [servers[0].connect_resp(), servers[1].connect_resp()];
        for request in requests {
            let same = ours.run_words(request) == theirs.run_words(request);
            let words: Vec<_> = request.iter().map(|word| &word[..word.len().min(9)]).collect();
            assert!(same, "{len}: {}", String::from_utf8_lossy(&words.concat()));
        }
    }
}

#[test]
fn long_keys_have_the_digest_that_redis_gives_them() {
    let mut redis: Command = tool("redis-server");
    redis.args(["--enable-debug-command", "yes"]);
    let redis = Server::start_redis(redis).expect("starts");
    let servers = [Server::nagi_with(&["--enable-debug-command", "yes"]), redis];
    let digests = servers.map(|server| {
        let mut client = server.connect_resp();
        for len in [10, 5_000, 300_000] {
            assert_eq!(client.run_words(&[&b"SET"[..], &key(len, b'x'), b"value"]).text(), "OK");
        }
        client.run("DEBUG DIGEST")
    });
    assert_eq!(digests[0], digests[1]);
}
