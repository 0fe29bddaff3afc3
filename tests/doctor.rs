//! `nagi doctor` must find nothing on a healthy server, must report what it could not check, and
//! must not show secrets. tests/faults.rs tests its findings.

use harness::{Folder, Reply, Server, allow_open_files, nagi_binary, skipped, tool, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::faults::{CONTENDED, Moment};

/// If a server's thread waits for a processor for at least this percentage of the time while other
/// programs use the machine, the thread is not busy because of its own work.
const CONTENDED_PERCENT: u64 = 15;
/// The percentage from which that holds regardless of other programs.
const MOSTLY_CONTENDED_PERCENT: u64 = 30;

/// The result of a run.
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) printed: String,
    pub(crate) said: String,
    /// The share of all processors that programs other than the test used during the run.
    pub(crate) others: f64,
}

impl Run {
    /// Returns the report on the first server.
    pub(crate) fn server(&self) -> serde_json::Value {
        let report: serde_json::Value = serde_json::from_str(&self.printed)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.printed, self.said));
        report["servers"][0].clone()
    }

    /// Returns the names of the findings, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let server = self.server();
        let found = server["found"].as_array().unwrap_or_else(|| panic!("{server}"));
        let names = found.iter().map(|it| it["name"].as_str().expect("a name").to_owned());
        names.collect()
    }

    /// Returns the percentage of the time for which the server's busiest thread waited for a
    /// processor, as far as the report shows it.
    fn waited_percent(&self) -> u64 {
        let server = self.server();
        let found = server["found"].as_array().into_iter().flatten();
        let evidence = found.filter_map(|it| it["evidence"].as_array()).flatten();
        let waited = evidence.filter(|line| line[0] == "waiting for a processor");
        let numbers = waited.filter_map(|line| line[1].as_str()?.split(' ').next()?.parse().ok());
        numbers.max().unwrap_or(0)
    }

    /// Whether other programs used so much of the machine that the run does not count, whatever was
    /// found.
    pub(crate) fn is_contended(&self) -> bool {
        self.others >= CONTENDED
    }

    /// Returns why the findings are caused by the machine that runs the tests and not by the
    /// healthy server; `None` if the machine does not explain them.
    pub(crate) fn void(&self) -> Option<&'static str> {
        let names = self.names();
        let waited = self.waited_percent();
        let is_waiting = waited >= CONTENDED_PERCENT && self.others >= CONTENDED
            || waited >= MOSTLY_CONTENDED_PERCENT;
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["cpu-throttled"] | ["cpu-throttled", "one-thread-busy"] => {
                Some("a limit throttles this machine")
            }
            ["one-thread-busy"] if is_waiting => Some("other programs have the processors"),
            _ => None,
        }
    }

    /// Checks that there are no findings, except those that the machine explains.
    #[track_caller]
    pub(crate) fn check_well(&self) {
        if let Some(reason) = self.void() {
            return skipped(format_args!("{reason}: {}", self.printed));
        }
        assert_eq!(self.names(), [""; 0], "{}", self.printed);
        assert_eq!(self.status, Some(0), "{}", self.said);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (printed, said) = (text(output.stdout), text(output.stderr));
        Run { status: output.status.code(), printed, said, others: 0.0 }
    }
}

pub(crate) fn doctor(arguments: &[&str]) -> Run {
    let mut command = Command::new(nagi_binary());
    command.arg("doctor").args(arguments).env_remove("REDISCLI_AUTH");
    command.output().expect("nagi runs").into()
}

/// Runs for two seconds with JSON output. Repeats the run while this host delays the doctor itself.
pub(crate) fn look(url: &str, more: &[&str]) -> Run {
    look_for("2", url, more)
}

pub(crate) fn look_for(seconds: &str, url: &str, more: &[&str]) -> Run {
    let arguments = [&["--seconds", seconds, "--json", "-", url], more].concat();
    let attempt = || {
        let begun = Moment::now();
        let mut run = doctor(&arguments);
        run.others = begun.others_since();
        run.server()["round_trips"]["was_late"].as_bool().is_some_and(|late| !late).then_some(run)
    };
    until("a host with time", attempt).expect("it has time")
}

pub(crate) fn resp(server: &Server) -> String {
    format!("redis://{}", server.resp())
}

