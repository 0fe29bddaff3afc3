//! A hash: values under names, each with an optional expiry.
//!
//! An expired field is no longer found by name, but stays, and counts, until [`Hash::sweep`]
//! removes it. Iterations over all fields include it: [`Field::is_expired`].

use super::Name;
use super::form::{Form, FormRef, New};
use crate::tree::blocks::Blocks;
use crate::tree::keyed::Keyed;
use crate::tree::layout::{self, Fields, rest, write_expiry};
use crate::value::item::{Item, Text, item_bytes};
use crate::value::string::StringValue;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The limits up to which OBJECT ENCODING says listpack.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// `hash-max-listpack-entries`.
    pub entries: usize,
    /// `hash-max-listpack-value`, in bytes; for names too.
    pub value_bytes: usize,
}

/// A field as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field's name.
    pub name: StringValue<'a>,
    /// The field's value.
    pub value: StringValue<'a>,
    /// The field's expiry in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
}

impl<'a> Field<'a> {
    /// Whether the field has expired by `now_ms`.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    fn of(element: &'a [u8]) -> Self {
        let name = Fields::name(element);
        let value = rest(name, item_bytes(name));
        // SAFETY: elements were written by `Text::write`, and hold references to their strings for
        // as long as the collection is borrowed.
        let [name, value] = [name, value].map(|item| unsafe { Item::any(item) }.value());
        let at_ms = layout::expires_at_ms(element);
        Field { name, value, expires_at_ms: (at_ms > 0).then_some(at_ms) }
    }
}

/// The change of a field's expiry when the field is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// The field does not expire.
    Never,
    /// The field keeps its previous expiry, if any.
    Keep,
    /// The field expires at this time, in milliseconds since 1970; below 2^48.
    At(u64),
}

/// A hash borrowed for reading.
#[derive(Clone, Copy, Debug)]
pub struct HashRef<'a>(pub(crate) FormRef<'a, Fields>);

/// A hash that can be changed.
#[derive(Debug)]
pub(crate) struct Hash(pub(crate) Form<Fields>);

impl<'a> HashRef<'a> {
    /// Returns the number of fields, including expired ones that have not been removed.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stored hash is empty")]
    pub fn len(self) -> u64 {
        self.0.len()
    }

    /// Returns the number of fields with an expiry.
    #[must_use]
    pub fn expiring(self) -> u64 {
        self.0.expiring()
    }

    /// Returns a time before which no field expires, in milliseconds since 1970; `None` if no field
    /// has an expiry.
    #[must_use]
    pub fn earliest_ms(self) -> Option<u64> {
        match self.0 {
            _ if self.expiring() == 0 => None,
            FormRef::Packed(packed) => {
                let times = packed.elements().map(|it| layout::expires_at_ms(it.element));
                times.filter(|at_ms| *at_ms > 0).min()
            }
            FormRef::Tree(named) => Some(u64::from(named.tree.earliest_s()) * 1000),
        }
    }

    /// Whether there may be expired fields at `now_ms`, without examining the fields.
    #[must_use]
    pub fn may_have_expired(self, now_ms: u64) -> bool {
        self.earliest_ms().is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Returns when [`Hash::sweep`] next finds an expired field, in milliseconds since 1970: up to
    /// a second after the earliest expiry. `None` if no field has an expiry.
    pub(crate) fn sweep_at_ms(self) -> Option<u64> {
        let earliest_ms = self.earliest_ms()?;
        match self.0 {
            FormRef::Packed(_) => Some(earliest_ms),
            // A tree keeps the time in seconds.
            FormRef::Tree(_) => Some(earliest_ms + 1000),
        }
    }

    /// Returns the encoding that OBJECT ENCODING reports.
    #[must_use]
    pub fn encoding_name(self) -> &'static str {
        self.0.name().word()
    }

    /// Returns the memory of the hash in bytes, in addition to the entry's word.
    pub fn bytes(self) -> u64 {
        self.0.bytes()
    }

    /// Returns the field with this name, unless it has expired by `now_ms`.
    pub fn get(self, name: &Text<'_>, now_ms: u64) -> Option<Field<'a>> {
        self.0.get(name).map(Field::of).filter(|field| !field.is_expired(now_ms))
    }

    /// Returns the field at an index, even if it has expired. With a uniformly random index, all
    /// fields are equally likely.
    pub fn select(self, rank: u64) -> Option<Field<'a>> {
        self.0.select(rank).map(Field::of)
    }

    /// Visits fields from an index on, including expired ones, until `visit` breaks.
    pub fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(Field<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.0.walk(rank, |element| visit(Field::of(element)))
    }

    /// Visits about `count` fields from a cursor on, including expired ones. Returns the next
    /// cursor, 0 at the end ([`FormRef::scan`]).
    pub fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(Field<'_>)) -> u64 {
        self.0.scan(cursor, count, |element| show(Field::of(element)))
    }
}

