//! Random pieces of requests, most of them malformed.

use harness::{Connection, Random, Server};

#[test]
fn random_bytes_are_answered_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut random = Random::announced();
    let pieces = [
        "*",
        "$",
        "\r\n",
        "\n",
        "1",
        "2",
        "3",
        "-1",
        "*1\r\n",
        "$4\r\nPING\r\n",
        "PING\r\n",
        "$3\r\n",
        "GET",
        "SET a 1\r\n",
        " ",
        "\"",
        "'",
        "\\x41",
        "a",
        "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        "*0\r\n",
        "$-1\r\n",
        "1024\r\n",
        "99999999999999999999",
    ];
    for _ in 0..super::super::count() / 40 {
        let bytes: String = (0..random.below(12)).map(|_| random.choose(&pieces)).collect();
        let answers = [nagi.resp(), redis.resp()].map(|address| {
            let mut connection = Connection::open(address);
            if connection.try_send(&bytes).is_ok() {
                connection.finish_sending();
            }
            String::from_utf8_lossy(&connection.rest()).into_owned()
        });
        assert_eq!(answers[0], answers[1], "nagi and redis-server, to {bytes:?}");
    }
}
