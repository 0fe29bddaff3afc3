//! Starting and stopping a server.

use crate::net::driver::Driver;
use crate::net::epoll::Epoll;
use crate::net::io::Io;
use crate::net::listener::{Endpoint, Listener, Listeners};
use crate::net::open::{self, OpenError};
use crate::net::uring::Uring;
use crate::net::waker::Waker;
use crate::persistence::loading::{self, LoadError};
use crate::persistence::{dump_file, saver};
use crate::process::housekeeper;
use crate::process::status::{Pages, StatusError};
use crate::state::descriptors;
use crate::state::shared::{ServerOptions, Shared};
use crate::worker;
use crate::worker::handovers::Handovers;
use nagi_commands::memcached::{Users, UsersError, report_eviction};
use nagi_commands::{
    Config, HookFlags, HttpRuleTexts, HttpRules, Process, Server as _, begin_tracking_worker,
    renamed_table, rights, user_file,
};
use nagi_scheduling::shorten_slice;
use nagi_store::{Policy, Store, Walker, accounting};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;
use std::{fmt, io};

/// A server that is running.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    http: Vec<SocketAddr>,
    /// Whether there was a dump file at the start.
    has_file: bool,
}

/// Why a server could not be started.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Open(OpenError),
    /// The settings name no address to listen on.
    NoAddress(String),
    /// Two options name the same port.
    SamePort([String; 2], u64),
    /// The file of memcached's users is invalid.
    MemcachedUsers(UsersError),
    /// The users of Redis' protocol are invalid.
    Users(String),
    /// Commands cannot be renamed as the settings ask.
    Renaming(String),
    /// Rules for commands over HTTP are invalid.
    HttpRules(String),
    /// Pages cannot be served over HTTP.
    Status(StatusError),
    /// Another system call has failed.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open(error) => error.fmt(f),
            StartError::NoAddress(options) => {
                write!(f, "nothing to listen on; give one of {options}")
            }
            StartError::SamePort([one, other], port) => write!(
                f,
                "{one} and {other} are both {port}: each protocol needs a port of its own"
            ),
            StartError::MemcachedUsers(error) => error.fmt(f),
            StartError::Users(fault)
            | StartError::Renaming(fault)
            | StartError::HttpRules(fault) => f.write_str(fault),
            StartError::Status(error) => error.fmt(f),
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
        StartError::MemcachedUsers(error)
    }
}

