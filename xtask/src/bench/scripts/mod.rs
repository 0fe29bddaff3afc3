//! `cargo xtask bench --scripts`: scripts, streams, tracked reads and messages, compared with
//! Valkey and Redis.
//!
//! Each part has its own report, and can be measured alone: `--only scripts`, `requests` (streams
//! and tracked reads), `messages` (PUBLISH) or `entries` (memory of streams).

mod entries;
mod messages;
mod requests;
mod running;

use super::parts::{Contestants, Measured, Part, milliseconds};
use super::report::ratio;
use super::servers::{ComparedTable, median_of_each, started};

pub(super) const PARTS: [Part; 4] = [
    Part { name: "scripts", report: "scripts", title: "Scripts", measure: running::measure },
    Part {
        name: "requests",
        report: "streams-requests",
        title: "Streams and tracked reads, pipeline 16",
        measure: requests::measure,
    },
    Part {
        name: "messages",
        report: "messages",
        title: "Messages to subscribers",
        measure: messages::measure,
    },
    Part {
        name: "entries",
        report: "streams-memory",
        title: "Memory of streams",
        measure: entries::measure,
    },
];
