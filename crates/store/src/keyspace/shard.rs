//! One part of the keyspace: the tables of all databases for one range of hashes.

use crate::index::directory::{self, Directories};
use crate::index::table::{Locator, Table};
use crate::memory::accounting::vector_bytes;
use crate::memory::pages::PagePool;
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::snapshot::{Outbox, SnapshotProgress};
use crate::tree::blocks::Blocks;
use std::sync::Arc;

/// The data guarded by one latch. The order of fields puts those of a lookup on the latch's own
/// cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    /// By database, up to the highest that was ever used.
    tables: Vec<Table>,
    number: usize,
    locator: Locator,
    pool: Arc<PagePool>,
    directories: Arc<Directories>,
    outbox: Arc<Outbox>,
    /// Allocates the nodes of collections.
    blocks: Arc<Blocks>,
    /// The last CAS number assigned here. Numbers are unique per key; clients cannot compare those
    /// of different keys.
    last_cas: u64,
}

const _: () = assert!(std::mem::offset_of!(Shard, tables) == 0);

impl Shard {
    pub(crate) fn new(
        number: usize,
        locator: Locator,
        pool: Arc<PagePool>,
        directories: Arc<Directories>,
        outbox: Arc<Outbox>,
        blocks: Arc<Blocks>,
        last_cas: u64,
    ) -> Self {
        let tables = Vec::new();
        Shard { tables, number, locator, pool, directories, outbox, blocks, last_cas }
    }

    /// Returns the table of a database, if anything was ever stored there.
    #[inline]
    pub(crate) fn table(&self, database: usize) -> Option<&Table> {
        self.tables.get(database)
    }

    /// Returns the table of a database, which is created if there is none, the last CAS number, and
    /// the allocator for nodes of collections.
    #[inline]
    pub(crate) fn table_mut(&mut self, database: usize) -> (&mut Table, &mut u64, &Arc<Blocks>) {
        if self.tables.len() <= database {
            self.make_tables(database);
        }
        #[expect(clippy::indexing_slicing, reason = "the table was created just above")]
        let table = &mut self.tables[database];
        (table, &mut self.last_cas, &self.blocks)
    }

    /// Creates the tables up to that of a database.
    #[cold]
    fn make_tables(&mut self, database: usize) {
        while self.tables.len() <= database {
            let directories = Arc::clone(&self.directories);
            let (database, shard) = (self.tables.len(), self.number);
            let owner = directory::DirectoryOwner { directories, database, shard };
            let before = vector_bytes(&self.tables);
            let progress = SnapshotProgress::new(Arc::clone(&self.outbox));
            self.tables.push(Table::new(self.locator, Arc::clone(&self.pool), owner, progress));
            self.pool.add_idle_bytes(vector_bytes(&self.tables) - before);
        }
    }

    /// Exchanges the tables of two databases.
    pub(crate) fn swap(&mut self, barrier: MutationBarrier, first: usize, second: usize) {
        self.table_mut(first.max(second));
        // A snapshot identifies tables by the indexes that they had at the cut.
        self.tables.iter_mut().for_each(|table| table.begin(barrier));
        self.tables.swap(first, second);
        for database in [first, second] {
            self.tables.get_mut(database).into_iter().for_each(|table| table.move_to(database));
        }
    }

    /// Returns the number of entries, and the number that there would be if all shards were equally
    /// full.
    pub(crate) fn fullness(&self) -> (usize, u64) {
        let entries = self.tables.iter().map(Table::len).sum();
        (entries, self.locator.range.density(entries))
    }

    /// Returns the number of selected databases that have entries in this shard.
    pub(crate) fn count_filled(&self, is_selected: impl Fn(usize) -> bool) -> usize {
        let tables = self.tables.iter().enumerate();
        tables.filter(|(index, table)| is_selected(*index) && table.len() > 0).count()
    }

    /// Whether there is any entry; with `volatile`, any entry with an expiry.
    pub(crate) fn has_any(&self, volatile: bool) -> bool {
        let len = |table: &Table| if volatile { table.volatile_len() } else { table.len() };
        self.tables.iter().any(|table| len(table) > 0)
    }

    /// Returns a table that a snapshot has not read completely.
    pub(crate) fn unwalked_table(&mut self, barrier: MutationBarrier) -> Option<&mut Table> {
        self.tables.iter_mut().find_map(|table| {
            table.begin(barrier);
            table.progress().walked_to().is_some().then_some(table)
        })
    }

    /// Returns the tables of all databases, in order.
    pub(crate) fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }
}
