//! Every command, one file per family: a literal row each, with its handler above it.
//!
//! A handler reads as parse, one call of the store, reply. It never asks its own name or which
//! protocol its client speaks: memcached's verbs have rows and handlers of their own over the same
//! calls. What a handler needs of the process around it stands in the trait [`Server`].

mod client;
mod command;
mod context;
mod error;
mod server;
mod string;
pub mod table;

pub use client::{Client, ClientInfo, ClientNames};
pub use command::{Category, Command, Flags, Group, Handler, Keys};
pub use context::{Context, Flow, Job};
pub use error::Error;
pub use server::Server;
