//! Scripts: loaded ones, and requests on their way to the script thread, which runs one at a time.
//!
//! ```text
//! a worker                                   the script thread
//! submits a request, waits for it      -->   takes it when its turn has come
//! its client waits                           claims the keys, runs the script
//! is woken, takes the outcome          <--   leaves the outcome
//! ```
//!
//! A transaction with scripts in it *leases* the thread before it claims its keys: while it has the
//! lease, the thread runs its scripts only. If it claimed first, a script that runs could wait for
//! its keys, and it for the thread.

use crate::registry::command::Flags;
use crate::state::blocked::Name;
use crate::state::frozen_time::FrozenTime;
use crate::state::libraries::{Libraries, Library, Policy};
use crate::state::tracking_options::ClientTracking;
use crate::state::transaction::Queued;
use nagi_proto::resp::Version;
use nagi_proto::{Args, Output};
use nagi_script::{Digest, ScriptFlags};
use nagi_store::Claim;
use nagi_store::accounting::{self, Charge, LargeOverhead};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Scripts that came by EVAL which are remembered; those of SCRIPT LOAD are until SCRIPT FLUSH.
const MAX_EVALUATED: usize = 500;

/// What clients and the script thread share.
#[derive(Debug, Default)]
pub struct Scripts {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// The run that is to be ended; 0 for none.
    ended: AtomicU64,
    is_stopping: AtomicBool,
    /// Since when a script runs, in milliseconds since 1970, or 0 while none does, and for which
    /// client: for pages, which take no lock.
    running_since_ms: AtomicU64,
    running_for: AtomicU64,
    /// What Lua has taken for scripts, in bytes.
    pub(crate) script_bytes: AtomicUsize,
    /// What it has taken for functions.
    pub(crate) function_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Waiting>,
    /// The lease that the thread serves, and its scripts.
    lease: Option<u64>,
    leased: VecDeque<Task>,
    last_number: u64,
    running: Option<Running>,
    cache: HashMap<Digest, Cached>,
    /// Those that came by EVAL, the oldest first.
    evaluated: VecDeque<Digest>,
    evicted: u64,
    /// How often all scripts were forgotten.
    flushes: u64,
    libraries: Libraries,
    /// Texts of libraries that were read from a file and are to be loaded.
    read: Vec<Vec<u8>>,
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
    _overhead: LargeOverhead,
}

/// The script that runs.
#[derive(Debug)]
struct Running {
    number: u64,
    has_written: bool,
    is_slow: bool,
    /// The name of the function that it is, with the request that calls it.
    function: Option<(String, Vec<Vec<u8>>)>,
    started: Instant,
}

/// The running function, as FUNCTION STATS shows it.
pub(crate) struct RunningFunction {
    pub(crate) name: String,
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) took: Duration,
}

/// What a task is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// To run the script whose text comes with it.
    Eval,
    /// To run one by its name.
    EvalSha,
    /// To compile one.
    Load,
    /// To call a function.
    Call,
    /// To load a library of functions, in place of the one of its name if that is said.
    LoadLibrary { replaces: bool },
    /// To load the libraries of a payload.
    RestoreLibraries(Policy),
    /// To move keys to another server, for which the thread may wait.
    Migrate,
}

/// A request for the script thread.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Queued,
    pub(crate) asked: TaskKind,
    /// Whether it may change nothing.
    pub(crate) is_read_only: bool,
    /// The time at which it runs, if a transaction has set it.
    pub(crate) time: Option<FrozenTime>,
    pub(crate) database: usize,
    pub(crate) version: Version,
    /// The name of its user.
    pub(crate) user: Box<[u8]>,
    /// Its client.
    pub(crate) client: u64,
    /// How that tracks keys, if it does.
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// Of a script within a transaction: a claim beside the transaction's, which grows.
    pub(crate) joint: Option<Claim>,
    completion: Arc<Completion>,
    _charge: Charge,
}

/// What a task left.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) reply: Output,
    /// An error in its place, and whether it has been counted.
    pub(crate) error: Option<(Vec<u8>, bool)>,
    /// Whether the reply has an error in it.
    pub(crate) has_failed: bool,
    /// The claim that came with the task.
    pub(crate) joint: Option<Claim>,
    /// Keys that a script within a transaction may have changed, for which clients may wait.
    pub(crate) written: Vec<Name>,
    /// For how long a script ran.
    pub(crate) ran: Duration,
    /// For the reply, until it is among those of its client.
    pub(crate) charge: Charge,
}

#[derive(Debug)]
struct Completion {
    outcome: Mutex<Option<Outcome>>,
    waker: Waker,
    is_given_up: AtomicBool,
}

/// What a client waits with for its outcome; if it is dropped before the script begins, that does
/// not run.
#[derive(Debug)]
pub(crate) struct Pending(Arc<Completion>);

