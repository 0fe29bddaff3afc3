//! SLOWLOG, and what INFO and LATENCY report about the duration of requests.

use crate::memcached::binary::{encode, receive};
use harness::{Reply, Server, as_redis, encode_command, until};

#[test]
fn slow_requests_are_logged_as_by_redis() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("SLOWLOG GET", "*0\r\n");
        client.check("CLIENT SETNAME me", "+OK\r\n");
        client.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.check("SLOWLOG RESET", "+OK\r\n");
        client.check("SET key value", "+OK\r\n");
        let long = "x".repeat(200);
        client.check(&format!("APPEND key {long}"), ":205\r\n");
        client.check("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        client.check("GET key", format!("$205\r\nvalue{long}\r\n"));
        let log = client.run("SLOWLOG GET");
        let logged: Vec<String> = log.list().iter().map(first_words).collect();
        let cut = format!("APPEND key {}... (72 more bytes)", "x".repeat(128));
        assert_eq!(logged, [&cut, "SET key value", "SLOWLOG RESET"]);
        let entry = log.list()[0].list();
        assert_eq!(entry.len(), 6);
        let (id, before) = (entry[0].integer(), log.list()[1].list()[0].integer());
        assert_eq!(id, before + 1);
        assert!(entry[1].integer() > 1_700_000_000 && entry[2].integer() < 1_000_000);
        assert!(entry[4].text().starts_with("127.0.0.1:"));
        assert_eq!(entry[5].text(), "me");
        client.check("SLOWLOG LEN", ":3\r\n");
        assert_eq!(client.run("SLOWLOG GET 2").list().len(), 2);
        assert_eq!(client.run("SLOWLOG GET -1").list().len(), 3);
        client.check("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1\r\n");
        client.check("SLOWLOG RESET", "+OK\r\n");
        client.check("SLOWLOG LEN", ":0\r\n");
        assert!(!client.run("SLOWLOG HELP").list().is_empty());
    }
}

/// Returns the arguments of an entry in one line.
fn first_words(entry: &Reply) -> String {
    let words = entry.list()[3].list().iter().map(Reply::text);
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_slow_log_has_a_length_and_shows_no_passwords() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET slowlog-max-len 3 slowlog-log-slower-than 0", "+OK\r\n");
        for _ in 0..10 {
            client.check("PING", "+PONG\r\n");
        }
        client.check("SLOWLOG LEN", ":3\r\n");
        client.check("CONFIG SET slowlog-max-len 0", "+OK\r\n");
        client.check("PING", "+PONG\r\n");
        client.check("SLOWLOG LEN", ":0\r\n");
        client.check("CONFIG SET slowlog-max-len 9", "+OK\r\n");
        client.check("CONFIG SET requirepass sesame", "+OK\r\n");
        client.check("AUTH sesame", "+OK\r\n");
        client.check("AUTH default sesame", "+OK\r\n");
        client.run("HELLO 2 AUTH default sesame SETNAME me");
        let mut log =
            client.run("SLOWLOG GET -1").list().iter().map(first_words).collect::<Vec<_>>();
        log.truncate(4);
        assert_eq!(
            log,
            [
                "HELLO 2 AUTH (redacted) (redacted) SETNAME me",
                "AUTH (redacted) (redacted)",
                "AUTH (redacted)",
                "CONFIG SET requirepass (redacted)",
            ]
        );
    }
}

#[test]
fn requests_of_a_pipeline_are_logged_one_by_one() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let mut pipeline = encode_command(&["CONFIG", "SET", "slowlog-log-slower-than", "2000"]);
    client.check_raw(&pipeline, "+OK\r\n");
    // A request with half a million keys is slow on any machine; the requests around it are not.
    let keys: Vec<String> = (0..500_000).map(|number| format!("key:{number}")).collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(keys.iter().map(String::as_str));
    pipeline = encode_command(&["SET", "before", "1"]);
    pipeline.extend(encode_command(&exists));
    pipeline.extend(encode_command(&["SET", "after", "1"]));
    client.check_raw(pipeline, "+OK\r\n:0\r\n+OK\r\n");
    let log = client.run("SLOWLOG GET");
    let names: Vec<String> = log.list().iter().map(first_words).collect();
    let usec_of = |entry: &Reply| entry.list()[2].integer();
    let exists = names.iter().position(|name| name.starts_with("EXISTS key:0 key:1 "));
    let exists = exists.unwrap_or_else(|| panic!("it is slow: {names:?}"));
    assert!(names[exists].ends_with("... (499970 more arguments)"), "{names:?}");
    assert!(usec_of(&log.list()[exists]) >= 2000);
    // On a busy machine, other requests may be delayed, but the time of the slow request must not
    // count as theirs.
    for (name, entry) in names.iter().zip(log.list()).filter(|(name, _)| name.starts_with("SET")) {
        assert!(usec_of(entry) < usec_of(&log.list()[exists]), "{name}");
    }
}

