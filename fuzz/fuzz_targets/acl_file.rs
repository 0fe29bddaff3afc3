//! ACL files, and the arguments of ACL SETUSER.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nagi_fuzz::acl_file(data));
