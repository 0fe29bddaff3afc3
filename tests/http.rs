//! Metrics and health over HTTP, and which clients may access them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use harness::{Connection, Server, nagi_binary, until};

/// Starts a server that also serves pages.
fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

struct Response {
    status: u16,
    /// Header fields by name, in lower case.
    headers: BTreeMap<String, String>,
    body: String,
}

/// Sends a request unchanged. Receives everything until the server closes the connection.
fn exchange(address: SocketAddr, request: impl AsRef<[u8]>) -> Response {
    let mut client = Connection::open(address);
    // The server does not read a request to its end if it refuses it early.
    let _ = client.try_send(request);
    let text = String::from_utf8(client.rest()).expect("answers are text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Response {
        status: status.and_then(|status| status.parse().ok()).expect("a status line"),
        headers: headers.map(|(name, it)| (name.to_lowercase(), it.to_owned())).collect(),
        body: body.to_owned(),
    }
}

/// Requests a page with additional header lines, each with its line break.
fn get_with(server: &Server, path: &str, headers: &str) -> Response {
    let address = server.http();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    exchange(address, format!("{head}{headers}\r\n"))
}

fn get(server: &Server, path: &str) -> Response {
    get_with(server, path, "")
}

/// A page of metrics, of which each line has been checked.
#[derive(Default)]
struct Metrics {
    /// The type of each family.
    types: BTreeMap<String, String>,
    /// The unit of each family.
    units: BTreeMap<String, String>,
    /// The value of each sample, by its name and labels as they were written.
    samples: BTreeMap<String, f64>,
}

impl Metrics {
    fn parse(text: &str, is_open: bool) -> Self {
        let text = match is_open {
            true => text.strip_suffix("# EOF\n").expect("OpenMetrics ends with a line of its own"),
            false => text,
        };
        assert!(text.ends_with('\n'), "the last line ends");
        let mut metrics = Metrics::default();
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match *words.as_slice() {
                ["#", "HELP", name, help] => {
                    assert!(helped.insert(name.to_owned()), "twice: {line}");
                    assert!(!help.is_empty() && !help.contains('\\'), "{line}");
                    family = name.to_owned();
                }
                ["#", "TYPE", name, kind] => {
                    assert_eq!(name, family, "TYPE follows HELP: {line}");
                    metrics.types.insert(name.to_owned(), kind.to_owned());
                }
                ["#", "UNIT", name, unit] => {
                    assert!(is_open && name == family && name.ends_with(&format!("_{unit}")));
                    metrics.units.insert(name.to_owned(), unit.to_owned());
                }
                _ => metrics.add(line, &family, is_open),
            }
        }
        for name in helped {
            assert!(metrics.types.contains_key(&name), "{name} has no type");
        }
        metrics
    }

    /// Adds a sample, which must belong to the family of the latest head.
    fn add(&mut self, line: &str, family: &str, is_open: bool) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = match series.strip_suffix('}') {
            Some(series) => series.split_once('{').unwrap_or_else(|| panic!("{line}")),
            None => (series, ""),
        };
        let is_name =
            |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        assert!(name.starts_with("nagi_") && is_name(name), "{line}");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once('=').unwrap_or_else(|| panic!("{line}"));
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            assert!(is_name(key) && value.is_some_and(|it| !it.contains('"')), "{line}");
        }
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} in {family}"));
        let kind = self.types.get(family).map_or("", |kind| kind);
        let expected: &[&str] = match (kind, is_open) {
            ("gauge", _) => &[""],
            ("counter", false) => &[""],
            ("counter", true) => &["_total"],
            ("info", true) => &["_info"],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => panic!("{line}: of type {kind:?}"),
        };
        assert!(expected.contains(&suffix), "{line}: {suffix:?} of a {kind}");
        assert_eq!(kind == "counter" && !is_open, name.ends_with("_total") && !is_open, "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}: no number"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(self.samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }

    fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series}"))
    }

    /// Checks that the buckets of every histogram grow, and that the last bucket includes all
    /// events.
    fn check_histograms(&self, text: &str) {
        let mut last: BTreeMap<String, f64> = BTreeMap::new();
        let buckets = text.lines().filter_map(|line| line.split_once("_bucket{"));
        for (name, rest) in buckets {
            let (labels, rest) = rest.split_once(",le=\"").expect("the bound comes last");
            let (bound, count) = rest.split_once("\"} ").expect("a count");
            let series = format!("{name}{{{labels}}}");
            let count: f64 = count.parse().expect("a number");
            let before = last.insert(series.clone(), count).unwrap_or(0.0);
            assert!(count >= before, "{series} {bound}");
            if bound == "+Inf" {
                assert_eq!(count, self.value(&format!("{name}_count{{{labels}}}")), "{series}");
                assert!(self.samples.contains_key(&format!("{name}_sum{{{labels}}}")));
            }
        }
        assert!(!last.is_empty(), "there are histograms");
    }
}

