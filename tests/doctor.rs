//! `nagi doctor` finds nothing where nothing is wrong, tells what it could not see, and keeps what
//! is secret to itself. What it finds is in tests/faults.rs.

use harness::{Reply, Server, nagi_binary, tool, until};
use rustix::process::Signal;
use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server's thread that waits for a processor for so much of the time is not busy by itself.
const CONTENDED_PERCENT: u64 = 15;

/// What one run ended with.
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) printed: String,
    pub(crate) said: String,
}

impl Run {
    /// The report of one server.
    pub(crate) fn server(&self) -> serde_json::Value {
        let report: serde_json::Value = serde_json::from_str(&self.printed)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.printed, self.said));
        report["servers"][0].clone()
    }

    /// What was found, the first first.
    pub(crate) fn names(&self) -> Vec<String> {
        let server = self.server();
        let found = server["found"].as_array().unwrap_or_else(|| panic!("{server}"));
        let names = found.iter().map(|it| it["name"].as_str().expect("a name").to_owned());
        names.collect()
    }

    /// For how much of the time, in percent, the server's busiest thread waited for a processor
    /// that other programs had, as far as that is found.
    fn waited_percent(&self) -> u64 {
        let server = self.server();
        let found = server["found"].as_array().into_iter().flatten();
        let evidence = found.filter_map(|it| it["evidence"].as_array()).flatten();
        let waited = evidence.filter(|line| line[0] == "waiting for a processor");
        let numbers = waited.filter_map(|line| line[1].as_str()?.split(' ').next()?.parse().ok());
        numbers.max().unwrap_or(0)
    }

    /// Checks that nothing is found, but for a limit on processor time and for processors that
    /// other tests use, which are facts of the machine that runs the tests.
    #[track_caller]
    pub(crate) fn check_well(&self) {
        let names = self.names();
        if names.iter().any(|name| name == "cpu-throttled") {
            return eprintln!("SKIPPED: this machine is throttled: {}", self.printed);
        }
        if names == ["one-thread-busy"] && self.waited_percent() >= CONTENDED_PERCENT {
            return eprintln!("SKIPPED: other tests use the processors: {}", self.printed);
        }
        assert_eq!(names, [""; 0], "{}", self.printed);
        assert_eq!(self.status, Some(0), "{}", self.said);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (printed, said) = (text(output.stdout), text(output.stderr));
        Run { status: output.status.code(), printed, said }
    }
}

pub(crate) fn doctor(arguments: &[&str]) -> Run {
    let mut command = Command::new(nagi_binary());
    command.arg("doctor").args(arguments).env_remove("REDISCLI_AUTH");
    command.output().expect("nagi runs").into()
}

/// Looks for two seconds, and tells as JSON; again, while this host lets the doctor itself wait.
pub(crate) fn look(url: &str, more: &[&str]) -> Run {
    look_for("2", url, more)
}

pub(crate) fn look_for(seconds: &str, url: &str, more: &[&str]) -> Run {
    let arguments = [&["--seconds", seconds, "--json", "-", url], more].concat();
    let attempt = || {
        let run = doctor(&arguments);
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

/// redis-server with these settings.
pub(crate) fn redis_with(arguments: &[&str]) -> Server {
    let mut command = tool("redis-server");
    command.args(arguments);
    Server::start_redis(command).expect("redis-server starts")
}

/// Looks while `work` is done again and again on a thread of its own, which gets its turn first.
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
fn healthy_servers_are_well() {
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

/// Connections that the kernel has turned away in this network namespace.
fn listen_overflows() -> u64 {
    let table = std::fs::read_to_string("/proc/net/netstat").expect("the kernel counts");
    let mut lines = table.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let place = names.split(' ').position(|name| name == "ListenOverflows").expect("it is there");
    numbers.split(' ').nth(place).and_then(|it| it.parse().ok()).expect("a number")
}

#[test]
fn what_another_listener_turns_away_is_not_this_servers() {
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
fn what_cannot_be_looked_at_is_one_line() {
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
    let shown = look_during(&resp(&server), &["--show-keys"], &mut work);
    assert!(shown.printed.contains("customer:alice"), "{}", shown.printed);
    // Another user's count is left alone.
    other.check("HOTKEYS START METRICS 1 NET", "+OK\r\n");
    look_during(&resp(&server), &[], &mut work);
    other.check("HOTKEYS STOP", "+OK\r\n");
}

#[test]
fn a_server_that_goes_away_is_reported() {
    let mut redis = Server::redis();
    let url = resp(&redis);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| look_for("3", &url, &[]));
        let mut client = redis.connect_resp();
        until("the probes", || {
            let told = client.run("INFO commandstats").text();
            told.contains("cmdstat_ping:").then_some(())
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
