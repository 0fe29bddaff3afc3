//! Differences between servers that should be configured and loaded in the same way.

use nagi_findings::observation::Observation;

/// Extracts a figure to compare from an observation.
type Figure<T> = fn(&Observation) -> Option<T>;

/// Figures that are compared for equality; any difference is reported.
const EQUAL_FIGURES: [(&str, Figure<String>); 6] = [
    ("version", |it| Some(it.server.name.clone())),
    ("memory limit", |it| figure(it, &["maxmemory", "limit_maxbytes"])),
    ("maxmemory-policy", |it| it.server.settings.get("maxmemory-policy").cloned()),
    ("appendfsync", |it| it.server.settings.get("appendfsync").cloned()),
    ("most clients", |it| figure(it, &["maxclients", "max_connections"])),
    ("role", |it| figure(it, &["role"])),
];

/// The multiple of the median from which a figure is reported.
const MANY_TIMES: f64 = 3.0;

/// Figures of which a value many times as high as the median is reported, with the minimum relevant
/// value.
const SIMILAR_RATES: [(&str, Figure<f64>, f64); 4] = [
    // With the minimum relevant rate.
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

/// Describes each difference in one line.
pub(super) fn between<'a>(
    servers: impl Iterator<Item = (&'a str, &'a Observation)>,
) -> Vec<String> {
    let servers: Vec<(&str, &Observation)> = servers.collect();
    let mut lines = Vec::new();
    if servers.len() < 2 {
        return lines;
    }
    for (name, of) in EQUAL_FIGURES {
        let values = servers.iter().filter_map(|(url, it)| Some((*url, of(it)?)));
        lines.extend(deviating_values(name, &values.collect::<Vec<_>>()));
    }
    for (name, of, least) in SIMILAR_RATES {
        let values = servers.iter().filter_map(|(url, it)| Some((*url, of(it)?)));
        lines.extend(much_larger_values(name, least, &values.collect::<Vec<_>>()));
    }
    lines
}

/// Describes the values that differ from the value of most servers; all values if there is no
/// majority.
fn deviating_values(name: &str, values: &[(&str, String)]) -> Option<String> {
    let count = |value: &String| values.iter().filter(|(_, other)| other == value).count();
    let (_, usual) = values.iter().max_by_key(|(_, value)| count(value))?;
    if count(usual) == values.len() {
        return None;
    }
    let is_most = count(usual) * 2 > values.len();
    let deviating = values.iter().filter(|(_, value)| !is_most || value != usual);
    let deviating: Vec<String> =
        deviating.map(|(url, value)| format!("{url} has {value}")).collect();
    let rest = if is_most { format!(", the others {usual}") } else { String::new() };
    Some(format!("{name}: {}{rest}", deviating.join(", ")))
}

fn much_larger_values(name: &str, least: f64, values: &[(&str, f64)]) -> Option<String> {
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
    fn a_deviating_server_is_named() {
        let values = |all: [&str; 3]| ["a", "b", "c"].into_iter().zip(all.map(str::to_owned));
        let line = |all| deviating_values("policy", &values(all).collect::<Vec<_>>());
        assert_eq!(line(["x", "x", "x"]), None);
        assert_eq!(line(["x", "y", "x"]).as_deref(), Some("policy: b has y, the others x"));
        assert_eq!(line(["x", "y", "z"]).as_deref(), Some("policy: a has x, b has y, c has z"));
    }

    #[test]
    fn a_server_with_many_times_the_median_is_named() {
        let line = |all: [f64; 3]| {
            much_larger_values(
                "time",
                10.0,
                &["a", "b", "c"].into_iter().zip(all).collect::<Vec<_>>(),
            )
        };
        assert_eq!(line([1.0, 2.0, 9.0]), None);
        assert_eq!(line([10.0, 20.0, 15.0]), None);
        assert_eq!(line([10.0, 90.0, 11.0]).as_deref(), Some("time: b has 90, the middle one 11"));
    }
}
