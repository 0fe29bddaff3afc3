//! Passes tables that still contain entries of a snapshot from the store to the saver.

use crate::index::table::Table;
use crate::sync::steps::{self, Step};
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// An unbounded queue of tables.
#[derive(Debug)]
pub(crate) struct DetachedTables {
    sender: Sender<Table>,
    /// Moved to the saver for the duration of a save.
    receiver: Mutex<Option<Receiver<Table>>>,
}

impl Default for DetachedTables {
    fn default() -> Self {
        let (sender, receiver) = channel();
        DetachedTables { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl DetachedTables {
    /// Returns the receiver, unless a save has it.
    pub(crate) fn open(&self) -> Option<Receiver<Table>> {
        self.receiver.lock().take()
    }

    /// Returns the receiver after a save.
    pub(crate) fn close(&self, receiver: Receiver<Table>) {
        *self.receiver.lock() = Some(receiver);
    }

    /// Sends a table. Either `self` or a save has the receiver, so every table that is sent is
    /// received.
    pub(crate) fn send(&self, table: Table) {
        drop(self.sender.send(table));
        steps::reach(Step::Sent);
    }
}
