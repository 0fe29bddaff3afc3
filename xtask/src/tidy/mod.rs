//! `cargo xtask tidy`: checks the repository's rules that rustfmt and clippy cannot check.
//!
//! A rule is a function from the repository's files to their violations. Each rule has a test in
//! which it finds a violation.

mod documents;
mod edges;
mod modules;
mod names_in_files;
mod path_of_a_get;
mod persons;
mod source;
mod unsafe_code;

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{process, workspace};

/// The name of a rule, and the function that returns its violations, one line each.
type Rule = (&'static str, fn(&Repository) -> Vec<String>);

const RULES: [Rule; 14] = [
    ("every Rust file opens with a comment on why it exists", source::files_say_why_they_exist),
    ("files are short", source::files_are_short),
    ("lines are short", source::lines_are_short),
    ("no unfinished code is left", source::nothing_is_left_over),
    ("tests wait for conditions", source::tests_do_not_sleep),
    ("no registry's host is named", source::no_registry_is_named),
    ("crates depend only along the design's edges", edges::follow_the_design),
    ("modules use each other only along the design's edges", modules::follow_the_design),
    ("files import in one direction", modules::files_import_in_one_direction),
    ("unsafe code stays where it is listed", unsafe_code::stays_where_listed),
    ("the path of a GET in ARCHITECTURE.md is true, and short", path_of_a_get::is_as_told),
    ("names and comments speak of no persons", persons::are_not_the_subject),
    ("documents mention only existing files", documents::mentioned_paths_exist),
    ("names that documents place in a file are in it", names_in_files::are_there),
];

/// The text files under version control, and new files that git does not ignore.
#[derive(Default)]
struct Repository {
    files: Vec<File>,
    /// Paths of files that are not text.
    others: Vec<String>,
}

/// A text file.
struct File {
    /// Path relative to the root, with `/` as separator.
    path: String,
    text: String,
}

impl Repository {
    fn read() -> Result<Self> {
        let listing = process::output(
            Command::new("git")
                .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
                .current_dir(workspace::root()),
        )?;
        let paths = listing.split('\0').filter(|path| !path.is_empty());
        let mut repository = Self::default();
        for path in paths.map(str::to_owned) {
            let place = workspace::root().join(&path);
            // A file that is not text, or that is deleted but not yet committed, is not checked.
            match fs::read_to_string(&place) {
                Ok(text) => repository.files.push(File { path, text }),
                Err(_) if place.is_file() => repository.others.push(path),
                Err(_) => {}
            }
        }
        Ok(repository)
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Whether `path` is a file or a folder.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let paths = self.files.iter().map(|file| &file.path).chain(&self.others);
        let mut rests = paths.filter_map(|it| it.strip_prefix(path));
        rests.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Self { files: files.iter().map(file).collect(), others: Vec::new() }
    }
}

/// Prints the imports between the modules of a crate, and the cycles among its files.
pub(crate) fn print_imports(name: &str) -> Result<()> {
    print!("{}", modules::describe(&Repository::read()?, name));
    Ok(())
}

/// Checks every rule. Fails if there are violations, and names all of them.
pub(crate) fn run() -> Result<()> {
    let repository = Repository::read()?;
    let mut findings = 0;
    for (name, rule) in RULES {
        let found = rule(&repository);
        if !found.is_empty() {
            eprintln!("tidy: {name}:\n  {}", found.join("\n  "));
        }
        findings += found.len();
    }
    if findings > 0 {
        bail!("tidy found {findings} problems");
    }
    println!("tidy: {} rules, {} files, nothing found", RULES.len(), repository.files.len());
    Ok(())
}
