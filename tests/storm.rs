//! Tests `nagi storm` and `nagi client` with memcached, Redis and nagi.

use harness::{Folder, Server, nagi_binary, tool, until};
use rustix::process::{Pid, Signal, kill_process};
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

/// Runs nagi, which must succeed. Returns its output.
fn printed(arguments: &str) -> String {
    let output = nagi(arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    stdout(&output)
}

/// Returns the value of `name` in a report.
fn line<'a>(report: &'a str, name: &str) -> &'a str {
    let found = report.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} is not in {report}")).trim_start_matches([' ', ':'])
}

/// Starts two servers of a kind. Returns them and their addresses, separated by commas.
fn pair(
    start: impl Fn() -> Server,
    address: impl Fn(&Server) -> SocketAddr,
) -> (Vec<Server>, String) {
    named(vec![start(), start()], address)
}

/// Returns the servers, and their addresses separated by commas.
fn named(servers: Vec<Server>, address: impl Fn(&Server) -> SocketAddr) -> (Vec<Server>, String) {
    let names: Vec<String> = servers.iter().map(|server| address(server).to_string()).collect();
    (servers, names.join(","))
}

/// Returns a port that refuses connections.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

#[test]
fn storm_writes_only_to_servers_that_are_named() {
    let output = nagi("storm -n 5");
    let error = stderr(&output);
    let expected = "nagi: name the servers with -s, such as -s 127.0.0.1:11211: 5 records are \
                    written to them\n";
    assert!(!output.status.success() && error == expected, "{error}");
}

#[test]
fn storm_sets_and_gets_every_record_of_every_server() {
    // The servers include the newest versions, if they are installed.
    let memcached = [Server::memcached()].into_iter().chain(Server::every_memcached(&[]));
    let memcached = named(memcached.collect(), Server::memcached_address);
    let redis = [Server::redis()].into_iter().chain(Server::every_redis());
    let redis = named(redis.collect(), Server::resp);
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
    // Each server has received a part of the records.
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
        let [server] = run["servers"].as_array().expect("servers").as_slice() else {
            panic!("{run}")
        };
        assert!(server["name"].as_str().is_some_and(|name| name.starts_with("memcached 1.")));
        assert!(server["settings"]["limit_maxbytes"].is_string(), "{run}");
        assert!(run["machine"]["processors"].as_u64() > Some(0), "{run}");
        assert_eq!(
            (&run["options"]["protocol"], &run["interrupted"]),
            (&"text".into(), &false.into())
        );
    }
    let report = nagi(&format!("storm -s {address} -n 20 --json /dev/full"));
    assert!(stdout(&report).contains("Successful   [GET]  : 20"), "{report:?}");
}

#[test]
fn storm_asks_a_server_that_speaks_something_else_once() {
    let redis = Server::redis();
    let memcached = Server::memcached();
    let mut client = redis.connect_resp();
    client.run("CONFIG RESETSTAT");
    for (server, protocol) in [
        (redis.resp(), "text"),
        (redis.resp(), "meta"),
        (redis.resp(), "binary"),
        (memcached.memcached_address(), "resp"),
    ] {
        let output = nagi(&format!("storm -s {server} -n 20000 -b --protocol {protocol}"));
        assert_eq!(output.status.code(), Some(1), "{protocol}");
        let errors = stderr(&output);
        assert!(errors.contains("see --protocol") && errors.lines().count() == 1, "{errors}");
        assert_eq!(stdout(&output), "");
    }
    let refused = client.run("INFO stats").text();
    let count = refused.lines().find_map(|line| line.strip_prefix("total_error_replies:"));
    let count: u32 = count.expect("it is there").trim().parse().expect("a number");
    assert!((2..10).contains(&count), "{count} requests were refused");
}

