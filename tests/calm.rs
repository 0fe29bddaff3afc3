//! `nagi calm` must report a server's stalls, must not attribute its own stalls to the server, and
//! must destroy no data without permission.

use harness::{Folder, Server, nagi_binary, tool, until};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run whose progress lines are read.
struct Calm {
    child: Child,
    progress: BufReader<std::process::ChildStderr>,
    /// All progress lines so far.
    said: String,
}

impl Calm {
    /// Starts a quick run with arguments separated by blanks, which prints JSON.
    fn start(arguments: &str) -> Self {
        Self::begin(&format!("--json - {arguments}"))
    }

    /// Starts a quick run that prints a table.
    fn begin(arguments: &str) -> Self {
        let mut child = Command::new(nagi_binary())
            .args(["calm", "--quick", "--quiet-seconds", "0.5"])
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nagi starts");
        let progress = BufReader::new(child.stderr.take().expect("piped"));
        Calm { child, progress, said: String::new() }
    }

    fn url(server: &Server) -> String {
        format!("redis://{}", server.resp())
    }

    /// Waits until the run prints `text`.
    fn until(&mut self, text: &str) {
        loop {
            let before = self.said.len();
            let read = self.progress.read_line(&mut self.said).expect("text");
            assert!(read > 0, "it ended without {text}: {}", self.said);
            if self.said[before..].contains(text) {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Returns whether the run succeeded, its output, and all of its progress lines.
    fn end(mut self) -> (bool, String, String) {
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        self.progress.read_to_string(&mut self.said).expect("text");
        (self.child.wait().expect("it ends").success(), printed, self.said)
    }

    /// Returns the only row of the only server.
    fn row(self) -> serde_json::Value {
        let (succeeded, printed, said) = self.end();
        assert!(succeeded, "{said}");
        let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        report["servers"][0]["rows"][0].clone()
    }

    /// Returns the line with which the run fails. If anything was measured, checks that the report
    /// is incomplete.
    fn failure(self) -> String {
        let (succeeded, printed, said) = self.end();
        assert!(!succeeded, "{printed}");
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("nagi: ")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(said.trim_end().ends_with(lines[0]), "{said}");
        if !printed.is_empty() {
            let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
            let reason = report["incomplete"].as_str().expect("a reason");
            assert!(lines[0].contains(reason), "{printed}: {said}");
        }
        lines[0].to_owned()
    }
}

/// Waits until the server has answered the probe, so that a stop falls in the middle of a step.
fn answer_some(server: &Server) {
    let mut client = server.connect_resp();
    let mut answered = || {
        let info = client.run("INFO stats").text();
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    };
    let before = answered();
    until("the probe", || (answered() > before + 1500).then_some(())).expect("it sends requests");
}

/// Sleeps, because the length of a stop is what is tested.
fn pass(time: Duration) {
    let start = Instant::now();
    until("the end of a stop", || (start.elapsed() >= time).then_some(())).expect("time passes");
}

fn number(row: &serde_json::Value, name: &str) -> f64 {
    row["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is not in {row}"))
}

#[test]
fn a_server_that_stops_for_100_ms_is_seen() {
    let server = Server::nagi();
    let mut calm = Calm::start(&format!("--attempts 1 --only slow-reader {}", Calm::url(&server)));
    calm.until("measures");
    answer_some(&server);
    server.signal(Signal::STOP);
    pass(Duration::from_millis(100));
    server.signal(Signal::CONT);
    let row = calm.row();
    let stopped_us = number(&row, "stopped_percent") / 100.0 * number(&row, "seconds") * 1e6;
    assert!(number(&row, "max_us") + stopped_us >= 95_000.0, "{row}");
    assert_eq!(number(&row, "lost"), 0.0, "{row}");
}

#[test]
fn a_stop_of_the_tool_is_not_attributed_to_the_server() {
    let server = Server::nagi();
    let mut calm = Calm::start(&format!("--attempts 1 --only slow-reader {}", Calm::url(&server)));
    calm.until("measures");
    answer_some(&server);
    calm.signal(Signal::STOP);
    pass(Duration::from_millis(400));
    calm.signal(Signal::CONT);
    let row = calm.row();
    assert_eq!(row["status"], "void", "{row}");
    assert!(row["reason"].as_str().expect("text").contains("stalled"), "{row}");
    assert!(number(&row, "max_us") < 350_000.0, "{row}");
    assert!(number(&row, "stopped_percent") > 10.0, "{row}");
}

#[test]
fn data_is_not_destroyed_without_permission() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SELECT 3", "+OK\r\n");
    client.check("SET precious 1", "+OK\r\n");
    let failure = Calm::start(&format!("--only keys {}", Calm::url(&server))).failure();
    assert!(failure.contains("is not empty (keys: 1): give --i-may-destroy-data"), "{failure}");
    client.check("GET precious", "$1\r\n1\r\n");
    let allowed = format!("--i-may-destroy-data --only keys {}", Calm::url(&server));
    assert_eq!(Calm::start(&allowed).row()["what"], "KEYS * of a million keys");
    client.check("GET precious", "$-1\r\n");
}

#[test]
fn data_that_comes_during_a_step_stays() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut calm = Calm::start(&format!("--only slow-reader {}", Calm::url(&server)));
    calm.until("measures");
    client.check("SELECT 1", "+OK\r\n");
    client.check("SET precious 1", "+OK\r\n");
    let failure = calm.failure();
    assert!(failure.contains("keys in db1"), "{failure}");
    client.check("GET precious", "$1\r\n1\r\n");
}

