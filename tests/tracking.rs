//! Client-side caching: clients that keep copies must be notified when the copies become stale, as
//! by redis-server.

use harness::{Connection, Random, Reply, Server, as_redis, until};

fn both() -> [Server; 2] {
    [Server::nagi(), Server::redis()]
}

/// Connects a client that uses RESP3 and tracks keys with these options, and another client.
fn clients(server: &Server, options: &str) -> (Connection, Connection) {
    let mut tracker = server.connect_resp();
    assert!(matches!(tracker.run("HELLO 3"), Reply::Map(_)));
    tracker.check(&format!("CLIENT TRACKING ON {options}"), "+OK\r\n");
    (tracker, server.connect_resp())
}

fn invalidated(key: &str) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len())
}

#[test]
fn keys_that_a_client_has_read_are_invalidated() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "");
        for (read, reply, change) in [
            ("GET a", "_\r\n", "SET a 1"),
            ("MGET a b", "*2\r\n$1\r\n1\r\n_\r\n", "INCR a"),
            ("GET a", "$1\r\n2\r\n", "EXPIRE a 100"),
            ("EXISTS a", ":1\r\n", "DEL a"),
            ("HGETALL a", "%0\r\n", "HSET a x y"),
            ("HGET a x", "$1\r\ny\r\n", "RENAME a c"),
        ] {
            tracker.check(read, reply);
            other.run(change);
            tracker.expect(invalidated("a"));
        }
        // A key is invalidated only once until it is read again; a key that was only written is not
        // tracked.
        other.run("SET a 1");
        tracker.check("SET b 1", "+OK\r\n");
        tracker.expect(invalidated("b"));
        tracker.check("SET b 2", "+OK\r\n");
        tracker.check("PING", "+PONG\r\n");
        // The invalidations of the client's own changes follow its replies.
        tracker.check("GET b", "$1\r\n2\r\n");
        tracker.check("SET b 3", "+OK\r\n");
        tracker.expect(invalidated("b"));
        tracker.check("GET b", "$1\r\n3\r\n");
        other.check("FLUSHALL", "+OK\r\n");
        tracker.expect(">2\r\n$10\r\ninvalidate\r\n_\r\n");
        tracker.check("CLIENT TRACKING OFF", "+OK\r\n");
        tracker.check("GET b", "_\r\n");
        other.run("SET b 1");
        tracker.check("PING", "+PONG\r\n");
    }
}

#[test]
fn keys_that_expire_are_invalidated() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "");
        other.check("SET a 1 PX 30", "+OK\r\n");
        tracker.check("GET a", "$1\r\n1\r\n");
        tracker.expect(invalidated("a"));
        other.check("EXISTS a", ":0\r\n");
    }
}

#[test]
fn clients_choose_what_is_tracked() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "OPTIN");
        tracker.check("GET a", "_\r\n");
        tracker.check("CLIENT CACHING YES", "+OK\r\n");
        tracker.check("GET b", "_\r\n");
        tracker.check("GET c", "_\r\n");
        other.run("MSET a 1 b 1 c 1");
        tracker.expect(invalidated("b"));
        tracker.check("CLIENT CACHING YES", "+OK\r\n");
        tracker.check("MULTI", "+OK\r\n");
        tracker.check("GET a", "+QUEUED\r\n");
        tracker.check("GET c", "+QUEUED\r\n");
        tracker.check("EXEC", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
        other.run("SET a 2");
        tracker.expect(invalidated("a"));
        other.run("SET c 2");
        tracker.expect(invalidated("c"));
        let (mut tracker, mut other) = clients(&server, "OPTOUT");
        tracker.check("CLIENT CACHING NO", "+OK\r\n");
        tracker.check("GET a", "$1\r\n2\r\n");
        tracker.check("GET b", "$1\r\n1\r\n");
        other.run("MSET a 1 b 2");
        tracker.expect(invalidated("b"));
        // A refused request is the next one, too.
        for refused in ["GET", "NOSUCH", "CLIENT NOSUCH"] {
            tracker.check("CLIENT CACHING NO", "+OK\r\n");
            assert!(matches!(tracker.run(refused), Reply::Error(_)), "{refused}");
            tracker.run("GET b");
            other.run("SET b 2");
            tracker.expect(invalidated("b"));
        }
        let (mut tracker, mut other) = clients(&server, "NOLOOP");
        tracker.check("MGET a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        tracker.check("SET a 9", "+OK\r\n");
        other.run("SET b 9");
        tracker.expect(invalidated("b"));
    }
}

