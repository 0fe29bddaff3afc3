//! A handler's context: its request, and the process around it.

use crate::config::{Addresses, Config};
use crate::error::Error;
use crate::registry::{command, table};
use crate::runtime::suspension::{self, JobProgress};
use crate::state::client::{Client, ClientInfo};
use crate::state::hooks::RequestHooks;
use crate::state::process::Process;
use crate::state::pubsub::PubSub;
use crate::state::saves::Saves;
use crate::state::scripts::Scripts;
use crate::state::statistics::{Statistics, Tally};
use nagi_proto::Args;
use nagi_store::{Claim, Database, Key};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A set of commands with the form of its replies: [`Redis`]' commands, or
/// [`Memcached`](crate::memcached::Memcached)'s verbs.
pub trait CommandSet: Sized + 'static {
    /// Writes the replies.
    type Writer<'a>;
    /// The error of a handler.
    type Error;

    /// The number of reply bytes in the output.
    fn written(replies: &Self::Writer<'_>) -> usize;

    /// Runs the request from lookup to reply. If `cx.suspension` is set afterwards, it is not
    /// complete.
    fn execute(cx: &mut Context<'_, Self>);

    /// Replies with an error.
    fn refuse(cx: &mut Context<'_, Self>, error: &Self::Error);
}

/// The commands of Redis, answered in RESP.
#[derive(Debug)]
pub enum Redis {}

/// Runs a command. The arity has been checked; a reply is written unless an error is returned.
pub type Handler = for<'a> fn(&mut Context<'a>, Args<'a>) -> Result<(), Error>;

/// A command's row.
pub type Command = command::Command<Handler>;

/// A command's row and its index.
pub type Entry = table::Entry<Handler>;

/// All commands.
pub type CommandTable = table::CommandTable<Handler>;

/// A request that is not complete.
pub type Suspension<C = Redis> = suspension::Suspension<Job<C>>;

/// Work that takes many ticks, in slices of at most a millisecond per call. Meanwhile, only the
/// next request of the same client waits.
pub type Job<C = Redis> =
    Box<dyn FnMut(&mut Context<'_, C>) -> Result<JobProgress, <C as CommandSet>::Error> + Send>;

/// Everything that a handler may use, for the length of one request: `db` is rebuilt for each,
/// from `client.database`, which SELECT changes.
pub struct Context<'a, C: CommandSet = Redis> {
    /// The client's database, at the time of the batch; database 0 for memcached's verbs.
    pub db: Database<'a>,
    /// The client that sent the request.
    pub client: &'a mut Client,
    /// The process around it.
    pub server: &'a dyn Server,
    /// The hooks of requests.
    pub hooks: &'a RequestHooks,
    /// This worker's counters.
    pub tally: &'a Tally,
    /// The writer of the reply.
    pub reply: C::Writer<'a>,
    /// The request, the same for every slice of its job; empty in memcached's binary protocol.
    pub args: Args<'a>,
    /// The request's first key, hashed when the batch was prefetched.
    pub prefetched: Option<Key<'a>>,
    /// Set if the request is not complete.
    pub suspension: Option<Suspension<C>>,
}

impl<'a, C: CommandSet> Context<'a, C> {
    /// Hashes a key, unless the batch has done so already.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k>
    where
        'a: 'k,
    {
        match self.prefetched {
            Some(key) if std::ptr::eq(key.bytes(), bytes) => key,
            _ => self.db.key(bytes),
        }
    }

    /// Runs the first slice of a job, and leaves it in `self.suspension` if there is more to do.
    ///
    /// # Errors
    /// The job's error, which ends it.
    pub fn start(&mut self, mut job: Job<C>) -> Result<(), C::Error> {
        let progress = job(self)?;
        self.suspension = Suspension::<C>::after(progress, job);
        Ok(())
    }
}

impl Context<'_> {
    /// A copy of this context for a request that has claimed its keys.
    pub(crate) fn claimed_by<'c>(&'c mut self, claim: &'c Claim) -> Context<'c> {
        Context {
            db: self.db.claimed_by(claim),
            client: self.client,
            server: self.server,
            hooks: self.hooks,
            tally: self.tally,
            reply: self.reply.reborrow(),
            args: self.args,
            prefetched: self.prefetched,
            suspension: None,
        }
    }
}

/// The process around the commands. The server crate implements it; tests use a stand-in.
pub trait Server: Sync {
    /// All commands.
    fn commands(&self) -> &'static CommandTable;

    /// Every connection of the process, in no particular order.
    fn clients(&self) -> Vec<Arc<ClientInfo>>;

    /// The connection with this number.
    fn client(&self, id: u64) -> Option<Arc<ClientInfo>>;

    /// Closes connections. When this returns, they execute no further requests and are not listed.
    fn kill(&self, clients: &[Arc<ClientInfo>]);

    /// Makes the housekeeper look for due work at once, since a new timer may be the earliest.
    fn check_timers(&self);

    /// Makes a worker send the queued lines of its monitors.
    fn show_monitors(&self, worker: usize);

    /// Makes a worker send published messages to its subscribers.
    fn show_messages(&self, worker: usize);

    /// Makes a worker send the queued lines of its clients that use memcached's `watch`.
    fn show_watchers(&self, worker: usize);

    /// The hooks of requests.
    fn hooks(&self) -> &RequestHooks;

    /// Closes clients until the memory of all clients is at most `maxmemory-clients`.
    fn limit_client_memory(&self);

    /// Logs that a script has run for the time `took`, which is long.
    fn report_slow_script(&self, took: Duration);

    /// Logs that RESTORE was given a damaged value, and its encoding.
    fn log_damaged_payload(&self, form: &str);

    /// Asks the process to stop. `saves` is whether it saves what has changed since the last save.
    fn shut_down(&self, saves: bool);

    /// The subscriptions of all clients.
    fn pubsub(&self) -> &PubSub;

    /// Scripts, and the thread that runs them.
    fn scripts(&self) -> &Arc<Scripts>;

    /// Saves: requested, running and finished ones.
    fn saves(&self) -> &Saves;

    /// The settings. Workers read them, and CONFIG SET changes them.
    fn config(&self) -> &Config;

    /// Why the settings do not allow a command to an HTTP client with this address, if they do not.
    fn http_refusal(&self, entry: &Entry, address: IpAddr) -> Option<&'static str>;

    /// Makes the server listen on exactly these addresses.
    ///
    /// # Errors
    /// The name of the setting that cannot be applied; then nothing has changed.
    fn listen(&self, wanted: &Addresses) -> Result<(), &'static str>;

    /// The maximum number of clients that the process has descriptors for.
    fn max_clients(&self) -> u64;

    /// The number of active workers: only these accept connections, and they have the lowest
    /// numbers.
    fn active_workers(&self) -> usize;

    /// The workers' counters.
    fn statistics(&self) -> &Statistics;

    /// Constants of the process.
    fn process(&self) -> &Process;

    /// Empties database 0 at the time `at_ms`, in milliseconds since 1970 (memcached's `flush_all`
    /// with a delay); [`u64::MAX`] is never. A later call replaces the time of an earlier one.
    fn flush_at(&self, at_ms: u64);
}
