//! The requests of `nagi bench` other than those with numbered keys, sent to real servers, and how
//! `nagi bench` ends if it cannot continue.

use harness::{Connection, Folder, Server, nagi_binary, size};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bench(arguments: &str) -> Output {
    let words = arguments.split(' ').filter(|word| !word.is_empty());
    Command::new(nagi_binary()).arg("bench").args(words).output().expect("nagi starts")
}

/// Returns the report of a run, which must succeed.
fn report(words: &[&str]) -> serde_json::Value {
    let mut command = Command::new(nagi_binary());
    let output = command.args(["bench", "--json", "-", "--quiet"]).args(words).output();
    let output = output.expect("nagi starts");
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn integer(client: &mut Connection, command: &str) -> i64 {
    client.run(command).integer()
}

#[test]
fn commands_and_times_to_live_reach_the_server() {
    for server in [Server::nagi()].into_iter().chain(Server::every_redis()) {
        let url = format!("redis://{}", server.resp());
        let mut client = server.connect_resp();
        let load = ["--requests", "2000", "--keys", "50", "--connections", "5"];
        let command = "3:HSET h:{key} f {value:100}";
        let other = "1:INCRBY n:{key} {number:1-9}";
        let words = [&[&*url, "--command", command, "--command", other][..], &load].concat();
        assert_eq!(report(&words)["requests"], 2000);
        let keys = client.run("KEYS h:*");
        let key = keys.list().first().expect("it was written").text();
        assert_eq!(integer(&mut client, &format!("HSTRLEN {key} f")), 100);
        assert!(!client.run("KEYS n:*").list().is_empty());
        client.run("FLUSHALL");
        report(&[&[&*url, "--ttl", "100-200", "--ratio", "0:1"][..], &load].concat());
        for key in client.run("KEYS *").list() {
            let left = integer(&mut client, &format!("TTL {}", key.text()));
            assert!((90..=200).contains(&left), "{left}");
        }
    }
}

#[test]
fn keys_of_a_file_are_asked_for_many_at_once() {
    let folder = Folder::new("bench");
    let file = folder.write("keys", "first\nsecond:{tag}\nthird\n").display().to_string();
    let server = Server::nagi();
    for url in [
        format!("redis://{}", server.resp()),
        format!("memcached://{}", server.memcached_address()),
    ] {
        let mut client = server.connect_resp();
        client.run("FLUSHALL");
        let load = ["--key-file", &file, "--fill", "--requests", "1000", "--connections", "2"];
        let found = report(&[&[&*url, "--ratio", "1:0", "--multi-get", "7"][..], &load].concat());
        // Each reply contains the value of a key as often as the request names the key.
        assert_eq!((&found["hits"], &found["misses"]), (&7000.into(), &0.into()), "{found}");
        assert_eq!(integer(&mut client, "EXISTS first second:{tag} third"), 3);
        assert_eq!(integer(&mut client, "DBSIZE"), 3);
    }
}

#[test]
fn several_servers_are_a_ring_over_each_protocol() {
    let servers = [(); 2].map(|()| Server::nagi_with(&["--http-port", "any"]));
    let of = |url: fn(&Server) -> String| servers.each_ref().map(url);
    for urls in [
        of(|server| format!("redis://{}/2", server.resp())),
        of(|server| format!("memcached://{}", server.memcached_address())),
        of(|server| format!("http://{}/1", server.http())),
    ] {
        for server in &servers {
            server.connect_resp().run("FLUSHALL");
        }
        let [one, other] = &urls;
        let load = ["--requests", "2000", "--keys", "200", "--fill", "--like", "php-ketama"];
        let found = report(&[&[&**one, other, "--ratio", "1:0"][..], &load].concat());
        assert_eq!((&found["hits"], &found["misses"]), (&2000.into(), &0.into()), "{found}");
        let mut total = 0;
        for server in &servers {
            let keys = server.connect_resp().run("INFO keyspace").text();
            let count = keys.split("keys=").nth(1).and_then(|rest| rest.split(',').next());
            let count: u32 = count.expect("it has keys").parse().expect("a number");
            assert!((30..=170).contains(&count), "{keys}");
            total += count;
        }
        assert_eq!(total, 200, "no key is on both");
    }
}

#[test]
fn many_keys_at_once_are_asked_of_the_servers_that_have_them() {
    let servers = [(); 3].map(|()| Server::nagi_with(&["--http-port", "any"]));
    let of = |url: fn(&Server) -> String| servers.each_ref().map(url);
    for urls in [
        of(|server| format!("redis://{}", server.resp())),
        of(|server| format!("memcached://{}", server.memcached_address())),
    ] {
        servers.iter().for_each(|server| drop(server.connect_resp().run("FLUSHALL")));
        let [one, two, three] = &urls;
        let ring = [&**one, two, three, "--multi-get", "20", "--keys", "300"];
        let load = ["--fill", "--requests", "1000", "--connections", "3", "--pipeline", "4"];
        let found = report(&[&ring[..], &load, &["--ratio", "1:0"]].concat());
        // All keys are only found if each was requested from its own server.
        assert_eq!(found["requests"], 1000, "{found}");
        assert_eq!((&found["hits"], &found["misses"]), (&20_000.into(), &0.into()), "{found}");
        servers.iter().for_each(|server| drop(server.connect_resp().run("FLUSHALL")));
        let paced = ["--requests", "500", "--rate", "5000", "--ratio", "3:1"];
        let found = report(&[&ring[..], &paced].concat());
        assert_eq!((&found["requests"], &found["errors"]), (&500.into(), &0.into()), "{found}");
        let number = |name: &str| found[name].as_u64().expect("a number");
        assert_eq!((number("hits") + number("misses")) % 20, 0, "{found}");
    }
    for (urls, words) in [
        (format!("http://{}", servers[0].http()), "over HTTP, a request reads one key"),
        (format!("redis://{} --like redis-cluster", servers[0].resp()), "keys of one slot"),
    ] {
        let refused = bench(&format!("{urls} --multi-get 2 --requests 1"));
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn passwords_come_from_files_and_show_nowhere() {
    let folder = Folder::new("bench");
    let file = folder.write("password", "s3cret\n").display().to_string();
    let server = Server::nagi_with(&["--requirepass", "s3cret", "--http-port", "any"]);
    let (resp, http) = (server.resp(), server.http());
    let page = folder.path().join("a.html").display().to_string();
    for url in [format!("redis://{resp}"), format!("http://{http}")] {
        let load = ["--password-file", &file, "--requests", "100", "--fill", "--keys", "10"];
        let found = report(&[&[&*url, "--html", &page][..], &load].concat());
        assert_eq!(found["requests"], 100);
        let shown = fs::read_to_string(&page).expect("it was written") + &found.to_string();
        assert!(!shown.contains("s3cret"));
    }
    let refused = bench(&format!("redis://{resp} --requests 1"));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("NOAUTH") && error.contains("--password-file"), "{error}");
    assert!(!error.contains("does the server speak") && error.lines().count() == 1, "{error}");
    // Every user of a machine can see the arguments of all processes, so passwords must be hidden.
    let mut command = Command::new(nagi_binary());
    let url = format!("redis://:s3cret@{resp}");
    let mut running = command
        .args(["bench", &url, "--seconds", "1000", "--timeline"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nagi starts");
    let mut line = String::new();
    let progress = running.stderr.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(progress), &mut line).expect("a line");
    let shown = fs::read_to_string(format!("/proc/{}/cmdline", running.id())).expect("it runs");
    running.kill().and_then(|()| running.wait()).expect("it runs");
    assert!(shown.contains("redis://***@") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn values_of_all_sizes_come_back_whole() {
    let largest = format!("{}m", size(100, 512));
    let sizes = format!("value-bytes=1,31,1k,100k,1m,{largest}");
    let nagi = || Server::nagi_with(&["--memcached-item-limit", "1gb"]);
    let redis = Server::every_redis().into_iter().chain([nagi()]);
    // memcached is configured for the longest items, and for more than twice as much memory.
    let memcached = Server::every_memcached(&["-I", "1024m", "-m", "4096"]);
    let memcached = memcached.into_iter().chain([nagi()]);
    let redis = redis.map(|server| (format!("redis://{}", server.resp()), server));
    let memcached =
        memcached.map(|server| (format!("memcached://{}", server.memcached_address()), server));
    // The servers are tested one after another, because each uses some gigabytes.
    for (url, _server) in redis.chain(memcached) {
        let found = report(&[
            &url,
            "--sweep",
            &sizes,
            "--fill",
            "--keys",
            "2",
            "--requests",
            "4",
            "--connections",
            "1",
            "--verify",
            "--ratio",
            "1:1",
            // With this seed, two of the four requests are reads.
            "--seed",
            "5",
            "--reply-timeout-seconds",
            "120",
        ]);
        for run in found["runs"].as_array().expect("runs") {
            let report = &run["report"];
            assert_eq!((&report["requests"], &report["errors"]), (&4.into(), &0.into()), "{run}");
            assert_eq!((&report["hits"], &report["misses"]), (&2.into(), &0.into()), "{run}");
        }
    }
}

#[test]
fn impossible_requests_end_with_one_line() {
    let folder = Folder::new("bench");
    let trace = folder.write("trace.csv", "1,key,3,4,1,get,0\nnonsense\n").display().to_string();
    let keys = folder.write("keys", "a b\n").display().to_string();
    let (nagi, memcached) = (Server::nagi(), Server::memcached());
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
    let closed = closed.expect("a free port").port();
    let resp = nagi.resp();
    let port = memcached.memcached_address().port();
    let short = format!("redis://{resp} --seconds 0.1 --connections 2");
    for (arguments, reason) in [
        ("redis://no-such-host.invalid".to_owned(), "no-such-host.invalid"),
        (format!("--port {closed}"), "refused"),
        (format!("redis://127.0.0.1:{port} --seconds 0.1"), "does the server speak RESP?"),
        (format!("memcached://{resp} --seconds 0.1"), "does the server speak memcached"),
        (
            format!("http://{resp} --seconds 0.1 --reply-timeout-seconds 1"),
            "does the server speak HTTP?",
        ),
        (format!("redis://{resp} --trace {trace}"), "trace.csv"),
        (format!("redis://{resp} --trace /nonexistent"), "/nonexistent"),
        (format!("memcached://127.0.0.1:{port} --key-file {keys}"), "blank or control"),
        (format!("{short} --html /dev/full"), "/dev/full: No space left"),
        (format!("{short} --hdr-log /dev/full"), "/dev/full: No space left"),
        (format!("{short} --percentiles /dev/full"), "/dev/full: No space left"),
        (format!("{short} --json /dev/full"), "/dev/full: No space left"),
        (format!("memcached://127.0.0.1:{port} --like redis-cluster"), "needs RESP"),
        (format!("redis://{resp} --like redis-cluster"), "CLUSTER"),
    ] {
        let output = bench(&format!("{arguments} --quiet"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {error}");
        assert!(error.contains(reason) && error.lines().count() == 1, "{arguments}: {error}");
    }
    assert!(Path::new(&trace).exists(), "what is read is never written");
}
