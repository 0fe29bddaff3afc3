//! Malicious requests and files. The reply must be redis-server's, or a limit must take effect. The
//! server must never stop, and must not make other clients wait.

mod ids;
mod lua;
mod patterns;
mod users;
