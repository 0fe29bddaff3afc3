//! The state that all threads of a server share, and its implementation of the commands' `Server`
//! trait.

use crate::net::driver::Token;
use crate::net::io::Io;
use crate::net::listener::Listener;
use crate::net::listening::Listening;
use crate::net::protocol::Protocol;
use crate::net::waker::Waker;
use crate::state::client_limit;
use crate::state::client_memory::ClientMemory;
use crate::state::descriptors;
use crate::state::mailbox::{ConnectionTask, Mailbox, Reminders};
use crate::state::registry::Registry;
use nagi_commands::saves::Saves;
use nagi_commands::{
    Addresses, ClientInfo, CommandTable, Config, Entry, EventsListener, HookFlags, HttpRules,
    LatestHttpRules, LogLevel, Marks, Process, PubSub, RequestHooks, ScriptingServer, Scripts,
    Server, Statistics, admission,
};
use nagi_store::{Clock, Store};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

/// How many bytes of replies a client may leave unread before the server stops reading from it. The
/// limit is this high because some clients send a whole pipeline before they read the first reply;
/// Redis has no limit.
const UNSENT_LIMIT_BYTES: usize = 64 << 20;
/// `flush_at_ms` when nothing is to be flushed.
pub(crate) const NEVER: u64 = u64::MAX;

/// Options for starting a server.
#[derive(Debug)]
pub struct ServerOptions {
    /// The settings.
    pub config: Config,
    /// How many bytes of replies a client may leave unread before the server stops reading from it.
    pub unsent_limit: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions { config: Config::default(), unsent_limit: UNSENT_LIMIT_BYTES }
    }
}

