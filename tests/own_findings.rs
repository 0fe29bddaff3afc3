//! nagi's findings about itself must be on its page, in `?json`, and in the replies of MEMORY
//! DOCTOR and LATENCY DOCTOR. The rows are those of `nagi doctor`.

use harness::{Connection, Server, encode_command, skipped, until};

use crate::faults::{CONTENDED, Moment};
use crate::protection::outer_address;

fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

/// Returns the body of a page.
fn get(server: &Server, path: &str) -> String {
    let mut client = Connection::open(server.http());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    let text = String::from_utf8(client.rest()).expect("text");
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

fn findings(server: &Server) -> Vec<serde_json::Value> {
    let body = get(server, "/server-status?json");
    let page: serde_json::Value =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    page["findings"].as_array().expect("a list").clone()
}

/// Waits until a finding is shown in all four places, while `work` is repeated.
#[track_caller]
fn check(server: &Server, client: &mut Connection, name: &str, mut work: impl FnMut()) {
    let found = until(name, || {
        work();
        findings(server).into_iter().find(|it| it["name"] == name)
    });
    let found = found.unwrap_or_else(|problem| panic!("{problem}: {:?}", findings(server)));
    let verdict = found["verdict"].as_str().expect("text");
    assert!(!verdict.is_empty() && found["remedies"][0].is_string(), "{found}");
    assert!(found["level"] == "finding" || found["level"] == "notice", "{found}");
    // The verdict contains numbers that change from sample to sample, so only the name is compared.
    until("the page", || {
        work();
        let page = get(server, "/server-status");
        page.contains(&format!("<td class=\"text\">{name}</td>")).then_some(())
    })
    .expect("it shows that");
    for report in ["MEMORY DOCTOR", "LATENCY DOCTOR"] {
        until(report, || {
            work();
            client.run(report).text().contains(&format!(" {name}: ")).then_some(())
        })
        .expect("it speaks of that");
    }
}

#[test]
fn a_healthy_nagi_has_no_findings() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    until("a sample of requests", || {
        (0..100).for_each(|_| drop(client.run("SET key value")));
        let body = get(&server, "/server-status?json");
        let page: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        (page["requests_per_second"].as_u64() > Some(0)).then_some(())
    })
    .expect("it is taken");
    assert_eq!(findings(&server), [serde_json::Value::Null; 0]);
    let page = get(&server, "/server-status");
    assert!(page.contains("<dt>Findings</dt><dd>none</dd>"), "{page}");
    assert!(!page.contains("<h2>Findings</h2>"), "{page}");
    for report in ["MEMORY DOCTOR", "LATENCY DOCTOR"] {
        let text = client.run(report).text();
        assert!(!text.contains("* finding ") && !text.contains("* notice "), "{text}");
    }
}

#[test]
fn full_memory_is_found() {
    for (policy, word) in [("allkeys-lru", "are evicted"), ("noeviction", "writes are refused")] {
        let server = nagi(&["--maxmemory", "8mb", "--maxmemory-policy", policy]);
        let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
        let (value, mut number) = ("v".repeat(10_000), 0);
        let fill = || {
            for _ in 0..200 {
                number += 1;
                other.run_words(&["SET", &format!("key:{number}"), &value]);
            }
        };
        check(&server, &mut client, "memory-at-its-limit", fill);
        let found = findings(&server);
        let found = found.iter().find(|it| it["name"] == "memory-at-its-limit").expect("it stays");
        assert!(found["verdict"].as_str().expect("text").contains(word), "{found}");
    }
}

#[test]
fn writes_that_memcached_clients_are_refused_are_found() {
    let server = nagi(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]);
    let (mut client, mut number) = (server.connect_memcached(), 0);
    let value = "v".repeat(10_000);
    until("refused writes", || {
        for _ in 0..200 {
            number += 1;
            client.send(format!("set key:{number} 0 0 10000\r\n{value}\r\n"));
            client.line();
        }
        let found = findings(&server);
        let mut verdicts = found.iter().filter_map(|it| it["verdict"].as_str());
        verdicts.any(|it| it.contains("writes are refused")).then_some(())
    })
    .expect("they are found");
}

