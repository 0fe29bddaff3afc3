//! The script thread: it runs scripts one after the other, and the commands that they call, as a
//! worker runs those of its clients.

mod caller;
mod functions;
mod migration;
mod run;
mod server;
mod thread;

pub use server::ScriptingServer;
pub use thread::run_scripts;
