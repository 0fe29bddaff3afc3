//! Clients keep copies of what they read, as client libraries do, while other clients change the
//! data. No copy may stay outdated, and a read after an invalidation must see the change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use harness::{Connection, Random, Reply, Server, encode_command, size, words};
use parking_lot::Mutex;

const KEYS: usize = 20;
/// Maximum number of requests that a reader sends at once.
const PIPELINE: u64 = 6;
const CHANNEL: &str = "__redis__:invalidate";

/// How a reader is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Default,
    OptIn,
    Broadcast,
    /// By messages on another connection, with RESP2.
    Redirect,
}

const MODES: [Mode; 4] = [Mode::Default, Mode::OptIn, Mode::Broadcast, Mode::Redirect];

/// A reader's copies.
#[derive(Debug, Default)]
struct Cache {
    /// The copied values. In mode `Redirect`, `None` means that a request for the key is in flight.
    copies: BTreeMap<String, Option<i64>>,
    invalidations: usize,
}

impl Cache {
    fn invalidate(&mut self, keys: &Reply) {
        for key in keys.list() {
            self.copies.remove(&key.text());
            self.invalidations += 1;
        }
    }
}

struct Reader {
    mode: Mode,
    connection: Connection,
    cache: Arc<Mutex<Cache>>,
    /// A thread that reads invalidations until that of the mark arrives.
    listener: Option<JoinHandle<()>>,
    /// A key that only this reader uses.
    mark: String,
}

impl Reader {
    fn connect(server: &Server, mode: Mode, number: usize) -> Self {
        let mut connection = server.connect_resp();
        let (cache, mark) = (Arc::new(Mutex::new(Cache::default())), format!("mark:{number}"));
        let mut reader_listener = None;
        let options = match mode {
            Mode::Default => String::new(),
            Mode::OptIn => "OPTIN".to_owned(),
            Mode::Broadcast => "BCAST".to_owned(),
            Mode::Redirect => {
                let mut listener = server.connect_resp();
                let id = listener.run("CLIENT ID").integer();
                listener.run(&format!("SUBSCRIBE {CHANNEL}"));
                let (cache, mark) = (Arc::clone(&cache), mark.clone());
                reader_listener = Some(thread::spawn(move || listen(listener, &cache, &mark)));
                format!("REDIRECT {id}")
            }
        };
        if mode != Mode::Redirect {
            assert!(matches!(connection.run("HELLO 3"), Reply::Map(_)));
        }
        connection.check(&format!("CLIENT TRACKING ON {options}"), "+OK\r\n");
        Reader { mode, connection, cache, listener: reader_listener, mark }
    }

    /// Returns the next reply, after applying the invalidations before it.
    fn reply(&mut self) -> Reply {
        loop {
            match self.connection.reply() {
                Reply::Push(push) => self.cache.lock().invalidate(&push[1]),
                reply => return reply,
            }
        }
    }

    /// Reads keys with requests that are sent at once. Each value must be at least the given one.
    fn read(&mut self, keys: &[(String, i64)]) {
        let mut requests = Vec::new();
        for (key, _) in keys {
            match self.mode {
                Mode::OptIn => requests.extend(encode_command(&words("CLIENT CACHING YES"))),
                // An invalidation may arrive before the reply, and then makes the reply outdated.
                Mode::Redirect => {
                    self.cache.lock().copies.insert(key.clone(), None);
                }
                Mode::Default | Mode::Broadcast => {}
            }
            requests.extend(encode_command(&["GET", key]));
        }
        self.connection.send(requests);
        for (key, least) in keys {
            if self.mode == Mode::OptIn {
                assert_eq!(self.reply(), Reply::Simple("OK".to_owned()));
            }
            let value = match self.reply() {
                Reply::Null => 0,
                value => value.text().parse().expect("a number"),
            };
            let (mode, mut cache) = (self.mode, self.cache.lock());
            assert!(value >= *least, "{mode:?}: {key} was {least} before, and is {value}");
            match mode {
                Mode::Redirect => {
                    cache.copies.entry(key.clone()).and_modify(|copy| *copy = Some(value));
                }
                _ => {
                    cache.copies.insert(key.clone(), Some(value));
                }
            }
        }
    }

