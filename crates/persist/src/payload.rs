//! The payload of DUMP and RESTORE: a value in RDB format, the version of the format and a
//! checksum.
//!
//! ```text
//! type:1 | value | version:2, little-endian | CRC-64 of all before:8, little-endian
//! ```

use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::encoding::{MIN_COMPRESSED_BYTES, MIN_SAVED_BYTES, NEWEST_VERSION};
use crate::encoding::{VALKEY_VERSIONS, VERSION, encode_integer, encode_spelled_integer};
use crate::length::{self, Length};
use crate::lzf;
use crate::rdb::{Builders, ValueType};
use nagi_store::{CHUNK_BYTES, Rope, StringValue, Value};

mod collection;
mod libraries;

use collection::{DumpElements, RestoreCollection};

pub use collection::DumpCollection;
pub use libraries::{dump_libraries, restore_libraries};

/// The type of strings.
const STRING: u8 = 0;
/// The size of version and checksum.
const FOOTER_BYTES: usize = 10;
/// Why a payload cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The payload was truncated, modified, or written by a newer server.
    Footer,
    /// The checksum is correct but the value is invalid.
    Value,
}

impl From<Damage> for Refusal {
    fn from(_: Damage) -> Self {
        Refusal::Value
    }
}

/// Encodes a value as a payload, in steps.
pub struct Dump(Dumping);

enum Dumping {
    String(DumpString),
    Collection(Box<DumpElements>),
}

impl Dump {
    /// The size of a payload without the value: its type, and the footer.
    pub const FRAME_BYTES: usize = 1 + FOOTER_BYTES;

    /// Begins with a value; `compress` is the setting `rdbcompression`.
    #[must_use]
    pub fn new(value: Value<'_>, compress: bool) -> Self {
        Dump(match value {
            Value::String(string) => Dumping::String(DumpString::new(string, compress)),
            value => Dumping::Collection(Box::new(DumpElements::new(&value, compress))),
        })
    }

    /// Encodes about one chunk. Returns the payload once it is complete.
    #[must_use]
    pub fn step(&mut self) -> Option<Rope> {
        match &mut self.0 {
            Dumping::String(string) => string.step(),
            Dumping::Collection(elements) => elements.step(),
        }
    }
}

/// The encoding of a string as a payload.
struct DumpString {
    value: Rope,
    /// The compressed value, if that is shorter.
    packed: Rope,
    compressing: bool,
    /// The number of chunks processed in this stage.
    next: usize,
    out: Rope,
    checksum: Checksum,
}

impl DumpString {
    fn new(string: StringValue<'_>, compress: bool) -> Self {
        let mut out = vec![STRING];
        let value = encode_short(&mut out, string);
        let compressing = compress && value.len() >= MIN_COMPRESSED_BYTES;
        let mut dump = DumpString {
            value,
            packed: Rope::default(),
            compressing,
            next: 0,
            out: Rope::default(),
            checksum: Checksum::default(),
        };
        let is_complete = out.len() > 1;
        dump.write(&out);
        if !compressing && !is_complete {
            dump.begin_plain();
        }
        dump
    }

    fn step(&mut self) -> Option<Rope> {
        if self.compressing {
            self.compress_chunk();
            return None;
        }
        if let Some(chunk) = self.value.chunk(self.next).cloned() {
            self.next += 1;
            self.write(&chunk);
            return None;
        }
        self.write(&VERSION.to_le_bytes());
        let checksum = self.checksum.clone().value();
        self.out.append(&checksum.to_le_bytes());
        Some(std::mem::take(&mut self.out))
    }

    fn compress_chunk(&mut self) {
        let worth = self.packed.len() + MIN_SAVED_BYTES < self.value.len();
        match self.value.chunk(self.next) {
            Some(chunk) if worth => {
                self.next += 1;
                let mut packed = Vec::new();
                lzf::compress(chunk, &mut packed);
                self.packed.append(&packed);
            }
            _ => {
                self.compressing = false;
                self.next = 0;
                if worth { self.begin_packed() } else { self.begin_plain() }
            }
        }
    }

    fn begin_packed(&mut self) {
        let mut header = vec![0xc0 | Length::LZF];
        length::write(&mut header, self.packed.len() as u64);
        length::write(&mut header, self.value.len() as u64);
        self.write(&header);
        self.value = std::mem::take(&mut self.packed);
    }

