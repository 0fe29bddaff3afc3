//! The tests of Redis' suite that are not run, each with its reason, read from
//! `tests/conformance/redis-not-applicable.toml`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace;

const FILE: &str = "tests/conformance/redis-not-applicable.toml";

/// All excluded tests, grouped by the kind of reason.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Exclusions {
    /// Tests of Redis' internals, or of behaviour from which nagi differs intentionally.
    #[serde(default)]
    pub(super) not_applicable: Vec<NotApplicable>,
    /// Tests that Redis 7.2 fails as well, because its behaviour has changed.
    #[serde(default)]
    pub(super) superseded: Vec<Superseded>,
    /// Tests of features that are not implemented yet.
    #[serde(default)]
    pub(super) later: Vec<Later>,
    /// Units of which no test is run.
    #[serde(default)]
    pub(super) units: Vec<Unit>,
}

/// A unit of which no test is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unit {
    unit: String,
    /// The reason, which applies to all tests of the unit.
    #[expect(dead_code, reason = "it is for people to read")]
    reason: String,
}

/// A test that does not apply to nagi.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the replies are for people to read")]
pub(super) struct NotApplicable {
    unit: String,
    test: String,
    reason: String,
    redis: String,
    nagi: String,
}

/// A test of behaviour that a later version of Redis has changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "what changed is for people to read")]
pub(super) struct Superseded {
    unit: String,
    test: String,
    change: String,
}

/// Tests that wait for a feature: some tests of one unit, or all tests with a tag of the suite.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Later {
    waits_for: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
}

impl Exclusions {
    pub(super) fn read() -> Result<Self> {
        let path = workspace::root().join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("{FILE} is malformed"))
    }

    /// Whether no test of a unit is run.
    pub(super) fn leaves_out(&self, unit: &str) -> bool {
        self.units.iter().any(|it| it.unit == unit)
    }

    /// Returns the names of a unit's tests that are not run.
    pub(super) fn of_unit(&self, unit: &str) -> Vec<&str> {
        let not_applicable = self.not_applicable.iter().map(|it| (&it.unit, &it.test));
        let superseded = self.superseded.iter().map(|it| (&it.unit, &it.test));
        let later =
            self.later.iter().flat_map(|it| it.tests.iter().map(move |test| (&it.unit, test)));
        let all = not_applicable.chain(superseded).chain(later);
        all.filter(|(of, _)| *of == unit).map(|(_, test)| test.as_str()).collect()
    }

    /// Returns the tags whose tests are not run, in the format of the suite's option.
    pub(super) fn tags(&self) -> String {
        let tags = self.later.iter().flat_map(|it| &it.tags);
        tags.map(|tag| format!("-{tag}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the number of tests by kind of reason, and the features that later tests wait for.
    pub(super) fn summary(&self) -> Vec<(String, usize)> {
        let mut later: BTreeMap<&str, usize> = BTreeMap::new();
        for it in &self.later {
            *later.entry(&it.waits_for).or_default() += it.tests.len();
        }
        let later = later.into_iter().map(|(what, count)| (format!("later: {what}"), count));
        [
            ("not applicable".to_owned(), self.not_applicable.len()),
            ("superseded".to_owned(), self.superseded.len()),
            ("whole units".to_owned(), self.units.len()),
        ]
        .into_iter()
        .chain(later)
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_test_is_listed_twice() {
        let exclusions = Exclusions::read().unwrap();
        let units = exclusions.later.iter().map(|it| &it.unit);
        let units = units.chain(exclusions.not_applicable.iter().map(|it| &it.unit));
        for unit in units {
            let mut tests = exclusions.of_unit(unit);
            let count = tests.len();
            tests.sort_unstable();
            tests.dedup();
            assert_eq!(tests.len(), count, "{unit}");
        }
    }
}
