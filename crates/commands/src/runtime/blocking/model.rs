//! Every interleaving of blocked clients with the requests that serve or unblock them, by loom: run
//! with `cargo xtask loom`.
//!
//! Requests run from their arguments to their replies, each client on its own worker. Dispatch,
//! claims, queues, alarms, workers' mail and the store are the real ones; sockets and sessions are
//! omitted.

#[path = "../../../../server/src/state/mail.rs"]
mod mail;

use crate::runtime::dispatch;
use crate::testing::{FakeServer, START_MS, collect, show};
use crate::{Client, ClientInfo, Context, Suspension, Tally, When, go_on};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use mail::Mail;
use nagi_proto::{Args, Output, Span, resp};
use nagi_store::{Clock, Counters, Store, StoreOptions};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Clients, and workers.
const CLIENTS: usize = 3;
/// The stack of a thread: a request needs more than loom provides by itself.
const STACK_WORDS: usize = 1 << 16;

const SERVED_X: &str = "*2|$1|q|$1|x|";
const SERVED_Y: &str = "*2|$1|q|$1|y|";
const TIME_IS_UP: &str = "*-1|";

/// A worker's mail, with a substitute for the descriptor that wakes it.
struct Mailbox {
    mail: Mail<()>,
    rung: Mutex<bool>,
    sleeper: Condvar,
}

impl Mailbox {
    fn new() -> Arc<Self> {
        let (rung, sleeper) = (Mutex::new(false), Condvar::new());
        Arc::new(Mailbox { mail: Mail::new(), rung, sleeper })
    }

    /// Sleeps until there is a task.
    fn wait(&self) {
        loop {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.sleeper.wait(rung).unwrap();
            }
            *rung = false;
            drop(rung);
            if !self.mail.collect().1.is_empty() {
                return;
            }
        }
    }

    /// Takes a task. Returns whether there was one.
    fn look(&self) -> bool {
        *self.rung.lock().unwrap() = false;
        !self.mail.collect().1.is_empty()
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        if self.mail.post(()) {
            *self.rung.lock().unwrap() = true;
            self.sleeper.notify_one();
        }
    }
}

struct World {
    store: Store,
    process: FakeServer,
}

impl World {
    fn new() -> Arc<Self> {
        let clock = Clock::Manual(Arc::new(START_MS.into()));
        let options = StoreOptions {
            databases: 1,
            shards: 1,
            clock,
            workers: CLIENTS,
            ..StoreOptions::default()
        };
        let info = |worker: usize| {
            let (id, worker) = (worker as u64 + 1, worker.into());
            Arc::new(ClientInfo { id, worker, ..ClientInfo::default() })
        };
        let process = FakeServer::new((0..CLIENTS).map(info).collect(), CLIENTS);
        Arc::new(World { store: Store::new(&options), process })
    }

    fn connect(self: &Arc<Self>, worker: usize) -> Connection {
        let mailbox = Mailbox::new();
        let mut client = Client::new(Arc::clone(&self.process.clients[worker]));
        client.waker = Waker::from(Arc::clone(&mailbox));
        Connection {
            world: Arc::clone(self),
            mailbox,
            counters: self.store.counters(worker),
            tally: self.process.statistics.worker(worker),
            client,
            request: Vec::new(),
            spans: Vec::new(),
            out: Output::default(),
            suspended: None,
        }
    }

    /// Checks that no state shows a waiting client.
    fn check_that_no_client_waits(&self) {
        let blocked = &self.process.hooks.blocked;
        assert!(blocked.is_empty() && blocked.keys() == 0);
        assert!(!blocked.may_concern(b"q"));
        assert!(!self.store.has_claims());
    }
}

/// A client and its worker.
struct Connection {
    world: Arc<World>,
    mailbox: Arc<Mailbox>,
    counters: Arc<Counters>,
    tally: Arc<Tally>,
    client: Client,
    request: Vec<u8>,
    spans: Vec<Span>,
    out: Output,
    suspended: Option<Suspension>,
}

impl Connection {
    /// What the server replies to a request.
    fn run(&mut self, request: &str) -> String {
        self.begin(request);
        self.end()
    }

    /// Sends a request, which runs until it completes or waits for keys.
    fn begin(&mut self, request: &str) {
        self.request = request.into();
        self.spans.clear();
        let mut start = 0;
        for word in request.split(' ') {
            let len = word.len() as u32;
            self.spans.push(Span { start, len });
            start += len + 1;
        }
        self.out = Output::default();
        self.slice();
        self.go_on(true);
    }

    /// The reply to the request that was sent.
    fn end(&mut self) -> String {
        self.go_on(false);
        show(&collect(&self.out))
    }

    /// Closes the connection.
    fn leave(&mut self) {
        self.suspended = None;
    }

    fn go_on(&mut self, stops_where_it_waits: bool) {
        while let Some(when) = self.suspended.as_ref().map(|suspended| suspended.when) {
            match when {
                When::Served if stops_where_it_waits => return,
                When::Served | When::Woken => self.mailbox.wait(),
                When::NextTick | When::RoomForReplies => {
                    thread::yield_now();
                    self.mailbox.look();
                }
            }
            self.slice();
        }
    }

