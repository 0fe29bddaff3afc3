"""redis-py, used as its documentation describes."""

import threading

import pytest
import redis


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, resp):
    host, port = resp
    with redis.Redis(host=host, port=port, protocol=request.param, decode_responses=True) as it:
        yield it


def test_strings(client, key):
    assert client.set(key, "hello") is True
    assert client.get(key) == "hello"
    assert client.append(key, " there") == 11
    assert client.strlen(key) == 11
    assert client.getdel(key) == "hello there"
    assert client.get(key) is None


def test_bytes_are_kept(resp, key):
    host, port = resp
    every_byte = bytes(range(256))
    with redis.Redis(host=host, port=port) as client:
        client.set(key, every_byte)
        assert client.get(key) == every_byte


def test_options_of_set(client, key):
    client.delete(key)
    assert client.set(key, "first", xx=True) is None
    assert client.set(key, "first", nx=True, ex=100) is True
    assert client.set(key, "second", nx=True) is None
    assert client.set(key, "second", keepttl=True, get=True) == "first"
    assert 90 < client.ttl(key) <= 100
    assert client.persist(key) is True
    assert client.ttl(key) == -1
    assert client.pexpire(key, 50_000) is True
    assert 40_000 < client.pttl(key) <= 50_000


def test_numbers(client, key):
    client.delete(key)
    assert client.incr(key) == 1
    assert client.incrby(key, 41) == 42
    assert client.decr(key, 2) == 40
    client.set(key, "word")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr(key)


def test_many_keys(client, key):
    pairs = {f"{key}:{number}": str(number) for number in range(500)}
    assert client.mset(pairs) is True
    assert client.mget(list(pairs)) == list(pairs.values())
    assert client.exists(*pairs) == 500
    assert sorted(client.scan_iter(match=f"{key}:*")) == sorted(pairs)
    assert client.unlink(*pairs) == 500
    assert client.mget(list(pairs)) == [None] * 500


def test_a_pipeline(client, key):
    pipeline = client.pipeline(transaction=False)
    for number in range(1000):
        pipeline.set(f"{key}:{number}", number)
        pipeline.get(f"{key}:{number}")
        pipeline.delete(f"{key}:{number}")
    replies = pipeline.execute()
    assert replies[0::3] == [True] * 1000
    assert replies[1::3] == [str(number) for number in range(1000)]
    assert replies[2::3] == [1] * 1000


def test_a_transaction(client, key):
    with client.pipeline() as pipeline:
        replies = pipeline.set(key, 1).incr(key).hset(f"{key}:hash", "field", "value").execute()
    assert replies == [True, 2, 1]

    def double(pipeline):
        before = int(pipeline.get(key))
        pipeline.multi()
        pipeline.set(key, before * 2)

    assert client.transaction(double, key) == [True]
    assert client.get(key) == "4"
    with client.pipeline() as pipeline:
        pipeline.watch(key)
        client.set(key, "changed")
        pipeline.multi()
        pipeline.set(key, "lost")
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert client.get(key) == "changed"


def test_a_queue_whose_consumers_are_killed(resp, client, key):
    """Each job is moved to the list of its consumer, and removed from there when it is done."""
    host, port = resp
    jobs, done, consumers = 5000, [], 4

    def consume(number):
        own = f"{key}:own:{number}"
        while True:
            consumer = redis.Redis(host=host, port=port, decode_responses=True)
            consumer.client_setname(f"consumer-{number}")
            try:
                # Jobs that were moved before the connection was lost are done first.
                for job in consumer.lrange(own, 0, -1):
                    done.append(job)
                    consumer.lrem(own, 1, job)
                while job := consumer.blmove(key, own, 5, "LEFT", "RIGHT"):
                    if job == "end":
                        return
                    done.append(job)
                    consumer.lrem(own, 1, job)
            except redis.ConnectionError:
                pass

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(consumers)]
    for thread in threads:
        thread.start()
    for start in range(0, jobs, 100):
        client.rpush(key, *range(start, start + 100))
        for line in client.client_list() if start % 500 == 0 else []:
            if line["name"] == f"consumer-{start // 500 % consumers}":
                client.client_kill_filter(_id=line["id"])
    client.rpush(key, *["end"] * consumers)
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    # A job may be done twice if its consumer is killed before it reports it, but none is lost.
    assert set(done) == {str(number) for number in range(jobs)}
    assert client.llen(key) == 0


