//! Statistics of a file: by type, database, key prefix, expiry and size.

use super::{Field, KEYS_PER_REPORT, Watch, escaped};
use crate::rdb::{Fault, Item, Measure, Reader, Record};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// The parameters of grouping and listing keys.
#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    /// The maximum number of biggest keys, and of prefixes, to list.
    pub top: usize,
    /// The character that separates the parts of a key.
    pub separator: u8,
    /// The number of parts in a prefix.
    pub depth: usize,
    /// The time that determines which keys have expired, in milliseconds since 1970.
    pub now_ms: u64,
}

/// A group of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The number of keys.
    pub keys: u64,
    /// The number of their elements: list entries, members, fields; 1 for a string.
    pub elements: u64,
    /// The bytes of keys and values, uncompressed.
    pub bytes: u64,
    /// The bytes that they take in the file.
    pub file_bytes: u64,
    /// The number of keys with an expiry.
    pub expiring: u64,
}

impl Group {
    fn add(&mut self, entry: &Biggest) {
        self.keys += 1;
        self.elements += entry.elements;
        self.bytes += entry.bytes;
        self.file_bytes += entry.file_bytes;
        self.expiring += u64::from(entry.expire_at_ms.is_some());
    }

    fn join(&mut self, other: &Group) {
        self.keys += other.keys;
        self.elements += other.elements;
        self.bytes += other.bytes;
        self.file_bytes += other.file_bytes;
        self.expiring += other.expiring;
    }
}

/// One of the biggest keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Biggest {
    /// The database of the key.
    pub database: u64,
    /// The key.
    #[serde(serialize_with = "escaped")]
    pub key: Vec<u8>,
    /// The type of the value, as TYPE names it.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The encoding of the value.
    pub encoding: &'static str,
    /// The number of the value's elements.
    pub elements: u64,
    /// The bytes of key and value, uncompressed.
    pub bytes: u64,
    /// The bytes that the key takes in the file.
    pub file_bytes: u64,
    /// When the key expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
}

/// A range of times until expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Expiry {
    Expired,
    WithinMinute,
    WithinHour,
    WithinDay,
    WithinWeek,
    WithinMonth,
    WithinYear,
    Later,
    Never,
}

impl Expiry {
    fn of(expire_at_ms: Option<u64>, now_ms: u64) -> Self {
        const MINUTE_MS: u64 = 60_000;
        const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
        let Some(at_ms) = expire_at_ms else { return Expiry::Never };
        match at_ms.checked_sub(now_ms) {
            None => Expiry::Expired,
            Some(..=MINUTE_MS) => Expiry::WithinMinute,
            Some(left_ms) if left_ms <= 60 * MINUTE_MS => Expiry::WithinHour,
            Some(left_ms) if left_ms <= DAY_MS => Expiry::WithinDay,
            Some(left_ms) if left_ms <= 7 * DAY_MS => Expiry::WithinWeek,
            Some(left_ms) if left_ms <= 30 * DAY_MS => Expiry::WithinMonth,
            Some(left_ms) if left_ms <= 365 * DAY_MS => Expiry::WithinYear,
            Some(_) => Expiry::Later,
        }
    }

    /// Returns its description for a report.
    pub(super) fn as_text(self) -> &'static str {
        match self {
            Expiry::Expired => "expired",
            Expiry::WithinMinute => "within a minute",
            Expiry::WithinHour => "within an hour",
            Expiry::WithinDay => "within a day",
            Expiry::WithinWeek => "within a week",
            Expiry::WithinMonth => "within 30 days",
            Expiry::WithinYear => "within a year",
            Expiry::Later => "later",
            Expiry::Never => "never",
        }
    }
}

/// A group with the property that its keys share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named<N> {
    /// The property.
    pub name: N,
    /// The group.
    #[serde(flatten)]
    pub group: Group,
}

/// A type and encoding, as TYPE and OBJECT ENCODING name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TypeName {
    /// The type.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The encoding.
    pub encoding: &'static str,
}

/// The contents of a file.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The version of the format.
    pub version: u16,
    /// Whether it is one of Valkey's own versions.
    pub valkey: bool,
    /// The file's auxiliary fields.
    pub fields: Vec<Field>,
    /// The number of function libraries.
    pub functions: u64,
    /// The size of the file in bytes.
    pub file_bytes: u64,
    /// All keys.
    pub all: Group,
    /// By database.
    pub databases: BTreeMap<u64, Group>,
    /// By type and encoding.
    pub types: Vec<Named<TypeName>>,
    /// By time until expiry.
    pub expiry: Vec<Named<Expiry>>,
    /// The prefixes with the most bytes; `*` stands for all others and `-` for keys without a
    /// prefix.
    pub prefixes: Vec<Named<String>>,
    /// The keys with the most bytes.
    pub biggest: Vec<Biggest>,
}

/// Beyond this number of prefixes, the smaller ones are merged, so that memory is bounded.
const MAX_PREFIXES: usize = 100_000;

/// The statistics collected while a file is read.
struct Collecting {
    grouping: Grouping,
    all: Group,
    databases: BTreeMap<u64, Group>,
    types: BTreeMap<(&'static str, &'static str), Group>,
    expiry: BTreeMap<Expiry, Group>,
    prefixes: HashMap<Vec<u8>, Group>,
    bare: Group,
    rest: Group,
    biggest: Vec<Biggest>,
}

