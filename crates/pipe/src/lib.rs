//! In-memory pipes between the HTTP thread and the workers, in place of socket pairs.
//!
//! With sockets, a short request would cost four system calls on its way to a worker and back, and
//! would wake a thread each time. Here both sides leave bytes in buffers. The [`Notifier`] wakes
//! the other side once for everything written by then: a thread first handles everything that has
//! arrived.
//!
//! ```text
//! ClientEnd -> request -> WorkerEnd      workers have data to take
//! ClientEnd <- reply   <- WorkerEnd      tasks here have data to take
//! ```
//!
//! All buffers are allocated, and usually freed, by the HTTP thread, whose memory does not count as
//! data: a worker swaps them, and writes no more than their capacity.

#[cfg(all(test, loom))]
mod model;
mod mutex;

use mutex::Mutex;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Maximum bytes of requests that wait for a worker.
const REQUEST_BYTES: usize = if cfg!(loom) { 2 } else { 64 << 10 };
/// Capacity of the reply buffer: initially, and after replies have filled it.
const REPLY_BYTES: usize = if cfg!(loom) { 1 } else { 4 << 10 };
const MAX_REPLY_BYTES: usize = if cfg!(loom) { 2 } else { 16 << 10 };

/// The worker's end of a pipe. Dropping it closes the pipe.
#[derive(Debug)]
pub struct WorkerEnd(Arc<Pipe>);

/// The client's end, which sends requests and waits for replies.
#[derive(Debug)]
pub struct ClientEnd(Arc<Pipe>);

#[derive(Debug)]
struct Pipe {
    state: Mutex<State>,
    notifier: Arc<Notifier>,
}

#[derive(Debug, Default)]
struct State {
    request: Vec<u8>,
    /// An empty buffer that replaces the request buffer when the worker takes it.
    spare: Vec<u8>,
    reply: Vec<u8>,
    /// Wakes the worker; `None` until the worker has attached its waker.
    worker_waker: Option<Waker>,
    /// Whether the worker has been notified and will check the pipe.
    is_notified: bool,
    /// Whether the worker waits for room for its reply.
    is_full: bool,
    /// Tasks waiting for a reply, and for room for a request.
    reader: Option<Waker>,
    writer: Option<Waker>,
    client_closed: bool,
    worker_closed: bool,
}

/// Maximum number of workers notified together, so that the first requests need not wait for
/// hundreds of later ones.
const MAX_WORKER_WAKERS: usize = 32;

/// The initial capacity of the lists of wakers, so that workers need not allocate: a pipe has at
/// most two wakers.
const INITIAL_WAKERS: usize = 4096;

/// The result of reading from a pipe.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bytes, in a buffer to be returned with `WorkerEnd::give_back`.
    Bytes(Vec<u8>),
    /// No bytes yet.
    Nothing,
    /// No bytes, and none will follow.
    End,
}

/// The client has closed its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeClosed;

/// Clients with new replies that a worker has not notified yet.
#[derive(Debug, Default)]
pub struct Wakes {
    wakers: Vec<Waker>,
    notifier: Option<Arc<Notifier>>,
}

/// The workers and tasks to be notified of data in pipes.
#[derive(Debug, Default)]
pub struct Notifier {
    /// Wakers of workers.
    worker_wakers: Mutex<Vec<Waker>>,
    /// Wakers of tasks of the HTTP thread, added by workers.
    clients: Mutex<Vec<Waker>>,
    /// The waker of the task that polls the notifier.
    task: Mutex<Option<Waker>>,
}

/// Creates a pipe.
#[must_use]
pub fn pipe(notifier: &Arc<Notifier>) -> (ClientEnd, WorkerEnd) {
    let state = State { reply: Vec::with_capacity(REPLY_BYTES), ..State::default() };
    let pipe = Pipe { state: Mutex::new(state), notifier: Arc::clone(notifier) };
    let pipe = Arc::new(pipe);
    (ClientEnd(Arc::clone(&pipe)), WorkerEnd(pipe))
}

