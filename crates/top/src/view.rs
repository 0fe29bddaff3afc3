//! The view, computed from two samples as plain text cells.

use crate::options::Sort;
use crate::sample::{Client, Sample};
use nagi_load::clock::since_1970;
use nagi_load::figures::server_name;
use nagi_load::text::plain;
use std::collections::BTreeMap;

/// Maximum number of commands shown.
const MAX_COMMANDS: usize = 12;

/// Everything on the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    /// The server and its uptime.
    pub(crate) title: String,
    /// Names and values.
    pub(crate) figures: Vec<(&'static str, String)>,
    pub(crate) requests_per_second: u64,
    pub(crate) commands: Table,
    pub(crate) clients: Table,
    pub(crate) slow: Table,
    pub(crate) events: Table,
    /// Reported only by nagi: its threads, the phases of requests, hot keys.
    pub(crate) workers: Table,
    pub(crate) phases: Table,
    pub(crate) hot_keys: Table,
}

impl View {
    /// Tables that are omitted if empty.
    pub(crate) fn more(&self) -> [&Table; 4] {
        [&self.workers, &self.phases, &self.hot_keys, &self.events]
    }
}

/// Rows with column names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Two samples and the time between them.
struct Pair<'a> {
    before: &'a Sample,
    now: &'a Sample,
    seconds: f64,
}

impl Pair<'_> {
    fn number(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| finite(self.now.fields.get(*name)?))
    }

    fn text(&self, names: &[&str]) -> String {
        let text = names.iter().find_map(|name| self.now.fields.get(*name));
        text.map_or("-".to_owned(), |text| plain(text))
    }

    /// The growth per second of the sum of fields, as text; `-` if there are none.
    fn shown_rate(&self, names: &[&str], shown: fn(f64) -> String) -> String {
        let is_known = names.iter().any(|name| self.now.fields.contains_key(*name));
        if is_known { shown(self.rate(names)) } else { "-".to_owned() }
    }

    /// The growth per second of the sum of fields; 0 if there are none.
    fn rate(&self, names: &[&str]) -> f64 {
        let of = |sample: &Sample, name: &str| finite(sample.fields.get(name)?);
        let grown = |name: &&str| {
            let now = of(self.now, name)?;
            Some((now - of(self.before, name).unwrap_or(now)).max(0.0))
        };
        // Not `sum`, which is -0 without fields.
        names.iter().filter_map(grown).fold(0.0, |sum, grown| sum + grown) / self.seconds
    }
}

/// memcached's counters that add up to its requests; `cmd_set` includes those with CAS.
const MEMCACHED_REQUESTS: [&str; 11] = [
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "cmd_meta",
    "cmd_flush",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
];

/// Computes the view.
pub(crate) fn view(url: &str, before: &Sample, now: &Sample, sort: Sort) -> View {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(0.001);
    let pair = Pair { before, now, seconds };
    let uptime = pair.number(&["uptime_in_seconds", "uptime"]).unwrap_or(0.0) as u64;
    let requests = match now.is_memcached {
        true => pair.rate(&MEMCACHED_REQUESTS),
        false => pair.rate(&["total_commands_processed"]),
    };
    View {
        title: format!("{url}  {}  up {}", plain(&server_name(&now.fields)), duration(uptime)),
        figures: figures(&pair, requests),
        requests_per_second: requests.round() as u64,
        commands: commands(&pair),
        clients: clients(&pair, sort),
        slow: slow(now),
        events: events(now),
        workers: workers(now),
        phases: phases(now),
        hot_keys: hot_keys(now),
    }
}

/// Parses a number of a server, which may be anything.
fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A part of a value such as `state=W,busy=0.5`.
fn part<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Fields whose names begin with `prefix`, with the rest of their names.
fn named<'a>(sample: &'a Sample, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = sample.fields.iter();
    fields.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
}

/// The activity of nagi's command-executing threads in the last second.
fn workers(now: &Sample) -> Table {
    let mut threads: Vec<(&str, &str)> = named(now, "worker_").collect();
    threads.sort_by_key(|(name, _)| name.parse::<usize>().unwrap_or(usize::MAX));
    threads.extend(now.fields.get("script_thread").map(|value| ("scripts", value.as_str())));
    let rows = threads.into_iter().filter_map(|(name, value)| {
        let busy = finite(part(value, "busy")?)?;
        let text = |name| part(value, name).map_or("-".to_owned(), plain);
        Some(vec![
            plain(name),
            text("state"),
            format!("{:.0} %", busy * 100.0),
            text("requests_per_second"),
            text("requests"),
            text("connections"),
        ])
    });
    let columns = vec!["worker", "state", "busy", "req/s", "requests", "connections"];
    Table { title: "Workers".to_owned(), columns, rows: rows.collect() }
}

