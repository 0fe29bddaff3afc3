//! One part of the keyspace: the tables of every database over one range of hashes.

use crate::pages::PagePool;
use crate::table::{Locator, Table};
use std::sync::Arc;

/// What one latch guards.
#[derive(Debug)]
pub(crate) struct Shard {
    locator: Locator,
    pool: Arc<PagePool>,
    /// By database, as far as the highest that was ever used.
    tables: Vec<Table>,
    /// The last CAS number given out here. Numbers are unique per key, which is all that a client
    /// can compare.
    last_cas: u64,
}

impl Shard {
    pub(crate) fn new(locator: Locator, pool: Arc<PagePool>) -> Self {
        Shard { locator, pool, tables: Vec::new(), last_cas: 0 }
    }

    /// The table of a database, if anything was ever stored there.
    #[inline]
    pub(crate) fn table(&self, database: usize) -> Option<&Table> {
        self.tables.get(database)
    }

    /// The table of a database, made if it is not there, and the last CAS number.
    pub(crate) fn table_mut(&mut self, database: usize) -> (&mut Table, &mut u64) {
        while self.tables.len() <= database {
            self.tables.push(Table::new(self.locator, Arc::clone(&self.pool)));
        }
        #[expect(clippy::indexing_slicing, reason = "the table was made just above")]
        let table = &mut self.tables[database];
        (table, &mut self.last_cas)
    }

    /// Exchanges the tables of two databases.
    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        self.table_mut(first.max(second));
        self.tables.swap(first, second);
    }

    /// Every database's table, in order.
    pub(crate) fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }
}
