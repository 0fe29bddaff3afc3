//! A server's named statistics: INFO, or memcached's `stats`.

use crate::wire::Wire;
use std::collections::BTreeMap;

/// Values by name.
pub type Fields = BTreeMap<String, String>;

/// Queries INFO, including the statistics of commands and errors.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub fn info(wire: &mut Wire) -> Result<Fields, String> {
    Ok(parse_info(&wire.run("INFO all")?.text()))
}

/// Parses the fields of a reply to INFO.
#[must_use]
pub fn parse_info(text: &str) -> Fields {
    let fields = text.lines().filter(|line| !line.starts_with('#'));
    let fields = fields.filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Queries memcached's `stats`, or a variant such as `stats conns`.
///
/// # Errors
/// The server cannot be queried; the error is one line.
pub fn stats(wire: &mut Wire, request: &str) -> Result<Fields, String> {
    let lines = wire.lines(request)?;
    match lines.last().map(String::as_str) {
        Some("END") => Ok(parse_stats(&lines)),
        other => Err(format!("{request}: {}", other.unwrap_or_default())),
    }
}

/// Parses the lines of a reply to memcached's `stats`.
#[must_use]
pub fn parse_stats(lines: &[String]) -> Fields {
    let fields = lines.iter().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Returns a name such as `Redis 7.0.15`, derived from fields that only one kind of server reports.
#[must_use]
pub fn server_name(fields: &Fields) -> String {
    let versions = [
        ("nagi", "nagi_version"),
        ("Valkey", "valkey_version"),
        ("Dragonfly", "dragonfly_version"),
        ("Garnet", "garnet_version"),
        ("Redis", "redis_version"),
        ("memcached", "version"),
    ];
    let known = versions.iter().find_map(|(name, field)| Some((name, fields.get(*field)?)));
    known.map_or("unknown server".to_owned(), |(name, version)| format!("{name} {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_parsed_by_name() {
        let info =
            parse_info("# Stats\r\nexpired_keys:12\r\nodd\r\ncmdstat_get:calls=1,usec=2\r\n");
        assert_eq!(info["expired_keys"], "12");
        assert_eq!(info["cmdstat_get"], "calls=1,usec=2");
        assert_eq!(info.len(), 2);
        let stats =
            parse_stats(&["STAT pid 7".to_owned(), "STAT x a b".to_owned(), "END".to_owned()]);
        assert_eq!((stats["pid"].as_str(), stats["x"].as_str()), ("7", "a b"));
    }

    #[test]
    fn servers_are_named_by_their_figures() {
        let fields = |names: &[&str]| -> Fields {
            names.iter().map(|name| ((*name).to_owned(), "1.2".to_owned())).collect()
        };
        assert_eq!(server_name(&fields(&["redis_version", "nagi_version"])), "nagi 1.2");
        assert_eq!(server_name(&fields(&["version"])), "memcached 1.2");
        assert_eq!(server_name(&fields(&[])), "unknown server");
    }
}
