//! Checks the table of differences from webdis in docs/http.md: both servers must reply as it says.

use std::net::SocketAddr;

use harness::{Connection, Folder, Server, root, tool, until};

/// A response: its status, its media type, and its body with blanks in place of line breaks.
#[derive(Debug)]
struct Answer {
    status: u16,
    media_type: String,
    body: String,
}

fn ask(address: SocketAddr, request: &str, body: &str, has_host: bool) -> Answer {
    let mut connection = Connection::open(address);
    let host = if has_host { format!("Host: {address}\r\n") } else { String::new() };
    connection.send(format!(
        "{request} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let text = String::from_utf8_lossy(&connection.rest()).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let is_type = |line: &&str| line.to_ascii_lowercase().starts_with("content-type: ");
    Answer {
        status: head.get(9..12).and_then(|it| it.parse().ok()).expect("a status"),
        media_type: head.lines().find(is_type).map_or("", |line| &line[14..]).to_owned(),
        body: body.replace("\r\n", " ").replace('\n', " ").trim_end().to_owned(),
    }
}

/// Returns the code spans in a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Checks that a cell describes a response: the status, the media type if one is given, and the
/// body, which may continue if the cell's text ends in three dots.
fn check(cell: &str, answer: &Answer, what: &str) {
    let words = quoted(cell);
    let status = words.first().copied().unwrap_or_default();
    assert_eq!(answer.status.to_string(), status, "{what}: {answer:?}");
    let is_type = |word: &&str| {
        let is_one = |it: &str| it.replace("%2F", "/").matches('/').count() == 1;
        word.split(';').next().is_some_and(is_one) && !word.starts_with(['{', '*'])
    };
    let media_type = words.get(1).copied().filter(|word| is_type(word));
    if let Some(media_type) = media_type {
        assert_eq!(answer.media_type, media_type, "{what}");
    }
    let expected = words.get(if media_type.is_some() { 2 } else { 1 }).copied().unwrap_or_default();
    match expected.strip_suffix("...") {
        Some(begin) => assert!(answer.body.starts_with(begin.trim_end()), "{what}: {answer:?}"),
        None => assert_eq!(answer.body, expected, "{what}"),
    }
}

fn webdis(folder: &Folder, redis: SocketAddr) -> (Server, SocketAddr) {
    let started = Server::start_web(|address| {
        let settings = serde_json::json!({
            "redis_host": "127.0.0.1", "redis_port": redis.port(), "http_host": "127.0.0.1",
            "http_port": address.port(), "threads": 1, "pool_size": 1, "daemonize": false,
            "verbosity": 1, "logfile": folder.path().join("log"),
        });
        let mut command = tool("webdis");
        command.arg(folder.write("webdis.json", settings.to_string()));
        command
    });
    let (server, address) = started.unwrap_or_else(|problem| panic!("{problem}"));
    // webdis listens before it has connected to Redis.
    until("webdis has its connections", || {
        (ask(address, "GET /PING", "", true).status == 200).then_some(())
    })
    .unwrap();
    (server, address)
}

#[test]
fn differences_from_webdis_are_in_the_table() {
    let (folder, redis) = (Folder::new("webdis-table"), Server::redis());
    let (_webdis, theirs) = webdis(&folder, redis.resp());
    let server = Server::nagi_with(&["--http-port", "any", "--http-jsonp", "yes"]);
    let page = std::fs::read_to_string(root().join("docs/http.md")).expect("the page");
    let (_, table) = page.split_once("## Differences from webdis").expect("the table");
    let rows = table.lines().skip_while(|line| !line.starts_with("| `"));
    let mut count = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').skip(1).collect();
        let [request, of_webdis, of_nagi, why, _] = cells[..] else { panic!("five cells: {row}") };
        for keys in [redis.resp(), server.resp()] {
            let mut redis = Connection::open(keys);
            redis.check("SET k v", "+OK\r\n");
            redis.run("HSET h f v");
            redis.run("DEL l");
            redis.check("RPUSH l a b", ":2\r\n");
        }
        let words = quoted(request);
        let body = words.get(1).copied().unwrap_or_default();
        let has_host = !request.contains("without Host");
        let asked = |address: SocketAddr| ask(address, words[0], body, has_host);
        check(of_webdis, &asked(theirs), &format!("webdis, {request}"));
        check(of_nagi, &asked(server.http()), &format!("nagi, {request}"));
        assert!(!why.trim().is_empty(), "{row}");
        count += 1;
    }
    assert!(count >= 30, "{count} rows");
}
