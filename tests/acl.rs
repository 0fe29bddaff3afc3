//! Users of access control lists: rules must permit the same as in redis-server, and a client of a
//! limited user must be refused the rest.
//!
//! Where the texts of Redis 8.0.6 and 7.0.15 differ, nagi uses those of 8.0.6. `NAGI_REDIS_8_PORT`
//! names the port of such a server: if it is set, random rules and their descriptions are compared
//! in full.

use harness::{Connection, Random, Reply, Server, encode_command, tool, until, words};

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";
const NO_CHANNEL: &str = "-NOPERM No permissions to access a channel\r\n";

/// Returns the text of redis-server 7.0.15 that corresponds to a text of 8.0.6.
fn as_older(reply: &str) -> String {
    const OLDER: &str = "-NOPERM this user has no permissions to";
    let mut older = reply.to_owned();
    for (text, object) in [(NO_KEY, "keys"), (NO_CHANNEL, "channels")] {
        let arguments = format!("{OLDER} access one of the {object} used as arguments\r\n");
        older = older.replace(text, &arguments);
    }
    for user in ["ann", "default"] {
        let text = format!("-NOPERM User {user} has no permissions to run");
        older = older.replace(&text, &format!("{OLDER} run"));
    }
    older
}

/// Checks a reply of nagi, or of redis-server 7.0.15 with the corresponding text.
fn check(server: &Server, client: &mut Connection, request: &str, reply: &str) {
    let is_redis = server.log().contains("Redis version=");
    client.check(request, if is_redis { as_older(reply) } else { reply.to_owned() });
}

/// Checks the replies of both servers.
fn as_redis(conversation: &[(&str, &str)]) {
    for server in both() {
        let mut client = server.connect_resp();
        for (request, reply) in conversation {
            check(&server, &mut client, request, reply);
        }
    }
}

