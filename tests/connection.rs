//! PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET and CLIENT.

use harness::{Reply, Server, as_redis, encode_command, until};

#[test]
fn a_connection_can_be_tried_out() {
    as_redis(&[
        ("PING", "+PONG\r\n"),
        ("ping hello", "$5\r\nhello\r\n"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ("ECHO hello", "$5\r\nhello\r\n"),
        ("ECHO \"\"", "$0\r\n\r\n"),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"),
        ("NONSENSE a b", "-ERR unknown command 'NONSENSE', with args beginning with: 'a' 'b' \r\n"),
    ]);
}

#[test]
fn databases_are_chosen_by_number() {
    as_redis(&[
        ("SET key zero", "+OK\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("GET key", "$-1\r\n"),
        ("SET key one", "+OK\r\n"),
        ("SELECT 15", "+OK\r\n"),
        ("SELECT 16", "-ERR DB index is out of range\r\n"),
        ("SELECT -1", "-ERR DB index is out of range\r\n"),
        ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("GET key", "$4\r\nzero\r\n"),
    ]);
}

#[test]
fn hello_chooses_the_protocol_and_names_the_server() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        let Reply::Map(fields) = client.run("HELLO 3") else { panic!("RESP3 answers with a map") };
        for (name, value) in [("server", "redis"), ("mode", "standalone"), ("role", "master")] {
            let at = fields.iter().position(|field| *field == Reply::Bulk(name.into()));
            assert_eq!(fields[at.expect(name) + 1].text(), value, "{name}");
        }
        assert!(fields.windows(2).any(|pair| {
            pair[0] == Reply::Bulk(b"proto".to_vec()) && pair[1] == Reply::Integer(3)
        }));
        client.check("GET nothing", "_\r\n");
        let Reply::Array(fields) = client.run("HELLO 2") else { panic!("RESP2 has no maps") };
        assert_eq!(fields.len() % 2, 0);
        client.check("GET nothing", "$-1\r\n");
        client.check("HELLO 4", "-NOPROTO unsupported protocol version\r\n");
        client.check("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n");
        assert!(matches!(client.run("HELLO 3 SETNAME me"), Reply::Map(_)));
        client.check("CLIENT GETNAME", "$2\r\nme\r\n");
    }
}

#[test]
fn a_password_is_refused_where_none_is_set() {
    as_redis(&[
        ("AUTH \"\" b c", "-ERR syntax error\r\n"),
        ("AUTH", "-ERR wrong number of arguments for 'auth' command\r\n"),
        (
            "AUTH secret",
            "-ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?\r\n",
        ),
        ("PING", "+PONG\r\n"),
    ]);
}

#[test]
fn quit_answers_and_closes() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("QUIT", "+OK\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn reset_makes_a_connection_as_new() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.run("HELLO 3");
        client.check("CLIENT SETNAME me", "+OK\r\n");
        client.check("SELECT 3", "+OK\r\n");
        client.check("SET key three", "+OK\r\n");
        client.check("RESET", "+RESET\r\n");
        client.check("GET key", "$-1\r\n");
        client.check("CLIENT GETNAME", "$-1\r\n");
    }
}

#[test]
fn a_connection_has_a_number_and_a_name() {
    as_redis(&[
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETNAME me", "+OK\r\n"),
        ("CLIENT GETNAME", "$2\r\nme\r\n"),
        (
            "CLIENT SETNAME \"not me\"",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT SETNAME \"\"", "+OK\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"),
        ("CLIENT ID me", "-ERR wrong number of arguments for 'client|id' command\r\n"),
        ("CLIENT NONSENSE", "-ERR unknown subcommand 'NONSENSE'. Try CLIENT HELP.\r\n"),
    ]);
    let server = Server::nagi();
    // Workers accept in parallel, so only a connection that has been answered is certainly older.
    let one = server.connect_resp().run("CLIENT ID").integer();
    let two = server.connect_resp().run("CLIENT ID").integer();
    assert!(two > one && one > 0, "{one} {two}");
}

#[test]
fn clients_are_listed_with_their_names_and_libraries() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CLIENT SETNAME me", "+OK\r\n");
    client.check("CLIENT SETINFO LIB-NAME harness", "+OK\r\n");
    client.check("CLIENT SETINFO lib-ver 1.2", "+OK\r\n");
    let id = client.run("CLIENT ID").integer();
    let mut other = server.connect_resp();
    other.check("PING", "+PONG\r\n");
    let list = client.run("CLIENT LIST").text();
    assert_eq!(list.lines().count(), 2, "{list}");
    let own = list.lines().find(|line| line.contains("name=me")).expect("it lists itself");
    for field in [format!("id={id} "), "lib-name=harness".into(), "lib-ver=1.2".into()] {
        assert!(own.contains(&field), "{field} is not in {own}");
    }
    assert!(client.run("CLIENT INFO").text().starts_with(&format!("id={id} ")));
    assert!(!client.run("CLIENT HELP").list().is_empty());
}

