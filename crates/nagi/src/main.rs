//! The nagi command.

fn main() {}
