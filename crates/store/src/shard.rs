//! One part of the keyspace: the tables of every database over one range of hashes.

use crate::entry::Record;
use std::collections::BTreeMap;

/// The entries of one database in one shard, in hash order.
pub(crate) type Table = BTreeMap<(u64, Box<[u8]>), Record>;

/// What one latch guards.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// By database; allocated when first used.
    pub(crate) tables: Vec<Table>,
    /// The last CAS number given out here. Numbers are unique per key, which is all that a client
    /// can compare.
    pub(crate) last_cas: u64,
}

impl Shard {
    /// The table of database `index`, made if it is not there.
    pub(crate) fn table(&mut self, index: usize) -> &mut Table {
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, Table::new);
        }
        #[expect(clippy::indexing_slicing, reason = "the table was made just above")]
        &mut self.tables[index]
    }
}
