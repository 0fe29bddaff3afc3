//! All rows together, found by name in any case.

use crate::{
    Command, bitfield, bitmap, bitop, client, config, connection, float, hyperloglog,
    introspection, key, keyspace, memcached, object, range, relocation, replication, server,
    string,
};
use std::ops::Range;
use std::sync::LazyLock;

/// The rows, family by family.
const FAMILIES: &[&[&Command]] = &[
    bitfield::ALL,
    bitmap::ALL,
    bitop::ALL,
    client::ALL,
    config::ALL,
    connection::ALL,
    introspection::ALL,
    float::ALL,
    hyperloglog::ALL,
    key::ALL,
    keyspace::ALL,
    object::ALL,
    range::ALL,
    relocation::ALL,
    replication::ALL,
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
    /// Commands by the hash of their names, with linear probing; a power of two in length.
    slots: Box<[Option<Slot>]>,
}

#[derive(Clone, Copy)]
struct Slot {
    name: Folded,
    /// Its place in the entries.
    index: usize,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// The entry of the command called `name`, in any case.
#[must_use]
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Entry> {
    let table = &*TABLE;
    let name = Folded::new(name)?;
    let mut place = name.hash();
    loop {
        let slot = table.slots.get(place & (table.slots.len() - 1))?.as_ref()?;
        if slot.name == name {
            return table.entries.get(slot.index);
        }
        place += 1;
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
        for (index, command) in commands.iter().enumerate() {
            let Some(name) = Folded::new(command.name.as_bytes()) else { continue };
            let mask = slots.len() - 1;
            let mut place = name.hash();
            while slots.get(place & mask).is_some_and(Option::is_some) {
                place += 1;
            }
            if let Some(free) = slots.get_mut(place & mask) {
                *free = Some(Slot { name, index });
            }
        }
        Table { entries, commands: commands.len(), slots }
    }
}

fn is_called(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// A name in small letters, as numbers that are compared in no time. Where it is no multiple of
/// eight bytes long, some bytes are in it twice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Folded {
    len: usize,
    words: [u64; 3],
}

impl Folded {
    /// `None` for a name longer than any that there is.
    #[inline]
    fn new(name: &[u8]) -> Option<Self> {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let byte = |at: usize| name.get(at).map_or(0, |byte| u64::from(*byte));
        let words = match name.len() {
            0..4 => [byte(0) | byte(1) << 8 | byte(2) << 16, 0, 0],
            4..8 => [half(name.first_chunk()?) | half(name.last_chunk()?) << 32, 0, 0],
            8..=16 => [word(name.first_chunk()?), word(name.last_chunk()?), 0],
            17..=24 => [
                word(name.first_chunk()?),
                word(name.get(8..16)?.first_chunk()?),
                word(name.last_chunk()?),
            ],
            _ => return None,
        };
        Some(Folded { len: name.len(), words: words.map(to_small_letters) })
    }

    #[inline]
    fn hash(&self) -> usize {
        // 2^64 divided by the golden ratio: multiplying by it spreads a number over its high bits.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let [first, second, third] = self.words;
        let mixed = first ^ second.rotate_left(29) ^ third.rotate_left(43);
        (mixed.wrapping_mul(GOLDEN) >> 40) as usize
    }
}

/// Turns each of eight bytes that is a capital letter into a small one.
#[inline]
fn to_small_letters(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = word & !HIGH;
    // The high bit of each byte: at least A, and beyond Z.
    let from_a = low + (0x80 - u64::from(b'A')) * EACH;
    let beyond_z = low + (0x7f - u64::from(b'Z')) * EACH;
    word | ((from_a & !beyond_z & !word & HIGH) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Category, Flags};
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
    fn only_capitals_become_small() {
        for byte in 0..=u8::MAX {
            let folded = to_small_letters(u64::from_le_bytes([byte; 8])).to_le_bytes();
            assert_eq!(folded, [byte.to_ascii_lowercase(); 8]);
        }
    }

    #[test]
    fn names_of_every_length_are_told_apart() {
        let long = "abcdefghijklmnopqrstuvwxy";
        for len in 0..=24 {
            let name = &long.as_bytes()[..len];
            let folded = Folded::new(name).unwrap();
            assert!(Folded::new(&name.to_ascii_uppercase()).unwrap() == folded);
            for at in 0..len {
                let mut other = name.to_vec();
                other[at] = b'_';
                assert!(Folded::new(&other).unwrap() != folded, "{len} {at}");
            }
        }
        assert!(Folded::new(long.as_bytes()).is_none());
        let longest = entries().iter().map(|entry| entry.command.name.len()).max().unwrap();
        assert!(longest <= 24);
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
            if keys.first > 0 {
                let both = Flags::WRITE | Flags::READONLY;
                let changes = flags.intersection(both);
                assert!(changes.bits().count_ones() == 1, "{full_name}: either reads or writes");
                let reads = keys.access.contains(Access::RO);
                // PFCOUNT keeps its estimate within the sketch.
                let reads = reads || name == "PFCOUNT";
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