#[test]
fn a_slow_reader_shows_as_send() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-total-slower-than 200000", "+OK\r\n");
    let value = "v".repeat(20_000_000);
    client.check(&format!("SET key {value}"), "+OK\r\n");
    let mut reader = server.connect_resp();
    reader.send(encode_command(&["GET", "key"]));
    let has_begun = || client.run("CLIENT LIST").text().lines().any(has_unsent).then_some(());
    until("replies that wait", has_begun).expect("the reply does not fit into a socket");
    let begun = std::time::Instant::now();
    until("a while", || (begun.elapsed().as_millis() >= 300).then_some(())).expect("passes");
    reader.expect(format!("${}\r\n{value}\r\n", value.len()));
    let logged = || client.run("SLOWLOG PHASES").list().first().cloned();
    let entry = until("the request in the slow log", logged).expect("it took long");
    let field = |name: &str| field(&entry, name);
    assert!(field("send-usec") >= 300_000, "{entry:?}");
    assert!(field("execute-usec") < 200_000 && field("receive-usec") == 0, "{entry:?}");
    assert_eq!((field("request-bytes"), field("reply-bytes")), (6, 20_000_013));
}

fn has_unsent(line: &str) -> bool {
    !line.contains(" omem=0 ")
}

/// Returns a number from the fields of SLOWLOG PHASES.
fn field(entry: &Reply, name: &str) -> i64 {
    let fields = entry.list();
    let at = fields.iter().position(|field| *field == Reply::Bulk(name.into())).expect(name);
    fields[at + 1].integer()
}

#[test]
fn a_slow_writer_shows_as_receive() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-total-slower-than 100000", "+OK\r\n");
    let mut writer = server.connect_resp();
    writer.send("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nva");
    let arrived = || client.run("CLIENT LIST").text().contains(" qbuf=28 ").then_some(());
    until("the beginning", arrived).expect("the server holds it");
    let begun = std::time::Instant::now();
    until("a while", || (begun.elapsed().as_millis() >= 200).then_some(())).expect("passes");
    writer.send("lue\r\n");
    writer.expect("+OK\r\n");
    let entry = client.run("SLOWLOG PHASES").list()[0].clone();
    assert!(field(&entry, "receive-usec") >= 200_000, "{entry:?}");
    assert!(field(&entry, "execute-usec") < 100_000, "{entry:?}");
    assert_eq!(
        client.run("SLOWLOG GET").list()[0].list()[2].integer(),
        field(&entry, "execute-usec")
    );
}

#[test]
fn statistics_tell_how_long_commands_take() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for number in 0..50 {
            client.check(&format!("SET key {number}"), "+OK\r\n");
        }
        client.run("SET key");
        client.run("INCRBY key x");
        let commands = client.run("INFO commandstats").text();
        let set = line_of(&commands, "cmdstat_set:");
        assert!(
            set.starts_with("calls=50,usec=") && set.ends_with(",rejected_calls=1,failed_calls=0")
        );
        assert!(set.contains(",usec_per_call="), "{set}");
        assert!(
            line_of(&commands, "cmdstat_incrby:").ends_with(",rejected_calls=0,failed_calls=1")
        );
        let latencies = client.run("INFO latencystats").text();
        let set = line_of(&latencies, "latency_percentiles_usec_set:");
        assert!(
            set.starts_with("p50=") && set.contains(",p99=") && set.contains(",p99.9="),
            "{set}"
        );
        client.check("CONFIG SET latency-tracking-info-percentiles \"90.0 100\"", "+OK\r\n");
        let latencies = client.run("INFO latencystats").text();
        let set = line_of(&latencies, "latency_percentiles_usec_set:");
        assert!(set.starts_with("p90=") && set.contains(",p100="), "{set}");
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        let latencies = client.run("INFO latencystats").text();
        assert!(!latencies.contains("_usec_set:"), "{latencies}");
        let statistics = client.run("INFO stats").text();
        for name in [
            "instantaneous_ops_per_sec:",
            "instantaneous_input_kbps:",
            "instantaneous_output_kbps:",
            "total_net_input_bytes:",
            "total_net_output_bytes:",
        ] {
            line_of(&statistics, name);
        }
    }
}

