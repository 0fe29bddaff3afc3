//! The connections that are served, and one look a second at all of them: which are too slow, and
//! which have ended. Timers of each would cost as much as a short request.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Connections at a time, if there are descriptors for so many; further ones wait to be accepted.
pub const MOST_CONNECTIONS: usize = 1024;
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long the first request of a connection may take to arrive, in looks.
const FIRST_REQUEST_WITHIN: u32 = 5;
/// How long further requests may take, and how long a connection may be idle, once there is no
/// room. Until then it may be idle for as long as its peer wants: a connection that is closed here
/// may be one that a proxy is sending a request on, which is lost (502). Apache's prefork processes
/// keep theirs without limit, and `ttl` does not change that, so that no number would be enough.
const IDLE: u32 = 90;
/// In how many looks in a row a connection has ended: what is being sent to a peer that sends
/// nothing more has time until then.
const ENDED_LOOKS: u32 = 2;

/// All connections, and places for further ones.
#[derive(Debug)]
pub(crate) struct Connections {
    places: RefCell<Vec<Option<Watched>>>,
    vacant: RefCell<Vec<usize>>,
    /// Tells that a place has become vacant.
    left: Notify,
    /// How many connections are watched, and what tells that there is a first one.
    watched: Cell<usize>,
    begun: Notify,
    /// How many looks there have been.
    looks: Rc<Cell<u32>>,
}

/// A connection as the looks see it.
#[derive(Debug)]
struct Watched {
    socket: Arc<TcpStream>,
    progress: Progress,
    task: AbortHandle,
    ended_looks: u32,
}

/// A connection's place, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Rc<Connections>,
    number: usize,
}

/// How far a connection's conversation is.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    looks: Rc<Cell<u32>>,
    stage: Rc<Cell<Stage>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first request is awaited since so many looks, or its head is arriving.
    AwaitsFirst { since: u32 },
    /// The same of a further one.
    AwaitsFurther { since: u32 },
    /// A request is being answered.
    Answers,
}

impl Progress {
    fn new(looks: &Rc<Cell<u32>>) -> Self {
        let stage = Stage::AwaitsFirst { since: looks.get() };
        Progress { looks: Rc::clone(looks), stage: Rc::new(Cell::new(stage)) }
    }

    /// A request has arrived.
    pub(crate) fn request_begins(&self) {
        self.stage.set(Stage::Answers);
    }

    /// Its response is over.
    pub(crate) fn response_ends(&self) {
        self.stage.set(Stage::AwaitsFurther { since: self.looks.get() });
    }

    /// Whether a request is awaited for too long, as long as there is room for other connections
    /// or not.
    fn is_overdue(&self, has_room: bool) -> bool {
        // The look that it began in was a part of a second ago.
        let is_past = |since, within| self.looks.get().wrapping_sub(since) > within;
        match self.stage.get() {
            Stage::AwaitsFirst { since } => is_past(since, FIRST_REQUEST_WITHIN),
            Stage::AwaitsFurther { since } => !has_room && is_past(since, IDLE),
            Stage::Answers => false,
        }
    }
}

impl Connections {
    pub(crate) fn new(most: usize) -> Rc<Self> {
        Rc::new(Connections {
            places: RefCell::new((0..most).map(|_| None).collect()),
            vacant: RefCell::new((0..most).rev().collect()),
            left: Notify::new(),
            watched: Cell::new(0),
            begun: Notify::new(),
            looks: Rc::default(),
        })
    }

    /// A place for another connection, once there is one.
    pub(crate) async fn place(self: &Rc<Self>) -> Place {
        loop {
            let vacant = self.vacant.borrow_mut().pop();
            match vacant {
                Some(number) => return Place { connections: Rc::clone(self), number },
                None => self.left.notified().await,
            }
        }
    }

