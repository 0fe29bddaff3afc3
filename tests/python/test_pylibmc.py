"""pylibmc, which uses libmemcached, if it can be installed without a compiler."""

import pytest

pylibmc = pytest.importorskip("pylibmc")


@pytest.fixture
def client(memcached):
    return pylibmc.Client([f"{memcached[0]}:{memcached[1]}"], behaviors={"cas": True})


def test_set_get_and_delete(client, key):
    assert client.set(key, "value")
    assert client.get(key) == "value"
    assert client.delete(key)
    assert client.get(key) is None


def test_numbers_and_objects(client, key):
    assert client.set(key, 41)
    assert client.incr(key) == 42
    assert client.set(key, {"a": [1, 2]})
    assert client.get(key) == {"a": [1, 2]}


def test_many_keys(client, key):
    pairs = {f"{key}:{number}": number for number in range(200)}
    assert client.set_multi(pairs) == []
    assert client.get_multi(list(pairs)) == pairs
    assert client.delete_multi(list(pairs))


def test_compare_and_swap(client, key):
    client.set(key, "old")
    value, unique = client.gets(key)
    assert value == "old"
    assert client.cas(key, "new", unique)
    assert not client.cas(key, "late", unique)