/// Returns the text after `name` in a section of INFO.
fn line_of<'t>(text: &'t str, name: &str) -> &'t str {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_else(|| panic!("{name} in {text}"))
}

#[test]
fn phases_are_counted_by_families() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for _ in 0..20 {
        client.check("SET key value", "+OK\r\n");
    }
    server.connect_memcached().check_raw("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    // Another worker counts the request after it has sent the reply.
    let counted = || Some(client.run("INFO phases").text()).filter(|it| it.contains("_memcached_"));
    let phases = until("memcached's request to be counted", counted).expect("it is counted");
    for phase in ["receive", "queue", "execute", "send"] {
        let string = line_of(&phases, &format!("phase_usec_string_{phase}:"));
        assert!(string.starts_with("requests=20,p50=") && string.contains(",p100="), "{string}");
        assert!(
            line_of(&phases, &format!("phase_usec_memcached_{phase}:")).starts_with("requests=1,")
        );
    }
    let longest_of = |stats: &str, what: &str| -> u64 {
        line_of(stats, &format!("longest_{what}_usec:")).parse().expect("a number")
    };
    let longest =
        |client: &mut harness::Connection| longest_of(&client.run("INFO stats").text(), "slice");
    let keys: Vec<String> = (0..300_000).map(|number| format!("key:{number}")).collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(keys.iter().map(String::as_str));
    client.run_words(&exists);
    let before = longest(&mut client);
    // They are done in slices, of which the longest is long compared to that of a short request.
    assert!(before > 100, "300,000 lookups take time: {before}");
    let stats = client.run("INFO stats").text();
    for what in ["slice", "latch_hold"] {
        let on_cpu = longest_of(&stats, &format!("{what}_cpu"));
        let (least, most) = (u64::from(what == "slice") * 100, longest_of(&stats, what));
        assert!((least..=most).contains(&on_cpu), "{what}: {on_cpu} of {most}");
    }
    let is_forgotten = || {
        client.check("CONFIG RESETSTAT", "+OK\r\n");
        (longest(&mut client) < before).then_some(())
    };
    until("a slice that is shorter", is_forgotten).expect("the longest one is forgotten");
    assert!(client.run("INFO stats").text().contains("\nlongest_send_usec:"));
}