def test_messages_reach_all_subscribers(resp, client, key):
    host, port = resp
    subscribers = []
    for _ in range(200):
        subscriber = redis.Redis(host=host, port=port, decode_responses=True).pubsub()
        subscriber.subscribe(key)
        assert subscriber.get_message(timeout=10)["type"] == "subscribe"
        subscribers.append(subscriber)
    for number in range(20):
        assert client.publish(key, number) == 200
    for subscriber in subscribers:
        messages = [subscriber.get_message(timeout=10)["data"] for _ in range(20)]
        assert messages == [str(number) for number in range(20)]
        subscriber.close()


def test_a_leaderboard(client, key):
    client.zadd(key, {f"player:{number}": number for number in range(1000)})
    client.zincrby(key, 10_000, "player:5")
    best = [tuple(pair) for pair in client.zrevrange(key, 0, 1, withscores=True)]
    assert best == [("player:5", 10_005.0), ("player:999", 999.0)]
    assert client.zrevrank(key, "player:999") == 1
    assert client.zcount(key, 500, "+inf") == 501
    assert tuple(client.bzpopmax(key, 1)) == (key, "player:5", 10_005.0)


def test_databases_are_apart(resp, key):
    host, port = resp
    with redis.Redis(host=host, port=port) as zero, redis.Redis(host=host, port=port, db=9) as nine:
        zero.set(key, "zero")
        assert nine.get(key) is None
        nine.set(key, "nine")
        assert zero.get(key) == b"zero"
        assert nine.flushdb() is True
        assert zero.get(key) == b"zero"


def test_the_connection_is_known_by_name(client):
    client.client_setname("by-name")
    assert client.client_getname() == "by-name"
    own = [entry for entry in client.client_list() if entry["id"] == str(client.client_id())]
    assert [entry["name"] for entry in own] == ["by-name"]


def test_information_and_configuration(client):
    information = client.info()
    assert information["redis_version"].count(".") == 2
    assert information["connected_clients"] >= 1
    assert "maxmemory" in client.config_get("maxmemory*")
    assert client.type("nothing") == "none"
    assert client.echo("hello") == "hello"


def test_commands_are_described(client):
    commands = client.command()
    assert commands["get"]["arity"] == 2
    assert "readonly" in commands["get"]["flags"]
    assert client.command_count() >= len(commands)


def test_a_pool_shared_by_threads(client, key):
    client.delete(key)

    def count():
        for _ in range(200):
            client.incr(key)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get(key) == "1600"


def test_a_large_value(client, key):
    value = "0123456789abcdef" * 262_144
    client.set(key, value)
    assert client.get(key) == value
    assert client.delete(key) == 1


def test_a_lock_is_held_extended_and_released(client, key):
    with client.lock(key, timeout=60) as lock:
        assert lock.owned()
        assert lock.extend(30)
        assert not client.lock(key, blocking=False).acquire()
    assert not client.exists(key)
    other = client.lock(key, timeout=60)
    assert other.acquire(blocking=False)
    client.delete(key)
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        other.release()


def test_scripts_and_functions_are_called(client, key):
    script = client.register_script("return {redis.call('INCR', KEYS[1]), ARGV[1]}")
    assert script(keys=[key], args=["x"]) == [1, "x"]
    with client.pipeline() as pipeline:
        script(keys=[key], args=["y"], client=pipeline)
        assert pipeline.execute() == [[2, "y"]]
    code = """#!lua name=counting
    redis.register_function('current', function(keys) return redis.call('GET', keys[1]) end)"""
    assert client.function_load(code, replace=True) == "counting"
    assert client.fcall("current", 1, key) == "2"
