//! Tests of the receivers and the order of messages, and of waiting publishers.

use super::*;
use std::sync::atomic::AtomicBool;
use std::task::Wake;
use std::thread;

fn client(id: u64, worker: usize, resp: u32) -> Arc<ClientInfo> {
    let (worker, connection_token, resp) = (worker.into(), (id * 10).into(), resp.into());
    Arc::new(ClientInfo { id, worker, connection_token, resp, ..ClientInfo::default() })
}

fn text(output: &Output) -> String {
    String::from_utf8(output.slices().flatten().copied().collect()).unwrap().replace("\r\n", "|")
}

/// Publishes to a channel. Returns the number of receivers, and the workers to wake.
fn publish(pubsub: &PubSub, channel: &str, message: &str) -> (usize, Vec<usize>) {
    let published = pubsub.publish(Kind::Channel, channel.as_bytes(), || message.as_bytes());
    (published.receivers, published.workers)
}

/// The messages that a worker has to send, by connection slots.
fn sent(pubsub: &PubSub, worker: usize) -> Vec<(u64, String)> {
    let next = || pubsub.next_messages(worker);
    std::iter::from_fn(next)
        .map(|(connection_token, output)| (connection_token, text(&output)))
        .collect()
}

const MESSAGE: &str = "3|$7|message|$1|a|$1|x|";
const BY_PATTERN: &str = "4|$8|pmessage|$1|*|$1|a|$1|x|";

#[test]
fn a_message_is_left_once_for_each_worker() {
    let pubsub = PubSub::new(3);
    assert_eq!(publish(&pubsub, "a", "x"), (0, Vec::new()));
    let clients = [client(1, 0, 2), client(2, 2, 3), client(3, 2, 2)];
    for client in &clients {
        assert!(pubsub.subscribe(client, Kind::Channel, b"a").is_empty());
    }
    pubsub.subscribe(&clients[1], Kind::Pattern, b"*");
    pubsub.subscribe(&clients[0], Kind::Shard, b"a");
    assert_eq!(pubsub.subscribers(Kind::Channel, b"a"), 3);
    assert_eq!([Kind::Channel, Kind::Pattern, Kind::Shard].map(|kind| pubsub.count(kind)), [1; 3]);
    let (receivers, mut workers) = publish(&pubsub, "a", "x");
    workers.sort_unstable();
    assert_eq!((receivers, workers), (4, vec![0, 2]));
    assert_eq!(publish(&pubsub, "a", "x"), (4, Vec::new()), "they have been woken");
    assert_eq!(publish(&pubsub, "other", "x"), (1, Vec::new()), "by the pattern");
    assert_eq!(sent(&pubsub, 0), [(10, format!("*{MESSAGE}").repeat(2))]);
    let by_both = format!(">{MESSAGE}>{BY_PATTERN}").repeat(2);
    let by_both = by_both + ">4|$8|pmessage|$1|*|$5|other|$1|x|";
    assert_eq!(sent(&pubsub, 2), [(20, by_both), (30, format!("*{MESSAGE}").repeat(2))]);
    assert!(sent(&pubsub, 0).is_empty() && sent(&pubsub, 1).is_empty());
    let published = pubsub.publish(Kind::Shard, b"a", || &b"x"[..]);
    assert_eq!((published.receivers, published.workers), (1, vec![0]));
    assert_eq!(sent(&pubsub, 0), [(10, "*3|$8|smessage|$1|a|$1|x|".to_owned())]);
}

#[test]
fn a_client_receives_messages_that_were_published_while_it_subscribed() {
    let pubsub = PubSub::new(1);
    let (first, second) = (client(1, 0, 3), client(2, 0, 3));
    pubsub.subscribe(&first, Kind::Channel, b"a");
    assert_eq!(publish(&pubsub, "a", "x").0, 1);
    assert!(pubsub.subscribe(&second, Kind::Channel, b"a").is_empty(), "it came too late");
    assert_eq!(publish(&pubsub, "a", "x").0, 2);
    let before = pubsub.unsubscribe(&first, Kind::Channel, b"a");
    assert_eq!(text(&before), format!(">{MESSAGE}").repeat(2));
    assert_eq!(publish(&pubsub, "a", "x").0, 1);
    let two = [(20, format!(">{MESSAGE}")), (20, format!(">{MESSAGE}"))];
    assert_eq!(sent(&pubsub, 0), two);
    publish(&pubsub, "a", "x");
    assert_eq!(text(&pubsub.encoded_messages_of(&second)), "", "it waits in the inbox");
    assert_eq!(text(&pubsub.messages_of(&second)), format!(">{MESSAGE}"));
    assert!(sent(&pubsub, 0).is_empty());
}

