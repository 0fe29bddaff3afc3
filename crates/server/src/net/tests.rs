//! Tests of what both drivers guarantee, with sockets whose other end the test holds.

use crate::net::address::Peer;
use crate::net::deferred::PER_TURN;
use crate::net::driver::{Driver, Sink, Token, Wanted};
use crate::net::epoll::Epoll;
use crate::net::protocol::Protocol;
use crate::net::receive_buffer::ReceiveBuffer;
use crate::net::uring::{self, Uring};
use crate::net::waker::Waker;
use crate::session::large_arguments::LargeArguments;
use nagi_proto::{Awaited, Chunk, Output};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Echoes all bytes and records every event.
#[derive(Default)]
struct Echo {
    received: HashMap<u32, Vec<u8>>,
    drained: usize,
    ended: Vec<Token>,
    lost: Vec<Token>,
    woken: usize,
    /// Whether it pauses receiving after each receive.
    pauses: bool,
    large: Option<LargeArguments>,
}

impl<D: Driver> Sink<D> for Echo {
    fn wait_ended(&mut self) {}

    fn accepted(&mut self, _: &mut D, _: Protocol, _: OwnedFd) {}

    fn received(&mut self, driver: &mut D, token: Token, bytes: &mut [u8]) {
        if let Some(large) = &mut self.large {
            let taken = large.take(bytes);
            self.received.entry(token.index).or_default().extend_from_slice(&bytes[taken..]);
            return;
        }
        self.received.entry(token.index).or_default().extend_from_slice(bytes);
        let mut output = Output::default();
        output.push(bytes);
        driver.send(token, &mut output);
        assert!(output.is_empty(), "the driver takes all of it");
        if self.pauses {
            driver.receive(token, Wanted::Nothing);
        }
    }

    fn lend_buffer(&mut self, _: Token) -> Option<ReceiveBuffer> {
        self.large.as_mut()?.lend()
    }

    fn received_into(&mut self, driver: &mut D, token: Token, buffer: ReceiveBuffer) {
        let large = self.large.as_mut().unwrap();
        large.take_back(buffer);
        if large.complete() {
            let chunks = large.complete_parts().arguments[0].take();
            self.received.entry(token.index).or_default().extend(chunks.concat());
            self.large = None;
            driver.receive(token, Wanted::Bytes);
        }
    }

    fn drained(&mut self, _: &mut D, _: Token) {
        self.drained += 1;
    }

    fn ended(&mut self, driver: &mut D, token: Token) {
        self.ended.push(token);
        driver.close(token);
    }

    fn lost(&mut self, _: &mut D, token: Token, _: Errno) {
        self.lost.push(token);
    }

    fn woken(&mut self, _: &mut D) {
        self.woken += 1;
    }
}

/// Runs a test with every driver that works here.
macro_rules! with_both {
    ($($name:ident),* $(,)?) => {
        mod by_epoll {
            $(#[test]
            fn $name() {
                super::$name(&super::Waker::new().unwrap(), super::Epoll::new);
            })*
        }
        mod by_uring {
            $(#[test]
            fn $name() {
                if super::uring::check_kernel().is_ok() {
                    super::$name(&super::Waker::new().unwrap(), super::Uring::new);
                }
            })*
        }
    };
}

with_both!(
    pieces_of_any_length_are_echoed_in_order,
    bytes_of_many_clients_at_once_are_received_in_full,
    a_paused_connection_is_received_from_later,
    a_lent_buffer_is_filled_to_the_end_of_the_argument_only,
    a_connection_that_its_peer_breaks_is_reported_once,
    a_close_sends_what_is_left_first,
    each_wake_of_a_waker_is_reported_once,
    an_end_right_behind_bytes_is_reported,
    bytes_do_not_wait_for_the_ends_of_many_connections,
    connections_whose_ends_wait_for_their_turn_close_at_once,
);

type New<D> = fn(crate::net::listener::Listeners, &Waker) -> std::io::Result<D>;

fn driver<D>(waker: &Waker, new: New<D>) -> D {
    new(Vec::new().into(), waker).unwrap()
}

/// A connection to the driver, with the smallest buffers that the kernel allows.
fn connect<D: Driver>(driver: &mut D) -> (Token, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    theirs.set_nodelay(true).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(ours.as_fd(), 1).unwrap();
    let peer = Peer::Network(ours.peer_addr().unwrap());
    (driver.adopt(ours.into(), peer).unwrap(), theirs)
}

