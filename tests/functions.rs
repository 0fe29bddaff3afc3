//! Libraries of functions, with the same replies as redis-server.

use harness::{Connection, Reply, Server, encode_command, until};

use crate::persistence::Folder;
use crate::scripting::{ENDLESS, error, same_as_redis, until_busy};

/// A library with two functions.
const LIBRARY: &str = "#!lua name=lib\n\
    local function set(keys, args) return redis.call('SET', keys[1], args[1]) end\n\
    redis.register_function('set', set)\n\
    redis.register_function{function_name='get', flags={'no-writes', 'allow-stale'}, \
    description='reads', callback=function(keys) return redis.call('GET', keys[1]) end}\n";

#[test]
fn libraries_are_loaded_and_called() {
    let load = format!("FUNCTION LOAD \"{LIBRARY}\"");
    let replace = format!("FUNCTION LOAD REPLACE \"{LIBRARY}\"");
    same_as_redis(&[
        &load,
        &load,
        &replace,
        "FCALL set 1 key value",
        "FCALL get 1 key",
        "FCALL GET 1 key",
        "FCALL_RO get 1 key",
        "FCALL_RO set 1 key value",
        "FCALL nosuch 0",
        "FCALL get x",
        "FCALL get 5 a",
        "FCALL get -1 a",
        "FCALL get 0",
        "FUNCTION LOAD \"#!lua name=other\nredis.register_function('get', function() end)\"",
        "FUNCTION LOAD \"#!lua name=one\nredis.register_function('one', function() return 1 end)\"",
        "FUNCTION LIST LIBRARYNAME on* WITHCODE",
        "FUNCTION LIST LIBRARYNAME",
        "FUNCTION LIST nosuch",
        "FUNCTION LIST \"line breaks\r\n\"",
        "FUNCTION STATS",
        "MULTI",
        "FCALL set 1 key other",
        "FCALL get 1 key",
        "EXEC",
        "FUNCTION DELETE lib",
        "FUNCTION DELETE lib",
        "FCALL get 1 key",
        "FUNCTION FLUSH nosuch",
        "FUNCTION FLUSH",
        "FUNCTION LIST",
        "FUNCTION KILL",
        "FUNCTION NOSUCH",
    ]);
}

