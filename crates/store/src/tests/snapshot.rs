//! Tests that a snapshot equals the contents at the cut: single-threaded with random actions in
//! between, and with several threads.

use super::Fixture;
use crate::types::counter::Arithmetic;
use crate::types::key::ExpireWhen;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use crate::types::versioned::{Count, Fetch, Mode, Removal, Write};
use crate::{
    ClaimProgress as Claimed, CutError, DatabaseSize, EntryView, Expirer, Intent, Policy, Rope,
    Scope, Snapshot, SnapshotError, Store, StringInput, WalkProgress, Walker,
};
use nagi_chunk::CHUNK_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

const DATABASES: usize = 3;

/// Value, expiry, client flags and version by database and key.
pub(super) type Contents = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<u64>, u32, Option<u64>)>;

#[derive(Clone, Debug)]
enum Action {
    Set { len: usize, ttl_ms: Option<u64>, flags: u32 },
    Delete,
    Append { len: usize },
    SetRange { offset: usize, len: usize },
    Increment,
    Expire { ttl_ms: u64 },
    Persist,
    Version,
    Touch { ttl_ms: u64 },
    Count { initial: u64 },
    Store { mode: Mode, len: usize, expected: Option<u64> },
    Invalidate { ttl_ms: u64 },
    Rename { to: u16 },
    Copy { to: u16, database: usize },
    Move { database: usize },
    Many { to: u16 },
    Pass { ms: u64 },
    ExpireAll,
    Evict,
    Flush { all: bool },
    Swap { with: usize },
    Walk { walker: usize },
    Take,
}

fn action() -> impl Strategy<Value = Action> {
    let key = 0..KEYS;
    let mode = prop_oneof![
        Just(Mode::Set),
        Just(Mode::Add),
        Just(Mode::Replace),
        Just(Mode::Append),
        Just(Mode::Prepend)
    ];
    let database = 0..DATABASES;
    let len = prop_oneof![8 => 0..200_usize, 2 => 200..9000_usize, 1 => 60_000..140_000_usize];
    let ttl = prop_oneof![2 => Just(None), 1 => (0..500_u64).prop_map(Some)];
    let flags = prop_oneof![3 => Just(0_u32), 1 => any::<u32>()];
    prop_oneof![
        30 => (len.clone(), ttl, flags)
            .prop_map(|(len, ttl_ms, flags)| Action::Set { len, ttl_ms, flags }),
        12 => Just(Action::Delete),
        5 => len.clone().prop_map(|len| Action::Append { len }),
        5 => (len.clone(), len).prop_map(|(offset, len)| Action::SetRange { offset, len }),
        5 => Just(Action::Increment),
        4 => (0..500_u64).prop_map(|ttl_ms| Action::Expire { ttl_ms }),
        3 => Just(Action::Persist),
        3 => Just(Action::Version),
        3 => (0..500_u64).prop_map(|ttl_ms| Action::Touch { ttl_ms }),
        3 => (0..99_u64).prop_map(|initial| Action::Count { initial }),
        6 => (mode, 0..9000_usize, prop_oneof![Just(None), (1..200_u64).prop_map(Some)])
            .prop_map(|(mode, len, expected)| Action::Store { mode, len, expected }),
        2 => (0..500_u64).prop_map(|ttl_ms| Action::Invalidate { ttl_ms }),
        5 => key.clone().prop_map(|to| Action::Rename { to }),
        5 => (key.clone(), database.clone())
            .prop_map(|(to, database)| Action::Copy { to, database }),
        4 => database.clone().prop_map(|database| Action::Move { database }),
        4 => key.prop_map(|to| Action::Many { to }),
        2 => (0..300_u64).prop_map(|ms| Action::Pass { ms }),
        2 => Just(Action::ExpireAll),
        1 => Just(Action::Evict),
        1 => any::<bool>().prop_map(|all| Action::Flush { all }),
        2 => database.prop_map(|with| Action::Swap { with }),
        10 => (0..2_usize).prop_map(|walker| Action::Walk { walker }),
        6 => Just(Action::Take),
    ]
}

