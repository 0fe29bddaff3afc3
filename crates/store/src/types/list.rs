//! Lists: strings in insertion order.

use crate::collections::list::{List, ListLimit, ListRef};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::{SharedValue, Value, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::tree::cut::Garbage;
use crate::tree::layout::Elements;
use crate::tree::root::Side;
use crate::value::item::{OwnedText, Text};
use crate::value::string::StringValue;
use std::ops::{ControlFlow, Range};

/// Elements to be pushed to a list: all of a request's, or one part of them.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// The elements. Each is pushed beyond the one before it.
    pub elements: &'a [Text<'a>],
    /// The side of the list at which they are pushed.
    pub side: Side,
    /// With the first part: how many elements the request has, and how many bytes they have
    /// together.
    pub announced: Option<(usize, usize)>,
    /// Whether this is the last part of the request's elements.
    pub is_last: bool,
    /// Whether nothing is pushed if there is no list.
    pub only_existing: bool,
    /// Limits of a small list.
    pub limit: ListLimit,
}

/// Elements popped from one side of a list, in the order in which they are popped.
#[derive(Clone, Copy, Debug)]
pub struct Popped<'a> {
    list: ListRef<'a>,
    side: Side,
    count: u64,
}

/// Popped elements that can be read after the list was changed.
#[derive(Debug)]
pub struct SharedPopped {
    list: SharedValue,
    side: Side,
    count: u64,
}

/// The result of inserting an element next to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The element was inserted; the list now has this many elements.
    Done(u64),
    /// There is no list.
    NoList,
    /// The list has no such element.
    Missing,
    /// More elements would have to be examined than allowed; nothing has changed.
    TooLong,
}

impl<'a> Popped<'a> {
    fn new(list: ListRef<'a>, side: Side, count: u64) -> Self {
        Popped { list, side, count: count.min(list.len()) }
    }

    /// Returns the number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "callers need only the length")]
    pub fn len(self) -> u64 {
        self.count
    }

    /// Calls `show` with at most `most` elements after the first `skipped`.
    pub fn show(self, skipped: u64, most: u64, show: impl FnMut(StringValue<'_>)) {
        let most = most.min(self.count.saturating_sub(skipped));
        match self.side {
            Side::Start => self.list.show(skipped, Side::End, most, show),
            Side::End => {
                let rank = (self.list.len() - 1).saturating_sub(skipped);
                self.list.show(rank, Side::Start, most, show);
            }
        }
    }

    /// Returns a copy of the first element.
    #[must_use]
    pub fn first(self) -> Option<OwnedText> {
        self.list.to_owned_text(match self.side {
            Side::Start => 0,
            Side::End => self.list.len() - 1,
        })
    }

    /// Returns the elements, shared so that they can be read after the latch is released.
    #[must_use]
    pub fn share(self) -> SharedPopped {
        let Popped { list, side, count } = self;
        SharedPopped { list: Value::List(list).share(), side, count }
    }

    fn ranks(self) -> Range<u64> {
        match self.side {
            Side::Start => 0..self.count,
            Side::End => self.list.len() - self.count..self.list.len(),
        }
    }
}

impl SharedPopped {
    /// Returns the elements.
    #[must_use]
    pub fn read(&self) -> Option<Popped<'_>> {
        let list = self.list.read().list().ok()?;
        Some(Popped::new(list, self.side, self.count))
    }
}

fn pushed(side: Side) -> Event {
    if side == Side::Start { Event::LPush } else { Event::RPush }
}

fn popped(side: Side) -> Event {
    if side == Side::Start { Event::LPop } else { Event::RPop }
}

/// Converts a number of elements to a number of changes.
fn changes(elements: u64) -> u32 {
    u32::try_from(elements).unwrap_or(u32::MAX)
}

/// Returns the length that Redis assumes for an element that it moves between lists, in bytes.
fn announced_bytes(element: &Text<'_>) -> usize {
    if element.integer().is_some() { 0 } else { element.len() }
}

