//! The execution of a transaction. It claims the keys of all its requests and the keys that its
//! client watches, so that no other client sees a state between two requests. If a request affects
//! whole databases or looks at all keys, it claims all keys. Its requests run as they would outside
//! of a transaction, in slices if they take long.
//!
//! ```text
//! Gathering -> Claiming -> Looking -> Running -> Serving -> Releasing
//!                             |
//!                             +-- a watched key was changed: nothing runs
//! ```
//!
//! Clients that are blocked on its keys are served at its end, not by a request within it.

use crate::registry::command::Flags;
use crate::runtime::key_costs::{self, Meter, Named};
use crate::runtime::resume::go_on;
use crate::runtime::service::{Awaited, ReadyKeys, Service};
use crate::runtime::spent::Spent;
use crate::runtime::suspension::Slice;
use crate::runtime::{dispatch, gate, rights, shown};
use crate::state::frozen_time::FrozenTime;
use crate::state::key_costs::Cost;
use crate::state::scripts::{Lease, Leased, Scripts, runs_scripts};
use crate::state::transaction::{Queued, Transaction};
use crate::state::watched_keys::Watches;
use crate::{Context, Entry, Error, HookFlags, JobProgress, Keys, Marks, Suspension, When};
use nagi_proto::Args;
use nagi_store::{Claim, ClaimProgress, Claiming, Database, Intent, Store};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// Keys between two readings of the clock.
const STRIDE: usize = 32;

/// A transaction that is being executed.
pub(super) struct Execution {
    transaction: Box<Transaction>,
    watches: Watches,
    stage: Stage,
    /// The time that all of its requests see: a key that has not expired for the first request does
    /// not expire for a later one either.
    time: FrozenTime,
    /// Whether it may have changed data, so that it must be completed.
    is_committed: bool,
    /// The time and cost of the current request so far; the cost is counted for the request's keys.
    spent: Option<(Spent, Cost)>,
    /// Keys that requests have made able to serve blocked clients.
    ready: ReadyKeys,
}

/// The stage of an execution.
enum Stage {
    /// Waits for the end of a pause, which began while the transaction waited for its keys.
    Held,
    /// Waits for the script thread, since some of the requests run scripts.
    Leasing(Lease),
    /// The keys are being hashed.
    Gathering(Claiming, Cursor, Awaited),
    /// The keys are being claimed.
    Claiming(Claiming, Awaited),
    /// Keys on which clients have blocked meanwhile are collected.
    Looking(Claim, Cursor, Awaited, Awaited),
    /// Requests are run, with the number of started requests. The last of them may be unfinished.
    Running(Claim, usize, Option<Suspension>, Awaited),
    /// Clients that are blocked on the keys are served.
    Serving(Claim, Service),
    /// All requests have replied; the keys are being released.
    Releasing(Claim),
}

/// The number of requests whose keys were read, and the number of keys read of the next request.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    request: usize,
    key: usize,
}

impl Stage {
    fn begin(store: &Store) -> Self {
        Stage::Gathering(store.claiming(), Cursor::default(), Awaited::default())
    }

    /// The first stage of this transaction.
    fn first(
        transaction: &Transaction,
        store: &Store,
        (scripts, waker): (&Arc<Scripts>, &Waker),
    ) -> Self {
        match runs_scripts(transaction.flags()) {
            true => Stage::Leasing(scripts.lease(waker)),
            false => Stage::begin(store),
        }
    }
}

impl Execution {
    pub(super) fn new(
        transaction: Box<Transaction>,
        watches: Watches,
        store: &Store,
        thread: (&Arc<Scripts>, &Waker),
    ) -> Self {
        let stage = Stage::first(&transaction, store, thread);
        Execution {
            transaction,
            watches,
            stage,
            time: FrozenTime::default(),
            is_committed: false,
            spent: None,
            ready: ReadyKeys::default(),
        }
    }

    /// The error if the transaction cannot run, since it waits for the script thread and that runs
    /// a slow script.
    pub(super) fn refusal(&mut self, cx: &Context<'_>) -> Option<Error> {
        let Stage::Leasing(lease) = &self.stage else { return None };
        let busy = cx.server.scripts().busy().filter(|_| !lease.is_granted())?;
        drop(std::mem::take(&mut self.watches));
        cx.hooks.watched_keys.settle(cx.db.store());
        Some(Error::new(format!("EXECABORT Transaction discarded because of: {}", busy.text())))
    }