/// The choice also applies if the next request blocks.
#[test]
fn a_choice_is_for_one_request() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "OPTIN");
        tracker.check("CLIENT CACHING YES", "+OK\r\n");
        tracker.send(harness::encode_command(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
        until_one_waits(&mut other);
        other.run("XADD s 1-0 f v");
        let came = [1, 2].map(|_| tracker.reply());
        assert!(came.iter().any(|it| matches!(it, Reply::Map(_))), "{came:?}");
        tracker.check("GET a", "_\r\n");
        other.check("SET a 1", "+OK\r\n");
        tracker.check("PING", "+PONG\r\n");
    }
}

#[test]
fn prefixes_are_invalidated_without_a_read() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "BCAST PREFIX user: PREFIX item:");
        other.run("SET other 1");
        other.run("SET user:1 x");
        tracker.expect(invalidated("user:1"));
        other.run("SET item:7 x");
        tracker.expect(invalidated("item:7"));
        other.run("DEL user:1");
        tracker.expect(invalidated("user:1"));
        // There is one push for each prefix, in the order of the prefixes.
        other.run("MSET user:2 x item:8 x user:3 x");
        let [item, users] = [1, 2].map(|_| match tracker.reply() {
            Reply::Push(parts) => parts,
            other => panic!("a push, not {other:?}"),
        });
        assert_eq!(item[1].list().len(), 1, "{item:?}");
        assert_eq!(users[1].list().len(), 2, "{users:?}");
        // A key that a request changes twice is named once.
        other.run("MSET user:9 x user:4 x user:9 y");
        let Reply::Push(users) = tracker.reply() else { panic!("a push") };
        let keys: Vec<_> = users[1].list().iter().map(Reply::text).collect();
        assert_eq!(keys, ["user:4", "user:9"]);
        tracker.check("PING", "+PONG\r\n");
    }
}

/// A client that was blocked until a change is notified of this change once, and of the next
/// change, as in Redis since 7.2.
#[test]
fn keys_read_by_a_blocked_client_are_tracked_once() {
    let server = Server::nagi();
    let (mut tracker, mut other) = clients(&server, "");
    // This is repeated, because the workers of both clients may be interleaved in several ways.
    for _ in 0..100 {
        let read = ["XREAD", "BLOCK", "0", "STREAMS", "s", "t", "$", "$"];
        tracker.send(harness::encode_command(&read));
        until_one_waits(&mut other);
        other.run("XADD s 1-0 f v");
        let came = [1, 2].map(|_| tracker.reply());
        assert!(came.iter().any(|it| matches!(it, Reply::Map(_))), "{came:?}");
        assert!(came.iter().any(|it| matches!(it, Reply::Push(_))), "{came:?}");
        for key in ["s", "t"] {
            other.run(&format!("XADD {key} 2-0 f v"));
            tracker.expect(invalidated(key));
        }
        other.run("XADD s 3-0 f v");
        other.run("DEL s t");
        tracker.check("PING", "+PONG\r\n");
    }
}

fn until_one_waits(client: &mut Connection) {
    until("a client that waits", || {
        let clients = client.run("INFO clients").text();
        clients.contains("blocked_clients:1\r\n").then_some(())
    })
    .unwrap();
}

