//! Strings with versions and leases, each operation in one step: what memcached's meta and binary
//! protocols need beyond `string.rs` and `counter.rs`.
//!
//! As elsewhere, a version is assigned a number (CAS) only when a client requests it. A *stale*
//! value is still served, and one client at a time is told that it has *won*, which means that it
//! should replace the value.

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
use crate::value::string::{StringInput, StringValue};

/// The effects of a read.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// The change of an existing entry's expiry.
    pub expiry: Expiry,
    /// Whether `refresh_ms` is compared with the expiry after that change.
    pub expiry_first: bool,
    /// If there is no entry, an empty value with this expiry is stored, and the caller has won.
    pub vivify: Option<Expiry>,
    /// The caller may win a value that expires in less than this, in milliseconds.
    pub refresh_ms: Option<i64>,
    /// Whether the version needs a number.
    pub versioned: bool,
    /// The version number of a vivified value; by default, the store assigns it.
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

/// The result of a read.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The entry after the changes by the read, except the mark that it was fetched.
    pub entry: EntryView<'a>,
    /// The entry's value.
    pub value: StringValue<'a>,
    /// The entry's expiry before the read changed it, in milliseconds since 1970.
    pub expired_at_ms: Option<u64>,
    /// The time since the entry was last accessed, in milliseconds.
    pub idle_ms: u64,
    /// Whether the caller has won: it should replace the value.
    pub won: bool,
    /// Whether the entry was created for the caller.
    pub vivified: bool,
}

/// The mode of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Always (`set`).
    Set,
    /// Only if there is no entry (`add`).
    Add,
    /// Only if there is an entry (`replace`).
    Replace,
    /// Append to the entry's value; flags and expiry stay.
    Append,
    /// Prepend to the entry's value; flags and expiry stay.
    Prepend,
}

impl Mode {
    /// Whether the mode adds to an entry's value.
    #[must_use]
    pub fn adds(self) -> bool {
        matches!(self, Mode::Append | Mode::Prepend)
    }
}

/// A value to store.
#[derive(Debug)]
pub struct Write<'a> {
    /// The mode.
    pub mode: Mode,
    /// The value, or the bytes to add.
    pub value: StringInput<'a>,
    /// memcached's client flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The version number that the replaced entry must have.
    pub expected: Option<u64>,
    /// Whether an older number than the version's is accepted too, and makes the new value stale;
    /// it then has the old value's expiry.
    pub allow_older: bool,
    /// If there is no entry to add to, the value is stored with this expiry.
    pub vivify: Option<Expiry>,
    /// The number of the new version; by default, the store assigns it.
    pub version: Option<u64>,
    /// Whether the new version needs a number.
    pub versioned: bool,
    /// The maximum length of the value after adding, in bytes.
    pub limit_bytes: usize,
}

/// The result of a write or a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done.
    Done {
        /// The version's number, if requested or given.
        cas: Option<u64>,
        /// The length of the value afterwards, in bytes; 0 after a removal.
        bytes: usize,
    },
    /// The mode did not allow it.
    Refused,
    /// The value would have become too long.
    TooLong,
    /// The version is not the expected one.
    Changed,
    /// There is no entry whose version could be compared.
    Missing,
}

/// An operation on a counter.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// The direction and the amount.
    pub step: Arithmetic,
    /// The version number that the entry must have.
    pub expected: Option<u64>,
    /// The change of the expiry.
    pub expiry: Expiry,
    /// If there is no entry, the number to store, and its expiry.
    pub initial: Option<(u64, Expiry)>,
    /// The number of the new version; by default, the store assigns it.
    pub version: Option<u64>,
    /// Whether the new version needs a number.
    pub versioned: bool,
}

impl Count {
    /// Creates an operation without further options.
    #[must_use]
    pub fn plain(step: Arithmetic) -> Self {
        let (expected, initial, version) = (None, None, None);
        Count { step, expected, expiry: Expiry::Keep, initial, version, versioned: false }
    }
}

/// The result of an operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The operation stored the counter.
    At {
        /// The counter's value.
        number: u64,
        /// The version's number, if requested or given.
        cas: Option<u64>,
        /// The counter's expiry, and its expiry before the operation; in milliseconds since 1970.
        expire_at_ms: (Option<u64>, Option<u64>),
        /// Whether the operation created the counter.
        created: bool,
    },
    /// The version is not the expected one.
    Changed,
    /// There is no entry.
    Missing,
}

/// How an entry is removed or marked stale.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The version number that the entry must have.
    pub expected: Option<u64>,
    /// The entry stays and becomes stale.
    pub invalidate: bool,
    /// The entry stays without value and expiry, and with these client flags.
    pub clear: Option<u32>,
    /// The change of the expiry of an entry that stays.
    pub expiry: Expiry,
    /// The version number of an entry that stays; by default, the store assigns it.
    pub version: Option<u64>,
}

