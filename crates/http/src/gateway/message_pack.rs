//! Replies in MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>), each value in
//! its shortest form. As in JSON, HGETALL is a map, and text is a string whatever its bytes are.

use super::decoder::{Part, are_fields};

/// Writes a map of a command's name and its reply, part by part.
#[derive(Debug)]
pub(super) struct MessagePack {
    verb: Vec<u8>,
    has_begun: bool,
}

impl MessagePack {
    pub(super) fn new(verb: &[u8]) -> Self {
        MessagePack { verb: verb.to_vec(), has_begun: false }
    }

    /// Appends the encoding of a part of the reply.
    pub(super) fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first {
            out.push(0x81);
            text(&self.verb, out);
        }
        match part {
            Part::Status(status) => result(0xc3, status, out),
            Part::Error(error) => result(0xc2, error, out),
            Part::Integer(number) => integer(number, out),
            Part::Nil => out.push(0xc0),
            Part::Text(len) => text_head(len, out),
            Part::Bytes(bytes, _) => out.extend(bytes),
            Part::Array(len) if is_first && are_fields(&self.verb, len) => {
                head([0x80, 0xde], len / 2, out);
            }
            Part::Array(len) => head([0x90, 0xdc], len, out),
            Part::End => {}
        }
    }
}

/// A status or an error: whether it is a status, and its text.
fn result(is_fine: u8, message: &[u8], out: &mut Vec<u8>) {
    out.extend([0x92, is_fine]);
    text(message, out);
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    text_head(bytes.len(), out);
    out.extend(bytes);
}

fn text_head(len: usize, out: &mut Vec<u8>) {
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len @ 0..32), _) => out.push(0xa0 | len),
        (Ok(len), _) => out.extend([0xd9, len]),
        (_, Ok(len)) => {
            out.push(0xda);
            out.extend(len.to_be_bytes());
        }
        _ => {
            out.push(0xdb);
            out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

/// The head of an array or a map of `len` elements: of up to 15, of 16 bits, or of 32.
fn head([few, many]: [u8; 2], len: usize, out: &mut Vec<u8>) {
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len @ 0..16), _) => out.push(few | len),
        (_, Ok(len)) => {
            out.push(many);
            out.extend(len.to_be_bytes());
        }
        _ => {
            out.push(many + 1);
            out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

fn integer(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let (kind, len) = match number {
        -32..128 => {
            out.extend(bytes.last());
            return;
        }
        128..256 => (0xcc, 1),
        256..0x1_0000 => (0xcd, 2),
        0x1_0000..0x1_0000_0000 => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        ..-0x8000_0000 => (0xd3, 8),
    };
    out.push(kind);
    out.extend(bytes.get(bytes.len() - len..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_can_be() {
        for (number, expected) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0xcc, 0x80]),
            (255, &[0xcc, 0xff]),
            (256, &[0xcd, 1, 0]),
            (65_536, &[0xce, 0, 1, 0, 0]),
            (1 << 32, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
            (-1, &[0xff]),
            (-32, &[0xe0]),
            (-33, &[0xd0, 0xdf]),
            (-128, &[0xd0, 0x80]),
            (-129, &[0xd1, 0xff, 0x7f]),
            (-32_769, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (i64::MIN, &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut out = Vec::new();
            integer(number, &mut out);
            assert_eq!(out, expected, "{number}");
        }
    }

    #[test]
    fn lengths_are_as_short_as_can_be() {
        for (len, expected) in [
            (31, &[0xbf][..]),
            (32, &[0xd9, 32]),
            (256, &[0xda, 1, 0]),
            (65_536, &[0xdb, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            text_head(len, &mut out);
            assert_eq!(out, expected, "{len}");
        }
        for (len, expected) in
            [(15, &[0x9f][..]), (16, &[0xdc, 0, 16]), (65_536, &[0xdd, 0, 1, 0, 0])]
        {
            let mut out = Vec::new();
            head([0x90, 0xdc], len, &mut out);
            assert_eq!(out, expected, "{len}");
        }
    }
}
