//! SORT and SORT_RO.

use harness::{Random, Reply, Server, as_redis, encode_command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Requests whose replies are compared, after the requests that set the keys.
const REQUESTS: &[&str] = &[
    "RPUSH numbers 3 10 -1 2.5 1e2 0 inf -0 7 10",
    "RPUSH words banana Apple cherry \"\" apple b B 10 9",
    "SADD integers 5 1 4 2 3",
    "SADD texts pear fig quince",
    "ZADD scored 3 a 1 b 2 c 2 d",
    "RPUSH ids 1 2 3 4",
    "MSET w_1 30 w_2 10 w_4 20 name_1 x name_2 y name_3 z",
    "HSET h_1 w 2 t one",
    "HSET h_2 w 3 t two",
    "HSET h_3 w 1 t three",
    "RPUSH w_list 1",
    "SORT numbers",
    "SORT numbers DESC",
    "sort numbers asc limit 2 3",
    "SORT numbers LIMIT -5 2",
    "SORT numbers LIMIT 3 -1",
    "SORT numbers LIMIT 3 0",
    "SORT numbers LIMIT 100 2",
    "SORT numbers LIMIT 9 100",
    "SORT numbers DESC LIMIT 1 2 ALPHA",
    "SORT words",
    "SORT words ALPHA",
    "SORT words ALPHA DESC",
    "SORT words ALPHA LIMIT 1 4",
    "SORT integers",
    "SORT integers DESC LIMIT 0 2",
    "SORT integers ALPHA",
    "SORT texts",
    "SORT texts ALPHA",
    "SORT scored",
    "SORT scored ALPHA",
    "SORT scored ALPHA DESC",
    "SORT scored BY nosort",
    "SORT scored BY nosort DESC",
    "SORT scored BY nosort LIMIT 1 2",
    "SORT scored BY nosort DESC LIMIT 1 2",
    "SORT scored BY nosort LIMIT 9 2",
    "SORT words BY nosort",
    "SORT words BY nosort DESC",
    "SORT words BY nosort LIMIT 2 3",
    "SORT words BY nosort DESC LIMIT 2 3",
    "SORT words BY nosort LIMIT 2 -1 GET #",
    "SORT ids BY w_*",
    "SORT ids BY w_* DESC",
    "SORT ids BY w_* GET #",
    "SORT ids BY w_* GET # GET name_* GET none_*",
    "SORT ids BY w_* LIMIT 1 2 GET name_*",
    "SORT ids BY name_* ALPHA GET #",
    "SORT ids BY name_* ALPHA DESC GET #",
    "SORT ids BY name_*",
    "SORT ids BY h_*->w",
    "SORT ids BY h_*->w DESC GET h_*->t GET #",
    "SORT ids BY h_*->none",
    "SORT ids BY h_*-> GET #",
    "SORT ids BY h_* GET h_*->",
    "SORT ids GET h_*",
    "SORT ids GET name_1 GET nothing",
    "SORT ids GET *_1->x",
    "SORT ids BY # DESC",
    "SORT ids BY w_* BY nosort BY name_*",
    "SORT words BY w_*",
    "RPUSH odd list none",
    "SORT odd BY w_*",
    "SORT odd BY w_* ALPHA",
    "SORT_RO ids BY w_* GET name_*",
    "SORT_RO ids STORE x",
    "SORT ids BY w_* STORE stored",
    "LRANGE stored 0 -1",
    "SORT ids BY w_* GET name_* GET # STORE stored",
    "LRANGE stored 0 -1",
    "SORT texts BY nosort STORE stored",
    "LRANGE stored 0 -1",
    "SORT texts BY nosort DESC LIMIT 0 2 STORE stored",
    "LRANGE stored 0 -1",
    "SORT scored BY nosort DESC LIMIT 1 2 STORE stored",
    "LRANGE stored 0 -1",
    "SORT words STORE stored",
    "LRANGE stored 0 -1",
    "SORT none STORE stored",
    "EXISTS stored",
    "SORT none STORE stored",
    "SORT ids LIMIT 9 9 STORE stored",
    "SORT ids STORE ids STORE stored",
    "SORT ids DESC STORE ids",
    "LRANGE ids 0 -1",
    "SORT none",
    "SORT_RO none",
    "SET string x",
    "SORT string",
    "SORT_RO string",
    "SORT string STORE stored",
    "HSET hash a 1",
    "SORT hash",
    "SORT ids STORE string",
    "TYPE string",
    "SORT",
    "SORT_RO",
    "SORT ids LIMIT 1",
    "SORT ids LIMIT a 1",
    "SORT ids LIMIT 1 b",
    "SORT ids LIMIT 99999999999999999999 1",
    "SORT ids BY",
    "SORT ids GET",
    "SORT ids STORE",
    "SORT ids nonsense",
    "SORT string nonsense",
    "RPUSH odder \"+2\" 1e1 .5 -5",
    "SORT odder",
    "RPUSH wrong \"1 \"",
    "SORT wrong",
    "RPUSH worse nan",
    "SORT worse",
    "RPUSH empty \"\" 1 -1",
    "SORT empty",
    "COMMAND GETKEYS SORT a BY store GET store LIMIT store store STORE b",
    "COMMAND GETKEYS SORT a STORE b STORE c",
    "COMMAND GETKEYS SORT_RO a BY b_*",
];

#[test]
fn replies_are_those_of_redis() {
    let servers = [Server::nagi(), Server::redis()];
    for version in [2, 3] {
        let mut clients = servers.each_ref().map(Server::connect_resp);
        for client in &mut clients {
            client.run("FLUSHALL");
            client.run(&format!("HELLO {version}"));
        }
        for request in REQUESTS {
            let [reply, expected] = clients.each_mut().map(|client| client.run(request));
            assert_eq!(reply, expected, "{request}");
        }
    }
}

#[test]
fn scores_are_numbers() {
    let wrong = "-ERR One or more scores can't be converted into double\r\n";
    as_redis(&[
        ("RPUSH l 2 1 x", ":3\r\n"),
        ("SORT l", wrong),
        ("SORT l STORE to", wrong),
        ("SORT l ALPHA DESC LIMIT 0 2", "*2\r\n$1\r\nx\r\n$1\r\n2\r\n"),
        ("SET w_x 1.5", "+OK\r\n"),
        ("MSET w_1 4 w_2 3", "+OK\r\n"),
        ("SORT l BY w_*", "*3\r\n$1\r\nx\r\n$1\r\n2\r\n$1\r\n1\r\n"),
        ("SET w_x y", "+OK\r\n"),
        ("SORT l BY w_*", wrong),
    ]);
    // Since 8.0, numbers are decimal, have no leading blanks, and may be of any size.
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for (number, order) in [("1e400", ["1", "1e400"]), ("1e-400", ["1e-400", "1"])] {
        client.run("DEL l");
        client.run(&format!("RPUSH l 1 {number}"));
        let sorted = client.run("SORT l");
        assert!(sorted.list().iter().map(Reply::text).eq(order), "{sorted:?}");
    }
    for number in ["0x10", "\" 1\"", "\"1 \"", "nan", "1e", "0x1p4"] {
        client.run("DEL l");
        client.run(&format!("RPUSH l 1 {number}"));
        client.check("SORT l", wrong);
        client.run(&format!("SET w_1 {number}"));
        client.check("SORT l BY w_*", wrong);
    }
}

#[test]
fn any_elements_are_sorted_like_those_of_redis() {
    let servers = [Server::nagi(), Server::redis()];
    let mut clients = servers.each_ref().map(Server::connect_resp);
    let mut random = Random::announced();
    for round in 0..200 {
        let count = 1 + random.below(if round % 20 == 0 { 3000 } else { 40 });
        let mut fill = vec!["RPUSH".to_owned(), "l".to_owned()];
        for _ in 0..count {
            fill.push(match random.below(3) {
                0 => random.below(100).to_string(),
                1 => format!("-{}.{}", random.below(50), random.below(10)),
                _ => random.bits().to_string(),
            });
        }
        let mut weights = vec!["MSET".to_owned()];
        // All weights differ, because Redis does not define the order of equal ones.
        for (place, element) in fill.iter().skip(2).enumerate() {
            weights.extend([format!("w_{element}"), format!("{}", place * 7919 % 10_007)]);
        }
        let limit = format!("LIMIT {} {}", random.below(count + 2), random.below(count + 2));
        for client in &mut clients {
            client.run("FLUSHALL");
            client.run_words(&fill);
            client.run_words(&weights);
        }
        for options in ["", "DESC", "ALPHA", "BY w_*", "BY w_* DESC GET # GET w_*"] {
            let request = format!("SORT l {options} {limit}");
            let [reply, expected] = clients.each_mut().map(|client| client.run(&request));
            assert_eq!(reply, expected, "{request} of {fill:?}");
        }
    }
}

/// Other clients of the same worker are served while the elements are sorted, and the result
/// contains the elements at the beginning of the command.
#[test]
fn many_elements_are_sorted_in_slices() {
    const ELEMENTS: u64 = 300_000;
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    for start in (0..ELEMENTS).step_by(10_000) {
        let numbers = (start..start + 10_000).map(|at| (at * 7919 % ELEMENTS).to_string());
        let words: Vec<_> =
            ["RPUSH".to_owned(), "l".to_owned()].into_iter().chain(numbers).collect();
        client.run_words(&words);
    }
    client.run("CONFIG RESETSTAT");
    client.send(encode_command(&["SORT", "l", "LIMIT", "100000", "5"]));
    let mut other = server.connect_resp();
    let mut served = 0;
    other.run("DEL l");
    while other.run("EXISTS none") == Reply::Integer(0) && served < 20 {
        served += 1;
    }
    let expected = (100_000..100_005).map(|number: u64| Reply::Bulk(number.to_string().into()));
    assert_eq!(client.reply(), Reply::Array(expected.collect()));
    let stats = other.run("INFO").text();
    let longest = stats.lines().find_map(|line| line.strip_prefix("longest_slice_usec:")).unwrap();
    // On a machine that runs other tests, a thread may be stopped for some milliseconds.
    assert!(longest.parse::<u64>().unwrap() < 30_000, "a slice took {longest} us");
}

#[test]
fn stored_results_are_events() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET notify-keyspace-events KAmn", "+OK\r\n");
        let mut listener = server.connect_resp();
        listener.run("PSUBSCRIBE *");
        client.run("RPUSH l 2 1");
        client.check("SORT l STORE to", ":2\r\n");
        client.check("SORT l BY w_* LIMIT 0 1 STORE to", ":1\r\n");
        client.check("SORT none STORE to", ":0\r\n");
        client.check("SORT none STORE to", ":0\r\n");
        client.check("PUBLISH end end", ":1\r\n");
        let mut events = Vec::new();
        loop {
            let message = listener.reply();
            let [.., channel, event] = message.list() else { panic!("{message:?}") };
            if channel.text() == "end" {
                break;
            }
            events.push(format!("{} {}", &channel.text()[15..], event.text()));
        }
        let expected = "l new, l rpush, to new, to sortstore, w_2 keymiss, w_1 keymiss, \
                        to sortstore, none keymiss, to del, none keymiss";
        assert_eq!(events.join(", "), expected);
    }
}

