//! HOTKEYS reports which keys cost the most time and bytes.

use harness::{Connection, Random, Reply, Server, encode_command, until, words};
use std::collections::BTreeMap;
use std::thread;

/// Returns the fields of the reply to HOTKEYS GET by name.
fn told(client: &mut Connection) -> BTreeMap<String, Reply> {
    let reply = client.run("HOTKEYS GET");
    let [fields] = reply.list() else { panic!("not a list of one: {reply:?}") };
    fields.list().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
}

/// Returns the keys of a list in the reply and their costs, in the order of the list.
fn costly(told: &BTreeMap<String, Reply>, name: &str) -> Vec<(String, i64)> {
    told[name].list().chunks(2).map(|pair| (pair[0].text(), pair[1].integer())).collect()
}

/// Counts the bytes that `talk` sends and receives, as reported by the server: in total, and by
/// key.
fn counted(server: &Server, talk: impl FnOnce(&mut Connection)) -> (i64, BTreeMap<String, i64>) {
    let mut client = server.connect_resp();
    client.check("HOTKEYS START METRICS 1 NET COUNT 64", "+OK\r\n");
    talk(&mut client);
    client.check("HOTKEYS STOP", "+OK\r\n");
    let told = told(&mut client);
    client.check("HOTKEYS RESET", "+OK\r\n");
    (told["total-net-bytes"].integer(), costly(&told, "by-net-bytes").into_iter().collect())
}

/// Returns the size of a request and its reply, in bytes.
fn bytes(request: &[&str], reply: &str) -> i64 {
    (encode_command(request).len() + reply.len()) as i64
}

fn by_key<const KEYS: usize>(keys: [(&str, i64); KEYS]) -> BTreeMap<String, i64> {
    keys.map(|(key, cost)| (key.to_owned(), cost)).into()
}

#[test]
fn the_hottest_keys_of_all_workers_are_found() {
    const CLIENTS: u64 = 8;
    const REQUESTS: u64 = 3000;
    const COUNT: i64 = 10;
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut random = Random::announced();
    let mut client = server.connect_resp();
    client.check(&format!("HOTKEYS START METRICS 2 CPU NET COUNT {COUNT}"), "+OK\r\n");
    // Of four requests, two have the same key, one has a second fixed key, and one has a key that
    // occurs only once.
    let talk = |mut client: Connection, mut random: Random, number: u64| {
        let mut exact = BTreeMap::<String, i64>::new();
        for batch in 0..REQUESTS / 100 {
            let name = |place: u64, choice| match choice {
                0 | 1 => "hot".to_owned(),
                2 => "warm".to_owned(),
                _ => format!("cold:{number}:{}", batch * 100 + place),
            };
            let keys: Vec<_> = (0..100).map(|place| name(place, random.below(4))).collect();
            let requests = keys.iter().map(|key| encode_command(&["GET", key]));
            client.send(requests.collect::<Vec<_>>().concat());
            for key in keys {
                client.expect("$-1\r\n");
                *exact.entry(key.clone()).or_default() += bytes(&["GET", &key], "$-1\r\n");
            }
        }
        exact
    };
    let mut exact = BTreeMap::<String, i64>::new();
    thread::scope(|scope| {
        let begin = |number| {
            let (client, random) = (server.connect_resp(), random.fork());
            scope.spawn(move || talk(client, random, number))
        };
        let clients: Vec<_> = (0..CLIENTS).map(begin).collect();
        for client in clients {
            for (key, bytes) in client.join().expect("it has talked") {
                *exact.entry(key).or_default() += bytes;
            }
        }
    });
    let told = told(&mut client);
    let all: i64 = exact.values().sum();
    assert_eq!(told["total-net-bytes"].integer(), all);
    assert_eq!(told["net-bytes-all-commands-all-slots"].integer(), all);
    assert!(told["all-commands-all-slots-us"].integer() > 0);
    let by_net = costly(&told, "by-net-bytes");
    assert_eq!(by_net.len() as i64, COUNT);
    assert_eq!([&*by_net[0].0, &*by_net[1].0], ["hot", "warm"], "{by_net:?}");
    for (key, cost) in &by_net {
        let (exact, bound) = (exact[key], all / (10 * COUNT));
        assert!(*cost <= exact && exact - cost <= bound, "{key}: {cost} of {exact}, {bound}");
    }
    let by_cpu = costly(&told, "by-cpu-time-us");
    assert!(by_cpu.iter().any(|(key, us)| key == "hot" && *us > 0), "{by_cpu:?}");
    assert!(by_cpu.is_sorted_by(|one, other| one.1 >= other.1), "{by_cpu:?}");
}

