//! The current value of every setting, read and set by name.

use super::kinds::{ANY, ANY_PORT, MemcachedProtocol, Origin, Value};
use super::setting::{Place, Setting};
use super::values::{Number, Values};
use super::{kept, kinds, rows};
use crate::state::memcached_users::Users as MemcachedUsers;
use crate::state::slow_log::LogLimits;
use crate::state::usage;
use crate::state::users::Users;
use nagi_store::{Policy, Store, Tuning};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A renamed command (`rename-command`).
#[derive(Clone, Debug)]
pub(crate) struct Renaming {
    /// The place of the directive, for error messages.
    pub(crate) place: String,
    pub(crate) old: String,
    /// The new name; if empty, the command is disabled.
    pub(crate) new: String,
}

/// The value of every setting.
#[derive(Debug)]
pub struct Config {
    values: Values,
    /// Values of settings without effect that differ from the default.
    unused: RwLock<BTreeMap<&'static str, Arc<str>>>,
    /// The file from which the settings were read, and which CONFIG REWRITE updates.
    file: OnceLock<PathBuf>,
    /// Actual ports in place of `any`, by the names of their settings.
    found: RwLock<BTreeMap<&'static str, String>>,
    /// Defaults that differ from those in the rows, such as those of an emulated server.
    defaults: RwLock<BTreeMap<&'static str, String>>,
    /// Names of settings given at the start.
    given: RwLock<BTreeSet<&'static str>>,
    /// The users of memcached's protocols, if there is a file of them.
    memcached_users: OnceLock<Mutex<Arc<MemcachedUsers>>>,
    /// The users of Redis' commands.
    users: Users,
    /// Lines about users in the configuration file, each with its place.
    user_lines: Mutex<Vec<(String, Vec<Vec<u8>>)>>,
    /// Renamed commands, in the order of the directives.
    renamings: Mutex<Vec<Renaming>>,
    /// The names of command-line options, if the command line is not that of `nagi serve`.
    option_names: OnceLock<OptionNames>,
    /// Held while settings that belong together are changed.
    changing: Mutex<()>,
    /// Locked while files of settings and users are read or written; before `changing`.
    writing: Mutex<()>,
}

/// Returns the spelling of the command-line option that changes a setting, or `None`.
pub type OptionNames = fn(&str) -> Option<String>;

impl Deref for Config {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            values: Values::default(),
            unused: RwLock::default(),
            file: OnceLock::new(),
            found: RwLock::default(),
            defaults: RwLock::default(),
            given: RwLock::default(),
            memcached_users: OnceLock::new(),
            users: Users::default(),
            user_lines: Mutex::default(),
            renamings: Mutex::default(),
            option_names: OnceLock::new(),
            changing: Mutex::default(),
            writing: Mutex::default(),
        };
        for setting in rows::ROWS.iter().filter(|setting| !setting.is_line()) {
            if let Ok(value) = setting.kind.parse(setting.default) {
                setting.store(&config, value);
            }
        }
        if let Some(limit_bytes) = usage::container_memory_bytes() {
            // This fails only if the row is missing.
            let _ = config.set_default("maxmemory", &(limit_bytes / 4 * 3).to_string());
        }
        config
    }
}

impl Config {
    /// The thresholds and lengths of the logs of slow and large requests.
    #[must_use]
    pub fn log_limits(&self) -> LogLimits {
        let bytes = |threshold: &Number| usize::try_from(threshold.signed()).ok();
        LogLimits {
            large_request: bytes(&self.commandlog_request_larger_than),
            large_reply: bytes(&self.commandlog_reply_larger_than),
            most_slow: self.slowlog_max_len.bytes(),
            most_large_requests: self.commandlog_large_request_max_len.bytes(),
            most_large_replies: self.commandlog_large_reply_max_len.bytes(),
        }
    }

    /// Replaces a port that is still `any` by the actual port; 0 means none.
    pub fn found_port(&self, name: &str, port: u16) {
        let Some(setting) = find(name) else { return };
        let Place::Number(number) = setting.place else { return };
        let number = number(self);
        if number.get() != ANY_PORT {
            return;
        }
        if port != 0 {
            let mut found = self.found.write();
            found.insert(setting.name, port.to_string());
        }
        number.set(port.into());
    }

