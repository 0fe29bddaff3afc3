//! A server without sockets for tests: request text in, reply text out.

use crate::memcached;
use crate::runtime::dispatch;
use crate::state::saves::Saves;
use crate::{
    Addresses, Client, ClientInfo, CommandTable, Config, Context, Entry, Marks, Process, PubSub,
    RequestHooks, Scripts, Server, Statistics, Tally, When, command_table, go_on,
};
use nagi_proto::memcached::Parsed;
use nagi_proto::{Args, Output, resp};
use nagi_store::{Clock, Counters, Event, Store, StoreOptions};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

#[path = "../../store/src/tests/replica.rs"]
mod replica;
use replica::Replica;

/// The time at which every test begins, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// A store, a client of each protocol, and a clock controlled by the test.
pub(crate) struct Bench {
    clock: Arc<AtomicU64>,
    pub(crate) process: FakeServer,
    pub(crate) client: Client,
    pub(crate) memcached: Client,
    pub(crate) store: Arc<Store>,
    pub(crate) counters: Arc<Counters>,
    tally: Arc<Tally>,
    /// Receives all changes; must hold the same data as the store at the end of every test.
    replica: Replica,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.replica.check(&self.store);
        }
    }
}

/// A stand-in for the process around the commands.
pub(crate) struct FakeServer {
    pub(crate) clients: Vec<Arc<ClientInfo>>,
    pub(crate) config: Config,
    pub(crate) statistics: Statistics,
    pub(crate) process: Process,
    pub(crate) asked_to_stop: Mutex<bool>,
    pub(crate) flush_at_ms: Mutex<Option<u64>>,
    pub(crate) hooks: RequestHooks,
    pub(crate) pubsub: PubSub,
    pub(crate) saves: Saves,
    pub(crate) scripts: Arc<Scripts>,
}

impl FakeServer {
    /// A server with these clients, and tallies for `workers` workers.
    pub(crate) fn new(clients: Vec<Arc<ClientInfo>>, workers: usize) -> Self {
        FakeServer {
            clients,
            config: Config::default(),
            statistics: Statistics::new(workers, command_table().entries().len()),
            process: Process {
                run_id: "0".repeat(40),
                started_at_ms: START_MS,
                workers: 1,
                io: "epoll",
                worker_threads: Box::default(),
                script_thread: OnceLock::new(),
            },
            asked_to_stop: Mutex::default(),
            flush_at_ms: Mutex::default(),
            hooks: RequestHooks::default(),
            pubsub: PubSub::new(1),
            saves: Saves::default(),
            scripts: Arc::default(),
        }
    }
}

