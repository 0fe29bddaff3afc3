//! Upstash's REST interface: arguments reach the command unchanged, and errors have a form that
//! Upstash's clients parse.

use harness::{Connection, allow_open_files, until};

use crate::gateway::{Client, nagi};

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn values_are_stored_as_they_were_written() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut client = Client::of(&server);
    for value in [
        r#"{"b":1,"a":2.50}"#,
        r#"{ "b" : [1, 2.0 , null], "a": "\u00e9" }"#,
        "[3,[2],1]",
        "18446744073709551616",
        "-12345678901234567890123",
        "1e2",
        "2.50",
        "-0",
        "0.1000",
        "true",
    ] {
        let own = format!(r#"["SET","f", {value} ]"#);
        for (path, body) in [
            ("/", own.clone()),
            ("/pipeline", format!("[{own}]")),
            ("/multi-exec", format!("[ {own} ]")),
        ] {
            redis.run("DEL f");
            assert_eq!(client.post(path, &body).0, 200, "{path} {value}");
            assert_eq!(redis.run("GET f").text(), value, "{path}");
        }
    }
}

/// Checks that a response is an error that Upstash's clients can parse.
fn check_error(client: &mut Client, [method, target, headers, body]: [&str; 4], status: u16) {
    let response = client.ask(method, target, headers, body.as_bytes());
    let what = format!("{method} {target} {headers} {body}: {}", response.text());
    assert_eq!(response.status, status, "{what}");
    assert_eq!(response.header("content-type"), Some("application/json"), "{what}");
    let parsed: serde_json::Value = serde_json::from_str(&response.text()).expect(&what);
    let error = parsed["error"].as_str().expect(&what);
    assert!(!error.is_empty() && !error.contains('\n'), "{what}");
}