    /// Continues for a slice.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_>) -> JobProgress {
        let slice = Slice::begin();
        loop {
            if let Some(when) = self.step(cx, slice) {
                return JobProgress::Pending { when, is_committed: self.is_committed };
            }
            if let Stage::Releasing(claim) = &mut self.stage
                && claim.release(|| slice.is_over())
            {
                return JobProgress::Done;
            }
            if slice.is_over() {
                let when = When::NextTick;
                return JobProgress::Pending { when, is_committed: self.is_committed };
            }
        }
    }

    /// Takes one step. Returns when to continue; `None` means at once.
    fn step(&mut self, cx: &mut Context<'_>, slice: Slice) -> Option<When> {
        match &mut self.stage {
            Stage::Held => {
                if self.is_held(cx) {
                    return Some(When::Woken);
                }
                cx.client.info.mark(Marks::WAITING, false);
                let thread = (cx.server.scripts(), &cx.client.waker);
                self.stage = Stage::first(&self.transaction, cx.db.store(), thread);
                // If a script is slow by now, the transaction is refused.
                return Some(When::NextTick);
            }
            Stage::Leasing(_) => return self.lease(cx),
            Stage::Gathering(claiming, cursor, awaited) => {
                if gather(cx, &self.transaction, Some(claiming), cursor, awaited, slice) {
                    let is_leased = cx.client.leased.is_some();
                    self.watches.keys().for_each(|(database, key, _)| {
                        let intent = if is_leased { Intent::Write } else { Intent::Read };
                        claiming.add(cx.db.sibling(database).key(key), intent);
                    });
                    awaited.claim(cx, claiming);
                    let claiming = std::mem::replace(claiming, cx.db.store().claiming());
                    self.stage = Stage::Claiming(claiming, std::mem::take(awaited));
                }
            }
            Stage::Claiming(claiming, awaited) => {
                match cx.db.take_claims(claiming, &cx.client.waker, || slice.is_over()) {
                    ClaimProgress::More => return Some(When::NextTick),
                    ClaimProgress::Wait => return Some(When::Woken),
                    ClaimProgress::Held(claim) => {
                        let (before, now) = (std::mem::take(awaited), Awaited::default());
                        self.stage = Stage::Looking(claim, Cursor::default(), before, now);
                    }
                }
            }
            Stage::Looking(claim, cursor, before, awaited) => {
                if !gather(cx, &self.transaction, None, cursor, awaited, slice) {
                    return None;
                }
                if !awaited.is_within(before) {
                    self.stage = Stage::begin(cx.db.store());
                    return None;
                }
                let (claim, awaited) = (claim.hand_over(), std::mem::take(awaited));
                if self.is_held(cx) {
                    cx.client.leased = None;
                    self.stage = Stage::Held;
                    return Some(When::Woken);
                }
                self.run(cx, claim, awaited);
            }
            Stage::Running(..) => return self.run_next(cx),
            Stage::Serving(claim, service) => {
                if service.go_on(&cx.claimed_by(claim), slice) {
                    cx.client.leased = None;
                    self.stage = Stage::Releasing(claim.hand_over());
                }
            }
            Stage::Releasing(_) => {}
        }
        None
    }

    /// Whether a pause has begun that holds the transaction.
    fn is_held(&self, cx: &Context<'_>) -> bool {
        let writes = Flags::WRITE | Flags::PAUSED_AS_WRITE;
        gate::is_held(cx, self.transaction.flags().intersects(writes))
    }

    /// Waits for the script thread.
    fn lease(&mut self, cx: &mut Context<'_>) -> Option<When> {
        let Stage::Leasing(lease) = &self.stage else { return None };
        if !lease.is_granted() {
            return Some(When::Woken);
        }
        let begun = Stage::begin(cx.db.store());
        if let Stage::Leasing(lease) = std::mem::replace(&mut self.stage, begun) {
            cx.client.leased = Some(Box::new(Leased { lease, joint: None, written: Vec::new() }));
        }
        None
    }

    /// Runs the next request, or continues an unfinished one. If there are no more, begins to serve
    /// blocked clients.
    fn run_next(&mut self, cx: &mut Context<'_>) -> Option<When> {
        let Stage::Running(claim, done, suspension, awaited) = &mut self.stage else { return None };
        let requests = self.transaction.requests();
        let (request, suspended) = match suspension.take() {
            Some(suspended) => (requests.get(*done - 1), Some(suspended)),
            None => (requests.get(*done), None),
        };
        let Some(request) = request else {
            add_written(cx, awaited);
            let ready = std::mem::take(&mut self.ready);
            let service = Service::new(cx, std::mem::take(awaited), ready);
            self.stage = Stage::Serving(claim.hand_over(), service);
            return None;
        };
        *done += usize::from(suspended.is_none());
        let writing = Flags::WRITE | Flags::RUNS_SCRIPTS;
        self.is_committed |= self.transaction.flags().intersects(writing);
        let (began, replies) = (Instant::now(), cx.reply.len());
        let is_counted = cx.hooks.reasons().contains(HookFlags::KEY_COSTS);
        let meter = is_counted.then(|| Meter::start(cx));
        let database = cx.client.database;
        *suspension = run(cx, self.time, request, claim, suspended);
        let (spent, cost) =
            self.spent.get_or_insert_with(|| (Spent::since(began), Cost::default()));
        let ended = Instant::now();
        spent.executed += ended.duration_since(began);
        spent.executed += std::mem::take(&mut cx.client.worked_elsewhere);
        spent.reply_bytes += cx.reply.len() - replies;
        if let Some(meter) = meter {
            *cost += meter.stop(cx);
        }
        if suspension.is_none() {
            spent.report(cx, (request.row, request.args()), ended);
            count_cost(cx, request, *cost);
            self.spent = None;
            let db = cx.db.sibling(database).at(self.time.now_ms).claimed_by(claim);
            note_ready(cx, db, request, &mut self.ready);
        }
        // Keys must not stay claimed until a client has read its replies, so replies are not
        // limited.
        suspension.as_ref().map(|suspension| match suspension.when {
            When::RoomForReplies | When::NextTick => When::NextTick,
            When::Woken | When::Served => When::Woken,
        })
    }

    /// Begins to run the requests, unless a watched key was changed.
    fn run(&mut self, cx: &mut Context<'_>, mut claim: Claim, awaited: Awaited) {
        self.time = FrozenTime::at(cx.db.now_ms());
        // A key may have expired, or been replaced by SWAPDB, without being changed itself.
        let has_changed = |(database, key, was_there): (usize, &[u8], bool)| {
            let db = cx.db.sibling(database);
            db.inspect(db.key(key), |entry| entry.is_some() != was_there)
        };
        let is_stale = self.watches.is_changed() || self.watches.keys().any(has_changed);
        drop(std::mem::take(&mut self.watches));
        cx.hooks.watched_keys.settle(cx.db.store());
        self.stage = if is_stale {
            cx.reply.null_array();
            cx.client.leased = None;
            Stage::Releasing(claim.hand_over())
        } else {
            cx.reply.array(self.transaction.requests().len());
            if let Some(leased) = &mut cx.client.leased {
                leased.joint = Some(claim.joint());
            }
            Stage::Running(claim, 0, None, awaited)
        };
    }
}

