//! Requests from a trace: CSV in the format of Twitter's cache traces
//! (<https://github.com/twitter/cache-trace>): time, key, bytes of the key, bytes of the value,
//! client, operation, TTL.

use std::io::BufRead;
use std::path::Path;

use super::requests::MAX_TTL_SECONDS;

/// Maximum total bytes of the keys of a trace.
const ARENA_BYTES: usize = 4 << 30;

/// Maximum length of a key in bytes.
const KEY_BYTES: usize = u16::MAX as usize;

/// The operation of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    /// `set`, or `cas`, which becomes a `set` because traces lack the item's cas unique.
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Incr,
    Decr,
}

/// A row of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) value_bytes: u32,
    pub(crate) ttl_seconds: u32,
    key_start: u32,
    key_bytes: u16,
    /// The key's offset in the arena, in whole gigabytes; `key_start` is the remainder.
    key_gigabytes: u8,
}

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    rows: Vec<Row>,
    keys: Vec<u8>,
}

impl Trace {
    /// Reads a trace. A key shorter than its row states is padded with `-`.
    ///
    /// # Errors
    /// The file cannot be read, or a row is malformed; the error names the row and the reason.
    pub(crate) fn from_file(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut trace = Trace::default();
        for (index, line) in std::io::BufReader::new(file).lines().enumerate() {
            let line = line.map_err(unreadable)?;
            let read = if line.trim().is_empty() { Ok(()) } else { trace.read(&line) };
            read.map_err(|why| format!("{}, line {}: {why}", path.display(), index + 1))?;
        }
        if trace.rows.is_empty() {
            return Err(format!("{}: the trace has no rows", path.display()));
        }
        Ok(trace)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [_time, key, key_bytes, value_bytes, _client, operation, ttl] = fields.as_slice()
        else {
            return Err(format!("{} fields, and a row has 7", fields.len()));
        };
        let number = |name: &str, text: &str| -> Result<u32, String> {
            text.parse().map_err(|_| format!("{text:?} is not a {name}"))
        };
        let key_bytes = number("length of a key", key_bytes)? as usize;
        let value_bytes = number("length of a value", value_bytes)?;
        let ttl_seconds = number("TTL", ttl)?;
        if value_bytes as usize > super::sizes::LONGEST_BYTES {
            return Err(format!("a value of {value_bytes} bytes: 512m is the limit"));
        }
        let len = key.len().max(key_bytes);
        if key.is_empty() || len > KEY_BYTES {
            return Err(format!("a key of {len} bytes: it has 1 to {KEY_BYTES}"));
        }
        if key.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("the key has a blank or control character".to_owned());
        }
        let start = self.keys.len();
        if start + len > ARENA_BYTES {
            return Err(format!("the keys take more than {ARENA_BYTES} bytes"));
        }
        self.keys.extend_from_slice(key.as_bytes());
        self.keys.resize(start + len, b'-');
        self.rows.push(Row {
            operation: operation_of(operation)?,
            value_bytes,
            ttl_seconds: ttl_seconds.min(MAX_TTL_SECONDS as u32),
            key_start: (start & 0x3fff_ffff) as u32,
            key_bytes: len as u16,
            key_gigabytes: (start >> 30) as u8,
        });
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns row `number`, and its key.
    pub(crate) fn row(&self, number: u64) -> Option<(&Row, &[u8])> {
        let row = self.rows.get(usize::try_from(number).ok()?)?;
        let start = (usize::from(row.key_gigabytes) << 30) + row.key_start as usize;
        Some((row, self.keys.get(start..start + usize::from(row.key_bytes))?))
    }

    /// Returns the length in bytes of the largest value.
    pub(crate) fn largest_value(&self) -> usize {
        self.rows.iter().map(|row| row.value_bytes as usize).max().unwrap_or(0)
    }

    /// Whether any row changes only a part of a value.
    pub(crate) fn has_partial_writes(&self) -> bool {
        self.rows.iter().any(|row| {
            matches!(
                row.operation,
                Operation::Append | Operation::Prepend | Operation::Incr | Operation::Decr
            )
        })
    }

    /// Returns the length in bytes of the longest key.
    pub(crate) fn longest_key(&self) -> usize {
        self.rows.iter().map(|row| usize::from(row.key_bytes)).max().unwrap_or(0)
    }
}

fn operation_of(name: &str) -> Result<Operation, String> {
    Ok(match name {
        "get" | "gets" => Operation::Get,
        "set" | "cas" => Operation::Set,
        "add" => Operation::Add,
        "replace" => Operation::Replace,
        "append" => Operation::Append,
        "prepend" => Operation::Prepend,
        "delete" => Operation::Delete,
        "incr" => Operation::Incr,
        "decr" => Operation::Decr,
        _ => return Err(format!("{name:?} is not an operation")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("nagi-trace-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let trace = Trace::from_file(&path);
        std::fs::remove_file(&path).unwrap();
        trace
    }

    #[test]
    fn rows_keep_their_order_keys_and_sizes() {
        let trace =
            read("0,q:q:1,6,0,1,get,0\n0,abc,5,100,1,set,3600\n\n1,x,1,0,2,delete,0").unwrap();
        assert_eq!((trace.len(), trace.largest_value(), trace.longest_key()), (3, 100, 6));
        let (row, key) = trace.row(0).unwrap();
        assert_eq!((row.operation, key), (Operation::Get, &b"q:q:1-"[..]));
        let (row, key) = trace.row(1).unwrap();
        assert_eq!((row.operation, row.value_bytes, row.ttl_seconds), (Operation::Set, 100, 3600));
        assert_eq!(key, b"abc--");
        assert_eq!(trace.row(2).unwrap().1, b"x");
        assert!(trace.row(3).is_none() && !trace.has_partial_writes());
        assert!(read("0,k,1,1,1,append,0").unwrap().has_partial_writes());
        let longest = read("0,k,65535,1,1,get,0").unwrap();
        assert_eq!(longest.row(0).unwrap().1.len(), 65535);
    }

    #[test]
    fn malformed_lines_are_reported_with_their_number() {
        for (text, why) in [
            ("0,k,1,1,1,get,0\n0,k,1,1,get,0\n", "line 2: 6 fields"),
            ("0,k,x,1,1,get,0", "line 1: \"x\" is not a length of a key"),
            ("0,k,1,-1,1,get,0", "is not a length of a value"),
            ("0,k,1,1,1,fetch,0", "\"fetch\" is not an operation"),
            ("0,,0,1,1,get,0", "a key of 0 bytes"),
            ("0,a b,3,1,1,get,0", "blank"),
            ("0,k,65536,1,1,get,0", "a key of 65536 bytes"),
            ("0,k,1,536870913,1,set,0", "512m"),
            ("\n", "no rows"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
