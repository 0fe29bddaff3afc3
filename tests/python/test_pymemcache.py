"""pymemcache, used as its documentation describes."""

import threading

import pytest
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError


@pytest.fixture
def client(memcached):
    client = Client(memcached, default_noreply=False)
    yield client
    client.close()


def test_set_get_and_delete(client, key):
    assert client.set(key, b"value") is True
    assert client.get(key) == b"value"
    assert client.delete(key) is True
    assert client.delete(key) is False
    assert client.get(key) is None


def test_every_way_to_store(client, key):
    client.delete(key)
    assert client.replace(key, b"b") is False
    assert client.add(key, b"b") is True
    assert client.add(key, b"x") is False
    assert client.append(key, b"c") is True
    assert client.prepend(key, b"a") is True
    assert client.get(key) == b"abc"


def test_compare_and_swap(client, key):
    client.set(key, b"old")
    value, unique = client.gets(key)
    assert value == b"old"
    assert client.cas(key, b"new", unique) is True
    assert client.cas(key, b"late", unique) is False
    client.delete(key)
    assert client.cas(key, b"gone", unique) is None


def test_numbers(client, key):
    client.set(key, b"18446744073709551615")
    assert client.incr(key, 1) == 0
    assert client.incr(key, 10) == 10
    assert client.decr(key, 100) == 0
    client.delete(key)
    assert client.incr(key, 1) is None
    client.set(key, b"word")
    with pytest.raises(MemcacheClientError):
        client.incr(key, 1)


def test_many_keys(client, key):
    pairs = {f"{key}:{number}": str(number).encode() for number in range(200)}
    assert client.set_many(pairs) == []
    assert client.get_many(pairs) == pairs
    assert client.delete_many(pairs) is True
    assert client.get_many(pairs) == {}


def test_expiry_and_touch(client, key):
    assert client.set(key, b"value", expire=100) is True
    assert client.touch(key, 200) is True
    assert client.get(key) == b"value"
    assert client.set(key, b"value", expire=-1) is True
    assert client.get(key) is None
    assert client.touch(key, 200) is False


def test_without_replies(client, key):
    for number in range(1000):
        client.set(key, str(number).encode(), noreply=True)
    client.incr(key, 1, noreply=True)
    assert client.get(key) == b"1000"
    client.delete(key, noreply=True)
    assert client.get(key) is None


def test_flags_are_kept(memcached, key):
    def to_number(_key, value, flags):
        return int(value) if flags == 7 else value

    client = Client(
        memcached,
        serializer=lambda _key, value: (str(value).encode(), 7),
        deserializer=to_number,
        default_noreply=False,
    )
    client.set(key, 42)
    assert client.get(key) == 42
    client.close()


def test_statistics_and_version(client):
    assert client.version()
    statistics = client.stats()
    assert statistics[b"pid"] > 0
    assert b"curr_items" in statistics


def test_a_value_beyond_the_limit_is_refused(client, key):
    with pytest.raises(MemcacheServerError):
        client.set(key, b"x" * (1024 * 1024 + 1))
    assert client.get(key) is None


def test_a_key_beyond_the_limit_is_refused(client):
    client.allow_unicode_keys = True
    with pytest.raises(MemcacheClientError):
        client.get("k" * 251)


def test_a_pool_shared_by_threads(memcached, key):
    client = PooledClient(memcached, max_pool_size=8, default_noreply=False)
    client.set(key, b"0")

    def count():
        for _ in range(200):
            client.incr(key, 1)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get(key) == b"1600"
    client.close()


def test_a_client_that_hashes(memcached, key):
    client = HashClient([memcached], default_noreply=False)
    assert client.set(key, b"value") is True
    assert client.get(key) == b"value"
    client.close()


def test_both_protocols_see_one_keyspace(client, resp, key):
    redis = pytest.importorskip("redis")
    with redis.Redis(host=resp[0], port=resp[1]) as other:
        client.set(key, b"from memcached")
        assert other.get(key) == b"from memcached"
        other.set(key, b"from redis")
        assert client.get(key) == b"from redis"
