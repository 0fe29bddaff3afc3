//! Writing a long value into a string. The value is copied chunk by chunk while the key is claimed,
//! so that no latch is held for long and no worker is blocked.

use crate::runtime::multi_key::{self, Claimed};
use crate::{Context, Error, Keys};
use nagi_store::types::Refusal;
use nagi_store::types::derived::Outcome;
use nagi_store::{Event, Rope};

/// Writes `value` into the string under the first argument: at `offset`, or appended to it. Replies
/// with the new length. The string is created, or extended with zeros, if necessary.
///
/// # Errors
/// The string would exceed the maximum length.
pub(crate) fn write(
    cx: &mut Context<'_>,
    keys: &'static Keys,
    value: Rope,
    offset: Option<usize>,
) -> Result<(), Error> {
    let mut work = None;
    multi_key::claimed(cx, Claimed::all(keys), move |cx, slice| {
        let key = cx.key(cx.args.at(1));
        let draft = match &mut work {
            Some(draft) => draft,
            None => work.insert(Draft::new(cx, &value, offset)?),
        };
        while let Some(chunk) = value.chunk(draft.written) {
            if slice.is_over() {
                return Ok(false);
            }
            draft.write(chunk);
        }
        cx.reply.integer(draft.string.len() as i64);
        let string = std::mem::take(&mut draft.string);
        let event = if offset.is_some() { Event::SetRange } else { Event::Append };
        cx.db.settle(key, Outcome::Changed(string), draft.is_there, event);
        Ok(true)
    })
}

/// A string that is being written to.
struct Draft {
    string: Rope,
    /// Whether the key existed.
    is_there: bool,
    /// The offset of the next chunk.
    at: usize,
    /// The number of chunks written so far.
    written: usize,
}

impl Draft {
    fn new(cx: &Context<'_>, value: &Rope, offset: Option<usize>) -> Result<Self, Error> {
        let string = cx.db.strings(&[cx.key(cx.args.at(1))])?.pop().flatten();
        let (is_there, string) = (string.is_some(), string.unwrap_or_default());
        let at = offset.unwrap_or(string.len());
        let most = cx.server.config().proto_max_bulk_len.bytes();
        if at.checked_add(value.len()).is_none_or(|end| end > most) {
            return Err(Refusal::TooLong.into());
        }
        Ok(Draft { string, is_there, at, written: 0 })
    }

    fn write(&mut self, chunk: &[u8]) {
        self.string.overwrite(self.at, chunk);
        self.at += chunk.len();
        self.written += 1;
    }
}