impl State {
    /// Returns the worker's waker, if it must be called for the worker to check the pipe.
    fn worker_waker(&mut self) -> Option<Waker> {
        let worker_waker = self.worker_waker.as_ref().filter(|_| !self.is_notified)?;
        self.is_notified = true;
        Some(worker_waker.clone())
    }
}

impl ClientEnd {
    /// Sends as many bytes as there is room for; pending while there is none.
    ///
    /// # Errors
    /// The worker has closed its end.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.state.lock();
        if state.worker_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let len = bytes.len().min(REQUEST_BYTES.saturating_sub(state.request.len()));
        if len == 0 && !bytes.is_empty() {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.request.extend_from_slice(bytes.get(..len).unwrap_or_default());
        let worker_waker = state.worker_waker();
        drop(state);
        self.0.notifier.notify_later(worker_waker);
        Poll::Ready(Ok(len))
    }

    /// Appends bytes of replies to `input`; pending while there are none.
    ///
    /// # Errors
    /// The worker has closed its end, and there is nothing left.
    pub fn poll_read(&self, cx: &mut Context<'_>, input: &mut Vec<u8>) -> Poll<io::Result<()>> {
        let mut state = self.0.state.lock();
        if state.reply.is_empty() {
            if state.worker_closed {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let has_filled_room = state.reply.len() == state.reply.capacity();
        if input.is_empty() {
            std::mem::swap(input, &mut state.reply);
        } else {
            input.extend_from_slice(&state.reply);
            state.reply.clear();
        }
        let room = if has_filled_room { MAX_REPLY_BYTES } else { REPLY_BYTES };
        if state.reply.capacity() < room {
            state.reply.reserve_exact(room);
        }
        let worker_waker =
            if std::mem::take(&mut state.is_full) { state.worker_waker() } else { None };
        drop(state);
        self.0.notifier.notify_later(worker_waker);
        Poll::Ready(Ok(()))
    }

    /// Whether the worker has not closed the pipe, and there is nothing to read.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let state = self.0.state.lock();
        !state.worker_closed && state.reply.is_empty()
    }

    /// Frees buffers that have grown beyond their initial capacity.
    pub fn shrink(&self) {
        let mut state = self.0.state.lock();
        if state.reply.is_empty() && state.reply.capacity() > REPLY_BYTES {
            state.reply = Vec::with_capacity(REPLY_BYTES);
        }
        if state.request.is_empty() {
            state.request = Vec::new();
        }
        state.spare = Vec::new();
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.client_closed = true;
        (state.reply, state.spare) = (Vec::new(), Vec::new());
        (state.reader, state.writer) = (None, None);
        let worker_waker = state.worker_waker.take();
        drop(state);
        if let Some(worker_waker) = worker_waker {
            worker_waker.wake();
        }
    }
}

impl WorkerEnd {
    /// Sets the waker that notifies the worker. The worker itself must check for requests that were
    /// sent before this call.
    pub fn attach(&self, worker_waker: Waker) {
        let mut state = self.0.state.lock();
        if !state.client_closed {
            state.worker_waker = Some(worker_waker);
        }
    }

    /// Takes the bytes that the client has sent.
    pub fn take(&self, wakes: &mut Wakes) -> Taken {
        let mut state = self.0.state.lock();
        state.is_notified = false;
        if state.request.is_empty() {
            return if state.client_closed { Taken::End } else { Taken::Nothing };
        }
        wakes.add(state.writer.take(), &self.0);
        let spare = std::mem::take(&mut state.spare);
        Taken::Bytes(std::mem::replace(&mut state.request, spare))
    }

    /// Returns a buffer whose bytes have been processed.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut state = self.0.state.lock();
        if !state.client_closed && state.spare.capacity() == 0 {
            state.spare = buffer;
        }
    }

