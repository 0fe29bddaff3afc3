//! The driver that uses io_uring.
//!
//! One system call submits sends and collects received bytes. A receive is submitted once and
//! continues (*multishot*), into provided buffers that the kernel picks as bytes arrive. Multishot
//! receives have no back pressure: bytes that arrive when no more are wanted are passed to the
//! session, which keeps them, and the receive is cancelled. It is submitted again when bytes are
//! wanted. No buffer stays in use after the turn in which it was filled. Receives from Unix sockets
//! are not multishot.

mod connection;
mod ring;
mod spare;
mod yielding;

use crate::net::accept_pause::Pause;
use crate::net::address::Peer;
use crate::net::connection_table::ConnectionTable;
use crate::net::deferred::Deferred;
use crate::net::driver::{Driver, Release, Sink, Token, Wanted};
use crate::net::link::Link;
use crate::net::listener::{Listener, Listeners};
use crate::net::outgoing::{Outgoing, discard_unread, taken_bytes};
use crate::net::pipes::Pipes;
use crate::net::protocol::Protocol;
use crate::net::reachability;
use crate::net::receive_buffer::ReceiveBuffer;
use crate::net::waker::Waker;
use connection::{COUNTED_BYTES, Connection, End, Receiving, Sending};
use nagi_proto::Output;
use nagi_store::accounting::{self, Charge, Overhead};
pub(crate) use ring::KernelShim;
use ring::{Event, NoShim, Ring, Sent, Wait};
use rustix::io::Errno;
use spare::{KEPT_OUTPUT_BYTES, SpareOutputs};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use yielding::Yielding;

/// The driver that uses io_uring.
pub(crate) struct Uring<K = NoShim> {
    ring: Ring<K>,
    waker: OwnedFd,
    accepting: Vec<Accepting>,
    /// The number of the next listener.
    next_listener: usize,
    /// Whether connections are accepted.
    listening: bool,
    pause: Pause,
    yielding: Yielding,
    connections: ConnectionTable<Connection>,
    pipes: Pipes,
    /// Connections to handle again in the next turn.
    again: Vec<Token>,
    /// Connections that begin or end in later turns.
    deferred: Deferred<Event>,
    /// Whether one of the queued sends leads to more work. Successful sends have no completion, so
    /// a wait would not end with them.
    must_not_block: bool,
    spare: SpareOutputs,
    /// Accounts for the memory of lists that grow with the connections.
    lists_overhead: Overhead,
}

/// Errors of receives after which they are repeated if bytes are wanted: there are free buffers
/// again.
const TRANSIENT: [Errno; 5] =
    [Errno::NOBUFS, Errno::CANCELED, Errno::AGAIN, Errno::INTR, Errno::NOMEM];

/// A listener with an accept operation, in flight or ending.
struct Accepting {
    /// Distinguishes its completions from those of earlier listeners.
    number: usize,
    listener: Arc<Listener>,
    /// Whether an accept operation is in flight.
    asked: bool,
    /// Whether to accept connections from the listener. If not, the entry stays until its operation
    /// has ended.
    wanted: bool,
}

/// Checks that this kernel, and restrictions such as those of a container, allow this driver's use
/// of io_uring.
///
/// # Errors
/// The reason why io_uring cannot be used.
pub(crate) fn check_kernel() -> io::Result<()> {
    ring::check_kernel()
}

impl Uring {
    /// Creates a driver for the calling thread, which accepts from `listeners` and can be woken by
    /// `waker`.
    pub(crate) fn new(listeners: Listeners, waker: &Waker) -> io::Result<Self> {
        Uring::over(NoShim, listeners, waker)
    }
}

impl<K: KernelShim> Uring<K> {
    /// Like `new`, with a shim between the ring and the kernel.
    pub(crate) fn over(shim: K, listeners: Listeners, waker: &Waker) -> io::Result<Self> {
        let mut driver = Uring {
            ring: Ring::new(shim)?,
            waker: waker.as_fd().try_clone_to_owned()?,
            accepting: Vec::new(),
            next_listener: 0,
            listening: true,
            pause: Pause::default(),
            yielding: Yielding::default(),
            connections: ConnectionTable::default(),
            pipes: Pipes::default(),
            again: Vec::new(),
            deferred: Deferred::default(),
            must_not_block: false,
            spare: SpareOutputs::new(),
            lists_overhead: Overhead::default(),
        };
        driver.ring.watch(driver.waker.as_fd())?;
        driver.listen_to(&listeners)?;
        Ok(driver)
    }

