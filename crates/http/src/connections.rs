//! The open connections, which are checked once a second for slow and ended ones. A timer for each
//! connection would cost as much as a short request.
//!
//! At the limit, a new connection replaces an idle one, so that pages about the server are always
//! available.

use crate::site::{IdleConnection, Site};
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::SockRef;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

/// Maximum number of connections, if there are enough descriptors.
pub const MAX_CONNECTIONS: usize = 1024;
/// The share of connections that is reserved for pages while all others execute commands.
const PART_FOR_PAGES: usize = 16;
/// Maximum number of connections that are being closed, beyond the others.
const MAX_LEAVING: usize = 64;
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long the first request of a connection may take to arrive, in checks (seconds).
const FIRST_REQUEST_WITHIN: u32 = 5;
/// How long later requests may take, and a connection may be idle, when few slots are left.
/// Otherwise there is no limit: a proxy may be sending a request on a connection that is just being
/// closed, and the request would be lost (502). Apache's prefork processes keep connections without
/// limit, whatever `ttl` is, so that no limit would be long enough.
const IDLE: u32 = 90;
/// The number of consecutive checks after which an ended connection is closed, so that a response
/// to a half-closed peer can be completed.
const ENDED_LOOKS: u32 = 2;
/// Maximum rejected connections that are sent the error at a time, and how long reading it may
/// take.
const MAX_REJECTING: usize = 64;
const REJECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The body is JSON: the request has not been read, and Upstash's clients can read nothing else.
const REJECTION: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 36\r\n\
    Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
    {\"error\":\"all connections are busy\"}";

/// All connections, in slots.
pub(crate) struct Connections {
    site: Arc<dyn Site>,
    places: RefCell<Vec<Option<Watched>>>,
    vacant: RefCell<Vec<usize>>,
    most: usize,
    /// The number of checked connections, and the notification of the first one.
    watched: Cell<usize>,
    begun: Notify,
    counts: Rc<Counts>,
    /// The number of connections being rejected.
    rejecting: Rc<Cell<usize>>,
}

/// State that all connections share.
#[derive(Debug)]
struct Counts {
    /// The number of checks so far.
    looks: Cell<u32>,
    /// The number of requests in progress, and the number above which only pages are served.
    answered: Cell<usize>,
    most_answered: usize,
}

/// Whether each of these connections has been closed by its peer, or has failed.
fn have_ended<'a>(sockets: impl Iterator<Item = &'a TcpStream>) -> Vec<bool> {
    let mut polled: Vec<_> = sockets.map(|it| PollFd::new(it, PollFlags::RDHUP)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut polled, Some(&at_once));
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    polled.iter().map(|it| it.revents().intersects(ends)).collect()
}

/// Waits until the peer of a connection from which nothing is read has closed it.
pub(crate) async fn ended(socket: &TcpStream) {
    loop {
        // A short pause in reading is none: what has been read must be passed on first.
        tokio::time::sleep(LOOK_PAUSE).await;
        if have_ended(std::iter::once(socket)) != [false] {
            return;
        }
    }
}

/// A connection in the periodic checks.
#[derive(Debug)]
struct Watched {
    socket: Arc<TcpStream>,
    peer: SocketAddr,
    /// Its number in lists of clients.
    number: u64,
    /// The check before which it was opened.
    opened_at: u32,
    progress: Progress,
    task: AbortHandle,
    ended_looks: u32,
    /// Whether the connection is being closed.
    is_leaving: bool,
}

/// A connection's slot, which is freed on drop.
pub(crate) struct Place {
    connections: Rc<Connections>,
    number: usize,
}

/// The state of a connection's requests.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    counts: Rc<Counts>,
    stage: Rc<Cell<Stage>>,
    requests: Rc<Cell<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A request is awaited, or its head is arriving; with the check at which that began, and the
    /// limit.
    Awaits { since: u32, within: u32 },
    /// A request is being answered.
    Answers,
}

/// A request whose response ends on drop.
#[derive(Debug)]
pub(crate) struct Answering(Progress);

