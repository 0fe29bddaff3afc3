//! Starting and stopping; what the workers share; what commands ask of the process.

use crate::net::driver::{Driver, Token};
use crate::net::epoll::Epoll;
use crate::net::io::Io;
use crate::net::listener::{Endpoint, Listener, Listeners};
use crate::net::listening::Listening;
use crate::net::open::{self, OpenError};
use crate::net::uring::Uring;
use crate::net::waker::Waker;
use crate::persistence::loading::{self, LoadError};
use crate::persistence::saver;
use crate::process::log;
use crate::process::setup;
use crate::session::conversation::Protocol;
use crate::worker;
use crate::worker::client_memory::ClientMemory;
use crate::worker::registry::Registry;
use nagi_commands::memcached::{Users, UsersError, tell_of_eviction};
use nagi_commands::saves::{Order, Saves};
use nagi_commands::{
    Addresses, Attention, ClientInfo, CommandTable, Config, Marks, Process, Reasons, Server,
    Statistics, admission, command_table,
};
use nagi_store::{Clock, Policy, Store, Walker};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Replies that a client leaves unread before it is read from no more, in bytes. Clients that send
/// a whole pipeline before they read the first reply are the reason for so much: with Redis, which
/// knows no bound, they work.
const UNSENT_LIMIT_BYTES: usize = 64 << 20;
/// Places beyond `maxclients` for clients of this machine who administrate the server.
pub(crate) const RESERVE: usize = 8;
/// `flush_at_ms` when nothing is to be flushed.
const NEVER: u64 = u64::MAX;
/// How often is looked for what is due.
const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// How a server is to be started.
#[derive(Debug)]
pub struct Options {
    /// The settings.
    pub config: Config,
    /// Replies that a client may leave unread before it is read from no more, in bytes.
    pub unsent_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { config: Config::default(), unsent_limit: UNSENT_LIMIT_BYTES }
    }
}

/// A server that is running.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What is to be done by a worker that somebody else has heard of.
pub(crate) enum Mail {
    /// It has been assigned a connection that another worker has accepted.
    Arrival(Arrival),
    /// Keys may have expired, and connections may have been silent for too long.
    Housekeeping,
    /// Database 0 is to be emptied.
    Flush,
    /// What one of its sessions waits for has come.
    Call(Token),
    /// Connections have been marked as killed.
    Kill,
    /// A connection is to be closed to save memory.
    Evict(Token),
    /// Monitors are to be sent what they see.
    Show,
    /// The same for those who `watch`.
    ShowWatchers,
    /// A snapshot is to be walked for.
    Walk,
    /// There are other listeners than before.
    Listen,
}

/// A connection that has been accepted.
pub(crate) struct Arrival {
    pub(crate) socket: OwnedFd,
    pub(crate) protocol: Protocol,
    /// Whether it takes a place that is kept for administrators.
    pub(crate) reserved: bool,
}

/// A worker's letter box.
struct Post {
    mail: Mutex<Vec<Mail>>,
    waker: Waker,
}

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) commands: &'static CommandTable,
    pub(crate) registry: Registry,
    pub(crate) listeners: Listening,
    pub(crate) unsent_limit: usize,
    pub(crate) attention: Attention,
    pub(crate) client_memory: ClientMemory,
    config: Config,
    statistics: Statistics,
    process: Process,
    io: Io,
    posts: Box<[Post]>,
    stopping: AtomicBool,
    flush_at_ms: AtomicU64,
    housekeeper: OnceLock<Thread>,
    saver: OnceLock<Thread>,
    saves: Saves,
    /// Whether the data is saved at the end, if anybody has said.
    last_save: OnceLock<bool>,
}

/// Why a server could not be started.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Open(OpenError),
    /// No address is to be listened on.
    NoAddress,
    /// Both protocols are to be spoken on one port.
    SamePort(u64),
    /// The file of memcached's users is not one.
    Users(UsersError),
    /// The kernel refuses something else.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open(error) => error.fmt(f),
            StartError::NoAddress => f.write_str(
                "nothing to listen on; give a --port, a --memcached-port or a --unixsocket",
            ),
            StartError::SamePort(port) => write!(
                f,
                "--port and --memcached-port are both {port}: each protocol needs a port of its own"
            ),
            StartError::Users(error) => error.fmt(f),
            StartError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        StartError::Open(error)
    }
}