    /// Submits an accept operation for each listener that has none.
    fn listen(&mut self) -> io::Result<()> {
        for it in self.accepting.iter_mut().filter(|it| it.wanted && !it.asked) {
            it.asked = true;
            self.ring.accept(it.number, it.listener.as_fd())?;
        }
        Ok(())
    }

    /// Waits, and handles completed sends. Yields the processor to other threads if `may_yield`.
    fn wait(&mut self, timeout: Option<Duration>, may_yield: bool) -> io::Result<()> {
        self.finish_sends();
        let busy = !self.has_nothing_to_do() || self.must_not_block;
        let timeout = if busy { Some(Duration::ZERO) } else { self.pause.shorten(timeout) };
        let may_yield = may_yield && timeout != Some(Duration::ZERO) && self.yielding.is_due();
        if may_yield {
            self.enter(Wait::Look)?;
        }
        if !may_yield || self.has_nothing_to_do() {
            if may_yield {
                self.yielding.yield_now();
            }
            self.enter(match timeout {
                None => Wait::Forever,
                Some(Duration::ZERO) => Wait::Look,
                Some(timeout) => Wait::AtMost(timeout),
            })?;
        }
        // Operations whose submission was interrupted are submitted the next time, and may have no
        // completion.
        self.must_not_block = !self.ring.is_submitted();
        if self.listening && self.pause.is_over() { self.listen() } else { Ok(()) }
    }

    fn has_nothing_to_do(&self) -> bool {
        self.again.is_empty() && self.ring.events.is_empty() && self.deferred.is_empty()
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.ring.enter(wait)?;
        self.finish_sends();
        Ok(())
    }

    fn finish_sends(&mut self) {
        while let Some(sent) = self.ring.take_sent() {
            self.finish_send(sent);
        }
        self.spare.measure(self.ring.queued_bytes());
    }

    /// Continues with a connection after a send.
    fn finish_send(&mut self, sent: Sent) {
        let Sent { token, mut output, asked, taken, .. } = sent;
        let Some(connection) = self.connections.get_mut(token) else { return };
        let taken = match taken {
            Ok(taken) => taken,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => 0,
            Err(error) => {
                connection.sending = Sending::Nothing;
                return self.send_failed(token, error);
            }
        };
        output.advance(taken);
        if connection.end == End::Gone {
            connection.sending = Sending::Nothing;
            self.free_connection(token);
        } else if taken < asked {
            connection.charge.set(taken_bytes(&output));
            connection.first = output;
            connection.sending = Sending::Blocked;
            if self.ring.await_writable(token, connection.socket.as_fd()).is_err() {
                connection.sending = Sending::Later;
                self.queue_turn(token);
            }
        } else if output.is_empty() {
            connection.charge.set(0);
            self.spare.put(output);
            self.sent_all(token);
        } else {
            connection.first = output;
            connection.sending = Sending::Later;
            self.queue_turn(token);
        }
    }

    /// Continues after an output has been sent.
    fn sent_all(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match connection.unsent.pop() {
            Some(next) => {
                connection.charge.set(taken_bytes(&next));
                connection.first = next;
                connection.sending = Sending::Later;
                self.queue_turn(token);
            }
            None => {
                connection.sending = Sending::Nothing;
                if connection.end == End::Closing {
                    self.close_connection(token);
                } else if connection.counted.get() {
                    self.queue_turn(token);
                }
            }
        }
    }