/// A result, and memory to be freed after the latch is released.
type WithGarbage<R> = (R, Option<Garbage<Elements>>);

impl Slot<'_> {
    fn list(&self) -> Result<Option<ListRef<'_>>, WrongType> {
        self.collection::<List>()
    }

    fn push(&mut self, push: &Push<'_>) -> Result<Option<u64>, WrongType> {
        if self.list()?.is_none() && push.only_existing {
            return Ok(None);
        }
        let len = self.change_collection(|list: &mut List, blocks| {
            if let Some((elements, bytes)) = push.announced {
                list.expect(elements, bytes, push.limit);
            }
            push.elements.iter().for_each(|element| list.push(push.side, element, blocks));
            (list.read().len(), changes(push.elements.len() as u64))
        })?;
        if push.is_last {
            self.note(pushed(push.side));
        }
        Ok(Some(len))
    }

    /// Calls `look` with elements, then pops them. `None` if there is no list.
    fn pop<R>(
        &mut self,
        side: Side,
        count: u64,
        limit: ListLimit,
        look: impl FnOnce(Popped<'_>) -> R,
    ) -> Result<Option<WithGarbage<R>>, WrongType> {
        let Some(list) = self.list()? else { return Ok(None) };
        let going = Popped::new(list, side, count);
        let (ranks, result) = (going.ranks(), look(going));
        if ranks.is_empty() {
            return Ok(Some((result, None)));
        }
        let count = changes(ranks.end - ranks.start);
        let garbage = self.change_collection(|list: &mut List, _| {
            let garbage = list.remove_range(ranks);
            list.shrunk(limit);
            (garbage, count)
        })?;
        self.note_removal(popped(side));
        Ok(Some((result, garbage)))
    }

    /// Returns the element at one end of the list.
    fn outermost(&self, side: Side) -> Result<Option<OwnedText>, WrongType> {
        let Some(list) = self.list()? else { return Ok(None) };
        let rank = if side == Side::Start { 0 } else { list.len() - 1 };
        Ok(list.to_owned_text(rank))
    }

    /// Moves an element from one end of the list to the other, or back to the same.
    fn rotate(
        &mut self,
        (from, to): (Side, Side),
        limit: ListLimit,
    ) -> Result<Option<OwnedText>, WrongType> {
        let Some(element) = self.outermost(from)? else { return Ok(None) };
        self.change_collection(|list: &mut List, blocks| {
            list.remove(if from == Side::Start { 0 } else { list.read().len() - 1 });
            let text = element.text();
            list.expect(1, announced_bytes(&text), limit);
            list.push(to, &text, blocks);
            list.shrunk(limit);
            ((), 1)
        })?;
        self.note(pushed(to));
        self.note(popped(from));
        Ok(Some(element))
    }

    fn insert_element(
        &mut self,
        rank: u64,
        element: &Text<'_>,
        limit: ListLimit,
    ) -> Result<u64, WrongType> {
        let len = self.change_collection(|list: &mut List, blocks| {
            list.expect(1, element.len(), limit);
            list.insert(rank, element, blocks);
            (list.read().len(), 1)
        })?;
        self.note(Event::LInsert);
        Ok(len)
    }

    fn remove_elements(&mut self, ranks: &[u64], limit: ListLimit) -> Result<(), WrongType> {
        if ranks.is_empty() {
            return Ok(());
        }
        self.change_collection(|list: &mut List, _| {
            list.remove_all(ranks);
            list.shrunk(limit);
            ((), changes(ranks.len() as u64))
        })
    }
}

