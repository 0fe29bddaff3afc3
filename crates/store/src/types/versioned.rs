//! Strings with versions and leases, in one step each: what memcached's meta and binary protocols
//! ask for beyond `string.rs` and `counter.rs`.
//!
//! A version's number (CAS) is kept only once a client has asked for it, as elsewhere; a caller
//! that wants the number of what it stores says so. A *stale* value is still given out, and one
//! client at a time is told that it has *won*: that it is the one to replace it.

use super::Refusal;
use super::string::Expiry;
use crate::effects::event::Event;
use crate::entry::attributes::{Attributes, Marks};
use crate::entry::key::Key;
use crate::entry::value::NewValue;
use crate::entry::view::EntryView;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::types::counter::Arithmetic;
use crate::value::number::parse_u64;
use crate::value::string::{StringInput, StringValue};

/// What a read does beside reading.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// What becomes of the expiry of an entry that was there.
    pub expiry: Expiry,
    /// Whether it is the expiry after that change which `refresh_ms` is compared with.
    pub expiry_first: bool,
    /// Where nothing stands, an empty value that expires then is put there, and the caller has
    /// won.
    pub vivify: Option<Expiry>,
    /// The caller may win a value that expires sooner than this, in milliseconds.
    pub refresh_ms: Option<i64>,
    /// Whether the version needs a number.
    pub versioned: bool,
    /// The number of what is vivified, if it is not the store's to choose.
    pub version: Option<u64>,
}

impl Default for Fetch {
    fn default() -> Self {
        let expiry = Expiry::Keep;
        Fetch {
            expiry,
            expiry_first: false,
            vivify: None,
            refresh_ms: None,
            versioned: false,
            version: None,
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The entry, after what the read did to it, but for the mark that it was fetched.
    pub entry: EntryView<'a>,
    /// Its value.
    pub value: StringValue<'a>,
    /// When it expired before the read changed that, in milliseconds since 1970.
    pub expired_at_ms: Option<u64>,
    /// How long it had not been used, in milliseconds.
    pub idle_ms: u64,
    /// Whether the caller is the one to replace the value.
    pub won: bool,
    /// Whether it was put there for the caller.
    pub vivified: bool,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever stands there.
    Set,
    /// Where nothing stands.
    Add,
    /// Where something stands.
    Replace,
    /// After what stands there, whose flags and expiry stay.
    Append,
    /// Before what stands there, whose flags and expiry stay.
    Prepend,
}

/// A value to store.
#[derive(Debug)]
pub struct Write<'a> {
    /// How.
    pub mode: Mode,
    /// The value, or what is added to it.
    pub value: StringInput<'a>,
    /// memcached's client flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The number that the version must have which is replaced.
    pub expected: Option<u64>,
    /// Whether an older number than the version's will do, and makes the new value stale; it then
    /// expires when the old one would have.
    pub allow_older: bool,
    /// Where nothing stands to which could be added, the value is stored and expires then.
    pub vivify: Option<Expiry>,
    /// The number of the new version, if it is not the store's to choose.
    pub version: Option<u64>,
    /// Whether the new version needs a number.
    pub versioned: bool,
    /// Longest value that adding may make, in bytes.
    pub limit_bytes: usize,
}

/// What became of a write or a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done.
    Done {
        /// The version's number, where one was asked for or given.
        cas: Option<u64>,
        /// How long the value is now, in bytes; 0 of a removal.
        bytes: usize,
    },
    /// The mode did not allow it.
    Refused,
    /// Adding to the value would have made it too long.
    TooLong,
    /// It is not the version that was expected.
    Changed,
    /// There is nothing whose version could be compared.
    Missing,
}

/// How a counter is moved.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Where to.
    pub step: Arithmetic,
    /// The number that the version must have.
    pub expected: Option<u64>,
    /// What becomes of the expiry.
    pub expiry: Expiry,
    /// Where nothing stands, the number that is put there, and when it expires.
    pub initial: Option<(u64, Expiry)>,
    /// The number of the new version, if it is not the store's to choose.
    pub version: Option<u64>,
    /// Whether the new version needs a number.
    pub versioned: bool,
}

impl Count {
    /// A plain step.
    #[must_use]
    pub fn plain(step: Arithmetic) -> Self {
        let (expected, initial, version) = (None, None, None);
        Count { step, expected, expiry: Expiry::Keep, initial, version, versioned: false }
    }
}

