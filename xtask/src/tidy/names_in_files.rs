//! Checks that items exist in the files in which documents locate them.

use super::Repository;

/// Finds text such as "`Store::cut` in `crates/store/src/snapshot/mod.rs`" if that file has no such
/// function, or no such type in case the last part of the name begins with a capital letter.
pub(super) fn are_there(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for document in repository.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (name, path) in names(&document.text) {
            let file = repository.files.iter().find(|file| file.path == path);
            if !file.is_some_and(|file| defines(&file.text, name)) {
                found.push(format!("{}: {path} has no {name}", document.path));
            }
        }
    }
    found
}

/// Returns the last part of each name, with the file that should contain it.
fn names(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    let triples: Vec<_> = parts
        .windows(3)
        .filter_map(|parts| match parts {
            [name, between, path] if matches!(between.trim(), "in" | "of") => Some((*name, *path)),
            _ => None,
        })
        .collect();
    triples.into_iter().filter_map(|(name, path)| {
        let name = name.rsplit("::").next()?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_code = path.contains('/') && path.ends_with(".rs");
        (is_code && !name.is_empty() && name.chars().all(is_name)).then_some((name, path))
    })
}

fn defines(text: &str, name: &str) -> bool {
    let is_type = name.starts_with(|letter: char| letter.is_ascii_uppercase());
    let kinds: &[&str] =
        if is_type { &["struct", "enum", "trait", "type"] } else { &["fn", "mod"] };
    kinds.iter().any(|kind| {
        let definition = format!("{kind} {name}");
        text.match_indices(&definition).any(|(at, _)| {
            let rest = text.get(at + definition.len()..).unwrap_or_default();
            !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_its_file_does_not_have_is_found() {
        let code = ("a/b.rs", "pub struct Store<'a>;\nimpl Store { pub fn cut<R>() {} }");
        let faults = |text: &str| are_there(&Repository::of(&[("docs/x.md", text), code]));
        let fine =
            "`Store::cut` in `a/b.rs`, `Store`\nin `a/b.rs`; `SET key` in `a/b.rs`, `x` in `y`";
        assert_eq!(faults(fine), Vec::<String>::new());
        assert_eq!(faults("`Store::cu` in `a/b.rs`"), ["docs/x.md: a/b.rs has no cu"]);
        assert_eq!(faults("`Sto` in `a/b.rs`").len(), 1);
        assert_eq!(faults("`cut` in `a/c.rs`").len(), 1);
    }
}
