//! Scripts: the cached ones, and requests for the script thread, which runs one at a time.
//!
//! ```text
//! a worker                                   the script thread
//! submits a request, waits for it      -->   takes it when its turn has come
//! its client waits                           claims the keys, runs the script
//! is woken, takes the outcome          <--   leaves the outcome
//! ```
//!
//! A transaction with scripts in it *leases* the thread before it claims its keys: while it has the
//! lease, the thread only runs its scripts. If it claimed its keys first, a deadlock would be
//! possible: a running script could wait for its keys, and the transaction for the thread.

use crate::registry::command::Flags;
use crate::state::frozen_time::FrozenTime;
use crate::state::http_client::HttpClient;
use crate::state::libraries::{Libraries, Library, Policy};
use crate::state::tracking_options::ClientTracking;
use crate::state::transaction::Queued;
use nagi_proto::resp::Version;
use nagi_proto::{Args, Output, Span};
use nagi_script::{Digest, ScriptFlags};
use nagi_store::Claim;
use nagi_store::accounting::{self, Charge, LargeOverhead};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Maximum cached scripts of EVAL; those of SCRIPT LOAD are cached until SCRIPT FLUSH.
const MAX_EVALUATED: usize = 500;

/// How often a thread that waits for libraries checks whether the server is stopping.
const READ_CHECK: Duration = Duration::from_millis(100);

/// State shared by clients and the script thread.
#[derive(Debug, Default)]
pub struct Scripts {
    inner: Mutex<Inner>,
    /// Locked while a snapshot is cut. No lock is taken under it but those of the cut.
    libraries: Mutex<Libraries>,
    arrived: Condvar,
    /// Notified when libraries of a file have been loaded.
    read: Condvar,
    /// The number of the run that must end; 0 for none.
    ended: AtomicU64,
    is_stopping: AtomicBool,
    /// The start of the running script, in milliseconds since 1970, or 0 for none, and the number
    /// of its client. Pages read both without a lock.
    running_since_ms: AtomicU64,
    running_for: AtomicU64,
    /// The number of script flushes.
    flushes: AtomicU64,
    /// Lua's memory for scripts, in bytes; for INFO.
    pub(crate) script_bytes: AtomicUsize,
    /// Lua's memory for functions.
    pub(crate) function_bytes: AtomicUsize,
}

/// All libraries at one moment, which lasts as long as this value.
#[derive(Debug)]
pub struct FrozenLibraries<'a>(MutexGuard<'a, Libraries>);

impl FrozenLibraries<'_> {
    /// Their source code.
    #[must_use]
    pub fn codes(&self) -> Vec<Arc<[u8]>> {
        self.0.iter().map(|library| Arc::clone(&library.code)).collect()
    }
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Waiting>,
    /// The lease that the thread serves, and the scripts of its transaction.
    lease: Option<u64>,
    leased: VecDeque<Task>,
    last_number: u64,
    running: Option<Running>,
    cache: HashMap<Digest, Cached>,
    /// The number of uses of cached scripts.
    uses: u64,
    /// The scripts of EVAL, of which the least recently used one is evicted.
    evaluated: Vec<Digest>,
    evicted: u64,
    /// Source code of libraries that were read from a file and must be loaded.
    read: Option<Vec<Vec<u8>>>,
    /// The result of loading them, or the text of the error.
    read_outcome: Option<Result<(), String>>,
}

impl Inner {
    /// A cached script, which is used now.
    fn use_cached(&mut self, name: &Digest) -> Option<&mut Cached> {
        self.uses += 1;
        let cached = self.cache.get_mut(name)?;
        cached.used = self.uses;
        Some(cached)
    }

    /// Removes the least recently used script from those of EVAL.
    fn take_least_recent(&mut self) -> Option<Digest> {
        let used = |name: &Digest| self.cache.get(name).map_or(0, |cached| cached.used);
        let (at, _) = self.evaluated.iter().enumerate().min_by_key(|(_, name)| used(name))?;
        Some(self.evaluated.swap_remove(at))
    }
}

