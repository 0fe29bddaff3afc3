//! Configuration files: lines, quoting of words, and included files.

use crate::glob::Pattern;
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum depth of included files; more is treated as a cycle.
const MAX_DEPTH: usize = 16;

/// A directive of a file or the command line, with its words and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The option's name, as written.
    pub name: String,
    /// Its words, of any bytes: users' passwords and comments of old files may not be UTF-8.
    pub words: Vec<Vec<u8>>,
    /// Its place.
    pub source: Source,
}

/// The place of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On the command line, as the equivalent line of a file.
    CommandLine(String),
    /// A line of a file; `-` is the name of the standard input.
    Line {
        /// The file.
        file: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// The line, with replacements for invalid UTF-8.
        text: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::CommandLine(line) => write!(f, "'{line}'"),
            Source::Line { file, number, text } => {
                write!(f, "{}, line {number}: {text}", file.display())
            }
        }
    }
}

/// A file that cannot be read, or a line that cannot be parsed.
#[derive(Debug)]
pub struct FileError {
    /// The place of the error.
    pub place: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for FileError {}

/// Reads a file and the files that it includes, in the order of their lines.
///
/// # Errors
/// A file cannot be read, or a line has unclosed quotes.
pub fn read_file(path: &Path) -> Result<Vec<Directive>, FileError> {
    let mut directives = Vec::new();
    read_into(&mut directives, path, 0)?;
    Ok(directives)
}

/// Reads text from another source, such as the standard input.
///
/// # Errors
/// As for a file.
pub fn read_text(text: &[u8], name: &Path) -> Result<Vec<Directive>, FileError> {
    let mut directives = Vec::new();
    lines_into(&mut directives, text, name, 0)?;
    Ok(directives)
}

/// The directives of a command line, with those of the files that it includes.
///
/// # Errors
/// As for a file.
pub fn read_options(options: &[Directive]) -> Result<Vec<Directive>, FileError> {
    let mut directives = Vec::new();
    for option in options {
        take(&mut directives, option.clone(), 0)?;
    }
    Ok(directives)
}

fn read_into(directives: &mut Vec<Directive>, path: &Path, depth: usize) -> Result<(), FileError> {
    let fail = |reason: String| FileError { place: path.display().to_string(), reason };
    if depth > MAX_DEPTH {
        return Err(fail(format!("included more than {MAX_DEPTH} deep: does it include itself?")));
    }
    let text = std::fs::read(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    lines_into(directives, &text, path, depth)
}

fn lines_into(
    directives: &mut Vec<Directive>,
    text: &[u8],
    file: &Path,
    depth: usize,
) -> Result<(), FileError> {
    for (index, line) in lines(text).enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let shown = String::from_utf8_lossy(line).into_owned();
        let source = Source::Line { file: file.to_owned(), number: index + 1, text: shown };
        let fail =
            |reason: &str| FileError { place: source.to_string(), reason: reason.to_owned() };
        let mut words = split(line).ok_or_else(|| fail("unbalanced quotes"))?;
        if words.is_empty() {
            continue;
        }
        let name = String::from_utf8_lossy(&words.remove(0)).into_owned();
        take(directives, Directive { name, words, source }, depth)?;
    }
    Ok(())
}

/// Adds a directive, or for `include`, those of the included files.
fn take(
    directives: &mut Vec<Directive>,
    directive: Directive,
    depth: usize,
) -> Result<(), FileError> {
    if !directive.name.eq_ignore_ascii_case("include") {
        directives.push(directive);
        return Ok(());
    }
    let fail =
        |reason: &str| FileError { place: directive.source.to_string(), reason: reason.to_owned() };
    let [pattern] = directive.words.as_slice() else { return Err(fail("include takes one path")) };
    for path in included(&String::from_utf8_lossy(pattern)) {
        // Errors within the file have their own place.
        read_into(directives, &path, depth + 1).map_err(|error| match error.place {
            place if place == path.display().to_string() => {
                fail(&format!("{place} {}", error.reason))
            }
            place => FileError { place, ..error },
        })?;
    }
    Ok(())
}

/// The lines of a text, without their ends.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

/// The files that match a pattern, in the order of their names; a path without wildcards matches
/// itself, even if the file does not exist.
fn included(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    if !is_pattern(pattern) {
        return vec![PathBuf::from(pattern)];
    }
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if is_pattern(part) {
            found = found.iter().flat_map(|folder| matching(folder, part)).collect();
        } else {
            found.iter_mut().for_each(|path| path.push(part));
            found.retain(|path| path.exists());
        }
    }
    found
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The files in a folder that match a pattern; hidden files only if the pattern begins with a dot
/// as well.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(listed).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('.') || pattern.starts_with('.'))
        .filter(|name| Pattern::new(pattern.as_bytes()).matches(name.as_bytes()))
        .collect();
    names.sort();
    names.iter().map(|name| folder.join(name)).collect()
}

/// Splits a line into words. Within double quotes a backslash begins an escape of C or `\xHH`,
/// within single quotes it makes a single quote literal; a word ends where its quote does. `None`
/// if a quote does not end, or if a word goes on after it.
#[must_use]
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.iter().copied().peekable();
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        let Some(first) = rest.next() else { return Some(words) };
        let mut word = Vec::new();
        let mut next = Some(first);
        while let Some(byte) = next.filter(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'"' => double_quoted(&mut rest, &mut word)?,
                b'\'' => single_quoted(&mut rest, &mut word)?,
                byte => word.push(byte),
            }
            if matches!(byte, b'"' | b'\'') {
                if rest.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return None;
                }
                break;
            }
            next = rest.next();
        }
        words.push(word);
    }
}

