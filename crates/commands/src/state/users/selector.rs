//! A set of permissions: commands, keys and channels.

use crate::glob::Pattern;
use crate::registry::command::{Category, Flags};
use crate::registry::keys::Access;
use crate::registry::table::{CommandTable, Entry};
use nagi_proto::Args;
use std::collections::{BTreeMap, BTreeSet};

/// Why a request is refused, in the order in which a selector checks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denial {
    Command,
    /// The argument at this position is a key without permission.
    Key(usize),
    /// The argument at this position is a channel without permission.
    Channel(usize),
}

/// Keys that may be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    reads: bool,
    writes: bool,
}

/// Combined rules for commands, keys and channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Whether commands are permitted by default.
    permits_commands: bool,
    /// A bit for each command that deviates from the default, by its index in the table.
    exceptions: Vec<u64>,
    /// Commands that are permitted only with certain first arguments, by their indices.
    first_arguments: BTreeMap<usize, BTreeSet<Vec<u8>>>,
    /// The rules about commands since all or none were permitted: `+get`, `-@write`.
    rules: Vec<Vec<u8>>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

impl Selector {
    pub(super) fn nothing(all_channels: bool) -> Self {
        Selector { all_channels, ..Selector::default() }
    }

    pub(super) fn everything() -> Self {
        Selector {
            permits_commands: true,
            all_keys: true,
            all_channels: true,
            ..Selector::default()
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        let has_exceptions = self.exceptions.iter().any(|bits| *bits != 0);
        self.permits_commands && !has_exceptions && self.all_keys && self.all_channels
    }

    /// The reason for which a request for this command is refused, if any.
    pub(super) fn denial<H>(&self, entry: &Entry<H>, args: Args<'_>) -> Option<Denial> {
        if !self.permits_command(entry, args) {
            return Some(Denial::Command);
        }
        let key = if self.all_keys { None } else { self.refused_key(entry, args) };
        let refused = || if self.all_channels { None } else { self.refused_channel(entry, args) };
        key.map(Denial::Key).or_else(|| refused().map(Denial::Channel))
    }

    pub(super) fn permits_command<H>(&self, entry: &Entry<H>, args: Args<'_>) -> bool {
        if self.permits_plain_command(entry) {
            return true;
        }
        let given = args.get(1).unwrap_or_default();
        let permitted = self.first_arguments.get(&entry.index);
        permitted.is_some_and(|words| words.iter().any(|word| word.eq_ignore_ascii_case(given)))
    }

    /// Whether a command is permitted with any first argument.
    pub(super) fn permits_plain_command<H>(&self, entry: &Entry<H>) -> bool {
        entry.command.flags.contains(Flags::NO_AUTH) || self.permits(entry.index)
    }

    fn permits(&self, index: usize) -> bool {
        let bits = self.exceptions.get(index / 64).copied().unwrap_or(0);
        self.permits_commands != (bits >> (index % 64) & 1 == 1)
    }

    fn refused_key<H>(&self, entry: &Entry<H>, args: Args<'_>) -> Option<usize> {
        entry.command.keys.all_groups().iter().find_map(|group| {
            let access = group.access_in(args);
            if access.contains(Access::NOT_KEY) {
                return None;
            }
            let reads = access.contains(Access::ACCESS);
            let writes = access.intersects(Access::INSERT | Access::DELETE | Access::UPDATE);
            group.positions(args).find(|position| {
                let key = args.get(*position);
                key.is_some_and(|key| !self.permits_key(reads, writes, key))
            })
        })
    }

    pub(super) fn permits_key(&self, reads: bool, writes: bool, key: &[u8]) -> bool {
        self.all_keys
            || self.keys.iter().any(|it| {
                (it.reads || !reads)
                    && (it.writes || !writes)
                    && Pattern::new(&it.pattern).matches(key)
            })
    }

    pub(super) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|it| it.reads && it.pattern == b"*")
    }

    fn refused_channel<H>(&self, entry: &Entry<H>, args: Args<'_>) -> Option<usize> {
        let channels = entry.command.notes.channels?;
        let mut positions = channels.positions(args);
        positions.find(|at| {
            let name = args.get(*at);
            name.is_some_and(|name| !self.permits_channel(name, channels.are_patterns()))
        })
    }

    /// Whether a channel is permitted. A pattern is only permitted by an identical one, since it
    /// may match channels that no permitted pattern matches.
    pub(super) fn permits_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let permits = |permitted: &Vec<u8>| match is_pattern {
            true => permitted == name,
            false => Pattern::new(permitted).matches(name),
        };
        self.all_channels || self.channels.iter().any(permits)
    }

    /// Permits all commands, or none.
    pub(super) fn set_all_commands(&mut self, is_permitted: bool) {
        self.permits_commands = is_permitted;
        self.exceptions.clear();
        self.first_arguments.clear();
        self.rules.clear();
    }

    /// Permits a command and its subcommands, or refuses them.
    pub(super) fn set_command<H>(
        &mut self,
        table: &CommandTable<H>,
        entry: &Entry<H>,
        is_permitted: bool,
    ) {
        self.set(entry.index, is_permitted);
        for sub in table.subcommands(entry) {
            self.set(sub.index, is_permitted);
        }
        self.note_rule(entry.full_name.as_bytes(), is_permitted);
    }

    /// Permits the commands of a category, or refuses them.
    pub(super) fn set_category<H>(
        &mut self,
        table: &CommandTable<H>,
        (name, category): (&str, Category),
        is_permitted: bool,
    ) {
        for entry in table.entries() {
            if entry.command.all_categories().contains(category) {
                self.set(entry.index, is_permitted);
            }
        }
        self.note_rule(format!("@{}", name.to_ascii_lowercase()).as_bytes(), is_permitted);
    }

    /// Permits a command with a first argument.
    pub(super) fn add_first_argument<H>(&mut self, entry: &Entry<H>, argument: &[u8]) {
        let argument = argument.to_ascii_lowercase();
        let rule = [b"+", entry.full_name.as_bytes(), b"|", &argument].concat();
        self.first_arguments.entry(entry.index).or_default().insert(argument);
        // An argument may contain a `|` itself, so only the same rule is replaced.
        self.rules.retain(|known| *known != rule);
        self.rules.push(rule);
    }

    /// Records a rule about a command that does not exist.
    pub(super) fn note_absent(&mut self, name: &str, is_permitted: bool) {
        self.note_rule(name.as_bytes(), is_permitted);
    }

    fn set(&mut self, index: usize, is_permitted: bool) {
        self.first_arguments.remove(&index);
        let place = index / 64;
        if self.exceptions.len() <= place {
            self.exceptions.resize(place + 1, 0);
        }
        let bit = 1 << (index % 64);
        if let Some(bits) = self.exceptions.get_mut(place) {
            if is_permitted == self.permits_commands { *bits &= !bit } else { *bits |= bit }
        }
    }

    /// Appends a rule, which replaces earlier ones for the same name.
    fn note_rule(&mut self, name: &[u8], is_permitted: bool) {
        self.rules.retain(|rule| {
            let rest = rule.get(1..).and_then(|known| known.strip_prefix(name));
            rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with(b"|"))
        });
        let sign: &[u8] = if is_permitted { b"+" } else { b"-" };
        self.rules.push([sign, name].concat());
    }

    /// Permits all keys, or none.
    pub(super) fn set_all_keys(&mut self, is_permitted: bool) {
        self.all_keys = is_permitted;
        self.keys.clear();
    }

    pub(super) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    /// Permits keys that match a pattern to be read, written, or both.
    pub(super) fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) {
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes }),
        }
    }

    /// Permits all channels, or none.
    pub(super) fn set_all_channels(&mut self, is_permitted: bool) {
        self.all_channels = is_permitted;
        self.channels.clear();
    }

    pub(super) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// Permits channels that match a pattern.
    pub(super) fn add_channels(&mut self, pattern: &[u8]) {
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
    }

    /// The rules about commands, as words with spaces between them.
    pub(crate) fn describe_commands(&self) -> Vec<u8> {
        let first: &[u8] = if self.permits_commands { b"+@all" } else { b"-@all" };
        let mut words = vec![first];
        words.extend(self.rules.iter().map(Vec::as_slice));
        words.join(&b' ')
    }

    /// The rules about keys.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules = self.keys.iter().map(|it| {
            let sign: &[u8] = match (it.reads, it.writes) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                // As `~*`, the pattern would be the rule for all keys, which no further pattern may
                // follow.
                _ if it.pattern == b"*" => b"%RW~",
                _ => b"~",
            };
            [sign, &it.pattern].concat()
        });
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// The rules about channels.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|it| [b"&", it.as_slice()].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// All its rules, as words with spaces between them.
    pub(super) fn describe(&self) -> Vec<u8> {
        let reset: &[u8] = if self.all_channels { b"" } else { b"resetchannels" };
        let (keys, channels) = (self.describe_keys(), self.describe_channels());
        let commands = self.describe_commands();
        let words = [&keys, reset, &channels, &commands];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}
