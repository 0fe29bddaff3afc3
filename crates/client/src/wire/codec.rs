//! Encodes requests for a protocol, and decodes answers.

use nagi_proto::{MalformedReply, memcached};

use super::progress::Progress;
use super::request::{Answer, Dialect, Mode, Request};
use super::{binary, meta, resp, text};

/// The longest key that memcached accepts, in bytes.
const KEY_BYTES: usize = 250;

impl Request<'_> {
    /// Appends the encoded request.
    ///
    /// # Errors
    /// The protocol has no such request, or does not allow its key; nothing has been appended.
    ///
    /// ```
    /// use nagi_client::wire::{Dialect, Request};
    /// let spaced = Request::Delete { key: b"a b" };
    /// assert!(spaced.encode(Dialect::Text, &mut Vec::new()).is_err());
    /// assert!(spaced.encode(Dialect::Resp, &mut Vec::new()).is_ok());
    /// ```
    pub fn encode(&self, dialect: Dialect, out: &mut Vec<u8>) -> Result<(), String> {
        self.check(dialect)?;
        match self {
            Request::Asking | Request::Hello { .. } if dialect != Dialect::Resp => {
                return Err("clusters and RESP versions need Redis' protocol".to_owned());
            }
            Request::Login { login } => match dialect {
                Dialect::Text | Dialect::Meta => login.named(&[' ', '\r', '\n']).map(drop)?,
                Dialect::Binary => login.named(&['\0']).map(drop)?,
                Dialect::Resp => {}
            },
            _ => {}
        }
        if let Request::Quietly { writes } = self
            && !writes.iter().all(Request::can_be_quiet)
        {
            return Err("only writes and removals can be quiet".to_owned());
        }
        if let Request::Store { mode: Mode::Cas(0), .. } = self
            && dialect == Dialect::Binary
        {
            return Err("version 0 matches any value in the binary protocol".to_owned());
        }
        if let Request::Stats { section } = self
            && !section.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(format!("unknown statistics {section:?}"));
        }
        match dialect {
            Dialect::Text => text::encode(self, out),
            Dialect::Meta => meta::encode(self, out),
            Dialect::Binary => binary::encode(self, out),
            Dialect::Resp => return resp::encode(self, out),
        }
        Ok(())
    }

    /// Checks that the protocol allows the keys.
    pub(crate) fn check(&self, dialect: Dialect) -> Result<(), String> {
        self.keys().into_iter().try_for_each(|key| check_key(dialect, key))
    }

    fn can_be_quiet(&self) -> bool {
        match self {
            Request::Store { mode, .. } => !matches!(mode, Mode::Cas(_)),
            request => matches!(request, Request::Delete { .. }),
        }
    }
}

fn check_key(dialect: Dialect, key: &[u8]) -> Result<(), String> {
    if dialect == Dialect::Resp {
        return Ok(());
    }
    let shown = || key.get(..40).unwrap_or(key).escape_ascii();
    if key.is_empty() || key.len() > KEY_BYTES {
        return Err(format!("a key of {} bytes: memcached's have 1 to {KEY_BYTES}", key.len()));
    }
    // The binary protocol would accept such keys, but clients of the text protocols could not
    // request them.
    if key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return Err(format!("the key \"{}\" has a blank or control character", shown()));
    }
    Ok(())
}

/// Finds answers in the bytes received from a server.
///
/// ```
/// use nagi_client::wire::{Answer, Decoder, Dialect, Request};
/// let mut decoder = Decoder::new(Dialect::Text);
/// let request = Request::Delete { key: b"k" };
/// assert_eq!(decoder.next(&request, b"DELE"), Ok(None));
/// assert_eq!(decoder.next(&request, b"DELETED\r\n"), Ok(Some((9, Answer::Done))));
/// ```
#[derive(Debug)]
pub struct Decoder {
    dialect: Dialect,
    progress: Progress,
    text: memcached::ReplyParser,
    resp: nagi_proto::resp::ReplyParser,
}

impl Decoder {
    /// Creates a decoder for a new connection.
    ///
    /// ```
    /// use nagi_client::wire::{Decoder, Dialect};
    /// Decoder::new(Dialect::Meta);
    /// ```
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Decoder {
            dialect,
            progress: Progress::default(),
            text: memcached::ReplyParser::default(),
            resp: nagi_proto::resp::ReplyParser::default(),
        }
    }

    /// Returns the refusal in an answer that has not ended, if there is one.
    pub(crate) fn refusal(&mut self) -> Option<Answer> {
        self.progress.refused.take()
    }

    /// Returns the length in bytes of the answer to `request` at the start of `input`, and the
    /// answer. Returns `None` until the answer is complete; the caller then calls again with the
    /// same bytes followed by more.
    ///
    /// # Errors
    /// The bytes are not an answer to such a request.
    ///
    /// ```
    /// use nagi_client::wire::{Decoder, Dialect, Request};
    /// let mut decoder = Decoder::new(Dialect::Binary);
    /// assert!(decoder.next(&Request::Flush, &[0x80; 24]).is_err());
    /// ```
    pub fn next(
        &mut self,
        request: &Request<'_>,
        input: &[u8],
    ) -> Result<Option<(usize, Answer)>, MalformedReply> {
        if input.is_empty() {
            return Ok(None);
        }
        match (self.dialect, request) {
            (Dialect::Resp, _) => {
                let Some(len) = self.resp.next(input)? else { return Ok(None) };
                let reply = input.get(..len).unwrap_or_default();
                Ok(Some((len, resp::answer(request, reply)?)))
            }
            (Dialect::Text, Request::Quietly { writes }) => self
                .progress
                .run(input, |progress, rest| text::quiet_step(progress, writes.len(), rest)),
            (Dialect::Meta, Request::Stats { .. } | Request::Flush | Request::Login { .. })
            | (Dialect::Text, _) => {
                let Some(len) = self.text.next(input)? else { return Ok(None) };
                let reply = input.get(..len).unwrap_or_default();
                Ok(Some((len, text::answer(request, reply)?)))
            }
            (Dialect::Binary, _) => {
                self.progress.run(input, |progress, rest| binary::step(progress, request, rest))
            }
            (Dialect::Meta, _) => {
                self.progress.run(input, |progress, rest| meta::step(progress, request, rest))
            }
        }
    }
}