/// Enough for segments to split and merge while only some have been walked.
const KEYS: u16 = 900;

fn key_of(key: u16) -> Vec<u8> {
    match key % 50 {
        0 => vec![b'k'; 300 + usize::from(key)],
        25 => vec![b'l'; 2000 + usize::from(key)],
        _ => key.to_string().into_bytes(),
    }
}

pub(super) fn facts(entry: &EntryView<'_>) -> (Vec<u8>, Option<u64>, u32, Option<u64>) {
    let value = entry.string().unwrap().with_bytes(<[u8]>::to_vec);
    (value, entry.expire_at_ms(), entry.flags(), entry.cas())
}

/// Returns the current contents of the store, without expired entries.
pub(super) fn contents(fixture: &Fixture) -> Contents {
    let mut contents = Contents::new();
    for database in 0..DATABASES {
        let mut cursor = 0;
        loop {
            cursor = fixture.db(database).scan(cursor, 100, |entry| {
                contents.insert((database, entry.key().to_vec()), facts(&entry));
            });
            if cursor == 0 {
                break;
            }
        }
    }
    contents
}

/// Returns the current size of each database, including expired entries, counted one by one.
fn sizes(fixture: &Fixture) -> [DatabaseSize; DATABASES] {
    let mut sizes = [DatabaseSize::default(); DATABASES];
    for shard in &fixture.store.shards {
        for (size, table) in sizes.iter_mut().zip(shard.lock().tables_mut()) {
            size.keys += table.len() as u64;
            size.volatile += table.count_volatile() as u64;
        }
    }
    sizes
}

/// A sequence of actions on one store with an active snapshot.
struct Run<'a> {
    fixture: &'a Fixture,
    snapshot: Snapshot<'a>,
    expected: Contents,
    sizes: [DatabaseSize; DATABASES],
    /// The time of the cut.
    at_ms: u64,
    seen: Contents,
    walkers: [Walker; 2],
}

impl<'a> Run<'a> {
    fn cut(fixture: &'a Fixture) -> Self {
        let (expected, sizes) = (contents(fixture), sizes(fixture));
        let snapshot = fixture.store.cut(usize::MAX, Waker::noop()).unwrap();
        let at_ms = fixture.db(0).now_ms();
        Run {
            fixture,
            snapshot,
            expected,
            sizes,
            at_ms,
            seen: Contents::new(),
            walkers: [Walker::default(), Walker::default()],
        }
    }

    fn walk(&mut self, walker: usize) -> WalkProgress {
        self.fixture.store.walk(&mut self.walkers[walker], || true)
    }

    fn take(&mut self) -> bool {
        let Some(images) = self.snapshot.take(Duration::ZERO) else { return false };
        for entry in images.entries() {
            // Entries that had expired before the cut may be missing or not.
            if entry.expire_at_ms().is_none_or(|at_ms| at_ms > self.at_ms) {
                let key = (images.database(), entry.key().to_vec());
                assert_eq!(self.seen.insert(key, facts(&entry)), None, "an entry is saved once");
            }
        }
        true
    }

    fn finish(mut self) {
        while self.walk(0) != WalkProgress::Done || self.walk(1) != WalkProgress::Done {
            while self.take() {}
        }
        assert!(self.snapshot.is_walked());
        while self.take() {}
        let held = self.fixture.store.snapshot_memory();
        assert_eq!((held.pre_image_bytes, held.walked_bytes), (0, 0));
        let sizes = std::array::from_fn(|database| self.snapshot.size_of(database));
        assert_eq!(sizes, self.sizes);
        assert_eq!(self.snapshot.finish(), Ok(()));
        assert!(!self.fixture.store.is_saving());
        assert!(self.seen == self.expected, "the snapshot is what there was at the cut");
    }
}

