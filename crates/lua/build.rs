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
    // Slow scripts delay others, so Lua is optimized in every profile.
    build.include("c").define("LUA_USE_POSIX", None).opt_level(2).warnings(false);
    // Its functions are called by another crate, which the linker may process later.
    build.link_lib_modifier("+whole-archive").compile("lua5.1");
    Ok(())
}