#[test]
fn a_failed_save_is_found_until_one_succeeds() {
    let folder = std::env::temp_dir().join(format!("nagi-findings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.to_str().expect("text");
    let server = nagi(&["--enable-protected-configs", "yes", "--dir", path]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    client.check(&format!("CONFIG SET dbfilename {}", "x".repeat(300)), "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    check(&server, &mut client, "failed-saves", || {});
    client.check("CONFIG SET dbfilename dump.rdb", "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    until("none", || findings(&server).is_empty().then_some(())).expect("it was repaired");
    assert!(!client.run("MEMORY DOCTOR").text().contains("failed-saves"));
    drop(server);
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_slow_reader_is_found() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    client.run_words(&["SET", "large", &"v".repeat(1 << 20)]);
    let mut reader = server.connect_resp();
    (0..32).for_each(|_| reader.send(encode_command(&["GET", "large"])));
    check(&server, &mut client, "slow-reader", || {});
}

#[test]
fn clients_that_protected_mode_refuses_want_no_place() {
    let Some(outer) = outer_address() else {
        return skipped("this machine has no address but loopback");
    };
    let server = nagi(&["--bind", "0.0.0.0"]);
    let port = server.resp().port();
    let mut client = Connection::open(([127, 0, 0, 1], port).into());
    let rejected = |client: &mut Connection| {
        let stats = client.run("INFO stats").text();
        stats.contains("rejected_connections:5\r\nrejected_by_protected_mode:5\r\n")
    };
    for _ in 0..5 {
        let refused = Connection::open((outer, port).into()).rest();
        assert!(refused.starts_with(b"-DENIED "));
    }
    assert!(rejected(&mut client));
    until("samples with and after them", || {
        (0..100).for_each(|_| drop(client.run("SET key value")));
        let body = get(&server, "/server-status?json");
        let page: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert!(!page["findings"].to_string().contains("clients-refused"), "{body}");
        (page["requests_per_second"].as_u64() > Some(0)).then_some(())
    })
    .expect("they are taken");
    for report in ["MEMORY DOCTOR", "LATENCY DOCTOR"] {
        let text = client.run(report).text();
        assert!(!text.contains("clients-refused"), "{text}");
    }
}

#[test]
fn monitor_is_found_until_it_ends() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let mut watcher = server.connect_resp();
    watcher.check("MONITOR", "+OK\r\n");
    check(&server, &mut client, "monitor-running", || {});
    drop(watcher);
    until("none", || findings(&server).is_empty().then_some(())).expect("it has ended");
}

#[test]
fn keys_that_expire_at_once_are_found() {
    let server = nagi(&[]);
    let (mut client, mut other, mut number) = (server.connect_resp(), server.connect_resp(), 0);
    check(&server, &mut client, "mass-expiry", || {
        let keys = number..number + 20_000;
        number = keys.end;
        let set = |key| encode_command(&["SET", &format!("key:{key}"), "v", "PX", "20"]);
        other.send(keys.flat_map(set).collect::<Vec<u8>>());
        other.expect("+OK\r\n".repeat(20_000));
    });
}

#[test]
fn a_hot_key_is_found_and_not_named() {
    let server = nagi(&[]);
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    let requests = encode_command(&["GET", "customer:alice"]).repeat(10_000);
    check(&server, &mut client, "hot-key", || {
        other.send(&requests);
        other.expect("$-1\r\n".repeat(10_000));
    });
    let told = format!("{:?}", findings(&server));
    assert!(!told.contains("alice"), "{told}");
}

#[test]
fn a_connection_for_each_request_is_found() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    check(&server, &mut client, "no-keep-alive", || {
        (0..20).for_each(|_| drop(server.connect_resp().run("GET key")));
    });
}

#[test]
fn a_busy_worker_is_found() {
    let server = nagi(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let mut others: Vec<Connection> = (0..2).map(|_| server.connect_resp()).collect();
    let keys: Vec<String> = (0..10).map(|number| format!("value:{number}")).collect();
    let value = "v".repeat(1 << 16);
    keys.iter().for_each(|key| drop(client.run_words(&["SET", key, &value])));
    let requests: Vec<u8> =
        keys.iter().flat_map(|key| encode_command(&["BITCOUNT", key])).collect();
    let requests = requests.repeat(20);
    let replies = ":327680\r\n".repeat(10 * 20);
    // Two batches are in flight, so that the worker never waits for a batch.
    others.iter_mut().for_each(|other| other.send(&requests));
    let begun = Moment::now();
    let found = until("one-thread-busy", || {
        for other in &mut others {
            other.expect(&replies);
            other.send(&requests);
        }
        findings(&server).into_iter().find(|it| it["name"] == "one-thread-busy")
    });
    match found {
        Ok(found) => assert!(found["verdict"].as_str().expect("text").contains("(W0)"), "{found}"),
        Err(_) if begun.others_since() >= CONTENDED => {
            skipped("other programs have the processors");
        }
        Err(problem) => panic!("{problem}: {:?}", findings(&server)),
    }
}

#[test]
fn a_lack_of_places_for_clients_is_found_without_pages_too() {
    let server = Server::nagi_with(&["--maxclients", "20", "--http-port", "0"]);
    let mut client = server.connect_resp();
    let _held: Vec<Connection> = (0..18).map(|_| server.connect_resp()).collect();
    for report in ["MEMORY DOCTOR", "LATENCY DOCTOR"] {
        until(report, || client.run(report).text().contains(" clients-refused: ").then_some(()))
            .expect("it speaks of that");
    }
}
