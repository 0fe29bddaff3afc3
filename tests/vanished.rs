//! A peer that is gone without a word, as when its machine or the network between is: no FIN and
//! no reset ever comes, and `tcp-keepalive` finds out.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use harness::{run_tool, tool, until};

use crate::link::{Link, SERVER};

/// A client at the far end that says `words` and then nothing more.
fn far_client(link: &Link, port: &str, words: &str) -> Child {
    let mut command: Command = tool("ip");
    command.args(["netns", "exec", &link.client]).arg(tool("redis-cli").get_program());
    command.args(["-h", SERVER, "-p", port]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("redis-cli starts");
    child.stdin.as_mut().expect("it reads").write_all(words.as_bytes()).expect("it reads");
    child
}

#[test]
fn a_peer_that_vanishes_is_let_go() {
    let link = match Link::new() {
        Ok(link) => link,
        Err(reason) => return eprintln!("SKIPPED: no link can be made here: {reason}"),
    };
    let server = link.start_server(&["--tcp-keepalive", "1"]);
    let port = server.resp().port().to_string();
    let redis_cli = tool("redis-cli").get_program().to_string_lossy().into_owned();
    let near = |words: &[&str]| {
        let client = ["netns", "exec", &link.server, &redis_cli, "-p", &port];
        run_tool("ip", &[&client, words].concat())
    };
    // One is silent, to the other something is sent when it has gone.
    let mut silent = far_client(&link, &port, "CLIENT SETNAME silent\n");
    let mut spoken_to = far_client(&link, &port, "CLIENT SETNAME spoken-to\nMONITOR\n");
    let listed = |name: &str| near(&["CLIENT", "LIST"]).contains(&format!(" name={name} "));
    let connected = || listed("silent") && near(&["CLIENT", "LIST"]).contains(" flags=O ");
    until("both", || connected().then_some(())).expect("they are there");

    link.step("ip", &["-n", &link.client, "link", "set", "c0", "down"]).expect("sets it down");
    let gone = || (!listed("silent") && !listed("spoken-to")).then_some(());
    until("both to be gone", gone).expect("they are lost");
    let log = server.log();
    assert_eq!(log.matches("closed: the network has lost the peer").count(), 2, "{log}");
    for client in [&mut silent, &mut spoken_to] {
        client.kill().and_then(|()| client.wait()).expect("it ends");
    }
}
