//! Settings from the command line and by CONFIG, and their effects.

use harness::{Reply, Server, encode_command, nagi_binary};
use std::process::Command;

#[test]
fn options_of_the_command_line_are_settings() {
    let server = Server::nagi_with(&["--databases", "3", "--maxclients", "77"]);
    let mut client = server.connect_resp();
    client.check("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$1\r\n3\r\n");
    client.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n");
    client.check("SELECT 2", "+OK\r\n");
    client.check("SELECT 3", "-ERR DB index is out of range\r\n");
}

#[test]
fn all_settings_are_changed_or_none() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET maxclients 500 timeout 60", "+OK\r\n");
        client.check(
            "CONFIG SET maxclients 600 databases 3",
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set \
             immutable config\r\n",
        );
        client.check(
            "CONFIG SET maxclients 600 timeout x",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't \
             be parsed into an integer\r\n",
        );
        client.check(
            "CONFIG SET maxclients 600 maxclients 700",
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - duplicate \
             parameter\r\n",
        );
        client.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$3\r\n500\r\n");
    }
}

#[test]
fn nonsense_changes_nothing() {
    let long = "1".repeat(40);
    let failed = |name: &str, fault: &str| {
        format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {fault}\r\n")
    };
    let title = "template format is invalid or contains unknown variables";
    let scores = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for (name, value, fault) in [
            (
                "notify-keyspace-events",
                "KQ",
                "Invalid event class character. Use \
                                              'Ag$lshzxeKEtmdn'.",
            ),
            ("oom-score-adj-values", "1", "wrong number of arguments"),
            ("oom-score-adj-values", "1 2 x", scores),
            ("oom-score-adj-values", "1 2 3000", scores),
            ("proc-title-template", "{foo}", title),
            ("proc-title-template", "", title),
            ("dbfilename", "other.rdb", "can't set protected config"),
            ("maxmemory", "1e3", "argument must be a memory value"),
            ("lazyfree-lazy-expire", "x", "argument must be 'yes' or 'no'"),
            ("appendfsync", "x", "argument(s) must be one of the following: everysec, always, no"),
            ("repl-timeout", &long, "argument couldn't be parsed into an integer"),
            (
                "repl-backlog-size",
                "0",
                "argument must be between 1 and 9223372036854775807 \
                                        inclusive",
            ),
        ] {
            let before = client.run(&format!("CONFIG GET {name}"));
            client.send(encode_command(&["CONFIG", "SET", name, value]));
            client.expect(failed(name, fault));
            assert_eq!(client.run(&format!("CONFIG GET {name}")), before, "{name} {value}");
        }
        for (given, shown) in [("EKA", "AKE"), ("tdx", "xtd"), ("", "")] {
            client.send(encode_command(&["CONFIG", "SET", "notify-keyspace-events", given]));
            client.expect("+OK\r\n");
            let name = "*2\r\n$22\r\nnotify-keyspace-events\r\n";
            let shown = format!("{name}${}\r\n{shown}\r\n", shown.len());
            client.check("CONFIG GET notify-keyspace-events", &shown);
        }
    }
}

#[test]
fn settings_take_effect() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
    client.send("*2\r\n$3\r\nGET\r\n$1048577\r\n");
    client.expect("-ERR Protocol error: invalid bulk length\r\n");
    let mut client = server.connect_resp();
    client.check("CONFIG SET memcached-item-limit 2000", "+OK\r\n");
    let block = "x".repeat(2001);
    server.connect_memcached().check_raw(
        format!("set k 0 0 2001\r\n{block}\r\n"),
        "SERVER_ERROR object too large for cache\r\n",
    );
    client.check("CONFIG SET maxclients 1", "+OK\r\n");
    let mut another = server.connect_resp();
    another.check("PING", "-ERR max number of clients reached\r\n");
    assert_eq!(another.rest(), b"");
}

#[test]
fn passwords_may_have_quotes_and_blanks() {
    let server = Server::nagi_with(&["--requirepass=a'b' \"c"]);
    let mut client = server.connect_resp();
    let reply = client.run_words(&["AUTH", "a'b' \"c"]);
    assert_eq!(reply, Reply::Simple("OK".to_owned()));
    let folder = crate::persistence::Folder::new("quoted-user");
    let file = folder.0.join("redis.conf");
    std::fs::write(&file, "user bob on \">p w\" ~* +@all\n").expect("writes");
    let mut command = Command::new(nagi_binary());
    command.arg("serve").arg(&file);
    let server = Server::start_nagi(command).expect("it starts");
    let reply = server.connect_resp().run_words(&["AUTH", "bob", "p w"]);
    assert_eq!(reply, Reply::Simple("OK".to_owned()));
}
