//! A running script: its claims, and its permissions.

use crate::runtime::context::Server;
use crate::runtime::service::{Awaited, ReadyKeys, Service};
use crate::runtime::suspension::Slice;
use crate::scripting::held_keys::HeldKeys;
use crate::state::blocked::{BlockedClients, Name};
use crate::{Client, Context, Marks, Tally};
use nagi_proto::resp::Writer;
use nagi_proto::{Args, Output};
use nagi_store::accounting::LargeOverhead;
use nagi_store::{Claim, Counters, Database, Growing, Growth, Intent, Key, Store};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The interval in which a script that waits for a key checks for its end.
const WAIT: Duration = Duration::from_millis(20);

/// The number of claimed keys from which a script claims everything instead of a further one: each
/// claimed key takes memory.
const MOST_KEYS: usize = 65_536;

/// The script thread's counters and memory accounting: each worker has its own as well.
pub(super) struct ThreadContext {
    pub(super) counters: Arc<Counters>,
    pub(super) tally: Arc<Tally>,
    pub(super) waker: Waker,
    /// Accounts for Lua's memory and for the buffers of a script's commands, which are not data.
    overhead: RefCell<LargeOverhead>,
    /// Bytes of the general allocator that were accounted for last.
    noted_bytes: Cell<usize>,
}

/// Unparks the script thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl ThreadContext {
    /// The context of the calling thread. Its counters follow those of the workers.
    pub(super) fn new(store: &Store, server: &dyn Server) -> Self {
        let index = server.process().workers;
        ThreadContext {
            counters: store.counters(index),
            tally: server.statistics().worker(index),
            waker: Waker::from(Arc::new(ThreadWaker(thread::current()))),
            overhead: RefCell::default(),
            noted_bytes: Cell::new(0),
        }
    }

    /// Accounts for the memory that Lua uses now, and for `buffer_bytes` of buffers.
    pub(super) fn note_memory(&self, buffer_bytes: usize) {
        let (general, mapped) = nagi_script::taken_bytes();
        self.noted_bytes.set(general + buffer_bytes);
        self.overhead.borrow_mut().set(general + buffer_bytes, mapped);
    }

    /// Does the same during a script, but only after a change of more than `LITTLE_BYTES`.
    pub(super) fn note_growth(&self, buffer_bytes: usize) {
        const LITTLE_BYTES: usize = 32 * 1024;
        let (general, _) = nagi_script::taken_bytes();
        if (general + buffer_bytes).abs_diff(self.noted_bytes.get()) > LITTLE_BYTES {
            self.note_memory(buffer_bytes);
        }
    }

    /// A client's database.
    pub(super) fn database_of<'a>(
        &'a self,
        server: (&'a Store, &dyn Server),
        client: &Client,
        now_ms: u64,
    ) -> Database<'a> {
        let db = self.database(server, client.database, now_ms);
        if client.info.marks().contains(Marks::NO_TOUCH) { db.untouched() } else { db }
    }

    /// The database with this index. While writes are paused, none of its keys expires.
    pub(super) fn database<'a>(
        &'a self,
        (store, server): (&'a Store, &dyn Server),
        index: usize,
        now_ms: u64,
    ) -> Database<'a> {
        let db = store.database(index, &self.counters, now_ms);
        if server.hooks().is_paused(now_ms) { db.keeping_expired() } else { db }
    }
}

/// A running script.
pub(super) struct Run {
    /// The client on whose behalf commands run; their replies go to the script.
    pub(super) client: Client,
    pub(super) claim: Claim,
    /// The claimed keys; only the changed ones if everything is claimed.
    pub(super) held: HeldKeys,
    holds_everything: bool,
    /// The keys that its commands have made able to serve blocked clients.
    pub(super) ready: ReadyKeys,
    /// Whether its commands may have changed any key.
    pub(super) may_change_everything: bool,
    /// Whether its commands may only read.
    pub(super) is_read_only: bool,
    /// The intent with which further keys are claimed.
    pub(super) intent: Intent,
    /// Whether memory was exhausted when it began, and it has not declared `allow-oom`.
    pub(super) lacks_memory: bool,
    pub(super) has_written: bool,
    /// Whether its reply contains an error.
    pub(super) has_failed: bool,
    /// The time when it began, in milliseconds since 1970; all of its commands see this time.
    pub(super) now_ms: u64,
    pub(super) started: Instant,
    pub(super) number: u64,
    pub(super) is_slow: bool,
    /// The buffer for the reply of a command.
    pub(super) output: Output,
    /// Allocated bytes of the buffers of its last command.
    pub(super) buffer_bytes: usize,
}

/// The script was ended while it waited for a key.
#[derive(Debug)]
pub(super) struct Ended;

impl Run {
    pub(super) fn new(client: Client, claim: Claim, now_ms: u64) -> Self {
        Run {
            client,
            claim,
            held: HeldKeys::new(),
            ready: ReadyKeys::default(),
            holds_everything: false,
            may_change_everything: false,
            is_read_only: false,
            intent: Intent::Write,
            lacks_memory: false,
            has_written: false,
            has_failed: false,
            now_ms,
            started: Instant::now(),
            number: 0,
            is_slow: false,
            output: Output::default(),
            buffer_bytes: 0,
        }
    }

