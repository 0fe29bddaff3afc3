//! Malicious requests and files: the reply is redis-server's, or a limit takes effect; the server
//! never ends, and never makes other clients wait.

mod ids;
mod lua;
mod patterns;
mod users;
