//! The driver that uses epoll, for kernels without a usable io_uring.
//!
//! Sockets are watched edge-triggered: readiness is reported once. The kernel then does not check
//! every ready socket again at the next wait, no socket has to be read until it would block, and a
//! paused connection costs nothing. In exchange, a [`Connection`] records that the kernel may hold
//! more bytes, and `again` lists the connections to return to.

use crate::net::accept_pause::Pause;
use crate::net::address::Peer;
use crate::net::connection_table::ConnectionTable;
use crate::net::deferred::{self, Deferred};
use crate::net::driver::{Driver, Release, Sink, Token, Wanted};
use crate::net::link::Link;
use crate::net::listener::Listeners;
use crate::net::outgoing::{Outgoing, Sent, discard_unread, send};
use crate::net::pipes::Pipes;
use crate::net::reachability;
use crate::net::receive_buffer::ReceiveBuffer;
use crate::net::sockets::{Kernel, Sockets};
use crate::net::waker::Waker;
use nagi_proto::Output;
use nagi_store::accounting::{self, Overhead};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of one receive.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Maximum events of one wait.
const EVENTS: usize = 256;
/// Capacity that an emptied output retains.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// The generation in the token of a listener's events.
const LISTENER: u32 = u32::MAX;
/// The token of the waker's events.
const WAKER: Token = Token { index: 0, generation: u32::MAX - 1 };

/// The flags of events after which a stream ends.
const ENDS: epoll::EventFlags =
    epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// The driver that uses epoll.
pub(crate) struct Epoll<S = Kernel> {
    epoll: OwnedFd,
    sockets: S,
    listeners: Listeners,
    /// Whether connections are accepted.
    listening: bool,
    pause: Pause,
    connections: ConnectionTable<Connection>,
    pipes: Pipes,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
    /// Connections to handle again in the next turn.
    again: Vec<Token>,
    /// Events of connections that end in later turns.
    deferred: Deferred<(Token, epoll::EventFlags)>,
    lists_overhead: Overhead,
}

/// A connection's socket.
struct Connection {
    socket: OwnedFd,
    unsent: Outgoing,
    /// Whether the kernel may hold unread bytes or the end of the stream.
    readable: bool,
    /// Whether the stream ends after the bytes that the kernel holds.
    ending: bool,
    wanted: Wanted,
    /// A lent buffer for a large argument, not yet used.
    lent: Option<ReceiveBuffer>,
    /// Whether the socket is watched for room to send.
    watches_writable: bool,
    /// Whether the connection is in `again`.
    queued: bool,
    /// Whether to close the connection when everything has been sent.
    closing: bool,
    /// Whether data was sent that the peer may not have acknowledged.
    awaits_peer: bool,
    /// Why sending has failed, if it has.
    broken: Option<Errno>,
}

impl Epoll {
    /// A driver that accepts from `listeners` and can be woken by `waker`.
    pub(crate) fn new(listeners: Listeners, waker: &Waker) -> io::Result<Self> {
        Epoll::over(Kernel, listeners, waker)
    }
}

