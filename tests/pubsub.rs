//! Publish and subscribe: messages between clients.

use harness::{Connection, Random, Reply, Server, as_redis, encode_command, until};
use std::collections::HashMap;
use std::thread;

fn message(kind: &str, words: &[&str]) -> String {
    let words = [&[kind], words].concat();
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}

fn confirmed(kind: &str, name: &str, count: usize) -> String {
    format!("3\r\n${}\r\n{kind}\r\n${}\r\n{name}\r\n:{count}\r\n", kind.len(), name.len())
}

/// Connects a client with a version of the protocol. Returns it and the first byte of its messages.
fn connect(server: &Server, version: u32) -> (Connection, char) {
    let mut client = server.connect_resp();
    client.run(&format!("HELLO {version}"));
    (client, if version == 3 { '>' } else { '*' })
}

/// Waits until a condition is true.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || is_so().then_some(())).unwrap();
}

#[test]
fn reset_ends_any_number_of_subscriptions() {
    let server = Server::nagi();
    let (mut client, mut control) = (server.connect_resp(), server.connect_resp());
    let names: Vec<String> = (0..5000).map(|number| format!("channel:{number}")).collect();
    client.run("HELLO 3");
    subscribe_to(&mut client, &names);
    client.check("RESET", "+RESET\r\n");
    eventually("the channels to be removed", || control.run("PUBSUB CHANNELS").list().is_empty());
    client.check("PING", "+PONG\r\n");
}

/// A request that subscribes to channels.
fn subscription_to(names: &[String]) -> Vec<u8> {
    let words: Vec<_> =
        std::iter::once("SUBSCRIBE").chain(names.iter().map(String::as_str)).collect();
    encode_command(&words)
}

/// Subscribes a client of RESP3 to channels, and checks the confirmations.
fn subscribe_to(client: &mut Connection, names: &[String]) {
    client.send(subscription_to(names));
    for (name, count) in names.iter().zip(1..) {
        client.expect(format!(">{}", confirmed("subscribe", name, count)));
    }
}

fn both() -> impl Iterator<Item = (Server, u32)> {
    [2, 3].into_iter().flat_map(|version| [(Server::nagi(), version), (Server::redis(), version)])
}

