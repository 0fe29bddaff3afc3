"""Dramatiq: messages by two processes, results, pipelines, groups, retries, messages for later, and
those of a worker that is killed."""

import os
import signal

from common import Process, finish, raises, until, url
from dramatiq import group, pipeline
from dramatiq.results import ResultFailure
from dramatiq_actors import add, broker, fails_at_first, finish_group, held, notes, now, square
from redis import Redis

MESSAGES = 200
TIMEOUT = {"block": True, "timeout": 120_000}

redis = Redis.from_url(url(0))


def start_worker(*arguments):
    return Process("-m", "dramatiq", "dramatiq_actors", "--threads", "2", *arguments)


def many():
    messages = [square.send(i) for i in range(MESSAGES)]
    results = [message.get_result(**TIMEOUT) for message in messages]
    assert results == [i * i for i in range(MESSAGES)]


def compositions():
    piped = pipeline([square.message(3), add.message(1), square.message()]).run()
    assert piped.get_result(**TIMEOUT) == 100
    together = group([add.message(i, 1) for i in range(30)])
    together.add_completion_callback(finish_group.message("groups"))
    assert list(together.run().get_results(**TIMEOUT)) == [i + 1 for i in range(30)]
    until("the group's callback", lambda: notes.get("groups") == "1")


def retries():
    assert fails_at_first.send("attempts", 3).get_result(**TIMEOUT) == 4
    given_up = fails_at_first.send_with_options(args=("given up", 100), max_retries=2)
    raises(ResultFailure, "attempt 3", lambda: given_up.get_result(**TIMEOUT))
    assert notes.get("given up") == "3"
    until("the dead message", lambda: redis.zcard("dramatiq:default.XQ") == 1)


def later():
    start = now.send().get_result(**TIMEOUT)
    order = [now.send_with_options(delay=delay) for delay in (1_500, 500, 1_000)]
    waited = [message.get_result(**TIMEOUT) - start for message in order]
    # A message contains the time at which it may begin in whole milliseconds.
    assert all(got >= least for got, least in zip(waited, (1.49, 0.49, 0.99))), waited


def worker_killed():
    """Messages of a worker that died are given to another one when its heartbeats are missed."""
    victim = start_worker("--processes", "1", "--queues", "held")
    messages = [held.send("held") for _ in range(2)]
    first = until("work", lambda: notes.llen("held") == 2 and notes.lrange("held", 0, -1))
    for pid in set(first):
        os.kill(int(pid), signal.SIGKILL)
    victim.kill()
    other = start_worker("--processes", "1", "--queues", "held")
    until("the messages to come again", lambda: notes.llen("held") == 4)
    notes.set("held:free", 1)
    again = {str(message.get_result(**TIMEOUT)) for message in messages}
    assert again == set(notes.lrange("held", 2, 3)) and again.isdisjoint(first), again
    assert other.stop() == 0


def main():
    worker = start_worker("--processes", "2", "--queues", "default")
    for part in (many, compositions, retries, later, worker_killed):
        part()
    broker.join("default", timeout=120_000)
    assert worker.stop() == 0
    for database in range(3):
        Redis.from_url(url(database)).flushdb()
    finish(f"{MESSAGES} messages by two processes, and those of a worker that was killed")


main()
