//! `math.random` and `math.randomseed`.

use super::answer::{add, as_number, text};
use crate::state::State;
use mlua::{Lua, Table, Value};
use std::rc::Rc;

/// Creates both functions.
pub(super) fn open(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let random = lua.create_table()?;
    let shared = Rc::clone(state);
    add(lua, &random, "random", move |lua, arguments| {
        let mut bounds = arguments.iter().map(as_number);
        let (least, most) = match (bounds.next(), bounds.next(), bounds.next()) {
            (None, ..) => return Ok(Ok(Value::Number(shared.random.borrow_mut().next()))),
            (Some(Some(most)), None, _) => (1.0, most.trunc()),
            (Some(Some(least)), Some(Some(most)), None) => (least.trunc(), most.trunc()),
            _ => return text(lua, "wrong number of arguments"),
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
        let Some(seed) = arguments.front().and_then(as_number) else {
            return text(lua, "bad argument #1 to 'randomseed' (number expected, got no value)");
        };
        shared.random.borrow_mut().seed(seed as i64 as u32);
        Ok(Ok(Value::Nil))
    })?;
    Ok(random)
}
