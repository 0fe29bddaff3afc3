//! `cargo xtask bench --status`: the cost of observing a server. A server with an open status page
//! and scraped metrics is compared with a server that measures no times and has no pages.
//!
//! Each part has its own report, and can be measured alone: `--only instructions`, `emulated`,
//! `throughput` or `scrapers`. With `--beside BINARY`, the part `instructions` also counts another
//! build.

mod emulated;
mod instructions;
mod interval;
mod pages;
mod scrapers;
mod throughput;

use super::parts::{Contestants, Measured, Part, milliseconds};

/// Options of a server without monitoring.
const BLIND: [&str; 12] = [
    "--http-port",
    "0",
    "--latency-tracking",
    "no",
    "--slowlog-log-slower-than",
    "-1",
    "--slowlog-total-slower-than",
    "-1",
    "--commandlog-request-larger-than",
    "-1",
    "--commandlog-reply-larger-than",
    "-1",
];
/// Options of a server with pages, on any free port.
const SEEN: [&str; 2] = ["--http-port", "any"];
/// The pipeline depths at which requests are sent.
const PIPELINES: [u32; 3] = [1, 16, 64];
/// Only GET and only SET, with the values of `nagi bench --ratio`.
const RATIOS: [(&str, &str); 2] = [("GET", "1:0"), ("SET", "0:1")];

/// The headings of instructions at each degree of observation.
const INSTRUCTIONS: [&str; 5] =
    ["nothing timed, no pages", "pages", "page open", "change by pages", "by the open page"];

/// The number of file descriptors that a part needs for its connections.
pub(super) const DESCRIPTORS: u64 = 12_000;

pub(super) const PARTS: [Part; 4] = [
    Part {
        name: "instructions",
        report: "status-instructions",
        title: "Instructions of a request",
        measure: instructions::measure,
    },
    Part {
        name: "emulated",
        report: "status-emulated",
        title: "Instructions of a request, the kernel's included",
        measure: emulated::measure,
    },
    Part {
        name: "throughput",
        report: "status-throughput",
        title: "Requests a second with and without an open page",
        measure: throughput::measure,
    },
    Part {
        name: "scrapers",
        report: "status-scrapers",
        title: "Clients beside 1,000 scrapers and a list of 10,000 connections",
        measure: scrapers::measure,
    },
];
