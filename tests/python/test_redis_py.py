"""redis-py, as its documentation says to use it."""

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
