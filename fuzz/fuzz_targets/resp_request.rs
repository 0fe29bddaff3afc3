//! Requests of RESP, cut at arbitrary positions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::resp_request(data));
