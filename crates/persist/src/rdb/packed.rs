//! Elements that lie in one string: how many there are, and that each ends where the next begins.
//!
//! The forms are described in Redis' `ziplist.c`, `listpack.c`, `intset.c` and `zipmap.c`.

use super::kind::Packing;

/// How many elements there are; nothing if the string is not of this form.
pub(super) fn count(packing: Packing, bytes: &[u8]) -> Option<u64> {
    match packing {
        Packing::Ziplist => ziplist(bytes),
        Packing::Listpack => listpack(bytes),
        Packing::Intset => intset(bytes),
        Packing::Zipmap => zipmap(bytes),
    }
}

/// The byte behind the last element of all but sets of integers.
const END: u8 = 0xff;
/// A count that says that there are at least so many.
const MANY: u16 = u16::MAX;

fn ziplist(bytes: &[u8]) -> Option<u64> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (_last, rest) = rest.split_first_chunk::<4>()?;
    let (count, mut rest) = rest.split_first_chunk()?;
    if u32::from_le_bytes(*len) as usize != bytes.len() {
        return None;
    }
    let mut found = 0;
    loop {
        let (&before, behind) = rest.split_first()?;
        if before == END {
            return (behind.is_empty() && agree(*count, found)).then_some(found);
        }
        let entry = if before == 0xfe { behind.get(4..)? } else { behind };
        rest = entry.get(ziplist_entry_bytes(entry)?..)?;
        found += 1;
    }
}

/// How long an entry is without the length of the one before it.
fn ziplist_entry_bytes(entry: &[u8]) -> Option<usize> {
    Some(match *entry {
        [first @ ..0x40, ..] => 1 + usize::from(first),
        [first @ 0x40..0x80, second, ..] => {
            2 + usize::from(u16::from_be_bytes([first & 0x3f, second]))
        }
        [0x80, a, b, c, d, ..] => 5 + u32::from_be_bytes([a, b, c, d]) as usize,
        [0xc0, ..] => 3,
        [0xd0, ..] => 5,
        [0xe0, ..] => 9,
        [0xf0, ..] => 4,
        [0xfe, ..] => 2,
        [0xf1..=0xfd, ..] => 1,
        _ => return None,
    })
}

fn listpack(bytes: &[u8]) -> Option<u64> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (count, mut rest) = rest.split_first_chunk()?;
    if u32::from_le_bytes(*len) as usize != bytes.len() {
        return None;
    }
    let mut found = 0;
    loop {
        if let [END, behind @ ..] = rest {
            return (behind.is_empty() && agree(*count, found)).then_some(found);
        }
        let entry_bytes = listpack_entry_bytes(rest)?;
        // Its own length follows, so that it can be read backwards.
        let backwards = match entry_bytes {
            0..128 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        rest = rest.get(entry_bytes.checked_add(backwards)?..)?;
        found += 1;
    }
}

fn listpack_entry_bytes(entry: &[u8]) -> Option<usize> {
    Some(match *entry {
        [..0x80, ..] => 1,
        [first @ 0x80..0xc0, ..] => 1 + usize::from(first & 0x3f),
        [0xc0..0xe0, ..] => 2,
        [first @ 0xe0..=0xef, second, ..] => {
            2 + usize::from(u16::from_be_bytes([first & 0xf, second]))
        }
        [0xf0, a, b, c, d, ..] => 5 + u32::from_le_bytes([a, b, c, d]) as usize,
        [0xf1, ..] => 3,
        [0xf2, ..] => 4,
        [0xf3, ..] => 5,
        [0xf4, ..] => 9,
        _ => return None,
    })
}

/// Whether a header's count goes with what was found.
fn agree(count: [u8; 2], found: u64) -> bool {
    match u16::from_le_bytes(count) {
        MANY => found >= MANY.into(),
        count => found == count.into(),
    }
}

fn intset(bytes: &[u8]) -> Option<u64> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let width = u32::from_le_bytes(*width);
    let count = u64::from(u32::from_le_bytes(*count));
    let right = matches!(width, 2 | 4 | 8) && rest.len() as u64 == count * u64::from(width);
    right.then_some(count)
}