#[test]
fn errors_of_libraries_are_those_of_redis() {
    let bodies = [
        "",
        "retur 1",
        "return nosuch",
        "x = 1",
        "return math.random()",
        "redis.math.random()",
        "return redis.set_repl(redis.REPL_NONE)",
        "return redis.call('ping')",
        "mt = getmetatable(_G)",
        "return pairs",
        "redis.register_function()",
        "redis.register_function(1)",
        "redis.register_function(1, 2)",
        "redis.register_function('a', 2)",
        "redis.register_function('a', function() end, 3)",
        "redis.register_function('a-b', function() end)",
        "redis.register_function('a', function() end) redis.register_function('a', function() end)",
        "redis.register_function{}",
        "redis.register_function{function_name='a'}",
        "redis.register_function{function_name=1}",
        "redis.register_function{nosuch=1}",
        "redis.register_function{1}",
        "redis.register_function{function_name='a', callback=1}",
        "redis.register_function{function_name='a', callback=function() end, flags=1}",
        "redis.register_function{function_name='a', callback=function() end, flags={'nosuch'}}",
        "redis.register_function{function_name='a', callback=function() end, description=1}",
    ];
    let mut commands: Vec<_> =
        bodies.iter().map(|body| format!("FUNCTION LOAD \"#!lua name=lib\n{body}\"")).collect();
    for text in [
        "text",
        "#!lua name=a",
        "#!lua\n",
        "#!lua name=a-b\n",
        "#!py name=a\n",
        "#!lua name=a foo=bar\n",
        "#!lua name=a name=b\n",
    ] {
        commands.push(format!("FUNCTION LOAD \"{text}\""));
    }
    let calls = "#!lua name=calls\n\
        redis.register_function('fails', function(k) return redis.call('LPUSH', k[1], 1) end)\n\
        redis.register_function('raises', function() error('x') end)\n\
        redis.register_function('unknown', function() return nosuch end)\n\
        redis.register_function('late', function() redis.register_function('a', tostring) end)\n\
        local lib = redis\n\
        lib.register_function('kept', function() lib.register_function('a', tostring) end)\n\
        lib.register_function('changes', function() lib.math = math end)\n\
        lib.register_function('finds', function() return math.abs(-2) end)";
    commands.push(format!("FUNCTION LOAD \"{calls}\""));
    commands.extend(
        [
            "SET key value",
            "FCALL fails 1 key",
            "FCALL raises 0",
            "FCALL unknown 0",
            "FCALL late 0",
            "FCALL kept 0",
            "FCALL changes 0",
            "FCALL finds 0",
            "FUNCTION LOAD \"return math.random()\"",
            "FCALL finds 0",
            "FUNCTION LOAD NOSUCH x",
            "FUNCTION RESTORE x",
            "FUNCTION RESTORE x NOSUCH",
        ]
        .map(str::to_owned),
    );
    same_as_redis(&commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn functions_lack_what_only_scripts_have() {
    same_as_redis(&[
        "FUNCTION LOAD \"#!lua name=lib\nredis.register_function('f', function()\n\
         return {type(redis.replicate_commands), type(redis.breakpoint), type(redis.debug)} end)\n\
         redis.register_function('g', function() redis.replicate_commands() end)\"",
        "FCALL f 0",
        "FCALL g 0",
    ]);
}

#[test]
fn libraries_are_dumped_and_restored_by_either_server() {
    let servers = [Server::nagi(), Server::redis()];
    for (from, to) in [(0, 1), (1, 0), (0, 0)] {
        let (mut from, mut to) = (servers[from].connect_resp(), servers[to].connect_resp());
        from.run("FUNCTION FLUSH");
        assert_eq!(from.run_words(&["FUNCTION", "LOAD", LIBRARY]).text(), "lib");
        let long = format!(
            "#!lua name=long\n--{}\nredis.register_function('f', function() \
                            return 7 end)",
            "x".repeat(5000)
        );
        from.run_words(&["FUNCTION", "LOAD", &long]);
        let Reply::Bulk(payload) = from.run("FUNCTION DUMP") else { panic!("no payload") };
        to.run("FUNCTION FLUSH");
        for policy in ["APPEND", "REPLACE", "FLUSH"] {
            let words = [b"FUNCTION", b"RESTORE".as_slice(), &payload, policy.as_bytes()];
            to.send(encode_command(&words));
            to.expect("+OK\r\n");
        }
        to.check("FCALL f 0", ":7\r\n");
        let words = [b"FUNCTION", b"RESTORE".as_slice(), &payload];
        assert!(error(&to.run_words(&words)).contains("already exists"));
    }
    let mut client = servers[0].connect_resp();
    assert_eq!(client.run("FUNCTION HELP").list().len(), 19);
}

#[test]
fn a_slow_function_is_reported_and_killed() {
    let server = Server::nagi_with(&["--busy-reply-threshold", "50"]);
    let [mut runs, mut other] = [(); 2].map(|()| server.connect_resp());
    let library =
        format!("#!lua name=lib\nredis.register_function('slow', function() {ENDLESS} end)");
    runs.run_words(&["FUNCTION", "LOAD", &library]);
    runs.send(encode_command(&["FCALL", "slow", "0"]));
    until_busy(&mut other);
    let stats = other.run("FUNCTION STATS");
    assert_eq!(stats.list()[1].list()[1].text(), "slow");
    assert!(error(&other.run("SCRIPT KILL")).starts_with("BUSY"));
    other.check("FUNCTION KILL", "+OK\r\n");
    assert!(error(&runs.reply()).contains("killed by user"));
}

/// Both servers write libraries into their files, and each reads those of the other.
#[test]
fn libraries_are_saved_and_loaded() {
    let folder = Folder::new("functions");
    let path = folder.0.to_str().expect("a path");
    for (from, to) in [(true, false), (false, true), (true, true)] {
        let start = |is_nagi: bool| match is_nagi {
            true => Server::nagi_with(&["--dir", path, "--save", ""]),
            false => {
                let mut command = harness::tool("redis-server");
                command.args(["--dir", path]);
                Server::start_redis(command).expect("it starts")
            }
        };
        let server = start(from);
        let mut client = server.connect_resp();
        client.run("FUNCTION FLUSH");
        client.run_words(&["FUNCTION", "LOAD", LIBRARY]);
        client.check("FCALL set 1 key value", "+OK\r\n");
        client.check("SAVE", "+OK\r\n");
        drop((client, server));
        let server = start(to);
        let mut client = server.connect_resp();
        until("the library to be loaded", || {
            (client.run("FUNCTION LIST").list().len() == 1).then_some(())
        })
        .unwrap();
        client.check("FCALL get 1 key", "$5\r\nvalue\r\n");
    }
}

/// The transaction must not claim its keys before it has the thread of scripts.
#[test]
fn a_transaction_loads_a_library_while_scripts_wait_for_its_keys() {
    let server = Server::nagi();
    let mut clients: Vec<_> = (0..3).map(|_| server.connect_resp()).collect();
    let [busy, waiting, client] = &mut clients[..] else { panic!("three clients") };
    for round in 0..5 {
        client.check("MULTI", "+OK\r\n");
        client.check("SET k 1", "+QUEUED\r\n");
        let code =
            format!("#!lua NAME=l\nredis.register_function('f', function() return {round} end)");
        let queued = client.run_words(&["FUNCTION", "LOAD", "REPLACE", &code]);
        assert_eq!(queued.text(), "QUEUED");
        busy.send(harness::encode_command(&["EVAL", "for i = 1, 2e7 do end return 1", "0"]));
        let read = "return redis.call('EXISTS', KEYS[1])";
        waiting.send(harness::encode_command(&["EVAL", read, "1", "k"]));
        client.check("EXEC", "*2\r\n+OK\r\n$1\r\nl\r\n");
        busy.expect(":1\r\n");
        waiting.reply();
    }
    client.check("FCALL f 0", ":4\r\n");
    client.check("FUNCTION LIST LIBRARYNAME L*", client_list());
}

fn client_list() -> &'static str {
    "*1\r\n*6\r\n$12\r\nlibrary_name\r\n$1\r\nl\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n\
     *1\r\n*6\r\n$4\r\nname\r\n$1\r\nf\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n"
}

/// Calls of the functions of a library that stays must not start again.
#[test]
fn a_library_that_fails_to_load_leaves_the_old_one_as_it_was() {
    let counts = "#!lua name=one\nlocal n = 0\n\
                  redis.register_function('count', function() n = n + 1 return n end)";
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let load = |code: &str| words(&["FUNCTION", "LOAD", "REPLACE", code]);
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let mut run = |line: &[String]| client.run_words(line);
        let other = "#!lua name=two\nredis.register_function('x', function() return 1 end)";
        assert_eq!(run(&load(counts)).text(), "one");
        assert_eq!(run(&load(other)).text(), "two");
        let Reply::Bulk(dump) = run(&words(&["FUNCTION", "DUMP"])) else { panic!("no dump") };
        let call = words(&["FCALL", "count", "0"]);
        assert_eq!(run(&call).integer(), 1);
        for code in [
            "#!lua name=one\nredis.register_function('x', function() return 1 end)",
            "#!lua name=one\nerror('e')",
            "#!lua name=one\nnonsense",
            "#!lua name=one\n",
        ] {
            assert!(matches!(run(&load(code)), Reply::Error(_)), "{code}");
        }
        assert_eq!(run(&call).integer(), 2);
        assert!(matches!(run(&words(&["FUNCTION", "DELETE", "two"])), Reply::Simple(_)));
        let third = "#!lua name=three\nredis.register_function('x', function() return 1 end)";
        assert_eq!(run(&load(third)).text(), "three");
        // Of the libraries in the dump, `two` has a function of `three`.
        let restored = client.run_words(&[&b"FUNCTION"[..], b"RESTORE", &dump, b"REPLACE"]);
        assert!(matches!(restored, Reply::Error(_)), "{restored:?}");
        assert_eq!(client.run("FCALL count 0").integer(), 3);
    }
}