/// Waits for more than `count` keys, which show that a step is being prepared.
fn fill(client: &mut harness::Connection, count: i64) {
    until("the step's keys", || (client.run("DBSIZE").integer() > count).then_some(()))
        .expect("it writes keys");
}

/// A key of another client among many keys of a step, in the same database, must not be removed.
fn check_that_a_foreign_key_stays(server: &Server, step: &str) {
    let mut client = server.connect_resp();
    let mut calm = Calm::start(&format!("--only {step} {}", Calm::url(server)));
    calm.until("prepares");
    fill(&mut client, 5000);
    client.check("SET precious 1", "+OK\r\n");
    let failure = calm.failure();
    assert!(failure.contains("holds the key precious"), "{step}: {failure}");
    client.check("GET precious", "$1\r\n1\r\n");
    assert!(client.run("DBSIZE").integer() > 5000, "nothing else is removed either");
    client.check("FLUSHALL", "+OK\r\n");
}

#[test]
fn one_foreign_key_among_thousands_stays() {
    for server in [Server::nagi()].into_iter().chain(Server::every_redis()) {
        for step in ["keys", "flushall"] {
            check_that_a_foreign_key_stays(&server, step);
        }
    }
}

/// Returns memcached's number of items.
fn items(client: &mut harness::Connection) -> u64 {
    client.send("stats\r\n");
    let mut count = 0;
    loop {
        let line = client.line();
        if line.starts_with("END") {
            return count;
        }
        if let Some(value) = line.strip_prefix("STAT curr_items ") {
            count = value.trim().parse().expect("a number");
        }
    }
}

/// An item of another client, which `store` stores as `precious` in memcached, must not be removed.
fn check_that_a_foreign_item_stays(server: &Server, step: &str, store: impl FnOnce(&Server)) {
    let mut client = server.connect_memcached();
    let url = format!("memcached://{}", server.memcached_address());
    let mut calm = Calm::start(&format!("--only {step} {url}"));
    calm.until("prepares");
    until("the step's items", || (items(&mut client) > 5000).then_some(())).expect("items");
    store(server);
    let failure = calm.failure();
    assert!(failure.contains("which this tool did not store"), "{step}: {failure}");
    client.check_raw("get precious\r\n", "VALUE precious 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn one_foreign_item_of_memcached_stays() {
    let set = |server: &Server| {
        server.connect_memcached().check_raw("set precious 0 0 1\r\n1\r\n", "STORED\r\n");
    };
    for step in ["expiry", "flushall"] {
        for server in Server::every_memcached(&[]) {
            check_that_a_foreign_item_stays(&server, step, set);
        }
        check_that_a_foreign_item_stays(&Server::nagi(), step, set);
    }
    // The count of stored items in memcached's statistics omits values stored by RESP.
    check_that_a_foreign_item_stays(&Server::nagi(), "flushall", |server| {
        server.connect_resp().check("SET precious 1", "+OK\r\n");
    });
}

#[test]
fn changes_to_a_server_or_its_files_must_be_allowed() {
    let server = Server::nagi();
    for (name, danger) in [
        ("bgsave", "overwrites"),
        ("maxmemory", "CONFIG SET"),
        ("connect-at-once", "storm"),
        ("connect-steadily", "storm"),
    ] {
        let row = Calm::start(&format!("--only {name} {}", Calm::url(&server))).row();
        assert_eq!(row["status"], "not-applicable", "{row}");
        let reason = row["reason"].as_str().expect("text");
        assert!(reason.contains(danger) && reason.contains("--i-may-destroy-data"), "{reason}");
    }
}

#[test]
fn settings_are_restored_after_ctrl_c() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET maxmemory-policy volatile-ttl", "+OK\r\n");
    let before = client.run("CONFIG GET maxmemory*");
    let url = Calm::url(&server);
    let mut calm =
        Calm::start(&format!("--i-may-destroy-data --step-seconds 60 --only maxmemory {url}"));
    calm.until("measures");
    assert_ne!(client.run("CONFIG GET maxmemory*"), before);
    assert!(calm.said.contains("set maxmemory-policy to allkeys-lru (was volatile-ttl)"));
    calm.signal(Signal::INT);
    calm.until("interrupted: restores settings");
    let failure = calm.failure();
    assert!(failure.ends_with("interrupted"), "{failure}");
    assert_eq!(client.run("CONFIG GET maxmemory*"), before);
    assert_eq!(client.run("DBSIZE").integer(), 0);
}

