//! The template of the process title: text with the names of variables in braces.

use std::fmt::Write as _;

/// A variable of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitleVariable {
    /// The command with which the program was started.
    Title,
    /// The first address and the port, or else the Unix socket.
    ListenAddress,
    /// The mode of the server; there is only the standard one.
    ServerMode,
    /// `port`.
    Port,
    /// `tls-port`.
    TlsPort,
    /// `unixsocket`.
    UnixSocket,
    /// The configuration file.
    ConfigFile,
    /// The state letter of the busiest worker.
    State,
    /// Requests in the last second.
    Rate,
    /// Requests since the start.
    Requests,
    /// Connections now.
    Connections,
}

/// The names of all variables; Redis lacks those after `config-file`.
const VARIABLES: [(&str, TitleVariable); 11] = [
    ("title", TitleVariable::Title),
    ("listen-addr", TitleVariable::ListenAddress),
    ("server-mode", TitleVariable::ServerMode),
    ("port", TitleVariable::Port),
    ("tls-port", TitleVariable::TlsPort),
    ("unixsocket", TitleVariable::UnixSocket),
    ("config-file", TitleVariable::ConfigFile),
    ("state", TitleVariable::State),
    ("rate", TitleVariable::Rate),
    ("requests", TitleVariable::Requests),
    ("connections", TitleVariable::Connections),
];

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Letter(char),
    Variable(TitleVariable),
}

/// Parses a template; `{{` is a literal brace. `None` if a variable is unknown or a brace is not
/// closed.
fn parse(template: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix('{').filter(|after| !after.starts_with('{')) {
            let (name, after) = after.split_once('}')?;
            let (_, variable) = VARIABLES.iter().find(|row| row.0 == name)?;
            parts.push(Part::Variable(*variable));
            rest = after;
        } else {
            parts.push(Part::Letter(letter));
            rest = rest.strip_prefix("{{").or(rest.get(letter.len_utf8()..)).unwrap_or_default();
        }
    }
    Some(parts)
}

/// Whether this is a template with a non-empty title, assuming that `{title}` may be empty.
pub(super) fn is_template(text: &str) -> bool {
    let fills = |part: &Part| *part != Part::Variable(TitleVariable::Title);
    parse(text).is_some_and(|parts| parts.iter().any(fills))
}

/// The title of a template, without trailing spaces; empty if the template is invalid.
#[must_use]
pub fn render_title(template: &str, value: impl Fn(TitleVariable) -> String) -> String {
    let mut title = String::new();
    for part in parse(template).unwrap_or_default() {
        match part {
            Part::Letter(letter) => title.push(letter),
            Part::Variable(variable) => title.push_str(&value(variable)),
        }
    }
    title.truncate(title.trim_end().len());
    title
}

/// A count in at most four letters: `950`, `1.2k`, `41k`, `1.2M`.
#[must_use]
pub fn short_count(count: u64) -> String {
    const UNITS: [char; 7] = [' ', 'k', 'M', 'G', 'T', 'P', 'E'];
    let (mut unit, mut tenths) = (0, u128::from(count) * 10);
    // Rounded down, so that no count has four digits before its unit.
    while tenths >= 10_000 {
        (unit, tenths) = (unit + 1, tenths / 1000);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match (unit, tenths) {
        (0, _) => write!(text, "{}", tenths / 10),
        (_, ..100) => write!(text, "{}.{}", tenths / 10, tenths % 10),
        _ => write!(text, "{}", tenths / 10),
    };
    text.extend(UNITS.get(unit).filter(|letter| **letter != ' '));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_with_unknown_variables_are_refused() {
        for template in ["x", "title}", "{{title}}", "{port}{title}", "{title} x", "é", "{rate}"] {
            assert!(is_template(template), "{template}");
        }
        for text in ["", "{title}", "{title", "{}", "{title} {foo}", "x{"] {
            assert!(!is_template(text), "{text}");
        }
    }

    #[test]
    fn variables_are_replaced_and_trailing_spaces_are_removed() {
        let value = |variable| match variable {
            TitleVariable::Title => "nagi".to_owned(),
            TitleVariable::Port => "6379".to_owned(),
            _ => String::new(),
        };
        assert_eq!(render_title("{title} {port} {server-mode}", value), "nagi 6379");
        assert_eq!(render_title("{{port}} {port}é", value), "{port}} 6379é");
    }

    #[test]
    fn counts_have_at_most_four_letters() {
        let counts = [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (9999, "9.9k"),
            (41_000, "41k"),
            (999_999, "999k"),
            (1_200_000, "1.2M"),
            (u64::MAX, "18E"),
        ];
        for (count, short) in counts {
            assert_eq!(short_count(count), short);
        }
    }
}