/// Reads the keys of all requests, and adds them to `claiming` if that is given. Records keys on
/// which clients are blocked, if a request may change them. Returns whether all keys were read.
fn gather(
    cx: &Context<'_>,
    transaction: &Transaction,
    mut claiming: Option<&mut Claiming>,
    cursor: &mut Cursor,
    awaited: &mut Awaited,
    slice: Slice,
) -> bool {
    let blocked = &cx.hooks.blocked;
    let looks = !blocked.is_empty();
    if claiming.is_none() && !looks {
        return true;
    }
    let rows = cx.server.commands().entries();
    while let Some(request) = transaction.requests().get(cursor.request) {
        let row = rows.get(request.row).map(|entry| &entry.command.keys);
        let args = request.args();
        if row.is_some_and(|row| row.claims_everything(args)) {
            claiming.iter_mut().for_each(|claiming| claiming.add_everything());
        }
        if row.is_some_and(Keys::is_whole) {
            awaited.add_everything(blocked);
            return true;
        }
        let groups = row.into_iter().flat_map(|row| row.all_groups());
        let positions =
            groups.flat_map(|group| group.positions(args).map(move |position| (position, group)));
        for (position, group) in positions.skip(cursor.key) {
            if let Some(name) = args.get(position) {
                if let Some(claiming) = &mut claiming {
                    // A script may change a key that an earlier request only reads, and a claim for
                    // reading cannot become one for writing.
                    let is_leased = cx.client.leased.is_some();
                    let intent = if is_leased { Intent::Write } else { group.intent() };
                    claiming.add(cx.db.key(name), intent);
                }
                if looks && group.intent() == Intent::Write {
                    awaited.add(blocked, name);
                }
            }
            cursor.key += 1;
            if cursor.key.is_multiple_of(STRIDE) && slice.is_over() {
                return false;
            }
        }
        *cursor = Cursor { request: cursor.request + 1, key: 0 };
    }
    true
}