impl Server for FakeServer {
    fn commands(&self) -> &'static CommandTable {
        command_table()
    }

    fn clients(&self) -> Vec<Arc<ClientInfo>> {
        self.clients.clone()
    }

    fn client(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.clients.iter().find(|client| client.id == id).cloned()
    }

    fn kill(&self, clients: &[Arc<ClientInfo>]) {
        clients.iter().for_each(|client| client.mark(Marks::KILLED, true));
    }

    fn check_timers(&self) {}

    fn show_monitors(&self, _: usize) {}

    fn show_messages(&self, _: usize) {}

    fn show_watchers(&self, _: usize) {}

    fn hooks(&self) -> &RequestHooks {
        &self.hooks
    }

    fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    fn scripts(&self) -> &Arc<Scripts> {
        &self.scripts
    }

    fn saves(&self) -> &Saves {
        &self.saves
    }

    fn http_refusal(&self, _: &Entry, _: IpAddr) -> Option<&'static str> {
        None
    }

    fn limit_client_memory(&self) {}

    fn report_slow_script(&self, _: std::time::Duration) {}

    fn log_damaged_payload(&self, _: &str) {}

    fn shut_down(&self, _: bool) {
        *self.asked_to_stop.lock() = true;
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn active_workers(&self) -> usize {
        self.process.workers
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn process(&self) -> &Process {
        &self.process
    }

    /// Fails for port 7, as if it were in use.
    fn listen(&self, wanted: &Addresses) -> Result<(), &'static str> {
        if wanted.port == 7 { Err("port") } else { Ok(()) }
    }

    fn max_clients(&self) -> u64 {
        20_000
    }

    fn flush_at(&self, at_ms: u64) {
        *self.flush_at_ms.lock() = Some(at_ms);
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(START_MS));
        let options =
            StoreOptions { clock: Clock::Manual(Arc::clone(&clock)), ..StoreOptions::default() };
        let store = Arc::new(Store::new(&options));
        let info = |id, resp: u32| {
            Arc::new(ClientInfo {
                id,
                address: format!("127.0.0.1:{}", 50_000 + id),
                local_address: "127.0.0.1:6379".to_owned(),
                descriptor: 7,
                connected_at_ms: START_MS,
                active_at_ms: START_MS.into(),
                resp: resp.into(),
                ..ClientInfo::default()
            })
        };
        let clients = vec![info(2, 0), info(1, 2)];
        let client = |index: usize| Client::new(Arc::clone(&clients[index]));
        let (client, memcached) = (client(1), client(0));
        let process = FakeServer::new(clients, 1);
        let counters = store.counters(0);
        let tally = process.statistics.worker(0);
        let replica = Replica::of(&store);
        let listener = crate::EventsListener::new(&process.hooks);
        assert!(store.report_events_to(Box::new(listener)));
        Bench { clock, process, client, memcached, store, counters, tally, replica }
    }

    /// The events since the last call, as `key:event` words, without the events of new keys.
    pub(crate) fn take_events(&self) -> String {
        let mut words = Vec::new();
        for change in self.replica.take() {
            self.replica.store.apply(&self.replica.counters, &change);
            for key in &change.keys {
                let name = String::from_utf8_lossy(&key.key);
                let events = key.events.iter().filter(|event| **event != Event::New);
                words.extend(events.map(|event| format!("{name}:{}", event.name())));
            }
        }
        words.join(" ")
    }

    /// Advances the clock.
    pub(crate) fn advance_ms(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    /// The replies to RESP requests, which may be inline commands.
    pub(crate) fn resp(&mut self, request: &[u8]) -> Vec<u8> {
        let limits = resp::Limits { bulk_bytes: 512 << 20, authenticated: true };
        let mut input = request.to_vec();
        let mut at = 0;
        let mut out = Output::default();
        while at < input.len() {
            let mut spans = Vec::new();
            let parsed = resp::Parser::default().parse(&mut input[at..], &limits, &mut spans);
            let consumed = parsed.expect("a request").expect("a whole request");
            self.resp_request(Args::new(&input[at..at + consumed], &spans), &mut out);
            at += consumed;
        }
        collect(&out)
    }

    fn resp_request(&mut self, args: Args<'_>, out: &mut Output) {
        let mut suspension: Option<crate::Suspension> = None;
        loop {
            let mut cx = Context {
                db: self.store.database(self.client.database, &self.counters, self.store.now_ms()),
                reply: resp::Writer::new(out, self.client.version),
                client: &mut self.client,
                server: &self.process,
                hooks: &self.process.hooks,
                tally: &self.tally,
                args,
                prefetched: None,
                suspension: None,
            };
            match suspension.take() {
                Some(suspension) => {
                    assert_ne!(suspension.when, When::Woken, "nothing calls the waker");
                    // The housekeeper's clock is ahead of the worker's.
                    if suspension.when == When::Served {
                        self.process.hooks.call_due(u64::MAX - 1);
                    }
                    go_on(&mut cx, suspension);
                }
                None => dispatch::execute(&mut cx, args),
            }
            suspension = cx.suspension;
            if suspension.is_none() {
                break;
            }
        }
    }

    /// The replies to inline requests that all run at one moment: with the latches of `keys` held,
    /// which must include all their keys.
    pub(crate) fn at_one_moment(&mut self, keys: &[&str], requests: &[&str]) -> String {
        let db = self.store.database(0, &self.counters, self.store.now_ms());
        let keys: Vec<_> = keys.iter().map(|key| db.key(key.as_bytes())).collect();
        let hold = db.hold(&keys);
        let limits = resp::Limits { bulk_bytes: 512 << 20, authenticated: true };
        let mut out = Output::default();
        for request in requests {
            let (mut input, mut spans) = (format!("{request}\r\n").into_bytes(), Vec::new());
            let parsed = resp::Parser::default().parse(&mut input, &limits, &mut spans);
            assert!(parsed.expect("a request").is_some());
            let args = Args::new(&input, &spans);
            let mut cx = Context {
                db: db.within(&hold).sibling(self.client.database),
                reply: resp::Writer::new(&mut out, self.client.version),
                client: &mut self.client,
                server: &self.process,
                hooks: &self.process.hooks,
                tally: &self.tally,
                args,
                prefetched: None,
                suspension: None,
            };
            dispatch::execute(&mut cx, args);
            assert!(cx.suspension.is_none(), "{request} is not over");
        }
        drop(hold);
        collect(&out)
            .split(|byte| *byte == b'\r')
            .map(|line| String::from_utf8_lossy(line.strip_prefix(b"\n").unwrap_or(line)))
            .collect::<Vec<_>>()
            .join("|")
    }

    /// The replies to requests in memcached's protocol.
    pub(crate) fn memcached(&mut self, request: &[u8]) -> Vec<u8> {
        let limits = nagi_proto::memcached::Limits { item_bytes: 1 << 20, login_only: false };
        let mut parser = nagi_proto::memcached::Parser::default();
        let mut at = 0;
        let mut out = Output::default();
        while at < request.len() {
            let mut spans = Vec::new();
            match parser.parse(&request[at..], &limits, &mut spans) {
                Parsed::Incomplete => panic!("an incomplete request"),
                Parsed::Reject { consumed, reply, .. } => {
                    at += consumed;
                    nagi_proto::memcached::Writer::new(&mut out, reply.is_empty()).line(reply);
                }
                Parsed::Request { consumed, quiet } => {
                    let args = Args::new(&request[at..at + consumed], &spans);
                    at += consumed;
                    let mut cx = memcached::Context {
                        db: self.store.database(0, &self.counters, self.store.now_ms()),
                        client: &mut self.memcached,
                        server: &self.process,
                        hooks: &self.process.hooks,
                        tally: &self.tally,
                        reply: nagi_proto::memcached::Writer::new(&mut out, quiet),
                        args,
                        prefetched: None,
                        suspension: None,
                    };
                    memcached::execute(&mut cx, args);
                    while let Some(suspension) = cx.suspension.take() {
                        go_on(&mut cx, suspension);
                    }
                }
            }
        }
        collect(&out)
    }

    /// The reply to a request of these words.
    pub(crate) fn call(&mut self, words: &[&str]) -> String {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*{}\r\n{}", words.len(), words.collect::<String>());
        show(&self.resp(request.as_bytes()))
    }

    /// Checks one request line against its reply, in which `|` is a line break.
    pub(crate) fn expect(&mut self, request: &str, reply: &str) {
        let answer = self.resp(format!("{request}\r\n").as_bytes());
        assert_eq!(show(&answer), reply, "{request}");
    }

    /// Checks memcached requests against their replies, in both of which `|` is a line break.
    pub(crate) fn expect_memcached(&mut self, request: &str, reply: &str) {
        let answer = self.memcached(format!("{request}|").replace('|', "\r\n").as_bytes());
        assert_eq!(show(&answer), reply, "{request}");
    }
}

/// Checks a conversation: a line holds a request, `=>` and the reply, in which `|` stands for a
/// line break and that may go on after `...` on the next line. `@ms` moves the clock; a request
/// after `M:` is memcached's.
pub(crate) fn converse(script: &str) {
    let mut bench = Bench::new();
    let lines: Vec<_> = script.lines().map(str::trim).collect();
    for line in lines.join("\n").replace("\n...", "").lines().filter(|line| !line.is_empty()) {
        if let Some(ms) = line.strip_prefix('@') {
            bench.advance_ms(ms.parse().unwrap());
            continue;
        }
        let (request, reply) = line.split_once(" => ").unwrap_or_else(|| panic!("{line}"));
        match request.strip_prefix("M:") {
            Some(request) => bench.expect_memcached(request.trim(), reply),
            None => bench.expect(request, reply),
        }
    }
}

pub(crate) fn collect(out: &Output) -> Vec<u8> {
    out.slices().flatten().copied().collect()
}

/// A reply with `|` in place of line breaks.
pub(crate) fn show(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", "|")
}
