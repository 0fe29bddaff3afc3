//! Uses redis-rs with RESP2 and RESP3: pipelines, conflicting transactions of several threads, a
//! queue with a consumer that disappears, publish and subscribe, scripts, streams and scans. Also
//! asynchronous requests on one connection, a connection manager that reconnects, and a client-side
//! cache.

mod asynchronous;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::thread;

use programs::{PATIENCE, client, until};
use redis::streams::{
    StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamInfoGroupsReply,
    StreamReadOptions, StreamReadReply,
};
use redis::{Client, Commands, Connection, Direction, RedisResult, Script};

const JOBS: usize = 3_000;
const CONSUMERS: usize = 6;
const MESSAGES: usize = 2_000;

fn pipelines(connection: &mut Connection) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for i in 0..1_000 {
        pipe.set(format!("p:{i}"), i).ignore().incr(format!("p:{i}"), 1);
    }
    let sums: Vec<i64> = pipe.query(connection)?;
    assert_eq!(sums, (1..=1_000).collect::<Vec<_>>());
    let keys: Vec<_> = (0..1_000).map(|i| format!("p:{i}")).collect();
    let values: Vec<i64> = connection.mget(&keys)?;
    assert_eq!(values, sums);
    assert_eq!(connection.unlink::<_, i64>(&keys)?, 1_000);
    let _: () = connection.set("word", "one")?;
    let wrong: RedisResult<i64> = connection.incr("word", 1);
    assert!(wrong.is_err_and(|error| error.to_string().contains("not an integer")));
    connection.del("word")
}

/// Threads read, compute and write; each increase must be counted once.
fn transactions(client: &Client) -> RedisResult<()> {
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = client.get_connection().expect("a connection");
                for _ in 0..50 {
                    let (raised,): (i64,) =
                        redis::transaction(&mut connection, &["t"], |connection, pipe| {
                            let number: Option<i64> = connection.get("t")?;
                            pipe.set("t", number.unwrap_or(0) + 1).ignore().get("t");
                            pipe.query(connection)
                        })
                        .expect("a transaction");
                    assert!(raised > 0);
                }
            });
        }
    });
    let mut connection = client.get_connection()?;
    assert_eq!(connection.get::<_, i64>("t")?, 8 * 50);
    connection.del("t")
}

fn queue(client: &Client) -> RedisResult<()> {
    let done = Mutex::new(HashSet::new());
    let mut producer = client.get_connection()?;
    // One consumer takes a job and disappears.
    let _: () = producer.rpush("jobs", "lost")?;
    let mut lost = client.get_connection()?;
    let taken: String = lost.blmove("jobs", "work:lost", Direction::Left, Direction::Right, 0.0)?;
    assert_eq!(taken, "lost");
    drop(lost);
    thread::scope(|scope| -> RedisResult<()> {
        for consumer in 0..CONSUMERS {
            let done = &done;
            scope.spawn(move || {
                let mut connection = client.get_connection().expect("a connection");
                let own = format!("work:{consumer}");
                loop {
                    let (from, to) = (Direction::Left, Direction::Right);
                    let job: RedisResult<String> =
                        connection.blmove("jobs", &own, from, to, 0.0);
                    let job = job.expect("a job");
                    assert_eq!(connection.lrem(&own, 1, &job), Ok(1));
                    if job == "end" {
                        return;
                    }
                    assert!(done.lock().expect("a lock").insert(job), "a job came twice");
                }
            });
        }
        for job in 0..JOBS {
            let _: () = producer.rpush("jobs", job)?;
        }
        let (from, to) = (Direction::Left, Direction::Left);
        assert_eq!(producer.lmove::<_, _, String>("work:lost", "jobs", from, to)?, "lost");
        until("all jobs", || done.lock().expect("a lock").len() == JOBS + 1);
        let _: () = producer.rpush("jobs", vec!["end"; CONSUMERS])?;
        Ok(())
    })?;
    let nothing: Option<(String, String)> = producer.blpop("jobs", 0.01)?;
    assert_eq!(nothing, None);
    Ok(())
}

fn messages(client: &Client) -> RedisResult<()> {
    let (mut exact, mut pattern) = (client.get_connection()?, client.get_connection()?);
    let mut publisher = client.get_connection()?;
    let mut listeners = [exact.as_pubsub(), pattern.as_pubsub()];
    listeners[0].subscribe(&["news", "other"])?;
    listeners[1].psubscribe("n?ws")?;
    for i in 0..MESSAGES {
        assert_eq!(publisher.publish::<_, _, i64>("news", i)?, 2);
    }
    for listener in &mut listeners {
        listener.set_read_timeout(Some(PATIENCE))?;
        for i in 0..MESSAGES {
            assert_eq!(listener.get_message()?.get_payload::<usize>()?, i);
        }
    }
    listeners[0].unsubscribe("news")?;
    assert_eq!(publisher.publish::<_, _, i64>("news", "last")?, 1);
    drop(listeners);
    until("nobody to listen", || publisher.publish::<_, _, i64>("news", "last") == Ok(0));
    Ok(())
}

