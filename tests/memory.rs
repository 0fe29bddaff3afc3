//! The memory limit, and keys and times at the limits of their ranges.

use harness::{Connection, Reply, Server, as_redis, encode_command, until};

/// Returns a number from INFO.
fn info(client: &mut Connection, name: &str) -> u64 {
    info_of(client, "default", name)
}

/// Returns a number from some sections of INFO. With fewer sections, the reply is shorter.
fn info_of(client: &mut Connection, sections: &str, name: &str) -> u64 {
    let text = client.run(&format!("INFO {sections}")).text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

/// Waits for several rounds of housekeeping, in which every thread reports its memory.
fn settle(client: &mut Connection) {
    let mut up_s = || info_of(client, "server", "uptime_in_seconds");
    let end_s = up_s() + 2;
    until("rounds of housekeeping", || (up_s() >= end_s).then_some(())).unwrap();
}

/// Returns an MSET of `count` keys, numbered from `first`.
fn mset(first: usize, count: usize) -> Vec<u8> {
    let mut words = vec![b"MSET".to_vec()];
    for key in first..first + count {
        words.push(format!("key:{key:012}").into_bytes());
        words.push(vec![b'v'; 100]);
    }
    encode_command(&words)
}

#[test]
fn many_keys_in_one_command_do_not_outrun_the_evictor() {
    const LIMIT: u64 = 32 << 20;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check(&format!("CONFIG SET maxmemory {LIMIT} maxmemory-policy allkeys-lru"), "+OK\r\n");
    for (count, rounds) in [(100, 500), (5_000, 100)] {
        for round in 0..rounds {
            client.send(mset(round * count, count));
            client.expect("+OK\r\n");
            let used = info(&mut client, "used_memory");
            assert!(used < LIMIT * 11 / 10, "{used} after {round} times {count} keys");
        }
    }
    assert!(info(&mut client, "evicted_keys") > 200_000);
    assert!(client.run("DBSIZE").integer() > 50_000, "and it keeps what fits");
}

#[test]
fn large_values_into_many_small_ones_do_not_outrun_the_evictor() {
    const LIMIT: u64 = 32 << 20;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check(&format!("CONFIG SET maxmemory {LIMIT} maxmemory-policy allkeys-lru"), "+OK\r\n");
    for round in 0..60 {
        client.send(mset(round * 5_000, 5_000));
        client.expect("+OK\r\n");
    }
    let mut memcached = server.connect_memcached();
    let block = "x".repeat(1_000_000);
    for round in 0..40 {
        client.send(encode_command(&["SET", &format!("large:{round}"), &block]));
        client.expect("+OK\r\n");
        memcached.check_raw(format!("set m:{round} 0 0 1000000\r\n{block}\r\n"), "STORED\r\n");
        // A later request waits until there is room again.
        let used = info(&mut client, "used_memory");
        assert!(used < LIMIT * 115 / 100, "{used} in round {round}");
    }
}

#[test]
fn a_limit_just_above_the_memory_of_an_empty_server_refuses_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SELECT 9", "+OK\r\n");
    client.check("SET key x", "+OK\r\n");
    client.check("FLUSHALL", "+OK\r\n");
    let limit = info(&mut client, "used_memory_dataset") + 256 * 1024;
    client.check(&format!("CONFIG SET maxmemory {limit} maxmemory-policy allkeys-lru"), "+OK\r\n");
    for key in 0..10_000 {
        client.check(&format!("SET key:{key} x"), "+OK\r\n");
    }
    // The last write may have begun a new page of entries.
    assert!(info(&mut client, "used_memory_dataset") <= limit + 4096);
    assert!(info(&mut client, "evicted_keys") > 0);
    assert!(client.run("DBSIZE").integer() > 10, "and it keeps what fits");
}

