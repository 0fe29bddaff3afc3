//! Reads a file in bounded memory: auxiliary fields, then key after key.

use super::collection::{Builders, Element, Elements, Rejected, build, extent};
use super::fault::{Fault, Found};
use super::input::Input;
use super::kind::ValueType;
use super::note::{self, Memcached, NotesIn};
use super::opcode;
use super::skip::Measure;
use super::text::{BYTES, Form};
use crate::encoding::{NEWEST_VERSION, VALKEY_VERSIONS};
use nagi_store::types::restore::Usage;
use nagi_store::{CHUNK_BYTES, Rope};
use std::io::Read;

/// The beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the format.
    pub version: u16,
    /// Whether it is one of Valkey's own versions.
    pub valkey: bool,
}

/// An item of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An auxiliary field: `redis-ver`, `ctime`, `used-mem` and so on.
    Aux(Vec<u8>, Vec<u8>),
    /// The following keys are in this database.
    Database(u64),
    /// The number of keys of the database, and of those with an expiry; not verified.
    Sizes {
        /// The number of all keys.
        keys: u64,
        /// The number of keys with an expiry.
        expiring: u64,
    },
    /// A function library's code.
    Function(Vec<u8>),
    /// The data of a module of this name that is not in keys.
    ModuleAux(String),
    /// A cluster's data about its slots.
    Slots,
    /// A key. Its value comes next, and is skipped unless the caller reads it.
    Key(Record),
    /// The end. The checksum was correct or absent.
    End,
}

/// The data before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset of the key in the file.
    pub offset: u64,
    /// The type of the value.
    pub value_type: ValueType,
    /// The database.
    pub database: u64,
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// The access time or frequency.
    pub usage: Option<Usage>,
    /// memcached's metadata.
    pub memcached: Memcached,
}

/// A string that has been read.
#[derive(Clone, Debug)]
pub enum Text {
    /// An integer in its canonical form.
    Int(i64),
    /// A string of this many bytes.
    Plain(usize),
    /// A compressed string: the number of compressed and of decompressed bytes.
    Packed(usize, usize),
    /// A string of more than [`CHUNK_BYTES`].
    Rope(Rope),
}

/// Reads a file.
pub struct Reader<R> {
    input: Input<R>,
    header: Header,
    key: Vec<u8>,
    database: u64,
    notes: NotesIn,
    /// The attributes of the next key. Other items may come in between: KeyDB writes fields there.
    expire_at_ms: Option<u64>,
    usage: Option<Usage>,
    /// The type of the value to read next.
    pending: Option<ValueType>,
    ended: bool,
    /// The checksum at the end, unless it is absent.
    checksum: Option<u64>,
}

const OPCODE: &str = "a type or an opcode";

impl<R: Read> Reader<R> {
    /// Begins with a file's header. The caller chooses whether the checksum is verified.
    ///
    /// # Errors
    /// The file does not have this format, or has an unsupported version.
    pub fn new(source: R, verify_checksum: bool) -> Result<Self, Fault> {
        let mut input = Input::new(source, verify_checksum);
        let magic: [u8; 9] = input.array("the header REDIS or VALKEY with a version")?;
        let header = header(&magic)?;
        if header.version < 5 {
            input = input.without_checksum();
        }
        Ok(Reader {
            input,
            header,
            key: Vec::new(),
            database: 0,
            notes: NotesIn::default(),
            expire_at_ms: None,
            usage: None,
            pending: None,
            ended: false,
            checksum: None,
        })
    }

    /// Returns the file's header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns the checksum at the end of the file, unless it is absent.
    #[must_use]
    pub fn checksum(&self) -> Option<u64> {
        self.checksum
    }