#[test]
fn invalidations_are_redirected_to_another_client() {
    for server in both() {
        let mut listener = server.connect_resp();
        let id = listener.run("CLIENT ID").integer();
        let channel = "$20\r\n__redis__:invalidate\r\n";
        listener.check(
            "SUBSCRIBE __redis__:invalidate",
            format!("*3\r\n$9\r\nsubscribe\r\n{channel}:1\r\n"),
        );
        let mut tracker = server.connect_resp();
        tracker.check(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK\r\n");
        tracker.check("CLIENT GETREDIR", format!(":{id}\r\n"));
        let mut other = server.connect_resp();
        tracker.check("GET a", "$-1\r\n");
        other.run("SET a 1");
        listener.expect(format!("*3\r\n$7\r\nmessage\r\n{channel}*1\r\n$1\r\na\r\n"));
        other.run("FLUSHALL");
        listener.expect(format!("*3\r\n$7\r\nmessage\r\n{channel}$-1\r\n"));
        assert!(matches!(tracker.run("HELLO 3"), Reply::Map(_)));
        tracker.check("GET a", "_\r\n");
        drop(listener);
        until("the listener has gone", || {
            (!other.run("CLIENT LIST").text().contains(&format!("id={id} "))).then_some(())
        })
        .unwrap();
        other.run("SET a 2");
        tracker.expect(format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n"));
        let info = format!("{:?}", tracker.run("CLIENT TRACKINGINFO"));
        assert!(info.contains(&format!("{:?}", b"broken_redirect".to_vec())), "{info}");
    }
}

#[test]
fn options_are_checked() {
    let switching = "before disabling tracking for this client, and then re-enabling it with a \
                     different mode.\r\n";
    let caching = "-ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                   OPTIN or OPTOUT mode enabled\r\n";
    as_redis(&[
        ("CLIENT GETREDIR", ":-1\r\n"),
        ("CLIENT CACHING YES", caching),
        ("CLIENT TRACKING MAYBE", "-ERR syntax error\r\n"),
        ("CLIENT TRACKING ON NOSUCH", "-ERR syntax error\r\n"),
        (
            "CLIENT TRACKING ON REDIRECT 999999",
            "-ERR The client ID you want redirect to does not exist\r\n",
        ),
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n"),
        (
            "CLIENT TRACKING ON BCAST OPTIN",
            "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n",
        ),
        (
            "CLIENT TRACKING ON OPTIN OPTOUT",
            "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n",
        ),
        (
            "CLIENT TRACKING ON BCAST PREFIX ab PREFIX a",
            "-ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single \
             client must not overlap.\r\n",
        ),
        ("CLIENT TRACKING ON BCAST PREFIX ab PREFIX c", "+OK\r\n"),
        ("CLIENT TRACKING ON", &format!("-ERR You can't switch BCAST mode on/off {switching}")),
        (
            "CLIENT TRACKING ON BCAST PREFIX a",
            "-ERR Prefix 'a' overlaps with an existing prefix 'ab'. Prefixes for a single client \
             must not overlap.\r\n",
        ),
        (
            "CLIENT CACHING YES",
            "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.\r\n",
        ),
        ("CLIENT TRACKING ON BCAST", "+OK\r\n"),
        (
            "CLIENT TRACKING ON BCAST PREFIX d",
            "-ERR Prefix 'd' overlaps with an existing prefix ''. Prefixes for a single client \
             must not overlap.\r\n",
        ),
        ("CLIENT TRACKING OFF", "+OK\r\n"),
        ("CLIENT TRACKING ON OPTIN", "+OK\r\n"),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n",
        ),
        (
            "CLIENT TRACKING ON OPTOUT",
            &format!("-ERR You can't switch OPTIN/OPTOUT mode {switching}"),
        ),
        ("CLIENT GETREDIR", ":0\r\n"),
        ("RESET", "+RESET\r\n"),
        ("CLIENT GETREDIR", ":-1\r\n"),
    ]);
}

#[test]
fn the_table_has_a_limit() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "");
        let (mut told_by_prefix, _) = clients(&server, "BCAST");
        other.check("CONFIG SET tracking-table-max-keys 10", "+OK\r\n");
        for key in 0..15 {
            tracker.send(harness::encode_command(&["GET", &format!("key:{key}")]));
        }
        let mut told = 0;
        for _ in 0..15 + 5 {
            if let Reply::Push(_) = tracker.reply() {
                told += 1;
            }
        }
        assert_eq!(told, 5);
        let info = other.run("INFO stats").text();
        assert!(info.contains("tracking_total_keys:10\r\n"), "{info}");
        // None of the keys was changed, so no invalidation is sent.
        told_by_prefix.check("PING", "+PONG\r\n");
    }
}

/// A lower limit takes effect immediately.
#[test]
fn keys_are_invalidated_when_the_limit_becomes_lower() {
    for server in both() {
        let (mut client, mut other) = clients(&server, "");
        other.check("MSET a 1 b 2", "+OK\r\n");
        client.run("MGET a b");
        other.check("CONFIG SET tracking-table-max-keys 1", "+OK\r\n");
        assert!(matches!(client.reply(), Reply::Push(_)));
        until("one key to be left", || {
            let text = other.run("INFO stats").text();
            text.contains("tracking_total_keys:1\r\n").then_some(())
        })
        .unwrap();
    }
}