    fn begin_plain(&mut self) {
        let mut header = Vec::new();
        length::write(&mut header, self.value.len() as u64);
        self.write(&header);
        self.packed = Rope::default();
    }

    fn write(&mut self, bytes: &[u8]) {
        self.checksum.add(bytes);
        self.out.append(bytes);
    }
}

/// Appends a string if it is the canonical form of a 32-bit integer; otherwise returns it.
fn encode_short(out: &mut Vec<u8>, string: StringValue<'_>) -> Rope {
    match string {
        StringValue::Int(value) if encode_integer(out, value) => Rope::default(),
        StringValue::Bytes(text) if encode_spelled_integer(out, text) => Rope::default(),
        StringValue::Rope(rope) => rope.clone(),
        string => string.with_bytes(Rope::from_bytes),
    }
}

/// The value of a payload.
#[derive(Clone, Debug)]
pub enum Restored<V> {
    /// A string.
    String(Rope),
    /// The result of a builder.
    Collection(V),
}

/// Decodes a payload, in steps.
pub struct Restore<B: Builders> {
    builders: B,
    payload: Rope,
    longest_bytes: usize,
    /// Whether the checksum is verified.
    checks: bool,
    /// The number of bytes processed in this stage.
    at: usize,
    stage: Stage<B::Builder>,
}

enum Stage<B> {
    Checking(Checksum),
    Plain { out: Rope, left: usize },
    Packed(Unpacking),
    Collection(Box<RestoreCollection<B>>),
}

/// The decompression of a string.
struct Unpacking {
    /// The number of compressed bytes of the payload that have not been read yet.
    packed_left: usize,
    /// Compressed bytes that are not a complete instruction yet.
    input: Vec<u8>,
    /// The end of the decompressed bytes: those that references can reach, then new ones.
    window: Vec<u8>,
    /// The number of bytes of the window that are already in `out`.
    kept: usize,
    out: Rope,
    /// The length of the string.
    len: usize,
}

impl<B: Builders> Restore<B> {
    /// Begins with a payload, whose strings must not be longer than `longest_bytes`, because a
    /// compressed string may claim to be hundreds of times as long as its data. The builders create
    /// collections.
    #[must_use]
    pub fn new(payload: Rope, longest_bytes: usize, builders: B) -> Self {
        let stage = Stage::Checking(Checksum::default());
        Restore { builders, payload, longest_bytes, checks: true, at: 0, stage }
    }

    /// Disables verification of the checksum. The value may then be damaged anywhere.
    #[must_use]
    pub fn with_any_checksum(self) -> Self {
        Restore { checks: false, ..self }
    }

    /// Decodes about one chunk. Returns the value once it is complete.
    ///
    /// # Errors
    /// The payload is refused.
    pub fn step(&mut self) -> Result<Option<Restored<B::Value>>, Refusal> {
        match &mut self.stage {
            Stage::Checking(checksum) => {
                let end = self.payload.len().checked_sub(FOOTER_BYTES).ok_or(Refusal::Footer)?;
                let piece = read(&self.payload, self.at..end + 2);
                checksum.add(&piece);
                self.at += piece.len();
                if self.at == end + 2 {
                    let checksum = self.checks.then(|| checksum.clone().value());
                    let version = check_footer(&self.payload, end, checksum)?;
                    self.begin(end, version)?;
                }
                Ok(None)
            }
            Stage::Plain { out, left } => {
                let piece = read(&self.payload, self.at..self.at + *left);
                out.append(&piece);
                self.at += piece.len();
                *left -= piece.len();
                Ok((*left == 0).then(|| Restored::String(std::mem::take(out))))
            }
            Stage::Packed(unpacking) => {
                Ok(unpacking.step(&self.payload, &mut self.at)?.map(Restored::String))
            }
            Stage::Collection(collection) => Ok(collection.step()?.map(Restored::Collection)),
        }
    }

    /// Begins with the value that ends at `end`.
    fn begin(&mut self, end: usize, version: u16) -> Result<(), Refusal> {
        let number = self.payload.chunk(0).and_then(|chunk| chunk.first()).copied();
        let of_valkey = VALKEY_VERSIONS.contains(&version);
        let value_type = number.and_then(|number| ValueType::from_number(number, of_valkey));
        match value_type.filter(|_| end > 0) {
            Some(ValueType::String) => Ok(self.begin_string(end)?),
            Some(other) => {
                let payload = std::mem::take(&mut self.payload);
                let (longest, builders) = (self.longest_bytes, &self.builders);
                let collection = RestoreCollection::begin(payload, end, other, longest, builders)?;
                self.stage = Stage::Collection(Box::new(collection));
                Ok(())
            }
            None => Err(Refusal::Value),
        }
    }

