//! Invalidations on their way to clients that track keys.
//!
//! Each worker has an outbox, from which it sends for a slice of time. An outbox is bounded: once
//! it is full, a client gets a single push for all its further changes, which makes it drop all its
//! copies. So no writer waits until clients have read their invalidations.
//!
//! ```text
//! put:  full?  no: pushes        yes: one of the client in `merged`
//! take: pushes, and once these are sent, `merged`
//! ```

use crate::state::client::ClientInfo;
use nagi_proto::Output;
use nagi_proto::resp::{Version, Writer};
use nagi_store::accounting::{Charge, room_bytes};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The memory of an outbox's pushes with which it is full, in bytes.
pub(super) const FULL_BYTES: usize = 16 << 20;
/// How many pushes are sent together, and their approximate size in bytes.
const TAKEN_PUSHES: usize = 64;
const TAKEN_BYTES: usize = 64 << 10;
/// The approximate memory of a key besides its bytes, in bytes.
pub(super) const KEY_BYTES: usize = 64;
/// The channel of invalidations for RESP2 clients.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A push to a client. It is encoded when it is sent, since the client may change its protocol
/// version or its subscriptions before.
#[derive(Debug)]
pub struct Push {
    /// The client.
    pub client: Arc<ClientInfo>,
    pub(super) message: Message,
    /// Whether it concerns reads of another client.
    pub(super) is_redirected: bool,
}

/// The content of a push.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// These keys have changed.
    Changed(Arc<ChangedKeys>),
    /// All keys were removed, or more keys have changed than are worth to be listed.
    Flushed,
    /// The client with this number, to which invalidations were redirected, is gone.
    RedirectBroken(u64),
}

/// Changed keys, which the pushes to several clients share.
#[derive(Debug)]
pub(super) struct ChangedKeys {
    keys: Box<[Box<[u8]>]>,
    charge: Charge,
}

impl Message {
    /// These keys have changed.
    pub(super) fn changed<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Self {
        let keys: Box<[Box<[u8]>]> = keys.map(Box::from).collect();
        let mut charge = Charge::default();
        charge.set(keys.iter().map(|key| KEY_BYTES + key.len()).sum());
        Message::Changed(Arc::new(ChangedKeys { keys, charge }))
    }
}

impl ChangedKeys {
    /// The number of keys.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }
}

impl Push {
    /// Adds its encoding to `output`, unless the client could not distinguish it from a reply.
    pub fn encode(&self, output: &mut Output) {
        let version = match self.client.resp.load(Ordering::Relaxed) {
            3 => Version::Three,
            _ => Version::Two,
        };
        let mut writer = Writer::new(output, version);
        match (version, &self.message) {
            (Version::Three, Message::RedirectBroken(target)) => {
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                return writer.integer(i64::try_from(*target).unwrap_or(i64::MAX));
            }
            (Version::Three, _) => {
                writer.push(2);
                writer.bulk(b"invalidate");
            }
            (Version::Two, Message::Changed(_) | Message::Flushed)
                if self.is_redirected && self.client.is_subscriber() =>
            {
                writer.message(3);
                writer.bulk(b"message");
                writer.bulk(CHANNEL);
            }
            (Version::Two, _) => return,
        }
        if let Message::Changed(changed) = &self.message {
            writer.array(changed.keys.len());
            changed.keys.iter().for_each(|key| writer.bulk(key));
        } else {
            writer.null();
        }
    }

    /// Memory that it takes, in bytes. Keys count in each push that shares them.
    fn own_bytes(&self) -> usize {
        let keys = match &self.message {
            Message::Changed(changed) => changed.charge.bytes(),
            Message::Flushed | Message::RedirectBroken(_) => 0,
        };
        size_of::<Push>() + keys
    }

    /// What the push that replaces it shares with pushes that may be replaced by the same one.
    fn receiver(&self) -> Receiver {
        Receiver {
            client: self.client.id,
            is_redirected: self.is_redirected,
            is_broken: matches!(self.message, Message::RedirectBroken(_)),
        }
    }

