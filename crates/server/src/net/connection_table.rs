//! A driver's connections by their tokens.

use crate::net::driver::Token;
use nagi_store::accounting::Overhead;

/// Generations are below this, so that a driver can mark what it asks of the kernel with the bits
/// above.
const GENERATIONS: u32 = 1 << 28;

/// A table whose indices are used again, and whose tokens are not.
#[derive(Debug)]
pub(crate) struct Links<L> {
    places: Vec<Option<(Token, L)>>,
    vacant: Vec<u32>,
    generation: u32,
    /// The memory of both.
    overhead: Overhead,
}

impl<L> Default for Links<L> {
    fn default() -> Self {
        let overhead = Overhead::default();
        Links { places: Vec::new(), vacant: Vec::new(), generation: 0, overhead }
    }
}

impl<L> Links<L> {
    /// The token that the next link gets.
    pub(crate) fn next(&self) -> Token {
        let index = match self.vacant.last() {
            Some(index) => *index,
            None => u32::try_from(self.places.len()).unwrap_or(u32::MAX),
        };
        Token { index, generation: (self.generation + 1) % GENERATIONS }
    }

    /// Adds a link under the token that was next.
    pub(crate) fn add(&mut self, link: L) -> Token {
        let token = self.next();
        self.generation = token.generation;
        self.vacant.pop();
        match self.places.get_mut(token.index as usize) {
            Some(place) => *place = Some((token, link)),
            None => self.places.push(Some((token, link))),
        }
        self.note_bytes();
        token
    }

    fn note_bytes(&mut self) {
        let place_bytes = size_of::<Option<(Token, L)>>();
        let vacant_bytes = self.vacant.capacity() * size_of::<u32>();
        self.overhead.set(self.places.capacity() * place_bytes + vacant_bytes);
    }

    /// The link that a token names, if it is still there.
    #[inline]
    pub(crate) fn get(&self, token: Token) -> Option<&L> {
        let (named, link) = self.places.get(token.index as usize)?.as_ref()?;
        (*named == token).then_some(link)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut L> {
        let (named, link) = self.places.get_mut(token.index as usize)?.as_mut()?;
        (*named == token).then_some(link)
    }

    /// Takes a link out.
    pub(crate) fn remove(&mut self, token: Token) -> Option<L> {
        let place = self.places.get_mut(token.index as usize)?;
        let (_, link) = place.take_if(|(named, _)| *named == token)?;
        self.vacant.push(token.index);
        self.note_bytes();
        Some(link)
    }

    /// How many links there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_outlives_its_link_and_names_no_other() {
        let mut links = Links::default();
        let (first, second) = (links.add("first"), links.add("second"));
        assert_eq!((links.get(first), links.get(second)), (Some(&"first"), Some(&"second")));
        assert_eq!(links.remove(first), Some("first"));
        let third = links.add("third");
        assert_eq!(third.index, first.index, "places are used again");
        assert_eq!(links.get(first), None);
        assert_eq!(links.remove(first), None);
        assert_eq!(links.get_mut(third), Some(&mut "third"));
        assert_eq!(links.len(), 2);
    }
}
