//! Invariants for arbitrary queries of the status page and arbitrary text on it.

use super::list_options::ListOptions;
use super::markup::{escaped, is_replaced};

/// Checks that a query is refused or that the links on its pages keep the same options, and that
/// its text is not markup.
pub(crate) fn list_options(data: &[u8]) {
    const MOST: usize = 500;
    let text = String::from_utf8_lossy(data);
    is_no_markup(&text);
    let Ok(options) = ListOptions::parse(&text) else { return };
    is_no_markup(&options.filter);
    for matching in [0, MOST, MOST + 1, usize::MAX] {
        for query in options.pages(matching, MOST).into_iter().filter_map(|(_, query)| query) {
            let again = ListOptions::parse(&query).unwrap_or_default();
            let mut expected = options.clone();
            expected.page = again.page;
            assert_eq!(again, expected, "{query}");
        }
    }
}

/// Checks that text is shown unchanged, except for characters that are replaced.
fn is_no_markup(text: &str) {
    let html = escaped(text);
    let is_plain = |letter: char| !"<>\"'".contains(letter) && !is_replaced(letter);
    assert!(html.chars().all(is_plain), "{html}");
    let mut shown = html;
    for (name, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        shown = shown.replace(name, letter);
    }
    let expected = text.chars().map(|it| if is_replaced(it) { '\u{fffd}' } else { it });
    assert_eq!(shown, expected.collect::<String>());
}
