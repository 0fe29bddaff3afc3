//! Compiles Lua.

use std::{fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=c");
    let mut build = cc::Build::new();
    for file in fs::read_dir("c")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            build.file(path);
        }
    }
    // Slow scripts hold up others: it is optimized whatever the profile is.
    build.include("c").define("LUA_USE_POSIX", None).opt_level(2).warnings(false);
    // Its functions are called by another crate, which the linker may look at later.
    build.link_lib_modifier("+whole-archive").compile("lua5.1");
    Ok(())
}