#[test]
fn a_client_that_leaves_is_forgotten_in_parts() {
    let pubsub = PubSub::new(1);
    let (client, other) = (client(1, 0, 2), client(2, 0, 2));
    let most = DEPARTED * 5 / 2;
    for number in 0..most {
        pubsub.subscribe(&client, Kind::Channel, number.to_string().as_bytes());
    }
    pubsub.subscribe(&other, Kind::Channel, b"a");
    pubsub.subscribe(&other, Kind::Pattern, b"z*");
    assert_eq!((client.subscriptions(Kind::Channel), pubsub.clients()), (most, 2));
    publish(&pubsub, "7", "x");
    assert_eq!(text(&pubsub.leave(&client)), "*3|$7|message|$1|7|$1|x|");
    assert_eq!((client.is_subscriber(), pubsub.clients()), (false, 1));
    assert_eq!(pubsub.count(Kind::Channel), most - DEPARTED + 1);
    pubsub.subscribe(&client, Kind::Channel, b"again");
    assert_eq!(publish(&pubsub, "again", "x").0, 1);
    assert!(pubsub.forget_departed(0) && !pubsub.forget_departed(0));
    assert_eq!((pubsub.count(Kind::Channel), pubsub.clients()), (2, 2));
    assert_eq!(publish(&pubsub, "again", "x").0, 1);
    assert_eq!(text(&pubsub.leave(&client)), "*3|$7|message|$5|again|$1|x|".repeat(2));
    assert_eq!(text(&pubsub.leave(&client)), "");
    let _ = pubsub.leave(&other);
    assert_eq!((pubsub.count(Kind::Channel), pubsub.count(Kind::Pattern)), (0, 0));
    assert_eq!((publish(&pubsub, "a", "x").0, pubsub.clients()), (0, 0));
}

#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn publishers_wait_for_workers_that_are_behind() {
    let pubsub = PubSub::new(1);
    let subscribers: Vec<_> = (0..10).map(|id| client(id, 0, 2)).collect();
    for subscriber in &subscribers {
        pubsub.subscribe(subscriber, Kind::Channel, b"a");
    }
    let called = Arc::new(Called::default());
    let waker = Waker::from(Arc::clone(&called));
    let message = "x".repeat(1000);
    let mut count = 0;
    while !pubsub.holds_up(&waker) {
        publish(&pubsub, "a", &message);
        count += 1;
        assert!(count * 10_000 < 2 * inbox::FULL_BYTES, "there is a bound");
    }
    assert!(count * 20_000 > inbox::FULL_BYTES, "some may wait");
    let mut left = subscribers.len();
    while !called.0.load(Ordering::Relaxed) {
        assert!(pubsub.holds_up(Waker::noop()), "until half of them have been sent theirs");
        assert!(pubsub.next_messages(0).is_some());
        left -= 1;
    }
    assert!((4..=5).contains(&left), "{left}");
    assert!(!pubsub.holds_up(&waker));
    assert_eq!(sent(&pubsub, 0).len(), left);
}

#[test]
fn all_subscribers_see_one_order() {
    const MESSAGES: usize = 300;
    let pubsub = PubSub::new(2);
    let listeners: Vec<_> = (0..2).map(|worker| client(worker as u64, worker, 2)).collect();
    for listener in &listeners {
        pubsub.subscribe(listener, Kind::Pattern, b"*");
    }
    thread::scope(|scope| {
        for publisher in 0..3 {
            let pubsub = &pubsub;
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let channel = format!("{publisher}:{}", number % 7);
                    publish(pubsub, &channel, &format!("{publisher}:{number}"));
                }
            });
        }
    });
    let seen: Vec<_> = (0..2).map(|worker| sent(&pubsub, worker).remove(0).1).collect();
    assert_eq!(seen[0], seen[1]);
    for publisher in 0..3 {
        let begin = format!("|{publisher}:");
        let words = seen[0].split("*4|").filter(|it| it.contains(&begin));
        let last = |words: &str| words.trim_end_matches('|').rsplit(':').next().map(str::to_owned);
        let numbers = words.filter_map(last).map(|number| number.parse::<usize>().unwrap());
        assert!(numbers.eq(0..MESSAGES), "publisher {publisher}");
    }
}

#[test]
fn a_long_message_is_shared() {
    let pubsub = PubSub::new(1);
    let (two, three) = (client(1, 0, 2), client(2, 0, 3));
    pubsub.subscribe(&two, Kind::Channel, b"a");
    pubsub.subscribe(&three, Kind::Channel, b"a");
    publish(&pubsub, "a", &"x".repeat(100_000));
    let outputs = [pubsub.messages_of(&two), pubsub.messages_of(&three)];
    let shared = outputs.each_ref().map(|output| output.shared().next().unwrap().0);
    assert!(Arc::ptr_eq(shared[0], shared[1]));
    let rest = format!("3|$7|message|$1|a|$100000|{}|", "x".repeat(100_000));
    assert_eq!(outputs.each_ref().map(text), [format!("*{rest}"), format!(">{rest}")]);
}