    /// Queues the send of a connection's first output.
    fn send_first(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let output = std::mem::take(&mut connection.first);
        // The ring accounts for the output's memory from now on.
        connection.charge.set(0);
        connection.sending = Sending::Queued(output.len());
        self.must_not_block |= output.as_contiguous().is_none()
            || output.len() >= COUNTED_BYTES
            || connection.end == End::Closing
            || connection.counted.get()
            || !connection.unsent.is_empty();
        if let Err(error) = self.ring.send(token, connection.socket.as_fd(), output) {
            connection.sending = Sending::Nothing;
            self.send_failed(token, Errno::from_io_error(&error).unwrap_or(Errno::IO));
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

    /// Runs the scheduled turn of a connection.
    fn run_turn(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.queued = false;
        if let End::Broken(error) = connection.end {
            self.free_connection(token);
            return sink.lost(self, token, error);
        }
        match connection.sending {
            Sending::Later => self.send_first(token),
            Sending::Nothing if connection.counted.get() && connection.end == End::Open => {
                connection.counted.set(false);
                sink.drained(self, token);
            }
            _ => {}
        }
        self.update_receive(token, sink);
    }

    /// Starts or stops receiving as wanted, and removes a connection that is gone. A large argument
    /// is received once no other receive is in flight.
    fn update_receive(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.end == End::Gone {
            return self.free_connection(token);
        }
        if connection.ended || connection.leaving || matches!(connection.end, End::Broken(_)) {
            return;
        }
        let begun = match (connection.wanted, connection.receiving) {
            (Wanted::Bytes, Receiving::Nothing) => {
                connection.receiving = Receiving::Bytes;
                self.ring.receive(token, connection.socket.as_fd(), connection.is_multishot)
            }
            (Wanted::IntoBuffer, Receiving::Nothing) => {
                let Some(buffer) = connection.lent.take().or_else(|| sink.lend_buffer(token))
                else {
                    return;
                };
                connection.receiving = Receiving::IntoBuffer;
                self.ring.receive_into(token, connection.socket.as_fd(), buffer)
            }
            _ => return,
        };
        connection.cancelled = false;
        if let Err(error) = begun {
            connection.receiving = Receiving::Nothing;
            self.send_failed(token, Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
    }

    /// Cancels receiving.
    fn stop_receiving(&mut self, token: Token) {
        let Some(connection) =
            self.connections.get_mut(token).filter(|connection| !connection.cancelled)
        else {
            return;
        };
        // A receive that could not be cancelled ends with its connection.
        connection.cancelled = match connection.receiving {
            Receiving::Nothing => false,
            Receiving::Bytes => self.ring.cancel_receive(token).is_ok(),
            Receiving::IntoBuffer => self.ring.cancel_receive_into(token).is_ok(),
        };
    }

    /// Repeats a cancellation if it is still needed.
    fn cancel_again(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.cancelled = false;
        if connection.end == End::Gone {
            self.free_connection(token);
        } else if (connection.wanted == Wanted::IntoBuffer || connection.leaving)
            && connection.receiving == Receiving::Bytes
        {
            self.stop_receiving(token);
        }
    }

    /// Drops unsent data after a send has failed. The error is reported in the next turn.
    fn send_failed(&mut self, token: Token, error: Errno) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.drop_unsent();
        if connection.end == End::Open {
            connection.end = End::Broken(error);
            self.queue_turn(token);
        } else {
            self.free_connection(token);
        }
    }

    /// Closes a connection if it has nothing left to send, once no operation is in flight.
    fn close_connection(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.end = End::Gone;
        self.free_connection(token);
    }

    /// Frees a connection as soon as no operation is in flight.
    fn free_connection(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.end = End::Gone;
        if connection.sending == Sending::Blocked {
            // If this fails, the wait for room still completes when the socket next has room or
            // breaks.
            let _ = self.ring.cancel_writable(token);
        } else if connection.receiving == Receiving::Nothing
            && !matches!(connection.sending, Sending::Queued(_))
        {
            discard_unread(connection.socket.as_fd());
            drop(self.connections.remove(token));
            return;
        }
        self.stop_receiving(token);
    }

    fn accepted(
        &mut self,
        protocol: Protocol,
        socket: Result<OwnedFd, Errno>,
        sink: &mut impl Sink<Self>,
    ) {
        match socket {
            Ok(socket) if self.listening => sink.accepted(self, protocol, socket),
            Ok(_) => {}
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                self.pause.begin(error);
            }
            // The client disconnected before it was accepted, or the listener is closed.
            Err(_) => {}
        }
    }

    fn received(
        &mut self,
        token: Token,
        bytes: Result<usize, Errno>,
        more: bool,
        block: Option<&mut [u8]>,
        sink: &mut impl Sink<Self>,
    ) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !more {
            connection.receiving = Receiving::Nothing;
        }
        match bytes {
            Ok(0) => self.ended(token, sink),
            Ok(len) => {
                if connection.end == End::Open {
                    let bytes = block.and_then(|block| block.get_mut(..len)).unwrap_or_default();
                    sink.received(self, token, bytes);
                }
                if self
                    .connections
                    .get(token)
                    .is_some_and(|connection| connection.wanted != Wanted::Bytes)
                {
                    self.stop_receiving(token);
                }
            }
            Err(error) => self.receive_failed(token, error, sink),
        }
        if !more {
            self.update_receive(token, sink);
        }
    }

    fn received_into(
        &mut self,
        token: Token,
        mut buffer: ReceiveBuffer,
        bytes: Result<usize, Errno>,
        sink: &mut impl Sink<Self>,
    ) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.receiving = Receiving::Nothing;
        match bytes {
            Ok(0) => self.ended(token, sink),
            Ok(len) => {
                buffer.advance(len);
                if connection.end == End::Open {
                    sink.received_into(self, token, buffer);
                }
            }
            Err(error) => {
                connection.lent = Some(buffer);
                self.receive_failed(token, error, sink);
            }
        }
        self.update_receive(token, sink);
    }

