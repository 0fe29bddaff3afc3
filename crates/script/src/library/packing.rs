//! `struct`: values in the layout of C.

use super::answer::{Answers, add_many, as_number, as_text, plain};
use crate::bounds::Meter;
use crate::number;
use mlua::{Lua, MultiValue, Table, Value};

/// Maximum size of an integer, in bytes.
const MAX_INTEGER_BYTES: usize = 32;
/// Maximum values that are read at once: a function in Redis has room for as many.
const MAX_VALUES: usize = 7990;
/// Default of the alignment option `!`, in bytes.
const MAX_ALIGNMENT: usize = 8;

/// Creates the library.
pub(super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add_many(lua, &library, "pack", |lua, arguments| answer(lua, pack(lua, &arguments)))?;
    add_many(lua, &library, "unpack", |lua, arguments| answer(lua, unpack(lua, &arguments)))?;
    add_many(lua, &library, "size", |lua, arguments| answer(lua, size(&arguments)))?;
    Ok(library)
}

fn answer(lua: &Lua, done: Result<MultiValue, String>) -> Answers {
    match done {
        Ok(values) => Ok(Ok(values)),
        Err(error) => Ok(Err(Value::String(lua.create_string(error)?))),
    }
}

/// A format string that is being parsed.
struct Format<'a> {
    /// The name of the function that parses the format, for errors.
    name: &'static str,
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

/// One value of a format.
struct Item {
    option: u8,
    /// The size in bytes; 0 if the value determines it.
    size: usize,
    /// The number of padding bytes before the value.
    padding: usize,
}

impl<'a> Format<'a> {
    fn of(name: &'static str, format: &'a [u8]) -> Self {
        Format { name, rest: format, is_little: cfg!(target_endian = "little"), alignment: 1 }
    }

    /// The next item, before which there are `at` bytes.
    fn next(&mut self, at: usize) -> Result<Option<Item>, String> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match option {
                b'B' | b'b' | b'x' => 1,
                b'H' | b'h' => 2,
                b'L' | b'l' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > MAX_INTEGER_BYTES {
                        return Err(format!(
                            "integral size {size} is larger than limit of {MAX_INTEGER_BYTES}"
                        ));
                    }
                    size
                }
                b's' => 0,
                _ => {
                    self.control(option)?;
                    continue;
                }
            };
            let step = if option == b'c' { 0 } else { size.min(self.alignment) };
            let padding = if step > 1 { (step - (at & (step - 1))) & (step - 1) } else { 0 };
            return Ok(Some(Item { option, size, padding }));
        }
        Ok(None)
    }

    fn control(&mut self, option: u8) -> Result<(), String> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.number(MAX_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(format!("alignment {alignment} is not a power of 2"));
                }
                self.alignment = alignment;
            }
            _ => {
                let (name, option) = (self.name, char::from(option));
                return Err(format!(
                    "bad argument #1 to '{name}' (invalid format option '{option}')"
                ));
            }
        }
        Ok(())
    }

    /// Parses the number that follows; `default` if there is none.
    fn number(&mut self, default: usize) -> Result<usize, String> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if number.is_empty() {
            return Ok(default);
        }
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<i32>().ok());
        let number = number.ok_or_else(|| "integral size overflow".to_owned())?;
        usize::try_from(number).map_err(|_| "integral size overflow".to_owned())
    }
}

fn text_of(arguments: &MultiValue, place: usize, name: &str) -> Result<Vec<u8>, String> {
    with_text(arguments, place, name, |text| Ok(text.to_vec()))
}

/// Reads a text without a copy: only a few of its bytes may be needed.
fn with_text<T>(
    arguments: &MultiValue,
    place: usize,
    name: &str,
    read: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    if let Some(Value::String(text)) = arguments.get(place) {
        return read(&text.as_bytes());
    }
    let text = arguments.get(place).and_then(as_text);
    read(&text.ok_or_else(|| wrong(arguments, place, name, "string"))?)
}

fn wrong(arguments: &MultiValue, place: usize, name: &str, kind: &str) -> String {
    let found = arguments.get(place).map_or("no value", Value::type_name);
    format!("bad argument #{} to '{name}' ({kind} expected, got {found})", place + 1)
}

/// The bytes so far.
struct Packed {
    bytes: Vec<u8>,
    meter: Meter,
}

