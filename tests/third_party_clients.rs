//! Third-party clients, used as their documentation describes.

use harness::{Folder, Server, run_tool};
use redis::Commands;

fn redis_cli(server: &Server, arguments: &[&str]) -> String {
    let port = server.resp().port().to_string();
    run_tool("redis-cli", &[&["-p", port.as_str()], arguments].concat())
}

#[test]
fn redis_cli_reads_what_it_wrote_in_both_protocols() {
    let server = Server::nagi();
    for protocol in ["-2", "-3"] {
        assert_eq!(redis_cli(&server, &[protocol, "SET", "greeting", "good morning"]), "OK\n");
        assert_eq!(redis_cli(&server, &[protocol, "GET", "greeting"]), "good morning\n");
        assert_eq!(redis_cli(&server, &[protocol, "DEL", "greeting"]), "1\n");
    }
}

#[test]
fn redis_cli_repeats_scans_and_reads_information() {
    let server = Server::nagi();
    assert_eq!(redis_cli(&server, &["-r", "3", "INCR", "visits"]), "1\n2\n3\n");
    assert_eq!(redis_cli(&server, &["--scan"]), "visits\n");
    let information = redis_cli(&server, &["INFO"]);
    for section in ["# Server", "# Clients", "# Memory", "# Stats", "# Keyspace"] {
        assert!(information.contains(section), "{section} is not in {information}");
    }
}

#[test]
fn redis_cli_finds_big_and_hot_keys() {
    let server = Server::nagi_with(&["--maxmemory-policy", "allkeys-lfu"]);
    let mut client = server.connect_resp();
    client.run("RPUSH list a b c");
    client.run_words(&["SET", "large", &"v".repeat(100_000)]);
    client.run("SET small v");
    (0..200).for_each(|_| drop(client.run("GET small")));
    let big = redis_cli(&server, &["--bigkeys"]);
    assert!(big.contains("found '\"large\"' has 100000 bytes"), "{big}");
    assert!(big.contains("found '\"list\"' has 3 items"), "{big}");
    let heavy = redis_cli(&server, &["--memkeys"]);
    assert!(heavy.contains("Biggest string found '\"large\"' has "), "{heavy}");
    let hot = redis_cli(&server, &["--hotkeys"]);
    let first = hot.lines().find(|line| line.starts_with("hot key found")).expect("one");
    assert!(first.ends_with("keyname: \"small\""), "{hot}");
}

#[test]
fn redis_cli_loads_a_mass_of_commands_through_a_pipe() {
    let server = Server::nagi();
    let commands: Vec<u8> = (0..10_000)
        .flat_map(|number: u32| {
            harness::encode_command(&["SET", &format!("key:{number}"), &format!("{number}")])
        })
        .collect();
    let port = server.resp().port().to_string();
    let printed = harness::run_tool_with_input("redis-cli", &["-p", &port, "--pipe"], &commands);
    assert!(printed.contains("errors: 0, replies: 10000"), "{printed}");
    server.connect_resp().check("DBSIZE", ":10000\r\n");
    server.connect_resp().check("GET key:9999", "$4\r\n9999\r\n");
}

#[test]
fn redis_rs_runs_typed_commands_and_pipelines() -> redis::RedisResult<()> {
    let server = Server::nagi();
    for protocol in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("redis://{}/{protocol}", server.resp()))?;
        let mut connection = client.get_connection()?;
        let _: () = connection.set("greeting", "hello")?;
        let length: usize = connection.append("greeting", " there")?;
        assert_eq!(length, 11);
        let greeting: Option<String> = connection.get("greeting")?;
        assert_eq!(greeting.as_deref(), Some("hello there"));
        let nothing: Option<String> = connection.get("nothing")?;
        assert_eq!(nothing, None);
        let removed: u64 = connection.del("greeting")?;
        assert_eq!(removed, 1);

        let (first, second): (i64, i64) = redis::pipe()
            .cmd("SET")
            .arg("visits")
            .arg(41)
            .ignore()
            .incr("visits", 1)
            .incr("visits", 1)
            .query(&mut connection)?;
        assert_eq!((first, second), (42, 43));
        let keys: Vec<String> = connection.scan()?.collect::<redis::RedisResult<_>>()?;
        assert_eq!(keys, ["visits"]);
        let _: () = redis::cmd("FLUSHALL").query(&mut connection)?;
    }
    Ok(())
}

