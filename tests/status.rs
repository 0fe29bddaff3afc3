//! The parts of `/server-status` other than the connections: keys, slow requests, charts over time,
//! and lists that are limited and sorted.

use harness::{Connection, Server, encode_command, until};
use std::collections::BTreeMap;

pub(crate) fn nagi(more: &[&str]) -> Server {
    Server::nagi_with(&[&["--http-port", "any"], more].concat())
}

/// Returns the head and the body of a page.
pub(crate) fn get(server: &Server, path: &str) -> (String, String) {
    let mut client = Connection::open(server.http());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    let text = String::from_utf8(client.rest()).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

pub(crate) fn json(server: &Server, query: &str) -> serde_json::Value {
    let (_, body) = get(server, &format!("/server-status?json{query}"));
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn the_last_key_of_each_connection_is_shown() {
    let server = nagi(&[]);
    let (mut redis, mut memcached) = (server.connect_resp(), server.connect_memcached());
    let id = redis.run("CLIENT ID").integer();
    let shown = |member: &str| {
        let page = json(&server, "");
        let mut stats = page["stats"].as_array().expect("a list").iter();
        stats.find(|it| it["id"] == id).map_or_else(String::new, |it| it[member].to_string())
    };
    let long = "l".repeat(100);
    until("both keys", || {
        redis.run_words(&["SET", "a<b>\u{1b}", "value"]);
        memcached.check_raw(format!("get {long}\r\n"), "END\r\n");
        let page = json(&server, "");
        let stats = page["stats"].as_array().expect("a list").iter();
        // Workers number connections in the order in which they accept them, which may be any
        // order.
        let mut keys: Vec<String> =
            stats.map(|it| it["key"].as_str().expect("text").to_owned()).collect();
        keys.sort();
        (keys == ["a<b>\u{1b}".to_owned(), "l".repeat(64)]).then_some(())
    })
    .expect("they are noted");
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("a&lt;b&gt;\u{fffd}<"), "{page}");
    // A request without a key has no key on the page, and a password is not a key.
    redis.run("PING");
    until("no key", || (shown("key") == "\"\"").then_some(())).expect("none");
    redis.run("AUTH default secret");
    let shown =
        until("AUTH", || (shown("method") == "\"auth\"").then(|| json(&server, "").to_string()));
    assert!(!shown.expect("it is shown").contains("secret"));
}

#[test]
fn commands_are_shown_while_they_are_executed() {
    let server = nagi(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let members: Vec<String> = (0..50_000).map(|number| format!("member:{number}")).collect();
    let words: Vec<&str> =
        ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    client.run_words(&words);
    // Many long requests wait on one connection, so that at any time one of them is running.
    let mut busy = server.connect_resp();
    let mut sent = 0;
    until("a running request", || {
        if sent < 200 {
            busy.send(encode_command(&["SORT", "set", "ALPHA", "STORE", "sorted"]).repeat(5));
            sent += 5;
        }
        let page = json(&server, "");
        let stats = page["stats"].as_array().expect("a list");
        let runs = |it: &serde_json::Value| {
            it["state"] == "executing" && it["method"] == "sort" && it["key"] == "set"
        };
        stats.iter().any(runs).then_some(())
    })
    .expect("it is seen");
    until("its worker", || {
        let (_, page) = get(&server, "/server-status");
        page.contains("sort set (client ").then_some(())
    })
    .expect("the worker shows it");
}

/// The key was recorded although no page had been requested.
#[test]
fn keys_of_requests_that_were_there_before_the_page_are_shown() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let mut blocked = server.connect_resp();
    blocked.send("BLPOP queue 0\r\n");
    client.check("SET last 1", "+OK\r\n");
    until("a blocked client", || {
        client.run("INFO clients").text().contains("blocked_clients:1\r\n").then_some(())
    })
    .unwrap();
    client.check("GET last", "$1\r\n1\r\n");
    let shown = until("both", || {
        let page = json(&server, "");
        let of = |method: &str| {
            let stats = page["stats"].as_array().expect("a list");
            stats.iter().find(|it| it["method"] == method).map(|it| it["key"].clone())
        };
        Some([of("blpop")?, of("get")?])
    });
    assert_eq!(shown.unwrap(), ["queue", "last"]);
}

/// Returns the key that the page shows for a client.
fn shown_key(server: &Server, id: i64) -> serde_json::Value {
    let page = json(server, "");
    let mut stats = page["stats"].as_array().expect("a list").iter();
    stats.find(|it| it["id"] == id).map_or_else(Default::default, |it| it["key"].clone())
}

#[test]
fn keys_are_shown_wherever_they_are_in_a_request() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let id = client.run("CLIENT ID").integer();
    let (large, long_key) = ("v".repeat(2_000_000), "k".repeat(2_000_000));
    let commands: [(&[&str], &str); _] = [
        (&["SET", "large", &large], "large"),
        (&["XREAD", "STREAMS", "stream", "0"], "stream"),
        (&["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "jobs", ">"], "jobs"),
        (&["MIGRATE", "localhost", "1", "", "0", "1", "KEYS", "moved"], "moved"),
        (&["SET", &long_key, "value"], &long_key[..64]),
        (&["EVAL", "return 1", "1", "of script", "argument"], "of script"),
        (&["EVAL", "return 1", "0", "argument"], ""),
    ];
    for (words, key) in commands {
        client.run_words(words);
        until("the key", || (shown_key(&server, id) == key).then_some(()))
            .unwrap_or_else(|_| panic!("{}: {}", words[0], shown_key(&server, id)));
    }
}

#[test]
fn slow_requests_are_shown_with_their_phases() {
    let server = nagi(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME <me>", "+OK\r\n");
    client.check("SET <key> value", "+OK\r\n");
    client.run("AUTH default secret");
    let (_, page) = until("the request", || {
        let (head, page) = get(&server, "/server-status");
        page.contains("SET &lt;key&gt; value").then_some((head, page))
    })
    .expect("it is shown");
    assert!(page.contains("Execute (ms)") && page.contains("&lt;me&gt;"), "{page}");
    assert!(!page.contains("secret"), "{page}");
    let slow = json(&server, "")["slow_requests"].clone();
    let slow = slow.as_array().expect("a list");
    let set = slow.iter().find(|it| it["arguments"][0] == "SET").expect("it is there");
    assert_eq!((&set["arguments"][1], &set["name"]), (&"<key>".into(), &"<me>".into()));
    assert!(set["execute_ns"].as_u64() > Some(0) && set["request_bytes"].as_u64() > Some(10));
    assert!(!json(&server, "").to_string().contains("secret"));
}

#[test]
fn the_last_minutes_are_drawn() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let (_, page) = until("lines", || {
        (0..100).for_each(|_| drop(client.run("SET key value")));
        let (head, page) = get(&server, "/server-status");
        let has_all = ["requests/s", "receive", "queue", "execute", "send", "string"];
        let is_drawn = |name: &&str| page.contains(&format!("<figcaption>{name} <b>"));
        has_all.iter().all(is_drawn).then_some((head, page))
    })
    .expect("they are drawn");
    assert_eq!(page.matches("<polyline points=").count(), page.matches("<figure>").count());
}

#[test]
fn lists_can_be_short_and_sorted() {
    let server = nagi(&[]);
    let mut clients: Vec<Connection> = (0..5).map(|_| server.connect_resp()).collect();
    let (last, rest) = clients.split_last_mut().expect("some");
    rest.iter_mut().for_each(|client| drop(client.run("PING")));
    (0..49).for_each(|_| drop(last.run("PING")));
    let id = last.run("CLIENT ID").integer();
    let first = until("the requests", || {
        let page = json(&server, "&sort=requests&limit=2");
        let stats = page["stats"].as_array().expect("a list").clone();
        (stats.len() == 2 && stats[0]["requests"] == 50).then(|| stats[0].clone())
    });
    let ids = until("all connections", || {
        let page = json(&server, "&sort=id");
        let stats = page["stats"].as_array().expect("a list").iter();
        let ids: Vec<u64> = stats.map(|it| it["id"].as_u64().expect("a number")).collect();
        (ids.len() == 5).then_some(ids)
    })
    .expect("they are listed");
    assert!(ids.is_sorted_by(|one, other| one > other), "{ids:?}");
    let page = json(&server, "&sort=id&order=ascending");
    assert_eq!(page["stats"][0]["id"].as_u64(), ids.last().copied());
    // The column headers of the page are links, for browsers without scripts.
    let (_, page) = get(&server, "/server-status?sort=requests&limit=1&state=idle");
    let head = "<th scope=\"col\" aria-sort=\"descending\" class=\"number\">\
                <a href=\"?sort=requests&amp;\
                order=ascending&amp;limit=1&amp;state=idle#clients\">Requests</a></th>";
    assert!(page.contains(head), "{page}");
    assert!(page.contains("<input type=\"hidden\" name=\"sort\" value=\"requests\">"), "{page}");
    let (_, table) = page.split_once("<table id=\"clients\">").expect("a table");
    assert!(table.contains(&format!("<td class=\"number\">{id}</td>")), "the busiest: {table}");
    assert_eq!(first.expect("they are counted")["id"], id);
    for wrong in ["&limit=x", "&sort=nothing", "&order=up"] {
        let (head, body) = get(&server, &format!("/server-status?json{wrong}"));
        assert!(head.starts_with("HTTP/1.1 400 ") && body.lines().count() == 1, "{head} {body}");
    }
}

#[test]
fn a_form_is_named_anywhere_in_the_query() {
    let server = nagi(&[]);
    for (query, kind, begins) in [
        ("limit=2&json", "application/json; charset=utf-8", "{"),
        ("json=1&limit=2", "application/json; charset=utf-8", "{"),
        ("refresh=5&auto", "text/plain; charset=utf-8", "ServerVersion: "),
        ("auto=", "text/plain; charset=utf-8", "ServerVersion: "),
        ("filter=json", "text/html; charset=utf-8", "<!DOCTYPE"),
    ] {
        let (head, body) = get(&server, &format!("/server-status?{query}"));
        assert!(head.to_lowercase().contains(&format!("content-type: {kind}")), "{query}: {head}");
        assert!(body.starts_with(begins), "{query}: {body}");
    }
}

#[test]
fn json_has_the_pages_values_besides_connections() {
    let server = nagi(&["--maxclients", "77", "--slowlog-log-slower-than", "0"]);
    let mut client = server.connect_resp();
    let value = "v".repeat(50_000);
    let page = until("lines and slow requests", || {
        (0..50).for_each(|_| drop(client.run_words(&["SET", "key", &value])));
        client.run("GET key");
        let page = json(&server, "");
        let string = &page["history"]["families_ns"]["string"];
        let is_full = page["history"]["seconds"].as_u64() > Some(2)
            && string.as_array().is_some_and(|values| values.len() > 2)
            && page["slow_requests_logged"].as_u64() > Some(40);
        is_full.then_some(page)
    })
    .expect("they are there");
    let history = &page["history"];
    let rates = history["requests_per_second"].as_array().expect("a line");
    assert!(rates.iter().any(|rate| rate.as_u64() > Some(0)), "{history}");
    for phase in ["receive", "queue", "execute", "send"] {
        let line = history["phases_ns"][phase].as_array().expect("a line");
        assert_eq!(line.len(), rates.len(), "{phase}: {history}");
    }
    assert_eq!((&page["connections_limit"], &page["connections"]), (&77.into(), &1.into()));
    assert_eq!(page["connections_are_listed"], true);
    // A kilobyte has 1000 bytes in this format, as in Plack's middleware.
    // Both are read again until no sample was taken in between.
    let kilobytes = until("the same sample", || {
        let (_, metrics) = get(&server, "/metrics");
        let sent = metrics.lines().find_map(|it| it.strip_prefix("nagi_sent_bytes_total "));
        let sent: f64 = sent.expect("it is there").parse().expect("a number");
        let kilobytes: f64 = json(&server, "")["TotalKbytes"].as_str()?.parse().ok()?;
        (kilobytes == (sent / 1000.0).floor()).then_some(kilobytes)
    })
    .expect("they are equal");
    assert!(kilobytes > 40.0, "{kilobytes}");
}

#[test]
fn connections_come_in_pages() {
    let server = nagi(&["--workers", "1"]);
    let mut clients: Vec<Connection> = (0..5).map(|_| server.connect_resp()).collect();
    let ids: Vec<i64> = clients.iter_mut().map(|it| it.run("CLIENT ID").integer()).collect();
    let listed = |query: &str| -> Vec<i64> {
        let stats = json(&server, query)["stats"].clone();
        let id = |it: &serde_json::Value| it["id"].as_i64().expect("a number");
        stats.as_array().expect("a list").iter().map(id).collect()
    };
    until("all connections", || (listed("") == ids).then_some(())).expect("they are listed");
    assert_eq!(listed("&limit=2&page=2"), ids[2..4]);
    assert!(listed("&limit=2&page=9").is_empty());
    let (_, page) = get(&server, "/server-status?limit=2&sort=id&page=2");
    let (_, table) = page.split_once("<table id=\"clients\">").expect("a table");
    assert!(table.contains("3 to 4 of 5; ?json has all of them."), "{table}");
    let row = |id: &i64| table.contains(&format!("<tr><td class=\"number\">{id}</td>"));
    assert_eq!(ids.iter().map(row).collect::<Vec<_>>(), [false, true, true, false, false]);
    let href = |page: u32| format!("<a href=\"?page={page}&amp;sort=id&amp;limit=2\">");
    assert!([1, 3].iter().all(|page| table.contains(&href(*page))), "{table}");
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("All of them.") && !page.contains("<nav"), "{page}");
    let (head, _) = get(&server, "/server-status?page=0");
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
}

#[test]
fn the_limit_and_saves_are_shown() {
    let server = nagi(&["--maxmemory", "100mb"]);
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("of 100.0 MiB"), "{page}");
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    let unsaved = || json(&server, "")["save"]["unsaved_changes"].as_u64();
    until("a change", || (unsaved() == Some(1)).then_some(())).expect("it is counted");
    let save = json(&server, "")["save"].clone();
    assert_eq!((&save["in_progress"], &save["keys_total"]), (&false.into(), &0.into()), "{save}");
    client.check("SAVE", "+OK\r\n");
    until("the save", || (unsaved() == Some(0)).then_some(())).expect("it is saved");
    assert_eq!(json(&server, "")["memory_limit_bytes"], 100 << 20);
}