#[test]
fn subscriptions_are_confirmed_one_by_one() {
    for (server, version) in both() {
        let (mut client, kind) = connect(&server, version);
        let null = if version == 3 { "_\r\n" } else { "$-1\r\n" };
        let none = |word: &str, count| {
            format!("{kind}3\r\n${}\r\n{word}\r\n{null}:{count}\r\n", word.len())
        };
        let many = |words: &[(&str, &str, usize)]| -> String {
            let one = |(word, name, count): &(&str, &str, usize)| confirmed(word, name, *count);
            words.iter().map(|it| format!("{kind}{}", one(it))).collect()
        };
        client.check("UNSUBSCRIBE", none("unsubscribe", 0));
        client.check("PUNSUBSCRIBE", none("punsubscribe", 0));
        client.check("SUNSUBSCRIBE", none("sunsubscribe", 0));
        client.check("UNSUBSCRIBE a b", many(&[("unsubscribe", "a", 0), ("unsubscribe", "b", 0)]));
        client.check("SUBSCRIBE a b", many(&[("subscribe", "a", 1), ("subscribe", "b", 2)]));
        client.check("subscribe a c", many(&[("subscribe", "a", 2), ("subscribe", "c", 3)]));
        client.check("PSUBSCRIBE a* a*", many(&[("psubscribe", "a*", 4), ("psubscribe", "a*", 4)]));
        client.check("SSUBSCRIBE a b", many(&[("ssubscribe", "a", 1), ("ssubscribe", "b", 2)]));
        client
            .check("SUNSUBSCRIBE b c", many(&[("sunsubscribe", "b", 1), ("sunsubscribe", "c", 1)]));
        client.check("UNSUBSCRIBE c d", many(&[("unsubscribe", "c", 3), ("unsubscribe", "d", 3)]));
        client.check("PUNSUBSCRIBE b*", many(&[("punsubscribe", "b*", 3)]));
        client.check("PUNSUBSCRIBE", many(&[("punsubscribe", "a*", 2)]));
        client.check("SUNSUBSCRIBE", many(&[("sunsubscribe", "a", 0)]));
        client.send(encode_command(&["UNSUBSCRIBE"]));
        let mut names: Vec<_> = (0..2).map(|_| client.reply().list()[1].text()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        client.check("UNSUBSCRIBE", none("unsubscribe", 0));
        client.check("GET key", null);
    }
}

#[test]
fn messages_come_by_channel_pattern_and_shard() {
    for (server, version) in both() {
        let (mut client, kind) = connect(&server, version);
        client.check("SUBSCRIBE news", format!("{kind}{}", confirmed("subscribe", "news", 1)));
        client.check("PSUBSCRIBE n?ws", format!("{kind}{}", confirmed("psubscribe", "n?ws", 2)));
        client.check("SSUBSCRIBE news", format!("{kind}{}", confirmed("ssubscribe", "news", 1)));
        let mut publisher = server.connect_resp();
        publisher.check("PUBLISH news \"good news\"", ":2\r\n");
        publisher.check("PUBLISH nEws x", ":1\r\n");
        publisher.check("SPUBLISH news y", ":1\r\n");
        publisher.check("SPUBLISH nEws y", ":0\r\n");
        publisher.check("PUBLISH none \"\"", ":0\r\n");
        publisher.check("PUBLISH news \"\"", ":2\r\n");
        for expected in [
            message("message", &["news", "good news"]),
            message("pmessage", &["n?ws", "news", "good news"]),
            message("pmessage", &["n?ws", "nEws", "x"]),
            message("smessage", &["news", "y"]),
            message("message", &["news", ""]),
            message("pmessage", &["n?ws", "news", ""]),
        ] {
            client.expect(format!("{kind}{expected}"));
        }
    }
}

#[test]
fn a_transaction_subscribes_to_no_channel_of_a_shard() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("MULTI", "+OK\r\n");
        client.check("SSUBSCRIBE a", "+QUEUED\r\n");
        let refused = "-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n";
        client.check("EXEC", format!("*1\r\n{refused}"));
        client.check("GET a", "$-1\r\n");
    }
}

#[test]
fn a_client_of_resp2_that_subscribes_may_do_little_else() {
    let refused = |name: &str| {
        format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context\r\n"
        )
    };
    for request in ["SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a"] {
        for server in [Server::nagi(), Server::redis()] {
            let mut client = server.connect_resp();
            client.run(request);
            client.check("GET key", refused("get"));
            client.check("CLIENT ID", refused("client|id"));
            client.check("HELLO 3", refused("hello"));
            client.check("PUBLISH a b", refused("publish"));
            client.check("GET", "-ERR wrong number of arguments for 'get' command\r\n");
            client.check("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
            client.check("PING hello", "*2\r\n$4\r\npong\r\n$5\r\nhello\r\n");
            client.check("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n");
            client.check("RESET", "+RESET\r\n");
            client.check("GET key", "$-1\r\n");
            client.check("PING", "+PONG\r\n");
            let mut other = server.connect_resp();
            other.check("PUBLISH a b", ":0\r\n");
            other.check("SPUBLISH a b", ":0\r\n");
            client.run(request);
            client.check("QUIT", "+OK\r\n");
            assert_eq!(client.rest(), b"");
        }
    }
}

