//! Helpers that black-box tests share: servers that stop with the test, raw sockets, third-party
//! clients. They use none of nagi's crates, so that they cannot hide faults of these crates.
//!
//! ```no_run
//! let server = harness::Server::nagi();
//! let mut client = server.connect_resp();
//! client.check("SET greeting \"good morning\"", "+OK\r\n");
//! let mut client = server.connect_memcached();
//! client.check_raw("get greeting\r\n", "VALUE greeting 0 12\r\ngood morning\r\nEND\r\n");
//! ```
//!
//! Each test starts its own server, which takes some milliseconds, unless the test says why not.
//! `check` sends words as a RESP array and compares the reply's bytes; `check_raw` sends bytes
//! unchanged; `run` returns a [`Reply`] for further checks. Commands to which redis-server gives
//! the same replies are best written as a conversation for [`as_redis`], which checks both servers.
//! A test that fails shows the server's log.

mod connection;
mod conversation;
mod folder;
pub mod link;
mod random;
mod reply;
mod server;
mod sizes;
mod tools;
mod wait;
pub mod web;

pub use connection::{Connection, encode_command, words};
pub use conversation::{as_memcached, as_redis};
pub use folder::Folder;
pub use random::Random;
pub use reply::Reply;
pub use server::{Server, allow_open_files, nagi_binary};
pub use sizes::size;
pub use tools::{newest, root, run_tool, run_tool_with_input, skipped, tool};
pub use wait::{PATIENCE, until, until_within};
