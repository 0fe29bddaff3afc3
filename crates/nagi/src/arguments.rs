//! The words of a command line that starts a server, read as redis-server reads them: perhaps a
//! file, then options, each with the words as far as the next one.

use nagi_server::config::{Directive, Source};
use std::path::PathBuf;

/// What a command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The file to read; `-` stands for the standard input.
    pub(crate) file: Option<PathBuf>,
    /// Whether to read the standard input after the file.
    pub(crate) stdin: bool,
    /// The options of the command line, in their order.
    pub(crate) options: Vec<Directive>,
    /// Where to write the addresses that it listens on.
    pub(crate) ports_file: Option<PathBuf>,
    /// Whether options that promise what is not there are left out.
    pub(crate) ignore_unsupported: bool,
    /// What to print instead of serving.
    pub(crate) print: Option<Print>,
}

/// What is printed instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    Help,
    Version,
}

/// Reads the words behind the program's name and `serve`.
pub(crate) fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut rest = words;
    if let Some((file, options)) = words.split_first().filter(|(word, _)| !is_option(word)) {
        arguments.file = Some(PathBuf::from(file));
        rest = options;
    }
    if let Some((last, options)) = rest.split_last().filter(|(last, _)| *last == "-") {
        debug_assert_eq!(last, "-");
        arguments.stdin = true;
        rest = options;
    }
    while let Some((option, behind)) = rest.split_first() {
        let count = behind.iter().take_while(|word| !word.starts_with("--")).count();
        let (values, next) = behind.split_at_checked(count).unwrap_or((behind, &[]));
        rest = next;
        arguments.take(option, values)?;
    }
    Ok(arguments)
}

/// Whether a command line's first word is no file.
fn is_option(word: &str) -> bool {
    word.starts_with("--") || matches!(word, "-h" | "-v" | "-V")
}

impl Arguments {
    fn take(&mut self, option: &str, values: &[String]) -> Result<(), String> {
        let name = match option {
            "-h" => "help",
            "-v" | "-V" => "version",
            _ => option.strip_prefix("--").ok_or_else(|| {
                format!("{option} is not an option; options begin with --, see nagi serve --help")
            })?,
        };
        let (name, mut words) = match name.split_once('=') {
            Some((name, value)) => (name, vec![value.to_owned()]),
            None => (name, Vec::new()),
        };
        words.extend_from_slice(values);
        match (name, words.as_slice()) {
            ("help", []) => self.print = self.print.or(Some(Print::Help)),
            ("version", []) => self.print = self.print.or(Some(Print::Version)),
            ("ignore-unsupported", []) => self.ignore_unsupported = true,
            ("ports-file", [path]) => self.ports_file = Some(PathBuf::from(path)),
            ("help" | "version" | "ignore-unsupported", _) => {
                return Err(format!("--{name} takes no value"));
            }
            ("ports-file", _) => return Err("--ports-file takes one path".to_owned()),
            _ => {
                let spelled: Vec<&str> = std::iter::once(option)
                    .chain(values.iter().map(String::as_str))
                    .map(|word| if word.is_empty() { "\"\"" } else { word })
                    .collect();
                let source = Source::CommandLine(spelled.join(" "));
                self.options.push(Directive { name: name.to_owned(), words, source });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            .map(|it| (it.name.as_str(), it.words.join("|"), format!("{:?}", it.source)))
            .collect();
        let spelled = |text: &str| format!("CommandLine({text:?})");
        assert_eq!(
            shown,
            [
                ("bind", "127.0.0.1|-::1".to_owned(), spelled("--bind 127.0.0.1 -::1")),
                ("save", String::new(), spelled("--save \"\"")),
                ("port", "7".to_owned(), spelled("--port=7")),
                ("daemonize", "no".to_owned(), spelled("--daemonize no")),
            ]
        );
        assert_eq!(arguments.options[1].words, [""]);
        assert_eq!(arguments.file, None);
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
        for line in ["--help x", "--ports-file", "a.conf b.conf"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(parse(&words).is_err(), "{line}");
        }
    }
}
