//! Debian's prometheus-redis-exporter, unmodified, with all of its options that are useful for a
//! single server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use harness::{Connection, Folder, Server, encode_command, tool, until};

use super::{List, Samples, fetch, samples};

/// Starts the exporter. Returns it and its address.
fn exporter(folder: &Folder) -> (Server, SocketAddr) {
    let script = folder.write("script.lua", "return {'scripted', '7'}");
    let mut exporter = tool("prometheus-redis-exporter");
    exporter
        .args(["-check-single-keys", "db0=number,db0=list", "-count-keys", "db0=num*"])
        .args(["-check-single-streams", "db0=stream", "-check-key-groups", "^(st|num)"])
        .args(["-export-client-list", "-include-system-metrics", "-ping-on-connect", "-script"])
        .arg(script);
    Server::start_exporter(exporter).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Sends requests of all kinds that metrics count, the same for every server. Returns clients that
/// stay connected: one waits for a list, and two wait for messages.
fn use_server(server: &Server) -> Vec<Connection> {
    let mut client = server.connect_resp();
    // On a slow machine, the slow log would contain additional requests.
    client.check("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
    let mut waiting = [(); 3].map(|()| server.connect_resp());
    waiting[0].send(encode_command(&["BLPOP", "queue", "0"]));
    waiting[1].run("SUBSCRIBE news sport");
    waiting[2].run("PSUBSCRIBE n*");
    until("a client that waits", || {
        client.run("INFO clients").text().contains("\r\nblocked_clients:1\r\n").then_some(())
    })
    .expect("it waits");
    for request in [
        "XADD stream 1-1 field value",
        "XADD stream 1-2 field value",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "SLOWLOG RESET",
        "CONFIG RESETSTAT",
        "SET number 5 EX 1000",
        "SET number:2 6",
        "INCR number",
        "RPUSH list a b c",
        "GET number",
        "GET none",
        "NONSENSE",
        "LPUSH number x",
        "EVAL \"return 1\" 0",
        "PUBLISH news text",
        "SET gone x PX 1",
        "CONFIG SET slowlog-log-slower-than 0",
        "GET number",
        "CONFIG SET slowlog-log-slower-than -1",
        "CONFIG SET maxmemory 1gb",
    ] {
        client.run(request);
    }
    let start = Instant::now();
    until("a key to expire", || (start.elapsed() > Duration::from_millis(20)).then_some(()))
        .expect("time passes");
    client.run("GET gone");
    client.check("SAVE", "+OK\r\n");
    let mut clients = Vec::from(waiting);
    clients.push(client);
    clients
}

fn metrics(exporter: SocketAddr, server: &Server) -> Samples {
    let page = fetch(exporter, &format!("/scrape?target=redis://{}", server.resp()), "text/plain");
    // The servers differ in whether these two metrics include the request that reads them.
    let is_kept = |series: &str| {
        !["config|resetstat", "info"].iter().any(|it| series.contains(&format!("cmd=\"{it}\"")))
    };
    samples(&page, "redis_").into_iter().filter(|(series, _)| is_kept(series)).collect()
}

#[test]
fn redis_exporter_has_every_metric_of_its_list() {
    let folder = Folder::new("redis-exporter");
    let (_running, exporter) = exporter(&folder);
    let list = List::read("redis-exporter.txt");
    // nagi also logs by total time, which may be long on a slow machine.
    let servers = [Server::nagi_with(&["--slowlog-total-slower-than", "-1"]), Server::redis()];
    let [nagi, redis] = servers.map(|server| {
        let _clients = use_server(&server);
        metrics(exporter, &server)
    });
    let faults = list.faults(&nagi, &redis);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The list contains a reason for each metric that only redis-server has.
    let names = list.names();
    let missing: Vec<_> = redis.keys().filter(|it| !names.contains(super::name(it))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
