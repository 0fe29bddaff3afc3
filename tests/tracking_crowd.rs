//! A crowd of clients that track keys: each must be notified once of each change that concerns it.

use crate::crowd::until_memory_is_free;
use harness::{Connection, Random, Reply, Server, allow_open_files, encode_command, size, until};

const KEYS: usize = 10;
/// Bytes that a worker may keep for the next client after a client has disconnected.
const KEPT_BYTES: u64 = 100;

/// How a client tracks keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Default,
    Broadcast,
    OptIn,
}

const MODES: [(Mode, &str); 3] =
    [(Mode::Default, ""), (Mode::Broadcast, "BCAST PREFIX k:"), (Mode::OptIn, "OPTIN")];

/// A client of the crowd.
struct Tracker {
    connection: Connection,
    mode: Mode,
    /// The key that the client has read and may keep.
    key: String,
}

impl Tracker {
    fn send(&mut self, command: &str) {
        self.connection.send(encode_command(&harness::words(command)));
    }

    /// Requests `key` for caching. A client that has to opt in also requests another key, which it
    /// may not cache.
    fn send_reads(&mut self) {
        if self.mode == Mode::OptIn {
            self.send("GET k:0");
            self.send("CLIENT CACHING YES");
        }
        self.send(&format!("GET {}", self.key));
    }

    fn receive_reads(&mut self) {
        let replies = if self.mode == Mode::OptIn { 3 } else { 1 };
        for _ in 0..replies {
            let reply = self.connection.reply();
            assert!(!matches!(reply, Reply::Push(_) | Reply::Error(_)), "{reply:?}");
        }
    }

    /// Receives invalidations of `count` keys. Returns the keys, sorted.
    fn invalidated(&mut self, count: usize) -> Vec<String> {
        let mut keys = Vec::new();
        while keys.len() < count {
            let Reply::Push(push) = self.connection.reply() else { panic!("a push") };
            assert_eq!(push[0].text(), "invalidate");
            keys.extend(push[1].list().iter().map(Reply::text));
        }
        keys.sort_unstable();
        keys
    }
}

/// Connects the crowd, with the same number of clients in each mode.
fn crowd(server: &Server, count: usize) -> Vec<Tracker> {
    let mut crowd: Vec<Tracker> = (0..count)
        .map(|number| {
            let (mode, options) = MODES[number % MODES.len()];
            let key = format!("k:{}", number / MODES.len() % KEYS);
            let mut tracker = Tracker { connection: server.connect_resp(), mode, key };
            tracker.send("HELLO 3");
            tracker.send(&format!("CLIENT TRACKING ON {options}"));
            tracker
        })
        .collect();
    for tracker in &mut crowd {
        assert!(matches!(tracker.connection.reply(), Reply::Map(_)));
        tracker.connection.expect("+OK\r\n");
    }
    crowd
}

fn read(crowd: &mut [Tracker]) {
    crowd.iter_mut().for_each(Tracker::send_reads);
    crowd.iter_mut().for_each(Tracker::receive_reads);
}

#[test]
fn a_crowd_of_trackers_is_told_once_of_each_change() {
    let count = size(1_000, 10_000);
    allow_open_files(count as u64 + 2000);
    let server = Server::nagi_with(&["--workers", "2", "--maxclients", "11000"]);
    let mut random = Random::announced();
    let mut writers: Vec<Connection> = (0..4).map(|_| server.connect_resp()).collect();
    let bytes_alone = writers[0].info::<u64>("used_memory");
    let mut crowd = crowd(&server, count);
    let trackers = |mode| (0..count).filter(|it| MODES[it % MODES.len()].0 == mode).count();
    let reading = trackers(Mode::Default) + trackers(Mode::OptIn);
    for _ in 0..2 {
        read(&mut crowd);
        assert_eq!(writers[0].info::<u64>("tracking_clients"), count as u64);
        assert_eq!(writers[0].info::<u64>("tracking_total_items"), reading as u64);
        changed_twice(&mut writers, &mut random);
        told(&mut crowd);
    }
    gone(&mut writers[0], crowd, bytes_alone);
}

/// Changes each key twice: in random order, by any of the writers, and then again.
fn changed_twice(writers: &mut [Connection], random: &mut Random) {
    for _ in 0..2 {
        let mut left: Vec<usize> = (0..KEYS).collect();
        while !left.is_empty() {
            let key = left.swap_remove(random.below(left.len() as u64) as usize);
            let writer = random.below(writers.len() as u64) as usize;
            writers[writer].check(&format!("SET k:{key} {key}"), "+OK\r\n");
        }
    }
}

/// A client that has read a key must receive only its first change, and a client that tracks the
/// prefix must receive all changes. The next message must be the invalidation of another key, which
/// shows that no invalidation was repeated or late.
fn told(crowd: &mut [Tracker]) {
    let twice: Vec<String> =
        (0..KEYS).flat_map(|key| [(); 2].map(|()| format!("k:{key}"))).collect();
    for tracker in crowd.iter_mut() {
        let expected = match tracker.mode {
            Mode::Broadcast => twice.clone(),
            Mode::Default | Mode::OptIn => vec![tracker.key.clone()],
        };
        assert_eq!(tracker.invalidated(expected.len()), expected, "{:?}", tracker.mode);
    }
    for tracker in crowd.iter_mut() {
        if tracker.mode == Mode::OptIn {
            tracker.send("CLIENT CACHING YES");
        }
        tracker.send("GET k:mark");
    }
    for tracker in crowd.iter_mut() {
        if tracker.mode == Mode::OptIn {
            tracker.connection.expect("+OK\r\n");
        }
        let reply = tracker.connection.reply();
        assert!(matches!(reply, Reply::Null), "{:?}: {reply:?}", tracker.mode);
    }
    let Some(first) = crowd.first_mut() else { return };
    // The client's own invalidation follows the replies.
    first.send("SET k:mark 1");
    first.connection.expect("+OK\r\n");
    crowd.iter_mut().for_each(|tracker| assert_eq!(tracker.invalidated(1), ["k:mark"]));
    let Some(first) = crowd.first_mut() else { return };
    first.send("DEL k:mark");
    first.connection.expect(":1\r\n");
    let broadcast = crowd.iter_mut().filter(|tracker| tracker.mode == Mode::Broadcast);
    broadcast.for_each(|tracker| assert_eq!(tracker.invalidated(1), ["k:mark"]));
}

/// The clients disconnect while keys are tracked; none of their memory may remain.
fn gone(client: &mut Connection, mut crowd: Vec<Tracker>, bytes_alone: u64) {
    read(&mut crowd);
    assert_eq!(client.info::<u64>("tracking_total_keys"), KEYS as u64);
    let count = crowd.len() as u64;
    drop(crowd);
    for field in ["clients", "total_keys", "total_items", "total_prefixes"] {
        let field = format!("tracking_{field}");
        let is_none = || (client.info::<u64>(&field) == 0).then_some(());
        until(&format!("{field} to be 0"), is_none).unwrap();
    }
    until_memory_is_free(client, bytes_alone, count * KEPT_BYTES);
}
