//! Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]` and `\`.
//!
//! A star's match is only ever extended, without backtracking to an earlier star. Therefore, the
//! number of steps is at most the length of the pattern times that of the text. Long ones could
//! still take seconds, so a comparison can be done in parts.

/// Where to continue a partial comparison: the remaining lengths of the pattern and of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pattern: usize,
    text: usize,
    /// The place to continue if the current attempt fails: after the last star, whose match is then
    /// extended by one byte.
    retry: Option<(usize, usize)>,
}

/// The last `count` bytes of `bytes`, or all if there are fewer.
fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or_default()
}

/// A pattern, ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<'a> {
    bytes: &'a [u8],
    any_case: bool,
}

impl<'a> Pattern<'a> {
    /// A case-sensitive pattern.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Pattern { bytes, any_case: false }
    }

    /// A case-insensitive pattern.
    pub(crate) fn in_any_case(bytes: &'a [u8]) -> Self {
        Pattern { bytes, any_case: true }
    }

    /// Whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.advance(text, &mut self.begin(text), &mut { usize::MAX }).unwrap_or(false)
    }

    /// The start of a comparison with `text`.
    pub(crate) fn begin(&self, text: &[u8]) -> Place {
        Place { pattern: self.bytes.len(), text: text.len(), retry: None }
    }

    /// Continues a comparison for about `steps` steps, and subtracts those taken. Returns whether
    /// the whole of `text` matches, once that is known.
    pub(crate) fn advance(
        &self,
        text: &[u8],
        place: &mut Place,
        steps: &mut usize,
    ) -> Option<bool> {
        let mut pattern = last(self.bytes, place.pattern);
        let mut text_left = last(text, place.text);
        let mut retry =
            place.retry.map(|(after, from)| (last(self.bytes, after), last(text, from)));
        while *steps > 0 {
            *steps -= 1;
            match (pattern.split_first(), text_left.split_first()) {
                (Some((b'*', after)), _) => {
                    if after.is_empty() {
                        return Some(true);
                    }
                    pattern = after;
                    retry = Some((after, text_left));
                    continue;
                }
                (Some(_), Some((byte, rest))) => {
                    let (fits, after) = self.one(pattern, *byte);
                    // A class may be long.
                    *steps = steps.saturating_sub(pattern.len() - after.len() - 1);
                    if fits {
                        (pattern, text_left) = (after, rest);
                        continue;
                    }
                }
                (None, None) => return Some(true),
                _ => {}
            }
            let Some((behind_star, from)) = retry else { return Some(false) };
            let Some((_, rest)) = from.split_first() else { return Some(false) };
            (pattern, text_left) = (behind_star, rest);
            retry = Some((behind_star, rest));
        }
        let retry = retry.map(|(after, from)| (after.len(), from.len()));
        *place = Place { pattern: pattern.len(), text: text_left.len(), retry };
        None
    }

    /// Whether `byte` matches the first element of `pattern`, and the pattern after that element.
    fn one<'p>(&self, pattern: &'p [u8], byte: u8) -> (bool, &'p [u8]) {
        match pattern {
            [b'?', after @ ..] => (true, after),
            [b'[', b'^', class @ ..] => {
                let (fits, after) = self.class(class, byte);
                (!fits, after)
            }
            [b'[', class @ ..] => self.class(class, byte),
            [b'\\', literal, after @ ..] | [literal, after @ ..] => {
                (self.fold(*literal) == self.fold(byte), after)
            }
            [] => (false, pattern),
        }
    }

    /// Whether `byte` is in the class whose contents begin at `class`, and the pattern after it. An
    /// unclosed class extends to the end of the pattern.
    fn class<'p>(&self, mut class: &'p [u8], byte: u8) -> (bool, &'p [u8]) {
        let byte = self.fold(byte);
        let mut fits = false;
        loop {
            class = match class {
                [] => return (fits, class),
                [b'\\', literal, rest @ ..] => {
                    fits |= *literal == byte;
                    rest
                }
                [b']', after @ ..] => return (fits, after),
                [first, b'-', last, rest @ ..] => {
                    let (first, last) = (self.fold(*first), self.fold(*last));
                    fits |= (first.min(last)..=first.max(last)).contains(&byte);
                    rest
                }
                [literal, rest @ ..] => {
                    fits |= self.fold(*literal) == byte;
                    rest
                }
            };
        }
    }

    fn fold(&self, byte: u8) -> u8 {
        if self.any_case { byte.to_ascii_lowercase() } else { byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern.as_bytes()).matches(text.as_bytes())
    }

    #[test]
    fn each_element_matches_as_in_redis() {
        for (pattern, fits, does_not) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "abc"], &[]),
            ("a*c", &["ac", "abc", "abcc"], &["a", "abcd", "bac"]),
            ("?", &["a"], &["", "ab"]),
            ("h?l*o", &["hello", "halo"], &["hlo", "hell"]),
            ("[ab]x", &["ax", "bx"], &["cx", "x", "abx"]),
            ("[^a]", &["b"], &["a", ""]),
            ("[a-c]", &["a", "b", "c"], &["d", "-"]),
            ("[c-a]", &["a", "b", "c"], &["d", "-"]),
            ("[a-]", &["a", "^"], &["-", "b"]),
            ("[]", &[], &["", "]"]),
            ("[", &[], &["[", "a"]),
            ("[^", &["a"], &["", "ab"]),
            ("[ab", &["a", "b"], &["[", "ab"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[\\-x]", &["-", "x"], &["y", "\\"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("a\\", &["a\\"], &["a"]),
            ("**a**", &["a", "bab"], &["b"]),
        ] {
            for text in fits {
                assert!(matches(pattern, text), "{pattern} {text}");
            }
            for text in does_not {
                assert!(!matches(pattern, text), "{pattern} {text}");
            }
        }
        assert!(Pattern::in_any_case(b"A[b-C]*").matches(b"aCX"));
    }

    #[test]
    fn matching_many_stars_takes_time_in_proportion_to_both_lengths() {
        let pattern = "a*".repeat(1000) + "b";
        let text = "a".repeat(10_000);
        let started = std::time::Instant::now();
        assert!(!matches(&pattern, &text));
        assert!(started.elapsed().as_secs() < 5);
    }

    /// A reference implementation that tries every length for every star.
    fn model(pattern: &Pattern<'_>, text: &[u8]) -> bool {
        match (pattern.bytes, text) {
            ([], text) => text.is_empty(),
            ([b'*', after @ ..], text) => {
                let after = Pattern { bytes: after, ..*pattern };
                (0..=text.len()).any(|from| model(&after, &text[from..]))
            }
            (_, []) => false,
            (bytes, [byte, rest @ ..]) => {
                let (fits, after) = pattern.one(bytes, *byte);
                fits && model(&Pattern { bytes: after, ..*pattern }, rest)
            }
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_an_exhaustive_search(
            pattern in "[ab*?\\[\\]\\\\^-]{0,9}",
            text in "[ab\\[\\]-]{0,9}",
            any_case: bool,
        ) {
            let pattern = Pattern { bytes: pattern.as_bytes(), any_case };
            prop_assert_eq!(pattern.matches(text.as_bytes()), model(&pattern, text.as_bytes()));
        }

        #[test]
        fn a_comparison_in_parts_has_the_same_outcome(
            pattern in "[ab*?\\[\\]]{0,9}",
            text in "[ab]{0,9}",
            steps in 1_usize..5,
        ) {
            let (pattern, text) = (Pattern::new(pattern.as_bytes()), text.as_bytes());
            let mut place = pattern.begin(text);
            let mut advance = |_| pattern.advance(text, &mut place, &mut steps.clone());
            let outcome = (0..1000).find_map(&mut advance);
            prop_assert_eq!(outcome, Some(pattern.matches(text)));
        }
    }
}
