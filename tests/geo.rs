//! Positions on the earth, and searches for positions around one.

use harness::{Server, as_redis, until};

const SYNTAX: &str = "-ERR syntax error\r\n";

const SICILY: (&str, &str) =
    ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2\r\n");

#[test]
fn positions_are_added_and_measured() {
    as_redis(&[
        SICILY,
        ("GEOADD g CH 13.361389 38.115556 Palermo 1 1 new", ":1\r\n"),
        ("GEOADD g NX 2 2 new", ":0\r\n"),
        ("GEOADD g XX CH 2 2 new 3 3 other", ":1\r\n"),
        ("ZSCORE g Palermo", "$16\r\n3479099956230698\r\n"),
        ("GEOPOS none a", "*1\r\n*-1\r\n"),
        (
            "GEOHASH g Palermo Catania nowhere",
            "*3\r\n$11\r\nsqc8b49rny0\r\n$11\r\nsqdtr74hyu0\r\n$-1\r\n",
        ),
        ("GEODIST g Palermo Catania", "$11\r\n166274.1516\r\n"),
        ("GEODIST g Palermo Catania km", "$8\r\n166.2742\r\n"),
        ("GEODIST g Palermo Catania MI", "$8\r\n103.3182\r\n"),
        ("GEODIST g Palermo nowhere", "$-1\r\n"),
        (
            "GEODIST g Palermo Catania x",
            "-ERR unsupported unit provided. please use M, KM, FT, MI\r\n",
        ),
        ("GEODIST g Palermo Catania m x", SYNTAX),
        ("GEOADD g 200 100 x", "-ERR invalid longitude,latitude pair 200.000000,100.000000\r\n"),
        ("GEOADD g x 1 y", "-ERR value is not a valid float\r\n"),
        ("GEOADD g NX XX 1 1 x", SYNTAX),
        ("GEOADD g 1 1 x 2", SYNTAX),
        ("SET s x", "+OK\r\n"),
        (
            "GEOADD s 1 1 x",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
    ]);
}

#[test]
fn areas_are_searched() {
    as_redis(&[
        SICILY,
        ("GEOADD g 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2\r\n"),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC",
            "*2\r\n$7\r\nCatania\r\n$7\r\nPalermo\r\n",
        ),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km DESC COUNT 2",
            "*2\r\n$5\r\nedge1\r\n$5\r\nedge2\r\n",
        ),
        ("GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 m", "*1\r\n$7\r\nPalermo\r\n"),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 100 km WITHDIST WITHHASH",
            "*1\r\n*3\r\n$7\r\nCatania\r\n$7\r\n56.4413\r\n:3479447370796909\r\n",
        ),
        ("GEORADIUS_RO g 15 37 100 km", "*1\r\n$7\r\nCatania\r\n"),
        ("GEORADIUSBYMEMBER g Palermo 1 km", "*1\r\n$7\r\nPalermo\r\n"),
        ("GEORADIUSBYMEMBER_RO g Palermo 1 km", "*1\r\n$7\r\nPalermo\r\n"),
        ("GEORADIUSBYMEMBER none x nonsense m", "*0\r\n"),
        ("GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 200 km", ":2\r\n"),
        ("ZSCORE to Palermo", "$16\r\n3479099956230698\r\n"),
        ("GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", ":2\r\n"),
        ("ZRANK to Palermo", ":1\r\n"),
        ("GEORADIUS g 15 37 1 m STORE to", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("GEORADIUS g 15 37 100 km STOREDIST to", ":1\r\n"),
        ("GEORADIUSBYMEMBER none x 1 m STORE to", ":0\r\n"),
        ("EXISTS to", ":0\r\n"),
        (
            "GEOSEARCH g FROMMEMBER no BYRADIUS 1 m",
            "-ERR could not decode requested zset member\r\n",
        ),
        (
            "geosearch g BYRADIUS 1 m COUNT 1 ASC",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch\r\n",
        ),
        (
            "GEOSEARCH g FROMLONLAT 1 1 COUNT 1 ASC",
            "-ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH\r\n",
        ),
        (
            "GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m ANY",
            "-ERR the ANY argument requires COUNT argument\r\n",
        ),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m COUNT 0", "-ERR COUNT must be > 0\r\n"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYBOX 1 -1 m", "-ERR height or width cannot be negative\r\n"),
        ("GEORADIUS g 1 1 -1 m", "-ERR radius cannot be negative\r\n"),
        ("GEORADIUS g 1 1 x m", "-ERR need numeric radius\r\n"),
        ("GEORADIUS_RO g 1 1 1 m STORE to", SYNTAX),
        (
            "GEORADIUS g 1 1 1 m STORE to WITHDIST",
            "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and \
             WITHCOORD options\r\n",
        ),
    ]);
}

/// Since Redis 7.2, coordinates have only as many digits as identify the number.
#[test]
fn coordinates_are_short() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check(SICILY.0, SICILY.1);
    client.check(
        "GEOPOS g Palermo nowhere",
        "*2\r\n*2\r\n$18\r\n13.361389338970184\r\n$16\r\n38.1155563954963\r\n*-1\r\n",
    );
    client.check(
        "GEORADIUS g 15 37 200 km WITHCOORD COUNT 1",
        "*1\r\n*2\r\n$7\r\nCatania\r\n*2\r\n$18\r\n15.087267458438873\r\n$17\r\n\
         37.50266842333162\r\n",
    );
}

#[test]
fn coordinates_are_doubles_in_resp3() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.run("HELLO 3");
    client.check(SICILY.0, SICILY.1);
    client.check(
        "GEOPOS g Palermo nowhere",
        "*2\r\n*2\r\n,13.361389338970184\r\n,38.1155563954963\r\n_\r\n",
    );
    client.check("GEODIST g Palermo Catania", "$11\r\n166274.1516\r\n");
}

/// The destination is the value of the last option, which must be claimed and whose clients are
/// served.
#[test]
fn a_client_that_is_blocked_on_the_last_destination_is_served() {
    for server in [Server::nagi(), Server::redis()] {
        let [mut client, mut waiter] = [(); 2].map(|()| server.connect_resp());
        client.run("GEOADD src 15 37 p");
        for (number, search) in [
            "GEORADIUS src 15 37 10 km STORE ok STORE last",
            "GEORADIUS src 15 37 10 km STOREDIST ok COUNT 1 STORE last",
            "GEORADIUSBYMEMBER src p 10 km STORE STOREDIST STORE last",
        ]
        .iter()
        .enumerate()
        {
            waiter.send("BZPOPMIN last 0\r\n");
            let blocked =
                || client.run("INFO clients").text().contains("blocked_clients:1").then_some(());
            until("the client to block", blocked).unwrap();
            assert_eq!(client.run(search).integer(), 1, "{search}");
            assert_eq!(waiter.reply().list()[0].text(), "last", "{number}");
            assert_eq!(client.run("DBSIZE").integer(), 1, "{search}");
        }
    }
}