const OPEN_METRICS: &str =
    "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";

#[test]
fn metrics_are_well_formed_and_right() {
    let server = nagi(&["--workers", "2", "--maxmemory", "100mb"]);
    let mut client = server.connect_resp();
    for _ in 0..10 {
        client.check("SET key value", "+OK\r\n");
        client.check("GET key", "$5\r\nvalue\r\n");
        client.check("GET none", "$-1\r\n");
    }
    client.check("RPUSH list a", ":1\r\n");
    client.check(
        "GET list",
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    );
    server.connect_memcached().check_raw("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    let text = until("a sample of all requests", || {
        let text = get(&server, "/metrics").body;
        text.contains("\nnagi_memcached_requests_total 1\n").then_some(text)
    })
    .expect("they are counted");
    let metrics = Metrics::parse(&text, false);
    metrics.check_histograms(&text);
    for (series, expected) in [
        ("nagi_commands_total{family=\"string\"}", 31.0),
        ("nagi_commands_total{family=\"list\"}", 1.0),
        ("nagi_commands_total{family=\"hash\"}", 0.0),
        ("nagi_command_failures_total{family=\"string\"}", 1.0),
        ("nagi_error_replies_total", 1.0),
        ("nagi_keyspace_hits_total", 12.0),
        ("nagi_keyspace_misses_total", 10.0),
        ("nagi_memory_limit_bytes", 104_857_600.0),
        ("nagi_connections_total", 2.0),
        ("nagi_unsaved_changes", 11.0),
        ("nagi_ready", 1.0),
        ("nagi_loading", 0.0),
    ] {
        assert_eq!(metrics.value(series), expected, "{series}");
    }
    let of_workers = ["0", "1"].map(|it| format!("nagi_worker_requests_total{{worker=\"{it}\"}}"));
    let requests: f64 = of_workers.iter().map(|series| metrics.value(series)).sum();
    assert_eq!(requests, 33.0, "those of all workers");
    for series in
        ["nagi_memory_resident_bytes", "nagi_memory_dataset_bytes", "nagi_received_bytes_total"]
    {
        assert!(metrics.value(series) > 0.0, "{series}");
    }

    let response = get_with(&server, "/metrics", OPEN_METRICS);
    assert!(
        response.headers["content-type"].starts_with("application/openmetrics-text; version=1")
    );
    for refusal in ["openmetrics-text;q=0", "openmetrics-text;q=0.1, text/plain"] {
        let accept = format!("Accept: application/{refusal}\r\n");
        let kind = &get_with(&server, "/metrics", &accept).headers["content-type"];
        assert!(kind.starts_with("text/plain"), "{refusal}: {kind}");
    }
    let open = Metrics::parse(&response.body, true);
    open.check_histograms(&response.body);
    assert_eq!(open.units["nagi_received_bytes"], "bytes");
    assert_eq!(open.types["nagi_build"], "info");
    let names = |metrics: &Metrics| metrics.samples.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&open), names(&metrics), "both forms have the same series");
}

#[test]
fn samples_go_on_by_themselves() {
    let server = nagi(&[]);
    let requests = |server: &Server| {
        Metrics::parse(&get(server, "/metrics").body, false)
            .value("nagi_commands_total{family=\"connection\"}")
    };
    let mut client = server.connect_resp();
    for count in [1.0, 2.0] {
        client.check("PING", "+PONG\r\n");
        until("the next sample", || (requests(&server) == count).then_some(())).expect("counts");
    }
}

