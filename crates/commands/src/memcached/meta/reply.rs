//! Replies of the meta commands, flag by flag.

use super::Flags;
use nagi_proto::memcached::Writer;
use nagi_store::types::versioned::Fetched;
use nagi_store::{EntryView, StringValue};

/// A reply's line that has been begun; [`Reply::end`] ends it.
pub(super) struct Reply<'r>(&'r mut Vec<u8>);

impl<'r> Reply<'r> {
    /// Begins a line with a code of two letters.
    pub(super) fn begin(writer: &'r mut Writer<'_>, code: &str) -> Self {
        let line = writer.buffer();
        line.extend_from_slice(code.as_bytes());
        Reply(line)
    }

    /// Begins the line before a value of `bytes` bytes.
    pub(super) fn value(writer: &'r mut Writer<'_>, bytes: usize) -> Self {
        let reply = Reply::begin(writer, "VA ");
        reply.0.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
        reply
    }

    /// Writes the whole reply to a `mg` with a hit.
    pub(super) fn fetched(
        writer: &mut Writer<'_>,
        flags: &Flags<'_>,
        key: &[u8],
        found: &Fetched<'_>,
        now_ms: u64,
    ) {
        let (entry, value) = (&found.entry, found.value);
        // A client that has this version already does not get the value again.
        let is_known = flags.expected.is_some() && flags.expected == entry.cas();
        let is_sent = flags.value && !is_known;
        let mut reply = match is_sent {
            true => Reply::value(writer, value.len()),
            false => Reply::begin(writer, "HD"),
        };
        let expired_at_ms = found.expired_at_ms;
        let expire_at_ms = match found.vivified {
            true => flags.vivified_expire_at_ms(),
            false if flags.time_first => expired_at_ms,
            false => entry.expire_at_ms(),
        };
        let marks = entry.marks();
        for (letter, token) in flags.each() {
            match letter {
                b'c' => {
                    let cas = entry.cas().filter(|_| flags.versioned);
                    reply.number(b'c', cas.unwrap_or(0));
                }
                b'f' => reply.number(b'f', entry.flags().into()),
                b'h' => reply.number(b'h', marks.fetched.into()),
                b'l' => reply.number(b'l', found.idle_ms / 1000),
                b's' => reply.number(b's', value.len() as u64),
                b't' => reply.time_left(expire_at_ms, now_ms),
                _ => reply.echo_one(flags, key, letter, token),
            };
        }
        match (found.won, marks.won) {
            (true, _) => reply.standing(&[(marks.stale, b"X"), (true, b"W")]),
            (false, won) => reply.standing(&[(won, b"Z"), (marks.stale, b"X")]),
        }
        reply.end();
        if is_sent {
            match value {
                StringValue::Rope(rope) => writer.data_chunks(rope.share(), rope.len()),
                value => value.with_bytes(|bytes| writer.data(bytes)),
            }
        }
    }

    /// Writes the whole reply to a `me` with a hit.
    pub(super) fn described(
        writer: &mut Writer<'_>,
        key: &[u8],
        entry: &EntryView<'_>,
        idle_ms: u64,
        now_ms: u64,
    ) {
        let seconds = entry.expire_at_ms().map(|at_ms| at_ms.saturating_sub(now_ms).div_ceil(1000));
        let fetched = if entry.marks().fetched { "yes" } else { "no" };
        let buffer = writer.buffer();
        buffer.extend_from_slice(b"ME ");
        buffer.extend_from_slice(key);
        writer.line(&format!(
            " exp={} la={} cas={} fetch={fetched} cls=1 size={}",
            seconds.map_or(-1, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
            idle_ms / 1000,
            entry.cas().unwrap_or(0),
            entry.bytes(),
        ));
    }

    /// Writes a letter and a number.
    pub(super) fn number(&mut self, letter: u8, number: u64) {
        self.0.extend_from_slice(&[b' ', letter]);
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Writes the remaining seconds; -1 if the item does not expire.
    pub(super) fn time_left(&mut self, expire_at_ms: Option<u64>, now_ms: u64) {
        match expire_at_ms {
            None => self.0.extend_from_slice(b" t-1"),
            Some(at_ms) => self.number(b't', at_ms.saturating_sub(now_ms).div_ceil(1000)),
        }
    }

    /// Repeats a flag of the request if it is the opaque or the key.
    pub(super) fn echo_one(&mut self, flags: &Flags<'_>, key: &[u8], letter: u8, token: &[u8]) {
        match letter {
            b'O' => {
                self.0.extend_from_slice(b" O");
                self.0.extend_from_slice(token);
            }
            b'k' => {
                self.0.extend_from_slice(b" k");
                self.0.extend_from_slice(key);
                if flags.base64 {
                    self.0.extend_from_slice(b" b");
                }
            }
            _ => {}
        }
    }

    /// Repeats all flags of the request that a reply repeats.
    pub(super) fn echo(mut self, flags: &Flags<'_>, key: &[u8]) -> Self {
        for (letter, token) in flags.each() {
            self.echo_one(flags, key, letter, token);
        }
        self
    }

    fn standing(&mut self, letters: &[(bool, &[u8])]) {
        for (_, letter) in letters.iter().filter(|(shown, _)| *shown) {
            self.0.push(b' ');
            self.0.extend_from_slice(letter);
        }
    }

    pub(super) fn end(self) {
        self.0.extend_from_slice(b"\r\n");
    }
}
