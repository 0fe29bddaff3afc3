//! `nagi storm` and `nagi client` against memcached, Redis and nagi itself.

use harness::{Server, nagi_binary, tool};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs nagi with arguments separated by blanks.
fn nagi(arguments: &str) -> Output {
    let words = arguments.split(' ').filter(|word| !word.is_empty());
    Command::new(nagi_binary()).args(words).stdin(Stdio::null()).output().expect("nagi starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it prints, if it succeeds.
fn printed(arguments: &str) -> String {
    let output = nagi(arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    stdout(&output)
}

/// The value of `name` in a report.
fn line<'a>(report: &'a str, name: &str) -> &'a str {
    let found = report.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} is not in {report}")).trim_start_matches([' ', ':'])
}

/// Two servers of a kind, and how they are named.
fn pair(
    start: impl Fn() -> Server,
    address: impl Fn(&Server) -> SocketAddr,
) -> (Vec<Server>, String) {
    let servers = vec![start(), start()];
    let names: Vec<String> = servers.iter().map(|server| address(server).to_string()).collect();
    (servers, names.join(","))
}

/// A port that refuses connections.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

#[test]
fn storm_sets_and_gets_every_record_of_every_server() {
    let memcached = pair(Server::memcached, Server::memcached_address);
    let redis = pair(Server::redis, Server::resp);
    let own = pair(Server::nagi, Server::memcached_address);
    for (servers, options) in [
        (&memcached.1, "--protocol text"),
        (&memcached.1, "--protocol meta -b -c 4 -t 2"),
        (&memcached.1, "--protocol binary --tcp-nodelay -c 3"),
        (&redis.1, "--protocol resp -b --like php-ketama"),
        (&own.1, "--protocol text -c 2"),
        (&own.1, "--protocol meta -b"),
        (&own.1, "--protocol binary -b"),
    ] {
        let report = printed(&format!("storm -s {servers} -n 2000 -k 64 -l 1000 {options}"));
        assert_eq!(line(&report, "Num of Records"), "2000", "{options}");
        for name in ["SET", "GET"] {
            assert_eq!(line(&report, &format!("Successful   [{name}]")), "2000", "{options}");
            assert_eq!(line(&report, &format!("Failed       [{name}]")), "0", "{options}");
            let total = line(&report, &format!("Total Time   [{name}]"));
            let seconds: f64 = total.trim_end_matches('s').parse().expect("a number");
            assert!(seconds > 0.0, "{total}");
        }
        let bit = |on: bool| if on { "1" } else { "0" };
        assert_eq!(line(&report, "Non-Blocking IO"), bit(options.contains("-b")));
        assert_eq!(line(&report, "TCP No-Delay"), bit(options.contains("nodelay")));
        assert!(report.contains("closed loop") && report.contains("p99.9"), "{report}");
    }
    // Both servers have had their share.
    let statistics = printed(&format!("client -s {} stats", memcached.1));
    for server in memcached.1.split(',') {
        let items = line(&statistics, &format!("{server} total_items"));
        assert!(items.parse::<u32>().expect("a number") > 1000, "{server}: {items}");
    }
}

#[test]
fn storm_sweeps_sizes_and_writes_json() {
    let server = Server::memcached();
    let address = server.memcached_address();
    let report = printed(&format!("storm -s {address} -n 20 -l 0,1,10k,900k --json -"));
    let json: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let sizes: Vec<_> =
        json.as_array().expect("runs").iter().map(|run| &run["value_bytes"]).collect();
    assert_eq!(sizes, [0, 1, 10_240, 921_600]);
    for run in json.as_array().expect("runs") {
        assert_eq!((&run["set"]["successful"], &run["get"]["failed"]), (&20.into(), &0.into()));
        assert_eq!(run["loop_kind"], "closed loop");
    }
}

