//! Checks that names and comments refer to threads, clients and callers, not to persons.

use super::{File, Repository};

/// Words that may not be in the name of a function or in a comment.
const PRONOUNS: [&str; 3] = ["nobody", "somebody", "everybody"];
/// Words that may not be in the name of a function or begin a sentence of a comment.
const SUBJECTS: [&str; 3] = ["who", "whom", "whoever"];

pub(super) fn are_not_the_subject(repository: &Repository) -> Vec<String> {
    repository.rust().flat_map(faults).collect()
}

fn faults(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let wrong = match line.trim_start().strip_prefix("//") {
            Some(comment) => in_comment(comment),
            None => in_name(line),
        };
        found.extend(wrong.map(|word| format!("{}:{}: {word}", file.path, index + 1)));
    }
    found
}

/// Returns the first word of a comment's line that is not allowed. Text in backquotes is ignored.
fn in_comment(comment: &str) -> Option<&str> {
    let is_wrong = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let begins_a_sentence = word.starts_with(|letter: char| letter.is_ascii_uppercase());
        PRONOUNS.contains(&&*lower) || begins_a_sentence && SUBJECTS.contains(&&*lower)
    };
    let unquoted = comment.split('`').step_by(2);
    let mut words = unquoted.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()));
    words.find(|word| is_wrong(word))
}

/// Returns the name of the function that a line defines, if the name is not allowed.
fn in_name(line: &str) -> Option<&str> {
    let before_name = line.find("fn ").filter(|at| {
        let before = line.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with(' ')
    })?;
    let name = line.get(before_name + "fn ".len()..)?;
    let name = name.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()?;
    let mut words = name.split('_');
    words.any(|word| PRONOUNS.contains(&word) || SUBJECTS.contains(&word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        are_not_the_subject(&Repository::of(&[(path, text)]))
    }

    #[test]
    fn persons_in_comments_are_found() {
        let fine = "/// A reader waits: it is known who. The user `nobody` is not a person.\n\
                    let user = \"nobody\"; // Whole lines only.\n";
        assert_eq!(faults_of("a.rs", fine), Vec::<String>::new());
        for text in ["// Who waits.\n", "//! Yes. Whoever waits.\n", "    /// It is nobody's.\n"] {
            assert_eq!(faults_of("a.rs", text).len(), 1, "{text}");
        }
        assert_eq!(faults_of("a.rs", "\n// For somebody.\n"), ["a.rs:2: somebody"]);
    }

    #[test]
    fn persons_in_names_are_found() {
        let fine = "fn whole() {}\nlet answer = fnord(nobody);\nfn waits(who: &Client) {}\n";
        assert_eq!(faults_of("a.rs", fine), Vec::<String>::new());
        for name in ["who_waits", "nobody_waits", "it_waits_for_everybody", "delays_nobody"] {
            let text = format!("    pub(crate) const fn {name}() {{}}\n");
            assert_eq!(faults_of("a.rs", &text), [format!("a.rs:1: {name}")]);
        }
    }
}