impl From<StatusError> for StartError {
    fn from(error: StatusError) -> Self {
        StartError::Status(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::Io(error)
    }
}

/// The stack size of threads, in bytes; scripts need a larger one, for nested calls and patterns.
const STACK_BYTES: usize = 2 << 20;
const SCRIPT_STACK_BYTES: usize = 16 << 20;

/// Starts a server. When this returns, it accepts connections; until [`Running::load`] has
/// returned, it answers only commands that need no data.
///
/// # Errors
/// Invalid settings or a failed system call; nothing is left running.
pub fn start(options: ServerOptions) -> Result<Running, StartError> {
    accounting::begin_startup();
    let addresses = options.config.addresses();
    if let Some(port) = addresses.shared_port() {
        return Err(same_port(&options.config, ["port", "memcached-port"], port));
    }
    let users = options.config.memcached_auth_file.get();
    if !users.is_empty() {
        options.config.set_memcached_users(Users::read(users.as_ref().as_ref())?);
    }
    let commands = renamed_table(&options.config).map_err(StartError::Renaming)?;
    let rules = HttpRuleTexts::of(&options.config);
    HttpRules::parse(&rules, commands).map_err(StartError::HttpRules)?;
    user_file::load_at_start(&options.config, commands).map_err(StartError::Users)?;
    let (pages, listeners) = listen(&options.config)?;
    if listeners.is_empty() {
        let settings = ["port", "memcached-port", "unixsocket", "memcached-unixsocket"];
        let options = settings.into_iter().filter_map(|setting| options.config.option(setting));
        return Err(StartError::NoAddress(options.collect::<Vec<_>>().join(", ")));
    }
    let shared = Arc::new(Shared::new(options, listeners, commands)?);
    let weak = Arc::downgrade(&shared);
    shared.store.observe_evictions(Box::new(move |evicted| {
        if let Some(shared) = weak.upgrade() {
            report_eviction(&*shared, evicted, shared.store.now_ms());
        }
    }));
    // Without a file to load, no client must get the error LOADING.
    let has_file = dump_file::path(&shared).is_some_and(|path| path.symlink_metadata().is_ok());
    shared.hooks.set(HookFlags::LOADING, has_file);
    if has_file {
        shared.saves().loading.begin(0);
    }
    rights::note_users(&*shared);
    shared.log_protection();
    descriptors::prepare(shared.config(), shared.process().workers);
    let http = pages.addresses();
    let mut running = Running { shared, threads: Vec::new(), http, has_file };
    match running.spawn_all(pages) {
        Ok(()) => Ok(running),
        Err(error) => {
            running.stop();
            // There is no data yet to be lost.
            let _ = running.join();
            Err(error.into())
        }
    }
}

fn same_port(config: &Config, settings: [&str; 2], port: u64) -> StartError {
    let option = |setting: &str| config.option(setting).unwrap_or_else(|| setting.to_owned());
    StartError::SamePort(settings.map(option), port)
}

/// Opens all listeners that the settings name. A port set for both pages and a protocol would
/// otherwise be reported as used by another server; if the pages have it only by default, they are
/// not served.
fn listen(config: &Config) -> Result<(Pages, Vec<Arc<Listener>>), StartError> {
    let pages = Pages::open(config)?;
    let error = match open::all(config) {
        Ok(listeners) => return Ok((pages, listeners)),
        Err(error) => error,
    };
    match error.port_in_use().filter(|port| pages.are_on(*port)) {
        Some(port) if config.is_given("http-port") => {
            Err(same_port(config, [error.setting, "http-port"], port.into()))
        }
        Some(port) => {
            let option = error.option;
            tracing::warn!(
                "HTTP is off: {port}, its default port, is that of {option} (choose another one \
                 with --http-port)"
            );
            drop(pages);
            Ok((Pages::off(config), open::all(config)?))
        }
        None => Err(error.into()),
    }
}

impl Running {
    fn spawn_all(&mut self, pages: Pages) -> io::Result<()> {
        let (report, reports) = mpsc::channel();
        let handovers = Arc::new(Handovers::new(self.shared.process().workers));
        for index in 0..self.shared.process().workers {
            let shared = Arc::clone(&self.shared);
            let (handovers, report) = (Arc::clone(&handovers), report.clone());
            self.spawn(format!("worker-{index}"), move || {
                accounting::begin_startup();
                begin_tracking_worker(index);
                // A driver is created by its own thread, since a ring belongs to a thread.
                match shared.io {
                    Io::Epoll => serve(index, &shared, &handovers, Epoll::new, report),
                    Io::Uring => serve(index, &shared, &handovers, Uring::new, report),
                }
            })?;
        }
        drop(report);
        reports.iter().collect::<io::Result<()>>()?;
        // Before any thread reads how much memory is in use.
        accounting::note_startup();
        let shared = Arc::clone(&self.shared);
        let housekeeper =
            self.spawn("housekeeper".to_owned(), move || housekeeper::run(&shared))?;
        set_once(&self.shared.housekeeper, housekeeper);
        let shared = Arc::clone(&self.shared);
        let saver = self.spawn("saver".to_owned(), move || saver::run(&shared))?;
        set_once(&self.shared.saver, saver);
        let shared = Arc::clone(&self.shared);
        self.spawn_with_stack("scripts".to_owned(), SCRIPT_STACK_BYTES, move || {
            // A worker with a shorter slice would interrupt it for each script that ends.
            keep_slice_short();
            set_once(&shared.process().script_thread, own_thread());
            nagi_commands::run_scripts(&shared);
        })?;
        let sampler = pages.serve(&self.shared)?;
        let thread = self.spawn("sampler".to_owned(), move || sampler.run())?;
        set_once(&self.shared.sampler, thread);
        // Memory allocated to start those threads is not data either.
        accounting::note_startup();
        Ok(())
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        self.spawn_with_stack(name, STACK_BYTES, work)
    }

