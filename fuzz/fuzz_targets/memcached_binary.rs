//! Requests of memcached's binary protocol, cut at arbitrary positions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::memcached_binary(data));
