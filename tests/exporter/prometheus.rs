//! Debian's prometheus, unmodified, scrapes `/metrics` in both forms, and promtool must find no
//! fault in them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use harness::{Folder, Server, run_tool_with_input, tool, until};
use serde_json::Value;

use super::fetch;

const TEXT: &str = "text/plain; version=0.0.4";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

/// Starts a relay that forwards requests with another Accept header, because this prometheus always
/// requests OpenMetrics.
fn relay_as_text(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for client in listener.incoming() {
            // If the client disconnects, there is nothing to relay.
            let _ = client.and_then(|client| pass_on(client, server));
        }
    });
    address
}

fn pass_on(mut client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    for line in BufReader::new(client.try_clone()?).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let mut upstream = TcpStream::connect(server)?;
    let head = format!("GET /metrics HTTP/1.0\r\nHost: {server}\r\nAccept: {TEXT}\r\n\r\n");
    upstream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    client.write_all(&answer)
}

/// Returns the reply of prometheus' API.
fn ask(prometheus: SocketAddr, target: &str) -> Value {
    let body = fetch(prometheus, &format!("/api/v1/{target}"), "application/json");
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
    assert_eq!(answer["status"], "success", "{body}");
    answer["data"].clone()
}

/// Returns the value of an expression whose result is a single value.
fn value(prometheus: SocketAddr, expression: &str) -> Option<f64> {
    let data = ask(prometheus, &format!("query?query={expression}"));
    data["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn prometheus_scrapes_both_forms() {
    let server = Server::nagi_with(&["--http-port", "any"]);
    server.connect_resp().check("SET key value", "+OK\r\n");
    let folder = Folder::new("prometheus");
    let job = |name: &str, target: SocketAddr| {
        format!("  - {{job_name: {name}, static_configs: [{{targets: ['{target}']}}]}}\n")
    };
    let (text, open) = (relay_as_text(server.http()), server.http());
    let configuration = folder.write(
        "prometheus.yml",
        format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n{}{}",
            job("open", open),
            job("text", text)
        ),
    );
    let started = Server::start_web(|address| {
        let mut prometheus = tool("prometheus");
        prometheus
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        prometheus
    });
    let (_running, prometheus) = started.unwrap_or_else(|problem| panic!("{problem}"));
    // Only OpenMetrics has units.
    for (job, metric, unit) in
        [("open", "nagi_received_bytes", "bytes"), ("text", "nagi_received_bytes_total", "")]
    {
        let up = until(job, || {
            // prometheus replies 503 until it has read its own data.
            let answers = TcpStream::connect(prometheus).is_ok_and(is_ready);
            let up = answers.then(|| value(prometheus, &format!("up%7Bjob=%22{job}%22%7D")));
            up.flatten().filter(|up| *up == 1.0)
        });
        let metadata = format!("match_target=%7Bjob=%22{job}%22%7D");
        let targets = ask(prometheus, "targets");
        assert!(up.is_ok(), "{job}: {targets}");
        let of_job = |name: &str| value(prometheus, &format!("{name}%7Bjob=%22{job}%22%7D"));
        assert!(of_job("scrape_samples_scraped") > Some(100.0), "{job}");
        assert_eq!(of_job("nagi_ready"), Some(1.0), "{job}");
        let of_client = || of_job("nagi_connections_total").filter(|count| *count == 1.0);
        until("a sample of the client", of_client).expect("it is counted");
        let metadata = ask(prometheus, &format!("targets/metadata?{metadata}&metric={metric}"));
        assert_eq!(metadata[0]["unit"], unit, "{job}: {metadata}");
    }
}

fn is_ready(mut client: TcpStream) -> bool {
    let mut answer = String::new();
    client.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n").is_ok()
        && client.read_to_string(&mut answer).is_ok()
        && answer.contains(" 200 OK")
}

/// Converts OpenMetrics to the text form, the only one that promtool reads. There, the head of a
/// counter has the name of the counter's samples.
fn as_text(page: &str) -> String {
    let heads = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let kinds: BTreeMap<&str, &str> = heads.collect();
    let lines = page.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF");
    let as_text = |line: &str| match *line.splitn(4, ' ').collect::<Vec<_>>().as_slice() {
        ["#", word, family, rest] => {
            let suffix = match kinds[family] {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let rest = if rest == "info" { "gauge" } else { rest };
            format!("# {word} {family}{suffix} {rest}\n")
        }
        _ => format!("{line}\n"),
    };
    lines.map(as_text).collect()
}

#[test]
fn promtool_finds_nothing_wrong() {
    let server = Server::nagi_with(&["--http-port", "any"]);
    server.connect_resp().check("SET key value", "+OK\r\n");
    let (text, open) =
        (fetch(server.http(), "/metrics", TEXT), fetch(server.http(), "/metrics", OPEN_METRICS));
    assert!(open.ends_with("# EOF\n") && !text.contains("# EOF"));
    for page in [text, as_text(&open)] {
        assert!(page.lines().count() > 100, "{page}");
        let told = run_tool_with_input("promtool", &["check", "metrics"], page.as_bytes());
        assert_eq!(told, "", "{page}");
    }
}