    /// Applies the memory limit and the policy to the store.
    pub fn limit_memory(&self, store: &Store) {
        let place = self.maxmemory_policy.bytes();
        let policy = Policy::ALL.get(place).map_or(Policy::default(), |row| row.0);
        store.set_limit(self.maxmemory.get(), policy);
        let number = |value: &Number| u32::try_from(value.get()).unwrap_or(u32::MAX);
        store.set_tuning(Tuning {
            lfu_log_factor: number(&self.lfu_log_factor),
            lfu_decay_time: number(&self.lfu_decay_time),
        });
    }

    /// The value of `io`, as a word.
    #[must_use]
    pub fn io(&self) -> &'static str {
        kinds::IO.get(self.io.bytes()).copied().unwrap_or_default()
    }

    /// The version of the format of saved files, unless that is the lowest possible one.
    #[must_use]
    pub fn pinned_rdb_version(&self) -> Option<u16> {
        kinds::RDB_VERSIONS.get(self.rdb_version.bytes())?.parse().ok()
    }

    /// Sets a setting by name.
    ///
    /// # Errors
    /// The fault, in the text of CONFIG SET after the setting's name.
    pub fn set(&self, name: &str, value: &str, origin: Origin) -> Result<(), Cow<'static, str>> {
        let setting = find(name).ok_or("unknown setting")?;
        let value = setting.check(self, value, origin)?;
        setting.store(self, value);
        Ok(())
    }

    /// Sets a setting, and makes this value its default.
    ///
    /// # Errors
    /// As for [`Config::set`].
    pub fn set_default(&self, name: &str, value: &str) -> Result<(), Cow<'static, str>> {
        self.set(name, value, Origin::Startup)?;
        let setting = find(name).ok_or("unknown setting")?;
        let mut defaults = self.defaults.write();
        defaults.insert(setting.name, setting.value(self));
        Ok(())
    }

    /// Whether a setting was given on the command line or in a file, whatever its value.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.read().contains(name)
    }

    /// Records that a setting was given.
    pub(super) fn note_given(&self, setting: &'static Setting) {
        self.given.write().insert(setting.name);
    }

    /// The enabled protocols of memcached.
    #[must_use]
    pub fn memcached_protocol(&self) -> MemcachedProtocol {
        match self.memcached_protocol.get() {
            1 => MemcachedProtocol::Ascii,
            2 => MemcachedProtocol::Binary,
            _ => MemcachedProtocol::Auto,
        }
    }

    /// Whether saves have a file to write.
    #[must_use]
    pub fn has_dump_file(&self) -> bool {
        !self.dbfilename.get().is_empty()
    }

    /// Whether data is saved without a request, by save points and at the end: both are set, the
    /// points and the file.
    #[must_use]
    pub fn has_save_points(&self) -> bool {
        self.has_dump_file() && !self.save.get().is_empty()
    }

    /// Whether there is a file of users of memcached's protocols.
    #[must_use]
    pub fn has_memcached_users(&self) -> bool {
        self.memcached_users.get().is_some()
    }

    /// The users of memcached's protocols, if there is a file of them.
    #[must_use]
    pub(crate) fn memcached_users(&self) -> Option<Arc<MemcachedUsers>> {
        self.memcached_users.get().map(|users| Arc::clone(&users.lock()))
    }

    /// Sets or replaces the users of memcached's protocols.
    pub fn set_memcached_users(&self, users: MemcachedUsers) {
        let users = Arc::new(users);
        let current = self.memcached_users.get_or_init(|| Mutex::new(Arc::clone(&users)));
        *current.lock() = users;
    }

    /// The users of Redis' commands.
    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// Takes the lines about users in the configuration file, each with its place.
    pub(crate) fn take_user_lines(&self) -> Vec<(String, Vec<Vec<u8>>)> {
        std::mem::take(&mut self.user_lines.lock())
    }

    /// Records a line about a user.
    pub(super) fn add_user_line(&self, place: String, words: Vec<Vec<u8>>) {
        self.user_lines.lock().push((place, words));
    }

    /// Renamed commands, in the order of the directives.
    pub(crate) fn renamings(&self) -> Vec<Renaming> {
        self.renamings.lock().clone()
    }

    /// Renames a command.
    pub(super) fn add_renaming(&self, renaming: Renaming) {
        self.renamings.lock().push(renaming);
    }

    /// Sets the names of command-line options, once.
    pub fn set_option_names(&self, names: OptionNames) {
        // Only set once: a process has one command line.
        let _ = self.option_names.set(names);
    }

    /// The command-line option for a setting, if there is one, so that messages name options that
    /// exist.
    #[must_use]
    pub fn option(&self, setting: &str) -> Option<String> {
        match self.option_names.get() {
            Some(names) => names(setting),
            None => Some(format!("--{setting}")),
        }
    }

    /// Prevents concurrent changes while several settings are checked and set together.
    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Keeps the files of settings and users from being read or written concurrently: they are
    /// written in order, each with all changes that precede it.
    pub(crate) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// The file that the settings were read from.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.get().map(PathBuf::as_path)
    }

    /// Sets the file that the settings were read from, once.
    pub fn set_file(&self, path: PathBuf) {
        // Only set once: a server reads one file.
        let _ = self.file.set(path);
    }
}