impl Answering {
    /// Whether there are so many requests in progress that only pages are served.
    pub(crate) fn is_beyond_commands(&self) -> bool {
        let Counts { answered, most_answered, .. } = &*self.0.counts;
        answered.get() > *most_answered
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Progress { counts, stage, .. } = &self.0;
        counts.answered.set(counts.answered.get().saturating_sub(1));
        stage.set(Stage::Awaits { since: counts.looks.get(), within: IDLE });
    }
}

impl Progress {
    fn new(counts: &Rc<Counts>) -> Self {
        let stage = Stage::Awaits { since: counts.looks.get(), within: FIRST_REQUEST_WITHIN };
        Progress {
            counts: Rc::clone(counts),
            stage: Rc::new(Cell::new(stage)),
            requests: Rc::default(),
        }
    }

    /// Records that a request has arrived.
    pub(crate) fn request_begins(&self) -> Answering {
        self.stage.set(Stage::Answers);
        self.requests.set(self.requests.get() + 1);
        self.counts.answered.set(self.counts.answered.get() + 1);
        Answering(self.clone())
    }

    /// The number of checks for which a request has been awaited, and the limit.
    fn awaited_for(&self) -> Option<(u32, u32)> {
        match self.stage.get() {
            Stage::Awaits { since, within } => {
                Some((self.counts.looks.get().wrapping_sub(since), within))
            }
            Stage::Answers => None,
        }
    }

    /// Whether a request is awaited for too long. `has_room` means that there are free slots.
    fn is_overdue(&self, has_room: bool) -> bool {
        // The first check may come only a fraction of a second after the start.
        let is_past = |(looks, within)| looks > within && !(has_room && within == IDLE);
        self.awaited_for().is_some_and(is_past)
    }
}

impl Connections {
    pub(crate) fn new(most: usize, site: Arc<dyn Site>) -> Rc<Self> {
        let places = most + MAX_LEAVING;
        let counts = Counts {
            looks: Cell::default(),
            answered: Cell::default(),
            most_answered: most - most / PART_FOR_PAGES,
        };
        Rc::new(Connections {
            site,
            places: RefCell::new((0..places).map(|_| None).collect()),
            vacant: RefCell::new((0..places).rev().collect()),
            most,
            watched: Cell::new(0),
            begun: Notify::new(),
            counts: Rc::new(counts),
            rejecting: Rc::default(),
        })
    }

    /// Whether the maximum number of connections is reached.
    pub(crate) fn are_full(&self) -> bool {
        self.taken() >= self.most
    }

    /// The number of slots that are taken.
    fn taken(&self) -> usize {
        self.places.borrow().len() - self.vacant.borrow().len()
    }

    /// A slot for another connection. If there is none left, an idle connection is closed.
    pub(crate) fn place(self: &Rc<Self>) -> Option<Place> {
        if self.are_full() && !self.end_idle() {
            return None;
        }
        let number = self.vacant.borrow_mut().pop()?;
        self.site.note_connections(self.taken());
        Some(Place { connections: Rc::clone(self), number })
    }

    /// Closes the connection that has been idle longest; returns whether there is one. The
    /// connection ends as if its client had closed it: a response that has just begun has time
    /// until that is detected.
    fn end_idle(&self) -> bool {
        if self.vacant.borrow().is_empty() {
            return false;
        }
        let mut places = self.places.borrow_mut();
        let staying = places.iter_mut().flatten().filter(|it| !it.is_leaving);
        let mut idle: Vec<_> =
            staying.filter_map(|it| Some((it.progress.awaited_for()?, it))).collect();
        // Of those with equal idle time, connections that have had a response come first.
        idle.sort_by_key(|(awaited_for, _)| Reverse(*awaited_for));
        let ended = idle.into_iter().map(|(_, it)| it).find(|it| !is_readable(&it.socket));
        let Some(watched) = ended else { return false };
        watched.is_leaving = true;
        SockRef::from(&*watched.socket).shutdown(Shutdown::Read).is_ok()
    }

