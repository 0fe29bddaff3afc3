//! The path of a GET that ARCHITECTURE.md tells is the one that the code takes, and it is short.

use super::Repository;

const DOCUMENT: &str = "ARCHITECTURE.md";
const MAX_FUNCTIONS: usize = 8;

/// Reads the numbered list under the heading that ends in "path of a GET", in which an item names
/// a file and a function in backquotes: "1. `crates/server/src/epoll.rs`, `Worker::tick`: ...".
pub(super) fn is_as_told(repository: &Repository) -> Vec<String> {
    let Some(document) = repository.files.iter().find(|file| file.path == DOCUMENT) else {
        return Vec::new();
    };
    let items = items(&document.text);
    let mut found = Vec::new();
    if items.is_empty() || items.len() > MAX_FUNCTIONS {
        let count = items.len();
        found.push(format!(
            "{DOCUMENT}: the path of a GET has {count} functions, not 1 to {MAX_FUNCTIONS}"
        ));
    }
    for item in items {
        let quoted: Vec<&str> = item.split('`').skip(1).step_by(2).collect();
        let path = quoted.iter().find(|text| text.ends_with(".rs"));
        let function = quoted.iter().find(|text| !text.ends_with(".rs"));
        let (Some(path), Some(function)) = (path, function) else {
            found.push(format!("{DOCUMENT}: no file and function in backquotes: {item}"));
            continue;
        };
        let name = function.trim_end_matches("()").rsplit("::").next().unwrap_or(function);
        let defines = |text: &str| {
            [format!("fn {name}("), format!("fn {name}<")].iter().any(|it| text.contains(it))
        };
        let file = repository.files.iter().find(|file| file.path == *path);
        if !file.is_some_and(|file| defines(&file.text)) {
            found.push(format!("{DOCUMENT}: {path} has no function {name}"));
        }
    }
    found
}

/// The items of the list, each with the lines that continue it.
fn items(text: &str) -> Vec<String> {
    let is_heading = |line: &str| line.starts_with('#');
    let section = text
        .lines()
        .skip_while(|line| !(is_heading(line) && line.to_lowercase().ends_with("path of a get")))
        .skip(1)
        .take_while(|line| !is_heading(line));
    let mut items: Vec<String> = Vec::new();
    for line in section {
        let begins = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if begins {
            items.push(line.to_owned());
        } else if let Some(item) = items.last_mut().filter(|_| line.starts_with(' ')) {
            item.push_str(line);
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(list: &str) -> Vec<String> {
        let text = format!("# nagi\n\n## The path of a GET\n\nAs follows.\n\n{list}\n\n## Next\n");
        let code = "fn tick(&mut self) {}\nfn feed<'a>(x: &'a str) {}\n";
        is_as_told(&Repository::of(&[(DOCUMENT, &text), ("crates/server/src/worker.rs", code)]))
    }

    #[test]
    fn a_true_path_passes() {
        let list = "1. `crates/server/src/worker.rs`, `Worker::tick`: wakes up.\n\
                    2. `feed`: reads,\n   in `crates/server/src/worker.rs`.";
        assert_eq!(faults(list), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_is_not_there_is_found() {
        let list = "1. `crates/server/src/worker.rs`, `Worker::tock`: wakes up.";
        assert_eq!(
            faults(list),
            ["ARCHITECTURE.md: crates/server/src/worker.rs has no function tock"]
        );
        assert_eq!(faults("1. somewhere").len(), 1);
    }

    #[test]
    fn a_missing_or_long_path_is_found() {
        assert_eq!(faults("").len(), 1);
        let item = "1. `crates/server/src/worker.rs`, `tick`\n";
        assert_eq!(faults(&item.repeat(8)).len(), 0);
        assert_eq!(faults(&item.repeat(9)).len(), 1);
    }
}