#[test]
fn a_client_of_resp3_that_subscribes_may_do_everything() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut client, _) = connect(&server, 3);
        client.run("SUBSCRIBE a");
        client.check("SET key value", "+OK\r\n");
        client.check("PING", "+PONG\r\n");
        let line = client.run("CLIENT LIST").text();
        assert!(line.contains(" flags=P ") && line.contains(" sub=1 psub=0 ssub=0 "), "{line}");
        client.run("HELLO 2");
        client.check("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        client.check("UNSUBSCRIBE", format!("*{}", confirmed("unsubscribe", "a", 0)));
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn ones_own_messages_follow_ones_own_reply() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, _) = connect(&server, 3);
    let requests =
        ["SUBSCRIBE a", "PUBLISH a 1", "PUBLISH a 2", "HELLO 2", "UNSUBSCRIBE a", "PUBLISH a 3"];
    for _ in 0..100 {
        let words = requests.map(|request| request.split(' ').collect::<Vec<_>>());
        client.send(words.map(|words| encode_command(&words)).concat());
        client.expect(format!(">{}", confirmed("subscribe", "a", 1)));
        for number in ["1", "2"] {
            client.expect(format!(":1\r\n>{}", message("message", &["a", number])));
        }
        assert!(matches!(client.reply(), Reply::Array(_)));
        client.expect(format!("*{}", confirmed("unsubscribe", "a", 0)));
        client.expect(":0\r\n");
        client.run("HELLO 3");
    }
}

/// A transaction first replies to its requests; messages follow these replies.
#[test]
fn messages_follow_the_replies_of_a_transaction() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, _) = connect(&server, 3);
    client.run("SUBSCRIBE a");
    client.check("MULTI", "+OK\r\n");
    let queued = ["PUBLISH a x", "SUBSCRIBE b", "PUBLISH b y", "UNSUBSCRIBE a b", "PUBLISH a z"];
    for request in queued {
        client.check(request, "+QUEUED\r\n");
    }
    let first = format!("*5\r\n:1\r\n>{}:1\r\n", confirmed("subscribe", "b", 2));
    let unsubscribed = |name, count| format!(">{}", confirmed("unsubscribe", name, count));
    let second = format!("{}{}:0\r\n", unsubscribed("a", 1), unsubscribed("b", 0));
    let of = |name, word| format!(">{}", message("message", &[name, word]));
    client.check("EXEC", format!("{first}{second}{}{}", of("a", "x"), of("b", "y")));
    client.check("PING", "+PONG\r\n");
    assert_eq!(server.connect_resp().info::<u64>("pubsub_clients"), 0);
}

