//! The rules for commands over HTTP, where requests share connections.

use crate::config::{Config, check_networks, has_address};
use crate::registry::command::{Category, Flags};
use crate::runtime::context::{CommandTable, Entry};
use crate::state::users::{Acl, User};
use parking_lot::RwLock;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The classification of a command over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRule {
    /// It only reads.
    Read,
    /// It may change data.
    Write,
    /// Its replies are messages without end.
    Stream,
    /// It ends a subscription (UNSUBSCRIBE), which only a client with its own connection has.
    StreamEnd,
    /// It is not allowed, for this reason.
    Refused(&'static str),
    /// There is no such command.
    Unknown,
}

const OF_CONNECTIONS: &str = "the command is about a connection, which a request does not have";
const NOT_PERMITTED: &str = "command not allowed over HTTP (see http-commands)";

const NOT_FROM_THERE: &str = "command not allowed over HTTP from this address (see http-networks)";

/// The settings with the rules, in the syntax of access control lists.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRuleTexts {
    /// `http-commands`: the rules for all clients.
    pub commands: Arc<str>,
    /// `http-networks`: networks, each followed by additional rules.
    pub networks: Arc<str>,
}

/// The parsed rules.
pub struct HttpRules {
    texts: HttpRuleTexts,
    permitted: User,
    of_networks: Vec<(String, User)>,
}

/// The parsed rules of the current settings.
#[derive(Debug, Default)]
pub struct LatestHttpRules(RwLock<Option<Arc<HttpRules>>>);

impl LatestHttpRules {
    /// The rules of the settings, which are parsed when these have changed. Invalid rules, refused
    /// at the start and by CONFIG SET, would allow no command.
    pub fn of(&self, config: &Config, table: &'static CommandTable) -> Arc<HttpRules> {
        let texts = HttpRuleTexts::of(config);
        if let Some(known) = self.0.read().as_ref().filter(|known| known.texts == texts) {
            return Arc::clone(known);
        }
        let rules = HttpRules::parse(&texts, table).unwrap_or_else(|_| HttpRules::nothing(&texts));
        let rules = Arc::new(rules);
        *self.0.write() = Some(Arc::clone(&rules));
        rules
    }
}

impl fmt::Debug for HttpRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpRules({}; {})", self.texts.commands, self.texts.networks)
    }
}

impl HttpRuleTexts {
    /// The texts of the current settings.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        HttpRuleTexts { commands: config.http_commands.get(), networks: config.http_networks.get() }
    }
}

impl HttpRules {
    /// Reads rules.
    ///
    /// # Errors
    /// The setting with the first invalid rule, a colon, and the fault.
    pub fn parse(texts: &HttpRuleTexts, table: &'static CommandTable) -> Result<Self, String> {
        let acl = Acl::new(table, false);
        let permitted = of_commands(&acl, &texts.commands);
        let permitted = permitted.map_err(|fault| format!("http-commands: {fault}"))?;
        let of_networks = of_networks(&acl, &permitted, &texts.networks);
        let of_networks = of_networks.map_err(|fault| format!("http-networks: {fault}"))?;
        Ok(HttpRules { texts: texts.clone(), permitted, of_networks })
    }

    /// Rules that allow no command.
    fn nothing(texts: &HttpRuleTexts) -> Self {
        let (permitted, of_networks) = (User::default(), Vec::new());
        HttpRules { texts: texts.clone(), permitted, of_networks }
    }