/// The same over a Unix socket.
fn connect_unix<D: Driver>(driver: &mut D) -> (Token, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (driver.adopt(ours.into(), Peer::FileSystem).unwrap(), theirs)
}

/// Runs turns until a condition holds.
fn turn_until<D: Driver>(
    driver: &mut D,
    echo: &mut Echo,
    mut done: impl FnMut(&mut D, &mut Echo) -> bool,
) {
    let started = Instant::now();
    while !done(driver, echo) {
        driver.turn(Some(Duration::ZERO), echo).unwrap();
        assert!(started.elapsed() < TIMEOUT, "timed out");
    }
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Writes and reads without blocking, at most `most` bytes at a time.
fn exchange(stream: &mut TcpStream, unsent: &mut &[u8], back: &mut Vec<u8>, most: usize) {
    let piece = unsent.len().min(most);
    if piece > 0 {
        match stream.write(&unsent[..piece]) {
            Ok(taken) => *unsent = &unsent[taken..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    let mut buffer = vec![0; most];
    match stream.read(&mut buffer) {
        Ok(len) => back.extend_from_slice(&buffer[..len]),
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
}

fn pieces_of_any_length_are_echoed_in_order<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    for most in (1..50).chain([99, 1000, 4096, 5000, 70_000, 300_000]) {
        let sent = numbered(most * 40);
        let (mut unsent, mut back) = (&sent[..], Vec::new());
        let (token, mut stream) = connect(&mut driver);
        turn_until(&mut driver, &mut echo, |_, _| {
            exchange(&mut stream, &mut unsent, &mut back, most);
            back.len() >= sent.len()
        });
        assert!(back == sent, "{most} at a time");
        assert_eq!(driver.unsent_bytes(token), 0);
        drop(stream);
        turn_until(&mut driver, &mut echo, |driver, _| driver.connections() == 0);
    }
    assert!(echo.lost.is_empty());
}

fn bytes_of_many_clients_at_once_are_received_in_full<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    // Far more than the provided buffers hold.
    let sent = numbered(100_000);
    let mut clients: Vec<_> = (0..100).map(|_| connect(&mut driver)).collect();
    let mut progress: Vec<_> = clients.iter().map(|_| (&sent[..], Vec::new())).collect();
    for ((_, stream), (unsent, _)) in clients.iter_mut().zip(&mut progress) {
        *unsent = &unsent[stream.write(unsent).unwrap()..];
    }
    turn_until(&mut driver, &mut echo, |_, _| {
        for ((_, stream), (unsent, back)) in clients.iter_mut().zip(&mut progress) {
            exchange(stream, unsent, back, 50_000);
        }
        progress.iter().all(|(_, back)| back.len() == sent.len())
    });
    assert!(progress.iter().all(|(_, back)| *back == sent));
}

fn a_paused_connection_is_received_from_later<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo { pauses: true, ..Echo::default() };
    let sent = numbered(1_000_000);
    let (mut unsent, mut back) = (&sent[..], Vec::new());
    let (token, mut stream) = connect(&mut driver);
    turn_until(&mut driver, &mut echo, |driver, _| {
        exchange(&mut stream, &mut unsent, &mut back, 100_000);
        driver.receive(token, Wanted::Bytes);
        back.len() >= sent.len()
    });
    assert!(back == sent);
}

fn a_lent_buffer_is_filled_to_the_end_of_the_argument_only<D: Driver>(waker: &Waker, new: New<D>) {
    for (len, most) in [(1, 9), (70_000, 1000), (1_000_000, 300_000), (65_520, 65_521)] {
        let mut driver = driver(waker, new);
        let mut large = LargeArguments::default();
        large.begin(Awaited { at: 0, len: len as u32 });
        let mut echo = Echo { large: Some(large), ..Echo::default() };
        let sent = numbered(len + 100);
        let mut unsent = &sent[..];
        let (token, mut stream) = connect(&mut driver);
        driver.receive(token, Wanted::IntoBuffer);
        turn_until(&mut driver, &mut echo, |driver, echo| {
            let mut back = Vec::new();
            exchange(&mut stream, &mut unsent, &mut back, most);
            if let Some(large) = &mut echo.large
                && large.complete()
            {
                // The whole argument arrived before the driver had room for it.
                let chunks = large.complete_parts().arguments[0].take();
                let after = std::mem::take(echo.received.entry(token.index).or_default());
                echo.received.insert(token.index, [chunks.concat(), after].concat());
                echo.large = None;
                driver.receive(token, Wanted::Bytes);
            }
            let received = echo.received.get(&token.index).map_or(0, Vec::len);
            received == sent.len()
        });
        assert!(echo.received[&token.index] == sent, "{len} bytes, {most} at a time");
    }
}

fn a_connection_that_its_peer_breaks_is_reported_once<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    let (token, stream) = connect(&mut driver);
    let mut output = Output::default();
    output.push(&numbered(1_000_000));
    driver.send(token, &mut output);
    turn_until(&mut driver, &mut echo, |driver, _| driver.unsent_bytes(token) > 0);
    drop(stream);
    turn_until(&mut driver, &mut echo, |driver, _| driver.connections() == 0);
    assert!(echo.lost.len() + echo.ended.len() <= 2, "each is reported once");
    assert!(echo.lost.iter().chain(&echo.ended).all(|it| *it == token));
}

fn a_close_sends_what_is_left_first<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    let (token, mut stream) = connect(&mut driver);
    let sent = numbered(500_000);
    let mut output = Output::default();
    output.push(&sent[..300_000]);
    let chunk: Chunk = sent[300_000..].into();
    output.splice(Arc::new([chunk]), 0..200_000);
    driver.send(token, &mut output);
    driver.close(token);
    let mut back = Vec::new();
    turn_until(&mut driver, &mut echo, |driver, _| {
        exchange(&mut stream, &mut &[][..], &mut back, 9999);
        driver.connections() == 0
    });
    stream.set_nonblocking(false).unwrap();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent);
}