/// Executes an action that only memcached's clients perform.
fn apply_verb(db: crate::Database<'_>, key: crate::Key<'_>, action: &Action) {
    let now_ms = db.now_ms();
    match *action {
        Action::Touch { ttl_ms } => {
            let expiry = Expiry::AtMs(now_ms + ttl_ms);
            db.fetch(key, &Fetch { expiry, versioned: true, ..Fetch::default() }, |_| ());
        }
        Action::Count { initial } => {
            let initial = Some((initial, Expiry::Never));
            let _ = db
                .count(key, &Count { initial, versioned: true, ..Count::plain(Arithmetic::Up(3)) });
        }
        Action::Store { mode, len, expected } => {
            let value = vec![b's'; len];
            let write = Write {
                mode,
                value: value.as_slice().into(),
                flags: len as u32,
                expiry: Expiry::Keep,
                expected,
                allow_older: false,
                vivify: None,
                version: None,
                versioned: true,
                limit_bytes: 1 << 20,
            };
            let _ = db.store_versioned(key, write);
        }
        Action::Invalidate { ttl_ms } => {
            let expiry = Expiry::AtMs(now_ms + ttl_ms);
            let (expected, clear, version) = (None, None, None);
            let removal = Removal { expected, invalidate: true, clear, expiry, version };
            let _ = db.remove_versioned(key, &removal);
        }
        _ => {}
    }
}

fn apply(fixture: &Fixture, run: Option<&mut Run<'_>>, key: u16, database: usize, action: &Action) {
    let db = fixture.db(database);
    let (name, now_ms) = (key_of(key), db.now_ms());
    let key = db.key(&name);
    match *action {
        Action::Set { len, ttl_ms, flags } => {
            let expiry = ttl_ms.map_or(Expiry::Never, |ttl| Expiry::AtMs(now_ms + ttl));
            let value = vec![b'a' + (len % 26) as u8; len];
            db.set(key, &value, SetOptions { expiry, flags, ..Default::default() });
        }
        Action::Delete => {
            let _ = db.delete(key);
        }
        Action::Append { len } => {
            let _ = db.extend(key, &vec![b'+'; len], End::Back, Condition::Always, usize::MAX);
        }
        Action::SetRange { offset, len } => {
            let _ = db.set_range(key, offset, &vec![b'r'; len], usize::MAX);
        }
        Action::Increment => {
            if db.increment(key, 1).is_err() {
                db.set(key, b"12345678901", SetOptions::default());
            }
        }
        Action::Expire { ttl_ms } => {
            let _ = db.expire(key, now_ms + ttl_ms, ExpireWhen::default());
        }
        Action::Persist => {
            let _ = db.persist(key);
        }
        Action::Version => db.get_versioned(key, |_| ()),
        Action::Touch { .. }
        | Action::Count { .. }
        | Action::Store { .. }
        | Action::Invalidate { .. } => apply_verb(db, key, action),
        Action::Rename { to } => {
            let _ = db.rename(key, db.key(&key_of(to)), true);
        }
        Action::Copy { to, database } => {
            let _ = db.copy(key, database, db.key(&key_of(to)), true);
        }
        Action::Move { database } => {
            let _ = db.move_to(key, database);
        }
        Action::Many { to } => {
            let other = key_of(to);
            db.set_many(vec![(key, b"one".into()), (db.key(&other), b"other".into())], false);
        }
        Action::Pass { ms } => fixture.pass_ms(ms),
        Action::ExpireAll => {
            let budget = Duration::from_secs(9);
            Expirer::new(0, 1).run(&fixture.store, &fixture.counters, now_ms, budget);
        }
        Action::Evict => {
            fixture.store.set_limit(1, Policy::AllKeysRandom);
            let _ = db.make_room();
            fixture.store.set_limit(0, Policy::NoEviction);
        }
        Action::Flush { all: true } => db.flush(Scope::All),
        Action::Flush { all: false } => db.flush(Scope::Database(database)),
        Action::Swap { with } => fixture.store.swap(database, with),
        Action::Walk { walker } => {
            let _ = run.map(|run| run.walk(walker));
        }
        Action::Take => {
            let _ = run.map(Run::take);
        }
    }
}

/// Whether the snapshot is cancelled; and actions on keys of databases, half of them before the
/// cut.
type Round = (bool, Vec<(u16, usize, Action)>);

