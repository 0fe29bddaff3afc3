//! Compiles small programs that use third-party client libraries.

use harness::{Server, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns every folder that may contain libraries unpacked by setup.
fn libraries() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join(".setup/debian/usr/lib")).into_iter().flatten();
    folders.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
}

/// Compiles a C program of `tests/programs`, which uses hiredis, into `folder`.
pub(crate) fn compile(name: &str, folder: &Path) -> PathBuf {
    compile_with(name, folder, &[])
}

/// Compiles an Apache module of `tests/programs` into `folder`.
pub(crate) fn compile_module(name: &str, folder: &Path) -> PathBuf {
    compile_with(name, folder, &["-shared", "-fPIC"])
}

fn compile_with(name: &str, folder: &Path, options: &[&str]) -> PathBuf {
    let (source, program) =
        (root().join("tests/programs").join(name).with_extension("c"), folder.join(name));
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Werror"]).args(options).arg("-o").arg(&program).arg(&source);
    for headers in [root().join(".setup/debian/usr/include"), PathBuf::from("/usr/include")] {
        command.arg("-I").arg(&headers);
        // apxs needs the same include folders.
        command.arg("-I").arg(headers.join("apache2")).arg("-I").arg(headers.join("apr-1.0"));
    }
    for library in libraries() {
        command.arg(format!("-L{0}", library.display()));
        command.arg(format!("-Wl,-rpath,{0}", library.display()));
    }
    let output = command.arg("-lhiredis").output().expect("cc starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} does not compile: {errors}");
    program
}

#[test]
fn a_program_on_hiredis_counts_to_ten_thousand() {
    let server = Server::nagi();
    let program = compile("hincrby", Path::new(env!("CARGO_TARGET_TMPDIR")));
    let port = server.resp().port().to_string();
    let output = Command::new(program).arg(port).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10000\n");
}

#[test]
fn a_program_on_hiredis_has_a_queue_a_leaderboard_sessions_and_subscribers() {
    let program = compile("services", Path::new(env!("CARGO_TARGET_TMPDIR")));
    for server in [Server::nagi(), Server::redis()] {
        let port = server.resp().port().to_string();
        let output = Command::new(&program).arg(port).output().expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
}
