//! Measures the memory of stream entries.

use anyhow::Result;

use super::{ComparedTable, Contestants, Measured};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::pipelined::encoded;
use crate::bench::sender::Sender;

/// A kind of entry whose memory is measured.
struct Added {
    name: &'static str,
    /// The numbers of entries at which memory is read. The result is the slope between them.
    counts: [u64; 2],
    /// Commands that are sent before the entries.
    opening: &'static [&'static str],
    /// Adds the entry with the given number.
    send: fn(&mut Sender, u64) -> Result<()>,
}

const ADDED: [Added; 3] = [
    Added {
        name: "an entry of one field",
        counts: [1_000_000, 5_000_000],
        opening: &[],
        send: |sender, number| {
            sender
                .send_encoded(&encoded(&format!("XADD stream {}-0 field {number:010}", number + 1)))
        },
    },
    Added {
        name: "an entry that is read and pending",
        counts: [500_000, 2_000_000],
        opening: &["XGROUP CREATE stream group 0 MKSTREAM"],
        send: |sender, number| {
            let add = format!("XADD stream {}-0 field {number:010}", number + 1);
            sender.send_encoded(&encoded(&add))?;
            sender
                .send_encoded(&encoded("XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >"))
        },
    },
    Added {
        name: "a stream of three entries",
        counts: [250_000, 1_000_000],
        opening: &[],
        send: |sender, number| {
            (1..=3).try_for_each(|entry| {
                let add = format!("XADD stream:{number:09} {entry}-0 field {number:010}");
                sender.send_encoded(&encoded(&add))
            })
        },
    },
];

/// Fills every server with each kind of entry.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let scale = if arguments.quick { 10 } else { 1 };
    let names = contestants.resp().map(|it| it.name).collect();
    let mut table = ComparedTable::new("bytes of memory", names);
    for added in &ADDED {
        let slope = |it| added.slope(it, scale);
        let bytes: Vec<f64> = contestants.resp().map(slope).collect::<Result<_>>()?;
        table.row(added.name, &bytes, |bytes| format!("{bytes:.1}"), "1");
    }
    Ok(Measured { tables: vec![table.into_table()], details: None })
}

impl Added {
    fn slope(&self, contestant: &Contestant, scale: u64) -> Result<f64> {
        let server = contestant.start(Placement::Free)?;
        let mut sender = Sender::new(server.resp())?;
        for words in self.opening {
            sender.send_encoded(&encoded(words))?;
        }
        let [from, to] = self.counts.map(|count| count / scale);
        (0..from).try_for_each(|number| (self.send)(&mut sender, number))?;
        sender.flush()?;
        let before = server.resident_bytes() as f64;
        (from..to).try_for_each(|number| (self.send)(&mut sender, number))?;
        sender.flush()?;
        Ok((server.resident_bytes() as f64 - before) / (to - from) as f64)
    }
}