impl Slot<'_> {
    /// Calls `look` with the string, and performs the other effects of `fetch`.
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
        // An expiry that has passed takes effect only now, after the value has been returned.
        self.bury();
        result
    }

    /// Stores an empty value if there is no entry; the caller has won it.
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

    /// Lets the caller win a value that is stale or expires soon, unless another client has.
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

    /// Records that a value with this expiry was stored.
    fn note_stored(&mut self, expiry: Expiry) {
        self.note(Event::Set);
        if matches!(expiry, Expiry::AtMs(_)) {
            self.note(Event::Expire);
        }
    }

    /// Removes the entry if it has expired by now.
    fn bury(&mut self) {
        let expire_at_ms = self.entry().and_then(|entry| entry.expire_at_ms());
        if expire_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms()) {
            self.delete();
        }
    }

    /// Stores a value, or adds to one.
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
                // A value that is stale from the start expires when the replaced value would have.
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

    /// Changes an unsigned counter.
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
                // memcached's order of errors: an empty value is reported as not a number first.
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

    /// Removes the entry or marks it stale.
    fn remove_versioned(&mut self, removal: &Removal) -> Written {
        let Some(entry) = self.entry() else { return Written::Missing };
        if removal.expected.is_some_and(|expected| entry.cas() != Some(expected)) {
            return Written::Changed;
        }
        if !removal.invalidate && removal.clear.is_none() {
            self.delete();
            return Written::Done { cas: None, bytes: 0 };
        }
        let before = entry.cas();
        if let Some(flags) = removal.clear {
            self.put(NewValue::from_bytes(b""), Attributes { flags, ..Attributes::default() });
            self.note(Event::Set);
        }
        self.postpone(removal.expiry);
        if removal.invalidate {
            let fetched = self.entry().is_some_and(|entry| entry.marks().fetched);
            self.set_marks(Marks { fetched, stale: true, won: false });
        }
        // An emptied value keeps its number, one that is declared stale gets another.
        let kept = before.filter(|_| !removal.invalidate);
        self.set_cas(removal.version.or(kept));
        self.bury();
        Written::Done { cas: removal.version, bytes: 0 }
    }
}

impl Database<'_> {
    /// Calls `look` with the string under `key`, and performs the other effects of `fetch`. A value
    /// of another type counts as missing and is not changed.
    pub fn fetch<R>(
        &self,
        key: Key<'_>,
        fetch: &Fetch,
        look: impl FnOnce(Option<Fetched<'_>>) -> R,
    ) -> R {
        if self.leaves_missing(key) {
            self.count_lookup(false);
            return look(None);
        }
        self.write(key, |slot| {
            if slot.string().is_err() {
                self.count_lookup(false);
                return look(None);
            }
            self.count_lookup_in(slot);
            slot.fetch(fetch, look)
        })
    }

    /// Stores a value, or adds to one. A value of another type is replaced, but not added to.
    pub fn store_versioned(&self, key: Key<'_>, mut write: Write<'_>) -> Written {
        let value = std::mem::replace(&mut write.value, StringInput::Bytes(b""));
        let write = &write;
        let value = match write.mode {
            Mode::Set | Mode::Add | Mode::Replace => Ok(NewValue::from_input(value)),
            Mode::Append | Mode::Prepend => Err(value),
        };
        self.write(key, |slot| slot.store(write, value))
    }

    /// Changes an unsigned counter (memcached's `incr` and `decr`). Flags and marks stay.
    ///
    /// # Errors
    /// The value is not a string, or not an unsigned 64-bit number.
    pub fn count(&self, key: Key<'_>, count: &Count) -> Result<Counted, Refusal> {
        self.write(key, |slot| slot.count(count))
    }

    /// Removes an entry or marks it stale.
    pub fn remove_versioned(&self, key: Key<'_>, removal: &Removal) -> Written {
        self.write(key, |slot| slot.remove_versioned(removal))
    }
}

/// Returns the marks of a value that replaces `entry`; `None` if that is not the expected version.
fn marks_of_next(
    slot: &Slot<'_>,
    entry: &EntryView<'_>,
    write: &Write<'_>,
    expected: Option<u64>,
) -> Option<Marks> {
    match expected {
        None => Some(Marks::default()),
        Some(expected) if entry.cas() == Some(expected) => Some(Marks::default()),
        // A version without a number is newer than every number that was assigned.
        Some(expected) => {
            let newest = entry.cas().unwrap_or(slot.last_cas().saturating_add(1));
            let older = write.allow_older && !write.mode.adds() && expected < newest;
            older.then(|| Marks { fetched: false, stale: true, won: entry.marks().won })
        }
    }
}

/// Adds to a value, or stores one if there is none. Returns the reason if that fails.
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

/// Sets the version's number if one was given or requested.
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
        StringValue::Bytes(text) => leading_number(text),
        StringValue::Rope(_) => None,
    }
}

/// Reads a number like memcached: after blanks and a plus sign, up to the end, a blank, or a NUL,
/// which clients in C may store; whatever follows.
fn leading_number(text: &[u8]) -> Option<u64> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_blank(byte))?;
    let text = text.get(start..)?;
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(len)?;
    let ends = rest.first().is_none_or(|byte| *byte == 0 || is_blank(byte));
    let add =
        |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(*digit - b'0'));
    (len > 0 && ends).then(|| digits.iter().try_fold(0, add)).flatten()
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