impl Packed {
    /// Appends the bytes, unless they exceed the limit.
    fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.meter.take(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends an integer, of which only the lowest eight bytes can be other than 0.
    fn add_integer(&mut self, value: u64, size: usize, is_little: bool) -> Result<(), String> {
        let mut raw = value.to_le_bytes().to_vec();
        raw.resize(size, 0);
        if !is_little {
            raw.reverse();
        }
        self.add(&raw)
    }
}

fn pack(lua: &Lua, arguments: &MultiValue) -> Result<MultiValue, String> {
    let format = text_of(arguments, 0, "pack")?;
    let mut format = Format::of("pack", &format);
    let mut packed = Packed { bytes: Vec::new(), meter: Meter::new(lua) };
    let mut place = 1;
    while let Some(item) = format.next(packed.bytes.len())? {
        // Padding aligns a value of `MAX_INTEGER_BYTES` at most, and so is shorter.
        packed.add([0; MAX_INTEGER_BYTES].get(..item.padding).unwrap_or_default())?;
        match item.option {
            b'x' => packed.add(&[0])?,
            b'c' | b's' => {
                with_text(arguments, place, "pack", |value| {
                    let size = if item.size == 0 { value.len() } else { item.size };
                    let short =
                        || format!("bad argument #{} to 'pack' (string too short)", place + 2);
                    packed.add(value.get(..size).ok_or_else(short)?)
                })?;
                place += 1;
                if item.option == b's' {
                    packed.add(&[0])?;
                }
            }
            option => {
                let value = arguments.get(place).and_then(as_number);
                let value = value.ok_or_else(|| {
                    let found = arguments.get(place).map_or("nil", Value::type_name);
                    format!("bad argument #{} to 'pack' (number expected, got {found})", place + 1)
                })?;
                place += 1;
                let bits = match option {
                    b'f' => u64::from((value as f32).to_bits()),
                    b'd' => value.to_bits(),
                    // C converts a negative number to a signed integer first, which is the same.
                    _ => number::unsigned(value),
                };
                packed.add_integer(bits, item.size, format.is_little)?;
            }
        }
    }
    string(lua, &packed.bytes).map(|packed| MultiValue::from_iter([packed]))
}

fn unpack(lua: &Lua, arguments: &MultiValue) -> Result<MultiValue, String> {
    const TOO_SHORT: &str = "bad argument #2 to 'unpack' (data string too short)";
    let format = text_of(arguments, 0, "unpack")?;
    let data = text_of(arguments, 1, "unpack")?;
    let mut at = match arguments.get(2) {
        None | Some(Value::Nil) => 0,
        Some(value) => {
            let from = as_number(value).ok_or_else(|| wrong(arguments, 2, "unpack", "number"))?;
            let offset = "bad argument #3 to 'unpack' (offset must be 1 or greater)";
            usize::try_from(number::replied(from).wrapping_sub(1)).map_err(|_| offset.to_owned())?
        }
    };
    let mut format = Format::of("unpack", &format);
    let mut values = Vec::new();
    while let Some(item) = format.next(at)? {
        if values.len() == MAX_VALUES {
            return Err("stack overflow (too many results)".to_owned());
        }
        at += item.padding;
        let mut size = item.size;
        if item.option == b'c' && size == 0 {
            let count = values.pop().and_then(|value| as_number(&value));
            let count = count.ok_or("format 'c0' needs a previous size")?;
            size = usize::try_from(number::unsigned(count)).unwrap_or(usize::MAX);
        }
        let end = at.checked_add(size).ok_or(TOO_SHORT)?;
        let raw = data.get(at..end).ok_or(TOO_SHORT)?;
        let mut ordered = raw.to_vec();
        if !format.is_little {
            ordered.reverse();
        }
        at = end;
        match item.option {
            b'x' => {}
            b'c' => values.push(string(lua, raw)?),
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let len = rest.iter().position(|byte| *byte == 0);
                let len = len.ok_or("unfinished string in data")?;
                values.push(string(lua, rest.get(..len).unwrap_or_default())?);
                at += len + 1;
            }
            b'f' => {
                let raw = ordered.try_into().map_or(0.0, f32::from_le_bytes);
                values.push(Value::Number(raw.into()));
            }
            b'd' => values.push(Value::Number(ordered.try_into().map_or(0.0, f64::from_le_bytes))),
            option => values.push(Value::Number(integer(&ordered, option.is_ascii_lowercase()))),
        }
    }
    values.push(Value::Number(at as f64 + 1.0));
    Ok(MultiValue::from_iter(values))
}

/// The integer in little-endian `bytes`, of which only the lowest eight count.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let bits = bytes.len() * 8;
    if !is_signed || bits == 0 {
        return value as f64;
    }
    let unused = 64u32.saturating_sub(u32::try_from(bits).unwrap_or(64));
    (value.cast_signed() << unused >> unused) as f64
}

fn string(lua: &Lua, bytes: &[u8]) -> Result<Value, String> {
    lua.create_string(bytes).map(Value::String).map_err(|error| plain(&error))
}

fn size(arguments: &MultiValue) -> Result<MultiValue, String> {
    let format = text_of(arguments, 0, "size")?;
    let mut format = Format::of("size", &format);
    let mut size = 0usize;
    while let Some(item) = format.next(size)? {
        if item.option == b's' {
            return Err("bad argument #1 to 'size' (option 's' has no fixed size)".to_owned());
        }
        if item.option == b'c' && item.size == 0 {
            return Err("bad argument #1 to 'size' (option 'c0' has no fixed size)".to_owned());
        }
        size = size.saturating_add(item.padding).saturating_add(item.size);
    }
    Ok(MultiValue::from_iter([Value::Number(size as f64)]))
}
