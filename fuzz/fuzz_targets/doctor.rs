//! Texts of a server and of the kernel, as `nagi doctor` reads and judges them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_doctor::fuzzing::texts(data));
