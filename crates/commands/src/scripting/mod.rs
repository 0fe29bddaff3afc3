//! The script thread: it runs scripts one after the other, and executes the commands that they call
//! as a worker executes its clients' requests.

mod caller;
mod functions;
mod held_keys;
mod migration;
mod run;
mod server;
mod thread;

pub use server::ScriptingServer;
pub use thread::run_scripts;
