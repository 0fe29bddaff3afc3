//! A peer that disappears without notice, as when its machine or the network fails: no FIN and no
//! RST ever arrives, and `tcp-keepalive` has to detect it.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::link::{Link, SERVER};
use harness::{Server, encode_command, run_tool, skipped, tool, until};

/// Starts a client at the far end that sends `words` and then nothing more.
fn far_client(link: &Link, port: &str, words: &str) -> Child {
    let mut command: Command = tool("ip");
    command.args(["netns", "exec", &link.client]).arg(tool("redis-cli").get_program());
    command.args(["-h", SERVER, "-p", port]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("redis-cli starts");
    child.stdin.as_mut().expect("it reads").write_all(words.as_bytes()).expect("it reads");
    child
}

/// Starts a client at the far end that requests a long value and does not read.
fn far_sleeper(link: &Link, port: &str) -> Child {
    let mut command: Command = tool("ip");
    let script = format!(
        "exec 3<>/dev/tcp/{SERVER}/{port}; \
         printf 'CLIENT SETNAME full\\r\\nGET large\\r\\n' >&3; read"
    );
    command.args(["netns", "exec", &link.client, "bash", "-c", &script]);
    command.stdin(Stdio::piped()).spawn().expect("bash starts")
}

/// A command that creates a value larger than the buffers of sockets.
const LARGE: &str = "SETRANGE large 40000000 end";

#[test]
fn the_connection_of_a_vanished_peer_is_closed() {
    let link = match Link::new() {
        Ok(link) => link,
        Err(reason) => return skipped(format_args!("no link can be made here: {reason}")),
    };
    let server = link.start_server(&["--tcp-keepalive", "1"]);
    let port = server.resp().port().to_string();
    let redis_cli = tool("redis-cli").get_program().to_string_lossy().into_owned();
    let near = |words: &[&str]| {
        let client = ["netns", "exec", &link.server, &redis_cli, "-p", &port];
        run_tool("ip", &[&client, words].concat())
    };
    assert_eq!(near(&LARGE.split(' ').collect::<Vec<_>>()).trim(), "40000003");
    // The first client sends nothing, the second receives a message after it has disappeared, and
    // the third has full buffers.
    let mut silent = far_client(&link, &port, "CLIENT SETNAME silent\n");
    let mut spoken_to = far_client(&link, &port, "CLIENT SETNAME spoken-to\nMONITOR\n");
    let mut full = far_sleeper(&link, &port);
    let listed = |name: &str| near(&["CLIENT", "LIST"]).contains(&format!(" name={name} "));
    let connected = || {
        let full = near(&["CLIENT", "LIST"]);
        let full = full.lines().find(|line| line.contains(" name=full "));
        listed("silent")
            && near(&["CLIENT", "LIST"]).contains(" flags=O ")
            && full.is_some_and(|line| !line.contains(" omem=0 "))
    };
    until("all", || connected().then_some(())).expect("they are there");

    link.step("ip", &["-n", &link.client, "link", "set", "c0", "down"]).expect("sets it down");
    let names = ["silent", "spoken-to", "full"];
    let gone = || (!names.into_iter().any(listed)).then_some(());
    until("all to be gone", gone).expect("they are lost");
    let log = server.log();
    assert_eq!(log.matches("closed: the connection was lost").count(), 3, "{log}");
    for client in [&mut silent, &mut spoken_to, &mut full] {
        client.kill().and_then(|()| client.wait()).expect("it ends");
    }
}

#[test]
fn a_living_client_may_read_as_late_as_it_likes() {
    let server = Server::nagi_with(&["--tcp-keepalive", "1"]);
    let mut witness = server.connect_resp();
    witness.check(LARGE, ":40000003\r\n");
    let mut late = server.connect_resp();
    late.send(encode_command(&["GET", "large"]));
    // Twice the time after which a peer that has disappeared is given up.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(9) {
        witness.check("PING", "+PONG\r\n");
    }
    late.expect("$40000003\r\n");
    let value = late.take(40_000_003);
    assert!(value.ends_with(b"\0end") && value.iter().take(40_000_000).all(|byte| *byte == 0));
    late.check_raw("\r\nPING\r\n", "\r\n+PONG\r\n");
}
