//! `cargo xtask bench --status`: what it costs to see what the server does. A page that is open and
//! metrics that are scraped are compared with a server that times nothing and has no pages.
//!
//! Each part has a report of its own, and can be measured alone: `--only instructions`,
//! `throughput` or `scrapers`. With `--beside BINARY` the first also counts another build's.

mod instructions;
mod interval;
mod pages;
mod scrapers;
mod throughput;

use super::parts::{Contestants, Measured, Part, milliseconds};

/// Options of a server that keeps an eye on nothing.
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
/// Options of one that has pages, on whatever port.
const SEEN: [&str; 2] = ["--http-port", "any"];
/// The depths at which requests are sent.
const PIPELINES: [u32; 3] = [1, 16, 64];
/// GET and SET alone, as `nagi bench --ratio` has it.
const RATIOS: [(&str, &str); 2] = [("GET", "1:0"), ("SET", "0:1")];

/// Descriptors for the connections of one part.
pub(super) const DESCRIPTORS: u64 = 12_000;

pub(super) const PARTS: [Part; 3] = [
    Part {
        name: "instructions",
        report: "status-instructions",
        title: "Instructions of a request",
        measure: instructions::measure,
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
