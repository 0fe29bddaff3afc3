//! `cmsgpack`: values in MessagePack, as lua-cmsgpack writes and reads them.

use super::answer::{Answers, add_many, as_number, as_text};
use crate::bounds::Meter;
use crate::number;
use mlua::{Lua, MultiValue, Table, Value};

/// Maximum nesting that is written; deeper tables become nil.
const WRITTEN_DEPTH: usize = 16;
/// Maximum nesting that is read.
const READ_DEPTH: usize = 2000;
/// Maximum values that are returned at once: a function in Redis has room for as many.
const MAX_VALUES: usize = 7990;

/// Creates the library.
pub(super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    add_many(lua, &library, "pack", |lua, arguments| {
        if arguments.is_empty() {
            return raise(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)");
        }
        let mut packed = Packed { bytes: Vec::new(), meter: Meter::new(lua) };
        for value in &arguments {
            packed.value(value, 0)?;
        }
        Ok(Ok(MultiValue::from_iter([Value::String(lua.create_string(packed.bytes)?)])))
    })?;
    add_many(lua, &library, "unpack", |lua, arguments| unpack(lua, &arguments, "unpack", 0, 0))?;
    add_many(lua, &library, "unpack_one", |lua, arguments| {
        match integer(&arguments, (1, Some(0)), "unpack_one") {
            Ok(offset) => unpack(lua, &arguments, "unpack_one", 1, offset),
            Err(error) => raise(lua, &error),
        }
    })?;
    add_many(lua, &library, "unpack_limit", |lua, arguments| {
        let limit = integer(&arguments, (1, None), "unpack_limit");
        let offset = limit.and_then(|limit| {
            integer(&arguments, (2, Some(0)), "unpack_limit").map(|offset| (limit, offset))
        });
        match offset {
            Ok((limit, offset)) => unpack(lua, &arguments, "unpack_limit", limit, offset),
            Err(error) => raise(lua, &error),
        }
    })?;
    Ok(library)
}

/// The integer argument at a place, or the default if there is one.
fn integer(
    arguments: &MultiValue,
    (place, default): (usize, Option<i64>),
    name: &str,
) -> Result<i64, String> {
    let found = match (arguments.get(place), default) {
        (None | Some(Value::Nil), Some(default)) => return Ok(default),
        (found, _) => found,
    };
    found.and_then(as_number).map(number::replied).ok_or_else(|| {
        let found = found.map_or("no value", Value::type_name);
        format!("bad argument #{} to '{name}' (number expected, got {found})", place + 1)
    })
}

fn raise(lua: &Lua, error: &str) -> Answers {
    Ok(Err(Value::String(lua.create_string(error)?)))
}

/// The encoding so far.
struct Packed {
    bytes: Vec<u8>,
    meter: Meter,
}

impl Packed {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.take(1)?;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.take(text.len())?;
                let kinds = [Some(0xd9), Some(0xda), Some(0xdb)];
                head(&mut self.bytes, text.len(), (0xa0, 32), kinds);
                self.bytes.extend_from_slice(&text);
            }
            Value::Boolean(value) => self.bytes.push(if *value { 0xc3 } else { 0xc2 }),
            Value::Integer(value) => write_integer(&mut self.bytes, *value),
            Value::Number(value) => write_number(&mut self.bytes, *value),
            Value::Table(table) if depth < WRITTEN_DEPTH => self.table(table, depth)?,
            _ => self.bytes.push(0xc0),
        }
        Ok(())
    }

    // mlua has room for only some thousand values at once, so a table is never collected first.
    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let (count, is_array) = shape(table)?;
        if is_array {
            head(&mut self.bytes, count, (0x90, 16), [None, Some(0xdc), Some(0xdd)]);
            let mut places = 1..=count;
            return places.try_for_each(|index| self.value(&table.raw_get(index)?, depth + 1));
        }
        head(&mut self.bytes, count, (0x80, 16), [None, Some(0xde), Some(0xdf)]);
        table.for_each(|key: Value, value: Value| {
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)
        })
    }

    /// Deducts bytes from the limit of the encoding.
    fn take(&mut self, bytes: usize) -> mlua::Result<()> {
        self.meter.take(bytes).map_err(mlua::Error::runtime)
    }
}

