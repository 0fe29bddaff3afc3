//! How far the answer to a request has been read, so that no byte of an answer that arrives in many
//! pieces is read more than a few times, and no value is copied twice.

use nagi_proto::MalformedReply;

use super::request::{Answer, Value, malformed};

/// What one element of an answer amounts to. Bytes are counted from the element's first.
pub(super) enum Step {
    /// Not all of it is there.
    Incomplete {
        /// Fewer bytes are not worth looking at.
        need_bytes: usize,
    },
    /// It has been noted, and the answer goes on after it.
    More {
        /// Its length.
        bytes: usize,
    },
    /// It is the last of the answer.
    Done {
        /// Its length.
        bytes: usize,
        /// The answer.
        answer: Answer,
    },
}

/// What has been read of an answer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Offset of the next element.
    at: usize,
    /// Input shorter than this has nothing to add.
    need_bytes: usize,
    /// The end of the element's line is not among so many bytes at its start.
    scanned: usize,
    pub(super) found: Found,
    pub(super) pairs: Vec<(String, String)>,
    /// What the server refused, after which the rest of the answer still comes.
    pub(super) refused: Option<Answer>,
    /// How many writes among several were refused.
    pub(super) refusals: usize,
}

impl Progress {
    /// Reads elements until the answer is complete: its length, and what it says.
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

    /// The length of the line at the start of `rest`, where the next element is, with its end.
    pub(super) fn line_end(&mut self, rest: &[u8]) -> Option<usize> {
        let unseen = rest.get(self.scanned..).unwrap_or_default();
        let end = unseen.iter().position(|&byte| byte == b'\n');
        let from = self.scanned;
        if end.is_none() {
            self.scanned = rest.len();
        }
        end.map(|end| from + end + 1)
    }

    /// Notes that one write among several was refused.
    pub(super) fn refuse(&mut self, answer: Answer) {
        self.refusals += 1;
        self.refused.get_or_insert(answer);
    }

    /// What was refused, or else the values of `keys`.
    pub(super) fn answer(&mut self, keys: &[&[u8]]) -> Answer {
        self.refused.take().unwrap_or_else(|| std::mem::take(&mut self.found).answer(keys))
    }
}

/// The values of an answer, put where their keys are as they come.
#[derive(Debug, Default)]
pub(super) struct Found {
    values: Vec<Option<Value>>,
    /// Where the next value is looked for first: servers answer in the order of the keys, leaving
    /// out what they do not have.
    next: usize,
}

impl Found {
    /// Notes the value of a key.
    ///
    /// # Errors
    /// The key was not asked for, or not as often.
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

    /// A value, or nothing, for each key.
    pub(super) fn answer(mut self, keys: &[&[u8]]) -> Answer {
        self.values.resize(keys.len(), None);
        Answer::Values(self.values)
    }
}
