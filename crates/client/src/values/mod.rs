//! Reads values stored by other libraries: decodes flags to types and decompresses values, so that
//! a Rust program can read what a Python or PHP program has cached.

mod fastlz;

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::wire::Value;

/// The library that stored a value.
///
/// ```
/// assert_ne!(nagi_client::values::Origin::Php, nagi_client::values::Origin::Pylibmc);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Python's pylibmc 1.6.
    Pylibmc,
    /// PHP's memcached extension 3.
    Php,
}

/// The type of a value in the language that stored it.
///
/// ```
/// assert_ne!(nagi_client::values::Kind::Bytes, nagi_client::values::Kind::Text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes; also PHP's strings.
    Bytes,
    /// Text in UTF-8.
    Text,
    /// Decimal digits.
    Integer,
    /// A decimal fraction.
    Double,
    /// PHP's true, stored as `1`, or false, stored as an empty value.
    Boolean,
    /// Python's pickle.
    Pickle,
    /// PHP's serialize.
    Serialized,
    /// PHP's igbinary.
    Igbinary,
    /// JSON.
    Json,
    /// MessagePack.
    MessagePack,
}

/// A value without its compression.
///
/// ```
/// use nagi_client::values::{Kind, Origin, Unpacked};
/// use nagi_client::wire::Value;
/// let stored = Value { bytes: b"42".to_vec(), flags: 1, cas: None };
/// let unpacked = Unpacked::new(&stored, Origin::Php, 1 << 20)?;
/// assert_eq!((unpacked.kind, unpacked.bytes.as_slice()), (Kind::Integer, &b"42"[..]));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The type of the value.
    pub kind: Kind,
    /// The decompressed bytes.
    pub bytes: Vec<u8>,
}

impl Unpacked {
    /// Decodes the flags of `value` as set by `origin`, and decompresses its bytes to at most
    /// `limit_bytes`.
    ///
    /// # Errors
    /// The flags are invalid for `origin`, or the bytes are damaged or too many.
    ///
    /// ```
    /// use nagi_client::values::{Origin, Unpacked};
    /// use nagi_client::wire::Value;
    /// let damaged = Value { bytes: b"not zlib".to_vec(), flags: 8, cas: None };
    /// assert!(Unpacked::new(&damaged, Origin::Pylibmc, 1 << 20).is_err());
    /// ```
    pub fn new(value: &Value, origin: Origin, limit_bytes: usize) -> Result<Self, String> {
        match origin {
            Origin::Pylibmc => pylibmc(value, limit_bytes),
            Origin::Php => php(value, limit_bytes),
        }
    }
}

fn pylibmc(value: &Value, limit_bytes: usize) -> Result<Unpacked, String> {
    const ZLIB: u32 = 1 << 3;
    let kind = match value.flags & !ZLIB {
        0 => Kind::Bytes,
        1 => Kind::Pickle,
        // pylibmc stores True and False with flag 2, which other Python clients use for integers.
        2 | 4 => Kind::Integer,
        16 => Kind::Text,
        _ => return Err(unknown(value.flags, "pylibmc")),
    };
    let bytes = match value.flags & ZLIB {
        0 => value.bytes.clone(),
        _ => inflate(&value.bytes, limit_bytes)?,
    };
    Ok(Unpacked { kind, bytes })
}

fn php(value: &Value, limit_bytes: usize) -> Result<Unpacked, String> {
    const TYPE: u32 = 0xf;
    const COMPRESSED: u32 = 1 << 4;
    const ZLIB: u32 = 1 << 5;
    const FASTLZ: u32 = 1 << 6;
    let kind = match value.flags & TYPE {
        0 => Kind::Bytes,
        1 => Kind::Integer,
        2 => Kind::Double,
        3 => Kind::Boolean,
        4 => Kind::Serialized,
        5 => Kind::Igbinary,
        6 => Kind::Json,
        7 => Kind::MessagePack,
        _ => return Err(unknown(value.flags, "PHP")),
    };
    if value.flags & COMPRESSED == 0 {
        return Ok(Unpacked { kind, bytes: value.bytes.clone() });
    }
    // The uncompressed length comes first.
    let (len, packed) = value.bytes.split_first_chunk().ok_or("a compressed value is cut short")?;
    let len = u32::from_le_bytes(*len) as usize;
    if len > limit_bytes {
        return Err(too_long(limit_bytes));
    }
    let bytes = match value.flags & (ZLIB | FASTLZ) {
        ZLIB => inflate(packed, len)?,
        FASTLZ => fastlz::decompress(packed, len).ok_or("a value is damaged: not FastLZ")?,
        _ => return Err(unknown(value.flags, "PHP")),
    };
    if bytes.len() != len {
        return Err(format!("a value is damaged: {} bytes instead of {len}", bytes.len()));
    }
    Ok(Unpacked { kind, bytes })
}

fn unknown(flags: u32, library: &str) -> String {
    format!("flags {flags:#x} mean nothing in {library}")
}

fn too_long(limit_bytes: usize) -> String {
    format!("a value is longer than {limit_bytes} bytes when unpacked")
}

fn inflate(packed: &[u8], limit_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // Reading one more byte than allowed shows that the value is too long.
    let mut decoder = ZlibDecoder::new(packed).take((limit_bytes as u64).saturating_add(1));
    decoder.read_to_end(&mut bytes).map_err(|error| format!("a value is damaged: {error}"))?;
    if bytes.len() > limit_bytes {
        return Err(too_long(limit_bytes));
    }
    Ok(bytes)
}
