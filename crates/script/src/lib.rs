//! Lua for Redis' scripts: a sandbox, the libraries `redis`, `bit` and so on, and the
//! conversion between Lua's values and replies. A script reaches the server through [`Host`] only.
//!
//! The C sources, with vulnerabilities fixed, are in `crates/lua`.

mod bounds;
mod convert;
mod engine;
mod error_text;
mod functions;
mod generator;
mod held_bytes;
mod host;
mod library;
mod native;
mod number;
mod sandbox;
mod source;
mod state;
mod strtod;

pub use engine::{Engine, Failure};
pub use functions::{FunctionDescription, LoadedLibrary, is_name};
pub use host::{Host, LogLevel, Words};
pub use nagi_lua::{block_bytes, taken_bytes};
pub use source::{Digest, ScriptFlags, Source, SourceError};
