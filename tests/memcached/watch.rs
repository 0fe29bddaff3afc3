//! memcached's `watch`: lines about events, in memcached's format.

use super::binary::{encode, receive};
use crate::differential::newest_memcached;
use harness::{Connection, Server, until};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The key of a `get` that marks the end of a watcher's lines.
const LAST: &str = "the-last";

/// Starts nagi and, if it is installed, memcached 1.6.45.
fn servers() -> Vec<(&'static str, Server)> {
    let nagi = Some(("nagi", Server::nagi()));
    let memcached = newest_memcached().map(|server| ("memcached", server));
    nagi.into_iter().chain(memcached).collect()
}

fn watch(server: &Server, streams: &str) -> Connection {
    let mut watcher = server.connect_memcached();
    watcher.check_raw(format!("watch{streams}\r\n"), "OK\r\n");
    watcher
}

/// Returns the next line without its time, number and descriptor.
fn shown(watcher: &mut Connection) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push_str(&String::from_utf8_lossy(&watcher.take(1)));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[0].starts_with("ts=") && words[1].starts_with("gid="), "{line}");
    let is_steady = |word: &&&str| !word.starts_with("cfd=") && !word.starts_with("rport=");
    words[2..].iter().filter(is_steady).copied().collect::<Vec<_>>().join(" ")
}

