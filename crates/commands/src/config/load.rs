//! Applies the directives of files and the command line to the settings at the start.

use super::current::{Config, Renaming, find, settings};
use super::file::{Directive, Source};
use super::kinds::Origin;
use super::nearest::nearest;
use super::setting::{Place, Setting};
use std::fmt;

/// An option that cannot be applied.
#[derive(Debug)]
pub struct LoadError {
    /// The place of the option, as shown in error messages.
    pub place: String,
    /// The fault.
    pub reason: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for LoadError {}

/// Remarks about accepted options.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Names of settings that were given and have no effect.
    pub without_effect: Vec<&'static str>,
    /// Unsupported options that were skipped because of `ignore_unsupported`.
    pub left_out: Vec<String>,
}

/// Applies directives to `config`; later ones take precedence. With `ignore_unsupported`, options
/// that would prevent the start are skipped.
///
/// # Errors
/// The first option that is unknown, malformed, or not supported.
pub fn load(
    config: &Config,
    directives: &[Directive],
    ignore_unsupported: bool,
) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    for directive in directives {
        let fail = |reason| LoadError { place: directive.source.to_string(), reason };
        let setting = find(&directive.name).ok_or_else(|| fail(unknown(directive)))?;
        if matches!(setting.place, Place::User) {
            let words = directive.words.iter();
            let words: Vec<&[u8]> = match directive.source {
                // On a command line, the words of a directive are often a single argument.
                Source::CommandLine(_) => words
                    .flat_map(|it| it.split(u8::is_ascii_whitespace))
                    .filter(|word| !word.is_empty())
                    .collect(),
                // In a file, a quoted password may contain blanks.
                Source::Line { .. } => words.map(Vec::as_slice).collect(),
            };
            let line = std::iter::once(&b"user"[..]).chain(words).map(<[u8]>::to_vec).collect();
            config.add_user_line(directive.source.to_string(), line);
            continue;
        }
        if matches!(setting.place, Place::Renaming) {
            let [old, new] = directive.words.as_slice() else {
                return Err(fail(WRONG_NUMBER.to_owned()));
            };
            let place = directive.source.to_string();
            let name = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
            config.add_renaming(Renaming { place, old: name(old), new: name(new) });
            continue;
        }
        match value(setting, directive).and_then(|value| apply(config, setting, &value)) {
            Ok(()) => config.note_given(setting),
            Err(Refusal::Unsupported) if ignore_unsupported => {
                loaded.left_out.push(format!("{}: {}", directive.source, setting.summary));
            }
            Err(Refusal::Unsupported) => {
                let summary = setting.summary;
                return Err(fail(format!("{summary} (--ignore-unsupported starts without it)")));
            }
            Err(Refusal::Malformed(reason)) => return Err(fail(reason)),
        }
        if matches!(setting.place, Place::Unused) && !loaded.without_effect.contains(&setting.name)
        {
            loaded.without_effect.push(setting.name);
        }
    }
    Ok(loaded)
}

const WRONG_NUMBER: &str = "wrong number of arguments";
const NOT_TEXT: &str = "argument must be UTF-8";

/// Why an option is refused.
enum Refusal {
    /// It is not supported.
    Unsupported,
    /// It cannot be parsed.
    Malformed(String),
}

fn unknown(directive: &Directive) -> String {
    let name = &directive.name;
    let dashes = match directive.source {
        Source::CommandLine(_) => "--",
        Source::Line { .. } => "",
    };
    match nearest(name, settings().flat_map(Setting::names).chain(["include"])) {
        Some(meant) => format!("unknown option {name}; did you mean {dashes}{meant}?"),
        None => format!("unknown option {name}"),
    }
}

/// Joins the words of a directive to one value.
fn value(setting: &Setting, directive: &Directive) -> Result<String, Refusal> {
    let value = match directive.words.as_slice() {
        [word] => word.clone(),
        // `save` alone is equivalent to `save ""`.
        words if setting.kind.takes_words() => words.join(&b' '),
        _ => return Err(Refusal::Malformed(WRONG_NUMBER.to_owned())),
    };
    if setting.has_effect() {
        return String::from_utf8(value).map_err(|_| Refusal::Malformed(NOT_TEXT.to_owned()));
    }
    Ok(String::from_utf8_lossy(&value).into_owned())
}

