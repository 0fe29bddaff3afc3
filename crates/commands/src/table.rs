//! All rows together, found by name in any case.

use crate::{
    Command, client, config, connection, introspection, key, keyspace, memcached, server, string,
};
use std::ops::Range;
use std::sync::LazyLock;

/// The rows, family by family.
const FAMILIES: &[&[&Command]] = &[
    client::ALL,
    config::ALL,
    connection::ALL,
    introspection::ALL,
    key::ALL,
    keyspace::ALL,
    server::ALL,
    string::ALL,
];

/// A command's row and its number.
#[derive(Debug)]
pub struct Entry {
    /// The row.
    pub command: &'static Command,
    /// Its place in [`entries`].
    pub index: usize,
    /// Its name in small letters, of a subcommand as in `client|list`.
    pub full_name: String,
    subcommands: Range<usize>,
}

impl Entry {
    /// The subcommand called `word`, in any case.
    #[must_use]
    pub fn subcommand(&self, word: &[u8]) -> Option<&'static Entry> {
        self.subcommands().iter().find(|entry| is_called(entry.command.name, word))
    }

    /// All its subcommands.
    #[must_use]
    pub fn subcommands(&self) -> &'static [Entry] {
        entries().get(self.subcommands.clone()).unwrap_or_default()
    }
}

struct Table {
    entries: Vec<Entry>,
    /// How many of them are commands; the subcommands follow.
    commands: usize,
    /// Places in `entries` by the hash of the name, with linear probing; a power of two in length.
    slots: Box<[Option<u16>]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// The entry of the command called `name`, in any case.
#[must_use]
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Entry> {
    let table = &*TABLE;
    let mut slot = hash(name);
    loop {
        let index = (*table.slots.get(slot & (table.slots.len() - 1))?)?;
        let entry = table.entries.get(usize::from(index))?;
        if is_called(entry.command.name, name) {
            return Some(entry);
        }
        slot += 1;
    }
}

/// Every command, then every subcommand.
#[must_use]
pub fn entries() -> &'static [Entry] {
    &TABLE.entries
}

/// Every command without its subcommands.
#[must_use]
pub fn commands() -> &'static [Entry] {
    TABLE.entries.get(..TABLE.commands).unwrap_or_default()
}

/// What [`crate::ClientInfo::last_command`] stands for, by the name that CLIENT LIST shows.
#[must_use]
pub fn label(last_command: u32) -> &'static str {
    let Some(index) = (last_command as usize).checked_sub(1) else { return "NULL" };
    match entries().get(index) {
        Some(entry) => &entry.full_name,
        None => memcached::label(index - entries().len()),
    }
}

impl Table {
    fn new() -> Self {
        let commands: Vec<&Command> =
            FAMILIES.iter().flat_map(|rows| rows.iter()).copied().collect();
        let mut next = commands.len();
        let mut entries: Vec<Entry> = Vec::new();
        for command in &commands {
            let first = next;
            next += command.subcommands.len();
            let full_name = command.name.to_ascii_lowercase();
            entries.push(Entry {
                command,
                index: entries.len(),
                full_name,
                subcommands: first..next,
            });
        }
        for command in &commands {
            for sub in command.subcommands {
                let full_name = format!("{}|{}", command.name, sub.name).to_ascii_lowercase();
                entries.push(Entry {
                    command: sub,
                    index: entries.len(),
                    full_name,
                    subcommands: 0..0,
                });
            }
        }
        let mut slots = vec![None; (commands.len() * 4).next_power_of_two()].into_boxed_slice();
        for (index, command) in (0_u16..).zip(&commands) {
            let mask = slots.len() - 1;
            let mut slot = hash(command.name.as_bytes());
            while slots.get(slot & mask).is_some_and(Option::is_some) {
                slot += 1;
            }
            if let Some(free) = slots.get_mut(slot & mask) {
                *free = Some(index);
            }
        }
        Table { entries, commands: commands.len(), slots }
    }
}

fn is_called(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// A hash of `name` that is the same in any case: of its first and its last bytes, which tell most
/// names apart, so that it takes the same few nanoseconds for all.
#[inline]
fn hash(name: &[u8]) -> usize {
    const SMALL: u64 = 0x2020_2020_2020_2020;
    // 2^64 divided by the golden ratio: multiplication spreads what it is given over the high bits.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        let byte = |at: usize| name.get(at).map_or(0, |byte| u64::from(*byte));
        (byte(0) | byte(1) << 8, byte(2))
    };
    let mixed = (first | SMALL) ^ (last | SMALL).rotate_left(29) ^ name.len() as u64;
    (mixed.wrapping_mul(GOLDEN) >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Category, Flags, Keys};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_found_in_any_case() {
        for entry in commands() {
            for name in [entry.full_name.clone(), entry.full_name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).unwrap().index, entry.index, "{name}");
            }
            for sub in entry.subcommands() {
                let found = entry.subcommand(sub.command.name.to_lowercase().as_bytes()).unwrap();
                assert_eq!(found.index, sub.index, "{}", sub.full_name);
            }
        }
        for name in ["", "g", "ge", "gett", "get ", "\0\0\0", "a name longer than any there is"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn rows_agree_with_themselves() {
        let mut names = BTreeSet::new();
        for entry in entries() {
            let Command { name, arity, flags, keys, categories, summary, since, .. } =
                *entry.command;
            let full_name = &entry.full_name;
            assert!(names.insert(full_name), "{full_name} is there twice");
            assert_eq!(name, name.to_uppercase(), "names are written in capitals");
            assert_ne!(arity, 0, "{full_name}: the name counts");
            let least = i16::from(arity.unsigned_abs());
            assert!(i16::from(keys.first) < least, "{full_name}: the first key may be missing");
            assert!(i16::from(keys.last) < least, "{full_name}: the last key may be missing");
            if keys != Keys::NONE {
                let both = Flags::WRITE | Flags::READONLY;
                let changes = flags.intersection(both);
                assert!(changes.bits().count_ones() == 1, "{full_name}: either reads or writes");
                let reads = keys.access.contains(Access::RO);
                assert_eq!(reads, flags.contains(Flags::READONLY), "{full_name}: access");
            }
            if flags.contains(Flags::DENYOOM) {
                assert!(flags.contains(Flags::WRITE), "{full_name}: only writes need memory");
            }
            let derived = Category::READ | Category::WRITE | Category::FAST | Category::SLOW;
            assert!(!categories.intersects(derived), "{full_name}: those follow from flags");
            assert!(summary.len() > 10 && !summary.ends_with('.'), "{full_name}: {summary}");
            assert_eq!(since.split('.').count(), 3, "{full_name}: {since}");
        }
        assert!(entries().len() > commands().len());
    }

    #[test]
    fn numbers_of_commands_and_verbs_have_names() {
        assert_eq!(label(0), "NULL");
        assert_eq!(label(u32::MAX), "NULL");
        for (number, entry) in (1..).zip(entries()) {
            assert_eq!(label(number), entry.full_name);
        }
        assert_eq!(label(u32::try_from(entries().len()).unwrap() + 1), "get");
    }
}
