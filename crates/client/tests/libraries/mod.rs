//! Third-party libraries, and the C program that calls libmemcached.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder in which `cargo xtask setup` installs programs and libraries.
pub(crate) fn setup() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.setup").canonicalize().unwrap()
}

/// Returns the path of the C program, which is compiled once.
pub(crate) fn compile() -> PathBuf {
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libmemcached-places");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries/libmemcached.c");
        let mut command = Command::new("cc");
        command.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
        let tree = setup().join("debian/usr");
        command.arg("-I").arg(tree.join("include"));
        for folder in fs::read_dir(tree.join("lib")).into_iter().flatten() {
            let folder = folder.unwrap().path();
            if folder.is_dir() {
                command.arg(format!("-L{}", folder.display()));
                command.arg(format!("-Wl,-rpath,{}", folder.display()));
            }
        }
        let output = command.arg("-lmemcached").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    })
    .clone()
}
