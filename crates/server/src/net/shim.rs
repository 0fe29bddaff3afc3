//! A shim between the drivers and the kernel, for tests. It splits receives into pieces of any
//! length, takes only part of a send, and makes calls fail as the kernel may. A worker serves
//! numbered requests over it, and a checker verifies that each is answered once, in order.

use crate::net::driver::{Driver, Token};
use crate::net::epoll::Epoll;
use crate::net::link::Link;
use crate::net::listener::Listeners;
use crate::net::protocol::Protocol;
use crate::net::sockets::{Kernel, Moved, Sockets};
use crate::net::uring::{self, KernelShim, Uring};
use crate::net::waker::Waker;
use crate::state::mailbox::{ConnectionTask, NewConnection};
use crate::state::shared::{ServerOptions, Shared};
use crate::worker;
use crate::worker::handovers::Handovers;
use nagi_store::since_1970;
use rustix::event::epoll;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct Random(fastrand::Rng);

impl Random {
    /// Faults from a seed, which failing tests print with the other parameters; `NAGI_TEST_SEED`
    /// sets it.
    fn seeded() -> Self {
        let given = std::env::var("NAGI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = since_1970();
        Random(fastrand::Rng::with_seed(given.unwrap_or(now.as_nanos() as u64)))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    fn one_in(&mut self, count: usize) -> bool {
        count > 0 && self.below(count) == 0
    }
}

/// The maximum that a call moves.
#[derive(Clone, Copy, Debug)]
enum Pieces {
    /// This many bytes.
    Of(usize),
    /// From one byte to this many.
    UpTo(usize),
    /// No limit.
    Whole,
}

/// A planted fault that the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Reports one byte too many as sent, which is lost.
    Loses,
    /// Reports one byte too few as sent, which is sent again.
    Repeats,
}

/// Which faults occur.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    random: Random,
    pieces: Pieces,
    /// One call in this many fails with a transient error; none if 0.
    failing: usize,
    /// One call in this many finds its connection reset; none if 0.
    resetting: usize,
    planted: Planted,
}

/// Errors of a call that succeeds when it is repeated.
const TRANSIENT_ERRORS: [Errno; 4] = [Errno::AGAIN, Errno::INTR, Errno::NOBUFS, Errno::NOMEM];

/// Errors that the kernel may return when the ring is entered.
const ENTER_ERRORS: [Errno; 5] =
    [Errno::INTR, Errno::AGAIN, Errno::BUSY, Errno::NOMEM, Errno::NOBUFS];

impl Faults {
    fn piece(&mut self, len: usize) -> usize {
        let most = match self.pieces {
            Pieces::Of(most) => most,
            Pieces::UpTo(most) => 1 + self.random.below(most),
            Pieces::Whole => len,
        };
        len.min(most)
    }

    fn fail(&mut self) -> Result<(), Errno> {
        if self.random.one_in(self.resetting) {
            return Err(Errno::CONNRESET);
        }
        match self.random.one_in(self.failing) {
            true => Err(TRANSIENT_ERRORS[self.random.below(TRANSIENT_ERRORS.len())]),
            false => Ok(()),
        }
    }

    /// How many bytes are reported as sent when the kernel has taken `taken`.
    fn reported(&mut self, taken: usize) -> usize {
        match self.planted {
            Planted::Loses if self.random.one_in(50) => taken + 1,
            Planted::Repeats if taken > 1 && self.random.one_in(50) => taken - 1,
            _ => taken,
        }
    }
}

/// Takes the kernel's place for the epoll driver. Like the kernel, it adds an event after a short
/// transfer when there is more.
struct Shim {
    faults: Faults,
    events: Vec<epoll::Event>,
}

impl Shim {
    fn add_event(&mut self, token: Token, flags: epoll::EventFlags) {
        self.events.push(epoll::Event { flags, data: epoll::EventData::new_u64(token.to_u64()) });
    }