fn scripts(connection: &mut Connection) -> RedisResult<()> {
    let raise = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    for i in 1..=100 {
        if i % 50 == 0 {
            redis::cmd("SCRIPT").arg("FLUSH").exec(connection)?;
        }
        assert_eq!(raise.key("raised").arg(2).invoke::<i64>(connection)?, 2 * i);
    }
    let table: (i64, String, Vec<Option<i64>>) =
        Script::new("return {1, 'two', {3, false}}").invoke(connection)?;
    assert_eq!(table, (1, "two".to_owned(), vec![Some(3), None]));
    let wrong = Script::new("return redis.call('LPUSH', 'raised', 1)").invoke::<()>(connection);
    assert_eq!(wrong.expect_err("a wrong type").code(), Some("WRONGTYPE"));
    connection.del("raised")
}

/// Acknowledges entries. Returns the number in each of them.
fn acknowledge(connection: &mut Connection, entries: &[StreamId]) -> Vec<u32> {
    let one = |entry: &StreamId| {
        assert_eq!(connection.xack("events", "readers", &[&entry.id]), Ok(1));
        entry.get("number").expect("a number")
    };
    entries.iter().map(one).collect()
}

fn streams(connection: &mut Connection) -> RedisResult<()> {
    let _: () = connection.xgroup_create_mkstream("events", "readers", "$")?;
    let mut pipe = redis::pipe();
    (0..500).for_each(|i| drop(pipe.xadd("events", "*", &[("number", i)]).ignore()));
    pipe.exec(connection)?;
    let read = |connection: &mut Connection, consumer: &str| -> RedisResult<Vec<StreamId>> {
        let options = StreamReadOptions::default();
        let options = options.group("readers", consumer).count(64).block(1_000);
        let reply: StreamReadReply = connection.xread_options(&["events"], &[">"], &options)?;
        Ok(reply.keys.into_iter().flat_map(|stream| stream.ids).collect())
    };
    let lost = read(connection, "lost")?;
    let mut numbers = Vec::new();
    while numbers.len() + lost.len() < 500 {
        let entries = read(connection, "one")?;
        numbers.extend(acknowledge(connection, &entries));
    }
    let mut start = "0-0".to_owned();
    loop {
        let options = StreamAutoClaimOptions::default().count(20);
        let claimed: StreamAutoClaimReply =
            connection.xautoclaim_options("events", "readers", "one", 0, &start, options)?;
        numbers.extend(acknowledge(connection, &claimed.claimed));
        start = claimed.next_stream_id;
        if start == "0-0" {
            break;
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    let groups: StreamInfoGroupsReply = connection.xinfo_groups("events")?;
    assert_eq!((groups.groups[0].pending, groups.groups[0].consumers), (0, 2));
    connection.del("events")
}

fn scans(connection: &mut Connection) -> RedisResult<()> {
    let values: Vec<_> = (0..3_000).map(|i| (format!("scan:{i}"), i)).collect();
    let _: () = connection.mset(&values)?;
    let _: () = connection.hset_multiple("hash", &values)?;
    let keys: HashSet<String> = connection.scan_match("scan:*")?.collect::<RedisResult<_>>()?;
    assert_eq!(keys.len(), 3_000);
    let fields: HashMap<String, i64> = connection.hscan("hash")?.collect::<RedisResult<_>>()?;
    assert_eq!((fields.len(), fields["scan:77"]), (3_000, 77));
    redis::cmd("FLUSHDB").exec(connection)
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    for protocol in [2, 3] {
        let client = client(protocol);
        let mut connection = client.get_connection()?;
        for part in [pipelines, scripts, streams, scans] {
            part(&mut connection)?;
        }
        for part in [transactions, queue, messages] {
            part(&client)?;
        }
        asynchronous::side_by_side(&client).await?;
        assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut connection)?, 0);
    }
    asynchronous::reconnects().await?;
    asynchronous::cached().await?;
    println!(
        "over RESP2 and RESP3 {JOBS} jobs by {CONSUMERS} consumers and {MESSAGES} messages; \
         over RESP3 a cache of its own"
    );
    Ok(())
}