#[test]
fn redis_rs_sees_errors_as_errors() -> redis::RedisResult<()> {
    let server = Server::nagi();
    let mut connection =
        redis::Client::open(format!("redis://{}/", server.resp()))?.get_connection()?;
    let _: () = connection.set("word", "one")?;
    let error = connection.incr::<_, _, i64>("word", 1).expect_err("a word has no successor");
    assert!(error.to_string().contains("not an integer"), "{error}");
    let again: String = connection.get("word")?;
    assert_eq!(again, "one");
    Ok(())
}

#[test]
fn memccp_stores_files_that_memccat_prints() {
    let server = Server::nagi();
    let servers = format!("--servers={}", server.memcached_address());
    let name = format!("nagi-memccp-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    let content = "one line\nand another\n".repeat(1000);
    std::fs::write(&path, &content).expect("writes a file");
    run_tool("memccp", &[&servers, &path.to_string_lossy()]);
    let printed = run_tool("memccat", &[&servers, &name]);
    std::fs::remove_file(&path).expect("removes the file");
    assert_eq!(printed.trim_end(), content.trim_end());
    server.connect_resp().check(&format!("STRLEN {name}"), format!(":{}\r\n", content.len()));
}

#[test]
fn memcslap_reads_and_writes_with_many_threads() {
    let server = Server::nagi();
    let servers = format!("--servers={}", server.memcached_address());
    for test in ["set", "get", "mget"] {
        let kind = format!("--test={test}");
        let arguments = [servers.as_str(), "--concurrency=20", "--execute-number=500", &kind];
        let printed = run_tool("memcslap", &arguments);
        assert!(printed.contains(&format!("Time to {test} ")), "{printed}");
    }
    let mut client = server.connect_resp();
    assert!(client.run("DBSIZE").integer() > 0, "memcslap stored its keys");
}

/// Uses curl as at the beginning of docs/http.md.
#[test]
fn curl() {
    let server = Server::nagi_with(&["--http-port", "any"]);
    let folder = Folder::new("curl");
    let url = |path: &str| format!("http://{}{path}", server.http());
    let curl = |arguments: &[&str]| {
        let quiet = ["--silent", "--show-error", "--fail", "--max-time", "30"];
        run_tool("curl", &[&quiet[..], arguments].concat())
    };
    // The body is longer than curl sends without waiting for `100 Continue`.
    let photo = folder.write("photo.png", "pixels".repeat(500_000));
    let (body, taken) = (format!("@{}", photo.display()), folder.path().join("taken"));
    let stored = r#"{"SET":[true,"OK"]}"#;
    for headers in [&[][..], &["-H", "Transfer-Encoding: chunked"], &["-H", "Expect: 100-continue"]]
    {
        for method in ["PUT", "POST"] {
            let put = ["-X", method, "--data-binary", &body, &url("/SET/photo")];
            assert_eq!(curl(&[headers, &put].concat()), stored, "{method} {headers:?}");
        }
        curl(&["-o", taken.to_str().expect("a path"), &url("/GET/photo.png")]);
        assert!(
            std::fs::read(&taken).expect("it was taken") == std::fs::read(&photo).expect("both")
        );
        assert_eq!(curl(&["-X", "POST", &url("/DEL/photo")]), r#"{"DEL":1}"#);
    }
    assert_eq!(curl(&["-T", photo.to_str().expect("a path"), &url("/SET/photo")]), stored);
    let counted =
        ["-d", r#"["INCR","visits"]"#, &url("/"), "--next", "-d", "INCR/visits", &url("/")];
    assert_eq!(curl(&counted), r#"{"result":1}{"INCR":2}"#);
    assert!(curl(&["--head", &url("/GET/visits.txt")]).contains("content-length: 1\r\n"));
}