    /// Claims a further key, unless it is claimed with a sufficient intent already. If very many
    /// keys are claimed, claims everything instead.
    pub(super) fn claim(
        &mut self,
        store: &Store,
        context: &ThreadContext,
        key: Key<'_>,
        intent: Intent,
        is_to_end: impl Fn() -> bool,
    ) -> Result<(), Ended> {
        if self.holds_everything || self.held.has(key, intent) {
            return Ok(());
        }
        if self.held.len() >= MOST_KEYS {
            return self.claim_everything(store, context, is_to_end);
        }
        let db = store.database(0, &context.counters, self.now_ms);
        self.grow(db, context, Some((key, intent)), is_to_end)?;
        self.held.add(key, intent);
        Ok(())
    }

    /// Records that a command may change a key, which is claimed.
    pub(super) fn note_changed(&mut self, key: Key<'_>) {
        if !self.holds_everything {
            self.held.note_changed(key);
        } else if self.held.len() < MOST_KEYS {
            self.held.add_changed(key);
        } else {
            self.may_change_everything = true;
        }
    }

    /// Claims all keys of all databases.
    pub(super) fn claim_everything(
        &mut self,
        store: &Store,
        context: &ThreadContext,
        is_to_end: impl Fn() -> bool,
    ) -> Result<(), Ended> {
        if !self.holds_everything {
            let db = store.database(0, &context.counters, self.now_ms);
            self.grow(db, context, None, is_to_end)?;
            self.holds_everything = true;
            self.claim.release_names();
            self.held.keep_changed();
        }
        Ok(())
    }

    fn grow(
        &mut self,
        db: Database<'_>,
        context: &ThreadContext,
        key: Option<(Key<'_>, Intent)>,
        is_to_end: impl Fn() -> bool,
    ) -> Result<(), Ended> {
        let mut growing = Growing::default();
        loop {
            match db.grow_claim(&mut self.claim, key, &mut growing, &context.waker) {
                Growth::Held => return Ok(()),
                Growth::More => thread::yield_now(),
                Growth::Wait if is_to_end() => return Err(Ended),
                Growth::Wait => thread::park_timeout(WAIT),
            }
        }
    }

    /// Collects the keys that the script may have changed and on which clients may be blocked. The
    /// destination keys of these clients (BLMOVE) are claimed as well. Also returns the names of
    /// the changed keys.
    pub(super) fn awaited(
        &mut self,
        store: &Store,
        context: &ThreadContext,
        blocked: &BlockedClients,
    ) -> (Awaited, Vec<Name>) {
        loop {
            let mut awaited = Awaited::default();
            let mut written = Vec::new();
            if blocked.is_empty() {
                return (awaited, written);
            }
            if self.may_change_everything {
                awaited.add_everything(blocked);
                return (awaited, blocked.names());
            }
            for name in self.held.changed() {
                awaited.add(blocked, &name);
                written.push(name);
            }
            if self.holds_everything {
                awaited.note_all_claimed();
                return (awaited, written);
            }
            let is_held = |name: &Name| self.held.has(store.key(name), Intent::Write);
            let lacking = awaited.reached().find(|name| !is_held(name));
            let Some(lacking) = lacking.cloned() else { return (awaited, written) };
            // Clients may have blocked before this key was claimed, so the keys are collected
            // again.
            if self.claim(store, context, store.key(&lacking), Intent::Write, || false).is_err() {
                return (Awaited::default(), Vec::new());
            }
        }
    }

    /// Serves the clients that are blocked on these keys.
    pub(super) fn serve(
        &mut self,
        store: &Store,
        server: &dyn Server,
        context: &ThreadContext,
        (awaited, ready): (Awaited, ReadyKeys),
    ) {
        let mut unread = Output::default();
        let mut args = Args::new(&[], &[]);
        args = args.take(0);
        let cx = Context {
            db: context.database((store, server), 0, self.now_ms).claimed_by(&self.claim),
            reply: Writer::new(&mut unread, self.client.version),
            client: &mut self.client,
            server,
            hooks: server.hooks(),
            tally: &context.tally,
            args,
            prefetched: None,
            suspension: None,
        };
        let mut service = Service::new(&cx, awaited, ready);
        loop {
            let _batch = store.batch(&context.counters);
            if service.go_on(&cx, Slice::begin()) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_script::block_bytes;
    use nagi_store::accounting::room_bytes;

    #[test]
    fn lua_counts_its_blocks_as_the_allocator_does() {
        for bytes in (1..70_000).chain((70_000..1 << 20).step_by(101)) {
            assert_eq!(block_bytes(bytes), room_bytes::<u8>(bytes), "{bytes}");
        }
        assert_eq!(block_bytes((1 << 20) + 1), (1 << 20) + 4096);
        assert_eq!(block_bytes(0), 0);
    }
}