#[test]
fn messages_come_to_a_client_that_wants_no_replies() {
    for (server, version) in both() {
        let (mut client, kind) = connect(&server, version);
        let mut publisher = server.connect_resp();
        client.send("CLIENT REPLY OFF\r\n");
        client.check("SUBSCRIBE a", format!("{kind}{}", confirmed("subscribe", "a", 1)));
        publisher.check("PUBLISH a x", ":1\r\n");
        client.expect(format!("{kind}{}", message("message", &["a", "x"])));
        client.send("PING\r\n");
        client.check("UNSUBSCRIBE a", format!("{kind}{}", confirmed("unsubscribe", "a", 0)));
        client.check("CLIENT REPLY ON", "+OK\r\n");
        client.send("CLIENT REPLY SKIP\r\n");
        client.check("SUBSCRIBE a", format!("{kind}{}", confirmed("subscribe", "a", 1)));
        client.check("UNSUBSCRIBE a", format!("{kind}{}", confirmed("unsubscribe", "a", 0)));
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn channels_are_listed_and_counted() {
    for server in [Server::nagi(), Server::redis()] {
        let (mut client, _) = connect(&server, 3);
        let (mut other, _) = connect(&server, 3);
        client.send("SUBSCRIBE a1\r\nSUBSCRIBE b1\r\nPSUBSCRIBE *\r\nSSUBSCRIBE s1\r\n");
        (0..4).for_each(|_| drop(client.reply()));
        other.send("SUBSCRIBE a1\r\nPSUBSCRIBE *\r\nPSUBSCRIBE b\r\n");
        (0..3).for_each(|_| drop(other.reply()));
        let mut third = server.connect_resp();
        let mut listed: Vec<_> =
            third.run("PUBSUB CHANNELS").list().iter().map(Reply::text).collect();
        listed.sort();
        assert_eq!(listed, ["a1", "b1"]);
        third.check("PUBSUB CHANNELS a*", "*1\r\n$2\r\na1\r\n");
        third.check("PUBSUB CHANNELS s*", "*0\r\n");
        third.check("PUBSUB SHARDCHANNELS", "*1\r\n$2\r\ns1\r\n");
        third.check("PUBSUB SHARDCHANNELS a*", "*0\r\n");
        third.check("PUBSUB NUMPAT", ":2\r\n");
        third.check("PUBSUB NUMSUB", "*0\r\n");
        third.check(
            "PUBSUB NUMSUB a1 s1 a1",
            "*6\r\n$2\r\na1\r\n:2\r\n$2\r\ns1\r\n:0\r\n$2\r\na1\r\n:2\r\n",
        );
        third.check("PUBSUB SHARDNUMSUB a1 s1", "*4\r\n$2\r\na1\r\n:0\r\n$2\r\ns1\r\n:1\r\n");
        assert_eq!(server.connect_resp().info::<u64>("pubsub_channels"), 2);
        assert_eq!(server.connect_resp().info::<u64>("pubsub_patterns"), 2);
        assert_eq!(server.connect_resp().info::<u64>("pubsubshard_channels"), 1);
        let lines = third.run("CLIENT LIST TYPE pubsub").text();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains(" flags=P ") && lines.contains(" sub=2 psub=1 ssub=1 "), "{lines}");
        eventually("the connections that asked for INFO to go", || {
            third.run("CLIENT LIST TYPE normal").text().lines().count() == 1
        });
        third.check("CLIENT KILL TYPE normal", ":0\r\n");
        third.check("CLIENT KILL TYPE pubsub", ":2\r\n");
        assert_eq!((client.rest(), other.rest()), (Vec::new(), Vec::new()));
        let gone = || third.run("PUBSUB NUMSUB a1 b1 s1").list()[1] == Reply::Integer(0);
        eventually("the subscriptions to go", gone);
        third.check("PUBLISH a1 x", ":0\r\n");
        third.check("PUBSUB NUMPAT", ":0\r\n");
        third.check("PUBSUB CHANNELS", "*0\r\n");
    }
    let server = Server::nagi();
    let (mut client, _) = connect(&server, 3);
    client.run("SUBSCRIBE a");
    assert_eq!(server.connect_resp().info::<u64>("pubsub_clients"), 1);
    client.run("UNSUBSCRIBE");
    assert_eq!(server.connect_resp().info::<u64>("pubsub_clients"), 0);
}

#[test]
fn nonsense_is_refused() {
    let few = |name: &str| format!("-ERR wrong number of arguments for '{name}' command\r\n");
    let many = |name: &str| {
        format!(
            "-ERR unknown subcommand or wrong number of arguments for '{name}'. \
             Try PUBSUB HELP.\r\n"
        )
    };
    as_redis(&[
        ("SUBSCRIBE", &few("subscribe")),
        ("PSUBSCRIBE", &few("psubscribe")),
        ("SSUBSCRIBE", &few("ssubscribe")),
        ("PUBLISH a", &few("publish")),
        ("SPUBLISH a b c", &few("spublish")),
        ("PUBSUB", &few("pubsub")),
        ("PUBSUB NUMPAT x", &few("pubsub|numpat")),
        ("PUBSUB CHANNELS a b", &many("CHANNELS")),
        ("PUBSUB SHARDCHANNELS a b", &many("SHARDCHANNELS")),
        ("PUBSUB nonsense", "-ERR unknown subcommand 'nonsense'. Try PUBSUB HELP.\r\n"),
        ("COMMAND GETKEYS SSUBSCRIBE a", "-ERR The command has no key arguments\r\n"),
        ("COMMAND GETKEYS PUBLISH a b", "-ERR The command has no key arguments\r\n"),
    ]);
    let server = Server::nagi();
    let help = server.connect_resp().run("PUBSUB HELP");
    assert!(help.list()[1].text().starts_with("CHANNELS"), "{help:?}");
}

/// A message must reach every client whose subscription was confirmed, and no client whose
/// unsubscription was confirmed.
#[test]
fn subscriptions_begin_and_end_where_they_are_confirmed() {
    let server = Server::nagi_with(&["--workers", "3"]);
    let mut publisher = server.connect_resp();
    let mut clients: Vec<_> = (0..6).map(|_| connect(&server, 3).0).collect();
    let mut random = Random::announced();
    let mut subscribed = vec![false; clients.len()];
    for round in 0..2000 {
        let index = random.below(clients.len() as u64) as usize;
        let verb = if subscribed[index] { "UNSUBSCRIBE" } else { "SUBSCRIBE" };
        let word = verb.to_lowercase();
        subscribed[index] ^= true;
        let count = usize::from(subscribed[index]);
        clients[index].check(&format!("{verb} a"), format!(">{}", confirmed(&word, "a", count)));
        let receivers = subscribed.iter().filter(|subscribed| **subscribed).count();
        publisher.check(&format!("PUBLISH a {round}"), format!(":{receivers}\r\n"));
        for (client, _) in
            clients.iter_mut().zip(&subscribed).filter(|(_, subscribed)| **subscribed)
        {
            client.expect(format!(">{}", message("message", &["a", &round.to_string()])));
        }
    }
}

/// Publishers run on all workers, some of which wait for their replies, and subscribers run on all
/// workers. Each publisher's messages must arrive in its order, across channels, and all
/// subscribers must see the messages of a channel or of a pattern in the same order.
#[test]
fn all_subscribers_see_one_order() {
    const PUBLISHERS: usize = 4;
    const MESSAGES: usize = 2000;
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut listeners: Vec<_> = (0..8).map(|index| connect(&server, 2 + index % 2).0).collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        if index < 4 {
            listener.run("PSUBSCRIBE c*");
        } else {
            listener.send("SUBSCRIBE c0 c1 c2\r\n");
            (0..3).for_each(|_| drop(listener.reply()));
        }
    }
    let seen: Vec<Vec<(String, String)>> = thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let mut client = server.connect_resp();
            scope.spawn(move || {
                let burst = if publisher % 2 == 0 { 1 } else { 50 };
                for start in (0..MESSAGES).step_by(burst) {
                    for number in start..start + burst {
                        let channel = format!("c{}", number % 3);
                        client.send(encode_command(&[
                            "PUBLISH",
                            &channel,
                            &format!("{publisher}:{number}"),
                        ]));
                    }
                    for _ in 0..burst {
                        client.expect(":8\r\n");
                    }
                }
            });
        }
        let listen = |mut listener: Connection| {
            let mut next = || {
                let words = listener.reply();
                let words = words.list();
                (words[words.len() - 2].text(), words[words.len() - 1].text())
            };
            (0..PUBLISHERS * MESSAGES).map(|_| next()).collect()
        };
        let listening: Vec<_> =
            listeners.into_iter().map(|listener| scope.spawn(move || listen(listener))).collect();
        listening.into_iter().map(|listener| listener.join().unwrap()).collect()
    });
    for seen in &seen {
        for publisher in 0..PUBLISHERS {
            let own = format!("{publisher}:");
            let numbers = seen.iter().filter_map(|(_, message)| message.strip_prefix(&own));
            assert!(numbers.map(|number| number.parse::<usize>().unwrap()).eq(0..MESSAGES));
        }
    }
    for (index, other) in seen.iter().enumerate().skip(1) {
        for channel in ["c0", "c1", "c2"] {
            let of = |seen: &[(String, String)]| -> Vec<String> {
                let own = seen.iter().filter(|(name, _)| name == channel);
                own.map(|(_, message)| message.clone()).collect()
            };
            assert!(of(other) == of(&seen[0]), "{index} sees another order of {channel}");
        }
    }
    assert!(seen[..4].iter().all(|other| *other == seen[0]), "the order of a pattern");
}

