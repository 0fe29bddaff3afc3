//! Requests of memcached's binary protocol, cut anywhere.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::memcached_binary(data));
