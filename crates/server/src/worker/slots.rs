//! The sessions of a worker, with the state of their connections.

use crate::net::driver::{Token, Wanted};
use crate::protocols::session_state::SessionState;
use crate::session::conversation::Session;
use crate::session::timing::Unsent;
use crate::worker::held_replies::HeldReplies;
use nagi_store::accounting::{Charge, Overhead, room_bytes};
use std::time::Instant;

/// A connection with unsent replies whose session has ended.
pub(super) struct ClosingConnection {
    pub(super) token: Token,
    pub(super) unacknowledged: usize,
    /// When its client was last seen to have read something.
    pub(super) read_at: Instant,
    /// Whether it has been added to the number of connections.
    pub(super) is_counted: bool,
}

/// A connection's session.
pub(super) struct ConnectionSlot {
    pub(super) token: Token,
    pub(super) session: Session,
    /// What the session waits for. If it waits for room for replies, there is none now.
    pub(super) state: SessionState,
    /// What the driver has been asked to receive.
    pub(super) wanted: Wanted,
    /// The tick in which the session was last fed, and the number of bytes.
    pub(super) fed_at: u64,
    pub(super) fed_bytes: usize,
    /// Whether the client has shut down its sending side.
    pub(super) ended: bool,
    /// When, with `ended` set, the current request began to wait to be woken.
    pub(super) ended_wait: Option<Instant>,
    /// Whether the connection is among the worker's slow readers.
    pub(super) is_slow_reader: bool,
    /// Bytes of replies that were passed to the driver or are held.
    pub(super) replied_bytes: u64,
    /// Replies that are sent together with the next one.
    pub(super) held_replies: HeldReplies,
    /// Requests whose replies the kernel has not taken in full, the oldest first.
    pub(super) unsent: Vec<Unsent>,
    /// Accounts for the memory of `unsent`, which is not data.
    pub(super) unsent_charge: Charge,
    /// Accounts for the memory of the idle session.
    pub(super) overhead: Overhead,
    /// Accounts for the slot itself.
    _own_overhead: Overhead,
}

impl ConnectionSlot {
    /// The slot of a connection from which bytes are received.
    pub(super) fn new(token: Token, session: Session, overhead: Overhead) -> Self {
        ConnectionSlot {
            token,
            session,
            state: SessionState::Bytes,
            wanted: Wanted::Bytes,
            fed_at: 0,
            fed_bytes: 0,
            ended: false,
            ended_wait: None,
            is_slow_reader: false,
            replied_bytes: 0,
            held_replies: HeldReplies::default(),
            unsent: Vec::new(),
            unsent_charge: Charge::default(),
            overhead,
            _own_overhead: Overhead::new(size_of::<ConnectionSlot>()),
        }
    }
}

impl ConnectionSlot {
    /// Records that a request begins to wait although its client has ended its input, and adds the
    /// connection to `list` once.
    #[cold]
    pub(super) fn note_ended(&mut self, list: &mut Vec<Token>) {
        if self.ended_wait.replace(Instant::now()).is_none() {
            list.push(self.token);
        }
    }
}

/// The slots of sockets and those of pipes, each at the place of its token. Each slot is allocated
/// separately, so that a growing table moves no slot.
#[derive(Default)]
pub(super) struct Slots {
    sockets: Vec<Option<Box<ConnectionSlot>>>,
    pipes: Vec<Option<Box<ConnectionSlot>>>,
    /// Accounts for the memory of both lists.
    overhead: Overhead,
}

impl Slots {
    fn places_of(&mut self, token: Token) -> &mut Vec<Option<Box<ConnectionSlot>>> {
        if token.is_of_pipe() { &mut self.pipes } else { &mut self.sockets }
    }

    /// The slot of a connection, if it still exists.
    #[inline]
    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut ConnectionSlot> {
        let place = self.places_of(token).get_mut(token.place())?;
        place.as_deref_mut().filter(|slot| slot.token == token)
    }

    pub(super) fn add(&mut self, slot: ConnectionSlot) {
        let place = slot.token.place();
        let places = self.places_of(slot.token);
        if places.len() <= place {
            places.resize_with(place + 1, || None);
            let room =
                |places: &Vec<_>| room_bytes::<Option<Box<ConnectionSlot>>>(places.capacity());
            self.overhead.set(room(&self.sockets) + room(&self.pipes));
        }
        if let Some(vacant) = self.places_of(slot.token).get_mut(place) {
            *vacant = Some(Box::new(slot));
        }
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<ConnectionSlot> {
        let place = self.places_of(token).get_mut(token.place())?;
        place.take_if(|slot| slot.token == token).map(|slot| *slot)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ConnectionSlot> {
        self.sockets.iter().chain(&self.pipes).flatten().map(Box::as_ref)
    }

    /// The slots of sockets, in `places` places from `start` on.
    pub(super) fn of_sockets(
        &self,
        start: usize,
        places: usize,
    ) -> impl Iterator<Item = &ConnectionSlot> {
        self.sockets.iter().skip(start).take(places).flatten().map(Box::as_ref)
    }

    /// The number of places for sockets.
    pub(super) fn socket_places(&self) -> usize {
        self.sockets.len()
    }
}
