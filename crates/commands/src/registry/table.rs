//! The table of commands, in which commands are found by name, in any case.

use crate::registry::command::{Command, Flags};
use nagi_proto::Args;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A command's row and its index.
#[derive(Debug)]
pub struct Entry<H: 'static> {
    /// The row.
    pub command: &'static Command<H>,
    /// Its index in [`CommandTable::entries`].
    pub index: usize,
    /// Its name in lower case; `client|list` for a subcommand.
    pub full_name: String,
    /// Whether no call takes long, so that many in a row may be timed together.
    pub is_brief: bool,
    /// Whether no request can call it (`rename-command`).
    pub is_disabled: bool,
    /// [`crate::Keys::first`] of its keys.
    first_key: usize,
    subcommands: Range<usize>,
}

/// See [`Entry::is_brief`]. SET lacks Redis' flag FAST, but takes constant time.
fn is_brief<H>(command: &Command<H>) -> bool {
    let of_data = command.flags.intersects(Flags::READONLY | Flags::WRITE);
    command.flags.contains(Flags::FAST) || of_data && command.notes.complexity == "O(1)"
}

impl<H> Entry<H> {
    /// The first key of a request, if its position is the same in all and it was received
    /// with the request.
    #[must_use]
    #[inline]
    pub fn first_key<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.first_key == 0 || args.has_large() && args.large(self.first_key).is_some() {
            return None;
        }
        args.get(self.first_key)
    }
}

/// The number of memcached's first verb in [`CommandTable::label`].
pub(crate) const FIRST_VERB: u32 = 1 << 31;

/// All commands.
#[derive(Debug)]
pub struct CommandTable<H: 'static> {
    entries: Vec<Entry<H>>,
    /// The number of commands. Their entries come first, followed by those of subcommands.
    commands: usize,
    short: Names<1>,
    long: Names<3>,
    /// Indices of commands with longer names, in lower case; only renamed commands have such names.
    longest: HashMap<Box<[u8]>, usize>,
    /// The names of memcached's verbs.
    verbs: Vec<&'static str>,
}

/// Indices of commands in the entries by the hash of their names, with linear probing; the length
/// is a power of two. Names are of up to eight bytes for each of `WORDS`.
#[derive(Debug)]
struct Names<const WORDS: usize> {
    slots: Box<[Option<(Folded<WORDS>, usize)>]>,
}

