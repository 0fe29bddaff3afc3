//! Which commands may come over HTTP, where a request has no connection of its own.

use crate::registry::command::{Category, Flags};
use crate::runtime::context::{CommandTable, Entry};
use crate::state::users::{Acl, User};
use std::fmt;
use std::sync::Arc;

/// What may be done with a command over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRule {
    /// It only reads.
    Read,
    /// It may change something.
    Write,
    /// Its replies are messages without end.
    Stream,
    /// It may not come, for this reason.
    Refused(&'static str),
    /// There is no such command.
    Unknown,
}

const OF_CONNECTIONS: &str = "the command is about a connection, which a request does not have";
const NOT_PERMITTED: &str = "the command may not come over HTTP (see http-commands)";

/// The rules of `http-commands`, in the words of access control lists.
pub struct HttpRules {
    text: Arc<str>,
    permitted: User,
}

impl fmt::Debug for HttpRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpRules({})", self.text)
    }
}

impl HttpRules {
    /// Reads rules.
    ///
    /// # Errors
    /// What is wrong with the first that is.
    pub fn parse(text: &Arc<str>, table: &'static CommandTable) -> Result<Self, String> {
        let acl = Acl::new(table, false);
        let mut permitted = acl.new_user();
        let rules = text.split_ascii_whitespace();
        let is_of_commands = |rule: &str| rule.starts_with(['+', '-']);
        if let Some(other) = rules.clone().find(|rule| !is_of_commands(rule)) {
            return Err(format!("http-commands: {other} is no rule about commands"));
        }
        let applied = acl.apply_all(&mut permitted, rules.map(str::as_bytes));
        applied.map_err(|error| format!("http-commands: {error}"))?;
        Ok(HttpRules { text: Arc::clone(text), permitted })
    }

    /// Rules by which nothing may come.
    #[must_use]
    pub fn nothing(text: &Arc<str>) -> Self {
        HttpRules { text: Arc::clone(text), permitted: User::default() }
    }

    /// Whether they are those of this text.
    #[must_use]
    pub fn are(&self, text: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.text, text) || self.text == *text
    }

    /// What may be done with the command that begins with these words.
    #[must_use]
    pub fn rule(&self, table: &CommandTable, name: &[u8], word: Option<&[u8]>) -> HttpRule {
        let Some(entry) = table.find(name) else { return HttpRule::Unknown };
        let entry = word.and_then(|word| table.subcommand(entry, word)).unwrap_or(entry);
        let flags = entry.command.flags;
        if flags.contains(Flags::NO_AUTH) || is_of_connections(entry) {
            return HttpRule::Refused(OF_CONNECTIONS);
        }
        if !self.permitted.may_run(entry) {
            return HttpRule::Refused(NOT_PERMITTED);
        }
        if flags.contains(Flags::MESSAGES) || entry.full_name == "monitor" {
            return HttpRule::Stream;
        }
        match changes(entry) {
            true => HttpRule::Write,
            false => HttpRule::Read,
        }
    }
}

/// Whether it is about the connection or the transaction of its client, of which the next request
/// would find nothing or, worse, something.
fn is_of_connections(entry: &Entry) -> bool {
    let categories = entry.command.all_categories();
    let is_of_own = categories.contains(Category::CONNECTION)
        && !entry.command.flags.contains(Flags::ADMIN)
        && !["ping", "echo"].contains(&&*entry.full_name);
    let ends_messages = ["unsubscribe", "punsubscribe", "sunsubscribe"];
    is_of_own
        || categories.contains(Category::TRANSACTION)
        || ends_messages.contains(&&*entry.full_name)
}

/// Whether it may change something: what only reads says so, or is about no keys and harmless.
fn changes(entry: &Entry) -> bool {
    let flags = entry.command.flags;
    let runs_any = entry.command.all_categories().contains(Category::SCRIPTING);
    flags.intersects(Flags::WRITE | Flags::PAUSED_AS_WRITE | Flags::ADMIN)
        || runs_any && !flags.contains(Flags::READONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_table;

    #[test]
    fn commands_are_classified_by_what_they_may_do_over_http() {
        let text: Arc<str> = "+@all -@admin".into();
        let rules = HttpRules::parse(&text, command_table()).unwrap();
        for (words, expected) in [
            ("GET", HttpRule::Read),
            ("ping", HttpRule::Read),
            ("INFO", HttpRule::Read),
            ("SET", HttpRule::Write),
            ("PUBLISH", HttpRule::Write),
            ("FLUSHALL", HttpRule::Write),
            ("BLPOP", HttpRule::Write),
            ("SUBSCRIBE", HttpRule::Stream),
            ("UNSUBSCRIBE", HttpRule::Refused(OF_CONNECTIONS)),
            ("SELECT", HttpRule::Refused(OF_CONNECTIONS)),
            ("AUTH", HttpRule::Refused(OF_CONNECTIONS)),
            ("HELLO", HttpRule::Refused(OF_CONNECTIONS)),
            ("QUIT", HttpRule::Refused(OF_CONNECTIONS)),
            ("RESET", HttpRule::Refused(OF_CONNECTIONS)),
            ("MULTI", HttpRule::Refused(OF_CONNECTIONS)),
            ("WATCH", HttpRule::Refused(OF_CONNECTIONS)),
            ("CLIENT REPLY", HttpRule::Refused(OF_CONNECTIONS)),
            ("CLIENT SETNAME", HttpRule::Refused(OF_CONNECTIONS)),
            ("CLIENT KILL", HttpRule::Refused(NOT_PERMITTED)),
            ("CONFIG SET", HttpRule::Refused(NOT_PERMITTED)),
            ("MONITOR", HttpRule::Refused(NOT_PERMITTED)),
            ("SHUTDOWN", HttpRule::Refused(NOT_PERMITTED)),
            ("NOSUCH", HttpRule::Unknown),
            ("", HttpRule::Unknown),
        ] {
            let mut parts = words.split(' ').map(str::as_bytes);
            let name = parts.next().unwrap();
            assert_eq!(rules.rule(command_table(), name, parts.next()), expected, "{words}");
        }
        let nothing = HttpRules::nothing(&text);
        assert_eq!(nothing.rule(command_table(), b"GET", None), HttpRule::Refused(NOT_PERMITTED));
        for wrong in ["+nosuch", "~a*", "on", "+@nosuch"] {
            assert!(HttpRules::parse(&wrong.into(), command_table()).is_err(), "{wrong}");
        }
    }
}
