//! `nagi client`: what it stores and where.

use harness::{Folder, Server, nagi_binary};
use std::process::Command;

/// Runs `nagi client` with options and an action, and returns what it prints.
fn client_of(port: u16, words: &[&str]) -> String {
    let servers = format!("127.0.0.1:{port}");
    let mut command = Command::new(nagi_binary());
    let output =
        command.args(["client", "--servers", &servers]).args(words).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Only URLs of servers have passwords to hide.
#[test]
fn values_that_look_like_urls_are_stored_as_they_are() {
    let server = Server::nagi();
    let port = server.memcached_address().port();
    let value = "https://me@example.com/x?y=1";
    client_of(port, &["set", "http://medium.com/@bob", value]);
    assert_eq!(client_of(port, &["get", "http://medium.com/@bob"]), value);
    server.connect_resp().check("EXISTS http://medium.com/@bob", ":1\r\n");
}

#[test]
fn a_prefix_of_the_library_is_a_part_of_the_key() {
    let server = Server::nagi();
    let port = server.memcached_address().port();
    let like = ["--like", "libmemcached,prefix=app:"];
    client_of(port, &[&like[..], &["set", "key", "value"]].concat());
    server.connect_resp().check("GET app:key", "$5\r\nvalue\r\n");
    assert_eq!(client_of(port, &[&like[..], &["get", "key"]].concat()), "value");
}

#[test]
fn another_server_of_a_cluster_is_asked_if_one_is_dead() {
    let server = Server::nagi();
    server.connect_resp().check("SET key value", "+OK\r\n");
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (dead, port) = (dead.local_addr().expect("an address").port(), server.resp().port());
    let output = Command::new(nagi_binary())
        .args(["client", "--like", "redis-cluster", "--protocol", "resp"])
        .args(["--servers", &format!("127.0.0.1:{dead},127.0.0.1:{port}"), "get", "key"])
        .output()
        .expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "value\n", "{error}");
}

#[test]
fn the_default_port_is_that_of_the_protocol() {
    for (protocol, port) in [("text", 11211), ("binary", 11211), ("resp", 6379)] {
        let output = Command::new(nagi_binary())
            .args(["client", "--servers", "kyoto", "--protocol", protocol])
            .args(["--like", "php", "ring", "key"])
            .output()
            .expect("it starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("key\tkyoto:{port}\n"));
    }
}

/// Runs `nagi client`, which must fail. Returns its errors.
fn refused(port: u16, words: &[&str]) -> String {
    let mut command = Command::new(nagi_binary());
    command.args(["client", "--servers", &format!("127.0.0.1:{port}")]).args(words);
    let output = command.env_remove("REDISCLI_AUTH").output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_password_is_named_in_each_protocol() {
    let server = Server::nagi_with(&["--requirepass", "secret"]);
    let port = server.memcached_address().port();
    for (protocol, reason) in [
        ("binary", "Auth failure"),
        ("text", "CLIENT_ERROR unauthenticated"),
        ("meta", "CLIENT_ERROR unauthenticated"),
    ] {
        let error = refused(port, &["--protocol", protocol, "get", "a", "b"]);
        assert_eq!(error.matches(reason).count(), 2, "{error}");
    }
}

#[test]
fn a_key_of_another_type_is_not_called_missing() {
    let server = Server::nagi();
    server.connect_resp().check("RPUSH list x", ":1\r\n");
    let error = refused(server.resp().port(), &["--protocol", "resp", "get", "list"]);
    assert!(error.contains("WRONGTYPE"), "{error}");
    let error = refused(server.resp().port(), &["--protocol", "resp", "get", "none"]);
    assert_eq!(error, "nagi: none: not found\n");
}

#[test]
fn empty_lines_of_a_file_are_no_keys() {
    let folder = Folder::new("keys-from");
    let path = folder.write("keys", "\nuser:1\n\nuser:2\n\n");
    let path = path.to_str().expect("UTF-8");
    let rows = client_of(1, &["--like", "php", "ring", "--keys-from", path]);
    assert_eq!(rows, "user:1\t127.0.0.1:1\nuser:2\t127.0.0.1:1");
}
