//! Every request must take effect at one instant between its sending and its reply, whichever
//! threads execute it. `counter` checks this for one counter at full speed; `histories` checks
//! short histories of commands on several keys, transactions, scripts and blocked clients.

mod checker;
mod collections;
mod counter;
mod histories;
mod model;
mod planted;
mod requests;
mod scripts;
