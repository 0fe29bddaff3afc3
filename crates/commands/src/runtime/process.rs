//! What handlers ask of the process that they run in. The server crate implements it; tests use
//! a stand-in.

use crate::state::saves::Saves;
use crate::{Addresses, Attention, ClientInfo, Config, Statistics};
use std::sync::Arc;

/// The process around the commands.
pub trait Server: Sync {
    /// Every connection of the process, in no particular order.
    fn clients(&self) -> Vec<Arc<ClientInfo>>;

    /// Closes connections: they execute nothing more, and are listed no more when this returns.
    fn kill(&self, clients: &[Arc<ClientInfo>]);

    /// Has what is due looked for at once: there is something new to wait for.
    fn hurry(&self);

    /// Has a worker send what monitors that it owns are to see.
    fn show_monitors(&self, worker: usize);

    /// The same for who watches with memcached's `watch`.
    fn show_watchers(&self, worker: usize);

    /// What requests must pass, or be seen by, before they run.
    fn attention(&self) -> &Attention;

    /// Asks the process to stop, as SIGTERM does; `saves` tells whether it saves its data at the
    /// end, which it otherwise does where `save` has points.
    fn shut_down(&self, saves: Option<bool>);

    /// What is saved, and how that goes.
    fn saves(&self) -> &Saves;

    /// The settings; workers read them, CONFIG SET changes them.
    fn config(&self) -> &Config;

    /// Listens to these addresses from now on, and to no others.
    ///
    /// # Errors
    /// The name of the setting that cannot be gone by; all is as it was before then.
    fn listen(&self, wanted: &Addresses) -> Result<(), &'static str>;

    /// The most clients that the process may have descriptors for.
    fn most_clients(&self) -> u64;

    /// What the workers have counted.
    fn statistics(&self) -> &Statistics;

    /// What does not change while the process lives.
    fn process(&self) -> &Process;

    /// Empties database 0 at the time `at_ms`, in milliseconds since 1970 (memcached's
    /// `flush_all` with a delay); [`u64::MAX`] stands for never. A later call replaces the time of
    /// an earlier one.
    fn flush_at(&self, at_ms: u64);
}

/// What does not change while the process lives.
#[derive(Clone, Debug)]
pub struct Process {
    /// 40 random hexadecimal digits.
    pub run_id: String,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// Memory in use when the server began to listen, in bytes.
    pub startup_bytes: u64,
    /// How many workers it has.
    pub workers: usize,
    /// What its workers wait with: `epoll` or `io_uring`.
    pub io: &'static str,
}