    /// Transfers a piece of `len` bytes by `call`, and adds an event if there may be more.
    fn ask(
        &mut self,
        token: Token,
        flags: epoll::EventFlags,
        len: usize,
        call: impl FnOnce(usize) -> Moved,
    ) -> Moved {
        if let Err(error) = self.faults.fail() {
            self.add_event(token, flags);
            return Err(error);
        }
        let piece = self.faults.piece(len);
        let moved = call(piece)?;
        if moved == piece && piece < len {
            self.add_event(token, flags);
        }
        Ok(moved)
    }
}

impl Sockets for Shim {
    fn receive(&mut self, token: Token, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Moved {
        let len = buffer.len();
        self.ask(token, epoll::EventFlags::IN, len, |piece| {
            Kernel.receive(token, socket, &mut buffer[..piece])
        })
    }

    fn receive_slices(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        slices: &mut [IoSliceMut<'_>],
    ) -> Moved {
        let len = slices[0].len();
        if slices.len() > 1 {
            self.add_event(token, epoll::EventFlags::IN);
        }
        self.ask(token, epoll::EventFlags::IN, len, |piece| {
            Kernel.receive(token, socket, &mut slices[0][..piece])
        })
    }

    fn send(&mut self, token: Token, socket: BorrowedFd<'_>, bytes: &[u8]) -> Moved {
        let taken = self.ask(token, epoll::EventFlags::OUT, bytes.len(), |piece| {
            Kernel.send(token, socket, &bytes[..piece])
        })?;
        Ok(self.faults.reported(taken).min(bytes.len()))
    }

    fn send_slices(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
    ) -> Moved {
        if slices.len() > 1 {
            self.add_event(token, epoll::EventFlags::OUT);
        }
        self.send(token, socket, &slices[0])
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn take_events(&mut self, events: &mut Vec<epoll::Event>) {
        events.append(&mut self.events);
    }
}

/// The shim between the io_uring driver and the kernel. It cannot make a receive fail, but offers
/// small buffers, so that they run out.
impl KernelShim for Faults {
    fn send(&mut self, asked: usize) -> (usize, Moved) {
        if let Err(error) = self.fail() {
            return (0, Err(error));
        }
        let piece = self.piece(asked);
        (piece, Ok(self.reported(piece).min(asked)))
    }

    fn receive(&mut self, len: usize) -> usize {
        self.piece(len)
    }

    fn enter(&mut self) -> Result<(), Errno> {
        match self.random.one_in(self.failing) {
            true => Err(ENTER_ERRORS[self.random.below(ENTER_ERRORS.len())]),
            false => Ok(()),
        }
    }
}

/// A protocol in which requests are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberedProtocol {
    Resp,
    Text,
    Meta,
    Binary,
}

const NUMBERED_PROTOCOLS: [NumberedProtocol; 4] = [
    NumberedProtocol::Resp,
    NumberedProtocol::Text,
    NumberedProtocol::Meta,
    NumberedProtocol::Binary,
];

impl NumberedProtocol {
    fn protocol(self) -> Protocol {
        if self == NumberedProtocol::Resp { Protocol::Resp } else { Protocol::Memcached }
    }

    /// Request number `number` of client `client`, and its reply.
    fn request(self, client: usize, number: usize) -> (Vec<u8>, Vec<u8>) {
        let name = format!("{client}:{number}");
        let len = name.len();
        match self {
            NumberedProtocol::Resp if number % 97 == 96 => {
                // Long enough for receiving into chunks and sending from them.
                let value = name.repeat(150_000 / len);
                let (key, bytes) = (format!("large:{client}"), value.len());
                let set = resp(&["SET", &key, &value]);
                let reply = format!("+OK\r\n${bytes}\r\n{value}\r\n").into_bytes();
                ([set, resp(&["GET", &key])].concat(), reply)
            }
            NumberedProtocol::Resp => {
                (resp(&["ECHO", &name]), format!("${len}\r\n{name}\r\n").into_bytes())
            }
            NumberedProtocol::Text => {
                let request = format!("set k{client} 0 0 {len}\r\n{name}\r\nget k{client}\r\n");
                let reply = format!("STORED\r\nVALUE k{client} 0 {len}\r\n{name}\r\nEND\r\n");
                (request.into_bytes(), reply.into_bytes())
            }
            NumberedProtocol::Meta => {
                let request =
                    format!("ms m{client} {len} O{number}\r\n{name}\r\nmg m{client} v\r\n");
                let reply = format!("HD O{number}\r\nVA {len}\r\n{name}\r\n");
                (request.into_bytes(), reply.into_bytes())
            }
            NumberedProtocol::Binary => {
                // No-operations: the opaque field comes back.
                let mut request = [0; 24];
                (request[0], request[1]) = (0x80, 0x0a);
                request[12..16].copy_from_slice(&(number as u32).to_be_bytes());
                let mut reply = request;
                reply[0] = 0x81;
                (request.to_vec(), reply.to_vec())
            }
        }
    }
}

fn resp(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

/// The result of comparing a client's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Each request was answered once, in order.
    Complete,
    /// The same, until the connection ended early.
    Truncated,
    /// No data came for a long time after this many bytes.
    Stalled {
        got: usize,
        due: usize,
    },
    Wrong,
}

/// Sends all requests in pieces, shuts down the sending side, and compares the replies with the
/// expected ones.
fn converse(
    numbered: NumberedProtocol,
    client: usize,
    count: usize,
    stream: &Socket,
    mut random: Random,
) -> Verdict {
    let (requests, due): (Vec<_>, Vec<_>) =
        (0..count).map(|number| numbered.request(client, number)).unzip();
    let (requests, due) = (requests.concat(), due.concat());
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut writer, mut rest) = (stream, &requests[..]);
            while !rest.is_empty() {
                let len = rest.len().min(1 + random.below(20_000));
                // A reset connection accepts no more data.
                if writer.write_all(&rest[..len]).is_err() {
                    return;
                }
                rest = &rest[len..];
            }
            let _ = stream.shutdown(Shutdown::Write);
        });
        let (mut reader, mut got, mut buffer) = (stream, Vec::new(), vec![0; 1 << 16]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => got.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(_) => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return Verdict::Stalled { got: got.len(), due: due.len() };
                }
            }
        }
        match got == due {
            true => Verdict::Complete,
            false if due.starts_with(&got) => Verdict::Truncated,
            false => Verdict::Wrong,
        }
    })
}

