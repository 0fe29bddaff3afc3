//! SHUTDOWN and its options: whether the data is saved first, and what happens if saving fails.

use crate::disks::write;
use crate::persistence::{Folder, Pipe, info};
use crate::scripting::until_busy;
use harness::{Reply, Server, as_redis, encode_command, nagi_binary, until, words};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

#[test]
fn options_that_do_not_go_together() {
    as_redis(&[
        ("SHUTDOWN FOO", "-ERR syntax error\r\n"),
        ("SHUTDOWN NOW FOO", "-ERR syntax error\r\n"),
        ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error\r\n"),
        ("SHUTDOWN NOSAVE SAVE", "-ERR syntax error\r\n"),
        ("SHUTDOWN ABORT NOW", "-ERR syntax error\r\n"),
        ("SHUTDOWN SAVE ABORT", "-ERR syntax error\r\n"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n"),
        ("PING", "+PONG\r\n"),
    ]);
}

/// Starts nagi and redis-server, each in a separate folder below `folder`.
fn servers(folder: &Folder) -> [(&'static str, Server); 2] {
    let start = |name, mut command: Command, first: &[&str]| {
        let path = folder.0.join(name);
        fs::create_dir_all(&path).expect("creates a folder");
        command.args(first).arg("--dir").arg(&path);
        (name, Server::start_redis(command).expect("it starts"))
    };
    let nagi = Command::new(nagi_binary());
    [
        start("nagi", nagi, &["serve", "--memcached-port", "any"]),
        start("redis-server", harness::tool("redis-server"), &[]),
    ]
}

fn has_file(folder: &Path) -> bool {
    folder.join("dump.rdb").is_file()
}

#[test]
fn it_saves_as_redis_does() {
    for (save, options, kept) in [
        ("3600 1", "NOW", true),
        ("3600 1", "FORCE", true),
        ("3600 1", "NOSAVE NOW", false),
        ("", "NOW", false),
        ("", "FORCE NOW", false),
        ("", "SAVE NOW FORCE", true),
    ] {
        let folder = Folder::new("shutdown");
        for (name, mut server) in servers(&folder) {
            let mut client = server.connect_resp();
            client.check(&format!("CONFIG SET save \"{save}\""), "+OK\r\n");
            client.check("SET key value", "+OK\r\n");
            client.check(&format!("SHUTDOWN {options}"), "");
            assert!(server.wait_for_exit().success(), "{name}: {}", server.log());
            assert_eq!(has_file(&folder.0.join(name)), kept, "{name}: {save:?}, {options}");
        }
    }
}

#[test]
fn a_signal_saves_although_nothing_has_changed() {
    let folder = Folder::new("shutdown-unchanged");
    for (name, mut server) in servers(&folder) {
        let mut client = server.connect_resp();
        client.check("CONFIG SET save \"3600 1\"", "+OK\r\n");
        client.check("SET key value", "+OK\r\n");
        client.check("SAVE", "+OK\r\n");
        assert_eq!(info(&server, "rdb_changes_since_last_save"), "0");
        fs::remove_file(folder.0.join(name).join("dump.rdb")).expect("it is there");
        server.signal(Signal::TERM);
        assert!(server.wait_for_exit().success(), "{name}: {}", server.log());
        assert!(has_file(&folder.0.join(name)), "{name}: {}", server.log());
    }
}

/// The folders of both servers have been removed, so that saving fails.
#[test]
fn if_it_cannot_save_it_stops_only_by_force() {
    let folder = Folder::new("shutdown-force");
    for (name, mut server) in servers(&folder) {
        eprintln!("asking {name}");
        let mut client = server.connect_resp();
        client.check("CONFIG SET save \"3600 1\" stop-writes-on-bgsave-error no", "+OK\r\n");
        client.check("SET key value", "+OK\r\n");
        fs::remove_dir(folder.0.join(name)).expect("it is empty");
        for options in ["", "NOW", "SAVE", "SAVE NOW"] {
            let failed = "-ERR Errors trying to SHUTDOWN. Check logs.\r\n";
            client.check(&format!("SHUTDOWN {options}"), failed);
            client.check("GET key", "$5\r\nvalue\r\n");
        }
        client.check("SHUTDOWN FORCE", "");
        assert!(server.wait_for_exit().success(), "{name}: {}", server.log());
    }
}

/// A shutdown can be aborted while it saves, by a command of another client, even if a signal has
/// requested it.
#[test]
fn it_is_aborted_while_it_saves() {
    let folder = Folder::new("shutdown-abort");
    let mut server = folder.nagi(&["--save", "3600 1"]);
    let mut client = server.connect_resp();
    write(&mut client, "key", 3000);
    for (round, command) in
        (1..).zip(["SHUTDOWN SAVE", "SHUTDOWN SAVE FORCE", "SHUTDOWN NOW", "a signal"])
    {
        eprintln!("stopping by {command}");
        let pipe = Pipe::new(&folder, &server);
        let mut stopping = server.connect_resp();
        let is_signal = command == "a signal";
        if is_signal {
            server.signal(Signal::TERM);
        } else {
            stopping.send(encode_command(&words(command)));
        }
        let mut disk = pipe.open();
        client.check("SHUTDOWN ABORT", "+OK\r\n");
        io::copy(&mut disk, &mut io::sink()).expect("reads");
        if is_signal {
            let told = || server.log().contains("can't exit").then_some(());
            until("the end of stopping", told).expect("it is told");
        } else {
            stopping.expect("-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        }
        client.check("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");
        client.check("INCR rounds", format!(":{round}\r\n"));
        assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok", "it was not what failed");
        assert!(!has_file(&folder.0));
    }
    client.check("SHUTDOWN", "");
    assert!(server.wait_for_exit().success(), "{}", server.log());
    assert!(has_file(&folder.0));
}

/// Their changes would not be in the file.
#[test]
fn writers_wait_while_it_saves_and_go_on_if_it_does_not_stop() {
    let folder = Folder::new("shutdown-writers");
    let server = folder.nagi(&["--save", "3600 1"]);
    let [mut reader, mut writer] = [(); 2].map(|()| server.connect_resp());
    let mut memcached = server.connect_memcached();
    write(&mut reader, "key", 3000);
    for (round, ends) in (1..).zip(["aborted", "failed", "failed without its client"]) {
        eprintln!("{ends}");
        let pipe = Pipe::new(&folder, &server);
        let mut stopping = server.connect_resp();
        stopping.send(encode_command(&["SHUTDOWN", "SAVE"]));
        let mut disk = pipe.open();
        writer.send(encode_command(&["INCR", "rounds"]));
        memcached.send("set other 0 0 1\r\nx\r\n");
        let are_held = || (info(&server, "blocked_clients") == "2").then_some(());
        until("the writers to wait", are_held).expect("they wait");
        reader.check(
            "MGET rounds none",
            match round {
                1 => "*2\r\n$-1\r\n$-1\r\n".to_owned(),
                _ => format!("*2\r\n$1\r\n{}\r\n$-1\r\n", round - 1),
            },
        );
        if ends == "aborted" {
            reader.check("SHUTDOWN ABORT", "+OK\r\n");
            writer.expect(format!(":{round}\r\n"));
        }
        if ends == "failed without its client" {
            drop(stopping);
            io::copy(&mut disk, &mut io::sink()).expect("reads");
        } else {
            io::copy(&mut disk, &mut io::sink()).expect("reads");
            stopping.expect("-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        }
        if ends != "aborted" {
            writer.expect(format!(":{round}\r\n"));
        }
        memcached.expect("STORED\r\n");
    }
}

/// The file must contain either everything that a script has written or nothing.
#[test]
fn a_signal_ends_a_script_that_has_not_written_and_saves() {
    let folder = Folder::new("shutdown-script");
    let mut server = folder.nagi(&["--save", "3600 1", "--busy-reply-threshold", "50"]);
    let [mut client, mut script] = [(); 2].map(|()| server.connect_resp());
    client.check("SET key value", "+OK\r\n");
    script.send(encode_command(&["EVAL", "while true do end", "0"]));
    until_busy(&mut client);
    for command in ["SHUTDOWN", "SHUTDOWN SAVE"] {
        let reply = client.run(command);
        assert!(matches!(&reply, Reply::Error(it) if it.starts_with("BUSY")), "{reply:?}");
    }
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit().success(), "{}", server.log());
    assert!(has_file(&folder.0));
}

/// The save begins when the script ends, which may be after the workers have stopped.
#[test]
fn a_save_that_waits_for_a_script_does_not_outlive_the_workers() {
    for round in 0..12 {
        let folder = Folder::new("shutdown-waiting");
        let mut server = folder.nagi(&["--save", "", "--busy-reply-threshold", "50"]);
        let [mut client, mut script, mut saver] = [(); 3].map(|()| server.connect_resp());
        script.send(encode_command(&["EVAL", "while true do end", "0"]));
        until_busy(&mut client);
        saver.send(encode_command(&["BGSAVE"]));
        let is_ordered = || (info(&server, "rdb_bgsave_in_progress") == "1").then_some(());
        until("the save to wait", is_ordered).expect("it is ordered");
        client.check("SCRIPT KILL", "+OK\r\n");
        // The signal arrives before, while or after the save begins.
        (0..round * 10).for_each(|_| client.check("PING", "+PONG\r\n"));
        server.signal(Signal::TERM);
        assert!(server.wait_for_exit().success(), "round {round}: {}", server.log());
    }
}

/// With io_uring, the kernel continues to accept connections for some milliseconds after a process
/// is killed. A server that stops must therefore close its listeners first.
#[test]
fn nothing_is_accepted_once_it_has_stopped() {
    for round in 0..10 {
        let mut server = Server::nagi_with(&["--workers", "4"]);
        let addresses = [server.resp(), server.memcached_address()];
        let mut client = server.connect_resp();
        if round % 2 == 0 {
            server.signal(Signal::TERM);
        } else {
            client.check("SHUTDOWN NOSAVE", "");
        }
        assert!(server.wait_for_exit().success(), "{}", server.log());
        for address in addresses {
            let refused = TcpStream::connect(address).map_err(|error| error.kind());
            assert_eq!(refused.err(), Some(io::ErrorKind::ConnectionRefused), "round {round}");
        }
    }
}

/// Without save points, so that the signal itself asks for no save.
#[test]
fn a_signal_does_not_cancel_a_save_that_a_client_waits_for() {
    for command in ["SHUTDOWN SAVE", "SAVE"] {
        let folder = Folder::new("signal-during-save");
        let mut server = folder.nagi(&["--save", "", "--busy-reply-threshold", "50"]);
        let [mut client, mut saving, mut first] = [(); 3].map(|()| server.connect_resp());
        write(&mut client, "key", 3000);
        let is_ordered = || (info(&server, "rdb_bgsave_in_progress") == "1").then_some(());
        if command == "SAVE" {
            // It begins when the script ends.
            first.send(encode_command(&["EVAL", "while true do end", "0"]));
            until_busy(&mut client);
            saving.send(encode_command(&["SAVE"]));
            until("the save to wait", is_ordered).expect("it is ordered");
            server.signal(Signal::TERM);
        } else {
            // It begins when that of another client has failed.
            let pipe = Pipe::new(&folder, &server);
            first.send(encode_command(&["SAVE"]));
            let mut disk = pipe.open();
            saving.send(encode_command(&words(command)));
            until("the order", || is_pending(&server)).expect("it is ordered");
            server.signal(Signal::TERM);
            until_told(&server, "stopping; a second signal");
            io::copy(&mut disk, &mut io::sink()).expect("reads");
        }
        assert!(server.wait_for_exit().success(), "{command}: {}", server.log());
        folder.nagi(&[]).connect_resp().check("DBSIZE", ":3000\r\n");
    }
}

/// Whether a client's SHUTDOWN waits for its save.
fn is_pending(server: &Server) -> Option<()> {
    server.connect_resp().run("CLIENT LIST").text().contains("cmd=shutdown").then_some(())
}

fn until_told(server: &Server, words: &str) {
    until(words, || server.log().contains(words).then_some(())).expect("it is told");
}

#[test]
fn a_second_signal_ends_a_save_that_a_client_waits_for() {
    for command in ["SAVE", "SHUTDOWN SAVE"] {
        let folder = Folder::new("second-signal-during-save");
        let mut server = folder.nagi(&["--save", ""]);
        let mut client = server.connect_resp();
        write(&mut client, "key", 300);
        let pipe = Pipe::new(&folder, &server);
        client.send(encode_command(&words(command)));
        let _disk = pipe.open();
        server.signal(Signal::TERM);
        until_told(&server, "stopping; a second signal");
        server.signal(Signal::TERM);
        assert_eq!(server.wait_for_exit().code(), Some(128 + 15), "{}", server.log());
    }
}