#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let path = harness::root().join("docs/grafana.json");
    let dashboard = std::fs::read_to_string(path).expect("a dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let mut expressions: Vec<&str> = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let targets = panel["targets"].as_array().expect("targets").iter();
        expressions.extend(targets.map(|it| it["expr"].as_str().expect("an expression")));
    }
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations").iter();
    expressions.extend(annotations.map(|it| it["expr"].as_str().expect("an expression")));
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = expressions.iter().flat_map(|it| it.split(|letter| !is_of_name(letter)));
    let names: std::collections::BTreeSet<&str> =
        words.filter(|word| word.starts_with("nagi_")).collect();
    assert!(names.len() > 20, "{names:?}");
    until("all metrics", || {
        client.check("SET key value", "+OK\r\n");
        let (_, page) = get(&server, "/metrics");
        let is_there = |name: &&str| {
            page.lines().any(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
        };
        names.iter().all(is_there).then_some(())
    })
    .unwrap_or_else(|problem| panic!("{problem}: {names:?}"));
}

#[test]
fn hot_keys_are_counted_before_any_look_at_the_page() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    let mut number = 0;
    until("the hottest key's share", || {
        for _ in 0..100 {
            number += 1;
            client.run(&format!("GET other:{number}"));
            client.run("GET hot");
        }
        // Scrapes of metrics do not count as views of the page, and show no keys.
        let (_, metrics) = get(&server, "/metrics");
        assert!(!metrics.contains("hot\"") && !metrics.contains("other:"), "{metrics}");
        let share = metrics.lines().find_map(|it| it.strip_prefix("nagi_hottest_key_ratio "));
        let share: f64 = share.expect("it is there").parse().expect("a number");
        (0.3..0.7).contains(&share).then_some(())
    })
    .expect("it is counted");
    let hot = &json(&server, "")["hot_keys"];
    assert_eq!(hot[0]["key"], "hot", "{hot}");
}

