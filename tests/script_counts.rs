//! The effects of scripts and of the commands that they call on statistics, the slow log and the
//! clock, and which of them a pause delays. They must be the same as in redis-server.

use harness::{Connection, Reply, Server, encode_command, until};

/// Returns the lines of a section of INFO, without measured times.
fn counts(client: &mut Connection, section: &str) -> Vec<String> {
    let text = client.run(&format!("INFO {section}")).text();
    let lines = text.lines().filter(|line| line.contains(':'));
    let counted = |line: &str| {
        let is_counted = |field: &&str| !field.starts_with("usec");
        line.split(',').filter(is_counted).collect::<Vec<_>>().join(",")
    };
    let mut lines: Vec<String> = lines.map(counted).collect();
    // The requests that read and reset the statistics are omitted.
    let is_meant = |line: &String| !line.contains("stat_info") && !line.contains("|resetstat");
    lines.retain(is_meant);
    lines.sort();
    lines
}

fn check_words(client: &mut Connection, words: &[&str], reply: &str) {
    client.send(encode_command(words));
    client.expect(reply);
}

#[test]
fn calls_and_errors_are_counted_as_by_redis() {
    let [mut nagi, mut redis] = [Server::nagi(), Server::redis()].map(|server| {
        let client = server.connect_resp();
        (server, client)
    });
    for requests in [
        ["EVAL \"return redis.call('SET', 'k', 'v')\" 0"].as_slice(),
        &["EVAL \"return redis.call('INCR', 'k')\" 0"],
        &["EVAL \"return redis.pcall('INCR', 'k')\" 0"],
        &["EVAL \"redis.pcall('INCR', 'k') return 1\" 0"],
        &["EVAL \"return redis.pcall('INCR')\" 0"],
        &["EVAL \"return redis.call('NOSUCH')\" 0"],
        &["EVAL \"return redis.call('SUBSCRIBE', 'c')\" 0"],
        &["EVAL_RO \"return redis.call('SET', 'k', 'v')\" 0"],
        &["EVAL_RO \"return redis.pcall('PUBLISH', 'c', 'm')\" 0"],
        &["EVAL \"return redis.error_reply('MINE it is')\" 0"],
        &["EVAL \"return {1, redis.error_reply('MINE it is')}\" 0"],
        &["EVAL \"return {err='OTHER it is'}\" 0"],
        &["EVAL \"error('x')\" 0"],
        &["EVAL \"return redis.call()\" 0"],
        &["EVAL \"retur\" 0"],
        &["EVAL \"return 1\" x"],
        &["EVAL"],
        &["EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"],
        &["FCALL none 0"],
        &["FUNCTION LOAD x"],
        &["EVAL \"return redis.call('SELECT', 99)\" 0"],
        &[
            "MULTI",
            "EVAL \"return redis.call('INCR', 'k')\" 0",
            "EVAL \"return redis.error_reply('MINE it is')\" 0",
            "EXEC",
        ],
    ] {
        let [nagi, redis] = [&mut nagi, &mut redis].map(|(_, client)| {
            client.run("CONFIG RESETSTAT");
            for request in requests {
                client.run(request);
            }
            ["commandstats", "errorstats"].map(|section| counts(client, section))
        });
        assert_eq!(nagi, redis, "{requests:?}");
    }
}

#[test]
fn time_of_commands_in_scripts_and_transactions_is_counted() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK\r\n");
    for run in ["EVAL \"return redis.call('DEBUG', 'SLEEP', '0.01')\" 0", "DEBUG SLEEP 0.01"] {
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        client.run("MULTI");
        client.run(run);
        client.run("EXEC");
        let text = client.run("INFO commandstats").text();
        let of_debug =
            text.lines().find_map(|line| line.strip_prefix("cmdstat_debug:calls=1,usec="));
        let usec = of_debug.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        assert!(usec.is_some_and(|usec| (10_000..1_000_000).contains(&usec)), "{run}: {text}");
    }
}

