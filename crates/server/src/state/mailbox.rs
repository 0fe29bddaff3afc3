//! What other threads leave for a worker to do.
//!
//! A worker is woken once for all that is left between two of its looks: a thread that finds
//! something there already knows that the wake-up is on its way.

use crate::net::driver::Token;
use crate::net::protocol::Protocol;
use crate::net::waker::Waker;
use bitflags::bitflags;
use parking_lot::Mutex;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Something to do for one connection.
pub(crate) enum Letter {
    /// To serve it: another worker has accepted it.
    NewConnection(NewConnection),
    /// To go on with its session: what that waits for has come.
    Wake(Token),
    /// To close it, so that clients take less memory.
    Evict(Token),
}

/// A connection that has been accepted.
pub(crate) struct NewConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) protocol: Protocol,
    /// Whether it takes one of the connections that are reserved for administrators.
    pub(crate) is_reserved: bool,
    /// The user of requests over HTTP, which take turns on it; empty for the default one.
    pub(crate) gateway_user: Option<Box<[u8]>>,
}

bitflags! {
    /// What there is to do that is the same however often it is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Reminders: u32 {
        /// To look for expired keys, idle clients and the like.
        const HOUSEKEEPING = 1;
        /// To empty database 0.
        const FLUSH = 1 << 1;
        /// To close connections that are marked as killed.
        const KILL = 1 << 2;
        /// To send monitors what they are shown.
        const MONITORS = 1 << 3;
        /// The same for clients that `watch`.
        const WATCHERS = 1 << 4;
        /// To walk for a snapshot.
        const WALK = 1 << 5;
        /// To accept from other listeners than before.
        const LISTENERS = 1 << 6;
        /// To look for letters.
        const LETTERS = 1 << 7;
        /// To send subscribers what has been published.
        const MESSAGES = 1 << 8;
    }
}

/// A worker's mailbox.
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    reminders: AtomicU32,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Mailbox {
            letters: Mutex::default(),
            reminders: AtomicU32::new(0),
            waker: Waker::new()?,
        })
    }

    /// Leaves a letter.
    pub(crate) fn post(&self, letter: Letter) {
        self.letters.lock().push(letter);
        self.remind(Reminders::LETTERS);
    }

    /// Leaves reminders.
    pub(crate) fn remind(&self, reminders: Reminders) {
        // The worker's swap comes after this in either case: it sees what was left before.
        if self.reminders.fetch_or(reminders.bits(), Ordering::AcqRel) == 0 {
            self.waker.wake();
        }
    }

    /// Wakes the worker, whether or not there is anything for it.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// By which a driver learns that the worker is woken.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Takes what has been left since this was called last.
    pub(crate) fn collect(&self) -> (Reminders, Vec<Letter>) {
        let reminders = Reminders::from_bits_truncate(self.reminders.swap(0, Ordering::AcqRel));
        let letters = match reminders.contains(Reminders::LETTERS) {
            true => std::mem::take(&mut *self.letters.lock()),
            false => Vec::new(),
        };
        (reminders.difference(Reminders::LETTERS), letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::thread;

    /// How often the worker has been woken since this was asked last.
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
    fn a_worker_is_woken_once_for_all_that_is_left_between_two_looks() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.collect().0, Reminders::empty());
        mailbox.remind(Reminders::HOUSEKEEPING);
        mailbox.remind(Reminders::HOUSEKEEPING | Reminders::WALK);
        (0..100).for_each(|index| mailbox.post(Letter::Wake(token(index))));
        assert_eq!(wakes(&mailbox), 1);
        let (reminders, letters) = mailbox.collect();
        assert_eq!(reminders, Reminders::HOUSEKEEPING | Reminders::WALK);
        let in_order = (0..)
            .zip(&letters)
            .all(|(index, letter)| matches!(letter, Letter::Wake(found) if *found == token(index)));
        assert!(in_order && letters.len() == 100);
        assert_eq!(wakes(&mailbox), 0);
        mailbox.post(Letter::Evict(token(7)));
        assert_eq!(wakes(&mailbox), 1);
        assert!(matches!(mailbox.collect().1[..], [Letter::Evict(_)]));
    }

    #[test]
    fn nothing_that_several_threads_leave_is_missed() {
        const THREADS: u32 = 4;
        const LETTERS: u32 = 2000;
        let mailbox = Mailbox::new().unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for number in 0..LETTERS {
                        mailbox.post(Letter::Wake(token(thread * LETTERS + number)));
                        mailbox.remind(Reminders::KILL);
                    }
                });
            }
            let mut found = vec![false; (THREADS * LETTERS) as usize];
            let (mut left, mut reminded) = (found.len(), false);
            while left > 0 || !reminded {
                // A wake-up that is missed would be waited for in vain.
                let mut watched = [PollFd::new(mailbox.waker(), PollFlags::IN)];
                let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                assert_eq!(poll(&mut watched, Some(&patience)).unwrap(), 1, "{left} are left");
                wakes(&mailbox);
                let (reminders, letters) = mailbox.collect();
                reminded |= reminders.contains(Reminders::KILL);
                for letter in letters {
                    let Letter::Wake(token) = letter else { panic!("another letter") };
                    assert!(!std::mem::replace(&mut found[token.index as usize], true));
                    left -= 1;
                }
            }
        });
    }
}
