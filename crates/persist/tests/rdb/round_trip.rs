//! Writes files and reads them again.

use crate::files::{Known, OPTIONS, read, skim, write};
use nagi_persist::rdb::{Memcached, Version, WriterOptions};
use nagi_store::types::restore::Usage;
use nagi_store::{CHUNK_BYTES, Marks};
use proptest::prelude::*;

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let short = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => short(),
        2 => any::<i64>().prop_flat_map(|number| {
            (0_u32..64).prop_map(move |shift| (number >> shift).to_string().into_bytes())
        }),
        2 => (short(), 1_usize..200).prop_map(|(word, times)| word.repeat(times)),
        1 => prop::collection::vec(any::<u8>(), 16_370..16_400),
    ]
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let near = CHUNK_BYTES - 3..CHUNK_BYTES + 4;
    prop_oneof![
        12 => any_text(),
        1 => (any::<u8>(), near.clone()).prop_map(|(byte, len)| vec![byte; len]),
        1 => prop::collection::vec(any::<u8>(), near),
        1 => (prop::collection::vec(any::<u8>(), 0..300), 1_usize..2000)
            .prop_map(|(word, times)| word.repeat(times)),
    ]
}

fn any_memcached() -> impl Strategy<Value = Memcached> {
    let marks = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(fetched, stale, won)| Marks { fetched, stale, won });
    prop_oneof![
        Just(Memcached::default()),
        (any::<u32>(), any::<Option<u64>>(), marks).prop_map(|(flags, cas, marks)| Memcached {
            flags,
            cas,
            marks
        }),
    ]
}

fn any_known() -> impl Strategy<Value = Known> {
    let usage = prop_oneof![
        Just(None),
        (0_u64..1 << 40).prop_map(|seconds| Some(Usage::IdleMs(seconds * 1000))),
        any::<u8>().prop_map(|counter| Some(Usage::Frequency(counter))),
    ];
    let expiry = prop_oneof![Just(None), (0..i64::MAX as u64).prop_map(Some)];
    (0_u64..3, any_text(), any_value(), expiry, usage, any_memcached()).prop_map(
        |(database, key, value, expire_at_ms, usage, memcached)| Known {
            database,
            key,
            value,
            expire_at_ms,
            usage,
            memcached,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn files_round_trip(
        all in prop::collection::vec(any_known(), 0..40),
        version in prop::sample::select(vec![10, 11, 12, 80]),
        compress: bool,
        checksum: bool,
        block_keys in 1_u64..20,
    ) {
        let version = Version::from_number(version).unwrap();
        let file = write(&all, WriterOptions { version, compress, checksum }, block_keys);
        prop_assert_eq!(skim(&file).unwrap(), all.len() as u64);
        prop_assert_eq!(read(&file).unwrap(), all);
    }
}

#[test]
fn long_strings_round_trip() {
    // Compressed and buffered, compressed twice, and not compressed.
    let words: Vec<u8> = (0..1_500_000_u64).flat_map(u64::to_be_bytes).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let noise = std::iter::repeat_with(|| random.u8(..));
    for (value, packs) in [
        (b"abcdefgh".repeat(500_000), true),
        (words, true),
        (noise.take(3_000_000).collect(), false),
    ] {
        let len = value.len();
        let all = [Known { key: b"long".to_vec(), value, ..Known::default() }];
        let file = write(&all, OPTIONS, 1);
        assert_eq!(file.len() < len, packs, "{} of {len}", file.len());
        assert!(read(&file).unwrap() == all);
    }
}

#[test]
fn supported_versions_are_recognized() {
    for number in 0..200 {
        let there = matches!(number, 10..=12 | 80);
        assert_eq!(Version::from_number(number).is_some(), there, "{number}");
    }
}
