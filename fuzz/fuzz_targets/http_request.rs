//! HTTP requests and the replies that become responses, or queries of the status page; the first
//! byte selects which.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::http_request(data));
