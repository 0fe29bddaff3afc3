//! memcached's binary protocol.

use std::process::Command;

use harness::{Connection, Server, nagi_binary};

/// Encodes a request from its opcode, opaque, version, extras, key and value.
pub(crate) fn encode(
    opcode: u8,
    opaque: u32,
    cas: u64,
    extras: &[u8],
    key: &str,
    value: &str,
) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![0x80, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    bytes.extend([extras, key.as_bytes(), value.as_bytes()].concat());
    bytes
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) opaque: u32,
    pub(crate) cas: u64,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Receives one reply.
pub(crate) fn receive(client: &mut Connection) -> Answer {
    let header = client.take(24);
    assert_eq!((header[0], header[5]), (0x81, 0), "a reply's magic and data type");
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras = client.take(header[4].into());
    let key = client.take(key_len);
    let value_len = word(8) as usize - extras.len() - key_len;
    let value = client.take(value_len);
    let cas = u64::from_be_bytes(header[16..24].try_into().expect("eight bytes"));
    let status = u16::from_be_bytes([header[6], header[7]]);
    Answer { opcode: header[1], status, opaque: word(12), cas, extras, key, value }
}

/// Sends a request and returns its status, extras, key and value.
fn ask(
    client: &mut Connection,
    opcode: u8,
    extras: &[u8],
    key: &str,
    value: &str,
) -> (u16, Vec<u8>, String, String) {
    client.send(encode(opcode, 77, 0, extras, key, value));
    let answer = receive(client);
    assert_eq!((answer.opcode, answer.opaque), (opcode, 77), "{answer:?}");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (answer.status, answer.extras, text(answer.key), text(answer.value))
}

fn reply(status: u16, extras: &[u8], key: &str, value: &str) -> (u16, Vec<u8>, String, String) {
    (status, extras.to_vec(), key.to_owned(), value.to_owned())
}

/// Returns the extras of a store: client flags 5, and an expiry in seconds.
fn store_extras(expiry: u32) -> Vec<u8> {
    [5_u32.to_be_bytes(), expiry.to_be_bytes()].concat()
}

const FLAGS: [u8; 4] = [0, 0, 0, 5];

#[test]
fn values_are_stored_and_returned() {
    for server in [Server::nagi(), Server::memcached()] {
        let client = &mut server.connect_memcached();
        let missing = reply(1, b"", "", "Not found");
        assert_eq!(ask(client, 0x00, b"", "a", ""), missing);
        assert_eq!(ask(client, 0x03, &store_extras(0), "a", "x"), missing);
        assert_eq!(ask(client, 0x0e, b"", "a", "x"), reply(5, b"", "", "Not stored."));
        assert_eq!(ask(client, 0x02, &store_extras(0), "a", "b"), reply(0, b"", "", ""));
        let exists = reply(2, b"", "", "Data exists for key.");
        assert_eq!(ask(client, 0x02, &store_extras(0), "a", "x"), exists);
        assert_eq!(ask(client, 0x0e, b"", "a", "c"), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x0f, b"", "a", "a"), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x00, b"", "a", ""), reply(0, &FLAGS, "", "abc"));
        assert_eq!(ask(client, 0x0c, b"", "a", ""), reply(0, &FLAGS, "a", "abc"));
        assert_eq!(ask(client, 0x0c, b"", "b", ""), reply(1, b"", "b", ""));
        assert_eq!(ask(client, 0x01, &store_extras(0), "a", ""), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x00, b"", "a", ""), reply(0, &FLAGS, "", ""));
        assert_eq!(ask(client, 0x04, b"", "a", ""), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x04, b"", "a", ""), missing);
    }
}

#[test]
fn expiries_are_changed() {
    for server in [Server::nagi(), Server::memcached()] {
        let client = &mut server.connect_memcached();
        assert_eq!(ask(client, 0x1c, &[0, 0, 0, 9], "a", ""), reply(1, b"", "", "Not found"));
        assert_eq!(ask(client, 0x01, &store_extras(100), "a", "x"), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x1c, &[0, 0, 0, 200], "a", "").0, 0);
        assert_eq!(ask(client, 0x1d, &[0, 0, 0, 99], "a", ""), reply(0, &FLAGS, "", "x"));
        assert_eq!(ask(client, 0x23, &[0, 0, 0, 99], "a", ""), reply(0, &FLAGS, "a", "x"));
        let mut text = server.connect_memcached();
        text.check_raw("mg a t\r\n", "HD t99\r\n");
    }
}

