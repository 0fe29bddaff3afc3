//! Sends the requests of RedisInsight and of Grafana's data source for Redis to nagi and to
//! redis-server.
//!
//! The lists are in tests/reference. If `NAGI_REDIS_8_PORT` is set, the Redis 8 that listens on
//! this port is the other server. It is emptied, and also answers the requests that are marked as
//! newer.

use std::net::Ipv4Addr;

use harness::{Connection, Reply, Server, root, words};

/// How the replies of both servers must agree.
#[derive(Clone, Copy, PartialEq)]
enum Sameness {
    /// The reply is not compared.
    Given,
    Same,
    /// Both have the same elements in any order.
    Unordered,
    Shape,
    /// Both are errors, whose texts may differ.
    Error,
    /// The request is only compared if the other server is Redis 8.
    Newer,
}

/// A line of a list.
struct Request {
    sameness: Sameness,
    line: String,
    /// The names that the program looks for in the text of the reply.
    names: Vec<String>,
}

fn requests(list: &str) -> Vec<Request> {
    let path = root().join("tests/reference").join(list);
    let text = std::fs::read_to_string(&path).expect("the list is there");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let request = |line: &str| {
        let (kind, rest) = line.split_once(' ').expect("a kind and a request");
        let (request, names) = rest.split_once(" => ").unwrap_or((rest, ""));
        let sameness = match kind {
            "given" => Sameness::Given,
            "same" => Sameness::Same,
            "unordered" => Sameness::Unordered,
            "shape" => Sameness::Shape,
            "error" => Sameness::Error,
            "newer" => Sameness::Newer,
            _ => panic!("{list} has a line with {kind}"),
        };
        let names = names.split_whitespace().map(str::to_owned).collect();
        Request { sameness, line: request.to_owned(), names }
    };
    lines.map(request).collect()
}

/// Whether two replies have the same structure: lists of the same length with the same words.
/// Numbers and words with digits may differ.
fn is_same_shape(one: &Reply, other: &Reply) -> bool {
    match (one, other) {
        (Reply::Bulk(one), Reply::Bulk(other)) => {
            let is_word =
                |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
            one == other || !(is_word(one) && is_word(other))
        }
        (Reply::Integer(_), Reply::Integer(_)) | (Reply::Double(_), Reply::Double(_)) => true,
        (Reply::Array(one), Reply::Array(other))
        | (Reply::Map(one), Reply::Map(other))
        | (Reply::Set(one), Reply::Set(other))
        | (Reply::Push(one), Reply::Push(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_same_shape(one, other))
        }
        _ => one == other,
    }
}

/// Returns the elements of a list, sorted.
fn sorted(reply: &Reply) -> Vec<String> {
    let mut elements: Vec<_> = reply.list().iter().map(|it| format!("{it:?}")).collect();
    elements.sort_unstable();
    elements
}

/// Whether a text such as that of INFO or CLIENT LIST has a value for a name.
fn tells(text: &str, name: &str) -> bool {
    // In RESP3, the text is preceded by its format.
    let text = text.strip_prefix("txt:").unwrap_or(text);
    let words = text.split([' ', '\r', '\n', ',']);
    words.filter_map(|word| word.split_once([':', '='])).any(|(it, _)| it == name)
}

/// Describes the fault in nagi's reply, if there is one.
fn faults(request: &Request, ours: &Reply, theirs: Option<&Reply>) -> Option<String> {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    for name in &request.names {
        let replies = [Some(ours), theirs];
        if replies.into_iter().flatten().any(|reply| !tells(&text(reply), name)) {
            return Some(format!("{name} is not in both: {ours:?} {theirs:?}"));
        }
    }
    let is_fine = match (request.sameness, theirs) {
        (Sameness::Given, _) => true,
        (Sameness::Same, Some(theirs)) => ours == theirs,
        (Sameness::Unordered, Some(theirs)) => sorted(ours) == sorted(theirs),
        (Sameness::Error, Some(theirs)) => {
            matches!((ours, theirs), (Reply::Error(_), Reply::Error(_)))
        }
        (Sameness::Shape | Sameness::Newer, Some(theirs)) => is_same_shape(ours, theirs),
        (_, None) => !matches!(ours, Reply::Error(_)),
    };
    (!is_fine).then(|| format!("nagi: {ours:?}\nother: {theirs:?}"))
}

/// Sends a list of requests to both servers, and reports all differences.
fn compare(list: &str) {
    let newer = std::env::var("NAGI_REDIS_8_PORT").ok();
    let (nagi, redis) = (Server::nagi(), newer.is_none().then(Server::redis));
    let mut found = Vec::new();
    for version in ["2", "3"] {
        let mut ours = nagi.connect_resp();
        let mut theirs = match (&redis, &newer) {
            (Some(redis), _) => redis.connect_resp(),
            (None, port) => {
                let port = port.as_deref().unwrap_or_default().parse().expect("a port");
                Connection::open((Ipv4Addr::LOCALHOST, port).into())
            }
        };
        for client in [&mut ours, &mut theirs] {
            client.run_words(&["HELLO", version]);
            client.run("FLUSHALL");
            client.run("CONFIG RESETSTAT");
        }
        for request in requests(list) {
            let words = words(&request.line);
            let reply = ours.run_words(&words);
            let is_asked = request.sameness != Sameness::Newer || newer.is_some();
            let other = is_asked.then(|| theirs.run_words(&words));
            let fault = faults(&request, &reply, other.as_ref());
            found.extend(fault.map(|it| format!("RESP{version} {}\n{it}", request.line)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn redisinsight_is_answered_as_by_redis() {
    compare("redisinsight.txt");
}

#[test]
fn grafana_is_answered_as_by_redis() {
    compare("grafana.txt");
}
