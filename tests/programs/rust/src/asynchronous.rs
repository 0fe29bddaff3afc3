//! Uses redis-rs with tokio: one connection for many tasks, a connection that is closed, and values
//! that are cached until the server reports their change.

use std::time::{Duration, Instant};

use programs::{PATIENCE, client};
use redis::aio::{ConnectionManagerConfig, MultiplexedConnection};
use redis::caching::CacheConfig;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult, cmd};

/// Hundreds of tasks share a connection; each receives its own replies.
pub(crate) async fn side_by_side(client: &Client) -> RedisResult<()> {
    let connection = client.get_multiplexed_async_connection().await?;
    let tasks: Vec<_> = (0..300)
        .map(|i| {
            let mut connection = connection.clone();
            tokio::spawn(async move {
                let key = format!("a:{i}");
                for round in 1..=10 {
                    let number: i64 = connection.incr(&key, i).await?;
                    assert_eq!(number, i * round);
                }
                let (last, left): (i64, i64) =
                    redis::pipe().atomic().get(&key).del(&key).query_async(&mut connection).await?;
                assert_eq!((last, left), (10 * i, 1));
                RedisResult::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task ends")?;
    }
    Ok(())
}

/// A connection manager whose connection the server closes must reconnect and subscribe again.
pub(crate) async fn reconnects() -> RedisResult<()> {
    let client = client(3);
    let mut other = client.get_multiplexed_async_connection().await?;
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let config =
        ConnectionManagerConfig::new().set_push_sender(sender).set_automatic_resubscription();
    let mut manager = client.get_connection_manager_with_config(config).await?;
    manager.subscribe("again").await?;
    let id: i64 = cmd("CLIENT").arg("ID").query_async(&mut manager).await?;
    let killed: i64 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut other).await?;
    assert_eq!(killed, 1);
    let start = Instant::now();
    // The request that finds the connection closed fails.
    while manager.set::<_, _, ()>("after", "cut").await.is_err() {
        assert!(start.elapsed() < PATIENCE, "no new connection");
    }
    while other.publish::<_, _, i64>("again", "hello").await? == 0 {
        assert!(start.elapsed() < PATIENCE, "no subscription");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    loop {
        let push = received.recv().await.expect("the manager is there");
        if push.kind == redis::PushKind::Message {
            break;
        }
    }
    assert_eq!(other.del::<_, i64>("after").await?, 1);
    Ok(())
}

async fn read(connection: &mut MultiplexedConnection, i: u32) -> RedisResult<Option<u32>> {
    connection.get(format!("c:{i}")).await
}

/// Values are read from the client's cache until another client changes them.
pub(crate) async fn cached() -> RedisResult<()> {
    let client = client(3);
    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::default());
    let mut reader = client.get_multiplexed_async_connection_with_config(&config).await?;
    let mut writer = client.get_multiplexed_async_connection().await?;
    for i in 0..100 {
        let _: () = writer.set(format!("c:{i}"), 0).await?;
    }
    for _ in 0..10 {
        for i in 0..100 {
            assert_eq!(read(&mut reader, i).await?, Some(0));
        }
    }
    let statistics = reader.get_cache_statistics().expect("there is a cache");
    assert_eq!((statistics.hit, statistics.miss), (900, 100));
    for i in 0..100 {
        let _: () = writer.set(format!("c:{i}"), 1).await?;
    }
    until_all(&mut reader, Some(1)).await?;
    cmd("FLUSHDB").exec_async(&mut writer).await?;
    until_all(&mut reader, None).await
}

/// Reads until the server has reported each change.
async fn until_all(reader: &mut MultiplexedConnection, wanted: Option<u32>) -> RedisResult<()> {
    let start = Instant::now();
    for i in 0..100 {
        while read(reader, i).await? != wanted {
            assert!(start.elapsed() < PATIENCE, "an old value stays");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}