/// An expiry is unsigned: times after the year 2038 are times to come.
#[test]
fn expiries_may_be_after_the_year_2038() {
    const LATE: u32 = 2_200_000_000;
    for server in [Server::nagi(), Server::memcached()] {
        let client = &mut server.connect_memcached();
        assert_eq!(ask(client, 0x01, &store_extras(LATE), "a", "x"), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x00, b"", "a", ""), reply(0, &FLAGS, "", "x"));
        assert_eq!(ask(client, 0x1c, &LATE.to_be_bytes(), "a", "").0, 0);
        assert_eq!(ask(client, 0x08, &LATE.to_be_bytes(), "", "").0, 0);
        assert_eq!(ask(client, 0x00, b"", "a", ""), reply(0, &FLAGS, "", "x"));
    }
}

#[test]
fn numbers_are_counted() {
    fn extras(amount: u64, initial: u64, expiry: u32) -> Vec<u8> {
        let numbers = [amount.to_be_bytes(), initial.to_be_bytes()].concat();
        [numbers, expiry.to_be_bytes().to_vec()].concat()
    }
    let number = |number: u64| (0, number.to_be_bytes().to_vec());
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        let mut count = |opcode: u8, extras: &[u8]| {
            client.send(encode(opcode, 1, 0, extras, "n", ""));
            let answer = receive(&mut client);
            (answer.status, answer.value)
        };
        assert_eq!(count(0x05, &extras(1, 13, u32::MAX)), (1, b"Not found".to_vec()));
        assert_eq!(count(0x05, &extras(1, 13, 0)), number(13));
        assert_eq!(count(0x05, &extras(30, 13, 0)), number(43));
        assert_eq!(count(0x06, &extras(100, 0, 0)), number(0));
        client.send(encode(0x01, 1, 0, &store_extras(0), "n", "word"));
        assert_eq!(receive(&mut client).status, 0);
        let extras = extras(1, 0, 0);
        let refused = ask(&mut client, 0x05, &extras, "n", "");
        let words = "Non-numeric server-side value for incr or decr";
        assert_eq!(refused, reply(6, b"", "", words));
    }
}

#[test]
fn a_version_guards_a_value() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        let mut run = |opcode: u8, cas: u64, extras: &[u8], value: &str| {
            client.send(encode(opcode, 0, cas, extras, "a", value));
            let answer = receive(&mut client);
            (answer.status, answer.cas)
        };
        assert_eq!(run(0x01, 9, &store_extras(0), "x"), (1, 0));
        let (status, first) = run(0x01, 0, &store_extras(0), "x");
        assert!(status == 0 && first != 0);
        assert_eq!(run(0x00, 0, b"", ""), (0, first));
        let (status, second) = run(0x01, first, &store_extras(0), "y");
        assert!(status == 0 && second != first);
        assert_eq!(run(0x01, first, &store_extras(0), "z"), (2, 0));
        assert_eq!(run(0x04, first, b"", ""), (2, 0));
        assert_eq!(run(0x04, second, b"", "").0, 0);
    }
}

#[test]
fn quiet_requests_reply_only_to_the_unexpected() {
    for server in [Server::nagi(), Server::memcached()] {
        let mut client = server.connect_memcached();
        let mut requests = Vec::new();
        let counting = [[0; 7].as_slice(), &[1], &[0; 8], &[0; 4]].concat();
        let quiet: [(u8, &[u8], &str, &str); 14] = [
            (0x09, b"", "a", ""),
            (0x0d, b"", "a", ""),
            (0x11, &store_extras(0), "a", "1"),
            (0x13, &store_extras(0), "a", "2"),
            (0x12, &store_extras(0), "b", "3"),
            (0x19, b"", "a", "0"),
            (0x1a, b"", "a", "1"),
            (0x15, &counting, "a", ""),
            (0x16, &counting, "a", ""),
            (0x1e, &[0; 4], "nothing", ""),
            (0x24, &[0; 4], "nothing", ""),
            (0x0d, b"", "a", ""),
            (0x14, b"", "a", ""),
            (0x14, b"", "a", ""),
        ];
        for (place, (opcode, extras, key, value)) in quiet.into_iter().enumerate() {
            requests.extend(encode(opcode, place as u32, 0, extras, key, value));
        }
        requests.extend(encode(0x18, 50, 0, b"", "", ""));
        requests.extend(encode(0x0a, 51, 0, b"", "", ""));
        client.send(requests);
        let found = receive(&mut client);
        assert_eq!((found.opaque, found.value), (11, b"120".to_vec()));
        let missing = receive(&mut client);
        assert_eq!((missing.opaque, missing.status), (13, 1));
        assert_eq!(receive(&mut client).opaque, 51);
        assert_eq!(ask(&mut client, 0x00, b"", "b", "").0, 1);
    }
}