#[test]
fn the_fields_are_those_of_redis_in_both_protocols() {
    let server = Server::nagi();
    for version in ["2", "3"] {
        let mut client = server.connect_resp();
        client.run(&format!("HELLO {version}"));
        for (metrics, of_cpu, of_net) in
            [("1 CPU", true, false), ("1 NET", false, true), ("2 NET CPU", true, true)]
        {
            client.check(&format!("HOTKEYS START METRICS {metrics} SAMPLE 1"), "+OK\r\n");
            client.run("SET key value");
            let reply = client.run("HOTKEYS GET");
            client.check("HOTKEYS STOP", "+OK\r\n");
            let [fields] = reply.list() else { panic!("not a list of one: {reply:?}") };
            assert_eq!(matches!(fields, Reply::Map(_)), version == "3", "{fields:?}");
            let pairs = fields.list().chunks(2);
            let names: Vec<_> = pairs.clone().map(|pair| pair[0].text()).collect();
            let expected = [
                (true, "tracking-active"),
                (true, "sample-ratio"),
                (true, "selected-slots"),
                (true, "all-commands-all-slots-us"),
                (true, "net-bytes-all-commands-all-slots"),
                (true, "collection-start-time-unix-ms"),
                (true, "collection-duration-ms"),
                (of_cpu, "total-cpu-time-user-ms"),
                (of_cpu, "total-cpu-time-sys-ms"),
                (of_net, "total-net-bytes"),
                (of_cpu, "by-cpu-time-us"),
                (of_net, "by-net-bytes"),
            ];
            let expected = expected.iter().filter(|(is_there, _)| *is_there);
            assert_eq!(names, expected.map(|(_, name)| *name).collect::<Vec<_>>());
            for pair in pairs {
                match &*pair[0].text() {
                    "tracking-active" | "sample-ratio" => assert_eq!(pair[1], Reply::Integer(1)),
                    "selected-slots" => {
                        let all = Reply::Array(vec![Reply::Integer(0), Reply::Integer(16_383)]);
                        assert_eq!(pair[1], Reply::Array(vec![all]));
                    }
                    "by-cpu-time-us" | "by-net-bytes" => {
                        let Reply::Array(keys) = &pair[1] else { panic!("{:?}", pair[1]) };
                        assert_eq!((keys.len(), keys[0].text()), (2, "key".to_owned()));
                        assert!(keys[1].integer() > 0);
                    }
                    _ => assert!(pair[1].integer() >= 0),
                }
            }
        }
        client.check("HOTKEYS RESET", "+OK\r\n");
        let null = if version == "3" { "_\r\n" } else { "$-1\r\n" };
        client.check("HOTKEYS GET", null);
        client.check("HOTKEYS STOP", null);
    }
}

#[test]
fn there_is_one_session_for_all_clients() {
    let server = Server::nagi();
    let (mut one, mut other) = (server.connect_resp(), server.connect_resp());
    let in_progress = "-ERR hotkey tracking session already in progress\r\n";
    let unstopped = "-ERR hotkey tracking session in progress, stop tracking first\r\n";
    one.check("HOTKEYS START METRICS 1 CPU", "+OK\r\n");
    other.check("HOTKEYS START METRICS 1 NET", in_progress);
    other.check("HOTKEYS RESET", unstopped);
    other.check("HOTKEYS STOP", "+OK\r\n");
    one.check("HOTKEYS STOP", "$-1\r\n");
    one.check("HOTKEYS START", "-ERR METRICS parameter is required\r\n");
    one.check(
        "HOTKEYS START METRICS 1 CPU SLOTS 1 0",
        "-ERR SLOTS parameter cannot be used in non-cluster mode\r\n",
    );
    one.check("HOTKEYS START METRICS 1 CPU COUNT 65", "-ERR COUNT must be between 1 and 64\r\n");
    one.check("HOTKEYS RESET", "+OK\r\n");
    assert!(one.run("HOTKEYS HELP").list().len() > 4);
}