#[test]
fn a_limited_user_cannot_do_what_its_rules_do_not_permit() {
    as_redis(&[
        ("SET secret 1", "+OK\r\n"),
        (
            "ACL SETUSER ann on >pw ~a:* %R~r:* %W~w:* &news +@all -config +config|get -flushall",
            "+OK\r\n",
        ),
        ("AUTH ann wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        ("AUTH ann pw", "+OK\r\n"),
        ("ACL WHOAMI", "$3\r\nann\r\n"),
        ("GET a:1", "$-1\r\n"),
        ("GET secret", NO_KEY),
        ("MGET a:1 secret", NO_KEY),
        ("GET r:1", "$-1\r\n"),
        ("SET r:1 x", NO_KEY),
        ("SET w:1 x", "+OK\r\n"),
        ("GET w:1", NO_KEY),
        ("SET w:1 x GET", NO_KEY),
        ("COPY r:1 w:2", ":0\r\n"),
        ("COPY w:1 r:1", NO_KEY),
        ("EXISTS w:1", ":1\r\n"),
        ("FLUSHALL", "-NOPERM User ann has no permissions to run the 'flushall' command\r\n"),
        (
            "CONFIG SET timeout 1",
            "-NOPERM User ann has no permissions to run the 'config|set' command\r\n",
        ),
        ("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"),
        ("PUBLISH news x", ":0\r\n"),
        ("PUBLISH other x", NO_CHANNEL),
        ("PSUBSCRIBE new*", NO_CHANNEL),
        ("RPUSH a:list 1", ":1\r\n"),
        (
            "SORT a:list BY w:*",
            "-ERR BY option of SORT denied due to insufficient ACL permissions.\r\n",
        ),
        (
            "SORT a:list GET r:*",
            "-ERR GET option of SORT denied due to insufficient ACL permissions.\r\n",
        ),
        ("SORT a:list BY nosort", "*1\r\n$1\r\n1\r\n"),
        ("MULTI", "+OK\r\n"),
        ("GET secret", NO_KEY),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("RESET", "+RESET\r\n"),
        ("ACL WHOAMI", "$7\r\ndefault\r\n"),
        ("GET secret", "$1\r\n1\r\n"),
        ("ACL DELUSER ann nobody", ":1\r\n"),
        ("AUTH ann pw", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
    ]);
}

#[test]
fn selectors_permit_more_on_their_own() {
    as_redis(&[
        ("ACL SETUSER ann on nopass ~a:* +get (+set ~s:*) (+@list %R~l:*)", "+OK\r\n"),
        ("AUTH ann any", "+OK\r\n"),
        ("SET s:1 x", "+OK\r\n"),
        ("SET a:1 x", NO_KEY),
        ("GET s:1", NO_KEY),
        ("LRANGE l:1 0 -1", "*0\r\n"),
        ("LPUSH l:1 x", NO_KEY),
        ("HGET a:1 x", "-NOPERM User ann has no permissions to run the 'hget' command\r\n"),
    ]);
}

/// Rules for commands that nagi does not have must be kept, too.
#[test]
fn rules_for_replicas_are_kept() {
    for server in both() {
        let mut client = server.connect_resp();
        client.check("ACL SETUSER replica on >pw +psync +REPLCONF -sync +ping", "+OK\r\n");
        let users = client.run("ACL LIST");
        let lines: Vec<String> = users.list().iter().map(Reply::text).collect();
        let line = lines.iter().find(|line| line.starts_with("user replica")).expect("it is there");
        for rule in [" -@all ", " +psync", " +replconf", " +ping"] {
            assert!(line.contains(rule), "{line}");
        }
        client.check(
            "ACL SETUSER replica +psyncs",
            "-ERR Error in ACL SETUSER modifier '+psyncs': Unknown command or category name in \
             ACL\r\n",
        );
    }
}

/// Connects a client of a user with `rules`, and a client of an administrator.
fn connected(server: &Server, rules: &str) -> (Connection, Connection) {
    let mut admin = server.connect_resp();
    admin.check(&format!("ACL SETUSER ann on >pw {rules}"), "+OK\r\n");
    let mut ann = server.connect_resp();
    ann.check("AUTH ann pw", "+OK\r\n");
    (ann, admin)
}

fn both() -> [Server; 2] {
    [Server::nagi(), Server::redis()]
}

#[test]
fn a_change_holds_for_clients_that_are_connected() {
    for server in both() {
        let (mut ann, mut admin) = connected(&server, "~* +get +set +multi +exec");
        ann.check("MULTI", "+OK\r\n");
        for request in ["SET a 1", "GET a", "SET b 1"] {
            ann.check(request, "+QUEUED\r\n");
        }
        admin.check("ACL SETUSER ann resetkeys ~a -set", "+OK\r\n");
        let denied = "-NOPERM ACLs rules changed between the moment the transaction was \
                      accumulated and the EXEC call. This command is no longer allowed for the \
                      following reason: no permission to execute the command or subcommand\r\n";
        ann.check("EXEC", format!("*3\r\n{denied}$-1\r\n{denied}"));
        check(&server, &mut ann, "GET b", NO_KEY);
        admin.check("ACL SETUSER ann off", "+OK\r\n");
        ann.check("GET a", "$-1\r\n");
        admin.check("ACL DELUSER ann", ":1\r\n");
        assert_eq!(ann.rest(), b"");
    }
}

#[test]
fn subscribers_are_closed_when_their_channel_is_taken_away() {
    for server in both() {
        let (mut ann, mut admin) = connected(&server, "&news &old +subscribe");
        ann.check("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        admin.check("ACL SETUSER ann resetchannels &news", "+OK\r\n");
        admin.check("PUBLISH news x", ":1\r\n");
        ann.expect("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
        admin.check("ACL SETUSER ann resetchannels &old", "+OK\r\n");
        assert_eq!(ann.rest(), b"");
    }
}

#[test]
fn refusals_are_logged() {
    for server in both() {
        let (mut ann, mut admin) = connected(&server, "~a &b +get +publish +multi +exec");
        check(&server, &mut ann, "GET x", NO_KEY);
        check(&server, &mut ann, "GET x", NO_KEY);
        check(&server, &mut ann, "PUBLISH x y", NO_CHANNEL);
        check(
            &server,
            &mut ann,
            "PING",
            "-NOPERM User ann has no permissions to run the 'ping' command\r\n",
        );
        let log = admin.run("ACL LOG");
        let entries: Vec<_> = log.list().iter().map(|entry| entry.list().to_vec()).collect();
        let field = |at: usize, index: usize| entries[at][index].text();
        let expected =
            [("command", "ping", "ping"), ("channel", "x", "publish"), ("key", "x", "get")];
        assert_eq!(entries.len(), 3, "{log:?}");
        for (at, (reason, object, command)) in expected.into_iter().enumerate() {
            let found = [3, 5, 7, 9].map(|index| field(at, index));
            assert_eq!(found, [reason, "toplevel", object, "ann"]);
            let client = field(at, 13);
            assert!(client.contains(&format!(" cmd={command} ")), "{client}");
        }
        assert_eq!(entries[2][1].integer(), 2);
        let info = admin.run("INFO stats").text();
        let is_told = info.contains("acl_access_denied_");
        assert!(is_told || server.log().contains("Redis version=7.0"), "{info}");
        for count in ["auth:0", "cmd:1", "key:2", "channel:1"] {
            let line = format!("acl_access_denied_{count}\r\n");
            assert!(!is_told || info.contains(&line), "{info}");
        }
    }
}

#[test]
fn refusals_within_scripts_and_transactions_say_so() {
    for server in both() {
        let rules = "~a +get +eval +multi +exec +client|setname";
        let (mut ann, mut admin) = connected(&server, rules);
        ann.check("CLIENT SETNAME caller", "+OK\r\n");
        let refused = ann.run_words(&["EVAL", "return redis.call('GET', 'x')", "0"]);
        let told = format!("{refused:?}");
        let is_redis_7 = server.log().contains("Redis version=");
        assert!(is_redis_7 || told.contains("ERR ACL failure in script: No perm"), "{told}");
        ann.run("MULTI");
        ann.run("GET x");
        let log = admin.run("ACL LOG");
        let contexts: Vec<String> = log.list().iter().map(|entry| entry.list()[5].text()).collect();
        assert_eq!(contexts, ["multi", "lua"], "{log:?}");
        // Also that of the script shows the client that has sent the request.
        for entry in log.list() {
            let client = entry.list()[13].text();
            for field in [" addr=127.0.0.1:", " name=caller ", " user=ann "] {
                assert!(client.contains(field), "{client}");
            }
        }
    }
}

#[test]
fn users_come_from_a_file_and_go_into_it() {
    let folder = std::env::temp_dir().join(format!("nagi-acl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["nagi", "redis-server"] {
        let path = folder.join(format!("{name}.acl"));
        std::fs::write(&path, "user ann on >pw ~a +get\n\n").unwrap();
        let file = path.to_str().unwrap();
        let server = match name {
            "nagi" => Server::nagi_with(&["--aclfile", file]),
            _ => {
                let mut redis = tool("redis-server");
                redis.args(["--aclfile", file]);
                Server::start_redis(redis).unwrap_or_else(|problem| panic!("{problem}"))
            }
        };
        let (mut ann, mut admin) = (server.connect_resp(), server.connect_resp());
        ann.check("AUTH ann pw", "+OK\r\n");
        check(&server, &mut ann, "GET b", NO_KEY);
        admin.check("ACL SETUSER bob on nopass +@read %R~x", "+OK\r\n");
        admin.check("ACL SAVE", "+OK\r\n");
        let written = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines.len(), 3, "{written}");
        let bob = lines.iter().find(|line| line.starts_with("user bob on "));
        let rules = " %R~x resetchannels -@all +@read";
        assert!(bob.is_some_and(|line| line.ends_with(rules)), "{written}");
        let changed = written.replace("%R~x", "%R~y").replace("user ann", "user eve");
        std::fs::write(&path, changed + "user wrong +nope\n").unwrap();
        let refused = admin.run("ACL LOAD");
        assert!(format!("{refused:?}").contains(&format!("{file}:4")), "{refused:?}");
        admin.check("ACL USERS", "*3\r\n$3\r\nann\r\n$3\r\nbob\r\n$7\r\ndefault\r\n");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replace("user wrong +nope\n", "")).unwrap();
        admin.check("ACL LOAD", "+OK\r\n");
        admin.check("ACL USERS", "*3\r\n$3\r\nbob\r\n$7\r\ndefault\r\n$3\r\neve\r\n");
        assert_eq!(ann.rest(), b"", "ann is gone");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Saves of several workers at the same time.
#[test]
fn files_of_users_and_settings_are_whole_while_they_are_replaced() {
    let folder = harness::Folder::new("acl-saves");
    let users = folder.write("users.acl", "user default on nopass ~* &* +@all\n");
    let settings = format!("aclfile {}\nworkers 4\n", users.display());
    let settings = folder.write("nagi.conf", &settings);
    let server = Server::nagi_with(&[&settings.display().to_string()]);
    let mut admin = server.connect_resp();
    for user in 0..300 {
        admin.run(&format!("ACL SETUSER user{user} on nopass ~* +@all"));
    }
    admin.check("ACL SAVE", "+OK\r\n");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect_resp();
                for _ in 0..20 {
                    client.check("ACL SAVE", "+OK\r\n");
                    client.check("CONFIG REWRITE", "+OK\r\n");
                    client.check("ACL LOAD", "+OK\r\n");
                    assert_eq!(client.run("ACL USERS").list().len(), 301);
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(users).unwrap().lines().count(), 301);
    assert!(std::fs::read_to_string(settings).unwrap().contains("workers 4"));
}

#[test]
fn users_come_from_the_configuration_and_go_into_it() {
    let path = std::env::temp_dir().join(format!("nagi-acl-{}.conf", std::process::id()));
    std::fs::write(&path, "user ann on >pw ~a +get\ntimeout 0\n").unwrap();
    let file = path.to_str().unwrap();
    let line = |name: &str| {
        let server = Server::nagi_with(&[file]);
        let mut admin = server.connect_resp();
        let users = admin.run("ACL LIST");
        let prefix = format!("user {name} ");
        let lines = users.list().iter().map(harness::Reply::text);
        (lines.filter(|line| line.starts_with(&prefix)).collect::<Vec<_>>(), admin, server)
    };
    let (lines, mut admin, _server) = line("ann");
    assert!(lines.concat().ends_with(" ~a resetchannels -@all +get"), "{lines:?}");
    admin.run_words(&["ACL", "SETUSER", "bob", "on", "nopass", "~a\"b", "(+get ~x)"]);
    admin.check("ACL SETUSER ann +set", "+OK\r\n");
    admin.check("CONFIG REWRITE", "+OK\r\n");
    let (lines, ..) = line("bob");
    let expected = "user bob on nopass sanitize-payload ~a\"b resetchannels -@all (~x \
                    resetchannels -@all +get)";
    assert_eq!(lines, [expected]);
    let (lines, ..) = line("ann");
    assert!(lines.concat().ends_with(" -@all +get +set"), "{lines:?}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_rewritten_file_keeps_the_passwords_of_the_default_user() {
    for (number, (text, changes)) in [
        ("user default on >right ~* &* +@all\n", &["CONFIG SET timeout 5"][..]),
        ("", &["ACL SETUSER default resetpass >right"]),
        ("requirepass old\n", &["ACL SETUSER default resetpass >right"]),
        ("requirepass old\n", &["ACL SETUSER default >right", "ACL SETUSER default <old"]),
        ("user default on >old ~* &* +@all\n", &["CONFIG SET requirepass right"]),
        ("requirepass old\nuser default on >right ~* &* +@all\n", &["CONFIG SET timeout 5"]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("nagi-acl-default-{}-{number}.conf", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let before = Server::nagi_with(&[file]);
        let mut admin = before.connect_resp();
        for password in ["old", "right"] {
            admin.run(&format!("AUTH {password}"));
        }
        changes.iter().for_each(|change| admin.check(change, "+OK\r\n"));
        admin.check("CONFIG REWRITE", "+OK\r\n");
        let after = Server::nagi_with(&[file]);
        let mut client = after.connect_resp();
        client.check("PING", "-NOAUTH Authentication required.\r\n");
        let refused = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        client.check("AUTH old", refused);
        client.check("AUTH right", "+OK\r\n");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn verbs_of_memcached_obey_the_rules_of_their_user() {
    let server = Server::nagi();
    let mut admin = server.connect_resp();
    admin.check("SET secret 1", "+OK\r\n");
    admin.check("ACL SETUSER ann on >pw ~a* %R~r* +get +set +getex", "+OK\r\n");
    admin.check("ACL SETUSER default off", "+OK\r\n");
    let mut client = server.connect_memcached();
    let denied = "CLIENT_ERROR permission denied\r\n";
    for (request, reply) in [
        ("get a1\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        ("set x 0 0 6\r\nann pw\r\n", "STORED\r\n"),
        ("set a1 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get a1\r\n", "VALUE a1 0 1\r\nx\r\nEND\r\n"),
        ("get a1 secret\r\n", denied),
        ("mg secret v\r\n", denied),
        ("mg c2VjcmV0 b v\r\n", denied),
        ("set r1 0 0 1\r\nx\r\n", denied),
        ("get r1\r\n", "END\r\n"),
        ("delete a1\r\n", denied),
        ("incr a1 1\r\n", denied),
        ("flush_all\r\n", denied),
        ("stats\r\n", denied),
        ("mn\r\n", "MN\r\n"),
    ] {
        client.check_raw(request, reply);
    }
}

#[test]
fn the_default_user_may_be_limited_and_switched_off() {
    for server in both() {
        let mut first = server.connect_resp();
        let mut admin = server.connect_resp();
        admin.check("ACL SETUSER root on >pw allkeys allchannels allcommands", "+OK\r\n");
        admin.check("AUTH root pw", "+OK\r\n");
        admin.check("ACL SETUSER default -set resetkeys ~a", "+OK\r\n");
        check(&server, &mut first, "GET b", NO_KEY);
        check(
            &server,
            &mut first,
            "SET a 1",
            "-NOPERM User default has no permissions to run the 'set' command\r\n",
        );
        admin.check("ACL SETUSER default off", "+OK\r\n");
        let mut late = server.connect_resp();
        late.check("GET a", "-NOAUTH Authentication required.\r\n");
        late.check("AUTH root pw", "+OK\r\n");
        late.check("GET b", "$-1\r\n");
    }
}

/// Returns a random rule, which may be correct, wrong or unusual.
fn rule(random: &mut Random) -> String {
    let command = |random: &mut Random| {
        random
            .choose(&[
                "get",
                "set",
                "mget",
                "del",
                "config",
                "config|get",
                "client|list",
                "select",
                "publish",
                "hset",
                "acl|whoami",
                "sort",
                "rename",
                "ping",
                "nope",
                "GeT",
            ])
            .to_owned()
    };
    match random.below(12) {
        0..=2 => format!("+{}", command(random)),
        3 => format!("-{}", command(random)),
        4 => format!("+@{}", random.choose(&["all", "read", "write", "string", "nope"])),
        5 => format!("-@{}", random.choose(&["all", "read", "admin", "dangerous", "hash"])),
        6 => {
            random.choose(&["+select|0", "+config|get|x", "+set|", "-set|x", "+", "+|"]).to_owned()
        }
        7 | 8 => random.choose(&["~k*", "%R~r*", "%W~w*", "%RW~b", "~*", "%~x", "%R"]).to_owned(),
        9 => random.choose(&["&c*", "&*", "allchannels", "resetchannels", "&"]).to_owned(),
        10 => random
            .choose(&["on", "off", "resetkeys", "reset", "nopass", ">p", "<p", "<q", "!x", "bogus"])
            .to_owned(),
        _ => random
            .choose(&["(+get ~x)", "(+set", "%R~k)", "()", "(on)", "clearselectors"])
            .to_owned(),
    }
}

#[test]
fn random_rules_are_judged_as_redis_does() {
    const PROBES: &[&str] = &[
        "GET k1",
        "SET k1 v",
        "MGET k1 r1",
        "DEL w1",
        "SET w1 v",
        "GET w1",
        "CONFIG GET x",
        "CLIENT LIST",
        "SELECT 0",
        "SELECT 1",
        "PUBLISH c1 x",
        "SUBSCRIBE c1 d",
        "PSUBSCRIBE c*",
        "RENAME k1 r1",
        "SORT k1",
        "HSET b x y",
        "PING",
        "AUTH a b",
        "NOPE",
        "GET",
        "EXISTS w1",
    ];
    let mut random = Random::announced();
    let newer = std::env::var("NAGI_REDIS_8_PORT").ok();
    let [nagi, redis] = both();
    let mut nagi = nagi.connect_resp();
    let mut redis = match &newer {
        None => redis.connect_resp(),
        Some(port) => {
            let port: u16 = port.parse().expect("NAGI_REDIS_8_PORT is a port");
            Connection::open((std::net::Ipv4Addr::LOCALHOST, port).into())
        }
    };
    let mut same = |words: &[&str]| {
        let replies = [nagi.run_words(words), redis.run_words(words)];
        let told = format!("{words:?}: {replies:?}");
        match newer {
            Some(_) => assert!(replies[0] == replies[1], "{told}"),
            // The texts and the order of flags differ, but the permissions are the same.
            None => {
                let [ours, theirs] = replies.map(|reply| reply == Reply::Simple("OK".to_owned()));
                assert!(ours == theirs, "{told}");
            }
        }
    };
    let rounds =
        std::env::var("NAGI_DIFFERENTIAL_COUNT").map_or(300, |it| it.parse().expect("a number"));
    for _ in 0..rounds {
        let rules: Vec<String> = (0..=random.below(3)).map(|_| rule(&mut random)).collect();
        let mut setuser = vec!["ACL", "SETUSER", "ann"];
        setuser.extend(rules.iter().map(String::as_str));
        same(&setuser);
        same(&["ACL", "LIST"]);
        for _ in 0..4 {
            let probe = words(random.choose(PROBES));
            same(&[&["ACL", "DRYRUN", "ann"], &probe[..]].concat());
        }
    }
    same(&["ACL", "DELUSER", "ann"]);
}

#[test]
fn wrong_users_stop_the_start() {
    for (arguments, fault) in [
        (vec!["--user", "ann on +nope"], "Unknown command or category name in ACL"),
        (vec!["--user", "ann on", "--user", "ann off"], "Duplicate user 'ann' found"),
        (vec!["--aclfile", "/nonexistent/users"], "/nonexistent/users"),
        (vec!["--aclfile", "/nonexistent/users", "--user", "ann on"], "not in both"),
    ] {
        let mut command = std::process::Command::new(harness::nagi_binary());
        command.args(["--port", "any"]).args(&arguments);
        let output = command.output().expect("nagi runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(fault), "{arguments:?}: {told}");
    }
}

#[test]
fn clients_of_a_user_are_listed_and_killed() {
    for server in both() {
        let (mut ann, mut admin) = connected(&server, "+ping");
        let listed = admin.run("CLIENT LIST").text();
        assert!(listed.contains(" user=ann "), "{listed}");
        admin.check("CLIENT KILL USER nobody", "-ERR No such user 'nobody'\r\n");
        admin.check("CLIENT KILL USER ann", ":1\r\n");
        assert_eq!(ann.rest(), b"");
        until("ann is gone", || {
            (!admin.run("CLIENT LIST").text().contains(" user=ann ")).then_some(())
        })
        .unwrap();
    }
}

/// The behaviour is that of Redis 8.0.6; 7.0.15 still serves elements that the user may no longer
/// access.
/// A word that equals STREAMS may be the name of a group or of a consumer.
#[test]
fn keys_of_streams_are_checked_whatever_the_names_in_the_request() {
    let server = Server::nagi();
    let (mut client, mut admin) = connected(&server, "~app:* +xreadgroup +xread");
    admin.check("XGROUP CREATE secret g 0 MKSTREAM", "+OK\r\n");
    admin.check("XGROUP CREATE secret STREAMS 0", "+OK\r\n");
    admin.check("XADD secret 1-1 password hunter2", "$3\r\n1-1\r\n");
    for request in [
        "XREADGROUP NOACK GROUP g streams STREAMS secret >",
        "XREADGROUP COUNT 1 GROUP STREAMS c STREAMS secret >",
        "XREADGROUP GROUP STREAMS STREAMS NOACK STREAMS secret >",
        "XREAD COUNT 1 STREAMS secret 0",
    ] {
        client.check(request, NO_KEY);
    }
}

/// Names of users may have any bytes, or none.
#[test]
fn clients_of_users_with_any_name_are_killed() {
    let server = Server::nagi();
    let mut admin = server.connect_resp();
    for name in [&b"\xffu"[..], b""] {
        let set_user = |rule: &'static [u8]| [&b"ACL"[..], b"SETUSER", name, rule];
        for rule in [&b"on"[..], b"nopass", b"+@all", b"~*", b"&*"] {
            admin.run_words(&set_user(rule));
        }
        let connect = || {
            let mut client = server.connect_resp();
            client.run_words(&[&b"AUTH"[..], name, b"x"]);
            client
        };
        let (mut killed, mut listening, mut removed) = (connect(), connect(), connect());
        assert_eq!(killed.run("ACL WHOAMI"), Reply::Bulk(name.to_vec()));
        listening.run("SUBSCRIBE channel");
        admin.run_words(&set_user(b"resetchannels"));
        assert_eq!(listening.rest(), b"");
        let kill = [&b"CLIENT"[..], b"KILL", b"USER", name];
        assert_eq!(admin.run_words(&kill), Reply::Integer(2));
        assert_eq!((killed.rest(), removed.rest()), Default::default());
        removed = connect();
        admin.run_words(&[&b"ACL"[..], b"DELUSER", name]);
        assert_eq!(removed.rest(), b"");
    }
}

/// A password of many megabytes takes long to check.
#[test]
fn a_user_that_is_removed_during_its_login_is_not_logged_in() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut admin = server.connect_resp();
    let password = "x".repeat(20_000_000);
    for round in 0..20 {
        admin.check("ACL SETUSER u on nopass ~* &* +@all", "+OK\r\n");
        let mut client = server.connect_resp();
        client.send(encode_command(&["AUTH", "u", &password]));
        // A different time passes in each round.
        (0..20 * round).for_each(|_| admin.check("PING", "+PONG\r\n"));
        admin.check("ACL DELUSER u", ":1\r\n");
        // Its connection may have been closed before it asks.
        let _ = client.try_send("ACL WHOAMI\r\nQUIT\r\n");
        let replies = client.rest();
        assert!(!replies.ends_with(b"$1\r\nu\r\n+OK\r\n"), "{}", replies.escape_ascii());
    }
}

/// The removed user is the last one with restrictions.
#[test]
fn a_removed_user_may_do_nothing_until_it_is_disconnected() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut admin = server.connect_resp();
    for _ in 0..50 {
        admin.check("ACL SETUSER u reset on nopass ~a -@all +get", "+OK\r\n");
        let mut client = server.connect_resp();
        client.check("AUTH u pw", "+OK\r\n");
        // The server may close the connection before it has received everything.
        let _ = client.try_send(encode_command(&["INCR", "secret"]).repeat(5000));
        admin.check("ACL DELUSER u", ":1\r\n");
        client.rest();
        admin.check("EXISTS secret", ":0\r\n");
    }
}

#[test]
fn a_subscription_does_not_outlive_its_permission() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut admin = server.connect_resp();
    for _ in 0..300 {
        admin.check("ACL SETUSER s reset on nopass allchannels +subscribe", "+OK\r\n");
        let mut client = server.connect_resp();
        client.check("AUTH s pw", "+OK\r\n");
        client.send("SUBSCRIBE c0 c1 c2 c3 c4 c5 c6 c7\r\n");
        admin.check("ACL SETUSER s resetchannels", "+OK\r\n");
        let is_over =
            || (admin.run("PUBSUB NUMSUB c7").list()[1] == Reply::Integer(0)).then_some(());
        until("the subscription to end", is_over).unwrap();
    }
}

#[test]
fn objects_of_the_log_are_told_apart_by_their_bytes() {
    for server in both() {
        let (mut client, mut admin) = connected(&server, "+get ~x");
        admin.run("ACL LOG RESET");
        for key in [&b"Key"[..], b"key", b"\xff", b"\xfe"] {
            client.run_words(&[b"GET", key]);
        }
        let log = admin.run("ACL LOG");
        let object = |entry: &Reply| entry.list()[7].clone();
        let objects: Vec<Reply> = log.list().iter().map(object).collect();
        let expected = [&b"\xfe"[..], b"\xff", b"key", b"Key"];
        assert_eq!(objects, expected.map(|object| Reply::Bulk(object.to_vec())));
    }
}

#[test]
fn blocked_clients_receive_nothing_that_their_user_may_no_longer_read() {
    let no_command =
        |name: &str| format!("-NOPERM User ann has no permissions to run the '{name}' command\r\n");
    for (blocked, change, push, told, left) in [
        ("BLPOP l 0", "resetkeys", "RPUSH l x", NO_KEY.to_owned(), "LLEN l"),
        ("BZPOPMIN z 0", "resetkeys", "ZADD z 1 x", NO_KEY.to_owned(), "ZCARD z"),
        ("BLMOVE l k LEFT RIGHT 0", "resetkeys ~l", "RPUSH l x", NO_KEY.to_owned(), "LLEN l"),
        ("XREAD BLOCK 0 STREAMS s $", "resetkeys %W~s", "XADD s 1-1 f v", NO_KEY.to_owned(), ""),
        ("BLMPOP 0 1 l LEFT", "-blmpop", "RPUSH l x", no_command("blmpop"), "LLEN l"),
        ("BRPOP l 0", "off -@all", "RPUSH l x", no_command("brpop"), "LLEN l"),
    ] {
        let server = Server::nagi();
        let (mut ann, mut admin) = connected(&server, "+@all ~*");
        ann.send(format!("{blocked}\r\n"));
        until("ann is blocked", || {
            admin.run("INFO clients").text().contains("blocked_clients:1\r\n").then_some(())
        })
        .unwrap();
        admin.check(&format!("ACL SETUSER ann {change}"), "+OK\r\n");
        admin.run(push);
        ann.expect(&told);
        if !left.is_empty() {
            admin.check(left, ":1\r\n");
        }
        let log = admin.run("ACL LOG");
        assert_eq!(log.list()[0].list()[5].text(), "toplevel", "{blocked}: {log:?}");
        admin.check("ACL SETUSER ann on +@all ~*", "+OK\r\n");
        ann.check("PING", "+PONG\r\n");
    }
}

/// A verb needs one selector that permits both the command and the keys, as Redis' commands do.
#[test]
fn verbs_of_memcached_obey_the_rules() {
    const DENIED: &str = "CLIENT_ERROR permission denied\r\n";
    let server = Server::nagi_with(&["--requirepass", "sesame"]);
    let mut admin = server.connect_resp();
    admin.check("AUTH sesame", "+OK\r\n");
    for (user, rules) in [
        ("ann", "~a:* +get (+set ~s:*)"),
        ("bob", "%R~* +getex +get +info"),
        ("eve", "~a* +get +set"),
    ] {
        admin.check(&format!("ACL SETUSER {user} on >pw {rules}"), "+OK\r\n");
    }
    let log_in = |user: &str| {
        let mut client = server.connect_memcached();
        client.check_raw(format!("set x 0 0 {}\r\n{user} pw\r\n", user.len() + 3), "STORED\r\n");
        client
    };
    admin.check("MSET s:1 1 a:1 1 secret 1", "+OK\r\n");
    let mut ann = log_in("ann");
    ann.check_raw("get s:1\r\n", DENIED);
    ann.check_raw("get a:1\r\n", "VALUE a:1 0 1\r\n1\r\nEND\r\n");
    ann.check_raw("set s:2 0 0 1\r\nx\r\n", "STORED\r\n");
    ann.check_raw("set a:2 0 0 1\r\nx\r\n", DENIED);
    let mut bob = log_in("bob");
    bob.check_raw("mg a:1 v\r\n", "VA 1\r\n1\r\n");
    for request in [
        "gat -1 a:1",
        "gats -1 a:1",
        "mg a:1 T-1",
        "mg new N0",
        "stats cachedump 1 0",
        "stats reset",
    ] {
        bob.check_raw(format!("{request}\r\n"), DENIED);
    }
    let mut eve = log_in("eve");
    eve.check_raw("set secret 0 0 1048577\r\n", "SERVER_ERROR object too large for cache\r\n");
    let mut eve = log_in("eve");
    // A value that looks like the flag `b` does not make its key one in base64.
    eve.check_raw("ms aaaa 3\r\nbad\r\n", "HD\r\n");
    eve.check_raw("ms YTox 3\r\nbad\r\n", DENIED);
    eve.check_raw("ms YTox 1 b\r\n1\r\n", "HD\r\n");
    admin.check("EXISTS a:1 new secret YTox", ":2\r\n");
}
