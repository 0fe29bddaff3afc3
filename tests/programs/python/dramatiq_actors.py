"""Actors of Dramatiq for dramatiq_job.py."""

import os
import time

import dramatiq
from common import until, url
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import backends as rate_limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

# A worker without a sign of life for this long is considered dead; every request checks for such.
broker = RedisBroker(url=url(0), heartbeat_timeout=3_000, maintenance_chance=1_000_000)
broker.add_middleware(GroupCallbacks(rate_limits.RedisBackend(url=url(1))))
broker.add_middleware(Results(backend=RedisBackend(url=url(1))))
dramatiq.set_broker(broker)

notes = Redis.from_url(url(2), decode_responses=True)


@dramatiq.actor(store_results=True)
def square(number):
    return number * number


@dramatiq.actor(store_results=True)
def add(first, second):
    return first + second


@dramatiq.actor(store_results=True, max_retries=5, min_backoff=50, max_backoff=200)
def fails_at_first(key, failures):
    attempt = notes.incr(key)
    if attempt <= failures:
        raise ValueError(f"attempt {attempt}")
    return attempt


@dramatiq.actor(store_results=True)
def now():
    return time.time()


@dramatiq.actor
def finish_group(key):
    notes.incr(key)


@dramatiq.actor(store_results=True, queue_name="held")
def held(key):
    """Records its process, and continues once `key:free` is set."""
    notes.rpush(key, os.getpid())
    until("its release", lambda: notes.exists(f"{key}:free"))
    return os.getpid()
