//! A script's text: its name, and the flags in its first line.

use sha1::{Digest as _, Sha1};
use std::fmt;

bitflags::bitflags! {
    /// The flags in a script's first line or in a function's registration.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScriptFlags: u8 {
        /// The script does not change data.
        const NO_WRITES = 1 << 0;
        /// The script runs even if the memory limit is reached.
        const ALLOW_OOM = 1 << 1;
        /// The script runs even on a replica that has lost its primary.
        const ALLOW_STALE = 1 << 2;
        /// The script does not run in a cluster.
        const NO_CLUSTER = 1 << 3;
        /// The script's keys may be in several slots of a cluster.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 4;
        /// The script has no line with flags: each of its commands is checked while it runs.
        const UNDECLARED = 1 << 5;
    }
}

impl ScriptFlags {
    /// The flags and their names.
    const NAMES: [(&str, ScriptFlags); 5] = [
        ("no-writes", ScriptFlags::NO_WRITES),
        ("allow-oom", ScriptFlags::ALLOW_OOM),
        ("allow-stale", ScriptFlags::ALLOW_STALE),
        ("no-cluster", ScriptFlags::NO_CLUSTER),
        ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// The flag with this name.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, flag)| *flag)
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter_map(move |(name, flag)| self.contains(flag).then_some(name))
    }
}

/// The SHA-1 of a script's text, in 40 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 40]);

impl Digest {
    /// The digest of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut digits = [0; 40];
        for (place, byte) in digits.chunks_exact_mut(2).zip(Sha1::digest(text)) {
            for (digit, value) in place.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
            }
        }
        Digest(digits)
    }

    /// The digest that a client has sent, with digits in upper or lower case.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; 40] = text.try_into().ok()?;
        Some(Digest(digits.map(|digit| digit.to_ascii_lowercase())))
    }

    /// The digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a script's first line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError(pub Vec<u8>);

/// The parts of a script's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The code to compile. It begins with the line break of a first line with flags, so that line
    /// numbers in errors are right.
    pub body: &'a [u8],
    /// The flags in the first line.
    pub flags: ScriptFlags,
}

impl<'a> Source<'a> {
    /// Parses a script's text, whose first line may have flags.
    ///
    /// # Errors
    /// The first line has no end, or an unknown engine, option or flag.
    pub fn parse(text: &'a [u8]) -> Result<Self, SourceError> {
        if !text.starts_with(b"#!") {
            return Ok(Source { body: text, flags: ScriptFlags::UNDECLARED });
        }
        let end = text.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| error("Invalid script shebang", b""))?;
        let (line, body) = text.split_at(end);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let engine = words.next().unwrap_or_default();
        if engine != b"#!lua" {
            return Err(error("Unexpected engine in script shebang: ", engine));
        }
        let mut source = Source { body, flags: ScriptFlags::empty() };
        for word in words {
            if let Some(flags) = word.strip_prefix(b"flags=") {
                // There may be none, but not an empty one next to a comma.
                let has_none = flags.is_empty();
                for flag in flags.split(|byte| *byte == b',').skip(has_none.into()) {
                    source.flags |= ScriptFlags::named(flag)
                        .ok_or_else(|| error("Unexpected flag in script shebang: ", flag))?;
                }
            } else {
                return Err(error("Unknown lua shebang option: ", word));
            }
        }
        Ok(source)
    }
}

fn error(text: &str, word: &[u8]) -> SourceError {
    SourceError([text.as_bytes(), word].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_name_that_redis_gives_it() {
        let digest = Digest::of(b"return 1");
        assert_eq!(digest.to_string(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Digest::parse(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), Some(digest));
        assert_eq!(Digest::parse(b"e0"), None);
    }

    #[test]
    fn first_lines_are_read_or_refused() {
        let source = Source::parse(b"#!lua  flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert_eq!(source.flags, ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_OOM);
        assert_eq!(source.body, b"\nreturn 1");
        let source = Source::parse(b"#!lua flags= flags=no-writes\n").unwrap();
        assert_eq!(source.flags, ScriptFlags::NO_WRITES);
        assert_eq!(Source::parse(b"return").unwrap().flags, ScriptFlags::UNDECLARED);
        for (text, expected) in [
            ("#!py\n", "Unexpected engine in script shebang: #!py"),
            ("#!lua x=y\n", "Unknown lua shebang option: x=y"),
            ("#!lua name=foo\n", "Unknown lua shebang option: name=foo"),
            ("#!lua flags=a\n", "Unexpected flag in script shebang: a"),
            ("#!lua flags=no-writes, allow-oom\n", "Unexpected flag in script shebang: "),
            ("#!lua flags=,\n", "Unexpected flag in script shebang: "),
            ("#!lua", "Invalid script shebang"),
        ] {
            let refused = Source::parse(text.as_bytes()).unwrap_err();
            assert_eq!(String::from_utf8_lossy(&refused.0), expected);
        }
    }
}