impl Database<'_> {
    /// Pushes elements to a list, which is created if needed and allowed (LPUSH, RPUSH, LPUSHX,
    /// RPUSHX). Returns its length afterwards, or `None` if there is no list.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn push(&self, key: Key<'_>, push: &Push<'_>) -> Result<Option<u64>, WrongType> {
        self.write(key, |slot| slot.push(push))
    }

    /// Calls `look` with up to `count` elements at one end of a list, then pops them (LPOP, RPOP).
    /// A list without elements is removed. `None` if there is no list.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn pop<R>(
        &self,
        key: Key<'_>,
        side: Side,
        count: u64,
        limit: ListLimit,
        look: impl FnOnce(Popped<'_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        // The remaining nodes are freed after the latch is released.
        let popped = self.write(key, |slot| slot.pop(side, count, limit, look))?;
        Ok(popped.map(|(result, _)| result))
    }

    /// Like [`Database::pop`], for the first of several keys that has a list (LMPOP); `look` also
    /// gets its index.
    ///
    /// # Errors
    /// The value of a key before that list is not a list.
    pub fn pop_first<R>(
        &self,
        keys: &[Key<'_>],
        side: Side,
        count: u64,
        limit: ListLimit,
        look: impl FnOnce(usize, Popped<'_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let mut look = Some(look);
        let popped = self.latched(keys, |db| {
            for (place, key) in keys.iter().enumerate() {
                let pop = |slot: &mut Slot<'_>| {
                    slot.pop(side, count, limit, |popped| {
                        look.take().map(|look| look(place, popped))
                    })
                };
                if let Some(popped) = db.write(*key, pop)? {
                    return Ok(Some(popped));
                }
            }
            Ok(None)
        })?;
        Ok(popped.and_then(|(result, _)| result))
    }

    /// Moves an element from one end of a list to an end of another or the same list, atomically
    /// (LMOVE, RPOPLPUSH). Returns the element, if the source exists.
    ///
    /// # Errors
    /// One of the values is not a list; nothing has changed.
    pub fn move_element(
        &self,
        (from, from_side): (Key<'_>, Side),
        (to, to_side): (Key<'_>, Side),
        limit: ListLimit,
    ) -> Result<Option<OwnedText>, WrongType> {
        if from.bytes == to.bytes {
            return self.write(from, |slot| slot.rotate((from_side, to_side), limit));
        }
        self.latched(&[from, to], |db| {
            let Some(element) = db.write(from, |slot| slot.outermost(from_side))? else {
                return Ok(None);
            };
            let text = element.text();
            let push = Push {
                elements: std::slice::from_ref(&text),
                side: to_side,
                announced: Some((1, announced_bytes(&text))),
                is_last: true,
                only_existing: false,
                limit,
            };
            db.write(to, |slot| slot.push(&push))?;
            db.write(from, |slot| slot.pop(from_side, 1, limit, |_| ()))?;
            drop(text);
            Ok(Some(element))
        })
    }

    /// Replaces an element (LSET). `rank` is given the list's length and returns the element's
    /// index. Returns whether there is a list.
    ///
    /// # Errors
    /// An error of `rank`, or the value is not a list; nothing has changed.
    pub fn set_element<E: From<WrongType>>(
        &self,
        key: Key<'_>,
        rank: impl FnOnce(u64) -> Result<u64, E>,
        element: &Text<'_>,
        limit: ListLimit,
    ) -> Result<bool, E> {
        self.write(key, |slot| {
            let Some(list) = slot.list()? else { return Ok(false) };
            let rank = rank(list.len())?;
            slot.change_collection(|list: &mut List, blocks| {
                list.expect(1, element.len(), limit);
                list.set(rank, element, blocks);
                list.shrunk(limit);
                ((), 1)
            })?;
            slot.note(Event::LSet);
            Ok(true)
        })
    }

    /// Inserts an element before or after the first one that equals `pivot` (LINSERT), if that is
    /// among the first `most`.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn insert_beside(
        &self,
        key: Key<'_>,
        (pivot, side): (&Text<'_>, Side),
        most: u64,
        element: &Text<'_>,
        limit: ListLimit,
    ) -> Result<Insertion, WrongType> {
        self.write(key, |slot| {
            let Some(list) = slot.list()? else { return Ok(Insertion::NoList) };
            let mut found = None;
            let rest = list.search(pivot, 0, Side::End, most, |rank| {
                found = Some(rank);
                ControlFlow::Break(())
            });
            match (found, rest) {
                (Some(rank), _) => {
                    let rank = if side == Side::Start { rank } else { rank + 1 };
                    slot.insert_element(rank, element, limit).map(Insertion::Done)
                }
                (None, Some(_)) => Ok(Insertion::TooLong),
                (None, None) => Ok(Insertion::Missing),
            }
        })
    }

    /// Inserts an element at index `rank` of a list that is claimed. Returns the list's length
    /// afterwards. A list that has expired meanwhile is not created again.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn insert_element(
        &self,
        key: Key<'_>,
        rank: u64,
        element: &Text<'_>,
        limit: ListLimit,
    ) -> Result<Option<u64>, WrongType> {
        self.write(key, |slot| match slot.list()? {
            None => Ok(None),
            Some(_) => slot.insert_element(rank, element, limit).map(Some),
        })
    }

    /// Removes the first `count` elements that equal `element`, starting from one end (LREM).
    /// Returns how many were removed; `None`, with nothing changed, if more than `most` elements
    /// would have to be examined.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn remove_equal(
        &self,
        key: Key<'_>,
        element: &Text<'_>,
        (from, count): (Side, u64),
        most: u64,
        limit: ListLimit,
    ) -> Result<Option<u64>, WrongType> {
        self.write(key, |slot| {
            let Some(list) = slot.list()? else { return Ok(Some(0)) };
            let (rank, towards) = match from {
                Side::Start => (0, Side::End),
                Side::End => (list.len() - 1, Side::Start),
            };
            let mut ranks = Vec::new();
            let rest = list.search(element, rank, towards, most, |rank| {
                ranks.push(rank);
                if ranks.len() as u64 == count {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            if rest.is_some() {
                return Ok(None);
            }
            ranks.sort_unstable();
            slot.remove_elements(&ranks, limit)?;
            if !ranks.is_empty() {
                slot.note_removal(Event::LRem);
            }
            Ok(Some(ranks.len() as u64))
        })
    }

    /// Removes the elements at these indexes, in ascending order, of a list that is claimed. With
    /// `is_reported`, which the last part of a removal sets, the event is reported.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn remove_elements(
        &self,
        key: Key<'_>,
        ranks: &[u64],
        is_reported: bool,
        limit: ListLimit,
    ) -> Result<(), WrongType> {
        self.write(key, |slot| {
            if slot.list()?.is_some() {
                slot.remove_elements(ranks, limit)?;
            }
            if is_reported {
                slot.note_removal(Event::LRem);
            }
            Ok(())
        })
    }

    /// Removes all elements except those in the range that `kept` returns for the list's length
    /// (LTRIM). A list without elements is removed.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn trim(
        &self,
        key: Key<'_>,
        kept: impl FnOnce(u64) -> Range<u64>,
        limit: ListLimit,
    ) -> Result<(), WrongType> {
        let garbage = self.write(key, |slot| {
            let Some(list) = slot.list()? else { return Ok(None) };
            let len = list.len();
            let kept = kept(len);
            let removed = len - (kept.end - kept.start);
            if removed == 0 {
                // As in Redis.
                slot.note(Event::LTrim);
                slot.touch();
                return Ok(None);
            }
            let garbage = slot.change_collection(|list: &mut List, _| {
                let garbage = [list.remove_range(kept.end..len), list.remove_range(0..kept.start)];
                list.shrunk(limit);
                (garbage, changes(removed))
            })?;
            slot.note_removal(Event::LTrim);
            Ok(Some(garbage))
        })?;
        // The remaining nodes are freed after the latch is released.
        drop(garbage);
        Ok(())
    }

    /// Calls `look` with the list under a key.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn read_list<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<ListRef<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.read(key, |entry| entry.map(|entry| entry.collection::<List>()).transpose().map(look))
    }
}
