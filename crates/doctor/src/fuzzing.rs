//! Invariants for arbitrary texts from servers and the kernel, for fuzz targets and this crate's
//! property tests: no finding without evidence, and no markup from a server in a report.

use crate::readers::fuzzing::observation;
use crate::report::Report;
use nagi_findings::{all, diagnose};

/// Splits `data` into texts, whose first byte determines the reader, and evaluates the resulting
/// observation.
pub fn texts(data: &[u8]) {
    /// Writing reports takes most of the time, so only one in this many inputs is reported.
    const STRIDE: usize = 8;
    let observed = observation(data);
    let diagnosis = diagnose(&observed);
    // A name may contain these letters.
    let is_named = data.windows(3).any(|letters| letters == b"NaN");
    let listed = diagnosis.findings().count() + diagnosis.healthy.len() + diagnosis.unknown.len();
    assert_eq!(listed, all().count(), "each is found, noticed, well or unknown");
    for (_, diagnosed) in diagnosis.findings() {
        let (name, evidence) = (diagnosed.finding.name, &diagnosed.evidence);
        assert!(!evidence.verdict.is_empty() && !evidence.numbers.is_empty(), "{name}");
        let mut texts = evidence.numbers.iter().map(|(_, text)| text).chain([&evidence.verdict]);
        let is_number = |text: &String| is_named || !text.contains("NaN");
        assert!(texts.all(is_number), "{name}: {evidence:?}");
        let mut found = diagnosis.found.iter().map(|it| it.finding.name);
        assert!(diagnosed.explained_by.is_none_or(|cause| found.any(|it| it == cause)), "{name}");
    }
    if !data.len().is_multiple_of(STRIDE) {
        return;
    }
    let report = Report::new(vec![("redis://a".to_owned(), Ok((observed, diagnosis)))]);
    let html = report.to_html();
    assert!(!["<script", "<img", "<b>"].iter().any(|it| html.contains(it)), "{html}");
    let text = report.to_string();
    assert!(!text.contains(|it: char| it.is_control() && it != '\n'), "{text:?}");
    assert!(report.to_json().is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_are_judged_by_what_they_say(
            sections in proptest::collection::vec(
                (0..20_u8, "([a-z_]{1,12}[:= ][0-9]{0,20}[ \n]){0,4}", any::<Vec<u8>>()), 0..5,
            ),
        ) {
            let sections = sections.into_iter().map(|(kind, text, bytes)| {
                [&[kind], text.as_bytes(), bytes.as_slice()].concat()
            });
            texts(&sections.collect::<Vec<_>>().join(&0xfe));
        }
    }
}