pub(crate) fn memcached(server: &Server) -> String {
    format!("memcached://{}", server.memcached_address())
}

/// Starts redis-server with these settings.
pub(crate) fn redis_with(arguments: &[&str]) -> Server {
    let mut command = tool("redis-server");
    command.args(arguments);
    Server::start_redis(command).expect("redis-server starts")
}

/// Runs while `work` is repeated on another thread, which starts first.
pub(crate) fn look_during(url: &str, more: &[&str], work: impl FnMut() + Send) -> Run {
    look_for_during("2", url, more, work)
}

pub(crate) fn look_for_during(
    seconds: &str,
    url: &str,
    more: &[&str],
    mut work: impl FnMut() + Send,
) -> Run {
    let (has_begun, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                work();
                has_begun.store(true, Ordering::Release);
            }
        });
        until("the work", || has_begun.load(Ordering::Acquire).then_some(())).expect("it works");
        let run = look_for(seconds, url, more);
        is_over.store(true, Ordering::Release);
        run
    })
}

#[test]
fn healthy_servers_have_no_findings() {
    let (nagi, redis, cache) = (Server::nagi(), Server::redis(), Server::memcached());
    for url in [resp(&nagi), memcached(&nagi), resp(&redis), memcached(&cache)] {
        look(&url, &["--probe-writes"]).check_well();
    }
    let socket = std::env::temp_dir().join(format!("nagi-doctor-{}.sock", std::process::id()));
    let socket = socket.to_str().expect("text");
    let _redis = redis_with(&["--unixsocket", socket]);
    for url in [format!("unix:{socket}"), socket.to_owned(), redis.resp().to_string()] {
        look(&url, &[]).check_well();
    }
}

/// Returns the number of connections that the kernel has rejected in this network namespace.
fn listen_overflows() -> u64 {
    let table = std::fs::read_to_string("/proc/net/netstat").expect("the kernel counts");
    let mut lines = table.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let place = names.split(' ').position(|name| name == "ListenOverflows").expect("it is there");
    numbers.split(' ').nth(place).and_then(|it| it.parse().ok()).expect("a number")
}

#[test]
fn rejections_by_another_listener_are_not_this_servers() {
    let server = Server::redis();
    let full = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&full, 1).expect("a short queue");
    let at = full.local_addr().expect("an address");
    let before = listen_overflows();
    let mut waiting = Vec::new();
    let run = look_during(&resp(&server), &[], || {
        waiting.extend(TcpStream::connect_timeout(&at, Duration::from_millis(2)));
        let mut client = server.connect_resp();
        (0..10).for_each(|_| drop(client.run("PING")));
    });
    assert!(listen_overflows() > before, "nothing was turned away");
    run.check_well();
    assert!(run.server()["well"].to_string().contains("accept-queue"), "{}", run.printed);
}

#[test]
fn servers_that_differ_are_shown() {
    let settings = ["--maxmemory-policy", "allkeys-lru"];
    let servers = [Server::redis(), redis_with(&settings), Server::redis()];
    let urls = servers.each_ref().map(resp);
    let run = look(&urls[0], &[&urls[1], &urls[2]]);
    let report: serde_json::Value = serde_json::from_str(&run.printed).expect("JSON");
    let lines = report["differences"].to_string();
    assert!(lines.contains(&format!("{} has allkeys-lru", urls[1])), "{lines}");
}

#[test]
fn an_unreachable_target_is_reported_in_one_line() {
    let (redis, cache) = (redis_with(&["--requirepass", "secret"]), Server::memcached());
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
    let wrong_password = format!("redis://:wrong-secret@{}", redis.resp());
    for (url, told) in [
        (format!("redis://{closed}"), "refused"),
        (resp(&redis), "NOAUTH"),
        (wrong_password, "WRONGPASS"),
        (format!("memcached://{}", redis.resp()), ""),
        (format!("redis://{}", cache.memcached_address()), ""),
        ("ftp://nowhere".to_owned(), "scheme"),
        ("127.0.0.1/3".to_owned(), "not a URL"),
    ] {
        let run = doctor(&["--seconds", "1", &url]);
        assert_eq!(run.status, Some(2), "{url}: {} {}", run.printed, run.said);
        assert_eq!((run.printed.as_str(), run.said.lines().count()), ("", 1), "{}", run.said);
        assert!(run.said.contains(told), "{}", run.said);
        assert!(!run.said.contains("wrong-secret"), "{}", run.said);
    }
}

