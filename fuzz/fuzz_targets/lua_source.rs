//! Scripts of EVAL and libraries of FUNCTION LOAD.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::lua::source(data));
