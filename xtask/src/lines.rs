//! `cargo xtask lines`: counts the lines of code of crates, without tests, comments and blank
//! lines, in the working tree or in another revision for comparison.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::rust_source::imports::{Source, module_of, test_only_modules};
use crate::rust_source::tokens::{tokenize, without_tests};
use crate::{process, workspace};

/// The crates that are counted by default.
const COUNTED: [&str; 3] = ["store", "commands", "server"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folders in crates/ [default: store commands server]
    crates: Vec<String>,
    /// Count in this revision instead of the working tree
    #[arg(long)]
    revision: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let named: Vec<&str> = arguments.crates.iter().map(String::as_str).collect();
    let names = if named.is_empty() { &COUNTED[..] } else { &named };
    let mut total = 0;
    for name in names {
        let folder = format!("crates/{name}/src/");
        let files = read(&folder, arguments.revision.as_deref())?;
        if files.is_empty() {
            bail!("there are no files in {folder}");
        }
        let sources = files
            .iter()
            .filter_map(|(path, text)| Some(Source { path: path.strip_prefix(&folder)?, text }));
        let lines = code_lines(&sources.collect::<Vec<_>>());
        println!("{lines:>7} {name}");
        total += lines;
    }
    println!("{total:>7} in all");
    Ok(())
}

/// Returns the paths and texts of the Rust files in a folder, in `revision` or in the working tree.
fn read(folder: &str, revision: Option<&str>) -> Result<Vec<(String, String)>> {
    let git = |arguments: &[&str]| {
        process::output(Command::new("git").args(arguments).current_dir(workspace::root()))
    };
    let listing = match revision {
        Some(revision) => git(&["ls-tree", "-r", "-z", "--name-only", revision, folder])?,
        None => git(&["ls-files", "--cached", "--others", "--exclude-standard", "-z", folder])?,
    };
    let paths = listing.split('\0').filter(|path| path.ends_with(".rs"));
    let text = |path: &str| match revision {
        Some(revision) => git(&["show", &format!("{revision}:{path}")]),
        None => fs::read_to_string(workspace::root().join(path)).context(path.to_owned()),
    };
    paths.map(|path| Ok((path.to_owned(), text(path)?))).collect()
}

/// Returns the number of lines that contain code, except code for tests.
fn code_lines(sources: &[Source]) -> usize {
    let in_tests = test_only_modules(sources);
    let is_counted = |source: &&Source| {
        let module = module_of(source.path);
        !in_tests.iter().any(|test| module.starts_with(test))
    };
    sources.iter().filter(is_counted).map(|source| lines_of(source.text)).sum()
}

fn lines_of(text: &str) -> usize {
    let tokens = without_tests(&tokenize(text));
    let lines = tokens.iter().flat_map(|token| {
        let inside = token.text.lines().count().saturating_sub(1);
        token.line..=token.line + inside
    });
    lines.collect::<BTreeSet<usize>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_not_counted() {
        let text = "//! Why.\n\nfn a() { // b\n    /* c\n d */\n    \"e\n    f\"\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        assert_eq!(lines_of(text), 4);
    }

    #[test]
    fn files_of_tests_are_not_counted() {
        let source = |path, text| Source { path, text };
        let counted = code_lines(&[
            source("lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            source("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests;\n"),
            source("a/tests.rs", "fn b() {}\n"),
            source("tests/mod.rs", "mod c;\n"),
            source("tests/c.rs", "fn c() {}\n"),
        ]);
        assert_eq!(counted, 2);
    }
}