/// The 99th percentile by family, since the start or CONFIG RESETSTAT.
fn phases(now: &Sample) -> Table {
    const NAMES: [&str; 4] = ["receive", "queue", "execute", "send"];
    let mut families: BTreeMap<&str, [String; 4]> = BTreeMap::new();
    for (name, value) in named(now, "phase_usec_") {
        let Some((family, phase)) = name.rsplit_once('_') else { continue };
        let Some(place) = NAMES.iter().position(|name| *name == phase) else { continue };
        let times = families.entry(family).or_insert_with(|| [const { String::new() }; 4]);
        if let (Some(cell), Some(us)) = (times.get_mut(place), part(value, "p99")) {
            *cell = plain(us);
        }
    }
    let rows = families.into_iter().map(|(family, times)| {
        let cells = [plain(family)].into_iter().chain(times);
        cells.collect()
    });
    let columns = vec!["family", "receive", "queue", "execute", "send"];
    Table { title: "Phases (us, p99)".to_owned(), columns, rows: rows.collect() }
}

fn hot_keys(now: &Sample) -> Table {
    let rows = named(now, "hot_key_").filter_map(|(_, value)| {
        let (share, key) = value.strip_prefix("share=")?.split_once(",key=")?;
        Some((finite(share)?, plain(key)))
    });
    let mut rows: Vec<(f64, String)> = rows.collect();
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    let rows = rows.into_iter().map(|(share, key)| vec![format!("{:.1} %", share * 100.0), key]);
    let columns = vec!["share", "key"];
    Table { title: "Hot keys".to_owned(), columns, rows: rows.collect() }
}

fn events(now: &Sample) -> Table {
    let today = since_1970().as_secs();
    let rows = now.events.iter().map(|event| {
        vec![
            event.name.clone(),
            format!("{} ago", duration(today.saturating_sub(event.at_s))),
            format!("{} ms", event.latest_ms),
            format!("{} ms", event.longest_ms),
        ]
    });
    let columns = vec!["event", "when", "latest", "longest"];
    Table { title: "Latency events".to_owned(), columns, rows: rows.collect() }
}

fn figures(pair: &Pair<'_>, requests: f64) -> Vec<(&'static str, String)> {
    let hits = pair.rate(&["keyspace_hits", "get_hits"]);
    let lookups = hits + pair.rate(&["keyspace_misses", "get_misses"]);
    let hit_rate =
        if lookups > 0.0 { format!("{:.1} %", hits * 100.0 / lookups) } else { "-".to_owned() };
    let cpu = ["used_cpu_user", "used_cpu_sys", "rusage_user", "rusage_system"];
    let of = |some: Option<f64>, all: Option<f64>, shown: fn(f64) -> String| {
        let limit = all.filter(|all| *all > 0.0).map(|all| format!(" of {}", shown(all)));
        format!("{}{}", some.map_or("-".to_owned(), shown), limit.unwrap_or_default())
    };
    let memory = of(
        pair.number(&["used_memory", "bytes"]),
        pair.number(&["maxmemory", "limit_maxbytes"]),
        bytes,
    );
    let count: fn(f64) -> String = |number| format!("{number:.0}");
    let percent: fn(f64) -> String = |share| format!("{:.0} %", share * 100.0);
    let clients = of(
        pair.number(&["connected_clients", "curr_connections"]),
        pair.number(&["maxclients", "max_connections"]),
        count,
    );
    vec![
        ("requests/s", count(requests)),
        ("hits", hit_rate),
        ("processor", pair.shown_rate(&cpu, percent)),
        ("memory", memory),
        ("clients", clients),
        ("blocked", pair.text(&["blocked_clients"])),
        ("received/s", pair.shown_rate(&["total_net_input_bytes", "bytes_read"], bytes)),
        ("sent/s", pair.shown_rate(&["total_net_output_bytes", "bytes_written"], bytes)),
        (
            "connects/s",
            pair.shown_rate(&["total_connections_received", "total_connections"], count),
        ),
        ("evicted/s", pair.shown_rate(&["evicted_keys", "evictions"], count)),
        ("expired/s", pair.shown_rate(&["expired_keys", "expired_unfetched"], count)),
        ("saving", yes_or_no(pair.number(&["rdb_bgsave_in_progress"]))),
    ]
}

fn yes_or_no(number: Option<f64>) -> String {
    let text = number.map_or("-", |number| if number > 0.0 { "yes" } else { "no" });
    text.to_owned()
}