#[test]
fn two_small_keys_have_room_in_ten_kilobytes() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET maxmemory-policy allkeys-random", "+OK\r\n");
    client.check("DEBUG POPULATE 4096 key 1", "+OK\r\n");
    settle(&mut client);
    let limit = info(&mut client, "used_memory") + 10 * 1024;
    client.check(&format!("CONFIG SET maxmemory {limit}"), "+OK\r\n");
    // The first request of a command creates its statistics.
    client.check("SET first 1", "+OK\r\n");
    client.check("SET second 2", "+OK\r\n");
    client.check("DBSIZE", ":4098\r\n");
    assert_eq!(info(&mut client, "evicted_keys"), 0);
}

/// Starts a server with small keys and little room below its memory limit. If there is no room, a
/// write makes some. With one worker, the memory is not checked in the middle of a request.
fn nearly_full() -> (Server, Connection) {
    nearly_full_with(&[])
}

/// Like `nearly_full`, with additional options.
fn nearly_full_with(more: &[&str]) -> (Server, Connection) {
    let options = &["--enable-debug-command", "yes", "--workers", "1"];
    let server = Server::nagi_with(&[options, more].concat());
    let mut client = server.connect_resp();
    client.check("CONFIG SET maxmemory-policy allkeys-random", "+OK\r\n");
    client.check("DEBUG POPULATE 4096 key 1", "+OK\r\n");
    client.check("MSET written 1 other 2", "+OK\r\n");
    settle(&mut client);
    let limit = info(&mut client, "used_memory_dataset") + 64 * 1024;
    client.check(&format!("CONFIG SET maxmemory {limit}"), "+OK\r\n");
    (server, client)
}

/// Checks that nothing was evicted, and that the next write will evict nothing.
fn check_whole(client: &mut Connection, what: &str) {
    client.check("SET written 2", "+OK\r\n");
    assert_eq!(client.run("DBSIZE").integer(), 4098, "after {what}");
}

#[test]
fn long_replies_evict_nothing() {
    let (_server, mut client) = nearly_full();
    for request in ["COMMAND DOCS", "COMMAND", "INFO everything", "CONFIG GET *", "KEYS *"] {
        client.run(request);
        check_whole(&mut client, request);
        // Sends the same request again, in one batch with a write.
        let words: Vec<&str> = request.split(' ').collect();
        client.send([encode_command(&words), encode_command(&["SET", "written", "1"])].concat());
        (0..2).for_each(|_| drop(client.reply()));
        check_whole(&mut client, request);
    }
}

#[test]
fn many_arguments_evict_nothing() {
    let (server, mut client) = nearly_full();
    let mut words = vec!["MSET"];
    words.extend(["written", "1"].repeat(20_000));
    client.send(encode_command(&words));
    client.expect("+OK\r\n");
    check_whole(&mut client, "an MSET");
    let request = encode_command(&words);
    let mut slow = server.connect_resp();
    slow.send(&request[..request.len() / 2]);
    let arrived = |client: &mut Connection| info(client, "client_recent_max_input_buffer");
    let half = until("half of it", || (arrived(&mut client) >= 150_000).then_some(()));
    half.expect("arrives");
    check_whole(&mut client, "half an MSET");
}

#[test]
fn many_clients_with_replies_evict_nothing() {
    let (server, mut client) = nearly_full();
    let value = "v".repeat(10_000);
    let echo = encode_command(&["ECHO", &value]).repeat(10);
    let mut clients: Vec<Connection> = (0..100).map(|_| server.connect_resp()).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(&echo));
        for client in &mut clients {
            (0..10).for_each(|_| client.expect(format!("$10000\r\n{value}\r\n")));
        }
        check_whole(&mut client, "their replies");
    }
}

