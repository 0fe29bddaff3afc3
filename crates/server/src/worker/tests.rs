//! Workers without sockets.

use super::*;
use crate::net::driver::Release;
use crate::net::listener::Listeners;
use crate::net::pipes::Pipes;
use crate::state::shared::ServerOptions;
use nagi_store::types::string::SetOptions;
use nagi_store::{ClaimProgress, Intent};
use std::io;
use std::os::unix::net::UnixStream;
use std::task::Waker;

/// A driver whose events the test scripts.
struct Script {
    /// Connections adopted so far.
    adopted: u32,
    sent: Vec<u8>,
    /// The sends: the index of the connection and the number of bytes.
    sends: Vec<(u32, usize)>,
    /// The reported number of unsent bytes.
    unsent: usize,
    wanted: bool,
    closed: bool,
    pipes: Pipes,
}

impl Driver for Script {
    fn turn(&mut self, _: Option<Duration>, _: &mut impl Sink<Self>) -> io::Result<usize> {
        Ok(0)
    }

    fn adopt(&mut self, _: OwnedFd, _: Peer) -> io::Result<Token> {
        self.adopted += 1;
        Ok(Token { index: self.adopted - 1, ..TOKEN })
    }

    fn pipes(&self) -> &Pipes {
        &self.pipes
    }

    fn pipes_mut(&mut self) -> &mut Pipes {
        &mut self.pipes
    }

    fn send_on_socket(&mut self, token: Token, output: &mut Output) {
        self.sends.push((token.index, output.len()));
        self.sent.extend(output.slices().flatten());
        output.clear(0);
    }

    fn flush(&mut self) {}

    fn unsent_on_socket(&self, _: Token) -> usize {
        self.unsent
    }

    fn unacknowledged_by_socket(&self, _: Token) -> usize {
        0
    }

    fn kept_for_socket(&self, _: Token) -> usize {
        self.unsent
    }

    fn is_unreachable(&mut self, _: Token, _: Duration) -> bool {
        false
    }

    fn receive_from_socket(&mut self, _: Token, wanted: Wanted) {
        self.wanted = wanted != Wanted::Nothing;
    }

    fn close_socket(&mut self, _: Token) {
        self.closed = true;
    }

    fn abort_socket(&mut self, _: Token) {
        self.closed = true;
    }

    fn release_socket(&mut self, _: Token) -> Release {
        Release::Refused
    }

    fn retain_socket(&mut self, _: Token) {}

    fn listen_to(&mut self, _: &Listeners) -> io::Result<()> {
        Ok(())
    }

    fn stop_listening(&mut self) {}

    fn sockets(&self) -> usize {
        usize::from(!self.closed)
    }
}

const TOKEN: Token = Token { index: 0, generation: 1 };

/// A worker with one connection.
fn connected() -> (Sessions, Script) {
    connected_with(Protocol::Resp)
}

/// The same, of a client that speaks this protocol.
fn connected_with(protocol: Protocol) -> (Sessions, Script) {
    let commands = nagi_commands::command_table();
    let shared = Shared::new(ServerOptions::default(), Vec::new(), commands).unwrap();
    let handovers = Arc::new(Handovers::new(shared.process().workers));
    let mut sessions = Sessions::new(0, Arc::new(shared), handovers);
    let (sent, sends) = (Vec::new(), Vec::new());
    let pipes = Pipes::default();
    let mut driver =
        Script { adopted: 0, sent, sends, unsent: 0, wanted: true, closed: false, pipes };
    connect(&mut sessions, &mut driver, protocol);
    (sessions, driver)
}

/// Adds a connection.
fn connect(sessions: &mut Sessions, driver: &mut Script, protocol: Protocol) {
    let (socket, _) = UnixStream::pair().unwrap();
    sessions.shared.registry.assign(0, 10).unwrap();
    let link = Link::Socket(socket.into());
    let arrival = NewConnection { link, protocol, is_reserved: false, gateway: None };
    sessions.take_connection(driver, arrival);
}

/// Stores `count` keys with values of `len` bytes.
fn store_keys(sessions: &Sessions, count: usize, len: usize) {
    let db = sessions.shared.store.database(0, &sessions.counters, 1);
    for key in 0..count {
        db.set(db.key(format!("key:{key}").as_bytes()), &vec![b'x'; len], SetOptions::default());
    }
}