impl From<UsersError> for StartError {
    fn from(error: UsersError) -> Self {
        StartError::Users(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::Io(error)
    }
}

/// Starts a server: when this returns, it accepts connections, and answers those commands that need
/// no data until [`Running::load`] has returned.
///
/// # Errors
/// What it could not get from the kernel; nothing is left running then.
pub fn start(options: Options) -> Result<Running, StartError> {
    let addresses = options.config.addresses();
    if let Some(port) = addresses.shared_port() {
        return Err(StartError::SamePort(port));
    }
    let users = options.config.memcached_auth_file.get();
    if !users.is_empty() {
        options.config.set_memcached_users(Users::read(users.as_ref().as_ref())?);
    }
    let listeners = open::all(&options.config)?;
    if listeners.is_empty() {
        return Err(StartError::NoAddress);
    }
    let shared = Arc::new(Shared::new(options, listeners)?);
    let hears = Arc::downgrade(&shared);
    shared.store.hear_of_evictions(Box::new(move |evicted| {
        if let Some(shared) = hears.upgrade() {
            tell_of_eviction(&*shared, evicted, shared.store.now_ms());
        }
    }));
    // Where there is nothing to load, nobody is to be told of loading.
    let has_file = saver::path(&shared).is_some_and(|path| path.symlink_metadata().is_ok());
    shared.attention.set(Reasons::LOADING, has_file);
    if has_file {
        shared.saves().loading.begin(0);
    }
    shared.tell_of_protection();
    setup::prepare_descriptors(&shared.config, shared.posts.len());
    let mut running = Running { shared, threads: Vec::new() };
    match running.spawn_all() {
        Ok(()) => Ok(running),
        Err(error) => {
            running.stop();
            // Nothing was changed that could be lost.
            let _ = running.join();
            Err(error.into())
        }
    }
}

impl Running {
    fn spawn_all(&mut self) -> io::Result<()> {
        let (report, reports) = mpsc::channel();
        for index in 0..self.shared.posts.len() {
            let shared = Arc::clone(&self.shared);
            let report = report.clone();
            self.spawn(format!("worker-{index}"), move || {
                // A driver is made by the thread that it works for: a ring belongs to its thread.
                match shared.io {
                    Io::Epoll => serve(index, &shared, Epoll::new, report),
                    Io::Uring => serve(index, &shared, Uring::new, report),
                }
            })?;
        }
        drop(report);
        reports.iter().collect::<io::Result<()>>()?;
        let shared = Arc::clone(&self.shared);
        let housekeeper = self.spawn("housekeeper".to_owned(), move || shared.keep_house())?;
        // Nobody else sets it.
        let _ = self.shared.housekeeper.set(housekeeper);
        let shared = Arc::clone(&self.shared);
        let saver = self.spawn("saver".to_owned(), move || saver::run(&shared))?;
        // Likewise.
        let _ = self.shared.saver.set(saver);
        Ok(())
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        let handle = thread::Builder::new().name(name).spawn(work)?;
        let thread = handle.thread().clone();
        self.threads.push(handle);
        Ok(thread)
    }

    /// Where clients can connect.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.shared.listeners.endpoints()
    }

    /// The memory limit in bytes, 0 for none, and what goes when it is reached.
    #[must_use]
    pub fn memory_limit(&self) -> (u64, Policy) {
        self.shared.store.limit()
    }

    /// What does not change while it runs.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.shared.process
    }

    /// Loads what the last process left, and lets all commands run from then on. Whether it came
    /// to that: it does not if the server is to stop meanwhile.
    ///
    /// # Errors
    /// What is wrong with it: then the server is to be stopped, and leaves the file as it is.
    pub fn load(&self) -> Result<bool, LoadError> {
        let is_loaded = loading::load(&self.shared)?;
        if is_loaded {
            self.shared.attention.set(Reasons::LOADING, false);
            // Whoever waits for this finds that all commands run.
            self.shared.saves().loading.end();
        }
        Ok(is_loaded)
    }

    /// Asks it to stop: what clients have sent is executed and answered, nothing more is taken.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Something that can ask it to stop from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Waits until it has stopped, and has saved its data if it is to do that.
    ///
    /// # Errors
    /// Why the data could not be saved.
    pub fn join(self) -> Result<(), String> {
        let shared = &self.shared;
        let mut walker = Walker::default();
        for thread in self.threads {
            // The saver may wait for a walk when all workers are gone.
            while !thread.is_finished() && shared.store.is_saving() {
                shared.store.walk(&mut walker, || false);
                thread::sleep(Duration::from_millis(1));
            }
            if thread.join().is_err() {
                tracing::error!("a thread has panicked");
            }
        }
        if shared.attention.reasons().contains(Reasons::LOADING) {
            // What is there is a part of what the file has.
            return Ok(());
        }
        let has_points = !shared.config.save.get().is_empty();
        let saved =
            if shared.unsaved_changes() > 0 && *shared.last_save.get().unwrap_or(&has_points) {
                saver::last_save(shared)
            } else {
                Ok(())
            };
        shared.report_unsaved_changes();
        tracing::info!("nagi is now ready to exit, bye bye...");
        saved
    }
}

