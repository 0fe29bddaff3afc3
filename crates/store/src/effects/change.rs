//! Changes: the results of operations, for notifications and for a journal or a replica.

use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::value::SharedValue;
use nagi_chunk::Chunk;

/// The changes of one operation, or of all operations of one hold.
#[derive(Clone, Debug)]
pub struct StoreChange {
    /// Greater than the numbers of all earlier changes of the same keys.
    pub number: u64,
    /// The epoch of snapshots to which it belongs: a snapshot that begins a later epoch contains
    /// it.
    pub epoch: u8,
    /// The keys with events, in order. A key may occur more than once.
    pub keys: Vec<KeyChange>,
    /// The effects that replicate the change in another store, to be applied atomically and in
    /// order.
    pub effects: Vec<Effect>,
}

/// The events of one key.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The index of its database.
    pub database: usize,
    /// The key.
    pub key: Chunk,
    /// The events, in order. There may be none, as when a version is assigned its number.
    pub events: Vec<Event>,
    /// Whether its value or its expiry has changed, according to Redis' rules.
    pub is_modified: bool,
}

/// An effect that replicates an operation in another store. Times are absolute, and computed or
/// random values are contained as results.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The effect on one key.
    Key(KeyEffect),
    /// A key's entry is stored under another key, replacing any entry there.
    Transfer {
        /// The source: a database's index and a key.
        from: (usize, Chunk),
        /// The target.
        to: (usize, Chunk),
        /// Whether the source is removed.
        is_moved: bool,
    },
    /// A database is emptied; all of them if `None`.
    Flush(Option<usize>),
    /// Two databases are exchanged.
    Swap(usize, usize),
}

/// The effect on one key.
#[derive(Clone, Debug)]
pub struct KeyEffect {
    /// The index of its database.
    pub database: usize,
    /// The key.
    pub key: Chunk,
    /// The effect on its entry.
    pub entry: EntryEffect,
}

/// The effect on an entry.
#[derive(Clone, Debug)]
pub enum EntryEffect {
    /// The entry is removed.
    Remove,
    /// The entry is stored, replacing any other.
    Put(SharedValue, Attributes),
    /// Parts of a string are overwritten: offsets and bytes, the string's length in bytes
    /// afterwards, and its attributes.
    Write(Vec<(usize, Box<[u8]>)>, usize, Attributes),
    /// The entry has other attributes.
    Attributes(Attributes),
}