    /// The rule for a client with this address, for the command that begins with these words.
    #[must_use]
    pub fn rule(
        &self,
        table: &CommandTable,
        [name, word]: [&[u8]; 2],
        address: IpAddr,
    ) -> HttpRule {
        let Some(entry) = table.find(name) else { return HttpRule::Unknown };
        let entry = table.subcommand(entry, word).unwrap_or(entry);
        let flags = entry.command.flags;
        if flags.contains(Flags::NO_AUTH) || is_of_connections(entry) {
            return HttpRule::Refused(OF_CONNECTIONS);
        }
        if let Some(reason) = self.refusal(entry, address) {
            return HttpRule::Refused(reason);
        }
        if ["unsubscribe", "punsubscribe", "sunsubscribe"].contains(&&*entry.full_name) {
            return HttpRule::StreamEnd;
        }
        if flags.contains(Flags::MESSAGES) || entry.full_name == "monitor" {
            return HttpRule::Stream;
        }
        match changes(entry) {
            true => HttpRule::Write,
            false => HttpRule::Read,
        }
    }

    /// Why the settings do not allow a command to a client with this address, if they do not. This
    /// also applies to commands that are called by scripts.
    #[must_use]
    pub fn refusal(&self, entry: &Entry, address: IpAddr) -> Option<&'static str> {
        let mut of_networks = self.of_networks.iter().rev();
        let of_network = of_networks.find(|(networks, _)| has_address(networks, address));
        match of_network {
            Some((_, permitted)) => (!permitted.may_run(entry)).then_some(NOT_FROM_THERE),
            None => (!self.permitted.may_run(entry)).then_some(NOT_PERMITTED),
        }
    }

    /// Whether the command of these words may block without limit, such as BLPOP.
    #[must_use]
    pub fn may_wait(table: &CommandTable, words: &[impl AsRef<[u8]>]) -> bool {
        let Some((name, rest)) = words.split_first() else { return false };
        let Some(entry) = table.find(name.as_ref()) else { return false };
        let waits_where_asked = ["xread", "xreadgroup"].contains(&&*entry.full_name);
        entry.command.flags.contains(Flags::BLOCKING)
            && (!waits_where_asked
                || rest.iter().any(|it| it.as_ref().eq_ignore_ascii_case(b"block")))
    }
}

/// Parses the permissions in `http-commands`.
fn of_commands<H>(acl: &Acl<'_, H>, text: &str) -> Result<User, String> {
    let mut permitted = acl.new_user();
    let rules = text.split_ascii_whitespace();
    if let Some(other) = rules.clone().find(|word| !is_rule(word)) {
        return Err(format!("{other} is no rule about commands, such as +get or -@admin"));
    }
    apply(acl, &mut permitted, rules)?;
    Ok(permitted)
}

/// Parses the permissions of networks in `http-networks`, which extend those for all clients.
fn of_networks<H>(
    acl: &Acl<'_, H>,
    permitted: &User,
    text: &str,
) -> Result<Vec<(String, User)>, String> {
    let mut of_networks = Vec::new();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    for part in words.chunk_by(|before, after| is_rule(after) || !is_rule(before)) {
        let (networks, rules) = part.split_at(part.partition_point(|word| !is_rule(word)));
        let networks = check_networks(&networks.join(" "))?;
        if networks.is_empty() || rules.is_empty() {
            return Err("each network must be followed by its rules".to_owned());
        }
        let mut of_network = permitted.clone();
        apply(acl, &mut of_network, rules.iter().copied())?;
        of_networks.push((networks, of_network));
    }
    Ok(of_networks)
}

fn apply<'a, H>(
    acl: &Acl<'_, H>,
    user: &mut User,
    rules: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    acl.apply_all(user, rules.map(str::as_bytes)).map_err(|error| error.fault())
}

fn is_rule(word: &str) -> bool {
    word.starts_with(['+', '-'])
}

/// Whether a command affects the state of a connection or a transaction: requests share
/// connections, and must not share this state.
fn is_of_connections(entry: &Entry) -> bool {
    let categories = entry.command.all_categories();
    let leaves_connection_alone = || match &*entry.full_name {
        "ping" | "echo" => true,
        "client|no-evict" => false,
        // Of other clients.
        _ => entry.command.flags.contains(Flags::ADMIN),
    };
    categories.contains(Category::CONNECTION) && !leaves_connection_alone()
        || categories.contains(Category::TRANSACTION)
}

