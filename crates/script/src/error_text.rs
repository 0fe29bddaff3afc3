//! The texts of errors that Lua has raised.

/// The text of an error, without the places of the callbacks that it has passed.
pub(crate) fn innermost(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    }
}
