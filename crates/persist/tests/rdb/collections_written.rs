//! Writes collections in files and payloads, and reads them again.

use crate::collections::{Lists, loaded, shown};
use crate::files::PREAMBLE;
use nagi_persist::Checksum;
use nagi_persist::payload::{DumpCollection, Refusal, Restore, Restored};
use nagi_persist::rdb::{
    Block, CollectionEntry, CollectionForm, CollectionHead, CollectionType, Element, ElementText,
    Memcached, Version, Writer, WriterOptions,
};
use nagi_store::{CHUNK_BYTES, Rope, parse_i64};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LONGEST_BYTES: usize = 1 << 20;

/// A form, and the data of its elements: distinct names, values, scores, times.
#[derive(Clone, Debug)]
struct Collection {
    form: CollectionForm,
    elements: Vec<Parts>,
}

type Parts = (Vec<u8>, Vec<u8>, f64, Option<u64>);

fn text(bytes: &[u8]) -> ElementText<'_> {
    match parse_i64(bytes) {
        Some(number) => ElementText::Int(number),
        None if bytes.len() > CHUNK_BYTES => ElementText::Long(Rope::from_bytes(bytes)),
        None => ElementText::Bytes(bytes),
    }
}

impl Collection {
    fn head(&self) -> CollectionHead {
        CollectionHead { form: self.form, len: self.elements.len() as u64 }
    }

    fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        self.elements.iter().map(|(name, value, score, expire_at_ms)| {
            let field = |expire_at_ms| Element::Field {
                name: text(name),
                value: text(value),
                expire_at_ms,
            };
            match self.form {
                CollectionForm::Plain(CollectionType::List) => Element::Item(text(name)),
                CollectionForm::Plain(CollectionType::Set) => Element::Member(text(name)),
                CollectionForm::Plain(CollectionType::SortedSet) => {
                    Element::Scored(text(name), *score)
                }
                CollectionForm::Plain(CollectionType::Hash) => field(None),
                _ => field(*expire_at_ms),
            }
        })
    }

    fn shown(&self) -> Vec<String> {
        self.elements().map(|element| shown(&element)).collect()
    }
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let short = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => short(),
        3 => any::<i64>().prop_flat_map(|number| {
            (0_u32..64).prop_map(move |shift| (number >> shift).to_string().into_bytes())
        }),
        2 => (short(), 1_usize..200).prop_map(|(word, times)| word.repeat(times)),
        1 => (short(), CHUNK_BYTES - 3..2 * CHUNK_BYTES).prop_map(|(word, len)| {
            word.into_iter().chain([0]).cycle().take(len).collect()
        }),
    ]
}

fn any_collection() -> impl Strategy<Value = Collection> {
    let earliest_ms = 0_u64..(1 << 48) - 1;
    let form = prop_oneof![
        Just(CollectionForm::Plain(CollectionType::List)),
        Just(CollectionForm::Plain(CollectionType::Set)),
        Just(CollectionForm::Plain(CollectionType::SortedSet)),
        Just(CollectionForm::Plain(CollectionType::Hash)),
        earliest_ms.prop_map(|earliest_ms| CollectionForm::ExpiringFields { earliest_ms }),
        Just(CollectionForm::ExpiringFieldsOfValkey),
    ];
    let score = any::<f64>().prop_filter("a number", |score| !score.is_nan());
    let elements = prop::collection::btree_map(
        any_text(),
        (any_text(), score, prop::option::of(0_u64..1000)),
        1..12,
    );
    (form, elements).prop_map(|(form, elements): (_, BTreeMap<_, _>)| {
        let earliest_ms = match form {
            CollectionForm::ExpiringFields { earliest_ms } => earliest_ms,
            _ => 0,
        };
        let latest_ms = (1 << 48) - 1;
        let elements = elements.into_iter().map(|(name, (value, score, after_ms))| {
            let at_ms = after_ms.map(|after_ms| (earliest_ms + after_ms).min(latest_ms));
            (name, value, score, at_ms)
        });
        Collection { form, elements: elements.collect() }
    })
}

/// Writes these collections to a file, every second one in a block.
fn write(all: &[Collection], options: WriterOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options, &PREAMBLE).unwrap();
    let mut block = Block::default();
    for (index, collection) in all.iter().enumerate() {
        let key = format!("key:{index}");
        let entry = CollectionEntry {
            key: key.as_bytes(),
            head: collection.head(),
            expire_at_ms: Some(4_000_000_000_000),
            usage: None,
            memcached: Memcached::default(),
        };
        if index.is_multiple_of(2) {
            block.push_collection(&entry);
            collection.elements().for_each(|it| block.push_element(collection.form, &it));
            continue;
        }
        writer.block(&block).unwrap();
        block.clear();
        writer.collection(&entry).unwrap();
        for element in collection.elements() {
            writer.element(collection.form, &element).unwrap();
        }
    }
    writer.block(&block).unwrap();
    assert_eq!(writer.keys(), all.len() as u64);
    writer.finish().unwrap()
}

fn dump(collection: &Collection, compress: bool) -> Rope {
    let mut dump = DumpCollection::new(&collection.head(), compress);
    collection.elements().for_each(|element| dump.element(&element));
    dump.finish()
}

fn restore(payload: Rope) -> Result<Vec<String>, Refusal> {
    let mut restore = Restore::new(payload, LONGEST_BYTES, Lists::default());
    loop {
        match restore.step()? {
            Some(Restored::Collection(elements)) => return Ok(elements),
            Some(Restored::String(_)) => panic!("it is a collection"),
            None => {}
        }
    }
}

