//! On a link of 1.3 Mbit/s, a SET that takes eight seconds must show eight seconds of *receive*.
//!
//! The link is a pair of virtual devices between two network namespaces, with a token bucket at one
//! end. It requires root, `ip` and `tc`, and a kernel with `sch_tbf`; without them the test prints
//! that it was skipped.

use harness::link::{Link, SERVER};
use harness::{run_tool, run_tool_with_input, skipped, tool};

/// Bytes that take eight seconds at 1.3 Mbit/s.
const VALUE_BYTES: usize = 1_300_000;
const RATE: &str = "1300kbit";

#[test]
fn eight_seconds_on_the_link_show_as_receive() {
    let shaped = Link::new().and_then(|link| {
        let bucket = ["qdisc", "add", "dev", "c0", "root", "tbf", "rate", RATE];
        let client = ["-n", &link.client];
        link.step("tc", &[&client[..], &bucket, &["burst", "4kb", "latency", "300ms"]].concat())?;
        Ok(link)
    });
    let link = match shaped {
        Ok(link) => link,
        Err(reason) => return skipped(format_args!("no slow link can be made here: {reason}")),
    };
    let server = link.start_server(&[]);
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
    // The token bucket passes a few kilobytes at once, and a busy machine is slower.
    assert!((7_800_000..60_000_000).contains(&field("receive-usec")), "{told}");
    for phase in ["queue-usec", "execute-usec", "send-usec"] {
        assert!(field(phase) < 1_000_000, "{phase}: {told}");
    }
}
