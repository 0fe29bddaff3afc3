//! Users of Redis' access control lists (ACL): their passwords and permissions.
//!
//! Users are immutable: a change replaces a user by a new one and increments a generation. By
//! comparing generations before its next request, a connection detects that it must look up its
//! user again.

mod rules;
mod selector;
mod user;

pub(crate) use rules::{Acl, RuleError};
pub(crate) use selector::{Denial, Selector};
pub(crate) use user::User;

use crate::registry::table::CommandTable;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The initial user of a connection.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// A user's name.
pub(crate) type Name = Box<[u8]>;

/// All users by their names.
pub(crate) type UsersByName = BTreeMap<Name, Arc<User>>;

/// All users. There is always the default one.
#[derive(Debug)]
pub(crate) struct Users {
    users: RwLock<UsersByName>,
    generation: AtomicU64,
    /// Whether connections start as the default user without a password.
    is_open: AtomicBool,
    /// Whether any user has restrictions.
    has_limited: AtomicBool,
}

impl Default for Users {
    fn default() -> Self {
        let default = (Name::from(DEFAULT_USER), Arc::new(User::unlimited()));
        Users {
            users: RwLock::new(BTreeMap::from([default])),
            generation: AtomicU64::new(0),
            is_open: AtomicBool::new(true),
            has_limited: AtomicBool::new(false),
        }
    }
}

impl Users {
    /// The number of changes of users.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether connections start as the default user without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Calls `note` with whether any user has restrictions, while no user changes.
    pub(crate) fn note_limited(&self, note: impl FnOnce(bool)) {
        let _unchanged = self.users.read();
        note(self.has_limited.load(Ordering::Relaxed));
    }

    /// The user with this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// The lines of all users in the format of an ACL file; none if the setting `requirepass` alone
    /// leads to these users.
    pub(crate) fn lines(&self, requirepass: &[u8]) -> Vec<Vec<u8>> {
        let users = self.users.read();
        let mut implied = User::unlimited();
        implied.require_only(requirepass);
        if users.len() == 1 && users.get(DEFAULT_USER).is_some_and(|user| **user == implied) {
            return Vec::new();
        }
        users.iter().map(|(name, user)| user.line(name)).collect()
    }

    /// All users, in the order of their names.
    pub(crate) fn all(&self) -> UsersByName {
        self.users.read().clone()
    }

    /// Changes users atomically. Returns what `change` returns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut UsersByName) -> T) -> T {
        let mut users = self.users.write();
        let outcome = change(&mut users);
        let is_open = users.get(DEFAULT_USER).is_some_and(|user| user.is_open());
        self.is_open.store(is_open, Ordering::Relaxed);
        let has_limited = users.values().any(|user| !user.is_unlimited());
        self.has_limited.store(has_limited, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
        outcome
    }

    /// Sets the only password of the default user (`requirepass`). With an empty one, no password
    /// is needed.
    pub(crate) fn set_default_password(&self, password: &[u8]) {
        self.change(|users| {
            let user = users.entry(DEFAULT_USER.into()).or_default();
            let mut changed = User::clone(user);
            changed.require_only(password);
            *user = Arc::new(changed);
        });
    }

    /// Whether an enabled user with this name and password exists.
    pub(crate) fn is_login(&self, name: &[u8], password: &[u8]) -> bool {
        // A missing user is checked as well, so that the time does not reveal which users exist.
        let user = self.get(name).unwrap_or_default();
        user.accepts(password)
    }

    /// Reads the lines of an access control list, in which each user may have one line.
    ///
    /// # Errors
    /// All faults, one line each.
    pub(crate) fn read<H>(
        acl: &Acl<'_, H>,
        lines: impl Iterator<Item = (String, Vec<Vec<u8>>)>,
    ) -> Result<UsersByName, Vec<String>> {
        let (mut users, mut faults) = (UsersByName::new(), Vec::new());
        for (place, words) in lines {
            match read_line(acl, &words) {
                Err(fault) => faults.push(format!("{place}: {fault}")),
                Ok((name, _)) if users.contains_key(&name) => {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    faults.push(format!("{place}: Duplicate user '{name}' found"));
                }
                Ok((name, user)) => {
                    users.insert(name, Arc::new(user));
                }
            }
        }
        if faults.is_empty() { Ok(users) } else { Err(faults) }
    }
}

/// Parses the words of a line: `user`, a name, and rules.
fn read_line<H>(acl: &Acl<'_, H>, words: &[Vec<u8>]) -> Result<(Name, User), String> {
    let [word, name, rules @ ..] = words else {
        return Err("expected: user NAME RULE ...".to_owned());
    };
    if word != b"user" || !is_name(name) {
        return Err("a line begins with the word user and a name without spaces".to_owned());
    }
    let mut user = User::new(acl.all_channels);
    let rules = rules.iter().map(Vec::as_slice);
    acl.apply_line(&mut user, rules).map_err(|error| error.to_string())?;
    Ok((name.as_slice().into(), user))
}

/// Whether a user may have this name: it must not contain whitespace or zero bytes.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

/// Parsing of rules.
impl<'a, H> Acl<'a, H> {
    /// Rules for the commands of a table; a new user may use all channels or none.
    pub(crate) fn new(table: &'a CommandTable<H>, all_channels: bool) -> Self {
        Acl { table, all_channels }
    }

    /// A new user.
    pub(crate) fn new_user(&self) -> User {
        User::new(self.all_channels)
    }
}
