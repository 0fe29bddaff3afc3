//! Errors when reading a file: what was expected at which offset.

use super::kind::ValueType;
use std::{error, fmt, io};

/// Why reading a file has failed.
#[derive(Debug)]
pub enum Fault {
    /// The system returned an error.
    Unreadable {
        /// The number of bytes read before.
        offset: u64,
        /// The error.
        error: io::Error,
    },
    /// The file does not conform to the format.
    Damaged {
        /// The offset in the file.
        offset: u64,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: Found,
    },
    /// The file was written by a newer server, or by another kind of server.
    Version {
        /// The beginning of the file.
        magic: String,
    },
    /// The checksum of the file is wrong.
    Checksum {
        /// The offset of the checksum.
        offset: u64,
        /// The checksum in the file.
        written: u64,
        /// The computed checksum.
        computed: u64,
    },
    /// The file contains data that is not supported.
    Unsupported {
        /// The offset of the data.
        offset: u64,
        /// The kind of the data, with an article: `a list`.
        what: String,
        /// The key, if it is a value.
        key: Option<Vec<u8>>,
    },
    /// A key occurs twice.
    Duplicate {
        /// The offset of the second occurrence.
        offset: u64,
        /// The database of both.
        database: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// The caller's visitor has stopped.
    Stopped,
    /// A library of functions cannot be loaded, for this reason.
    Library(String),
}

/// What was found instead of the expected data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The end of the file.
    End,
    /// This byte.
    Byte(u8),
    /// This number.
    Number(u64),
    /// Other data.
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
            Fault::Library(reason) => write!(f, "a library of functions is not loaded: {reason}"),
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
    /// Returns the offset in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Fault::Version { .. } | Fault::Stopped | Fault::Library(_) => 0,
            Fault::Unreadable { offset, .. }
            | Fault::Damaged { offset, .. }
            | Fault::Checksum { offset, .. }
            | Fault::Duplicate { offset, .. }
            | Fault::Unsupported { offset, .. } => *offset,
        }
    }

    /// Returns the fault for a value of an unsupported type at an offset; its key is to be added.
    pub(super) fn unsupported(offset: u64, value_type: ValueType) -> Self {
        let (name, encoding) = (value_type.name(), value_type.encoding());
        let what = format!("a value of the type {name} ({encoding})");
        Fault::Unsupported { offset, what, key: None }
    }

    /// Adds the key of the value to the fault.
    pub(super) fn of_key(mut self, of: &[u8]) -> Self {
        if let Fault::Unsupported { key, .. } = &mut self {
            key.get_or_insert_with(|| of.to_vec());
        }
        self
    }

    /// Returns the fault for a compressed string at an offset whose contents do not match its
    /// length.
    pub(super) fn unpacked(offset: u64) -> Self {
        let expected = "a compressed string that is as long as it says";
        Fault::Damaged { offset, expected, found: Found::Other }
    }
}
