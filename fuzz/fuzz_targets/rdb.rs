//! Files in RDB's format, read in pieces of any length.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::rdb::file(data));
