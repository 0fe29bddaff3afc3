//! Rules about single source files.

use super::{File, Repository};

const MAX_FILE_LINES: usize = 800;
const MAX_LINE_COLUMNS: usize = 100;

/// Texts that mark unfinished work, split so that this file does not contain them.
const LEFT_OVER: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

/// Paths of code that may print. Other code reports through values, replies and the log.
const PRINTING: [&str; 6] =
    ["crates/nagi/", "crates/load/", "/benches/", "xtask/", "tests/", "/build.rs"];

/// Files whose tests may sleep: the loop of the harness that waits for conditions, its counterpart
/// in a program that cannot use the harness, and tests of clocks, whose threads do nothing for a
/// while.
const MAY_SLEEP: [&str; 4] = [
    "tests/harness/wait.rs",
    "tests/programs/rust/src/asynchronous.rs",
    "crates/store/src/sync/cpu_time.rs",
    "crates/store/src/sync/latch.rs",
];

/// Parts of the host names of package registries, which only the machine's settings may name.
const REGISTRY_HOSTS: [&str; 8] = [
    concat!("deb.", "debian.org"),
    concat!("security.", "debian.org"),
    concat!("snapshot.", "debian.org"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("registry.", "npmjs.org"),
];

pub(super) fn files_say_why_they_exist(repository: &Repository) -> Vec<String> {
    let lacks_it = |file: &&File| !file.text.starts_with("//!");
    repository
        .rust()
        .filter(lacks_it)
        .map(|file| format!("{}: no //! at the top", file.path))
        .collect()
}

pub(super) fn files_are_short(repository: &Repository) -> Vec<String> {
    // A list of test names may have any length.
    let is_list = |file: &File| file.path.starts_with("tests/conformance/");
    let source = repository.files.iter().filter(|file| is_source(file) && !is_list(file));
    let lengths = source.map(|file| (&file.path, file.text.lines().count()));
    lengths
        .filter(|&(_, lines)| lines > MAX_FILE_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines, at most {MAX_FILE_LINES}"))
        .collect()
}

pub(super) fn lines_are_short(repository: &Repository) -> Vec<String> {
    // A URL cannot be wrapped.
    let too_long =
        |line: &str| line.chars().count() > MAX_LINE_COLUMNS && !line.contains("https://");
    let wrappable = |file: &&File| is_source(file) && !file.path.ends_with(".toml");
    let source = repository.files.iter().filter(wrappable);
    source
        .flat_map(|file| at_lines(file, too_long))
        .map(|place| format!("{place}: over {MAX_LINE_COLUMNS} columns"))
        .collect()
}

pub(super) fn nothing_is_left_over(repository: &Repository) -> Vec<String> {
    let source = repository.files.iter().filter(|file| is_source(file));
    let mut found = Vec::new();
    for file in source {
        let prints = PRINTING.iter().any(|folder| file.path.contains(folder));
        let banned_print = |line: &str| !prints && line.contains(concat!("print", "ln!("));
        for text in LEFT_OVER {
            found.extend(
                at_lines(file, |line| line.contains(text)).map(|at| format!("{at}: {text}")),
            );
        }
        found.extend(at_lines(file, banned_print).map(|at| format!("{at}: prints")));
    }
    found
}

pub(super) fn tests_do_not_sleep(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    let source = repository.files.iter().filter(|file| is_source(file));
    for file in source.filter(|file| !MAY_SLEEP.contains(&file.path.as_str())) {
        let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/");
        let mut in_tests = is_test;
        for (index, line) in file.text.lines().enumerate() {
            let begins_tests = line.trim_start().starts_with("#[cfg(") && line.contains("test");
            in_tests |= begins_tests;
            let sleeps = line.contains("::sleep(") || line.contains("time.sleep");
            if in_tests && sleeps {
                found.push(format!("{}:{}: sleeps", file.path, index + 1));
            }
        }
    }
    found
}

pub(super) fn no_registry_is_named(repository: &Repository) -> Vec<String> {
    let names_one = |line: &str| REGISTRY_HOSTS.iter().any(|host| line.contains(host));
    repository
        .files
        .iter()
        .flat_map(|file| at_lines(file, names_one))
        .map(|at| format!("{at}: names a registry's host"))
        .collect()
}

fn is_source(file: &File) -> bool {
    [".rs", ".py", ".toml", ".sh"].iter().any(|ending| file.path.ends_with(ending))
}

/// Returns `path:line` for each line that `is_wrong`.
fn at_lines(file: &File, is_wrong: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    let lines = file.text.lines().enumerate();
    lines
        .filter(move |(_, line)| is_wrong(line))
        .map(|(index, _)| format!("{}:{}", file.path, index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Repository) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&Repository::of(&[(path, text)])).len()
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        assert_eq!(faults(files_say_why_they_exist, "a.rs", "//! Why.\n"), 0);
        assert_eq!(faults(files_say_why_they_exist, "a.rs", "use std::fmt;\n"), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(faults(files_are_short, "a.rs", &"\n".repeat(800)), 0);
        assert_eq!(faults(files_are_short, "a.rs", &"\n".repeat(801)), 1);
    }

    #[test]
    fn a_long_line_is_found() {
        assert_eq!(faults(lines_are_short, "a.rs", &"é".repeat(100)), 0);
        assert_eq!(faults(lines_are_short, "a.rs", &"é".repeat(101)), 1);
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(faults(nothing_is_left_over, "a.rs", "// done\n"), 0);
        for text in LEFT_OVER {
            assert_eq!(faults(nothing_is_left_over, "a.rs", text), 1, "{text}");
        }
        let print = concat!("eprint", "ln!(\"here\");");
        assert_eq!(faults(nothing_is_left_over, "crates/store/src/lib.rs", print), 1);
        assert_eq!(faults(nothing_is_left_over, "crates/nagi/src/main.rs", print), 0);
    }

    #[test]
    fn a_sleep_in_a_test_is_found() {
        let sleep = concat!("tokio::time::", "sleep(pause).await;\n");
        assert_eq!(faults(tests_do_not_sleep, "crates/a/src/lib.rs", sleep), 0);
        assert_eq!(faults(tests_do_not_sleep, "tests/string.rs", sleep), 1);
        for condition in ["test", "all(test, not(loom))"] {
            let unit = format!("#[cfg({condition})]\nmod tests {{\n{sleep}}}\n");
            assert_eq!(faults(tests_do_not_sleep, "crates/a/src/lib.rs", &unit), 1);
        }
        for path in MAY_SLEEP {
            assert_eq!(faults(tests_do_not_sleep, path, sleep), 0);
        }
    }

    #[test]
    fn the_name_of_a_registry_is_found() {
        for host in REGISTRY_HOSTS {
            assert_eq!(faults(no_registry_is_named, "README.md", host), 1, "{host}");
        }
    }
}