    /// Rejects a client with an error.
    pub(crate) fn turn_away(&self, stream: TcpStream) {
        self.site.count_refusal(503);
        if self.rejecting.get() >= MAX_REJECTING {
            return;
        }
        let rejecting = Rc::clone(&self.rejecting);
        rejecting.set(rejecting.get() + 1);
        spawn_local(async move {
            let _ = tokio::time::timeout(REJECT_TIMEOUT, send_rejection(&stream)).await;
            rejecting.set(rejecting.get() - 1);
        });
    }

    /// The progress of a new connection.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(&self.counts)
    }

    /// Adds a connection, which `task` serves, to the periodic checks.
    pub(crate) fn watch(
        &self,
        number: usize,
        (socket, peer): (Arc<TcpStream>, SocketAddr),
        progress: Progress,
        task: AbortHandle,
    ) {
        if let Some(place) = self.places.borrow_mut().get_mut(number) {
            *place = Some(Watched {
                socket,
                peer,
                number: self.site.next_connection_number(),
                opened_at: self.counts.looks.get(),
                progress,
                task,
                ended_looks: 0,
                is_leaving: false,
            });
            if self.watched.replace(self.watched.get() + 1) == 0 {
                self.begun.notify_one();
            }
        }
    }

    /// Checks all connections periodically, while it is polled.
    pub(crate) async fn look_periodically(&self) {
        loop {
            while self.watched.get() == 0 {
                self.begun.notified().await;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            self.look();
        }
    }

    /// Ends connections that are too slow, and those closed by their peers. hyper detects the
    /// latter when it reads, which it does not do while bytes are left after a request whose
    /// response has not ended.
    fn look(&self) {
        self.counts.looks.set(self.counts.looks.get().wrapping_add(1));
        let mut places = self.places.borrow_mut();
        let has_room = self.watched.get() <= self.most / 2;
        let mut watched: Vec<&mut Watched> = places.iter_mut().flatten().collect();
        let ended = have_ended(watched.iter().map(|it| &*it.socket));
        for (watched, has_ended) in watched.iter_mut().zip(ended) {
            watched.ended_looks = if has_ended { watched.ended_looks + 1 } else { 0 };
            if watched.ended_looks >= ENDED_LOOKS || watched.progress.is_overdue(has_room) {
                watched.task.abort();
            }
        }
        let looks = self.counts.looks.get();
        let idle = watched.iter().filter_map(|it| it.idle(looks)).collect();
        self.site.note_idle_connections(idle);
    }
}

impl Watched {
    /// The connection in lists, after `looks` checks, if it awaits a request.
    fn idle(&self, looks: u32) -> Option<IdleConnection> {
        let (idle_s, _) = self.progress.awaited_for()?;
        let age_s = looks.wrapping_sub(self.opened_at);
        let requests = self.progress.requests.get();
        Some(IdleConnection { number: self.number, address: self.peer, age_s, idle_s, requests })
    }
}

impl Place {
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Connections { places, vacant, watched, site, .. } = &*self.connections;
        let was_watched = places.borrow_mut().get_mut(self.number).and_then(Option::take);
        watched.set(watched.get() - usize::from(was_watched.is_some()));
        if watched.get() == 0 {
            // The checks pause.
            site.note_idle_connections(Vec::new());
        }
        vacant.borrow_mut().push(self.number);
        site.note_connections(self.connections.taken());
    }
}

/// Whether there are unread bytes.
fn is_readable(socket: &TcpStream) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    !matches!(rustix::event::poll(&mut polled, Some(&at_once)), Ok(0))
}

