//! memcached's commands for administrators.

use crate::persistence::Folder;
use harness::{Connection, Server, as_memcached, until};
use std::fs;

#[test]
fn switches_are_read_as_memcached_reads_them() {
    as_memcached(&[
        ("lru mode flat\r\n", "OK\r\n"),
        ("lru mode sideways\r\n", "ERROR\r\n"),
        ("lru temp_ttl 60\r\n", "OK\r\n"),
        ("lru temp_ttl -1\r\n", "OK\r\n"),
        ("lru tune 10 25 0.1 2.0\r\n", "OK\r\n"),
        ("lru tune 10\r\n", "ERROR\r\n"),
        ("lru\r\n", "ERROR\r\n"),
        ("slabs automove 1\r\n", "OK\r\n"),
        ("slabs automove x\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("slabs reassign 1 2\r\n", "NOSPARE source class has no spare pages\r\n"),
        ("slabs reassign x 2\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("slabs reassign 1\r\n", "ERROR\r\n"),
        ("lru_crawler sleep 100\r\n", "OK\r\n"),
        ("lru_crawler sleep 10000000\r\n", "CLIENT_ERROR sleep must be one second or less\r\n"),
        ("lru_crawler tocrawl x\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("lru_crawler crawl all\r\n", "OK\r\n"),
        ("lru_crawler metadump x\r\n", "BADCLASS invalid class id\r\n"),
        ("lru_crawler\r\n", "ERROR\r\n"),
        ("watch nothing\r\n", "ERROR\r\n"),
        ("lru_crawler disable\r\n", "OK\r\n"),
    ]);
}

#[test]
fn statistics_that_are_not_kept_are_empty() {
    as_memcached(&[
        ("stats detail on\r\n", "OK\r\n"),
        ("stats detail dump\r\n", "END\r\n"),
        ("stats detail off\r\n", "OK\r\n"),
        ("stats detail\r\n", "CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
        ("stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n"),
        ("stats items\r\n", "END\r\n"),
        ("stats nothing\r\n", "ERROR\r\n"),
        ("stats reset\r\n", "RESET\r\n"),
    ]);
}

#[test]
fn the_limit_of_memory_is_changed() {
    as_memcached(&[
        ("cache_memlimit\r\n", "ERROR\r\n"),
        ("cache_memlimit x\r\n", "ERROR\r\n"),
        ("cache_memlimit 4\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
        ("cache_memlimit 100\r\ncache_memlimit 90 noreply\r\nmn\r\n", "OK\r\nMN\r\n"),
    ]);
    let server = Server::nagi();
    server.connect_memcached().check_raw("cache_memlimit 100\r\n", "OK\r\n");
    let limit = "*2\r\n$9\r\nmaxmemory\r\n$9\r\n104857600\r\n";
    server.connect_resp().check("CONFIG GET maxmemory", limit);
}

/// memcached 1.6.18 replies `ERROR:` instead.
#[test]
fn a_client_cannot_shut_it_down() {
    for server in [Some(Server::nagi()), crate::differential::newest_memcached()] {
        let Some(server) = server else { continue };
        let mut client = server.connect_memcached();
        client.check_raw("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
        client.check_raw("shutdown graceful\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    }
}

#[test]
fn it_is_shut_down_once_its_data_is_saved() {
    let folder = Folder::new("memcached-shutdown");
    let gone = folder.0.join("gone");
    fs::create_dir(&gone).expect("creates a folder");
    let path = gone.to_str().expect("text");
    for (points, request) in [("3600 1", "shutdown\r\n"), ("", "shutdown graceful\r\n")] {
        let arguments = ["--memcached-shutdown", "yes", "--dir", path, "--save", points];
        let mut server = Server::nagi_with(&arguments);
        let mut client = server.connect_memcached();
        client.check_raw("shutdown now\r\n", "CLIENT_ERROR invalid shutdown mode\r\n");
        client.check_raw("set key 0 0 1\r\nx\r\n", "STORED\r\n");
        if !points.is_empty() {
            fs::remove_dir(&gone).expect("it is empty");
            client.send(request);
            let error = client.line();
            let expected = "SERVER_ERROR the data could not be saved: creating ";
            assert!(error.starts_with(expected) && error.contains("No such file"), "{error}");
            client.check_raw("set key 0 0 1\r\ny\r\n", "STORED\r\n");
            fs::create_dir(&gone).expect("creates the folder again");
        }
        client.check_raw(request, "");
        assert!(server.wait_for_exit().success(), "{}", server.log());
        let file = gone.join("dump.rdb");
        assert_eq!(file.is_file(), !points.is_empty(), "{}", server.log());
        if file.is_file() {
            Server::nagi_with(&["--dir", path])
                .connect_memcached()
                .check_raw("get key\r\n", "VALUE key 0 1\r\ny\r\nEND\r\n");
            fs::remove_file(&file).expect("removes it");
        }
    }
}

/// Sends a request until it is accepted, because memcached's crawler may be busy with another
/// request. Returns the connection and the first line of the reply.
fn ask_crawler(server: &Server, request: &str) -> (Connection, String) {
    let ask = || {
        let mut client = server.connect_memcached();
        client.send(request);
        let line = client.line();
        (!line.starts_with("BUSY")).then_some((client, line))
    };
    until("a crawler that is not busy", ask).expect("an answer")
}

/// Requests a dump, which ends in the same way as its reply. memcached then uses the connection
/// only for the dump.
fn dump(server: &Server, request: &str, end: &str) -> Vec<String> {
    let (mut client, first) = ask_crawler(server, request);
    let mut lines = format!("{first}\r\n");
    let whole = || {
        lines.push_str(&String::from_utf8_lossy(&client.take(1)));
        lines.ends_with(end).then_some(())
    };
    until("the end of the dump", whole).expect("a whole dump");
    let lines = lines.strip_suffix(end).unwrap_or_default();
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_key_is_dumped() {
    for server in [Some(Server::nagi()), crate::differential::newest_memcached()] {
        let Some(server) = server else { continue };
        let mut client = server.connect_memcached();
        client.check_raw("set a%b 5 0 1\r\nx\r\n", "STORED\r\n");
        client.check_raw("set c 0 100 2\r\nhi\r\n", "STORED\r\n");
        client.check_raw("ms AAEC 2 b\r\nhi\r\n", "HD\r\n");
        let lines = dump(&server, "lru_crawler metadump all\r\n", "END\r\n");
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].starts_with("OK"));
        assert!(lines[1].starts_with("key=%00%01%02 exp=-1 la="), "{}", lines[1]);
        assert!(lines[2].starts_with("key=a%25b exp=-1 la="), "{}", lines[2]);
        assert!(lines[2].contains(" fetch=no cls=1 size="), "{}", lines[2]);
        assert!(lines[2].ends_with(" flags=5 "), "{}", lines[2]);
        assert!(lines[3].starts_with("key=c exp=1"), "{}", lines[3]);
        assert!(lines[3].contains(" fetch=no cls=1 size="), "{}", lines[3]);
        let lines = dump(&server, "lru_crawler mgdump hash\r\n", "EN\r\n");
        assert_eq!(lines, ["OK", "mg AAEC b", "mg a%b", "mg c"]);
    }
}

/// Returns a field of a line such as `key=a exp=-1 cas=7`.
fn part<'l>(line: &'l str, name: &str) -> &'l str {
    let parts = line.split(' ');
    let value = parts.filter_map(|part| part.split_once('=')).find(|(known, _)| *known == name);
    value.unwrap_or_else(|| panic!("no {name} in {line}")).1
}

#[test]
fn a_dump_has_the_numbers_of_versions() {
    for server in [Some(Server::nagi()), crate::differential::newest_memcached()] {
        let Some(server) = server else { continue };
        let mut client = server.connect_memcached();
        client.check_raw("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
        let lines = dump(&server, "lru_crawler metadump all\r\n", "END\r\n");
        assert_eq!(part(&lines[1], "fetch"), "no", "{lines:?}");
        let numbers: Vec<&str> = lines[1..].iter().map(|line| part(line, "cas")).collect();
        assert!(numbers.iter().all(|number| *number != "0"), "{lines:?}");
        let dumped = || {
            let mut lines = dump(&server, "lru_crawler metadump all\r\n", "END\r\n");
            lines.remove(1)
        };
        assert_eq!(part(&dumped(), "cas"), numbers[0], "the version is the same");
        client.check_raw("cas a 0 0 1 987654321\r\ny\r\n", "EXISTS\r\n");
        client.check_raw(format!("cas a 0 0 1 {}\r\ny\r\n", numbers[0]), "STORED\r\n");
        assert_ne!(part(&dumped(), "cas"), numbers[0]);
    }
}

/// Lists of classes, each with the number of entries in a dump of these classes if the only entry
/// is of class 1.
const CLASSES: [(&str, usize); 16] = [
    ("all", 1),
    ("hash", 1),
    ("1", 1),
    ("2", 0),
    ("2,3", 0),
    ("63", 0),
    ("1,2", 1),
    ("62,1", 1),
    ("1,1", 1),
    ("1,", 1),
    (",1", 1),
    ("1,,2", 1),
    ("+1", 1),
    ("01", 1),
    ("4294967297", 1),
    ("4294967298", 0),
];

const NO_CLASSES: [&str; 14] = [
    "0",
    "64",
    "255",
    "-1",
    "x",
    "1x",
    "1.5",
    "1,x",
    "x,1",
    "all,1",
    "1,hash",
    "ALL",
    "hashx",
    "18446744073709551617",
];

#[test]
fn a_dump_takes_classes() {
    for server in [Some(Server::nagi()), crate::differential::newest_memcached()] {
        let Some(server) = server else { continue };
        server.connect_memcached().check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        for (classes, count) in CLASSES {
            let lines = dump(&server, &format!("lru_crawler metadump {classes}\r\n"), "END\r\n");
            assert_eq!(lines.len(), 1 + count, "metadump {classes}: {lines:?}");
            let lines = dump(&server, &format!("lru_crawler mgdump {classes}\r\n"), "EN\r\n");
            assert_eq!(lines.len(), 1 + count, "mgdump {classes}: {lines:?}");
        }
        for classes in NO_CLASSES {
            for verb in ["metadump", "mgdump", "crawl"] {
                let request = format!("lru_crawler {verb} {classes}\r\n");
                assert_eq!(ask_crawler(&server, &request).1, "BADCLASS invalid class id");
            }
        }
        for (request, reply) in [
            ("crawl 2,3", "OK"),
            ("crawl hash", "ERROR an unknown error happened"),
            ("crawl", "ERROR"),
            ("crawl all all", "ERROR"),
            ("metadump", "ERROR"),
            ("metadump all all", "ERROR"),
            ("mgdump 1 2", "ERROR"),
            ("sleep 0 x", "ERROR"),
            ("sleep -1", "CLIENT_ERROR bad command line format"),
            ("tocrawl 4294967296", "CLIENT_ERROR bad command line format"),
            ("tocrawl 0 x", "ERROR"),
            ("enable x", "ERROR"),
        ] {
            let answer = ask_crawler(&server, &format!("lru_crawler {request}\r\n"));
            assert_eq!(answer.1, reply, "lru_crawler {request}");
        }
        let mut client = server.connect_memcached();
        for verb in ["metadump", "mgdump"] {
            let request = format!("lru_crawler {verb} all noreply\r\nmn\r\n");
            client.check_raw(request, "MN\r\n");
        }
    }
}
