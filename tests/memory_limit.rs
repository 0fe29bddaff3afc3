//! Which memory counts as data at the memory limit, and what is evicted or refused because of the
//! limit.

use harness::{Connection, Folder, Reply, Server, encode_command, until};

/// Returns a number from INFO.
fn info(client: &mut Connection, name: &str) -> u64 {
    let text = client.run("INFO everything").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

/// Starts a server with this memory limit that evicts the least recently used keys.
fn evicting(limit: &str) -> Server {
    Server::nagi_with(&["--maxmemory", limit, "--maxmemory-policy", "allkeys-lru"])
}

/// Stores a thousand small keys.
fn fill(client: &mut Connection) {
    for key in 0..1000 {
        client.check(&format!("SET key:{key} {}", "v".repeat(100)), "+OK\r\n");
    }
}

/// Returns the text of a reply if it is an error.
fn error(reply: &Reply) -> Option<String> {
    matches!(reply, Reply::Error(_)).then(|| format!("{reply:?}"))
}

#[test]
fn buffers_of_commands_that_scripts_call_are_no_data() {
    let server = evicting("20mb");
    let mut client = server.connect_resp();
    fill(&mut client);
    let before = info(&mut client, "used_memory_dataset");
    let long = "x".repeat(25_000_000);
    client.send(encode_command(&["EVAL", "return #redis.call('ECHO', ARGV[1])", "0", &long]));
    client.expect(":25000000\r\n");
    let data = info(&mut client, "used_memory_dataset");
    assert!(data < before + 500_000, "{data} bytes of data, {before} before");
    client.check("SET another value", "+OK\r\n");
    let text = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('DEL', KEYS[1])";
    client.send(encode_command(&["EVAL", text, "1", "brief", &long[..9_000_000]]));
    client.expect(":1\r\n");
    let data = info(&mut client, "used_memory_dataset");
    assert!(data < before + 500_000, "{data} bytes of data after a key that is gone");
}

#[test]
fn memory_of_lua_is_not_data_and_counts_once() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.send(encode_command(&["SET", "key", &"v".repeat(30_000_000)]));
    client.expect("+OK\r\n");
    for garbage in [
        "return #('x'):rep(20000000)",
        "local t = {} for i = 1, 300000 do t[i] = 'x' .. i end return #t",
        "local t = {} for i = 1, 30000 do t[i] = ('x'):rep(700) .. i end return #t",
    ] {
        client.send(encode_command(&["EVAL", garbage, "0"]));
        client.reply();
        let data = info(&mut client, "used_memory_dataset");
        assert!((30_000_000..31_000_000).contains(&data), "{data} bytes after {garbage}");
        let lua = info(&mut client, "used_memory_vm_total");
        let overhead = info(&mut client, "process_memory");
        let most = lua + lua / 4 + 4_000_000;
        assert!((lua..most).contains(&overhead), "{overhead} bytes of overhead, {lua} of Lua");
    }
}

/// If the memory of Lua counted as data while the script runs, the script's SET would evict keys.
#[test]
fn memory_of_a_running_script_evicts_nothing() {
    let server = evicting("10mb");
    let mut client = server.connect_resp();
    fill(&mut client);
    let text = "local t = {} for i = 1, 200000 do t[i] = 'x' .. i end \
                redis.call('SET', KEYS[1], #t) return redis.call('DBSIZE')";
    client.send(encode_command(&["EVAL", text, "1", "key:0"]));
    client.expect(":1000\r\n");
    assert_eq!(info(&mut client, "evicted_keys"), 0);
}

#[test]
fn texts_of_scripts_and_libraries_are_overhead() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("EVAL \"return 1\" 0", ":1\r\n");
    let both = |client: &mut Connection| {
        (info(client, "mem_clients_normal"), info(client, "used_memory_dataset"))
    };
    let (clients, data) = both(&mut client);
    let code = format!(
        "#!lua name=l\nlocal s = '{}' redis.register_function('f', function() return #s end)",
        "a".repeat(3_000_000)
    );
    client.send(encode_command(&["FUNCTION", "LOAD", &code]));
    client.expect("$1\r\nl\r\n");
    client.send(encode_command(&["SCRIPT", "LOAD", &format!("return '{}'", "b".repeat(900_000))]));
    client.reply();
    let quiet = until("buffers to go", || {
        let (now_clients, now_data) = both(&mut client);
        (now_clients < clients + 300_000 && now_data < data + 300_000).then_some(())
    });
    assert!(quiet.is_ok(), "{:?} after {:?}", both(&mut client), (clients, data));
}