/// Returns the hot keys and their shares.
fn hot_keys(server: &Server) -> BTreeMap<String, f64> {
    let hot = json(server, "")["hot_keys"].clone();
    let hot = hot.as_array().expect("a list").iter();
    hot.map(|it| (it["key"].as_str().unwrap().to_owned(), it["share"].as_f64().unwrap())).collect()
}

#[test]
fn hot_keys_are_counted_wherever_they_are_in_a_request() {
    let server = nagi(&[]);
    let (mut redis, mut memcached) = (server.connect_resp(), server.connect_memcached());
    let mut number = 0;
    until("hot keys", || {
        for _ in 0..50 {
            number += 1;
            redis.run(&format!("MGET a:{number} last"));
            redis.run_words(&["EVAL", "return 1", "2", &format!("b:{number}"), "declared"]);
            redis.run(&format!("XREAD STREAMS c:{number} stream 0 0"));
            memcached.check_raw(format!("get d:{number} cached\r\n"), "END\r\n");
        }
        let keys = hot_keys(&server);
        let are_even = keys.values().all(|share| (0.15..0.35).contains(share));
        (are_even && keys.keys().eq(["cached", "declared", "last", "stream"])).then_some(())
    })
    .unwrap_or_else(|problem| panic!("{problem}: {:?}", hot_keys(&server)));
    // A request with many keys makes none of them hot.
    let names: Vec<String> = (0..10_000).map(|number| format!("bulk:{number}")).collect();
    let words: Vec<&str> = ["DEL"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let until_s = redis.info::<u64>("uptime_in_seconds") + 4;
    until("some samples", || {
        redis.run_words(&words);
        (0..100).for_each(|number| drop(redis.run(&format!("GET e:{number}"))));
        let hot = hot_keys(&server);
        assert!(!hot.keys().any(|key| key.starts_with("bulk")), "{hot:?}");
        (redis.info::<u64>("uptime_in_seconds") >= until_s).then_some(())
    })
    .expect("they are taken");
}

#[test]
fn hot_keys_are_shown() {
    let server = nagi(&[]);
    let (mut redis, mut memcached) = (server.connect_resp(), server.connect_memcached());
    let mut number = 0;
    until("hot keys", || {
        for _ in 0..50 {
            number += 1;
            redis.run(&format!("GET other:{number}"));
            redis.run("GET <hot>");
            memcached.check_raw("get warm\r\n", "END\r\n");
            memcached.check_raw(format!("get other:{number}\r\n"), "END\r\n");
        }
        let mut shares = hot_keys(&server);
        shares.retain(|_, share| *share > 0.15);
        // A sample of few requests may contain any of the keys.
        let are_even = shares.values().all(|share| (0.15..0.35).contains(share));
        (are_even && shares.keys().eq(["<hot>", "warm"])).then_some(())
    })
    .expect("they are counted");
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("<h2>Hot keys</h2>") && page.contains("&lt;hot&gt;</td>"), "{page}");
}

