//! In what servers differ that should be alike.

use crate::observation::Observation;

/// Takes what is compared from what was seen of a server.
type Take<T> = fn(&Observation) -> Option<T>;

/// What is compared, as text: where it differs at all, it is told.
const ALIKE: [(&str, Take<String>); 6] = [
    ("version", |it| Some(it.server.name.clone())),
    ("memory limit", |it| figure(it, &["maxmemory", "limit_maxbytes"])),
    ("maxmemory-policy", |it| it.server.settings.get("maxmemory-policy").cloned()),
    ("appendfsync", |it| it.server.settings.get("appendfsync").cloned()),
    ("most clients", |it| figure(it, &["maxclients", "max_connections"])),
    ("role", |it| figure(it, &["role"])),
];

/// How many times the middle one a figure has to be.
const MANY_TIMES: f64 = 3.0;

/// Rates: of these, a server is told of that has many times the middle one of all.
const ABOUT_ALIKE: [(&str, Take<f64>, f64); 4] = [
    // The last is from where on it matters.
    ("middle round trip in us", |it| Some(it.probes.pings.quantile_us(0.5)? as f64), 500.0),
    ("evictions a second", |it| rate(it, &["evicted_keys", "evictions"]), 10.0),
    (
        "connections a second",
        |it| rate(it, &["total_connections_received", "total_connections"]),
        50.0,
    ),
    ("requests a second", |it| rate(it, &["total_commands_processed", "cmd_get"]), 1000.0),
];

fn figure(observation: &Observation, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| observation.server.counters.after.get(*name)).cloned()
}

fn rate(observation: &Observation, names: &[&str]) -> Option<f64> {
    let grown = names.iter().find_map(|name| observation.server.counters.increase(name))?;
    Some((grown / observation.seconds.max(0.1)).round())
}

/// One line for each difference.
pub(super) fn between<'a>(
    servers: impl Iterator<Item = (&'a str, &'a Observation)>,
) -> Vec<String> {
    let servers: Vec<(&str, &Observation)> = servers.collect();
    let mut lines = Vec::new();
    if servers.len() < 2 {
        return lines;
    }
    for (name, of) in ALIKE {
        let values = servers.iter().filter_map(|(url, it)| Some((*url, of(it)?)));
        lines.extend(odd_ones(name, &values.collect::<Vec<_>>()));
    }
    for (name, of, least) in ABOUT_ALIKE {
        let values = servers.iter().filter_map(|(url, it)| Some((*url, of(it)?)));
        lines.extend(far_ones(name, least, &values.collect::<Vec<_>>()));
    }
    lines
}

/// Those that are not like most; all of them, where no value is that of most.
fn odd_ones(name: &str, values: &[(&str, String)]) -> Option<String> {
    let count = |value: &String| values.iter().filter(|(_, other)| other == value).count();
    let (_, usual) = values.iter().max_by_key(|(_, value)| count(value))?;
    if count(usual) == values.len() {
        return None;
    }
    let is_most = count(usual) * 2 > values.len();
    let odd = values.iter().filter(|(_, value)| !is_most || value != usual);
    let odd: Vec<String> = odd.map(|(url, value)| format!("{url} has {value}")).collect();
    let rest = if is_most { format!(", the others {usual}") } else { String::new() };
    Some(format!("{name}: {}{rest}", odd.join(", ")))
}

fn far_ones(name: &str, least: f64, values: &[(&str, f64)]) -> Option<String> {
    let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = *sorted.get((sorted.len().checked_sub(1)?) / 2)?;
    let is_far = |value: f64| value >= least && value > middle * MANY_TIMES;
    let far = values.iter().filter(|(_, value)| is_far(*value));
    let far: Vec<String> = far.map(|(url, value)| format!("{url} has {value}")).collect();
    (!far.is_empty()).then(|| format!("{name}: {}, the middle one {middle}", far.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_is_named() {
        let values = |all: [&str; 3]| ["a", "b", "c"].into_iter().zip(all.map(str::to_owned));
        let told = |all| odd_ones("policy", &values(all).collect::<Vec<_>>());
        assert_eq!(told(["x", "x", "x"]), None);
        assert_eq!(told(["x", "y", "x"]).as_deref(), Some("policy: b has y, the others x"));
        assert_eq!(told(["x", "y", "z"]).as_deref(), Some("policy: a has x, b has y, c has z"));
    }

    #[test]
    fn the_slow_one_is_named() {
        let told = |all: [f64; 3]| {
            far_ones("time", 10.0, &["a", "b", "c"].into_iter().zip(all).collect::<Vec<_>>())
        };
        assert_eq!(told([1.0, 2.0, 9.0]), None);
        assert_eq!(told([10.0, 20.0, 15.0]), None);
        assert_eq!(told([10.0, 90.0, 11.0]).as_deref(), Some("time: b has 90, the middle one 11"));
    }
}