impl<S: Sockets> Epoll<S> {
    /// Like `new`, but `sockets` moves the bytes.
    pub(crate) fn over(sockets: S, listeners: Listeners, waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, waker, epoll::EventData::new_u64(WAKER.to_u64()), flags)?;
        let mut driver = Epoll {
            epoll,
            sockets,
            listeners,
            listening: true,
            pause: Pause::default(),
            connections: ConnectionTable::default(),
            pipes: Pipes::default(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; RECEIVE_BYTES].into(),
            again: Vec::new(),
            deferred: Deferred::default(),
            lists_overhead: Overhead::default(),
        };
        driver.listen()?;
        Ok(driver)
    }

    /// Watches the listening sockets, such that the kernel wakes one of the waiting workers.
    fn listen(&mut self) -> io::Result<()> {
        for (index, listener) in (0_u32..).zip(self.listeners.iter()) {
            let data = epoll::EventData::new_u64(Token { index, generation: LISTENER }.to_u64());
            let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
            epoll::add(&self.epoll, listener.as_fd(), data, flags)?;
        }
        Ok(())
    }

    fn stop_watching_listeners(&mut self) {
        for listener in self.listeners.iter() {
            // The listener may not have been watched.
            let _ = epoll::delete(&self.epoll, listener.as_fd());
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let busy = !self.again.is_empty() || !self.deferred.is_empty() || self.sockets.has_events();
        let timeout = if busy { Some(Duration::ZERO) } else { timeout };
        let timeout = self.pause.shorten(timeout);
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.sockets.take_events(&mut self.events);
        if self.listening
            && self.pause.is_over()
            && let Err(error) = self.listen()
        {
            self.stop_watching_listeners();
            self.pause.begin(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM));
        }
        Ok(())
    }

    fn accept(&mut self, index: usize, sink: &mut impl Sink<Self>) {
        for _ in 0..deferred::PER_TURN {
            let Some(listener) = self.listeners.get(index) else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let protocol = listener.endpoint().protocol;
            match rustix::net::accept_with(listener.as_fd(), flags) {
                Ok(socket) => sink.accepted(self, protocol, socket),
                Err(Errno::AGAIN) => return,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.stop_watching_listeners();
                    self.pause.begin(error);
                    return;
                }
                // The client disconnected before it was accepted.
                Err(_) => {}
            }
        }
    }

    /// Handles the events of a connection.
    fn ready(&mut self, token: Token, flags: epoll::EventFlags, sink: &mut impl Sink<Self>) {
        use epoll::EventFlags;
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.ending |= flags.intersects(ENDS);
        connection.readable |= connection.ending || flags.contains(EventFlags::IN);
        if flags.contains(EventFlags::OUT) && !connection.unsent.is_empty() {
            self.send_on(token, sink);
        }
        self.receive_on(token, sink);
    }

    /// Receives once, if bytes are wanted and may be available.
    #[inline]
    fn receive_on(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        // After a failed send there is nothing to receive; the sink gets the error of the send.
        let is_due =
            |connection: &&mut Connection| connection.readable && connection.broken.is_none();
        let Some(connection) = self.connections.get_mut(token).filter(is_due) else { return };
        match connection.wanted {
            Wanted::Nothing => {}
            Wanted::Bytes => self.receive_bytes(token, sink),
            Wanted::IntoBuffer => self.receive_into_buffer(token, sink),
        }
    }

    #[inline]
    fn receive_bytes(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(connection) = self.connections.get_mut(token) {
            match self.sockets.receive(token, connection.socket.as_fd(), &mut buffer) {
                Ok(0) => self.ended(token, sink),
                Ok(len) => {
                    connection.readable = connection.ending || len == buffer.len();
                    sink.received(self, token, buffer.get_mut(..len).unwrap_or_default());
                    self.queue_read(token);
                }
                Err(Errno::AGAIN) => connection.readable = false,
                Err(error) if is_transient(error) => self.queue_read(token),
                Err(error) => self.lost(token, error, sink),
            }
        }
        self.buffer = buffer;
    }

    /// Receives into the chunks that will hold the argument.
    fn receive_into_buffer(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(mut buffer) = connection.lent.take().or_else(|| sink.lend_buffer(token)) else {
            return;
        };
        let asked = buffer.len();
        let socket = connection.socket.as_fd();
        let received = self.sockets.receive_slices(token, socket, &mut buffer.slices());
        match received {
            Ok(0) => self.ended(token, sink),
            Ok(len) => {
                connection.readable = connection.ending || len == asked;
                buffer.advance(len);
                sink.received_into(self, token, buffer);
                self.queue_read(token);
            }
            Err(Errno::AGAIN) => {
                connection.readable = false;
                connection.lent = Some(buffer);
            }
            Err(error) if is_transient(error) => {
                connection.lent = Some(buffer);
                self.queue_read(token);
            }
            Err(error) => self.lost(token, error, sink),
        }
    }

    fn ended(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.wanted = Wanted::Nothing;
            connection.readable = false;
            sink.ended(self, token);
        }
    }

    fn lost(&mut self, token: Token, error: Errno, sink: &mut impl Sink<Self>) {
        drop(self.connections.remove(token));
        sink.lost(self, token, error);
    }

    #[inline]
    fn queue_read(&mut self, token: Token) {
        if self
            .connections
            .get_mut(token)
            .is_some_and(|connection| connection.readable && connection.wanted != Wanted::Nothing)
        {
            self.queue_turn(token);
        }
    }

    /// Schedules a connection for the next turn, without an event from the kernel.
    fn queue_turn(&mut self, token: Token) {
        if let Some(connection) =
            self.connections.get_mut(token).filter(|connection| !connection.queued)
        {
            connection.queued = true;
            self.again.push(token);
        }
    }

    /// Sends pending data.
    fn send_on(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match connection.unsent.send(&mut self.sockets, token, connection.socket.as_fd()) {
            Ok(Sent::All) if connection.closing => self.close_connection(token),
            Ok(Sent::All) => sink.drained(self, token),
            Ok(sent) => self.send_later(token, sent),
            Err(error) => self.send_failed(token, error),
        }
    }

    /// Arranges for sending to continue.
    fn send_later(&mut self, token: Token, sent: Sent) {
        use epoll::EventFlags;
        if sent == Sent::Part {
            return self.queue_turn(token);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.watches_writable {
            return;
        }
        connection.watches_writable = true;
        let data = epoll::EventData::new_u64(token.to_u64());
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::modify(&self.epoll, &connection.socket, data, flags) {
            self.send_failed(token, error);
        }
    }

    /// Drops unsent data after a send has failed. The error is reported in the next turn.
    fn send_failed(&mut self, token: Token, error: Errno) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.unsent.clear();
        connection.broken = Some(error);
        if connection.closing {
            drop(self.connections.remove(token))
        } else {
            self.queue_turn(token)
        }
    }

    /// Closes a connection if it has nothing left to send.
    fn close_connection(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        discard_unread(connection.socket.as_fd());
        self.connections.remove(token);
    }
}