#[derive(Debug)]
enum Waiting {
    Task(Task),
    Lease(u64, Waker),
}

#[derive(Debug)]
struct Cached {
    text: Arc<[u8]>,
    flags: ScriptFlags,
    is_loaded: bool,
    /// When it was last used, as a count of uses of all scripts.
    used: u64,
    _overhead: LargeOverhead,
}

/// The running script.
#[derive(Debug)]
struct Running {
    number: u64,
    has_written: bool,
    is_slow: bool,
    /// If it is a function, its name and the calling request.
    function: Option<(String, Vec<Vec<u8>>)>,
    started: Instant,
}

/// The running function, for FUNCTION STATS.
pub(crate) struct RunningFunction {
    pub(crate) name: String,
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) took: Duration,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Run the script in the request.
    Eval,
    /// Run a script by its digest.
    EvalSha,
    /// Compile a script.
    Load,
    /// Call a function.
    Call,
    /// Load a library of functions, replacing the one of its name if `replaces`.
    LoadLibrary { replaces: bool },
    /// Load the libraries of a payload.
    RestoreLibraries(Policy),
    /// Move keys to another server, during which the thread may block.
    Migrate,
}

/// A request for the script thread.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Queued,
    pub(crate) asked: TaskKind,
    /// Whether it may only read.
    pub(crate) is_read_only: bool,
    /// The time at which it runs, if a transaction has set it.
    pub(crate) time: Option<FrozenTime>,
    pub(crate) database: usize,
    pub(crate) version: Version,
    /// The name of its user.
    pub(crate) user: Box<[u8]>,
    /// Its client.
    pub(crate) client: u64,
    /// The client over HTTP, whose rules the script obeys.
    pub(crate) http_client: Option<Arc<HttpClient>>,
    /// Whether its reads count as uses (CLIENT NO-TOUCH).
    pub(crate) touches: bool,
    /// The tracking state of the client, if enabled.
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// For a script within a transaction: a claim in addition to that of the transaction, extended
    /// by its scripts.
    pub(crate) joint: Option<Claim>,
    completion: Arc<Completion>,
    _charge: Charge,
}

/// The next work of the script thread.
#[expect(clippy::large_enum_variant, reason = "almost all of them are tasks, and none is stored")]
pub(crate) enum Next {
    /// Run a request.
    Task(Task),
    /// Load libraries that were read from a file.
    Libraries,
    /// None: the wait has timed out.
    Lull,
    /// Stop.
    Stop,
}

/// The result of a task.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) reply: Output,
    /// An error in place of the reply, and whether it has been counted.
    pub(crate) error: Option<(Vec<u8>, bool)>,
    /// Whether a pause has begun meanwhile, so that it has not run and is to be submitted again.
    pub(crate) is_held: bool,
    /// Whether the reply contains an error.
    pub(crate) has_failed: bool,
    /// The claim in the task, returned.
    pub(crate) joint: Option<Claim>,
    /// Keys that a script within a transaction may have changed, for which clients may wait.
    pub(crate) written: Vec<Arc<[u8]>>,
    /// How long a script ran.
    pub(crate) ran: Duration,
    /// Accounts for the reply, until it is in its client's output.
    pub(crate) charge: Charge,
}

#[derive(Debug)]
struct Completion {
    outcome: Mutex<Option<Outcome>>,
    waker: Waker,
    is_given_up: AtomicBool,
}

/// A client's handle on its outcome. If the handle is dropped before the script begins, the script
/// does not run.
#[derive(Debug)]
pub(crate) struct Pending(Arc<Completion>);

/// The parts of a request for the script thread.
pub(crate) struct NewTask<'a> {
    pub(crate) row: usize,
    pub(crate) args: Args<'a>,
    pub(crate) asked: TaskKind,
    pub(crate) is_read_only: bool,
    pub(crate) time: Option<FrozenTime>,
    pub(crate) database: usize,
    pub(crate) version: Version,
    pub(crate) user: Box<[u8]>,
    pub(crate) client: u64,
    pub(crate) http_client: Option<Arc<HttpClient>>,
    pub(crate) touches: bool,
    pub(crate) tracking: Option<Box<ClientTracking>>,
    pub(crate) waker: Waker,
}

