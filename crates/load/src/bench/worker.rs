//! One thread of load: its connections, and the event loop that drives them.

use std::io;
use std::sync::Arc;

use fastrand::Rng;
use nagi_client::{Address, Connection, Error, Protocol};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::keys::Keys;
use super::requests::Requests;
use crate::clock::Timer;
use crate::pace::Share;
use crate::tally::Errors;

/// Bytes received at once.
const SCRATCH_BYTES: usize = 64 * 1024;

/// The event that the timer raises.
pub(crate) const TIMER: u64 = u64::MAX;

/// What all connections wait for; writability is added while bytes are left unsent.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// One thread's connections and buffers.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) epoll: OwnedFd,
    pub(crate) timer: Timer,
    pub(crate) share: Share,
    pub(crate) sessions: Vec<Session>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) keys: Keys,
    pub(crate) random: Rng,
    pub(crate) scratch: Vec<u8>,
    pub(crate) batch: Vec<u8>,
    /// Connections that could not be made.
    failures: Errors,
}

/// A connection and how far its requests have come.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) connection: Option<Connection>,
    /// Whether the event loop is told of writability.
    pub(crate) awaits_room: bool,
    /// When the requests in flight were sent, unless they are paced.
    pub(crate) sent_ns: u64,
    /// Requests that this phase has come to so far.
    pub(crate) due: u64,
    /// Of these, how many were sent.
    pub(crate) sent: u64,
    /// Of these, how many were answered.
    pub(crate) answered: u64,
}

impl Worker {
    /// A worker without connections, drawing from `keys` with `random`.
    pub(crate) fn new(
        share: Share,
        requests: Arc<Requests>,
        keys: Keys,
        random: Rng,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = Timer::new()?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Worker {
            epoll,
            timer,
            share,
            sessions: Vec::new(),
            requests,
            keys,
            random,
            scratch: vec![0; SCRATCH_BYTES],
            batch: Vec::new(),
            failures: Errors::default(),
        })
    }

    /// Opens the connections; those that fail are counted.
    pub(crate) fn connect(&mut self, address: &Address, protocol: Protocol) -> io::Result<()> {
        for index in 0..self.share.len {
            let mut session = Session::default();
            match Connection::open(address, protocol) {
                Ok(connection) => {
                    epoll::add(&self.epoll, &connection, EventData::new_u64(index), READABLE)?;
                    session.connection = Some(connection);
                }
                Err(error) => self.failures.count(&error.to_string(), 1),
            }
            self.sessions.push(session);
        }
        Ok(())
    }

    /// Connections that are open.
    pub(crate) fn open_connections(&self) -> usize {
        self.sessions.iter().filter(|session| session.connection.is_some()).count()
    }

    /// Connections that could not be made, by reason.
    pub(crate) fn failures(&self) -> &Errors {
        &self.failures
    }

    /// Appends `count` requests to the batch, reads and writes in the proportion `gets` to `sets`.
    pub(crate) fn encode(&mut self, count: u64, gets: u32, sets: u32) {
        for _ in 0..count {
            let key = self.keys.next(&mut self.random);
            let read =
                sets == 0 || self.random.u64(..u64::from(gets) + u64::from(sets)) < gets.into();
            if read {
                self.requests.get(key, &mut self.batch);
            } else {
                self.requests.set(key, &mut self.batch);
            }
        }
    }

    /// Sends what is left of connection `index`'s requests, as far as there is room.
    pub(crate) fn flush(&mut self, index: usize) -> Result<(), Error> {
        match self.sessions.get_mut(index).and_then(|session| session.connection.as_mut()) {
            Some(connection) => connection.flush()?,
            None => return Ok(()),
        }
        self.await_room(index)
    }

    /// Asks to be told when connection `index` can be written to, or no longer, as it needs.
    pub(crate) fn await_room(&mut self, index: usize) -> Result<(), Error> {
        let Some(session) = self.sessions.get_mut(index) else { return Ok(()) };
        let Some(connection) = &session.connection else { return Ok(()) };
        if connection.has_unsent() == session.awaits_room {
            return Ok(());
        }
        session.awaits_room = connection.has_unsent();
        let flags = if session.awaits_room { READABLE | EventFlags::OUT } else { READABLE };
        epoll::modify(&self.epoll, connection, EventData::new_u64(index as u64), flags)
            .map_err(|errno| Error::Io(errno.into()))
    }
}
