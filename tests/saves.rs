//! What is saved besides keys, and saves that other clients or an early end must not spoil.

use crate::persistence::{Folder, Pipe, info};
use harness::{Connection, Reply, encode_command, nagi_binary, until};
use nagi_persist::rdb::{Item, Reader};
use rustix::process::Signal;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Sets enough keys for a file that does not fit into a pipe.
fn fill(client: &mut Connection) {
    let value = "v".repeat(1000);
    let set = |key| encode_command(&["SET", &format!("key:{key}"), &value]);
    client.send((0..3000).flat_map(set).collect::<Vec<u8>>());
    (0..3000).for_each(|_| client.expect("+OK\r\n"));
}

fn read_to_end(mut disk: fs::File) {
    // The server may end its writing by an error.
    let _ = std::io::copy(&mut disk, &mut std::io::sink());
}

#[test]
fn libraries_are_changes_that_the_end_saves() {
    let folder = Folder::new("libraries");
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let mut payload = Vec::new();
    let steps: [(&[&str], &str); 4] = [
        (&["FUNCTION", "LOAD", library], "lib"),
        (&["FUNCTION", "DELETE", "lib"], "OK"),
        (&["FUNCTION", "RESTORE", ""], "OK"),
        (&["FUNCTION", "FLUSH"], "OK"),
    ];
    for (step, (words, answer)) in steps.into_iter().enumerate() {
        let mut server = folder.nagi(&["--save", "3600 1"]);
        let mut client = server.connect_resp();
        let before = client.run("FUNCTION LIST");
        let is_there = before != Reply::Array(Vec::new());
        assert_eq!(is_there, step % 2 == 1, "{before:?} after {step} steps");
        let words = words.iter().map(|word| word.as_bytes());
        let words = words.map(|word| if word.is_empty() { &payload[..] } else { word });
        assert_eq!(client.run_words(&words.collect::<Vec<_>>()).text(), answer);
        assert_eq!(info(&server, "rdb_changes_since_last_save"), "1");
        if step == 0 {
            let Reply::Bulk(bytes) = client.run("FUNCTION DUMP") else { panic!("no payload") };
            payload = bytes;
        }
        server.signal(Signal::TERM);
        assert!(server.wait_for_exit().success());
    }
    folder.nagi(&[]).connect_resp().check("FUNCTION LIST", "*0\r\n");
}

