//! Payloads of RESTORE, and the same values in a file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::rdb::restore(data));
