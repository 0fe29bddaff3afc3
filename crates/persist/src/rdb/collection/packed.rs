//! Elements that are packed in one string, read one by one.
//!
//! ```text
//! ziplist   bytes:4 last:4 count:2 (length of the previous one:1|5 entry)... ff
//! listpack  bytes:4 count:2 (entry, its length backwards:1-5)... ff
//! intset    width:4 count:4 integer:width...
//! zipmap    count:1 (length:1|5 name length:1|5 unused:1 value unused bytes)... ff
//! ```
//!
//! Redis' `ziplist.c`, `listpack.c`, `intset.c` and `zipmap.c` describe the formats, and have the
//! same checks.

use super::blob::Blob;
use super::text::TextBuffer;
use crate::rdb::fault::Fault;
use crate::rdb::input::Input;
use crate::rdb::kind::Packing;
use std::io::Read;

/// The byte after the last element, except in intsets.
const END: u8 = 0xff;
/// The two-byte count if the number is not known.
const UNCOUNTED: u16 = u16::MAX;
/// The count of a zipmap with more pairs than it can express.
const UNCOUNTED_PAIRS: u8 = 254;

/// The remaining elements of a packed string.
pub(in crate::rdb) struct Entries {
    blob: Blob,
    /// The number of elements, if the string contains it.
    count: Option<u64>,
    found: u64,
    state: State,
}

enum State {
    Ziplist {
        /// The offset of the last entry according to the header, and that of the last entry read.
        last: u64,
        last_found: Option<u64>,
        /// The length of the last entry read.
        before: u64,
    },
    Listpack,
    Intset {
        width: u32,
        before: Option<i64>,
    },
    Zipmap,
}

impl Packing {
    fn expected(self) -> &'static str {
        match self {
            Packing::Zipmap => "a zipmap",
            Packing::Ziplist => "a ziplist",
            Packing::Intset => "an intset",
            Packing::Listpack => "a listpack",
        }
    }
}

impl Entries {
    /// Reads the header.
    pub(in crate::rdb) fn begin<R: Read>(
        input: &mut Input<R>,
        packing: Packing,
    ) -> Result<Self, Fault> {
        let mut blob = Blob::begin(input, packing.expected())?;
        let counted = |count: u16| (count != UNCOUNTED).then_some(u64::from(count));
        let (state, count) = match packing {
            Packing::Ziplist => {
                check_len(&mut blob, input)?;
                let last = u32::from_le_bytes(blob.array(input)?).into();
                let count = u16::from_le_bytes(blob.array(input)?);
                (State::Ziplist { last, last_found: None, before: 0 }, counted(count))
            }
            Packing::Listpack => {
                check_len(&mut blob, input)?;
                let count = u16::from_le_bytes(blob.array(input)?);
                (State::Listpack, counted(count))
            }
            Packing::Intset => {
                let width = u32::from_le_bytes(blob.array(input)?);
                let count = u64::from(u32::from_le_bytes(blob.array(input)?));
                let right = matches!(width, 2 | 4 | 8)
                    && count > 0
                    && blob.len() == 8 + count * u64::from(width);
                if !right {
                    return Err(blob.damaged());
                }
                (State::Intset { width, before: None }, Some(count))
            }
            Packing::Zipmap => {
                let count = blob.byte(input)?;
                let counted = (count < UNCOUNTED_PAIRS).then_some(2 * u64::from(count));
                (State::Zipmap, counted)
            }
        };
        Ok(Entries { blob, count, found: 0, state })
    }

    /// Returns the number of elements, if the string contains it.
    pub(super) fn count(&self) -> Option<u64> {
        self.count
    }

    /// Returns the length of the string.
    pub(in crate::rdb) fn bytes(&self) -> u64 {
        self.blob.len()
    }

    /// Returns the fault that the string is not as expected.
    pub(super) fn damaged(&self) -> Fault {
        self.blob.damaged()
    }

    /// Reads the next element. Returns whether there was one; if not, the string has been verified.
    pub(in crate::rdb) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        out: &mut TextBuffer,
    ) -> Result<bool, Fault> {
        let blob = &mut self.blob;
        let there = match &mut self.state {
            State::Ziplist { last, last_found, before } => {
                let at = blob.taken();
                let there = ziplist_entry(blob, input, *before, out)?;
                if there {
                    (*last_found, *before) = (Some(at), blob.taken() - at);
                } else if last_found.is_some_and(|found| found != *last) {
                    return Err(blob.damaged());
                }
                there
            }
            State::Listpack => listpack_entry(blob, input, out)?,
            State::Intset { width, before } => {
                let there = self.count != Some(self.found);
                if there {
                    let number = intset_entry(blob, input, *width)?;
                    if before.is_some_and(|before| before >= number) {
                        return Err(blob.damaged());
                    }
                    *before = Some(number);
                    out.set_int(number);
                }
                there
            }
            State::Zipmap if self.found.is_multiple_of(2) => zipmap_name(blob, input, out)?,
            State::Zipmap => zipmap_value(blob, input, out)?,
        };
        if there {
            self.found += 1;
        } else if self.found == 0 && matches!(self.state, State::Zipmap) {
            // Zipmaps were never empty.
            return Err(blob.damaged());
        } else if self.count.is_some_and(|count| count != self.found) {
            return Err(blob.damaged());
        } else {
            blob.end()?;
        }
        Ok(there)
    }
}