#[test]
fn a_file_has_the_libraries_of_its_cut() {
    let folder = Folder::new("cut-libraries");
    let server = folder.nagi(&["--save", ""]);
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let changes: [(&[&str], &str); 2] =
        [(&["FUNCTION", "LOAD", library], "loaded"), (&["FUNCTION", "DELETE", "lib"], "deleted")];
    let is_over = AtomicBool::new(false);
    let mut saver = server.connect_resp();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.connect_resp();
            for (change, name) in changes.iter().cycle() {
                let commands = [&["MULTI"][..], change, &["SET", "library", name], &["EXEC"]];
                client.send(commands.map(encode_command).concat());
                let replies = commands.map(|_| client.reply());
                assert!(
                    matches!(&replies[3], Reply::Array(done) if done.len() == 2),
                    "{replies:?}"
                );
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..200 {
            saver.check("SAVE", "+OK\r\n");
            let (codes, name) = libraries_of(&folder.0.join("dump.rdb"));
            let expected = usize::from(name == "loaded");
            if codes != expected {
                is_over.store(true, Ordering::Relaxed);
                panic!("{codes} libraries in a file of the moment when it was {name:?}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Reads the number of libraries in a file, and the value of its only key, if it is there.
fn libraries_of(path: &Path) -> (usize, String) {
    let (mut codes, mut value) = (0, Vec::new());
    let mut reader = Reader::new(fs::File::open(path).expect("a file"), true).expect("a header");
    loop {
        match reader.next_item().expect("a whole file") {
            Item::Function(_) => codes += 1,
            Item::Key(_) => drop(reader.text(&mut value).expect("a string")),
            Item::End => return (codes, String::from_utf8(value).expect("a word")),
            _ => {}
        }
    }
}

#[test]
fn a_file_with_a_library_that_is_not_accepted_stops_the_start_and_stays() {
    let folder = Folder::new("refused-library");
    let mut server = folder.nagi(&["--save", ""]);
    let mut client = server.connect_resp();
    let large = format!(
        "#!lua name=lib\nlocal text = '{}'\n\
         redis.register_function('f', function() return #text end)",
        "x".repeat(8 << 20)
    );
    assert_eq!(client.run_words(&["FUNCTION", "LOAD", &large]).text(), "lib");
    client.check("SAVE", "+OK\r\n");
    server.signal(Signal::KILL);
    server.wait_for_exit();
    let path = folder.0.join("dump.rdb");
    let bytes = fs::read(&path).expect("a file");
    let output = Command::new(nagi_binary())
        .args(["serve", "--port", "any", "--memcached-port", "0", "--save", "1 1"])
        .args(["--script-memory-limit", "2mb", "--dir"])
        .arg(&folder.0)
        .output()
        .expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("a library of functions is not loaded"), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), bytes, "it is as it was");
}

/// A pipe in place of the dump file, through which the file can be loaded slowly.
fn slow_file(folder: &Folder) -> (PathBuf, Vec<u8>) {
    let path = folder.0.join("dump.rdb");
    let bytes = fs::read(&path).expect("a file");
    fs::remove_file(&path).expect("removes it");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("makes a pipe");
    (path, bytes)
}

fn is_loading(client: &mut Connection) -> Option<()> {
    matches!(client.run("GET a"), Reply::Error(text) if text.starts_with("LOADING")).then_some(())
}

#[test]
fn transactions_do_not_run_while_the_data_is_reloaded() {
    let folder = Folder::new("exec-loading");
    let server = folder.nagi(&["--save", "3600 1", "--enable-debug-command", "yes"]);
    let (mut client, mut reloading) = (server.connect_resp(), server.connect_resp());
    fill(&mut client);
    client.check("SAVE", "+OK\r\n");
    let (path, bytes) = slow_file(&folder);
    let mut other = server.connect_resp();
    client.check("MULTI", "+OK\r\n");
    client.check("SET key:1 new", "+QUEUED\r\n");
    other.check("MULTI", "+OK\r\n");
    other.check("PING", "+QUEUED\r\n");
    reloading.send(encode_command(&["DEBUG", "RELOAD", "NOSAVE"]));
    let mut watching = server.connect_resp();
    until("the loading", || is_loading(&mut watching)).unwrap();
    let Reply::Error(text) = client.run("EXEC") else { panic!("it ran") };
    assert!(text.starts_with("EXECABORT ") && text.contains("LOADING"), "{text}");
    let mut pipe = OpenOptions::new().write(true).open(&path).expect("opens");
    pipe.write_all(&bytes).expect("writes");
    drop(pipe);
    reloading.expect("+OK\r\n");
    client.check("STRLEN key:1", ":1000\r\n");
    client.check("DBSIZE", ":3000\r\n");
}

#[test]
fn a_stop_during_a_reload_does_not_save_a_part_of_the_data() {
    let folder = Folder::new("stopped-reload");
    let mut server = folder.nagi(&["--save", "3600 1", "--enable-debug-command", "yes"]);
    let (mut client, mut reloading) = (server.connect_resp(), server.connect_resp());
    fill(&mut client);
    client.check("SAVE", "+OK\r\n");
    let (path, bytes) = slow_file(&folder);
    client.check("SET a 1", "+OK\r\n");
    reloading.send(encode_command(&["DEBUG", "RELOAD", "NOSAVE"]));
    until("the loading", || is_loading(&mut client)).unwrap();
    let mut pipe = OpenOptions::new().write(true).open(&path).expect("opens");
    pipe.write_all(&bytes[..bytes.len() / 2]).expect("writes");
    server.signal(Signal::TERM);
    let stopping = || server.log().contains("stopping; a second signal").then_some(());
    until("the stop", stopping).expect("it is told");
    // The rest may be refused: the server is stopping.
    let _ = pipe.write_all(&bytes[bytes.len() / 2..]);
    drop(pipe);
    server.wait_for_exit();
    let kind = fs::metadata(&path).expect("it is there").file_type();
    assert!(kind.is_fifo(), "another file is in its place");
}

#[test]
fn a_shutdown_goes_on_without_its_client() {
    let folder = Folder::new("left-shutdown");
    for ends in [true, false] {
        let mut server = folder.nagi(&["--save", "3600 1"]);
        let mut client = server.connect_resp();
        let id = client.run("CLIENT ID").integer();
        fill(&mut client);
        let pipe = Pipe::new(&folder, &server);
        client.send(encode_command(&["SHUTDOWN", "SAVE", "FORCE"]));
        let disk = pipe.open();
        let mut other = server.connect_resp();
        if ends {
            drop(client);
        } else {
            other.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        }
        let is_gone = || {
            let list = other.run("CLIENT LIST").text();
            (!list.contains(&format!("id={id} "))).then_some(())
        };
        if !ends {
            until("the end of the client", is_gone).unwrap();
        }
        read_to_end(disk);
        assert!(server.wait_for_exit().success() || server.log().contains("save failed"));
    }
}

#[test]
fn a_save_for_a_client_is_not_cancelled_by_another() {
    let folder = Folder::new("foreground");
    let server = folder.nagi(&["--save", "3600 1"]);
    let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
    fill(&mut client);
    let pipe = Pipe::new(&folder, &server);
    client.send(encode_command(&["SAVE"]));
    let disk = pipe.open();
    let idle = "-ERR Background saving is currently not in progress or scheduled\r\n";
    other.check("BGSAVE CANCEL", idle);
    other.send(encode_command(&["FLUSHALL"]));
    let is_empty = || (server.connect_resp().run("DBSIZE") == Reply::Integer(0)).then_some(());
    until("the flush", is_empty).unwrap();
    read_to_end(disk);
    let told = match client.reply() {
        Reply::Error(text) => text,
        reply => reply.text(),
    };
    assert!(!told.contains("cancelled"), "{told}");
    other.expect("+OK\r\n");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "0", "of a save that followed");
}
