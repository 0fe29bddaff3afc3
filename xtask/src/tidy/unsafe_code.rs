//! Checks that unsafe code is only in the files that need it for memory layout.

use super::Repository;

/// The files that may have unsafe code, with the reasons.
const MAY_BE_UNSAFE: [(&str, &str); 13] = [
    ("crates/chunk/src/", "memory from the kernel, and bytes that are not written yet"),
    ("crates/store/src/", "entries and segments are laid out by hand to fit the memory bars"),
    ("crates/server/src/net/reachability.rs", "the kernel is handed an address"),
    ("crates/server/src/process/title_area.rs", "the kernel is handed addresses"),
    ("crates/scheduling/src/lib.rs", "the kernel is handed addresses"),
    ("crates/server/src/net/uring/ring.rs", "the kernel is handed addresses"),
    ("crates/server/benches/zero_copy.rs", "the same"),
    ("crates/store/benches/growth/machine.rs", "memory in large pages, as the store's is"),
    ("crates/proto/tests/allocation.rs", "an allocator that counts"),
    ("crates/script/src/native/", "Lua's C interface, for the path of each script"),
    ("crates/script/src/strtod.rs", "C's function, by which Lua reads numbers"),
    ("crates/nagi/src/allocator.rs", "what is called is in C"),
    ("crates/lua/src/lib.rs", "what is called is in C"),
];

/// The keyword, split so that this file does not contain it.
const KEYWORD: &str = concat!("un", "safe");

pub(super) fn stays_where_listed(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for file in repository.rust() {
        if MAY_BE_UNSAFE.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            if has_unsafe(line) {
                found.push(format!("{}:{}: {KEYWORD} code", file.path, index + 1));
            }
        }
    }
    found
}

/// Whether the code of a line, without its comment, contains the keyword as a word that is followed
/// by more code.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.split_whitespace().any(|word| word == KEYWORD || word.starts_with(concat!("un", "safe{")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_in_an_unlisted_module_is_found() {
        let code = concat!("let x = un", "safe { *p };\n");
        let faults = |path| stays_where_listed(&Repository::of(&[(path, code)])).len();
        assert_eq!(faults("crates/store/src/entry/block.rs"), 0);
        assert_eq!(faults("crates/server/src/worker/mod.rs"), 1);
    }

    #[test]
    fn a_comment_or_a_name_is_not_unsafe_code() {
        assert!(!has_unsafe(concat!("// un", "safe { here }")));
        assert!(!has_unsafe("mod unsafe_code;"));
    }
}
