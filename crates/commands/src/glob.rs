//! Patterns as KEYS, SCAN and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]` and `\`.
//!
//! What a star has matched is only ever extended, never given back to an earlier star, so that no
//! pattern takes longer than its length times that of the text.

/// A pattern, ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<'a> {
    bytes: &'a [u8],
    any_case: bool,
}

impl<'a> Pattern<'a> {
    /// A pattern in which every letter means itself.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Pattern { bytes, any_case: false }
    }

    /// A pattern in which a letter stands for both its cases.
    pub(crate) fn in_any_case(bytes: &'a [u8]) -> Self {
        Pattern { bytes, any_case: true }
    }

    /// Whether the whole of `text` fits.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let mut pattern = self.bytes;
        let mut text = text;
        // Where to go on if this try fails: behind the last star, with one byte more given to it.
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            match (pattern.split_first(), text.split_first()) {
                (Some((b'*', behind)), _) => {
                    if behind.is_empty() {
                        return true;
                    }
                    pattern = behind;
                    retry = Some((behind, text));
                    continue;
                }
                (Some(_), Some((byte, rest))) => {
                    let (fits, behind) = self.one(pattern, *byte);
                    if fits {
                        (pattern, text) = (behind, rest);
                        continue;
                    }
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((behind_star, from)) = retry else { return false };
            let Some((_, rest)) = from.split_first() else { return false };
            (pattern, text) = (behind_star, rest);
            retry = Some((behind_star, rest));
        }
    }

    /// Whether `byte` fits the first element of `pattern`, and what follows that element.
    fn one<'p>(&self, pattern: &'p [u8], byte: u8) -> (bool, &'p [u8]) {
        match pattern {
            [b'?', behind @ ..] => (true, behind),
            [b'[', b'^', class @ ..] => {
                let (fits, behind) = self.class(class, byte);
                (!fits, behind)
            }
            [b'[', class @ ..] => self.class(class, byte),
            [b'\\', literal, behind @ ..] | [literal, behind @ ..] => {
                (self.fold(*literal) == self.fold(byte), behind)
            }
            [] => (false, pattern),
        }
    }

    /// Whether `byte` is in the class whose inside begins at `class`, and what follows it. A class
    /// without an end extends to that of the pattern.
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
                [b']', behind @ ..] => return (fits, behind),
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

    /// The same by trying every length for every star.
    fn model(pattern: &Pattern<'_>, text: &[u8]) -> bool {
        match (pattern.bytes, text) {
            ([], text) => text.is_empty(),
            ([b'*', behind @ ..], text) => {
                let behind = Pattern { bytes: behind, ..*pattern };
                (0..=text.len()).any(|from| model(&behind, &text[from..]))
            }
            (_, []) => false,
            (bytes, [byte, rest @ ..]) => {
                let (fits, behind) = pattern.one(bytes, *byte);
                fits && model(&Pattern { bytes: behind, ..*pattern }, rest)
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
    }
}
