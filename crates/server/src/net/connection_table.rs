//! A driver's connections by their tokens. Each is allocated separately, so that a growing table
//! moves no connection, and the memory of a closed one is freed.

use crate::net::token::Token;
use nagi_store::accounting::{Overhead, room_bytes};

/// Generations stay below this, so that a driver can tag its kernel requests with the upper bits.
const GENERATIONS: u32 = 1 << 28;

/// A table that reuses indices but not tokens.
#[derive(Debug)]
pub(crate) struct ConnectionTable<L> {
    places: Vec<Option<(Token, Box<L>)>>,
    vacant: Vec<u32>,
    generation: u32,
    /// Memory of `places`, of `vacant` and of the connections.
    overhead: Overhead,
}

impl<L> Default for ConnectionTable<L> {
    fn default() -> Self {
        let overhead = Overhead::default();
        ConnectionTable { places: Vec::new(), vacant: Vec::new(), generation: 0, overhead }
    }
}

impl<L> ConnectionTable<L> {
    /// The token that the next connection gets.
    pub(crate) fn next(&self) -> Token {
        let index = match self.vacant.last() {
            Some(index) => *index,
            None => u32::try_from(self.places.len()).unwrap_or(u32::MAX),
        };
        Token { index, generation: (self.generation + 1) % GENERATIONS }
    }

    /// Adds a connection under the token that was next.
    pub(crate) fn add(&mut self, connection: L) -> Token {
        let token = self.next();
        self.generation = token.generation;
        self.vacant.pop();
        match self.places.get_mut(token.index as usize) {
            Some(place) => *place = Some((token, Box::new(connection))),
            None => self.places.push(Some((token, Box::new(connection)))),
        }
        self.note_bytes();
        token
    }

    fn note_bytes(&mut self) {
        let places_bytes = room_bytes::<Option<(Token, Box<L>)>>(self.places.capacity());
        let vacant_bytes = room_bytes::<u32>(self.vacant.capacity());
        self.overhead.set(places_bytes + vacant_bytes + self.len() * room_bytes::<L>(1));
    }

    /// The connection that a token names, if it still exists.
    #[inline]
    pub(crate) fn get(&self, token: Token) -> Option<&L> {
        let (named, connection) = self.places.get(token.index as usize)?.as_ref()?;
        (*named == token).then_some(connection)
    }

    /// The connection that a token names, mutable, if it still exists.
    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut L> {
        let (named, connection) = self.places.get_mut(token.index as usize)?.as_mut()?;
        (*named == token).then_some(connection)
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, token: Token) -> Option<L> {
        let place = self.places.get_mut(token.index as usize)?;
        let (_, connection) = place.take_if(|(named, _)| *named == token)?;
        self.vacant.push(token.index);
        self.note_bytes();
        Some(*connection)
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_removed_connection_names_no_other() {
        let mut connections = ConnectionTable::default();
        let (first, second) = (connections.add("first"), connections.add("second"));
        assert_eq!(
            (connections.get(first), connections.get(second)),
            (Some(&"first"), Some(&"second"))
        );
        assert_eq!(connections.remove(first), Some("first"));
        let third = connections.add("third");
        assert_eq!(third.index, first.index, "places are used again");
        assert_eq!(connections.get(first), None);
        assert_eq!(connections.remove(first), None);
        assert_eq!(connections.get_mut(third), Some(&mut "third"));
        assert_eq!(connections.len(), 2);
    }
}