/// Whether a failed receive may succeed when it is repeated.
fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::NOBUFS | Errno::NOMEM)
}

impl<S: Sockets> Driver for Epoll<S> {
    fn turn(&mut self, timeout: Option<Duration>, sink: &mut impl Sink<Self>) -> io::Result<usize> {
        self.wait(timeout)?;
        sink.wait_ended();
        let again = std::mem::take(&mut self.again);
        let mut events = std::mem::take(&mut self.events);
        let mut happened = events.len() + again.len();
        self.deferred.begin_turn();
        for epoll::Event { flags, data } in events.drain(..) {
            match Token::from_u64(data.u64()) {
                WAKER => sink.woken(self),
                Token { index, generation: LISTENER } => self.accept(index as usize, sink),
                token if flags.intersects(ENDS) => {
                    let at_once = self.deferred.admit((token, flags));
                    at_once.into_iter().for_each(|(token, flags)| self.ready(token, flags, sink));
                }
                token => self.ready(token, flags, sink),
            }
        }
        self.events = events;
        while let Some((token, flags)) = self.deferred.next() {
            happened += 1;
            self.ready(token, flags, sink);
        }
        for token in again {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            connection.queued = false;
            if let Some(error) = connection.broken {
                self.lost(token, error, sink);
                continue;
            }
            if !connection.unsent.is_empty() {
                self.send_on(token, sink);
            }
            self.receive_on(token, sink);
        }
        let again_bytes = accounting::room_bytes::<Token>(self.again.capacity());
        self.lists_overhead.set(again_bytes + self.deferred.room_bytes());
        Ok(happened)
    }