#[test]
fn requests_of_the_binary_protocol_are_timed() {
    let server = Server::nagi_with(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect_resp();
    let mut binary = server.connect_memcached();
    let mut ask = |request: Vec<u8>| {
        binary.send(request);
        receive(&mut binary).status
    };
    assert_eq!(ask(encode(0x01, 1, 0, &[0; 8], "key", &"v".repeat(200))), 0);
    assert_eq!(ask(encode(0x00, 2, 0, b"", "key", "")), 0);
    assert_eq!(ask(encode(0x21, 3, 0, b"", "PLAIN", "\0user\0password")), 0x81);
    assert_eq!(ask(encode(0x77, 4, 0, b"", "", "")), 0x81);
    assert_eq!(ask(encode(0x0a, 5, 0, b"", "", "")), 0);
    let counted = || {
        let phases = client.run("INFO phases").text();
        let execute =
            phases.lines().find_map(|it| it.strip_prefix("phase_usec_memcached_execute:"));
        execute.filter(|it| it.starts_with("requests=5,")).map(str::to_owned)
    };
    until("the requests to be counted", counted).expect("all of them");
    let log = client.run("SLOWLOG GET -1");
    let words = log.list().iter().map(first_words);
    let logged: Vec<String> = words.filter(|words| !words.starts_with("INFO")).collect();
    let set = format!("set key {}... (72 more bytes)", "v".repeat(128));
    assert_eq!(logged, ["noop", "opcode 0x77", "sasl_auth (redacted)", "get key", &set]);
}

/// In memcached's text protocol, the password is in the value of a `set`.
#[test]
fn a_login_of_the_text_protocol_is_not_logged() {
    let server = Server::nagi_with(&["--slowlog-log-slower-than", "0", "--requirepass", "sesame"]);
    let mut memcached = server.connect_memcached();
    let refused = "CLIENT_ERROR authentication failure\r\n";
    memcached.check_raw("set any 0 0 15\r\ndefault sesame2\r\n", refused);
    memcached.check_raw("set any 0 0 14\r\ndefault sesame\r\n", "STORED\r\n");
    memcached.check_raw("get key\r\n", "END\r\n");
    let mut client = server.connect_resp();
    client.check("AUTH sesame", "+OK\r\n");
    let logged = || {
        let log = client.run("SLOWLOG GET -1");
        let words: Vec<String> = log.list().iter().map(first_words).collect();
        words.iter().any(|words| words == "get key").then_some(words)
    };
    let logged = until("the get to be logged", logged).expect("it is slow");
    let shows_login = |words: &String| words.contains("sesame") || words.starts_with("set any");
    assert!(!logged.iter().any(shows_login), "{logged:?}");
}

#[test]
fn counting_can_be_switched_off() {
    let server = Server::nagi_with(&["--latency-tracking", "no"]);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    assert_eq!(client.run("INFO latencystats").text().trim(), "# Latencystats");
    client.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
    client.check("SET key value", "+OK\r\n");
    assert_eq!(first_words(&client.run("SLOWLOG GET 1").list()[0]), "SET key value");
    as_redis(&[("SLOWLOG", "-ERR wrong number of arguments for 'slowlog' command\r\n")]);
}

/// EXEC is only logged with the time before it executes the requests.
#[test]
fn requests_of_a_transaction_are_logged_by_themselves() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET slowlog-total-slower-than 100000", "+OK\r\n");
    client.check("MULTI", "+OK\r\n");
    client.check("DEBUG SLEEP 0.2", "+QUEUED\r\n");
    client.check("PING", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n+OK\r\n+PONG\r\n");
    let log = client.run("SLOWLOG GET");
    let [entry] = log.list() else { panic!("one entry, not {log:?}") };
    assert_eq!(first_words(entry), "DEBUG SLEEP 0.2");
}

/// The requests are timed neither when they are queued nor again as EXEC, as in redis-server.
#[test]
fn requests_of_a_transaction_are_timed_once() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.check("SLOWLOG RESET", "+OK\r\n");
        client.check("MULTI", "+OK\r\n");
        client.check("SET key value", "+QUEUED\r\n");
        client.check("SET key other", "+QUEUED\r\n");
        client.check("LLEN key", "+QUEUED\r\n");
        assert_eq!(client.run("EXEC").list().len(), 3);
        client.check("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        let log = client.run("SLOWLOG GET");
        let logged: Vec<String> = log.list().iter().map(first_words).collect();
        let expected = ["LLEN key", "SET key other", "SET key value", "MULTI", "SLOWLOG RESET"];
        assert_eq!(logged, expected);
        let histogram = client.run("LATENCY HISTOGRAM set");
        assert_eq!(histogram.list()[1].list()[1].integer(), 2, "{histogram:?}");
    }
}