    fn spawn_with_stack(
        &mut self,
        name: String,
        stack_bytes: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Thread> {
        let handle = thread::Builder::new().name(name).stack_size(stack_bytes).spawn(work)?;
        let thread = handle.thread().clone();
        self.threads.push(handle);
        Ok(thread)
    }

    /// The addresses that clients can connect to.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.shared.listeners.endpoints()
    }

    /// The addresses at which pages are served over HTTP.
    #[must_use]
    pub fn http_addresses(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Whether HTTP GET requests may run commands that change data.
    #[must_use]
    pub fn http_writes_by_get(&self) -> bool {
        let config = self.shared.config();
        config.http_gateway.is_on() && config.http_writes_by_get.is_on()
    }

    /// The keyspace, to listen to its changes (`Store::report_changes_to`) or to apply those of
    /// another server (`Store::apply`).
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The memory limit in bytes (0 for none) and the eviction policy.
    #[must_use]
    pub fn memory_limit(&self) -> (u64, Policy) {
        self.shared.store.limit()
    }

    /// Properties of the process that do not change while the server runs.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.shared.process()
    }

    /// Loads the dump file of an earlier process, after which all commands are served. Returns
    /// `false` if the server was asked to stop meanwhile.
    ///
    /// # Errors
    /// Why the file cannot be loaded. The caller must then stop the server, which leaves the file
    /// unchanged.
    pub fn load(&self) -> Result<bool, LoadError> {
        // A file that appears later has been saved by this server.
        let is_loaded = !self.has_file || loading::load(&self.shared)?;
        if is_loaded {
            self.shared.hooks.set(HookFlags::LOADING, false);
            // Set last: threads that wait for it may then use all commands.
            self.shared.saves().loading.end();
        }
        Ok(is_loaded)
    }

    /// Asks the server to stop. Requests that have been received are executed and answered; no more
    /// are read.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// A handle to stop the server from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Waits until the server has stopped and, if the settings ask for it, saved its data.
    ///
    /// # Errors
    /// Why the data could not be saved.
    pub fn join(self) -> Result<(), String> {
        let shared = &self.shared;
        let mut walker = Walker::default();
        for thread in self.threads {
            // After all workers have ended, the saver may still begin a save that waited for a
            // script, and wait for a walk.
            while shared.is_stopping() && !thread.is_finished() {
                if shared.store.is_saving() {
                    shared.store.walk(&mut walker, || false);
                }
                thread::sleep(Duration::from_millis(1));
            }
            if thread.join().is_err() {
                tracing::error!("a thread panicked");
            }
        }
        if shared.hooks.reasons().contains(HookFlags::LOADING) {
            // The store has only a part of the file's data and must not replace it.
            return Ok(());
        }
        let has_points = shared.config().has_save_points();
        let saves = *shared.saves_at_end.get().unwrap_or(&has_points);
        // SHUTDOWN may have been asked to save when the saver had ended.
        let is_due = saves && shared.unsaved_changes() > 0 || shared.saves().is_shutdown_pending();
        let saved = if is_due { saver::last_save(shared) } else { Ok(()) };
        shared.report_unsaved_changes();
        tracing::info!("nagi is now ready to exit, bye bye...");
        saved
    }
}

/// A handle to stop a server.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Asks the server to stop, after a save if the settings or a client ask for one. Waits for the
    /// save, and returns whether the server stops: if the save fails, it keeps running, as Redis
    /// does, since the data would be lost.
    #[must_use]
    pub fn save_and_stop(&self) -> bool {
        let saved = saver::save_before_shutdown(&self.0);
        match &saved {
            Ok(()) => self.0.stop(),
            Err(error) => tracing::warn!(
                error,
                "Error trying to save the DB, can't exit. SHUTDOWN NOSAVE exits without saving"
            ),
        }
        saved.is_ok()
    }

