//! `/readyz` and `nagi_ready` report whether writes are accepted, whatever may prevent them.

use crate::persistence::Folder;
use crate::status::get;
use harness::{Reply, Server, until};
use std::fs;

/// Returns the status code of `/readyz`, without checking the sample.
fn readiness(server: &Server) -> u16 {
    let (head, body) = get(server, "/readyz");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    assert_eq!(body, if status == 200 { "ready\n" } else { "not ready\n" }, "{head}");
    status
}

fn wait_for_readiness(server: &Server, status: u16) {
    let what = format!("status {status}");
    until(&what, || (readiness(server) == status).then_some(())).expect("it comes");
    let gauge = format!("\nnagi_ready {}\n", u8::from(status == 200));
    let sampled = || get(server, "/metrics").1.contains(&gauge).then_some(());
    until("the same in metrics", sampled).expect("it comes");
}

#[test]
fn full_memory_without_a_key_that_may_go_is_not_ready() {
    let server = Server::nagi_with(&["--http-port", "any", "--maxmemory-policy", "volatile-lru"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(700_000);
    for key in ["first", "second"] {
        assert_eq!(client.run_words(&["SET", key, &value]), Reply::Simple("OK".to_owned()));
    }
    wait_for_readiness(&server, 200);
    client.check("CONFIG SET maxmemory 1mb", "+OK\r\n");
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    client.check("SET key other", full);
    assert_eq!(readiness(&server), 503);
    wait_for_readiness(&server, 503);
    // A key with an expiry may be evicted, so the server becomes ready although no write is
    // attempted.
    client.check("EXPIRE second 1000", ":1\r\n");
    wait_for_readiness(&server, 200);
    client.check("SET key value", "+OK\r\n");
}

#[test]
fn a_failed_save_that_stops_writes_is_not_ready() {
    let folder = Folder::new("readiness-save");
    let gone = folder.0.join("gone");
    fs::create_dir_all(&gone).expect("creates a folder");
    let place = gone.to_str().expect("text");
    let server = Server::nagi_with(&["--http-port", "any", "--dir", place]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    fs::remove_dir(&gone).expect("it is empty");
    client.check("CONFIG SET save \"3600 1\"", "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    wait_for_readiness(&server, 503);
    let refused = client.run("SET key other");
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with("MISCONF")), "{refused:?}");
    client.check("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n");
    wait_for_readiness(&server, 200);
    client.check("SET key other", "+OK\r\n");
}