/// What became of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It stands there now.
    At {
        /// The number.
        number: u64,
        /// The version's, where one was asked for or given.
        cas: Option<u64>,
        /// When it expires, and when it expired before; in milliseconds since 1970.
        expire_at_ms: (Option<u64>, Option<u64>),
        /// Whether it was put there now.
        created: bool,
    },
    /// It is not the version that was expected.
    Changed,
    /// There is none.
    Missing,
}

/// How a value is removed, or declared out of date.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The number that the version must have.
    pub expected: Option<u64>,
    /// The entry stays and is stale.
    pub invalidate: bool,
    /// The entry stays without value and expiry, and with these client flags.
    pub clear: Option<u32>,
    /// What becomes of the expiry of an entry that stays.
    pub expiry: Expiry,
    /// The number of the version of an entry that stays, if it is not the store's to choose.
    pub version: Option<u64>,
}

impl Slot<'_> {
    /// Calls `look` with the string, and does what else `fetch` says.
    fn fetch<R>(&mut self, fetch: &Fetch, look: impl FnOnce(Option<Fetched<'_>>) -> R) -> R {
        let found = self.entry().is_some();
        let vivified = !found && self.vivify(fetch);
        let expired_at_ms = self.entry().and_then(|entry| entry.expire_at_ms());
        let expiry = if vivified { Expiry::Keep } else { fetch.expiry };
        if fetch.expiry_first {
            self.postpone(expiry);
        }
        let won = vivified || self.win(fetch);
        if fetch.versioned {
            self.ensure_cas();
        }
        if !fetch.expiry_first {
            self.postpone(expiry);
        }
        let idle_ms = if found { self.idle_ms() } else { 0 };
        let entry = self.entry().and_then(|entry| Some((entry, entry.string().ok()?)));
        let result = look(entry.map(|(entry, value)| Fetched {
            entry,
            value,
            expired_at_ms,
            idle_ms,
            won,
            vivified,
        }));
        if self.leaves_traces() {
            self.mark_fetched();
        }
        // A time that has passed holds from now on: the value has still been shown.
        self.bury();
        result
    }

    /// Puts an empty value where nothing stands, which the caller has won.
    fn vivify(&mut self, fetch: &Fetch) -> bool {
        let Some(expiry) = fetch.vivify else { return false };
        let marks = Marks { won: true, ..Marks::default() };
        let cas = fetch.version;
        let expire_at_ms = expiry.at_ms(None);
        let attributes = Attributes { expire_at_ms, cas, marks, ..Attributes::default() };
        self.put(NewValue::from_bytes(b""), attributes);
        self.note_stored(expiry);
        true
    }

    /// Gives the caller a value that is stale or expires soon, unless another has won it.
    fn win(&mut self, fetch: &Fetch) -> bool {
        let Some(entry) = self.entry() else { return false };
        let marks = entry.marks();
        let left_ms = entry.expire_at_ms().map(|at_ms| at_ms.saturating_sub(self.now_ms()));
        let soon = match (left_ms, fetch.refresh_ms) {
            (Some(left_ms), Some(refresh_ms)) => {
                i64::try_from(left_ms).is_ok_and(|left_ms| left_ms < refresh_ms)
            }
            _ => false,
        };
        let won = !marks.won && (marks.stale || soon);
        if won {
            self.set_marks(Marks { won, ..marks });
        }
        won
    }

    /// Notes that a value was stored that expires so.
    fn note_stored(&mut self, expiry: Expiry) {
        self.note(Event::Set);
        if matches!(expiry, Expiry::AtMs(_)) {
            self.note(Event::Expire);
        }
    }

    /// Removes what has expired by now.
    fn bury(&mut self) {
        let expire_at_ms = self.entry().and_then(|entry| entry.expire_at_ms());
        if expire_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms()) {
            self.delete();
        }
    }

    /// Stores a value, or adds to one where there is none but what is to be added.
    fn store(
        &mut self,
        write: &Write<'_>,
        value: Result<NewValue<'_>, StringInput<'_>>,
    ) -> Written {
        let (entry, mode) = (self.entry(), write.mode);
        let marks = match (&entry, write.expected) {
            (None, Some(_)) if matches!(mode, Mode::Set | Mode::Replace) => {
                return Written::Missing;
            }
            (None, _) if mode == Mode::Replace => return Written::Refused,
            (Some(_), _) if mode == Mode::Add => return Written::Refused,
            (None, _) => Marks::default(),
            (Some(entry), expected) => match marks_of_next(self, entry, write, expected) {
                Some(marks) => marks,
                None => return Written::Changed,
            },
        };
        match value {
            Ok(value) => {
                let old_ms = entry.and_then(|entry| entry.expire_at_ms());
                // What is stale from the start lives no longer than what it replaces.
                let expiry = if marks.stale { Expiry::Keep } else { write.expiry };
                let expire_at_ms = expiry.at_ms(old_ms);
                let attributes = Attributes { expire_at_ms, flags: write.flags, cas: None, marks };
                self.put(value, attributes);
                self.note_stored(expiry);
            }
            Err(added) => {
                if let Some(refusal) = add_to(self, write, added) {
                    return refusal;
                }
            }
        }
        let cas = number(self, write.version, write.versioned);
        let bytes = self.entry().map_or(0, |entry| entry.value_bytes());
        self.bury();
        Written::Done { cas, bytes }
    }

    /// Moves an unsigned counter.
    fn count(&mut self, count: &Count) -> Result<Counted, Refusal> {
        let created = self.entry().is_none();
        let before = self.entry().and_then(|entry| entry.expire_at_ms());
        let number_now = match (self.entry(), count.initial) {
            (None, None) => return Ok(Counted::Missing),
            (None, Some((initial, expiry))) => {
                let expire_at_ms = expiry.at_ms(None);
                let attributes = Attributes { expire_at_ms, ..Attributes::default() };
                with_number(initial, |value| self.put(value, attributes));
                self.note(Event::IncrBy);
                initial
            }
            (Some(entry), _) => {
                // The order in which memcached finds faults: nothing at all is not a number first.
                if entry.string().map_or(true, |string| string.is_empty()) {
                    return Err(Refusal::NotANumber);
                }
                if count.expected.is_some_and(|expected| entry.cas() != Some(expected)) {
                    return Ok(Counted::Changed);
                }
                let old = number_of(&entry).ok_or(Refusal::NotANumber)?;
                let new = match count.step {
                    Arithmetic::Up(amount) => old.wrapping_add(amount),
                    Arithmetic::Down(amount) => old.saturating_sub(amount),
                };
                with_number(new, |value| self.set_value(value));
                self.note(Event::IncrBy);
                self.postpone(count.expiry);
                new
            }
        };
        let cas = number(self, count.version, count.versioned);
        let after = self.entry().and_then(|entry| entry.expire_at_ms());
        self.bury();
        let expire_at_ms = (after, if created { after } else { before });
        Ok(Counted::At { number: number_now, cas, expire_at_ms, created })
    }

    /// Removes the entry, or declares it out of date.
    fn remove_versioned(&mut self, removal: &Removal) -> Written {
        let Some(entry) = self.entry() else { return Written::Missing };
        if removal.expected.is_some_and(|expected| entry.cas() != Some(expected)) {
            return Written::Changed;
        }
        if !removal.invalidate && removal.clear.is_none() {
            self.delete();
            return Written::Done { cas: None, bytes: 0 };
        }
        if let Some(flags) = removal.clear {
            self.put(NewValue::from_bytes(b""), Attributes { flags, ..Attributes::default() });
            self.note(Event::Set);
        }
        self.postpone(removal.expiry);
        if removal.invalidate {
            let fetched = self.entry().is_some_and(|entry| entry.marks().fetched);
            self.set_marks(Marks { fetched, stale: true, won: false });
        }
        self.set_cas(removal.version);
        self.bury();
        Written::Done { cas: removal.version, bytes: 0 }
    }
}

