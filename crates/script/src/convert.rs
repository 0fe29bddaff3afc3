//! Conversion between replies and Lua values, by Redis' rules.

use crate::bounds::Meter;
use crate::host::Host;
use crate::number;
use mlua::{Lua, Table, Value};
use nagi_proto::decimal;
use nagi_proto::resp::{Version, Writer};
use std::cell::RefCell;

/// Maximum nesting of a script's result.
const MAX_DEPTH: usize = 1000;

/// Creates a table with one field.
pub(crate) fn single(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// Writes Lua values as a reply.
pub(crate) struct Replying<'w, 'o> {
    pub(crate) lua: &'w Lua,
    pub(crate) out: &'w mut Writer<'o>,
    /// The client's protocol version.
    pub(crate) client: Version,
    /// The version that the script has chosen, which determines how booleans are written.
    pub(crate) script: Version,
    pub(crate) meter: Meter,
    /// Counts the errors in the reply.
    pub(crate) host: &'w RefCell<Box<dyn Host>>,
}

/// Approximate size of an element in a reply without its text, in bytes.
const ELEMENT_BYTES: usize = 16;

impl Replying<'_, '_> {
    /// Writes a value that a script has returned.
    pub(crate) fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        if depth > MAX_DEPTH {
            let text = b"ERR reached lua stack limit";
            self.host.borrow_mut().note_error(text, false);
            self.out.error(text);
            return Ok(());
        }
        self.take(ELEMENT_BYTES)?;
        match value {
            Value::String(text) => self.text(text, |out, text| out.bulk(text))?,
            Value::Integer(value) => self.out.integer(*value),
            Value::Number(value) => self.out.integer(number::replied(*value)),
            Value::Boolean(value) if self.script == Version::Three => self.out.boolean(*value),
            Value::Boolean(true) => self.out.integer(1),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.out.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            let is_counted = table.raw_get("ignore_error_stats_update").unwrap_or(false);
            self.error(&text, is_counted)?;
        } else if let Value::String(text) = table.raw_get("ok")? {
            self.text(&text, |out, text| line(out, b'+', text))?;
        } else if let Some(value) = as_number(&table.raw_get("double")?) {
            self.out.decimal(&decimal::score(value));
        } else if let Value::Table(map) = table.raw_get("map")? {
            let map = self.kept(map)?;
            self.out.map(count(&map)?);
            map.for_each(|key: Value, value: Value| {
                self.value(&key, depth + 1)?;
                self.value(&value, depth + 1)
            })?;
        } else if let Value::Table(set) = table.raw_get("set")? {
            let set = self.kept(set)?;
            self.out.set(count(&set)?);
            set.for_each(|member: Value, _: Value| self.value(&member, depth + 1))?;
        } else if let Value::String(digits) = table.raw_get("big_number")? {
            let digits = one_line(&digits.as_bytes());
            self.out.big_number(&String::from_utf8_lossy(&digits));
        } else if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let Value::String(format) = verbatim.raw_get("format")?
            && let Value::String(text) = verbatim.raw_get("string")?
        {
            let is_plain = self.client == Version::Two;
            self.text(&text, |out, text| match is_plain {
                true => out.bulk(text),
                false => verbatim_string(out, &format.as_bytes(), text),
            })?;
        } else {
            let mut len = 0;
            while !table.raw_get::<Value>(len + 1)?.is_nil() {
                len += 1;
            }
            self.out.array(len);
            for index in 1..=len {
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
        }
        Ok(())
    }

    /// A table with the same pairs, none of which disappears while they are counted and written: a
    /// collection removes pairs from weak tables.
    fn kept(&self, table: Table) -> mlua::Result<Table> {
        let mode: Option<Value> =
            table.metatable().map(|metatable| metatable.raw_get("__mode")).transpose()?;
        if mode.is_none_or(|mode| mode.is_nil()) {
            return Ok(table);
        }
        let kept = self.lua.create_table()?;
        table.for_each(|key: Value, value: Value| kept.raw_set(key, value))?;
        Ok(kept)
    }

    fn error(&mut self, text: &mlua::String, is_counted: bool) -> mlua::Result<()> {
        self.host.borrow_mut().note_error(&text.as_bytes(), is_counted);
        self.text(text, |out, text| out.error(text))
    }

    /// Writes a text.
    fn text(
        &mut self,
        text: &mlua::String,
        write: impl FnOnce(&mut Writer<'_>, &[u8]),
    ) -> mlua::Result<()> {
        let text = text.as_bytes();
        self.take(text.len())?;
        write(&mut *self.out, &text);
        Ok(())
    }

    /// Deducts bytes from the limit of the reply.
    fn take(&mut self, bytes: usize) -> mlua::Result<()> {
        self.meter.take(bytes).map_err(mlua::Error::runtime)
    }
}

fn verbatim_string(out: &mut Writer<'_>, format: &[u8], text: &[u8]) {
    let mut kind = format.to_vec();
    kind.resize(3, b' ');
    out.encoded(format!("={}\r\n", text.len() + 4).as_bytes());
    out.encoded(&[&kind, b":".as_slice(), text, b"\r\n"].concat());
}

fn line(out: &mut Writer<'_>, kind: u8, text: &[u8]) {
    out.encoded(&[&[kind], one_line(text).as_slice(), b"\r\n"].concat());
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// The number of pairs in a table. The pairs are never collected: mlua has room for only some
/// thousand values at once.
fn count(table: &Table) -> mlua::Result<usize> {
    let mut pairs = 0;
    table.for_each(|_: Value, _: Value| {
        pairs += 1;
        Ok(())
    })?;
    Ok(pairs)
}

/// Replaces line breaks by spaces.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
