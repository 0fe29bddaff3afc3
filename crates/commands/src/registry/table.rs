//! All rows together, found by name in any case.

use crate::families::acl;
use crate::families::bitfield;
use crate::families::bitmap;
use crate::families::bitop;
use crate::families::client;
use crate::families::connection;
use crate::families::debug;
use crate::families::float;
use crate::families::hyperloglog;
use crate::families::introspection;
use crate::families::key;
use crate::families::keyspace;
use crate::families::latency;
use crate::families::lcs;
use crate::families::lolwut;
use crate::families::memory;
use crate::families::module;
use crate::families::monitor;
use crate::families::object;
use crate::families::persistence;
use crate::families::range;
use crate::families::relocation;
use crate::families::replication;
use crate::families::serialization;
use crate::families::server;
use crate::families::slowlog;
use crate::families::string;
use crate::{Command, Flags, config, memcached};
use nagi_proto::Args;
use std::ops::Range;
use std::sync::LazyLock;

/// The rows, family by family.
const FAMILIES: &[&[&Command]] = &[
    acl::ALL,
    bitfield::ALL,
    bitmap::ALL,
    bitop::ALL,
    client::ALL,
    config::ALL,
    connection::ALL,
    debug::ALL,
    introspection::ALL,
    float::ALL,
    hyperloglog::ALL,
    key::ALL,
    keyspace::ALL,
    latency::ALL,
    lolwut::ALL,
    memory::ALL,
    module::ALL,
    monitor::ALL,
    lcs::ALL,
    object::ALL,
    persistence::ALL,
    range::ALL,
    relocation::ALL,
    replication::ALL,
    serialization::ALL,
    server::ALL,
    slowlog::ALL,
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
    /// Whether no call takes long, so that many in a row may be timed together.
    pub is_brief: bool,
    /// [`crate::Keys::first`] of its keys.
    first_key: usize,
    subcommands: Range<usize>,
}

/// See [`Entry::is_brief`]. SET is not fast in Redis' words, but takes the same time each time.
fn is_brief(command: &Command) -> bool {
    let of_data = command.flags.intersects(Flags::READONLY | Flags::WRITE);
    command.flags.contains(Flags::FAST) || of_data && command.notes.complexity == "O(1)"
}

impl Entry {
    /// The first key of a request, where its position is the same in all.
    #[must_use]
    #[inline]
    pub fn first_key<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.first_key == 0 { None } else { args.get(self.first_key) }
    }

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
    short: Names<1>,
    long: Names<3>,
}

/// Places of commands in the entries by the hash of their names, with linear probing; a power of
/// two in length. Names are of up to eight bytes for each of `WORDS`.
struct Names<const WORDS: usize> {
    slots: Box<[Option<(Folded<WORDS>, usize)>]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// The entry of the command called `name`, in any case.
#[must_use]
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Entry> {
    let table = &*TABLE;
    // Of the commands that are asked for all the time, none has a long name.
    let index = match Folded::short(name) {
        Some(name) => table.short.find(&name)?,
        None => table.long.find(&Folded::long(name)?)?,
    };
    table.entries.get(index)
}

/// The entry of a command or, as in `config|get`, of a subcommand.
#[must_use]
pub(crate) fn find_full(name: &[u8]) -> Option<&'static Entry> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let entry = find(words.next()?)?;
    words.next().map_or(Some(entry), |word| entry.subcommand(word))
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
                is_brief: is_brief(command),
                first_key: command.keys.first(),
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
                    is_brief: is_brief(sub),
                    first_key: sub.keys.first(),
                    subcommands: 0..0,
                });
            }
        }
        let (mut short, mut long) = (Names::new(commands.len()), Names::new(commands.len()));
        for (index, command) in commands.iter().enumerate() {
            let name = command.name.as_bytes();
            match Folded::short(name) {
                Some(name) => short.add(name, index),
                None => Folded::long(name).into_iter().for_each(|name| long.add(name, index)),
            }
        }
        Table { entries, commands: commands.len(), short, long }
    }
}

impl<const WORDS: usize> Names<WORDS> {
    /// Room for `count` names, and as much again several times, so that probing is short.
    fn new(count: usize) -> Self {
        Names { slots: vec![None; (count * 4).next_power_of_two()].into_boxed_slice() }
    }

    fn add(&mut self, name: Folded<WORDS>, index: usize) {
        let mask = self.slots.len() - 1;
        let mut place = name.hash();
        while self.slots.get(place & mask).is_some_and(Option::is_some) {
            place += 1;
        }
        if let Some(free) = self.slots.get_mut(place & mask) {
            *free = Some((name, index));
        }
    }

    #[inline]
    fn find(&self, name: &Folded<WORDS>) -> Option<usize> {
        let mut place = name.hash();
        loop {
            let slot = self.slots.get(place & (self.slots.len() - 1))?.as_ref()?;
            if slot.0 == *name {
                return Some(slot.1);
            }
            place += 1;
        }
    }
}

fn is_called(name: &str, word: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(word)
}

/// A name in small letters, as numbers that are compared in no time. Where it is no multiple of
/// eight bytes long, some bytes are in it twice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Folded<const WORDS: usize> {
    len: usize,
    words: [u64; WORDS],
}

impl Folded<1> {
    /// `None` for a name longer than this, or none at all.
    #[inline]
    fn short(name: &[u8]) -> Option<Self> {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let word = match *name {
            [a] => u64::from(a),
            [a, b] => u64::from(a) | u64::from(b) << 8,
            [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
            _ if name.len() > 8 => return None,
            _ => half(name.first_chunk()?) | half(name.last_chunk()?) << 32,
        };
        Some(Folded { len: name.len(), words: [to_small_letters(word)] })
    }
}

impl Folded<3> {
    /// `None` for a name longer than any that there is, or one that is short.
    fn long(name: &[u8]) -> Option<Self> {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let words = match name.len() {
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
}

impl<const WORDS: usize> Folded<WORDS> {
    #[inline]
    fn hash(&self) -> usize {
        // 2^64 divided by the golden ratio: multiplying by it spreads a number over its high bits.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.words.iter().fold(0, |mixed: u64, word| mixed.rotate_left(29) ^ word);
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
    use crate::{Category, Flags};
    use nagi_store::Intent;
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
        fn told_apart<const WORDS: usize>(
            folded: impl Fn(&[u8]) -> Option<Folded<WORDS>>,
            lengths: std::ops::RangeInclusive<usize>,
        ) {
            let long = "abcdefghijklmnopqrstuvwxy";
            assert!(folded(&long.as_bytes()[..lengths.end() + 1]).is_none());
            for len in lengths {
                let name = &long.as_bytes()[..len];
                let same = folded(&name.to_ascii_uppercase()).unwrap();
                assert!(folded(name).unwrap() == same, "{len}");
                for at in 0..len {
                    let mut other = name.to_vec();
                    other[at] = b'_';
                    assert!(folded(&other).unwrap() != same, "{len} {at}");
                }
            }
        }
        told_apart(Folded::short, 1..=8);
        told_apart(Folded::long, 9..=24);
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
            let least = i64::from(arity.unsigned_abs());
            let ([first, last, _], _) = keys.as_one_range();
            assert!(first < least && last < least, "{full_name}: a key may be missing");
            if !keys.all_groups().is_empty() {
                let both = Flags::WRITE | Flags::READONLY;
                let changes = flags.intersection(both);
                assert!(changes.bits().count_ones() == 1, "{full_name}: either reads or writes");
                // PFCOUNT keeps its estimate within the sketch.
                let reads = keys.intent() == Intent::Read || name == "PFCOUNT";
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