#[test]
fn a_large_value_that_was_just_stored_is_there() {
    for (limit, len, rounds) in [("10mb", 1 << 20, 40), ("2mb", 1 << 20, 20), ("10mb", 300_000, 60)]
    {
        let server = evicting(limit);
        let mut client = server.connect_resp();
        fill(&mut client);
        let value = "v".repeat(len);
        for round in 0..rounds {
            let key = format!("large:{round}");
            client.send(encode_command(&["SET", &key, &value]));
            client.expect("+OK\r\n");
            let what = format!("value {round} of {len} bytes below {limit}");
            assert_eq!(client.run(&format!("STRLEN {key}")).integer(), len as i64, "{what}");
        }
    }
}

#[test]
fn a_large_value_that_memcached_clients_have_just_stored_is_there() {
    let server = Server::nagi_as_memcached(&["-m", "2"]);
    let mut client = server.connect_memcached();
    for len in [1_048_000, 100_000] {
        let value = "v".repeat(len);
        for round in 0..30 {
            client.check_raw(format!("set l:{round} 0 0 {len}\r\n{value}\r\n"), "STORED\r\n");
            let found = format!("VALUE l:{round} 0 {len}\r\n{value}\r\nEND\r\n");
            client.check_raw(format!("get l:{round}\r\n"), found);
            client.check_raw(format!("ms l:{round} {len}\r\n{value}\r\n"), "HD\r\n");
            client.check_raw(format!("mg l:{round} s\r\n"), format!("HD s{len}\r\n"));
        }
    }
}

/// A value that waits to be saved is not freed when its key goes, so that few of them may wait.
#[test]
fn a_save_does_not_make_more_keys_go() {
    const KEYS: usize = 100;
    let folder = Folder::new("evicting");
    let options = ["--maxmemory-policy", "allkeys-lru", "--save-cpu-limit", "1", "--dir"];
    let server = Server::nagi_with(&[&options[..], &[&folder.path().to_string_lossy()]].concat());
    let mut client = server.connect_resp();
    let member = "m".repeat(1000);
    let add = |client: &mut Connection, key: &str| {
        let members = (0..400).map(|number| format!("{member}{key}{number}"));
        let words: Vec<String> =
            ["SADD".to_owned(), key.to_owned()].into_iter().chain(members).collect();
        assert_eq!(client.run_words(&words), Reply::Integer(400));
    };
    (0..KEYS).for_each(|key| add(&mut client, &format!("set:{key}")));
    let data = info(&mut client, "used_memory_dataset");
    client.check(&format!("CONFIG SET maxmemory {}", data + 1_000_000), "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    (0..10).for_each(|key| add(&mut client, &format!("new:{key}")));
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), 1);
    // Ten must go, and those that wait to be saved, 8 MB of them and two for each worker, may.
    let left = client.run("DBSIZE").integer();
    assert!(left >= KEYS as i64 - 35, "{left} keys are left");
}

/// Keys that a script has claimed may go when it has ended.
#[test]
fn keys_that_were_claimed_may_go_later() {
    let server = Server::nagi_with(&["--maxmemory-policy", "volatile-lru"]);
    let mut client = server.connect_resp();
    fill(&mut client);
    let value = "v".repeat(1 << 20);
    for key in 0..5 {
        let set = ["SET", &format!("volatile:{key}"), &value, "EX", "1000"];
        client.send(encode_command(&set));
        client.expect("+OK\r\n");
    }
    let data = info(&mut client, "used_memory_dataset");
    client.check(&format!("CONFIG SET maxmemory {}", data + 1_000_000), "+OK\r\n");
    // It lasts until workers have searched for keys to evict, which they do ten times a second.
    let text = "redis.call('KEYS', '*') for i = 1, 3000 do redis.call('SET', i, ('x'):rep(1000)) \
                end for i = 1, 4e7 do end return 1";
    client.check(&format!("EVAL \"{text}\" 0"), ":1\r\n");
    for round in 0..20 {
        client.check(&format!("SET after:{round} value"), "+OK\r\n");
    }
}

/// An addition to a key must not evict this key to make room.
#[test]
fn a_key_that_is_added_to_stays() {
    let server = evicting("10mb");
    let mut client = server.connect_resp();
    let piece = "v".repeat(1 << 20);
    for round in 0..10 {
        for number in 0..4 {
            client.send(encode_command(&["SET", &format!("other:{number}"), &piece]));
            client.expect("+OK\r\n");
        }
        for number in 1..=7 {
            client.send(encode_command(&["APPEND", &format!("key:{round}"), &piece]));
            client.expect(format!(":{}\r\n", number << 20));
        }
    }
}