impl Scripts {
    /// Submits a request to the thread: to the end of the queue, or within a lease.
    ///
    /// # Errors
    /// The running script is slow, so that requests must not wait for it.
    pub(crate) fn submit(
        &self,
        new: NewTask<'_>,
        lease: Option<(&Lease, Claim)>,
    ) -> Result<Pending, IsBusy> {
        let completion = Arc::new(Completion {
            outcome: Mutex::default(),
            waker: new.waker,
            is_given_up: AtomicBool::new(false),
        });
        let mut charge = Charge::default();
        let (bytes, spans) = (new.args.bytes().len(), new.args.spans().len());
        charge.set(accounting::room_bytes::<u8>(bytes) + accounting::room_bytes::<Span>(spans));
        let (number, joint) = lease.map(|(lease, joint)| (lease.number, joint)).unzip();
        let task = Task {
            request: Queued::new(new.row, new.args),
            asked: new.asked,
            is_read_only: new.is_read_only,
            time: new.time,
            database: new.database,
            version: new.version,
            user: new.user,
            client: new.client,
            http_client: new.http_client,
            touches: new.touches,
            tracking: new.tracking,
            joint,
            completion: Arc::clone(&completion),
            _charge: charge,
        };
        let mut inner = self.inner.lock();
        if self.is_stopping.load(Ordering::Relaxed) {
            drop(inner);
            task.refuse();
            return Ok(Pending(completion));
        }
        match number {
            Some(_) => inner.leased.push_back(task),
            None if inner.running.as_ref().is_some_and(|running| running.is_slow) => {
                return Err(IsBusy(inner.is_function()));
            }
            None => inner.queue.push_back(Waiting::Task(task)),
        }
        drop(inner);
        self.arrived.notify_all();
        Ok(Pending(completion))
    }

    /// Queues a lease. When its turn comes, the thread calls the waker and serves only this lease.
    pub(crate) fn lease(self: &Arc<Self>, waker: &Waker) -> Lease {
        let mut inner = self.inner.lock();
        inner.last_number += 1;
        let number = inner.last_number;
        inner.queue.push_back(Waiting::Lease(number, waker.clone()));
        drop(inner);
        self.arrived.notify_all();
        Lease { scripts: Arc::clone(self), number }
    }

    /// Waits for the next work, for at most `lull` if that is given. Called by the script thread.
    pub(crate) fn next(&self, lull: Option<Duration>) -> Next {
        let mut inner = self.inner.lock();
        loop {
            if self.is_stopping.load(Ordering::Relaxed) {
                return Next::Stop;
            }
            if inner.read.is_some() {
                return Next::Libraries;
            }
            let next = match inner.lease {
                Some(_) => inner.leased.pop_front(),
                None => match inner.queue.pop_front() {
                    Some(Waiting::Task(task)) => Some(task),
                    Some(Waiting::Lease(number, waker)) => {
                        inner.lease = Some(number);
                        waker.wake();
                        continue;
                    }
                    None => None,
                },
            };
            match next {
                Some(task) if task.completion.is_given_up.load(Ordering::Relaxed) => {}
                Some(task) => return Next::Task(task),
                None => match lull {
                    None => self.arrived.wait(&mut inner),
                    Some(lull) if self.arrived.wait_for(&mut inner, lull).timed_out() => {
                        return Next::Lull;
                    }
                    Some(_) => {}
                },
            }
        }
    }

