//! Every request takes effect at one instant between its sending and its reply, whatever thread
//! serves it: `counter` checks this for one counter at full speed, and `histories` for short
//! histories of commands on several keys, transactions, scripts and blocked clients.

mod checker;
mod collections;
mod counter;
mod histories;
mod model;
mod planted;
mod requests;
mod scripts;