    fn ended(&mut self, token: Token, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let was_ended = std::mem::replace(&mut connection.ended, true);
        connection.wanted = Wanted::Nothing;
        if connection.end == End::Open && !was_ended {
            sink.ended(self, token);
        }
    }

    fn receive_failed(&mut self, token: Token, error: Errno, sink: &mut impl Sink<Self>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.end == End::Open && !TRANSIENT.contains(&error) {
            connection.drop_unsent();
            self.free_connection(token);
            sink.lost(self, token, error);
        }
    }

    /// Returns an event that is to be handled in this turn, and keeps it otherwise. Its receive has
    /// ended in both cases: a connection that closes before its turn has nothing to cancel.
    fn admit(&mut self, event: Event) -> Option<Event> {
        if let Event::Received { token, .. } = event
            && let Some(connection) = self.connections.get_mut(token)
        {
            connection.receiving = Receiving::Nothing;
        }
        self.deferred.admit(event)
    }

    /// Reports one event to the sink.
    #[inline]
    fn report(&mut self, event: Event, sink: &mut impl Sink<Self>) {
        match event {
            Event::Received { token, bytes, buffer, more } => {
                let taken =
                    buffer.and_then(|buffer| Some((buffer, self.ring.take_buffer(buffer)?)));
                match taken {
                    Some((buffer, mut block)) => {
                        self.received(token, bytes, more, Some(&mut block), sink);
                        self.ring.give_buffer(buffer, block);
                    }
                    None => self.received(token, bytes, more, None, sink),
                }
            }
            Event::ReceivedInto { token, buffer, bytes } => {
                self.received_into(token, buffer, bytes, sink)
            }
            Event::Writable { token } => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                connection.sending = Sending::Nothing;
                if connection.end == End::Gone {
                    self.free_connection(token);
                } else if !connection.first.is_empty() {
                    self.send_first(token);
                }
            }
            Event::Accepted { listener, socket, more } => {
                let again = !more && self.listening && may_accept_again(&socket);
                let place = self.accepting.iter().position(|it| it.number == listener);
                if let Some((place, it)) =
                    place.and_then(|place| Some((place, self.accepting.get_mut(place)?)))
                {
                    it.asked = more;
                    let protocol = it.listener.endpoint().protocol;
                    if !it.asked && !it.wanted {
                        drop(self.accepting.swap_remove(place));
                    }
                    self.accepted(protocol, socket, sink);
                }
                if again {
                    // If memory is lacking, accepting is retried at the end of the next pause.
                    let _ = self.listen();
                }
            }
            Event::NotFound { token } => self.cancel_again(token),
            Event::Woken { more } => {
                if !more && self.ring.watch(self.waker.as_fd()).is_err() {
                    tracing::error!("a worker cannot watch its wake-up descriptor");
                }
                sink.woken(self);
            }
        }
    }
}