/// The cost of commands since the previous sample.
fn commands(pair: &Pair<'_>) -> Table {
    let title = "Commands".to_owned();
    if pair.now.is_memcached {
        let kinds = ["get", "set", "touch", "meta", "flush"];
        let rows = kinds.iter().filter_map(|kind| {
            let name = format!("cmd_{kind}");
            pair.now.fields.get(&name)?;
            Some(vec![(*kind).to_owned(), format!("{:.0}", pair.rate(&[&name]))])
        });
        return Table { title, columns: vec!["command", "calls/s"], rows: rows.collect() };
    }
    let figure =
        |sample: &Sample, name: &str, what: &str| finite(part(sample.fields.get(name)?, what)?);
    let costs = pair.now.fields.keys().filter_map(|key| {
        let name = key.strip_prefix("cmdstat_")?;
        let grown = |what: &str| {
            let before = figure(pair.before, key, what).unwrap_or(0.0);
            Some((figure(pair.now, key, what)? - before).max(0.0))
        };
        Some((name, grown("calls")?, grown("usec")?)).filter(|(_, calls, _)| *calls > 0.0)
    });
    let mut costs: Vec<(&str, f64, f64)> = costs.collect();
    costs.sort_by(|one, other| other.2.total_cmp(&one.2));
    let rows = costs.into_iter().take(MAX_COMMANDS).map(|(name, calls, us)| {
        vec![
            plain(name).replace('|', " "),
            format!("{:.0}", calls / pair.seconds),
            format!("{:.1}", us / calls),
            format!("{:.1} %", us / 1e4 / pair.seconds),
        ]
    });
    let columns = vec!["command", "calls/s", "us a call", "of a processor"];
    Table { title, columns, rows: rows.collect() }
}

fn clients(pair: &Pair<'_>, sort: Sort) -> Table {
    // The last ones are left out first on a narrow screen.
    let columns = vec![
        "id", "address", "name", "state", "command", "req/s", "bytes/s", "memory", "age", "idle",
        "flags", "db",
    ];
    let Some(clients) = &pair.now.clients else {
        let title = "Clients: there are too many to list, or they may not be listed".to_owned();
        return Table { title, columns, rows: Vec::new() };
    };
    let before = |id: u64| pair.before.clients.iter().flatten().find(|client| client.id == id);
    let rate = |client: &Client, of: fn(&Client) -> Option<u64>| {
        let now = of(client)?;
        let known = before(client.id).and_then(of).unwrap_or(now);
        Some(now.saturating_sub(known) as f64 / pair.seconds)
    };
    let mut rows: Vec<(f64, Vec<String>)> = Vec::with_capacity(clients.len());
    for client in clients {
        let (requests, moved) = (rate(client, |it| it.requests), rate(client, |it| it.bytes));
        let key = match sort {
            Sort::Requests => requests.unwrap_or(0.0),
            Sort::Bytes => moved.unwrap_or(0.0),
            Sort::Memory => client.memory_bytes as f64,
            Sort::Idle => client.idle_s as f64,
            Sort::Age => client.age_s as f64,
        };
        let shown =
            |number: Option<f64>, text: fn(f64) -> String| number.map_or("-".to_owned(), text);
        let row = vec![
            client.id.to_string(),
            client.address.clone(),
            client.name.clone(),
            if client.state.is_empty() { "-" } else { client.state }.to_owned(),
            client.command.clone(),
            shown(requests, |number| format!("{number:.0}")),
            shown(moved, bytes),
            bytes(client.memory_bytes as f64),
            duration(client.age_s),
            duration(client.idle_s),
            client.flags.clone(),
            client.database.clone(),
        ];
        rows.push((key, row));
    }
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    let title = format!("Clients ({}), by {}", rows.len(), sort.name());
    Table { title, columns, rows: rows.into_iter().map(|(_, row)| row).collect() }
}

fn slow(now: &Sample) -> Table {
    let today = since_1970().as_secs();
    let rows = now.slow.iter().map(|slow| {
        vec![
            format!("{} ago", duration(today.saturating_sub(slow.at_s))),
            format!("{:.1} ms", slow.duration_us as f64 / 1e3),
            slow.phase.unwrap_or("-").to_owned(),
            slow.client.clone(),
            slow.request.clone(),
        ]
    });
    let columns = vec!["when", "took", "mostly", "client", "request"];
    Table { title: "Slow requests".to_owned(), columns, rows: rows.collect() }
}

