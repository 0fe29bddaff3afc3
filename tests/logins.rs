//! The tools log in to servers that speak memcached's protocols in the same way as to Redis: with a
//! password in the URL, in a file or in the environment. No output may contain it.

use std::process::{Command, Output};

use crate::gateway::Client;
use crate::memcached::binary::{encode, receive};
use harness::{Folder, Reply, Server, nagi_binary};

const SECRET: &str = "s3cret";

/// A quick use of each tool with one server.
const TOOLS: [&str; 5] = [
    "top --once --interval 0.1",
    "bench --requests 200 --keys 10 --fill --quiet",
    "bench --requests 200 --keys 10 --connections 2 --reconnect-every 3 --quiet",
    "calm --i-may-destroy-data --quick --quiet-seconds 0.5 --rate 500 --only value,slow-reader",
    "doctor --seconds 1 --probe-writes",
];

/// Runs a tool with a server.
fn run(line: &str, url: &str, environment: Option<&str>) -> Output {
    let mut command = Command::new(nagi_binary());
    command.args(line.split(' ')).arg(url).env_remove("REDISCLI_AUTH");
    if let Some(password) = environment {
        command.env("REDISCLI_AUTH", password);
    }
    command.output().expect("nagi starts")
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(both).expect("text")
}

/// `nagi doctor` fails only with the status for a server that it could not observe; its other
/// status means a finding.
fn has_worked(line: &str, output: &Output) -> bool {
    output.status.code() == Some(0) || line.starts_with("doctor") && output.status.code() == Some(1)
}

fn check_logins(server: &Server, user: &str, file: &str) {
    let address = server.memcached_address();
    let (plain, with_user) =
        (format!("memcached://{address}"), format!("memcached://{user}:{SECRET}@{address}"));
    for line in TOOLS {
        for output in [
            run(line, &with_user, None),
            run(&format!("{line} --password-file {file}"), &plain, None),
            run(line, &plain, Some(SECRET)),
        ] {
            let text = text(&output);
            assert!(has_worked(line, &output), "{line}: {text}");
            assert!(!text.contains(SECRET) && !text.contains("unauthenticated"), "{line}: {text}");
        }
    }
    for (url, words) in [
        (plain.clone(), "CLIENT_ERROR unauthenticated"),
        (with_user.replace(SECRET, "s3cond"), "authentication failure"),
    ] {
        for line in TOOLS {
            let output = run(line, &url, None);
            let text = text(&output);
            assert!(text.contains(words) && !text.contains("s3cond"), "{line}: {text}");
            assert!(!output.status.success(), "{line}: {text}");
        }
    }
}

#[test]
fn tools_log_in_to_nagi_by_memcacheds_protocol() {
    let folder = Folder::new("logins-nagi");
    let file = folder.write("password", "s3cret\n").display().to_string();
    check_logins(&Server::nagi_with(&["--requirepass", SECRET]), "default", &file);
}

#[test]
fn tools_log_in_to_memcached() {
    let folder = Folder::new("logins-memcached");
    let users = folder.write("users", "bob:s3cret\ndefault:s3cret\n");
    let file = folder.write("password", "s3cret\n").display().to_string();
    for server in Server::every_memcached(&["-Y", users.to_str().expect("text")]) {
        check_logins(&server, "bob", &file);
    }
}

#[test]
fn a_server_that_requires_no_password_is_not_given_it_to_store() {
    for server in Server::every_memcached(&[]) {
        let address = server.memcached_address();
        let url = format!("memcached://bob:{SECRET}@{address}");
        for line in TOOLS {
            let output = run(line, &url, None);
            assert!(has_worked(line, &output), "{line}: {}", text(&output));
        }
        for protocol in ["text", "meta"] {
            let line = format!("storm -n 20 --protocol {protocol} -s");
            let output = run(&line, &address.to_string(), Some(SECRET));
            assert!(output.status.success(), "{}", text(&output));
        }
        server.connect_memcached().check_raw("get login\r\n", "END\r\n");
    }
}

/// Passwords can be guessed through any protocol.
#[test]
fn failed_logins_of_all_protocols_are_in_the_acl_log() {
    let server = Server::nagi_with(&["--requirepass", SECRET, "--http-port", "any"]);
    let mut admin = server.connect_resp();
    admin.check(&format!("AUTH {SECRET}"), "+OK\r\n");
    let mut memcached = server.connect_memcached();
    memcached.check_raw("set x 0 0 9\r\nann guess\r\n", "CLIENT_ERROR authentication failure\r\n");
    let mut binary = server.connect_memcached();
    binary.send(encode(0x21, 0, 0, b"", "PLAIN", "\0ben\0guess"));
    assert_eq!(receive(&mut binary).status, 0x20);
    let mut http = Client::of(&server);
    // "cem:guess"
    let headers = "Authorization: Basic Y2VtOmd1ZXNz\r\n";
    assert_eq!(http.ask("GET", "/GET/a", headers, b"").status, 401);
    let log = admin.run("ACL LOG");
    let entry = |entry: &Reply| {
        let fields = entry.list();
        let field = |name: &str| {
            let at = fields.iter().position(|it| matches!(it, Reply::Bulk(_)) && it.text() == name);
            fields[at.expect("the field") + 1].text()
        };
        ["reason", "object", "username"].map(field).join(" ")
    };
    let logged: Vec<String> = log.list().iter().map(entry).collect();
    assert_eq!(logged, ["auth http cem", "auth sasl_auth ben", "auth set ann"]);
    assert!(admin.run("INFO stats").text().contains("acl_access_denied_auth:3\r\n"));
}