fn apply(config: &Config, setting: &Setting, value: &str) -> Result<(), Refusal> {
    let parsed = setting.kind.parse_onto(&setting.value(config), value, Origin::Startup);
    let parsed = parsed.map_err(|fault| Refusal::Malformed(fault.into_owned()))?;
    if setting.is_refused(&parsed) {
        return Err(Refusal::Unsupported);
    }
    setting.store(config, parsed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;
    use std::path::Path;

    fn load_text(config: &Config, text: &str, ignore: bool) -> Result<Loaded, LoadError> {
        load(config, &read_text(text.as_bytes(), Path::new("x.conf")).unwrap(), ignore)
    }

    #[test]
    fn the_value_given_last_holds() {
        let config = Config::default();
        let text =
            "save\nPORT 1\nport 2\nbind 127.0.0.1 ::1\nsave 900 1\nsave 300 10\nslave-priority 3";
        let loaded = load_text(&config, text, false).unwrap();
        assert_eq!(config.port.get(), 2);
        assert_eq!(&*config.bind.get(), "127.0.0.1 ::1");
        assert_eq!(find("save").unwrap().value(&config), "900 1 300 10");
        assert_eq!(find("replica-priority").unwrap().value(&config), "3");
        assert_eq!(loaded.without_effect, ["replica-priority"]);
    }

    #[test]
    fn errors_name_the_place_of_the_option() {
        for (line, reason) in [
            ("prot 1", "unknown option prot; did you mean port?"),
            ("nothing-like-it 1", "unknown option nothing-like-it"),
            ("port", "wrong number of arguments"),
            ("port 1 2", "wrong number of arguments"),
            ("shutdown-on-sigint", "argument(s) must be one of the following: default,"),
            ("port x", "argument couldn't be parsed into an integer"),
            ("maxmemory-policy x", "argument(s) must be one of the following: noeviction,"),
            ("appendonly yes", "There is no append-only file"),
            ("tls-port 6380", "There is no TLS"),
            ("rename-command FLUSHALL", "wrong number of arguments"),
            ("loadmodule x.so", "There are no modules"),
        ] {
            let error = load_text(&Config::default(), &format!("timeout 1\n{line}"), false);
            let error = error.unwrap_err();
            assert_eq!(error.place, format!("x.conf, line 2: {line}"));
            assert!(error.reason.starts_with(reason), "{line}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_stop_the_start_only_where_text_is_needed() {
        let load_bytes = |text: &[u8]| {
            let config = Config::default();
            let loaded = load(&config, &read_text(text, Path::new("x.conf")).unwrap(), false);
            loaded.map(|_| config)
        };
        let text = b"# caf\xe9\nport 7\nsyslog-ident caf\xe9\nuser a >caf\xe9 \"+get\" \"~\\xe9\"";
        let config = load_bytes(text).unwrap();
        assert_eq!(config.port.get(), 7);
        assert_eq!(find("syslog-ident").unwrap().value(&config), "caf\u{fffd}");
        let words = &config.take_user_lines()[0].1;
        assert_eq!(words[1..], [&b"a"[..], b">caf\xe9", b"+get", b"~\xe9"]);
        let error = load_bytes(b"requirepass caf\xe9").unwrap_err();
        let expected = "x.conf, line 1: requirepass caf\u{fffd}: argument must be UTF-8";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn unsupported_settings_are_left_out_on_request() {
        let config = Config::default();
        let text = "appendonly yes\nloadmodule x.so\nreplicaof no one\ncluster-enabled no";
        let loaded = load_text(&config, text, true).unwrap();
        assert_eq!(loaded.left_out.len(), 2, "{:?}", loaded.left_out);
        assert_eq!(find("appendonly").unwrap().value(&config), "no");
    }
}
