//! The rules of ACL SETUSER and of files of users
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>).

use super::selector::Selector;
use super::user::{User, hash};
use crate::registry::command::Category;
use crate::registry::table::CommandTable;
use std::fmt;

/// The context in which rules are parsed: the commands, and a default.
pub(crate) struct Acl<'a, H: 'static> {
    pub(super) table: &'a CommandTable<H>,
    /// Whether a new or reset user may use all channels.
    pub(super) all_channels: bool,
}

/// A rule that cannot be applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleError {
    rule: Vec<u8>,
    reason: &'static str,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = String::from_utf8_lossy(&self.rule);
        match self.reason {
            UNMATCHED => write!(f, "{UNMATCHED} '{rule}'."),
            reason => write!(f, "Error in ACL SETUSER modifier '{rule}': {reason}"),
        }
    }
}

impl RuleError {
    /// The rule and its fault, for rules other than those of ACL SETUSER.
    pub(crate) fn fault(&self) -> String {
        format!("'{}': {}", String::from_utf8_lossy(&self.rule), self.reason)
    }
}

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const UNMATCHED: &str = "Unmatched parenthesis in acl selector starting at";
const OF_SUBCOMMAND: &str = "Allowing first-arg of a subcommand is not supported";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const BAD_HASH: &str = "The password hash must be exactly 64 characters and contain only lowercase \
                        hexadecimal characters";
const BEHIND_ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is \
                               not valid and does not have any effect. Try 'resetkeys' to \
                               start with an empty list of patterns";
const BEHIND_ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' \
                                   flag) is not valid and does not have any effect. Try \
                                   'resetchannels' to start with an empty list of channels";

/// Commands of Redis that nagi lacks, but that rules name, for example rules of users for replicas:
/// an ACL file written for Redis must load, and must keep these rules when it is saved.
const ABSENT: [&str; 5] = ["failover", "psync", "replconf", "script|debug", "sync"];

impl<H> Acl<'_, H> {
    /// Applies rules to a user. After an error, the rules before the wrong one have been applied.
    ///
    /// # Errors
    /// The first rule that cannot be applied.
    pub(crate) fn apply_all<'r>(
        &self,
        user: &mut User,
        rules: impl Iterator<Item = &'r [u8]>,
    ) -> Result<(), RuleError> {
        join_selectors(rules)?.iter().try_for_each(|rule| self.apply_joined(user, rule))
    }

    /// Applies the rules in a line of a file, from which further whitespace is trimmed.
    ///
    /// # Errors
    /// The first rule that cannot be applied.
    pub(crate) fn apply_line<'r>(
        &self,
        user: &mut User,
        rules: impl Iterator<Item = &'r [u8]>,
    ) -> Result<(), RuleError> {
        let joined = join_selectors(rules)?;
        joined.iter().try_for_each(|rule| self.apply_joined(user, without_blanks(rule)))
    }

    fn apply_joined(&self, user: &mut User, rule: &[u8]) -> Result<(), RuleError> {
        if !rule.starts_with(b"(") || !rule.ends_with(b")") {
            return self.apply(user, rule);
        }
        let fail = |reason| RuleError { rule: rule.to_vec(), reason };
        user.selectors.push(self.selector(rule).map_err(fail)?);
        Ok(())
    }

    /// Parses a selector in parentheses.
    fn selector(&self, text: &[u8]) -> Result<Selector, &'static str> {
        let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        let mut selector = Selector::nothing(self.all_channels);
        // Redis treats unclosed quotes as an empty list of rules.
        for rule in nagi_proto::resp::words(inside).unwrap_or_default() {
            // In an ACL file, such a rule would end the selector, or be read as another one.
            let is_special =
                |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"' | 0x0b);
            if rule.ends_with(b")") || rule.iter().any(is_special) {
                return Err(SYNTAX);
            }
            self.apply_to(&mut selector, &rule)?;
        }
        Ok(selector)
    }

    fn apply(&self, user: &mut User, rule: &[u8]) -> Result<(), RuleError> {
        let fail = |reason| RuleError { rule: rule.to_vec(), reason };
        let word = rule.to_ascii_lowercase();
        match (word.as_slice(), rule) {
            (b"on", _) => user.is_on = true,
            (b"off", _) => user.is_on = false,
            (b"nopass", _) => {
                user.has_no_password = true;
                user.passwords.clear();
            }
            (b"resetpass", _) => {
                user.has_no_password = false;
                user.passwords.clear();
            }
            (b"sanitize-payload", _) => user.skips_sanitizing = false,
            (b"skip-sanitize-payload", _) => user.skips_sanitizing = true,
            (b"clearselectors", _) => user.selectors.clear(),
            (b"reset", _) => *user = User::new(self.all_channels),
            (_, [b'>', password @ ..]) => add_password(user, hash(password)),
            (_, [b'#', digits @ ..]) => add_password(user, read_hash(digits).map_err(fail)?),
            (_, [b'<', password @ ..]) => {
                remove_password(user, &hash(password)).map_err(fail)?;
            }
            (_, [b'!', digits @ ..]) => {
                let hash = read_hash(digits).map_err(fail)?;
                remove_password(user, &hash).map_err(fail)?;
            }
            _ => self.apply_to(&mut user.root, rule).map_err(fail)?,
        }
        Ok(())
    }

    /// Applies a rule about commands, keys or channels.
    fn apply_to(&self, selector: &mut Selector, rule: &[u8]) -> Result<(), &'static str> {
        let word = rule.to_ascii_lowercase();
        match (word.as_slice(), rule) {
            (b"", _) => {}
            (b"allcommands" | b"+@all", _) => selector.set_all_commands(true),
            (b"nocommands" | b"-@all", _) => selector.set_all_commands(false),
            (b"allkeys" | b"~*", _) => selector.set_all_keys(true),
            (b"resetkeys", _) => selector.set_all_keys(false),
            (b"allchannels" | b"&*", _) => selector.set_all_channels(true),
            (b"resetchannels", _) => selector.set_all_channels(false),
            (_, [b'~' | b'%', ..]) if selector.has_all_keys() => return Err(BEHIND_ALL_KEYS),
            (_, [b'~', pattern @ ..]) => add_keys(selector, pattern, true, true)?,
            (_, [b'%', permissions @ ..]) => {
                let (reads, writes, pattern) = read_permissions(permissions).ok_or(SYNTAX)?;
                add_keys(selector, pattern, reads, writes)?;
            }
            (_, [b'&', pattern @ ..]) => {
                if selector.has_all_channels() {
                    return Err(BEHIND_ALL_CHANNELS);
                }
                selector.add_channels(without_spaces(pattern)?);
            }
            (_, [sign @ (b'+' | b'-'), b'@', name @ ..]) => {
                let mut named = Category::all().iter_names();
                let category = named.find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
                selector.set_category(self.table, category.ok_or(UNKNOWN)?, *sign == b'+');
            }
            (_, [sign @ (b'+' | b'-'), name @ ..]) if absent(name).is_some() => {
                absent(name).into_iter().for_each(|name| selector.note_absent(name, *sign == b'+'));
            }
            (_, [b'+', name @ ..]) => self.permit(selector, name)?,
            (_, [b'-', name @ ..]) => {
                let entry = self.table.find_own(name).ok_or(UNKNOWN)?;
                selector.set_command(self.table, entry, false);
            }
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    /// Permits a command, a subcommand, or a command with a first argument.
    fn permit(&self, selector: &mut Selector, name: &[u8]) -> Result<(), &'static str> {
        let bar = name.iter().rposition(|byte| *byte == b'|');
        let Some((command, word)) = bar.and_then(|bar| name.split_at_checked(bar)) else {
            let entry = self.table.find_own(name).ok_or(UNKNOWN)?;
            selector.set_command(self.table, entry, true);
            return Ok(());
        };
        let word = word.get(1..).unwrap_or_default();
        let entry = self.table.find_own(command).ok_or(UNKNOWN)?;
        if command.contains(&b'|') {
            return Err(OF_SUBCOMMAND);
        }
        if word.is_empty() {
            return Err(SYNTAX);
        }
        if entry.command.subcommands.is_empty() {
            selector.add_first_argument(entry, without_spaces(word)?);
            return Ok(());
        }
        let entry = self.table.find_own(name).ok_or(UNKNOWN)?;
        selector.set_command(self.table, entry, true);
        Ok(())
    }
}

