//! The subscribers of one worker, and the pending messages of each.
//!
//! Only the worker itself changes the table, and it distributes the contents of the inbox before it
//! adds or removes a subscription. Therefore, a client receives exactly the messages that were
//! published while it was subscribed.

use super::kind::{ByKind, Kind, Name};
use super::message::{Publication, cost_bytes};
use crate::state::client::ClientInfo;
use crate::state::sparse::shrink;
use nagi_proto::Output;
use nagi_proto::resp::Version;
use nagi_store::accounting::{Charge, room_bytes};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Approximate memory of one subscription in the sets and maps here, in bytes.
const SUBSCRIPTION_BYTES: usize = 64;

/// A worker's subscribers.
#[derive(Default)]
pub(super) struct Table {
    /// Slots are reused.
    subscribers: Vec<Option<Box<Subscriber>>>,
    free: Vec<u32>,
    /// The subscribers' slots, by client number.
    slots: HashMap<u64, u32>,
    /// Subscribers by channel or pattern.
    names: ByKind<HashMap<Name, BTreeSet<u32>>>,
    /// The slots of subscribers with pending messages, in the order of waiting.
    due: VecDeque<u32>,
    /// The cost of sending all pending messages, in bytes to copy.
    due_bytes: usize,
    /// Disconnected clients whose subscriptions are still to be removed.
    departed: Vec<Departed>,
}

struct Subscriber {
    client: Arc<ClientInfo>,
    names: ByKind<BTreeSet<Name>>,
    /// Its unsent messages.
    messages: Output,
    cost_bytes: usize,
    is_due: bool,
    charge: Charge,
}

/// The remaining subscriptions of a disconnected client. Its slot is reused once all are removed.
pub(super) struct Departed {
    slot: u32,
    names: ByKind<BTreeSet<Name>>,
}

impl Table {
    /// Adds a subscription. Returns whether it is new.
    pub(super) fn add(&mut self, client: &Arc<ClientInfo>, kind: Kind, name: &Name) -> bool {
        let slot = self.slot_of(client);
        let Some(Some(subscriber)) = self.subscribers.get_mut(slot as usize) else { return false };
        if !subscriber.names.of_mut(kind).insert(Arc::clone(name)) {
            return false;
        }
        subscriber.note();
        self.names.of_mut(kind).entry(Arc::clone(name)).or_default().insert(slot)
    }

