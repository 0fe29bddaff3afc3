//! Bytes received and not executed yet: a partial request, or requests beyond a connection's slice
//! of a tick.

use nagi_store::accounting::{self, Charge};

/// A buffer that is filled at its end and emptied at its front; each byte is moved at most twice.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// The start of the remaining bytes.
    start: usize,
    charge: Charge,
}

impl Input {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends received bytes. Memory grows with received bytes, never with announced lengths.
    pub(crate) fn push(&mut self, received: &[u8]) {
        if self.start >= self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity - len < received.len() {
            // Charged first: other threads may compute the size of the data during the move.
            let room = (len + received.len()).max(2 * capacity);
            self.charge.set(accounting::room_bytes::<u8>(room));
            self.bytes.reserve_exact(room - len);
        }
        self.bytes.extend_from_slice(received);
        self.charge.set(accounting::room_bytes::<u8>(self.bytes.capacity()));
    }

    /// Drops `len` bytes from the middle.
    pub(crate) fn cut(&mut self, at: usize, len: usize) {
        let from = self.start + at;
        self.bytes.drain(from..from + len);
    }

    /// The remaining bytes.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Drops the first `len` bytes; when none is left, the memory is freed.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            *self = Input::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Input {
        pub(crate) fn capacity(&self) -> usize {
            self.bytes.capacity()
        }
    }

    #[test]
    fn filling_and_emptying_keeps_the_order() {
        let mut input = Input::default();
        let (mut written, mut read) = (0_u8, 0_u8);
        for round in 0..500_usize {
            let received: Vec<u8> = (0..round % 7)
                .map(|_| {
                    written = written.wrapping_add(1);
                    written
                })
                .collect();
            input.push(&received);
            let taken = input.len().min(round % 5);
            for byte in &input.as_mut_slice()[..taken] {
                read = read.wrapping_add(1);
                assert_eq!(*byte, read);
            }
            input.consume(taken);
        }
        assert!(input.bytes.len() <= 2 * input.len() + 8, "the emptied front is reclaimed");
        let rest = input.len();
        input.consume(rest);
        assert_eq!(input.capacity(), 0, "an empty buffer has no memory");
    }
}
