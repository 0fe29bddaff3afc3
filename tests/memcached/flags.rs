//! memcached's command-line flags and the output of its tools, tested with nagi as a replacement,
//! and with memcached itself if it is installed.

use super::binary::{encode, receive};
use crate::differential::newest_memcached_with;
use harness::{Connection, Folder, Server, nagi_binary, newest, run_tool, tool, until};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Starts nagi, and the newest memcached that is installed.
fn servers(flags: &[&str]) -> impl Iterator<Item = Server> {
    [Some(Server::nagi_as_memcached(flags)), newest_memcached_with(flags)].into_iter().flatten()
}

/// Returns the lines of a reply that ends with END, without this line.
fn listed(client: &mut Connection, request: &str) -> Vec<String> {
    client.send(format!("{request}\r\n"));
    let mut lines = Vec::new();
    loop {
        match client.line() {
            line if line == "END" => return lines,
            line => lines.push(line),
        }
    }
}

/// Returns a value of `stats`.
fn stat(client: &mut Connection, group: &str, name: &str) -> String {
    let lines = listed(client, &format!("stats{group}"));
    let prefix = format!("STAT {name} ");
    let value = lines.iter().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("stats{group} has no {name}")).to_owned()
}

#[test]
fn a_cache_without_a_file_starts_empty() {
    let folder = Folder::new("dump");
    let from = Server::nagi_with(&["--dir", &folder.path().display().to_string()]);
    let mut client = from.connect_resp();
    client.check("SET stale old", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    let mut command = Command::new("sh");
    let start = format!("cd {} && exec \"$0\" memcached \"$@\"", folder.path().display());
    command.arg("-c").arg(start).arg(nagi_binary());
    let server = Server::start_memcached(command).unwrap_or_else(|problem| panic!("{problem}"));
    server.connect_memcached().check_raw("get stale\r\n", "END\r\n");
}

/// A client may choose the greatest number as a version.
#[test]
fn versions_do_not_start_again_after_a_restart() {
    let folder = Folder::new("versions");
    let file = folder.path().join("file").display().to_string();
    let mut server = Server::nagi_as_memcached(&["-e", &file]);
    let mut client = server.connect_memcached();
    client.check_raw("ms k 1 E18446744073709551615\r\nb\r\n", "HD\r\n");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait_for_exit().success());
    let server = Server::nagi_as_memcached(&["-e", &file]);
    let mut client = server.connect_memcached();
    for _ in 0..2 {
        let stored = || {
            client.send("set k 0 0 5\r\nother\r\n");
            (client.line() == "STORED").then_some(())
        };
        until("the file to be loaded", stored).unwrap();
        client.send("gets k\r\n");
        let line = client.line();
        assert!(line.starts_with("VALUE k 0 5 ") && !line.ends_with(" 0"), "{line}");
        client.expect("other\r\nEND\r\n");
    }
}

#[test]
fn extended_options_without_their_value_are_refused() {
    // Memcached crashes without the values of slab_sizes, slab_chunk_max and sock_cookie_id.
    for option in [
        "hash_algorithm",
        "hashpower",
        "hot_lru_pct",
        "hot_max_factor",
        "idle_timeout",
        "lru_crawler_sleep",
        "lru_crawler_tocrawl",
        "read_buf_mem_limit",
        "slab_automove_freeratio",
        "slab_automove_ratio",
        "slab_automove_window",
        "slab_chunk_max",
        "slab_sizes",
        "sock_cookie_id",
        "tail_repair_time",
        "temporary_ttl",
        "warm_lru_pct",
        "warm_max_factor",
        "watcher_logbuf_size",
        "worker_logbuf_size",
    ] {
        for peer in [Some(tool("memcached")), newest("memcached")].into_iter().flatten() {
            end_of(peer, option);
        }
        let mut command = Command::new(nagi_binary());
        command.arg("memcached");
        let expected = format!(
            "the server ended: exit status: 1\nnagi: -o {option}: {option} needs a value\n"
        );
        assert_eq!(end_of(command, option), expected);
    }
}