/// Takes several snapshots of one store, one after the other; some are cancelled.
fn rounds(mask: u64, rounds: &[Round]) {
    let fixture = Fixture::masked(4, mask);
    for (is_cancelled, actions) in rounds {
        let (before, after) = actions.split_at(actions.len() / 2);
        for (key, database, action) in before {
            apply(&fixture, None, *key, *database, action);
        }
        let mut run = Run::cut(&fixture);
        assert!(matches!(fixture.store.cut(0, Waker::noop()), Err(CutError::Busy)));
        let (first, second) = after.split_at(after.len() / 2);
        for (key, database, action) in first {
            apply(&fixture, Some(&mut run), *key, *database, action);
        }
        if *is_cancelled {
            run.snapshot.cancel();
        }
        for (key, database, action) in second {
            apply(&fixture, Some(&mut run), *key, *database, action);
        }
        if *is_cancelled {
            while run.walk(0) != WalkProgress::Done || run.walk(1) != WalkProgress::Done {}
            assert_eq!(run.snapshot.finish(), Err(SnapshotError::Cancelled));
        } else {
            run.finish();
        }
        let mut stale = 0;
        for shard in &fixture.store.shards {
            let barrier = fixture.store.word.read();
            stale +=
                shard.lock().tables_mut().iter_mut().filter(|it| it.has_older(barrier)).count();
        }
        assert_eq!(stale, 0, "every entry is stamped when a save ends");
    }
}

fn round() -> impl Strategy<Value = Round> {
    let actions = proptest::collection::vec((0..KEYS, 0..DATABASES, action()), 1..1500);
    (proptest::bool::weighted(0.2), actions)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 32 }))]

    #[test]
    fn snapshot_equals_the_contents_at_the_cut(
        script in proptest::collection::vec(round(), 1..6),
    ) {
        rounds(u64::MAX, &script);
    }

    #[test]
    fn snapshot_is_correct_with_hashes_that_differ_in_few_bits(
        script in proptest::collection::vec(round(), 1..4),
    ) {
        rounds(0xc000_0000_0000_0007, &script);
    }
}

#[test]
fn snapshot_is_aborted_beyond_the_limit_of_pre_images() {
    let fixture = Fixture::new(2);
    let write = |byte: u8| {
        for key in 0..200_u32 {
            let (db, key) = (fixture.db(0), key.to_string());
            db.set(db.key(key.as_bytes()), &[byte; 10_000], SetOptions::default());
        }
    };
    write(b'a');
    let mut snapshot = fixture.store.cut(1 << 20, Waker::noop()).unwrap();
    write(b'b');
    assert!(snapshot.is_aborted());
    assert!(fixture.store.snapshot_memory().pre_image_peak_bytes < (1 << 20) + 200_000);
    let mut walker = Walker::default();
    while fixture.store.walk(&mut walker, || false) != WalkProgress::Done {}
    while snapshot.take(Duration::ZERO).is_some() {}
    assert_eq!(snapshot.finish(), Err(SnapshotError::PreImageLimit));
    Run::cut(&fixture).finish();
}

#[test]
fn cut_waits_for_claims() {
    let fixture = Fixture::new(2);
    let db = fixture.db(0);
    let mut claiming = fixture.store.claiming();
    claiming.add(db.key(b"key"), Intent::Write);
    let Claimed::Held(claim) = db.take_claims(&mut claiming, Waker::noop(), || false) else {
        panic!("there is no other claim")
    };
    assert!(matches!(fixture.store.cut(0, Waker::noop()), Err(CutError::Claimed(_))));
    drop(claim);
    Run::cut(&fixture).finish();
}

