//! `cjson`: values in JSON, as lua-cjson 2.1 writes them; `json_reader.rs` reads them.

use super::answer::{Answer, add, add_many, as_number, text};
use super::json_reader::Reader;
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
    sparse_ratio: Cell<i64>,
    sparse_safe: Cell<i64>,
    encode_depth: Cell<i64>,
    decode_depth: Cell<i64>,
    precision: Cell<i64>,
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
        let Some(json) = arguments.front().and_then(super::answer::as_text) else {
            let found = arguments.front().map_or("no value", Value::type_name);
            let error = format!("bad argument #1 to 'decode' (string expected, got {found})");
            return text(lua, &error);
        };
        match Reader::new(
            &json,
            shared.decode_depth.get().min(DEEPEST),
            shared.decode_invalid.get(),
            Meter::new(lua),
        )
        .document(lua)
        {
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
    let integers: [(&str, Setting<i64>, i64); 3] = [
        ("encode_max_depth", |it| &it.encode_depth, i64::from(i32::MAX)),
        ("decode_max_depth", |it| &it.decode_depth, i64::from(i32::MAX)),
        ("encode_number_precision", |it| &it.precision, 16),
    ];
    for (name, of, most) in integers {
        let shared = Rc::clone(settings);
        add(lua, library, name, move |lua, arguments| {
            integer(lua, &arguments, 0, name, (1, most), of(&shared))
        })?;
    }
    let shared = Rc::clone(settings);
    add_many(lua, library, "encode_sparse_array", move |lua, arguments| {
        if let Some(converts) = arguments.front() {
            shared.sparse_converts.set(is_true(converts));
        }
        for (place, of) in [(1, &shared.sparse_ratio), (2, &shared.sparse_safe)] {
            let bounds = (0, i64::from(i32::MAX));
            let set = integer(lua, &arguments, place, "encode_sparse_array", bounds, of)?;
            if let Err(raised) = set {
                return Ok(Err(raised));
            }
        }
        Ok(Ok(MultiValue::from_iter([
            Value::Boolean(shared.sparse_converts.get()),
            Value::Number(shared.sparse_ratio.get() as f64),
            Value::Number(shared.sparse_safe.get() as f64),
        ])))
    })?;
    let shared = Rc::clone(settings);
    add(lua, library, "encode_invalid_numbers", move |lua, arguments| {
        match arguments.front() {
            None => {}
            Some(Value::String(word)) if word.as_bytes() == *b"null" => {
                shared.encode_invalid.set(Invalid::Null);
            }
            Some(value) => {
                let invalid = if is_true(value) { Invalid::Written } else { Invalid::Refused };
                shared.encode_invalid.set(invalid);
            }
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
        add(lua, library, name, move |_, arguments| {
            if let Some(value) = arguments.front() {
                of(&shared).set(is_true(value));
            }
            Ok(Ok(Value::Boolean(of(&shared).get())))
        })?;
    }
    Ok(())
}

/// Whether an argument turns a setting on.
fn is_true(value: &Value) -> bool {
    match value {
        Value::String(word) => word.as_bytes() == *b"on",
        Value::Boolean(value) => *value,
        _ => false,
    }
}

/// Changes a setting if there is an argument for it, and returns it.
fn integer(
    lua: &Lua,
    arguments: &MultiValue,
    place: usize,
    name: &str,
    (least, most): (i64, i64),
    setting: &Cell<i64>,
) -> Answer {
    if let Some(value) = arguments.get(place).filter(|value| !value.is_nil()) {
        let value = as_number(value).map(|value| value as i64);
        let Some(value) = value.filter(|value| (least..=most).contains(value)) else {
            let place = place + 1;
            let error = format!(
                "bad argument #{place} to '{name}' (expected integer between {least} and {most})"
            );
            return text(lua, &error);
        };
        setting.set(value);
    }
    Ok(Ok(Value::Number(setting.get() as f64)))
}

/// Maximum nesting that is written or read, whatever the settings say: each level takes some of the
/// stack.
const DEEPEST: i64 = 2000;

fn plain(error: mlua::Error) -> String {
    error.to_string()
}

/// Approximate bytes of a value besides its text: a short word, and a comma or brackets.
const VALUE_BYTES: usize = 6;

struct Writer<'s> {
    out: Vec<u8>,
    meter: Meter,
    settings: &'s Settings,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Result<(), String> {
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

    fn table(&mut self, table: &Table, depth: i64) -> Result<(), String> {
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
                self.value(&table.raw_get(index).map_err(plain)?, depth)?;
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
        written.map_err(|error| failed.unwrap_or_else(|| plain(error)))?;
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

    /// The length of a table that is an array; 0 if it is not an array, or is empty.
    fn array_len(&self, table: &Table) -> Result<i64, String> {
        let (mut items, mut most, mut has_others) = (0_i64, 0, false);
        let looked = table.for_each(|key: Value, _: Value| {
            items += 1;
            let place = match key {
                Value::Integer(_) | Value::Number(_) => as_number(&key).unwrap_or(0.0),
                _ => 0.0,
            };
            has_others |= place < 1.0 || place.trunc() != place;
            most = most.max(place as i64);
            Ok(())
        });
        looked.map_err(plain)?;
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