/// Notes the keys of a request that can serve blocked clients now that it has ended.
fn note_ready(cx: &Context<'_>, db: Database<'_>, request: &Queued, ready: &mut ReadyKeys) {
    let blocked = &cx.hooks.blocked;
    if blocked.is_empty() {
        return;
    }
    let Some(entry) = cx.server.commands().entries().get(request.row) else { return };
    if entry.command.flags.contains(Flags::WRITE) {
        ready.note(blocked, db, &entry.command.keys, request.args());
    }
    if entry.command.flags.contains(Flags::RUNS_SCRIPTS) {
        let written = cx.client.leased.iter().flat_map(|leased| &leased.written);
        written.for_each(|name| ready.add(blocked, db, name));
    }
}

/// Adds keys that scripts may have changed to those on which clients may be blocked.
fn add_written(cx: &Context<'_>, awaited: &mut Awaited) {
    let written = cx.client.leased.iter().flat_map(|leased| &leased.written);
    written.for_each(|name| awaited.add(&cx.hooks.blocked, name));
}

/// Counts the cost of a request for its keys, if it was measured.
fn count_cost(cx: &Context<'_>, request: &Queued, mut cost: Cost) {
    let entry = cx.server.commands().entries().get(request.row);
    if let Some(entry) = entry.filter(|_| cost != Cost::default()) {
        let args = request.args();
        cost.bytes = cost.bytes.saturating_add(key_costs::request_bytes(args) as u64);
        key_costs::note(&Named::Arguments(&entry.command.keys), args, cost, cx);
    }
}

/// Runs a request, or continues an unfinished one. Returns the remaining work.
fn run(
    cx: &mut Context<'_>,
    time: FrozenTime,
    request: &Queued,
    claim: &Claim,
    suspended: Option<Suspension>,
) -> Option<Suspension> {
    let args = request.args();
    let entry = cx.server.commands().entries().get(request.row)?;
    let mut reply = cx.reply.reborrow();
    reply.set_version(cx.client.version);
    let mut inner = Context {
        db: cx.db.sibling(cx.client.database).at(time.now_ms).claimed_by(claim),
        client: &mut *cx.client,
        server: cx.server,
        hooks: cx.hooks,
        tally: cx.tally,
        reply,
        args,
        prefetched: None,
        suspension: None,
    };
    inner.client.is_executing = true;
    inner.client.frozen_time = Some(time);
    match suspended {
        Some(suspended) => go_on(&mut inner, suspended),
        None => match rights::check_queued(&mut inner, entry, args) {
            Ok(()) => run_shown(entry, &mut inner, args),
            Err(error) => dispatch::refuse(&mut inner, &error),
        },
    }
    inner.client.is_executing = false;
    inner.client.frozen_time = None;
    inner.suspension
}

/// Runs a command, and shows it to monitors: after it, in the database that it may have selected,
/// but a script before the commands that it calls.
fn run_shown<'a>(entry: &'static Entry, cx: &mut Context<'a>, args: Args<'a>) {
    let flags = entry.command.flags;
    let is_shown =
        cx.hooks.reasons().contains(HookFlags::MONITORED) && !flags.contains(Flags::ADMIN);
    let words = is_shown.then(|| shown::words(entry.command, args));
    let show = |cx: &Context<'_>, is_time: bool| {
        words.iter().filter(|_| is_time).for_each(|words| shown::show(cx.server, cx.client, words));
    };
    let is_script = flags.contains(Flags::RUNS_SCRIPTS);
    show(cx, is_script);
    dispatch::run_claimed(entry, cx, args);
    show(cx, !is_script);
}
