"""Tasks of Celery for celery_job.py, and the settings of both sides."""

import os
import time

from celery import Celery
from common import until, url
from redis import Redis

app = Celery("tasks", broker=url(0), backend=url(1))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        # A task that was not acknowledged within this number of seconds is given to another worker.
        "visibility_timeout": 4,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    result_expires=3600,
    task_default_queue="main",
    task_track_started=True,
    worker_prefetch_multiplier=1,
)

# Where tasks record what they did, apart from Celery's own data.
notes = Redis.from_url(url(2), decode_responses=True)


@app.task
def square(number):
    return number * number


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def fails_at_first(self, key, failures):
    attempt = notes.incr(key)
    if attempt <= failures:
        raise self.retry(exc=ValueError(f"attempt {attempt}"), countdown=0.1)
    return attempt


@app.task
def fails(text):
    raise KeyError(text)


@app.task
def now():
    return time.time()


@app.task(acks_late=True)
def held(key):
    """Records its process, and continues once `key:free` is set."""
    notes.rpush(key, os.getpid())
    until("its release", lambda: notes.exists(f"{key}:free"))
    return os.getpid()


@app.task(acks_late=True, reject_on_worker_lost=True)
def dies_once(key):
    """Its process is killed the first time."""
    if notes.incr(key) == 1:
        os.kill(os.getpid(), 9)
    return notes.get(key)
