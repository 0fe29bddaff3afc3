"""Commands over HTTP, with the requests library."""

import threading

import pytest
import requests

EVERY_BYTE = bytes(range(256))


@pytest.fixture
def url(http):
    host, port = http
    return f"http://{host}:{port}"


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


def test_a_session_keeps_its_connection(session, url, key):
    sockets = set()
    for number in range(1, 101):
        with session.post(f"{url}/INCR/{key}", stream=True) as reply:
            sockets.add(reply.raw.connection.sock.getsockname())
            assert reply.json() == {"INCR": number}
    assert len(sockets) == 1


def test_arguments_are_quoted_as_the_library_does(session, url, key):
    value = "a b/c+d%e?f#g ü"
    quoted = requests.utils.quote(value, safe="")
    assert session.post(f"{url}/SET/{key}/{quoted}").json() == {"SET": [True, "OK"]}
    reply = session.get(f"{url}/GET/{key}.txt", params={"type": "text/plain;charset=utf-8"})
    assert reply.status_code == 400
    assert session.get(f"{url}/GET/{key}.txt").content == value.encode()


def test_a_body_in_pieces_and_a_reply_in_pieces(session, url, key):
    pieces = (EVERY_BYTE * 256 for _ in range(64))
    assert session.put(f"{url}/SET/{key}", data=pieces).json() == {"SET": [True, "OK"]}
    with session.get(f"{url}/GET/{key}.bin", stream=True) as reply:
        received = b"".join(reply.iter_content(chunk_size=10_000))
    assert received == EVERY_BYTE * 256 * 64


def test_lists_of_commands(session, url, key):
    commands = [["RPUSH", key, "a", "b"], ["LRANGE", key, 0, -1], ["GET", key]]
    results = session.post(f"{url}/pipeline", json=commands).json()
    assert results[:2] == [{"result": 2}, {"result": ["a", "b"]}]
    assert results[2]["error"].startswith("WRONGTYPE")
    assert session.post(url, json=["LLEN", key]).json() == {"result": 2}
    transaction = session.post(f"{url}/multi-exec", json=[["LPOP", key], ["LLEN", key]])
    assert transaction.json() == [{"result": "a"}, {"result": 1}]


def test_errors_raise(session, url, key):
    for method, path, status in [
        ("GET", f"/NOSUCH/{key}", 404),
        ("GET", f"/SET/{key}/x", 405),
        ("POST", f"/SET/{key}", 400),
        ("GET", f"/GET/{key}.txt", 404),
    ]:
        reply = session.request(method, url + path)
        assert reply.status_code == status, path
        with pytest.raises(requests.HTTPError):
            reply.raise_for_status()


def test_a_slow_reply_is_given_up(session, url, key):
    with pytest.raises(requests.ReadTimeout):
        session.post(f"{url}/BLPOP/{key}/0", timeout=0.2)
    while int(session.get(f"{url}/INFO/clients").json()["INFO"]["blocked_clients"]) > 0:
        pass
    assert session.post(f"{url}/RPUSH/{key}/kept").json() == {"RPUSH": 1}
    assert session.get(f"{url}/LLEN/{key}").json() == {"LLEN": 1}


def test_threads_share_a_session(session, url, key):
    def count():
        for _ in range(100):
            session.post(f"{url}/INCR/{key}").raise_for_status()

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.get(f"{url}/GET/{key}").json() == {"GET": "800"}
