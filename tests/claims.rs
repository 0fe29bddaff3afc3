//! Requests with very many keys must be atomic for other clients, however many slices they take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Connection, Reply, Server, encode_command, until};

/// More keys than are ever latched together.
const MANY: usize = 5000;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("key:{index}")).collect()
}

/// Returns the words of `command` with every key, each followed by `value` if given.
fn with_keys(command: &str, keys: &[String], value: Option<&str>) -> Vec<String> {
    let mut words = vec![command.to_owned()];
    for key in keys {
        words.push(key.clone());
        words.extend(value.map(str::to_owned));
    }
    words
}

/// Returns the distinct values of an MGET.
fn distinct(reply: &Reply) -> Vec<String> {
    let mut values: Vec<String> = reply.list().iter().map(|value| format!("{value:?}")).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn very_many_keys_are_served_like_few() {
    let (server, redis) = (Server::nagi(), Server::redis());
    let keys = names(MANY);
    let twice: Vec<String> = keys.iter().chain(&keys).cloned().collect();
    let some: Vec<String> = keys.iter().step_by(2).cloned().collect();
    let requests = [
        with_keys("MGET", &keys, None),
        with_keys("MSETNX", &some, Some("first")),
        with_keys("MSETNX", &keys, Some("second")),
        with_keys("MGET", &twice, None),
        with_keys("MSET", &twice, Some("third")),
        with_keys("EXISTS", &twice, None),
        with_keys("TOUCH", &keys, None),
        with_keys("UNLINK", &some, None),
        with_keys("MGET", &keys, None),
        with_keys("DEL", &twice, None),
        with_keys("MSET", &keys, Some("fourth"))[..2 * MANY].to_vec(),
        vec!["DBSIZE".to_owned()],
    ];
    let (mut ours, mut theirs) = (server.connect_resp(), redis.connect_resp());
    for request in requests {
        assert_eq!(ours.run_words(&request), theirs.run_words(&request), "{}", request[0]);
    }
}

#[test]
fn requests_around_one_with_very_many_keys_are_answered_in_order() {
    let server = Server::nagi();
    let keys = names(MANY);
    let set = |value| encode_command(&with_keys("MSET", &keys, Some(value)));
    let get = encode_command(&["GET", "key:4999"]);
    let all = [&get[..], &set("first"), &get, &set("second"), &set("third"), &get].concat();
    for piece_bytes in [1000, 40_000, all.len()] {
        let mut connection = server.connect_resp();
        for piece in all.chunks(piece_bytes) {
            connection.send(piece);
        }
        let replies: Vec<Reply> = (0..6).map(|_| connection.reply()).collect();
        let text = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
        let ok = || Reply::Simple("OK".to_owned());
        assert_eq!(replies, [Reply::Null, ok(), text("first"), ok(), ok(), text("third")]);
        assert_eq!(connection.run_words(&with_keys("DEL", &keys, None)), Reply::Integer(5000));
    }
}

#[test]
fn other_clients_see_all_of_it_or_nothing() {
    let server = Server::nagi_with(&["--workers", "3"]);
    let keys = names(MANY);
    server.connect_resp().run_words(&with_keys("MSET", &keys, Some("start")));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = ["left", "right"]
            .map(|value| {
                let (server, mut keys) = (&server, keys.clone());
                scope.spawn(move || {
                    let mut connection = server.connect_resp();
                    for _ in 0..20 {
                        // The keys are in opposite orders in different requests.
                        keys.reverse();
                        keys.rotate_left(value.len() * 100);
                        let reply = connection.run_words(&with_keys("MSET", &keys, Some(value)));
                        assert_eq!(reply.text(), "OK");
                    }
                })
            })
            .into_iter()
            .collect();
        let readers: Vec<_> = [3, 100, MANY]
            .map(|count| {
                let (server, keys, done) = (&server, &keys, &done);
                scope.spawn(move || {
                    let mut connection = server.connect_resp();
                    // The keys are spread over all keys, so that some belong to an early slice and
                    // some to a late one.
                    let spread: Vec<String> = keys.iter().step_by(MANY / count).cloned().collect();
                    let request = with_keys("MGET", &spread, None);
                    let mut rounds = 0;
                    while !done.load(Ordering::Relaxed) || rounds < 20 {
                        let seen = distinct(&connection.run_words(&request));
                        assert_eq!(seen.len(), 1, "{count} keys at one moment: {seen:?}");
                        rounds += 1;
                    }
                })
            })
            .into_iter()
            .collect();
        for writer in writers {
            writer.join().expect("the writer ends well");
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("the reader ends well"));
    });
}

#[test]
fn both_protocols_and_whole_databases_wait_their_turn() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let keys = names(MANY);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut connection = server.connect_resp();
            for _ in 0..30 {
                let reply = connection.run_words(&with_keys("MSET", &keys, Some("value")));
                assert_eq!(reply.text(), "OK");
            }
        });
        let counter = scope.spawn(|| {
            let mut connection = server.connect_memcached();
            for _ in 0..200 {
                connection.check_raw("set key:77 0 0 1\r\n1\r\n", "STORED\r\n");
            }
        });
        let flusher = scope.spawn(|| {
            let mut connection = server.connect_resp();
            for _ in 0..30 {
                assert_eq!(connection.run("FLUSHALL").text(), "OK");
                let size = connection.run("DBSIZE").integer();
                assert!(size <= MANY as i64);
            }
        });
        for thread in [writer, counter, flusher] {
            thread.join().expect("ends well");
        }
    });
    let mut connection = server.connect_resp();
    connection.check("FLUSHALL", "+OK\r\n");
    connection.check("DBSIZE", ":0\r\n");
}

