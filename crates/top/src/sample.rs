//! What a server says of itself at one moment.

use nagi_client::Protocol;
use nagi_load::figures::{self, Fields};
use nagi_load::text::plain;
use nagi_load::wire::{Answer, Wire};
use std::collections::BTreeMap;
use std::time::Instant;

/// Clients that are listed at most: a longer list would load the server.
const MOST_CLIENTS: u64 = 5000;
/// Slow requests that are read.
const SLOWEST: usize = 10;
/// Letters of a slow request that are kept.
const MOST_LETTERS: usize = 200;

/// All that is shown comes from these.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) is_memcached: bool,
    pub(crate) fields: Fields,
    /// None where there are too many, or the server does not list them.
    pub(crate) clients: Option<Vec<Client>>,
    pub(crate) slow: Vec<Slow>,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) flags: String,
    pub(crate) database: String,
    pub(crate) command: String,
    pub(crate) age_s: u64,
    pub(crate) idle_s: u64,
    pub(crate) memory_bytes: u64,
    /// Since it connected, where the server counts them.
    pub(crate) requests: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// A request that took long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slow {
    /// In seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) duration_us: u64,
    pub(crate) client: String,
    /// Its words, as far as the server shows them.
    pub(crate) request: String,
}

impl Sample {
    /// Asks the server.
    ///
    /// # Errors
    /// It cannot be asked, or refuses to tell its figures; one line.
    pub(crate) fn take(wire: &mut Wire) -> Result<Self, String> {
        let is_memcached = wire.protocol != Protocol::Resp;
        let fields = match is_memcached {
            true => figures::stats(wire, "stats")?,
            false => figures::info(wire)?,
        };
        let count = ["connected_clients", "curr_connections"]
            .iter()
            .find_map(|name| fields.get(*name)?.parse::<u64>().ok());
        let are_few = count.is_none_or(|count| count <= MOST_CLIENTS);
        let clients = match (are_few, is_memcached) {
            (false, _) => None,
            (true, true) => Some(connections(&figures::stats(wire, "stats conns")?)),
            // A user may see figures and no clients, nor slow requests.
            (true, false) => match wire.command(&[b"CLIENT", b"LIST"])? {
                Answer::Error(_) => None,
                list => Some(list.text().lines().map(client).collect()),
            },
        };
        let slow = match is_memcached {
            true => Vec::new(),
            false => slow(&wire.command(&[b"SLOWLOG", b"GET", SLOWEST.to_string().as_bytes()])?),
        };
        Ok(Sample { at: Instant::now(), is_memcached, fields, clients, slow })
    }
}

/// A line of CLIENT LIST.
fn client(line: &str) -> Client {
    let mut client = Client::default();
    for (name, value) in line.split(' ').filter_map(|field| field.split_once('=')) {
        let number = value.parse().unwrap_or(0);
        match name {
            "id" => client.id = number,
            "addr" => client.address = plain(value),
            "name" => client.name = plain(value),
            "flags" => client.flags = plain(value),
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
    // Listening sockets are among them.
    clients.into_values().filter(|client| client.command != "listening").collect()
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
        let words: Vec<String> = words.iter().map(Answer::text).collect();
        let request: String = words.join(" ").chars().take(MOST_LETTERS).collect();
        Some(Slow {
            at_s: u64::try_from(*at).unwrap_or(0),
            duration_us: u64::try_from(*duration).unwrap_or(0),
            client: rest.first().map_or(String::new(), |it| plain(&it.text())),
            request: plain(&request),
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
            client: "1.2.3.4:5".to_owned(),
            request: "KEYS a\u{fffd}*".to_owned(),
        };
        assert_eq!(slow(&Answer::Array(vec![entry, Answer::Null])), [expected]);
    }
}
