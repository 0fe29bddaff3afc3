//! `cjson`: values in JSON, as lua-cjson 2.1 writes them; `json_reader.rs` reads them.

use super::answer::{add, add_many, as_number, as_text, plain, text};
use super::json_reader::read;
use crate::bounds::Meter;
use crate::number;
use mlua::{Lua, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Selects one of the settings.
type Setting<T> = fn(&Settings) -> &Cell<T>;

/// The settings of a `cjson` instance, which scripts can change.
pub(super) struct Settings {
    /// Whether sparse arrays are written as objects instead of being refused. An array is sparse if
    /// its last index exceeds both `sparse_safe` and `sparse_ratio` times its number of items; with
    /// a ratio of 0, none is.
    sparse_converts: Cell<bool>,
    sparse_ratio: Cell<i32>,
    sparse_safe: Cell<i32>,
    encode_depth: Cell<i32>,
    decode_depth: Cell<i32>,
    precision: Cell<i32>,
    encode_invalid: Cell<Invalid>,
    decode_invalid: Cell<bool>,
    keeps_buffer: Cell<bool>,
}

/// How NaN and infinities, which JSON does not have, are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sparse_converts: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth: Cell::new(1000),
            decode_depth: Cell::new(1000),
            precision: Cell::new(14),
            encode_invalid: Cell::new(Invalid::Refused),
            decode_invalid: Cell::new(true),
            keeps_buffer: Cell::new(true),
        }
    }
}

/// Creates the library.
pub(super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set("null", Value::NULL)?;
    let settings = Rc::new(Settings::default());
    let shared = Rc::clone(&settings);
    add(lua, &library, "encode", move |lua, arguments| {
        if arguments.len() != 1 {
            return text(lua, "bad argument #1 to 'encode' (expected 1 argument)");
        }
        let mut writer = Writer { out: Vec::new(), meter: Meter::new(lua), settings: &shared };
        match writer.value(arguments.front().unwrap_or(&Value::Nil), 0) {
            Ok(()) => Ok(Ok(Value::String(lua.create_string(writer.out)?))),
            Err(error) => text(lua, &error),
        }
    })?;
    let shared = Rc::clone(&settings);
    add(lua, &library, "decode", move |lua, arguments| {
        if arguments.len() != 1 {
            return text(lua, "bad argument #1 to 'decode' (expected 1 argument)");
        }
        let Some(json) = arguments.front().and_then(as_text) else {
            let found = arguments.front().map_or("no value", Value::type_name);
            let error = format!("bad argument #1 to 'decode' (string expected, got {found})");
            return text(lua, &error);
        };
        let deepest = shared.decode_depth.get().min(DEEPEST);
        match read(lua, json, (deepest, shared.decode_invalid.get())) {
            Ok(value) => Ok(Ok(value)),
            Err(error) => text(lua, &error),
        }
    })?;
    configure(lua, &library, &settings)?;
    // The new instance has separate settings.
    add(lua, &library, "new", |lua, _| Ok(Ok(Value::Table(open(lua)?))))?;
    Ok(library)
}

