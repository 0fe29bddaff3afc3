//! `math.random` and `math.randomseed`.

use super::answer::{add, as_number, text};
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::rc::Rc;

/// Creates both functions.
pub(super) fn open(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let random = lua.create_table()?;
    let shared = Rc::clone(state);
    add(lua, &random, "random", move |lua, arguments| {
        let bound = |place| number(&arguments, place, "random");
        let (least, most) = match arguments.len() {
            0 => return Ok(Ok(Value::Number(shared.random.borrow_mut().next()))),
            1 => (Ok(1.0), bound(0)),
            2 => (bound(0), bound(1)),
            _ => return text(lua, "wrong number of arguments"),
        };
        let (least, most) = match (least, most) {
            (Ok(least), Ok(most)) => (least.trunc(), most.trunc()),
            (Err(error), _) | (_, Err(error)) => return text(lua, &error),
        };
        if least > most || least.is_nan() || most.is_nan() {
            let place = if arguments.len() == 1 { 1 } else { 2 };
            return text(lua, &format!("bad argument #{place} to 'random' (interval is empty)"));
        }
        let share = shared.random.borrow_mut().next();
        Ok(Ok(Value::Number((share * (most - least + 1.0)).floor() + least)))
    })?;
    let shared = Rc::clone(state);
    add(lua, &random, "randomseed", move |lua, arguments| {
        let seed = match number(&arguments, 0, "randomseed") {
            Ok(seed) => seed,
            Err(error) => return text(lua, &error),
        };
        shared.random.borrow_mut().seed(seed as i64 as u32);
        Ok(Ok(Value::Nil))
    })?;
    Ok(random)
}

/// The number at a place, or the text of the error if there is none.
fn number(arguments: &MultiValue, place: usize, name: &str) -> Result<f64, String> {
    arguments.get(place).and_then(as_number).ok_or_else(|| {
        let found = arguments.get(place).map_or("no value", Value::type_name);
        format!("bad argument #{} to '{name}' (number expected, got {found})", place + 1)
    })
}
