//! nagi seen from outside: through its sockets, by its clients, as a process.
//!
//! One file a command family. Start with `harness::Server::nagi()`; the harness's own page
//! (tests/harness/lib.rs) shows how a test reads. Run them by `cargo test -p nagi-tests NAME`.

mod administration;
mod binary;
mod bitmap;
mod claims;
mod client;
mod clients;
mod configuration;
mod connection;
mod crashes;
mod crowd;
mod descriptions;
mod differential;
mod disks;
mod exporter;
mod fairness;
mod flags;
mod hyperloglog;
mod info;
mod key;
mod latency;
mod limits;
mod linearizability;
mod link;
mod listening;
mod loading;
mod long_keys;
mod long_values;
mod long_writes;
mod memcached;
mod memory;
mod meta;
mod monitor;
mod network;
mod one_keyspace;
mod operators;
mod ordering;
mod peers;
mod persistence;
mod process;
mod protection;
mod rdb;
mod relocation;
mod robustness;
mod rows;
mod serialization;
mod server;
mod settings;
mod shutdown;
mod slow_link;
mod slowlog;
mod string;
mod vanished;
mod watch;