    /// Returns the slot of a client, and assigns one if it has none.
    fn slot_of(&mut self, client: &Arc<ClientInfo>) -> u32 {
        if let Some(slot) = self.slots.get(&client.id) {
            return *slot;
        }
        let subscriber = Some(Box::new(Subscriber {
            client: Arc::clone(client),
            names: ByKind::default(),
            messages: Output::default(),
            cost_bytes: 0,
            is_due: false,
            charge: Charge::default(),
        }));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.subscribers.push(None);
            u32::try_from(self.subscribers.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(free) = self.subscribers.get_mut(slot as usize) {
            *free = subscriber;
        }
        self.slots.insert(client.id, slot);
        slot
    }

    /// Removes a subscription. Returns whether it existed. A client without further subscriptions
    /// loses its slot.
    pub(super) fn remove(&mut self, client: &ClientInfo, kind: Kind, name: &[u8]) -> bool {
        let Some(&slot) = self.slots.get(&client.id) else { return false };
        let Some(subscriber) = self.subscriber(slot) else { return false };
        if !subscriber.names.of_mut(kind).remove(name) {
            return false;
        }
        subscriber.note();
        if subscriber.names.iter().all(BTreeSet::is_empty) {
            self.slots.remove(&client.id);
            self.vacate(slot);
            self.free.push(slot);
        }
        self.remove_from_name(slot, kind, name);
        self.give_room_back();
        true
    }

    fn remove_from_name(&mut self, slot: u32, kind: Kind, name: &[u8]) {
        let names = self.names.of_mut(kind);
        if let Some(slots) = names.get_mut(name) {
            slots.remove(&slot);
            if slots.is_empty() {
                names.remove(name);
            }
        }
    }

    /// Empties a slot.
    fn vacate(&mut self, slot: u32) -> Option<Box<Subscriber>> {
        let subscriber = self.subscribers.get_mut(slot as usize)?.take()?;
        self.due_bytes -= subscriber.cost_bytes;
        Some(subscriber)
    }

    /// Stops sending messages to a client, and leaves the removal of its subscriptions to
    /// [`Table::next_departed`]. Returns whether it had any.
    pub(super) fn depart(&mut self, client: &ClientInfo) -> bool {
        let Some(slot) = self.slots.remove(&client.id) else { return false };
        let Some(mut subscriber) = self.vacate(slot) else { return false };
        let names = std::mem::take(&mut subscriber.names);
        subscriber.note();
        self.departed.push(Departed { slot, names });
        true
    }

    /// Takes a subscription of a disconnected client, to be removed from the map of names.
    pub(super) fn next_departed(&mut self) -> Option<(Kind, Name)> {
        loop {
            let departed = self.departed.last_mut()?;
            let slot = departed.slot;
            let next = Kind::ALL
                .into_iter()
                .find_map(|kind| departed.names.of_mut(kind).pop_first().map(|name| (kind, name)));
            if let Some((kind, name)) = next {
                self.remove_from_name(slot, kind, &name);
                return Some((kind, name));
            }
            self.departed.pop();
            self.free.push(slot);
            self.give_room_back();
        }
    }

    /// Frees capacity that is not needed after many subscribers have left. Slots are only freed
    /// when all are unused.
    fn give_room_back(&mut self) {
        shrink(&mut self.slots);
        if self.free.len() == self.subscribers.len() {
            self.subscribers = Vec::new();
            self.free = Vec::new();
            self.due = VecDeque::new();
        }
    }

    /// The names to which a client subscribes.
    pub(super) fn names_of(&self, client: &ClientInfo, kind: Kind) -> Vec<Name> {
        let slot = self.slots.get(&client.id).and_then(|at| self.subscribers.get(*at as usize));
        let subscriber = slot.and_then(Option::as_ref);
        subscriber.map_or_else(Vec::new, |it| it.names.of(kind).iter().cloned().collect())
    }

    /// Passes a message to all its subscribers.
    pub(super) fn distribute(&mut self, publication: &Publication) {
        let Table { names, subscribers, due, due_bytes, .. } = self;
        let of_channel = (publication.kind, &publication.channel, None);
        let of_patterns = publication.patterns.iter();
        let of_patterns = of_patterns.map(|pattern| (Kind::Pattern, pattern, Some(pattern)));
        for (kind, name, pattern) in std::iter::once(of_channel).chain(of_patterns) {
            let (mut as_two, mut as_three) = (None, None);
            for &slot in names.of(kind).get(name).into_iter().flatten() {
                let Some(Some(subscriber)) = subscribers.get_mut(slot as usize) else { continue };
                let version = subscriber.version();
                let encoded = match version {
                    Version::Two => &mut as_two,
                    Version::Three => &mut as_three,
                };
                let encoded = encoded.get_or_insert_with(|| publication.encode(pattern, version));
                *due_bytes += subscriber.push(encoded);
                if !std::mem::replace(&mut subscriber.is_due, true) {
                    due.push_back(slot);
                }
            }
        }
    }

    /// The pending messages of the next subscriber, with its connection slot.
    pub(super) fn next(&mut self) -> Option<(u64, Output)> {
        while let Some(slot) = self.due.pop_front() {
            let Some(subscriber) = self.subscriber(slot) else { continue };
            subscriber.is_due = false;
            let connection_token = subscriber.client.connection_token();
            let messages = self.take_at(slot);
            if !messages.is_empty() {
                return Some((connection_token, messages));
            }
        }
        None
    }

    /// Takes the pending messages of a client.
    pub(super) fn take(&mut self, client: &ClientInfo) -> Output {
        self.slots.get(&client.id).copied().map_or_else(Output::default, |at| self.take_at(at))
    }

    fn take_at(&mut self, slot: u32) -> Output {
        let Some(Some(subscriber)) = self.subscribers.get_mut(slot as usize) else {
            return Output::default();
        };
        self.due_bytes -= std::mem::take(&mut subscriber.cost_bytes);
        let messages = std::mem::take(&mut subscriber.messages);
        subscriber.note_memory();
        messages
    }

    /// The cost of sending all pending messages, in bytes to copy.
    pub(super) fn due_bytes(&self) -> usize {
        self.due_bytes
    }

    fn subscriber(&mut self, slot: u32) -> Option<&mut Subscriber> {
        self.subscribers.get_mut(slot as usize)?.as_deref_mut()
    }
}

impl Subscriber {
    fn version(&self) -> Version {
        match self.client.resp.load(Ordering::Relaxed) {
            3 => Version::Three,
            _ => Version::Two,
        }
    }

    /// Adds a pending message. Returns the cost of sending it.
    fn push(&mut self, encoded: &Output) -> usize {
        self.messages.append(encoded);
        self.note_memory();
        let cost_bytes = cost_bytes(encoded);
        self.cost_bytes += cost_bytes;
        cost_bytes
    }

    /// Updates its visible numbers of subscriptions.
    fn note(&mut self) {
        for (names, shown) in self.names.iter().zip(self.client.subscriptions.iter()) {
            shown.store(names.len(), Ordering::Relaxed);
        }
        self.note_memory();
    }

    fn note_memory(&mut self) {
        let names: usize = self.names.iter().map(BTreeSet::len).sum();
        let own_bytes = room_bytes::<Subscriber>(1) + self.messages.own_bytes();
        self.charge.set(names * SUBSCRIPTION_BYTES + own_bytes);
    }
}