    fn slice(&mut self) {
        let world = Arc::clone(&self.world);
        let _batch = world.store.batch(&self.counters);
        let args = Args::new(&self.request, &self.spans);
        let mut cx = Context {
            db: world.store.database(self.client.database, &self.counters, START_MS),
            reply: resp::Writer::new(&mut self.out, self.client.version),
            client: &mut self.client,
            server: &world.process,
            hooks: &world.process.hooks,
            tally: &self.tally,
            args,
            prefetched: None,
            suspension: None,
        };
        match self.suspended.take() {
            Some(suspended) => go_on(&mut cx, suspended),
            None => dispatch::execute(&mut cx, args),
        }
        self.suspended = cx.suspension;
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(work).unwrap()
}

/// Enough for each of two threads to interrupt the other between any two steps.
const PREEMPTIONS: usize = 2;
/// For models that would take hours with more: each thread can be interrupted once between any two
/// steps.
const FEW_PREEMPTIONS: usize = 1;

/// Runs a model with all interleavings that have at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let model = Arc::new(model);
    builder.check(move || {
        let model = Arc::clone(&model);
        spawn(move || model()).join().unwrap();
    });
}

#[test]
fn a_push_serves_a_client_that_begins_to_wait() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut consumer, mut producer) = (world.connect(0), world.connect(1));
        let pushed = spawn(move || producer.run("RPUSH q x"));
        assert_eq!(consumer.run("BLPOP q 0"), SERVED_X);
        assert_eq!(pushed.join().unwrap(), ":1|");
        assert_eq!(consumer.run("LRANGE q 0 -1"), "*0|");
        world.check_that_no_client_waits();
    });
}

#[test]
fn a_wait_whose_time_is_up_ends_with_an_element_or_leaves_it() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut consumer, mut producer) = (world.connect(0), world.connect(1));
        consumer.begin("BLPOP q 0.001");
        let pushed = spawn(move || producer.run("RPUSH q x"));
        let housekeeper = {
            let world = Arc::clone(&world);
            spawn(move || world.process.hooks.call_due(START_MS + 1000))
        };
        let reply = consumer.end();
        assert_eq!(pushed.join().unwrap(), ":1|");
        housekeeper.join().unwrap();
        let left = consumer.run("LRANGE q 0 -1");
        match (reply.as_str(), left.as_str()) {
            (SERVED_X, "*0|") | (TIME_IS_UP, "*1|$1|x|") => {}
            other => panic!("{other:?}"),
        }
        world.check_that_no_client_waits();
    });
}

#[test]
fn a_client_that_is_unblocked_receives_nothing_and_loses_nothing() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut consumer, mut producer) = (world.connect(0), world.connect(1));
        let mut other = world.connect(2);
        consumer.begin("BLPOP q 0");
        let pushed = spawn(move || producer.run("RPUSH q x"));
        let unblocked = spawn(move || other.run("CLIENT UNBLOCK 1"));
        let reply = consumer.end();
        assert_eq!(pushed.join().unwrap(), ":1|");
        let unblocked = unblocked.join().unwrap();
        let left = consumer.run("LRANGE q 0 -1");
        match (reply.as_str(), unblocked.as_str(), left.as_str()) {
            (SERVED_X, ":0|", "*0|") | (TIME_IS_UP, ":1|", "*1|$1|x|") => {}
            other => panic!("{other:?}"),
        }
        world.check_that_no_client_waits();
    });
}

/// Elements already taken for it are lost, as with Redis, but no others.
#[test]
fn a_client_that_leaves_takes_no_more_than_it_was_given() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut consumer, mut producer) = (world.connect(0), world.connect(1));
        consumer.begin("BLPOP q 0");
        let pushed = spawn(move || producer.run("RPUSH q x"));
        consumer.leave();
        assert_eq!(pushed.join().unwrap(), ":1|");
        let was_served = consumer.mailbox.look();
        let left = if was_served { "*0|" } else { "*1|$1|x|" };
        assert_eq!(consumer.run("LRANGE q 0 -1"), left);
        world.check_that_no_client_waits();
    });
}

#[test]
fn the_first_to_wait_is_served_first_on_whichever_worker() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut first, mut second) = (world.connect(0), world.connect(1));
        let mut producer = world.connect(2);
        first.begin("BLPOP q 0");
        let second = spawn(move || second.run("BLPOP q 0"));
        let pushed = spawn(move || ["x", "y"].map(|it| producer.run(&format!("RPUSH q {it}"))));
        assert_eq!(first.end(), SERVED_X);
        assert_eq!(second.join().unwrap(), SERVED_Y);
        assert_eq!(pushed.join().unwrap(), [":1|", ":1|"]);
        assert_eq!(first.run("LRANGE q 0 -1"), "*0|");
        world.check_that_no_client_waits();
    });
}

#[test]
fn elements_of_two_producers_are_received_once_each() {
    check(FEW_PREEMPTIONS, || {
        let world = World::new();
        let mut consumer = world.connect(0);
        let pushed = [(1, "RPUSH q x"), (2, "RPUSH q y")].map(|(worker, request)| {
            let mut producer = world.connect(worker);
            spawn(move || producer.run(request))
        });
        let mut had = [(); 2].map(|()| consumer.run("BLPOP q 0"));
        had.sort();
        assert_eq!(had, [SERVED_X, SERVED_Y]);
        pushed.into_iter().for_each(|pushed| assert!(pushed.join().unwrap().starts_with(':')));
        assert_eq!(consumer.run("LRANGE q 0 -1"), "*0|");
        world.check_that_no_client_waits();
    });
}

#[test]
fn an_element_that_is_moved_serves_a_client_at_its_destination() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let (mut mover, mut consumer) = (world.connect(0), world.connect(1));
        let mut producer = world.connect(2);
        mover.begin("BLMOVE a q LEFT RIGHT 0");
        let consumed = spawn(move || consumer.run("BLPOP q 0"));
        let pushed = spawn(move || producer.run("RPUSH a x"));
        assert_eq!(mover.end(), "$1|x|");
        assert_eq!(consumed.join().unwrap(), SERVED_X);
        assert_eq!(pushed.join().unwrap(), ":1|");
        assert_eq!(mover.run("EXISTS a q"), ":0|");
        world.check_that_no_client_waits();
    });
}
