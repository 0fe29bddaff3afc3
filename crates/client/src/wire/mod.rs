//! Requests as bytes and bytes as answers, in every protocol, without sockets: what blocking and
//! asynchronous clients have in common.

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
