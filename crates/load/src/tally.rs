//! The counts of a thread. Each thread sends them once a second, so that the report needs no lock
//! and the timeline needs no second histogram.

use std::collections::BTreeMap;

use hdrhistogram::{CreationError, Histogram};

use crate::clock::SECOND;

/// The upper bound of latencies, in nanoseconds: an hour.
pub(crate) const LONGEST_NS: u64 = 3_600 * SECOND;

/// Maximum number of distinct error texts; further ones share one entry.
const ERROR_TEXTS: usize = 50;

/// Maximum length of an error's text in bytes; longer texts are cut.
const ERROR_BYTES: usize = 200;

/// A histogram of nanoseconds, to three significant digits.
pub(crate) type Latencies = Histogram<u64>;

/// The counts of one second, or the sum of several seconds.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Answered requests with known latencies.
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// The number of reconnections.
    pub(crate) reconnects: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Processor time used by the client, in nanoseconds.
    pub(crate) cpu_ns: u64,
    pub(crate) latencies: Latencies,
    /// The delays between the due times of paced requests and their sending.
    pub(crate) delays: Latencies,
    pub(crate) errors: Errors,
}

impl Tally {
    pub(crate) fn new() -> Result<Self, CreationError> {
        Ok(Tally {
            requests: 0,
            hits: 0,
            misses: 0,
            reconnects: 0,
            sent_bytes: 0,
            received_bytes: 0,
            cpu_ns: 0,
            latencies: Latencies::new_with_bounds(1, LONGEST_NS, 3)?,
            delays: Latencies::new_with_bounds(1, LONGEST_NS, 3)?,
            errors: Errors::default(),
        })
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.misses += other.misses;
        self.reconnects += other.reconnects;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.cpu_ns += other.cpu_ns;
        // `add` fails only if the bounds of the histograms differ.
        let _ = self.latencies.add(&other.latencies);
        let _ = self.delays.add(&other.delays);
        self.errors.add(&other.errors);
    }
}

/// The number of failures by error text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errors {
    by_text: BTreeMap<String, u64>,
}

impl Errors {
    /// Counts `times` failures with the error text `text`.
    pub(crate) fn count(&mut self, text: &str, times: u64) {
        let text = text.get(..text.floor_char_boundary(ERROR_BYTES)).unwrap_or(text);
        if let Some(seen) = self.by_text.get_mut(text) {
            *seen += times;
        } else if times > 0 {
            let name = if self.by_text.len() < ERROR_TEXTS { text } else { "other errors" };
            *self.by_text.entry(name.to_owned()).or_default() += times;
        }
    }

    pub(crate) fn add(&mut self, other: &Errors) {
        for (text, times) in &other.by_text {
            self.count(text, *times);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_text.values().sum()
    }

    pub(crate) fn by_text(&self) -> &BTreeMap<String, u64> {
        &self.by_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_beyond_the_limit_share_one_entry() {
        let mut errors = Errors::default();
        for number in 0..1000 {
            errors.count(&format!("ERR {number}"), 1);
        }
        assert_eq!(errors.total(), 1000);
        assert_eq!(errors.by_text().len(), ERROR_TEXTS + 1);
        assert_eq!(errors.by_text()["other errors"], 1000 - ERROR_TEXTS as u64);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut errors = Errors::default();
        errors.count(&"é".repeat(ERROR_BYTES), 1);
        assert_eq!(errors.by_text().keys().next().unwrap().len(), ERROR_BYTES);
        errors.count(&"é".repeat(ERROR_BYTES * 2), 2);
        assert_eq!(errors.total(), 3);
        assert_eq!(errors.by_text().len(), 1);
    }
}