#[test]
fn requests_without_keys() {
    for server in [Server::nagi(), Server::memcached()] {
        let client = &mut server.connect_memcached();
        assert_eq!(ask(client, 0x0a, b"", "", ""), reply(0, b"", "", ""));
        assert!(ask(client, 0x0b, b"", "", "").3.starts_with("1.6."));
        assert_eq!(ask(client, 0x01, &store_extras(0), "a", "x").0, 0);
        assert_eq!(ask(client, 0x08, &[0, 0, 0, 0], "", ""), reply(0, b"", "", ""));
        assert_eq!(ask(client, 0x00, b"", "a", "").0, 1);
        assert_eq!(ask(client, 0x77, b"", "", ""), reply(0x81, b"", "", "Unknown command"));
        client.send(encode(0x10, 3, 0, b"", "", ""));
        let mut names = Vec::new();
        loop {
            let field = receive(client);
            assert_eq!((field.opcode, field.status, field.opaque), (0x10, 0, 3));
            if field.key.is_empty() {
                break;
            }
            names.push(String::from_utf8(field.key).expect("text"));
        }
        for name in ["pid", "uptime", "curr_items", "get_hits", "limit_maxbytes"] {
            assert!(names.iter().any(|it| it == name), "{name} is not in {names:?}");
        }
        client.send(encode(0x07, 4, 0, b"", "", ""));
        assert_eq!(receive(client).status, 0);
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn contradictory_headers_are_refused() {
    for server in [Server::nagi(), Server::memcached()] {
        // A key longer than the whole body; a get with a value; a set without extras; no magic.
        let mut longer = encode(0x00, 1, 0, b"", "key", "");
        longer[11] = 1;
        let with_value = encode(0x00, 1, 0, b"", "key", "value");
        let without_extras = encode(0x01, 1, 0, b"", "key", "value");
        for (request, status) in [(longer, 0x81), (with_value, 4), (without_extras, 4)] {
            let mut client = server.connect_memcached();
            client.send(request);
            assert_eq!(receive(&mut client).status, status);
            assert_eq!(client.rest(), b"");
        }
        let mut client = server.connect_memcached();
        client.send(encode(0x0a, 1, 0, b"", "", ""));
        assert_eq!(receive(&mut client).status, 0);
        client.send("get a\r\nget a\r\nget a\r\nget a\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn users_of_a_file_log_in_by_sasl() {
    let users = std::env::temp_dir().join(format!("nagi-sasl-{}", std::process::id()));
    std::fs::write(&users, "ann:secret:\n").expect("writes the users");
    let mut command = Command::new(nagi_binary());
    command.args(["memcached", "-S"]).env("MEMCACHED_SASL_PWDB", &users);
    let server = Server::start_memcached(command).expect("starts");
    std::fs::remove_file(users).expect("it is there");
    let client = &mut server.connect_memcached();
    let refused = reply(0x20, b"", "", "Auth failure.");
    assert_eq!(ask(client, 0x20, b"", "", ""), reply(0, b"", "", "PLAIN"));
    assert_eq!(ask(client, 0x21, b"", "PLAIN", "\0ann\0wrong"), refused);
    let accepted = reply(0, b"", "", "Authenticated");
    assert_eq!(ask(client, 0x21, b"", "PLAIN", "\0ann\0secret"), accepted);
    assert_eq!(ask(client, 0x01, &store_extras(0), "a", "x"), reply(0, b"", "", ""));
}

/// Every request other than a login or `version`, well-formed or not, is refused and closes the
/// connection.
#[test]
fn before_a_login_only_it_and_the_version_are_answered() {
    let nagi = Server::nagi_with(&["--requirepass", "secret"]);
    let memcached = crate::differential::newest_memcached_with(&["-S"]);
    let long_key = "k".repeat(251);
    for server in [Some(nagi), memcached].into_iter().flatten() {
        let refused = reply(0x20, b"", "", "Auth failure.");
        for opcode in (0..=0x30).chain([0x77, 0xff]) {
            if matches!(opcode, 0x0b | 0x20..=0x22) {
                continue;
            }
            for key in ["", "key", &long_key] {
                let client = &mut server.connect_memcached();
                assert_eq!(ask(client, opcode, b"", key, ""), refused, "{opcode:#x}");
                assert_eq!(client.rest(), b"", "{opcode:#x}");
            }
        }
        let client = &mut server.connect_memcached();
        assert_eq!(ask(client, 0x0b, b"", "", "").0, 0);
        assert_eq!(ask(client, 0x20, b"", "", "").0, 0);
        assert_eq!(ask(client, 0x21, b"", "PLAIN", "\0default\0wrong"), refused);
        assert_eq!(ask(client, 0x0b, b"", "", "").0, 0);
        for opcode in [0x0b, 0x20] {
            let client = &mut server.connect_memcached();
            assert_eq!(ask(client, opcode, b"", "key", "").0, 4);
            assert_eq!(client.rest(), b"");
        }
    }
}

#[test]
fn a_password_is_given_by_sasl() {
    let server = Server::nagi_with(&["--requirepass", "secret"]);
    let client = &mut server.connect_memcached();
    let refused = reply(0x20, b"", "", "Auth failure.");
    assert_eq!(ask(client, 0x20, b"", "", ""), reply(0, b"", "", "PLAIN"));
    for (mechanism, login) in [
        ("PLAIN", "\0default\0wrong"),
        ("PLAIN", "\0nobody\0secret"),
        ("PLAIN", "default secret"),
        ("PLAIN", ""),
        ("CRAM-MD5", "\0default\0secret"),
    ] {
        assert_eq!(ask(client, 0x21, b"", mechanism, login), refused, "{login:?}");
        let other = &mut server.connect_memcached();
        assert_eq!(ask(other, 0x21, b"", mechanism, login), refused, "{login:?}");
        assert_eq!(ask(other, 0x00, b"", "a", ""), refused);
        assert_eq!(other.rest(), b"");
    }
    let accepted = reply(0, b"", "", "Authenticated");
    assert_eq!(ask(client, 0x21, b"", "PLAIN", "\0default\0secret"), accepted);
    assert_eq!(ask(client, 0x01, &store_extras(0), "a", "x"), reply(0, b"", "", ""));
    assert_eq!(ask(client, 0x00, b"", "a", ""), reply(0, &FLAGS, "", "x"));
    let open = Server::nagi();
    let client = &mut open.connect_memcached();
    let unknown = reply(0x81, b"", "", "Unknown command");
    assert_eq!(ask(client, 0x20, b"", "", ""), unknown);
    assert_eq!(ask(client, 0x21, b"", "PLAIN", "\0default\0secret"), unknown);
}

#[test]
fn a_login_by_sasl_ends_the_one_before() {
    let server = Server::nagi_with(&["--requirepass", "secret"]);
    let client = &mut server.connect_memcached();
    let refused = reply(0x20, b"", "", "Auth failure.");
    let accepted = reply(0, b"", "", "Authenticated");
    let missing = reply(1, b"", "", "Not found");
    let (right, wrong) = ("\0default\0secret", "\0default\0wrong");
    assert_eq!(ask(client, 0x22, b"", "PLAIN", right), refused, "a step without a beginning");
    for (opcode, mechanism, login) in
        [(0x21, "PLAIN", wrong), (0x21, "CRAM-MD5", right), (0x22, "PLAIN", right)]
    {
        let client = &mut server.connect_memcached();
        assert_eq!(ask(client, 0x21, b"", "PLAIN", right), accepted);
        assert_eq!(ask(client, 0x00, b"", "a", ""), missing);
        assert_eq!(ask(client, opcode, b"", mechanism, login), refused);
        assert_eq!(ask(client, 0x00, b"", "a", ""), refused, "{opcode:#x} {mechanism} {login:?}");
    }
    let invalid = reply(0x04, b"", "", "Invalid arguments");
    for opcode in [0x21, 0x22] {
        assert_eq!(ask(client, opcode, b"", &"P".repeat(33), right), invalid);
        assert_eq!(ask(client, opcode, b"", &"P".repeat(32), right), refused);
    }
}

/// The status of a request whose body is longer than announced here, and is not sent.
fn status_of_head(client: &mut Connection, head: &[u8]) -> u16 {
    client.send(head);
    receive(client).status
}

/// The head of a request with its extras and key, whose value would have this length.
fn head(opcode: u8, extras: &[u8], key: &str, value_len: u32) -> Vec<u8> {
    let mut head = encode(opcode, 0, 0, extras, key, "");
    let body = (extras.len() + key.len()) as u32 + value_len;
    head[8..12].copy_from_slice(&body.to_be_bytes());
    head
}

#[test]
fn only_a_set_that_is_too_long_removes_the_old_value() {
    let server = Server::nagi_with(&["--requirepass", "sesame"]);
    let mut redis = server.connect_resp();
    redis.check("AUTH sesame", "+OK\r\n");
    redis.check("SET secret 1", "+OK\r\n");
    for opcode in [0x21, 0x22] {
        let mut stranger = server.connect_memcached();
        assert_ne!(status_of_head(&mut stranger, &head(opcode, b"", "secret", 1025)), 0);
        redis.check("GET secret", "$1\r\n1\r\n");
    }
    for (opcode, extras, is_kept) in
        [(0x02, 8, true), (0x03, 8, true), (0x0e, 0, true), (0x0f, 0, true), (0x01, 8, false)]
    {
        let mut client = server.connect_memcached();
        client.send(encode(0x21, 0, 0, b"", "PLAIN", "\0default\0sesame"));
        assert_eq!(receive(&mut client).status, 0);
        let request = head(opcode, &vec![0; extras], "secret", (1 << 20) + 1);
        assert_eq!(status_of_head(&mut client, &request), 3, "{opcode:#x}");
        redis.check("EXISTS secret", format!(":{}\r\n", u8::from(is_kept)));
    }
}