/// Writes the header of a value with a length: one byte if the length is below `limit`, otherwise
/// the kind and one, two or four bytes of length.
fn head(out: &mut Vec<u8>, len: usize, (short, limit): (u8, usize), kinds: [Option<u8>; 3]) {
    let wide = u32::try_from(len).unwrap_or(u32::MAX);
    match (u8::try_from(len), u16::try_from(len), kinds) {
        (Ok(len), ..) if usize::from(len) < limit => out.push(short | len),
        (Ok(len), _, [Some(kind), ..]) => out.extend([kind, len]),
        (_, Ok(len), [_, Some(kind), _]) => {
            out.push(kind);
            out.extend(len.to_be_bytes());
        }
        (.., [.., kind]) => {
            out.extend(kind);
            out.extend(wide.to_be_bytes());
        }
    }
}

fn write_number(out: &mut Vec<u8>, value: f64) {
    const LEAST: f64 = -9_223_372_036_854_775_808.0;
    if value.trunc() == value && (LEAST..-LEAST).contains(&value) {
        return write_integer(out, value as i64);
    }
    let short = value as f32;
    if f64::from(short) == value {
        out.push(0xca);
        out.extend(short.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(value.to_be_bytes());
    }
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    let raw = value.to_be_bytes();
    let (kind, bytes) = match value {
        -32..=127 => (None, 1),
        128..=0xff => (Some(0xcc), 1),
        0x100..=0xffff => (Some(0xcd), 2),
        0x1_0000..=0xffff_ffff => (Some(0xce), 4),
        0x1_0000_0000.. => (Some(0xcf), 8),
        -0x80..=-33 => (Some(0xd0), 1),
        -0x8000..=-0x81 => (Some(0xd1), 2),
        -0x8000_0000..=-0x8001 => (Some(0xd2), 4),
        _ => (Some(0xd3), 8),
    };
    out.extend(kind);
    out.extend_from_slice(raw.get(8 - bytes..).unwrap_or_default());
}

/// The number of pairs in a table, and whether its keys are those of an array.
fn shape(table: &Table) -> mlua::Result<(usize, bool)> {
    let (mut count, mut largest, mut has_others) = (0, 0, false);
    table.for_each(|key: Value, _: Value| {
        count += 1;
        match key {
            Value::Integer(place) if place > 0 => largest = largest.max(place as usize),
            Value::Number(place) if place.trunc() == place && place > 0.0 => {
                largest = largest.max(place as usize);
            }
            _ => has_others = true,
        }
        Ok(())
    })?;
    Ok((count, !has_others && largest == count))
}

/// Why bytes cannot be read.
enum Fault {
    Missing,
    Bad,
    Deep,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Fault::Lua(error)
    }
}