/// Seconds in a suitable unit.
fn duration(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e4 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.0} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.2} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sample(at: Instant, fields: &[(&str, &str)], clients: Vec<Client>) -> Sample {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let clients = Some(clients);
        let (fields, slow, events) = (fields.collect(), Vec::new(), Vec::new());
        Sample { at, is_memcached: false, fields, clients, slow, events }
    }

    #[test]
    fn rates_are_differences_of_two_samples() {
        let (start, client) = (Instant::now(), Client { requests: Some(5), ..Client::default() });
        let before = [
            ("redis_version", "7.0.15"),
            ("total_commands_processed", "100"),
            ("keyspace_hits", "10"),
            ("cmdstat_get", "calls=100,usec=200"),
        ];
        let before = sample(start, &before, vec![Client { id: 2, ..client.clone() }]);
        let now = [
            ("redis_version", "7.0.15"),
            ("total_commands_processed", "300"),
            ("keyspace_hits", "19"),
            ("keyspace_misses", "1"),
            ("used_memory", "5000000"),
            ("maxmemory", "10000000"),
            ("cmdstat_get", "calls=300,usec=1000200"),
            ("cmdstat_config|get", "calls=1,usec=9"),
        ];
        let clients = vec![
            Client { id: 1, requests: Some(50), ..client.clone() },
            Client { id: 2, requests: Some(45), ..client },
        ];
        let now = sample(start + Duration::from_secs(2), &now, clients);
        let view = view("redis://x", &before, &now, Sort::Requests);
        assert_eq!(view.title, "redis://x  Redis 7.0.15  up 0 s");
        assert_eq!(view.requests_per_second, 100);
        let figure =
            |name: &str| view.figures.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        assert_eq!(figure("memory"), Some("5.0 MB of 10.0 MB"));
        assert_eq!(figure("hits"), Some("100.0 %"), "misses were not counted before");
        assert_eq!(view.commands.rows[0], ["get", "100", "5000.0", "50.0 %"]);
        assert_eq!(view.commands.rows[1][0], "config get");
        let ids: Vec<&str> = view.clients.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(ids, ["2", "1"], "what was not there before has no rate");
        assert_eq!(view.clients.rows[0][5], "20");
    }

    #[test]
    fn neither_escape_sequences_nor_infinite_numbers_are_shown() {
        let fields = [
            ("redis_version", "\x1b[31m7"),
            ("used_memory", "NaN"),
            ("maxmemory", "inf"),
            ("total_commands_processed", "inf"),
            ("worker_0", "state=W,busy=nan"),
            ("hot_key_0", "share=inf,key=\"a\""),
            ("cmdstat_get", "calls=inf,usec=1"),
        ];
        let now = sample(Instant::now(), &fields, Vec::new());
        let view = view("redis://x", &now, &now, Sort::Requests);
        assert_eq!(view.title, "redis://x  Redis \u{fffd}[31m7  up 0 s");
        let text = crate::plain::print(&view).to_lowercase();
        assert!(!text.contains("nan") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn a_cas_of_memcached_is_one_request() {
        let start = Instant::now();
        let of = |at, sets, misses| Sample {
            is_memcached: true,
            ..sample(at, &[("cmd_set", sets), ("cas_misses", misses)], Vec::new())
        };
        let (before, now) = (of(start, "0", "0"), of(start + Duration::from_secs(1), "9", "9"));
        assert_eq!(view("x", &before, &now, Sort::Requests).requests_per_second, 9);
    }

    #[test]
    fn values_that_only_nagi_reports_are_shown() {
        let fields = [
            ("worker_10", "state=K,busy=0.0000,requests_per_second=0,requests=5,connections=1"),
            ("worker_9", "state=W,busy=0.5000,requests_per_second=41,requests=90,connections=3"),
            ("script_thread", "state=W,busy=1.0000,requests_per_second=7,requests=8,connections=0"),
            ("phase_usec_string_receive", "requests=3,p50=1.003,p99=2000.5,p99.9=3,p100=3"),
            ("phase_usec_string_send", "requests=3,p50=1.003,p99=4.000,p99.9=4,p100=4"),
            ("hot_key_0", "share=0.2500,key=\"a,b\""),
            ("workers", "2"),
        ];
        let now = sample(Instant::now(), &fields, Vec::new());
        let rows = workers(&now).rows;
        assert_eq!(rows[0], ["9", "W", "50 %", "41", "90", "3"]);
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["9", "10", "scripts"]);
        assert_eq!(phases(&now).rows, [["string", "2000.5", "", "", "4.000"]]);
        assert_eq!(hot_keys(&now).rows, [["25.0 %", "\"a,b\""]]);
    }
}