#[test]
fn pages_evict_nothing() {
    let (server, mut client) = nearly_full_with(&["--http-port", "any"]);
    let address = server.http();
    for path in ["/metrics", "/server-status", "/server-status?json", "/server-status?auto"] {
        // All connections are open before the first request.
        let mut readers: Vec<_> = (0..20).map(|_| Connection::open(address)).collect();
        for reader in &mut readers {
            reader.send(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"));
        }
        for mut reader in readers {
            let page = String::from_utf8(reader.rest()).expect("pages are text");
            assert!(page.starts_with("HTTP/1.0 200"), "{page}");
            check_whole(&mut client, path);
        }
    }
    settle(&mut client);
    check_whole(&mut client, "further samples");
}

#[test]
fn logs_evict_nothing() {
    let (server, mut client) = nearly_full();
    client.check("CONFIG SET slowlog-max-len 100000 slowlog-log-slower-than 0", "+OK\r\n");
    client.send(encode_command(&["ECHO", &"e".repeat(100)]).repeat(3_000));
    (0..3_000).for_each(|_| drop(client.reply()));
    check_whole(&mut client, "the slow log");
    client.check("CONFIG SET requirepass secret acllog-max-len 10000", "+OK\r\n");
    for user in 0..300 {
        let mut stranger = server.connect_resp();
        let refused = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        stranger.check(&format!("AUTH user:{user} wrong"), refused);
    }
    check_whole(&mut client, "logins");
}

#[test]
fn a_limit_below_the_stored_data_refuses_additions_and_serves_the_rest() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.send(mset(0, 100));
    client.expect("+OK\r\n");
    client.check("CONFIG SET maxmemory 1 maxmemory-policy noeviction", "+OK\r\n");
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    client.check("SET key:000000000001 x", refused);
    client.check("MSET a 1 b 2", refused);
    client.check("STRLEN key:000000000001", ":100\r\n");
    client.check("DEL key:000000000001", ":1\r\n");
    client.check("DBSIZE", ":99\r\n");
    let mut memcached = server.connect_memcached();
    let full = "SERVER_ERROR out of memory storing object\r\n";
    memcached.check_raw("set k 0 0 1\r\nx\r\n", full);
    memcached.check_raw("delete key:000000000002\r\n", "DELETED\r\n");
    client.check("CONFIG SET maxmemory-policy allkeys-lfu", "+OK\r\n");
    until("everything to go", || (client.run("DBSIZE").integer() == 0).then_some(())).unwrap();
    client.check("CONFIG SET maxmemory 0", "+OK\r\n");
    client.check("SET key x", "+OK\r\n");
    client.check("GET key", "$1\r\nx\r\n");
}

#[test]
fn a_value_for_which_there_is_no_room_is_refused() {
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let set = |server: &Server, key: &str, megabytes: usize, reply: &str| {
        let mut client = server.connect_resp();
        client.send(encode_command(&[b"SET", key.as_bytes(), &vec![b'v'; megabytes << 20]]));
        client.expect(reply);
    };
    let nagi = Server::nagi();
    for server in [&nagi, &Server::redis()] {
        server.connect_resp().check("CONFIG SET maxmemory 100mb", "+OK\r\n");
        set(server, "key", 40, "+OK\r\n");
        set(server, "key", 150, refused);
    }
    // Redis may count the received data twice, and may count it for a while after the request.
    nagi.connect_resp().check("DEL key", ":1\r\n");
    set(&nagi, "key", 60, "+OK\r\n");
    set(&nagi, "key", 60, refused);
    nagi.connect_resp().check("STRLEN key", ":62914560\r\n");
    nagi.connect_resp().check("DEL key", ":1\r\n");
    set(&nagi, "key", 60, "+OK\r\n");
    nagi.connect_resp().check("CONFIG SET maxmemory-policy allkeys-lru", "+OK\r\n");
    set(&nagi, "other", 60, "+OK\r\n");
    set(&nagi, "third", 150, refused);
    nagi.connect_resp().check("EXISTS third", ":0\r\n");
}

