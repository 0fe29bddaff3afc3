//! Measures the memory of an element, including its own bytes, and of small collections.

use anyhow::Result;

use super::filling::Kind;
use super::{Contestants, Measured, nagi_to_valkey};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::report::Table;
use crate::bench::sender::Sender;

/// The numbers of elements at which memory is read. The slope between them is the cost of an
/// element, independent of the memory that a table has allocated in advance.
const FROM: u64 = 2_000_000;
const TO: u64 = 10_000_000;

/// Many small collections of one kind.
struct Small {
    name: &'static str,
    kind: SmallKind,
    keys: u64,
}

#[derive(Clone, Copy)]
enum SmallKind {
    /// A hash of ten fields with values of 15 bytes.
    Hash,
    /// A set of three members of 12 bytes.
    Set,
}

impl SmallKind {
    /// Returns the command that creates a collection, whose key has 16 bytes.
    fn request(self, key: u64) -> Vec<Vec<u8>> {
        let (command, prefix, elements): (_, _, Vec<String>) = match self {
            Self::Hash => {
                let field = |it| [format!("field{it}"), format!("{:015}", key * 10 + it)];
                ("HSET", "hash", (0..10).flat_map(field).collect())
            }
            Self::Set => {
                ("SADD", "sets", (0..3).map(|it| format!("m{:011}", key * 3 + it)).collect())
            }
        };
        let words = [command.to_owned(), format!("{prefix}:{key:011}")].into_iter();
        words.chain(elements).map(String::into_bytes).collect()
    }
}

const SMALL: [Small; 2] = [
    Small { name: "hash of ten fields, values of 15 B", kind: SmallKind::Hash, keys: 100_000 },
    Small { name: "set of three members of 12 B", kind: SmallKind::Set, keys: 1_000_000 },
];

/// Fills every server with a collection of each kind, and with many small ones.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let scale = if arguments.quick { 10 } else { 1 };
    let names: Vec<&str> = contestants.resp().map(|it| it.name).collect();
    let mut header = vec!["bytes of memory"];
    header.extend(&names);
    header.push("nagi to Valkey");
    let mut table = Table::new(&header);
    let mut add = |what: String, measure: &dyn Fn(&Contestant) -> Result<f64>| {
        let mut cells = vec![what];
        let bytes: Vec<f64> = contestants.resp().map(measure).collect::<Result<_>>()?;
        cells.extend(bytes.iter().map(|bytes| format!("{bytes:.1}")));
        cells.push(nagi_to_valkey(&names, &bytes));
        println!("bench: {}", cells.join(", "));
        table.row(cells);
        anyhow::Ok(())
    };
    for kind in Kind::ALL {
        add(format!("an element of 16 B: {}", kind.name()), &|contestant| {
            slope(contestant, kind, FROM / scale, TO / scale)
        })?;
    }
    for small in &SMALL {
        add(format!("a {}", small.name), &|it| per_key(it, small, small.keys / scale))?;
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// Returns the bytes of resident memory per additional element.
fn slope(contestant: &Contestant, kind: Kind, from: u64, to: u64) -> Result<f64> {
    let server = contestant.start(Placement::Free)?;
    let mut sender = Sender::new(server.resp())?;
    kind.fill(&mut sender, "collection", 0, from)?;
    sender.flush()?;
    let before = server.resident_bytes() as f64;
    kind.fill(&mut sender, "collection", from, to)?;
    sender.flush()?;
    Ok((server.resident_bytes() as f64 - before) / (to - from) as f64)
}

/// Returns the bytes of resident memory per small collection, including its key.
fn per_key(contestant: &Contestant, small: &Small, keys: u64) -> Result<f64> {
    let server = contestant.start(Placement::Free)?;
    let empty = server.resident_bytes() as f64;
    let mut sender = Sender::new(server.resp())?;
    for key in 0..keys {
        sender.send(&small.kind.request(key))?;
    }
    sender.flush()?;
    Ok((server.resident_bytes() as f64 - empty) / keys as f64)
}