#[test]
fn storm_that_the_user_ends_still_reports() {
    let server = Server::memcached();
    let address = server.memcached_address();
    let mut command = Command::new(nagi_binary());
    let arguments = format!("storm -s {address} -n 1000000000 --json -");
    let storm = command.args(arguments.split(' ')).stdout(Stdio::piped()).spawn();
    let storm = storm.expect("nagi starts");
    let mut client = server.connect_memcached();
    until("records to come", || {
        client.send("stats\r\n");
        let statistics = std::iter::repeat_with(|| client.line());
        let lines: Vec<String> = statistics.take_while(|line| line.trim() != "END").collect();
        lines
            .iter()
            .any(|line| line.starts_with("STAT curr_items ") && !line.contains(" 0"))
            .then_some(())
    })
    .expect("they come");
    let pid = i32::try_from(storm.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("it is there");
    let output = storm.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let set = &json[0]["set"];
    assert!(json[0]["interrupted"] == true && set["failed"] == 0, "{json}");
    assert!(set["successful"].as_u64() > Some(0), "{json}");
}

#[test]
fn passwords_are_read_from_files_and_the_environment() {
    let server = Server::nagi_with(&["--requirepass", "s3cret"]);
    let address = server.resp();
    let folder = Folder::new("passwords");
    let file = folder.write("password", "s3cret\n").display().to_string();
    let login = format!("--protocol resp --password-file {file}");
    assert_eq!(printed(&format!("client -s {address} {login} set a one")), "");
    assert_eq!(printed(&format!("client -s {address} {login} --user default get a")), "one\n");
    assert_eq!(printed(&format!("client -s {address} {login} --resp3 get a")), "one\n");
    let report = printed(&format!("storm -s {address} {login} -n 50 --json -"));
    assert!(report.contains("\"name\": \"nagi ") && !report.contains("s3cret"), "{report}");
    let mut command = Command::new(nagi_binary());
    let arguments = format!("client -s {address} --protocol resp get a");
    let output = command.env("REDISCLI_AUTH", "s3cret").args(arguments.split(' ')).output();
    assert_eq!(stdout(&output.expect("nagi starts")), "one\n");
    let memcached = server.memcached_address();
    let known = format!("-s {memcached} --user default --password-file {file}");
    for protocol in ["text", "meta", "binary"] {
        assert_eq!(printed(&format!("client {known} --protocol {protocol} get a")), "one\n");
    }
    let usual = format!("-s {memcached} --password-file {file}");
    assert_eq!(printed(&format!("client {usual} get a")), "one\n", "the default user");
    let report = printed(&format!("storm {usual} -n 50 --json -"));
    assert!(report.contains("-nagi/") && !report.contains("s3cret"), "{report}");
    let mut command = Command::new(nagi_binary());
    let arguments = format!("client -s {memcached} get a");
    let output = command.env("REDISCLI_AUTH", "s3cret").args(arguments.split(' ')).output();
    assert_eq!(stdout(&output.expect("nagi starts")), "one\n");
    for (arguments, reason) in [
        (format!("client -s {memcached} get a"), "unauthenticated"),
        (format!("client -s {address} --protocol resp get a"), "NOAUTH"),
        (format!("storm -s {address} --protocol resp"), "NOAUTH"),
        (format!("client -s {address} --user x --protocol resp get a"), "needs --password-file"),
        (format!("client -s {memcached} --password-file /nonexistent get a"), "/nonexistent"),
        (format!("client -s {memcached} --resp3 get a"), "--protocol resp"),
    ] {
        let output = nagi(&arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(errors.contains(reason) && errors.lines().count() == 1, "{arguments}: {errors}");
    }
}

#[test]
fn errors_move_no_cursor_and_are_one_line() {
    let server = Server::memcached();
    let address = server.memcached_address().to_string();
    let client = |arguments: &[&str]| {
        let mut command = Command::new(nagi_binary());
        let output = command.args(["client", "-s", &address]).args(arguments).output();
        output.expect("nagi starts")
    };
    for arguments in [
        &["set", "a\r\nflush_all", "x"][..],
        &["set", "a\x1b[2J b", "x", "--protocol", "binary"],
        &["get", "a\x1b[2Jb", "--protocol", "meta"],
        &["delete", "a b"],
    ] {
        let output = client(arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let is_plain = !errors.trim_end().contains(char::is_control);
        assert!(is_plain && errors.contains("blank or control character"), "{errors:?}");
    }
    for arguments in
        ["client --like perl ring a", "bench --protocol x", "storm -l 1x", "bench -c 0"]
    {
        let output = nagi(arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.starts_with("nagi: invalid value") && errors.lines().count() == 1,
            "{errors}"
        );
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
        (format!("storm -s {} -n 5", redis.resp()), "invalid answer"),
        (format!("storm -s {address} -n 3 -l 2m"), "too large"),
        (format!("storm -s {address} -n 3 --json /dev/full"), "No space left"),
        (format!("client -s 127.0.0.1:{} get a", closed_port()), "cannot connect"),
        (format!("client -s {address} --protocol resp get a"), "another protocol? see --protocol"),
        ("client ring".to_owned(), "no keys"),
        ("client ring --keys-from /nonexistent".to_owned(), "cannot read"),
    ] {
        let output = nagi(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let errors = stderr(&output);
        assert!(errors.contains(reason) && errors.trim_end().lines().count() == 1, "{errors}");
    }
    for arguments in [
        "storm -l 513m",
        "client --like perl ring a",
        "client -s :1 ring a",
        "client --timeout-ms 0 get a",
    ] {
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
fn client_finds_values_that_libmemcached_has_stored() {
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
    for like in ["", "--like all"] {
        let shown = printed(&format!("client -s kyoto,tokyo {like} ring user:1"));
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
        let libraries: Vec<&str> = rows.iter().map(|row| row[1]).collect();
        for library in ["libmemcached", "pylibmc", "php", "php-ketama", "twemproxy", "dalli"] {
            assert!(libraries.contains(&library), "{shown}");
            let one = printed(&format!("client -s kyoto,tokyo --like {library} ring user:1"));
            let row = rows.iter().find(|row| row[1] == library).expect("it is there");
            assert_eq!(one.trim_end(), format!("{}\t{}", row[0], row[2]));
        }
    }
    assert_eq!(nagi("client --like all get a").status.code(), Some(1));
    let same = printed("client -s a,b,c ring --compare php-ketama twemproxy");
    assert!(same.contains("place 0 of 100000 keys differently, 0.0 %"), "{same}");
    let other = printed("client -s a,b,c ring --compare php dalli");
    let share: f64 = other.rsplit(' ').nth(1).expect("a share").parse().expect("a number");
    assert!((60.0..73.0).contains(&share), "{other}");
    let grown = printed("client ring --compare php-ketama@a,b,c php-ketama@a,b,c,d");
    let share: f64 = grown.rsplit(' ').nth(1).expect("a share").parse().expect("a number");
    assert!((15.0..35.0).contains(&share), "{grown}");
}