/// Whether an event begins or ends a connection. One with bytes does neither, nor does an error
/// after which receiving continues.
#[inline]
fn begins_or_ends(event: &Event) -> bool {
    match event {
        Event::Accepted { .. } => true,
        Event::Received { bytes: Ok(0), buffer: None, .. } => true,
        Event::Received { bytes: Err(error), buffer: None, .. } => !TRANSIENT.contains(error),
        _ => false,
    }
}

/// Whether to accept from a listener again at once.
fn may_accept_again(socket: &Result<OwnedFd, Errno>) -> bool {
    // Accepting pauses when descriptors run out; a listener that was shut down is not used again.
    !matches!(
        socket,
        Err(Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::INVAL
            | Errno::CANCELED
            | Errno::BADF)
    )
}

impl<K: KernelShim> Driver for Uring<K> {
    fn turn(&mut self, timeout: Option<Duration>, sink: &mut impl Sink<Self>) -> io::Result<usize> {
        self.wait(timeout, sink.may_yield())?;
        sink.wait_ended();
        let mut happened = 0;
        self.deferred.begin_turn();
        while let Some(event) = self.ring.events.pop_front() {
            let at_once = match begins_or_ends(&event) {
                true => self.admit(event),
                false => Some(event),
            };
            if let Some(event) = at_once {
                happened += 1;
                self.report(event, sink);
            }
        }
        while let Some(event) = self.deferred.next() {
            happened += 1;
            self.report(event, sink);
        }
        for token in std::mem::take(&mut self.again) {
            happened += 1;
            self.run_turn(token, sink);
        }
        self.yielding.note(happened);
        let tokens_bytes = accounting::room_bytes::<Token>(self.again.capacity());
        let lists_bytes = self.ring.lists_bytes() + self.deferred.room_bytes();
        self.lists_overhead.set(tokens_bytes + lists_bytes);
        Ok(happened)
    }

