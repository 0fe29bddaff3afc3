//! What neither splitting nor the stash of a segment can place: keys of equal hash, many of which
//! can only be made by a client that knows the seed. They are kept in the order of their keys, in
//! runs, so that one of a hundred thousand is found by comparing seventeen of them, and to add or
//! remove one moves no more than a run's words.

use crate::entry::key::Name;
use crate::index::word::Word;
use crate::sync::holds::{self, Work};
use crate::sync::latch;
use std::cmp::Ordering;

/// Words in a run at most.
const RUN_WORDS: usize = 512;

/// Words by the order of their entries' keys. No run is empty. A word's index is its run's, times
/// [`RUN_WORDS`], and its place there.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    runs: Vec<Vec<Word>>,
    len: usize,
}

/// Where a key is, or where it would be put.
type SearchResult = Result<(usize, usize), (usize, usize)>;

impl Overflow {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The index of the word of the entry of that name.
    pub(crate) fn find(&self, name: Name<'_>) -> Option<usize> {
        self.search(name).ok().map(index_of)
    }

    /// Adds a word and says at which index. Other words may have another index afterwards.
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

    /// Removes the word at an index. Those after it have another index afterwards.
    pub(crate) fn remove(&mut self, index: usize) {
        let (run, at) = place_of(index);
        let Some(words) = self.runs.get_mut(run).filter(|words| at < words.len()) else { return };
        words.remove(at);
        self.len -= 1;
        if words.is_empty() {
            self.runs.remove(run);
        }
    }

    /// Puts the word of another entry of the same key at an index.
    pub(crate) fn replace(&mut self, index: usize, word: Word) {
        let (run, at) = place_of(index);
        let place = self.runs.get_mut(run).and_then(|words| words.get_mut(at));
        place.into_iter().for_each(|place| *place = word);
    }

    /// The word at an index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<Word> {
        let (run, at) = place_of(index);
        self.runs.get(run)?.get(at).copied()
    }

    /// No word has this index or one beyond, and some below may have none.
    pub(crate) fn end(&self) -> usize {
        self.runs.len() * RUN_WORDS
    }

    /// Every index that has a word, in order.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(run, words)| (0..words.len()).map(move |at| index_of((run, at))))
    }

    /// The words after a name, in the order of names; all without one.
    pub(crate) fn after(&self, name: Option<Name<'_>>) -> impl Iterator<Item = Word> + '_ {
        let after = |(run, at)| (run, at + 1);
        let (run, at) = name.map_or((0, 0), |name| self.search(name).map_or_else(|at| at, after));
        self.runs.iter().skip(run).flatten().skip(at).copied()
    }

    fn search(&self, name: Name<'_>) -> SearchResult {
        latch::slow();
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

/// The name of a word's entry.
fn name_of(word: &Word) -> Name<'_> {
    // SAFETY: words here are those of live entries, which stay where they are while the latch is
    // held, and no longer is the word borrowed.
    word.entry().map_or(Name::Inline(&[]), |entry| unsafe { entry.name() })
}

fn index_of((run, at): (usize, usize)) -> usize {
    run * RUN_WORDS + at
}

fn place_of(index: usize) -> (usize, usize) {
    (index / RUN_WORDS, index % RUN_WORDS)
}
