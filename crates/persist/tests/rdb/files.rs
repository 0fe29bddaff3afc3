//! Helpers to write and read files in memory.

use nagi_persist::rdb::{
    Block, Entry, Fault, Item, Memcached, Preamble, Reader, Record, Text, Version, Writer,
    WriterOptions, unpack,
};
use nagi_store::types::restore::Usage;
use nagi_store::{CHUNK_BYTES, Rope, StringValue, Value};

/// A key with all data that a file has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) database: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) expire_at_ms: Option<u64>,
    pub(crate) usage: Option<Usage>,
    pub(crate) memcached: Memcached,
}

pub(crate) const OPTIONS: WriterOptions =
    WriterOptions { version: Version::LOWEST, compress: true, checksum: true };

pub(crate) const PREAMBLE: Preamble<'static> = Preamble {
    redis_version: "7.2.0",
    created_at_s: 1_700_000_000,
    used_memory_bytes: 5_000_000_000,
    is_aof_base: false,
};

/// Returns the file of these keys, in blocks of `block_keys`.
pub(crate) fn write(all: &[Known], options: WriterOptions, block_keys: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options, &PREAMBLE).unwrap();
    let mut block = Block::default();
    for keys in all.chunk_by(|one, other| one.database == other.database) {
        writer.database(keys[0].database).unwrap();
        writer.sizes(keys.len() as u64, 0).unwrap();
        for known in keys {
            let rope = Rope::from_bytes(&known.value);
            let value = match nagi_store::parse_i64(&known.value) {
                Some(number) => StringValue::Int(number),
                None if rope.len() > CHUNK_BYTES => StringValue::Rope(&rope),
                None => StringValue::Bytes(&known.value),
            };
            let value = Value::String(value);
            let &Known { expire_at_ms, usage, memcached, .. } = known;
            let entry = Entry { key: &known.key, value, expire_at_ms, usage, memcached };
            let long = block.push(&entry);
            if long.is_some() || block.keys() == block_keys {
                writer.block(&block).unwrap();
                block.clear();
            }
            if let Some(long) = long {
                writer.long(&long).unwrap();
            }
        }
        writer.block(&block).unwrap();
        block.clear();
    }
    assert_eq!(writer.keys(), all.len() as u64);
    let bytes = writer.bytes();
    let file = writer.finish().unwrap();
    assert_eq!(file.len() as u64, bytes + 9);
    file
}

/// Returns the strings of a file.
pub(crate) fn read(file: &[u8]) -> Result<Vec<Known>, Fault> {
    let mut reader = Reader::new(file, true)?;
    let mut all = Vec::new();
    loop {
        match reader.next_item()? {
            Item::Key(record) => {
                let value = value(&mut reader)?;
                let Record { database, expire_at_ms, usage, memcached, .. } = record;
                let key = reader.key().to_vec();
                all.push(Known { database, key, value, expire_at_ms, usage, memcached });
            }
            Item::End => return Ok(all),
            _ => {}
        }
    }
}

fn value(reader: &mut Reader<&[u8]>) -> Result<Vec<u8>, Fault> {
    let (mut bytes, mut whole) = (Vec::new(), Vec::new());
    Ok(match reader.text(&mut bytes)? {
        Text::Int(number) => number.to_string().into_bytes(),
        Text::Plain(len) => {
            assert_eq!(len, bytes.len());
            bytes
        }
        Text::Packed(packed, len) => {
            assert_eq!(packed, bytes.len());
            assert!(unpack(&bytes, len, &mut whole));
            whole
        }
        Text::Rope(rope) => {
            assert!(
                rope.chunks().take(rope.chunks().len() - 1).all(|chunk| chunk.len() == CHUNK_BYTES)
            );
            rope.copy_range(0..rope.len(), &mut whole);
            whole
        }
    })
}

/// Reads a whole file without keeping anything.
pub(crate) fn skim(file: &[u8]) -> Result<u64, Fault> {
    let mut reader = Reader::new(file, true)?;
    let mut keys = 0;
    loop {
        match reader.next_item()? {
            Item::Key(_) => {
                keys += 1;
                reader.skip_value()?;
            }
            Item::End => return Ok(keys),
            _ => {}
        }
    }
}