#[test]
fn ctrl_c_ends_a_run_while_the_server_hangs() {
    for step in ["monitor", "expiry", "quiet"] {
        let server = Server::nagi();
        let mut calm = Calm::start(&format!("{} --only monitor,expiry", Calm::url(&server)));
        calm.until(if step == "quiet" { "quiet: " } else { step });
        server.signal(Signal::STOP);
        calm.signal(Signal::INT);
        let error = calm.failure();
        server.signal(Signal::CONT);
        assert!(error.contains("interrupted"), "{error}");
    }
}

#[test]
fn a_server_that_refuses_the_probe_is_not_measured() {
    let server = Server::nagi();
    server.connect_resp().check("ACL SETUSER default -get", "+OK\r\n");
    let error = Calm::start(&Calm::url(&server)).failure();
    assert!(error.contains("in the quiet phase: NOPERM"), "{error}");
}

#[test]
fn what_a_user_may_not_execute_is_not_applicable() {
    let server = Server::nagi();
    let denied = "ACL SETUSER default -config|set -eval -keys -monitor -hset -bgsave";
    server.connect_resp().check(denied, "+OK\r\n");
    let steps = "bgsave,script,read-collections,keys,maxmemory,monitor";
    let line = format!("--i-may-destroy-data --only {steps} {}", Calm::url(&server));
    let (succeeded, printed, said) = Calm::start(&line).end();
    assert!(succeeded && !said.contains("could not be restored"), "{said}");
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let rows = report["servers"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "{printed}");
    for row in rows {
        assert_eq!(row["status"], "not-applicable", "{row}");
        assert!(row["reason"].as_str().expect("a reason").contains("NOPERM"), "{row}");
    }
}

#[test]
fn a_server_that_hides_its_databases_must_be_allowed() {
    let mut command = tool("redis-server");
    command.args(["--rename-command", "INFO", ""]);
    let server = Server::start_redis(command).expect("it starts");
    let mut client = server.connect_resp();
    client.check("SELECT 5", "+OK\r\n");
    client.check("SET precious 1", "+OK\r\n");
    let error = Calm::start(&format!("--only flushall {}", Calm::url(&server))).failure();
    assert!(error.contains("which databases have keys: give --i-may-destroy-data"), "{error}");
    assert_eq!(client.run("GET precious").text(), "1");
}

#[test]
fn a_script_runs_for_a_second_on_every_version() {
    for server in [Server::redis(), Server::nagi()] {
        let row = Calm::start(&format!("--only script {}", Calm::url(&server))).row();
        assert!(row["status"] == "measured" || row["status"] == "void", "{row}");
    }
}

#[test]
fn two_results_cannot_be_written_to_one_file() {
    let folder = Folder::new("calm-one-file");
    let file = folder.path().join("results").display().to_string();
    let calm = Calm::begin(&format!("127.0.0.1:1 --json {file} --html {file}"));
    assert!(calm.failure().contains("name the same file"));
}

