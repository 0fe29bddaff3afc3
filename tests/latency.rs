//! LATENCY: latency spikes.

use harness::{Connection, Reply, Server, as_redis, tool};

#[test]
fn there_are_no_entries_at_first() {
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
fn slow_events_are_recorded() {
    let mut redis = tool("redis-server");
    redis.args(["--enable-debug-command", "yes"]);
    let servers = [
        Server::nagi_with(&["--enable-debug-command", "yes"]),
        Server::start_redis(redis).expect("redis-server starts"),
    ];
    for server in servers {
        let mut client = server.connect_resp();
        // On a busy machine, any request may take some hundred milliseconds.
        client.check("CONFIG SET latency-monitor-threshold 1000", "+OK\r\n");
        client.check("DEBUG SLEEP 0.01", "+OK\r\n");
        client.check("LATENCY LATEST", "*0\r\n");
        client.check("DEBUG SLEEP 1.1", "+OK\r\n");
        assert_eq!(client.run("LATENCY LATEST").list().len(), 1);
        let history = client.run("LATENCY HISTORY command");
        let took_ms = history.list()[0].list()[1].integer();
        assert!(took_ms >= 1095, "{took_ms}");
        let graph = client.run("LATENCY GRAPH command").text();
        assert!(graph.starts_with(&format!("command - high {took_ms} ms, low {took_ms} ms")));
        client.check("LATENCY RESET", ":1\r\n");
    }
}

#[test]
fn a_sleeping_command_delays_no_other_client() {
    let server = Server::nagi_with(&["--enable-debug-command", "local", "--workers", "1"]);
    let mut sleeper = server.connect_resp();
    sleeper.send("DEBUG SLEEP 1000\r\n");
    let mut client = server.connect_resp();
    for _ in 0..100 {
        client.check("PING", "+PONG\r\n");
    }
}

/// Returns the commands in the reply to LATENCY HISTOGRAM, with their number of calls and their
/// values.
fn histograms(client: &mut Connection, command: &str) -> Vec<(String, i64, Vec<i64>)> {
    let reply = client.run(command);
    let told = |pair: &[Reply]| {
        let fields = pair[1].list();
        assert_eq!((fields[0].text(), fields[2].text()), ("calls".into(), "histogram_usec".into()));
        let buckets = fields[3].list().iter().map(Reply::integer).collect();
        (pair[0].text(), fields[1].integer(), buckets)
    };
    reply.list().chunks(2).map(told).collect()
}

#[test]
fn histograms_tell_how_long_calls_took() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("LATENCY HISTOGRAM nosuch get", "*0\r\n");
        for number in 0..100 {
            client.check(&format!("SET key {number}"), "+OK\r\n");
        }
        client.run("GET key");
        client.run("CLIENT ID");
        client.run("CLIENT ID");
        client.run("CLIENT GETNAME");
        let told = histograms(&mut client, "LATENCY HISTOGRAM set nosuch GET client|id");
        let calls: Vec<_> = told.iter().map(|(name, calls, _)| (name.as_str(), *calls)).collect();
        assert_eq!(calls, [("set", 100), ("get", 1), ("client|id", 2)]);
        for (name, calls, buckets) in &told {
            let (bounds, counts): (Vec<i64>, Vec<i64>) =
                buckets.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
            assert!(bounds.is_sorted() && counts.is_sorted(), "{name}: {buckets:?}");
            assert_eq!(counts.last(), Some(calls), "{name}: {buckets:?}");
            // The bounds are powers of two in nanoseconds, rounded to two digits, in microseconds.
            let known = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908];
            let longer = |bound: &i64| *bound > 16908;
            assert!(bounds.iter().all(|it| known.contains(it) || longer(it)), "{buckets:?}");
        }
        let of_client = histograms(&mut client, "LATENCY HISTOGRAM client");
        let mut names: Vec<_> = of_client.into_iter().map(|(name, ..)| name).collect();
        names.sort();
        assert_eq!(names, ["client|getname", "client|id"]);
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        let all = histograms(&mut client, "LATENCY HISTOGRAM");
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].0, "config|resetstat");
        client.run("HELLO 3");
        let told = client.run("LATENCY HISTOGRAM hello");
        assert!(matches!(told, Reply::Map(_)), "{told:?}");
    }
}