/// Returns a payload with this body and a valid footer.
fn seal(body: &[u8], version: u16) -> Rope {
    let mut payload = [body, &version.to_le_bytes()].concat();
    let mut checksum = Checksum::default();
    checksum.add(&payload);
    payload.extend_from_slice(&checksum.value().to_le_bytes());
    Rope::from_bytes(&payload)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn collections_in_files_round_trip(
        all in prop::collection::vec(any_collection(), 1..8),
        compress: bool,
        checksum: bool,
        of_valkey: bool,
    ) {
        let fits = |it: &Collection| match it.form {
            CollectionForm::Plain(_) | CollectionForm::StreamWithConsumers => true,
            CollectionForm::ExpiringFields { .. } => !of_valkey,
            CollectionForm::ExpiringFieldsOfValkey => of_valkey,
        };
        let all: Vec<Collection> = all.into_iter().filter(fits).collect();
        let version = Version::from_number(if of_valkey { 80 } else { 12 }).unwrap();
        let file = write(&all, WriterOptions { version, compress, checksum });
        let found = loaded(&file, 0, &Lists::default()).unwrap();
        prop_assert_eq!(found.len(), all.len());
        for (index, collection) in all.iter().enumerate() {
            prop_assert!(version.holds(collection.form.value_type()));
            prop_assert_eq!(&found[&format!("key:{index}")], &collection.shown());
        }
    }

    #[test]
    fn collections_in_payloads_round_trip(
        collection in any_collection(),
        compress: bool,
    ) {
        prop_assert_eq!(restore(dump(&collection, compress)), Ok(collection.shown()));
    }
}

#[test]
fn payloads_use_encodings_that_every_version_reads() {
    let field = |name: &[u8], value: &[u8], at_ms| (name.to_vec(), value.to_vec(), 1.5, at_ms);
    let elements = vec![field(b"a", b"b", None), field(b"7", &[b'x'; 30], Some(1004))];
    let packed = b"\xc3\x05\x1e\x00x\xe0\x14\x00";
    let plain = |collection| CollectionForm::Plain(collection);
    let score = 1.5_f64.to_le_bytes();
    let no_time = (-1_i64).to_le_bytes();
    let (earliest_ms, time) = (1000_u64, 1004_u64.to_le_bytes());
    for (form, version, body) in [
        (plain(CollectionType::List), 10, b"\x01\x02\x01a\xc0\x07".to_vec()),
        (plain(CollectionType::Set), 10, b"\x02\x02\x01a\xc0\x07".to_vec()),
        (
            plain(CollectionType::SortedSet),
            10,
            [&b"\x05\x02\x01a"[..], &score, b"\xc0\x07", &score].concat(),
        ),
        (plain(CollectionType::Hash), 10, [&b"\x04\x02\x01a\x01b\xc0\x07"[..], packed].concat()),
        (
            CollectionForm::ExpiringFields { earliest_ms },
            12,
            [&b"\x18"[..], &earliest_ms.to_le_bytes(), b"\x02\x00\x01a\x01b\x05\xc0\x07", packed]
                .concat(),
        ),
        (
            CollectionForm::ExpiringFieldsOfValkey,
            80,
            [&b"\x16\x02\x01a\x01b"[..], &no_time, b"\xc0\x07", packed, &time].concat(),
        ),
    ] {
        let collection = Collection { form, elements: elements.clone() };
        let (dumped, expected) = (dump(&collection, true), seal(&body, version));
        let bytes =
            |rope: &Rope| rope.chunks().flat_map(|chunk| chunk.to_vec()).collect::<Vec<_>>();
        assert_eq!(bytes(&dumped), bytes(&expected), "{form:?}");
    }
}

#[test]
fn invalid_collections_are_not_restored() {
    for body in [
        // Empty, with trailing bytes, truncated, with a duplicate member.
        &b"\x02\x00"[..],
        b"\x02\x01\x01a\x01",
        b"\x02\x02\x01a",
        b"\x02\x02\x01a\x01a",
        // Without a member, of an unknown type, a stream with an entry but no node.
        b"\x02",
        b"\x08\x01\x01a",
        b"\x0f\x00\x01\x00\x00\x00\x00",
        b"",
    ] {
        assert_eq!(restore(seal(body, 10)), Err(Refusal::Value), "{body:?}");
    }
    let long = [&b"\x02\x01\xc3\x0a\x81"[..], &(LONGEST_BYTES as u64 + 1).to_be_bytes(), &[0; 10]];
    assert_eq!(restore(seal(&long.concat(), 10)), Err(Refusal::Value));
    assert_eq!(restore(seal(b"\x02\x01\x01a", 10)), Ok(vec!["a".to_owned()]));
}

#[test]
fn same_number_is_another_type_in_payloads_of_valkey() {
    let redis = b"\x16\x01\x05\x01a\x01b";
    let valkey = [&b"\x16\x01\x01a\x01b"[..], &5_i64.to_le_bytes()].concat();
    assert_eq!(restore(seal(redis, 12)), Ok(vec!["a=b@5".to_owned()]));
    assert_eq!(restore(seal(&valkey, 80)), Ok(vec!["a=b@5".to_owned()]));
    assert_eq!(restore(seal(redis, 80)), Err(Refusal::Value));
}
