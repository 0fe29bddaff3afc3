//! Operations shared by hashes, sets, sorted sets and lists: building collections outside the
//! keyspace to insert them as a whole, and reads that take longer than a latch may be held.

use crate::collections::Name;
use crate::collections::hash::{FieldExpiry, Hash, HashLimits};
use crate::collections::list::{List, ListLimit};
use crate::collections::set::{Set, SetLimits, SetRef};
use crate::collections::sorted_set::{SortedSet, SortedSetLimits};
use crate::collections::stream::Stream;
use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::key::Key;
use crate::entry::root::Root;
use crate::entry::value::{Kind, NewValue, OwnedValue, SharedValue, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::store::Store;
use crate::tree::blocks::Blocks;
use crate::tree::root::Side;
use crate::value::item::Text;
use std::sync::Arc;

/// The maximum total size, in bytes, of values from which a result is computed while their latches
/// are held.
const QUICK_BYTES: usize = 16 * 1024;

/// The limits up to which OBJECT ENCODING reports collections as small, from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of hashes.
    pub hash: HashLimits,
    /// Of sets.
    pub set: SetLimits,
    /// Of sorted sets.
    pub sorted_set: SortedSetLimits,
    /// Of lists.
    pub list: ListLimit,
}

impl Default for Limits {
    /// Returns the limits of Redis' default settings.
    fn default() -> Self {
        Limits {
            hash: HashLimits { entries: 512, value_bytes: 64 },
            set: SetLimits { intset_entries: 512, listpack_entries: 128, value_bytes: 64 },
            sorted_set: SortedSetLimits { entries: 128, value_bytes: 64 },
            list: ListLimit::of_setting(-2),
        }
    }
}

/// Creates collections outside the keyspace.
#[derive(Clone, Debug)]
pub struct NewCollections {
    blocks: Arc<Blocks>,
    limits: Limits,
}

/// A collection that is built outside the keyspace, element by element.
#[derive(Debug)]
pub struct NewCollection {
    content: Content,
    limits: Limits,
    blocks: Arc<Blocks>,
}

#[derive(Debug)]
enum Content {
    Hash(Hash),
    /// `None` before the first member, which determines its encoding.
    Set(Option<Set>),
    /// A sorted set in the large form, which preserves -0, and the length of its longest member in
    /// bytes. Its encoding's name is settled once it is complete.
    SortedSet(SortedSet, usize),
    List(List),
    Stream(Box<Stream>),
}

/// An element of a collection that is being built.
#[derive(Clone, Copy, Debug)]
pub enum NewElement<'a> {
    /// A field of a hash, its value, and its expiry in milliseconds since 1970.
    Field(&'a Text<'a>, &'a Text<'a>, Option<u64>),
    /// A member of a set.
    Member(&'a Text<'a>),
    /// A member of a sorted set and its score, which is not NaN.
    Scored(&'a Text<'a>, f64),
    /// An element to be appended to a list.
    Item(&'a Text<'a>),
}

impl NewCollections {
    /// Creates collections for keys of `store`.
    #[must_use]
    pub fn new(store: &Store, limits: Limits) -> Self {
        NewCollections { blocks: Arc::clone(&store.blocks), limits }
    }

    /// Returns an empty collection of this type; `None` for types that are not collections.
    #[must_use]
    pub fn begin(&self, kind: Kind) -> Option<NewCollection> {
        Some(self.of(match kind {
            Kind::String | Kind::Stream => return None,
            Kind::Hash => Content::Hash(Hash::default()),
            Kind::Set => Content::Set(None),
            Kind::SortedSet => Content::SortedSet(SortedSet::default(), 0),
            Kind::List => Content::List(List::default()),
        }))
    }

    /// Wraps a stream, to store it like other collections.
    #[must_use]
    pub fn stream(&self, stream: Stream) -> NewCollection {
        self.of(Content::Stream(Box::new(stream)))
    }

    /// Returns an empty set for the union or the difference of sets. OBJECT ENCODING reports an
    /// intset until a member does not fit.
    #[must_use]
    pub fn begin_set(&self) -> NewCollection {
        self.of(Content::Set(Some(Set::default())))
    }

