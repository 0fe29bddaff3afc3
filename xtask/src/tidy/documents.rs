//! Checks that documents make true statements about the repository.

use super::{File, Repository};

/// Folders of the repository. Text in backquotes that starts with one of them is a path.
const FOLDERS: [&str; 8] =
    ["crates/", "tests/", "xtask/", "docs/", "bench/", "fuzz/", ".ci/", ".cargo/"];

pub(super) fn mentioned_paths_exist(repository: &Repository) -> Vec<String> {
    let documents = repository.files.iter().filter(|file| file.path.ends_with(".md"));
    let mut found = Vec::new();
    for document in documents {
        for path in mentioned_paths(document) {
            if !repository.has(path) && !repository.has(&relative(document, path)) {
                found.push(format!("{}: {path} does not exist", document.path));
            }
        }
    }
    found
}

/// Returns text in backquotes that is a path in the repository, and the targets of links to files.
fn mentioned_paths(document: &File) -> impl Iterator<Item = &str> {
    let quoted = document.text.split('`').skip(1).step_by(2);
    let quoted = quoted.filter(|text| {
        !text.contains([' ', '*', '{', '<', '\n']) && FOLDERS.iter().any(|it| text.starts_with(it))
    });
    let linked = document.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let linked = linked.filter(|target| !target.contains("://") && !target.starts_with('#'));
    quoted.chain(linked).map(|path| path.split(['#', ':']).next().unwrap_or(path))
}

/// Resolves `path` relative to the folder of `document`.
fn relative(document: &File, path: &str) -> String {
    let mut folder: Vec<&str> = document.path.split('/').collect();
    folder.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(folder.pop()),
            "." => {}
            part => folder.push(part),
        }
    }
    folder.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let text = "See `crates/a/src/lib.rs`, [b](b.md), `crates/c/`, [up](../README.md).";
        let document = ("docs/guide.md", text);
        let all = [document, ("crates/a/src/lib.rs", ""), ("docs/b.md", ""), ("README.md", "")];
        assert_eq!(
            mentioned_paths_exist(&Repository::of(&all)),
            ["docs/guide.md: crates/c/ does not exist"]
        );
        assert_eq!(mentioned_paths_exist(&Repository::of(&[document])).len(), 4);
    }
}