/// The subscriber is closed because of the limit of its class, while other clients, including a
/// subscriber, are served.
#[test]
fn a_slow_subscriber_is_cut_off() {
    let limits = "normal 0 0 0 slave 0 0 0 pubsub 8mb 0 0";
    let server = Server::nagi_with(&["--workers", "2", "--client-output-buffer-limit", limits]);
    let (mut slow, _) = connect(&server, 3);
    let (mut quick, _) = connect(&server, 3);
    slow.run("SUBSCRIBE a");
    quick.run("SUBSCRIBE a");
    let mut publisher = server.connect_resp();
    let long = "x".repeat(100_000);
    let mut sent = 0;
    loop {
        let Reply::Integer(receivers) = publisher.run(&format!("PUBLISH a {long}")) else {
            panic!("a number of receivers")
        };
        quick.expect(format!(">{}", message("message", &["a", &long])));
        publisher.check("PING", "+PONG\r\n");
        sent += 1;
        if receivers == 1 {
            break;
        }
        assert!(sent < 1000, "it is never cut off");
    }
    assert!(sent > 80, "{sent} messages are less than the limit");
    assert!(server.log().contains("unread replies exceed client-output-buffer-limit"));
    assert_eq!(server.connect_resp().info::<u64>("client_output_buffer_limit_disconnections"), 1);
    drop(slow);
}

