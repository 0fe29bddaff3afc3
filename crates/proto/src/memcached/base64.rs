//! Keys in base64 (RFC 4648, section 4), which meta commands use for binary keys.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// memcached accepts any excess bits in the last letter, and requires padding.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Appends the encoded `bytes` to `out`, with padding.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let before = out.len();
    out.resize(before + base64::encoded_len(bytes.len(), true).unwrap_or(0), 0);
    let written = ENGINE.encode_slice(bytes, out.get_mut(before..).unwrap_or_default());
    out.truncate(before + written.unwrap_or(0));
}

/// Appends the decoded `text` to `out`. Returns `false` if `text` is invalid; a part of it may have
/// been appended then.
#[must_use]
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    !text.is_empty() && ENGINE.decode_vec(text, out).is_ok()
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
    fn examples_of_the_standard() {
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
    fn invalid_base64_is_refused() {
        for text in ["", "Y", "Yg", "Yg=", "====", "Y===", "Yg==Yg==", "Y!==", "=g==", "Yg=a"] {
            assert_eq!(decoded(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn excess_bits_of_the_last_letter_are_ignored() {
        assert_eq!(decoded(b"Zh==").as_deref(), Some(&b"f"[..]));
        assert_eq!(decoded(b"Zm9=").as_deref(), Some(&b"fo"[..]));
    }

    proptest! {
        #[test]
        fn encoded_data_round_trips(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decoded(&text), Some(bytes));
        }

        #[test]
        fn arbitrary_text_is_decoded_or_refused(text in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(bytes) = decoded(&text) {
                prop_assert!(bytes.len() <= text.len() / 4 * 3);
            }
        }
    }
}