/// Libraries that are deleted, replaced or refused release their memory.
#[test]
fn libraries_may_come_and_go_for_ever() {
    let server = Server::nagi_with(&["--script-memory-limit", "16mb"]);
    let mut client = server.connect_resp();
    for number in 0..60 {
        // Takes more than a megabyte.
        let table = "local t = {} for j = 1, 30000 do t[j] = j .. 'x' end";
        let code = |name: &str, function: &str| {
            format!(
                "#!lua name={name}\n{table}\n\
                 redis.register_function('{function}', function() return #t end)"
            )
        };
        let load = |client: &mut Connection, code: &str| {
            client.run_words(&["FUNCTION", "LOAD", "REPLACE", code])
        };
        let (name, function) = (format!("lib{number}"), format!("f{number}"));
        let loaded = load(&mut client, &code(&name, &function));
        assert_eq!(loaded, Reply::Bulk(name.clone().into_bytes()), "{number}");
        let Reply::Error(refused) = load(&mut client, &code("other", &function)) else {
            panic!("two libraries have {function}");
        };
        assert!(refused.contains("already exists"), "{number}: {refused}");
        match number % 3 {
            0 => client.check("FUNCTION FLUSH", "+OK\r\n"),
            _ => client.check(&format!("FUNCTION DELETE {name}"), "+OK\r\n"),
        }
    }
}