#[test]
fn a_subscriber_that_is_slow_for_long_is_cut_off() {
    let limits = "normal 0 0 0 slave 0 0 0 pubsub 0 1mb 1";
    let server = Server::nagi_with(&["--client-output-buffer-limit", limits]);
    let (mut slow, _) = connect(&server, 3);
    slow.run("SUBSCRIBE a");
    let mut publisher = server.connect_resp();
    let long = "x".repeat(1 << 20);
    for _ in 0..12 {
        publisher.check(&format!("PUBLISH a {long}"), ":1\r\n");
    }
    let is_alone = || publisher.run("PUBSUB NUMSUB a").list()[1] == Reply::Integer(0);
    eventually("it to be cut off", is_alone);
}

/// A thousand subscribers on several workers each receive every message. A publisher that does not
/// wait for its replies has to wait until messages have been sent.
#[test]
fn a_thousand_subscribers() {
    const CLIENTS: usize = 1000;
    const MESSAGES: usize = 200;
    let server = Server::nagi_with(&["--workers", "4"]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect_resp()).collect();
    for client in &mut clients {
        client.check("SUBSCRIBE a", format!("*{}", confirmed("subscribe", "a", 1)));
    }
    let mut publisher = server.connect_resp();
    let padding = "x".repeat(500);
    let words = |number: usize| format!("{number}:{padding}");
    for number in 0..MESSAGES {
        publisher.send(encode_command(&["PUBLISH", "a", &words(number)]));
    }
    let mut other = server.connect_resp();
    other.check("PING", "+PONG\r\n");
    publisher.expect(format!(":{CLIENTS}\r\n").repeat(MESSAGES));
    let all: String = (0..MESSAGES)
        .map(|number| format!("*{}", message("message", &["a", &words(number)])))
        .collect();
    for client in &mut clients {
        client.expect(&all);
    }
    other.check("PUBSUB NUMSUB a", format!("*2\r\n$1\r\na\r\n:{CLIENTS}\r\n"));
    drop(clients);
    let is_alone = || other.run("PUBSUB NUMSUB a").list()[1] == Reply::Integer(0);
    eventually("all to have left", is_alone);
    other.check("PUBLISH a x", ":0\r\n");
}