/// Accepts connections until the test process ends. Reads from each connection if `reads`, sends
/// `answer`, and closes the connection.
fn hang_up(answer: &'static [u8], reads: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // The client may have closed the connection.
            let _ = if reads { client.read(&mut [0; 64]) } else { Ok(0) };
            let _ = client.write_all(answer);
        }
    });
    address
}

/// A listener that closes connections may be a TLS port, a proxy without servers, or a server with
/// another protocol. It is not evidence of a server that has reached its limit of clients.
#[test]
fn a_listener_that_closes_connections_is_not_a_full_server() {
    for (at, told) in [
        (hang_up(b"", false), "without an answer: is the port for another protocol"),
        (hang_up(b"", true), "without an answer: is the port for another protocol"),
        (hang_up(b"$99999999999\r\n", true), "without an answer: is the port for another protocol"),
        (hang_up(b"\x15\x03\x01\x00\x02\x02\x46", true), "without an answer: is the port"),
        (hang_up(b"HTTP/1.1 400 Bad Request\r\n\r\n", true), "not RESP: HTTP/1.1 400"),
    ] {
        for scheme in ["redis", "memcached"] {
            let run = doctor(&["--seconds", "1", &format!("{scheme}://{at}")]);
            assert_eq!(run.status, Some(2), "{} {}", run.printed, run.said);
            assert_eq!((run.printed.as_str(), run.said.lines().count()), ("", 1), "{}", run.said);
            assert!(scheme == "memcached" || run.said.contains(told), "{}", run.said);
        }
    }
}

#[test]
fn a_silent_server_with_a_password_is_reported_as_frozen() {
    let redis = redis_with(&["--requirepass", "secret"]);
    redis.signal(Signal::STOP);
    let run = look(&format!("redis://:secret@{}", redis.resp()), &[]);
    redis.signal(Signal::CONT);
    assert_eq!(run.names().first().map(String::as_str), Some("frozen"), "{}", run.printed);
}

/// Returns the number of connections that a server has accepted, including that of this request.
fn connections_taken(server: &Server) -> u64 {
    let text = server.connect_resp().run("INFO stats").text();
    let line = text.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|it| it.parse().ok()).expect("it counts them")
}

#[test]
fn a_file_that_cannot_be_opened_is_reported_before_the_run() {
    let redis = Server::redis();
    let before = connections_taken(&redis);
    for option in ["--html", "--json"] {
        let run = doctor(&["--seconds", "1", option, "/nonexistent/x", &resp(&redis)]);
        assert_eq!((run.status, run.printed.as_str()), (Some(2), ""));
        assert!(run.said.contains("/nonexistent/x: No such file"), "{}", run.said);
    }
    assert_eq!(connections_taken(&redis), before + 1, "it was not looked at");
}

#[test]
fn a_file_that_cannot_be_written_loses_no_report() {
    let redis = Server::redis();
    for option in ["--html", "--json"] {
        let run = doctor(&["--seconds", "1", option, "/dev/full", &resp(&redis)]);
        assert_eq!(run.status, Some(2), "{} {}", run.printed, run.said);
        assert!(run.said.contains("/dev/full: No space left"), "{}", run.said);
        assert!(run.printed.contains("observed for"), "{}", run.printed);
    }
}

#[test]
fn a_finding_counts_more_than_a_server_that_cannot_be_reached() {
    let (redis, watched) = (Server::redis(), Server::redis());
    let mut watcher = watched.connect_resp();
    watcher.check("MONITOR", "+OK\r\n");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
    let unreachable = format!("redis://{closed}");
    let run = doctor(&["--seconds", "1", &unreachable, &resp(&watched)]);
    assert_eq!(run.status, Some(1), "{} {}", run.printed, run.said);
    assert!(run.printed.contains("MONITOR has been left running"), "{}", run.printed);
    let told = format!("{unreachable}: could not be observed");
    assert!(run.printed.contains(&told), "{}", run.printed);
    let run = doctor(&["--seconds", "1", &resp(&redis), &unreachable]);
    assert_eq!(run.status, Some(2), "{} {}", run.printed, run.said);
    assert!(run.printed.contains("observed for"), "{}", run.printed);
    assert_eq!(run.said.lines().count(), 1, "{}", run.said);
}

