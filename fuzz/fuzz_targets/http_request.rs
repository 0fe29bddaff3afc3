//! What clients send over HTTP and what becomes of replies, one of both by the first byte.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::http_request(data));