#[test]
fn large_requests_and_replies_have_their_own_logs() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let value = "v".repeat(2 << 20);
    client.run_words(&["SET", "large", &value]);
    client.run("GET large");
    client.run("SET small value");
    let mut memcached = server.connect_memcached();
    let value = "v".repeat(1_040_000);
    memcached.check_raw(format!("set item 0 0 1040000\r\n{value}\r\n"), "STORED\r\n");
    client.check("CONFIG SET commandlog-request-larger-than 1000000", "+OK\r\n");
    memcached.check_raw(format!("set item 0 0 1040000\r\n{value}\r\n"), "STORED\r\n");
    let entries = |client: &mut harness::Connection, log: &str| -> Vec<(String, i64)> {
        let entries = client.run(&format!("COMMANDLOG GET -1 {log}"));
        let entry = |entry: &Reply| (first_words(entry), entry.list()[2].integer());
        entries.list().iter().map(entry).collect()
    };
    let requests = entries(&mut client, "large-request");
    let names: Vec<&str> = requests.iter().map(|(words, _)| &words[..7]).collect();
    assert_eq!(names, ["set ite", "SET lar"], "{requests:?}");
    assert!(requests[0].1 >= 1_040_000 && requests[1].1 >= 2 << 20, "{requests:?}");
    let replies = entries(&mut client, "large-reply");
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert!(replies[0].0 == "GET large" && replies[0].1 >= 2 << 20, "{replies:?}");
    client.check("COMMANDLOG LEN large-reply", ":1\r\n");
    let told = client.run("COMMANDLOG PHASES 1 large-reply");
    assert_eq!(field(&told.list()[0], "reply-bytes"), replies[0].1);
    client.check("COMMANDLOG RESET large-reply", "+OK\r\n");
    assert!(client.run("COMMANDLOG HELP").list().len() > 4);
    // Each request of a pipeline is checked separately.
    client.check("CONFIG SET commandlog-reply-larger-than 10", "+OK\r\n");
    let get = |key: &str| encode_command(&["GET", key]);
    client.send([get("nothing"), get("small"), get("nothing"), get("small")].concat());
    client.expect("$-1\r\n$5\r\nvalue\r\n$-1\r\n$5\r\nvalue\r\n");
    let replies = entries(&mut client, "large-reply");
    let small: Vec<_> = replies.iter().filter(|(words, _)| words == "GET small").collect();
    assert_eq!(small.len(), 2, "{replies:?}");
    assert!(replies.iter().all(|(words, _)| words != "GET nothing"), "{replies:?}");
    // The sizes are the ones that Valkey 9.1.2 shows.
    client.check("CONFIG SET commandlog-request-larger-than 200", "+OK\r\n");
    client.run_words(&["SET", "k", &"v".repeat(200)]);
    client.run("GET k");
    let (request, reply) = (
        entries(&mut client, "large-request")[0].1,
        entries(&mut client, "large-reply").into_iter().find(|it| it.0 == "GET k"),
    );
    assert_eq!((request, reply.map(|it| it.1)), (228, Some(208)));
    // The older setting names are those of the slow log.
    client.check("CONFIG SET commandlog-execution-slower-than 0", "+OK\r\n");
    client.run("PING");
    assert_eq!(entries(&mut client, "slow")[0].0, "PING");
    assert!(client.run("SLOWLOG LEN").integer() > 0);
}

/// Clients that have not logged in, or lack the permission, could otherwise fill the logs with
/// texts of their choice.
#[test]
fn requests_that_are_refused_are_in_no_log() {
    let settings = ["--requirepass", "sesame", "--slowlog-log-slower-than", "0"];
    let server = Server::nagi_with(&settings);
    let [mut admin, mut client, mut user] = [(); 3].map(|()| server.connect_resp());
    admin.check("AUTH sesame", "+OK\r\n");
    admin.check("ACL SETUSER ann on >pw ~a* +ping", "+OK\r\n");
    user.check("AUTH ann pw", "+OK\r\n");
    admin.check("SLOWLOG RESET", "+OK\r\n");
    admin.check("CONFIG RESETSTAT", "+OK\r\n");
    for _ in 0..50 {
        client.check("GET secret", "-NOAUTH Authentication required.\r\n");
    }
    user.check("GET a", "-NOPERM User ann has no permissions to run the 'get' command\r\n");
    user.check("PING", "+PONG\r\n");
    let mut memcached = server.connect_memcached();
    memcached.send(encode(0x00, 0, 0, b"", "secret", ""));
    assert_eq!(receive(&mut memcached).status, 0x20);
    let log = admin.run("SLOWLOG GET");
    let logged: Vec<String> = log.list().iter().map(first_words).collect();
    assert_eq!(logged, ["PING", "CONFIG RESETSTAT", "SLOWLOG RESET"]);
    admin.check("LATENCY HISTOGRAM get", "*0\r\n");
    // Requests of the same batch that are executed count.
    admin.check("ACL SETUSER ann +get", "+OK\r\n");
    let pipeline = ["a1", "b", "a2", "b"].map(|key| encode_command(&["GET", key])).concat();
    user.send(pipeline);
    let replies: Vec<Reply> = (0..4).map(|_| user.reply()).collect();
    assert!(matches!(&replies[..], [Reply::Null, Reply::Error(_), Reply::Null, Reply::Error(_)]));
    let histogram = admin.run("LATENCY HISTOGRAM get");
    let of_get = histogram.list()[1].list();
    assert_eq!((of_get[0].text().as_str(), of_get[1].integer()), ("calls", 2));
}
