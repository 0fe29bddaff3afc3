"""python-binary-memcached: the binary protocol, with and without a login by SASL PLAIN."""

import bmemcached
import pytest
from bmemcached.exceptions import MemcachedException


@pytest.fixture(params=[False, True], ids=["open", "with a login"])
def client(request, memcached, guarded):
    host, port = guarded if request.param else memcached
    login = ("default", "secret") if request.param else (None, None)
    client = bmemcached.Client([f"{host}:{port}"], *login)
    yield client
    client.disconnect_all()


def test_set_get_and_delete(client, key):
    assert client.set(key, "value")
    assert client.get(key) == "value"
    assert client.delete(key)
    assert client.get(key) is None


def test_objects_and_long_values(client, key):
    assert client.set(key, {"a": [1, 2]})
    assert client.get(key) == {"a": [1, 2]}
    assert client.set(key, b"v" * 500_000)
    assert client.get(key) == b"v" * 500_000


def test_numbers(client, key):
    client.delete(key)
    assert client.incr(key, 1, default=41) == 41
    assert client.incr(key, 1) == 42
    assert client.decr(key, 100) == 0


def test_many_keys(client, key):
    pairs = {f"{key}:{number}": str(number) for number in range(100)}
    assert client.set_multi(pairs) == []
    assert client.get_multi(list(pairs)) == pairs
    assert client.delete_multi(list(pairs))


def test_compare_and_swap(client, key):
    client.set(key, "old")
    value, unique = client.gets(key)
    assert value == "old"
    assert client.cas(key, "new", unique)
    assert not client.cas(key, "late", unique)


def test_every_way_to_store(client, key):
    client.delete(key)
    assert not client.replace(key, "x")
    assert client.add(key, "x", time=100)
    assert not client.add(key, "y")
    assert client.replace(key, "y")
    assert client.get(key) == "y"


def test_statistics(client):
    assert all(int(fields["pid"]) > 0 for fields in client.stats().values())


def test_without_a_password_nothing_is_answered(guarded, key):
    host, port = guarded
    # A refusal closes the connection, and the client then considers the server dead.
    for request in [lambda client: client.set(key, "value"), lambda client: client.get(key)]:
        client = bmemcached.Client([f"{host}:{port}"])
        with pytest.raises(MemcachedException, match="Auth failure"):
            request(client)
    friend = bmemcached.Client([f"{host}:{port}"], "default", "secret")
    assert friend.get(key) is None


def test_a_wrong_password_is_refused(guarded):
    host, port = guarded
    client = bmemcached.Client([f"{host}:{port}"], "default", "guess")
    with pytest.raises(MemcachedException, match="Auth failure"):
        client.get("key")


def test_a_needless_login_does_no_harm(memcached, key):
    host, port = memcached
    client = bmemcached.Client([f"{host}:{port}"], "default", "secret")
    assert client.set(key, "value")