/// Makes a driver over a shim with faults.
type New<D> = fn(Faults, Listeners, &Waker) -> io::Result<D>;

fn epoll(faults: Faults, listeners: Listeners, waker: &Waker) -> io::Result<Epoll<Shim>> {
    Epoll::over(Shim { faults, events: Vec::new() }, listeners, waker)
}

/// Both ends of a connection over TCP or a Unix socket.
fn connect(listener: &TcpListener, is_unix: bool) -> (Socket, Socket) {
    if is_unix {
        return Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    }
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0.into(), theirs.into())
}

/// Serves a client of each protocol, over TCP and over a Unix socket, by one worker whose driver
/// has faults.
fn serve<D: Driver>(new: New<D>, faults: Faults, count: usize) -> Vec<Verdict> {
    let commands = nagi_commands::command_table();
    let shared = Arc::new(Shared::new(ServerOptions::default(), Vec::new(), commands).unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    std::thread::scope(|scope| {
        let served = Arc::clone(&shared);
        let shim = faults.clone();
        let worker = scope.spawn(move || {
            let mut driver = new(shim, Vec::new().into(), served.waker(0).unwrap()).unwrap();
            let handovers = Arc::new(Handovers::new(1));
            worker::run(0, &served, &handovers, &mut driver, || ());
        });
        let clients: Vec<_> =
            NUMBERED_PROTOCOLS.into_iter().chain(NUMBERED_PROTOCOLS).enumerate().collect();
        let mut random = faults.random;
        let conversations: Vec<_> = clients
            .into_iter()
            .map(|(client, numbered)| {
                let (ours, theirs) = connect(&listener, client >= NUMBERED_PROTOCOLS.len());
                ours.set_nonblocking(true).unwrap();
                // Small buffers make sockets full now and then.
                rustix::net::sockopt::set_socket_send_buffer_size(ours.as_fd(), 1).unwrap();
                shared.registry.assign(0, 100).unwrap();
                let protocol = numbered.protocol();
                let connection = NewConnection {
                    link: Link::Socket(ours.into()),
                    protocol,
                    is_reserved: false,
                    gateway: None,
                };
                shared.post(0, ConnectionTask::Serve(connection));
                let random = Random(random.0.fork());
                scope.spawn(move || converse(numbered, client, count, &theirs, random))
            })
            .collect();
        let verdicts =
            conversations.into_iter().map(|conversation| conversation.join().unwrap()).collect();
        shared.stop();
        worker.join().unwrap();
        verdicts
    })
}

/// Runs a test with each driver that works here.
fn over_both(mut test: impl FnMut(&dyn Fn(Faults, usize) -> Vec<Verdict>)) {
    test(&|faults, count| serve(epoll, faults, count));
    if uring::check_kernel().is_ok() {
        test(&|faults, count| serve(Uring::over, faults, count));
    }
}

fn faults(pieces: Pieces) -> Faults {
    let planted = Planted::Nothing;
    Faults { random: Random::seeded(), pieces, failing: 0, resetting: 0, planted }
}

#[test]
fn short_receives_and_sends_of_any_length_change_no_reply() {
    over_both(|serve| {
        for len in (1..=40).chain([63, 64, 100, 1000, 4096]) {
            // Few requests for short pieces, since a large value in single bytes takes long.
            let count = if len < 40 { 30 } else { 200 };
            let faults = faults(Pieces::Of(len));
            assert_eq!(serve(faults.clone(), count), [Verdict::Complete; 8], "{faults:?}");
        }
    });
}

#[test]
fn transient_errors_of_calls_change_no_reply() {
    over_both(|serve| {
        for (pieces, failing) in [
            (Pieces::Whole, 3),
            (Pieces::Whole, 20),
            (Pieces::UpTo(3000), 2),
            (Pieces::UpTo(20_000), 10),
            (Pieces::UpTo(100), 10),
        ] {
            let faults = Faults { failing, ..faults(pieces) };
            assert_eq!(serve(faults.clone(), 300), [Verdict::Complete; 8], "{faults:?}");
        }
    });
}

#[test]
fn replies_before_a_reset_are_in_order() {
    over_both(|serve| {
        let mut truncated = 0;
        for _ in 0..10 {
            let faults = Faults { failing: 10, resetting: 60, ..faults(Pieces::UpTo(2000)) };
            let verdicts = serve(faults.clone(), 300);
            let in_order = |it: &&Verdict| matches!(it, Verdict::Complete | Verdict::Truncated);
            assert_eq!(verdicts.iter().filter(in_order).count(), 8, "{faults:?}: {verdicts:?}");
            truncated += verdicts.iter().filter(|it| **it == Verdict::Truncated).count();
        }
        assert!(truncated > 0, "resets reach the clients");
    });
}

#[test]
fn the_checker_finds_bytes_that_are_lost_or_sent_twice() {
    over_both(|serve| {
        for planted in [Planted::Loses, Planted::Repeats] {
            let faults = Faults { planted, ..faults(Pieces::UpTo(500)) };
            let verdicts = serve(faults.clone(), 300);
            assert!(verdicts.contains(&Verdict::Wrong), "{faults:?}: {verdicts:?}");
        }
    });
}
