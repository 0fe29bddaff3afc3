//! `/server-status`, `/metrics` and process titles while requests are in progress: scripts, values
//! that arrive slowly, replies that are not read.

use crate::gateway::{Client, Socket};
use crate::persistence::Folder;
use crate::status::{get, json, nagi};
use harness::{Connection, Reply, Server, allow_open_files, encode_command, until};
use std::fs;

/// Returns the value of a field of `?auto`.
fn auto(server: &Server, name: &str) -> String {
    let (_, lines) = get(server, "/server-status?auto");
    let value = lines.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no {name}: {lines}")).to_owned()
}

/// Returns the value of a series.
fn metric(server: &Server, series: &str) -> f64 {
    let (_, metrics) = get(server, "/metrics");
    let value = metrics.lines().find_map(|it| it.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series}")).parse().expect("a number")
}

#[test]
fn memcached_requests_take_part_of_the_duration() {
    let server = nagi(&[]);
    let mut client = server.connect_memcached();
    until("a millisecond", || {
        client.send("get key\r\n".repeat(1000));
        (0..1000).for_each(|_| assert_eq!(client.line(), "END"));
        (auto(&server, "Total Duration") != "0").then_some(())
    })
    .expect("their time is counted");
}

#[test]
fn a_script_that_runs_is_shown_as_busy() {
    let server = nagi(&["--workers", "1", "--busy-reply-threshold", "1"]);
    let mut client = server.connect_resp();
    let id = client.run("CLIENT ID").integer();
    until("a worker at rest", || (auto(&server, "Scoreboard") == "K.").then_some(())).expect("K");
    assert_eq!((&*auto(&server, "BusyWorkers"), &*auto(&server, "IdleWorkers")), ("0", "1"));
    let script = "while true do redis.call('GET', 'key') end";
    client.send(encode_command(&["EVAL", script, "1", "key"]));
    until("a busy script", || {
        let is_running = auto(&server, "Scoreboard") == "KW"
            && auto(&server, "BusyWorkers") == "1"
            && auto(&server, "IdleWorkers") == "1"
            && metric(&server, "nagi_worker_busy_ratio{worker=\"scripts\"}") > 0.1
            && metric(&server, "nagi_worker_requests_total{worker=\"scripts\"}") > 1.0
            && metric(&server, "nagi_script_running_seconds") > 1.0;
        is_running.then_some(())
    })
    .expect("it is shown");
    let page = json(&server, "");
    let script = &page["script_thread"];
    assert_eq!((&script["status"], &script["running"]["client"]), (&"W".into(), &id.into()));
    assert!(script["running"]["seconds"].as_f64() > Some(1.0), "{script}");
    assert_eq!(page["workers"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&page["stats"][0]["state"], &page["stats"][0]["id"]),
        (&"executing".into(), &id.into())
    );
    let (_, page) = get(&server, "/server-status");
    let state = "<td><span class=\"state\" data-state=\"W\">W</span></td>";
    let row = format!("<td class=\"text\">scripts</td>{state}");
    assert!(page.contains(&row) && page.contains(&format!("eval key (client {id}, ")), "{page}");
    let mut waiting = server.connect_resp();
    let waiting_id = waiting.run("CLIENT ID").integer();
    waiting.send("GET key\r\n");
    until("a request that waits for the key", || {
        let page = json(&server, "");
        let mut stats = page["stats"].as_array().expect("a list").iter();
        let it = stats.find(|it| it["id"] == waiting_id)?;
        (it["state"] == "blocked" && it["method"] == "get" && it["key"] == "key").then_some(())
    })
    .expect("it is blocked");
    let (_, page) = get(&server, "/server-status");
    assert!(!page.contains(&format!("(client {waiting_id})")), "no worker runs it: {page}");
    // The rate counts the same requests as the total.
    let page = json(&server, "");
    let rate = page["requests_per_second"].as_u64().expect("a number");
    let total: u64 = page["TotalAccesses"].as_str().expect("text").parse().expect("a number");
    assert!(rate > 100 && total > rate, "{rate} in a second, {total} in all");
    let title = fs::read_to_string(format!("/proc/{}/cmdline", server.process_id()));
    assert!(title.as_ref().is_ok_and(|title| title.contains(" W ")), "{title:?}");
    let mut killer = server.connect_resp();
    until("the end", || {
        (killer.run("SCRIPT KILL") == Reply::Simple("OK".to_owned())).then_some(())
    })
    .expect("it is slow");
    assert!(matches!(client.reply(), Reply::Error(_)));
    let is_over = || (auto(&server, "Scoreboard").ends_with('.')).then_some(());
    until("no script", is_over).expect("it has ended");
    assert_eq!(metric(&server, "nagi_script_running_seconds"), 0.0);
}