#[test]
fn a_session_ends_by_itself() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("HOTKEYS START METRICS 2 CPU NET DURATION 1", "+OK\r\n");
    let ended = until("the end", || {
        client.run("SET key value");
        let told = told(&mut client);
        (told["tracking-active"] == Reply::Integer(0)).then_some(told)
    })
    .expect("it ends");
    assert_eq!(ended["collection-duration-ms"].integer(), 1000);
    assert!(ended["total-net-bytes"].integer() > 0);
    client.run("SET key value");
    assert_eq!(told(&mut client), ended);
    client.check("HOTKEYS STOP", "$-1\r\n");
    client.check("HOTKEYS START METRICS 1 CPU DURATION 1000000", "+OK\r\n");
}

#[test]
fn the_keys_of_a_request_share_its_cost() {
    let server = Server::nagi();
    let mset = ["MSET", "a", "1", "b", "2"];
    let (all, keys) = counted(&server, |client| {
        client.check(&mset.join(" "), "+OK\r\n");
        client.check("PING", "+PONG\r\n");
        client.check("GET", "-ERR wrong number of arguments for 'get' command\r\n");
    });
    assert_eq!(all, bytes(&mset, "+OK\r\n"), "what has no keys is left out");
    assert_eq!(keys, by_key([("a", all / 2), ("b", all / 2)]));
}

#[test]
fn requests_within_a_transaction_are_counted_and_those_within_a_script_are_not() {
    let server = Server::nagi();
    let (all, keys) = counted(&server, |client| {
        client.check("MULTI", "+OK\r\n");
        client.check("SET a 1", "+QUEUED\r\n");
        client.check("GET b", "+QUEUED\r\n");
        client.check("SET a 2", "+QUEUED\r\n");
        client.check("EXEC", "*3\r\n+OK\r\n$-1\r\n+OK\r\n");
    });
    let (set, get) = (bytes(&["SET", "a", "1"], "+OK\r\n"), bytes(&["GET", "b"], "$-1\r\n"));
    assert_eq!((all, keys), (2 * set + get, by_key([("a", 2 * set), ("b", get)])));
    let text = "redis.call('set', 'hidden', 1) return redis.call('set', KEYS[1], 2)";
    let eval = ["EVAL", text, "1", "a"];
    let (all, keys) = counted(&server, |client| {
        assert_eq!(client.run_words(&eval), Reply::Simple("OK".to_owned()));
        client.check("MULTI", "+OK\r\n");
        client.run_words(&eval);
        client.check("EXEC", "*1\r\n+OK\r\n");
    });
    assert_eq!(all, 2 * bytes(&eval, "+OK\r\n"));
    assert_eq!(keys, by_key([("a", all)]));
}

#[test]
fn the_time_of_a_script_is_that_of_its_keys() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("HOTKEYS START METRICS 1 CPU", "+OK\r\n");
    let busy = "local start = os.clock() while os.clock() - start < 0.05 do end";
    client.run_words(&["EVAL", busy, "1", "of-eval"]);
    client.check("MULTI", "+OK\r\n");
    client.run_words(&["EVAL", busy, "1", "within"]);
    client.run("EXEC");
    let told = told(&mut client);
    let by_cpu: BTreeMap<_, _> = costly(&told, "by-cpu-time-us").into_iter().collect();
    assert!(by_cpu["of-eval"] >= 50_000 && by_cpu["within"] >= 50_000, "{by_cpu:?}");
    assert!(told["all-commands-all-slots-us"].integer() >= 100_000);
}

#[test]
fn requests_that_take_more_than_one_slice_are_counted_once() {
    let server = Server::nagi();
    // A request that blocks until another client serves it.
    let (pop, reply) = (["BLPOP", "list", "0"], "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    let (all, keys) = counted(&server, |client| {
        let mut waiting = server.connect_resp();
        waiting.send(encode_command(&pop));
        until("a client that waits", || {
            let clients = client.run("INFO clients").text();
            clients.contains("blocked_clients:1\r\n").then_some(())
        })
        .expect("it waits");
        client.check("RPUSH list x", ":1\r\n");
        waiting.expect(reply);
    });
    let push = bytes(&["RPUSH", "list", "x"], ":1\r\n");
    assert_eq!((all, keys), (bytes(&pop, reply) + push, by_key([("list", all)])));
    // A request with very many keys.
    let mget: Vec<String> = (0..100_000).map(|number| format!("key:{number}")).collect();
    let mget: Vec<&str> = std::iter::once("MGET").chain(mget.iter().map(String::as_str)).collect();
    let (all, keys) = counted(&server, |client| {
        assert_eq!(client.run_words(&mget).list().len(), 100_000);
    });
    assert_eq!(all, bytes(&mget, &format!("*100000\r\n{}", "$-1\r\n".repeat(100_000))));
    assert_eq!(keys.len(), 64);
    assert!(keys.values().all(|cost| (all / 256..=all / 255).contains(cost)), "{keys:?}");
}