/// Sends a response and reads the request, since closing with unread bytes would reset the
/// connection and lose the response.
async fn send_rejection(stream: &TcpStream) -> io::Result<()> {
    stream.writable().await?;
    stream.try_write(REJECTION)?;
    SockRef::from(stream).shutdown(Shutdown::Write)?;
    let mut ignored = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut ignored) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::tests::Guarded;

    fn site() -> Arc<dyn Site> {
        Arc::new(Guarded(""))
    }

    #[test]
    fn a_connection_is_overdue_that_awaits_a_request_for_long() {
        let connections = Connections::new(1, site());
        let looks = &connections.counts.looks;
        looks.set(u32::MAX - 2);
        let overdue_after = |progress: &Progress, has_room| {
            let began = looks.get();
            (0..1000).find(|later| {
                looks.set(began.wrapping_add(*later));
                progress.is_overdue(has_room)
            })
        };
        let progress = connections.progress();
        assert_eq!(overdue_after(&progress, true), Some(FIRST_REQUEST_WITHIN + 1));
        let answering = progress.request_begins();
        assert_eq!(overdue_after(&progress, false), None);
        drop(answering);
        assert_eq!(overdue_after(&progress, true), None, "it may be a proxy's");
        drop(progress.request_begins());
        assert_eq!(overdue_after(&progress, false), Some(IDLE + 1));
    }

    #[test]
    fn the_last_connections_are_for_pages() {
        let connections = Connections::new(32, site());
        let progress: Vec<_> = (0..32).map(|_| connections.progress()).collect();
        let answering: Vec<_> = progress.iter().map(Progress::request_begins).collect();
        assert!(answering.iter().all(Answering::is_beyond_commands));
        let answering: Vec<_> = answering.into_iter().skip(2).collect();
        assert!(!answering.iter().any(Answering::is_beyond_commands));
    }

    /// Both ends of several connections.
    async fn sockets(count: usize) -> Vec<(Arc<TcpStream>, TcpStream)> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..count {
            let client = TcpStream::connect(address).await.unwrap();
            pairs.push((Arc::new(listener.accept().await.unwrap().0), client));
        }
        pairs
    }

    #[tokio::test]
    async fn idle_connections_are_closed_only_where_more_than_half_of_the_places_are_taken() {
        let test = async {
            let connections = Connections::new(4, site());
            let mut held = Vec::new();
            for (taken, (socket, peer)) in (1..).zip(sockets(3).await) {
                let (place, progress) = (connections.place().unwrap(), connections.progress());
                drop(progress.request_begins());
                let task = spawn_local(std::future::pending::<()>());
                let peer_address = peer.local_addr().unwrap();
                let socket = (socket, peer_address);
                connections.watch(place.number(), socket, progress, task.abort_handle());
                held.push((place, peer, task));
                (0..=IDLE).for_each(|_| connections.look());
                tokio::task::yield_now().await;
                let closed = held.iter().filter(|(.., task)| task.is_finished()).count();
                assert_eq!(closed, if taken == 3 { 3 } else { 0 }, "of {taken}");
            }
        };
        tokio::task::LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn the_connection_ends_that_has_been_idle_for_longest() {
        let test = async {
            let (connections, sockets) = (Connections::new(3, site()), sockets(3).await);
            let mut served = Vec::new();
            for (socket, peer) in &sockets {
                let (place, progress) = (connections.place().unwrap(), connections.progress());
                let task = spawn_local(std::future::pending::<()>()).abort_handle();
                let socket = (Arc::clone(socket), peer.local_addr().unwrap());
                connections.watch(place.number(), socket, progress.clone(), task);
                served.push((place, progress));
                connections.look();
            }
            let [first, second, third] = &*served else { panic!("three") };
            // The first one is busy, and the second one has sent something.
            let busy = first.1.request_begins();
            sockets[1].1.try_write(b"x").unwrap();
            sockets[1].0.readable().await.unwrap();
            assert!(connections.are_full());
            let fourth = connections.place().expect("the third one ends");
            let mut bytes = [0; 1];
            sockets[2].0.readable().await.unwrap();
            assert_eq!(sockets[2].0.try_read(&mut bytes).unwrap(), 0);
            assert!(connections.place().is_none(), "all others are busy");
            drop(busy);
            assert!(connections.place().is_some(), "the first one ends");
            drop(fourth);
            assert_eq!([first, second, third].map(|it| it.0.number()), [0, 1, 2]);
        };
        tokio::task::LocalSet::new().run_until(test).await;
    }
}