#[test]
fn a_value_that_comes_slowly_shows_as_receive() {
    let server = nagi(&["--workers", "1", "--slowlog-total-slower-than", "1000000"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(100_000);
    let request = encode_command(&["SET", "slow", &value]);
    let (first, rest) = request.split_at(50_000);
    client.send(first);
    // The connection stays in the state `reading` for more than a second.
    let stats = || json(&server, "")["stats"][0].clone();
    until("a state", || (stats()["state"] == "reading").then_some(())).expect("it reads");
    until("two seconds", || (stats()["ss"].as_u64() >= Some(2)).then_some(())).expect("they pass");
    client.send(rest);
    client.expect("+OK\r\n");
    let slow = until("the slow request", || {
        let page = json(&server, "");
        (page["slow_requests_logged"] == 1).then(|| page["slow_requests"][0].clone())
    })
    .expect("it is logged");
    assert!(slow["receive_ns"].as_u64() > Some(1_000_000_000), "{slow}");
    for phase in ["queue_ns", "execute_ns", "send_ns"] {
        assert!(slow[phase].as_u64() < Some(500_000_000), "{phase}: {slow}");
    }
    let bucket = |phase: &str, bound: &str| {
        let name = "nagi_request_phase_seconds_bucket";
        let labels = format!("family=\"string\",phase=\"{phase}\",le=\"{bound}\"");
        metric(&server, &format!("{name}{{{labels}}}"))
    };
    assert!(bucket("receive", "+Inf") > bucket("receive", "1.0"));
    assert_eq!(bucket("execute", "+Inf"), bucket("execute", "1.0"));
    let (_, page) = get(&server, "/server-status");
    let (_, table) = page.split_once("<table id=\"slow\">").expect("a table");
    let (_, row) = table.split_once("SET slow ").expect("a row");
    let mut cells = row.split("<td class=\"number\">").skip(1);
    let receive = cells.next().and_then(|it| it.split('<').next()).expect("a cell");
    assert!(receive.parse::<f64>().expect("milliseconds") > 1000.0, "{receive}");
}

#[test]
fn connections_that_queue_and_that_read_nothing_are_distinguished() {
    let server = nagi(&["--workers", "1"]);
    let (mut queues, mut slow) = (server.connect_resp(), server.connect_resp());
    queues.check("MULTI", "+OK\r\n");
    queues.check("SET key value", "+QUEUED\r\n");
    // The value exceeds the kernel's buffers.
    let value = "v".repeat(1 << 20);
    slow.run_words(&["SET", "large", &value]);
    slow.send(encode_command(&["GET", "large"]).repeat(64));
    let states = || -> Vec<String> {
        let stats = json(&server, "")["stats"].clone();
        let state = |it: &serde_json::Value| it["state"].as_str().expect("text").to_owned();
        stats.as_array().expect("a list").iter().map(state).collect()
    };
    until("both states", || (states() == ["queued", "writing"]).then_some(()))
        .unwrap_or_else(|problem| panic!("{problem}: {:?}", states()));
    let (_, page) = get(&server, "/server-status?state=writing");
    assert!(page.contains("1 of 2."), "{page}");
}

/// More connections than are listed by default.
const MANY: usize = 1001;

#[test]
fn a_rare_request_gets_the_list_of_many_connections() {
    allow_open_files(4096);
    let server = nagi(&[]);
    let clients: Vec<Connection> = (0..MANY).map(|_| server.connect_resp()).collect();
    let last = clients.len();
    until("all connections", || {
        // This request does not ask for a list.
        (auto(&server, "ConnsTotal") == last.to_string()).then_some(())
    })
    .expect("they are there");
    // This is the first request for a list.
    let page = json(&server, "&sort=id&limit=5");
    assert_eq!(page["connections_are_listed"], true);
    let stats = page["stats"].as_array().expect("a list");
    assert_eq!((stats.len(), page["connections"].as_u64()), (5, Some(MANY as u64)), "{page}");
    let (_, page) = get(&server, "/server-status?sort=id&limit=1");
    assert!(page.contains(&format!("1 to 1 of {MANY}; ?json has all of them.")), "{page}");
}

/// Concatenates all strings of a reply.
fn texts(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join(" "),
        Reply::Bulk(_) => reply.text(),
        Reply::Integer(_) => String::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn secrets_of_settings_and_users_are_shown_nowhere() {
    let server = nagi(&[
        "--slowlog-log-slower-than",
        "0",
        "--commandlog-request-larger-than",
        "0",
        "--commandlog-reply-larger-than",
        "0",
    ]);
    let mut client = server.connect_resp();
    let mut monitor = server.connect_resp();
    monitor.check("MONITOR", "+OK\r\n");
    client.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
    client.check("ACL SETUSER bob on >sekret4", "+OK\r\n");
    client.run("ACL SETUSER bob on >sekret4 #sekrethash");
    client.check("CONFIG SET masterauth sekret7", "+OK\r\n");
    client.check("CONFIG SET maxmemory 0 primaryauth sekret8", "+OK\r\n");
    client.run("CONFIG SET tls-key-file-pass sekret9");
    client.run("CONFIG SET requirepas sekret10");
    client.check("MULTI", "+OK\r\n");
    client.check("ACL SETUSER bob on >sekret5", "+QUEUED\r\n");
    client.check("EXEC", "*1\r\n+OK\r\n");
    client.check("SET last value", "+OK\r\n");
    let page = until("the last request", || {
        let page = json(&server, "").to_string();
        page.contains("\"last\"").then_some(page)
    })
    .expect("it is shown");
    let (_, html) = get(&server, "/server-status");
    let logs = [
        "SLOWLOG GET -1",
        "SLOWLOG PHASES",
        "COMMANDLOG GET -1 slow",
        "COMMANDLOG GET -1 large-request",
        "COMMANDLOG GET -1 large-reply",
    ];
    let logs = logs.map(|log| texts(&client.run(log)));
    let mut seen = String::new();
    while !seen.contains("\"last\"") {
        seen = monitor.line();
        assert!(!seen.contains("sekret"), "{seen}");
    }
    for text in [page, html].iter().chain(&logs) {
        assert!(text.contains("(redacted)") && !text.contains("sekret"), "{text}");
    }
}

#[test]
fn an_explicit_title_has_its_own_placeholders() {
    let folder = Folder::new("title");
    let template = "x={state}/{rate}/{requests}/{connections}";
    let server = folder.nagi(&["--workers", "1", "--proc-title-template", template]);
    let title = || {
        let path = format!("/proc/{}/cmdline", server.process_id());
        let text = fs::read_to_string(path).expect("its command line");
        text.trim_end_matches('\0').to_owned()
    };
    let wait_for = |what: &str| {
        until(what, || (title() == what).then_some(())).unwrap_or_else(|problem| {
            panic!("{problem}: {}", title());
        });
    };
    wait_for("x=_/0/s/0/0");
    let mut client = server.connect_resp();
    (0..3).for_each(|_| client.check("PING", "+PONG\r\n"));
    wait_for("x=K/0/s/3/1");
    until("a rate", || {
        (0..100).for_each(|_| client.check("PING", "+PONG\r\n"));
        let title = title();
        let mut parts = title.split('/');
        let is_busy = parts.next() == Some("x=W") && parts.next() != Some("0");
        is_busy.then_some(())
    })
    .expect("it is shown");
}

#[test]
fn clients_over_http_have_rows_of_their_own() {
    let server = nagi(&[]);
    let row = |what: &str, fits: &dyn Fn(&serde_json::Value) -> bool| {
        let found = until(what, || {
            let page = json(&server, "");
            page["stats"].as_array().expect("a list").iter().find(|row| fits(row)).cloned()
        });
        found.unwrap_or_else(|problem| panic!("{problem}"))
    };
    let mut first = Client::of(&server);
    for _ in 0..5 {
        first.ask("GET", "/PING", "User-Agent: shop/1.0 (<b>)\r\n", b"");
    }
    let listed = row("the first client", &|row| row["requests"] == 5);
    assert_eq!(
        (&listed["protocol"], &listed["library"]),
        (&"HTTP".into(), &"shop/1.0 (<b>)".into())
    );
    // The next client uses the same connection to a worker, and its counts begin at zero.
    let long = format!("User-Agent: {}\r\n", "x".repeat(100));
    Client::of(&server).ask("GET", "/PING", &long, b"");
    let next = row("the next client", &|row| row["library"] == "x".repeat(64));
    assert_eq!((&next["id"], &next["requests"]), (&listed["id"], &1.into()));
    assert!(next["sent_bytes"].as_u64() < listed["sent_bytes"].as_u64(), "{next}");
    let mut socket = Socket::open(&server, "/.json");
    socket.check(r#"["PING"]"#, r#"{"PING":[true,"PONG"]}"#);
    let socket_row = row("the socket", &|row| row["protocol"] == "WebSocket");
    assert_eq!(socket_row["library"], "");
}

#[test]
fn requests_over_http_are_counted() {
    let server = nagi(&[]);
    let series = |name: &str| {
        let (_, page) = get(&server, "/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse::<u64>().expect("a number")
    };
    let reaches = |name: &str, count: u64| {
        until(name, || (series(name) >= count).then_some(()))
            .unwrap_or_else(|problem| panic!("{problem}"));
    };
    let mut client = Client::of(&server);
    for _ in 0..3 {
        client.ask("GET", "/PING", "", b"");
        client.ask("GET", "/NOSUCH", "", b"");
    }
    reaches("nagi_http_requests_total{status=\"2xx\"}", 3);
    reaches("nagi_http_requests_total{status=\"4xx\"}", 3);
    reaches("nagi_http_connections", 1);
    assert_eq!(series("nagi_http_refusals_total{status=\"503\"}"), 0);
    let socket = Socket::open(&server, "/.json");
    reaches("nagi_http_web_sockets", 1);
    assert_eq!(series("nagi_http_requests_total{status=\"1xx\"}"), 1);
    drop(socket);
    until("the socket is closed", || (series("nagi_http_web_sockets") == 0).then_some(()))
        .expect("it is");
    server.connect_resp().check("CONFIG RESETSTAT", "+OK\r\n");
    until("the counters are reset", || {
        (series("nagi_http_requests_total{status=\"4xx\"}") == 0).then_some(())
    })
    .expect("they are");
}

#[test]
fn http_connections_are_listed_between_their_requests() {
    let server = nagi(&[]);
    let (mut pages, mut commands) = (Client::of(&server), Client::of(&server));
    for _ in 0..2 {
        assert_eq!(pages.get("/healthz").0, 200);
    }
    assert_eq!(commands.get("/GET/key").0, 200);
    let listed = || -> Vec<serde_json::Value> {
        let rows = json(&server, "")["stats"].as_array().expect("a list").clone();
        let is_kept = |it: &serde_json::Value| it["state"] == "idle" && it["requests"] != 0;
        rows.into_iter().filter(is_kept).collect()
    };
    until("both connections", || {
        let mut rows = listed();
        rows.sort_by_key(|it| it["method"].to_string());
        let [pages, commands] = &*rows else { return None };
        let is_idle = pages["method"] == ""
            && pages["protocol"] == "HTTP"
            && pages["worker"].is_null()
            && pages["requests"] == 2;
        let is_shown = commands["method"] == "get" && commands["worker"].is_number();
        (is_idle && is_shown && pages["remote_addr"] != commands["remote_addr"]).then_some(())
    })
    .expect("each is listed once");
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("<td class=\"text\">HTTP</td><td class=\"text\"></td>"), "{page}");
    drop(pages);
    until("the end of one", || (listed().len() == 1).then_some(())).expect("it is not listed");
}