    /// How far a new connection is.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(&self.looks)
    }

    /// Has the looks see a connection, which `task` serves.
    pub(crate) fn watch(
        &self,
        number: usize,
        socket: Arc<TcpStream>,
        progress: Progress,
        task: AbortHandle,
    ) {
        if let Some(place) = self.places.borrow_mut().get_mut(number) {
            *place = Some(Watched { socket, progress, task, ended_looks: 0 });
            if self.watched.replace(self.watched.get() + 1) == 0 {
                self.begun.notify_one();
            }
        }
    }

    /// Looks at all connections, for as long as it is polled.
    pub(crate) async fn look_periodically(&self) {
        loop {
            while self.watched.get() == 0 {
                self.begun.notified().await;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            self.look();
        }
    }

    /// Ends the connections that are too slow, and those whose peers have closed them. hyper
    /// notices the latter where it reads; it does not while bytes are left behind a request whose
    /// response has not ended.
    fn look(&self) {
        self.looks.set(self.looks.get().wrapping_add(1));
        let mut places = self.places.borrow_mut();
        let has_room = self.watched.get() <= places.len() / 2;
        let mut watched: Vec<&mut Watched> = places.iter_mut().flatten().collect();
        let ended: Vec<bool> = {
            let polled = watched.iter().map(|it| PollFd::new(&it.socket, PollFlags::RDHUP));
            let mut polled: Vec<PollFd<'_>> = polled.collect();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ = rustix::event::poll(&mut polled, Some(&at_once));
            let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            polled.iter().map(|it| it.revents().intersects(ends)).collect()
        };
        for (watched, has_ended) in watched.iter_mut().zip(ended) {
            watched.ended_looks = if has_ended { watched.ended_looks + 1 } else { 0 };
            if watched.ended_looks >= ENDED_LOOKS || watched.progress.is_overdue(has_room) {
                watched.task.abort();
            }
        }
    }
}

impl Place {
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Connections { places, vacant, left, watched, .. } = &*self.connections;
        let was_watched = places.borrow_mut().get_mut(self.number).and_then(Option::take);
        watched.set(watched.get() - usize::from(was_watched.is_some()));
        vacant.borrow_mut().push(self.number);
        left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::task::{Context, Waker};
    use tokio::net::TcpListener;

    #[test]
    fn a_connection_is_overdue_that_awaits_a_request_for_long() {
        let looks = Rc::new(Cell::new(u32::MAX - 2));
        let overdue_after = |progress: &Progress, has_room| {
            let began = looks.get();
            (0..1000).find(|later| {
                looks.set(began.wrapping_add(*later));
                progress.is_overdue(has_room)
            })
        };
        let progress = Progress::new(&looks);
        assert_eq!(overdue_after(&progress, true), Some(FIRST_REQUEST_WITHIN + 1));
        progress.request_begins();
        assert_eq!(overdue_after(&progress, false), None);
        progress.response_ends();
        assert_eq!(overdue_after(&progress, true), None, "it may be a proxy's");
        progress.response_ends();
        assert_eq!(overdue_after(&progress, false), Some(IDLE + 1));
    }

    /// Two connected sockets.
    async fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let peer = TcpStream::connect(address).await.expect("it is listened on");
        (Arc::new(listener.accept().await.expect("a connection").0), peer)
    }

    #[tokio::test]
    async fn idle_connections_are_closed_only_where_more_than_half_of_the_places_are_taken() {
        let connections = Connections::new(4);
        let mut held = Vec::new();
        for taken in 1..=3 {
            let (socket, peer) = pair().await;
            let place = connections.place().await;
            let progress = connections.progress();
            progress.response_ends();
            let task = tokio::spawn(std::future::pending::<()>());
            connections.watch(place.number(), socket, progress, task.abort_handle());
            held.push((place, peer, task));
            (0..=IDLE).for_each(|_| connections.look());
            tokio::task::yield_now().await;
            let closed = held.iter().filter(|(.., task)| task.is_finished()).count();
            assert_eq!(closed, if taken == 3 { 3 } else { 0 }, "of {taken}");
        }
    }

    #[tokio::test]
    async fn a_place_is_taken_again_once_it_is_left() {
        let connections = Connections::new(1);
        let place = connections.place().await;
        let mut next = std::pin::pin!(connections.place());
        let pending = next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(pending, "there is one place");
        drop(place);
        assert_eq!(next.await.number(), 0);
    }
}