/// Can ask a server to stop.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Asks it to save first, if it is to save at the end and something has changed; whether it
    /// stops. It does not if that fails, since then all would be lost: it goes on as before, as
    /// Redis does. Waits until that is clear.
    #[must_use]
    pub fn stop_saved(&self) -> bool {
        let saved = saver::save_before_the_end(&self.0);
        match &saved {
            Ok(()) => self.0.stop(),
            Err(error) => tracing::warn!(
                error,
                "Error trying to save the DB, can't exit. SHUTDOWN NOSAVE ends it without"
            ),
        }
        saved.is_ok()
    }

    /// See [`Running::stop`].
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Closes the listeners, and says in the log what is lost, before the process ends at once.
    pub fn abandon(&self) {
        self.0.listeners.stop();
        self.0.report_unsaved_changes();
    }
}

/// Makes a worker's driver, reports whether that could be done, and works.
fn serve<D: Driver>(
    worker: usize,
    shared: &Arc<Shared>,
    new: fn(Listeners, &Waker) -> io::Result<D>,
    report: mpsc::Sender<io::Result<()>>,
) {
    let waker = shared.waker(worker).ok_or(io::ErrorKind::NotFound.into());
    match waker.and_then(|waker| new(shared.listeners.get(), waker)) {
        Ok(mut driver) => {
            // Whoever waits for it waits for all of them.
            let _ = report.send(Ok(()));
            drop(report);
            worker::run(worker, shared, &mut driver);
        }
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

impl Shared {
    pub(crate) fn new(options: Options, listeners: Vec<Arc<Listener>>) -> io::Result<Self> {
        let config = options.config;
        let workers = match usize::try_from(config.workers.get()) {
            Ok(0) | Err(_) => thread::available_parallelism().map_or(1, usize::from),
            Ok(workers) => workers,
        };
        let (seed, run_id) = (random()?, random::<20>()?);
        let store = Store::new(&nagi_store::Options {
            databases: usize::try_from(config.databases.get()).unwrap_or(1),
            seed: u128::from_ne_bytes(seed),
            clock: Clock::System,
            workers,
            ..nagi_store::Options::default()
        });
        config.limit_memory(&store);
        let attention = Attention::default();
        attention.set_latency_threshold_ms(config.latency_monitor_threshold_ms.get());
        let io = Io::choose(&config)?;
        let listeners = Listening::new(listeners);
        listeners.note_ports(&config);
        let process = Process {
            run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            started_at_ms: store.now_ms(),
            startup_bytes: store.used_bytes(),
            workers,
            io: io.name(),
        };
        let post = |_| Ok(Post { mail: Mutex::default(), waker: Waker::new()? });
        Ok(Shared {
            store,
            commands: command_table(),
            registry: Registry::new(workers),
            listeners,
            unsent_limit: options.unsent_limit,
            attention,
            client_memory: ClientMemory::default(),
            config,
            statistics: Statistics::new(workers, command_table().entries().len()),
            process,
            io,
            posts: (0..workers).map(post).collect::<io::Result<_>>()?,
            stopping: AtomicBool::new(false),
            flush_at_ms: AtomicU64::new(NEVER),
            housekeeper: OnceLock::new(),
            saver: OnceLock::new(),
            saves: Saves::default(),
            last_save: OnceLock::new(),
        })
    }

    /// Tells whoever starts the server who will get in, where that is not who may connect.
    fn tell_of_protection(&self) {
        let mut endpoints = self.listeners.endpoints();
        if self.config.memcached_users().is_some() {
            tracing::info!("memcached clients must log in as users of memcached-auth-file");
            endpoints.retain(|endpoint| endpoint.protocol != Protocol::Memcached);
        }
        let mut endpoints = endpoints.iter();
        if admission::is_password_required(&self.config) {
            if endpoints.any(|endpoint| endpoint.protocol == Protocol::Memcached) {
                tracing::info!(
                    "memcached clients must log in as well: by a set of any key with the value \
                     \"default PASSWORD\""
                );
            }
        } else if endpoints.any(|endpoint| !endpoint.is_local()) {
            match self.config.protected_mode.is_on() {
                true => tracing::info!(
                    "clients of other machines are refused, since there is no password \
                     (--requirepass PASSWORD, or --protected-mode no)"
                ),
                false => tracing::warn!(
                    "there is no password and protected-mode is off: whoever can connect can \
                     read and change everything"
                ),
            }
        }
    }

    /// Whether nothing but its address would keep a client from the data.
    pub(crate) fn is_unprotected(&self, protocol: Protocol) -> bool {
        let config = &self.config;
        config.protected_mode.is_on()
            && !match protocol {
                Protocol::Resp => admission::is_password_required(config),
                Protocol::Memcached => admission::is_memcached_login_required(config),
            }
    }

    /// Leaves something for a worker to do.
    pub(crate) fn post(&self, worker: usize, mail: Mail) {
        let Some(post) = self.posts.get(worker) else { return };
        let mut waiting = post.mail.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reminder = |mail: &Mail| {
            !matches!(mail, Mail::Arrival(_) | Mail::Flush | Mail::Call(_) | Mail::Evict(_))
        };
        let same = |other: &Mail| std::mem::discriminant(other) == std::mem::discriminant(&mail);
        if is_reminder(&mail) && waiting.iter().any(same) {
            return;
        }
        waiting.push(mail);
        drop(waiting);
        post.waker.wake();
    }

    /// Wakes a worker for its mail.
    pub(crate) fn waker(&self, worker: usize) -> Option<&Waker> {
        self.posts.get(worker).map(|post| &post.waker)
    }

    /// What was left for a worker to do.
    pub(crate) fn collect(&self, worker: usize) -> Vec<Mail> {
        let Some(post) = self.posts.get(worker) else { return Vec::new() };
        std::mem::take(&mut *post.mail.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many changes are in no file.
    pub(crate) fn unsaved_changes(&self) -> u64 {
        self.store.totals().changes.saturating_sub(self.saves.status().changes_saved)
    }

    /// Says in the log how many changes are lost with the process, if any are.
    fn report_unsaved_changes(&self) {
        let changes = self.unsaved_changes();
        if changes > 0 && !self.attention.reasons().contains(Reasons::LOADING) {
            tracing::warn!(changes, "the changes since the last save are lost");
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.listeners.stop();
        for post in &self.posts {
            post.waker.wake();
        }
        self.saves.cancel();
        for thread in [&self.housekeeper, &self.saver].into_iter().filter_map(OnceLock::get) {
            thread.unpark();
        }
    }

    /// Sees to it that what is due at a time gets done. It touches no keys: workers do.
    fn keep_house(&self) {
        let mut keepalive_s = self.config.tcp_keepalive_s.get();
        let mut log_level = self.config.loglevel.get();
        let mut round_at = Instant::now();
        while !self.is_stopping() {
            let now_ms = self.store.now_ms();
            let next_call_ms = self.attention.call_due(now_ms);
            let until_call = Duration::from_millis(next_call_ms.saturating_sub(now_ms).max(1));
            let until_round = round_at.saturating_duration_since(Instant::now());
            if self.client_memory.take_due() {
                self.limit_clients();
            }
            let flush_at_ms = self.flush_at_ms.load(Ordering::Relaxed);
            let until_flush = Duration::from_millis(flush_at_ms.saturating_sub(now_ms));
            if !until_round.is_zero() && !until_flush.is_zero() {
                // Whoever is called every few milliseconds costs no more than that.
                thread::park_timeout(until_flush.min(until_call).min(until_round));
                continue;
            }
            round_at = Instant::now() + HOUSEKEEPING;
            if keepalive_s != self.config.tcp_keepalive_s.get() {
                keepalive_s = self.config.tcp_keepalive_s.get();
                let silence = Duration::from_secs(keepalive_s);
                self.listeners.set_keepalive(silence);
            }
            if log_level != self.config.loglevel.get() {
                log_level = self.config.loglevel.get();
                log::set_level(log_level);
            }
            if flush_at_ms <= now_ms
                && self
                    .flush_at_ms
                    .compare_exchange(flush_at_ms, NEVER, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                self.post(0, Mail::Flush);
            }
            self.statistics.sample(Instant::now(), self.store.totals().expired);
            self.statistics.peak_bytes(self.store.used_bytes());
            self.limit_clients();
            self.save_if_due(now_ms);
            (0..self.posts.len()).for_each(|worker| self.post(worker, Mail::Housekeeping));
        }
    }
}

impl Shared {
    /// Asks for a save if one of the points of `save` is reached.
    fn save_if_due(&self, now_ms: u64) {
        /// How long to wait after a save that failed.
        const RETRY: Duration = Duration::from_secs(5);
        let points = self.config.save.get();
        if points.is_empty() || self.attention.reasons().contains(Reasons::LOADING) {
            return;
        }
        let status = self.saves.status();
        let changes = self.unsaved_changes();
        let silent_s = (now_ms / 1000).saturating_sub(status.last_success_s);
        let may_retry = status.last_error.is_none()
            || status.last_end.is_none_or(|ended| ended.elapsed() > RETRY);
        let words: Vec<u64> = points.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let is_due = |[seconds, least]: &[u64; 2]| silent_s > *seconds && changes >= *least;
        if may_retry
            && words.as_chunks().0.iter().any(is_due)
            && self.saves.order(Order::BackgroundSave).is_some()
        {
            tracing::info!(changes, seconds = silent_s, "it is time to save");
        }
    }

    /// Closes the clients that take the most memory, until all of them together take no more than
    /// `maxmemory-clients`.
    fn limit_clients(&self) {
        let limit = self.config.client_memory_limit();
        if limit > 0 {
            self.evict_clients(limit);
        }
        self.client_memory.looked(limit, self.store.client_bytes());
    }

    fn evict_clients(&self, limit: u64) {
        let with_bytes = |client: Arc<ClientInfo>| (client.memory_bytes() as u64, client);
        let mut clients: Vec<_> = self.registry.clients().into_iter().map(with_bytes).collect();
        let mut used: u64 = clients.iter().map(|(bytes, _)| bytes).sum();
        if used < limit {
            return;
        }
        clients.retain(|(_, client)| !client.marks().contains(Marks::NO_EVICT));
        clients.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, client) in clients {
            if used < limit {
                return;
            }
            used = used.saturating_sub(bytes);
            self.registry.remove(client.id);
            self.post(client.worker, Mail::Evict(Token::from_u64(client.seat)));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Server for Shared {
    fn commands(&self) -> &'static CommandTable {
        self.commands
    }

    fn clients(&self) -> Vec<Arc<ClientInfo>> {
        self.registry.clients()
    }

    fn kill(&self, clients: &[Arc<ClientInfo>]) {
        for client in clients {
            client.mark(Marks::KILLED, true);
            self.registry.remove(client.id);
            self.post(client.worker, Mail::Kill);
        }
    }

    fn hurry(&self) {
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.unpark();
        }
    }

    fn show_monitors(&self, worker: usize) {
        self.post(worker, Mail::Show);
    }

    fn show_watchers(&self, worker: usize) {
        self.post(worker, Mail::ShowWatchers);
    }

    fn attention(&self) -> &Attention {
        &self.attention
    }

    fn saves(&self) -> &Saves {
        &self.saves
    }

    fn shut_down(&self, saves: Option<bool>) {
        if let Some(saves) = saves {
            // Who asks first decides.
            let _ = self.last_save.set(saves);
        }
        self.stop();
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn process(&self) -> &Process {
        &self.process
    }

    fn most_clients(&self) -> u64 {
        setup::most_clients(self.posts.len())
    }

    fn listen(&self, wanted: &Addresses) -> Result<(), &'static str> {
        let changed = self.listeners.change(wanted, &self.config);
        // Where that failed, some may have been opened anew.
        (0..self.posts.len()).for_each(|worker| self.post(worker, Mail::Listen));
        match changed {
            Ok(()) => {
                self.tell_of_protection();
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
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.unpark();
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