type Bytes<'a> = std::iter::Peekable<std::iter::Copied<std::slice::Iter<'a, u8>>>;

fn double_quoted(rest: &mut Bytes<'_>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match rest.next()? {
            b'"' => return Some(()),
            b'\\' => match rest.next()? {
                b'n' => word.push(b'\n'),
                b'r' => word.push(b'\r'),
                b't' => word.push(b'\t'),
                b'b' => word.push(8),
                b'a' => word.push(7),
                b'x' => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    match (rest.next().and_then(digit), rest.next().and_then(digit)) {
                        (Some(high), Some(low)) => word.extend(u8::try_from(high * 16 + low)),
                        _ => return None,
                    }
                }
                byte => word.push(byte),
            },
            byte => word.push(byte),
        }
    }
}

fn single_quoted(rest: &mut Bytes<'_>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match rest.next()? {
            b'\'' => return Some(()),
            b'\\' if rest.next_if_eq(&b'\'').is_some() => word.push(b'\''),
            byte => word.push(byte),
        }
    }
}

/// Quotes a word for a file: in double quotes if it would be ambiguous otherwise, and with invalid
/// UTF-8 as escapes.
pub(super) fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && !word.starts_with(b"#") && word.iter().all(is_plain) {
        return word.iter().copied().map(char::from).collect();
    }
    let mut quoted = String::from("\"");
    for chunk in word.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => quoted.extend(['\\', letter]),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                letter if letter.is_ascii_control() => {
                    quoted.push_str(&format!("\\x{:02x}", u32::from(letter)));
                }
                letter => quoted.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| quoted.push_str(&format!("\\x{byte:02x}")));
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        let Some(words) = split(line.as_bytes()) else { return vec!["UNBALANCED".to_owned()] };
        words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_are_quoted_as_in_redis() {
        assert_eq!(words("  port\t7000 "), ["port", "7000"]);
        assert_eq!(words(r#"a "b c" 'd "e' "" f"#), ["a", "b c", "d \"e", "", "f"]);
        assert_eq!(words(r#""\x41\n\"\\" 'it\'s \n'"#), ["A\n\"\\", "it's \\n"]);
        for unbalanced in [r#"a "b"#, "a 'b", r#""a"b"#, "'a'b", r#""a\"#, r#""\x4""#] {
            assert_eq!(words(unbalanced), ["UNBALANCED"], "{unbalanced}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_read_back_unchanged(word in "\\PC*|[ \"'\\\\#\n\r\t\u{1}a]*") {
            let word = word.into_bytes();
            prop_assert_eq!(split(quoted(&word).as_bytes()), Some(vec![word]));
        }

        #[test]
        fn so_is_one_of_any_bytes(word: Vec<u8>) {
            prop_assert_eq!(split(quoted(&word).as_bytes()), Some(vec![word]));
        }
    }

    #[test]
    fn options_have_the_file_and_line_that_they_were_given_in() {
        let text = "# comment\n\n  port 7000\r\nsave \"\"\n";
        let directives = read_text(text.as_bytes(), Path::new("some.conf")).unwrap();
        let shown: Vec<_> = directives.iter().map(|it| it.source.to_string()).collect();
        assert_eq!(shown, ["some.conf, line 3: port 7000", "some.conf, line 4: save \"\""]);
        assert_eq!(directives[1].words, [b""]);
        let error = read_text(b"port 1\nbind \"x", Path::new("-")).unwrap_err();
        assert_eq!(error.to_string(), "-, line 2: bind \"x: unbalanced quotes");
    }

    #[test]
    fn files_include_other_files() {
        let folder = std::env::temp_dir().join(format!("nagi-include-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("d")).unwrap();
        let path = |name: &str| folder.join(name);
        let include = |name: &str| format!("include {}\n", path(name).display());
        std::fs::write(path("d/2.conf"), "b 2\n").unwrap();
        std::fs::write(path("d/1.conf"), "a 1\n").unwrap();
        std::fs::write(path("d/.hidden.conf"), "hidden 1\n").unwrap();
        let main = format!("{}{}last 1\n", include("d/*.conf"), include("none/*.conf"));
        std::fs::write(path("main"), main).unwrap();
        let names: Vec<_> =
            read_file(&path("main")).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "b", "last"]);
        std::fs::write(path("broken"), format!("a 1\n{}", include("missing"))).unwrap();
        let error = read_file(&path("broken")).unwrap_err().to_string();
        let line = format!("{}, line 2: {}", path("broken").display(), include("missing").trim());
        let missing = path("missing").display().to_string();
        assert!(error.starts_with(&format!("{line}: {missing} cannot be read:")), "{error}");
        std::fs::write(path("circle"), include("circle")).unwrap();
        let error = read_file(&path("circle")).unwrap_err();
        assert!(error.reason.contains("include itself"), "{error}");
        std::fs::write(path("missing"), include("nothing")).unwrap();
        let error = read_file(&path("missing")).unwrap_err();
        assert!(error.place.ends_with("nothing"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