impl<H> CommandTable<H> {
    /// A table of the commands in these rows, with the names of memcached's verbs.
    pub(crate) fn new(families: &[&[&'static Command<H>]], verbs: Vec<&'static str>) -> Self {
        let commands: Vec<&'static Command<H>> =
            families.iter().flat_map(|rows| rows.iter()).copied().collect();
        let mut next = commands.len();
        let mut entries = Vec::new();
        for command in &commands {
            let first = next;
            next += command.subcommands.len();
            entries.push(entry(command, entries.len(), command.name.to_owned(), first..next));
        }
        for command in &commands {
            for sub in command.subcommands {
                let full_name = format!("{}|{}", command.name, sub.name);
                entries.push(entry(sub, entries.len(), full_name, 0..0));
            }
        }
        let mut table = CommandTable {
            entries,
            commands: commands.len(),
            short: Names::new(0),
            long: Names::new(0),
            longest: HashMap::new(),
            verbs,
        };
        table.call_by(&table.own_names());
        table
    }

    /// Renames commands, each given by its current name; a command with an empty new name is
    /// disabled. Rows keep their names, which access control lists, statistics and documentation
    /// use.
    ///
    /// # Errors
    /// The index of the first pair that cannot be applied after the earlier ones, and the reason.
    pub(crate) fn renamed<'r>(
        mut self,
        pairs: impl Iterator<Item = (&'r str, &'r str)>,
    ) -> Result<Self, (usize, &'static str)> {
        let mut names = self.own_names();
        for (place, (old, new)) in pairs.enumerate() {
            let index = names.remove(&old.to_ascii_lowercase());
            let index = index.ok_or((place, "No such command in rename-command"))?;
            if !new.is_empty() && names.insert(new.to_ascii_lowercase(), index).is_some() {
                return Err((place, "Target command name already exists"));
            }
        }
        self.call_by(&names);
        Ok(self)
    }

    /// The indices of commands by their own names, in lower case.
    fn own_names(&self) -> BTreeMap<String, usize> {
        self.commands().iter().map(|entry| (entry.full_name.clone(), entry.index)).collect()
    }

    /// Makes commands callable by these names, which are in lower case.
    fn call_by(&mut self, names: &BTreeMap<String, usize>) {
        (self.short, self.long) = (Names::new(names.len()), Names::new(names.len()));
        let mut is_called = vec![false; self.entries.len()];
        for (name, index) in names {
            let within = self.entries.get(*index).map_or(0..0, |entry| entry.subcommands.clone());
            for place in within.chain([*index]) {
                is_called.get_mut(place).into_iter().for_each(|called| *called = true);
            }
            let name = name.as_bytes();
            match (Folded::short(name), Folded::long(name)) {
                (Some(name), _) => self.short.add(name, *index),
                (None, Some(name)) => self.long.add(name, *index),
                (None, None) => _ = self.longest.insert(name.into(), *index),
            }
        }
        for (entry, is_called) in self.entries.iter_mut().zip(is_called) {
            entry.is_disabled = !is_called;
        }
    }

    /// The entry of the command called `name`, in any case.
    #[must_use]
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Entry<H>> {
        // No frequently used command has a long name.
        let index = match Folded::short(name) {
            Some(name) => self.short.find(&name)?,
            None => self.find_long(name)?,
        };
        self.entries.get(index)
    }

    fn find_long(&self, name: &[u8]) -> Option<usize> {
        match Folded::long(name) {
            Some(name) => self.long.find(&name),
            None if self.longest.is_empty() => None,
            None => self.longest.get(&*name.to_ascii_lowercase()).copied(),
        }
    }

    /// The entry of a command or subcommand by its own name, even if it is renamed.
    #[must_use]
    pub(crate) fn find_own(&self, name: &[u8]) -> Option<&Entry<H>> {
        self.entries.iter().find(|entry| is_called(&entry.full_name, name))
    }

    /// The commands that requests can call, without subcommands.
    pub(crate) fn callable(&self) -> impl Iterator<Item = &Entry<H>> + Clone {
        self.commands().iter().filter(|entry| !entry.is_disabled)
    }

    /// The entry of a command or subcommand (`config|get`), by the name with which requests call
    /// it.
    #[must_use]
    pub(crate) fn find_full(&self, name: &[u8]) -> Option<&Entry<H>> {
        let mut words = name.splitn(2, |byte| *byte == b'|');
        let entry = self.find(words.next()?)?;
        words.next().map_or(Some(entry), |word| self.subcommand(entry, word))
    }

    /// Every command, then every subcommand.
    #[must_use]
    pub fn entries(&self) -> &[Entry<H>] {
        &self.entries
    }

    /// Every command without its subcommands.
    #[must_use]
    pub fn commands(&self) -> &[Entry<H>] {
        self.entries.get(..self.commands).unwrap_or_default()
    }

    /// The subcommand of `entry` called `word`, in any case.
    #[must_use]
    pub fn subcommand(&self, entry: &Entry<H>, word: &[u8]) -> Option<&Entry<H>> {
        self.subcommands(entry).iter().find(|sub| is_called(sub.command.name, word))
    }

    /// All subcommands of `entry`.
    #[must_use]
    pub fn subcommands(&self, entry: &Entry<H>) -> &[Entry<H>] {
        self.entries.get(entry.subcommands.clone()).unwrap_or_default()
    }

    /// The name that CLIENT LIST shows for
    /// [`ClientInfo::last_command`](crate::ClientInfo::last_command): the number is an entry's
    /// index, counted from 1, or a verb's, counted from [`FIRST_VERB`].
    #[must_use]
    pub(crate) fn label(&self, last_command: u32) -> &str {
        let name = match last_command.checked_sub(FIRST_VERB) {
            Some(verb) => self.verbs.get(verb as usize).copied(),
            None => {
                let index = (last_command as usize).checked_sub(1);
                let entry = index.and_then(|index| self.entries.get(index));
                entry.map(|entry| &*entry.full_name)
            }
        };
        name.unwrap_or("NULL")
    }
}

fn entry<H>(
    command: &'static Command<H>,
    index: usize,
    full_name: String,
    subcommands: Range<usize>,
) -> Entry<H> {
    Entry {
        command,
        index,
        full_name: full_name.to_ascii_lowercase(),
        is_brief: is_brief(command),
        is_disabled: false,
        first_key: command.keys.first(),
        subcommands,
    }
}

impl<const WORDS: usize> Names<WORDS> {
    /// Reserves four times as many slots as names, so that probing is short.
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

/// A name in lower case, as integers that are fast to compare. If its length is not a multiple of
/// eight, some bytes occur twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Folded<const WORDS: usize> {
    len: usize,
    words: [u64; WORDS],
}

impl Folded<1> {
    /// `None` for an empty or longer name.
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
    /// `None` for a short name, or one longer than any command's.
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

/// Converts capital letters among eight bytes to lower case.
#[inline]
fn to_small_letters(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = word & !HIGH;
    // In the high bit of each byte: whether it is at least `A`, and whether it is beyond `Z`.
    let from_a = low + (0x80 - u64::from(b'A')) * EACH;
    let beyond_z = low + (0x7f - u64::from(b'Z')) * EACH;
    word | ((from_a & !beyond_z & !word & HIGH) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::command::{Category, Group};
    use crate::registry::keys::Keys;
    use crate::registry::notes::Notes;

    #[test]
    fn only_capital_letters_are_folded() {
        for byte in 0..=u8::MAX {
            let folded = to_small_letters(u64::from_le_bytes([byte; 8])).to_le_bytes();
            assert_eq!(folded, [byte.to_ascii_lowercase(); 8]);
        }
    }

    #[test]
    fn renamed_commands_are_found_by_their_names_only() {
        let table = || CommandTable::new(&[ROWS], Vec::new());
        let renamed =
            |pairs: &[(&'static str, &'static str)]| table().renamed(pairs.iter().copied());
        let long = "b840fc02d524045429941cc15f59e41cb7be6c52";
        let swapped = [("ONE", "tmp"), ("two", "One"), ("TMP", "two"), ("Three", long)];
        let table = renamed(&swapped).unwrap();
        for (name, own) in [("one", "two"), ("TWO", "one"), (long.to_uppercase().as_str(), "three")]
        {
            let entry = table.find(name.as_bytes()).unwrap();
            assert_eq!(entry.full_name, own);
            assert_eq!(table.find_own(own.as_bytes()).unwrap().index, entry.index);
        }
        assert!(table.find(b"three").is_none() && table.find(b"tmp").is_none());
        assert_eq!(table.find_full(b"one|sub").unwrap().full_name, "two|sub");
        let table = renamed(&[("two", ""), ("one", "one")]).unwrap();
        assert!(table.find(b"two").is_none() && table.find(b"").is_none());
        assert!(table.find(b"one").is_some() && table.find_own(b"two|sub").is_some());
        let names: Vec<_> = table.callable().map(|entry| entry.full_name.as_str()).collect();
        assert_eq!(names, ["one", "three"]);
        assert!(table.entries().iter().all(|it| it.is_disabled == it.full_name.starts_with("two")));
        let fault = |pairs| renamed(pairs).unwrap_err();
        assert_eq!(fault(&[("one", "x"), ("one", "y")]), (1, "No such command in rename-command"));
        assert_eq!(fault(&[("two|sub", "y")]), (0, "No such command in rename-command"));
        assert_eq!(fault(&[("one", "TWO")]), (0, "Target command name already exists"));
    }

    const fn row(name: &'static str, subcommands: &'static [&'static Command<()>]) -> Command<()> {
        Command {
            name,
            syntax: "",
            arity: 1,
            flags: Flags::FAST,
            keys: Keys::NONE,
            categories: Category::empty(),
            group: Group::Server,
            since: "1.0.0",
            notes: Notes::of(""),
            summary: "",
            subcommands,
            run: (),
        }
    }

    static SUB: Command<()> = row("SUB", &[]);
    static ONE: Command<()> = row("ONE", &[]);
    static TWO: Command<()> = row("TWO", &[&SUB]);
    static THREE: Command<()> = row("THREE", &[]);
    static ROWS: &[&Command<()>] = &[&ONE, &TWO, &THREE];

    #[test]
    fn names_of_every_length_are_distinguished() {
        fn are_distinguished<const WORDS: usize>(
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
        are_distinguished(Folded::short, 1..=8);
        are_distinguished(Folded::long, 9..=24);
    }
}
