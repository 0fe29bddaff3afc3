//! Loading libraries of functions, on the script thread.

use crate::config::split;
use crate::state::libraries::Library;
use nagi_script::{Engine, LoadedLibrary, is_name};
use nagi_store::accounting::LargeOverhead;
use std::collections::HashMap;
use std::sync::Arc;

/// The libraries that the engine has loaded, by name.
#[derive(Default)]
pub(super) struct Loaded(HashMap<String, Arc<Library>>);

const WRONG_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and \
                          must be at least one character long";

/// Returns the name in a library's first line, and the code from the end of that line on.
fn parse(code: &[u8]) -> Result<(String, &[u8]), String> {
    let line = code.strip_prefix(b"#!").ok_or("Missing library metadata")?;
    let end = line.iter().position(|byte| *byte == b'\n').ok_or("Invalid library metadata")?;
    let (line, body) = line.split_at(end);
    let line = String::from_utf8_lossy(line);
    // The name of the engine, directly after `#!`; it may be missing.
    let (engine, rest) = line.split_once([' ', '\t']).unwrap_or((&line, ""));
    let words = split(rest.as_bytes()).ok_or("Invalid library metadata")?;
    let engine = engine.trim_ascii_end();
    let mut name = None;
    for word in &words {
        let word = String::from_utf8_lossy(word);
        let given = word.split_at_checked(5).filter(|it| it.0.eq_ignore_ascii_case("name="));
        let given = given.map(|(_, given)| given);
        let given = given.ok_or_else(|| format!("Invalid metadata value given: {word}"))?;
        if name.replace(given.to_owned()).is_some() {
            let text = "Invalid metadata value, name argument was given multiple times";
            return Err(text.to_owned());
        }
    }
    let name = name.ok_or("Library name was not given")?;
    if !is_name(name.as_bytes()) {
        return Err(WRONG_NAME.to_owned());
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("Engine '{engine}' not found"));
    }
    Ok((name, body))
}

/// The name of a library, if its first line is valid.
pub(super) fn name(code: &[u8]) -> Option<String> {
    parse(code).ok().map(|(name, _)| name)
}

/// Runs the code of a library. The functions that it registers can be called once they are
/// installed.
pub(super) fn load(engine: &mut Engine, code: &[u8]) -> Result<(Library, LoadedLibrary), String> {
    let (name, body) = parse(code)?;
    let loaded = engine.load_library(body)?;
    let functions = loaded.functions().cloned().collect();
    let _overhead = LargeOverhead::of_shared(code.len());
    Ok((Library { name, code: code.into(), functions, _overhead }, loaded))
}

impl Loaded {
    /// Installs the functions of a library, which replaces the one that had its name.
    pub(super) fn install(
        &mut self,
        engine: &mut Engine,
        library: &Arc<Library>,
        loaded: LoadedLibrary,
    ) {
        engine.install_library(&library.name, loaded);
        self.0.insert(library.name.clone(), Arc::clone(library));
    }

    /// Loads a library into the engine, unless it has been loaded already.
    pub(super) fn require(
        &mut self,
        engine: &mut Engine,
        library: &Arc<Library>,
    ) -> Result<(), String> {
        let has = self.0.get(&library.name).is_some_and(|loaded| Arc::ptr_eq(loaded, library));
        if !has {
            let (_, loaded) = load(engine, &library.code)?;
            self.install(engine, library, loaded);
        }
        Ok(())
    }

    /// Removes all libraries from the engine except those for which `is_kept` returns `true`.
    pub(super) fn keep(&mut self, engine: &mut Engine, mut is_kept: impl FnMut(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
        engine.retain_libraries(is_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_libraries_are_parsed_or_refused() {
        let (name, body) = parse(b"#!lua name=a_1\ntext").unwrap();
        assert_eq!((name.as_str(), body), ("a_1", b"\ntext".as_slice()));
        for code in [&b"#!lua name='a_1'\n"[..], b"#!LUA\t name=\"a_1\" \r\n"] {
            assert_eq!(parse(code).map(|it| it.0).as_deref(), Ok("a_1"), "{}", code.escape_ascii());
        }
        for (code, error) in [
            ("#! name=a\n", "Engine '' not found"),
            ("#!lua name='a\n", "Invalid library metadata"),
            ("text", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=a-b\n", WRONG_NAME),
            ("#!lua name=\n", WRONG_NAME),
            ("#!py name=a\n", "Engine 'py' not found"),
            ("#!lua name=a foo=bar\n", "Invalid metadata value given: foo=bar"),
            (
                "#!lua name=a name=b\n",
                "Invalid metadata value, name argument was given multiple times",
            ),
        ] {
            assert_eq!(parse(code.as_bytes()).unwrap_err(), error);
        }
    }
}