/// Fields and values, each counted for itself.
fn zipmap(bytes: &[u8]) -> Option<u64> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut found: u64 = 0;
    loop {
        if let [END, behind @ ..] = rest {
            let right = count >= 254 || u64::from(count) == found;
            return (behind.is_empty() && right).then_some(2 * found);
        }
        let (len, behind) = zipmap_len(rest)?;
        let (len, behind) = zipmap_len(behind.get(len..)?)?;
        let (&unused, behind) = behind.split_first()?;
        rest = behind.get(len.checked_add(unused.into())?..)?;
        found += 1;
    }
}

fn zipmap_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match *bytes {
        [len @ ..254, ref rest @ ..] => Some((len.into(), rest)),
        [254, a, b, c, d, ref rest @ ..] => Some((u32::from_le_bytes([a, b, c, d]) as usize, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Asserts that a string holds so many elements, and none of what is left of it holds any.
    fn holds(packing: Packing, bytes: &[u8], elements: u64) {
        assert_eq!(count(packing, bytes), Some(elements));
        for len in 0..bytes.len() {
            assert_eq!(count(packing, &bytes[..len]), None, "{len} bytes of {bytes:x?}");
        }
    }

    #[test]
    fn ziplists() {
        let body = [
            &[0, 1, b'a'][..],
            &[3, 0xc0, 0, 1],
            &[4, 0xd0, 0, 0, 0, 1],
            &[6, 0xe0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[10, 0xf0, 0, 0, 1],
            &[5, 0xfe, 200],
            &[3, 0xf1],
            &[2, 0xfd],
            &[2, 0x41, 0x2c],
            &[b'x'; 300],
            &[0xfe, 47, 1, 0, 0, 0x80, 0, 0, 0, 2, b'y', b'z', END],
        ]
        .concat();
        let len = (10 + body.len()) as u32;
        for count in [10, MANY] {
            let header = [&len.to_le_bytes()[..], &[0; 4], &count.to_le_bytes()].concat();
            let bytes = [&header[..], &body].concat();
            if count == 10 {
                holds(Packing::Ziplist, &bytes, 10);
            } else {
                assert_eq!(super::count(Packing::Ziplist, &bytes), None);
            }
        }
    }

    #[test]
    fn listpacks() {
        let body = [
            &[0x7f, 1][..],
            &[0x82, b'a', b'b', 3],
            &[0xc1, 0, 2],
            &[0xe1, 0x2c],
            &[b'x'; 300],
            &[2, 0xae],
            &[0xf0, 1, 0, 0, 0, b'y', 6],
            &[0xf1, 0, 1, 3],
            &[0xf2, 0, 0, 1, 4],
            &[0xf3, 0, 0, 0, 1, 5],
            &[0xf4, 0, 0, 0, 0, 0, 0, 0, 1, 9, END],
        ]
        .concat();
        let bytes =
            [&(6 + body.len() as u32).to_le_bytes()[..], &9_u16.to_le_bytes(), &body].concat();
        holds(Packing::Listpack, &bytes, 9);
    }

    #[test]
    fn intsets_and_zipmaps() {
        holds(Packing::Intset, &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0], 2);
        assert_eq!(count(Packing::Intset, &[3, 0, 0, 0, 0, 0, 0, 0]), None);
        let map = b"\x02\x01a\x02\x01bc.\xfe\x01\x00\x00\x00d\x00\x00\xff";
        holds(Packing::Zipmap, map, 4);
    }

    proptest! {
        #[test]
        fn nonsense_is_no_trouble(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let len = (bytes.len() as u32).to_le_bytes();
            for packing in [Packing::Ziplist, Packing::Listpack, Packing::Intset, Packing::Zipmap] {
                count(packing, &bytes);
                count(packing, &[&len[..], bytes.get(4..).unwrap_or_default()].concat());
            }
        }
    }
}
