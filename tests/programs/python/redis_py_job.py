"""redis-py: locks of threads, processes and tasks of asyncio, locks that end too early, those of a
process that is killed, and what a lock protects."""

import asyncio
import sys
import threading
import time

import redis.asyncio
from common import HOST, PORT, Process, finish, raises, until, url
from redis import Redis
from redis.exceptions import LockError, LockNotOwnedError

PROCESSES = 4
RAISES = 50
THREADS = 16
TASKS = 20

redis_py = Redis.from_url(url(0), decode_responses=True)


def raise_often(client, key, times):
    """Reads and writes a number in two requests, which only the lock keeps together."""
    for _ in range(times):
        with client.lock(f"{key}:lock", timeout=30, sleep=0.001):
            number = int(client.get(key) or 0)
            client.set(key, number + 1)


def processes():
    started = [Process("redis_py_job.py", "raise", "processes") for _ in range(PROCESSES)]
    for process in started:
        assert process.child.wait(120) == 0
    assert redis_py.get("processes") == str(PROCESSES * RAISES)


def threads():
    """On one client, thus on one pool of connections; each thread has its own token of a lock."""
    started = [
        threading.Thread(target=raise_often, args=(redis_py, "threads", RAISES // 5))
        for _ in range(THREADS)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert redis_py.get("threads") == str(THREADS * (RAISES // 5))


async def tasks():
    async with redis.asyncio.Redis(host=HOST, port=PORT, protocol=3) as client:

        async def raise_once():
            async with client.lock("tasks:lock", timeout=30, sleep=0.001):
                number = int(await client.get("tasks") or 0)
                await asyncio.sleep(0)
                await client.set("tasks", number + 1)

        await asyncio.gather(*(raise_once() for _ in range(TASKS)))
        assert await client.get("tasks") == str(TASKS).encode()


def owners():
    first = redis_py.lock("owned", timeout=30)
    second = redis_py.lock("owned", timeout=30, blocking=False)
    assert first.acquire() and first.owned() and first.locked()
    assert second.acquire() is False and not second.owned() and second.locked()
    raises(LockError, "Cannot release", second.release)
    start = time.monotonic()
    assert redis_py.lock("owned", blocking_timeout=0.2, sleep=0.01).acquire() is False
    assert time.monotonic() - start >= 0.15
    assert first.extend(30) and 50 < redis_py.ttl("owned") <= 60
    assert first.extend(40, replace_ttl=True) and 30 < redis_py.ttl("owned") <= 40
    assert first.reacquire() and redis_py.ttl("owned") <= 30
    first.release()
    assert second.acquire() and redis_py.get("owned") == second.local.token.decode()
    second.release()
    assert not first.locked()


def ends():
    """A lock that has expired belongs to the next client that acquires it."""
    late = redis_py.lock("late", timeout=0.05)
    assert late.acquire()
    until("its end", lambda: not redis_py.exists("late"))
    raises(LockNotOwnedError, "no longer owned", lambda: late.extend(10))
    raises(LockNotOwnedError, "no longer owned", late.reacquire)
    next_one = redis_py.lock("late")
    assert next_one.acquire(token="own")
    raises(LockNotOwnedError, "no longer owned", late.release)
    assert redis_py.get("late") == "own"
    # Scripts that the server has forgotten are loaded again.
    redis_py.script_flush()
    next_one.release()
    with redis_py.lock("late", timeout=0.05, raise_on_release_error=False):
        until("its end", lambda: not redis_py.exists("late"))


def killed():
    holder = Process("redis_py_job.py", "hold", "held")
    until("the lock", lambda: redis_py.exists("held"))
    holder.kill()
    lock = redis_py.lock("held", timeout=30, sleep=0.01)
    assert lock.acquire()
    lock.release()


def main():
    for part in (processes, threads, owners, ends, killed):
        part()
    asyncio.run(tasks())
    assert redis_py.delete("processes", "threads", "tasks") == 3
    assert redis_py.keys() == []
    finish(
        f"numbers raised under locks by {PROCESSES} processes, {THREADS} threads, {TASKS} tasks, "
        "and the lock of a process that was killed"
    )


if sys.argv[1:2] == ["raise"]:
    raise_often(Redis.from_url(url(0), protocol=3), sys.argv[2], RAISES)
elif sys.argv[1:2] == ["hold"]:
    redis_py.lock(sys.argv[2], timeout=1).acquire()
    threading.Event().wait()
else:
    main()