fn each_wake_of_a_waker_is_reported_once<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    for times in 1..=100 {
        waker.wake();
        driver.turn(Some(TIMEOUT), &mut echo).unwrap();
        assert_eq!(echo.woken, times);
    }
    driver.turn(Some(Duration::from_millis(1)), &mut echo).unwrap();
    assert_eq!(echo.woken, 100, "it has not been woken since");
}

fn an_end_right_behind_bytes_is_reported<D: Driver>(waker: &Waker, new: New<D>) {
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    for len in [1, 100, 16 * 1024, 100_000] {
        let (token, mut stream) = connect_unix(&mut driver);
        // The driver waits for bytes, and finds all of them in its next turn.
        driver.turn(Some(Duration::ZERO), &mut echo).unwrap();
        stream.write_all(&numbered(len)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        turn_until(&mut driver, &mut echo, |driver, _| driver.connections() == 0);
        assert_eq!(echo.received[&token.index].len(), len);
        echo.received.clear();
    }
}

fn bytes_do_not_wait_for_the_ends_of_many_connections<D: Driver>(waker: &Waker, new: New<D>) {
    const CONNECTIONS: usize = 100;
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| connect(&mut driver).1).collect();
    let (token, mut stream) = connect(&mut driver);
    driver.turn(Some(Duration::ZERO), &mut echo).unwrap();
    drop(clients);
    stream.write_all(b"bytes").unwrap();
    let mut turns = 0;
    turn_until(&mut driver, &mut echo, |_, echo| {
        turns += 1;
        echo.received.contains_key(&token.index)
    });
    let ends = echo.ended.len() + echo.lost.len();
    assert!(ends <= turns * PER_TURN, "{ends} before the bytes, in {turns} turns");
    turn_until(&mut driver, &mut echo, |driver, _| driver.connections() == 1);
    assert_eq!(echo.ended.len() + echo.lost.len(), CONNECTIONS);
}

fn connections_whose_ends_wait_for_their_turn_close_at_once<D: Driver>(waker: &Waker, new: New<D>) {
    const CONNECTIONS: usize = 200;
    let mut driver = driver(waker, new);
    let mut echo = Echo::default();
    let (tokens, clients): (Vec<_>, Vec<_>) =
        (0..CONNECTIONS).map(|_| connect(&mut driver)).unzip();
    driver.turn(Some(Duration::ZERO), &mut echo).unwrap();
    drop(clients);
    // io_uring reports twenty ends in a turn.
    turn_until(&mut driver, &mut echo, |_, echo| {
        echo.ended.len() + echo.lost.len() >= CONNECTIONS / 20 * PER_TURN
    });
    let reported = echo.ended.len() + echo.lost.len();
    assert!(reported < CONNECTIONS / 2, "{reported}");
    for token in tokens {
        driver.abort(token);
    }
    // A receive that has not ended yet is cancelled meanwhile, or ends while it is being cancelled.
    for _ in 0..3 {
        driver.turn(Some(Duration::ZERO), &mut echo).unwrap();
    }
    assert_eq!(driver.connections(), 0);
    assert_eq!(echo.ended.len() + echo.lost.len(), reported, "aborted ones are not reported");
}
