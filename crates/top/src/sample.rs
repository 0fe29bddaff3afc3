//! A sample of a server's statistics.

use nagi_client::Protocol;
use nagi_load::figures::{self, Fields};
use nagi_load::text::plain;
use nagi_load::wire::{Answer, Wire};
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum clients that are listed: a longer list would load the server.
const MAX_CLIENTS: u64 = 5000;
/// Slow requests that are read.
const SLOWEST: usize = 10;
/// Maximum characters of a slow request that are kept.
const MAX_LETTERS: usize = 200;

/// A sample; all views are computed from samples.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) is_memcached: bool,
    pub(crate) fields: Fields,
    /// `None` if there are too many, or the server does not list them.
    pub(crate) clients: Option<Vec<Client>>,
    pub(crate) slow: Vec<Slow>,
    pub(crate) events: Vec<LatencyEvent>,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) flags: String,
    /// The state derived from the flags and buffers in CLIENT LIST; empty for memcached.
    pub(crate) state: &'static str,
    pub(crate) database: String,
    pub(crate) command: String,
    pub(crate) age_s: u64,
    pub(crate) idle_s: u64,
    pub(crate) memory_bytes: u64,
    /// Requests since the client connected, if the server counts them.
    pub(crate) requests: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// A request that took long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slow {
    /// In seconds since 1970.
    pub(crate) at_s: u64,
    /// The execution time; with phases, the sum of all.
    pub(crate) duration_us: u64,
    /// The longest phase, if the server reports phases.
    pub(crate) phase: Option<&'static str>,
    pub(crate) client: String,
    /// The words of the request, as far as the server reports them.
    pub(crate) request: String,
}

/// A delay of the server: a row of LATENCY LATEST.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LatencyEvent {
    pub(crate) name: String,
    /// In seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) latest_ms: u64,
    pub(crate) longest_ms: u64,
}

impl Sample {
    /// Queries the server.
    ///
    /// # Errors
    /// The server cannot be queried, or refuses. The message is one line.
    pub(crate) fn take(wire: &mut Wire) -> Result<Self, String> {
        let is_memcached = wire.protocol != Protocol::Resp;
        let fields = match is_memcached {
            true => figures::stats(wire, "stats")?,
            false => figures::info(wire)?,
        };
        let count = ["connected_clients", "curr_connections"]
            .iter()
            .find_map(|name| fields.get(*name)?.parse::<u64>().ok());
        let are_few = count.is_none_or(|count| count <= MAX_CLIENTS);
        let clients = match (are_few, is_memcached) {
            (false, _) => None,
            (true, true) => Some(connections(&figures::stats(wire, "stats conns")?)),
            // A user may have access to figures but not to clients or slow requests.
            (true, false) => match wire.command(&[b"CLIENT", b"LIST"])? {
                Answer::Error(_) => None,
                // It is too long to be kept.
                Answer::Text(text, len) if text.len() as u64 != len => None,
                list => Some(list.text().lines().map(client).collect()),
            },
        };
        let (mut slow, mut events) = (Vec::new(), Vec::new());
        if !is_memcached {
            slow = slow_requests(wire, fields.contains_key("nagi_version"))?;
            events = latency_events(&wire.command(&[b"LATENCY", b"LATEST"])?);
        }
        Ok(Sample { at: Instant::now(), is_memcached, fields, clients, slow, events })
    }
}

/// A line of CLIENT LIST.
fn client(line: &str) -> Client {
    let mut client = Client::default();
    let (mut has_query, mut has_output, mut has_queued) = (false, false, false);
    for (name, value) in line.split(' ').filter_map(|field| field.split_once('=')) {
        let number = value.parse().unwrap_or(0);
        match name {
            "id" => client.id = number,
            "addr" => client.address = plain(value),
            "name" => client.name = plain(value),
            "flags" => client.flags = plain(value),
            "qbuf" => has_query = number > 0,
            "obl" | "oll" | "omem" => has_output |= number > 0,
            "multi" => has_queued = value.parse::<i64>().is_ok_and(|count| count > 0),
            "db" => client.database = plain(value),
            "cmd" => client.command = plain(value),
            "age" => client.age_s = number,
            "idle" => client.idle_s = number,
            "tot-mem" => client.memory_bytes = number,
            "tot-cmds" => client.requests = Some(number),
            "tot-net-in" | "tot-net-out" => {
                client.bytes = Some(client.bytes.unwrap_or(0) + number);
            }
            _ => {}
        }
    }
    client.state = match () {
        () if client.flags.contains('b') => "blocked",
        () if has_output => "writing",
        () if client.flags.contains(['P', 'O']) => "subscribed",
        () if has_queued => "queued",
        () if has_query => "reading",
        () => "idle",
    };
    client
}