/// The logs keep names after their connection is closed.
#[test]
fn names_of_clients_are_not_very_long() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let too_long = "-ERR Names of clients must have at most 4096 bytes\r\n";
    for command in ["CLIENT SETNAME", "CLIENT SETINFO LIB-NAME", "HELLO 3 SETNAME"] {
        client.check(&format!("{command} {}", "n".repeat(4097)), too_long);
    }
    client.check(&format!("CLIENT SETNAME {}", "n".repeat(4096)), "+OK\r\n");
}

#[test]
fn clients_are_listed_with_their_traffic() {
    let server = Server::nagi();
    let traffic = |client: &mut harness::Connection, id: i64| -> [u64; 3] {
        let list = client.run("CLIENT LIST").text();
        let line = list.lines().find(|line| line.starts_with(&format!("id={id} "))).expect("it");
        ["tot-net-in", "tot-net-out", "tot-cmds"].map(|name| {
            let field = line.split(' ').find_map(|field| field.strip_prefix(&format!("{name}=")));
            field.expect("the field").parse().expect("a number")
        })
    };
    let mut observer = server.connect_resp();
    // Numbers are assigned by workers, which may accept in another order than clients connect.
    observer.run("PING");
    let mut client = server.connect_resp();
    let id = client.run("CLIENT ID").integer();
    // A reply is counted after its worker has sent it, which may be after the client has received
    // the reply.
    let [received, sent, requests] = until("the first reply", || {
        let traffic = traffic(&mut observer, id);
        (traffic[1] == format!(":{id}\r\n").len() as u64).then_some(traffic)
    })
    .expect("it is counted");
    assert_eq!(requests, 1);
    client.check_raw("SET key value\r\nGET key\r\n", "+OK\r\n$5\r\nvalue\r\n");
    // A long value is sent in a different way, and in several pieces.
    let long = "x".repeat(300_000);
    let mut request = harness::encode_command(&["SET", "long", &long]);
    client.check_raw(&request, "+OK\r\n");
    client.run("GET long");
    let mut memcached = server.connect_memcached();
    memcached.check_raw("get key\r\n", "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    request.extend_from_slice(&harness::encode_command(&["GET", "long"]));
    let more = [24 + request.len() as u64, 16 + 5 + 9 + 300_000 + 2, 4];
    let expected = [received + more[0], sent + more[1], requests + more[2]];
    for (id, expected) in [(id, expected), (id + 1, [9, 27, 1])] {
        let are_counted = || (traffic(&mut observer, id) == expected).then_some(());
        until("all of it", are_counted)
            .unwrap_or_else(|_| assert_eq!(traffic(&mut observer, id), expected));
    }
}

#[test]
fn clients_of_all_workers_are_listed() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect_resp()).collect();
    let mut ids = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        client.check(&format!("CLIENT SETNAME client:{number}"), "+OK\r\n");
        client.check(&format!("SELECT {number}"), "+OK\r\n");
        ids.push(client.run("CLIENT ID").integer());
    }
    server.connect_memcached().check_raw("get a\r\n", "END\r\n");
    let list = clients[0].run("CLIENT LIST").text();
    for (number, id) in ids.iter().enumerate() {
        let line = list.lines().find(|line| line.starts_with(&format!("id={id} ")));
        let line = line.unwrap_or_else(|| panic!("{id} in {list}"));
        assert!(line.contains(&format!(" name=client:{number} ")), "{line}");
        assert!(line.contains(&format!(" db={number} ")), "{line}");
    }
    let own = clients[0].run("CLIENT INFO").text();
    assert!(own.contains(" cmd=client|info ") && own.contains(" name=client:0 "), "{own}");
    drop(clients.split_off(1));
    let alone = || (clients[0].run("CLIENT LIST").text().lines().count() == 1).then_some(());
    harness::until("the other lines to go", alone).expect("closed connections are not listed");
}

#[test]
fn requests_of_a_browser_are_refused() {
    for server in [Server::nagi(), Server::redis()] {
        for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
            let mut browser = server.connect_resp();
            browser.send(format!("{head}\r\nSET key value\r\n"));
            browser.rest();
        }
        server.connect_resp().check("EXISTS key", ":0\r\n");
    }
}

/// Requests of a pipeline that follow a suspended one are read again after it.
#[test]
fn each_request_of_a_pipeline_is_counted_once() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let id = client.run("CLIENT ID").integer();
    let script = encode_command(&["EVAL", "return 1", "0"]);
    client.send(script.repeat(200));
    client.expect(":1\r\n".repeat(200));
    let clients = server.connect_resp().run(&format!("CLIENT LIST ID {id}")).text();
    assert!(clients.trim_end().ends_with(" tot-cmds=201"), "{clients}");
}
