//! Files are loaded completely, by one thread or several, or not at all.

use crate::files::{Known, OPTIONS, write};
use nagi_persist::rdb::{
    Batch, Fault, LoadOptions, LoadedValue, Loading, Memcached, NoCollections, Progress, load,
    load_with_threads,
};
use nagi_store::{CHUNK_BYTES, StringInput};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;

const LOAD: LoadOptions =
    LoadOptions { databases: 16, now_ms: Some(1_000_000), verify_checksum: true };

/// Returns thousands of keys, some of them long, expired, or with memcached's metadata.
fn keys() -> Vec<Known> {
    (0..5000_u32)
        .map(|number| {
            let len =
                if number.is_multiple_of(500) { 3 * CHUNK_BYTES } else { number as usize % 90 };
            Known {
                database: u64::from(number / 1000),
                key: format!("key:{number}").into_bytes(),
                value: number.to_string().into_bytes().into_iter().cycle().take(len).collect(),
                expire_at_ms: match number % 7 {
                    0 => Some(999_999),
                    1 => Some(1_000_000),
                    _ => None,
                },
                memcached: Memcached {
                    flags: number % 3,
                    cas: number.is_multiple_of(5).then_some(number.into()),
                    ..Memcached::default()
                },
                ..Known::default()
            }
        })
        .collect()
}

/// Adds the keys of a batch, none of which may exist.
fn keep(batch: &mut Batch<Infallible>, kept: &Mutex<HashMap<Vec<u8>, Known>>) -> Result<(), Fault> {
    while let Some(loaded) = batch.next_key(&NoCollections)? {
        let value = match &loaded.value {
            LoadedValue::Collection(none) => match *none {},
            LoadedValue::String(StringInput::Bytes(bytes)) => bytes.to_vec(),
            LoadedValue::String(StringInput::Rope(rope)) => {
                let mut bytes = Vec::new();
                rope.copy_range(0..rope.len(), &mut bytes);
                bytes
            }
        };
        let known = Known {
            database: loaded.database,
            key: loaded.key.to_vec(),
            value,
            expire_at_ms: loaded.expire_at_ms,
            usage: loaded.usage,
            memcached: loaded.memcached,
        };
        if kept.lock().insert(known.key.clone(), known).is_some() {
            return Err(loaded.duplicate());
        }
    }
    Ok(())
}

fn loaded(file: &[u8], threads: usize) -> Result<(Loading, HashMap<Vec<u8>, Known>), Fault> {
    let kept = Mutex::new(HashMap::new());
    let progress = Progress::default();
    let loading = if threads == 0 {
        load(file, &LOAD, &progress, &NoCollections, &mut |mut batch| keep(&mut batch, &kept))?
    } else {
        let take = |mut batch| keep(&mut batch, &kept);
        load_with_threads(file, &LOAD, &progress, &NoCollections, threads, take)?
    };
    assert_eq!(progress.bytes.load(Ordering::Relaxed), file.len() as u64);
    assert_eq!(progress.keys.load(Ordering::Relaxed), loading.keys);
    assert_eq!(progress.expired.load(Ordering::Relaxed), loading.expired);
    Ok((loading, kept.into_inner()))
}

#[test]
fn all_keys_except_expired_ones_are_loaded() {
    let keys = keys();
    let file = write(&keys, OPTIONS, 100);
    let alive: HashMap<Vec<u8>, Known> = keys
        .iter()
        .filter(|known| known.expire_at_ms != Some(999_999))
        .map(|known| (known.key.clone(), known.clone()))
        .collect();
    for threads in [0, 1, 3] {
        let (loading, kept) = loaded(&file, threads).unwrap();
        assert!(kept == alive, "{threads} threads");
        assert_eq!(loading.keys, alive.len() as u64);
        assert_eq!(loading.expired, (keys.len() - alive.len()) as u64);
        assert_eq!(loading.greatest_cas, 4995);
        let field = |name: &str| {
            let found = loading.fields.iter().find(|(field, _)| field == name.as_bytes());
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(field("redis-ver").as_deref(), Some("7.2.0"));
        assert_eq!(field("used-mem").as_deref(), Some("5000000000"));
        assert_eq!(field("nagi-memcached"), None);
    }
}

#[test]
fn duplicate_key_aborts_loading() {
    let mut keys = keys();
    keys.push(keys[4001].clone());
    let file = write(&keys, OPTIONS, 100);
    for threads in [0, 1, 3] {
        let fault = loaded(&file, threads).expect_err("it is there twice");
        let said = fault.to_string();
        assert!(said.ends_with("the key \"key:4001\" of database 4 is there twice"), "{said}");
    }
}

#[test]
fn unsupported_databases_and_damaged_files_are_refused() {
    let beyond = write(&[Known { database: 16, ..Known::default() }], OPTIONS, 1);
    let damaged = {
        let mut file = write(&keys(), OPTIONS, 100);
        let at = file.len() / 2;
        file[at] ^= 1;
        file
    };
    for (file, said) in
        [(beyond, "database 16 where there are 16, which is not supported"), (damaged, "byte ")]
    {
        for threads in [0, 2] {
            let fault = loaded(&file, threads).expect_err(said).to_string();
            assert!(fault.contains(said), "{fault}");
        }
    }
}

#[test]
fn corrupt_compressed_value_is_reported_when_it_is_read() {
    let value = b"abcdefgh".repeat(20);
    let known = Known { key: b"k".to_vec(), value, ..Known::default() };
    let mut file = write(&[known], OPTIONS, 1);
    // The end without a checksum, and an invalid reference as the first instruction.
    let end = file.len();
    file[end - 8..].fill(0);
    let at = file.windows(9).rposition(|window| window == b"\x07abcdefgh").unwrap();
    file[at] = 0x20;
    for threads in [0, 2] {
        let fault = loaded(&file, threads).expect_err("it is damaged").to_string();
        assert!(fault.contains("a compressed string that is as long as it says"), "{fault}");
    }
}