    /// Records the start of a client's script, in milliseconds since 1970, or of a function with
    /// its name and request. Returns the number of the run.
    pub(crate) fn begin(
        &self,
        client: u64,
        (now_ms, started): (u64, Instant),
        function: Option<(String, Vec<Vec<u8>>)>,
    ) -> u64 {
        self.running_for.store(client, Ordering::Relaxed);
        self.running_since_ms.store(now_ms, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        inner.last_number += 1;
        let number = inner.last_number;
        let (has_written, is_slow) = (false, false);
        inner.running = Some(Running { number, has_written, is_slow, function, started });
        number
    }

    /// Records that the running script is about to change data.
    pub(crate) fn note_write(&self) {
        if let Some(running) = &mut self.inner.lock().running {
            running.has_written = true;
        }
    }

    /// Whether the running script is slow: whether it has run for `least`. The first time, calls
    /// `mark` with the time it has run, before the script can end, and refuses the queued requests.
    pub(crate) fn note_if_slow(&self, least: Duration, mark: impl FnOnce(Duration)) -> bool {
        let mut inner = self.inner.lock();
        let Some(running) = &mut inner.running else { return false };
        if running.is_slow {
            return true;
        }
        let took = running.started.elapsed();
        if took < least {
            return false;
        }
        running.is_slow = true;
        mark(took);
        let (tasks, leases): (Vec<_>, Vec<_>) =
            inner.queue.drain(..).partition(|waiting| matches!(waiting, Waiting::Task(_)));
        for waiting in &leases {
            if let Waiting::Lease(_, waker) = waiting {
                waker.wake_by_ref();
            }
        }
        inner.queue.extend(leases);
        let busy = IsBusy(inner.is_function());
        drop(inner);
        for waiting in tasks {
            if let Waiting::Task(task) = waiting {
                let error = Some((busy.text().as_bytes().to_vec(), false));
                task.finish(Outcome { error, ..Outcome::default() });
            }
        }
        true
    }

    /// The error for a request that needs the thread, if the running script is slow.
    pub(crate) fn busy(&self) -> Option<IsBusy> {
        let inner = self.inner.lock();
        let is_slow = inner.running.as_ref().is_some_and(|running| running.is_slow);
        is_slow.then(|| IsBusy(inner.is_function()))
    }

    /// Records that the script has ended. If it was slow, calls `unmark`.
    pub(crate) fn end(&self, unmark: impl FnOnce()) {
        self.running_since_ms.store(0, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        if inner.running.take().is_some_and(|running| running.is_slow) {
            unmark();
        }
    }

    /// The client of the running script, and the script's start in milliseconds since 1970.
    pub(crate) fn running_for(&self) -> Option<(u64, u64)> {
        let since_ms = self.running_since_ms.load(Ordering::Relaxed);
        (since_ms > 0).then(|| (self.running_for.load(Ordering::Relaxed), since_ms))
    }

    /// Whether the run with this number must end.
    pub(crate) fn is_to_end(&self, number: u64) -> bool {
        self.ended.load(Ordering::Relaxed) == number || self.is_stopping.load(Ordering::Relaxed)
    }

    /// Kills the running script or function, if it is slow and has not written.
    pub(crate) fn kill(&self, is_function: bool) -> Killed {
        let inner = self.inner.lock();
        match inner.running.as_ref().filter(|running| running.is_slow) {
            None => Killed::NotBusy,
            Some(running) if running.has_written => Killed::HasWritten,
            Some(_) if inner.is_function() != is_function => {
                Killed::IsOther(IsBusy(inner.is_function()))
            }
            Some(running) => {
                self.ended.store(running.number, Ordering::Relaxed);
                Killed::Ended
            }
        }
    }

    /// Ends the running script before the final save, if it has run for at least `least` and has
    /// not written. A script that has written must complete, since its changes must be saved as a
    /// whole.
    pub fn end_unless_written(&self, least: Duration) {
        let inner = self.inner.lock();
        let running = inner.running.as_ref().filter(|running| !running.has_written);
        if let Some(running) = running.filter(|running| running.started.elapsed() >= least) {
            self.ended.store(running.number, Ordering::Relaxed);
        }
    }

    /// Stops the thread, and the running script with it.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        self.is_stopping.store(true, Ordering::Relaxed);
        let queued = std::mem::take(&mut inner.queue).into_iter().filter_map(Waiting::into_task);
        let refused: Vec<Task> =
            std::mem::take(&mut inner.leased).into_iter().chain(queued).collect();
        drop(inner);
        // A transaction that has begun must end.
        refused.into_iter().for_each(Task::refuse);
        self.arrived.notify_all();
    }

    /// The source code of a cached script, by its digest.
    pub(crate) fn find(&self, name: &Digest) -> Option<Arc<[u8]>> {
        self.inner.lock().cache.get(name).map(|cached| Arc::clone(&cached.text))
    }

    /// The number of script flushes.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// The flags that a cached script has declared.
    pub(crate) fn flags_of(&self, name: &Digest) -> Option<ScriptFlags> {
        self.inner.lock().use_cached(name).map(|cached| cached.flags)
    }

    /// Caches a script. Returns the digest of a script that was evicted for it.
    pub(crate) fn remember(
        &self,
        name: Digest,
        (text, flags): (&[u8], ScriptFlags),
        is_loaded: bool,
    ) -> Option<Digest> {
        let mut inner = self.inner.lock();
        if let Some(cached) = inner.use_cached(&name) {
            cached.is_loaded |= is_loaded;
            if is_loaded {
                inner.evaluated.retain(|it| *it != name);
            }
            return None;
        }
        inner.uses += 1;
        let cached = Cached {
            text: text.into(),
            flags,
            is_loaded,
            used: inner.uses,
            _overhead: LargeOverhead::of_shared(text.len()),
        };
        inner.cache.insert(name, cached);
        if !is_loaded {
            inner.evaluated.push(name);
        }
        if inner.evaluated.len() <= MAX_EVALUATED {
            return None;
        }
        let evicted = inner.take_least_recent()?;
        inner.cache.remove(&evicted);
        inner.evicted += 1;
        Some(evicted)
    }

    /// Removes all scripts from the cache.
    pub(crate) fn flush(&self) {
        let mut inner = self.inner.lock();
        inner.cache.clear();
        inner.evaluated.clear();
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// The running function, if any.
    pub(crate) fn running_function(&self) -> Option<RunningFunction> {
        let inner = self.inner.lock();
        let running = inner.running.as_ref()?;
        let (name, command) = running.function.clone()?;
        Some(RunningFunction { name, command, took: running.started.elapsed() })
    }

    /// The loaded libraries.
    pub(crate) fn libraries(&self) -> Libraries {
        self.libraries.lock().clone()
    }

    /// The library that has a function.
    pub(crate) fn library_of(&self, function: &[u8]) -> Option<Arc<Library>> {
        self.libraries.lock().of_function(function).cloned()
    }

    /// Changes the libraries atomically.
    pub(crate) fn change_libraries<T>(&self, change: impl FnOnce(&mut Libraries) -> T) -> T {
        change(&mut self.libraries.lock())
    }

    /// The source code of all libraries.
    #[must_use]
    pub fn library_codes(&self) -> Vec<Arc<[u8]>> {
        self.frozen_libraries().codes()
    }

    /// All libraries, none of which changes while the result lives.
    pub fn frozen_libraries(&self) -> FrozenLibraries<'_> {
        FrozenLibraries(self.libraries.lock())
    }

    /// Makes the script thread replace libraries by those of a file, before any other work, and
    /// waits for that.
    ///
    /// # Errors
    /// Why a library cannot be loaded; or the server is stopping.
    pub fn read_libraries(&self, codes: Vec<Vec<u8>>) -> Result<(), String> {
        if codes.is_empty() {
            return Ok(());
        }
        let mut inner = self.inner.lock();
        inner.read = Some(codes);
        self.arrived.notify_all();
        loop {
            if let Some(outcome) = inner.read_outcome.take() {
                return outcome;
            }
            if self.is_stopping.load(Ordering::Relaxed) {
                return Err("the server is stopping".to_owned());
            }
            self.read.wait_for(&mut inner, READ_CHECK);
        }
    }

    /// Takes the source code of libraries that were read from a file.
    pub(crate) fn take_read(&self) -> Option<Vec<Vec<u8>>> {
        self.inner.lock().read.take()
    }

    /// Passes on the result of loading them.
    pub(crate) fn end_read(&self, outcome: Result<(), String>) {
        self.inner.lock().read_outcome = Some(outcome);
        self.read.notify_all();
    }

    /// The number of cached scripts, the bytes of their texts, and the number of evicted ones.
    pub(crate) fn cached(&self) -> (usize, usize, u64) {
        let inner = self.inner.lock();
        let bytes = inner.cache.values().map(|cached| cached.text.len()).sum();
        (inner.cache.len(), bytes, inner.evicted)
    }
}

/// The error for a request that a slow script blocks.
pub(crate) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

/// The running script is slow; `true` if it is a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsBusy(bool);

impl IsBusy {
    /// Whether the running script is a function.
    pub(crate) fn is_function(self) -> bool {
        self.0
    }

