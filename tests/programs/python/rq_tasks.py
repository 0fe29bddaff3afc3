"""The functions that jobs of RQ call, for rq_job.py."""

import os
import signal
import time

from common import url
from redis import Redis

notes = Redis.from_url(url(1), decode_responses=True)


def square(number):
    return number * number


def fails_at_first(key, failures):
    attempt = notes.incr(key)
    if attempt <= failures:
        raise ValueError(f"attempt {attempt}")
    return attempt


def note(key, text):
    notes.rpush(key, text)
    return time.time()


def hangs(key):
    notes.rpush(key, os.getpid())
    signal.pause()
