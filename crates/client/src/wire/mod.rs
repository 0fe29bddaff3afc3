//! Encodes requests and decodes answers in every protocol. Independent of sockets, so that blocking
//! and asynchronous clients share it.

mod binary;
mod codec;
mod login;
mod meta;
mod progress;
mod request;
mod resp;
mod text;

pub use codec::Decoder;
pub use login::Login;
pub use request::{Answer, Dialect, Mode, Request, Value};

#[cfg(test)]
mod tests;