/// Returns the lines that a watcher receives for these requests. memcached accesses some keys
/// twice, and reports both accesses.
fn shown_of(server: &Server, streams: &str, requests: &[&str]) -> Vec<String> {
    let mut watcher = watch(server, streams);
    let mut client = server.connect_memcached();
    for request in requests {
        client.send(request);
        client.send("mn\r\n");
        while client.line() != "MN" {}
    }
    client.check_raw(format!("get {LAST}\r\n"), "END\r\n");
    let mut lines: Vec<String> = Vec::new();
    loop {
        let line = shown(&mut watcher);
        if line.contains(LAST) {
            return lines;
        }
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
}

#[test]
fn requests_of_the_text_protocol_are_logged() {
    let requests = [
        "get none\r\n",
        "set a 0 0 3\r\nabc\r\n",
        "set a 5 100 1\r\nx\r\n",
        "get a none\r\n",
        "gets a\r\n",
        "gat 5000 a\r\n",
        "touch a 6000\r\n",
        "touch none 60\r\n",
        "add a 0 0 1\r\nx\r\n",
        "add b 0 0 1\r\n1\r\n",
        "replace none 0 0 1\r\nx\r\n",
        "set a 0 0 1\r\nx\r\n",
        "append a 0 0 2\r\nyz\r\n",
        "prepend a 0 0 2\r\nuv\r\n",
        "append none 0 0 2\r\nyz\r\n",
        "incr b 5\r\n",
        "incr b 5000\r\n",
        "decr none 1\r\n",
        "incr a 1\r\n",
        "cas a 0 0 1 999\r\nx\r\n",
        "cas none 0 0 1 999\r\nx\r\n",
        "delete a\r\n",
        "delete a noreply\r\n",
        "set a%20b/c~ 0 0 1 noreply\r\nx\r\n",
        "flush_all\r\n",
        "get b\r\n",
    ];
    let shown = servers().into_iter().map(|(name, server)| {
        eprintln!("asking {name}");
        shown_of(&server, " fetchers mutations deletions", &requests)
    });
    let shown: Vec<_> = shown.collect();
    assert!(shown.windows(2).all(|pair| pair[0] == pair[1]), "{shown:#?}");
    let lines = &shown[0];
    assert_eq!(lines.len(), 35, "{lines:#?}");
    assert_eq!(lines[0], "type=item_get key=none status=not_found clsid=0 size=0");
    assert_eq!(lines[2], "type=item_store key=a status=stored cmd=set ttl=0 clsid=1 size=3");
    assert!(lines.contains(&"type=deleted key=a cmd=delete clsid=1 size=5".to_owned()));
    assert!(lines.iter().any(|line| line.contains("key=a%2520b%2Fc~ ")));
}

#[test]
fn meta_commands_are_logged() {
    let requests = [
        "mg none\r\n",
        "mg none N3000\r\n",
        "mg none v\r\n",
        "ms m 2 T3000\r\nhi\r\n",
        "ms m 2 ME\r\nhi\r\n",
        "ms m 2\r\nhi\r\n",
        "ms m 2 MA\r\nhi\r\n",
        "ms m 2 C12\r\nhi\r\n",
        "ms new 2 MA N0\r\nhi\r\n",
        "ma m\r\n",
        "ma n N0 J5\r\n",
        "ma n\r\n",
        "md n I\r\n",
        "md n\r\n",
        "ms n 2\r\nhi\r\n",
        "md n x\r\n",
        "md n q\r\n",
        "me m\r\n",
        "ms bXM= 1 b\r\nx\r\n",
        "mg bXM= b\r\n",
    ];
    let shown: Vec<_> = servers()
        .iter()
        .map(|(_, server)| shown_of(server, " fetchers mutations deletions", &requests))
        .collect();
    assert!(shown.windows(2).all(|pair| pair[0] == pair[1]), "{shown:#?}");
    assert_eq!(shown[0].len(), 30, "{:#?}", shown[0]);
}

#[test]
fn requests_of_the_binary_protocol_are_logged() {
    let told = servers().into_iter().map(|(_, server)| {
        let mut watcher = watch(&server, " mutations fetchers");
        let mut client = server.connect_memcached();
        let mut ask = |opcode: u8, cas: u64, extras: &[u8], value: &str| {
            client.send(encode(opcode, 1, cas, extras, "b", value));
            let _ = receive(&mut client);
        };
        let count = [&1_u64.to_be_bytes()[..], &5_u64.to_be_bytes(), &[0; 4]].concat();
        ask(0x05, 0, &count, "");
        ask(0x01, 0, &[0; 8], "val");
        ask(0x02, 0, &[0; 8], "val");
        ask(0x0c, 0, &[], "");
        ask(0x1d, 0, &[0, 0, 99, 0], "");
        ask(0x1c, 0, &[0, 0, 0, 0], "");
        ask(0x0e, 0, &[], "zz");
        ask(0x01, 99, &[0; 8], "val");
        ask(0x04, 0, &[], "");
        let mut lines = Vec::new();
        while lines.len() < 11 {
            let line = shown(&mut watcher);
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        lines
    });
    let told: Vec<_> = told.collect();
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:#?}");
}

#[test]
fn connections_are_logged() {
    for (_, server) in servers() {
        let mut watcher = watch(&server, " connevents");
        let came = "type=conn_new rip=127.0.0.1 transport=tcp";
        let left = "type=conn_close rip=127.0.0.1 transport=tcp reason=normal";
        let mut client = server.connect_memcached();
        client.check_raw("mn\r\n", "MN\r\n");
        assert_eq!(shown(&mut watcher), came);
        client.send("quit\r\n");
        assert_eq!(client.rest(), b"");
        assert_eq!(shown(&mut watcher), left);
        let client = server.connect_memcached();
        client.finish_sending();
        assert_eq!((shown(&mut watcher), shown(&mut watcher)), (came.to_owned(), left.to_owned()));
    }
}

#[test]
fn evicted_keys_are_logged() {
    let nagi = Server::nagi_with(&["--maxmemory", "16mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut watcher = watch(&nagi, " evictions");
    let mut client = nagi.connect_memcached();
    let value = "v".repeat(100_000);
    for number in 0..400 {
        client.check_raw(format!("set key:{number} 0 3000 100000\r\n{value}\r\n"), "STORED\r\n");
    }
    let line = shown(&mut watcher);
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "type=eviction");
    assert!(words[1].starts_with("key=key%3A"), "{line}");
    assert_eq!(words[2], "fetch=no");
    let ttl: u64 = words[3].strip_prefix("ttl=").and_then(|ttl| ttl.parse().ok()).expect("a ttl");
    assert!((2900..=3000).contains(&ttl), "{line}");
    assert!(words[4].starts_with("la="), "{line}");
    assert_eq!(words[5..], ["clsid=1", "size=100000"]);
}

#[test]
fn unknown_streams_cannot_be_watched() {
    for (name, server) in servers() {
        let mut client = server.connect_memcached();
        client.check_raw("watch nothing\r\n", "ERROR\r\n");
        client.check_raw("watch fetchers nothing\r\n", "ERROR\r\n");
        client.check_raw("watch noreply\r\n", "ERROR\r\n");
        let refused = "ERROR cannot pipeline other commands before watch\r\n";
        client.check_raw("verbosity 1\r\nwatch\r\n", format!("OK\r\n{refused}"));
        let watchers: Vec<_> = (0..20).map(|_| watch(&server, "")).collect();
        client.check_raw("watch\r\n", "WATCHER_TOO_MANY log watcher limit reached\r\n");
        let field = |client: &mut Connection, name: &str| {
            client.send("stats\r\n");
            let mut found = None;
            loop {
                let line = client.line();
                if line == "END" {
                    return found;
                }
                found = found.or(line.strip_prefix(&format!("STAT {name} ")).map(str::to_owned));
            }
        };
        // memcached's thread for watchers counts them later.
        let mut is_counted = |count| (field(&mut client, "log_watchers")? == count).then_some(());
        until(&format!("{name} to count all"), || is_counted("20")).expect("they are counted");
        drop(watchers);
        until("their end", || is_counted("0")).expect("they are forgotten");
    }
    // Events of these streams never occur here.
    for stream in ["sysevents", "proxyreqs", "proxyevents", "proxyuser", "rawcmds"] {
        let server = Server::nagi();
        server.connect_memcached().check_raw(format!("watch {stream}\r\n"), "ERROR\r\n");
    }
}

#[test]
fn requests_of_a_watcher_are_ignored() {
    for (_, server) in servers() {
        let mut watcher = server.connect_memcached();
        watcher.check_raw("watch mutations\r\nversion\r\nset a 0 0 1\r\nx\r\n", "OK\r\n");
        watcher.send("version\r\nquit\r\n");
        let mut client = server.connect_memcached();
        client.check_raw("get a\r\n", "END\r\n");
        client.check_raw("set b 0 0 1\r\nx\r\n", "STORED\r\n");
        let line = "type=item_store key=b status=stored cmd=set ttl=0 clsid=1 size=1";
        assert_eq!(shown(&mut watcher), line);
    }
}

#[test]
fn a_watcher_that_does_not_read_misses_lines_and_delays_no_client() {
    // memcached also loses lines on the way to a watcher, but does not report how many.
    let server = Server::nagi();
    let stream = TcpStream::connect(server.memcached_address()).expect("connects");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("sets a timeout");
    (&stream).write_all(b"watch fetchers\r\n").expect("sends");
    let (mut reader, mut line) = (BufReader::new(&stream), String::new());
    until("the answer", || reader.read_line(&mut line).ok()).expect("it watches");
    assert_eq!(std::mem::take(&mut line), "OK\r\n");
    let mut client = server.connect_memcached();
    // With 300 bytes per line, the lines exceed the buffers of the sockets and of a watcher.
    let (batches, batch) = (200, 500);
    let request = format!("get {}\r\n", "k".repeat(240)).repeat(batch);
    for _ in 0..batches {
        client.check_raw(&request, "END\r\n".repeat(batch));
    }
    let (mut shown, mut skipped, mut asked) = (0, 0, batches * batch);
    while shown + skipped < asked {
        // The number of skipped lines precedes the next line that is not skipped.
        client.check_raw("get another\r\n", "END\r\n");
        asked += 1;
        while shown + skipped < asked && reader.read_line(&mut line).is_ok() {
            match line.trim_end().strip_prefix("skipped=") {
                Some(count) => skipped += count.parse::<usize>().expect("a number"),
                None => shown += 1,
            }
            line.clear();
        }
    }
    assert!(skipped > 1000, "{shown} were shown, {skipped} not");
    assert!(shown > 500, "{shown} were shown, {skipped} not");
}

#[test]
fn a_watcher_that_leaves_is_forgotten_by_the_store() {
    let server = Server::nagi();
    let watcher = watch(&server, " evictions connevents");
    watcher.finish_sending();
    let mut client = server.connect_memcached();
    let is_gone = || {
        client.send("stats conns\r\n");
        let mut watches = false;
        loop {
            let line = client.line();
            if line == "END" {
                break;
            }
            watches |= line.ends_with("conn_watch");
        }
        (!watches).then_some(())
    };
    until("its end", is_gone).expect("it is gone");
}

#[test]
fn a_connection_that_is_closed_for_a_fault_is_logged_as_an_error() {
    for (name, server) in servers() {
        let mut watcher = watch(&server, " connevents");
        for (request, reason) in [
            (b"quit\r\n".to_vec(), "normal"),
            (encode(0x07, 0, 0, b"", "", ""), "normal"),
            ("x".repeat(9000).into_bytes(), "error"),
            (b"POST / HTTP/1.1\r\n\r\n".to_vec(), "error"),
            (encode(0x00, 0, 0, b"", "key", "value"), "error"),
            ([encode(0x0a, 0, 0, b"", "", ""), vec![b'x'; 24]].concat(), "error"),
        ] {
            let mut client = server.connect_memcached();
            client.send(&request);
            client.rest();
            shown(&mut watcher);
            let closed = shown(&mut watcher);
            let what = request[..request.len().min(20)].escape_ascii();
            assert!(closed.contains(&format!("reason={reason}")), "{name}: {closed} for {what}");
        }
    }
}
