//! The types of the settings' rows.

use super::kinds::{Kind, Value};
use super::values::{Number, Text, Values};

/// A setting's row.
pub struct Setting {
    /// Its name, as in `redis.conf`.
    pub name: &'static str,
    /// Other names, from older versions of Redis.
    pub aliases: &'static [&'static str],
    /// The kind of its values.
    pub kind: Kind,
    /// Its default value, in the syntax of `redis.conf`.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub changeable: bool,
    /// The storage of its value, which also determines whether it has an effect.
    pub place: Place,
    /// Its effect, in one sentence without a full stop; for a setting without effect, the reason.
    pub summary: &'static str,
}

/// The storage of a setting's value, or the treatment of a directive.
pub enum Place {
    /// A number that the server uses.
    Number(fn(&Values) -> &Number),
    /// Text that the server uses.
    Text(fn(&Values) -> &Text),
    /// Kept for CONFIG GET and CONFIG REWRITE: it has no effect here.
    Unused,
    /// Kept like `Unused`, but values other than the default or one of these require an unsupported
    /// feature and prevent the start.
    Refused(&'static [&'static str]),
    /// A line of a file that is unknown to CONFIG and prevents the start.
    Directive,
    /// A directive about a user, unknown to CONFIG; a file may have many of them.
    User,
    /// A directive that renames a command, unknown to CONFIG; a file may have many of them.
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

    /// Whether it is a line of a file that is unknown to CONFIG.
    pub(crate) fn is_line(&self) -> bool {
        matches!(self.place, Place::Directive | Place::User | Place::Renaming)
    }

    /// Its default, as CONFIG GET shows it.
    pub(crate) fn default_value(&self) -> String {
        let parsed = self.kind.parse(self.default);
        parsed.map_or_else(|_| self.default.to_owned(), |value| self.kind.show(&value))
    }

    /// Whether it determines where files are written, which `enable-protected-configs` may restrict
    /// to the command line and the file.
    pub(crate) fn is_protected(&self) -> bool {
        matches!(self.name, "dir" | "dbfilename")
    }

    /// Whether a value requires an unsupported feature.
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
