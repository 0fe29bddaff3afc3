//! The command line of a server, parsed as by redis-server: an optional file, then options, each
//! with the arguments up to the next one.

use nagi_server::config::{Directive, Place, Source, find, split};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The parsed command line of a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The file to read; `-` stands for the standard input.
    pub(crate) file: Option<PathBuf>,
    /// Whether to read the standard input after the file.
    pub(crate) stdin: bool,
    /// The options of the command line, in their order.
    pub(crate) options: Vec<Directive>,
    /// The file to write the server's addresses to.
    pub(crate) ports_file: Option<PathBuf>,
    /// Whether unsupported options are ignored instead of refused.
    pub(crate) ignore_unsupported: bool,
    /// The text to print instead of serving.
    pub(crate) print: Option<Print>,
}

/// A text that is printed instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    Help,
    Version,
}

/// Parses the words after the program's name and `serve`. After an option's name the next word is
/// its value even if it begins with `--`, as with redis-server, except for `save`; further values
/// end at the next option. An option and its values may also be one word: `"--port 7000"`.
pub(crate) fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut rest = words;
    if let Some((file, options)) = words.split_first().filter(|(word, _)| !is_option(word)) {
        arguments.file = Some(PathBuf::from(file));
        rest = options;
    }
    if let Some((_, options)) = rest.split_last().filter(|(last, _)| *last == "-") {
        arguments.stdin = true;
        rest = options;
    }
    while let Some((word, after)) = rest.split_first() {
        let (name, mut values) = option(word)?;
        let takes_next = values.is_empty() && !takes_nothing(&name) && name != "save";
        let first = usize::from(takes_next && !after.is_empty());
        let further = after.iter().skip(first).take_while(|word| !word.starts_with("--"));
        let count = first + further.count();
        let (own, next) = after.split_at_checked(count).unwrap_or((after, &[]));
        values.extend(own.iter().map(|word| word.clone().into_bytes()));
        rest = next;
        arguments.take(name, values)?;
    }
    Ok(arguments)
}

/// Whether the first word of a command line is an option, not a file.
fn is_option(word: &str) -> bool {
    word.starts_with("--") || matches!(word, "-h" | "-v" | "-V")
}

/// Whether an option takes no value.
fn takes_nothing(name: &str) -> bool {
    matches!(name, "help" | "version" | "ignore-unsupported")
}

/// The name of the option in a word, and the values in the same word.
fn option(word: &str) -> Result<(String, Vec<Vec<u8>>), String> {
    match word {
        "-h" => return Ok(("help".to_owned(), Vec::new())),
        "-v" | "-V" => return Ok(("version".to_owned(), Vec::new())),
        _ => {}
    }
    let line = word.strip_prefix("--").unwrap_or(word);
    // The shell has already removed quotes from a value after `=`.
    if let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_name(name)) {
        return Ok((name.to_owned(), values_of(name, value)));
    }
    let parts = split(line.as_bytes()).ok_or_else(|| format!("{word}: unbalanced quotes"))?;
    let mut parts = parts.into_iter();
    let name = String::from_utf8_lossy(&parts.next().unwrap_or_default()).into_owned();
    Ok((name, parts.collect()))
}

/// Whether text has only characters of options' names.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The words of a value after `=`: several of a setting that takes several.
fn values_of(name: &str, value: &str) -> Vec<Vec<u8>> {
    let setting = find(name);
    let takes_words =
        setting.is_some_and(|it| it.kind.takes_words() || matches!(it.place, Place::Renaming));
    match takes_words {
        true if !value.is_empty() => value.split_whitespace().map(Into::into).collect(),
        _ => vec![value.into()],
    }
}

