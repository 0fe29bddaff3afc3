//! Workers without sockets.

use super::*;
use crate::net::listener::Listeners;
use crate::state::shared::ServerOptions;
use nagi_store::types::string::SetOptions;
use std::io;
use std::os::unix::net::UnixStream;

/// A driver for one connection, whose every event the test makes up.
struct Script {
    sent: Vec<u8>,
    /// What is said to be unsent.
    unsent: usize,
    wanted: bool,
    closed: bool,
}

impl Driver for Script {
    fn turn(&mut self, _: Option<Duration>, _: &mut impl Sink<Self>) -> io::Result<usize> {
        Ok(0)
    }

    fn adopt(&mut self, _: OwnedFd, _: Peer) -> io::Result<Token> {
        Ok(TOKEN)
    }

    fn send(&mut self, _: Token, output: &mut Output) {
        self.sent.extend(output.slices().flatten());
        output.clear(0);
    }

    fn flush(&mut self) {}

    fn unsent_bytes(&self, _: Token) -> usize {
        self.unsent
    }

    fn kept_bytes(&self, _: Token) -> usize {
        self.unsent
    }

    fn is_unreachable(&mut self, _: Token, _: Duration) -> bool {
        false
    }

    fn receive(&mut self, _: Token, wanted: Wanted) {
        self.wanted = wanted != Wanted::Nothing;
    }

    fn close(&mut self, _: Token) {
        self.closed = true;
    }

    fn abort(&mut self, _: Token) {
        self.closed = true;
    }

    fn listen_to(&mut self, _: &Listeners) -> io::Result<()> {
        Ok(())
    }

    fn stop_listening(&mut self) {}

    fn connections(&self) -> usize {
        usize::from(!self.closed)
    }
}

const TOKEN: Token = Token { index: 0, generation: 1 };

/// A worker with one connection.
fn connected() -> (Sessions, Script) {
    let shared = Shared::new(ServerOptions::default(), Vec::new()).unwrap();
    let mut sessions = Sessions::new(0, Arc::new(shared));
    let mut driver = Script { sent: Vec::new(), unsent: 0, wanted: true, closed: false };
    let (socket, _) = UnixStream::pair().unwrap();
    sessions.shared.registry.assign(0, 10).unwrap();
    let arrival =
        NewConnection { socket: socket.into(), protocol: Protocol::Resp, is_reserved: false };
    sessions.take_connection(&mut driver, arrival);
    (sessions, driver)
}

/// More than a slice has room for.
fn pings(count: usize) -> Vec<u8> {
    b"*1\r\n$4\r\nPING\r\n".repeat(count)
}

#[test]
fn a_client_that_ends_with_work_left_gets_its_replies_first() {
    let (mut sessions, mut driver) = connected();
    sessions.received(&mut driver, TOKEN, &mut pings(3000));
    assert!(!driver.wanted, "nothing is received while there is work left");
    sessions.ended(&mut driver, TOKEN);
    assert!(!driver.closed);
    while sessions.tick(&mut driver, None).unwrap() > 0 {}
    assert_eq!(driver.sent, b"+PONG\r\n".repeat(3000));
    assert!(driver.closed);
    assert_eq!(sessions.shared.registry.connections(), 0);
    assert!(sessions.shared.registry.clients().is_empty());
}

#[test]
fn a_client_that_does_not_read_is_not_served_until_it_has() {
    let (mut sessions, mut driver) = connected();
    driver.unsent = sessions.shared.unsent_limit + 1;
    sessions.received(&mut driver, TOKEN, &mut pings(3000));
    assert!(!driver.wanted);
    assert_eq!(sessions.tick(&mut driver, None).unwrap(), 0, "it has no turn");
    let served = driver.sent.len();
    driver.unsent = 0;
    sessions.drained(&mut driver, TOKEN);
    assert!(driver.sent.len() > served);
    while sessions.tick(&mut driver, None).unwrap() > 0 {}
    assert_eq!(driver.sent, b"+PONG\r\n".repeat(3000));
    assert!(driver.wanted);
}

#[test]
fn keys_are_not_removed_by_expiry_in_a_pause() {
    let (mut sessions, mut driver) = connected();
    let mut ask = |sessions: &mut Sessions, request: &str| {
        driver.sent.clear();
        sessions.ticks += 1;
        sessions.received(&mut driver, TOKEN, &mut format!("{request}\r\n").into_bytes());
        String::from_utf8_lossy(&driver.sent).into_owned()
    };
    // So many that this worker looks after some of them, wherever they are.
    for key in 0..64 {
        ask(&mut sessions, &format!("SET key:{key} value PX 1000"));
    }
    assert_eq!(ask(&mut sessions, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    let set_at_ms = sessions.shared.store.now_ms();
    while sessions.shared.store.now_ms() <= set_at_ms + 1000 {}
    sessions.look_for_expired();
    assert_eq!(ask(&mut sessions, "DBSIZE"), ":64\r\n");
    ask(&mut sessions, "CLIENT UNPAUSE");
    sessions.look_for_expired();
    assert_ne!(ask(&mut sessions, "DBSIZE"), ":64\r\n");
}

#[test]
fn a_lost_connection_leaves_nothing_behind() {
    let (mut sessions, mut driver) = connected();
    sessions.received(&mut driver, TOKEN, &mut pings(3000));
    sessions.lost(&mut driver, TOKEN, Errno::CONNRESET);
    assert_eq!(sessions.shared.registry.connections(), 0);
    let served = driver.sent.len();
    while sessions.tick(&mut driver, None).unwrap() > 0 {}
    assert_eq!(driver.sent.len(), served);
}

#[test]
fn a_walk_pauses_for_most_of_the_time() {
    let (mut sessions, _) = connected();
    let shared = Arc::clone(&sessions.shared);
    let db = shared.store.database(0, &sessions.counters, 1);
    for key in 0..10_000 {
        db.set(db.key(format!("key:{key}").as_bytes()), &[b'x'; 500], SetOptions::default());
    }
    let snapshot = shared.store.cut(usize::MAX, Waker::noop()).unwrap();
    sessions.walks = true;
    for (percent, pauses) in [(100, 2), (75, 2), (25, 3), (10, 9)] {
        shared.config().save_cpu_limit.set(percent);
        sessions.walked = None;
        let pause = sessions.walk().unwrap();
        assert!(pause >= WALK_SLICE * pauses, "{pause:?} at {percent}");
        assert!(sessions.walk().unwrap() <= pause, "it goes on waiting");
    }
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    sessions.walked = Some((now, second));
    assert_eq!(sessions.left_of_pause(now), throttle::LONGEST_WAIT, "then it looks again");
    let later = now + second * WALK_PAUSES;
    assert!(!sessions.left_of_pause(later).is_zero());
    shared.config().save_cpu_limit.set(100);
    assert!(sessions.left_of_pause(later).is_zero(), "it may take more now");
    shared.config().save_cpu_limit.set(10);
    shared.saves().cancel();
    assert!(sessions.left_of_pause(later).is_zero(), "a save that is given up ends at once");
    sessions.end_walk();
    drop(snapshot);
}
