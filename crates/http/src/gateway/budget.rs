//! Limits on the memory of buffered bodies, replies and messages of all requests over HTTP. Each
//! may be long, and there may be a thousand of them.

use hyper::body::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The usual limit of a budget, in bytes.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded;

/// The bytes reserved by all requests for one purpose.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    held_bytes: Arc<AtomicUsize>,
}

/// The reservation of one request, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Budget,
    bytes: usize,
}

/// Bytes with their reservation.
struct Counted {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

impl Budget {
    /// An empty reservation.
    pub(super) fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

impl Reservation {
    /// Reserves more.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.grow_within(bytes, MAX_BYTES)
    }

    /// The same for a budget with another limit.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn grow_within(&mut self, bytes: usize, limit: usize) -> Result<(), Exceeded> {
        let before = self.budget.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > limit {
            self.shrink(bytes);
            return Err(Exceeded);
        }
        Ok(())
    }

    /// Releases a part of it.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Releases all of it.
    pub(super) fn clear(&mut self) {
        self.shrink(self.bytes);
    }

    /// Takes everything that is reserved.
    pub(super) fn take(&mut self) -> Self {
        Reservation { budget: self.budget.clone(), bytes: std::mem::take(&mut self.bytes) }
    }

    /// The reserved bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Attaches this reservation to its bytes.
    pub(super) fn attach(self, bytes: Vec<u8>) -> Bytes {
        if self.bytes == 0 {
            return bytes.into();
        }
        Bytes::from_owner(Counted { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_together_hold_so_much() {
        let budget = Budget::default();
        let held = || budget.held_bytes.load(Ordering::Relaxed);
        let mut first = budget.reservation();
        first.grow(MAX_BYTES - 10).unwrap();
        let mut second = budget.reservation();
        assert!(second.grow(11).is_err());
        second.grow(10).unwrap();
        assert!(first.grow(1).is_err());
        assert_eq!(held(), MAX_BYTES);
        let bytes = second.attach(b"0123456789".to_vec());
        let part = bytes.slice(3..5);
        drop((first, bytes));
        assert_eq!((held(), &part[..]), (10, &b"34"[..]));
        drop(part);
        assert_eq!(held(), 0);
    }
}