#[test]
fn health_needs_no_password_and_readiness_follows_what_is_refused() {
    let server = nagi(&["--requirepass", "sesame"]);
    let mut client = server.connect_resp();
    client.check("AUTH sesame", "+OK\r\n");
    client.check("SET key value", "+OK\r\n");
    let told = |path| {
        let response = get(&server, path);
        (response.status, response.body)
    };
    assert_eq!(told("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(told("/readyz"), (200, "ready\n".to_owned()));
    client.check("CONFIG SET maxmemory 1", "+OK\r\n");
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    client.check("SET key other", full);
    assert_eq!(told("/readyz"), (503, "not ready\n".to_owned()));
    assert_eq!(told("/healthz"), (200, "ok\n".to_owned()));
    client.check("CONFIG SET maxmemory-policy allkeys-lru", "+OK\r\n");
    assert_eq!(told("/readyz"), (200, "ready\n".to_owned()));
}

#[test]
fn a_password_keeps_unauthenticated_clients_out() {
    let server = nagi(&["--requirepass", "sesame"]);
    let refused = get(&server, "/metrics");
    assert_eq!((refused.status, refused.body.contains("nagi_")), (401, false));
    assert!(refused.headers["www-authenticate"].starts_with("Basic realm="));
    for (authorization, status) in [
        ("Bearer sesame", 200),
        // default:sesame, :sesame, default:open
        ("Basic ZGVmYXVsdDpzZXNhbWU=", 200),
        ("Basic OnNlc2FtZQ==", 200),
        ("Basic ZGVmYXVsdDpvcGVu", 401),
        ("Bearer open", 401),
        ("Bearer", 401),
    ] {
        let header = format!("Authorization: {authorization}\r\nX-Forwarded-For: 192.0.2.1\r\n");
        assert_eq!(get_with(&server, "/metrics", &header).status, status, "{authorization}");
    }
    let mut client = server.connect_resp();
    client.check("AUTH sesame", "+OK\r\n");
    client.check("CONFIG SET requirepass \"\"", "+OK\r\n");
    assert_eq!(get(&server, "/metrics").status, 200);
    assert_eq!(get_with(&server, "/metrics", "Via: 1.1 proxy\r\n").status, 403);
}

#[test]
fn foreign_pages_and_names_are_refused() {
    let server = nagi(&["--http-hosts", "cache.example"]);
    for (headers, status) in [
        ("Sec-Fetch-Site: same-origin\r\n", 200),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        ("Forwarded: for=192.0.2.1\r\n", 403),
        ("X-Forwarded-Host: evil.example\r\n", 403),
        ("Content-Length: 5\r\n", 413),
        ("Transfer-Encoding: chunked\r\n", 413),
    ] {
        assert_eq!(get_with(&server, "/metrics", headers).status, status, "{headers}");
    }
    for (host, status) in [
        ("cache.example:80", 200),
        ("localhost", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ] {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(server.http(), request).status, status, "{host}");
    }
    server.connect_resp().check("CONFIG SET http-hosts \"\"", "+OK\r\n");
    let request = "GET /metrics HTTP/1.1\r\nHost: cache.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.http(), request).status, 403, "names are those of now");
}

#[test]
fn every_answer_is_safe_to_show() {
    let server = nagi(&[]);
    for (path, status) in
        [("/metrics", 200), ("/healthz", 200), ("/nosuch", 404), ("/nosuch?%3Cscript%3E", 404)]
    {
        let response = get(&server, path);
        assert_eq!(response.status, status, "{path}");
        assert!(!response.body.contains('<'), "{path}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("connection", "close"),
        ] {
            assert_eq!(response.headers[name], value, "{path}");
        }
        assert!(response.headers["content-security-policy"].starts_with("default-src 'none';"));
        assert!(!response.headers.contains_key("set-cookie"));
    }
}

#[test]
fn broken_and_oversized_requests_harm_no_other_client() {
    let server = nagi(&[]);
    let address = server.http();
    let host = format!("Host: {address}\r\nConnection: close\r\n");
    let long = "a".repeat(100_000);
    for (request, status) in [
        (format!("POST /metrics HTTP/1.1\r\n{host}\r\n"), 405),
        (format!("GET /metrics?{} HTTP/1.1\r\n{host}\r\n", &long[..3000]), 414),
        (format!("GET /{long} HTTP/1.1\r\n{host}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}X: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(100)), 431),
        (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 400),
        (format!("GET http://{address}/ HTTP/1.1\r\n{host}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host} folded\r\n\r\n"), 400),
        (format!("GET  / HTTP/9.9\r\n{host}\r\n"), 400),
        ("*1\r\n$4\r\nPING\r\n".to_owned(), 400),
    ] {
        let shown: String = request.chars().take(80).collect();
        assert_eq!(exchange(address, request).status, status, "{shown:?}");
    }
    let first = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let both = exchange(address, format!("{first}GET /nosuch HTTP/1.1\r\n{host}\r\n")).body;
    assert!(both.starts_with("ok\nHTTP/1.1 404 "), "answered in order: {both}");
    let head = exchange(address, format!("HEAD /metrics HTTP/1.1\r\n{host}\r\n"));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.headers["content-length"].parse::<usize>().expect("a length") > 1000);
    let mut slow = Connection::open(address);
    slow.send("GET /healthz HTTP/1.1\r\n");
    assert!(!String::from_utf8_lossy(&slow.rest()).contains("ok\n"), "it is closed in the end");
    assert_eq!(get(&server, "/healthz").status, 200);
}

#[test]
fn many_silent_connections_delay_other_clients_for_a_while_only() {
    let server = nagi(&[]);
    let silent: Vec<Connection> = (0..200).map(|_| Connection::open(server.http())).collect();
    server.connect_resp().check("PING", "+PONG\r\n");
    drop(silent);
    assert_eq!(get(&server, "/healthz").status, 200);
}

#[test]
fn a_port_that_was_asked_for_must_be_free_and_the_default_need_not_be() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let start = |more: &[&str]| {
        let mut command = Command::new(nagi_binary());
        command.arg("serve").args(more);
        Server::start_nagi(command).err().expect("it does not start")
    };
    let problem = start(&["--http-port", &port]);
    let remedy = format!("ss -ltnp 'sport = :{port}'");
    assert!(problem.contains(&format!("127.0.0.1:{port} is in use")), "{problem}");
    assert!(problem.contains("--http-port 0") && problem.contains(&remedy), "{problem}");
    let problem = start(&["--http-port", "any", "--http-bind", "127.0.0.1 0.0.0.0"]);
    assert!(problem.contains("--requirepass"), "{problem}");
    // The port is used either by this test or by another process on this machine.
    let _default = TcpListener::bind("127.0.0.1:7379");
    let ports = std::env::temp_dir().join(format!("nagi-http-{}", std::process::id()));
    let mut command = Command::new(nagi_binary());
    command.args(["serve", "--port", "any", "--memcached-port", "0", "--save", "", "--ports-file"]);
    let mut server =
        command.arg(&ports).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let text = until("its ports", || std::fs::read_to_string(&ports).ok());
    server.kill().expect("it runs");
    let log = server.wait_with_output().expect("it has ended").stderr;
    let (text, log) = (text.expect("it starts"), String::from_utf8_lossy(&log).into_owned());
    let _ = std::fs::remove_file(&ports);
    assert!(text.contains("resp ") && !text.contains("http 127.0.0.1"), "{text}");
    assert!(log.contains("HTTP is off"), "{log}");
}

#[test]
fn lines_are_those_of_mod_status() {
    let server = nagi(&["--workers", "3"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    for path in ["/server-status?auto", "/server-status/?auto"] {
        let lines = until("a sample of the request", || {
            let text = get(&server, path).body;
            text.contains("\nTotal Accesses: 1\n").then_some(text)
        })
        .expect("it is counted");
        let fields: BTreeMap<&str, &str> =
            lines.lines().map(|line| line.split_once(": ").expect("a name and a value")).collect();
        // prometheus-apache-exporter splits the version at the slash and the dots, and panics
        // without them.
        let version = fields["ServerVersion"].strip_prefix("nagi/").expect("our name");
        assert_eq!(version.split('.').filter(|it| it.parse::<u32>().is_ok()).count(), 3);
        let letters = fields["Scoreboard"];
        let letters = letters.strip_suffix('.').expect("no script runs");
        assert!(letters.len() == 3 && letters.chars().all(|it| "_KW".contains(it)), "{letters}");
        assert!(letters.contains(['K', 'W']), "the client's worker has it: {letters}");
        for name in "ServerUptimeSeconds|Total kBytes|Total Duration|CPUUser|CPUSystem|CPULoad|\
                     Uptime|ReqPerSec|BytesPerSec|BytesPerReq|BusyWorkers|IdleWorkers|Processes|\
                     Stopping|ConnsTotal|ParentServerConfigGeneration|ParentServerMPMGeneration|\
                     Load1|Load5|Load15"
            .split('|')
        {
            assert!(fields[name].parse::<f64>().is_ok(), "{name}: {}", fields[name]);
        }
        let [busy, idle] = ["BusyWorkers", "IdleWorkers"].map(|it| fields[it].parse::<usize>());
        let busy = busy.expect("a number");
        assert_eq!(busy, letters.matches('W').count());
        assert_eq!(idle, Ok(3 - busy));
        assert_eq!(fields["ConnsTotal"], "1");
    }
}

#[test]
fn a_worker_is_seen_to_be_busy() {
    let server = nagi(&["--workers", "1"]);
    let mut client = server.connect_resp();
    until("a busy worker", || {
        client.check("SET key value", "+OK\r\n");
        get(&server, "/server-status?auto").body.contains("\nScoreboard: W.\n").then_some(())
    })
    .expect("it executes requests");
    until("an idle worker", || {
        get(&server, "/server-status?auto").body.contains("\nScoreboard: K.\n").then_some(())
    })
    .expect("it only keeps a connection");
}

#[test]
fn json_has_the_types_of_placks_middleware() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME <b>", "+OK\r\n");
    client.check("SELECT 3", "+OK\r\n");
    let page = until("the connection", || {
        let page: serde_json::Value =
            serde_json::from_str(&get(&server, "/server-status?json").body).expect("JSON");
        (page["stats"][0]["method"] == "select").then_some(page)
    })
    .expect("it is listed");
    for name in ["Uptime", "TotalAccesses", "TotalKbytes", "BusyWorkers", "IdleWorkers"] {
        let text = page[name].as_str().expect("numbers are strings");
        assert!(text.parse::<u64>().is_ok(), "{name}: {text}");
    }
    let connection = &page["stats"][0];
    for (name, expected) in [
        ("pid", server.process_id().to_string().into()),
        ("host", serde_json::Value::Null),
        ("uri", serde_json::Value::Null),
        ("status", "_".into()),
        ("protocol", "RESP2".into()),
        ("name", "<b>".into()),
        ("state", "idle".into()),
        ("database", 3.into()),
    ] {
        assert_eq!(connection[name], expected, "{name}");
    }
    assert!(connection["ss"].is_u64() && connection["remote_addr"].is_string());
    assert_eq!(page["ready"], true);
}

#[test]
fn the_page_is_whole_without_a_script_and_shows_names_as_text() {
    let server = nagi(&["--requirepass", "sesame"]);
    let mut client = server.connect_resp();
    client.check("AUTH sesame", "+OK\r\n");
    client.check("CLIENT SETNAME <script>alert('1')</script>&", "+OK\r\n");
    let mut blocked = server.connect_resp();
    blocked.check("AUTH sesame", "+OK\r\n");
    blocked.check("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let login = "Authorization: Bearer sesame\r\n";
    let page = until("both connections", || {
        let page = get_with(&server, "/server-status", login);
        let has_both = ["&lt;script&gt;", ">subscribed<"].iter().all(|it| page.body.contains(it));
        has_both.then_some(page)
    })
    .expect("they are listed");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.body.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;<"));
    assert!(!page.body.contains("<script>") && !page.body.contains("sesame"));
    assert_eq!(page.body.matches("<script").count(), 1, "our own, from a file");
    assert!(!page.body.contains("http:") && !page.body.contains("https:"), "no other host");
    for (path, kind) in [("status.css", "text/css"), ("status.js", "text/javascript")] {
        let path = format!("/server-status/{path}");
        assert!(page.body.contains(&path), "{path}");
        let file = get_with(&server, &path, login);
        assert!(file.status == 200 && file.headers["content-type"].starts_with(kind), "{path}");
        assert_eq!(get(&server, &path).status, 401);
    }
}

/// Load balancers probe so.
#[test]
fn probes_of_http_1_0_need_no_host_header() {
    let server = Server::nagi_with(&["--http-port", "any"]);
    for (target, status) in [("/readyz", "200"), ("/healthz", "200"), ("/server-status", "400")] {
        let mut client = Connection::open(server.http());
        client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        let response = String::from_utf8(client.rest()).expect("text");
        assert!(response.split(' ').nth(1) == Some(status), "{target}: {response}");
    }
}
