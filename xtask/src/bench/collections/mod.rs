//! `cargo xtask bench --collections`: hashes, lists, sets and sorted sets, compared with Valkey and
//! Redis.
//!
//! Each part has its own report, and can be measured alone: `--only elements` (memory), `requests`
//! (CPU time), `stalls` (the effect of long commands on short ones) or `clients` (ten thousand
//! clients that wait for the same key or channel).

mod clients;
mod elements;
mod filling;
mod requests;
mod stalls;

use super::parts::{Contestants, Measured, Part, milliseconds};
use super::servers::nagi_to_valkey;

pub(super) use clients::DESCRIPTORS;

pub(super) const PARTS: [Part; 4] = [
    Part {
        name: "elements",
        report: "collections-elements",
        title: "Memory of elements",
        measure: elements::measure,
    },
    Part {
        name: "requests",
        report: "collections-requests",
        title: "CPU time of requests, pipeline 16",
        measure: requests::measure,
    },
    Part {
        name: "stalls",
        report: "collections-stalls",
        title: "Small requests beside long ones",
        measure: stalls::measure,
    },
    Part {
        name: "clients",
        report: "collections-clients",
        title: "Ten thousand clients that wait for the same",
        measure: clients::measure,
    },
];
