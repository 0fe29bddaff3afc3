//! `cargo xtask bench --http`: commands over HTTP compared with webdis, and the effect of HTTP
//! requests on RESP clients. `--only webdis` or `clients` measures one part.

mod clients;
mod webdis;

use super::parts::{Contestants, Measured, Part};

/// Options of a server with an HTTP gateway on any free port.
const GATEWAY: [&str; 2] = ["--http-port", "any"];

pub(super) const PARTS: [Part; 2] = [
    Part {
        name: "webdis",
        report: "http",
        title: "Beside webdis in front of Valkey",
        measure: webdis::measure,
    },
    Part {
        name: "clients",
        report: "http-clients",
        title: "Clients of Redis' protocol beside requests over HTTP",
        measure: clients::measure,
    },
];
