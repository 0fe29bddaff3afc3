//! The settings: one literal row each, from which the command line, configuration files, CONFIG and
//! the documentation are derived, and the storage of their values.
//!
//! A setting with an effect has a row in `rows` and a field in [`Values`]. Settings of Redis that
//! have no effect here have a row in `kept`.

mod addresses;
mod checks;
mod command_log;
mod current;
mod file;
mod kept;
mod kinds;
mod limits;
mod load;
mod memcached;
mod nearest;
mod networks;
pub(crate) mod rewrite;
mod rows;
mod scripts;
mod setting;
mod title;
mod values;

pub use addresses::Addresses;
pub use current::{Config, OptionNames, find, settings};
pub use file::{Directive, FileError, Source, read_file, read_options, read_text, split};
pub use kinds::{Kind, LOG_LEVELS, MemcachedProtocol, Origin, SUPERVISORS, Value};
pub use limits::OutputLimit;
pub use load::{LoadError, Loaded, load};
pub use nearest::nearest;
pub(crate) use networks::check as check_networks;
pub use networks::has_address;
pub(crate) use rewrite::replace;
pub use setting::{Place, Setting};
pub use title::{TitleVariable, render_title, short_count};
pub use values::{Number, Text, Values};
