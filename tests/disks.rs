//! Disks that are full, read-only, missing or slow. The save must fail with an error, the last file
//! must stay, the server must continue, and the next save must succeed when the disk is repaired.

use crate::persistence::{Folder, Pipe, info};
use harness::{Connection, Reply, Server, encode_command, skipped, until};
use std::fs;
use std::io::Read;
use std::process::Command;

/// A file system in memory, mounted on a folder. It is unmounted before the folder is removed.
struct Mount<'a>(&'a Folder);

impl<'a> Mount<'a> {
    /// Mounts the file system. If mounting is not permitted, prints that and returns `None`.
    fn new(folder: &'a Folder, options: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&folder.0)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            skipped("mounting a file system needs root");
        }
        mounted.then_some(Mount(folder))
    }

    fn remount(&self, options: &str) {
        let mut command = Command::new("mount");
        command.args(["-o", &format!("remount,{options}")]).arg(&self.0.0);
        assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        // The folder cannot be removed while it is mounted. An error cannot be handled here.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0.0).status();
    }
}

/// Writes `keys` keys with incompressible values of 1000 bytes.
pub(crate) fn write(client: &mut Connection, name: &str, keys: usize) {
    for key in 0..keys {
        let noise = (0..1000_u64).map(|at| {
            let seed = (key as u64) << 32 | at;
            (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
        });
        let value: Vec<u8> = noise.collect();
        client.send(encode_command(&[b"SET", format!("{name}:{key}").as_bytes(), &value]));
    }
    (0..keys).for_each(|_| client.expect("+OK\r\n"));
}

/// Saves in the background, and waits until the save has ended. Returns its status in INFO.
fn save(server: &Server) -> String {
    let answer = server.connect_resp().run("BGSAVE");
    assert!(matches!(answer, Reply::Simple(_)), "{answer:?}");
    wait(server)
}

fn wait(server: &Server) -> String {
    let is_over = || (info(server, "rdb_bgsave_in_progress") == "0").then_some(());
    until("the save", is_over).expect("it ends");
    info(server, "rdb_last_bgsave_status")
}

/// Checks that a save fails with `problem`, which INFO and the log show, while the server
/// continues.
fn fail(server: &Server, problem: &str) {
    assert_eq!(save(server), "err");
    let error = info(server, "rdb_last_bgsave_error");
    assert!(error.contains(problem), "{error}");
    assert!(server.log().contains(problem), "{}", server.log());
    let mut client = server.connect_resp();
    client.check("SET after failing", "+OK\r\n");
    client.check("GET after", "$7\r\nfailing\r\n");
}

/// Restarts the server with the folder, and checks the keys that it loads.
fn check_restart(mut server: Server, folder: &Folder, keys: usize) {
    server.connect_resp().check("SHUTDOWN NOSAVE", "");
    server.wait_for_exit();
    let server = folder.nagi(&[]);
    server.connect_resp().check("DBSIZE", format!(":{keys}\r\n"));
}

#[test]
fn a_disk_that_is_full_or_read_only() {
    let folder = Folder::new("full");
    let Some(mount) = Mount::new(&folder, "size=6m") else { return };
    let server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    write(&mut client, "small", 2000);
    assert_eq!(save(&server), "ok");
    let good = fs::read(folder.0.join("dump.rdb")).expect("a file");
    write(&mut client, "large", 8000);
    // With each of these sizes, the disk has no room for a second file.
    for size in ["size=6m", "size=4m", "size=3m"] {
        mount.remount(size);
        fail(&server, "No space left on device");
        assert_eq!(folder.names(), ["dump.rdb"], "what was begun is gone");
        assert!(fs::read(folder.0.join("dump.rdb")).expect("a file") == good);
    }
    mount.remount("size=64m,ro");
    fail(&server, "Read-only file system");
    assert!(fs::read(folder.0.join("dump.rdb")).expect("a file") == good);
    mount.remount("size=64m,rw");
    assert_eq!(save(&server), "ok");
    assert_eq!(info(&server, "rdb_last_bgsave_error"), "");
    check_restart(server, &folder, 10_001);
}

#[test]
fn a_folder_that_is_gone() {
    let folder = Folder::new("gone");
    let server = folder.nagi(&[]);
    write(&mut server.connect_resp(), "key", 100);
    assert_eq!(save(&server), "ok");
    fs::remove_dir_all(&folder.0).expect("removes it");
    fail(&server, "No such file or directory");
    fs::create_dir_all(&folder.0).expect("creates it");
    assert_eq!(save(&server), "ok");
    assert_eq!(folder.names(), ["dump.rdb"]);
    check_restart(server, &folder, 101);
}

/// The file to write is a pipe, which accepts bytes as they are read. At the end it cannot be
/// synchronised, as on a broken disk.
#[test]
fn a_disk_that_is_slow_and_then_breaks() {
    let folder = Folder::new("slow");
    let server = folder.nagi(&[]);
    let mut client = server.connect_resp();
    write(&mut client, "key", 20_000);
    let pipe = Pipe::new(&folder, &server);
    client.check("BGSAVE", "+Background saving started\r\n");
    let mut disk = pipe.open();
    let mut taken = vec![0; 1 << 20];
    for round in 0..12 {
        // A client that has written little does not wait for the disk.
        client.check(&format!("SET key:{round} changed"), "+OK\r\n");
        client.check(&format!("GET key:{round}"), "$7\r\nchanged\r\n");
        client.check(&format!("DEL key:{}", 10_000 + round), ":1\r\n");
        assert_eq!(info(&server, "rdb_bgsave_in_progress"), "1", "the disk has not taken it all");
        disk.read_exact(&mut taken).expect("what is written");
    }
    let mut rest = Vec::new();
    disk.read_to_end(&mut rest).expect("what is written");
    assert_eq!(wait(&server), "err");
    let error = info(&server, "rdb_last_bgsave_error");
    assert!(error.contains("Invalid argument"), "{error}");
    assert!(folder.names().is_empty(), "what was begun is gone: {:?}", folder.names());
    assert_eq!(save(&server), "ok");
    check_restart(server, &folder, 20_000 - 12);
}

#[test]
fn a_limit_for_the_length_of_files_is_an_error_and_not_the_end() {
    let folder = Folder::new("limited");
    let mut command = Command::new("bash");
    // The limit in kilobytes applies to every thread of the process.
    command.args(["-c", "ulimit -f 1500; exec \"$0\" \"$@\""]).arg(harness::nagi_binary());
    command.args(["serve", "--dir"]).arg(&folder.0);
    let server = Server::start_nagi(command).expect("it starts");
    let mut client = server.connect_resp();
    write(&mut client, "few", 100);
    assert_eq!(save(&server), "ok");
    write(&mut client, "many", 3000);
    fail(&server, "File too large");
    assert_eq!(folder.names(), ["dump.rdb"], "what was begun goes");
    check_restart(server, &folder, 100);
}