#[test]
fn long_names_and_messages() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let mut clients: Vec<_> = [2, 3, 3].map(|version| connect(&server, version)).into();
    let (name, long) = ("n".repeat(200_000), "m".repeat(3_000_000));
    for (client, _) in &mut clients {
        assert_eq!(client.run_words(&["SUBSCRIBE", &name]).list()[2], Reply::Integer(1));
    }
    let mut publisher = server.connect_resp();
    assert_eq!(publisher.run_words(&["PUBLISH", &name, &long]), Reply::Integer(3));
    assert_eq!(publisher.run_words(&["PUBLISH", &name, "short"]), Reply::Integer(3));
    for (client, kind) in &mut clients {
        client.expect(format!("{kind}{}", message("message", &[&name, &long])));
        client.expect(format!("{kind}{}", message("message", &[&name, "short"])));
    }
}

/// One client adds and removes many subscriptions, in slices.
#[test]
fn many_channels_of_one_client() {
    const CHANNELS: usize = 30_000;
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, _) = connect(&server, 3);
    let names: Vec<_> = (0..CHANNELS).map(|number| format!("c{number}")).collect();
    subscribe_to(&mut client, &names);
    let mut other = server.connect_resp();
    assert_eq!(other.run("PUBSUB CHANNELS").list().len(), CHANNELS);
    other.check("PUBLISH c29999 x", ":1\r\n");
    client.expect(format!(">{}", message("message", &["c29999", "x"])));
    client.send(encode_command(&["UNSUBSCRIBE"]));
    let mut left: HashMap<_, _> = names.iter().map(|name| (name.clone(), ())).collect();
    for count in (0..CHANNELS).rev() {
        let reply = client.reply();
        assert!(left.remove(&reply.list()[1].text()).is_some());
        assert_eq!(reply.list()[2], Reply::Integer(count as i64));
    }
    client.send(subscription_to(&names));
    client.take(1);
    drop(client);
    let is_empty = || other.run("PUBSUB CHANNELS").list().is_empty();
    eventually("the channels to go", is_empty);
    assert_eq!(server.connect_resp().info::<u64>("pubsub_channels"), 0);
}