#[test]
fn a_limit_that_memcached_cannot_restore_is_not_changed() {
    let limit = ((300 << 20) + 1).to_string();
    let server = Server::nagi_with(&["--maxmemory", &limit]);
    let url = format!("memcached://{}", server.memcached_address());
    let row = Calm::start(&format!("--i-may-destroy-data --only maxmemory {url}")).row();
    assert_eq!(row["status"], "not-applicable", "{row}");
    let reason = row["reason"].as_str().expect("text");
    assert!(reason.contains("is not a whole number of MB"), "{reason}");
    let kept = server.connect_resp().run("CONFIG GET maxmemory");
    assert_eq!(kept.list()[1].text(), limit);
}

#[test]
fn both_protocols_have_rows_and_state_their_gaps() {
    let server = Server::nagi();
    let page = std::env::temp_dir().join(format!("nagi-calm-{}.html", std::process::id()));
    let urls = format!("{} memcached://{}", Calm::url(&server), server.memcached_address());
    let calm =
        Calm::start(&format!("--only keys,expiry --rate 500 --html {} {urls}", page.display()));
    let (succeeded, printed, said) = calm.end();
    assert!(succeeded, "{said}");
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let status = |server: usize, row: usize| &report["servers"][server]["rows"][row]["status"];
    assert_eq!(status(1, 0), "not-applicable", "{printed}");
    for (server, row) in [(0, 0), (0, 1), (1, 1)] {
        assert!(status(server, row) == "measured" || status(server, row) == "void", "{printed}");
    }
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("memcached&#39;s protocol has no KEYS"), "{html}");
    std::fs::remove_file(&page).expect("it is there");
}

#[test]
fn a_server_that_stops_ends_the_run_with_one_line() {
    let server = Server::nagi();
    let mut calm = Calm::start(&format!("--only slow-reader {}", Calm::url(&server)));
    calm.until("measures");
    server.signal(Signal::KILL);
    let failure = calm.failure();
    assert!(failure.contains(&server.resp().port().to_string()), "{failure}");
}

/// Returns the results of a run that ended early, from the file and the page that it has written.
fn incomplete_results(
    mut calm: Calm,
    folder: &Folder,
    end: impl FnOnce(&Calm),
) -> serde_json::Value {
    // The first disturbance is complete when the second begins.
    calm.until("slow-reader: ");
    calm.until("slow-reader: nagi");
    end(&calm);
    let (succeeded, printed, said) = calm.end();
    assert!(!succeeded, "{said}");
    assert!(printed.contains("incomplete: the run ended early"), "{printed}");
    let read =
        |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it was written");
    assert!(read("page").contains("Incomplete: the run ended early"));
    serde_json::from_str(&read("json")).expect("JSON")
}

#[test]
fn what_was_measured_is_kept_if_a_run_ends_early() {
    let folder = Folder::new("calm-incomplete");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let files = format!("--json {} --html {}", path("json"), path("page"));
    let servers = [Server::nagi(), Server::nagi()];
    let urls = servers.each_ref().map(Calm::url).join(" ");
    let line = format!("{files} --only value,slow-reader --step-seconds 0.5");
    let start = |urls: &str| Calm::begin(&format!("{line} {urls}"));
    let report = incomplete_results(start(&urls), &folder, |calm| calm.signal(Signal::INT));
    assert_eq!(report["incomplete"], "interrupted", "{report}");
    for server in 0..2 {
        let rows = report["servers"][server]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 1, "{report}");
        assert_eq!(rows[0]["name"], "value", "{report}");
    }
    let killed = incomplete_results(start(&urls), &folder, |_| servers[1].signal(Signal::KILL));
    let reason = killed["incomplete"].as_str().expect("a reason");
    assert!(reason.contains(&servers[1].resp().port().to_string()), "{reason}");
    let rows = |server: usize| killed["servers"][server]["rows"].as_array().expect("rows").len();
    assert!(rows(0) >= 1 && rows(1) == 1, "{killed}");
}

/// Starts a server that has only GET, SET, DBSIZE and FLUSHALL and runs until the process ends.
fn minimal_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let keys = Arc::new(Mutex::new(HashMap::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let keys = Arc::clone(&keys);
            std::thread::spawn(move || answer_requests(stream, &keys));
        }
    });
    address
}

