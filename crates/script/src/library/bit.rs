//! `bit`: operations on 32-bit integers, as in LuaBitOp.

use super::answer::{Answer, add, as_number, text};
use mlua::{Lua, MultiValue, Table, Value};

type Fold = fn(i32, i32) -> i32;
type Shift = fn(i32, u32) -> i32;
type Change = fn(i32) -> i32;

/// The lowest 32 bits of an argument; raises an error if it is not a number.
macro_rules! bits {
    ($lua:expr, $arguments:expr, $place:expr, $name:expr) => {
        match lowest_bits($arguments, $place, $name) {
            Ok(bits) => bits,
            Err(error) => return text($lua, &error),
        }
    };
}

/// Creates the library.
pub(super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    let folds: [(&'static str, Fold); 3] = [
        ("band", |left, right| left & right),
        ("bor", |left, right| left | right),
        ("bxor", |left, right| left ^ right),
    ];
    for (name, fold) in folds {
        add(lua, &bit, name, move |lua, arguments| {
            let mut result = bits!(lua, &arguments, 0, name);
            for place in 1..arguments.len() {
                result = fold(result, bits!(lua, &arguments, place, name));
            }
            number(result)
        })?;
    }
    let shifts: [(&'static str, Shift); 5] = [
        ("lshift", |value, by| value.wrapping_shl(by)),
        ("rshift", |value, by| value.cast_unsigned().wrapping_shr(by).cast_signed()),
        ("arshift", |value, by| value.wrapping_shr(by)),
        ("rol", |value, by| value.rotate_left(by & 31)),
        ("ror", |value, by| value.rotate_right(by & 31)),
    ];
    for (name, shift) in shifts {
        add(lua, &bit, name, move |lua, arguments| {
            let value = bits!(lua, &arguments, 0, name);
            let by = bits!(lua, &arguments, 1, name);
            number(shift(value, by.cast_unsigned()))
        })?;
    }
    let singles: [(&'static str, Change); 3] =
        [("tobit", |value| value), ("bnot", |value| !value), ("bswap", i32::swap_bytes)];
    for (name, change) in singles {
        add(lua, &bit, name, move |lua, arguments| {
            number(change(bits!(lua, &arguments, 0, name)))
        })?;
    }
    add(lua, &bit, "tohex", |lua, arguments| {
        let value = bits!(lua, &arguments, 0, "tohex");
        let digits = match arguments.len() {
            0 | 1 => 8,
            _ => bits!(lua, &arguments, 1, "tohex"),
        };
        let shown = format!("{value:08x}");
        let shown = if digits < 0 { shown.to_uppercase() } else { shown };
        let kept = digits.unsigned_abs().min(8) as usize;
        Ok(Ok(Value::String(lua.create_string(shown.get(8 - kept..).unwrap_or_default())?)))
    })?;
    Ok(bit)
}

fn number(value: i32) -> Answer {
    Ok(Ok(Value::Number(value.into())))
}

/// The lowest 32 bits of an argument, or the error to raise if it is not a number.
fn lowest_bits(arguments: &MultiValue, place: usize, name: &str) -> Result<i32, String> {
    let argument = arguments.get(place);
    let Some(value) = argument.and_then(as_number) else {
        let found = argument.map_or("no value", Value::type_name);
        let place = place + 1;
        return Err(format!("bad argument #{place} to '{name}' (number expected, got {found})"));
    };
    const ALL: f64 = 4_294_967_296.0;
    Ok((value.round_ties_even().rem_euclid(ALL) as u32).cast_signed())
}
