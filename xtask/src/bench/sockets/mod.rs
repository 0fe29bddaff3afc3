//! `cargo xtask bench --sockets`: the cost of connections, and their effect on each other.
//!
//! nagi is measured twice, once with each of its drivers. Each part has its own report, and can be
//! measured alone: `--only idle`, `large-values` or `storms`; `--only requests` for the CPU time of
//! requests with 50, 400 and 10,000 connections.

mod idle;
mod large_values;
mod requests;
mod storms;

use super::parts::{Contestants, Measured, Part, milliseconds};

/// The number of file descriptors that a part needs for its connections.
pub(super) const DESCRIPTORS: u64 = 12_000;

pub(super) const PARTS: [Part; 4] = [
    Part {
        name: "requests",
        report: "sockets-requests",
        title: "CPU time of a request by the number of connections",
        measure: requests::measure,
    },
    Part {
        name: "idle",
        report: "sockets-idle",
        title: "Idle connections",
        measure: idle::measure,
    },
    Part {
        name: "large-values",
        report: "sockets-large-values",
        title: "Values of up to 500 MB",
        measure: large_values::measure,
    },
    Part {
        name: "storms",
        report: "sockets-storms",
        title: "Connections that come and go",
        measure: storms::measure,
    },
];
