//! One thread of load: its connections, and the steps of the event loop that use them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use fastrand::Rng;
use nagi_client::{Connection, Error};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::keys::Keys;
use super::ledger::Ticket;
use super::mix::{Mix, Pick};
use super::requests::Requests;
use super::servers::Server;
use super::splits::{Part, Splits};
use crate::clock::Timer;
use crate::interrupt::Interrupt;
use crate::pace::Share;
use crate::tally::Errors;

/// Maximum number of bytes received at once.
const SCRATCH_BYTES: usize = 64 * 1024;

/// The token of the timer in epoll events.
pub(crate) const TIMER: u64 = u64::MAX;

/// The events watched on all connections. Writability is added while a connection has unsent bytes.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// The source of requests: copies of templates, or a mix.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Reads and writes in these proportions, to one server.
    Plain { requests: Arc<Requests>, gets: u32, sets: u32 },
    /// Any requests. Each is tracked until it is answered.
    Mixed(Arc<Mix>),
}

impl Load {
    /// Returns the mix, if the load is not plain.
    pub(crate) fn mixed(&self) -> Option<Arc<Mix>> {
        match self {
            Load::Plain { .. } => None,
            Load::Mixed(mix) => Some(Arc::clone(mix)),
        }
    }
}

/// One thread's connections and buffers.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) epoll: OwnedFd,
    pub(crate) timer: Timer,
    pub(crate) share: Share,
    pub(crate) servers: Arc<Vec<Server>>,
    pub(crate) sessions: Vec<Session>,
    /// The connections. Those of session n start at index n times the number of servers; there is
    /// one for each server.
    pub(crate) links: Vec<Link>,
    pub(crate) load: Load,
    pub(crate) keys: Keys,
    pub(crate) random: Rng,
    pub(crate) scratch: Vec<u8>,
    /// Requests about to be sent, indexed by server.
    pub(crate) batches: Vec<Batch>,
    /// A buffer for a key, kept to reuse its memory.
    pub(crate) key: Vec<u8>,
    /// Multi-gets in flight whose keys are on several servers.
    pub(crate) splits: Splits,
    /// Numbers of failed attempts to connect, by error text.
    failures: Errors,
}

/// Requests to send to one server.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: usize,
}

/// A sequence of requests over one connection, or, with a ring, over one connection to each server.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The number of its open connections.
    pub(crate) open_links: usize,
    /// When the requests in flight were sent, in nanoseconds; unused if requests are paced.
    pub(crate) sent_ns: u64,
    /// Number of requests that have come due in this phase.
    pub(crate) due: u64,
    /// Number of due requests that were sent.
    pub(crate) sent: u64,
    /// Number of sent requests that were answered or ended without an answer.
    pub(crate) answered: u64,
    /// Number of requests sent since the connections were opened.
    pub(crate) sent_since_opening: u64,
    /// Due times of paced requests, in nanoseconds. An entry is removed when its request is
    /// answered or, if each request is tracked, when it is sent.
    pub(crate) due_ns: VecDeque<u64>,
}

/// A connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) connection: Option<Connection>,
    /// Whether the event loop watches the connection for writability.
    pub(crate) awaits_room: bool,
    /// Number of outstanding answers to the greeting.
    pub(crate) greetings: usize,
    /// Requests in flight, the oldest first; empty unless each request is tracked.
    pub(crate) flights: VecDeque<Flight>,
    /// When to reopen the connection, while it is lost, in nanoseconds.
    pub(crate) retry_ns: u64,
    /// The last pause before the connection was reopened, in nanoseconds; 0 after the first reply.
    pub(crate) pause_ns: u64,
}

/// A tracked request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) pick: Pick,
    pub(crate) ticket: Ticket,
    /// When the request was sent or, if paced, due, in nanoseconds.
    pub(crate) begun_ns: u64,
    /// If the request is a part of a multi-get to several servers, that part.
    pub(crate) part: Option<Part>,
}

