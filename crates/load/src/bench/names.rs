//! The names of keys.

use std::path::Path;

/// The names of keys, accessed by key number.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    /// Names of equal length: a prefix, if it fits, and the number in decimal.
    Numbered {
        /// The name of key 0, whose zeros are overwritten by the number.
        zero: Vec<u8>,
    },
    /// Names from a file, stored one after the other.
    Listed {
        bytes: Vec<u8>,
        /// The end offset of each name.
        ends: Vec<usize>,
    },
}

impl Names {
    /// Creates names of `len` bytes for `count` keys.
    ///
    /// # Errors
    /// `len` is too small for `count` different names.
    pub(crate) fn numbered(count: u64, len: usize) -> Result<Self, String> {
        let digits = count.saturating_sub(1).checked_ilog10().map_or(1, |log| log as usize + 1);
        if digits > len {
            return Err(format!("{count} keys do not fit into keys of {len} bytes"));
        }
        let mut zero = vec![b'0'; len];
        if len - digits >= 4 {
            zero.splice(..4, *b"key:");
        }
        Ok(Names::Numbered { zero })
    }

    /// Reads the names from the non-empty lines of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no such line.
    pub(crate) fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                bytes.extend_from_slice(line);
                ends.push(bytes.len());
            }
        }
        if ends.is_empty() {
            return Err(format!("{}: no line has a key", path.display()));
        }
        Ok(Names::Listed { bytes, ends })
    }

    /// Returns the number of names in a list; `None` if names are numbered.
    pub(crate) fn listed(&self) -> Option<u64> {
        match self {
            Names::Numbered { .. } => None,
            Names::Listed { ends, .. } => Some(ends.len() as u64),
        }
    }

    /// Returns all names of a list, or only the first of numbered names.
    pub(crate) fn samples(&self) -> Vec<Vec<u8>> {
        let numbers = 0..self.listed().unwrap_or(1);
        let name = |number| {
            let mut name = Vec::new();
            self.append(number, &mut name);
            name
        };
        numbers.map(name).collect()
    }

    /// Appends the name of key `number`.
    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            Names::Numbered { zero } => {
                out.extend_from_slice(zero);
                write_number(out, number);
            }
            Names::Listed { bytes, ends } => {
                let at = number as usize;
                let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied();
                let end = ends.get(at).copied().unwrap_or_default();
                out.extend_from_slice(bytes.get(start.unwrap_or(0)..end).unwrap_or_default());
            }
        }
    }
}

/// Writes `number` in decimal over the zeros at the end of `digits`.
pub(crate) fn write_number(digits: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(names: &Names, number: u64) -> String {
        let mut out = b"> ".to_vec();
        names.append(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbered_names_are_as_long_as_asked_for() {
        let names = Names::numbered(1000, 8).unwrap();
        assert_eq!(
            [0, 7, 999].map(|n| name(&names, n)),
            ["> key:0000", "> key:0007", "> key:0999"]
        );
        assert_eq!(name(&Names::numbered(1000, 6).unwrap(), 42), "> 000042");
        assert!(Names::numbered(1001, 3).unwrap_err().contains("1001 keys"));
    }

    #[test]
    fn listed_names_are_the_lines_of_a_file() {
        let path = std::env::temp_dir().join(format!("nagi-names-{}", std::process::id()));
        std::fs::write(&path, "user:1\r\n\nx y\nlast").unwrap();
        let names = Names::from_file(&path).unwrap();
        assert_eq!(names.listed(), Some(3));
        assert_eq!([0, 1, 2].map(|n| name(&names, n)), ["> user:1", "> x y", "> last"]);
        std::fs::write(&path, "\n\n").unwrap();
        assert!(Names::from_file(&path).unwrap_err().contains("no line"));
        std::fs::remove_file(&path).unwrap();
        assert!(Names::from_file(&path).is_err());
    }
}
