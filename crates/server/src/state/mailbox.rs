//! Tasks that other threads post for a worker, and the descriptor by which they wake it.

use crate::net::driver::Token;
use crate::net::link::Link;
use crate::net::protocol::Protocol;
use crate::net::waker::Waker;
use crate::state::mail::Mail;
use nagi_commands::HttpClient;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

pub(crate) use crate::state::mail::Reminders;

/// A task to run once, mostly for one connection.
pub(crate) enum ConnectionTask {
    /// Serve a connection that another worker has accepted.
    Serve(NewConnection),
    /// Continue a session whose wait has ended.
    Wake(Token),
    /// Close a connection that is marked as killed or evicted.
    Close(Token),
    /// Hand over to a worker the connections that send about this share of the requests.
    Relieve(usize, f64),
}

/// A connection that has been accepted.
pub(crate) struct NewConnection {
    pub(crate) link: Link,
    pub(crate) protocol: Protocol,
    /// Whether the connection is one of those reserved for administrators.
    pub(crate) is_reserved: bool,
    /// The client of requests over HTTP, if it is a gateway connection.
    pub(crate) gateway: Option<GatewayClient>,
}

/// The client of requests over HTTP that share a connection.
pub(crate) struct GatewayClient {
    /// The user of these requests; empty for the default user.
    pub(crate) user: Box<[u8]>,
    /// The client of the current request.
    pub(crate) client: Arc<HttpClient>,
}

/// The mailbox of one worker.
pub(crate) struct Mailbox {
    mail: Mail<ConnectionTask>,
    /// Pipes with input, each at most twice.
    notified: Mutex<Vec<Token>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let notified = Mutex::default();
        Ok(Mailbox { mail: Mail::new(), notified, waker: Waker::new()? })
    }

    /// Notifies the worker of input in a pipe.
    pub(crate) fn notify_pipe(&self, token: Token) {
        self.notified.lock().push(token);
        self.remind(Reminders::PIPES);
    }

    /// Swaps the notifications since the last call for an empty list.
    pub(crate) fn collect_notified(&self, notified: &mut Vec<Token>) {
        std::mem::swap(&mut *self.notified.lock(), notified);
    }

    /// Posts a task of a connection.
    pub(crate) fn post(&self, task: ConnectionTask) {
        if self.mail.post(task) {
            self.waker.wake();
        }
    }

    /// Posts reminders.
    pub(crate) fn remind(&self, reminders: Reminders) {
        if self.mail.remind(reminders) {
            self.waker.wake();
        }
    }

    /// Wakes the worker, whether or not it has mail.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// The waker that a driver watches.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Takes everything posted since the last call.
    pub(crate) fn collect(&self) -> (Reminders, Vec<ConnectionTask>) {
        self.mail.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::thread;

    /// How often the worker has been woken since the last call.
    fn wakes(mailbox: &Mailbox) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(mailbox.waker(), &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    fn token(index: u32) -> Token {
        Token { index, generation: 1 }
    }

    #[test]
    fn a_worker_is_woken_once_for_all_tasks_between_two_collections() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.collect().0, Reminders::empty());
        mailbox.remind(Reminders::HOUSEKEEPING);
        mailbox.remind(Reminders::HOUSEKEEPING | Reminders::WALK);
        (0..100).for_each(|index| mailbox.post(ConnectionTask::Wake(token(index))));
        assert_eq!(wakes(&mailbox), 1);
        let (reminders, tasks) = mailbox.collect();
        assert_eq!(reminders, Reminders::HOUSEKEEPING | Reminders::WALK);
        let in_order = (0..).zip(&tasks).all(
            |(index, task)| matches!(task, ConnectionTask::Wake(found) if *found == token(index)),
        );
        assert!(in_order && tasks.len() == 100);
        assert_eq!(wakes(&mailbox), 0);
        mailbox.post(ConnectionTask::Wake(token(7)));
        assert_eq!(wakes(&mailbox), 1);
        assert!(matches!(mailbox.collect().1[..], [ConnectionTask::Wake(_)]));
    }

    #[test]
    fn tasks_of_several_threads_are_all_collected() {
        const THREADS: u32 = 4;
        const TASKS: u32 = 2000;
        let mailbox = Mailbox::new().unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for number in 0..TASKS {
                        mailbox.post(ConnectionTask::Wake(token(thread * TASKS + number)));
                        mailbox.remind(Reminders::WALK);
                    }
                });
            }
            let mut found = vec![false; (THREADS * TASKS) as usize];
            let (mut left, mut reminded) = (found.len(), false);
            while left > 0 || !reminded {
                // Without a missing wake-up this poll would time out.
                let mut watched = [PollFd::new(mailbox.waker(), PollFlags::IN)];
                let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                assert_eq!(poll(&mut watched, Some(&timeout)).unwrap(), 1, "{left} are left");
                wakes(&mailbox);
                let (reminders, tasks) = mailbox.collect();
                reminded |= reminders.contains(Reminders::WALK);
                for task in tasks {
                    let ConnectionTask::Wake(token) = task else { panic!("another task") };
                    assert!(!std::mem::replace(&mut found[token.index as usize], true));
                    left -= 1;
                }
            }
        });
    }
}
