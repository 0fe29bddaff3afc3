"""Commands over HTTP, with Python's own clients."""

import http.client
import json
import urllib.error
import urllib.request

import pytest

EVERY_BYTE = bytes(range(256))


@pytest.fixture
def url(http):
    host, port = http
    return f"http://{host}:{port}"


def test_a_connection_is_kept(http, key):
    connection = http_connection(http)
    for number in range(1, 100):
        connection.request("POST", f"/INCR/{key}")
        reply = connection.getresponse()
        assert (reply.status, json.load(reply)) == (200, {"INCR": number})
    connection.close()


def http_connection(address):
    return http.client.HTTPConnection(*address, timeout=30)


def test_values_of_every_byte(http, key):
    connection = http_connection(http)
    for body, headers in [
        (EVERY_BYTE * 1000, {}),
        # Without a length, the client sends chunks.
        (iter([EVERY_BYTE, EVERY_BYTE]), {}),
        (b"", {}),
    ]:
        connection.request("PUT", f"/SET/{key}", body=body, headers=headers)
        assert connection.getresponse().read() == b'{"SET":[true,"OK"]}'
        connection.request("GET", f"/STRLEN/{key}")
        length = json.load(connection.getresponse())["STRLEN"]
        connection.request("GET", f"/GET/{key}.bin")
        value = connection.getresponse().read()
        assert value == EVERY_BYTE * (length // 256)
    connection.close()


def test_urllib(url, key):
    with urllib.request.urlopen(f"{url}/SET/{key}", data=b"a b") as reply:
        assert json.load(reply) == {"SET": [True, "OK"]}
    with urllib.request.urlopen(f"{url}/GET/{key}.txt") as reply:
        assert reply.read() == b"a b"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/SET/{key}/x")
    assert refused.value.code == 405


def test_pipelines_and_tags(http, key):
    connection = http_connection(http)
    pipeline = json.dumps([["SET", key, "1"], ["NOSUCH"], ["INCR", key]])
    connection.request("POST", "/pipeline", pipeline)
    results = json.load(connection.getresponse())
    assert results == [{"result": "OK"}, {"error": "ERR unknown command"}, {"result": 2}]
    connection.request("GET", f"/GET/{key}")
    reply = connection.getresponse()
    assert json.load(reply) == {"GET": "2"}
    connection.request("GET", f"/GET/{key}", headers={"If-None-Match": reply.headers["ETag"]})
    assert connection.getresponse().status == 304
    connection.close()
