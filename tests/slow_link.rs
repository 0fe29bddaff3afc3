//! A link of 1.3 Mbit/s: a SET that takes eight seconds shows eight seconds of *receive*.
//!
//! The link is a pair of virtual ones between two network namespaces with a token bucket on one
//! side. That takes root, `ip` and `tc`, and a kernel with `sch_tbf`; without them the test says
//! that it was skipped.

use std::process::{Command, Stdio};

use harness::{Server, nagi_binary, run_tool, run_tool_with_input, tool};

/// Bytes that take eight seconds at 1.3 Mbit/s.
const VALUE_BYTES: usize = 1_300_000;
const RATE: &str = "1300kbit";
/// Of a block that is for tests and examples (RFC 5737), within these namespaces only.
const SERVER: &str = "192.0.2.1";

/// Two namespaces and the link between them, which go with it.
struct Link {
    server: String,
    client: String,
}

impl Link {
    /// Why there is none, if there is none.
    fn new() -> Result<Self, String> {
        let name = |side: &str| format!("nagi-test-{}-{side}", std::process::id());
        let link = Link { server: name("s"), client: name("c") };
        let Link { server, client } = &link;
        let server_address = format!("{SERVER}/24");
        let steps: [(&str, &[&str]); 10] = [
            ("ip", &["netns", "add", server]),
            ("ip", &["netns", "add", client]),
            ("ip", &["-n", server, "link", "add", "s0", "type", "veth", "peer", "name", "c0"]),
            ("ip", &["-n", server, "link", "set", "c0", "netns", client]),
            ("ip", &["-n", server, "addr", "add", &server_address, "dev", "s0"]),
            ("ip", &["-n", client, "addr", "add", "192.0.2.2/24", "dev", "c0"]),
            ("ip", &["-n", server, "link", "set", "s0", "up"]),
            ("ip", &["-n", server, "link", "set", "lo", "up"]),
            ("ip", &["-n", client, "link", "set", "c0", "up"]),
            (
                "tc",
                &[
                    "-n", client, "qdisc", "add", "dev", "c0", "root", "tbf", "rate", RATE,
                    "burst", "4kb", "latency", "300ms",
                ],
            ),
        ];
        for (program, arguments) in steps {
            let output = tool(program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("there is no {program}: {error}"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{program} {}: {}", arguments.join(" "), said.trim()));
            }
        }
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.client] {
            // It may not have come to be.
            let _ = tool("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
        }
    }
}

#[test]
fn eight_seconds_on_the_link_show_as_receive() {
    let link = match Link::new() {
        Ok(link) => link,
        Err(reason) => return eprintln!("SKIPPED: no slow link can be made here: {reason}"),
    };
    let mut command: Command = tool("ip");
    command.args(["netns", "exec", &link.server]).arg(nagi_binary());
    command.args(["serve", "--bind", "127.0.0.1", SERVER, "--protected-mode", "no"]);
    let server = Server::start_nagi(command).expect("starts");
    let port = server.resp().port().to_string();
    let redis_cli = tool("redis-cli").get_program().to_string_lossy().into_owned();
    let near = |words: &[&str]| {
        let client = ["netns", "exec", &link.server, &redis_cli, "-p", &port];
        run_tool("ip", &[&client, words].concat())
    };
    assert_eq!(near(&["CONFIG", "SET", "slowlog-total-slower-than", "1000000"]).trim(), "OK");
    let far = ["netns", "exec", &link.client, &redis_cli, "-h", SERVER, "-p", &port];
    let value = vec![b'v'; VALUE_BYTES];
    let set = run_tool_with_input("ip", &[&far[..], &["-x", "SET", "key"]].concat(), &value);
    assert_eq!(set.trim(), "OK");
    let told = near(&["SLOWLOG", "PHASES"]);
    let lines: Vec<&str> = told.lines().collect();
    let field = |name: &str| -> u64 {
        let at = lines.iter().position(|line| *line == name);
        let value = at.and_then(|at| lines.get(at + 1)).unwrap_or_else(|| panic!("{name}: {told}"));
        value.parse().expect("a number")
    };
    assert_eq!(field("request-bytes"), VALUE_BYTES as u64 + 6);
    // The bucket lets a few kilobytes through at once, and a busy machine is slower.
    assert!((7_800_000..60_000_000).contains(&field("receive-usec")), "{told}");
    for phase in ["queue-usec", "execute-usec", "send-usec"] {
        assert!(field(phase) < 1_000_000, "{phase}: {told}");
    }
}
