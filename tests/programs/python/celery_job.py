"""Celery with Redis as broker and backend: tasks by a worker of two processes, groups, chords and
chains, retries, tasks for later, results that expire, revoking, and workers that are killed."""

from celery import chain, chord, group
from celery.exceptions import TaskRevokedError
from celery_tasks import app, dies_once, fails, fails_at_first, held, notes, now, square, total
from common import Process, finish, raises, until, url
from redis import Redis

TASKS = 200

broker = Redis.from_url(url(0))
backend = Redis.from_url(url(1))


def start_worker(name, *arguments):
    worker = Process(
        "-m", "celery", "--app", "celery_tasks", "worker", "--hostname", name, "--pool", "prefork",
        "--loglevel", "WARNING", *arguments,
    )  # fmt: skip
    until("the worker", lambda: app.control.ping([name], timeout=0.5))
    return worker


def many():
    results = [square.delay(i) for i in range(TASKS)]
    assert [result.get(timeout=120) for result in results] == [i * i for i in range(TASKS)]
    states = {result.state for result in results}
    assert states == {"SUCCESS"}, states
    for result in results:
        result.forget()


def canvases():
    squares = group(square.s(i) for i in range(50))()
    assert squares.get(timeout=120) == [i * i for i in range(50)]
    squares.forget()
    summed = chord(square.s(i) for i in range(30))(total.s())
    assert summed.get(timeout=120) == sum(i * i for i in range(30))
    chained = chain(square.s(3), square.s(), group(square.s(), square.s()), total.s())()
    assert chained.get(timeout=120) == 2 * 81 * 81
    broken = chord([square.s(1), fails.s("one")])(total.s())
    raises(Exception, "one", lambda: broken.get(timeout=120))


def retries():
    result = fails_at_first.delay("attempts", 3)
    assert result.get(timeout=120) == 4
    given_up = fails_at_first.delay("given up", 100)
    raises(ValueError, "attempt 6", lambda: given_up.get(timeout=120))
    assert given_up.state == "FAILURE"
    assert "attempt 6" in given_up.traceback


def later():
    start = now.delay().get(timeout=120)
    order = [now.apply_async(countdown=countdown) for countdown in (1.5, 0.5, 1)]
    waited = [result.get(timeout=120) - start for result in order]
    assert waited[0] >= 1.5 and waited[1] >= 0.5 and waited[2] >= 1, waited
    expired = now.apply_async(countdown=1, expires=0.1)
    raises(TaskRevokedError, "expired", lambda: expired.get(timeout=120))


def expiry():
    result = square.apply_async((5,), expires=600)
    assert result.get(timeout=120) == 25
    key = app.backend.get_key_for_task(result.id)
    assert 3500 < backend.ttl(key) <= 3600
    # As if the time had passed.
    backend.pexpire(key, 1)
    until("a result to expire", lambda: app.AsyncResult(result.id).state == "PENDING")


def revoked():
    result = square.apply_async((5,), countdown=2)
    result.revoke()
    raises(TaskRevokedError, "revoked", lambda: result.get(timeout=120))
    # The worker keeps it until its start time.
    until("its acknowledgement", lambda: broker.hlen("unacked") == 0)


def child_killed():
    """If its process dies, a task is given to another process of the worker at once."""
    assert dies_once.delay("deaths").get(timeout=120) == "2"


def worker_killed(worker):
    """Tasks of a worker that died are given to another one when their time has run out."""
    results = [held.delay("held") for _ in range(2)]
    pids = until("tasks in work", lambda: notes.llen("held") == 2 and notes.lrange("held", 0, -1))
    worker.kill()
    for pid in pids:
        # The children of a worker that has ended end by themselves, but not while they have work.
        Process("-c", f"import os; os.kill({pid}, 9)").child.wait()
    assert broker.hlen("unacked") == 2
    other = start_worker("second@programs", "--concurrency", "2")
    until("the tasks to come again", lambda: notes.llen("held") == 4)
    notes.set("held:free", 1)
    again = {str(result.get(timeout=120)) for result in results}
    assert again == set(notes.lrange("held", 2, 3)), again
    assert again.isdisjoint(pids)
    until("their acknowledgement", lambda: broker.hlen("unacked") == 0)
    return other


def main():
    worker = start_worker("first@programs", "--concurrency", "2")
    for part in (many, canvases, retries, later, expiry, revoked, child_killed):
        part()
    other = worker_killed(worker)
    assert broker.llen("main") == 0
    assert other.stop() == 0
    for connection in (broker, backend, notes):
        connection.flushdb()
    finish(f"{TASKS} tasks, and those of a worker that was killed done by another")


main()
