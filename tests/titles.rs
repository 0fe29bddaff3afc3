//! The process titles of nagi in ps and top.

use harness::{Server, until};
use std::fs;

/// Returns the command line that ps shows, without the zero bytes at its end.
fn title(server: &Server) -> String {
    let path = format!("/proc/{}/cmdline", server.process_id());
    let bytes = fs::read(path).expect("its command line");
    String::from_utf8(bytes).expect("text").trim_end_matches('\0').to_owned()
}

fn wait_for_title(server: &Server, what: &str, fits: impl Fn(&str) -> bool) {
    until(what, || fits(&title(server)).then_some(())).unwrap_or_else(|error| {
        panic!("{error}; it is {}", title(server));
    });
}

#[test]
fn the_title_has_figures_and_no_arguments() {
    let server = Server::nagi_with(&["--requirepass", "secret"]);
    let mut client = server.connect_resp();
    client.check("AUTH secret", "+OK\r\n");
    let address = server.resp();
    wait_for_title(&server, "one connection", |title| {
        title.contains(&format!(" {address} ")) && title.ends_with(" conns=1")
    });
    assert!(!title(&server).contains("secret"), "{}", title(&server));
    for _ in 0..1000 {
        client.check("PING", "+PONG\r\n");
    }
    wait_for_title(&server, "requests", |title| title.contains(" 1.0k conns=1"));
}

#[test]
fn a_title_follows_its_template() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let port = server.resp().port();
    client.check("CONFIG SET proc-title-template \"{{x}} {port} {unixsocket}\"", "+OK\r\n");
    wait_for_title(&server, "the template's title", |title| title == format!("{{x}}}} {port}"));
}

#[test]
fn the_title_stays_if_it_is_to() {
    let server = Server::nagi_with(&["--set-proc-title", "no"]);
    let mut client = server.connect_resp();
    client.check("CONFIG SET proc-title-template x", "+OK\r\n");
    assert!(title(&server).contains("--set-proc-title\0no"), "{}", title(&server));
}

#[test]
fn threads_of_workers_are_named_by_what_they_do() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let names = || -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("tasks");
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        tasks.filter_map(|task| name(task.ok()?)).map(|name| name.trim_end().to_owned()).collect()
    };
    let has = |name: &str| names().iter().any(|it| it == name);
    let idle = until("two workers without connections", || {
        (has("W0 _ 0/s") && has("W1 _ 0/s")).then_some(())
    });
    idle.unwrap_or_else(|error| panic!("{error}: {:?}", names()));
    let mut client = server.connect_resp();
    let busy = until("a worker that executes requests", || {
        client.check("PING", "+PONG\r\n");
        names().iter().any(|name| name.starts_with("W") && name.contains(" W ")).then_some(())
    });
    busy.unwrap_or_else(|error| panic!("{error}: {:?}", names()));
}
