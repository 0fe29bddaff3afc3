//! Meta requests, cut at arbitrary positions, and their keys in base64.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::memcached_meta(data));