/// Reads a file to its end and collects statistics.
///
/// # Errors
/// The file cannot be read to its end.
pub fn stats(source: impl Read, grouping: Grouping, watch: &mut Watch<'_>) -> Result<Stats, Fault> {
    let mut reader = Reader::new(source, true)?;
    let mut collecting = Collecting {
        grouping,
        all: Group::default(),
        databases: BTreeMap::new(),
        types: BTreeMap::new(),
        expiry: BTreeMap::new(),
        prefixes: HashMap::new(),
        bare: Group::default(),
        rest: Group::default(),
        biggest: Vec::new(),
    };
    let (mut fields, mut functions) = (Vec::new(), 0);
    loop {
        match reader.next_item()? {
            Item::Key(record) => {
                let measure = reader.skip_value()?;
                let file_bytes = reader.offset() - record.offset;
                collecting.add(reader.key(), &record, &measure, file_bytes);
                if collecting.all.keys.is_multiple_of(KEYS_PER_REPORT) {
                    watch(reader.offset(), collecting.all.keys);
                }
            }
            Item::Aux(name, value) if collecting.all.keys == 0 => {
                fields.push(Field { name, value });
            }
            Item::Function(_) => functions += 1,
            Item::End => break,
            _ => {}
        }
    }
    let header = reader.header();
    Ok(collecting.finish(Stats {
        version: header.version,
        valkey: header.valkey,
        fields,
        functions,
        file_bytes: reader.offset(),
        all: Group::default(),
        databases: BTreeMap::new(),
        types: Vec::new(),
        expiry: Vec::new(),
        prefixes: Vec::new(),
        biggest: Vec::new(),
    }))
}

impl Collecting {
    fn add(&mut self, key: &[u8], record: &Record, measure: &Measure, file_bytes: u64) {
        let bytes = key.len() as u64 + measure.bytes;
        let is_big = self.biggest.len() < self.grouping.top
            || self.biggest.last().is_some_and(|smallest| bytes > smallest.bytes);
        let entry = Biggest {
            database: record.database,
            key: if is_big { key.to_vec() } else { Vec::new() },
            type_name: record.value_type.name(),
            encoding: record.value_type.encoding(),
            elements: measure.elements,
            bytes,
            file_bytes,
            expire_at_ms: record.expire_at_ms,
        };
        self.all.add(&entry);
        self.databases.entry(entry.database).or_default().add(&entry);
        self.types.entry((entry.type_name, entry.encoding)).or_default().add(&entry);
        let expiry = Expiry::of(entry.expire_at_ms, self.grouping.now_ms);
        self.expiry.entry(expiry).or_default().add(&entry);
        self.add_to_prefix(key, &entry);
        if is_big && self.grouping.top > 0 {
            let at = self.biggest.partition_point(|other| other.bytes >= bytes);
            self.biggest.insert(at, entry);
            self.biggest.truncate(self.grouping.top);
        }
    }

    fn add_to_prefix(&mut self, key: &[u8], entry: &Biggest) {
        let Grouping { separator, depth, .. } = self.grouping;
        let ends = key.iter().enumerate().filter(|(_, byte)| **byte == separator);
        // A key with fewer parts has all but its last part as its prefix.
        let Some((end, _)) = ends.take(depth).last() else { return self.bare.add(entry) };
        let prefix = key.get(..=end).unwrap_or_default();
        if let Some(group) = self.prefixes.get_mut(prefix) {
            return group.add(entry);
        }
        if self.prefixes.len() >= MAX_PREFIXES {
            self.prune();
        }
        self.prefixes.entry(prefix.to_vec()).or_default().add(entry);
    }

    /// Merges the smaller half of the prefixes.
    fn prune(&mut self) {
        let mut sizes: Vec<u64> = self.prefixes.values().map(|group| group.bytes).collect();
        let middle = sizes.len() / 2;
        let (_, median, _) = sizes.select_nth_unstable(middle);
        // Of those with the median size, only as many are kept as there is room for.
        let median = *median;
        let larger = self.prefixes.values().filter(|group| group.bytes > median).count();
        let mut room = middle.saturating_sub(larger);
        self.prefixes.retain(|_, group| {
            let keep = group.bytes > median || group.bytes == median && room > 0;
            room -= usize::from(keep && group.bytes == median);
            if !keep {
                self.rest.join(group);
            }
            keep
        });
    }

    fn finish(mut self, stats: Stats) -> Stats {
        let mut prefixes: Vec<(Vec<u8>, Group)> = self.prefixes.into_iter().collect();
        prefixes.sort_by(|(one_name, one), (other_name, other)| {
            (Reverse(one.bytes), one_name).cmp(&(Reverse(other.bytes), other_name))
        });
        for (_, group) in prefixes.iter().skip(self.grouping.top) {
            self.rest.join(group);
        }
        prefixes.truncate(self.grouping.top);
        let name = |prefix: &[u8]| format!("{}*", prefix.escape_ascii());
        let named = prefixes.iter().map(|(prefix, group)| (name(prefix), *group));
        let others = [("-".to_owned(), self.bare), ("*".to_owned(), self.rest)];
        let others = others.into_iter().filter(|(_, group)| group.keys > 0);
        let mut types: Vec<_> = self
            .types
            .into_iter()
            .map(|((type_name, encoding), group)| Named {
                name: TypeName { type_name, encoding },
                group,
            })
            .collect();
        types.sort_by_key(|it| Reverse(it.group.bytes));
        let expiry = self.expiry.into_iter().map(|(name, group)| Named { name, group });
        Stats {
            all: self.all,
            databases: self.databases,
            types,
            expiry: expiry.collect(),
            prefixes: named.chain(others).map(|(name, group)| Named { name, group }).collect(),
            biggest: self.biggest,
            ..stats
        }
    }
}