/// All settings; first those that have an effect.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    rows::ROWS.iter().chain(kept::ROWS)
}

/// The setting called `name`, in any case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.names().any(|other| other.eq_ignore_ascii_case(name)))
}

impl Setting {
    /// Its value, as CONFIG GET shows it.
    #[must_use]
    pub fn value(&self, config: &Config) -> String {
        match self.place {
            Place::Number(number) => self.kind.show(&Value::Number(number(config).get())),
            Place::Text(text) => text(config).get().as_ref().to_owned(),
            Place::Unused
            | Place::Refused(_)
            | Place::Directive
            | Place::User
            | Place::Renaming => {
                let unused = config.unused.read();
                unused.get(self.name).map_or_else(|| self.default_value(), |it| it.as_ref().into())
            }
        }
    }

    /// Its value as CONFIG REWRITE writes it: `any` for a port that the kernel has chosen.
    pub(crate) fn written_value(&self, config: &Config) -> String {
        let value = self.value(config);
        let found = config.found.read();
        if found.get(self.name) == Some(&value) { ANY.to_owned() } else { value }
    }

    /// Whether it has its default value.
    pub(crate) fn is_default(&self, config: &Config) -> bool {
        let defaults = config.defaults.read();
        let value = self.value(config);
        defaults.get(self.name).map_or_else(|| value == self.default_value(), |it| *it == value)
    }

    /// Parses and checks a value for it, without setting it.
    pub(crate) fn check(
        &self,
        config: &Config,
        value: &str,
        origin: Origin,
    ) -> Result<Value, Cow<'static, str>> {
        if origin == Origin::Runtime && !self.changeable {
            return Err("can't set immutable config".into());
        }
        let present = self.value(config);
        let value = self.kind.parse_onto(&present, value, origin)?;
        if self.is_refused(&value) {
            return Err(self.summary.into());
        }
        Ok(value)
    }

    pub(crate) fn store(&self, config: &Config, value: Value) {
        match (&self.place, value) {
            (Place::Number(number), Value::Number(value)) => number(config).set(value),
            (Place::Text(text), Value::Text(value)) => {
                text(config).set(Arc::clone(&value));
                if self.name == "requirepass" {
                    config.users.set_default_password(value.as_bytes());
                }
            }
            (Place::Unused | Place::Refused(_), value) => {
                let value = self.kind.show(&value).into();
                let mut unused = config.unused.write();
                unused.insert(self.name, value);
            }
            _ => debug_assert!(false, "a kind stores what it has parsed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_well_formed() {
        let config = Config::default();
        let mut names = std::collections::BTreeSet::new();
        for setting in settings() {
            for name in setting.names() {
                assert!(names.insert(name), "{name} is there twice");
            }
            assert!(!setting.summary.is_empty() && !setting.summary.ends_with('.'));
            if setting.is_line() {
                continue;
            }
            let value = setting.value(&config);
            let set = config.set(setting.name, &value, Origin::Startup);
            assert_eq!(set, Ok(()), "{} {value}", setting.name);
            assert_eq!(setting.value(&config), value, "{}", setting.name);
        }
    }
}
