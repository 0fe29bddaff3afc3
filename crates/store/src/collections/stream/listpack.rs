//! Listpacks in the format of Redis' files. The nodes of a stream are stored in this format, so
//! that they are saved and loaded without conversion, and take the same space as in Redis.
//!
//! A listpack consists of its length in bytes (4), its number of elements (2), the elements, and an
//! end byte. An element is a head with its encoding, its data, and the length of both, which allows
//! reading backwards.

use crate::value::number::parse_i64;
use crate::value::string::StringValue;

/// The offset of the first element.
pub(super) const START: usize = 6;
/// The byte after the last element.
pub(super) const END: u8 = 0xff;
/// Written as the number of elements if the field is too small for it.
const MANY: u16 = u16::MAX;

/// Creates an empty listpack, without the end byte.
pub(super) fn begin() -> Vec<u8> {
    vec![0; START]
}

/// Updates the length, and adds `more` to the number of elements.
pub(super) fn finish(listpack: &mut [u8], more: isize) {
    let Ok(len) = u32::try_from(listpack.len()) else { return };
    let Some(head) = listpack.first_chunk_mut::<START>() else { return };
    let [_, _, _, _, low, high] = *head;
    let before = u16::from_le_bytes([low, high]);
    let count = usize::from(before).saturating_add_signed(more);
    let count = if before == MANY { MANY } else { u16::try_from(count).unwrap_or(MANY) };
    let ([a, b, c, d], [low, high]) = (len.to_le_bytes(), count.to_le_bytes());
    *head = [a, b, c, d, low, high];
}

