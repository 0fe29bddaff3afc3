//! The payload of FUNCTION DUMP and FUNCTION RESTORE: libraries in RDB format, with the footer of
//! values.

use super::{FOOTER_BYTES, Refusal, check_footer_bytes};
use crate::checksum::Checksum;
use crate::encoding::VERSION;
use crate::length::{self, Length};
use crate::lzf;
use crate::rdb::FUNCTION;

/// Encodes libraries, given their code.
#[must_use]
pub fn dump_libraries<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(FUNCTION);
        length::write(&mut out, code.len() as u64);
        out.extend_from_slice(code);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let mut checksum = Checksum::default();
    checksum.add(&out);
    out.extend_from_slice(&checksum.value().to_le_bytes());
    out
}

/// Decodes the code of libraries, each of at most `longest_bytes`.
///
/// # Errors
/// The payload is refused.
pub fn restore_libraries(payload: &[u8], longest_bytes: u64) -> Result<Vec<Vec<u8>>, Refusal> {
    let end = payload.len().checked_sub(FOOTER_BYTES).ok_or(Refusal::Footer)?;
    let (mut input, footer) = payload.split_at(end);
    let mut checksum = Checksum::default();
    checksum.add(payload.get(..end + 2).unwrap_or_default());
    check_footer_bytes(footer, Some(checksum.value()))?;
    let mut codes = Vec::new();
    while !input.is_empty() {
        let [opcode] = length::take(&mut input)?;
        if opcode != FUNCTION {
            return Err(Refusal::Value);
        }
        codes.push(text(&mut input, longest_bytes)?);
    }
    Ok(codes)
}

fn text(input: &mut &[u8], longest_bytes: u64) -> Result<Vec<u8>, Refusal> {
    let plain = |input: &mut &[u8]| match length::read(input)? {
        Length::Plain(len) if len <= longest_bytes => {
            usize::try_from(len).map_err(|_| Refusal::Value)
        }
        _ => Err(Refusal::Value),
    };
    let mut ahead = *input;
    if length::read(&mut ahead)? != Length::Encoded(Length::LZF) {
        let len = plain(input)?;
        let (code, rest) = input.split_at_checked(len).ok_or(Refusal::Value)?;
        *input = rest;
        return Ok(code.to_vec());
    }
    *input = ahead;
    let (packed_len, len) = (plain(input)?, plain(input)?);
    let (mut packed, rest) = input.split_at_checked(packed_len).ok_or(Refusal::Value)?;
    *input = rest;
    let mut code = Vec::new();
    lzf::decompress(&mut packed, &mut code, len).map_err(|_| Refusal::Value)?;
    if code.len() != len {
        return Err(Refusal::Value);
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumped_libraries_are_restored() {
        let codes = [b"#!lua name=a\n".to_vec(), vec![b'x'; 70_000]];
        let payload = dump_libraries(codes.iter().map(Vec::as_slice));
        assert_eq!(restore_libraries(&payload, 1 << 20).unwrap(), codes);
        assert_eq!(restore_libraries(&payload, 1000), Err(Refusal::Value));
        let mut damaged = payload.clone();
        damaged[3] ^= 1;
        assert_eq!(restore_libraries(&damaged, 1 << 20), Err(Refusal::Footer));
        assert_eq!(restore_libraries(b"", 1 << 20), Err(Refusal::Footer));
        let mut unchecked = payload;
        let end = unchecked.len();
        unchecked[end - 8..].fill(0);
        assert_eq!(restore_libraries(&unchecked, 1 << 20), Err(Refusal::Footer));
    }
}