    /// The error for a client that tries to run another script.
    pub(crate) fn text(self) -> &'static str {
        if self.0 { BUSY_FUNCTION } else { BUSY }
    }
}

/// The result of an attempt to end the running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// It will end.
    Ended,
    /// No slow script is running.
    NotBusy,
    /// It has changed data, so it must run to its end.
    HasWritten,
    /// The request was for a script, but a function is running, or vice versa.
    IsOther(IsBusy),
}

impl Inner {
    /// Whether a function is running.
    fn is_function(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.function.is_some())
    }
}

impl Waiting {
    fn into_task(self) -> Option<Task> {
        match self {
            Waiting::Task(task) => Some(task),
            Waiting::Lease(..) => None,
        }
    }
}

impl Task {
    /// Ends it without running anything, because the server is stopping.
    fn refuse(mut self) {
        let (joint, text) = (self.joint.take(), b"ERR the server is stopping".to_vec());
        self.finish(Outcome { joint, error: Some((text, false)), ..Outcome::default() });
    }

    /// Passes the outcome to its client.
    pub(crate) fn finish(self, mut outcome: Outcome) {
        outcome.charge.set(accounting::room_bytes::<u8>(outcome.reply.own_bytes()));
        let Task { completion, request, .. } = self;
        // The request's memory must be released before the client can continue.
        drop(request);
        *completion.outcome.lock() = Some(outcome);
        completion.waker.wake_by_ref();
    }