/// Runs a script that writes a key and reads it at its end, again and again, while another client
/// repeats `disturb`. The script must not see its changes.
fn scripts_run_alone(disturb: impl Fn(&mut Connection) + Sync) {
    let server = Server::nagi_with(&["--workers", "2"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.connect_memcached();
            while !is_over.load(Ordering::Relaxed) {
                disturb(&mut client);
            }
        });
        let script = "redis.call('SET', 'x', 'set') \
                      for i = 1, 3000 do redis.call('GET', 'x') end \
                      return redis.call('GET', 'x') or 'gone'";
        let mut client = server.connect_resp();
        let results: Vec<String> =
            (0..200).map(|_| client.run_words(&["EVAL", script, "1", "x"]).text()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(|result| result == "set"), "{results:?}");
    });
}

/// A request with very many keys runs in slices, between which other requests claim keys.
#[test]
fn memcached_clients_wait_for_keys_that_are_claimed_meanwhile() {
    let request = format!("gat -1 {} x\r\n", vec!["a"; 7900].join(" "));
    scripts_run_alone(|client| {
        client.send(&request);
        while client.line() != "END" {}
    });
}

/// memcached ignores further words of a line: they are no keys.
#[test]
fn memcached_clients_wait_for_a_claimed_key_whatever_the_length_of_the_line() {
    let request = format!("touch x -1{}\r\n", " word".repeat(200));
    scripts_run_alone(|client| {
        client.send(&request);
        client.line();
    });
}

#[test]
fn a_flush_of_the_binary_protocol_waits_for_claims() {
    let flush = crate::memcached::binary::encode(0x08, 0, 0, b"", "", "");
    scripts_run_alone(|client| {
        client.send(&flush);
        assert_eq!(crate::memcached::binary::receive(client).status, 0);
    });
}

#[test]
fn commands_that_have_begun_end_even_if_their_client_disconnects() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let keys = names(20 * MANY);
    let mut witness = server.connect_resp();
    for round in 0..5 {
        let value = format!("round {round}");
        let request = harness::encode_command(&with_keys("MSET", &keys, Some(&value)));
        let mut leaver: Connection = server.connect_resp();
        leaver.send(&request);
        drop(leaver);
        until("only the witness is there", || {
            (witness.run("CLIENT LIST").text().lines().count() == 1).then_some(())
        })
        .expect("the client is gone");
        let seen = distinct(&witness.run_words(&with_keys("MGET", &keys, None)));
        assert_eq!(seen.len(), 1, "all or nothing: {seen:?}");
        witness.check("PING", "+PONG\r\n");
    }
}

/// Each claimed key takes memory.
#[test]
fn a_script_claims_everything_instead_of_very_many_keys() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let [mut script, mut writer, mut other] = [(); 3].map(|()| server.connect_resp());
    let text = "for i = 1, 65537 do redis.call('EXISTS', i) end redis.call('SET', 'mark', 1) \
                while redis.call('PUBSUB', 'NUMSUB', 'end')[2] == 0 do end \
                return redis.call('EXISTS', 'free')";
    script.send(encode_command(&["EVAL", text, "0"]));
    let has_claimed = || (other.run("DBSIZE") == Reply::Integer(1)).then_some(());
    until("the script to claim its keys", has_claimed).expect("it does");
    // The script would see this change if it had not claimed the key.
    writer.send(encode_command(&["SET", "free", "1"]));
    other.run("SUBSCRIBE end");
    script.expect(":0\r\n");
    writer.expect("+OK\r\n");
}

/// After a script, clients are served in the order in which it has changed their keys.
#[test]
fn keys_that_a_script_changes_are_served_in_order() {
    let names: Vec<String> = (0..16).map(|number| format!("l{number}")).collect();
    for server in [Server::redis(), Server::nagi_with(&["--workers", "1"])] {
        let mut client = server.connect_resp();
        let waiting: Vec<Connection> = names
            .iter()
            .map(|name| {
                let mut waiting = server.connect_resp();
                waiting.send(encode_command(&["BLMOVE", name, "out", "LEFT", "RIGHT", "0"]));
                waiting
            })
            .collect();
        let field = format!("blocked_clients:{}\r\n", waiting.len());
        until("clients that wait", || {
            client.run("INFO clients").text().contains(&field).then_some(())
        })
        .unwrap();
        let script = "for i = #KEYS, 1, -1 do redis.call('RPUSH', KEYS[i], KEYS[i]) end";
        let mut request = vec!["EVAL", script, "16"];
        request.extend(names.iter().map(String::as_str));
        client.send(encode_command(&request));
        client.expect("$-1\r\n");
        let moved = client.run("LRANGE out 0 -1");
        let moved: Vec<String> = moved.list().iter().map(Reply::text).collect();
        assert!(moved.iter().eq(names.iter().rev()), "{moved:?}");
    }
}