/// Starts a doctor in the background.
fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(nagi_binary());
    command.arg("doctor").args(arguments).env_remove("REDISCLI_AUTH");
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("nagi starts")
}

fn interrupt(doctor: &Child) {
    let process = Pid::from_child(doctor);
    kill_process(process, Signal::INT).expect("it is there");
}

#[test]
fn an_interrupted_run_reports_what_it_has_found() {
    let redis = Server::redis();
    let doctor = start(&["--seconds", "3600", &resp(&redis)]);
    let mut client = redis.connect_resp();
    until("the probes", || {
        // The first request of a connection is not counted as a round trip.
        let told = client.run("INFO commandstats").text();
        let calls = told.split("cmdstat_ping:calls=").nth(1).and_then(|it| it.split(',').next());
        calls.and_then(|calls| calls.parse().ok()).filter(|calls: &u32| *calls >= 10).map(drop)
    })
    .expect("the doctor asks");
    interrupt(&doctor);
    let run: Run = doctor.wait_with_output().expect("it ends").into();
    assert_ne!(run.status, Some(2), "{} {}", run.printed, run.said);
    assert!(run.printed.contains(", observed for"), "{}", run.printed);
    assert!(run.printed.contains("Checked, nothing wrong"), "{}", run.printed);
}

#[test]
fn a_watch_continues_when_a_server_stops() {
    let mut redis = Server::redis();
    let mut doctor = start(&["--watch", "--seconds", "0.5", &resp(&redis)]);
    let mut lines = BufReader::new(doctor.stdout.take().expect("a pipe")).lines();
    let mut next = |text: &str| {
        let mut lines = lines.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("ended without {text}"))
    };
    next("observed for");
    next(" as before: ");
    redis.signal(Signal::KILL);
    redis.wait_for_exit();
    next("could not be observed");
    next(" as before: ");
    interrupt(&doctor);
    // The output must be read until the doctor exits.
    lines.for_each(drop);
    let run: Run = doctor.wait_with_output().expect("it ends").into();
    assert_eq!(run.status, Some(2), "{}", run.said);
}

#[test]
fn a_password_comes_from_a_file_or_the_environment() {
    let redis = redis_with(&["--requirepass", "very-secret"]);
    let url = resp(&redis);
    let folder = Folder::new("doctor-password");
    let file = folder.write("password", "very-secret\nanother line\n");
    let by_file = ["--seconds", "1", &url, "--password-file", file.to_str().expect("text")];
    let run = doctor(&by_file);
    assert!(run.status != Some(2) && run.printed.contains(", observed for"), "{}", run.said);
    let by_environment = |password: &str| -> Run {
        let mut command = Command::new(nagi_binary());
        command.args(["doctor", "--seconds", "1", &url]).env("REDISCLI_AUTH", password);
        command.output().expect("nagi runs").into()
    };
    let run = by_environment("very-secret");
    assert!(run.status != Some(2) && run.printed.contains(", observed for"), "{}", run.said);
    let run = by_environment("wrong-secret");
    assert!(run.status == Some(2) && run.said.contains("WRONGPASS"), "{}", run.said);
    folder.write("password", "\n");
    let run = doctor(&by_file);
    assert!(run.status == Some(2) && run.said.contains("first line is empty"), "{}", run.said);
}

#[test]
fn a_report_lists_what_the_user_has_no_right_to_see() {
    let redis = Server::redis();
    let mut client = redis.connect_resp();
    client.check("ACL SETUSER none on >pw", "+OK\r\n");
    client.check("ACL SETUSER few on >pw +ping +echo", "+OK\r\n");
    for user in ["none", "few"] {
        let run = look(&format!("redis://{user}:pw@{}", redis.resp()), &[]);
        run.check_well();
        let unseen = run.server()["unseen"].to_string();
        for what in ["INFO: NOPERM", "SLOWLOG: NOPERM", "LATENCY: NOPERM"] {
            assert!(unseen.contains(what), "{unseen}");
        }
        assert!(run.server()["unknown"]["monitor-running"].is_string(), "{}", run.printed);
    }
}