    /// Returns an empty set for the intersection of sets, of which this is the smallest. OBJECT
    /// ENCODING reports a listpack, unless the smallest set is an intset.
    #[must_use]
    pub fn begin_intersection(&self, smallest: &SharedValue) -> NewCollection {
        let is_intset = |set: SetRef<'_>| set.name() == Name::Intset;
        self.of(Content::Set(Some(match smallest.read().set().is_ok_and(is_intset) {
            true => Set::default(),
            false => Set::listpack(),
        })))
    }

    fn of(&self, content: Content) -> NewCollection {
        let NewCollections { blocks, limits } = self.clone();
        NewCollection { content, limits, blocks }
    }
}

impl NewCollection {
    /// Adds an element. Returns whether it is new; otherwise its value or score is replaced.
    ///
    /// # Errors
    /// The collection is of another type.
    pub fn add(&mut self, element: NewElement<'_>) -> Result<bool, WrongType> {
        let NewCollection { content, limits, blocks } = self;
        match (content, element) {
            (Content::Hash(hash), NewElement::Field(name, value, at_ms)) => {
                let expiry = at_ms.map_or(FieldExpiry::Never, FieldExpiry::At);
                Ok(hash.set(name, value, (expiry, 0), limits.hash, blocks))
            }
            (Content::Set(set), NewElement::Member(member)) => {
                let set = set.get_or_insert_with(|| Set::new(member, 1, limits.set));
                Ok(set.add(member, limits.set, blocks))
            }
            (Content::SortedSet(set, longest), NewElement::Scored(member, score)) => {
                *longest = member.len().max(*longest);
                Ok(set.set(member, score, SortedSetLimits::LARGE, blocks).is_none())
            }
            (Content::List(list), NewElement::Item(item)) => {
                list.push(Side::End, item, blocks);
                Ok(true)
            }
            _ => Err(WrongType),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "callers need only the length")]
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Hash(hash) => hash.read().len(),
            Content::Set(set) => set.as_ref().map_or(0, |set| set.read().len()),
            Content::SortedSet(set, _) => set.read().len(),
            Content::List(list) => list.read().len(),
            Content::Stream(stream) => stream.len(),
        }
    }

    /// Wraps a sorted set in the large form, whose longest member has `longest` bytes.
    pub(crate) fn of_sorted_set(
        set: SortedSet,
        longest: usize,
        limits: Limits,
        blocks: Arc<Blocks>,
    ) -> Self {
        NewCollection { content: Content::SortedSet(set, longest), limits, blocks }
    }

    /// Removes a member of a set.
    ///
    /// # Errors
    /// The collection is of another type.
    pub fn remove_member(&mut self, member: &Text<'_>) -> Result<bool, WrongType> {
        match &mut self.content {
            Content::Set(set) => Ok(set.as_mut().is_some_and(|set| set.remove(member))),
            _ => Err(WrongType),
        }
    }

    /// Makes OBJECT ENCODING report a set of integers as an intset if it has few enough members.
    pub fn narrow(&mut self) {
        let Content::Set(Some(set)) = &mut self.content else { return };
        if set.read().len() <= self.limits.set.intset_entries as u64 {
            set.become_intset();
        }
    }

    /// Converts the collection to a value for reading, without storing it in the keyspace.
    #[must_use]
    pub fn into_shared(self) -> SharedValue {
        SharedValue(match self.into_new_value(&mut Vec::new()) {
            NewValue::Piece(encoding, bytes) => OwnedValue::Piece(encoding, bytes.into()),
            NewValue::Int(value) => OwnedValue::Int(value),
            NewValue::Root(root) => OwnedValue::Root(root),
        })
    }

    /// Whether the collection is a stream with consumers.
    pub(crate) fn has_consumers(&self) -> bool {
        matches!(&self.content, Content::Stream(stream) if stream.has_consumers())
    }

    /// Returns the value to store; the bytes of a small one are moved to `packed`.
    pub(crate) fn into_new_value(self, packed: &mut Vec<u8>) -> NewValue<'_> {
        match self.content {
            Content::Hash(hash) => NewValue::from_collection(hash, packed),
            Content::Set(set) => NewValue::from_collection(set.unwrap_or_default(), packed),
            Content::SortedSet(mut set, longest) => {
                set.settle_name(longest, self.limits.sorted_set, &self.blocks);
                NewValue::from_collection(set, packed)
            }
            Content::List(mut list) => {
                list.expect(0, 0, self.limits.list);
                NewValue::from_collection(list, packed)
            }
            Content::Stream(stream) => NewValue::Root(Root::Stream(stream)),
        }
    }
}

