"""The addresses of the server under test, which `cargo xtask test python` starts."""

import os

import pytest


def address(variable):
    text = os.environ.get(variable)
    if text is None:
        pytest.exit(f"{variable} is not set: run `cargo xtask test python`", returncode=2)
    host, port = text.rsplit(":", 1)
    return host, int(port)


@pytest.fixture
def resp():
    """Its RESP address, as (host, port)."""
    return address("NAGI_RESP")


@pytest.fixture
def memcached():
    """Its address for memcached's protocol, as (host, port)."""
    return address("NAGI_MEMCACHED")


@pytest.fixture
def http():
    """Its HTTP address, as (host, port)."""
    return address("NAGI_HTTP")


@pytest.fixture
def guarded():
    """The address for memcached's protocol of a server with the password "secret"."""
    return address("NAGI_MEMCACHED_GUARDED")


@pytest.fixture
def key(request):
    """A key that no other test uses."""
    return request.node.name.replace("[", ":").replace("]", "")