    fn adopt(&mut self, socket: OwnedFd, _: Peer) -> io::Result<Token> {
        use epoll::EventFlags;
        let token = self.connections.next();
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token.to_u64()), flags)?;
        Ok(self.connections.add(Connection {
            socket,
            unsent: Outgoing::default(),
            readable: false,
            ending: false,
            wanted: Wanted::Bytes,
            lent: None,
            watches_writable: false,
            queued: false,
            closing: false,
            // A connection from another worker may have unacknowledged data.
            awaits_peer: true,
            broken: None,
        }))
    }

    fn pipes(&self) -> &Pipes {
        &self.pipes
    }

    fn pipes_mut(&mut self) -> &mut Pipes {
        &mut self.pipes
    }

    fn send_on_socket(&mut self, token: Token, output: &mut Output) {
        let Some(connection) =
            self.connections.get_mut(token).filter(|connection| connection.broken.is_none())
        else {
            return output.clear(KEPT_OUTPUT_BYTES);
        };
        connection.awaits_peer = true;
        if !connection.unsent.is_empty() {
            return connection.unsent.push(output);
        }
        match send(&mut self.sockets, token, connection.socket.as_fd(), output) {
            Ok(Sent::All) => output.clear(KEPT_OUTPUT_BYTES),
            Ok(sent) => {
                connection.unsent.push(output);
                self.send_later(token, sent);
            }
            Err(error) => {
                output.clear(KEPT_OUTPUT_BYTES);
                self.send_failed(token, error);
            }
        }
    }

    fn flush(&mut self) {
        // Sends are made at once, so there is nothing to submit.
    }

    fn unsent_on_socket(&self, token: Token) -> usize {
        self.connections.get(token).map_or(0, |connection| connection.unsent.bytes())
    }

    fn unacknowledged_by_socket(&self, token: Token) -> usize {
        let connection = self.connections.get(token);
        let bytes = connection.map(|it| reachability::unacknowledged_bytes(it.socket.as_fd()));
        bytes.flatten().unwrap_or_default()
    }

    fn kept_for_socket(&self, token: Token) -> usize {
        let nothing = Output::default();
        self.connections.get(token).map_or(0, |connection| connection.unsent.kept_bytes(&nothing))
    }

    fn is_unreachable(&mut self, token: Token, silence: Duration) -> bool {
        let Some(connection) =
            self.connections.get_mut(token).filter(|connection| connection.awaits_peer)
        else {
            return false;
        };
        let socket = connection.socket.as_fd();
        connection.awaits_peer =
            !connection.unsent.is_empty() || !reachability::has_acknowledged_all(socket);
        connection.awaits_peer && reachability::is_unreachable(socket, silence)
    }

    fn receive_from_socket(&mut self, token: Token, wanted: Wanted) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.wanted = wanted;
            self.queue_read(token);
        }
    }

    fn close_socket(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.wanted = Wanted::Nothing;
        connection.closing = true;
        if connection.unsent.is_empty() {
            self.close_connection(token);
        }
    }

    fn abort_socket(&mut self, token: Token) {
        drop(self.connections.remove(token));
    }

    fn release_socket(&mut self, token: Token) -> Release {
        let may_leave = |connection: &&Connection| {
            connection.lent.is_none() && connection.broken.is_none() && !connection.closing
        };
        let Some(connection) = self.connections.get(token).filter(may_leave) else {
            return Release::Refused;
        };
        if !connection.unsent.is_empty() {
            return Release::Later;
        }
        if epoll::delete(&self.epoll, &connection.socket).is_err() {
            return Release::Refused;
        }
        let released = self.connections.remove(token);
        released
            .map_or(Release::Refused, |connection| Release::Done(Link::Socket(connection.socket)))
    }

    fn retain_socket(&mut self, _: Token) {
        // A release succeeds or fails at once.
    }

    fn listen_to(&mut self, listeners: &Listeners) -> io::Result<()> {
        self.stop_watching_listeners();
        self.listeners = Arc::clone(listeners);
        if self.listening && !self.pause.is_on() { self.listen() } else { Ok(()) }
    }

    fn stop_listening(&mut self) {
        self.stop_watching_listeners();
        self.listening = false;
    }

    fn sockets(&self) -> usize {
        self.connections.len()
    }
}
