//! INFO, `stats` and CONFIG GET, by name.

use nagi_load::wire::{Answer, Wire};
use std::collections::BTreeMap;

/// Settings that findings speak of.
const SETTINGS: [&str; 4] = ["maxmemory-policy", "appendfsync", "appendonly", "maxclients"];

type Fields = BTreeMap<String, String>;

/// INFO with the statistics of commands and errors.
///
/// # Errors
/// The server cannot be asked, or refuses; one line.
pub(crate) fn info(wire: &mut Wire) -> Result<Fields, String> {
    Ok(parse_info(&wire.run("INFO all")?.text()))
}

fn parse_info(text: &str) -> Fields {
    let fields = text.lines().filter(|line| !line.starts_with('#'));
    let fields = fields.filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// memcached's `stats`, and of its settings those that are limits.
///
/// # Errors
/// The server cannot be asked; one line.
pub(crate) fn stats(wire: &mut Wire) -> Result<Fields, String> {
    let lines = wire.lines("stats")?;
    match lines.last().map(String::as_str) {
        Some("END") => Ok(parse_stats(&lines)),
        other => Err(format!("stats: {}", other.unwrap_or_default())),
    }
}

fn parse_stats(lines: &[String]) -> Fields {
    let fields = lines.iter().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Settings, as far as CONFIG GET may be used.
pub(crate) fn settings(wire: &mut Wire) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for name in SETTINGS {
        if let Answer::Array(pair) = wire.run(&format!("CONFIG GET {name}"))?
            && let [_, value] = pair.as_slice()
        {
            fields.insert(name.to_owned(), value.text());
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names() {
        let info =
            parse_info("# Stats\r\nexpired_keys:12\r\nodd\r\ncmdstat_get:calls=1,usec=2\r\n");
        assert_eq!(info["expired_keys"], "12");
        assert_eq!(info["cmdstat_get"], "calls=1,usec=2");
        assert_eq!(info.len(), 2);
        let stats =
            parse_stats(&["STAT pid 7".to_owned(), "STAT x a b".to_owned(), "END".to_owned()]);
        assert_eq!((stats["pid"].as_str(), stats["x"].as_str()), ("7", "a b"));
    }
}
