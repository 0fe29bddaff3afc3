//! Entries that fit neither in a segment after splitting nor in its stash, because their keys have
//! equal hashes. Only a client that knew the seed could create many of them. They are sorted by
//! key, in runs, so that a lookup among a hundred thousand compares seventeen keys, and an
//! insertion or removal moves no more than one run's words.

use crate::entry::key::Name;
use crate::index::word::Word;
use crate::sync::holds::{self, Work};
use crate::sync::latch;
use std::cmp::Ordering;

/// The maximum number of words in a run.
const RUN_WORDS: usize = 512;

/// Words sorted by the keys of their entries. No run is empty. A word's index is its run's index
/// times [`RUN_WORDS`] plus its index in the run.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    runs: Vec<Vec<Word>>,
    len: usize,
}

/// The position of a key, or the position to insert it at.
type SearchResult = Result<(usize, usize), (usize, usize)>;

impl Overflow {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the index of the word of the entry with this name.
    pub(crate) fn find(&self, name: Name<'_>) -> Option<usize> {
        self.search(name).ok().map(index_of)
    }

    /// Inserts a word and returns its index. The indexes of other words may change.
    pub(crate) fn insert(&mut self, word: Word) -> usize {
        let (mut run, mut at) = self.search(name_of(&word)).unwrap_or_else(|place| place);
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        if let Some(full) = self.runs.get_mut(run).filter(|words| words.len() == RUN_WORDS) {
            let second = full.split_off(RUN_WORDS / 2);
            self.runs.insert(run + 1, second);
            if at > RUN_WORDS / 2 {
                (run, at) = (run + 1, at - RUN_WORDS / 2);
            }
        }
        self.runs.get_mut(run).into_iter().for_each(|words| words.insert(at, word));
        self.len += 1;
        index_of((run, at))
    }

    /// Removes the word at an index. The indexes of later words may change.
    pub(crate) fn remove(&mut self, index: usize) {
        let (run, at) = place_of(index);
        let Some(words) = self.runs.get_mut(run).filter(|words| at < words.len()) else { return };
        words.remove(at);
        self.len -= 1;
        if words.is_empty() {
            self.runs.remove(run);
        }
    }

    /// Replaces the word at an index by that of another entry with the same key.
    pub(crate) fn replace(&mut self, index: usize, word: Word) {
        let (run, at) = place_of(index);
        let place = self.runs.get_mut(run).and_then(|words| words.get_mut(at));
        place.into_iter().for_each(|place| *place = word);
    }

    /// Returns the word at an index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<Word> {
        let (run, at) = place_of(index);
        self.runs.get(run)?.get(at).copied()
    }

    /// Returns an upper bound of the indexes. Some indexes below it may be unused.
    pub(crate) fn end(&self) -> usize {
        self.runs.len() * RUN_WORDS
    }

    /// Iterates over the indexes in use, in order.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(run, words)| (0..words.len()).map(move |at| index_of((run, at))))
    }

    /// Iterates over the words after a name, sorted by name; over all words without one.
    pub(crate) fn after(&self, name: Option<Name<'_>>) -> impl Iterator<Item = Word> + '_ {
        let after = |(run, at)| (run, at + 1);
        let (run, at) = name.map_or((0, 0), |name| self.search(name).map_or_else(|at| at, after));
        self.runs.iter().skip(run).flatten().skip(at).copied()
    }

    fn search(&self, name: Name<'_>) -> SearchResult {
        latch::time_from_here();
        let mut compared = 0;
        let mut compare = |word: &Word| {
            compared += 1;
            name_of(word).cmp(&name)
        };
        let first = |words: &Vec<Word>| words.first().copied().unwrap_or(Word::EMPTY);
        let behind = self.runs.partition_point(|words| compare(&first(words)) != Ordering::Greater);
        let run = behind.saturating_sub(1);
        let words = self.runs.get(run).map_or(&[][..], Vec::as_slice);
        let found = words.binary_search_by(compare);
        holds::note(Work { compared, ..Work::default() });
        found.map(|at| (run, at)).map_err(|at| (run, at))
    }
}

/// Returns the name of a word's entry.
fn name_of(word: &Word) -> Name<'_> {
    // SAFETY: words here are those of live entries, which do not move while the latch is held; the
    // word is not borrowed for longer than that.
    word.entry().map_or(Name::Inline(&[]), |entry| unsafe { entry.name() })
}

fn index_of((run, at): (usize, usize)) -> usize {
    run * RUN_WORDS + at
}

fn place_of(index: usize) -> (usize, usize) {
    (index / RUN_WORDS, index % RUN_WORDS)
}