#[test]
fn a_memcached_value_for_which_there_is_no_room_is_refused() {
    let server = Server::nagi();
    let (mut client, mut memcached) = (server.connect_resp(), server.connect_memcached());
    memcached.check_raw("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let limit = info_of(&mut client, "everything", "used_memory") + (500 << 10);
    client.check(&format!("CONFIG SET maxmemory {limit}"), "+OK\r\n");
    let set = |len: usize| format!("set k 0 0 {len}\r\n{}\r\n", "v".repeat(len));
    memcached.check_raw(set(1_000_000), "SERVER_ERROR out of memory storing object\r\n");
    memcached.check_raw("get k\r\n", "END\r\n");
    memcached.check_raw(set(100_000), "STORED\r\n");
}

#[test]
fn keys_may_be_empty_binary_and_very_long() {
    let long = vec![0xfe_u8; 40 << 20];
    let keys: [&[u8]; 4] = [b"", b"\0\r\n\xff *1\r\n", &long[..70_000], &long];
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for key in keys {
            client.send(encode_command(&[b"SET", key, b"value"]));
            client.expect("+OK\r\n");
        }
        for key in keys {
            client.send(encode_command(&[b"APPEND", key, b"!"]));
            client.expect(":6\r\n");
            client.send(encode_command(&[b"GETEX", key, b"EX", b"100"]));
            client.expect("$6\r\nvalue!\r\n");
        }
        client.check("DBSIZE", ":4\r\n");
        for key in keys {
            client.send(encode_command(&[b"RENAME", key, b"other"]));
            client.expect("+OK\r\n");
        }
        client.check("DBSIZE", ":1\r\n");
        client.send("*2\r\n$3\r\nGET\r\n$536870913\r\n");
        client.expect("-ERR Protocol error: invalid bulk length\r\n");
    }
}

#[test]
fn times_to_live_at_the_extremes_of_64_bits() {
    let refused = |command: &str| format!("-ERR invalid expire time in '{command}' command\r\n");
    let (set, setex) = (refused("set"), refused("setex"));
    let (expire, expireat) = (refused("expire"), refused("expireat"));
    let (pexpire, getex) = (refused("pexpire"), refused("getex"));
    as_redis(&[
        ("SET key value", "+OK\r\n"),
        ("EXPIRE key 9223372036854775807", &expire),
        ("EXPIRE key -9223372036854775808", &expire),
        ("EXPIREAT key 9223372036854775807", &expireat),
        ("PEXPIRE key 9223372036854775807", &pexpire),
        ("EXPIRE key 9223372036854775808", "-ERR value is not an integer or out of range\r\n"),
        ("SET other value PX 9223372036854775807", &set),
        ("SET other value EXAT 9223372036854775807", &set),
        ("SETEX other -9223372036854775808 value", &setex),
        ("GETEX key PX 9223372036854775807", &getex),
        ("TTL key", ":-1\r\n"),
        ("PEXPIREAT key 9223372036854775807", ":1\r\n"),
        ("PEXPIRETIME key", ":9223372036854775807\r\n"),
        ("GET key", "$5\r\nvalue\r\n"),
        ("PERSIST key", ":1\r\n"),
        ("SET far value PXAT 9223372036854775807", "+OK\r\n"),
        ("PEXPIRETIME far", ":9223372036854775807\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("PEXPIREAT key -9223372036854775808", ":1\r\n"),
        ("EXISTS key", ":0\r\n"),
    ]);
}

/// Sets the memory limit.
fn limit(client: &mut Connection, bytes: u64) {
    client.check(&format!("CONFIG SET maxmemory {bytes} maxmemory-policy allkeys-lru"), "+OK\r\n");
}

#[test]
fn incoming_requests_evict_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    limit(&mut client, 40 << 20);
    client.send(mset(0, 150_000));
    client.expect("+OK\r\n");
    client.check("DBSIZE", ":150000\r\n");
    // Beginnings of requests: one with a long argument, and one with very many short arguments.
    let mut one = server.connect_resp();
    one.send(format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$60000000\r\n{}", "v".repeat(39_000_000)));
    let mut many = server.connect_resp();
    let request = mset(200_000, 200_000);
    many.send(&request[..request.len() - 9]);
    let kept = |client: &mut Connection| info(client, "mem_clients_normal");
    until("both to arrive", || (kept(&mut client) > 60_000_000).then_some(())).unwrap();
    for round in 0..100 {
        client.check(&format!("SET small:{round} value"), "+OK\r\n");
    }
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    assert!(info(&mut client, "used_memory") > 80_000_000, "it is shown all the same");
    drop((one, many));
    until("them to be forgotten", || (kept(&mut client) < 1_000_000).then_some(())).unwrap();
}

#[test]
fn outgoing_replies_evict_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    limit(&mut client, 40 << 20);
    client.send(mset(0, 50_000));
    client.expect("+OK\r\n");
    client.check(&format!("SET short {}", "s".repeat(30_000)), "+OK\r\n");
    client.check(&format!("SET long {}", "l".repeat(15_000_000)), "+OK\r\n");
    let mut reader = server.connect_resp();
    reader.send(encode_command(&["GET", "long"]).repeat(3));
    reader.send(encode_command(&["GET", "short"]).repeat(1_000));
    let kept = |client: &mut Connection| info(client, "mem_clients_normal");
    let full = until("replies to pile up", || (kept(&mut client) > 25_000_000).then_some(()));
    full.unwrap();
    // From now on, only the reader references the old values.
    client.check(&format!("SET long {}", "m".repeat(15_000_000)), "+OK\r\n");
    until("the old value too", || (kept(&mut client) > 40_000_000).then_some(())).unwrap();
    client.check("SET another value", "+OK\r\n");
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    client.check("DBSIZE", ":50003\r\n");
    reader.expect(format!("$15000000\r\n{}\r\n", "l".repeat(15_000_000)));
    drop(reader);
    until("all of it to go", || (kept(&mut client) < 1_000_000).then_some(())).unwrap();
}