    /// Passes as much of a reply to the client as there is room for. Returns the number of bytes;
    /// if that is not all, the worker is notified when there is room.
    ///
    /// # Errors
    /// The client has closed its end.
    pub fn put<'a>(
        &self,
        reply: impl Iterator<Item = &'a [u8]>,
        wakes: &mut Wakes,
    ) -> Result<usize, PipeClosed> {
        let mut state = self.0.state.lock();
        state.is_notified = false;
        if state.client_closed {
            return Err(PipeClosed);
        }
        let mut taken = 0;
        for bytes in reply {
            let len = bytes.len().min(state.reply.capacity() - state.reply.len());
            state.reply.extend_from_slice(bytes.get(..len).unwrap_or_default());
            taken += len;
            if len < bytes.len() {
                state.is_full = true;
                break;
            }
        }
        if taken > 0 {
            wakes.add(state.reader.take(), &self.0);
        }
        Ok(taken)
    }
}

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        let mut wakes = Wakes::default();
        let mut state = self.0.state.lock();
        state.worker_closed = true;
        state.worker_waker = None;
        wakes.add(state.reader.take(), &self.0);
        wakes.add(state.writer.take(), &self.0);
        drop(state);
        wakes.notify();
    }
}

impl Wakes {
    fn add(&mut self, waker: Option<Waker>, pipe: &Pipe) {
        let Some(waker) = waker else { return };
        self.wakers.push(waker);
        if self.notifier.is_none() {
            self.notifier = Some(Arc::clone(&pipe.notifier));
        }
    }

    /// Notifies the clients.
    #[inline]
    pub fn notify(&mut self) {
        if !self.wakers.is_empty()
            && let Some(notifier) = &self.notifier
        {
            notifier.wake_clients(&mut self.wakers);
        }
    }

    /// Returns the number of clients that fit without allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.wakers.capacity()
    }
}

impl Notifier {
    fn notify_later(&self, worker_waker: Option<Waker>) {
        let Some(worker_waker) = worker_waker else { return };
        let mut worker_wakers = self.worker_wakers.lock();
        worker_wakers.push(worker_waker);
        let count = worker_wakers.len();
        if count >= MAX_WORKER_WAKERS {
            worker_wakers.drain(..).for_each(Waker::wake);
        }
        drop(worker_wakers);
        if count == 1 {
            self.wake_task();
        }
    }