/// Returns the reason with which a server exits when it is started with `-o OPTION`.
fn end_of(mut command: Command, option: &str) -> String {
    command.args(["-o", option]);
    match Server::start_memcached(command) {
        Ok(_) => panic!("{option} without a value is accepted"),
        Err(end) => end,
    }
}

#[test]
fn flush_all_can_be_refused() {
    for server in servers(&["-F"]) {
        let client = &mut server.connect_memcached();
        client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        let refused = "CLIENT_ERROR flush_all not allowed\r\n";
        for request in ["flush_all\r\n", "flush_all 10\r\n", "flush_all x\r\n"] {
            client.check_raw(request, refused);
        }
        client.check_raw("flush_all noreply\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
        assert_eq!(stat(client, " settings", "flush_enabled"), "no");
        let binary = &mut server.connect_memcached();
        binary.send(encode(0x08, 0, 0, b"", "", ""));
        assert_eq!(receive(binary).status, 0x20);
        client.check_raw("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn versions_can_be_left_out() {
    for server in servers(&["-C"]) {
        let client = &mut server.connect_memcached();
        for (request, reply) in [
            ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("gets a\r\n", "VALUE a 0 1 0\r\nx\r\nEND\r\n"),
            ("gats 100 a\r\n", "VALUE a 0 1 0\r\nx\r\nEND\r\n"),
            ("cas a 0 0 1 0\r\ny\r\n", "EXISTS\r\n"),
            ("cas a 0 0 1 1\r\ny\r\n", "EXISTS\r\n"),
            ("mg a c v\r\n", "VA 1 c0\r\nx\r\n"),
            ("ms a 1 c\r\nz\r\n", "HD c0\r\n"),
            ("ms a 1 C7\r\ny\r\n", "EX\r\n"),
            ("get a\r\n", "VALUE a 0 1\r\nz\r\nEND\r\n"),
        ] {
            client.check_raw(request, reply);
        }
        assert_eq!(stat(client, " settings", "cas_enabled"), "no");
        let binary = &mut server.connect_memcached();
        for request in [encode(0x01, 0, 0, &[0; 8], "b", "x"), encode(0x00, 0, 0, b"", "b", "")] {
            binary.send(request);
            let reply = receive(binary);
            assert_eq!((reply.status, reply.cas), (0, 0));
        }
    }
}

#[test]
fn one_protocol_can_be_chosen() {
    let noop = encode(0x0a, 0, 0, b"", "", "");
    for server in servers(&["-B", "ascii"]) {
        let client = &mut server.connect_memcached();
        client.check_raw("get a\r\n", "END\r\n");
        assert_eq!(stat(client, " settings", "binding_protocol"), "ascii");
        let other = &mut server.connect_memcached();
        other.send(&noop);
        other.send("\r\n");
        let line = other.line();
        assert!(line.starts_with("CLIENT_ERROR") || line == "ERROR", "{line}");
    }
    for server in servers(&["-B", "binary"]) {
        let client = &mut server.connect_memcached();
        client.send(&noop);
        assert_eq!(receive(client).status, 0);
        let other = &mut server.connect_memcached();
        other.send("get a\r\nget a\r\nget a\r\nget a\r\n");
        assert_eq!(other.rest(), b"");
    }
}

#[test]
fn clients_stop_the_server_where_they_may() {
    for mut server in servers(&["-A"]) {
        let client = &mut server.connect_memcached();
        assert_eq!(stat(client, " settings", "shutdown_command"), "yes");
        client.check_raw("shutdown now\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
        client.send("shutdown\r\n");
        assert_eq!(client.rest(), b"");
        assert!(server.wait_for_exit().success());
    }
    let mut server = Server::nagi_as_memcached(&["-A"]);
    let client = &mut server.connect_memcached();
    client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send("shutdown\r\n");
    assert!(server.wait_for_exit().success());
    let log = server.log();
    assert!(!log.contains("are lost"), "memcached's clients expect nothing else: {log}");
    let server = Server::nagi_as_memcached(&[]);
    let refused = "SERVER_ERROR: shutdown not enabled\r\n";
    server.connect_memcached().check_raw("shutdown\r\n", refused);
}

#[test]
fn contents_of_a_memory_file_are_restored() {
    let folder = std::env::temp_dir().join(format!("nagi-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("file").display().to_string();
    let mut server = Server::nagi_as_memcached(&["-e", &path, "-A"]);
    let client = &mut server.connect_memcached();
    client.check_raw("set a 7 0 1\r\nx\r\n", "STORED\r\n");
    client.send("shutdown graceful\r\n");
    assert_eq!(client.rest(), b"");
    assert!(server.wait_for_exit().success());
    let server = Server::nagi_as_memcached(&["-e", &path]);
    let is_there = || {
        // While the server loads, the reply is a line that says so.
        let mut client = server.connect_memcached();
        client.send("get a\r\n");
        (client.line() == "VALUE a 7 1").then_some(())
    };
    until("what was saved", is_there).expect("it is there");
    drop(server);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn rejected_and_expired_entries_are_counted() {
    for server in servers(&["-m", "64"]) {
        let client = &mut server.connect_memcached();
        let too_large = "SERVER_ERROR object too large for cache\r\n";
        let value = "x".repeat(2_000_000);
        client.check_raw(format!("set big 0 0 2000000\r\n{value}\r\n"), too_large);
        client.check_raw(format!("ms big 2000000\r\n{value}\r\n"), too_large);
        assert_eq!(stat(client, "", "store_too_large"), "2");
        let binary = &mut server.connect_memcached();
        binary.send(encode(0x01, 0, 0, &[0; 8], "big", &value));
        assert_eq!(receive(binary).status, 3);
        assert_eq!(stat(client, "", "store_too_large"), "2", "not of the binary protocol");
        assert_eq!(stat(client, "", "store_no_memory"), "0");
    }
    let server = Server::nagi_as_memcached(&["-m", "1", "-M"]);
    let client = &mut server.connect_memcached();
    let value = "x".repeat(500_000);
    let mut refused = 0;
    for key in 0..5 {
        client.send(format!("set {key} 0 0 500000\r\n{value}\r\n"));
        refused += usize::from(client.line() == "SERVER_ERROR out of memory storing object");
    }
    assert!(refused > 0);
    assert_eq!(stat(client, "", "store_no_memory"), refused.to_string());
}

#[test]
fn lookups_of_expired_entries_are_counted() {
    // Expired keys are not removed before they are accessed, so that all of them are found expired.
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut redis = server.connect_resp();
    redis.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    for key in ["get", "gets", "gat", "mg", "later"] {
        redis.check(&format!("SET {key} value PX 1"), "+OK\r\n");
    }
    let expired = || (redis.run("EXPIRETIME later").integer() == -2).then_some(());
    until("the keys to expire", expired).expect("they do");
    let client = &mut server.connect_memcached();
    client.check_raw("get none\r\n", "END\r\n");
    let mut count = || stat(client, "", "get_expired").parse::<u64>().expect("a number");
    // Redis clients have accessed one of the keys as well.
    let before = count();
    let requests =
        [("get get", "END"), ("gets gets", "END"), ("gat 10 gat", "END"), ("mg mg v", "EN")];
    for (number, (request, reply)) in (1..).zip(requests) {
        server.connect_memcached().check_raw(format!("{request}\r\n"), format!("{reply}\r\n"));
        assert_eq!(count() - before, number, "{request}");
    }
}

#[test]
fn connections_that_were_silent_for_too_long_are_counted() {
    let server = Server::nagi_as_memcached(&["-o", "idle_timeout=1"]);
    let mut idle = server.connect_memcached();
    assert_eq!(idle.rest(), b"");
    let kicks = || stat(&mut server.connect_memcached(), "", "idle_kicks").parse().ok();
    let kicks = until("the count", || kicks().filter(|kicks: &u64| *kicks > 0));
    assert!(kicks.expect("it is counted") >= 1);
}

#[test]
fn clients_of_a_unix_socket_are_listed_as_such() {
    let folder = std::env::temp_dir().join(format!("nagi-conns-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let shown = path.display().to_string();
    let server = Server::nagi_with(&["--memcached-unixsocket", &shown]);
    let client = &mut server.connect_memcached();
    assert_eq!(stat(client, " settings", "domain_socket"), shown);
    let connect = || BufReader::new(UnixStream::connect(&path).expect("connects"));
    let (mut waiting, mut amid, idle) = (connect(), connect(), connect());
    waiting.get_mut().write_all(b"get a\r\n").expect("sends");
    let mut line = String::new();
    waiting.read_line(&mut line).expect("receives");
    amid.get_mut().write_all(b"set a 0 0 5\r\nab").expect("sends");
    let states = || {
        let mut lines = listed(client, "stats conns");
        lines.retain(|line| line.contains(":state "));
        let mut states: Vec<_> =
            lines.iter().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect();
        states.sort();
        (states == ["conn_nread", "conn_parse_cmd", "conn_read", "conn_read"]).then_some(())
    };
    until("the part of a set", states).expect("it is listed");
    let lines = listed(&mut server.connect_memcached(), "stats conns");
    let unix = lines.iter().filter(|line| line.contains(&format!(" unix:{shown}"))).count();
    assert_eq!(unix, 6, "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains(&format!("tcp:{shown}"))), "{lines:?}");
    drop((idle, server));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn keys_are_dumped_as_by_memcached() {
    for (server, is_complete) in servers(&[]).zip([true, false]) {
        let client = &mut server.connect_memcached();
        for key in 0..500 {
            client.check_raw(format!("set key:{key} 0 0 3\r\nabc\r\n"), "STORED\r\n");
        }
        let lines = listed(client, "stats items");
        let class = lines.iter().find_map(|line| line.strip_prefix("STAT items:")?.split_once(':'));
        let class = class.expect("a class").0.to_owned();
        let mut items = listed(client, &format!("stats cachedump {class} 0"));
        items.sort();
        items.dedup();
        // memcached omits recently stored or used items.
        assert!(items.len() == 500 || !is_complete, "{}", items.len());
        let is_whole = |line: &String| {
            line.starts_with("ITEM key:") && line.contains(" [3 b; ") && line.ends_with(" s]")
        };
        assert!(items.iter().all(is_whole), "{items:?}");
        let some = listed(client, &format!("stats cachedump {class} 7"));
        assert_eq!(some.len(), items.len().min(7));
        assert_eq!(listed(client, "stats cachedump 9 0").len(), 0);
        for (request, reply) in [
            ("stats cachedump", "CLIENT_ERROR bad command line"),
            ("stats cachedump 1", "CLIENT_ERROR bad command line"),
            ("stats cachedump x 1", "CLIENT_ERROR bad command line format"),
            ("stats cachedump 1 x", "CLIENT_ERROR bad command line format"),
            ("stats cachedump 64 0", "CLIENT_ERROR Illegal slab id"),
        ] {
            client.check_raw(format!("{request}\r\n"), format!("{reply}\r\n"));
        }
    }
}

#[test]
fn keys_that_are_no_words_are_not_dumped_as_words() {
    let server = Server::nagi();
    let mut redis = server.connect_resp();
    let long = vec![b'k'; 251];
    for key in [&b"two words"[..], b"line\r\nEND", b"", &long, b"plain"] {
        redis.send(harness::encode_command(&[b"SET", key, b"value"]));
        redis.expect("+OK\r\n");
    }
    let client = &mut server.connect_memcached();
    assert_eq!(listed(client, "stats cachedump 1 0"), ["ITEM plain [5 b; 0 s]"]);
}

#[test]
fn listing_keys_can_be_refused() {
    for server in servers(&["-X"]) {
        let client = &mut server.connect_memcached();
        client.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        for (request, reply) in [
            ("lru_crawler metadump all", "ERROR metadump not allowed"),
            ("lru_crawler metadump x", "ERROR metadump not allowed"),
            ("lru_crawler metadump", "ERROR"),
            ("lru_crawler mgdump all", "ERROR key dump not allowed"),
            ("stats cachedump 1 0", "CLIENT_ERROR stats cachedump not allowed"),
            ("stats cachedump", "CLIENT_ERROR stats cachedump not allowed"),
            ("stats detail on", "CLIENT_ERROR stats detail not allowed"),
            ("stats detail dump", "CLIENT_ERROR stats detail not allowed"),
        ] {
            client.check_raw(format!("{request}\r\n"), format!("{reply}\r\n"));
        }
        assert_eq!(stat(client, " settings", "dump_enabled"), "no");
        server.connect_memcached().check_raw("watch\r\n", "OK\r\n");
    }
}

#[test]
fn watching_can_be_refused() {
    for server in servers(&["-W"]) {
        let client = &mut server.connect_memcached();
        for request in ["watch", "watch fetchers", "watch nothing", "watch evictions noreply"] {
            let refused = "CLIENT_ERROR watch commands not allowed\r\n";
            client.check_raw(format!("{request}\r\n"), refused);
        }
        client.check_raw("stats detail dump\r\n", "END\r\n");
        assert_eq!(stat(client, " settings", "dump_enabled"), "yes");
    }
}

/// Settings of memcached 1.6.45 that have no counterpart in nagi: a library, sizes of slabs and
/// moves of pages between them, a limit of buffers, storage on disks, and TLS.
const WITHOUT_COUNTERPART: [&str; 6] = [
    "libevent",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_automove_freeratio",
    "slab_chunk_max",
    "read_buf_mem_limit",
];

/// Returns names and values of `stats`, without the numbers of classes and connections.
fn statistics(client: &mut Connection, group: &str) -> BTreeMap<String, String> {
    let lines = listed(client, &format!("stats{group}"));
    let parts = lines.iter().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    let is_word = |part: &&str| !part.bytes().all(|byte| byte.is_ascii_digit());
    let name = |name: &str| name.split(':').filter(is_word).collect::<Vec<_>>().join(":");
    parts.map(|(known, value)| (name(known), value.to_owned())).collect()
}

#[test]
fn every_statistic_of_memcached_is_there() {
    let servers: Vec<Server> = servers(&[]).collect();
    let [nagi, memcached] = &servers[..] else { return };
    for server in &servers {
        let client = &mut server.connect_memcached();
        client.check_raw("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    }
    for group in ["", " settings", " items", " slabs", " sizes", " conns", " settings x"] {
        let ours = statistics(&mut nagi.connect_memcached(), group);
        for (name, value) in statistics(&mut memcached.connect_memcached(), group) {
            let is_left_out = WITHOUT_COUNTERPART.contains(&&*name)
                || name.starts_with("ext_")
                || name.starts_with("ssl_") && name != "ssl_enabled";
            if is_left_out {
                continue;
            }
            let own = ours.get(&name).unwrap_or_else(|| panic!("stats{group} has no {name}"));
            let is_number = |text: &str| text.parse::<f64>().is_ok();
            let is_alike = is_number(own) == is_number(&value);
            assert!(is_alike, "stats{group}: {name} is {own}, and {value} of memcached");
        }
    }
    for group in ["extstore", "proxy", "proxyfuncs", "proxybe"] {
        for server in &servers {
            let client = &mut server.connect_memcached();
            client.check_raw(format!("stats {group}\r\n"), "END\r\n");
        }
    }
}

#[test]
fn settings_have_memcacheds_values() {
    for (flags, name, value) in [
        (&["-t", "1"][..], "umask", "700"),
        (&["-a", "755"][..], "umask", "755"),
        (&["-t", "1"][..], "inter", "127.0.0.1"),
        (&["-t", "1"][..], "memory_file", "(null)"),
        (&["-t", "1"][..], "watcher_logbuf_size", "262144"),
        (&["-t", "1"][..], "tail_repair_time", "0"),
    ] {
        for server in servers(flags) {
            let client = &mut server.connect_memcached();
            assert_eq!(stat(client, " settings", name), value, "{flags:?}");
        }
    }
    let folder = std::env::temp_dir().display().to_string();
    let path = format!("{folder}/nagi-memory-file-{}", std::process::id());
    let server = Server::nagi_as_memcached(&["-e", &path]);
    assert_eq!(stat(&mut server.connect_memcached(), " settings", "memory_file"), path);
}

/// Clients take `(null)` for a server that has started empty.
#[test]
fn a_loaded_file_is_named_even_without_save_points() {
    let folder = std::env::temp_dir().join(format!("nagi-loaded-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let dir = folder.display().to_string();
    let flags = ["--dir", &dir, "--save", ""];
    let named = |server: &Server| stat(&mut server.connect_memcached(), " settings", "memory_file");
    let server = Server::nagi_with(&flags);
    assert_eq!(named(&server), "(null)");
    let mut client = server.connect_resp();
    client.check("SET a b", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    drop(server);
    let server = Server::nagi_with(&flags);
    until("what was saved", || (named(&server) == format!("{dir}/dump.rdb")).then_some(()))
        .expect("it is named");
    drop(server);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn memcached_tool_shows_and_dumps() {
    let tool = harness::root().join(".setup/debian/usr/share/memcached/scripts/memcached-tool");
    if !tool.is_file() {
        return harness::skipped("there is no memcached-tool");
    }
    let server = Server::nagi_as_memcached(&["-m", "64"]);
    let client = &mut server.connect_memcached();
    for key in ["a", "b", "c"] {
        client.check_raw(format!("set {key} 5 0 5\r\nvalue\r\n"), "STORED\r\n");
    }
    let run = |mode: &str| {
        let address = server.memcached_address().to_string();
        let output = Command::new("perl").arg(&tool).args([&address, mode]).output();
        String::from_utf8(output.expect("perl is there").stdout).expect("text")
    };
    let shown = run("display");
    let row = shown.lines().nth(1).unwrap_or_else(|| panic!("no class: {shown}"));
    let columns: Vec<&str> = row.split_whitespace().collect();
    let [class, _, _, pages, count, full, evicted, evict_time, out_of_memory] = columns[..] else {
        panic!("other columns: {shown}");
    };
    assert_eq!([class, count, full], ["1", "3", "no"], "{shown}");
    assert_eq!([evicted, evict_time, out_of_memory], ["0", "0", "0"], "{shown}");
    assert!(pages.parse::<u64>().is_ok_and(|pages| pages > 0), "{shown}");
    let dumped = run("dump");
    for key in ["a", "b", "c"] {
        assert!(dumped.contains(&format!("add {key} 5 0 5\r\nvalue\r\n")), "{dumped:?}");
    }
}

#[test]
fn tools_of_libmemcached_list_and_show_every_key() {
    let server = Server::nagi_as_memcached(&["-m", "64"]);
    let client = &mut server.connect_memcached();
    let mut expected: Vec<String> = (0..2000).map(|key| format!("key:{key}")).collect();
    for key in &expected {
        client.check_raw(format!("set {key} 0 0 5\r\nvalue\r\n"), "STORED\r\n");
    }
    let servers = format!("--servers={}", server.memcached_address());
    let printed = run_tool("memcdump", &[&servers]);
    let mut dumped: Vec<&str> = printed.lines().collect();
    dumped.sort_unstable();
    expected.sort_unstable();
    assert_eq!(dumped, expected);
    assert_eq!(run_tool("memccat", &[&servers, dumped[0], dumped[1]]).trim(), "value\nvalue");
}
