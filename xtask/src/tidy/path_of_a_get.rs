//! Checks that the path of a GET described in ARCHITECTURE.md matches the code and is short.

use super::Repository;

const DOCUMENT: &str = "ARCHITECTURE.md";
const MAX_STEPS: usize = 8;
const MAX_FUNCTIONS: usize = 26;

/// A function that the document names.
struct Named<'a> {
    path: &'a str,
    function: &'a str,
    /// The text that calls the function.
    call: String,
}

/// Checks the numbered list under the heading that ends in "path of a GET". An item names in
/// backquotes a file and some of its functions in the order in which they are called, optionally
/// followed by more files and functions: "1. `crates/server/src/epoll.rs`: `turn` → `receive`." A
/// function that is called through a value is followed by the text of the call: "`get`, called as
/// `(row.run)(`".
///
/// Each function must be in its file, and all except the first must be called in the body of a
/// function before it.
pub(super) fn is_as_told(repository: &Repository) -> Vec<String> {
    let Some(document) = repository.files.iter().find(|file| file.path == DOCUMENT) else {
        return Vec::new();
    };
    let items = items(&document.text);
    let mut found = Vec::new();
    let mut named = Vec::new();
    for item in &items {
        match functions(item) {
            Some(functions) => named.extend(functions),
            None => found.push(format!("{DOCUMENT}: no file and function in backquotes: {item}")),
        }
    }
    let (steps, functions) = (items.len(), named.len());
    if steps == 0 || steps > MAX_STEPS || functions > MAX_FUNCTIONS {
        found.push(format!(
            "{DOCUMENT}: the path of a GET has {steps} steps and {functions} functions, not 1 to \
             {MAX_STEPS} and at most {MAX_FUNCTIONS}"
        ));
    }
    let mut bodies = String::new();
    for (index, Named { path, function, call }) in named.iter().enumerate() {
        let file = repository.files.iter().find(|file| file.path == *path);
        let body = file.map_or(String::new(), |file| bodies_of(&file.text, function));
        if body.is_empty() {
            found.push(format!("{DOCUMENT}: {path} has no function {function}"));
        } else if index > 0 && !calls(&bodies, call) {
            found.push(format!("{DOCUMENT}: nothing before {path}, {function} calls {call}"));
        }
        bodies.push_str(&body);
    }
    found
}

/// Returns the functions that an item names; `None` if there are none, or one precedes the first
/// file.
fn functions(item: &str) -> Option<Vec<Named<'_>>> {
    let mut named: Vec<Named<'_>> = Vec::new();
    let mut path = None;
    for text in item.split('`').skip(1).step_by(2) {
        if text.contains('/') {
            path = Some(text);
        } else if text.ends_with('(') {
            text.clone_into(&mut named.last_mut()?.call);
        } else if text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            named.push(Named { path: path?, function: text, call: format!("{text}(") });
        }
    }
    Some(named).filter(|named| !named.is_empty())
}

/// Returns the text of all functions with a name, from the name to the closing brace, which has the
/// same indentation as the first line.
fn bodies_of(text: &str, function: &str) -> String {
    let begins = [format!("fn {function}("), format!("fn {function}<")];
    let mut bodies = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((_, rest)) = begins.iter().find_map(|begin| line.split_once(begin.as_str()))
        else {
            continue;
        };
        bodies.push_str(rest);
        bodies.push('\n');
        let indent = line.len() - line.trim_start().len();
        let end = format!("{:indent$}}}", "");
        if line.ends_with(['}', ';']) {
            continue;
        }
        for line in lines.by_ref().take_while(|line| *line != end) {
            bodies.push_str(line);
            bodies.push('\n');
        }
    }
    bodies
}

/// Whether `text` contains `call` as a whole word.
fn calls(text: &str, call: &str) -> bool {
    text.match_indices(call).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

/// Returns the items of the list, each with its continuation lines.
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

    const WORKER: &str = "crates/server/src/worker.rs";
    const CODE: &str = r#"
impl Worker {
    fn tick(&mut self) {
        self.feed("");
    }

    fn feed<'a>(x: &'a str) {
        if x {
            (row.run)(x)
        }
    }
}

fn get(x: &str) {}

fn other() {
    send();
}

fn send() {}
"#;

    fn faults(list: &str) -> Vec<String> {
        let text = format!("# nagi\n\n## The path of a GET\n\nAs follows.\n\n{list}\n\n## Next\n");
        is_as_told(&Repository::of(&[(DOCUMENT, &text), (WORKER, CODE)]))
    }

    #[test]
    fn a_true_path_passes() {
        let list = "1. `crates/server/src/worker.rs`: `tick` wakes up; `feed`\n   reads.\n\
                    2. `get`, called as `(row.run)(`, in `crates/server/src/worker.rs`.";
        assert_eq!(faults(list).len(), 1, "the file of a function stands before it");
        let list = "1. `crates/server/src/worker.rs`: `tick` wakes up; `feed`\n   reads.\n\
                    2. In `crates/server/src/worker.rs`, `get`, called as `(row.run)(`.";
        assert_eq!(faults(list), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_is_not_there_is_found() {
        assert_eq!(
            faults("1. `crates/server/src/worker.rs`, `tock` wakes up."),
            ["ARCHITECTURE.md: crates/server/src/worker.rs has no function tock"]
        );
        assert_eq!(faults("1. somewhere").len(), 1);
    }

    #[test]
    fn a_function_that_nothing_before_it_calls_is_found() {
        let nothing = |function: &str, call: &str| {
            [format!("ARCHITECTURE.md: nothing before {WORKER}, {function} calls {call}")]
        };
        let path = |functions: &str| faults(&format!("1. `{WORKER}`: {functions}"));
        assert_eq!(path("`tick` → `send`"), nothing("send", "send("));
        assert_eq!(path("`tick` → `feed` → `get`"), nothing("get", "get("));
        assert_eq!(path("`feed` → `tick`"), nothing("tick", "tick("));
        assert_eq!(path("`other` → `send`"), Vec::<String>::new());
        assert!(!calls("resend()", "send("));
    }

    #[test]
    fn a_missing_or_long_path_is_found() {
        assert_eq!(faults("").len(), 1);
        let item = "1. `crates/server/src/worker.rs`, `other`, called as `send(`\n";
        assert_eq!(faults(&item.repeat(8)).len(), 0);
        assert_eq!(faults(&item.repeat(9)).len(), 1);
        let item = format!("1. `{WORKER}` {}", "`other`, called as `send(`".repeat(27));
        assert_eq!(faults(&item).len(), 1);
    }
}