impl Default for Hash {
    fn default() -> Self {
        Hash(Form::new(Name::Listpack))
    }
}

impl Hash {
    /// Borrows the hash for reading.
    pub(crate) fn read(&self) -> HashRef<'_> {
        HashRef(self.0.read())
    }

    /// Announces that this many fields are about to be set at once, which may change the encoding's
    /// name even if fewer are new.
    pub(crate) fn expect(&mut self, fields: usize, limits: HashLimits) {
        if fields > limits.entries {
            self.0.set_name(Name::Hashtable);
        }
    }

    /// Sets a field at the time `now_ms`. Returns whether it is new.
    pub(crate) fn set(
        &mut self,
        name: &Text<'_>,
        value: &Text<'_>,
        (expiry, now_ms): (FieldExpiry, u64),
        limits: HashLimits,
        blocks: &Arc<Blocks>,
    ) -> bool {
        let before_ms = match self.0.read().expiring() {
            0 => 0,
            _ => self.0.read().get(name).map_or(0, layout::expires_at_ms),
        };
        let was_expired = (1..=now_ms).contains(&before_ms);
        let at_ms = match expiry {
            FieldExpiry::Never => 0,
            FieldExpiry::At(at_ms) => at_ms,
            FieldExpiry::Keep if was_expired => 0,
            FieldExpiry::Keep => before_ms,
        };
        let mut element = Vec::with_capacity(16 + name.item_bytes() + value.item_bytes());
        write_expiry(at_ms, &mut element);
        name.write(&mut element);
        value.write(&mut element);
        let is_long = name.is_long() || value.is_long();
        let is_new = self.0.set(name, New { element: &element, is_long }, blocks);
        self.rename(name.len().max(value.len()), at_ms > 0, limits);
        is_new || was_expired
    }

    /// Updates the encoding's name after fields were set.
    fn rename(&mut self, longest: usize, expires: bool, limits: HashLimits) {
        let before = self.0.read().name();
        if before == Name::Hashtable {
            return;
        }
        let is_large = self.0.read().len() > limits.entries as u64;
        if longest > limits.value_bytes || is_large {
            self.0.set_name(Name::Hashtable);
        } else if expires && before == Name::Listpack {
            self.0.set_name(Name::ListpackEx);
        }
    }

    /// Sets or removes the expiry of a field, in milliseconds since 1970. Returns whether the field
    /// exists.
    pub(crate) fn expire(
        &mut self,
        name: &Text<'_>,
        at_ms: Option<u64>,
        blocks: &Arc<Blocks>,
    ) -> bool {
        let Some(before) = self.0.read().get(name) else { return false };
        let mut element = Vec::with_capacity(before.len() + layout::EXPIRY_BYTES);
        write_expiry(at_ms.unwrap_or(0), &mut element);
        element.extend_from_slice(Fields::name(before));
        let mut is_long = false;
        // SAFETY: the copy takes over the references of the field, which it replaces.
        unsafe {
            layout::retain::<Fields>(&element);
            is_long |= layout::bytes_out_of_line::<Fields>(&element) > 0;
        }
        self.0.set(name, New { element: &element, is_long }, blocks);
        if at_ms.is_some() && self.0.read().name() == Name::Listpack {
            self.0.set_name(Name::ListpackEx);
        }
        true
    }

    /// Removes the field with this name, unless it has expired by `now_ms`. Returns whether there
    /// was one.
    pub(crate) fn remove(&mut self, name: &Text<'_>, now_ms: u64) -> bool {
        let may_be_expired = self.0.read().expiring() > 0;
        if may_be_expired && self.read().get(name, now_ms).is_none() {
            return false;
        }
        self.0.delete(name)
    }

    /// Removes at most `most` fields that have expired by `now_ms`, after calling `removed` with
    /// each. Returns how many. Fewer than `most` means that there are no more, as far as can be
    /// told without examining the fields: some may be found up to a second late.
    pub(crate) fn sweep(
        &mut self,
        now_ms: u64,
        most: usize,
        mut removed: impl FnMut(Field<'_>),
    ) -> usize {
        let is_due = |element: &[u8]| {
            let at_ms = layout::expires_at_ms(element);
            at_ms > 0 && at_ms <= now_ms
        };
        match &mut self.0 {
            Form::Packed(packed) => {
                let mut count = 0;
                while count < most && packed.read().expiring() > 0 {
                    let due = packed.read().elements().find(|it| is_due(it.element));
                    let Some(due) = due else { break };
                    removed(Field::of(due.element));
                    let start = due.start;
                    packed.remove(start);
                    count += 1;
                }
                count
            }
            Form::Tree(named) => {
                named.tree.sweep(now_ms, most, |element| removed(Field::of(element)))
            }
        }
    }
}
