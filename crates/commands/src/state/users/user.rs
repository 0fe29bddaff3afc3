//! A user: its passwords and permissions.

use super::selector::{Denial, Selector};
use crate::registry::table::Entry;
use crate::secret::is_same;
use nagi_proto::Args;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// A user. A request is permitted if any of its selectors permits it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    /// Whether it may log in.
    pub(super) is_on: bool,
    /// Whether any password is accepted.
    pub(super) has_no_password: bool,
    /// Whether RESTORE should trust its payloads; they are checked nevertheless.
    pub(super) skips_sanitizing: bool,
    /// Hashes of passwords (SHA-256), in hexadecimal digits.
    pub(super) passwords: Vec<String>,
    pub(super) root: Selector,
    pub(super) selectors: Vec<Selector>,
}

/// The hash of a password, in hexadecimal digits.
pub(super) fn hash(password: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(password) {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

impl User {
    /// A user without permissions, except for all channels if `all_channels`.
    pub(crate) fn new(all_channels: bool) -> Self {
        User { root: Selector::nothing(all_channels), ..User::default() }
    }

    /// A user with all permissions and without a password.
    pub(crate) fn unlimited() -> Self {
        User { is_on: true, has_no_password: true, root: Selector::everything(), ..User::default() }
    }

    /// Whether it has all permissions, once logged in.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.root.is_everything()
    }

    /// Whether it needs no password.
    pub(super) fn is_open(&self) -> bool {
        self.is_on && self.has_no_password
    }

    /// Sets its only password; an empty one means no password.
    pub(super) fn require_only(&mut self, password: &[u8]) {
        self.has_no_password = password.is_empty();
        self.passwords = if password.is_empty() { Vec::new() } else { vec![hash(password)] };
    }

    /// Whether it may log in with this password. The time depends only on the password and on the
    /// number of the user's passwords.
    pub(super) fn accepts(&self, password: &[u8]) -> bool {
        let given = hash(password);
        let is_one =
            |found: bool, known: &String| found | is_same(known.as_bytes(), given.as_bytes());
        let is_known = self.passwords.iter().fold(false, is_one);
        self.is_on && (self.has_no_password | is_known)
    }

    /// The reason for which it may not run a request for this command, if no selector permits it:
    /// the reason of the selector that permits most.
    pub(crate) fn denial<H>(&self, entry: &Entry<H>, args: Args<'_>) -> Option<Denial> {
        let mut nearest = self.root.denial(entry, args)?;
        for selector in &self.selectors {
            nearest = nearest.max(selector.denial(entry, args)?);
        }
        Some(nearest)
    }

    /// Whether it may run this command, with some keys.
    pub(crate) fn may_run<H>(&self, entry: &Entry<H>) -> bool {
        self.every_selector().any(|selector| selector.permits_plain_command(entry))
    }

    /// Whether one of its selectors permits this command, without regard to keys, and such access
    /// to all of these keys; for memcached's verbs. If not, returns the first key that no selector
    /// permits together with the command, or `None` if no selector permits the command.
    pub(crate) fn check_verb<'k, H>(
        &self,
        entry: &Entry<H>,
        [reads, writes]: [bool; 2],
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<(), Option<&'k [u8]>> {
        let mut refused = None;
        for selector in self.every_selector().filter(|it| it.permits_plain_command(entry)) {
            match keys.clone().find(|key| !selector.permits_key(reads, writes, key)) {
                None => return Ok(()),
                Some(key) => refused = refused.or(Some(key)),
            }
        }
        Err(refused)
    }

    /// Whether it may read all keys by this command.
    pub(crate) fn reads_all_keys<H>(&self, entry: &Entry<H>, args: Args<'_>) -> bool {
        self.every_selector().any(|it| it.permits_command(entry, args) && it.reads_all_keys())
    }

    /// Whether it may use a channel, or, if `is_pattern`, subscribe to a pattern.
    pub(crate) fn may_use_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.every_selector().any(|selector| selector.permits_channel(name, is_pattern))
    }

    fn every_selector(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// The words for its state: rules that concern neither passwords nor permissions.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.has_no_password {
            flags.push("nopass");
        }
        flags.push(match self.skips_sanitizing {
            true => "skip-sanitize-payload",
            false => "sanitize-payload",
        });
        flags
    }

    /// Hashes of its passwords.
    pub(crate) fn passwords(&self) -> &[String] {
        &self.passwords
    }

    pub(crate) fn root(&self) -> &Selector {
        &self.root
    }

    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Its line in an ACL file, without a line end.
    pub(crate) fn line(&self, name: &[u8]) -> Vec<u8> {
        let mut line = [b"user ", name].concat();
        let flags = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec());
        let passwords = self.passwords.iter().map(|hash| format!("#{hash}").into_bytes());
        let selectors = self.selectors.iter().map(|it| [b"(", &*it.describe(), b")"].concat());
        let words = flags.chain(passwords).chain([self.root.describe()]).chain(selectors);
        for word in words {
            line.push(b' ');
            line.extend(word);
        }
        line
    }
}
