//! The server itself: its state, statistics, settings and saves.

pub(crate) mod acl;
pub(crate) mod command;
pub(crate) mod commandlog;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod describe;
pub(crate) mod digest;
pub(crate) mod hotkeys;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod monitor;
pub(crate) mod persistence;
pub(crate) mod process;
pub(crate) mod replication;
pub(crate) mod sections;
pub(crate) mod slowlog;