#[test]
fn top_clients_are_shown_by_bytes_and_by_time() {
    let server = nagi(&["--workers", "1"]);
    let admin = &mut server.connect_resp();
    admin.check("ACL SETUSER <big> on nopass ~* +@all", "+OK\r\n");
    admin.check("ACL SETUSER slow on nopass ~* +@all", "+OK\r\n");
    let members: Vec<String> = (0..2000).map(|number| format!("member:{number}")).collect();
    let words: Vec<&str> =
        ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    admin.run_words(&words);
    let mut clients: Vec<Connection> = (0..3).map(|_| server.connect_resp()).collect();
    let [big, other_big, slow] = &mut clients[..] else { panic!("three") };
    for (client, user, name) in
        [(&mut *big, "<big>", "one"), (&mut *other_big, "<big>", "two"), (&mut *slow, "slow", "s")]
    {
        client.check(&format!("AUTH {user} x"), "+OK\r\n");
        client.check(&format!("CLIENT SETNAME {name}"), "+OK\r\n");
    }
    let value = "v".repeat(200_000);
    let top = until("both orders", || {
        for client in [&mut *big, &mut *other_big] {
            client.run_words(&["SET", "key", &value]);
        }
        (0..5).for_each(|_| drop(slow.run("SORT set ALPHA STORE sorted")));
        let top = json(&server, "")["top_clients"].clone();
        let leads = |order: &str, user: &str| top[order][0]["user"] == user;
        (leads("by_bytes", "<big>") && leads("by_time", "slow")).then_some(top)
    })
    .expect("the clients are counted");
    let group = &top["by_bytes"][0];
    assert_eq!((&group["connections"], &group["name"]), (&2.into(), &"2 names".into()), "{top}");
    assert_eq!(group["address"], "127.0.0.1", "{top}");
    assert!(group["bytes"].as_u64() > Some(400_000), "{top}");
    assert_eq!(top["by_time"][0]["name"], "s", "{top}");
    assert!(top["by_time"][0]["busy_ns"].as_u64() > Some(0), "{top}");
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("<h2>Top clients</h2>") && page.contains("&lt;big&gt;</td>"), "{page}");
}

