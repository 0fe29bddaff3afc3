//! Both protocols share one keyspace: data that is written with one of them can be read with the
//! other.

use harness::{Connection, Server};

/// Starts a server, and opens a connection in each protocol.
fn both() -> (Server, Connection, Connection) {
    let server = Server::nagi();
    let (resp, memcached) = (server.connect_resp(), server.connect_memcached());
    (server, resp, memcached)
}

#[test]
fn a_value_set_by_one_is_read_by_the_other() {
    let (_server, mut resp, mut memcached) = both();
    memcached.check_raw("set a 5 0 5\r\nhello\r\n", "STORED\r\n");
    resp.check("GET a", "$5\r\nhello\r\n");
    resp.check("TYPE a", "+string\r\n");
    resp.check("SET b there", "+OK\r\n");
    memcached.check_raw("get b\r\n", "VALUE b 0 5\r\nthere\r\nEND\r\n");
    resp.check("DBSIZE", ":2\r\n");
    memcached.check_raw("delete b\r\n", "DELETED\r\n");
    resp.check("EXISTS a b", ":1\r\n");
    resp.check("FLUSHALL", "+OK\r\n");
    memcached.check_raw("get a\r\n", "END\r\n");
}

#[test]
fn a_number_is_counted_by_both() {
    let (_server, mut resp, mut memcached) = both();
    resp.check("INCRBY n 40", ":40\r\n");
    memcached.check_raw("incr n 2\r\n", "42\r\n");
    resp.check("DECR n", ":41\r\n");
    memcached.check_raw("get n\r\n", "VALUE n 0 2\r\n41\r\nEND\r\n");
    resp.check("DECRBY n 50", ":-9\r\n");
    memcached.check_raw(
        "incr n 1\r\n",
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    );
    memcached.check_raw("set n 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n");
    resp.check("INCR n", "-ERR value is not an integer or out of range\r\n");
    memcached.check_raw("incr n 1\r\n", "0\r\n");
    resp.check("INCR n", ":1\r\n");
}

#[test]
fn a_time_to_live_holds_for_both() {
    let (_server, mut resp, mut memcached) = both();
    memcached.check_raw("set a 0 100 1\r\nx\r\n", "STORED\r\n");
    resp.check("TTL a", ":100\r\n");
    resp.check("PERSIST a", ":1\r\n");
    memcached.check_raw("touch a 200\r\n", "TOUCHED\r\n");
    resp.check("TTL a", ":200\r\n");
    memcached.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    resp.check("TTL a", ":-1\r\n");
    resp.check("EXPIRE a -1", ":1\r\n");
    memcached.check_raw("get a\r\n", "END\r\n");
}

#[test]
fn a_unique_number_sees_the_writes_of_the_other() {
    let (_server, mut resp, mut memcached) = both();
    memcached.check_raw("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    memcached.send("gets a\r\n");
    let unique = memcached.line().rsplit(' ').next().expect("a number").to_owned();
    memcached.expect("x\r\nEND\r\n");
    resp.check("SET a y", "+OK\r\n");
    memcached.check_raw(format!("cas a 0 0 1 {unique}\r\nz\r\n"), "EXISTS\r\n");
    resp.check("GET a", "$1\r\ny\r\n");
}

#[test]
fn memcached_sees_database_zero() {
    let (_server, mut resp, mut memcached) = both();
    resp.check("SELECT 1", "+OK\r\n");
    resp.check("SET a one", "+OK\r\n");
    memcached.check_raw("get a\r\n", "END\r\n");
    resp.check("SELECT 0", "+OK\r\n");
    resp.check("SET a zero", "+OK\r\n");
    memcached.check_raw("get a\r\n", "VALUE a 0 4\r\nzero\r\nEND\r\n");
}

/// Only Redis' protocol can name such a key.
#[test]
fn a_long_key_survives_a_set_of_memcached_that_is_too_large() {
    let (_server, mut resp, mut memcached) = both();
    let (key, value) = ("k".repeat(300), "x".repeat(2_000_000));
    resp.check(&format!("SET {key} v"), "+OK\r\n");
    for line in [format!("set {key} 0 0 2000000"), format!("ms {key} 2000000")] {
        let refused = "CLIENT_ERROR bad command line format\r\n";
        memcached.check_raw(format!("{line}\r\n{value}\r\n"), refused);
    }
    resp.check(&format!("GET {key}"), "$1\r\nv\r\n");
}