#[test]
fn refusals_of_json_requests_are_json() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let bearer = "Authorization: Bearer wrong\r\n";
    let list = r#"["GET","a"]"#;
    redis.check("CONFIG SET requirepass sesame", "+OK\r\n");
    let mut client = Client::of(&server);
    for (target, headers) in [
        ("/", bearer),
        ("/", JSON),
        ("/", "Content-Type: Application/JSON; charset=utf-8\r\n"),
        ("/pipeline", ""),
        ("/multi-exec", ""),
        ("/subscribe/a", "Accept: text/event-stream\r\n"),
    ] {
        check_error(&mut client, ["POST", target, headers, list], 401);
    }
    // Other errors are a line of text.
    for (method, target, headers, body) in
        [("GET", "/GET/a", bearer, ""), ("POST", "/SET/a", bearer, "b"), ("POST", "/", "", list)]
    {
        let response = client.ask(method, target, headers, body.as_bytes());
        assert_eq!((response.status, &*response.text()), (401, "a password is needed\n"));
    }
    redis.check("CONFIG SET requirepass \"\"", "+OK\r\n");
    for target in ["/", "/pipeline", "/multi-exec"] {
        let origin = format!("{JSON}Origin: http://evil.example\r\n");
        check_error(&mut client, ["POST", target, &origin, list], 403);
        check_error(&mut client, ["POST", &format!("{target}?_token=x"), JSON, list], 400);
        let mut client = Client::of(&server);
        let long = format!("{JSON}Content-Length: 99999999\r\n");
        client
            .connection
            .send(format!("POST {target} HTTP/1.1\r\nHost: {}\r\n{long}\r\n", server.http()));
        let response = client.receive(true);
        assert_eq!(
            (response.status, response.header("content-type")),
            (413, Some("application/json"))
        );
    }
    // If the head does not show that a client is Upstash's, the body does.
    check_error(&mut client, ["POST", "/", "", r#"["CONFIG","GET","port"]"#], 403);
    for headers in ["", "Authorization: Bearer x\r\n", JSON] {
        let text = client.ask("POST", "/", headers, b"NOSUCH");
        assert_eq!((text.status, &*text.text()), (404, "unknown command\n"), "{headers}");
    }
    redis.check("CONFIG SET http-gateway no", "+OK\r\n");
    check_error(&mut client, ["POST", "/pipeline", "", list], 404);
}

#[test]
fn refusals_under_load_are_json() {
    const WAITING: usize = 768;
    allow_open_files(20_000);
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let request = format!("POST /BLPOP/queue/0 HTTP/1.1\r\nHost: {}\r\n\r\n", server.http());
    let waiting: Vec<_> = (0..WAITING)
        .map(|_| {
            let mut connection = Connection::open(server.http());
            connection.send(&request);
            connection
        })
        .collect();
    until("so many wait", || {
        let blocked = format!("blocked_clients:{WAITING}\r\n");
        redis.run("INFO clients").text().contains(&blocked).then_some(())
    })
    .expect("they do");
    let mut client = Client::of(&server);
    let pop = r#"["BRPOP","queue","0"]"#;
    check_error(&mut client, ["POST", "/", "", pop], 429);
    check_error(&mut client, ["POST", "/pipeline", "", &format!("[{pop}]")], 429);
    until("the refusals are counted", || {
        let counted = "\nnagi_http_refusals_total{status=\"429\"} 2\n";
        client.get("/metrics").1.contains(counted).then_some(())
    })
    .expect("they are");
    drop(waiting);
    // Lists of commands and their replies may use 256 MiB.
    let many = format!("[{}]", vec![r#"["PING"]"#; 1_000_000].join(","));
    check_error(&mut client, ["POST", "/pipeline", "", &many], 503);
}

/// Otherwise the commands would be executed one by one, although the client is told an error.
#[test]
fn a_transaction_that_may_not_begin_executes_nothing() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.check("ACL SETUSER ann on >pw ~* +@read +@write", "+OK\r\n");
    redis.check("MSET from 100 to 0", "+OK\r\n");
    let mut client = Client::of(&server);
    let ann = format!("{JSON}Authorization: Basic YW5uOnB3\r\n");
    let list = r#"[["DECRBY","from",10],["INCRBY","to",10]]"#;
    check_error(&mut client, ["POST", "/multi-exec", &ann, list], 403);
    redis.check("MGET from to", "*2\r\n$3\r\n100\r\n$1\r\n0\r\n");
    redis.check("ACL SETUSER ann +multi", "+OK\r\n");
    check_error(&mut client, ["POST", "/multi-exec", &ann, list], 400);
    // The transaction that could not end is not continued by the next request.
    let response = client.ask("POST", "/", &ann, br#"["GET","from"]"#);
    assert_eq!((response.status, &*response.text()), (200, r#"{"result":"100"}"#));
    redis.check("ACL SETUSER ann +exec", "+OK\r\n");
    let response = client.ask("POST", "/multi-exec", &ann, list.as_bytes());
    assert_eq!((response.status, &*response.text()), (200, r#"[{"result":90},{"result":10}]"#));
}

#[test]
fn lists_are_executed_in_the_first_database_or_not_at_all() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    redis.check("ACL SETUSER ann on >pw ~* +@all -select +select|7", "+OK\r\n");
    let mut client = Client::of(&server);
    let ann = format!("{JSON}Authorization: Basic YW5uOnB3\r\n");
    let set = r#"["SET","b","x"]"#;
    let several = format!("[{set}]");
    for (path, body) in [("/", set), ("/pipeline", &*several), ("/multi-exec", &*several)] {
        // The connection to a worker stays in database 7, until it turns out to be of no use.
        assert_eq!(client.ask("PUT", "/7/SET/a", &ann, b"x").status, 200);
        check_error(&mut client, ["POST", path, &ann, body], 403);
        assert_eq!(client.ask("POST", path, &ann, body.as_bytes()).status, 200, "{path}");
        redis.check("DEL b", ":1\r\n");
    }
    redis.check("SELECT 7", "+OK\r\n");
    redis.check("KEYS *", "*1\r\n$1\r\na\r\n");
}

/// A script may return any text as an error or a status.
#[test]
fn errors_may_be_long() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    for (call, name, status) in [("error_reply", "error", 400), ("status_reply", "result", 200)] {
        let eval =
            format!(r#"["EVAL","return redis.{call}('ERR ' .. string.rep('x', 500000))","0"]"#);
        let object = format!(r#"{{"{name}":"ERR {}"}}"#, "x".repeat(500_000));
        assert!(client.post("/", &eval) == (status, object.clone()), "{call}");
        let several = format!(r#"[["SET","a","1"],{eval},["GET","a"]]"#);
        let list = format!(r#"[{{"result":"OK"}},{object},{{"result":"1"}}]"#);
        assert!(client.post("/pipeline", &several) == (200, list), "{call}");
    }
    let long = r#"["EVAL","return redis.error_reply('ERR ' .. string.rep('x', 3000000))","0"]"#;
    let (status, text) = client.post("/pipeline", &format!(r#"[{long},["GET","a"]]"#));
    assert_eq!(
        (status, text.len()),
        (200, 3_000_000 + r#"[{"error":"ERR "},{"result":"1"}]"#.len())
    );
}

#[test]
fn replies_may_be_nested_as_deeply_as_scripts_return_them() {
    let server = nagi(&[]);
    let mut client = Client::of(&server);
    let eval = r#"["EVAL","local t = 'x' for i = 1, 990 do t = {t} end return t","0"]"#;
    let result = format!("{}\"x\"{}", "[".repeat(990), "]".repeat(990));
    let several = format!(r#"[["SET","a","1"],{eval},["GET","a"]]"#);
    let list = format!(r#"[{{"result":"OK"}},{{"result":{result}}},{{"result":"1"}}]"#);
    for path in ["/pipeline", "/multi-exec"] {
        assert_eq!(client.post(path, &several), (200, list.clone()), "{path}");
    }
}