/// The sum of all accounts never changes, whatever their keys.
#[test]
fn transfers_are_atomic_in_every_snapshot() {
    const ACCOUNTS: u32 = 64;
    const CUTS: usize = if cfg!(miri) { 3 } else { 300 };
    let options = crate::StoreOptions { shards: 8, workers: 4, ..crate::StoreOptions::default() };
    let store = Store::new(&options);
    let name = |account: u32| format!("account:{account}").into_bytes();
    let counters = store.counters(0);
    let db = store.database(0, &counters, 1);
    for account in 0..ACCOUNTS {
        db.set(db.key(&name(account)), b"100", SetOptions::default());
    }
    let is_done = AtomicBool::default();
    std::thread::scope(|scope| {
        let _ended = Ended(&is_done);
        for thread in 1..4_u32 {
            let (store, is_done) = (&store, &is_done);
            scope.spawn(move || {
                let counters = store.counters(thread as usize);
                let mut walker = Walker::default();
                let mut step = thread;
                while !is_done.load(Ordering::Relaxed) {
                    let db = store.database(0, &counters, 1);
                    step = step.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    transfer(db, thread, step >> 8, &name);
                    store.walk(&mut walker, || true);
                }
                while store.is_saving() {
                    store.walk(&mut walker, || true);
                }
            });
        }
        for _ in 0..CUTS {
            let mut snapshot = store.cut(usize::MAX, Waker::noop()).unwrap();
            let mut sum = 0;
            loop {
                let is_walked = snapshot.is_walked();
                let Some(images) = snapshot.take(Duration::from_millis(1)) else {
                    if is_walked {
                        break;
                    }
                    continue;
                };
                for entry in images.entries() {
                    let text = entry.string().unwrap().with_bytes(<[u8]>::to_vec);
                    sum += crate::parse_i64(&text).unwrap();
                }
            }
            assert_eq!(snapshot.finish(), Ok(()));
            assert_eq!(sum, i64::from(ACCOUNTS) * 100);
        }
    });
}

/// Ends the other threads as well if this one panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves money between two accounts of a thread; sometimes an account is renamed and renamed back.
fn transfer(db: crate::Database<'_>, thread: u32, random: u32, name: &impl Fn(u32) -> Vec<u8>) {
    // Each thread has its own accounts, so that reading and writing need no claim.
    let of_thread = |pick: u32| pick % 20 * 3 + thread - 1;
    let (from, to) = (name(of_thread(random)), name(of_thread(random >> 8)));
    if from == to {
        return;
    }
    let (from_key, to_key) = (db.key(&from), db.key(&to));
    if random.is_multiple_of(5) {
        let elsewhere = format!("elsewhere:{thread}").into_bytes();
        db.rename(from_key, db.key(&elsewhere), true);
        db.rename(db.key(&elsewhere), from_key, true);
        return;
    }
    let read = |key| db.get(key, |it| it.map(|it| it.string().unwrap().with_bytes(<[u8]>::to_vec)));
    let number = |key| read(key).and_then(|text| crate::parse_i64(&text)).expect("a number");
    let amount = i64::from(random % 7);
    let (less, more) = (number(from_key) - amount, number(to_key) + amount);
    let (less, more) = (less.to_string().into_bytes(), more.to_string().into_bytes());
    db.set_many(vec![(from_key, (&less).into()), (to_key, (&more).into())], false);
}

/// Large values count for a save as far as no other key has them, and their chunks are no data.
#[test]
fn images_of_large_values_are_counted_once() {
    let fixture = Fixture::new(1);
    let db = fixture.db(0);
    let key = |name: &'static [u8]| db.key(name);
    let long = Rope::from_bytes(&vec![b'x'; 10 * CHUNK_BYTES]);
    for name in [&b"overwritten"[..], b"renamed"] {
        db.set(key(name), StringInput::Rope(long.clone()), SetOptions::default());
    }
    let run = Run::cut(&fixture);
    let held = || fixture.store.snapshot_memory().pre_image_bytes;
    db.rename(key(b"renamed"), key(b"other"), true);
    assert!(held() < 2 * CHUNK_BYTES, "{} bytes of a value that stays", held());
    db.set(key(b"overwritten"), b"short".as_slice(), SetOptions::default());
    assert!(held() >= 10 * CHUNK_BYTES, "{} bytes", held());
    let memory = fixture.store.snapshot_memory();
    assert!(memory.pre_image_bytes - memory.uncounted_bytes < CHUNK_BYTES, "{memory:?}");
    run.finish();
    assert_eq!(fixture.store.snapshot_memory().uncounted_bytes, 0);
}
