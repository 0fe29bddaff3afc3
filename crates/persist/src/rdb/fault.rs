//! Errors of reading a file: what was expected at which offset.

use super::kind::ValueType;
use std::{error, fmt, io};

/// Why reading a file has stopped.
#[derive(Debug)]
pub enum Fault {
    /// The system could not read it.
    Unreadable {
        /// How many bytes had been read.
        offset: u64,
        /// What the system said.
        error: io::Error,
    },
    /// It is not what the format has there.
    Damaged {
        /// The byte's place in the file, from 0.
        offset: u64,
        /// What would have to be there.
        expected: &'static str,
        /// What is there.
        found: Found,
    },
    /// It was written by a newer server, or by one of another kind.
    Version {
        /// What the file begins with.
        magic: String,
    },
    /// Everything could be read, and yet something was changed.
    Checksum {
        /// Where the checksum stands.
        offset: u64,
        /// What it says.
        written: u64,
        /// What it would have to say.
        computed: u64,
    },
    /// It holds what there is no place for here.
    Unsupported {
        /// Where that begins.
        offset: u64,
        /// Its kind, with an article: `a list`.
        what: String,
        /// Whose value it is, if it is one.
        key: Option<Vec<u8>>,
    },
    /// A key is there twice.
    Duplicate {
        /// Where the second begins.
        offset: u64,
        /// The database of both.
        database: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// The caller's visitor has asked for an end.
    Stopped,
}

/// What was found where something else was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The file ends here.
    End,
    /// This byte.
    Byte(u8),
    /// This number.
    Number(u64),
    /// Something that cannot be said in a word.
    Other,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::End => f.write_str("found the end of the file"),
            Found::Byte(byte) => write!(f, "found the byte {byte:#04x}"),
            Found::Number(number) => write!(f, "found {number}"),
            Found::Other => f.write_str("found something else"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreadable { offset, error } => {
                write!(f, "byte {offset}: cannot be read: {error}")
            }
            Fault::Damaged { offset, expected, found } => {
                write!(f, "byte {offset}: expected {expected}, {found}")
            }
            Fault::Version { magic } => {
                write!(f, "byte 0: {magic:?} is not a version that can be read")
            }
            Fault::Checksum { offset, written, computed } => write!(
                f,
                "byte {offset}: the checksum is {written:016x}, that of the file {computed:016x}"
            ),
            Fault::Unsupported { offset, what, key: Some(key) } => {
                let key = key.escape_ascii();
                write!(f, "byte {offset}: the key \"{key}\" holds {what}, which is not supported")
            }
            Fault::Unsupported { offset, what, key: None } => {
                write!(f, "byte {offset}: {what}, which is not supported")
            }
            Fault::Duplicate { offset, database, key } => {
                let key = key.escape_ascii();
                write!(f, "byte {offset}: the key \"{key}\" of database {database} is there twice")
            }
            Fault::Stopped => f.write_str("it was not read to its end"),
        }
    }
}

impl error::Error for Fault {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Fault::Unreadable { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl Fault {
    /// Where in the file it was noticed.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Fault::Version { .. } | Fault::Stopped => 0,
            Fault::Unreadable { offset, .. }
            | Fault::Damaged { offset, .. }
            | Fault::Checksum { offset, .. }
            | Fault::Duplicate { offset, .. }
            | Fault::Unsupported { offset, .. } => *offset,
        }
    }

    /// That a value that begins there is of a type that cannot be kept; its key is to be added.
    pub(super) fn unsupported(offset: u64, value_type: ValueType) -> Self {
        let (name, encoding) = (value_type.name(), value_type.encoding());
        let what = format!("a value of the type {name} ({encoding})");
        Fault::Unsupported { offset, what, key: None }
    }

    /// The same with the key of the value in which it was noticed.
    pub(super) fn of_key(mut self, of: &[u8]) -> Self {
        if let Fault::Unsupported { key, .. } = &mut self {
            key.get_or_insert_with(|| of.to_vec());
        }
        self
    }

    /// That a compressed string that begins there is not what it says.
    pub(super) fn unpacked(offset: u64) -> Self {
        let expected = "a compressed string that is as long as it says";
        Fault::Damaged { offset, expected, found: Found::Other }
    }
}