impl Arguments {
    fn take(&mut self, name: String, words: Vec<Vec<u8>>) -> Result<(), String> {
        match (name.as_str(), words.as_slice()) {
            ("help", []) => self.print = self.print.or(Some(Print::Help)),
            ("version", []) => self.print = self.print.or(Some(Print::Version)),
            ("ignore-unsupported", []) => self.ignore_unsupported = true,
            ("ports-file", [path]) => {
                self.ports_file = Some(PathBuf::from(OsStr::from_bytes(path)));
            }
            ("ports-file", _) => return Err("--ports-file takes one path".to_owned()),
            (flag, _) if takes_nothing(flag) => return Err(format!("--{flag} takes no value")),
            _ => {
                let shown = words.iter().map(|word| String::from_utf8_lossy(word));
                let quoted: String = shown.map(|word| format!(" {word:?}")).collect();
                let source = Source::CommandLine(format!("{name}{quoted}"));
                self.options.push(Directive { name, words, source });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[Vec<u8>]) -> String {
        String::from_utf8(words.join(&b'|')).unwrap()
    }

    fn parsed(line: &str) -> Arguments {
        let words: Vec<String> = line.split(' ').map(|word| word.replace("''", "")).collect();
        parse(&words).unwrap()
    }

    #[test]
    fn an_option_has_the_words_up_to_the_next() {
        let arguments = parsed("--bind 127.0.0.1 -::1 --save '' --port=7 --daemonize no");
        let shown: Vec<_> = arguments
            .options
            .iter()
            .map(|it| (it.name.as_str(), joined(&it.words), format!("{:?}", it.source)))
            .collect();
        let spelled = |text: &str| format!("CommandLine({text:?})");
        assert_eq!(
            shown,
            [
                ("bind", "127.0.0.1|-::1".to_owned(), spelled("bind \"127.0.0.1\" \"-::1\"")),
                ("save", String::new(), spelled("save \"\"")),
                ("port", "7".to_owned(), spelled("port \"7\"")),
                ("daemonize", "no".to_owned(), spelled("daemonize \"no\"")),
            ]
        );
        assert_eq!(arguments.options[1].words, [b""]);
        assert_eq!(arguments.file, None);
    }

    #[test]
    fn odd_spellings_are_those_of_redis() {
        let shown = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let options = parse(&words).unwrap().options;
            options.iter().map(|it| it.source.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&["--port", "--bla", "--io", "x"]), "'port \"--bla\"' 'io \"x\"'");
        assert_eq!(shown(&["--save", "--port", "1"]), "'save' 'port \"1\"'");
        assert_eq!(shown(&["--port 1", "--io 'x y'"]), "'port \"1\"' 'io \"x y\"'");
        assert_eq!(shown(&["a.conf", "io", "x"]), "'io \"x\"'");
        assert_eq!(shown(&["--port"]), "'port'");
        // After `=`, the shell has removed the quotes, and blanks separate only several values.
        assert_eq!(shown(&["--requirepass=a'b' \"c"]), "'requirepass \"a'b' \\\"c\"'");
        assert_eq!(shown(&["--save=60 10"]), "'save \"60\" \"10\"'");
        assert_eq!(shown(&["--save="]), "'save \"\"'");
        assert_eq!(shown(&["--bind=127.0.0.1 -::1"]), "'bind \"127.0.0.1\" \"-::1\"'");
    }

    #[test]
    fn a_file_comes_first_and_the_standard_input_last() {
        let arguments = parsed("some.conf --port 1 -");
        assert_eq!(arguments.file, Some("some.conf".into()));
        assert!(arguments.stdin);
        assert_eq!(arguments.options.len(), 1);
        assert_eq!(parsed("-").file, Some("-".into()));
    }

    #[test]
    fn what_is_no_setting() {
        let arguments = parsed("--ports-file p --ignore-unsupported");
        assert_eq!(arguments.ports_file, Some("p".into()));
        assert!(arguments.ignore_unsupported && arguments.options.is_empty());
        assert_eq!(parsed("-h").print, Some(Print::Help));
        assert_eq!(parsed("--port 1 --version").print, Some(Print::Version));
        for line in ["--help x", "--ports-file"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(parse(&words).is_err(), "{line}");
        }
    }
}