fn answer_requests(stream: TcpStream, keys: &Mutex<HashMap<Vec<u8>, Vec<u8>>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    let number = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse::<usize>().ok()
    };
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut reader)? {
            let mut word = vec![0; number(&mut reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            words.push(word);
        }
        let mut keys = keys.lock();
        let reply = match words.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
            [b"GET", key] => match keys.get(key) {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
            [b"SET", key, value] => {
                keys.insert(key.to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            [b"SET", ..] => b"-ERR syntax error\r\n".to_vec(),
            [b"DBSIZE"] => format!(":{}\r\n", keys.len()).into_bytes(),
            [b"FLUSHALL"] => {
                keys.clear();
                b"+OK\r\n".to_vec()
            }
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        drop(keys);
        writer.write_all(&reply).ok()?;
    }
}

#[test]
fn a_server_with_few_commands_is_measured_as_far_as_it_goes() {
    let url = format!("redis://{}", minimal_server());
    let failure = Calm::start(&url).failure();
    assert!(failure.contains("does not list its keys (ERR unknown command)"), "{failure}");
    let (possible, impossible) = (
        "value,connect-steadily,slow-reader",
        "bgsave,script,read-collections,delete-collections,expire-collections,keys,expiry,\
         maxmemory,monitor",
    );
    let line = format!(
        "--i-may-destroy-data --step-seconds 0.3 --rate 500 --only {possible},{impossible} {url}"
    );
    let (succeeded, printed, said) = Calm::start(&line).end();
    assert!(succeeded, "{said}");
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(report["servers"][0]["name"], "server", "{printed}");
    let rows = report["servers"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12, "{printed}");
    for row in rows {
        let (name, status) = (row["name"].as_str(), row["status"].as_str());
        let is_possible = possible.split(',').any(|it| name == Some(it));
        if is_possible {
            assert!(matches!(status, Some("measured" | "void")), "{row}");
        } else {
            assert_eq!(status, Some("not-applicable"), "{row}");
            let reason = row["reason"].as_str().expect("a reason");
            let words = ["unknown command", "INFO does not say", "syntax error"];
            assert!(words.iter().any(|it| reason.contains(it)), "{row}");
        }
    }
}

#[test]
fn wrong_urls_and_passwords_end_with_one_line() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let server = Server::nagi_with(&["--requirepass", "open-sesame"]);
    let port = server.resp().port();
    for (url, words) in [
        (format!("redis://{closed}"), "cannot connect to"),
        ("redis://no-such-host.invalid:1".to_owned(), "cannot connect to"),
        ("127.0.0.1:6379/3".to_owned(), "not a URL"),
        ("http://127.0.0.1".to_owned(), "must be redis"),
        ("redis://127.0.0.1:99999".to_owned(), "99999 is not a port"),
        ("unix:/no/such/socket".to_owned(), "cannot connect to"),
        (format!("redis://localhost:{port} 127.0.0.1:{port}"), "have the same address"),
        (format!("127.0.0.1:{port} redis://[::ffff:127.0.0.1]:{port}"), "have the same address"),
        (format!("redis://127.0.0.1:{port}"), "NOAUTH"),
        (format!("redis://:s3same@127.0.0.1:{port}"), "***@127.0.0.1"),
    ] {
        let failure = Calm::start(&url).failure();
        assert!(failure.contains(words) && !failure.contains("s3same"), "{url}: {failure}");
    }
    let url = format!("--only slow-reader redis://:open-sesame@127.0.0.1:{port}");
    let (succeeded, printed, said) = Calm::start(&url).end();
    assert!(succeeded && !(printed + &said).contains("sesame"), "{said}");
    let file = std::env::temp_dir().join(format!("nagi-calm-{}.password", std::process::id()));
    std::fs::write(&file, "open-sesame\n").expect("a file");
    let url = format!("--only script --password-file {} redis://127.0.0.1:{port}", file.display());
    let (succeeded, _, said) = Calm::start(&url).end();
    assert!(succeeded, "{said}");
    std::fs::remove_file(&file).expect("it is there");
}

#[test]
fn replicas_and_their_masters_are_refused() {
    let (primary, replica) = (Server::redis(), Server::redis());
    let mut client = replica.connect_resp();
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.resp().port()), "+OK\r\n");
    let mut watcher = primary.connect_resp();
    let mut is_copied = || watcher.run("INFO replication").text().contains("state=online");
    until("the replica", || is_copied().then_some(())).expect("it follows");
    for (server, words) in [(&primary, "has replicas (1)"), (&replica, "is a replica")] {
        let failure = Calm::start(&Calm::url(server)).failure();
        assert!(failure.contains(words) && failure.contains("--i-may-destroy-data"), "{failure}");
    }
}
