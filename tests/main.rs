//! nagi seen from outside: through its sockets, by its clients, as a process.
//!
//! One file a command family. Start with `harness::Server::nagi()`; the harness's own page
//! (tests/harness/lib.rs) shows how a test reads. Run them by `cargo test -p nagi-tests NAME`.

mod clients;
mod crowd;
mod differential;
mod linearizability;
mod peers;
mod process;
mod robustness;