/// A reply takes many slices, and messages arrive meanwhile.
#[test]
fn no_message_lands_in_a_long_reply() {
    let server = Server::nagi_with(&["--workers", "2"]);
    let (mut client, _) = connect(&server, 3);
    for start in (0..100_000).step_by(1000) {
        let fields =
            (start..start + 1000).flat_map(|field| [field.to_string(), "value".to_owned()]);
        let words: Vec<_> = ["HSET".to_owned(), "h".to_owned()].into_iter().chain(fields).collect();
        client.run_words(&words);
    }
    client.run("SUBSCRIBE a");
    let mut publisher = server.connect_resp();
    client.send(encode_command(&["HGETALL", "h"]).repeat(3));
    for number in 0..300 {
        publisher.check(&format!("PUBLISH a {number}"), ":1\r\n");
    }
    let (mut replies, mut messages) = (0, 0);
    while replies < 3 || messages < 300 {
        match client.reply() {
            Reply::Map(pairs) => {
                assert_eq!(pairs.len(), 200_000);
                assert!(pairs.iter().skip(1).step_by(2).all(|value| value.text() == "value"));
                replies += 1;
            }
            Reply::Push(words) => {
                assert_eq!(words[2].text(), messages.to_string());
                messages += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A transaction that subscribes takes many slices, and so does the end of very many subscriptions.
#[test]
fn messages_that_come_during_a_request_stay_in_order() {
    let server = Server::nagi_with(&["--workers", "2", "--enable-debug-command", "yes"]);
    let (mut client, _) = connect(&server, 3);
    client.check("DEBUG POPULATE 30000", "+OK\r\n");
    client.run("SUBSCRIBE a");
    let mut publisher = server.connect_resp();
    let mut requests = encode_command(&["MULTI"]);
    for _ in 0..40 {
        for command in [&["KEYS", "none*"], &["SUBSCRIBE", "x"], &["UNSUBSCRIBE", "x"]] {
            requests.extend(encode_command(command));
        }
    }
    requests.extend(encode_command(&["EXEC"]));
    requests.extend(encode_command(&["PING"]));
    client.send(requests);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let mut messages = 0;
    let published = thread::scope(|scope| {
        let publishes = scope.spawn(|| {
            let mut published = 0;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                publisher.check(&format!("PUBLISH a {published}"), ":1\r\n");
                published += 1;
            }
            published
        });
        loop {
            match client.reply() {
                Reply::Push(words) if words[0].text() == "message" => {
                    assert_eq!(words[2].text(), messages.to_string());
                    messages += 1;
                }
                reply if reply == Reply::Simple("PONG".into()) => break,
                _ => {}
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        publishes.join().expect("the publisher ends")
    });
    while messages < published {
        assert_eq!(client.reply().list()[2].text(), messages.to_string());
        messages += 1;
    }
}

/// Messages that are written before a request which then blocks are no part of its reply.
#[test]
fn a_client_that_blocks_still_receives_messages() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let (mut subscriber, _) = connect(&server, 3);
    let (mut publisher, _) = connect(&server, 3);
    subscribe_to(&mut subscriber, &["a".to_owned()]);
    subscribe_to(&mut publisher, &["b".to_owned()]);
    let mut client = server.connect_resp();
    for _ in 0..200 {
        publisher.send(encode_command(&["PUBLISH", "a", "1"]));
        subscriber.send(encode_command(&["BLPOP", "list", "0"]));
        publisher.expect(":1\r\n");
        eventually("the client blocks", || {
            client.run("INFO clients").text().contains("blocked_clients:1\r\n")
        });
        publisher.check("PUBLISH a 2", ":1\r\n");
        for text in ["1", "2"] {
            subscriber.expect(format!(">{}", message("message", &["a", text])));
        }
        client.check("RPUSH list x", ":1\r\n");
        subscriber.expect("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    }
}

/// Confirmations are messages, which CLIENT REPLY does not suppress; errors and QUEUED are replies.
#[test]
fn replies_that_are_off_include_errors_about_channels() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.run("ACL SETUSER user on >p +@all ~*");
        client.check("AUTH user p", "+OK\r\n");
        for request in ["CLIENT REPLY OFF", "SUBSCRIBE forbidden", "MULTI", "SUBSCRIBE forbidden"] {
            client.send(encode_command(&harness::words(request)));
        }
        client.send(encode_command(&["DISCARD"]));
        client.send(encode_command(&["UNSUBSCRIBE", "none"]));
        client.expect("*3\r\n$11\r\nunsubscribe\r\n$4\r\nnone\r\n:0\r\n");
        client.check("CLIENT REPLY ON", "+OK\r\n");
    }
}

/// That takes several slices.
#[test]
fn very_many_subscriptions_are_confirmed_to_a_client_that_wants_no_replies() {
    const CHANNELS: usize = 30_000;
    let server = Server::nagi();
    let (mut client, _) = connect(&server, 3);
    client.send(encode_command(&["CLIENT", "REPLY", "OFF"]));
    let names: Vec<_> = (0..CHANNELS).map(|number| format!("c{number}")).collect();
    subscribe_to(&mut client, &names);
}

/// Messages of channels that it has left may still wait for the end of the transaction.
#[test]
fn a_client_of_resp2_that_has_unsubscribed_gets_ordinary_replies() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for command in ["MULTI", "SUBSCRIBE x", "UNSUBSCRIBE x", "PING"] {
            client.run(command);
        }
        client.send(encode_command(&["EXEC"]));
        let [subscribed, unsubscribed] =
            [("subscribe", 1), ("unsubscribe", 0)].map(|(kind, count)| confirmed(kind, "x", count));
        client.expect(format!("*3\r\n*{subscribed}*{unsubscribed}+PONG\r\n"));
    }
}