    /// Its words.
    pub(crate) fn args(&self) -> Args<'_> {
        self.request.args()
    }
}

impl Pending {
    /// The outcome, if it is available.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.0.outcome.lock().take()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// A place in the queue for the script thread, and later exclusive use of the thread. Dropping it
/// releases the thread.
#[derive(Debug)]
pub(crate) struct Lease {
    scripts: Arc<Scripts>,
    number: u64,
}

impl Lease {
    /// Whether its turn has come.
    pub(crate) fn is_granted(&self) -> bool {
        self.scripts.inner.lock().lease == Some(self.number)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut inner = self.scripts.inner.lock();
        if inner.lease == Some(self.number) {
            inner.lease = None;
            inner.leased.clear();
        } else {
            inner.queue.retain(
                |waiting| !matches!(waiting, Waiting::Lease(number, _) if *number == self.number),
            );
        }
        drop(inner);
        self.scripts.arrived.notify_all();
    }
}

/// The script state of a transaction while its requests run.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) lease: Lease,
    /// A claim in addition to the transaction's, extended by its scripts.
    pub(crate) joint: Option<Claim>,
    /// Keys that its scripts may have changed.
    pub(crate) written: Vec<Arc<[u8]>>,
}

/// Whether requests with these flags run scripts.
pub(crate) fn runs_scripts(flags: Flags) -> bool {
    flags.contains(Flags::RUNS_SCRIPTS)
}