    fn adopt(&mut self, socket: OwnedFd, peer: Peer) -> io::Result<Token> {
        let token = self.connections.next();
        // A multishot receive misses the end of a Unix socket's stream that arrived before its last
        // bytes were read: from Linux 6.17 on, it waits for more bytes, which never come
        // (<https://github.com/axboe/liburing/issues/1549>).
        let is_multishot = matches!(peer, Peer::Network(_));
        self.ring.receive(token, socket.as_fd(), is_multishot)?;
        Ok(self.connections.add(Connection {
            socket,
            first: Output::default(),
            charge: Charge::default(),
            unsent: Outgoing::default(),
            sending: Sending::Nothing,
            wanted: Wanted::Bytes,
            receiving: Receiving::Bytes,
            is_multishot,
            cancelled: false,
            lent: None,
            ended: false,
            counted: Cell::new(false),
            // A connection from another worker may have unacknowledged data.
            awaits_peer: true,
            queued: false,
            leaving: false,
            end: End::Open,
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
            self.connections.get_mut(token).filter(|connection| connection.end == End::Open)
        else {
            return output.clear(KEPT_OUTPUT_BYTES);
        };
        connection.awaits_peer = true;
        if connection.sending != Sending::Nothing {
            self.must_not_block = true;
            return connection.unsent.push(output);
        }
        connection.first = std::mem::replace(output, self.spare.take());
        self.send_first(token);
        self.spare.measure(self.ring.queued_bytes());
    }

    fn flush(&mut self) {
        // An error here occurs again when the worker waits, and is reported there.
        let _ = self.enter(Wait::Submit);
    }

    fn unsent_on_socket(&self, token: Token) -> usize {
        let Some(connection) = self.connections.get(token) else { return 0 };
        let bytes = connection.unsent_bytes();
        connection.counted.set(connection.counted.get() | (bytes > 0));
        bytes
    }

    fn unacknowledged_by_socket(&self, token: Token) -> usize {
        let connection = self.connections.get(token);
        let bytes = connection.map(|it| reachability::unacknowledged_bytes(it.socket.as_fd()));
        bytes.flatten().unwrap_or_default()
    }

    fn kept_for_socket(&self, token: Token) -> usize {
        self.connections
            .get(token)
            .map_or(0, |connection| connection.unsent.kept_bytes(&connection.first))
    }

    fn is_unreachable(&mut self, token: Token, silence: Duration) -> bool {
        let Some(connection) =
            self.connections.get_mut(token).filter(|connection| connection.awaits_peer)
        else {
            return false;
        };
        let socket = connection.socket.as_fd();
        connection.awaits_peer =
            connection.sending != Sending::Nothing || !reachability::has_acknowledged_all(socket);
        connection.awaits_peer && reachability::is_unreachable(socket, silence)
    }

    fn receive_from_socket(&mut self, token: Token, wanted: Wanted) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.wanted = wanted;
        match (wanted, connection.receiving) {
            // A receive that is not wanted is cancelled only when bytes arrive, which is rare.
            (Wanted::Nothing, _) => {}
            (Wanted::IntoBuffer, Receiving::Bytes) => self.stop_receiving(token),
            (_, Receiving::Nothing) => self.queue_turn(token),
            _ => {}
        }
    }

    fn close_socket(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.wanted = Wanted::Nothing;
        match (connection.end, connection.sending) {
            (End::Open, Sending::Nothing) => self.close_connection(token),
            (End::Open, _) => {
                connection.end = End::Closing;
                self.must_not_block = true;
            }
            (End::Broken(_), _) => self.free_connection(token),
            (End::Closing | End::Gone, _) => {}
        }
    }

    fn abort_socket(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.wanted = Wanted::Nothing;
        connection.drop_unsent();
        self.must_not_block = true;
        self.free_connection(token);
    }

    fn release_socket(&mut self, token: Token) -> Release {
        let may_leave = |connection: &&mut Connection| {
            connection.end == End::Open
                && connection.receiving != Receiving::IntoBuffer
                && connection.lent.is_none()
                && !connection.ended
        };
        let Some(connection) = self.connections.get_mut(token).filter(may_leave) else {
            return Release::Refused;
        };
        if connection.waits_for_client() {
            // Possibly for long; it is received from meanwhile.
            self.retain_socket(token);
            return Release::Later;
        }
        connection.leaving = true;
        if connection.sending != Sending::Nothing || connection.receiving != Receiving::Nothing {
            self.stop_receiving(token);
            return Release::Later;
        }
        let released = self.connections.remove(token);
        released
            .map_or(Release::Refused, |connection| Release::Done(Link::Socket(connection.socket)))
    }

    fn retain_socket(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token)
            && std::mem::take(&mut connection.leaving)
        {
            self.queue_turn(token);
        }
    }

    fn listen_to(&mut self, listeners: &Listeners) -> io::Result<()> {
        for it in &mut self.accepting {
            it.wanted = listeners.iter().any(|other| Arc::ptr_eq(other, &it.listener));
            if it.asked && !it.wanted {
                self.ring.cancel_accept(it.number)?;
            }
        }
        self.accepting.retain(|it| it.asked || it.wanted);
        for listener in listeners.iter() {
            if self.accepting.iter().all(|it| !Arc::ptr_eq(&it.listener, listener)) {
                let listener = Arc::clone(listener);
                let number = self.next_listener;
                self.next_listener += 1;
                self.accepting.push(Accepting { number, listener, asked: false, wanted: true });
            }
        }
        if self.listening && !self.pause.is_on() { self.listen() } else { Ok(()) }
    }

    fn stop_listening(&mut self) {
        self.listening = false;
        for it in &self.accepting {
            // The operation ends with the ring at the latest.
            let _ = self.ring.cancel_accept(it.number);
        }
    }

    fn sockets(&self) -> usize {
        self.connections.len()
    }
}
