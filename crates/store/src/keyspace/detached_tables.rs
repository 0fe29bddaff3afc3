//! Tables that were taken out of the store with entries of a snapshot in them, on their way to
//! the saver.

use crate::index::table::Table;
use crate::sync::steps::{self, Step};
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A queue, into which sending never waits.
#[derive(Debug)]
pub(crate) struct DetachedTables {
    sender: Sender<Table>,
    /// Taken out for the length of a save.
    receiver: Mutex<Option<Receiver<Table>>>,
}

impl Default for DetachedTables {
    fn default() -> Self {
        let (sender, receiver) = channel();
        DetachedTables { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl DetachedTables {
    /// The end to take tables out at, unless a save has it.
    pub(crate) fn open(&self) -> Option<Receiver<Table>> {
        self.receiver.lock().take()
    }

    /// Takes that end back.
    pub(crate) fn close(&self, receiver: Receiver<Table>) {
        *self.receiver.lock() = Some(receiver);
    }

    /// Hands a table over. The receiver stands in `self` or in the saver's hands, so whatever is
    /// sent is received.
    pub(crate) fn send(&self, table: Table) {
        drop(self.sender.send(table));
        steps::reach(Step::Sent);
    }
}