#[test]
fn queued_requests_with_long_values_count_before_they_run() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let set = |key: &str| [b"SET".to_vec(), key.into(), vec![b'v'; 1 << 20]];
    for key in 0..20 {
        assert_eq!(client.run_words(&set(&format!("stored:{key}"))).text(), "OK");
    }
    let data = info(&mut client, "used_memory_dataset");
    let most = data + (8 << 20);
    let change = format!("CONFIG SET maxmemory {most} maxmemory-policy noeviction");
    client.check(&change, "+OK\r\n");
    client.check("MULTI", "+OK\r\n");
    let queued = (0..16).take_while(|key| {
        let reply = client.run_words(&set(&format!("queued:{key}")));
        matches!(reply, Reply::Simple(text) if text == "QUEUED")
    });
    let queued = queued.count();
    assert!((4..=8).contains(&queued), "{queued} requests of a megabyte for 8 MB");
}

#[test]
fn long_messages_that_are_not_read_are_no_data() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut subscribers: Vec<_> = (0..4).map(|_| server.connect_resp()).collect();
    for (channel, subscriber) in subscribers.iter_mut().enumerate() {
        subscriber.send(encode_command(&["SUBSCRIBE", &channel.to_string()]));
        subscriber.line();
    }
    let before = info(&mut client, "used_memory_dataset");
    // The second one is in chunks, of which the last is short.
    for (message, count) in [(vec![b'm'; 60_000], 400), (vec![b'm'; 190_000], 200)] {
        for number in 0..count {
            let channel = (number % 4).to_string();
            client.run_words(&[b"PUBLISH".as_slice(), channel.as_bytes(), &message]);
        }
    }
    settle(&mut client);
    let after = info(&mut client, "used_memory_dataset");
    assert!(after < before + (2 << 20), "{before} bytes became {after}");
}

#[test]
fn long_strings_in_the_result_of_a_sort_count_as_data() {
    const LONG: usize = 4 << 20;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.run_words(&[b"RPUSH".as_slice(), b"source", &vec![b'v'; LONG]]);
    client.check("SORT source BY nosort STORE sorted", ":1\r\n");
    client.check("DEL source", ":1\r\n");
    settle(&mut client);
    assert!(info(&mut client, "used_memory_dataset") > LONG as u64 / 10 * 9);
    client.check("DEL sorted", ":1\r\n");
    until("its memory to go", || {
        (info(&mut client, "used_memory_dataset") < LONG as u64 / 2).then_some(())
    })
    .unwrap();
}