#[test]
fn memcached_clients_are_counted_as_well() {
    let server = Server::nagi();
    let (all, keys) = counted(&server, |_| {
        let mut client = server.connect_memcached();
        client.check_raw("get one\r\n", "END\r\n");
        client.check_raw("get a b\r\n", "END\r\n");
        client.check_raw("set one 0 0 5\r\nvalue\r\n", "STORED\r\n");
        // The base64 of `meta`.
        client.check_raw("mg bWV0YQ== b v\r\n", "EN\r\n");
        client.check_raw("version\r\n", format!("VERSION {}\r\n", version(&server)));
        let mut binary = server.connect_memcached();
        let mut request = vec![0x80, 0x00, 0, 6];
        request.resize(24, 0);
        request[11] = 6;
        request.extend_from_slice(b"binary");
        binary.send(&request);
        // "Not found"
        assert_eq!(binary.take(24 + 9)[..2], [0x81, 0x00]);
    });
    let [one, meta, binary] = [9 + 5 + 15 + 7 + 8, 17 + 4, 30 + 33];
    let expected = [("one", one), ("a", 7), ("b", 7), ("meta", meta), ("binary", binary)];
    assert_eq!(keys, by_key(expected));
    assert_eq!(all, keys.values().sum::<i64>());
}

fn version(server: &Server) -> String {
    let mut client = server.connect_memcached();
    client.send("version\r\n");
    let line = client.line();
    line.trim_end().strip_prefix("VERSION ").expect("a version").to_owned()
}

#[test]
fn a_sample_represents_all_requests() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("HOTKEYS START METRICS 1 NET SAMPLE 10", "+OK\r\n");
    let get = encode_command(&["GET", "key"]);
    for _ in 0..200 {
        client.send(get.repeat(100));
        client.expect("$-1\r\n".repeat(100));
    }
    let told = told(&mut client);
    let all = 20_000 * bytes(&["GET", "key"], "$-1\r\n");
    assert_eq!(told["total-net-bytes"].integer(), all);
    let by_net = costly(&told, "by-net-bytes");
    assert_eq!(by_net.len(), 1);
    let (share, estimate) = (all / 5, by_net[0].1);
    assert!((all - share..all + share).contains(&estimate), "{estimate} for {all}");
}

#[test]
fn long_keys_are_reported_by_their_beginning() {
    let server = Server::nagi();
    for len in [1024, 5000, 300_000] {
        let key = "k".repeat(len);
        let (all, keys) = counted(&server, |client| {
            client.run_words(&["SET", &key, "v"]);
        });
        assert_eq!(all, bytes(&["SET", &key, "v"], "+OK\r\n"));
        assert_eq!(keys, by_key([(&key[..1024], all)]));
    }
}

#[test]
fn it_is_for_administrators() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for category in ["admin", "dangerous", "slow"] {
        let commands = client.run(&format!("ACL CAT {category}"));
        let names: Vec<_> = commands.list().iter().map(Reply::text).collect();
        for name in ["hotkeys|start", "hotkeys|stop", "hotkeys|get", "hotkeys|reset"] {
            assert!(names.iter().any(|it| it == name), "{category}: {name}");
        }
    }
    client.check("ACL SETUSER limited on nopass ~* +@all -@admin", "+OK\r\n");
    client.check("AUTH limited any", "+OK\r\n");
    for command in ["HOTKEYS START METRICS 1 CPU", "HOTKEYS STOP", "HOTKEYS GET", "HOTKEYS RESET"] {
        let name = words(command)[1].to_lowercase();
        let Reply::Error(error) = client.run(command) else { panic!("{command} is permitted") };
        assert!(error.starts_with("NOPERM") && error.contains(&name), "{error}");
    }
    let script = ["EVAL", "return redis.call('HOTKEYS', 'GET')", "0"];
    let Reply::Error(error) = server.connect_resp().run_words(&script) else {
        panic!("scripts may not run it")
    };
    assert!(error.contains("not allowed from script"), "{error}");
}