#[test]
fn storm_ends_with_one_line_where_it_cannot_go_on() {
    let memcached = Server::memcached();
    let address = memcached.memcached_address();
    let redis = Server::redis();
    for (arguments, reason) in [
        (format!("storm -s 127.0.0.1:{}", closed_port()), "cannot connect"),
        ("storm -s no-such-host.invalid".to_owned(), "cannot connect"),
        (format!("storm -s {address} -k 0"), "do not fit"),
        (format!("storm -s {address} -n 0"), "above 0"),
        (format!("storm -s {} -n 5", redis.resp()), "not an answer"),
        (format!("storm -s {address} -n 3 -l 2m"), "too large"),
        (format!("storm -s {address} -n 3 --json /dev/full"), "No space left"),
        (format!("client -s 127.0.0.1:{} get a", closed_port()), "cannot connect"),
        ("client ring".to_owned(), "no keys"),
        ("client ring --keys-from /nonexistent".to_owned(), "cannot read"),
    ] {
        let output = nagi(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let errors = stderr(&output);
        assert!(errors.contains(reason) && errors.trim_end().lines().count() == 1, "{errors}");
    }
    for arguments in ["storm -l 513m", "client --like perl ring a", "client -s :1 ring a"] {
        assert_eq!(nagi(arguments).status.code(), Some(2), "{arguments}");
    }
}

#[test]
fn client_stores_gets_and_deletes() {
    let memcached = pair(Server::memcached, Server::memcached_address);
    let own = pair(Server::nagi, Server::memcached_address);
    let resp = pair(Server::nagi, Server::resp);
    for options in [
        format!("-s {}", memcached.1),
        format!("-s {} --protocol binary --like php-ketama", memcached.1),
        format!("-s {} --protocol meta", own.1),
        format!("-s {} --protocol resp --by-key user:1", resp.1),
    ] {
        assert_eq!(printed(&format!("client {options} set a one --expiry 1000")), "");
        assert_eq!(printed(&format!("client {options} set b two")), "");
        assert_eq!(printed(&format!("client {options} get a")), "one\n");
        let output = nagi(&format!("client {options} get a none b"));
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stdout(&output), "a\tone\nb\ttwo\n");
        assert!(stderr(&output).contains("none: not found"));
        assert_eq!(printed(&format!("client {options} delete a b")), "");
        assert_eq!(nagi(&format!("client {options} delete a")).status.code(), Some(1));
        let statistics = printed(&format!("client {options} stats"));
        assert!(statistics.lines().count() > 20, "{statistics}");
    }
}

#[test]
fn client_finds_what_libmemcached_has_stored() {
    let (_servers, names) = pair(Server::memcached, Server::memcached_address);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for number in 0..20 {
        let file = folder.join(format!("ring-{number}"));
        fs::write(&file, number.to_string()).expect("a file");
        let mut command = tool("memccp");
        let stored = command.arg(format!("--servers={names}")).arg(&file).output();
        assert!(stored.expect("memccp starts").status.success());
        let value = printed(&format!("client -s {names} get ring-{number}"));
        assert_eq!(value, format!("{number}\n"));
        fs::remove_file(&file).expect("it was there");
    }
}

#[test]
fn client_shows_and_compares_rings() {
    let shown = printed("client -s kyoto,tokyo:11311 --like php-ketama ring user:1 user:2");
    assert_eq!(shown.lines().count(), 2);
    assert!(
        shown.lines().all(|line| line.ends_with("kyoto:11211") || line.ends_with("tokyo:11311"))
    );
    let same = printed("client -s a,b,c ring --compare php-ketama twemproxy");
    assert!(same.contains("place 0 of 100000 keys differently, 0.0 %"), "{same}");
    let other = printed("client -s a,b,c ring --compare php dalli");
    let share: f64 = other.rsplit(' ').nth(1).expect("a share").parse().expect("a number");
    assert!((60.0..73.0).contains(&share), "{other}");
    let grown = printed("client ring --compare php-ketama@a,b,c php-ketama@a,b,c,d");
    let share: f64 = grown.rsplit(' ').nth(1).expect("a share").parse().expect("a number");
    assert!((15.0..35.0).contains(&share), "{grown}");
}
