//! Tests all interleavings of the HTTP thread and a worker with loom: `cargo xtask loom`. A thread
//! that is not woken although there is data for it sleeps forever, which loom reports.

use crate::{ClientEnd, Notifier, Taken, Wakes, WorkerEnd, pipe};
use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A waker that unblocks a thread.
struct Bell {
    rung: Mutex<bool>,
    sleeper: Condvar,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Bell { rung: Mutex::new(false), sleeper: Condvar::new() })
    }

    /// Sleeps until the bell has rung since the last call.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.sleeper.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.sleeper.notify_one();
    }
}

/// The waker of a task of a thread: the thread polls the task only if it was woken.
struct Task {
    bell: Arc<Bell>,
    is_woken: Mutex<bool>,
}

impl Task {
    fn new(bell: &Arc<Bell>) -> Arc<Self> {
        Arc::new(Task { bell: Arc::clone(bell), is_woken: Mutex::new(true) })
    }

    fn was_woken(&self) -> bool {
        std::mem::take(&mut *self.is_woken.lock().unwrap())
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap() = true;
        Arc::clone(&self.bell).wake();
    }
}

/// Polls a task and then the notifier, as the runtime does, until the task has finished.
fn run<T>(notifier: &Notifier, mut task: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let bell = Bell::new();
    let tasks = [Task::new(&bell), Task::new(&bell)];
    let wakers = tasks.clone().map(Waker::from);
    let mut contexts = wakers.each_ref().map(|waker| Context::from_waker(waker));
    let [cx, notifier_cx] = &mut contexts;
    let [task_state, notifier_state] = &tasks;
    let mut notify_all = pin!(notifier.notify_all());
    loop {
        let polled = if task_state.was_woken() { task(cx) } else { Poll::Pending };
        if notifier_state.was_woken() {
            assert!(notify_all.as_mut().poll(notifier_cx).is_pending());
        }
        match polled {
            Poll::Ready(value) => return value,
            Poll::Pending => bell.wait(),
        }
    }
}

/// Sends a request and reads a reply of the same length; `None` if the pipe was closed.
fn exchange(client: &ClientEnd, notifier: &Notifier, request: &[u8]) -> Option<Vec<u8>> {
    let (mut sent, mut reply) = (0, Vec::new());
    run(notifier, |cx| {
        while let Some(left) = request.get(sent..).filter(|left| !left.is_empty()) {
            match client.poll_write(cx, left) {
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        while reply.len() < request.len() {
            match client.poll_read(cx, &mut reply) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Some(std::mem::take(&mut reply)))
    })
}

/// Starts a worker that replies with the bytes that it takes, until the client closes. The worker
/// returns all bytes that it took.
fn echo(worker: WorkerEnd) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let bell = Bell::new();
        worker.attach(Arc::clone(&bell).into());
        let (mut wakes, mut all, mut replied) = (Wakes::default(), Vec::new(), 0);
        loop {
            let mut has_taken = false;
            match worker.take(&mut wakes) {
                Taken::Bytes(bytes) => {
                    all.extend_from_slice(&bytes);
                    worker.give_back(bytes);
                    has_taken = true;
                }
                Taken::Nothing => {}
                Taken::End => return all,
            }
            if let Some(left) = all.get(replied..).filter(|left| !left.is_empty()) {
                replied += worker.put([left].into_iter(), &mut wakes).unwrap_or_default();
            }
            wakes.notify();
            if !has_taken {
                bell.wait();
            }
        }
    })
}

/// Runs a model in which a thread is preempted at most three times.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn requests_and_replies_arrive_in_order_with_little_room() {
    check(|| {
        let notifier = Arc::new(Notifier::default());
        let (client, worker) = pipe(&notifier);
        let worker = echo(worker);
        let request = [7; super::REQUEST_BYTES + super::REPLY_BYTES + 1];
        assert_eq!(exchange(&client, &notifier, &request).as_deref(), Some(&request[..]));
        drop(client);
        assert_eq!(worker.join().unwrap(), request);
    });
}

#[test]
fn worker_is_notified_of_each_request_after_a_reply() {
    check(|| {
        let notifier = Arc::new(Notifier::default());
        let (client, worker) = pipe(&notifier);
        let worker = echo(worker);
        for request in [b"a", b"b"] {
            assert_eq!(exchange(&client, &notifier, request).as_deref(), Some(&request[..]));
        }
        drop(client);
        assert_eq!(worker.join().unwrap(), b"ab");
    });
}

#[test]
fn two_pipes_share_a_notifier() {
    check(|| {
        let notifier = Arc::new(Notifier::default());
        let ends = [pipe(&notifier), pipe(&notifier)];
        let (clients, workers): (Vec<_>, Vec<_>) =
            ends.into_iter().map(|(client, worker)| (client, echo(worker))).unzip();
        let mut replies = [const { Vec::new() }; 2];
        let mut is_sent = false;
        run(&notifier, |cx| {
            for (client, reply) in clients.iter().zip(&mut replies) {
                if !is_sent {
                    assert!(matches!(client.poll_write(cx, b"x"), Poll::Ready(Ok(1))));
                }
                if reply.is_empty() {
                    assert!(!matches!(client.poll_read(cx, reply), Poll::Ready(Err(_))));
                }
            }
            is_sent = true;
            if replies.iter().any(Vec::is_empty) { Poll::Pending } else { Poll::Ready(()) }
        });
        drop(clients);
        for worker in workers {
            assert_eq!(worker.join().unwrap(), b"x");
        }
    });
}

#[test]
fn client_is_notified_that_its_worker_closed() {
    check(|| {
        let notifier = Arc::new(Notifier::default());
        let (client, worker) = pipe(&notifier);
        let worker = thread::spawn(move || drop(worker));
        assert_eq!(exchange(&client, &notifier, b"a"), None);
        worker.join().unwrap();
    });
}

#[test]
fn request_is_received_although_its_client_closed() {
    check(|| {
        let notifier = Arc::new(Notifier::default());
        let (client, worker) = pipe(&notifier);
        let worker = echo(worker);
        let sent = run(&notifier, |cx| client.poll_write(cx, b"a"));
        assert!(matches!(sent, Ok(1)));
        drop(client);
        assert_eq!(worker.join().unwrap(), b"a");
    });
}