/// Reads and verifies the length in the header.
fn check_len<R: Read>(blob: &mut Blob, input: &mut Input<R>) -> Result<(), Fault> {
    let len = u32::from_le_bytes(blob.array(input)?);
    if u64::from(len) == blob.len() { Ok(()) } else { Err(blob.damaged()) }
}

/// Reads an entry that follows one of `expected_before` bytes. Returns whether there was one.
fn ziplist_entry<R: Read>(
    blob: &mut Blob,
    input: &mut Input<R>,
    expected_before: u64,
    out: &mut TextBuffer,
) -> Result<bool, Fault> {
    let before = match blob.byte(input)? {
        END => return Ok(false),
        0xfe => u32::from_le_bytes(blob.array(input)?).into(),
        before => u64::from(before),
    };
    if before != expected_before {
        return Err(blob.damaged());
    }
    let encoding = blob.byte(input)?;
    let len = match encoding {
        ..0x40 => usize::from(encoding),
        0x40..0x80 => usize::from(u16::from_be_bytes([encoding & 0x3f, blob.byte(input)?])),
        0x80..0xc0 => u32::from_be_bytes(blob.array(input)?) as usize,
        _ => {
            let number = match encoding {
                0xc0 => i16::from_le_bytes(blob.array(input)?).into(),
                0xd0 => i32::from_le_bytes(blob.array(input)?).into(),
                0xe0 => i64::from_le_bytes(blob.array(input)?),
                0xf0 => int24(blob.array(input)?),
                0xfe => i8::from_le_bytes(blob.array(input)?).into(),
                0xf1..=0xfd => i64::from(encoding & 0xf) - 1,
                _ => return Err(blob.damaged()),
            };
            out.set_int(number);
            return Ok(true);
        }
    };
    out.read_packed(blob, input, len)?;
    Ok(true)
}

/// Reads an entry. Returns whether there was one.
fn listpack_entry<R: Read>(
    blob: &mut Blob,
    input: &mut Input<R>,
    out: &mut TextBuffer,
) -> Result<bool, Fault> {
    let at = blob.taken();
    let first = blob.byte(input)?;
    let len = match first {
        END => return Ok(false),
        0x80..0xc0 => Some(usize::from(first & 0x3f)),
        0xe0..0xf0 => Some(usize::from(u16::from_be_bytes([first & 0xf, blob.byte(input)?]))),
        0xf0 => Some(u32::from_le_bytes(blob.array(input)?) as usize),
        _ => None,
    };
    match len {
        Some(len) => out.read_packed(blob, input, len)?,
        None => out.set_int(match first {
            ..0x80 => first.into(),
            // A signed number of thirteen bits.
            0xc0..0xe0 => {
                let bits = u16::from_be_bytes([first << 3, 0]) | u16::from(blob.byte(input)?) << 3;
                i64::from(bits.cast_signed() >> 3)
            }
            0xf1 => i16::from_le_bytes(blob.array(input)?).into(),
            0xf2 => int24(blob.array(input)?),
            0xf3 => i32::from_le_bytes(blob.array(input)?).into(),
            0xf4 => i64::from_le_bytes(blob.array(input)?),
            _ => return Err(blob.damaged()),
        }),
    }
    check_len_backwards(blob, input, blob.taken() - at)?;
    Ok(true)
}

/// Verifies an entry's length, which is encoded for reading backwards: seven bits per byte, high
/// bits first, with a mark on all but the first.
fn check_len_backwards<R: Read>(
    blob: &mut Blob,
    input: &mut Input<R>,
    len: u64,
) -> Result<(), Fault> {
    let bytes = match len {
        ..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut found = 0;
    for index in 0..bytes {
        let byte = blob.byte(input)?;
        if (byte & 0x80 != 0) != (index > 0) {
            return Err(blob.damaged());
        }
        found = found << 7 | u64::from(byte & 0x7f);
    }
    if found == len { Ok(()) } else { Err(blob.damaged()) }
}

fn intset_entry<R: Read>(blob: &mut Blob, input: &mut Input<R>, width: u32) -> Result<i64, Fault> {
    Ok(match width {
        2 => i16::from_le_bytes(blob.array(input)?).into(),
        4 => i32::from_le_bytes(blob.array(input)?).into(),
        _ => i64::from_le_bytes(blob.array(input)?),
    })
}

fn zipmap_name<R: Read>(
    blob: &mut Blob,
    input: &mut Input<R>,
    out: &mut TextBuffer,
) -> Result<bool, Fault> {
    let first = blob.byte(input)?;
    if first == END {
        return Ok(false);
    }
    let len = zipmap_len(blob, input, first)?;
    out.read_packed(blob, input, len)?;
    Ok(true)
}

/// Reads a value, and the unused bytes that were reserved for its growth.
fn zipmap_value<R: Read>(
    blob: &mut Blob,
    input: &mut Input<R>,
    out: &mut TextBuffer,
) -> Result<bool, Fault> {
    let first = blob.byte(input)?;
    if first == END {
        return Err(blob.damaged());
    }
    let len = zipmap_len(blob, input, first)?;
    let unused = blob.byte(input)?;
    out.read_packed(blob, input, len)?;
    blob.take(input, unused.into())?;
    Ok(true)
}

fn zipmap_len<R: Read>(blob: &mut Blob, input: &mut Input<R>, first: u8) -> Result<usize, Fault> {
    Ok(match first {
        254 => match u32::from_le_bytes(blob.array(input)?) {
            // Such lengths are encoded in one byte.
            ..254 => return Err(blob.damaged()),
            len => len as usize,
        },
        len => len.into(),
    })
}

fn int24([low, middle, high]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
}