    /// Reads the header of the string.
    fn begin_string(&mut self, end: usize) -> Result<(), Damage> {
        /// The maximum length of a header, rounded up.
        const HEADER_BYTES: usize = 32;
        let header = read(&self.payload, 0..end.min(HEADER_BYTES));
        let mut rest = &header[..];
        length::take::<1>(&mut rest)?;
        let mut spelled = itoa::Buffer::new();
        self.stage = match length::read(&mut rest)? {
            Length::Plain(len) => plain(Rope::default(), len)?,
            Length::Encoded(Length::INT8) => {
                number(spelled.format(i8::from_le_bytes(length::take(&mut rest)?)))
            }
            Length::Encoded(Length::INT16) => {
                number(spelled.format(i16::from_le_bytes(length::take(&mut rest)?)))
            }
            Length::Encoded(Length::INT32) => {
                number(spelled.format(i32::from_le_bytes(length::take(&mut rest)?)))
            }
            Length::Encoded(Length::LZF) => {
                packed(length::read(&mut rest)?, length::read(&mut rest)?)?
            }
            Length::Encoded(_) => return Err(Damage),
        };
        self.at = header.len() - rest.len();
        let left = match &self.stage {
            Stage::Packed(unpacking) => unpacking.packed_left,
            Stage::Plain { left, .. } => *left,
            Stage::Checking(_) | Stage::Collection(_) => 0,
        };
        let too_long = match &self.stage {
            Stage::Packed(unpacking) => unpacking.len > self.longest_bytes,
            _ => false,
        };
        if self.at.checked_add(left) == Some(end) && !too_long { Ok(()) } else { Err(Damage) }
    }
}

/// Returns the type and encoding of a payload with this first byte, as Redis names them.
#[must_use]
pub fn form_name(first: u8) -> String {
    let Some(value_type) = ValueType::from_number(first, false) else {
        return format!("Type {first}");
    };
    let (name, form) = (value_type.name(), value_type.encoding());
    let text = match (name, form) {
        (_, "zipmap") => form.to_owned(),
        ("stream", _) => "stream listpack".to_owned(),
        _ => format!("{name} {form}"),
    };
    let (first, rest) = text.split_at(text.len().min(1));
    first.to_ascii_uppercase() + rest
}

fn plain<B>(out: Rope, left: u64) -> Result<Stage<B>, Damage> {
    Ok(Stage::Plain { out, left: usize::try_from(left).map_err(|_| Damage)? })
}

fn number<B>(spelled: &str) -> Stage<B> {
    Stage::Plain { out: Rope::from_bytes(spelled.as_bytes()), left: 0 }
}

fn packed<B>(packed: Length, whole: Length) -> Result<Stage<B>, Damage> {
    let (Length::Plain(packed), Length::Plain(len)) = (packed, whole) else { return Err(Damage) };
    Ok(Stage::Packed(Unpacking {
        packed_left: usize::try_from(packed).map_err(|_| Damage)?,
        input: Vec::new(),
        window: Vec::new(),
        kept: 0,
        out: Rope::default(),
        len: usize::try_from(len).map_err(|_| Damage)?,
    }))
}

impl Unpacking {
    /// The maximum distance of references.
    const REACH: usize = 8192;

    fn step(&mut self, payload: &Rope, at: &mut usize) -> Result<Option<Rope>, Damage> {
        if self.input.len() < 64 {
            let piece = read(payload, *at..*at + self.packed_left);
            *at += piece.len();
            self.packed_left -= piece.len();
            self.input.extend_from_slice(&piece);
        }
        let mut rest = &self.input[..];
        lzf::decompress(&mut rest, &mut self.window, self.kept + CHUNK_BYTES)
            .map_err(|lzf::Corrupt| Damage)?;
        let stuck = rest.len() == self.input.len();
        self.input.drain(..self.input.len() - rest.len());
        self.out.append(self.window.get(self.kept..).unwrap_or_default());
        self.window.drain(..self.window.len().saturating_sub(Self::REACH));
        self.kept = self.window.len();
        if self.out.len() > self.len || stuck && self.packed_left == 0 && !self.input.is_empty() {
            return Err(Damage);
        }
        if self.packed_left > 0 || !self.input.is_empty() {
            return Ok(None);
        }
        if self.out.len() == self.len {
            Ok(Some(std::mem::take(&mut self.out)))
        } else {
            Err(Damage)
        }
    }
}

