//! Measures the cost of a file's bytes and keys: `cargo bench -p nagi-persist` prints how many are
//! processed per second. The first argument selects rows whose name contains it, the second one
//! sets the number of rounds. For instruction counts, which do not depend on the load of the
//! machine, run the binary under `valgrind --tool=callgrind` with 1 and with 2 rounds: the
//! difference is the cost of a row's bytes and keys.

use nagi_persist::Checksum;
use nagi_persist::rdb::{
    Block, Entry, LoadOptions, Memcached, NoCollections, Preamble, Progress, Version, Writer,
    WriterOptions, load,
};
use nagi_store::{StringValue, Value};
use std::hint::black_box;
use std::io;
use std::time::Instant;

/// The number of keys of a row, in blocks of about 16 KB.
const KEYS: usize = 20_000;
const BLOCK_BYTES: usize = 16 * 1024;
const ROUNDS: usize = 20;

/// An operation that is applied to all keys or bytes at once.
struct Row {
    name: String,
    keys: usize,
    bytes: usize,
    work: Box<dyn FnMut()>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let wanted = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    for mut row in rows().into_iter().filter(|row| row.name.contains(&wanted)) {
        let start = Instant::now();
        for _ in 0..rounds {
            (row.work)();
        }
        let seconds = start.elapsed().as_secs_f64() / rounds as f64;
        let gigabytes = row.bytes as f64 / seconds / 1e9;
        let key_ns = seconds * 1e9 / row.keys as f64;
        println!("{:<28}{gigabytes:>8.2} GB/s{key_ns:>10.1} ns a key", row.name);
    }
}

fn rows() -> Vec<Row> {
    let bytes = values(1000).concat();
    let len = bytes.len();
    let sum = move || {
        let mut checksum = Checksum::default();
        checksum.add(black_box(&bytes));
        black_box(checksum.value());
    };
    let mut rows =
        vec![Row { name: "checksum".into(), keys: KEYS, bytes: len, work: Box::new(sum) }];
    for value_bytes in [8, 100, 1000] {
        rows.extend(of_values(value_bytes));
    }
    rows
}

/// Returns values that are half words and half random bytes.
fn values(len: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let words = b"the calm of the sea when the wind drops ".iter().copied().cycle();
    let value = |at: usize| {
        let mut value: Vec<u8> = words.clone().skip(at % 40).take(len / 2).collect();
        value.resize_with(len, || random.u8(..));
        value
    };
    (0..KEYS).map(value).collect()
}

fn blocks(values: &[Vec<u8>]) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    for (number, value) in values.iter().enumerate() {
        let key = format!("key:{number:012}");
        let entry = Entry {
            key: key.as_bytes(),
            value: Value::String(StringValue::Bytes(value)),
            expire_at_ms: None,
            usage: None,
            memcached: Memcached::default(),
        };
        if let Some(block) = blocks.last_mut() {
            block.push(&entry);
            if block.len() > BLOCK_BYTES {
                blocks.push(Block::default());
            }
        }
    }
    blocks
}

fn write(blocks: &[Block], compress: bool) -> io::Result<Vec<u8>> {
    let preamble = Preamble {
        redis_version: "7.2.0",
        created_at_s: 0,
        used_memory_bytes: 0,
        is_aof_base: false,
    };
    let options = WriterOptions { version: Version::LOWEST, compress, checksum: true };
    let mut writer = Writer::new(Vec::with_capacity(64 << 20), options, &preamble)?;
    for block in blocks {
        writer.block(block)?;
    }
    writer.finish()
}

fn of_values(value_bytes: usize) -> Vec<Row> {
    let values = values(value_bytes);
    let blocks = blocks(&values);
    let bytes = KEYS * (16 + value_bytes);
    let row = |name: &str, work: Box<dyn FnMut()>| Row {
        name: format!("{name}, {value_bytes} B"),
        keys: KEYS,
        bytes,
        work,
    };
    let options = LoadOptions { databases: 16, now_ms: Some(0), verify_checksum: true };
    let read = |file: Vec<u8>| {
        move || {
            let mut sink = |batch| {
                black_box(&batch);
                Ok(())
            };
            let _ = black_box(load(
                &file[..],
                &options,
                &Progress::default(),
                &NoCollections,
                &mut sink,
            ));
        }
    };
    let files = [false, true].map(|compress| write(&blocks, compress).unwrap_or_default());
    let [plain, packed] = files.map(read);
    let (one, other) = (blocks.clone(), blocks);
    vec![
        row("fill blocks", Box::new(move || drop(black_box(self::blocks(&values))))),
        row("write", Box::new(move || drop(black_box(write(&one, false))))),
        row("write, compressed", Box::new(move || drop(black_box(write(&other, true))))),
        row("read", Box::new(plain)),
        row("read, compressed", Box::new(packed)),
    ]
}