impl Database<'_> {
    /// Returns the value under a key, which must be of one of these types, shared so that it can be
    /// read after the latch is released.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn share_as(&self, key: Key<'_>, kinds: &[Kind]) -> Result<Option<SharedValue>, WrongType> {
        self.read(key, |entry| match entry {
            Some(entry) if !kinds.contains(&entry.kind()) => Err(WrongType),
            entry => Ok(entry.map(|entry| entry.share_value())),
        })
    }

    /// Like [`Database::share_as`], for a request whose lookup has been counted, or that writes:
    /// this is no hit, no miss and no access.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn share_again(
        &self,
        key: Key<'_>,
        kinds: &[Kind],
    ) -> Result<Option<SharedValue>, WrongType> {
        self.inspect(key, |found| match found {
            Some((entry, _)) if !kinds.contains(&entry.kind()) => Err(WrongType),
            found => Ok(found.map(|(entry, _)| entry.share_value())),
        })
    }

    /// Like [`Database::share_as`], for several keys, atomically.
    ///
    /// # Errors
    /// One of the values is of another type.
    pub fn share_all(
        &self,
        keys: &[Key<'_>],
        kinds: &[Kind],
    ) -> Result<Vec<Option<SharedValue>>, WrongType> {
        self.latched(keys, |db| keys.iter().map(|key| db.share_as(*key, kinds)).collect())
    }

    /// Computes a collection from the values under `keys`, which are of these types, and stores it
    /// in `to`, atomically; `event` is reported. Returns the number of its elements; `None`, with
    /// nothing changed, if the values are together larger than `most_elements` or than the limit in
    /// bytes, since latches would be held for too long.
    ///
    /// # Errors
    /// An error of `make`, or one of the values is of another type; nothing has changed.
    pub fn derive_collection<E: From<WrongType>>(
        &self,
        (keys, kinds): (&[Key<'_>], &[Kind]),
        (to, event): (Key<'_>, Event),
        most_elements: u64,
        make: impl FnOnce(Vec<Option<SharedValue>>) -> Result<NewCollection, E>,
    ) -> Option<Result<u64, E>> {
        let mut all = keys.to_vec();
        all.push(to);
        self.latched(&all, |db| {
            let (mut elements, mut bytes) = (0, 0);
            for key in keys {
                let is_right = db.inspect(*key, |found| {
                    let Some((entry, _)) = found else { return true };
                    elements += entry.value().len();
                    bytes += entry.value_bytes();
                    kinds.contains(&entry.kind())
                });
                if !is_right {
                    return Some(Err(WrongType.into()));
                }
            }
            if elements > most_elements || bytes > QUICK_BYTES {
                return None;
            }
            let values = db.share_all(keys, kinds).map_err(E::from);
            Some(values.and_then(make).map(|made| db.store_collection(to, made, event)))
        })
    }

    /// Replaces the value of a key by a collection, reported as `event`; an empty collection
    /// removes the key. Returns the number of elements.
    pub fn store_collection(&self, key: Key<'_>, made: NewCollection, event: Event) -> u64 {
        let (len, mut packed) = (made.len(), Vec::new());
        let value = made.into_new_value(&mut packed);
        self.write(key, |slot| {
            if len == 0 {
                slot.delete();
            } else {
                slot.put(value, Attributes::default());
                slot.note(event);
            }
        });
        len
    }
}