/// Returns the largest values: key, type, bytes, database and command.
fn largest_values(server: &Server) -> Vec<(String, String, u64, u64, String)> {
    let values = json(server, "")["largest_values"].clone();
    let text = |it: &serde_json::Value| it.as_str().expect("text").to_owned();
    let number = |it: &serde_json::Value| it.as_u64().expect("a number");
    let value = |it: &serde_json::Value| {
        assert!(number(&it["seen_seconds_ago"]) < 600, "{it}");
        let (key, bytes) = (text(&it["key"]), number(&it["bytes"]));
        (key, text(&it["type"]), bytes, number(&it["database"]), text(&it["command"]))
    };
    values.as_array().expect("a list").iter().map(value).collect()
}

#[test]
fn the_largest_values_are_shown_as_they_are_now() {
    let server = nagi(&[]);
    let (mut redis, mut memcached) = (server.connect_resp(), server.connect_memcached());
    let long = "l".repeat(100);
    let value = |bytes: usize| "v".repeat(bytes);
    redis.run_words(&["SET", "<b>\u{1b}", &value(300_000)]);
    redis.run_words(&["SET", &long, &value(200_000)]);
    redis.run_words(&["MSET", "shrinks", &value(900_000), "goes", &value(800_000), "small", "v"]);
    memcached.check_raw(format!("set item 0 0 100000\r\n{}\r\n", value(100_000)), "STORED\r\n");
    redis.check("SELECT 3", "+OK\r\n");
    // The value of this key is large, but the requests for it are small.
    for number in 0..4000 {
        redis.send(encode_command(&["HSET", "hash", &number.to_string(), &value(100)]));
        redis.expect(":1\r\n");
    }
    redis.run("HGETALL hash");
    redis.check("SELECT 0", "+OK\r\n");
    redis.run_words(&["SET", "shrinks", &value(70_000)]);
    redis.check("DEL goes", ":1\r\n");
    let names = || largest_values(&server).into_iter().map(|value| value.0).collect::<Vec<_>>();
    let expected = ["hash", "<b>\u{1b}", &long[..64], "item", "shrinks"];
    until("all of them", || (names() == expected).then_some(())).expect("they are looked up");
    let values = largest_values(&server);
    let (_, kind, bytes, database, command) = &values[0];
    assert_eq!((&kind[..], *database, &command[..]), ("hash", 3, "hgetall"));
    assert!(*bytes > 400_000, "{values:?}");
    let rest: Vec<_> = values[1..]
        .iter()
        .map(|(_, kind, bytes, database, command)| (&kind[..], *bytes, *database, &command[..]))
        .collect();
    let expected = [
        ("string", 300_000, 0, "set"),
        ("string", 200_000, 0, "set"),
        ("string", 100_000, 0, "set"),
        ("string", 70_000, 0, "set"),
    ];
    assert_eq!(rest, expected);
    let (_, page) = get(&server, "/server-status");
    assert!(page.contains("<h2>Largest values</h2>"), "{page}");
    assert!(page.contains("&lt;b&gt;\u{fffd}</td>"), "{page}");
    // Values that were found a second ago are looked up again.
    redis.check("FLUSHALL", "+OK\r\n");
    until("nothing", || names().is_empty().then_some(())).expect("it is noticed");
    // Small values are never included, however many a request contains.
    let words: Vec<String> = (0..2000).map(|number| format!("key:{number}")).collect();
    let small: Vec<&str> = words.iter().flat_map(|key| [key.as_str(), "small"]).collect();
    redis.run_words(&[&["MSET"][..], &small[..]].concat());
    redis.run_words(&["SET", "large", &value(100_000)]);
    until("a large one", || (names() == ["large"]).then_some(())).expect("it is noted");
}