    /// A push with which its client needs no other one about keys.
    fn about_all_keys(self) -> Self {
        match self.message {
            Message::Changed(_) => Push { message: Message::Flushed, ..self },
            Message::Flushed | Message::RedirectBroken(_) => self,
        }
    }
}

/// A client, and the kind of pushes to it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Receiver {
    client: u64,
    is_redirected: bool,
    is_broken: bool,
}

/// The pushes that a worker must send.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pushes: VecDeque<Push>,
    /// Memory of `pushes`, in bytes.
    bytes: usize,
    /// Pushes that replace those for which there was no room.
    merged: HashMap<Receiver, Push>,
    charge: Charge,
}

impl Outbox {
    /// Adds a push.
    pub(super) fn put(&mut self, push: Push) {
        if self.bytes < FULL_BYTES && self.merged.is_empty() {
            self.bytes += push.own_bytes();
            self.pushes.push_back(push);
        } else {
            self.merged.entry(push.receiver()).or_insert_with(|| push.about_all_keys());
        }
        self.note_memory();
    }

    /// Takes some pushes, to be sent together. Returns also whether there are more.
    pub(super) fn take(&mut self) -> (Vec<Push>, bool) {
        if self.pushes.is_empty() {
            self.pushes.extend(self.merged.drain().map(|(_, push)| push));
            self.bytes = self.pushes.iter().map(Push::own_bytes).sum();
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < TAKEN_PUSHES
            && bytes < TAKEN_BYTES
            && let Some(push) = self.pushes.pop_front()
        {
            bytes += push.own_bytes();
            taken.push(push);
        }
        self.bytes -= bytes;
        let has_more = !self.pushes.is_empty() || !self.merged.is_empty();
        if !has_more {
            *self = Outbox::default();
        }
        self.note_memory();
        (taken, has_more)
    }

    fn note_memory(&mut self) {
        let merged = room_bytes::<(Receiver, Push)>(self.merged.capacity());
        self.charge.set(room_bytes::<Push>(self.pushes.capacity()) + merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(client: &Arc<ClientInfo>, key: &[u8]) -> Push {
        let message = Message::changed(std::iter::once(key));
        Push { client: Arc::clone(client), message, is_redirected: false }
    }

    fn broken(client: &Arc<ClientInfo>) -> Push {
        let message = Message::RedirectBroken(7);
        Push { client: Arc::clone(client), message, is_redirected: false }
    }

    fn client(id: u64) -> Arc<ClientInfo> {
        Arc::new(ClientInfo { id, resp: 3.into(), ..ClientInfo::default() })
    }

    #[test]
    fn clients_of_a_full_outbox_drop_all_keys() {
        let (mut outbox, clients) = (Outbox::default(), [1, 2].map(client));
        let key = vec![b'k'; 1 << 20];
        for _ in 0..100 {
            clients.iter().for_each(|client| outbox.put(push(client, &key)));
        }
        outbox.put(broken(&clients[0]));
        outbox.put(broken(&clients[0]));
        assert!(outbox.bytes < FULL_BYTES + (2 << 20), "{}", outbox.bytes);
        let mut taken = Vec::new();
        loop {
            let (some, has_more) = outbox.take();
            taken.extend(some);
            if !has_more {
                break;
            }
        }
        let flushed: Vec<u64> = taken
            .iter()
            .filter(|push| matches!(push.message, Message::Flushed))
            .map(|push| push.client.id)
            .collect();
        assert_eq!(flushed.iter().sum::<u64>(), 3, "once for each: {flushed:?}");
        let last = taken.iter().rposition(|push| matches!(push.message, Message::Changed(_)));
        assert_eq!(last, Some(taken.len() - 4), "after the keys that are listed");
        // An empty outbox lists keys again.
        outbox.put(push(&clients[0], b"k"));
        let (taken, has_more) = outbox.take();
        assert!(matches!(taken[..], [Push { message: Message::Changed(_), .. }]) && !has_more);
        assert_eq!(outbox.charge.bytes(), 0);
    }
}