    /// Returns the number of bytes taken.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Returns the last key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the next item.
    ///
    /// # Errors
    /// The item does not conform to the format, or the end is missing.
    pub fn next_item(&mut self) -> Result<Item, Fault> {
        if self.pending.is_some() {
            self.skip_value()?;
        }
        if self.ended {
            return Ok(Item::End);
        }
        let offset = self.offset();
        loop {
            match self.input.byte(OPCODE)? {
                opcode::EXPIRY_MS => {
                    let at_ms = i64::from_le_bytes(self.input.array("a time of expiry")?);
                    self.expire_at_ms = (at_ms != -1).then(|| at_ms.try_into().unwrap_or(0));
                }
                opcode::EXPIRY_SECONDS => {
                    let at = i32::from_le_bytes(self.input.array("a time of expiry")?);
                    self.expire_at_ms = Some(u64::try_from(at).unwrap_or(0) * 1000);
                }
                opcode::IDLE => {
                    let seconds = self.input.number("an idle time")?;
                    self.usage = Some(Usage::IdleMs(seconds.saturating_mul(1000)));
                }
                opcode::FREQUENCY => {
                    self.usage = Some(Usage::Frequency(self.input.byte("a frequency")?));
                }
                number if let Some(value_type) = self.value_type(number) => {
                    self.key.clear();
                    self.input.append_text(&mut self.key, "a key")?;
                    self.pending = Some(value_type);
                    let (database, memcached) = (self.database, self.notes.next());
                    return Ok(Item::Key(Record {
                        offset,
                        value_type,
                        database,
                        expire_at_ms: self.expire_at_ms.take(),
                        usage: self.usage.take(),
                        memcached,
                    }));
                }
                other => return self.not_a_key(other),
            }
        }
    }

    fn value_type(&self, number: u8) -> Option<ValueType> {
        ValueType::from_number(number, self.header.valkey)
    }

