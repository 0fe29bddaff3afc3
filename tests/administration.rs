//! MEMORY, ACL, MODULE, ROLE, REPLICAOF, LOLWUT and DEBUG: what a server reports about itself in
//! addition to INFO, and what it refuses.

use std::process::Command;

use harness::{Reply, Server, as_redis, tool};

#[test]
fn there_is_one_user() {
    let out_of_range = "-ERR ACL GENPASS argument must be the number of bits for the output \
                        password, a positive number up to 4096\r\n";
    let no_file = "-ERR This Redis instance is not configured to use an ACL file. You may want to \
                   specify users via the ACL SETUSER command and then issue a CONFIG REWRITE \
                   (assuming you have a Redis configuration file set) in order to store users in \
                   the Redis configuration.\r\n";
    as_redis(&[
        ("ACL WHOAMI", "$7\r\ndefault\r\n"),
        ("ACL USERS", "*1\r\n$7\r\ndefault\r\n"),
        ("ACL GETUSER nobody", "$-1\r\n"),
        ("ACL CAT nosuch", "-ERR Unknown category 'nosuch'\r\n"),
        (
            "ACL CAT a b",
            "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.\r\n",
        ),
        ("ACL SETUSER default", "+OK\r\n"),
        ("ACL SETUSER default on ~* &* +@all nopass", "+OK\r\n"),
        ("ACL SETUSER default foo", "-ERR Error in ACL SETUSER modifier 'foo': Syntax error\r\n"),
        ("ACL DELUSER default", "-ERR The 'default' user cannot be removed\r\n"),
        ("ACL DELUSER nobody", ":0\r\n"),
        ("ACL GENPASS 0", out_of_range),
        ("ACL GENPASS 5000", out_of_range),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range\r\n"),
        ("ACL LOG", "*0\r\n"),
        ("ACL LOG RESET", "+OK\r\n"),
        ("ACL LOG -1", "*0\r\n"),
        ("ACL LOG x", "-ERR value is not an integer or out of range\r\n"),
        ("ACL LOAD", no_file),
        ("ACL SAVE", no_file),
        ("ACL DRYRUN default GET a", "+OK\r\n"),
        ("ACL DRYRUN default GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("ACL DRYRUN nobody GET a", "-ERR User 'nobody' not found\r\n"),
        ("ACL DRYRUN default NOSUCH a", "-ERR Command 'NOSUCH' not found\r\n"),
        ("ACL DRYRUN default CLIENT FOO", "-ERR Command 'CLIENT' not found\r\n"),
        ("ACL FOO", "-ERR unknown subcommand 'FOO'. Try ACL HELP.\r\n"),
        ("ACL", "-ERR wrong number of arguments for 'acl' command\r\n"),
        ("ACL SETUSER default >first", "+OK\r\n"),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        ("AUTH first", "+OK\r\n"),
        ("ACL SETUSER default <first >second", "+OK\r\n"),
        ("AUTH first", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        ("AUTH default second", "+OK\r\n"),
    ]);
}

#[test]
fn failed_logins_are_shown_alike() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET requirepass secret", "+OK\r\n");
        for request in ["AUTH wrong", "AUTH wrong", "AUTH nobody secret"] {
            assert!(matches!(client.run(request), Reply::Error(_)));
        }
        let log = client.run("ACL LOG");
        let entries: Vec<_> = log.list().iter().map(|entry| entry.list().to_vec()).collect();
        assert_eq!(entries.len(), 2, "{entries:?}");
        for (entry, count, user) in [(&entries[0], 1, "nobody"), (&entries[1], 2, "default")] {
            let field = |name: &str| {
                let place = entry.chunks(2).position(|pair| pair[0].text() == name);
                entry[place.expect("the field") * 2 + 1].clone()
            };
            assert_eq!((field("count").integer(), field("username").text()), (count, user.into()));
            assert_eq!(field("reason").text(), "auth");
            assert_eq!(field("context").text(), "toplevel");
            assert_eq!(field("object").text(), "AUTH");
            assert!(field("client-info").text().starts_with("id="));
        }
    }
}

#[test]
fn memory_is_accounted_for() {
    as_redis(&[
        ("SET key value", "+OK\r\n"),
        ("MEMORY USAGE none", "$-1\r\n"),
        ("MEMORY USAGE key SAMPLES", "-ERR syntax error\r\n"),
        ("MEMORY USAGE key SAMPLES -1", "-ERR syntax error\r\n"),
        ("MEMORY USAGE key SAMPLES x", "-ERR value is not an integer or out of range\r\n"),
        ("MEMORY USAGE key FOO 5", "-ERR syntax error\r\n"),
        ("MEMORY PURGE", "+OK\r\n"),
        ("MEMORY PURGE x", "-ERR wrong number of arguments for 'memory|purge' command\r\n"),
        ("MEMORY FOO", "-ERR unknown subcommand 'FOO'. Try MEMORY HELP.\r\n"),
        ("MEMORY", "-ERR wrong number of arguments for 'memory' command\r\n"),
    ]);
    let fields = |server: &Server| -> Vec<String> {
        let stats = server.connect_resp().run("MEMORY STATS");
        stats.list().chunks(2).map(|pair| pair[0].text()).collect()
    };
    let (nagi, redis) = (Server::nagi(), Server::redis());
    // nagi does not report the memory of a database's table separately, because the table shares
    // its pages with small entries.
    let of_redis: Vec<_> = fields(&redis).into_iter().filter(|it| !it.starts_with("db.")).collect();
    let mut of_nagi = fields(&nagi);
    // Redis has these since 7.2 or later.
    for newer in [
        "replica.fullsync.buffer",
        "script.VMs",
        "overhead.db.hashtable.rehashing",
        "db.dict.rehashing.count",
    ] {
        let place = of_nagi.iter().position(|name| name == newer).expect(newer);
        of_nagi.remove(place);
    }
    assert_eq!(of_nagi, of_redis);
    let mut client = nagi.connect_resp();
    let used = |client: &mut harness::Connection| client.run("MEMORY STATS").list()[3].integer();
    let before = used(&mut client);
    client.run_words(&[b"SET".as_slice(), b"big", &vec![b'x'; 20 << 20]]);
    let grown = used(&mut client) - before;
    assert!((19 << 20..30 << 20).contains(&grown), "{grown}");
    let usage = client.run("MEMORY USAGE big").integer();
    assert!((20 << 20..21 << 20).contains(&usage), "{usage}");
    let of = |client: &mut harness::Connection, name: &str| -> i64 {
        let stats = client.run("MEMORY STATS");
        let place = stats.list().iter().position(|it| *it == Reply::Bulk(name.into()));
        stats.list()[place.expect(name) + 1].integer()
    };
    assert_eq!(of(&mut client, "lua.caches"), 0);
    client.check("EVAL \"return 'a script'\" 0", "$8\r\na script\r\n");
    assert!(of(&mut client, "lua.caches") > 0 && of(&mut client, "script.VMs") > 0);
}

