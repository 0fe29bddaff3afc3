//! Texts of a server and of the kernel, which `nagi doctor` parses and evaluates.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_doctor::fuzzing::texts(data));
