//! The progress of parsing an answer, so that no byte of an answer in many pieces is read more than
//! a few times, and no value is copied twice.

use nagi_proto::MalformedReply;

use super::request::{Answer, Value, malformed};

/// The result of parsing one element of an answer. Bytes are counted from the element's start.
pub(super) enum Step {
    /// The element is incomplete.
    Incomplete {
        /// The minimum number of bytes for the next attempt.
        need_bytes: usize,
    },
    /// The element has been recorded, and the answer continues after it.
    More {
        /// Its length.
        bytes: usize,
    },
    /// The element is the last of the answer.
    Done {
        /// Its length.
        bytes: usize,
        /// The answer.
        answer: Answer,
    },
}

/// The parsed part of an answer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Offset of the next element.
    at: usize,
    /// Input shorter than this cannot complete the next step.
    need_bytes: usize,
    /// The number of bytes from the element's start known not to contain its line end.
    scanned: usize,
    pub(super) found: Found,
    pub(super) pairs: Vec<(String, String)>,
    /// The first refusal, after which the rest of the answer still follows.
    pub(super) refused: Option<Answer>,
    /// The number of refused writes.
    pub(super) refusals: usize,
}

impl Progress {
    /// Parses elements until the answer is complete. Returns its length and the answer.
    pub(super) fn run(
        &mut self,
        input: &[u8],
        mut step: impl FnMut(&mut Self, &[u8]) -> Result<Step, MalformedReply>,
    ) -> Result<Option<(usize, Answer)>, MalformedReply> {
        if input.len() < self.need_bytes {
            return Ok(None);
        }
        loop {
            let rest = input.get(self.at..).unwrap_or_default();
            match step(self, rest)? {
                Step::Incomplete { need_bytes } => {
                    self.need_bytes = self.at.saturating_add(need_bytes);
                    return Ok(None);
                }
                Step::More { bytes } => {
                    self.at += bytes;
                    self.scanned = 0;
                }
                Step::Done { bytes, answer } => {
                    let len = self.at + bytes;
                    *self = Progress::default();
                    return Ok(Some((len, answer)));
                }
            }
        }
    }

    /// The length, with its end, of the line at the start of `rest`, the next element.
    pub(super) fn line_end(&mut self, rest: &[u8]) -> Option<usize> {
        let unseen = rest.get(self.scanned..).unwrap_or_default();
        let end = unseen.iter().position(|&byte| byte == b'\n');
        let from = self.scanned;
        if end.is_none() {
            self.scanned = rest.len();
        }
        end.map(|end| from + end + 1)
    }

    /// Records that one of several writes was refused.
    pub(super) fn refuse(&mut self, answer: Answer) {
        self.refusals += 1;
        self.refused.get_or_insert(answer);
    }

    /// The refusal, or else the values of `keys`.
    pub(super) fn answer(&mut self, keys: &[&[u8]]) -> Answer {
        self.refused.take().unwrap_or_else(|| std::mem::take(&mut self.found).answer(keys))
    }
}

/// The values of an answer, in the order of the requested keys.
#[derive(Debug, Default)]
pub(super) struct Found {
    values: Vec<Option<Value>>,
    /// The first position to try for the next value: servers answer in the order of the keys, and
    /// omit missing ones.
    next: usize,
}

impl Found {
    /// Records the value of a key.
    ///
    /// # Errors
    /// The key was not requested, or not this often.
    pub(super) fn put(
        &mut self,
        keys: &[&[u8]],
        key: &[u8],
        value: Value,
    ) -> Result<(), MalformedReply> {
        self.values.resize(keys.len(), None);
        let next = self.next.min(keys.len());
        let is_free = |place: &usize| {
            keys.get(*place) == Some(&key) && self.values.get(*place) == Some(&None)
        };
        let place = (next..keys.len()).chain(0..next).find(is_free).ok_or_else(malformed)?;
        if let Some(free) = self.values.get_mut(place) {
            *free = Some(value);
        }
        self.next = place + 1;
        Ok(())
    }

    /// A value or `None` for each key.
    pub(super) fn answer(mut self, keys: &[&[u8]]) -> Answer {
        self.values.resize(keys.len(), None);
        Answer::Values(self.values)
    }
}