/// Bytes to send.
fn output(bytes: &[u8]) -> Output {
    let mut output = Output::default();
    output.push(bytes);
    output
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
    // Enough keys that this worker expires some of them, whatever their shards.
    for key in 0..64 {
        ask(&mut sessions, &format!("SET key:{key} value PX 1000"));
    }
    assert_eq!(ask(&mut sessions, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    let set_at_ms = sessions.shared.store.now_ms();
    while sessions.shared.store.now_ms() <= set_at_ms + 1000 {}
    sessions.expire_keys();
    assert_eq!(ask(&mut sessions, "DBSIZE"), ":64\r\n");
    ask(&mut sessions, "CLIENT UNPAUSE");
    sessions.expire_keys();
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
    store_keys(&sessions, 10_000, 500);
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
    shared.saves().progress.cancel.store(true, Ordering::Relaxed);
    assert!(sessions.left_of_pause(later).is_zero(), "a save that is given up ends at once");
    sessions.end_walk();
    drop(snapshot);
}

/// Keys whose names are a reply of several slices.
const DUMPED: usize = 60_000;

#[test]
fn messages_follow_the_reply_that_is_being_written() {
    let (mut sessions, mut driver) = connected_with(Protocol::Memcached);
    store_keys(&sessions, DUMPED, 5);
    sessions.received(&mut driver, TOKEN, &mut b"lru_crawler mgdump all\r\nmn\r\n".to_vec());
    sessions.send_unsolicited(&mut driver, TOKEN, output(b"first\n"));
    sessions.tick(&mut driver, None).unwrap();
    sessions.send_unsolicited(&mut driver, TOKEN, output(b"second\n"));
    assert!(driver.sent.starts_with(b"OK\r\nmg key:") && !driver.sent.ends_with(b"EN\r\n"));
    while sessions.tick(&mut driver, None).unwrap() > 0 {}
    sessions.send_unsolicited(&mut driver, TOKEN, output(b"third\n"));
    let sent = String::from_utf8(driver.sent).unwrap();
    let lines: Vec<&str> = sent.lines().collect();
    assert_eq!(lines.len(), 1 + DUMPED + 5);
    assert!(lines[1..=DUMPED].iter().all(|line| line.starts_with("mg key:")));
    assert_eq!(lines[DUMPED + 1..], ["EN", "first", "second", "MN", "third"]);
}

#[test]
fn messages_held_until_a_reply_is_over_are_bounded() {
    let (mut sessions, mut driver) = connected_with(Protocol::Memcached);
    store_keys(&sessions, DUMPED, 5);
    sessions.received(&mut driver, TOKEN, &mut b"lru_crawler mgdump all\r\n".to_vec());
    let lines = vec![b'x'; sessions.shared.unsent_limit / 4];
    for _ in 0..4 {
        sessions.send_unsolicited(&mut driver, TOKEN, output(&lines));
        assert!(!driver.closed);
    }
    sessions.send_unsolicited(&mut driver, TOKEN, output(&lines));
    assert!(driver.closed);
}

#[test]
fn unread_messages_are_not_counted_as_replies() {
    let (mut sessions, mut driver) = connected();
    Sink::<Script>::wait_ended(&mut sessions);
    driver.unsent = 1000;
    sessions.send_unsolicited(&mut driver, TOKEN, output(&[b'x'; 1000]));
    driver.unsent += 7;
    sessions.received(&mut driver, TOKEN, &mut pings(1));
    assert_eq!(sessions.slots.get_mut(TOKEN).unwrap().unsent.len(), 1);
    driver.unsent = 0;
    sessions.drained(&mut driver, TOKEN);
    assert_eq!(sessions.slots.get_mut(TOKEN).unwrap().unsent.len(), 0);
}

#[test]
fn each_connection_gets_one_slice_of_a_tick() {
    /// The length of a slice as ARCHITECTURE.md states it, and the batch that may exceed it.
    const SLICE_REQUESTS: usize = 1024;
    const SLICE_BYTES: usize = 64 << 10;
    const SLICE_REPLY_BYTES: usize = 256 << 10;
    const BATCH: usize = 32;
    let (mut sessions, mut driver) = connected();
    connect(&mut sessions, &mut driver, Protocol::Resp);
    connect(&mut sessions, &mut driver, Protocol::Resp);
    let value = "v".repeat(4000);
    let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4000\r\n{value}\r\n");
    let get = "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    let (ok, found) = ("+OK\r\n".len(), "$4000\r\n\r\n".len() + value.len());
    let requests =
        [pings(20_000), set.repeat(1000).into_bytes(), [&*set, &get.repeat(2000)].concat().into()];
    for (index, mut requests) in (0..).zip(requests) {
        sessions.received(&mut driver, Token { index, ..TOKEN }, &mut requests);
    }
    driver.sends.clear();
    let most = [
        (SLICE_REQUESTS + BATCH) * "+PONG\r\n".len(),
        (SLICE_BYTES / set.len() + BATCH) * ok,
        SLICE_REPLY_BYTES + BATCH * found,
    ];
    for tick in 0..15 {
        sessions.tick(&mut driver, None).unwrap();
        let mut sends = std::mem::take(&mut driver.sends);
        sends.sort_unstable();
        let indices: Vec<u32> = sends.iter().map(|(index, _)| *index).collect();
        assert_eq!(indices, [0, 1, 2], "one slice each in tick {tick}");
        let within = sends.iter().zip(most).all(|((_, sent), most)| (1..=most).contains(sent));
        assert!(within, "{sends:?} in tick {tick}, and at most {most:?}");
    }
}

/// A request that waits for the script thread, which these tests do not run.
const WAITING: &[u8] = b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n";

#[test]
fn replies_before_a_script_are_held_for_its_reply() {
    let (mut sessions, mut driver) = connected();
    sessions.received(&mut driver, TOKEN, &mut [&pings(1), WAITING].concat());
    assert_eq!(driver.sends, []);
    let slot = sessions.slots.get_mut(TOKEN).unwrap();
    assert_eq!(slot.state, SessionState::Pending(When::Woken));
    assert!(sessions.holding.longest_wait().is_some());
    // A second call without a reply keeps them.
    sessions.feed(&mut driver, TOKEN, &mut []);
    assert_eq!(driver.sends, []);
    sessions.send_all_held(&mut driver, Duration::ZERO);
    assert_eq!(driver.sent, b"+PONG\r\n");
    assert_eq!(sessions.holding.longest_wait(), None);
    sessions.send_all_held(&mut driver, Duration::ZERO);
    assert_eq!(driver.sends.len(), 1);
}

#[test]
fn messages_follow_held_replies() {
    let (mut sessions, mut driver) = connected();
    let shared = Arc::clone(&sessions.shared);
    let db = shared.store.database(0, &sessions.counters, 1);
    let mut claiming = shared.store.claiming();
    claiming.add(db.key(b"key"), Intent::Write);
    let claim = match db.take_claims(&mut claiming, Waker::noop(), || false) {
        ClaimProgress::Held(claim) => claim,
        progress => panic!("{progress:?}"),
    };
    let get = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    sessions.received(&mut driver, TOKEN, &mut [&pings(1), &get[..]].concat());
    assert_eq!(driver.sends, []);
    let mut message = Output::default();
    message.push(b"+message\r\n");
    sessions.send_unsolicited(&mut driver, TOKEN, message);
    assert_eq!(driver.sent, b"+PONG\r\n+message\r\n");
    drop(claim);
}

#[test]
fn long_replies_and_those_before_other_waits_are_not_held() {
    let (mut sessions, mut driver) = connected();
    sessions.received(&mut driver, TOKEN, &mut [&pings(1000), WAITING].concat());
    assert_eq!(driver.sent.len(), "+PONG\r\n".len() * 1000);
    let (mut sessions, mut driver) = connected();
    let blocked = b"*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$1\r\n0\r\n";
    sessions.received(&mut driver, TOKEN, &mut [&pings(1), &blocked[..]].concat());
    assert_eq!(driver.sent, b"+PONG\r\n");
}

#[test]
fn a_request_that_waits_is_dropped_some_seconds_after_its_client_has_ended() {
    let (mut sessions, mut driver) = connected();
    sessions.received(&mut driver, TOKEN, &mut WAITING.to_vec());
    sessions.ended(&mut driver, TOKEN);
    sessions.close_ended(&mut driver);
    assert!(sessions.slots.get_mut(TOKEN).is_some() && !driver.closed);
    let slot = sessions.slots.get_mut(TOKEN).unwrap();
    slot.ended_wait = slot.ended_wait.unwrap().checked_sub(Duration::from_secs(5));
    sessions.close_ended(&mut driver);
    assert!(sessions.slots.get_mut(TOKEN).is_none() && driver.closed);
}
