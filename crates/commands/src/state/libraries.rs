//! Libraries of functions.

use nagi_script::{FunctionDescription, ScriptFlags};
use nagi_store::accounting::LargeOverhead;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The effect of loading libraries on the existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// FUNCTION LOAD: existing libraries stay, and must not have the name of the new one.
    New,
    /// FUNCTION RESTORE FLUSH: existing libraries are removed.
    Flush,
    /// FUNCTION RESTORE APPEND: existing libraries stay, and must not have the names of new ones.
    Append,
    /// Existing libraries stay, except for those with the names of new ones.
    Replace,
}

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// Its source code, including the first line with its name.
    pub(crate) code: Arc<[u8]>,
    pub(crate) functions: Vec<FunctionDescription>,
    /// Accounts for the code, which is not data.
    pub(crate) _overhead: LargeOverhead,
}

impl Library {
    /// The flags that one of its functions has declared.
    pub(crate) fn flags_of(&self, function: &[u8]) -> Option<ScriptFlags> {
        let mut functions = self.functions.iter();
        let found = functions.find(|it| it.name.as_bytes().eq_ignore_ascii_case(function));
        found.map(|function| function.flags)
    }
}

/// All libraries, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries(BTreeMap<String, Arc<Library>>);

impl Libraries {
    /// The library that has a function, whose name is case-insensitive.
    pub(crate) fn of_function(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.0.values().find(|library| {
            library.functions.iter().any(|it| it.name.as_bytes().eq_ignore_ascii_case(name))
        })
    }

    /// Adds a library. It replaces an existing library of its name if the policy permits that.
    ///
    /// # Errors
    /// The library or function that already exists.
    pub(crate) fn add(&mut self, library: Arc<Library>, policy: Policy) -> Result<(), String> {
        let name = &library.name;
        self.check_new(name, policy)?;
        for function in &library.functions {
            let other = self.of_function(function.name.as_bytes());
            if other.is_some_and(|other| other.name != *name) {
                return Err(format!("Function {} already exists", function.name));
            }
        }
        self.0.insert(name.clone(), library);
        Ok(())
    }

    /// Checks that a library with this name may be added.
    ///
    /// # Errors
    /// There is one, which the policy does not replace.
    pub(crate) fn check_new(&self, name: &str, policy: Policy) -> Result<(), String> {
        match policy {
            _ if !self.0.contains_key(name) => Ok(()),
            Policy::Replace => Ok(()),
            Policy::New => Err(format!("Library '{name}' already exists")),
            Policy::Append | Policy::Flush => Err(format!("Library {name} already exists")),
        }
    }

    /// Removes a library. Returns whether it existed.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let name = std::str::from_utf8(name).unwrap_or_default();
        self.0.remove(name).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.0.values()
    }

    /// Memory of the texts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(|library| library.code.len()).sum()
    }

    /// The numbers of libraries and of functions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let functions = self.0.values().map(|library| library.functions.len());
        (self.0.len(), functions.sum())
    }
}