#[test]
fn there_are_no_replicas() {
    as_redis(&[
        ("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
        ("REPLICAOF NO ONE", "+OK\r\n"),
        ("SLAVEOF no one", "+OK\r\n"),
        ("REPLICAOF a", "-ERR wrong number of arguments for 'replicaof' command\r\n"),
        ("REPLICAOF a x", "-ERR Invalid master port\r\n"),
        ("REPLICAOF a 70000", "-ERR Invalid master port\r\n"),
        ("MODULE LIST", "*0\r\n"),
        ("MODULE LOAD", "-ERR wrong number of arguments for 'module|load' command\r\n"),
        ("MODULE FOO", "-ERR unknown subcommand 'FOO'. Try MODULE HELP.\r\n"),
        ("LOLWUT VERSION x", "-ERR value is not an integer or out of range\r\n"),
    ]);
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let error = "-ERR there is no replication here: nagi cannot become a replica\r\n";
    client.check("REPLICAOF localhost 6379", error);
    client.check("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
}

#[test]
fn data_has_the_digest_that_redis_gives_it() {
    let mut redis: Command = tool("redis-server");
    redis.args(["--enable-debug-command", "yes"]);
    let redis = Server::start_redis(redis).expect("starts");
    let mut digests = Vec::new();
    for server in [Server::nagi_with(&["--enable-debug-command", "yes"]), redis] {
        let mut client = server.connect_resp();
        client.check("DEBUG POPULATE 3000", "+OK\r\n");
        client.check("DEBUG POPULATE 100 p 50", "+OK\r\n");
        client.check("INCRBY key:1x 17", ":17\r\n");
        client.check("EXPIRE p:7 1000", ":1\r\n");
        client.check("SELECT 5", "+OK\r\n");
        client.check("SETRANGE long 300000 x", ":300001\r\n");
        client.check("DEBUG ERROR x", "-x\r\n");
        let values = client.run("DEBUG DIGEST-VALUE long none long");
        digests.push((client.run("DEBUG DIGEST"), values));
    }
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn each_family_has_a_help_text() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for request in ["ACL HELP", "MEMORY HELP", "MODULE HELP"] {
            let reply = client.run(request);
            let family = request.trim_end_matches(" HELP");
            let first = reply.list()[0].text();
            assert!(first.starts_with(&format!("{family} <subcommand> ")), "{first}");
        }
        let users = client.run("ACL LIST");
        assert!(users.list()[0].text().starts_with("user default on nopass "), "{users:?}");
        assert!(client.run("MEMORY DOCTOR").text().len() > 20);
        assert!(!client.run("MEMORY MALLOC-STATS").text().is_empty());
        client.check(
            "COMMAND GETKEYSANDFLAGS SET a b",
            "*1\r\n*2\r\n$1\r\na\r\n*2\r\n+OW\r\n+update\r\n",
        );
        for request in ["MODULE LOADEX nothing", "MODULE UNLOAD nothing"] {
            assert!(matches!(client.run(request), Reply::Error(_)), "{request}");
        }
    }
}

#[test]
fn the_length_of_a_value_in_a_file_is_reported() {
    let mut redis = harness::tool("redis-server");
    redis.args(["--enable-debug-command", "yes"]);
    let redis = Server::start_redis(redis).expect("it starts");
    let nagi = Server::nagi_with(&["--enable-debug-command", "yes"]);
    for (name, server) in [("nagi", nagi), ("redis-server", redis)] {
        eprintln!("asking {name}");
        let mut client = server.connect_resp();
        for (command, length) in [
            ("SET key hello", 6),
            ("SET key \"\"", 1),
            ("SET key 12345", 3),
            ("SET key -1", 2),
            ("SET key 100000", 5),
            ("SET key 10000000000", 12),
            ("SET key 1.5", 4),
            ("SET key abcdefghijklmnopqrstuvwxyz0123456789", 37),
            // The servers compress differently.
            ("CONFIG SET rdbcompression no", 37),
            ("SETRANGE key 9999 x", 10_002),
            ("SETRANGE key 99999 x", 100_005),
        ] {
            let _ = client.run(command);
            let Reply::Simple(told) = client.run("DEBUG OBJECT key") else { panic!("{command}") };
            let field = format!(" serializedlength:{length} ");
            assert!(told.contains(&field), "{command}: {told}, and not {field}");
        }
    }
}