#[test]
fn the_first_view_of_a_page_has_the_largest_values() {
    let server = nagi(&[]);
    let mut client = server.connect_resp();
    client.run_words(&["SET", "large", &"v".repeat(1_000_000)]);
    client.run("GET large");
    until("samples without a page", || (client.info::<u64>("uptime_in_seconds") > 6).then_some(()))
        .expect("they are taken");
    let first = largest_values(&server);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0].0, "large");
}

#[test]
fn the_largest_values_of_transactions_and_scripts_are_shown() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.check("SELECT 2", "+OK\r\n");
    redis.check("SETRANGE queued 99999 v", ":100000\r\n");
    redis.check("SETRANGE called 199999 v", ":200000\r\n");
    assert!(largest_values(&server).is_empty(), "these requests are small");
    redis.check("MULTI", "+OK\r\n");
    redis.check("GET queued", "+QUEUED\r\n");
    redis.run("EXEC");
    redis.check("EVAL return(#redis.call('get','called')) 0", ":200000\r\n");
    let values = || {
        let of = |(key, kind, bytes, database, command)| {
            format!("{key} {kind} {bytes} {database} {command}")
        };
        largest_values(&server).into_iter().map(of).collect::<Vec<_>>()
    };
    let expected = ["called string 200000 2 get", "queued string 100000 2 get"];
    until("both", || (values() == expected).then_some(())).expect("they are looked up");
    redis.check("DEL called", ":1\r\n");
    until("one", || (values() == expected[1..]).then_some(())).expect("it is looked up again");
}