/// Adds the functions that change settings and return their values.
fn configure(lua: &Lua, library: &Table, settings: &Rc<Settings>) -> mlua::Result<()> {
    let integers: [(&str, Setting<i32>, i32); 3] = [
        ("encode_max_depth", |it| &it.encode_depth, i32::MAX),
        ("decode_max_depth", |it| &it.decode_depth, i32::MAX),
        ("encode_number_precision", |it| &it.precision, 14),
    ];
    for (name, of, most) in integers {
        let shared = Rc::clone(settings);
        add(lua, library, name, move |lua, arguments| {
            let given = Given { name, arguments: &arguments };
            let set = given.at_most(1).and_then(|()| given.integer(0, (1, most), of(&shared)));
            match set {
                Ok(()) => Ok(Ok(Value::Number(of(&shared).get().into()))),
                Err(error) => text(lua, &error),
            }
        })?;
    }
    let shared = Rc::clone(settings);
    add_many(lua, library, "encode_sparse_array", move |lua, arguments| {
        let given = Given { name: "encode_sparse_array", arguments: &arguments };
        let Settings { sparse_converts, sparse_ratio, sparse_safe, .. } = &*shared;
        let set = given
            .at_most(3)
            .and_then(|()| given.switch(sparse_converts))
            .and_then(|()| given.integer(1, (0, i32::MAX), sparse_ratio))
            .and_then(|()| given.integer(2, (0, i32::MAX), sparse_safe));
        if let Err(error) = set {
            return Ok(Err(Value::String(lua.create_string(error)?)));
        }
        Ok(Ok(MultiValue::from_iter([
            Value::Boolean(sparse_converts.get()),
            Value::Number(sparse_ratio.get().into()),
            Value::Number(sparse_safe.get().into()),
        ])))
    })?;
    let shared = Rc::clone(settings);
    add(lua, library, "encode_invalid_numbers", move |lua, arguments| {
        let given = Given { name: "encode_invalid_numbers", arguments: &arguments };
        match given.at_most(1).and_then(|()| given.option(&["off", "on", "null"])) {
            Ok(None) => {}
            Ok(Some(0)) => shared.encode_invalid.set(Invalid::Refused),
            Ok(Some(1)) => shared.encode_invalid.set(Invalid::Written),
            Ok(Some(_)) => shared.encode_invalid.set(Invalid::Null),
            Err(error) => return text(lua, &error),
        }
        Ok(Ok(match shared.encode_invalid.get() {
            Invalid::Null => Value::String(lua.create_string("null")?),
            invalid => Value::Boolean(invalid == Invalid::Written),
        }))
    })?;
    let switches: [(&str, Setting<bool>); 2] = [
        ("decode_invalid_numbers", |it| &it.decode_invalid),
        ("encode_keep_buffer", |it| &it.keeps_buffer),
    ];
    for (name, of) in switches {
        let shared = Rc::clone(settings);
        add(lua, library, name, move |lua, arguments| {
            let given = Given { name, arguments: &arguments };
            match given.at_most(1).and_then(|()| given.switch(of(&shared))) {
                Ok(()) => Ok(Ok(Value::Boolean(of(&shared).get()))),
                Err(error) => text(lua, &error),
            }
        })?;
    }
    Ok(())
}

/// The arguments of a function that changes settings; nil leaves a setting as it is.
struct Given<'a> {
    name: &'a str,
    arguments: &'a MultiValue,
}

impl Given<'_> {
    fn wrong(&self, place: usize, why: &str) -> String {
        format!("bad argument #{} to '{}' ({why})", place + 1, self.name)
    }

    fn at_most(&self, most: usize) -> Result<(), String> {
        match self.arguments.len() > most {
            true => Err(self.wrong(most, "found too many arguments")),
            false => Ok(()),
        }
    }

    fn get(&self, place: usize) -> Option<&Value> {
        self.arguments.get(place).filter(|value| !value.is_nil())
    }

    /// The place of the first argument among these words, of which a boolean is the first or the
    /// second.
    fn option(&self, words: &[&str]) -> Result<Option<usize>, String> {
        let value = match self.get(0) {
            None => return Ok(None),
            Some(Value::Boolean(value)) => return Ok(Some(usize::from(*value))),
            Some(value) => value,
        };
        let expected = || self.wrong(0, &format!("string expected, got {}", value.type_name()));
        let given = as_text(value).ok_or_else(expected)?;
        let place = words.iter().position(|word| word.as_bytes() == given);
        let given = || String::from_utf8_lossy(given.get(..SHOWN_BYTES).unwrap_or(&given));
        let place = place.ok_or_else(|| self.wrong(0, &format!("invalid option '{}'", given())))?;
        Ok(Some(place))
    }

    /// Changes a setting that is on or off.
    fn switch(&self, setting: &Cell<bool>) -> Result<(), String> {
        if let Some(place) = self.option(&["off", "on"])? {
            setting.set(place == 1);
        }
        Ok(())
    }

    /// Changes a setting that is an integer.
    fn integer(
        &self,
        place: usize,
        (least, most): (i32, i32),
        setting: &Cell<i32>,
    ) -> Result<(), String> {
        let Some(value) = self.get(place) else { return Ok(()) };
        let expected = || format!("number expected, got {}", value.type_name());
        let value = as_number(value).ok_or_else(|| self.wrong(place, &expected()))?;
        // In C an integer with its upper half cut off.
        let value = number::replied(value) as i32;
        if !(least..=most).contains(&value) {
            // It names the first argument, whichever it is.
            let why = format!("expected integer between {least} and {most}");
            return Err(self.wrong(0, &why));
        }
        setting.set(value);
        Ok(())
    }
}

/// Most bytes of an argument that an error repeats.
const SHOWN_BYTES: usize = 256;

/// Maximum nesting that is written or read, whatever the settings say: each level takes some of the
/// stack.
const DEEPEST: i32 = 2000;