/// The key that is written is the one that is checked, whatever it is called.
#[test]
fn destinations_may_be_called_like_options() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("ACL SETUSER ann on nopass ~l ~get +sort", "+OK\r\n");
    client.check("RPUSH l 2 1", ":2\r\n");
    let keys = "*2\r\n$1\r\nl\r\n$6\r\nsecret\r\n";
    client.check("COMMAND GETKEYS SORT l STORE get STORE secret", keys);
    client.check("AUTH ann any", "+OK\r\n");
    client.check("SORT l STORE get", ":2\r\n");
    let refused = client.run("SORT l STORE get STORE secret");
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with("NOPERM")), "{refused:?}");
}

/// The keys of BY and GET are not named in the request. Transactions and scripts see them at one
/// moment all the same.
#[test]
fn transactions_and_scripts_see_no_changes_between_two_sorts() {
    const SORT: &str = "SORT ids BY v_* GET v_* GET h_*->f";
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut client = server.connect_resp();
    client.check("RPUSH ids 1 2", ":2\r\n");
    let script = format!(
        "local function sort() return redis.call('{}') end local first = sort() for i = 1, 1e6 do \
         end local second = sort() return {{first, second}}",
        SORT.replace(' ', "', '")
    );
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut writer, mut number) = (server.connect_resp(), 0);
            while !is_done.load(Ordering::Relaxed) {
                number += 1;
                writer.run(&format!("MSET v_1 {number} v_2 {number}"));
                writer.run(&format!("HSET h_1 f {number}"));
            }
        });
        let mut different = 0;
        let mut compare = |replies: Reply| {
            different += usize::from(replies.list()[0] != replies.list()[1]);
        };
        for _ in 0..300 {
            for command in ["MULTI", SORT, SORT] {
                client.run(command);
            }
            compare(client.run("EXEC"));
        }
        for _ in 0..20 {
            compare(client.run_words(&["EVAL", &script, "0"]));
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(different, 0);
    });
}