impl Worker {
    /// Creates a worker without connections that draws from `keys` with `random`.
    pub(crate) fn new(
        share: Share,
        servers: Arc<Vec<Server>>,
        load: Load,
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
            links: Vec::new(),
            batches: servers.iter().map(|_| Batch::default()).collect(),
            servers,
            load,
            keys,
            random,
            scratch: vec![0; SCRATCH_BYTES],
            key: Vec::new(),
            splits: Splits::default(),
            failures: Errors::default(),
        })
    }

    /// Opens the connections. An attempt that fails is counted, and its connection starts as lost.
    pub(crate) fn connect(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        for _ in 0..self.share.len {
            let mut session = Session::default();
            for server in &*Arc::clone(&self.servers) {
                let mut link = Link::default();
                match server.open(interrupt) {
                    Ok(connection) => {
                        let index = EventData::new_u64(self.links.len() as u64);
                        epoll::add(&self.epoll, &connection, index, READABLE)?;
                        link.connection = Some(connection);
                        session.open_links += 1;
                    }
                    Err(error) => self.failures.count(&error, 1),
                }
                self.links.push(link);
            }
            self.sessions.push(session);
        }
        Ok(())
    }

    /// Whether any connection is open.
    pub(crate) fn is_connected(&self) -> bool {
        self.sessions.iter().any(|session| session.open_links > 0)
    }

    /// Whether a connection is closed.
    pub(crate) fn is_lost(&self, link: usize) -> bool {
        self.links.get(link).is_some_and(|link| link.connection.is_none())
    }

    /// Schedules the reopening of all lost connections at `at_ns`. Returns the number of these
    /// connections.
    pub(crate) fn prepare_lost(&mut self, at_ns: u64) -> usize {
        let lost = self.links.iter_mut().filter(|link| link.connection.is_none());
        lost.map(|link| link.retry_ns = at_ns).count()
    }

    /// Records a reply on connection `link`. Returns whether it is the first since the connection
    /// was lost.
    pub(crate) fn is_back(&mut self, link: usize) -> bool {
        let link = self.links.get_mut(link);
        link.is_some_and(|link| std::mem::take(&mut link.pause_ns) > 0)
    }

    /// Records that the outcome of requests in flight is unknown. Returns the number of requests
    /// that fail because of that.
    pub(crate) fn forget(&mut self, flights: &VecDeque<Flight>) -> u64 {
        let Some(mix) = self.load.mixed() else { return 0 };
        let mut failed = 0;
        for flight in flights {
            mix.lose(flight.pick, flight.ticket, &mut self.key);
            failed += u64::from(flight.part.is_none_or(|part| self.splits.lose(part)));
        }
        failed
    }

    /// Returns the numbers of failed attempts to connect, by reason.
    pub(crate) fn failures(&self) -> &Errors {
        &self.failures
    }

    /// Returns the session of connection `link`.
    pub(crate) fn session_of(&self, link: usize) -> usize {
        match self.servers.len() {
            1 => link,
            several => link / several,
        }
    }

    /// Returns the indices of the connections of session `session`.
    pub(crate) fn links_of(&self, session: usize) -> std::ops::Range<usize> {
        let servers = self.servers.len();
        session * servers..(session + 1) * servers
    }

    /// Encodes the parts of a multi-get into the batches of their servers. If one of these servers
    /// is not connected, encodes nothing and returns `false`.
    pub(crate) fn encode_parts(
        &mut self,
        first_link: usize,
        (pick, begun_ns): (Pick, u64),
        parts: &BTreeMap<usize, Vec<Vec<u8>>>,
        mix: &Mix,
    ) -> bool {
        if parts.keys().any(|server| self.is_lost(first_link + server)) {
            return false;
        }
        let begun = self.splits.begin(parts.values().map(|names| names.len() as u64));
        for ((server, names), part) in parts.iter().zip(begun) {
            let link = self.links.get_mut(first_link + server);
            let Some((batch, link)) = self.batches.get_mut(*server).zip(link) else { continue };
            mix.append_get(names, *server, &mut batch.bytes);
            batch.requests += 1;
            let (ticket, part) = (Ticket::default(), Some(part));
            link.flights.push_back(Flight { pick, ticket, begun_ns, part });
        }
        true
    }

    /// Closes connection `index`, whose requests are all answered, and opens a new one.
    pub(crate) fn reopen(&mut self, index: usize) -> Result<(), Error> {
        let servers = Arc::clone(&self.servers);
        let session = self.session_of(index);
        let Some(server) = servers.get(index - session * servers.len()) else { return Ok(()) };
        let (greeting, answers) = server.greeting();
        let mut connection = server.begin()?;
        epoll::add(&self.epoll, &connection, EventData::new_u64(index as u64), READABLE)?;
        if answers > 0 {
            connection.send(&greeting, answers)?;
        }
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        if link.connection.is_none()
            && let Some(session) = self.sessions.get_mut(session)
        {
            session.open_links += 1;
        }
        // The old connection closes here, which removes it from the event loop.
        let pause_ns = link.pause_ns;
        let connection = Some(connection);
        let fresh = Link { connection, greetings: answers, pause_ns, ..Link::default() };
        let before = std::mem::replace(link, fresh);
        // A multi-get that has failed may still have unanswered parts.
        self.forget(&before.flights);
        Ok(())
    }

    /// Sends the unsent bytes of connection `index`, as far as the socket accepts them.
    pub(crate) fn flush(&mut self, index: usize) -> Result<(), Error> {
        match self.links.get_mut(index).and_then(|link| link.connection.as_mut()) {
            Some(connection) => connection.flush()?,
            None => return Ok(()),
        }
        self.await_room(index)
    }

    /// Watches connection `index` for writability only while it has unsent bytes.
    pub(crate) fn await_room(&mut self, index: usize) -> Result<(), Error> {
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        let Some(connection) = &link.connection else { return Ok(()) };
        if connection.has_unsent() == link.awaits_room {
            return Ok(());
        }
        link.awaits_room = connection.has_unsent();
        let flags = if link.awaits_room { READABLE | EventFlags::OUT } else { READABLE };
        epoll::modify(&self.epoll, connection, EventData::new_u64(index as u64), flags)
            .map_err(|errno| Error::Io(errno.into()))
    }
}

/// Appends `count` requests of a plain load. Reads and writes are in the proportion `gets` to
/// `sets`.
pub(crate) fn encode(
    requests: &Requests,
    (gets, sets): (u32, u32),
    count: u64,
    (keys, random): (&mut Keys, &mut Rng),
    out: &mut Vec<u8>,
) {
    for _ in 0..count {
        let key = keys.next(random);
        let read = sets == 0 || random.u64(..u64::from(gets) + u64::from(sets)) < gets.into();
        if read {
            requests.get(key, out);
        } else {
            requests.set(key, out);
        }
    }
}
