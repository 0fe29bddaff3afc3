//! The situation without a gateway: an Apache module opens a connection to the cache for each
//! request. Such modules run out of local ports; when this happens depends on the kernel's
//! settings, which are printed.

use std::path::Path;
use std::process::Command;

use harness::link::Link;
use harness::web::{self, WebServer, in_time_wait, post_often, requests, settings_of_ports};
use harness::{Connection, Folder, Server, nagi_binary, skipped};

use crate::programs::compile_module;

/// Starts Apache with the module `mod_counter`, which counts requests for `/counter`.
fn apache(folder: &Path, cache: &[(&str, &str)]) -> WebServer {
    let module = compile_module("mod_counter", folder);
    web::apache(folder, &["mpm_prefork", "authz_core"], cache, |address| {
        format!(
            "LoadModule counter_module {}\nListen {address}\n\
             <Location /counter>\nSetHandler counter\n</Location>\n",
            module.display()
        )
    })
}

/// Runs ab with requests that the module counts, and checks the sum.
fn count(folder: &Folder, server: &Server, cache: &[(&str, &str)], redis: &mut Connection) {
    let apache = apache(folder.path(), cache);
    post_often(folder, &format!("http://{}/counter", apache.address), "nothing");
    let (requests, runs) = requests();
    let sum = (requests * runs).to_string();
    redis.check("HGET counter field", format!("${}\r\n{sum}\r\n", sum.len()));
    let waiting = in_time_wait(server.resp().port());
    println!("{sum} requests, 0 failed; {waiting} sockets in TIME_WAIT; {}", settings_of_ports());
}

#[test]
fn a_module_of_apache_counts_over_tcp() {
    let (folder, server) = (Folder::new("module"), Server::nagi());
    let address = server.resp();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let cache = [("CACHE_HOST", host.as_str()), ("CACHE_PORT", &port)];
    count(&folder, &server, &cache, &mut server.connect_resp());
}

/// Starts nagi on a Unix socket that Apache's user may use, counts through it, and checks that no
/// local port was used.
fn count_over_unix_socket() {
    let folder = Folder::new("module");
    let path = folder.path().join("socket").display().to_string();
    let mut command = Command::new(nagi_binary());
    command.args(["serve", "--unixsocketperm", "777", "--unixsocket", &path]);
    let server = Server::start_nagi(command).expect("it starts");
    let mut redis = server.connect_resp();
    // An earlier server may have had the same port.
    let before = in_time_wait(server.resp().port());
    count(&folder, &server, &[("CACHE_SOCKET", &path)], &mut redis);
    let after = in_time_wait(server.resp().port());
    assert!(after <= before, "a socket that is a path has no port: {after}, {before} before");
}

#[test]
fn a_module_of_apache_counts_over_a_unix_socket() {
    count_over_unix_socket();
}

#[test]
fn a_module_of_apache_counts_over_a_unix_socket_where_no_port_is_used_again() {
    let link = match Link::new() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    link.in_server(|| {
        std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "0").expect("a setting");
        count_over_unix_socket();
    });
}
