//! The types of the settings' rows.

use super::kinds::{Kind, Value};
use super::values::{Number, Text, Values};

/// A setting's row.
pub struct Setting {
    /// Its name, as in `redis.conf`.
    pub name: &'static str,
    /// Other names for it, which older versions of Redis have used.
    pub aliases: &'static [&'static str],
    /// What values it takes.
    pub kind: Kind,
    /// Its value until something else is said, as it would be written in `redis.conf`.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub changeable: bool,
    /// Where its value is kept, which is also whether it has an effect.
    pub place: Place,
    /// What it does, in one sentence without a full stop; of one without effect, why.
    pub summary: &'static str,
}

/// Where a setting's value is kept, and what it does.
pub enum Place {
    /// A number that the server uses.
    Number(fn(&Values) -> &Number),
    /// Words that the server uses.
    Text(fn(&Values) -> &Text),
    /// Kept for CONFIG GET and CONFIG REWRITE: it has no effect here.
    Unused,
    /// Kept like `Unused`, but a value other than the default, or than one of these, asks for what
    /// is not supported: it stops the start.
    Refused(&'static [&'static str]),
    /// A line of a file that CONFIG does not know, and that stops the start.
    Directive,
    /// A line of a file about a user, of which there may be many and CONFIG does not know.
    User,
    /// A line of a file with another name for a command, likewise.
    Renaming,
}

impl Setting {
    /// Its name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether it has an effect.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        matches!(self.place, Place::Number(_) | Place::Text(_) | Place::User | Place::Renaming)
    }

    /// Whether it is a line of a file that CONFIG does not know.
    pub(crate) fn is_line(&self) -> bool {
        matches!(self.place, Place::Directive | Place::User | Place::Renaming)
    }

    /// Its default, as CONFIG GET shows it.
    pub(crate) fn default_value(&self) -> String {
        let parsed = self.kind.parse(self.default);
        parsed.map_or_else(|_| self.default.to_owned(), |value| self.kind.show(&value))
    }

    /// Whether it says where files are written, which `enable-protected-configs` leaves to the
    /// command line and the file.
    pub(crate) fn is_protected(&self) -> bool {
        matches!(self.name, "dir" | "dbfilename")
    }

    /// Whether a value asks for what is not supported.
    pub(super) fn is_refused(&self, value: &Value) -> bool {
        match self.place {
            Place::Number(_) | Place::Text(_) | Place::Unused | Place::User | Place::Renaming => {
                false
            }
            Place::Refused(harmless) => {
                let value = self.kind.show(value);
                value != self.default_value() && !harmless.contains(&value.as_str())
            }
            Place::Directive => true,
        }
    }
}