impl Database<'_> {
    /// Calls `look` with the string under `key`, and does what else `fetch` says. What is of
    /// another type is not shown and stays as it is.
    pub fn fetch<R>(
        &self,
        key: Key<'_>,
        fetch: &Fetch,
        look: impl FnOnce(Option<Fetched<'_>>) -> R,
    ) -> R {
        self.write(key, |slot| {
            if slot.string().is_err() {
                self.count_lookup(false);
                return look(None);
            }
            self.count_lookup_in(slot);
            slot.fetch(fetch, look)
        })
    }

    /// Stores a value, or adds to one. What is of another type is replaced, and not added to.
    pub fn store_versioned(&self, key: Key<'_>, mut write: Write<'_>) -> Written {
        let value = std::mem::replace(&mut write.value, StringInput::Bytes(b""));
        let write = &write;
        let value = match write.mode {
            Mode::Set | Mode::Add | Mode::Replace => Ok(NewValue::from_input(value)),
            Mode::Append | Mode::Prepend => Err(value),
        };
        self.write(key, |slot| slot.store(write, value))
    }

    /// Moves an unsigned counter (memcached's `incr` and `decr`). Flags and marks stay.
    ///
    /// # Errors
    /// The value is not a string, or not an unsigned 64-bit number.
    pub fn count(&self, key: Key<'_>, count: &Count) -> Result<Counted, Refusal> {
        self.write(key, |slot| slot.count(count))
    }

    /// Removes an entry, or declares it out of date.
    pub fn remove_versioned(&self, key: Key<'_>, removal: &Removal) -> Written {
        self.write(key, |slot| slot.remove_versioned(removal))
    }
}

