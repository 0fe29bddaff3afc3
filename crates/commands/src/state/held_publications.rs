//! Messages and keyspace events of a running script. Other clients see the script as atomic, so its
//! messages are held, in order, until it ends: a subscriber that got a message earlier could still
//! read data that the script is about to change.
//!
//! They are stored per thread, since the store reports events while latches are held.

use crate::state::pubsub::{Kind, Message};
use nagi_proto::Chunk;
use nagi_store::Event;
use nagi_store::accounting::Charge;
use std::cell::RefCell;

/// Approximate memory of a held item besides its bytes, in bytes.
const OWN_BYTES: usize = 96;

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// An event that has occurred and has not been published.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(super) database: usize,
    pub(super) key: Chunk,
    pub(super) event: Event,
}

/// The items that a thread holds.
#[derive(Default)]
struct Held {
    publications: Vec<HeldPublication>,
    bytes: usize,
    /// Accounts for the bytes, which are not data, except those of messages that do so themselves.
    charge: Charge,
}

/// Something that is published later.
pub(crate) enum HeldPublication {
    Message(Kind, Box<[u8]>, Message),
    Event(QueuedEvent),
}

/// Makes this thread hold everything it publishes from now on.
pub(crate) fn begin() {
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_default();
    });
}

/// Holds an item of about `bytes` bytes, or returns it if this thread is not holding.
pub(crate) fn hold(publication: HeldPublication, bytes: usize) -> Option<HeldPublication> {
    HELD.with_borrow_mut(|held| match held {
        Some(held) => {
            let accounted = match &publication {
                HeldPublication::Message(_, _, message) => message.accounted_bytes(),
                HeldPublication::Event(_) => 0,
            };
            held.publications.push(publication);
            held.bytes += bytes + OWN_BYTES;
            held.charge.set(held.charge.bytes() + bytes + OWN_BYTES - accounted);
            None
        }
        None => Some(publication),
    })
}

/// Bytes that this thread holds.
pub(crate) fn bytes() -> usize {
    HELD.with_borrow(|held| held.as_ref().map_or(0, |held| held.bytes))
}

/// Whether this thread is holding.
pub(crate) fn is_holding() -> bool {
    HELD.with_borrow(Option::is_some)
}

/// Takes the held items, and ends holding.
pub(crate) fn end() -> Vec<HeldPublication> {
    HELD.take().map_or_else(Vec::new, |held| held.publications)
}