    fn read_one(&mut self, key: &str, least: i64) {
        self.read(&[(key.to_owned(), least)]);
    }

    fn copy(&self, key: &str) -> Option<i64> {
        self.cache.lock().copies.get(key).copied().flatten()
    }

    /// Waits until the invalidations of all earlier changes have arrived.
    fn settle(&mut self, other: &mut Connection) {
        let mark = self.mark.clone();
        self.read_one(&mark, 0);
        other.check(&format!("INCR {mark}"), ":1\r\n");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("it listens");
            return;
        }
        loop {
            let Reply::Push(push) = self.connection.reply() else { panic!("a push") };
            self.cache.lock().invalidate(&push[1]);
            if push[1].list().iter().any(|key| key.text() == mark) {
                return;
            }
        }
    }
}

/// Applies the invalidations that another connection receives, until that of `mark`.
fn listen(mut listener: Connection, cache: &Mutex<Cache>, mark: &str) {
    loop {
        let message = listener.reply();
        let keys = &message.list()[2];
        cache.lock().invalidate(keys);
        if keys.list().iter().any(|key| key.text() == mark) {
            return;
        }
    }
}

/// What is known about the keys, whose values only increase.
struct World {
    /// The highest value of each key that a writer has received.
    values: [AtomicI64; KEYS],
    writers: AtomicUsize,
}

/// Counts a writer until it ends or panics.
struct Writing<'a>(&'a World);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl World {
    /// Increments keys in a way that differs between writers, and records the resulting values.
    fn write(&self, server: &Server, number: usize, mut random: Random) {
        let _writing = Writing(self);
        let mut writer = server.connect_resp();
        let mut memcached = server.connect_memcached();
        for _ in 0..size(2_000, 40_000) {
            let key = random.below(KEYS as u64) as usize;
            let name = format!("k:{key}");
            let value = match number {
                0 => writer.run(&format!("INCR {name}")).integer(),
                1 => {
                    let script = "return redis.call('INCR', ARGV[1])";
                    writer.run_words(&["EVAL", script, "0", &name]).integer()
                }
                2 => {
                    for word in ["MULTI".to_owned(), format!("INCR {name}"), format!("INCR {name}")]
                    {
                        writer.run(&word);
                    }
                    writer.run("EXEC").list()[1].integer()
                }
                _ => {
                    memcached.send(format!("incr {name} 1\r\n"));
                    memcached.line().parse().expect("a number")
                }
            };
            self.values[key].fetch_max(value, Ordering::SeqCst);
        }
    }

    fn least(&self, key: usize) -> (String, i64) {
        (format!("k:{key}"), self.values[key].load(Ordering::SeqCst))
    }

    /// Reads while other clients write, and finally compares all copies with the values.
    fn read(&self, server: &Server, (mode, number): (Mode, usize), mut random: Random) {
        let mut reader = Reader::connect(server, mode, number);
        let mut other = server.connect_resp();
        let mut unused = 0;
        while self.writers.load(Ordering::SeqCst) > 0 {
            let first = random.below(KEYS as u64) as usize;
            let mut keys = Vec::new();
            for key in (first..KEYS).take(1 + random.below(PIPELINE) as usize) {
                // Mostly, a copy is used instead of a request.
                if reader.copy(&format!("k:{key}")).is_none() || random.below(4) == 0 {
                    keys.push(self.least(key));
                } else {
                    unused += 1;
                }
            }
            match keys.is_empty() {
                // Invalidations are received together with replies.
                true => reader.connection.send(encode_command(&["PING"])),
                false => reader.read(&keys),
            }
            if keys.is_empty() {
                assert_eq!(reader.reply(), Reply::Simple("PONG".to_owned()));
            }
        }
        for key in 0..KEYS {
            if reader.copy(&format!("k:{key}")).is_none() {
                reader.read(&[self.least(key)]);
            }
        }
        reader.settle(&mut other);
        let cache = reader.cache.lock();
        assert!(cache.invalidations > KEYS && unused > 0, "{mode:?}: {cache:?}");
        let copies = cache.copies.iter().filter(|(key, _)| key.starts_with("k:"));
        let mut compared = 0;
        for (key, copy) in copies {
            let value = other.run(&format!("GET {key}")).text().parse().ok();
            assert_eq!(*copy, value, "{mode:?}: the copy of {key} is outdated");
            compared += 1;
        }
        assert!(compared > 0, "{mode:?}: no copy is left");
    }
}

