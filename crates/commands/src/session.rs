//! A client as handlers see it, and as other clients see it in CLIENT LIST.

use crate::admission::Restrictions;
use nagi_proto::resp::Version;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The state of one connection that commands read and change. Owned by its worker.
#[derive(Debug)]
pub struct Client {
    /// The database chosen by SELECT.
    pub database: usize,
    /// The protocol version chosen by HELLO.
    pub version: Version,
    /// Whether the connection is to be closed once its replies are sent.
    pub closing: bool,
    /// Why it may not run any command that it likes.
    pub restrictions: Restrictions,
    /// What other clients may see.
    pub info: Arc<ClientInfo>,
    /// Called when what the client's request waits for has come.
    pub waker: Waker,
}

impl Client {
    /// A client that has just connected.
    #[must_use]
    pub fn new(info: Arc<ClientInfo>) -> Self {
        Client {
            database: 0,
            version: Version::Two,
            closing: false,
            restrictions: Restrictions::empty(),
            info,
            waker: Waker::noop().clone(),
        }
    }

    /// Chooses the database of further requests, which must exist.
    pub(crate) fn select(&mut self, index: usize) {
        self.database = index;
        self.info.database.store(index, Ordering::Relaxed);
    }

    /// Chooses the version of replies to further requests.
    pub(crate) fn speak(&mut self, version: Version) {
        self.version = version;
        self.info.resp.store(version.number(), Ordering::Relaxed);
    }
}

/// What is known of a connection across workers. Its worker writes, anyone reads.
#[derive(Debug, Default)]
pub struct ClientInfo {
    /// Unique and ascending over the life of the process.
    pub id: u64,
    /// The peer's address, as in `127.0.0.1:50412`.
    pub address: String,
    /// The address that it connected to.
    pub local_address: String,
    /// Its descriptor.
    pub descriptor: i32,
    /// When it connected, in milliseconds since 1970.
    pub connected_at_ms: u64,
    /// When it last sent something, in milliseconds since 1970.
    pub active_at_ms: AtomicU64,
    /// Its database.
    pub database: AtomicUsize,
    /// 2 or 3; 0 if it speaks memcached's protocol.
    pub resp: AtomicU32,
    /// Bytes received and not yet executed.
    pub query_bytes: AtomicUsize,
    /// Bytes of replies not yet sent.
    pub output_bytes: AtomicUsize,
    /// The number of the last command that ran, for [`crate::table::label`]; 0 for none.
    pub last_command: AtomicU32,
    /// What it said of itself.
    pub names: Mutex<ClientNames>,
}

impl ClientInfo {
    /// The name that the client gave itself.
    #[must_use]
    pub fn name(&self) -> String {
        self.names().name.clone()
    }

    /// What the client said of itself.
    pub(crate) fn names(&self) -> MutexGuard<'_, ClientNames> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the client a name; an empty one takes it away.
    pub(crate) fn rename(&self, name: String) {
        self.names().name = name;
    }
}

/// What a client says of itself with CLIENT SETNAME and SETINFO.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
}
