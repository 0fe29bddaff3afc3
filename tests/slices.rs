//! Requests that take long are executed in slices, and short ones take no longer for long values.

use harness::{Connection, Reply, Server, encode_command, words};

/// Returns the longest time, in microseconds on a processor, for which a connection has held its
/// worker since the last call.
fn longest_slice_us(client: &mut Connection) -> u64 {
    let text = client.run("INFO stats").text();
    let value = text.lines().find_map(|line| line.strip_prefix("longest_slice_cpu_usec:"));
    client.check("CONFIG RESETSTAT", "+OK\r\n");
    value.expect("INFO has it").parse().expect("a number")
}

/// A request, with the commands that prepare its data each time.
type Case = (&'static [&'static [&'static str]], Vec<&'static str>);

const ENTRIES: &[&str] = &[
    "EVAL",
    "for i = 1, 100000 do redis.call('XADD', KEYS[1], i .. '-0', 'f', 'v') end",
    "1",
    "s",
];
const MEMBERS: &[&str] =
    &["EVAL", "for i = 1, 100000 do redis.call('ZADD', KEYS[1], i, i) end", "1", "z"];

fn cases() -> [Case; 5] {
    let read = ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s"];
    let of_many = |words: &[&'static str], name, count| {
        words.iter().copied().chain(std::iter::repeat_n(name, count)).collect()
    };
    let new_group: Case = (
        &[&["DEL", "s"], ENTRIES, &["XGROUP", "CREATE", "s", "g", "0"]],
        [&read[..], &[">"]].concat(),
    );
    let pending: Case = (&[], [&read[..], &["0"]].concat());
    let popped: Case = (&[MEMBERS], vec!["BZMPOP", "0", "1", "z", "MIN", "COUNT", "100000"]);
    let docs: Case = (&[], of_many(&["COMMAND", "DOCS"], "set", 20_000));
    let channels: Case = (&[], of_many(&["PUBSUB", "NUMSUB"], "channel", 300_000));
    [new_group, pending, popped, docs, channels]
}

/// Runs a request with a name several times. Returns its name if it holds its worker for long each
/// time: the machine may interrupt a slice, but not in every attempt.
fn held<'n>(
    client: &mut Connection,
    name: &'n str,
    mut run: impl FnMut(&mut Connection),
) -> Option<&'n str> {
    const LONG_US: u64 = 10_000;
    let mut slices = (0..5).map(|_| {
        run(client);
        longest_slice_us(client)
    });
    (!slices.any(|longest_us| longest_us < LONG_US)).then_some(name)
}

#[test]
fn long_replies_delay_no_other_client() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let long: Vec<String> = cases()
        .iter()
        .filter_map(|(preparation, request)| {
            let name = request[..6.min(request.len())].join(" ");
            let run = |client: &mut Connection| {
                preparation.iter().for_each(|command| drop(client.run_words(command)));
                longest_slice_us(client);
                client.send("CLIENT REPLY SKIP\r\n");
                client.send(encode_command(request));
                client.check("PING", "+PONG\r\n");
            };
            held(&mut client, &name, run).map(str::to_owned)
        })
        .collect();
    assert!(long.is_empty(), "{long:?} hold their worker for long");
}

/// Whether an entry exists is known without its fields, and whether prefixes overlap without
/// comparing each with each.
#[test]
fn long_requests_delay_no_other_client() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    let fields = std::iter::repeat_n("f".to_owned(), 200_000);
    let entry = ["XADD", "s", "1-1"].map(str::to_owned).into_iter().chain(fields);
    client.run_words(&entry.collect::<Vec<_>>());
    client.check("XGROUP CREATE s g 0", "+OK\r\n");
    client.run("XREADGROUP GROUP g c STREAMS s >");
    let redirect =
        format!("CLIENT TRACKING ON BCAST REDIRECT {}", other.run("CLIENT ID").integer());
    let prefixes: String = (0..10_000).map(|number| format!(" PREFIX {number:05}")).collect();
    let requests = [
        format!("XCLAIM s g c 0{} JUSTID", " 1-1".repeat(64)),
        format!("XDEL s{}", " 1-2".repeat(64)),
        redirect + &prefixes,
    ];
    let run = |request: &str| {
        held(&mut client, &request[..16], |client| {
            client.check("CLIENT TRACKING OFF", "+OK\r\n");
            longest_slice_us(client);
            assert!(!matches!(client.run(request), Reply::Error(_)), "{}", &request[..16]);
        })
        .map(str::to_owned)
    };
    let long: Vec<String> = requests.iter().map(String::as_str).filter_map(run).collect();
    assert!(long.is_empty(), "{long:?} hold their worker for long");
}

#[test]
fn long_values_delay_no_short_request() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let value = "9".repeat(100_000_000);
    client.run_words(&["HSET", "h", "f", &value]);
    client.run_words(&["ZADD", "z", "0", &value]);
    client.run_words(&["SADD", "s", &value]);
    let requests = ["HINCRBYFLOAT h f 1", "ZADD z 0 8a", "SORT s LIMIT 0 0"];
    longest_slice_us(&mut client);
    let run = |request| held(&mut client, request, |client| drop(client.run(request)));
    let long: Vec<&str> = requests.into_iter().filter_map(run).collect();
    assert!(long.is_empty(), "{long:?} hold their worker for long");
}

/// Entries of very many fields are delivered without these, and written one at a time.
#[test]
fn long_entries_delay_no_other_client() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let fields = vec!["f"; 50_000];
    for entry in 1..=80 {
        let id = format!("{entry}-1");
        client.run_words(&[&["XADD", "s", id.as_str()][..], &fields[..]].concat());
    }
    client.check("XGROUP CREATE s g 0", "+OK\r\n");
    let requests = [
        "XREADGROUP GROUP g c STREAMS s >",
        "XREADGROUP GROUP g c STREAMS s 0",
        "XREAD STREAMS s 0",
        "XREVRANGE s + -",
    ];
    let run = |request| {
        held(&mut client, request, |client| {
            client.check("XGROUP SETID s g 0", "+OK\r\n");
            longest_slice_us(client);
            client.send("CLIENT REPLY SKIP\r\n");
            client.send(encode_command(&words(request)));
            client.check("PING", "+PONG\r\n");
        })
    };
    let long: Vec<&str> = requests.into_iter().filter_map(run).collect();
    assert!(long.is_empty(), "{long:?} hold their worker for long");
}

#[test]
fn long_names_of_consumers_delay_no_other_client() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    client.check("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n");
    for number in 100..164 {
        client.run(&format!("XADD s {number} f v"));
        let consumer = number.to_string() + &"c".repeat(1 << 20);
        client.run_words(&["XREADGROUP", "GROUP", "g", &consumer, "STREAMS", "s", ">"]);
    }
    let requests = [
        "XPENDING s g",
        "XPENDING s g - + 64",
        "XINFO CONSUMERS s g",
        "XINFO STREAM s FULL COUNT 64",
    ];
    longest_slice_us(&mut client);
    let run = |request| {
        held(&mut client, request, |client| {
            client.send("CLIENT REPLY SKIP\r\n");
            client.send(encode_command(&words(request)));
            client.check("PING", "+PONG\r\n");
        })
    };
    let long: Vec<&str> = requests.into_iter().filter_map(run).collect();
    assert!(long.is_empty(), "{long:?} hold their worker for long");
}