#[test]
fn the_slow_log_contains_commands_of_scripts() {
    let [nagi, redis] = [Server::nagi(), Server::redis()].map(|server| {
        let mut client = server.connect_resp();
        client.run("CONFIG SET slowlog-log-slower-than 0");
        for request in [
            "EVAL \"redis.pcall('SET', 'a') redis.call('SET', 'k', 'v') \
             return redis.call('TIME')\" 0",
            "EVAL \"return redis.call('DEL', 'k')\" 0",
        ] {
            client.run(request);
        }
        let entries = client.run("SLOWLOG GET -1");
        let words = |entry: &Reply| {
            let words = entry.list()[3].list().iter().map(|word| word.text());
            words.collect::<Vec<_>>()
        };
        entries.list().iter().map(words).collect::<Vec<_>>()
    });
    assert_eq!(nagi, redis);
    assert_eq!(nagi.len(), 6);
}

/// An entry has the duration of the script, not the time for which the client's worker was busy.
#[test]
fn slow_scripts_are_in_the_slow_log() {
    let slow = "local t = os.clock() while os.clock() - t < 0.03 do end return 1";
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-log-slower-than 20000", "+OK\r\n");
    for is_queued in [false, true] {
        client.check("SLOWLOG RESET", "+OK\r\n");
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        if is_queued {
            client.check("MULTI", "+OK\r\n");
        }
        client.run_words(&["EVAL", slow, "0"]);
        if is_queued {
            client.check("EXEC", "*1\r\n:1\r\n");
        }
        let log = client.run("SLOWLOG GET");
        let [entry] = log.list() else { panic!("one entry, not {log:?}") };
        assert_eq!(entry.list()[3].list()[0].text(), "EVAL");
        assert!(entry.list()[2].integer() >= 20_000, "{entry:?}");
        let text = client.run("INFO commandstats").text();
        let of_eval = text.lines().find_map(|line| line.strip_prefix("cmdstat_eval:calls=1,usec="));
        let usec = of_eval.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        assert!(usec.is_some_and(|usec| usec >= 20_000), "{text}");
    }
}

#[test]
fn the_clock_stands_still_in_transactions_and_scripts() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK\r\n");
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    let requests = ["SET k v PX 1", "TIME", "DEBUG SLEEP 0.02", "EXISTS k", "TIME"];
    client.check("MULTI", "+OK\r\n");
    for request in requests {
        client.check(request, "+QUEUED\r\n");
    }
    let calls = requests.map(|request| {
        let words: Vec<_> = request.split(' ').map(|word| format!("'{word}'")).collect();
        format!("redis.call({})", words.join(", "))
    });
    let script = format!("return {{{}}}", calls.join(", "));
    check_words(&mut client, &["EVAL", &script, "0"], "+QUEUED\r\n");
    client.check("DEBUG SLEEP 0.02", "+QUEUED\r\n");
    client.check("TIME", "+QUEUED\r\n");
    let replies = client.run("EXEC");
    let replies = replies.list();
    assert_eq!(replies[3].integer(), 1, "{replies:?}");
    assert_eq!(replies[1], replies[4]);
    assert_eq!(replies[1], replies[7]);
    // The script uses the clock of the transaction.
    assert_eq!(&replies[..5], replies[5].list());
    client.check("EXISTS k", ":0\r\n");
    for _ in 0..2 {
        let replies = client.run_words(&["EVAL", &script, "0"]);
        let replies = replies.list();
        assert_eq!(replies[3].integer(), 1, "{replies:?}");
        assert_eq!(replies[1], replies[4]);
        client.check("EXISTS k", ":0\r\n");
    }
    assert_ne!(client.run("TIME"), replies[1]);
}

/// DEBUG sees an expired key until another command accesses the key.
#[test]
fn debug_sees_expired_keys_that_are_not_yet_removed() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    client.check("SET k v PX 1", "+OK\r\n");
    client.check("DEBUG SLEEP 0.02", "+OK\r\n");
    let shown = client.run("DEBUG OBJECT k").text();
    assert!(shown.starts_with("Value at:"), "{shown}");
    client.check("EXISTS k", ":0\r\n");
    client.check("DEBUG OBJECT k", "-ERR no such key\r\n");
}

