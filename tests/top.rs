//! If its output is not a terminal, `nagi top` prints the activity of a server once.

use harness::{Server, encode_command, nagi_binary, tool, until};
use std::process::{Command, Output};

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(nagi_binary());
    command.args(["top", "--interval", "0.2"]).args(arguments).env_remove("REDISCLI_AUTH");
    command.output().expect("nagi runs")
}

/// Returns the output of one run, which must succeed.
fn look(url: &str) -> String {
    let output = top(&[url]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn one_look_shows_commands_clients_and_slow_requests() {
    for server in [Server::nagi()].into_iter().chain(Server::every_redis()) {
        let mut client = server.connect_resp();
        client.check("CLIENT SETNAME web-7", "+OK\r\n");
        client.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.check("SET key value", "+OK\r\n");
        let text = look(&server.resp().to_string());
        for shown in ["requests/s", "of a processor", "info ", "web-7", "SET key value"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}

#[test]
fn workers_phases_hot_keys_and_latencies_are_shown() {
    let server = Server::nagi_with(&["--workers", "1", "--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-total-slower-than 1000000", "+OK\r\n");
    client.check("CONFIG SET latency-monitor-threshold 1", "+OK\r\n");
    client.check("DEBUG SLEEP 0.01", "+OK\r\n");
    let request = encode_command(&["SET", "slow", &"v".repeat(100_000)]);
    let (first, rest) = request.split_at(50_000);
    client.send(first);
    let mut other = server.connect_resp();
    let text = until("what takes its time", || {
        (0..50).for_each(|_| drop(other.run("GET hot")));
        let line = other.run("CLIENT LIST").text();
        let waited = line.lines().any(|it| it.contains(" idle=2 ") || it.contains(" idle=3 "));
        waited.then(|| look(&server.resp().to_string()))
    })
    .expect("it is shown");
    for shown in ["Workers\n", "scripts  .", "Phases (us", "Hot keys\n", "\"hot\"", "reading"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    client.send(rest);
    client.expect("+OK\r\n");
    let text = look(&server.resp().to_string());
    let slow = text.lines().find(|line| line.contains("SET slow")).expect("it is slow");
    assert!(slow.contains("  receive  ") && !slow.contains(" 0.0 ms"), "{slow}");
    let is_event = |line: &str| line.starts_with("  command ") && line.contains(" ms");
    assert!(text.lines().any(is_event), "{text}");
    let mut command = tool("redis-server");
    command.args(["--enable-debug-command", "local"]);
    let redis = Server::start_redis(command).expect("it starts");
    redis.connect_resp().check("CONFIG SET latency-monitor-threshold 1", "+OK\r\n");
    redis.connect_resp().check("DEBUG SLEEP 0.01", "+OK\r\n");
    let text = look(&redis.resp().to_string());
    assert!(text.contains("Latency events\n") && text.contains("  command "), "{text}");
}

#[test]
fn memcached_shows_the_values_of_its_stats() {
    for server in [Server::nagi()].into_iter().chain(Server::every_memcached(&[])) {
        let mut client = server.connect_memcached();
        client.check_raw("set key 0 0 5\r\nvalue\r\n", "STORED\r\n");
        let text = look(&format!("memcached://{}", server.memcached_address()));
        for shown in
            ["  memcached 1.6.", "received/s", "get ", "Clients (", "Slow requests\n  none"]
        {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}

#[test]
fn an_unreachable_server_is_one_line_without_the_password() {
    let server = Server::nagi_with(&["--requirepass", "sesame"]);
    let place = server.resp();
    for (url, told) in [
        (format!("redis://{place}"), "NOAUTH"),
        (format!("redis://:wrong-one@{place}"), "WRONGPASS"),
        (format!("memcached://{place}"), ""),
        ("redis://127.0.0.1:1".to_owned(), "refused"),
    ] {
        let output = top(&[&url]);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && output.stdout.is_empty(), "{url}: {said}");
        assert!(said.lines().count() == 1 && said.contains(told), "{said}");
        assert!(!said.contains("wrong-one"), "{said}");
    }
    let text = look(&format!("redis://:sesame@{place}"));
    assert!(text.starts_with("redis://***@") && !text.contains("sesame"), "{text}");
}