/// The changes are made by INCR, scripts, transactions and memcached's requests, on four workers.
#[test]
fn no_copy_stays_outdated_however_a_client_is_told() {
    const WRITERS: usize = 4;
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut random = Random::announced();
    let world = World { values: Default::default(), writers: AtomicUsize::new(WRITERS) };
    let mut client = server.connect_resp();
    (0..KEYS).for_each(|key| client.check(&format!("SET k:{key} 0"), "+OK\r\n"));
    thread::scope(|scope| {
        for number in 0..WRITERS {
            let (server, world, random) = (&server, &world, random.fork());
            scope.spawn(move || world.write(server, number, random));
        }
        for number in 0..2 * MODES.len() {
            let (server, world, random) = (&server, &world, random.fork());
            scope.spawn(move || world.read(server, (MODES[number % MODES.len()], number), random));
        }
    });
}

/// The read may use any connection, and the writer may not have its reply yet.
#[test]
fn a_read_after_an_invalidation_sees_the_change() {
    let server = Server::nagi_with(&["--workers", "4"]);
    for (number, mode) in MODES.into_iter().enumerate() {
        // Several connections of each kind, on different workers.
        for _ in 0..4 {
            let (mut writer, mut other) = (server.connect_resp(), server.connect_resp());
            let mut reader = server.connect_resp();
            let mut listener = server.connect_resp();
            let options = match mode {
                Mode::Default => String::new(),
                Mode::OptIn => "OPTIN".to_owned(),
                Mode::Broadcast => format!("BCAST PREFIX key:{number}"),
                Mode::Redirect => {
                    let id = listener.run("CLIENT ID").integer();
                    listener.run(&format!("SUBSCRIBE {CHANNEL}"));
                    format!("REDIRECT {id}")
                }
            };
            if mode != Mode::Redirect {
                assert!(matches!(reader.run("HELLO 3"), Reply::Map(_)));
            }
            reader.check(&format!("CLIENT TRACKING ON {options}"), "+OK\r\n");
            let key = format!("key:{number}");
            for _ in 0..size(250, 5_000) {
                if mode == Mode::OptIn {
                    reader.check("CLIENT CACHING YES", "+OK\r\n");
                }
                let before = number_in(&reader.run(&format!("GET {key}")));
                writer.send(encode_command(&["INCR", &key]));
                let told = match mode {
                    Mode::Redirect => listener.reply().list()[2].clone(),
                    _ => reader.reply().list()[1].clone(),
                };
                assert_eq!(told, Reply::Array(vec![Reply::Bulk(key.clone().into())]), "{mode:?}");
                for connection in [&mut other, &mut reader] {
                    let value = number_in(&connection.run(&format!("GET {key}")));
                    assert_eq!(value, before + 1, "{mode:?}");
                }
                assert_eq!(writer.reply(), Reply::Integer(before + 1));
            }
        }
    }
}

fn number_in(reply: &Reply) -> i64 {
    match reply {
        Reply::Null => 0,
        other => other.text().parse().expect("a number"),
    }
}