/// Scripts that change nothing are executed while writes are paused.
#[test]
fn a_pause_delays_scripts_that_may_write() {
    for server in [Server::redis(), Server::nagi()] {
        let [mut client, mut observer] = [(); 2].map(|()| server.connect_resp());
        let library = "#!lua name=l\n\
                       redis.register_function{function_name='reads', \
                       callback=function() return 1 end, flags={'no-writes'}}\n\
                       redis.register_function('writes', function() return 1 end)";
        check_words(&mut client, &["FUNCTION", "LOAD", library], "$1\r\nl\r\n");
        let digest = |client: &mut Connection, text: &str| {
            client.run_words(&["SCRIPT", "LOAD", text]).text()
        };
        let (reads, writes) = ("#!lua flags=no-writes\nreturn 1", "#!lua\nreturn 1");
        let [by_digest, held_by_digest] = [reads, writes].map(|text| digest(&mut client, text));
        client.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        for request in [
            ["EVAL", reads, "0"],
            ["EVAL_RO", "return 1", "0"],
            ["EVALSHA", by_digest.as_str(), "0"],
            ["FCALL", "reads", "0"],
            ["FCALL_RO", "reads", "0"],
        ] {
            check_words(&mut client, &request, ":1\r\n");
            client.check("MULTI", "+OK\r\n");
            check_words(&mut client, &request, "+QUEUED\r\n");
            client.check("EXEC", "*1\r\n:1\r\n");
        }
        observer.check("CLIENT UNPAUSE", "+OK\r\n");
        let held = [
            ["EVAL", "return 1", "0"],
            ["EVAL", writes, "0"],
            ["EVALSHA", held_by_digest.as_str(), "0"],
            ["FCALL", "writes", "0"],
        ];
        for request in held {
            for is_queued in [false, true] {
                if is_queued {
                    client.check("MULTI", "+OK\r\n");
                    check_words(&mut client, &request, "+QUEUED\r\n");
                }
                observer.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
                client.send(match is_queued {
                    true => encode_command(&["EXEC"]),
                    false => encode_command(&request),
                });
                let is_held = || {
                    let text = observer.run("INFO clients").text();
                    text.contains("blocked_clients:1\r\n").then_some(())
                };
                until("the script to be held up", is_held).unwrap();
                observer.check("CLIENT UNPAUSE", "+OK\r\n");
                client.expect(if is_queued { "*1\r\n:1\r\n" } else { ":1\r\n" });
            }
        }
    }
}

/// If memory is short, a script is refused before it runs, unless it has declared that it needs no
/// memory.
#[test]
fn declared_flags_count_before_a_script_runs() {
    for server in [Server::redis(), Server::nagi()] {
        let mut client = server.connect_resp();
        client.run("SET x 123");
        client.run("CONFIG SET maxmemory 1");
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        check_words(&mut client, &["EVAL", "#!lua\nreturn 1", "0"], oom);
        check_words(&mut client, &["EVAL", "#!lua flags=allow-oom\nreturn 1", "0"], ":1\r\n");
        check_words(&mut client, &["EVAL", "#!lua flags=no-writes\nreturn 1", "0"], ":1\r\n");
        check_words(&mut client, &["EVAL", "return 1", "0"], ":1\r\n");
        client.run("MULTI");
        check_words(&mut client, &["EVAL", "#!lua\nreturn 1", "0"], oom);
        client.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    }
}

/// Scripts choose the codes of their errors.
#[test]
fn errors_are_counted_under_a_limited_number_of_short_codes() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for number in 0..300 {
        let script = format!("return redis.error_reply('C{number}'..string.rep('x', 1000)..' t')");
        assert!(matches!(client.run_words(&["EVAL", &script, "0"]), Reply::Error(_)));
    }
    let text = client.run("INFO errorstats").text();
    let codes: Vec<&str> = text.lines().filter(|line| line.starts_with("errorstat_")).collect();
    assert!((128..140).contains(&codes.len()), "{} codes", codes.len());
    assert!(codes.iter().all(|line| line.len() < 100), "{codes:?}");
    assert!(text.contains("errorstat_ERRORSTATS_OVERFLOW:count=172"), "{text}");
}