/// Keys that a client read before it switched to prefixes are not invalidated a second time.
#[test]
fn a_change_is_reported_once() {
    for server in both() {
        let (mut client, mut other) = clients(&server, "");
        other.check("SET a 1", "+OK\r\n");
        client.run("GET a");
        client.run("CLIENT TRACKING off");
        client.run("CLIENT TRACKING on BCAST");
        other.check("INCR a", ":2\r\n");
        client.expect(invalidated("a"));
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn keys_are_tracked_until_no_client_tracks() {
    for (number, server) in both().into_iter().enumerate() {
        let (mut tracker, mut other) = clients(&server, "");
        let (mut second, _) = clients(&server, "");
        let figures = |keys: usize, items: usize, other: &mut Connection| {
            let info = other.run("INFO stats").text();
            let expected =
                format!("tracking_total_keys:{keys}\r\ntracking_total_items:{items}\r\n");
            info.contains(&expected).then_some(()).ok_or(info)
        };
        tracker.check("MGET a b", "*2\r\n_\r\n_\r\n");
        second.check("GET b", "_\r\n");
        figures(2, 3, &mut other).unwrap();
        other.check("SET b 1", "+OK\r\n");
        tracker.expect(invalidated("b"));
        second.expect(invalidated("b"));
        figures(1, 1, &mut other).unwrap();
        drop(second);
        // Enabling tracking again does not forget the keys that were read.
        tracker.check("CLIENT TRACKING ON NOLOOP", "+OK\r\n");
        other.check("SET a 1", "+OK\r\n");
        tracker.expect(invalidated("a"));
        tracker.check("GET a", "$1\r\n1\r\n");
        figures(1, 1, &mut other).unwrap();
        drop(tracker);
        // redis-server keeps the other keys until they are changed.
        if number == 0 {
            until("all is forgotten", || figures(0, 0, &mut other).ok()).unwrap();
        }
    }
}

/// A client drops its copies when it is notified, while other clients change keys. At the end it
/// must have no outdated copy.
#[test]
fn no_copy_is_old_in_the_end() {
    const KEYS: u64 = 20;
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut random = Random::announced();
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (mut writer, mut random) = (server.connect_resp(), random.fork());
            std::thread::spawn(move || {
                for _ in 0..4000 {
                    let key = random.below(KEYS);
                    assert!(matches!(writer.run(&format!("INCR {key}")), Reply::Integer(_)));
                }
            })
        })
        .collect();
    let (mut tracker, mut other) = clients(&server, "");
    let mut copies = std::collections::BTreeMap::new();
    let drop_copies = |push: &[Reply], copies: &mut std::collections::BTreeMap<String, String>| {
        assert_eq!(push[0].text(), "invalidate");
        push[1].list().iter().for_each(|key| {
            copies.remove(&key.text());
        });
    };
    let mut left = KEYS as usize;
    while left > 0 {
        let key = random.below(KEYS).to_string();
        // After all writes, only keys without a copy are read.
        if writers.iter().all(|writer| writer.is_finished()) {
            left -= 1;
            if copies.contains_key(&left.to_string()) {
                continue;
            }
        }
        tracker.send(harness::encode_command(&["GET", &key]));
        loop {
            match tracker.reply() {
                Reply::Push(push) => drop_copies(&push, &mut copies),
                reply => {
                    if let Reply::Bulk(value) = reply {
                        copies.insert(key, String::from_utf8(value).unwrap());
                    }
                    break;
                }
            }
        }
    }
    writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
    // When this notification arrives, all earlier ones have arrived.
    other.check("SET mark 1", "+OK\r\n");
    tracker.send(harness::encode_command(&["GET", "mark"]));
    other.run("SET mark 2");
    loop {
        match tracker.reply() {
            Reply::Push(push) if push[1].list().iter().any(|key| key.text() == "mark") => break,
            Reply::Push(push) => drop_copies(&push, &mut copies),
            _ => {
                other.run("SET mark 2");
            }
        }
    }
    assert!(!copies.is_empty());
    for (key, copy) in copies {
        assert_eq!(other.run(&format!("GET {key}")).text(), copy, "{key}");
    }
}

/// The keys that a script declares are not read by that.
#[test]
fn declared_keys_of_scripts_are_not_tracked() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "");
        tracker.check("EVAL_RO \"return 1\" 1 a", ":1\r\n");
        other.run("SET a 1");
        tracker.check("PING", "+PONG\r\n");
        tracker.check("EVAL_RO \"return redis.call('exists', KEYS[1])\" 1 b", ":0\r\n");
        other.run("SET b 1");
        tracker.expect(invalidated("b"));
    }
}

/// A change of a key for which another client waits is made in another way.
#[test]
fn clients_that_wait_change_nothing_for_clients_that_track() {
    for server in both() {
        let (mut tracker, mut other) = clients(&server, "NOLOOP");
        let mut waiter = server.connect_resp();
        tracker.check("XLEN s", ":0\r\n");
        waiter.send(harness::encode_command(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
        until_one_waits(&mut other);
        tracker.check("XADD s 1-0 f v", "$3\r\n1-0\r\n");
        waiter.reply();
        tracker.check("PING", "+PONG\r\n");
        // The client that waits has moved the element.
        tracker.check("LLEN to", ":0\r\n");
        waiter.send(harness::encode_command(&["BLMOVE", "from", "to", "LEFT", "LEFT", "0"]));
        until_one_waits(&mut other);
        tracker.check("RPUSH from x", ":1\r\n");
        tracker.expect(invalidated("to"));
        waiter.reply();
        tracker.check("CLIENT TRACKING OFF", "+OK\r\n");
        tracker.check("CLIENT TRACKING ON OPTOUT", "+OK\r\n");
        waiter.send(harness::encode_command(&["BLPOP", "q", "0"]));
        until_one_waits(&mut other);
        tracker.check("CLIENT CACHING NO", "+OK\r\n");
        tracker.check("RPUSH q x", ":1\r\n");
        waiter.reply();
        // The choice was for the request before.
        tracker.check("GET k", "_\r\n");
        other.check("SET k 1", "+OK\r\n");
        tracker.expect(invalidated("k"));
    }
}