/// The marks of what replaces `entry`, or nothing if that is not the version to replace.
fn marks_of_next(
    slot: &Slot<'_>,
    entry: &EntryView<'_>,
    write: &Write<'_>,
    expected: Option<u64>,
) -> Option<Marks> {
    let adds = matches!(write.mode, Mode::Append | Mode::Prepend);
    match expected {
        None => Some(Marks::default()),
        Some(expected) if entry.cas() == Some(expected) => Some(Marks::default()),
        // A version without a number is younger than every number that was given out.
        Some(expected) => {
            let newest = entry.cas().unwrap_or(slot.last_cas().saturating_add(1));
            let older = write.allow_older && !adds && expected < newest;
            older.then(|| Marks { fetched: false, stale: true, won: entry.marks().won })
        }
    }
}

/// Adds to a value, or stores one where nothing stands; says why not.
fn add_to(slot: &mut Slot<'_>, write: &Write<'_>, added: StringInput<'_>) -> Option<Written> {
    let Ok(old) = slot.string() else { return Some(Written::Refused) };
    let Some(old_bytes) = old.map(|string| string.len()) else {
        let Some(expiry) = write.vivify else { return Some(Written::Refused) };
        let (expire_at_ms, flags) = (expiry.at_ms(None), write.flags);
        let attributes = Attributes { expire_at_ms, flags, ..Attributes::default() };
        slot.put(NewValue::from_input(added), attributes);
        slot.note_stored(expiry);
        return None;
    };
    if old_bytes + added.len() > write.limit_bytes {
        return Some(Written::TooLong);
    }
    let done = match (write.mode, added) {
        (Mode::Prepend, StringInput::Bytes(bytes)) => slot.prepend(bytes),
        (Mode::Prepend, StringInput::Rope(rope)) => {
            StringValue::Rope(&rope).with_bytes(|bytes| slot.prepend(bytes))
        }
        (_, StringInput::Bytes(bytes)) => slot.append(bytes),
        (_, StringInput::Rope(rope)) => rope.chunks().try_for_each(|chunk| slot.append(chunk)),
    };
    slot.forget_marks();
    slot.note(if write.mode == Mode::Append { Event::Append } else { Event::Set });
    done.is_err().then_some(Written::Refused)
}

/// Gives the version a number if one was chosen or is wanted.
fn number(slot: &mut Slot<'_>, chosen: Option<u64>, wanted: bool) -> Option<u64> {
    if chosen.is_some() {
        slot.set_cas(chosen);
        return chosen;
    }
    wanted.then(|| slot.ensure_cas())
}

fn number_of(entry: &EntryView<'_>) -> Option<u64> {
    match entry.string().ok()? {
        StringValue::Int(value) => u64::try_from(value).ok(),
        // memcached itself pads a number that has become shorter with blanks.
        StringValue::Bytes(text) => parse_u64(text.trim_ascii()),
        StringValue::Rope(_) => None,
    }
}

fn with_number(number: u64, store: impl FnOnce(NewValue<'_>)) {
    match i64::try_from(number) {
        Ok(value) => store(NewValue::Int(value)),
        Err(_) => {
            let mut digits = itoa::Buffer::new();
            store(NewValue::from_bytes(digits.format(number).as_bytes()));
        }
    }
}
