//! Changes: what one operation did, for notifications and for a journal or a replica.

use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::value::SharedValue;
use nagi_chunk::Chunk;

/// What one operation, or all operations of one hold, did.
#[derive(Clone, Debug)]
pub struct StoreChange {
    /// Greater than those of all changes before of the same keys.
    pub number: u64,
    /// The snapshots' epoch that it belongs to: a snapshot that begins a later one has it.
    pub epoch: u8,
    /// The keys that something happened to, in order. One may stand here more than once.
    pub keys: Vec<KeyChange>,
    /// What makes the same of another store, to be done at one moment and in order.
    pub effects: Vec<Effect>,
}

/// What happened to a key.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Chunk,
    /// By their names, in order; there may be none, as where a version is given its number.
    pub events: Vec<Event>,
    /// Whether its value or its expiry was changed, as far as Redis counts that as a change.
    pub is_modified: bool,
}

/// What makes of another store what an operation made of this one. Times are absolute, and what
/// was worked out or drawn stands here as it came out.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Something happens to one key.
    Key(KeyEffect),
    /// A key's entry is put under another key, in place of what stands there.
    Transfer {
        /// From where: a database's number and a key.
        from: (usize, Chunk),
        /// To where.
        to: (usize, Chunk),
        /// Whether it is there alone afterwards.
        is_moved: bool,
    },
    /// A database is emptied, or all are if there is none.
    Flush(Option<usize>),
    /// Two databases are exchanged.
    Swap(usize, usize),
}

/// What becomes of one key.
#[derive(Clone, Debug)]
pub struct KeyEffect {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Chunk,
    /// What becomes of its entry.
    pub entry: EntryEffect,
}

/// What becomes of an entry.
#[derive(Clone, Debug)]
pub enum EntryEffect {
    /// It is removed.
    Remove,
    /// It is put there, in place of any other.
    Put(SharedValue, Attributes),
    /// Parts of a string are overwritten, which has this length in bytes then: each is an offset
    /// and what stands there. It has these attributes.
    Write(Vec<(usize, Box<[u8]>)>, usize, Attributes),
    /// It gets other attributes.
    Attributes(Attributes),
}
