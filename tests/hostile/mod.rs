//! Requests and files that are made to do harm: what redis-server answers, or a limit; never a
//! server that ends, or one that keeps other clients waiting.

mod ids;
mod lua;
mod patterns;
mod users;