/// Whether a command may change data. All others are flagged as read-only, or have no keys and no
/// harmful effect.
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

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn texts(commands: &str, networks: &str) -> HttpRuleTexts {
        HttpRuleTexts { commands: commands.into(), networks: networks.into() }
    }

    #[test]
    fn commands_that_wait_are_recognised() {
        for (words, expected) in [
            ("BLPOP a 0", true),
            ("wait 1 0", true),
            ("XREAD BLOCK 0 STREAMS a $", true),
            ("XREAD STREAMS a 0", false),
            ("LPOP a", false),
            ("NOSUCH", false),
        ] {
            let words: Vec<_> = words.split(' ').collect();
            assert_eq!(HttpRules::may_wait(command_table(), &words), expected, "{words:?}");
        }
        assert!(!HttpRules::may_wait(command_table(), &[""; 0]));
    }

    #[test]
    fn commands_are_classified_by_what_they_may_do_over_http() {
        let usual = texts("+@all -@admin", "");
        let rules = HttpRules::parse(&usual, command_table()).unwrap();
        for (words, expected) in [
            ("GET", HttpRule::Read),
            ("ping", HttpRule::Read),
            ("INFO", HttpRule::Read),
            ("SET", HttpRule::Write),
            ("PUBLISH", HttpRule::Write),
            ("FLUSHALL", HttpRule::Write),
            ("BLPOP", HttpRule::Write),
            ("SUBSCRIBE", HttpRule::Stream),
            ("UNSUBSCRIBE", HttpRule::StreamEnd),
            ("punsubscribe", HttpRule::StreamEnd),
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
            let words = [parts.next().unwrap(), parts.next().unwrap_or_default()];
            assert_eq!(rules.rule(command_table(), words, HERE), expected, "{words:?}");
        }
        let nothing = HttpRules::nothing(&usual).rule(command_table(), [b"GET", b""], HERE);
        assert_eq!(nothing, HttpRule::Refused(NOT_PERMITTED));
        for wrong in ["+nosuch", "~a*", "on", "+@nosuch"] {
            assert!(HttpRules::parse(&texts(wrong, ""), command_table()).is_err());
        }
    }

    #[test]
    fn the_last_network_of_a_client_has_its_rules() {
        let networks = "0.0.0.0/0 ::/0 -@all 10.0.0.0/8 +@read 127.0.0.1 10.1.0.0/16 +@write -del";
        let rules = HttpRules::parse(&texts("+@all -@admin", networks), command_table()).unwrap();
        for (address, permitted, refused) in [
            ("192.0.2.1", vec![], vec!["GET", "SET", "PING"]),
            ("2001:db8::1", vec![], vec!["GET"]),
            ("10.2.0.1", vec!["GET"], vec!["SHUTDOWN"]),
            ("::ffff:10.2.0.1", vec!["GET"], vec!["SHUTDOWN"]),
            ("10.1.0.1", vec!["GET", "SET", "PING"], vec!["DEL", "SHUTDOWN"]),
            ("127.0.0.1", vec!["GET"], vec!["DEL"]),
        ] {
            let address = address.parse().unwrap();
            let rule = |name: &str| rules.rule(command_table(), [name.as_bytes(), b""], address);
            for name in permitted {
                assert!(matches!(rule(name), HttpRule::Read | HttpRule::Write), "{address} {name}");
            }
            for name in refused {
                assert_eq!(rule(name), HttpRule::Refused(NOT_FROM_THERE), "{address} {name}");
            }
        }
        for wrong in ["-@all", "10.0.0.0/8", "10.0.0.0/33 -@all", "::1 -nosuch", "::1 -@all ::2"] {
            let parsed = HttpRules::parse(&texts("+@all", wrong), command_table());
            assert!(parsed.unwrap_err().starts_with("http-networks: "), "{wrong}");
        }
    }
}
