//! Every command has a test that sends it through a socket.

use super::{File, Repository};

pub(super) fn have_wire_tests(repository: &Repository) -> Vec<String> {
    let in_folder = |folder: &'static str| {
        repository.files.iter().filter(move |file| file.path.starts_with(folder))
    };
    let mut found = Vec::new();
    for file in in_folder("crates/commands/src/").filter(|file| file.path.ends_with(".rs")) {
        for name in names_of_rows(&file.text) {
            if !in_folder("tests/").any(|test| sends(test, name)) {
                found.push(format!("{}: no file in tests/ sends {name}", file.path));
            }
        }
    }
    found
}

/// The names in `name: "GET",` of the rows above a file's own tests.
fn names_of_rows(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.split("#[cfg(test)]").next().unwrap_or(text);
    rows.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("name: \"")?.strip_suffix("\",")?;
        name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_').then_some(name)
    })
}

/// Whether a test has the command, in capitals or small letters, as a string, the first word of
/// one, or, if it is a subcommand, the second word of one.
fn sends(test: &File, name: &str) -> bool {
    [name.to_owned(), name.to_lowercase()].iter().any(|name| {
        test.text.match_indices(name.as_str()).any(|(at, _)| {
            let (before, after) = (test.text.get(..at), test.text.get(at + name.len()..));
            let ends = after.is_some_and(|after| after.starts_with(['"', ' ', '\\']));
            ends && before.is_some_and(|before| {
                let line = before.rsplit('\n').next().unwrap_or(before);
                let string = line.rsplit('"').next().unwrap_or(line);
                line.contains('"') && is_word_or_nothing(string.trim_end())
            })
        })
    })
}

/// Whether what stands before a subcommand can be the command.
fn is_word_or_nothing(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(row: &str, test: &str) -> usize {
        let row = format!("    name: \"{row}\",\n");
        have_wire_tests(&Repository::of(&[
            ("crates/commands/src/string.rs", &row),
            ("tests/string.rs", test),
        ]))
        .len()
    }

    #[test]
    fn a_command_that_no_test_sends_is_found() {
        assert_eq!(faults("GET", "client.check(\"SET key value\", \"+OK\");"), 1);
        assert_eq!(faults("GET", "// GET is not sent here"), 1);
        assert_eq!(faults("GET", "client.check(\"GETDEL key\", \"\");"), 1);
        assert_eq!(faults("EX", "client.check(\"SET key value EX 1\", \"\");"), 1);
    }

    #[test]
    fn a_command_that_a_test_sends_is_not() {
        for test in ["check(\"GET key\")", "check(\"get key\")", "[\"GET\", key]", "\"get\\r\\n\""]
        {
            assert_eq!(faults("GET", test), 0, "{test}");
        }
        assert_eq!(faults("GETNAME", "check(\"CLIENT GETNAME\")"), 0);
    }
}
