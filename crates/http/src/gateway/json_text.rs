//! Strings in JSON, also of text that arrives in pieces.

/// Appends a string with its quotes.
pub(super) fn json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    JsonText::default().write(text, true, out);
    out.push(b'"');
}

/// Escapes a string that arrives in pieces. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug, Default)]
pub(super) struct JsonText {
    /// The beginning of an incomplete character.
    cut: Vec<u8>,
}

impl JsonText {
    pub(super) fn write(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let joined;
        let bytes = if self.cut.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
            &joined
        };
        let chunks = bytes.utf8_chunks();
        let mut rest = bytes.len();
        for chunk in chunks {
            rest -= chunk.valid().len() + chunk.invalid().len();
            escape(chunk.valid(), out);
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let may_go_on = rest == 0
                && !is_last
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                self.cut = invalid.to_vec();
            } else {
                out.extend("\u{fffd}".bytes());
            }
        }
    }
}

fn escape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        let (plain, after) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = after.split_first() else { return };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            byte => out.extend(format!("\\u{byte:04X}").bytes()),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_cut_are_put_together() {
        let bytes = "aü€𝄞z".as_bytes();
        for step in 1..bytes.len() {
            let (mut text, mut out) = (JsonText::default(), Vec::new());
            bytes.chunks(step).for_each(|piece| text.write(piece, false, &mut out));
            text.write(b"", true, &mut out);
            assert_eq!(out, bytes, "{step}");
        }
        let (mut text, mut out) = (JsonText::default(), Vec::new());
        text.write(b"a\xff\xe2\x82", false, &mut out);
        text.write(b"", true, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\u{fffd}");
    }
}