/// Reads at most a chunk of a payload.
fn read(payload: &Rope, range: std::ops::Range<usize>) -> Vec<u8> {
    let mut piece = Vec::new();
    payload.copy_range(range.start..range.end.min(range.start + CHUNK_BYTES), &mut piece);
    piece
}

fn check_footer(payload: &Rope, end: usize, checksum: Option<u64>) -> Result<u16, Refusal> {
    check_footer_bytes(&read(payload, end..end + FOOTER_BYTES), checksum)
}

/// Returns the version in a footer, if it is supported and the checksum is correct.
fn check_footer_bytes(mut footer: &[u8], checksum: Option<u64>) -> Result<u16, Refusal> {
    let damaged = |Damage| Refusal::Footer;
    let version = u16::from_le_bytes(length::take(&mut footer).map_err(damaged)?);
    let expected = u64::from_le_bytes(length::take(&mut footer).map_err(damaged)?);
    let known = version <= NEWEST_VERSION || VALKEY_VERSIONS.contains(&version);
    if known && checksum.is_none_or(|checksum| checksum == expected) {
        Ok(version)
    } else {
        Err(Refusal::Footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::NoCollections;
    use nagi_store::types::collection::{Limits, NewCollections, NewElement};
    use nagi_store::types::restore::Known;
    use nagi_store::{Kind, Store, StoreOptions, Text};
    use proptest::prelude::*;

    fn bytes(rope: &Rope) -> Vec<u8> {
        let mut bytes = Vec::new();
        rope.copy_range(0..rope.len(), &mut bytes);
        bytes
    }

    fn dump(string: StringValue<'_>, compress: bool) -> Vec<u8> {
        payload(Dump::new(Value::String(string), compress))
    }

    fn payload(mut dump: Dump) -> Vec<u8> {
        loop {
            if let Some(payload) = dump.step() {
                return bytes(&payload);
            }
        }
    }

    fn restore(payload: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut restore = Restore::new(Rope::from_bytes(payload), 1 << 20, NoCollections);
        loop {
            match restore.step()? {
                Some(Restored::String(value)) => return Ok(bytes(&value)),
                Some(Restored::Collection(none)) => match none {},
                None => {}
            }
        }
    }

    #[test]
    fn encodings_have_the_names_of_redis() {
        for (number, name) in
            [(9, "Zipmap"), (12, "Zset ziplist"), (15, "Stream listpack"), (200, "Type 200")]
        {
            assert_eq!(form_name(number), name);
        }
    }

    #[test]
    fn checksum_is_verified_unless_it_is_to_be_ignored() {
        let mut payload = seal(b"\x00\x03foo", 10);
        *payload.last_mut().unwrap() ^= 1;
        assert_eq!(restore(&payload), Err(Refusal::Footer));
        let new = |payload: &[u8]| {
            Restore::new(Rope::from_bytes(payload), 1 << 20, NoCollections).with_any_checksum()
        };
        let mut any = new(&payload);
        assert!(any.step().is_ok_and(|it| it.is_none()));
        assert!(matches!(any.step(), Ok(Some(Restored::String(value))) if bytes(&value) == b"foo"));
        let unknown = seal(b"\x00\x03foo", 70);
        assert_eq!(new(&unknown).step().err(), Some(Refusal::Footer), "the version does");
    }

    /// Returns a payload with this body and a valid footer.
    fn seal(body: &[u8], version: u16) -> Vec<u8> {
        let mut payload = [body, &version.to_le_bytes()].concat();
        let mut checksum = Checksum::default();
        checksum.add(&payload);
        payload.extend_from_slice(&checksum.value().to_le_bytes());
        payload
    }

    #[test]
    fn payloads_equal_those_of_redis() {
        // The replies of redis-server 7.0.15 to DUMP.
        let ten = b"\x00\xc0\x0a\x0a\x00\x6e\x9f\x54\x74\xdc\xee\xf7\xd9".len();
        assert_eq!(dump(StringValue::Int(10), true).len(), ten);
        assert_eq!(dump(StringValue::Bytes(b"foo"), true), seal(b"\x00\x03foo", 10));
        assert_eq!(dump(StringValue::Int(-300), true), seal(b"\x00\xc1\xd4\xfe", 10));
        assert_eq!(dump(StringValue::Int(70_000), true), seal(b"\x00\xc2\x70\x11\x01\x00", 10));
        let wide = dump(StringValue::Int(5_000_000_000), true);
        assert_eq!(wide, seal(b"\x00\x0a5000000000", 10));
    }

    #[test]
    fn strings_beyond_the_limit_are_refused() {
        let payload = dump(StringValue::Bytes(&vec![0; (1 << 20) + 1]), true);
        assert!(payload.len() < 20_000);
        assert_eq!(restore(&payload), Err(Refusal::Value));
    }

    #[test]
    fn hash_is_encoded_as_a_count_and_strings() {
        let fields = [(&b"field"[..], &b"value"[..]), (b"n", b"12")];
        let (store, known) = (Store::new(&StoreOptions::default()), Known::default());
        let counters = store.counters(0);
        let db = store.database(0, &counters, 1);
        let new = NewCollections::new(&store, Limits::default());
        let mut hash = new.begin(Kind::Hash).unwrap();
        for (name, value) in fields {
            let pair = (&Text::new(name), &Text::new(value));
            assert_eq!(hash.add(NewElement::Field(pair.0, pair.1, None)), Ok(true));
        }
        assert!(db.load_collection(db.key(b"h"), hash, &known));
        let dumped = db.get(db.key(b"h"), |entry| Dump::new(entry.unwrap().value(), true));
        assert_eq!(payload(dumped), seal(b"\x04\x02\x05field\x05value\x01n\xc0\x0c", 10));
    }

    #[test]
    fn modified_and_too_new_payloads_are_refused() {
        let payload = dump(StringValue::Bytes(b"some string of a few words, some string"), true);
        for at in 0..payload.len() {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_eq!(restore(&changed), Err(Refusal::Footer), "byte {at}");
            assert_eq!(restore(&payload[..at]), Err(Refusal::Footer), "cut at {at}");
        }
        assert_eq!(restore(&seal(b"\x00\x03foo", 13)), Err(Refusal::Footer));
        assert_eq!(restore(&seal(b"\x00\x03foo", 80)), Ok(b"foo".to_vec()));
        for body in [
            &b""[..],
            b"\x09\x03foo",
            b"\x00\x04foo",
            b"\x00\x02foo",
            b"\x00\xc4a",
            b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffa",
        ] {
            assert_eq!(restore(&seal(body, 10)), Err(Refusal::Value), "{body:?}");
        }
        // Compressed strings whose length is wrong, or whose references reach too far back.
        for body in
            [&b"\x00\xc3\x02\x02\x00a"[..], b"\x00\xc3\x02\x00\x00a", b"\x00\xc3\x02\x03\x20\x00"]
        {
            assert_eq!(restore(&seal(body, 10)), Err(Refusal::Value), "{body:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn dumped_values_are_restored(
            word in prop::collection::vec(any::<u8>(), 1..300),
            times in 0_usize..3000,
            noise in prop::collection::vec(any::<u8>(), 0..3000),
            compress: bool,
        ) {
            let value = [word.repeat(times), noise].concat();
            let rope = Rope::from_bytes(&value);
            let payload = dump(StringValue::Rope(&rope), compress);
            prop_assert_eq!(&payload, &dump(StringValue::Bytes(&value), compress));
            prop_assert_eq!(restore(&payload), Ok(value));
        }

        #[test]
        fn arbitrary_payloads_are_handled(
            body in prop::collection::vec(any::<u8>(), 0..200),
            as_string: bool,
        ) {
            let body = if as_string { [&[STRING, 0xc3][..], &body].concat() } else { body };
            let _ = restore(&seal(&body, 10));
        }

        #[test]
        fn integers_round_trip(value: i64, shift in 0_u32..64) {
            let value = value >> shift;
            let restored = restore(&dump(StringValue::Int(value), true));
            prop_assert_eq!(restored, Ok(value.to_string().into_bytes()));
        }
    }
}
