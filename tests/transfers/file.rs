//! The contents of a file, read by the server's own loader.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use nagi_persist::rdb::{
    Batch, Builder, Builders, CollectionType, Element, ElementText, Fault, LoadOptions,
    LoadedValue, Progress, Rejected, load,
};
use nagi_store::StringInput;

/// The elements of values, by key. A string is a single element; a score or a value is appended to
/// its element after `=`.
pub(super) struct Contents(BTreeMap<String, Vec<String>>);

impl Contents {
    /// Loads a file.
    pub(super) fn load(path: &Path) -> Self {
        let options = LoadOptions { databases: 16, now_ms: None, verify_checksum: true };
        let mut contents = BTreeMap::new();
        let mut take = |mut batch: Batch<Vec<String>>| -> Result<(), Fault> {
            while let Some(loaded) = batch.next_key(&Lists)? {
                let key = String::from_utf8_lossy(loaded.key).into_owned();
                let elements = match loaded.value {
                    LoadedValue::Collection(elements) => elements,
                    LoadedValue::String(StringInput::Bytes(text)) => {
                        vec![String::from_utf8_lossy(text).into_owned()]
                    }
                    LoadedValue::String(StringInput::Rope(_)) => panic!("{key} is long"),
                };
                let earlier = contents.insert(key, elements);
                assert!(earlier.is_none(), "each key is in the file once");
            }
            Ok(())
        };
        let file = File::open(path).expect("a file");
        load(file, &options, &Progress::default(), &Lists, &mut take).expect("a whole file");
        Contents(contents)
    }

    /// Returns all elements of the keys whose names begin with `prefix`, sorted.
    pub(super) fn elements(&self, prefix: &str) -> Vec<&str> {
        let keys = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        let mut elements: Vec<&str> = keys.flat_map(|(_, it)| it).map(String::as_str).collect();
        elements.sort_unstable();
        elements
    }

    /// Sums the strings, values and scores under the keys whose names begin with `prefix`.
    pub(super) fn sum(&self, prefix: &str) -> i64 {
        let number = |it: &str| -> i64 {
            it.rsplit('=').next().expect("an element").parse().expect("an integer")
        };
        self.elements(prefix).into_iter().map(number).sum()
    }
}

/// Builds collections as lists of their elements.
struct Lists;

struct List(Vec<String>);

impl Builders for Lists {
    type Value = Vec<String>;
    type Builder = List;

    fn begin(&self, _: CollectionType, _: Option<u64>) -> Option<List> {
        Some(List(Vec::new()))
    }
}

impl Builder for List {
    type Value = Vec<String>;

    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected> {
        let text = |text: &ElementText<'_>| String::from_utf8_lossy(&text.to_vec()).into_owned();
        self.0.push(match &element {
            Element::Item(it) | Element::Member(it) => text(it),
            Element::Scored(member, score) => format!("{}={score}", text(member)),
            Element::Field { name, value, .. } => format!("{}={}", text(name), text(value)),
            Element::Part(_) => return Err(Rejected::Unsupported),
        });
        Ok(())
    }

    fn end(self) -> Vec<String> {
        self.0
    }
}