#[test]
fn many_clients_are_not_listed() {
    allow_open_files(4096);
    let redis = Server::redis();
    let _held: Vec<_> = (0..1001).map(|_| redis.connect_resp()).collect();
    let run = look(&resp(&redis), &[]);
    run.check_well();
    let unknown = run.server()["unknown"].to_string();
    for name in ["monitor-running", "slow-reader"] {
        let told = format!("\"{name}\":\"CLIENT LIST (at most 1,000 clients are listed)");
        assert!(unknown.contains(&told), "{unknown}");
    }
    let calls = redis.connect_resp().run("INFO commandstats").text();
    assert!(!calls.contains("cmdstat_client|list"), "{calls}");
}

#[test]
fn no_password_is_shown() {
    let redis = redis_with(&["--requirepass", "very-secret", "--slowlog-log-slower-than", "0"]);
    let url = format!("redis://:very-secret@{}", redis.resp());
    let mut client = redis.connect_resp();
    client.run("AUTH very-secret");
    let page = std::env::temp_dir().join(format!("nagi-doctor-{}.html", std::process::id()));
    std::fs::write(&page, "").expect("a file");
    std::fs::set_permissions(&page, Permissions::from_mode(0o644)).expect("a mode");
    let html = ["--html", page.to_str().expect("text")];
    let run = look_during(&url, &html, || {
        client.run("SET customer very-secret");
        client.run("GET very-secret");
    });
    let written = std::fs::read_to_string(&page).expect("a page");
    let mode = std::fs::metadata(&page).expect("a file").mode() & 0o777;
    std::fs::remove_file(&page).expect("it is there");
    assert_ne!(run.status, Some(2), "{} {}", run.printed, run.said);
    assert_eq!(mode, 0o600);
    assert!(written.contains("<html"), "{written}");
    for text in [&run.printed, &run.said, &written] {
        assert!(!text.contains("very-secret"), "{text}");
    }
}

#[test]
fn a_key_that_costs_most_is_counted_and_the_count_ended() {
    let server = Server::nagi();
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    client.run_words(&["SET", "customer:alice", &"v".repeat(1 << 20)]);
    let mut work = || drop(client.run("BITCOUNT customer:alice"));
    let hidden = until("the key", || {
        let run = look_during(&resp(&server), &[], &mut work);
        run.names().contains(&"hot-key".to_owned()).then_some(run)
    });
    let hidden = hidden.expect("it costs most");
    assert!(!hidden.printed.contains("alice"), "{}", hidden.printed);
    assert_eq!(other.run("HOTKEYS GET"), Reply::Null);
    let shown = until("the name of the key", || {
        let run = look_during(&resp(&server), &["--show-keys"], &mut work);
        run.printed.contains("customer:alice").then_some(())
    });
    shown.expect("it costs most");
    // A count that another user has started must not be changed, not even after its end.
    other.check("HOTKEYS START METRICS 1 NET", "+OK\r\n");
    look_during(&resp(&server), &[], &mut work);
    other.check("HOTKEYS STOP", "+OK\r\n");
    let ended = other.run("HOTKEYS GET");
    assert_ne!(ended, Reply::Null);
    look_during(&resp(&server), &[], &mut work);
    assert_eq!(other.run("HOTKEYS GET"), ended);
}

#[test]
fn a_server_that_stops_is_reported() {
    let mut redis = Server::redis();
    let url = resp(&redis);
    std::thread::scope(|scope| {
        // The doctor runs only once, because afterwards there is no server to observe.
        let run = scope.spawn(|| doctor(&["--seconds", "3", "--json", "-", &url]));
        let mut client = redis.connect_resp();
        until("the probes", || {
            let told = client.run("INFO commandstats").text();
            let has_begun = told.contains("cmdstat_ping:") && told.contains("cmdstat_slowlog|get:");
            has_begun.then_some(())
        })
        .expect("the doctor asks");
        redis.signal(Signal::KILL);
        redis.wait_for_exit();
        let run = run.join().expect("it ends");
        let unseen = run.server()["unseen"].to_string();
        assert!(unseen.contains("INFO: "), "{}", run.printed);
    });
}

#[test]
fn the_table_is_shown() {
    let run = doctor(&["--list"]);
    assert_eq!(run.status, Some(0));
    for name in ["ports-used-up", "slow-disk", "explained by: "] {
        assert!(run.printed.contains(name), "{}", run.printed);
    }
}