/// The connections of `stats conns`, whose fields begin with their number: `28:addr`.
fn connections(fields: &Fields) -> Vec<Client> {
    let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
    for (name, value) in fields {
        let Some((id, name)) = name.split_once(':') else { continue };
        let Ok(id) = id.parse() else { continue };
        let client = clients.entry(id).or_insert_with(|| Client { id, ..Client::default() });
        match name {
            "addr" => client.address = plain(value.strip_prefix("tcp:").unwrap_or(value)),
            "state" => client.command = plain(value.strip_prefix("conn_").unwrap_or(value)),
            "secs_since_last_cmd" => client.idle_s = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    // memcached lists its listening sockets too.
    clients.into_values().filter(|client| client.command != "listening").collect()
}

/// The latest slow requests, with their phases if the server is nagi.
fn slow_requests(wire: &mut Wire, is_nagi: bool) -> Result<Vec<Slow>, String> {
    let count = SLOWEST.to_string();
    let mut ask = |how: &[u8]| wire.command(&[b"SLOWLOG", how, count.as_bytes()]);
    if is_nagi && let Answer::Array(entries) = ask(b"PHASES")? {
        return Ok(entries.iter().filter_map(slow_with_phases).collect());
    }
    Ok(slow(&ask(b"GET")?))
}

/// An entry of nagi's SLOWLOG PHASES: names and values, one after the other.
fn slow_with_phases(entry: &Answer) -> Option<Slow> {
    const PHASES: [(&str, &str); 4] = [
        ("receive-usec", "receive"),
        ("queue-usec", "queue"),
        ("execute-usec", "execute"),
        ("send-usec", "send"),
    ];
    let Answer::Array(fields) = entry else { return None };
    let find = |wanted: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find_map(|pair| match pair {
            [name, value] if name.text() == wanted => Some(value),
            _ => None,
        })
    };
    let number = |name: &str| match find(name) {
        Some(Answer::Integer(number)) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    };
    let phases = PHASES.map(|(field, name)| (number(field), name));
    let Some(Answer::Array(words)) = find("arguments") else { return None };
    Some(Slow {
        at_s: number("time"),
        duration_us: phases.iter().map(|(us, _)| us).sum(),
        phase: phases.iter().max_by_key(|phase| phase.0).map(|phase| phase.1),
        client: find("addr").map_or(String::new(), |it| plain(&it.text())),
        request: request(words),
    })
}

/// The words of a request in one line.
fn request(words: &[Answer]) -> String {
    let words: Vec<String> = words.iter().map(Answer::text).collect();
    plain(&words.join(" ").chars().take(MAX_LETTERS).collect::<String>())
}

/// LATENCY LATEST: name, time, the latest and the longest of each event; empty if the server does
/// not report them.
fn latency_events(answer: &Answer) -> Vec<LatencyEvent> {
    let entries = if let Answer::Array(entries) = answer { entries.as_slice() } else { &[] };
    let events = entries.iter().filter_map(|entry| {
        let Answer::Array(fields) = entry else { return None };
        let [name, Answer::Integer(at), Answer::Integer(latest), Answer::Integer(longest), ..] =
            fields.as_slice()
        else {
            return None;
        };
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        Some(LatencyEvent {
            name: plain(&name.text()),
            at_s: number(*at),
            latest_ms: number(*latest),
            longest_ms: number(*longest),
        })
    });
    events.collect()
}

fn slow(answer: &Answer) -> Vec<Slow> {
    let entries = if let Answer::Array(entries) = answer { entries.as_slice() } else { &[] };
    let slow = entries.iter().filter_map(|entry| {
        let Answer::Array(fields) = entry else { return None };
        let [_, Answer::Integer(at), Answer::Integer(duration), Answer::Array(words), rest @ ..] =
            fields.as_slice()
        else {
            return None;
        };
        Some(Slow {
            at_s: u64::try_from(*at).unwrap_or(0),
            duration_us: u64::try_from(*duration).unwrap_or(0),
            client: rest.first().map_or(String::new(), |it| plain(&it.text())),
            phase: None,
            request: request(words),
        })
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_client_list_is_parsed_as_a_client() {
        let line = "id=7 addr=1.2.3.4:5 name=a\u{1b} age=9 idle=2 db=3 cmd=get tot-mem=100 \
                    tot-net-in=5 tot-net-out=7 tot-cmds=11 odd";
        let expected = Client {
            id: 7,
            address: "1.2.3.4:5".to_owned(),
            name: "a\u{fffd}".to_owned(),
            database: "3".to_owned(),
            command: "get".to_owned(),
            state: "idle",
            age_s: 9,
            idle_s: 2,
            memory_bytes: 100,
            requests: Some(11),
            bytes: Some(12),
            ..Client::default()
        };
        assert_eq!(client(line), expected);
    }

    #[test]
    fn fields_of_connections_are_joined_by_their_number() {
        let fields = [
            ("28:addr", "tcp:127.0.0.1:5"),
            ("28:state", "conn_waiting"),
            ("28:secs_since_last_cmd", "4"),
            ("26:addr", "tcp:127.0.0.1:11211"),
            ("26:state", "conn_listening"),
            ("odd", "x"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let clients = connections(&fields);
        let shown: Vec<_> =
            clients.iter().map(|it| (it.id, &*it.address, &*it.command, it.idle_s)).collect();
        assert_eq!(shown, [(28, "127.0.0.1:5", "waiting", 4)]);
    }

    #[test]
    fn slow_requests_are_shown_as_their_words() {
        let word = |text: &str| Answer::Text(text.as_bytes().to_vec(), text.len() as u64);
        let words = Answer::Array(vec![word("KEYS"), word("a\n*")]);
        let entry = [Answer::Integer(1), Answer::Integer(17), Answer::Integer(12_345), words];
        let entry = Answer::Array(entry.into_iter().chain([word("1.2.3.4:5")]).collect());
        let expected = Slow {
            at_s: 17,
            duration_us: 12_345,
            phase: None,
            client: "1.2.3.4:5".to_owned(),
            request: "KEYS a\u{fffd}*".to_owned(),
        };
        assert_eq!(slow(&Answer::Array(vec![entry, Answer::Null])), [expected]);
    }

    #[test]
    fn states_are_derived_from_other_fields() {
        let state = |fields: &str| client(&format!("id=1 {fields}")).state;
        assert_eq!(state("flags=N qbuf=0 obl=0 oll=0 omem=0 multi=-1"), "idle");
        assert_eq!(state("flags=b qbuf=0"), "blocked");
        assert_eq!(state("flags=N qbuf=7 omem=0 multi=-1"), "reading");
        assert_eq!(state("flags=x qbuf=0 multi=1"), "queued");
        assert_eq!(state("flags=N qbuf=0 obl=5 omem=0"), "writing");
        assert_eq!(state("flags=P qbuf=0"), "subscribed");
    }

    #[test]
    fn phases_and_latencies_are_parsed() {
        let text = |text: &str| Answer::Text(text.as_bytes().to_vec(), text.len() as u64);
        let fields = [
            ("time", Answer::Integer(17)),
            ("receive-usec", Answer::Integer(3_000_000)),
            ("execute-usec", Answer::Integer(5)),
            ("arguments", Answer::Array(vec![text("SET"), text("key")])),
            ("addr", text("1.2.3.4:5")),
        ];
        let entry = fields.into_iter().flat_map(|(name, value)| [text(name), value]).collect();
        let expected = Slow {
            at_s: 17,
            duration_us: 3_000_005,
            phase: Some("receive"),
            client: "1.2.3.4:5".to_owned(),
            request: "SET key".to_owned(),
        };
        assert_eq!(slow_with_phases(&Answer::Array(entry)), Some(expected));
        let row =
            vec![text("command"), Answer::Integer(17), Answer::Integer(2), Answer::Integer(9)];
        let events = latency_events(&Answer::Array(vec![Answer::Array(row), Answer::Null]));
        let expected =
            LatencyEvent { name: "command".to_owned(), at_s: 17, latest_ms: 2, longest_ms: 9 };
        assert_eq!(events, [expected]);
    }
}