/// Appends a string, which is encoded as an integer if it is the canonical form of one.
pub(super) fn push(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() <= 20
        && let Some(number) = parse_i64(text)
    {
        return push_int(out, number);
    }
    let start = out.len();
    match text.len() {
        len @ 0..64 => out.push(0x80 | len as u8),
        len @ 64..4096 => out.extend([0xe0 | (len >> 8) as u8, len as u8]),
        len => {
            out.push(0xf0);
            out.extend((len as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
    push_back_length(out, start);
}

/// Appends an integer.
pub(super) fn push_int(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    let bytes = number.to_le_bytes();
    match number {
        0..128 => out.push(number as u8),
        -4096..0 | 128..4096 => {
            let bits = number as u16 & 0x1fff;
            out.extend([0xc0 | (bits >> 8) as u8, bits as u8]);
        }
        -0x8000..-4096 | 4096..0x8000 => push_wide(out, 0xf1, &bytes, 2),
        -0x80_0000..-0x8000 | 0x8000..0x80_0000 => push_wide(out, 0xf2, &bytes, 3),
        -0x8000_0000..-0x80_0000 | 0x80_0000..0x8000_0000 => push_wide(out, 0xf3, &bytes, 4),
        _ => push_wide(out, 0xf4, &bytes, 8),
    }
    push_back_length(out, start);
}

fn push_wide(out: &mut Vec<u8>, head: u8, bytes: &[u8], count: usize) {
    out.push(head);
    out.extend(bytes.iter().take(count));
}

/// Returns the size of the length that follows an element.
fn back_length_bytes(len: usize) -> usize {
    match len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn back_length(len: usize) -> impl Iterator<Item = u8> {
    let bytes = back_length_bytes(len);
    (0..bytes).rev().map(move |place| {
        let is_first = place + 1 == bytes;
        (len >> (7 * place)) as u8 & 0x7f | if is_first { 0 } else { 0x80 }
    })
}

fn push_back_length(out: &mut Vec<u8>, start: usize) {
    out.extend(back_length(out.len() - start));
}

/// Whether the length after each element is correct, so that the listpack can be read backwards.
pub(super) fn reads_backwards(listpack: &[u8]) -> bool {
    let mut at = START;
    while let Some((_, next)) = read(listpack, at) {
        let len_before = |bytes: usize| (next - at).checked_sub(bytes);
        let mut lens = (1..=5)
            .filter_map(|bytes| len_before(bytes).filter(|len| back_length_bytes(*len) == bytes));
        let is_right = lens.next().is_some_and(|len| {
            let after = listpack.get(at + len..next).unwrap_or_default();
            after.iter().copied().eq(back_length(len))
        });
        if !is_right {
            return false;
        }
        at = next;
    }
    true
}

/// Returns the element at an offset, and the offset of the next one; `None` at the end or if the
/// element is malformed.
#[inline]
pub(super) fn read(listpack: &[u8], at: usize) -> Option<(StringValue<'_>, usize)> {
    let rest = listpack.get(at..)?;
    let (head, rest) = rest.split_first()?;
    let byte = |place: usize| rest.get(place).copied().map(usize::from);
    let text = |head_bytes: usize, len: usize| {
        let text = rest.get(head_bytes - 1..(head_bytes - 1).checked_add(len)?)?;
        Some((StringValue::Bytes(text), head_bytes + len))
    };
    let (value, len) = match *head {
        head @ 0..0x80 => (StringValue::Int(head.into()), 1),
        head @ 0x80..0xc0 => text(1, usize::from(head & 0x3f))?,
        head @ 0xc0..0xe0 => {
            let bits = (u16::from(head & 0x1f) << 8) | byte(0)? as u16;
            (StringValue::Int(i64::from((bits << 3).cast_signed() >> 3)), 2)
        }
        head @ 0xe0..0xf0 => text(2, (usize::from(head & 0xf) << 8) | byte(0)?)?,
        0xf0 => text(5, u32::from_le_bytes(*rest.first_chunk()?) as usize)?,
        0xf1 => (wide(rest, 2)?, 3),
        0xf2 => (wide(rest, 3)?, 4),
        0xf3 => (wide(rest, 4)?, 5),
        0xf4 => (wide(rest, 8)?, 9),
        _ => return None,
    };
    let next = at.checked_add(len)?.checked_add(back_length_bytes(len))?;
    (next < listpack.len()).then_some((value, next))
}

fn wide(bytes: &[u8], count: usize) -> Option<StringValue<'static>> {
    let mut all = [0; 8];
    all.get_mut(8 - count..)?.copy_from_slice(bytes.get(..count)?);
    Some(StringValue::Int(i64::from_le_bytes(all) >> (64 - 8 * count)))
}

/// Like [`read`], but `None` if the element is not an integer.
#[inline]
pub(super) fn read_int(listpack: &[u8], at: usize) -> Option<(i64, usize)> {
    match read(listpack, at)? {
        (StringValue::Int(number), next) => Some((number, next)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_round_trip() {
        let mut all: Vec<Vec<u8>> = vec![b"".into(), b"a".into(), b"007".into(), b"-0".into()];
        all.extend([63, 64, 127, 4095, 4096, 20_000].map(|len| vec![b'x'; len]));
        for power in 0..63 {
            for near in -1..=1 {
                let number = (1_i64 << power).wrapping_add(near);
                all.extend([number, -number].map(|it| it.to_string().into_bytes()));
            }
        }
        all.push(i64::MIN.to_string().into_bytes());
        let mut bytes = begin();
        all.iter().for_each(|text| push(&mut bytes, text));
        bytes.push(END);
        finish(&mut bytes, all.len() as isize);
        let mut at = START;
        for text in &all {
            let (value, next) = read(&bytes, at).unwrap();
            value.with_bytes(|value| assert_eq!(value, text));
            let is_number = text.len() <= 20 && parse_i64(text).is_some();
            assert_eq!(matches!(value, StringValue::Int(_)), is_number);
            at = next;
        }
        assert_eq!((at, read(&bytes, at).is_none()), (bytes.len() - 1, true));
        assert_eq!(u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize, bytes.len());
        assert_eq!(usize::from(u16::from_le_bytes([bytes[4], bytes[5]])), all.len());
        assert!(reads_backwards(&bytes));
        let behind_the_last = bytes.len() - 2;
        bytes[behind_the_last] ^= 1;
        assert!(!reads_backwards(&bytes));
    }
}
