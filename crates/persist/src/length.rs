//! Lengths, and the special encodings in their place.
//!
//! ```text
//! 00xxxxxx                       6 bits
//! 01xxxxxx xxxxxxxx              14 bits, big-endian
//! 10000000 and 4 bytes           32 bits, big-endian
//! 10000001 and 8 bytes           64 bits, big-endian
//! 11xxxxxx                       no length, but the encoding of the string
//! ```

use crate::damage::Damage;

/// A length, or a special encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Plain(u64),
    Encoded(u8),
}

impl Length {
    /// The encodings of strings: little-endian integers of 8, 16 and 32 bits, and compressed.
    pub(crate) const INT8: u8 = 0;
    pub(crate) const INT16: u8 = 1;
    pub(crate) const INT32: u8 = 2;
    pub(crate) const LZF: u8 = 3;
}

/// Appends a length.
pub(crate) fn write(out: &mut Vec<u8>, len: u64) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Reads a length from the front of `input`.
pub(crate) fn read(input: &mut &[u8]) -> Result<Length, Damage> {
    let first = take::<1>(input)?[0];
    Ok(match (first >> 6, first & 0x3f) {
        (0, low) => Length::Plain(low.into()),
        (1, high) => Length::Plain(u16::from_be_bytes([high, take::<1>(input)?[0]]).into()),
        (2, 0) => Length::Plain(u32::from_be_bytes(take(input)?).into()),
        (2, 1) => Length::Plain(u64::from_be_bytes(take(input)?)),
        (2, _) => return Err(Damage),
        (_, encoding) => Length::Encoded(encoding),
    })
}

/// Reads `LEN` bytes from the front of `input`.
pub(crate) fn take<const LEN: usize>(input: &mut &[u8]) -> Result<[u8; LEN], Damage> {
    let (taken, rest) = input.split_first_chunk().ok_or(Damage)?;
    *input = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_round_trip(len: u64, shift in 0_u32..64) {
            let mut out = Vec::new();
            write(&mut out, len >> shift);
            let mut input = &out[..];
            prop_assert_eq!(read(&mut input), Ok(Length::Plain(len >> shift)));
            prop_assert!(input.is_empty());
            let mut short = &out[..out.len() - 1];
            prop_assert_eq!(read(&mut short), Err(Damage));
        }
    }

    #[test]
    fn each_length_has_its_shortest_encoding() {
        for (len, bytes) in [(63, 1), (64, 2), (16_383, 2), (16_384, 5), (1 << 32, 9)] {
            let mut out = Vec::new();
            write(&mut out, len);
            assert_eq!(out.len(), bytes, "{len}");
        }
        assert_eq!(read(&mut &[0xc3][..]), Ok(Length::Encoded(3)));
        assert_eq!(read(&mut &[0x82][..]), Err(Damage));
    }
}
