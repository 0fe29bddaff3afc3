//! The progress of parsing an answer. It ensures that no byte of an answer that arrives in many
//! pieces is read more than a few times, and that no value is copied twice.

use nagi_proto::MalformedReply;

use super::request::{Answer, Value, malformed};

/// The result of parsing one element of an answer. Lengths count from the element's start.
pub(super) enum Step {
    /// The element is incomplete.
    Incomplete {
        /// The minimum length of the element's bytes for the next attempt.
        need_bytes: usize,
    },
    /// The element has been recorded, and the answer continues after it.
    More {
        /// The length of the element.
        bytes: usize,
    },
    /// The element is the last of the answer.
    Done {
        /// The length of the element.
        bytes: usize,
        /// The answer.
        answer: Answer,
    },
}

/// The parsed part of an answer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The offset of the next element.
    at: usize,
    /// The length of input below which the next step cannot be completed.
    need_bytes: usize,
    /// Number of bytes from the element's start that are known not to contain its line end.
    scanned: usize,
    pub(super) found: Found,
    pub(super) pairs: Vec<(String, String)>,
    /// The first refusal. The rest of the answer still follows it.
    pub(super) refused: Option<Answer>,
    /// The number of refused writes.
    pub(super) refusals: usize,
}

impl Progress {
    /// Parses elements until the answer is complete. Returns the length of the answer, and the
    /// answer.
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

    /// Returns the length, including its line end, of the line at the start of `rest`; `None` if
    /// the line is incomplete.
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

    /// Returns the refusal if there is one, otherwise the values of `keys`.
    pub(super) fn answer(&mut self, keys: &[&[u8]]) -> Answer {
        self.refused.take().unwrap_or_else(|| std::mem::take(&mut self.found).answer(keys))
    }
}

/// The values of an answer, in the order of the requested keys.
#[derive(Debug, Default)]
pub(super) struct Found {
    values: Vec<Option<Value>>,
    /// The first index to try for the next value: servers answer in the order of the keys, and omit
    /// missing ones.
    next: usize,
}

impl Found {
    /// Records the value of a key.
    ///
    /// # Errors
    /// The key was not requested, or was requested fewer times than it was answered.
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

    /// Returns a value or `None` for each key.
    pub(super) fn answer(mut self, keys: &[&[u8]]) -> Answer {
        self.values.resize(keys.len(), None);
        Answer::Values(self.values)
    }
}