/// What a request for the script thread is made of.
pub(crate) struct NewTask<'a> {
    pub(crate) row: usize,
    pub(crate) args: Args<'a>,
    pub(crate) asked: TaskKind,
    pub(crate) is_read_only: bool,
    pub(crate) time: Option<FrozenTime>,
    pub(crate) database: usize,
    pub(crate) version: Version,
    pub(crate) user: &'a [u8],
    pub(crate) client: u64,
    pub(crate) tracking: Option<Box<ClientTracking>>,
    pub(crate) waker: Waker,
}

impl Scripts {
    /// Leaves a request for the thread: after all other requests, or, with a lease, for that.
    ///
    /// # Errors
    /// The script that runs has been slow for so long that none is to wait for it.
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
        charge.set(new.args.bytes().len() + size_of_val(new.args.spans()));
        let (number, joint) = lease.map(|(lease, joint)| (lease.number, joint)).unzip();
        let task = Task {
            request: Queued::new(new.row, new.args),
            asked: new.asked,
            is_read_only: new.is_read_only,
            time: new.time,
            database: new.database,
            version: new.version,
            user: new.user.into(),
            client: new.client,
            tracking: new.tracking,
            joint,
            completion: Arc::clone(&completion),
            _charge: charge,
        };
        let mut inner = self.inner.lock();
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

    /// Makes the thread serve only this lease when its turn has come, and call the waker
    /// then.
    pub(crate) fn lease(self: &Arc<Self>, waker: &Waker) -> Lease {
        let mut inner = self.inner.lock();
        inner.last_number += 1;
        let number = inner.last_number;
        inner.queue.push_back(Waiting::Lease(number, waker.clone()));
        drop(inner);
        self.arrived.notify_all();
        Lease { scripts: Arc::clone(self), number }
    }

    /// The next request, for the script thread, which waits for it; with none there may be
    /// libraries that were read from a file. Nothing at all once the thread is to stop.
    pub(crate) fn next(&self) -> Option<Option<Task>> {
        let mut inner = self.inner.lock();
        loop {
            if self.is_stopping.load(Ordering::Relaxed) {
                return None;
            }
            if !inner.read.is_empty() {
                return Some(None);
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
                Some(task) => return Some(Some(task)),
                None => self.arrived.wait(&mut inner),
            }
        }
    }

