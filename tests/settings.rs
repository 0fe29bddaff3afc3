//! Settings, from the command line and CONFIG, and what they do.

use harness::Server;

#[test]
fn options_of_the_command_line_are_settings() {
    let server = Server::nagi_with(&["--databases", "3", "--maxclients", "77"]);
    let mut client = server.connect_resp();
    client.check("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$1\r\n3\r\n");
    client.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n");
    client.check("SELECT 2", "+OK\r\n");
    client.check("SELECT 3", "-ERR DB index is out of range\r\n");
}

#[test]
fn all_settings_are_changed_or_none() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("CONFIG SET maxclients 500 timeout 60", "+OK\r\n");
        client.check(
            "CONFIG SET maxclients 600 databases 3",
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set \
             immutable config\r\n",
        );
        client.check(
            "CONFIG SET maxclients 600 timeout x",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't \
             be parsed into an integer\r\n",
        );
        client.check(
            "CONFIG SET maxclients 600 maxclients 700",
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - duplicate \
             parameter\r\n",
        );
        client.check("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$3\r\n500\r\n");
    }
}

#[test]
fn what_is_set_takes_effect() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
    client.send("*2\r\n$3\r\nGET\r\n$1048577\r\n");
    client.expect("-ERR Protocol error: invalid bulk length\r\n");
    let mut client = server.connect_resp();
    client.check("CONFIG SET memcached-item-limit 2000", "+OK\r\n");
    let block = "x".repeat(2001);
    server.connect_memcached().check_raw(
        format!("set k 0 0 2001\r\n{block}\r\n"),
        "SERVER_ERROR object too large for cache\r\n",
    );
    client.check("CONFIG SET maxclients 1", "+OK\r\n");
    let mut another = server.connect_resp();
    another.check("PING", "-ERR max number of clients reached\r\n");
    assert_eq!(another.rest(), b"");
}
