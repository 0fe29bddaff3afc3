//! Tests the harness with the servers that nagi replaces, so that the harness can be trusted.

use harness::{Reply, Server, run_tool};

#[test]
fn redis_server_answers_raw_bytes_and_commands() {
    let server = Server::redis();
    let mut client = server.connect_resp();
    client.check_raw("PING\r\n", "+PONG\r\n");
    client.check("SET greeting \"good morning\"", "+OK\r\n");
    client.check("GET greeting", "$12\r\ngood morning\r\n");
    assert_eq!(client.run("GET nothing"), Reply::Null);
    client.run("HELLO 3");
    assert_eq!(client.run("CONFIG GET appendonly").list().len(), 2);
    let port = server.resp().port().to_string();
    assert_eq!(run_tool("redis-cli", &["-p", &port, "STRLEN", "greeting"]), "12\n");
}

#[test]
fn memcached_answers_raw_bytes() {
    let server = Server::memcached();
    let mut client = server.connect_memcached();
    client.check_raw("set a 5 0 1\r\nx\r\n", "STORED\r\n");
    client.check_raw("get a\r\n", "VALUE a 5 1\r\nx\r\nEND\r\n");
    client.send("quit\r\n");
    assert_eq!(client.rest(), b"");
}

#[test]
#[should_panic(expected = "the reply differs")]
fn a_wrong_reply_fails_at_once() {
    let server = Server::redis();
    server.connect_resp().check("PING", "+PANG\r\n");
}
