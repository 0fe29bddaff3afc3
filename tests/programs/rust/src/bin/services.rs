//! Uses redis-rs for a queue whose consumers are killed and return, a leaderboard, sessions, and
//! messages to many subscribers.

use std::collections::HashMap;
use std::process::{Child, Command};
use std::thread;
use std::time::Instant;

use programs::{PATIENCE, client, until};
use redis::{Commands, Connection, RedisResult};

const CONSUMERS: usize = 4;
const KILLS: usize = 10;
const BATCH: usize = 100;
const PLAYERS: u64 = 1_000;
const ROUNDS: usize = 10;
const SESSIONS: usize = 50;
const VISITORS: usize = 4;
const VISITS: usize = 5;
const MESSAGES: usize = 200;

fn size(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

fn connect() -> Connection {
    client(2).get_connection().expect("a connection")
}

/// Jobs stay in the consumer's list until they are done, so that the consumer's successor finds
/// them there.
fn consume(name: &str) -> RedisResult<()> {
    let (mut connection, own) = (connect(), format!("work:{name}"));
    let end = |connection: &mut Connection, job: &str| -> RedisResult<()> {
        let mut work = redis::pipe();
        work.atomic().lrem(&own, 1, job);
        if job != "end" {
            work.rpush("done", job);
        }
        assert_eq!(work.query::<Vec<i64>>(connection)?[0], 1);
        Ok(())
    };
    loop {
        let begun: Vec<String> = connection.lrange(&own, 0, -1)?;
        for job in begun {
            end(&mut connection, &job)?;
        }
        let mut take = redis::cmd("BLMOVE");
        take.arg(&["jobs", &own, "LEFT", "RIGHT"]).arg(0.5);
        while let Some(job) = take.query::<Option<String>>(&mut connection)? {
            end(&mut connection, &job)?;
            if job == "end" {
                return Ok(());
            }
        }
    }
}

fn start(name: usize) -> Child {
    let own = std::env::current_exe().expect("a path");
    Command::new(own).arg(name.to_string()).spawn().expect("a process")
}

fn queue(connection: &mut Connection) -> RedisResult<()> {
    let jobs = size("NAGI_JOBS", 5_000);
    let mut consumers: Vec<_> = (0..CONSUMERS).map(start).collect();
    let part = jobs / KILLS;
    for kill in 0..KILLS {
        let first = kill * part;
        for batch in (first..first + part).step_by(BATCH) {
            let _: () = connection.rpush("jobs", (batch..batch + BATCH).collect::<Vec<_>>())?;
        }
        // Consumers are killed alternately while they work and while they wait in BLMOVE.
        let wanted = first + if kill % 2 == 0 { part / 2 } else { part };
        until("jobs", || connection.llen::<_, usize>("done").expect("a length") >= wanted);
        let victim = &mut consumers[kill % CONSUMERS];
        victim.kill()?;
        victim.wait()?;
        *victim = start(kill % CONSUMERS);
    }
    until("all jobs", || connection.llen::<_, usize>("done").expect("a length") >= jobs);
    let _: () = connection.rpush("jobs", vec!["end"; CONSUMERS])?;
    for mut consumer in consumers {
        assert!(consumer.wait()?.success());
    }
    let mut done: Vec<usize> = connection.lrange("done", 0, -1)?;
    done.sort_unstable();
    assert!(done.into_iter().eq(0..jobs));
    // No job is waiting, and no consumer has a job.
    assert_eq!(connection.del::<_, i64>("done")?, 1);
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(connection)?, 0);
    Ok(())
}

/// Returns a generator of pseudorandom numbers below a bound, which are the same in each run.
fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state * 48_271 % 2_147_483_647;
        state % below
    }
}

fn leaderboard(connection: &mut Connection) -> RedisResult<()> {
    let mut random = chance(17);
    let mut model: HashMap<String, i64> = HashMap::new();
    let mut best = Vec::new();
    for _ in 0..ROUNDS {
        let mut updates = redis::pipe();
        let mut expected = Vec::new();
        for _ in 0..PLAYERS {
            let player = format!("p{:04}", random(PLAYERS));
            let points = i64::try_from(random(1_200)).expect("a small number") - 200;
            let known = model.get(&player).copied();
            if random(10) > 0 {
                let sum = known.unwrap_or(0) + points;
                updates.zincr("board", &player, points);
                expected.push(sum);
                model.insert(player, sum);
            } else {
                updates.zadd("board", &player, points);
                expected.push(i64::from(known.is_none()));
                model.insert(player, points);
            }
        }
        assert_eq!(updates.query::<Vec<i64>>(connection)?, expected);
        best = model.iter().map(|(player, score)| (player.clone(), *score)).collect();
        best.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
        compare(connection, &best)?;
    }
    let removed: usize = connection.zremrangebyrank("board", 0, -101)?;
    assert_eq!(removed, best.len() - 100);
    let left: Vec<(String, i64)> = connection.zrevrange_withscores("board", 0, -1)?;
    assert_eq!(left, best[..100]);
    assert_eq!(connection.del::<_, i64>("board")?, 1);
    Ok(())
}

