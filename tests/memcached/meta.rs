//! memcached's meta commands.
//!
//! Requests to which memcached 1.6.18 and 1.6.45 reply in the same way are compared with the
//! memcached that setup installs; the others are compared with the newest one, if it is installed.

use harness::{Connection, Server, as_memcached};

/// Starts an empty nagi, and the newest memcached that is installed.
fn servers() -> impl Iterator<Item = Server> {
    [Some(Server::nagi()), crate::differential::newest_memcached()].into_iter().flatten()
}

/// Sends requests to an empty nagi, and to the newest memcached that is installed.
fn as_newest_memcached(conversation: &[(&str, &str)]) {
    for server in servers() {
        let mut client = server.connect_memcached();
        for (request, reply) in conversation {
            client.check_raw(request, reply);
        }
    }
}

/// Returns the number after the letter `c` in the next line.
fn version_in_line(client: &mut Connection) -> u64 {
    let line = client.line();
    let number = line.split(' ').find_map(|word| word.strip_prefix('c')?.parse().ok());
    number.unwrap_or_else(|| panic!("a version in {line}"))
}

#[test]
fn a_value_is_shown_with_the_flags_that_were_asked_for() {
    as_memcached(&[
        ("mg a v\r\n", "EN\r\n"),
        ("ms a 2 T100 F7\r\nhi\r\n", "HD\r\n"),
        ("mg a\r\n", "HD\r\n"),
        ("mg a s v t k f O123 l h\r\n", "VA 2 s2 t100 ka f7 O123 l0 h1\r\nhi\r\n"),
        ("mg a T200 t\r\n", "HD t200\r\n"),
        ("mg a v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("mg a z\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("md a k O9\r\n", "HD ka O9\r\n"),
        ("md a\r\n", "NF\r\n"),
    ]);
}

#[test]
fn quiet_requests_end_with_a_mark() {
    as_memcached(&[
        (
            "mg a v q\r\nms a 2 q\r\n10\r\nma a q\r\nmg a v k q\r\nmd a q\r\nmd a q k\r\nmn\r\n",
            "VA 2 ka\r\n11\r\nNF ka\r\nMN\r\n",
        ),
        ("ms a 1 ME q\r\nx\r\nms a 1 ME q k\r\ny\r\nmn\r\n", "NS ka\r\nMN\r\n"),
        ("mn\r\n", "MN\r\n"),
    ]);
}

#[test]
fn a_mode_says_how_to_store() {
    as_memcached(&[
        ("ms a 1 MR\r\nx\r\n", "NS\r\n"),
        ("ms a 1 MA\r\nx\r\n", "NS\r\n"),
        ("ms a 2 ME\r\nhi\r\n", "HD\r\n"),
        ("ms a 1 ME\r\nx\r\n", "NS\r\n"),
        ("ms a 1 MA\r\n!\r\n", "HD\r\n"),
        ("ms a 1 MP\r\n.\r\n", "HD\r\n"),
        ("mg a v\r\n", "VA 4\r\n.hi!\r\n"),
        ("ms a 1 MR\r\nx\r\n", "HD\r\n"),
        ("ms a 1 MS\r\ny\r\n", "HD\r\n"),
        ("mg a v\r\n", "VA 1\r\ny\r\n"),
        ("ms a 1 Mx\r\nx\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n"),
    ]);
}

#[test]
fn a_store_replies_with_the_length_of_the_whole() {
    as_newest_memcached(&[
        ("ms a 2 s\r\nhi\r\n", "HD s2\r\n"),
        ("ms a 1 s MA\r\n!\r\n", "HD s3\r\n"),
        ("ms a 1 MP s\r\n.\r\n", "HD s4\r\n"),
        ("ms a 1 ME s\r\nx\r\n", "NS s1\r\n"),
        ("ms b 2 MA s\r\nhi\r\n", "NS s2\r\n"),
        ("ms b 2 MA N0 s\r\nhi\r\n", "HD s2\r\n"),
    ]);
}

#[test]
fn numbers_are_counted() {
    as_memcached(&[
        ("ma n\r\n", "NF\r\n"),
        ("ma n N0 J13 v t\r\n", "VA 2 t-1\r\n13\r\n"),
        ("ma n v D30 k O1\r\n", "VA 2 kn O1\r\n43\r\n"),
        ("ma n v MD D13\r\n", "VA 2\r\n30\r\n"),
        ("ma n T100 t\r\n", "HD t100\r\n"),
        ("ma n Dx\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("ma n Mx\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n"),
        ("ms n 2\r\nhi\r\n", "HD\r\n"),
        ("ma n\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
}

#[test]
fn a_version_guards_a_value() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        client.send("ms a 2 c\r\n10\r\n");
        let first = version_in_line(&mut client);
        client.send("mg a c\r\n");
        assert_eq!(version_in_line(&mut client), first);
        client.send(format!("ma a c C{first}\r\n"));
        let second = version_in_line(&mut client);
        assert_ne!(first, second);
        client.check_raw(format!("ms a 2 C{first}\r\nno\r\n"), "EX\r\n");
        client.check_raw(format!("ma a C{first}\r\n"), "EX\r\n");
        client.check_raw(format!("md a C{first}\r\n"), "EX\r\n");
        client.check_raw(format!("md a C{second}\r\n"), "HD\r\n");
        client.check_raw(format!("ms a 2 C{second}\r\nno\r\n"), "NF\r\n");
    }
}

#[test]
fn one_client_wins_an_entry_that_is_stale_missing_or_about_to_expire() {
    as_memcached(&[
        ("ms a 2 T100\r\nhi\r\n", "HD\r\n"),
        ("mg a R30\r\n", "HD\r\n"),
        ("mg a R300 v\r\n", "VA 2 W\r\nhi\r\n"),
        ("mg a R300 v\r\n", "VA 2 Z\r\nhi\r\n"),
        ("md a I T30\r\n", "HD\r\n"),
        ("mg a t v\r\n", "VA 2 t30 X W\r\nhi\r\n"),
        ("mg a v\r\n", "VA 2 Z X\r\nhi\r\n"),
        ("ms a 3\r\nnew\r\n", "HD\r\n"),
        ("mg a v t\r\n", "VA 3 t-1\r\nnew\r\n"),
        ("mg b N30 v t\r\n", "VA 0 t30 W\r\n\r\n"),
        ("mg b N30 v t\r\n", "VA 0 t30 Z\r\n\r\n"),
        ("ms b 2\r\nhi\r\n", "HD\r\n"),
        ("mg b v\r\n", "VA 2\r\nhi\r\n"),
    ]);
}

#[test]
fn a_value_may_be_taken_out_of_its_entry() {
    as_newest_memcached(&[
        ("ms a 2 F5 T100\r\nhi\r\n", "HD\r\n"),
        ("md a x\r\n", "HD\r\n"),
        ("mg a v f t\r\n", "VA 0 f0 t-1\r\n\r\n"),
        ("md a x F9\r\n", "HD\r\n"),
        ("mg a v f\r\n", "VA 0 f9\r\n\r\n"),
        ("ms a 2 F5\r\nhi\r\n", "HD\r\n"),
        ("md a x I F9 T100 E77\r\n", "HD\r\n"),
        ("mg a v f t c\r\n", "VA 0 f9 t100 c77 X W\r\n\r\n"),
        ("ms a 2 F5\r\nhi\r\n", "HD\r\n"),
        ("md a I F9\r\n", "HD\r\n"),
        ("mg a v f\r\n", "VA 2 f5 X W\r\nhi\r\n"),
    ]);
}

#[test]
fn keys_may_be_spelled_in_base64() {
    as_memcached(&[
        ("ms AAEC 2 b k\r\nhi\r\n", "HD kAAEC b\r\n"),
        ("mg AAEC v k b\r\n", "VA 2 kAAEC b\r\nhi\r\n"),
        ("mg AAEC v\r\n", "EN\r\n"),
        ("ms bmFnaQ== 2 b\r\nhi\r\n", "HD\r\n"),
        ("get nagi\r\n", "VALUE nagi 0 2\r\nhi\r\nEND\r\n"),
        ("md AAEC b k O1\r\n", "HD kAAEC b O1\r\n"),
        ("mg AAE b\r\n", "CLIENT_ERROR error decoding key\r\n"),
    ]);
}

#[test]
fn an_entry_is_described() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        client.check_raw("me a\r\n", "EN\r\n");
        client.check_raw("set a 0 100 2\r\nhi\r\n", "STORED\r\n");
        client.send("me a\r\n");
        let line = client.line();
        let words: Vec<&str> = line.split(' ').collect();
        let names: Vec<&str> =
            words[2..].iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
        assert_eq!(names, ["exp", "la", "cas", "fetch", "cls", "size"], "{line}");
        assert!(line.starts_with("ME a ") && words.contains(&"fetch=no"), "{line}");
        client.check_raw("mg a\r\n", "HD\r\n");
        client.send("me a\r\n");
        assert!(client.line().contains(" fetch=yes "));
    }
}

#[test]
fn a_version_that_is_known_is_answered_without_its_value() {
    for server in servers() {
        let mut client = server.connect_memcached();
        client.check_raw("ms a 3 F5\r\nabc\r\n", "HD\r\n");
        client.send("mg a c\r\n");
        let cas = version_in_line(&mut client);
        let other = cas + 1;
        client.check_raw(format!("mg a C{cas} v\r\n"), "HD\r\n");
        client.check_raw(format!("mg a C{cas} v q\r\n"), "HD\r\n");
        client.check_raw(
            format!("mg a C{cas} v c f t s k O12\r\n"),
            format!("HD c{cas} f5 t-1 s3 ka O12\r\n"),
        );
        client.check_raw(format!("mg a C{cas} v T100 t\r\n"), "HD t100\r\n");
        client.check_raw(format!("mg a C{other} v\r\n"), "VA 3\r\nabc\r\n");
        client.check_raw(format!("mg a C{other}\r\n"), "HD\r\n");
        client.check_raw("mg b C0 v N30\r\n", "VA 0 W\r\n\r\n");
        client.check_raw("mg a Cx v\r\n", "CLIENT_ERROR bad token in command line format\r\n");
    }
}