#[test]
fn zeros_count_before_they_take_memory() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check(&format!("CONFIG SET maxmemory {}", 40 << 20), "+OK\r\n");
    client.check("SETRANGE far 100000000 x", ":100000001\r\n");
    assert!(info(&mut client, "used_memory_dataset") > 100_000_000);
    client.check(
        "BITOP NOT other far",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    client.check("DEL far", ":1\r\n");
    client.check("SET key value", "+OK\r\n");
}

#[test]
fn memory_of_large_values_goes_back_when_they_are_deleted() {
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut clients: Vec<Connection> = (0..4).map(|_| server.connect_resp()).collect();
    let before = server.resident_bytes();
    let set = |key: &str| encode_command(&["SET", key, &"v".repeat(60_000_000)]);
    let (first, second) = (set("first"), set("second"));
    for _ in 0..3 {
        for request in [&first, &second] {
            clients.iter_mut().for_each(|client| client.send(request));
            clients.iter_mut().for_each(|client| client.expect("+OK\r\n"));
        }
    }
    assert!(server.resident_bytes() > before + 110_000_000);
    clients[0].check("DEL first second", ":2\r\n");
    // The memory must be freed without further requests.
    let gone =
        until("the memory to go", || (server.resident_bytes() < before + 40_000_000).then_some(()));
    assert!(gone.is_ok(), "{} bytes more than {before} are left", server.resident_bytes() - before);
}

#[test]
fn a_large_value_asked_for_a_thousand_times_takes_memory_once() {
    let server = Server::nagi_with(&["--memcached-item-limit", "200mb"]);
    let (mut client, mut reader) = (server.connect_resp(), server.connect_memcached());
    client.send(encode_command(&["SET", "large", &"v".repeat(120_000_000)]));
    client.expect("+OK\r\n");
    let before = server.resident_bytes();
    reader.send(format!("get {}\r\n", ["large"; 1000].join(" ")));
    let queued = |client: &mut Connection| {
        let list = client.run("CLIENT LIST").text();
        list.lines().any(|line| line.contains("cmd=get ") && !line.contains("omem=0 "))
    };
    until("replies to wait", || queued(&mut client).then_some(())).unwrap();
    for _ in 0..5_000 {
        client.check("PING", "+PONG\r\n");
    }
    let more = server.resident_bytes().saturating_sub(before);
    assert!(more < 20_000_000, "{more} bytes more");
}

#[test]
fn memory_of_long_keys_goes_back_when_they_are_gone() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("PING", "+PONG\r\n");
    let before = server.resident_bytes();
    for last in [b'a', b'b'] {
        let key = [&vec![b'k'; 64 << 20][..], &[last]].concat();
        client.send(encode_command(&[b"SET", &key[..], b"value"]));
        client.expect("+OK\r\n");
    }
    assert!(info(&mut client, "used_memory_dataset") > 128 << 20);
    client.check("FLUSHALL", "+OK\r\n");
    let limit = before + (16 << 20);
    until("both to go", || (server.resident_bytes() < limit).then_some(())).unwrap();
    assert!(info(&mut client, "used_memory") < 16 << 20);
}

#[test]
fn a_long_key_that_is_only_looked_up_evicts_nothing() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    limit(&mut client, 40 << 20);
    client.send(mset(0, 100_000));
    client.expect("+OK\r\n");
    let key = vec![b'k'; 40 << 20];
    client.send(encode_command(&[b"GET", &key[..]]));
    client.send(encode_command(&[b"EXISTS", &key[..]]));
    client.expect("$-1\r\n:0\r\n");
    client.check("SET small value", "+OK\r\n");
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    client.check("DBSIZE", ":100001\r\n");
    // A long key that is stored evicts others.
    client.send(encode_command(&[b"SET", &key[..], b"value"]));
    client.expect("+OK\r\n");
    client.check("SET small value", "+OK\r\n");
    assert!(info(&mut client, "evicted_keys") > 0);
}