fn compare(connection: &mut Connection, best: &[(String, i64)]) -> RedisResult<()> {
    let shown: Vec<(String, i64)> = connection.zrevrange_withscores("board", 0, -1)?;
    assert_eq!(shown, best);
    for rank in (0..best.len()).step_by(50) {
        let player = &best[rank].0;
        assert_eq!(connection.zrevrank::<_, _, usize>("board", player)?, rank);
        assert_eq!(connection.zrank::<_, _, usize>("board", player)?, best.len() - 1 - rank);
    }
    let good = best.iter().filter(|(_, score)| *score >= 500).count();
    assert_eq!(connection.zcount::<_, _, _, usize>("board", 500, "+inf")?, good);
    Ok(())
}

fn visit(keys: &[String]) -> RedisResult<()> {
    let mut connection = connect();
    for key in keys.iter().cycle().take(keys.len() * VISITS) {
        let replies: (i64, i64) =
            redis::transaction(&mut connection, &[key], |connection, pipe| {
                let visits: usize = connection.hget(key, "visits")?;
                pipe.hset(key, "visits", visits + 1).expire(key, 1_800).query(connection)
            })?;
        assert_eq!(replies, (0, 1));
    }
    Ok(())
}

fn sessions(connection: &mut Connection) -> RedisResult<()> {
    let keys: Vec<_> = (0..SESSIONS).map(|i| format!("session:{i}")).collect();
    let mut created = redis::pipe();
    for (i, key) in keys.iter().enumerate() {
        let fields = [("user", format!("user {i}")), ("visits", "0".to_owned())];
        created.hset_multiple(key, &fields).ignore().expire(key, 3_600);
    }
    assert_eq!(created.query::<Vec<i64>>(connection)?, [1; SESSIONS]);
    thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS).map(|_| scope.spawn(|| visit(&keys))).collect();
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("no panic"))
    })?;
    for (i, key) in keys.iter().enumerate() {
        let wanted = [("user", format!("user {i}")), ("visits", (VISITORS * VISITS).to_string())];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(connection.hgetall::<_, HashMap<_, _>>(key)?, HashMap::from(wanted));
        assert!((1_701..=1_800).contains(&connection.ttl::<_, i64>(key)?));
    }
    for key in keys.iter().step_by(2) {
        let _: () = connection.pexpire(key, 1_000)?;
    }
    let mut late = connect();
    redis::cmd("WATCH").arg(&keys[0]).exec(&mut late)?;
    until("the end of half", || connection.exists(&keys) == Ok(SESSIONS / 2));
    // The session has expired, so it must not be created again without its user.
    let set =
        redis::pipe().atomic().hset(&keys[0], "visits", 1).query::<Option<(i64,)>>(&mut late)?;
    assert_eq!(set, None);
    assert!(connection.hgetall::<_, HashMap<String, String>>(&keys[0])?.is_empty());
    assert_eq!(connection.ttl::<_, i64>(&keys[0])?, -2);
    assert_eq!(connection.del::<_, usize>(&keys)?, SESSIONS / 2);
    Ok(())
}

fn fan_out(connection: &mut Connection) -> RedisResult<()> {
    let subscribers = size("NAGI_SUBSCRIBERS", 100);
    let mut connections: Vec<_> = (0..subscribers).map(|_| connect()).collect();
    let mut listeners: Vec<_> = connections.iter_mut().map(Connection::as_pubsub).collect();
    for listener in &mut listeners {
        listener.subscribe("news")?;
        listener.set_read_timeout(Some(PATIENCE))?;
    }
    for i in 0..MESSAGES {
        assert_eq!(connection.publish::<_, _, usize>("news", i)?, subscribers);
    }
    for listener in &mut listeners {
        for i in 0..MESSAGES {
            assert_eq!(listener.get_message()?.get_payload::<usize>()?, i);
        }
    }
    drop(listeners);
    drop(connections);
    until("nobody to listen", || connection.publish::<_, _, i64>("news", "last") == Ok(0));
    Ok(())
}

/// A part of the job, with its name.
type Part = (&'static str, fn(&mut Connection) -> RedisResult<()>);

fn main() -> RedisResult<()> {
    if let Some(name) = std::env::args().nth(1) {
        return consume(&name);
    }
    let mut connection = connect();
    let parts: [Part; 4] = [
        ("queue", queue),
        ("leaderboard", leaderboard),
        ("sessions", sessions),
        ("fan-out", fan_out),
    ];
    for (name, part) in parts {
        let begun = Instant::now();
        part(&mut connection)?;
        println!("{name} {:.1} s", begun.elapsed().as_secs_f64());
    }
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut connection)?, 0);
    println!(
        "{} jobs by {CONSUMERS} consumers of which {KILLS} were killed, \
         a leaderboard of {PLAYERS}, {SESSIONS} sessions, {MESSAGES} messages to {} subscribers",
        size("NAGI_JOBS", 5_000),
        size("NAGI_SUBSCRIBERS", 100)
    );
    Ok(())
}
