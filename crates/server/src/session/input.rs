//! Bytes received and not executed yet: a partial request, or requests beyond a connection's slice
//! of a tick.

use nagi_store::accounting::{self, Charge};

/// From this capacity on, copying a buffer into a larger one takes long enough to be divided.
const LARGE_BYTES: usize = 256 * 1024;
/// The number of bytes that are copied ahead for each byte received. A buffer that is half full is
/// copied completely before it is full.
const COPIED_PER_BYTE: usize = 2;

/// A buffer that is filled at its end and emptied at its front; each byte is moved at most twice.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// The start of the remaining bytes.
    start: usize,
    charge: Charge,
    /// Where the bytes will be when this buffer is full.
    successor: Option<Box<Successor>>,
}

/// A larger buffer, into which the bytes are copied while they arrive.
#[derive(Debug, Default)]
struct Successor {
    /// A copy of the first bytes.
    bytes: Vec<u8>,
    charge: Charge,
}

impl Successor {
    fn with_room(capacity: usize) -> Self {
        let mut charge = Charge::default();
        charge.set(accounting::room_bytes::<u8>(capacity));
        Successor { bytes: Vec::with_capacity(capacity), charge }
    }

    /// Copies at most this many more bytes.
    fn copy(&mut self, from: &[u8], most: usize) {
        let missing = from.get(self.bytes.len()..).unwrap_or_default();
        self.bytes.extend_from_slice(missing.get(..most).unwrap_or(missing));
    }
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
            self.cancel_growth();
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity - len < received.len() {
            self.grow(len + received.len());
        }
        self.bytes.extend_from_slice(received);
        self.charge.set(accounting::room_bytes::<u8>(self.bytes.capacity()));
        if let Some(successor) = &mut self.successor {
            successor.copy(&self.bytes, COPIED_PER_BYTE * received.len());
        }
    }

    /// Makes room for `needed` bytes in total.
    fn grow(&mut self, needed: usize) {
        if let Some(mut successor) = self.successor.take()
            && successor.bytes.capacity() >= needed
        {
            successor.copy(&self.bytes, usize::MAX);
            self.bytes = successor.bytes;
            self.charge = successor.charge;
            return;
        }
        // Charged first: other threads may compute the size of the data during the move.
        let room = needed.max(2 * self.bytes.capacity());
        self.charge.set(accounting::room_bytes::<u8>(room));
        self.bytes.reserve_exact(room - self.bytes.len());
    }

    /// Prepares to grow if a request is still partial: from now on, bytes are copied while more
    /// arrive. Copying a buffer of megabytes at once would delay other connections.
    pub(crate) fn prepare_growth(&mut self) {
        let capacity = self.bytes.capacity();
        if capacity >= LARGE_BYTES && self.bytes.len() > capacity / 2 {
            self.successor.get_or_insert_with(|| Box::new(Successor::with_room(2 * capacity)));
        }
    }

    /// The number of bytes that have been copied to the larger buffer and exist twice.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.successor.as_ref().map_or(0, |successor| successor.bytes.len())
    }

    /// Must be called before bytes are changed that may have been copied.
    pub(crate) fn cancel_growth(&mut self) {
        self.successor = None;
    }

    /// Drops `len` bytes from the offset `at` on.
    pub(crate) fn cut(&mut self, at: usize, len: usize) {
        self.cancel_growth();
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

    #[test]
    fn a_large_buffer_is_copied_while_it_is_filled() {
        const RECEIVED: usize = 10_000;
        let mut input = Input::default();
        let mut pieces = (0..=u8::MAX).cycle().map(|value| [value; RECEIVED]);
        let (mut len, mut growths) = (0, 0);
        while input.capacity() < 8 * LARGE_BYTES {
            let before = input.capacity();
            let missing = input.successor.as_ref().map(|it| len - it.bytes.len());
            input.push(&pieces.next().unwrap());
            len += RECEIVED;
            assert!(input.successor.is_none() || input.copied_bytes() > 0);
            if before >= LARGE_BYTES && input.capacity() > before {
                let missing = missing.expect("it was prepared");
                assert!(missing <= 4 * RECEIVED, "{missing} bytes are copied at once");
                growths += 1;
            }
            input.prepare_growth();
        }
        assert!(growths >= 3, "{growths}");
        let values = input.as_mut_slice().chunks(RECEIVED).zip((0..=u8::MAX).cycle());
        assert!(values.into_iter().all(|(piece, value)| piece.iter().all(|it| *it == value)));
        input.cancel_growth();
        input.as_mut_slice()[0] = 1;
        (0..200).for_each(|_| input.push(&[0; RECEIVED]));
        assert_eq!(input.as_mut_slice()[0], 1, "no older copy has replaced it");
    }
}