    fn not_a_key(&mut self, code: u8) -> Result<Item, Fault> {
        let input = &mut self.input;
        match code {
            opcode::DATABASE => {
                self.database = input.number("the number of a database")?;
                Ok(Item::Database(self.database))
            }
            opcode::SIZES => {
                let keys = input.number("a number of keys")?;
                let expiring = input.number("a number of keys that expire")?;
                Ok(Item::Sizes { keys, expiring })
            }
            opcode::AUX => self.aux(),
            opcode::FUNCTION => {
                let mut library = Vec::new();
                input.append_text(&mut library, "a library of functions")?;
                Ok(Item::Function(library))
            }
            opcode::MODULE_AUX => {
                let name = module_name(input.number("the number of a module")?);
                for _ in 0..2 {
                    input.number("when a module wrote this")?;
                }
                input.skip_module_parts()?;
                Ok(Item::ModuleAux(name))
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    input.number("what is known of a slot")?;
                }
                Ok(Item::Slots)
            }
            opcode::SLOT_IMPORT if self.header.valkey => {
                input.skip_text("the name of an import of slots")?;
                for _ in 0..input.number("a number of ranges of slots")? {
                    input.number("the first slot of a range")?;
                    input.number("the last slot of a range")?;
                }
                Ok(Item::Slots)
            }
            opcode::FUNCTION_OF_A_PRERELEASE => {
                let what = "a library of functions of a prerelease of Redis 7".to_owned();
                Err(Fault::Unsupported { offset: self.offset() - 1, what, key: None })
            }
            opcode::END => self.end(),
            other => Err(input.damaged(1, OPCODE, Found::Byte(other))),
        }
    }

    fn aux(&mut self) -> Result<Item, Fault> {
        let (mut name, mut value) = (Vec::new(), Vec::new());
        self.input.append_text(&mut name, "the name of an auxiliary field")?;
        let offset = self.offset();
        self.input.append_text(&mut value, "an auxiliary field")?;
        if name == note::FIELD {
            self.notes = NotesIn::new(value.clone()).ok_or(Fault::Damaged {
                offset,
                expected: "what memcached's clients know of the following keys",
                found: Found::Other,
            })?;
        }
        Ok(Item::Aux(name, value))
    }

    fn end(&mut self) -> Result<Item, Fault> {
        self.ended = true;
        if self.header.version < 5 {
            return Ok(Item::End);
        }
        let computed = self.input.checksum();
        let offset = self.offset();
        let written = u64::from_le_bytes(self.input.array("a checksum")?);
        self.checksum = (written != 0).then_some(written);
        match computed {
            Some(computed) if written != 0 && written != computed => {
                Err(Fault::Checksum { offset, written, computed })
            }
            _ => Ok(Item::End),
        }
    }

    /// Reads the value of the last key. Unless it is long, it is appended to `out`, plain or
    /// compressed as in the file; [`unpack`] decompresses it later, possibly on another thread.
    ///
    /// # Errors
    /// The value is not a string, or is damaged.
    pub fn text(&mut self, out: &mut Vec<u8>) -> Result<Text, Fault> {
        let offset = self.offset();
        match self.pending.take() {
            Some(ValueType::String) => {}
            Some(other) => return Err(Fault::unsupported(offset, other).of_key(&self.key)),
            None => return Err(self.input.damaged(0, "a value", Found::Other)),
        }
        let form = self.input.form("a string")?;
        Ok(match form {
            Form::Int(number) => Text::Int(number),
            Form::Plain(len) if len <= CHUNK_BYTES as u64 => {
                out.extend_from_slice(self.input.take(len as usize, BYTES)?);
                Text::Plain(len as usize)
            }
            Form::Packed { packed, len } if packed.max(len) <= CHUNK_BYTES as u64 => {
                out.extend_from_slice(self.input.take(packed as usize, BYTES)?);
                Text::Packed(packed as usize, len as usize)
            }
            long => Text::Rope(self.input.rope(long)?),
        })
    }

    /// Passes on the elements of the last key's value, which must be a collection. Returns their
    /// number.
    ///
    /// # Errors
    /// The value is not a collection or is damaged, or an element was rejected.
    pub fn elements(
        &mut self,
        take: &mut dyn FnMut(Element<'_>) -> Result<(), Rejected>,
    ) -> Result<u64, Fault> {
        let Some(value_type) = self.pending.take() else {
            return Err(self.input.damaged(0, "a value", Found::Other));
        };
        let offset = self.offset();
        let unsupported = || Fault::unsupported(offset, value_type).of_key(&self.key);
        let mut elements = Elements::begin(&mut self.input, value_type)?.ok_or_else(unsupported)?;
        while let Some(element) = elements.next(&mut self.input)? {
            take(element).map_err(|rejected| match rejected {
                Rejected::Duplicate => elements.duplicate(),
                Rejected::Unsupported => unsupported(),
            })?;
        }
        Ok(elements.found())
    }

    /// Appends the value of the last key, a collection, in its encoded form, unless it is long.
    /// Returns its length.
    pub(super) fn copy_collection(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>, Fault> {
        let Some(layout) = self.pending.map(ValueType::layout) else { return Ok(None) };
        let mut len = extent(layout, self.input.ahead(CHUNK_BYTES));
        if len.is_none() {
            self.input.read_ahead(CHUNK_BYTES);
            len = extent(layout, self.input.ahead(CHUNK_BYTES));
        }
        let Some(len) = len else { return Ok(None) };
        out.extend_from_slice(self.input.take(len, "a collection")?);
        self.pending = None;
        Ok(Some(len))
    }

    /// Builds the value of the last key; `None` if it is empty.
    pub(super) fn build<B: Builders>(&mut self, builders: &B) -> Result<Option<B::Value>, Fault> {
        match self.pending.take() {
            Some(value_type) => build(&mut self.input, value_type, builders)
                .map_err(|fault| fault.of_key(&self.key)),
            None => Ok(None),
        }
    }

    /// Skips the value of the last key, after checking that it can be read.
    ///
    /// # Errors
    /// The value is damaged.
    pub fn skip_value(&mut self) -> Result<Measure, Fault> {
        match self.pending.take() {
            Some(value_type) => self.input.skip(value_type, &self.key),
            None => Ok(Measure::default()),
        }
    }
}

fn header(magic: &[u8; 9]) -> Result<Header, Fault> {
    let (valkey, digits) = match magic {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (false, &digits[..]),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (true, &digits[..]),
        _ => {
            let expected = "the header REDIS or VALKEY with a version";
            return Err(Fault::Damaged { offset: 0, expected, found: Found::Byte(magic[0]) });
        }
    };
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let known = |version: &u16| match valkey {
        true => VALKEY_VERSIONS.contains(version),
        false => (1..=NEWEST_VERSION).contains(version),
    };
    match version.filter(known) {
        Some(version) => Ok(Header { version, valkey }),
        None => Err(Fault::Version { magic: magic.escape_ascii().to_string() }),
    }
}

/// Decodes a module's name, which is encoded with six bits per letter above ten bits of its
/// version.
fn module_name(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9)
        .filter_map(|letter| LETTERS.get((number >> (58 - 6 * letter) & 0x3f) as usize))
        .map(|letter| char::from(*letter))
        .collect()
}
