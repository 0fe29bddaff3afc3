//! Encoding of requests and decoding of answers, in every protocol, without sockets, shared by
//! blocking and asynchronous clients.

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