/// Returns the name in lower case if Redis has a command with this name and nagi lacks it.
fn absent(name: &[u8]) -> Option<&'static str> {
    ABSENT.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Joins the words of each selector in parentheses to one rule.
fn join_selectors<'r>(rules: impl Iterator<Item = &'r [u8]>) -> Result<Vec<Vec<u8>>, RuleError> {
    let (mut joined, mut open) = (Vec::new(), None::<(&[u8], Vec<u8>)>);
    for rule in rules {
        let text = match open.take() {
            None if !rule.starts_with(b"(") => {
                joined.push(rule.to_vec());
                continue;
            }
            None => (rule, rule.to_vec()),
            Some((first, text)) => (first, [&text, b" ".as_slice(), rule].concat()),
        };
        if text.1.ends_with(b")") {
            joined.push(text.1);
        } else {
            open = Some(text);
        }
    }
    match open {
        Some((first, _)) => Err(RuleError { rule: first.to_vec(), reason: UNMATCHED }),
        None => Ok(joined),
    }
}

/// Trims whitespace other than spaces at both ends.
fn without_blanks(mut rule: &[u8]) -> &[u8] {
    while let [b'\t' | b'\r' | b'\n', rest @ ..] | [rest @ .., b'\t' | b'\r' | b'\n'] = rule {
        rule = rest;
    }
    rule
}

fn add_password(user: &mut User, hash: String) {
    user.has_no_password = false;
    if !user.passwords.contains(&hash) {
        user.passwords.push(hash);
    }
}

fn remove_password(user: &mut User, hash: &str) -> Result<(), &'static str> {
    let place = user.passwords.iter().position(|known| known == hash).ok_or(NO_SUCH_PASSWORD)?;
    user.passwords.remove(place);
    Ok(())
}

fn read_hash(digits: &[u8]) -> Result<String, &'static str> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = std::str::from_utf8(digits).map_err(|_| BAD_HASH)?;
    if text.len() == 64 && digits.iter().all(is_digit) {
        Ok(text.to_owned())
    } else {
        Err(BAD_HASH)
    }
}

fn without_spaces(pattern: &[u8]) -> Result<&[u8], &'static str> {
    if super::is_name(pattern) { Ok(pattern) } else { Err(SYNTAX) }
}

fn add_keys(
    selector: &mut Selector,
    pattern: &[u8],
    reads: bool,
    writes: bool,
) -> Result<(), &'static str> {
    selector.add_keys(without_spaces(pattern)?, reads, writes);
    Ok(())
}

/// Parses the text after `%`: returns whether keys may be read and written, and the pattern after
/// `~`.
fn read_permissions(text: &[u8]) -> Option<(bool, bool, &[u8])> {
    let (mut reads, mut writes) = (false, false);
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte.to_ascii_uppercase() {
            b'R' if !reads => reads = true,
            b'W' if !writes => writes = true,
            b'~' => break,
            _ => return None,
        }
    }
    (reads || writes).then_some((reads, writes, rest))
}