/// Reads all values. With a limit or an offset, reads at most `limit` values from `offset` on, and
/// returns before them the offset of the next value, or -1 at the end.
fn unpack(lua: &Lua, arguments: &MultiValue, name: &str, limit: i64, offset: i64) -> Answers {
    let Some(data) = arguments.front().and_then(as_text) else {
        let found = arguments.front().map_or("no value", Value::type_name);
        let error = format!("bad argument #1 to '{name}' (string expected, got {found})");
        return raise(lua, &error);
    };
    if offset < 0 || limit < 0 {
        return raise(
            lua,
            &format!(
                "Invalid request to unpack with offset of {offset} and limit of {}.",
                data.len()
            ),
        );
    }
    let at = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(rest) = data.get(at..) else {
        let error = format!("Start offset {offset} greater than input length {}.", data.len());
        return raise(lua, &error);
    };
    let mut reader = Reader { rest, meter: Meter::new(lua) };
    let mut values = Vec::new();
    let is_all = limit == 0 && offset == 0;
    while !reader.rest.is_empty() && (is_all || (values.len() as i64) < limit) {
        if values.len() == MAX_VALUES {
            let text = "stack overflow (too many return values at once; use unpack_one or \
                        unpack_limit instead.)";
            return raise(lua, text);
        }
        match reader.value(lua, 0) {
            Ok(value) => values.push(value),
            Err(Fault::Missing) => return raise(lua, "Missing bytes in input."),
            Err(Fault::Bad) => return raise(lua, "Bad data format in input."),
            Err(Fault::Deep) => return raise(lua, "stack overflow"),
            Err(Fault::Lua(error)) => return Err(error),
        }
    }
    if !is_all {
        let at = data.len() - reader.rest.len();
        let next = if reader.rest.is_empty() { -1.0 } else { at as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(Ok(MultiValue::from_iter(values)))
}

struct Reader<'a> {
    rest: &'a [u8],
    meter: Meter,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Fault::Missing)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads an unsigned integer of `len` bytes.
    fn unsigned(&mut self, len: usize) -> Result<u64, Fault> {
        Ok(self.take(len)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Result<i64, Fault> {
        let unused = 64 - 8 * len;
        Ok(self.unsigned(len)?.cast_signed() << unused >> unused)
    }

    fn len(&mut self, bytes: usize) -> Result<usize, Fault> {
        Ok(self.unsigned(bytes)? as usize)
    }

    fn value(&mut self, lua: &Lua, depth: usize) -> Result<Value, Fault> {
        if depth > READ_DEPTH {
            return Err(Fault::Deep);
        }
        self.meter.take(1).map_err(mlua::Error::runtime)?;
        let kind = self.unsigned(1)? as u8;
        let low = |mask: u8| usize::from(kind & mask);
        Ok(match kind {
            0x00..=0x7f => Value::Number(kind.into()),
            0xe0..=0xff => Value::Number(kind.cast_signed().into()),
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(kind == 0xc3),
            0xca => Value::Number(f32::from_bits(self.unsigned(4)? as u32).into()),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => Value::Number(self.unsigned(1 << (kind - 0xcc))? as f64),
            0xd0..=0xd3 => Value::Number(self.signed(1 << (kind - 0xd0))? as f64),
            0xa0..=0xbf => self.text(lua, low(0x1f))?,
            0xc4..=0xc6 => {
                let len = self.len(1 << (kind - 0xc4))?;
                self.text(lua, len)?
            }
            0xd9..=0xdb => {
                let len = self.len(1 << (kind - 0xd9))?;
                self.text(lua, len)?
            }
            0x90..=0x9f => self.array(lua, low(0x0f), depth)?,
            0xdc | 0xdd => {
                let len = self.len(if kind == 0xdc { 2 } else { 4 })?;
                self.array(lua, len, depth)?
            }
            0x80..=0x8f => self.map(lua, low(0x0f), depth)?,
            0xde | 0xdf => {
                let len = self.len(if kind == 0xde { 2 } else { 4 })?;
                self.map(lua, len, depth)?
            }
            _ => return Err(Fault::Bad),
        })
    }

    fn text(&mut self, lua: &Lua, len: usize) -> Result<Value, Fault> {
        let bytes = self.take(len)?;
        Ok(Value::String(lua.create_string(bytes)?))
    }

    fn array(&mut self, lua: &Lua, len: usize, depth: usize) -> Result<Value, Fault> {
        let table = lua.create_table()?;
        for index in 1..=len {
            table.raw_set(index, self.value(lua, depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, lua: &Lua, len: usize, depth: usize) -> Result<Value, Fault> {
        let table = lua.create_table()?;
        for _ in 0..len {
            let key = self.value(lua, depth + 1)?;
            let value = self.value(lua, depth + 1)?;
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
