//! Keys that are moved to other names and other databases, and keys chosen at random.

use std::collections::BTreeSet;

use harness::{Server, as_redis, until};

#[test]
fn keys_are_renamed() {
    as_redis(&[
        ("RENAME a b", "-ERR no such key\r\n"),
        ("RENAMENX a b", "-ERR no such key\r\n"),
        ("SET a 1 EX 100", "+OK\r\n"),
        ("RENAME a a", "+OK\r\n"),
        ("RENAMENX a a", ":0\r\n"),
        ("RENAME a b", "+OK\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("GET b", "$1\r\n1\r\n"),
        ("TTL b", ":100\r\n"),
        ("SET c 2", "+OK\r\n"),
        ("RENAMENX b c", ":0\r\n"),
        ("RENAMENX b d", ":1\r\n"),
        ("RENAME d c", "+OK\r\n"),
        ("GET c", "$1\r\n1\r\n"),
        ("DBSIZE", ":1\r\n"),
    ]);
}

#[test]
fn keys_are_copied_and_moved() {
    as_redis(&[
        ("COPY a b", ":0\r\n"),
        ("SET a 1 EX 100", "+OK\r\n"),
        ("COPY a a", "-ERR source and destination objects are the same\r\n"),
        ("COPY a b", ":1\r\n"),
        ("TTL b", ":100\r\n"),
        ("SET a 2", "+OK\r\n"),
        ("COPY a b", ":0\r\n"),
        ("COPY a b REPLACE", ":1\r\n"),
        ("GET b", "$1\r\n2\r\n"),
        ("COPY a a DB 3", ":1\r\n"),
        ("COPY a b DB 99", "-ERR DB index is out of range\r\n"),
        ("COPY a b DB x", "-ERR value is not an integer or out of range\r\n"),
        ("COPY a b NONE", "-ERR syntax error\r\n"),
        ("MOVE a 3", ":0\r\n"),
        ("MOVE b 3", ":1\r\n"),
        ("MOVE b 3", ":0\r\n"),
        ("MOVE a 0", "-ERR source and destination objects are the same\r\n"),
        ("MOVE a 99", "-ERR DB index is out of range\r\n"),
        ("MOVE a x", "-ERR value is not an integer or out of range\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("SELECT 3", "+OK\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("GET b", "$1\r\n2\r\n"),
    ]);
}

#[test]
fn databases_are_exchanged() {
    as_redis(&[
        ("SET a zero", "+OK\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("GET a", "$4\r\nzero\r\n"),
        ("SWAPDB 1 1", "+OK\r\n"),
        ("SWAPDB x 1", "-ERR invalid first DB index\r\n"),
        ("SWAPDB 1 x", "-ERR invalid second DB index\r\n"),
        ("SWAPDB 1 16", "-ERR DB index is out of range\r\n"),
        ("SWAPDB -1 1", "-ERR DB index is out of range\r\n"),
    ]);
}

#[test]
fn touching_counts_existing_keys() {
    as_redis(&[
        ("MSET a 1 b 2", "+OK\r\n"),
        ("TOUCH a b c a", ":3\r\n"),
        ("TOUCH", "-ERR wrong number of arguments for 'touch' command\r\n"),
    ]);
}

#[test]
fn any_key_may_be_picked() {
    as_redis(&[("RANDOMKEY", "$-1\r\n"), ("SET a 1", "+OK\r\n"), ("RANDOMKEY", "$1\r\na\r\n")]);
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for key in 0..20 {
        client.check(&format!("SET key:{key} value"), "+OK\r\n");
    }
    let picked: BTreeSet<_> =
        (0..2_000).map(|_| client.run("RANDOMKEY").text().to_owned()).collect();
    assert_eq!(picked.len(), 20, "{picked:?}");
}

#[test]
fn a_key_is_found_among_many_that_have_expired() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    client.check("SET stays value", "+OK\r\n");
    let fill = "for key = 1, 100000 do redis.call('SET', key, '', 'PX', 1) end";
    client.check(&format!("EVAL \"{fill}\" 0"), "$-1\r\n");
    client.check("PSETEX last 1 value", "+OK\r\n");
    let is_over = || (client.run("PTTL last").integer() < 0).then_some(());
    until("the keys expire", is_over).unwrap();
    for _ in 0..20 {
        client.check("RANDOMKEY", "$5\r\nstays\r\n");
    }
    client.check("MULTI", "+OK\r\n");
    client.check("RANDOMKEY", "+QUEUED\r\n");
    client.check("EXEC", "*1\r\n$5\r\nstays\r\n");
    client.check("EVAL \"return redis.call('RANDOMKEY')\" 0", "$5\r\nstays\r\n");
    client.check("DEL stays", ":1\r\n");
    client.check("RANDOMKEY", "$-1\r\n");
}

#[test]
fn many_keys_are_touched() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("MSET key:7 a key:150 b", "+OK\r\n");
    let keys: Vec<String> = (0..200).map(|key| format!("key:{key}")).collect();
    client.check(&format!("TOUCH {}", keys.join(" ")), ":2\r\n");
    client.check(&format!("EXISTS {}", keys.join(" ")), ":2\r\n");
}