/// The bookkeeping for a request until its reply has been sent is not data. Otherwise, clients that
/// do not read would evict keys.
#[test]
fn requests_whose_replies_are_not_read_are_no_data() {
    const REQUESTS: usize = 600;
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SETRANGE key 100000 x", ":100001\r\n");
    let mut number = |name| info_of(&mut client, "everything", name);
    let (data, clients) = (number("used_memory_dataset"), number("mem_clients_normal"));
    let slow_readers: Vec<_> = (0..10)
        .map(|_| {
            let mut client = server.connect_resp();
            client.send("MGET key\r\n".repeat(REQUESTS));
            client
        })
        .collect();
    let all = 10 * REQUESTS as u64;
    let ran = || (number("total_commands_processed") > all).then_some(());
    until("the requests", ran).expect("they run");
    let data = number("used_memory_dataset").saturating_sub(data);
    let clients = number("mem_clients_normal").saturating_sub(clients);
    assert!(data < clients / 2, "{data} bytes of data, {clients} of clients");
    drop(slow_readers);
}

/// Returns a number from memcached's `stats`.
fn stat(client: &mut Connection, name: &str) -> u64 {
    client.send("stats\r\n");
    let mut found = None;
    loop {
        let line = client.line();
        if line == "END" {
            return found.unwrap_or_else(|| panic!("stats has no {name}"));
        }
        let value = line.strip_prefix("STAT ").and_then(|line| line.strip_prefix(name));
        found = value.and_then(|value| value.trim().parse().ok()).or(found);
    }
}

#[test]
fn any_limit_from_a_megabyte_on_holds_data_and_evicts_whatever_the_number_of_workers() {
    for (megabytes, threads, len) in [
        (1_u64, "4", 1000_u64),
        (2, "16", 1000),
        (2, "1", 30_000),
        (4, "64", 1000),
        (1, "128", 1000),
        (1, "192", 1000),
        (2, "256", 1000),
        (4, "256", 1000),
        (64, "32", 100_000),
    ] {
        let server = Server::nagi_as_memcached(&["-m", &megabytes.to_string(), "-t", threads]);
        let mut client = server.connect_memcached();
        assert_eq!(stat(&mut client, "bytes"), 0, "nothing is stored");
        let limit = megabytes << 20;
        let count = 2 * limit / len;
        let value = "v".repeat(len as usize);
        for key in 0..count {
            client.check_raw(format!("set key:{key} 0 0 {len}\r\n{value}\r\n"), "STORED\r\n");
        }
        let (used, held) = (stat(&mut client, "bytes"), stat(&mut client, "curr_items"));
        let what = format!("-m {megabytes} -t {threads}: {held} of {count} in {used} bytes");
        assert!(held * len > limit / 2 && used < limit + limit / 16, "{what}");
        // Housekeeping may evict between two reads of the statistics.
        let all_counted = until("counts of the same moment", || {
            let held = stat(&mut client, "curr_items");
            (stat(&mut client, "evictions") == count - held).then_some(())
        });
        assert!(all_counted.is_ok(), "{what}");
        client.check_raw(
            format!("get key:{}\r\n", count - 1),
            format!("VALUE key:{} 0 {len}\r\n{value}\r\nEND\r\n", count - 1),
        );
    }
}