/// The keys of a script cannot be evicted while it runs, so its writes must not search for other
/// victims again and again.
#[test]
fn a_script_or_transaction_that_exceeds_the_limit_ends_soon() {
    let server = evicting("2mb");
    let mut client = server.connect_resp();
    let text = "for i = 1, 6000 do redis.call('SET', 't' .. i, ('v'):rep(900)) end return 'all'";
    client.send(encode_command(&["EVAL", text, "0"]));
    client.expect("$3\r\nall\r\n");
    client.check("SET other value", "+OK\r\n");
    client.send(b"MULTI\r\n");
    client.expect("+OK\r\n");
    // The requests of the transaction are short, so they can be queued below the limit.
    for key in 0..6000 {
        client.check(&format!("SETRANGE queued:{key} 899 v"), "+QUEUED\r\n");
    }
    client.send(b"EXEC\r\n");
    client.expect(format!("*6000\r\n{}", ":900\r\n".repeat(6000)));
    client.check("SET other value", "+OK\r\n");
    let evicted =
        until("eviction", || (info(&mut client, "used_memory") < 2_500_000).then_some(()));
    assert!(evicted.is_ok() && info(&mut client, "evicted_keys") > 5000);
}

/// The queued requests of a transaction count before it is executed, as in Redis.
#[test]
fn a_transaction_stays_below_the_limit() {
    let value = "v".repeat(100_000);
    for server in [Server::nagi_with(&["--maxmemory", "5mb"]), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET maxmemory 5mb", "+OK\r\n");
        client.check("MULTI", "+OK\r\n");
        let mut queue = |count: usize| {
            let set = |key| encode_command(&["SET", &format!("key:{key}"), &value]);
            client.send((0..count).flat_map(set).collect::<Vec<u8>>());
            (0..count).filter_map(|_| error(&client.reply())).collect::<Vec<_>>()
        };
        let refused = queue(100);
        assert!((30..80).contains(&refused.len()), "{refused:?}");
        assert!(refused.iter().all(|it| it.contains("OOM command not allowed")), "{refused:?}");
        client.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.check("DBSIZE", ":0\r\n");
    }
    let server = evicting("5mb");
    let mut client = server.connect_resp();
    client.check(&format!("SET old {}", "v".repeat(2_000_000)), "+OK\r\n");
    client.check("MULTI", "+OK\r\n");
    for key in 0..40 {
        client.check(&format!("SET key:{key} {value}"), "+QUEUED\r\n");
    }
    let replies = client.run("EXEC");
    assert_eq!(replies.list().len(), 40, "{replies:?}");
    client.check("EXISTS old", ":0\r\n");
    let data = info(&mut client, "used_memory_dataset");
    assert!((4_000_000..5 << 20).contains(&data), "{data} bytes of data");
}

/// Adds to a list until there is no room.
fn fill_list(client: &mut Connection) {
    let value = "e".repeat(1000);
    let mut words = vec!["RPUSH", "list"];
    words.extend([value.as_str()].repeat(50));
    let request = encode_command(&words);
    for _ in 0..10_000 {
        client.send(&request);
        if error(&client.reply()).is_some() {
            return;
        }
    }
    panic!("there is room for 500 MB");
}

