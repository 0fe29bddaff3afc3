//! When other clients are notified of a script's changes: only after the script has ended, and of
//! all changes at once.

use harness::{Connection, Reply, Server, encode_command, until};
use std::collections::BTreeSet;

/// Lua code that takes longer than the delivery of a message.
const WORK: &str = "for i = 1, 3000000 do end";

fn message(kind: char, words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("{kind}{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}

/// Sends a request without waiting for its reply.
fn start(client: &mut Connection, words: &[&str]) {
    client.send(encode_command(words));
}

#[test]
fn subscribers_to_messages_of_a_script_see_all_of_its_changes() {
    for server in [Server::nagi(), Server::redis()] {
        let [mut told, mut reader, mut runner] = [(); 3].map(|()| server.connect_resp());
        runner.check("CONFIG SET notify-keyspace-events E$", "+OK\r\n");
        let library = format!(
            "#!lua name=lib\nredis.register_function('f', function() \
             redis.call('publish', 'c', 'm') {WORK} redis.call('set', 'k', 'new') return 7 end)"
        );
        runner.run_words(&["FUNCTION", "LOAD", &library]);
        told.run("SUBSCRIBE c");
        told.run("SSUBSCRIBE s");
        told.run("SUBSCRIBE __keyevent@0__:append");
        let script = |first: &str| {
            format!("local n = {first} {WORK} redis.call('set', 'k', 'new') return n")
        };
        let published = script("redis.call('publish', 'c', 'm')");
        let sharded = script("redis.call('spublish', 's', 'm')");
        let changed = script("redis.call('append', 'other', 'm')");
        for (words, reply, kind, channel, text) in [
            (["EVAL", &published, "0"].as_slice(), ":1\r\n", "message", "c", "m"),
            (&["EVAL", &sharded, "0"], ":1\r\n", "smessage", "s", "m"),
            (&["EVAL", &changed, "0"], ":1\r\n", "message", "__keyevent@0__:append", "other"),
            (&["FCALL", "f", "0"], ":7\r\n", "message", "c", "m"),
        ] {
            runner.run("DEL other");
            runner.check("SET k old", "+OK\r\n");
            start(&mut runner, words);
            told.expect(message('*', &[kind, channel, text]));
            reader.check("GET k", "$3\r\nnew\r\n");
            runner.expect(reply);
        }
    }
}

#[test]
fn clients_that_track_keys_of_a_script_see_all_of_its_changes() {
    for server in [Server::nagi(), Server::redis()] {
        let [mut told, mut reader, mut runner] = [(); 3].map(|()| server.connect_resp());
        told.run("HELLO 3");
        told.check("CLIENT TRACKING ON", "+OK\r\n");
        runner.check("MSET k old tracked old", "+OK\r\n");
        told.check("GET tracked", "$3\r\nold\r\n");
        let script =
            format!("redis.call('set', 'tracked', 'new') {WORK} redis.call('set', 'k', 'new')");
        start(&mut runner, &["EVAL", &script, "0"]);
        told.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\ntracked\r\n");
        reader.check("GET k", "$3\r\nnew\r\n");
        runner.expect("$-1\r\n");
    }
}

#[test]
fn clients_that_track_prefixes_are_told_of_all_keys_of_a_script() {
    const KEYS: usize = 10_000;
    for server in [Server::nagi(), Server::redis()] {
        let [mut told, mut runner] = [(); 2].map(|()| server.connect_resp());
        told.run("HELLO 3");
        told.check("CLIENT TRACKING ON BCAST PREFIX k:", "+OK\r\n");
        let script = format!("for i = 1, {KEYS} do redis.call('set', 'k:' .. i, i) end");
        runner.run_words(&["EVAL", &script, "0"]);
        let mut keys = BTreeSet::new();
        while keys.len() < KEYS {
            let Reply::Push(push) = told.reply() else { panic!("a push") };
            keys.extend(push[1].list().iter().map(Reply::text));
        }
    }
}

#[test]
fn ones_own_messages_follow_the_reply_of_ones_own_script() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.run("HELLO 3");
    client.run("SUBSCRIBE c");
    let library = format!(
        "#!lua name=lib\nredis.register_function('f', function() \
             redis.call('publish', 'c', 'm') {WORK} return 5 end)"
    );
    client.run_words(&["FUNCTION", "LOAD", &library]);
    let script = format!("redis.call('publish', 'c', 'm') {WORK} return 5");
    for words in [["EVAL", &script, "0"], ["FCALL", "f", "0"]] {
        for _ in 0..20 {
            start(&mut client, &words);
            client.expect(":5\r\n");
            client.expect(message('>', &["message", "c", "m"]));
        }
    }
}

#[test]
fn messages_and_events_of_a_script_keep_their_order() {
    for server in [Server::nagi(), Server::redis()] {
        let [mut told, mut runner] = [(); 2].map(|()| server.connect_resp());
        runner.check("CONFIG SET notify-keyspace-events E$", "+OK\r\n");
        told.run("PSUBSCRIBE *");
        runner.check(
            "EVAL \"redis.call('publish', 'a', 1) redis.call('set', 'k', 1) \
             return redis.call('publish', 'b', 2) + redis.call('publish', 'b', 3)\" 0",
            ":2\r\n",
        );
        for (channel, text) in [("a", "1"), ("__keyevent@0__:set", "k"), ("b", "2"), ("b", "3")] {
            told.expect(message('*', &["pmessage", "*", channel, text]));
        }
    }
}

#[test]
fn messages_that_a_script_delays_are_bounded() {
    let server = Server::nagi_with(&["--script-memory-limit", "2mb"]);
    let [mut told, mut runner] = [(); 2].map(|()| server.connect_resp());
    told.run("SUBSCRIBE c");
    let script = "local text = string.rep('m', 10000) while true do \
                  local sent = redis.pcall('publish', 'c', text) \
                  if type(sent) == 'table' then return redis.status_reply(sent.err) end end";
    start(&mut runner, &["EVAL", script, "0"]);
    runner.expect("+ERR not enough memory\r\n");
    told.expect(message('*', &["message", "c", &"m".repeat(10_000)]));
}

#[test]
fn a_script_that_claims_everything_serves_only_clients_of_keys_that_it_has_changed() {
    for server in [Server::nagi(), Server::redis()] {
        [false, true].into_iter().for_each(|is_queued| check_served(&server, is_queued));
    }
}

fn check_served(server: &Server, is_queued: bool) {
    let (mut waiter, mut observer) = (server.connect_resp(), server.connect_resp());
    for (script, is_served) in [
        ("redis.call('DBSIZE')", false),
        ("redis.call('KEYS','*') redis.call('SET','other','1')", false),
        ("redis.call('SET','other','1') redis.call('DBSIZE')", false),
        ("redis.call('DBSIZE') redis.call('XADD','s','*','f','v')", true),
        ("redis.call('XADD','s','*','f','v') redis.call('DBSIZE')", true),
        ("redis.call('FLUSHALL') redis.call('XADD','s','*','f','v')", true),
    ] {
        observer.run("FLUSHALL");
        observer.run("XADD s 1-1 f v");
        waiter.send("XREAD BLOCK 0 STREAMS x s $ $\r\n");
        let waits = || (observer.info::<u32>("blocked_clients") == 1).then_some(());
        until("the client waits", waits).unwrap();
        observer.run("RPUSH x 1");
        if is_queued {
            observer.run("MULTI");
        }
        observer.run_words(&["EVAL", script, "0"]);
        if is_queued {
            observer.run("EXEC");
        }
        assert_eq!(observer.info::<u32>("blocked_clients") == 0, is_served, "{script}");
        if !is_served {
            observer.run("DEL x");
            observer.run("XADD s * f v");
        }
        waiter.reply();
    }
}