    /// Notes that a script of this client begins now, in milliseconds since 1970, or a function of
    /// this name by this request. Returns the number of the run.
    pub(crate) fn begin(
        &self,
        client: u64,
        now_ms: u64,
        function: Option<(String, Vec<Vec<u8>>)>,
    ) -> u64 {
        self.running_for.store(client, Ordering::Relaxed);
        self.running_since_ms.store(now_ms, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        inner.last_number += 1;
        let (number, started) = (inner.last_number, Instant::now());
        let (has_written, is_slow) = (false, false);
        inner.running = Some(Running { number, has_written, is_slow, function, started });
        number
    }

    /// Notes that the script which runs is going to change something.
    pub(crate) fn note_write(&self) {
        if let Some(running) = &mut self.inner.lock().running {
            running.has_written = true;
        }
    }

    /// Notes that the script which runs has been slow: none waits for it any more.
    pub(crate) fn note_slow(&self) {
        let mut inner = self.inner.lock();
        if let Some(running) = &mut inner.running {
            running.is_slow = true;
        }
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
    }

    /// What a request is told that needs the thread, if the script that runs has been slow.
    pub(crate) fn busy(&self) -> Option<IsBusy> {
        let inner = self.inner.lock();
        let is_slow = inner.running.as_ref().is_some_and(|running| running.is_slow);
        is_slow.then(|| IsBusy(inner.is_function()))
    }

    /// Notes that no script runs any more.
    pub(crate) fn end(&self) {
        self.running_since_ms.store(0, Ordering::Relaxed);
        self.inner.lock().running = None;
    }

    /// The client whose script runs, and since when it does, in milliseconds since 1970.
    pub(crate) fn running_for(&self) -> Option<(u64, u64)> {
        let since_ms = self.running_since_ms.load(Ordering::Relaxed);
        (since_ms > 0).then(|| (self.running_for.load(Ordering::Relaxed), since_ms))
    }

    /// Whether the run of this number is to be ended.
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

    /// Stops the thread, and the running script with it.
    pub fn stop(&self) {
        let inner = self.inner.lock();
        self.is_stopping.store(true, Ordering::Relaxed);
        drop(inner);
        self.arrived.notify_all();
    }

    /// The text of a script by its name, and whether all scripts were forgotten since `flushes`,
    /// which is brought up to date.
    pub(crate) fn find(&self, name: &Digest) -> Option<Arc<[u8]>> {
        self.inner.lock().cache.get(name).map(|cached| Arc::clone(&cached.text))
    }

    /// How often all scripts were forgotten.
    pub(crate) fn flushes(&self) -> u64 {
        self.inner.lock().flushes
    }

    /// What a script that is remembered has declared.
    pub(crate) fn flags_of(&self, name: &Digest) -> Option<ScriptFlags> {
        self.inner.lock().cache.get(name).map(|cached| cached.flags)
    }

    /// Remembers a script. Returns the name of one that is forgotten for it.
    pub(crate) fn remember(
        &self,
        name: Digest,
        (text, flags): (&[u8], ScriptFlags),
        is_loaded: bool,
    ) -> Option<Digest> {
        let mut inner = self.inner.lock();
        if let Some(cached) = inner.cache.get_mut(&name) {
            cached.is_loaded |= is_loaded;
            return None;
        }
        let cached = Cached {
            text: text.into(),
            flags,
            is_loaded,
            _overhead: LargeOverhead::of_shared(text.len()),
        };
        inner.cache.insert(name, cached);
        if !is_loaded {
            inner.evaluated.push_back(name);
        }
        if inner.evaluated.len() <= MAX_EVALUATED {
            return None;
        }
        let oldest = inner.evaluated.pop_front()?;
        if inner.cache.get(&oldest).is_none_or(|cached| cached.is_loaded) {
            return None;
        }
        inner.cache.remove(&oldest);
        inner.evicted += 1;
        Some(oldest)
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        let mut inner = self.inner.lock();
        inner.cache.clear();
        inner.evaluated.clear();
        inner.flushes += 1;
    }

    /// The function that runs, if one does.
    pub(crate) fn running_function(&self) -> Option<RunningFunction> {
        let inner = self.inner.lock();
        let running = inner.running.as_ref()?;
        let (name, command) = running.function.clone()?;
        Some(RunningFunction { name, command, took: running.started.elapsed() })
    }

    /// The libraries that there are.
    pub(crate) fn libraries(&self) -> Libraries {
        self.inner.lock().libraries.clone()
    }

    /// The library that has a function.
    pub(crate) fn library_of(&self, function: &[u8]) -> Option<Arc<Library>> {
        self.inner.lock().libraries.of_function(function).cloned()
    }

    /// Changes the libraries at one moment.
    pub(crate) fn change_libraries<T>(&self, change: impl FnOnce(&mut Libraries) -> T) -> T {
        change(&mut self.inner.lock().libraries)
    }

    /// The texts of all libraries.
    #[must_use]
    pub fn library_codes(&self) -> Vec<Arc<[u8]>> {
        let inner = self.inner.lock();
        inner.libraries.iter().map(|library| Arc::clone(&library.code)).collect()
    }

    /// Makes the script thread load libraries that a file has, in place of those that there are,
    /// before it does anything else.
    pub fn read_libraries(&self, codes: Vec<Vec<u8>>) {
        self.inner.lock().read.extend(codes);
        self.arrived.notify_all();
    }

    /// The texts of libraries that were read from a file since the last call.
    pub(crate) fn take_read(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.inner.lock().read)
    }

    /// How many scripts are remembered, the bytes of their texts, and how many were forgotten for
    /// other ones.
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

/// The script that runs has been slow, or the function if that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsBusy(bool);

impl IsBusy {
    /// The error for a client that wants to run another script.
    pub(crate) fn text(self) -> &'static str {
        if self.0 { BUSY_FUNCTION } else { BUSY }
    }
}

/// What came of an attempt to end the script that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// It ends.
    Ended,
    /// There is none that has been slow.
    NotBusy,
    /// It has changed something, so that it must come to its end.
    HasWritten,
    /// A function runs where a script was meant, or the other way round.
    IsOther(IsBusy),
}

impl Inner {
    /// Whether what runs is a function.
    fn is_function(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.function.is_some())
    }
}

impl Task {
    /// Leaves its outcome to its client.
    pub(crate) fn finish(self, mut outcome: Outcome) {
        outcome.charge.set(accounting::room_bytes::<u8>(outcome.reply.own_bytes()));
        let Task { completion, request, .. } = self;
        // Its memory is used no more when the client goes on.
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
    /// The outcome, once it is there.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.0.outcome.lock().take()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// A place in the queue for the script thread, and then the thread itself; given back when this is
/// dropped.
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

/// What a transaction has while its requests run of which some are scripts.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) lease: Lease,
    /// A claim beside the transaction's, to which its scripts add.
    pub(crate) joint: Option<Claim>,
    /// Keys that its scripts may have changed.
    pub(crate) written: Vec<Name>,
}

/// Whether requests with these flags run scripts.
pub(crate) fn runs_scripts(flags: Flags) -> bool {
    flags.contains(Flags::RUNS_SCRIPTS)
}
