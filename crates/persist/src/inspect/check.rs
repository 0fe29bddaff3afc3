//! Checks that a file can be read to its end.

use super::distinct::Distinct;
use super::{Field, KEYS_PER_REPORT, Watch};
use crate::rdb::{CollectionType, Element, Fault, Header, Item, Reader, Rejected};
use nagi_store::{StreamBuilder, StreamPart};
use std::collections::BTreeMap;
use std::io::Read;

/// The length and the number up to which fields are shown.
const LONGEST_SHOWN_BYTES: usize = 200;

/// The results up to the end of the file, or up to a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The file's header.
    pub header: Option<Header>,
    /// The file's auxiliary fields and their offsets.
    pub fields: Vec<(u64, Field)>,
    /// The number of keys.
    pub keys: u64,
    /// The number of keys with an expiry.
    pub expiring: u64,
    /// The number of keys that have expired.
    pub expired: u64,
    /// The number of function libraries.
    pub functions: u64,
    /// The number of keys of each database.
    pub databases: BTreeMap<u64, u64>,
    /// The numbers of keys and elements of each type and encoding.
    pub types: BTreeMap<(&'static str, &'static str), (u64, u64)>,
    /// The checksum, unless the file has none.
    pub checksum: Option<u64>,
    /// The number of bytes read.
    pub bytes: u64,
    /// The last key that was read, and its database.
    pub last_key: Option<(u64, Vec<u8>)>,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checking {
    /// The statistics.
    pub found: Checked,
    /// The fault, if there is any.
    pub fault: Option<Fault>,
}

/// Reads a file to its end, including values. `now_ms` determines which keys have expired.
pub fn check(source: impl Read, now_ms: u64, watch: &mut Watch<'_>) -> Checking {
    let mut found = Checked::default();
    let fault = match Reader::new(source, true) {
        Ok(mut reader) => {
            let ended = read(&mut reader, &mut found, now_ms, watch);
            found.bytes = reader.offset();
            ended.err()
        }
        Err(fault) => Some(fault),
    };
    Checking { found, fault }
}

fn read<R: Read>(
    reader: &mut Reader<R>,
    found: &mut Checked,
    now_ms: u64,
    watch: &mut Watch<'_>,
) -> Result<(), Fault> {
    found.header = Some(reader.header());
    let mut distinct = Distinct::default();
    loop {
        let offset = reader.offset();
        match reader.next_item()? {
            Item::Key(record) => {
                found.last_key = Some((record.database, reader.key().to_vec()));
                let elements = match record.value_type.collection() {
                    None => reader.skip_value()?.elements,
                    Some(CollectionType::Stream) => build_stream(reader)?,
                    Some(_) => {
                        distinct.begin();
                        reader.elements(&mut |element| distinct.add(&element))?
                    }
                };
                found.keys += 1;
                found.expiring += u64::from(record.expire_at_ms.is_some());
                found.expired += u64::from(record.expire_at_ms.is_some_and(|at| at < now_ms));
                *found.databases.entry(record.database).or_default() += 1;
                let name = (record.value_type.name(), record.value_type.encoding());
                let (keys, sum) = found.types.entry(name).or_default();
                *keys += 1;
                *sum += elements;
                if found.keys.is_multiple_of(KEYS_PER_REPORT) {
                    watch(reader.offset(), found.keys);
                }
            }
            // Fields between keys belong to the keys.
            Item::Aux(name, value)
                if found.keys == 0 && name.len().max(value.len()) <= LONGEST_SHOWN_BYTES =>
            {
                found.fields.push((offset, Field { name, value }));
            }
            Item::Function(_) => found.functions += 1,
            Item::End => {
                found.last_key = None;
                found.checksum = reader.checksum();
                return Ok(());
            }
            _ => {}
        }
    }
}

/// Builds a stream, since only parts that fit together can be loaded. Returns the number of its
/// entries.
fn build_stream<R: Read>(reader: &mut Reader<R>) -> Result<u64, Fault> {
    let (mut builder, mut entries) = (StreamBuilder::new(), 0);
    reader.elements(&mut |element| {
        let Element::Part(part) = element else { return Err(Rejected::Unsupported) };
        if let StreamPart::Head { len, .. } = part {
            entries = len;
        }
        if builder.add(part) { Ok(()) } else { Err(Rejected::Duplicate) }
    })?;
    Ok(entries)
}
