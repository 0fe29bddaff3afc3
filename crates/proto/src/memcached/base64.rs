//! Keys in base64 (RFC 4648, section 4), as the meta commands spell those that are not text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the spelling of `bytes` to `out`, padded.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place) & 0x3f) as usize;
            let letter = ALPHABET.get(sextet).copied().unwrap_or(b'=');
            out.push(if place > group.len() { b'=' } else { letter });
        }
    }
}

/// Appends what `text` spells to `out`; `false`, and something or nothing appended, if it spells
/// nothing.
#[must_use]
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() || groups.is_empty() {
        return false;
    }
    let last = groups.len() - 1;
    groups.iter().enumerate().all(|(place, group)| decode_group(group, place == last, out))
}

/// Decodes four letters, of which the last two may be padding at the end.
fn decode_group(group: &[u8; 4], last: bool, out: &mut Vec<u8>) -> bool {
    let padding = group.iter().rev().take_while(|&&letter| letter == b'=').count();
    if padding > if last { 2 } else { 0 } {
        return false;
    }
    let mut bits = 0;
    for &letter in group.iter().take(4 - padding) {
        let Some(sextet) = ALPHABET.iter().position(|&known| known == letter) else { return false };
        bits = bits << 6 | sextet as u32;
    }
    let bytes = (bits << (6 * padding)).to_be_bytes();
    out.extend_from_slice(bytes.get(1..4 - padding).unwrap_or_default());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text, &mut out).then_some(out)
    }

    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, text) in [
            (&b"f"[..], &b"Zg=="[..]),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"fooba", b"Zm9vYmE="),
            (b"foobar", b"Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            encode(bytes, &mut out);
            assert_eq!(out, text);
            assert_eq!(decoded(text).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_base64() {
        for text in ["", "Y", "Yg", "Yg=", "====", "Y===", "Yg==Yg==", "Y!==", "=g==", "Yg=a"] {
            assert_eq!(decoded(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decoded(&text), Some(bytes));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(bytes) = decoded(&text) {
                prop_assert!(bytes.len() <= text.len() / 4 * 3);
            }
        }
    }
}