#[test]
fn there_is_room_right_after_what_took_it_was_removed() {
    let server = Server::nagi_with(&["--maxmemory", "5mb"]);
    let mut client = server.connect_resp();
    for round in 0..12 {
        for removal in ["FLUSHALL", "DEL list", "UNLINK list", "FLUSHDB", "LTRIM list 1 0"] {
            fill_list(&mut client);
            client.send(format!("{removal}\r\nSET key value\r\n"));
            assert_eq!(error(&client.reply()), None);
            let stored = client.reply();
            assert_eq!(stored, Reply::Simple("OK".into()), "after {removal}, round {round}");
        }
        fill_list(&mut client);
        let mut memcached = server.connect_memcached();
        memcached.send("flush_all\r\nset key 0 0 1\r\nx\r\n");
        memcached.expect("OK\r\nSTORED\r\n");
        fill_list(&mut client);
        let text = "return redis.call('SET', 'key', 'value')";
        client.send(
            [encode_command(&["DEL", "list"]), encode_command(&["EVAL", text, "0"])].concat(),
        );
        client.expect(":1\r\n+OK\r\n");
        fill_list(&mut client);
        client.send("DEL list\r\nMULTI\r\nSET key value\r\nEXEC\r\n");
        client.expect(":1\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    }
}

#[test]
fn what_waits_to_be_freed_evicts_nothing_else_and_refuses_nothing() {
    let server = evicting("20mb");
    let mut client = server.connect_resp();
    let value = "e".repeat(1000);
    let push = |count| {
        let mut words = vec!["RPUSH", "list"];
        words.extend([value.as_str()].repeat(count));
        encode_command(&words)
    };
    client.send(push(30_000));
    client.expect(":30000\r\n");
    for key in 0..200 {
        client.check(&format!("SET key:{key} value"), "+OK\r\n");
    }
    client.check("EXISTS key:0 key:100 key:199 list", ":3\r\n");
    for round in 0..20 {
        client.send(push(3_000));
        assert_eq!(error(&client.reply()), None, "round {round}");
    }
}

/// Housekeeping sums the counts of all workers.
#[test]
fn hundreds_of_workers_leave_a_small_limit_to_data() {
    let options = ["--workers", "400", "--maxmemory", "1mb", "--maxmemory-policy", "allkeys-lru"];
    let server = Server::nagi_with(&options);
    let mut client = server.connect_resp();
    let mut set_all = || {
        for key in 0..2000 {
            client.check(&format!("SET key:{key} {}", "v".repeat(1000)), "+OK\r\n");
        }
        let keys = client.run("DBSIZE").integer();
        assert!(keys > 500, "{keys} keys of 1000 bytes in 1 MB");
        info(&mut client, "uptime_in_seconds")
    };
    let up_s = set_all();
    until("rounds of housekeeping", || (set_all() > up_s + 1).then_some(())).unwrap();
}

/// Memory that tables keep after their entries are removed is not data. If it were, no eviction
/// could make room.
#[test]
fn limits_below_a_megabyte_refuse_nothing() {
    for (limit, len, least) in [("300kb", 1000, 50), ("300kb", 100, 200)] {
        let server = evicting(limit);
        let mut client = server.connect_resp();
        for key in 0..2000 {
            client.check(&format!("SET key:{key} {}", "v".repeat(len)), "+OK\r\n");
        }
        let keys = client.run("DBSIZE").integer();
        assert!(keys >= least, "{keys} keys of {len} bytes in {limit}");
    }
}

/// The sampler reads the counters of all workers, which the workers fill.
#[test]
fn counters_of_hot_keys_are_no_data() {
    let server = Server::nagi_with(&["--workers", "64"]);
    let mut clients: Vec<Connection> = (0..64).map(|_| server.connect_resp()).collect();
    let began_s = info(&mut clients[0], "uptime_in_seconds");
    let mut round = 0;
    until("rounds of the sampler", || {
        for client in &mut clients {
            client.send(
                (0..100)
                    .flat_map(|key| encode_command(&["GET", &format!("key:{round}:{key}")]))
                    .collect::<Vec<u8>>(),
            );
        }
        for client in &mut clients {
            client.expect("$-1\r\n".repeat(100));
        }
        round += 1;
        (info(&mut clients[0], "uptime_in_seconds") > began_s + 4).then_some(())
    })
    .unwrap();
    let data = info(&mut clients[0], "used_memory_dataset");
    assert!(data < 500_000, "{data} bytes of data without a key");
}

#[test]
fn an_mg_makes_no_entry_without_memory() {
    let server = Server::nagi_with(&["--maxmemory", "10mb"]);
    let mut redis = server.connect_resp();
    for number in 0..500 {
        redis.check(&format!("SET key:{number} {}", "v".repeat(1000)), "+OK\r\n");
    }
    redis.check("CONFIG SET maxmemory 100kb", "+OK\r\n");
    let mut memcached = server.connect_memcached();
    memcached.check_raw("mg new N0 v\r\n", "EN\r\n");
    redis.check("EXISTS new", ":0\r\n");
    redis.check("EXISTS key:1", ":1\r\n");
    memcached.check_raw("ms key:1 5\r\nhello\r\n", "SERVER_ERROR out of memory storing object\r\n");
    redis.check("EXISTS key:1", ":0\r\n");
}

#[test]
fn a_queued_write_evicts_nothing_during_a_pause() {
    let server = evicting("2mb");
    let [mut client, mut other] = [(); 2].map(|()| server.connect_resp());
    let value = "v".repeat(10_000);
    for key in 0..400 {
        client.check(&format!("SET key:{key} {value}"), "+OK\r\n");
    }
    other.check("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    let evicted = info(&mut other, "evicted_keys");
    client.check("MULTI", "+OK\r\n");
    for _ in 0..20 {
        client.check(&format!("SET queued {value}"), "+QUEUED\r\n");
    }
    assert_eq!(info(&mut other, "evicted_keys"), evicted);
}
