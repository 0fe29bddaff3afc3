//! Writes with few keys that take several slices. They must complete however busy these keys are,
//! and a request for one of the keys meanwhile must see the complete write or none of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Connection, Reply, Server, encode_command};

/// Starts a server with two workers.
fn server() -> Server {
    Server::nagi_with(&["--workers", "2"])
}

/// Stores a string that takes many slices to process.
fn store_long(client: &mut Connection, key: &str, bytes: usize) {
    client.check(&format!("SETRANGE {key} 0 {}", "\x55".repeat(bytes)), format!(":{bytes}\r\n"));
}

#[test]
fn a_write_to_keys_that_change_all_the_time_comes_to_an_end() {
    const BYTES: usize = 24 << 20;
    let server = server();
    let mut client = server.connect_resp();
    store_long(&mut client, "a", BYTES);
    store_long(&mut client, "b", BYTES);
    let elements: Vec<String> = (0..60_000).map(|number| number.to_string()).collect();
    let pfadd = encode_command(&[&["PFADD".into(), "sketch".into()], &elements[..]].concat());
    let mut bitfield = vec!["BITFIELD", "a"];
    (0..60_000).for_each(|_| bitfield.extend(["SET", "u8", "#20000000", "7"]));
    let bitfield = encode_command(&bitfield);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for (key, request) in [("a", "SETBIT a 5 1"), ("sketch", "PFADD sketch x")] {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut writer = server.connect_resp();
                let request = encode_command(&harness::words(request));
                for round in 0.. {
                    writer.send(&request);
                    let reply = writer.reply().integer();
                    assert!((0..=1).contains(&reply), "{key} in round {round}");
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for request in [&pfadd, &bitfield, &encode_command(&["BITOP", "XOR", "c", "a", "b"])] {
            // The other clients continue until each of these requests has its reply.
            client.send(request);
            drop(client.reply());
        }
        done.store(true, Ordering::Relaxed);
    });
    client.check("STRLEN c", format!(":{BYTES}\r\n"));
}

#[test]
fn restore_and_msetnx_of_one_key_never_both_succeed() {
    let server = server();
    let (mut restorer, mut setter) = (server.connect_resp(), server.connect_resp());
    store_long(&mut restorer, "source", 8 << 20);
    let Reply::Bulk(payload) = restorer.run("DUMP source") else { panic!("a payload") };
    let restore = encode_command(&[&b"RESTORE"[..], b"key", b"0", &payload]);
    let mut words = vec!["MSETNX".to_owned()];
    (0..20_000).for_each(|number| words.extend([format!("other:{number}"), "value".to_owned()]));
    words.extend(["key".to_owned(), "value".to_owned()]);
    let msetnx = encode_command(&words);
    for round in 0..60 {
        restorer.check("FLUSHALL", "+OK\r\n");
        thread::scope(|scope| {
            let restored = scope.spawn(|| {
                restorer.send(&restore);
                restorer.line() == "+OK"
            });
            let set = scope.spawn(|| {
                thread::yield_now();
                setter.send(&msetnx);
                setter.line() == ":1"
            });
            let (restored, set) = (restored.join().unwrap(), set.join().unwrap());
            assert!(restored != set, "round {round}: restored {restored}, set {set}");
        });
    }
}

#[test]
fn bits_are_combined_as_of_one_moment() {
    const KEYS: usize = 300;
    let server = server();
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    let mset = |value: &str| {
        let pairs = names.iter().flat_map(|name| [name.clone(), value.to_owned()]);
        encode_command(&[vec!["MSET".to_owned()], pairs.collect()].concat())
    };
    let (ones, zeros) = (mset(&"\x7f".repeat(20_000)), mset(&"\0".repeat(20_000)));
    let mut client = server.connect_resp();
    client.send(&ones);
    client.expect("+OK\r\n");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.connect_resp();
            while !done.load(Ordering::Relaxed) {
                for request in [&zeros, &ones] {
                    writer.send(request);
                    writer.expect("+OK\r\n");
                }
            }
        });
        // With all operands the command takes a claim, with few it does not.
        for operands in [&names[..], &names[KEYS - 2..]].into_iter().cycle().take(100) {
            let words: Vec<String> = ["BITOP", "XOR", "result"].map(str::to_owned).into();
            client.send(encode_command(&[&words, operands].concat()));
            client.expect(":20000\r\n");
            client.check("BITCOUNT result", ":0\r\n");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn numbers_with_decimals_lose_no_addition() {
    const ROUNDS: i64 = 400;
    let server = server();
    thread::scope(|scope| {
        // An amount with an exponent takes the slower code.
        for amount in ["0.5", "5e-1", "5e-1"] {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect_resp();
                for _ in 0..ROUNDS {
                    client.run(&format!("INCRBYFLOAT sum {amount}"));
                }
            });
        }
    });
    let sum = (ROUNDS * 3 / 2).to_string();
    server.connect_resp().check("GET sum", format!("${}\r\n{sum}\r\n", sum.len()));
}