    fn wake_clients(&self, wakers: &mut Vec<Waker>) {
        let mut clients = self.clients.lock();
        let are_first = clients.is_empty();
        clients.append(wakers);
        drop(clients);
        if are_first {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }

    /// Notifies all pending workers and clients, forever. Its task runs after all runnable tasks,
    /// so that workers are notified once of all their requests.
    pub async fn notify_all(&self) {
        let mut wakers = Vec::with_capacity(INITIAL_WAKERS);
        for list in [&self.clients, &self.worker_wakers] {
            list.lock().reserve(INITIAL_WAKERS);
        }
        std::future::poll_fn(|cx| {
            let mut task = self.task.lock();
            if task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
                *task = Some(cx.waker().clone());
            }
            drop(task);
            for list in [&self.clients, &self.worker_wakers] {
                std::mem::swap(&mut *list.lock(), &mut wakers);
                wakers.drain(..).for_each(Waker::wake);
            }
            Poll::<()>::Pending
        })
        .await;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn take(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// A pipe with its notifier, and counts of notifications of its worker and its client.
    struct Fixture {
        client: ClientEnd,
        worker: WorkerEnd,
        wakes: Wakes,
        notifier: Arc<Notifier>,
        notified: Arc<Count>,
        woken: Arc<Count>,
    }

    impl Fixture {
        fn new() -> Self {
            let (notifier, notified) = (Arc::new(Notifier::default()), Arc::new(Count::default()));
            let (client, worker) = pipe(&notifier);
            worker.attach(Arc::clone(&notified).into());
            let (wakes, woken) = (Wakes::default(), Arc::default());
            Fixture { client, worker, wakes, notifier, notified, woken }
        }

        fn write(&self, bytes: &[u8]) -> Poll<Option<usize>> {
            let waker = Arc::clone(&self.woken).into();
            self.client.poll_write(&mut Context::from_waker(&waker), bytes).map(Result::ok)
        }

        fn read(&self) -> Poll<Option<Vec<u8>>> {
            let (waker, mut input) = (Arc::clone(&self.woken).into(), Vec::new());
            let read = self.client.poll_read(&mut Context::from_waker(&waker), &mut input);
            read.map(|read| read.ok().map(|()| input))
        }

        fn put(&mut self, reply: &[u8]) -> Result<usize, PipeClosed> {
            self.worker.put([reply].into_iter(), &mut self.wakes)
        }

        fn take(&mut self) -> Taken {
            self.worker.take(&mut self.wakes)
        }

        /// Delivers all notifications. Returns how many the worker and the client have received.
        fn deliver(&mut self) -> (usize, usize) {
            self.wakes.notify();
            for list in [&self.notifier.clients, &self.notifier.worker_wakers] {
                std::mem::take(&mut *list.lock()).into_iter().for_each(Waker::wake);
            }
            (self.notified.take(), self.woken.take())
        }
    }

    #[test]
    fn each_side_is_notified_once_for_all_pending_messages() {
        let mut it = Fixture::new();
        assert_eq!(it.read(), Poll::Pending);
        assert_eq!(it.write(b"GET "), Poll::Ready(Some(4)));
        assert_eq!(it.write(b"x"), Poll::Ready(Some(1)));
        assert_eq!(it.deliver(), (1, 0));
        assert_eq!(it.take(), Taken::Bytes(b"GET x".to_vec()));
        assert_eq!(it.take(), Taken::Nothing);
        assert_eq!((it.put(b"+O"), it.put(b"K")), (Ok(2), Ok(1)));
        assert_eq!(it.deliver(), (0, 1));
        assert_eq!(it.read(), Poll::Ready(Some(b"+OK".to_vec())));
        assert!(it.client.is_quiet());
        assert_eq!(it.write(b"y"), Poll::Ready(Some(1)));
        assert_eq!(it.deliver(), (1, 0), "it is notified again of what came after it has looked");
    }

    #[test]
    fn blocked_sender_is_notified_when_there_is_room() {
        let mut it = Fixture::new();
        let long = vec![b'x'; REQUEST_BYTES * 2];
        assert_eq!(it.write(&long), Poll::Ready(Some(REQUEST_BYTES)));
        assert_eq!(it.write(&long), Poll::Pending);
        assert_eq!(it.deliver(), (1, 0));
        assert!(matches!(it.take(), Taken::Bytes(bytes) if bytes.len() == REQUEST_BYTES));
        assert_eq!(it.deliver(), (0, 1));
        let mut sent = 0;
        for room in [REPLY_BYTES, MAX_REPLY_BYTES, MAX_REPLY_BYTES] {
            assert_eq!(it.put(&long[sent..]), Ok(room), "the room grows once it is filled");
            assert_eq!(it.put(&long[sent + room..]), Ok(0));
            assert_eq!(it.deliver().0, 0);
            assert!(matches!(it.read(), Poll::Ready(Some(bytes)) if bytes.len() == room));
            assert_eq!(it.deliver().0, 1);
            sent += room;
        }
    }

    #[test]
    fn close_arrives_after_everything_sent() {
        let mut it = Fixture::new();
        assert_eq!(it.read(), Poll::Pending);
        it.put(b"+OK").unwrap();
        let Fixture { client, worker, mut wakes, notifier, woken, .. } = it;
        wakes.notify();
        drop(worker);
        let mut it = Fixture { client, woken, notifier, ..Fixture::new() };
        assert_eq!(it.deliver().1, 1);
        assert_eq!(it.read(), Poll::Ready(Some(b"+OK".to_vec())));
        assert_eq!((it.read(), it.write(b"x")), (Poll::Ready(None), Poll::Ready(None)));

        let mut it = Fixture::new();
        assert_eq!(it.write(b"DEL x"), Poll::Ready(Some(5)));
        assert_eq!(it.deliver(), (1, 0));
        let Fixture { client, worker, mut wakes, notified, .. } = it;
        drop(client);
        assert_eq!(notified.take(), 1);
        assert_eq!(worker.take(&mut wakes), Taken::Bytes(b"DEL x".to_vec()));
        assert_eq!(worker.take(&mut wakes), Taken::End);
        assert_eq!(worker.put([&b"x"[..]].into_iter(), &mut wakes), Err(PipeClosed));
    }
}