/// Approximate bytes of a value besides its text: a short word, and a comma or brackets.
const VALUE_BYTES: usize = 6;

struct Writer<'s> {
    out: Vec<u8>,
    meter: Meter,
    settings: &'s Settings,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: i32) -> Result<(), String> {
        self.meter.take(VALUE_BYTES)?;
        match value {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(value) => self.number(*value as f64)?,
            Value::Number(value) => self.number(*value)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Table(table) => self.table(table, depth + 1)?,
            Value::Nil => self.out.extend_from_slice(b"null"),
            null if *null == Value::NULL => self.out.extend_from_slice(b"null"),
            other => {
                let kind = other.type_name();
                return Err(format!("Cannot serialise {kind}: type not supported"));
            }
        }
        Ok(())
    }

    fn number(&mut self, value: f64) -> Result<(), String> {
        if !value.is_finite() {
            match self.settings.encode_invalid.get() {
                Invalid::Refused => {
                    return Err("Cannot serialise number: must not be NaN or Inf".to_owned());
                }
                Invalid::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written if value.is_nan() => {
                    self.out.extend_from_slice(b"nan");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        let precision = usize::try_from(self.settings.precision.get()).unwrap_or(14);
        self.out.extend(number::general(value, precision).into_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), String> {
        /// Bytes between two checks of the limit, since a text may become longer.
        const STRIDE: usize = 4096;
        self.out.push(b'"');
        for part in text.chunks(STRIDE) {
            let before = self.out.len();
            self.escaped(part);
            self.meter.take(self.out.len() - before)?;
        }
        self.out.push(b'"');
        Ok(())
    }

    fn escaped(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend([b'\\', *byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                9 => self.out.extend_from_slice(b"\\t"),
                10 => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                13 => self.out.extend_from_slice(b"\\r"),
                0..=31 | 127 => self.out.extend(format!("\\u{byte:04x}").into_bytes()),
                _ => self.out.push(*byte),
            }
        }
    }

    fn table(&mut self, table: &Table, depth: i32) -> Result<(), String> {
        if depth > self.settings.encode_depth.get().min(DEEPEST) {
            return Err(format!("Cannot serialise, excessive nesting ({depth})"));
        }
        let len = self.array_len(table)?;
        if len > 0 {
            self.out.push(b'[');
            for index in 1..=len {
                if index > 1 {
                    self.out.push(b',');
                }
                self.value(&table.raw_get(index).map_err(|error| plain(&error))?, depth)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let (mut is_first, mut failed) = (true, None);
        let written = table.for_each(|key: Value, value: Value| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            let written = self.key(&key).and_then(|()| self.value(&value, depth));
            written.map_err(|error| mlua::Error::runtime(failed.insert(error)))
        });
        written.map_err(|error| failed.unwrap_or_else(|| plain(&error)))?;
        self.out.push(b'}');
        Ok(())
    }

    /// Writes a key and the colon after it.
    fn key(&mut self, key: &Value) -> Result<(), String> {
        match key {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.number(as_number(key).unwrap_or(0.0))?;
                self.out.push(b'"');
            }
            other => {
                let kind = other.type_name();
                return Err(format!(
                    "Cannot serialise {kind}: table key must be a number or string"
                ));
            }
        }
        self.out.push(b':');
        Ok(())
    }

    /// The length of a table that is an array; 0 or less if it is not an array, or is empty.
    fn array_len(&self, table: &Table) -> Result<i32, String> {
        let (mut items, mut most, mut has_others) = (0_i32, 0_i32, false);
        let looked = table.for_each(|key: Value, _: Value| {
            items = items.saturating_add(1);
            let place = match key {
                Value::Integer(_) | Value::Number(_) => as_number(&key).unwrap_or(0.0),
                _ => 0.0,
            };
            has_others |= place < 1.0 || place.trunc() != place;
            if place > most.into() {
                // A key that is too large makes it negative, and the table no array.
                most = number::int(place);
            }
            Ok(())
        });
        looked.map_err(|error| plain(&error))?;
        if has_others {
            return Ok(0);
        }
        let Settings { sparse_ratio, sparse_safe, sparse_converts, .. } = self.settings;
        let ratio = sparse_ratio.get();
        if ratio > 0 && most > items.saturating_mul(ratio) && most > sparse_safe.get() {
            return match sparse_converts.get() {
                true => Ok(0),
                false => Err("Cannot serialise table: excessively sparse array".to_owned()),
            };
        }
        Ok(most)
    }
}