/// The state that all threads of a server share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) commands: &'static CommandTable,
    pub(crate) registry: Registry,
    pub(crate) listeners: Listening,
    pub(crate) unsent_limit: usize,
    pub(crate) hooks: RequestHooks,
    pub(crate) client_memory: ClientMemory,
    /// When to empty database 0, in milliseconds since 1970.
    pub(crate) flush_at_ms: AtomicU64,
    /// Whether to save the data on exit, if a command has decided that.
    pub(crate) saves_at_end: OnceLock<bool>,
    pub(crate) housekeeper: OnceLock<Thread>,
    pub(crate) saver: OnceLock<Thread>,
    pub(crate) sampler: OnceLock<Thread>,
    pub(crate) io: Io,
    config: Config,
    statistics: Statistics,
    process: Process,
    pubsub: PubSub,
    saves: Saves,
    http_rules: LatestHttpRules,
    scripts: Arc<Scripts>,
    mailboxes: Box<[Mailbox]>,
    is_stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        options: ServerOptions,
        listeners: Vec<Arc<Listener>>,
        commands: &'static CommandTable,
    ) -> io::Result<Self> {
        let config = options.config;
        let workers = match usize::try_from(config.workers.get()) {
            Ok(0) | Err(_) => thread::available_parallelism().map_or(1, usize::from),
            Ok(workers) => workers,
        };
        let (seed, run_id) = (random()?, random::<20>()?);
        let store = Store::new(&nagi_store::StoreOptions {
            databases: usize::try_from(config.databases.get()).unwrap_or(1),
            seed: u128::from_ne_bytes(seed),
            clock: Clock::System,
            // The script thread has counters as well.
            workers: workers + 1,
            // Clients may hold numbers that an earlier process has assigned, which must not become
            // those of later versions. No shard assigns a million numbers a second.
            last_cas: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |elapsed| elapsed.as_micros() as u64),
            ..nagi_store::StoreOptions::default()
        });
        config.limit_memory(&store);
        let hooks = RequestHooks::default();
        store.report_events_to(Box::new(EventsListener::new(&hooks)));
        hooks.set_latency_threshold_ms(config.latency_monitor_threshold_ms.get());
        let io = Io::choose(&config)?;
        let listeners = Listening::new(listeners);
        listeners.note_ports(&config);
        let process = Process {
            run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            started_at_ms: store.now_ms(),
            workers,
            io: io.name(),
            worker_threads: vec![OnceLock::new(); workers].into(),
            script_thread: OnceLock::new(),
        };
        Ok(Shared {
            store,
            commands,
            registry: Registry::new(workers),
            listeners,
            unsent_limit: options.unsent_limit,
            hooks,
            client_memory: ClientMemory::default(),
            flush_at_ms: AtomicU64::new(NEVER),
            saves_at_end: OnceLock::new(),
            housekeeper: OnceLock::new(),
            saver: OnceLock::new(),
            sampler: OnceLock::new(),
            io,
            config,
            statistics: Statistics::new(workers + 1, commands.entries().len()),
            process,
            pubsub: PubSub::new(workers),
            saves: Saves::default(),
            http_rules: LatestHttpRules::default(),
            scripts: Arc::default(),
            mailboxes: (0..workers).map(|_| Mailbox::new()).collect::<io::Result<_>>()?,
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Logs which clients will be refused although they can connect, and warns if every client that
    /// can connect has access.
    pub(crate) fn log_protection(&self) {
        let mut endpoints = self.listeners.endpoints();
        if self.config.has_memcached_users() {
            let file = self.config.memcached_auth_file.get();
            tracing::info!("memcached clients must log in as users of {file}");
            endpoints.retain(|endpoint| endpoint.protocol != Protocol::Memcached);
        }
        let mut endpoints = endpoints.iter();
        if admission::is_password_required(&self.config) {
            if endpoints.any(|endpoint| endpoint.protocol == Protocol::Memcached) {
                tracing::info!(
                    "memcached clients must also log in, by a set of any key with the value \
                     \"default PASSWORD\""
                );
            }
        } else if endpoints.any(|endpoint| !endpoint.is_local()) {
            match self.config.protected_mode.is_on() {
                true if self.config.option("requirepass").is_some() => tracing::info!(
                    "only clients on loopback are served, since there is no password (set one with \
                     --requirepass, or use --protected-mode no)"
                ),
                true => tracing::info!(
                    "only clients on loopback are served, since there are no logins (require them \
                     with -Y, or name the addresses to listen on with -l)"
                ),
                false => tracing::warn!(
                    "no password is set and protected mode is off: any client that can connect can \
                     read and change all data"
                ),
            }
        }
    }

    /// Whether only a client's address decides whether it may access the data.
    pub(crate) fn is_unprotected(&self, protocol: Protocol) -> bool {
        let config = &self.config;
        config.protected_mode.is_on()
            && !match protocol {
                Protocol::Resp => admission::is_password_required(config),
                Protocol::Memcached => admission::is_memcached_login_required(config),
            }
    }

    /// Posts a task for a connection of a worker.
    pub(crate) fn post(&self, worker: usize, task: ConnectionTask) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            mailbox.post(task);
        }
    }

    /// Notifies a worker of input in one of its pipes.
    pub(crate) fn notify_pipe(&self, worker: usize, token: Token) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            mailbox.notify_pipe(token);
        }
    }

    /// Swaps the pipes that a worker was notified of for an empty list.
    pub(crate) fn collect_notified(&self, worker: usize, notified: &mut Vec<Token>) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            mailbox.collect_notified(notified);
        }
    }

    /// Sets a worker's reminders.
    pub(crate) fn remind(&self, worker: usize, reminders: Reminders) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            mailbox.remind(reminders);
        }
    }

    /// Sets reminders for all workers.
    pub(crate) fn remind_all(&self, reminders: Reminders) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.remind(reminders));
    }

    /// The waker of a worker.
    pub(crate) fn waker(&self, worker: usize) -> Option<&Waker> {
        self.mailboxes.get(worker).map(Mailbox::waker)
    }

    /// Takes a worker's tasks and reminders.
    pub(crate) fn collect(&self, worker: usize) -> (Reminders, Vec<ConnectionTask>) {
        self.mailboxes.get(worker).map_or((Reminders::empty(), Vec::new()), Mailbox::collect)
    }

    /// Repeats a due `flush_all` at this time, unless another one has been scheduled meanwhile.
    pub(crate) fn postpone_flush(&self, at_ms: u64) {
        // If it is another one, that one stays.
        let _ =
            self.flush_at_ms.compare_exchange(NEVER, at_ms, Ordering::Relaxed, Ordering::Relaxed);
        self.check_timers();
    }

    /// The number of changes since the last save.
    pub(crate) fn unsaved_changes(&self) -> u64 {
        self.store.totals().changes.saturating_sub(self.saves.status().changes_saved)
    }

    /// Logs how many changes are lost with the process, if any. A server of only memcached's
    /// clients is not expected to keep data.
    pub(crate) fn report_unsaved_changes(&self) {
        let changes = self.unsaved_changes();
        let has_redis_clients =
            self.config.port.is_on() || !self.config.unixsocket.get().is_empty();
        let is_loading = self.hooks.reasons().contains(HookFlags::LOADING);
        if changes > 0 && has_redis_clients && !is_loading {
            tracing::warn!(changes, "changes since the last save are lost");
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Makes the threads end; may be called again while they do. A save that a client waits for
    /// goes on, and so does the last one.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.listeners.stop();
        self.mailboxes.iter().for_each(Mailbox::wake);
        self.saves.cancel();
        self.scripts.stop();
        for thread in
            [&self.housekeeper, &self.saver, &self.sampler].into_iter().filter_map(OnceLock::get)
        {
            thread.unpark();
        }
    }

    /// Asks a client's worker to close it, so that clients take less memory.
    pub(crate) fn evict(&self, client: &ClientInfo) {
        self.close(client, Marks::EVICTED);
    }

    /// Makes a client's worker close the connection for the reason in `mark`.
    fn close(&self, client: &ClientInfo, mark: Marks) {
        client.mark(mark, true);
        self.hooks.abandon_wait(client.id);
        self.registry.remove(client.id);
        // A worker that takes over the connection later reads the mark after such a fence too.
        // Either it sees the mark, or its number and its token are seen here.
        fence(Ordering::SeqCst);
        let token = Token::from_u64(client.connection_token());
        self.post(client.worker(), ConnectionTask::Close(token));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Shared {
    /// The current rules for commands over HTTP.
    pub(crate) fn http_rules(&self) -> Arc<HttpRules> {
        self.http_rules.of(&self.config, self.commands)
    }
}

impl Server for Shared {
    fn commands(&self) -> &'static CommandTable {
        self.commands
    }

    fn clients(&self) -> Vec<Arc<ClientInfo>> {
        self.registry.clients()
    }

    fn client(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.registry.client(id)
    }

    fn kill(&self, clients: &[Arc<ClientInfo>]) {
        for client in clients {
            self.close(client, Marks::KILLED);
        }
    }

    fn http_refusal(&self, entry: &Entry, address: IpAddr) -> Option<&'static str> {
        self.http_rules().refusal(entry, address)
    }

    fn check_timers(&self) {
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.unpark();
        }
    }

    fn show_monitors(&self, worker: usize) {
        self.remind(worker, Reminders::MONITORS);
    }

    fn show_messages(&self, worker: usize) {
        self.remind(worker, Reminders::MESSAGES);
    }

    fn show_watchers(&self, worker: usize) {
        self.remind(worker, Reminders::WATCHERS);
    }

    fn hooks(&self) -> &RequestHooks {
        &self.hooks
    }

    fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    fn saves(&self) -> &Saves {
        &self.saves
    }

    fn scripts(&self) -> &Arc<Scripts> {
        &self.scripts
    }

    fn limit_client_memory(&self) {
        let limit = self.config().client_memory_limit();
        if limit > 0 {
            let beyond = client_limit::beyond_limit(self.registry.clients(), limit);
            beyond.iter().for_each(|client| self.evict(client));
        }
        self.client_memory.note_use(limit, self.store.client_bytes());
    }

    fn report_slow_script(&self, took: Duration) {
        tracing::warn!(
            milliseconds = took.as_millis(),
            "Slow script detected; SCRIPT KILL can stop it until it writes"
        );
    }

    fn log_damaged_payload(&self, form: &str) {
        tracing::debug!("RESTORE: {form} integrity check failed");
    }

    fn shut_down(&self, saves: bool) {
        // The first command decides.
        let _ = self.saves_at_end.set(saves);
        self.stop();
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn active_workers(&self) -> usize {
        self.registry.active()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn process(&self) -> &Process {
        &self.process
    }

    fn max_clients(&self) -> u64 {
        descriptors::max_clients(&self.config, self.process.workers)
    }

    fn listen(&self, wanted: &Addresses) -> Result<(), &'static str> {
        let changed = self.listeners.change(wanted, &self.config);
        // After a failure, some listeners may have been reopened.
        self.remind_all(Reminders::LISTENERS);
        match changed {
            Ok(()) => {
                self.log_protection();
                Ok(())
            }
            Err(error) => {
                tracing::warn!("{error}");
                Err(error.setting)
            }
        }
    }

    fn flush_at(&self, at_ms: u64) {
        self.flush_at_ms.store(at_ms, Ordering::Relaxed);
        self.check_timers();
    }
}

impl ScriptingServer for Shared {
    fn store(&self) -> &Store {
        &self.store
    }

    fn log_of_script(&self, level: LogLevel, text: &str) {
        match level {
            LogLevel::Debug | LogLevel::Verbose => tracing::debug!("a script: {text}"),
            LogLevel::Notice => tracing::info!("a script: {text}"),
            LogLevel::Warning => tracing::warn!("a script: {text}"),
        }
    }
}

/// Random bytes from the kernel.
fn random<const LEN: usize>() -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
