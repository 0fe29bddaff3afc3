//! Parses the output of Redis' suite.

/// The results of the tests of one unit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The names of tests that passed.
    pub(super) passed: Vec<String>,
    /// The names of tests that failed, and their failures.
    pub(super) failed: Vec<(String, String)>,
    /// The number of skipped tests: excluded tests, and tests that the suite itself skips for this
    /// kind of server.
    pub(super) skipped: usize,
    /// Whether the unit ran to its end.
    pub(super) is_complete: bool,
}

impl Outcome {
    /// Parses the output of the suite. Each test has a line such as `[ok]: NAME (1 ms)` or `[err]:
    /// NAME in tests/unit/x.tcl`; the description of the failure follows the latter.
    pub(super) fn parse(printed: &str) -> Self {
        let plain = without_colours(printed);
        let mut outcome = Self::default();
        let mut explains = false;
        for line in plain.lines() {
            let Some((word, rest)) = line.strip_prefix('[').and_then(|it| it.split_once("]: "))
            else {
                outcome.is_complete |= line.contains("The End");
                explains &= !outcome.is_complete;
                if let Some((_, why)) = outcome.failed.last_mut().filter(|_| explains) {
                    why.push_str(line);
                    why.push('\n');
                }
                continue;
            };
            explains = false;
            match word {
                "ok" => {
                    let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
                    outcome.passed.push(name.to_owned());
                }
                "err" | "exception" | "TIMEOUT" => {
                    let name = rest.split(" in tests/").next().unwrap_or(rest);
                    outcome.failed.push((name.to_owned(), String::new()));
                    explains = true;
                }
                "skip" | "ignore" => outcome.skipped += 1,
                _ => {}
            }
        }
        outcome
    }
}

/// Removes terminal colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let printed = "[\x1b[0;32;49mok\x1b[0m]: A (b) test (3 ms)\n\
                       [\x1b[0;31;49merr\x1b[0m]: Another in tests/unit/x.tcl\nExpected 1\n\
                       [skip]: One\n[ignore]: two: Tag\n\
                       [TIMEOUT]: clients state report follows.\n\n    The End\n\
                       *** [err]: Another\n";
        assert_eq!(
            Outcome::parse(printed),
            Outcome {
                passed: vec!["A (b) test".to_owned()],
                failed: vec![
                    ("Another".to_owned(), "Expected 1\n".to_owned()),
                    ("clients state report follows.".to_owned(), "\n".to_owned()),
                ],
                skipped: 2,
                is_complete: true,
            }
        );
    }
}