#[test]
fn memory_of_workers_and_connections_is_overhead_and_not_limited() {
    let server = Server::nagi_with(&[
        "--workers",
        "16",
        "--maxmemory",
        "32mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ]);
    let mut client = server.connect_resp();
    let idle: Vec<Connection> = (0..500).map(|_| server.connect_resp()).collect();
    let mut of = |name: &str| info_of(&mut client, "memory", name);
    let startup = of("process_memory_startup");
    assert!((500_000..16 << 20).contains(&startup), "{startup}");
    assert!(of("used_memory_dataset") < 100_000, "{}", of("used_memory_dataset"));
    assert!(of("used_memory") < 100_000, "{}", of("used_memory"));
    assert!(of("process_memory") > startup + 500 * 1000, "connections take some");
    assert!(of("used_memory_overhead") < 100_000, "{}", of("used_memory_overhead"));
    assert!(of("allocator_allocated") >= startup + of("used_memory"));
    drop(idle);
    for round in 0..50 {
        client.send(mset(round * 4_000, 4_000));
        client.expect("+OK\r\n");
    }
    let keys = client.run("DBSIZE").integer();
    assert!(keys > 150_000, "{keys} of 200,000 keys of 150 bytes and a little");
}

/// Returns a figure from the reply to MEMORY STATS.
fn figure(report: &Reply, name: &str) -> f64 {
    let report = report.list();
    let at = report.iter().position(|it| matches!(it, Reply::Bulk(it) if it == name.as_bytes()));
    match &report[at.unwrap_or_else(|| panic!("{name}")) + 1] {
        Reply::Integer(number) => *number as f64,
        ratio => ratio.text().parse().expect("a ratio"),
    }
}

/// Returns the mean of MEMORY USAGE over all keys, rounded down.
fn mean_usage(client: &mut Connection) -> f64 {
    let keys = client.run("KEYS *");
    let usages = keys.list().iter().map(|key| {
        let usage = client.run(&format!("MEMORY USAGE {}", key.text())).integer();
        usage as f64
    });
    (usages.sum::<f64>() / keys.list().len() as f64).floor()
}

/// Memory that the process allocates for the very first key is not data. Otherwise, a key of two
/// bytes would seem to take kilobytes.
#[test]
fn one_small_key_takes_few_bytes() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    for (request, keys) in [("SET a b", 1.0), ("HSET b c d", 2.0)] {
        client.run(request);
        let report = client.run("MEMORY STATS");
        let (per_key, dataset) =
            (figure(&report, "keys.bytes-per-key"), figure(&report, "dataset.bytes"));
        assert_eq!(figure(&report, "keys.count"), keys);
        assert!((16.0..200.0).contains(&per_key), "{per_key} after {request}");
        assert_eq!(per_key, mean_usage(&mut client));
        assert!(dataset < 6000.0, "{dataset} after {request}");
    }
    // If there are many keys, they are not measured one by one.
    client.send(mset(0, 2000));
    client.expect("+OK\r\n");
    let report = client.run("MEMORY STATS");
    let (keys, dataset) = (figure(&report, "keys.count"), figure(&report, "dataset.bytes"));
    assert_eq!(figure(&report, "keys.bytes-per-key"), (dataset / keys).floor());
}

#[test]
fn the_report_of_memory_adds_up_for_little_data() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    client.send(mset(0, 100));
    client.expect("+OK\r\n");
    let report = client.run("MEMORY STATS");
    let of = |name: &str| figure(&report, name);
    let (total, overhead) = (of("total.allocated"), of("overhead.total"));
    let (dataset, startup) = (of("dataset.bytes"), of("startup.allocated"));
    assert!((total - overhead - dataset).abs() < 1.0);
    assert!(startup + of("clients.normal") <= overhead);
    assert!((10_000.0..60_000.0).contains(&dataset), "100 keys of 150 bytes take {dataset}");
    assert_eq!(of("keys.bytes-per-key"), mean_usage(&mut client), "each key by itself");
    let percentage = dataset / (total - startup) * 100.0;
    assert!((of("dataset.percentage") - percentage).abs() < 0.01);
    let text = client.run("INFO memory").text();
    let told = |name: &str| -> f64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
    };
    for (field, in_report) in [("dataset", dataset), ("startup", startup)] {
        let told = told(&format!("used_memory_{field}"));
        assert!((told - in_report).abs() < 4096.0, "{field}: {told} in INFO, {in_report}");
    }
    let used = told("used_memory");
    assert!((used - told("used_memory_dataset") - told("used_memory_overhead")).abs() < 1.0);
    assert!((told("allocator_allocated") - used - told("process_memory")).abs() < 1.0);
    assert!(told("used_memory_peak") >= used && told("process_memory_startup") > 100_000.0);
    assert!((told("used_memory_peak") - of("peak.allocated")).abs() < 100_000.0);
    let peak = of("peak.allocated");
    assert!(peak >= total && (of("peak.percentage") - total / peak * 100.0).abs() < 0.01);
}
