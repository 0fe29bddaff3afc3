//! LATENCY: what took long.

use harness::{Server, as_redis, tool};

#[test]
fn nothing_is_noted_at_first() {
    as_redis(&[
        ("LATENCY LATEST", "*0\r\n"),
        ("LATENCY HISTORY command", "*0\r\n"),
        ("LATENCY RESET command", ":0\r\n"),
        ("LATENCY RESET", ":0\r\n"),
        ("LATENCY GRAPH command", "-ERR No samples available for event 'command'\r\n"),
        ("LATENCY", "-ERR wrong number of arguments for 'latency' command\r\n"),
        ("LATENCY HISTORY", "-ERR wrong number of arguments for 'latency|history' command\r\n"),
        ("LATENCY HELP x", "-ERR wrong number of arguments for 'latency|help' command\r\n"),
        ("LATENCY NONSENSE", "-ERR unknown subcommand 'NONSENSE'. Try LATENCY HELP.\r\n"),
        (
            "CONFIG GET latency-monitor-threshold",
            "*2\r\n$25\r\nlatency-monitor-threshold\r\n$1\r\n0\r\n",
        ),
    ]);
    let server = Server::nagi();
    assert!(!server.connect_resp().run("LATENCY DOCTOR").text().is_empty());
}

#[test]
fn what_takes_long_is_noted() {
    let mut redis = tool("redis-server");
    redis.args(["--enable-debug-command", "yes"]);
    let servers = [
        Server::nagi_with(&["--enable-debug-command", "yes"]),
        Server::start_redis(redis).expect("redis-server starts"),
    ];
    for server in servers {
        let mut client = server.connect_resp();
        client.check("CONFIG SET latency-monitor-threshold 100", "+OK\r\n");
        client.check("DEBUG SLEEP 0.05", "+OK\r\n");
        client.check("LATENCY LATEST", "*0\r\n");
        client.check("DEBUG SLEEP 0.2", "+OK\r\n");
        assert_eq!(client.run("LATENCY LATEST").list().len(), 1);
        let history = client.run("LATENCY HISTORY command");
        let took_ms = history.list()[0].list()[1].integer();
        assert!((195..5000).contains(&took_ms), "{took_ms}");
        let graph = client.run("LATENCY GRAPH command").text();
        assert!(graph.starts_with(&format!("command - high {took_ms} ms, low {took_ms} ms")));
        client.check("LATENCY RESET", ":1\r\n");
    }
}

#[test]
fn a_sleeping_command_holds_up_nobody_else() {
    let server = Server::nagi_with(&["--enable-debug-command", "local", "--workers", "1"]);
    let mut sleeper = server.connect_resp();
    sleeper.send("DEBUG SLEEP 1000\r\n");
    let mut client = server.connect_resp();
    for _ in 0..100 {
        client.check("PING", "+PONG\r\n");
    }
}