    /// See [`Running::stop`].
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Reads the file of users of memcached's protocols again, if there is one. After an error the
    /// users stay as they were.
    pub(crate) fn hang_up(&self) {
        if !self.0.config().has_memcached_users() {
            return tracing::info!("SIGHUP is ignored; SIGTERM stops the server");
        }
        let file = self.0.config().memcached_auth_file.get();
        match Users::read(file.as_ref().as_ref()) {
            Ok(users) => {
                self.0.config().set_memcached_users(users);
                tracing::info!("SIGHUP: the memcached users of {file} were reloaded");
            }
            Err(error) => tracing::warn!(%error, "SIGHUP: the memcached users stay as they were"),
        }
    }

    /// Closes the listeners and logs how many changes are lost, before the process exits
    /// immediately.
    pub fn close_at_once(&self) {
        self.0.listeners.stop();
        self.0.report_unsaved_changes();
    }
}

/// The kernel's ID of the calling thread.
fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn set_once<T>(cell: &OnceLock<T>, value: T) {
    // Each cell is set by one thread, once.
    let _ = cell.set(value);
}

/// Creates a worker's driver, reports the result, and runs the worker.
fn serve<D: Driver>(
    worker: usize,
    shared: &Arc<Shared>,
    handovers: &Arc<Handovers>,
    new: fn(Listeners, &Waker) -> io::Result<D>,
    report: mpsc::Sender<io::Result<()>>,
) {
    if let Some(thread) = shared.process().worker_threads.get(worker) {
        set_once(thread, own_thread());
    }
    keep_slice_short();
    let waker = shared.waker(worker).ok_or(io::ErrorKind::NotFound.into());
    match waker.and_then(|waker| new(shared.listeners.get(), waker)) {
        Ok(mut driver) => worker::run(worker, shared, handovers, &mut driver, move || {
            // The receiver waits for the reports of all workers.
            let _ = report.send(Ok(()));
        }),
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

/// Shortens the time slice of the calling thread, which during long work, such as KEYS, would keep
/// its processor from clients and workers for milliseconds.
fn keep_slice_short() {
    if let Err(error) = shorten_slice() {
        tracing::debug!(%error, "cannot shorten the time slice of a thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_commands::config::Origin;
    use std::net::TcpListener;

    #[test]
    fn pages_leave_their_default_port_to_a_protocol_that_is_given_it() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        for setting in ["port", "memcached-port"] {
            let config = Config::default();
            config.set_default("http-port", &port).unwrap();
            for (name, value) in [("port", "any"), ("memcached-port", "any"), (setting, &port)] {
                config.set(name, value, Origin::Startup).unwrap();
            }
            let (pages, listeners) = listen(&config).unwrap();
            assert!(pages.addresses().is_empty() && !config.http_port.is_on());
            let has_port = |it: &Arc<Listener>| it.endpoint().port() == port.parse().ok();
            assert!(listeners.iter().any(has_port), "{setting}");
        }
    }

    #[test]
    fn a_file_that_appears_after_the_start_is_not_loaded() {
        let folder = std::env::temp_dir().join(format!("nagi-appears-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = Config::default();
        let dir = folder.to_str().unwrap();
        for (name, value) in
            [("port", "any"), ("memcached-port", "any"), ("http-port", "0"), ("dir", dir)]
        {
            config.set(name, value, Origin::Startup).unwrap();
        }
        let running = start(ServerOptions { config, ..ServerOptions::default() }).unwrap();
        // A client may save before the server looks for a file to load.
        std::fs::write(folder.join("dump.rdb"), "the file of this server").unwrap();
        let loaded = running.load();
        assert!(matches!(loaded, Ok(true)), "{loaded:?}");
        running.stop();
        running.join().unwrap();
        let _ = std::fs::remove_dir_all(folder);
    }
}
