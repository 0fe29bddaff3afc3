"""redis-py: a queue whose consumers are killed and return, a leaderboard, sessions, and messages to
many subscribers."""

import os
import random
import sys
import threading
import time

from common import Process, finish, raises, until, url
from redis import Redis
from redis.exceptions import WatchError

JOBS = int(os.environ.get("NAGI_JOBS", "5000"))
SUBSCRIBERS = int(os.environ.get("NAGI_SUBSCRIBERS", "100"))
CONSUMERS = 4
KILLS = 10
BATCH = 100
PLAYERS = 1_000
ROUNDS = 10
SESSIONS = 50
VISITORS = 4
VISITS = 5
MESSAGES = 200


def connect():
    return Redis.from_url(url(0), decode_responses=True)


def consume(name):
    """Jobs stay in the consumer's list until they are done: its successor finds them there."""
    client, own = connect(), f"work:{name}"

    def end(job):
        with client.pipeline() as pipe:
            pipe.lrem(own, 1, job)
            if job != "end":
                pipe.rpush("done", job)
            assert pipe.execute()[0] == 1, job

    while True:
        for job in client.lrange(own, 0, -1):
            end(job)
        while job := client.blmove("jobs", own, 0.5, "LEFT", "RIGHT"):
            end(job)
            if job == "end":
                return


def queue(client):
    consumers = [Process("redis_py_services.py", str(i)) for i in range(CONSUMERS)]
    part = JOBS // KILLS
    for kill in range(KILLS):
        jobs = range(kill * part, (kill + 1) * part)
        for start in range(jobs.start, jobs.stop, BATCH):
            client.rpush("jobs", *jobs[start - jobs.start :][:BATCH])
        # Consumers are killed in turn at work and in BLMOVE.
        wanted = jobs.stop if kill % 2 else jobs.start + part // 2
        until("jobs", lambda: client.llen("done") >= wanted)
        consumers[kill % CONSUMERS].kill()
        consumers[kill % CONSUMERS] = Process("redis_py_services.py", str(kill % CONSUMERS))
    until("all jobs", lambda: client.llen("done") >= part * KILLS)
    client.rpush("jobs", *["end"] * CONSUMERS)
    for consumer in consumers:
        assert consumer.child.wait(60) == 0
    done = client.lrange("done", 0, -1)
    assert sorted(map(int, done)) == list(range(part * KILLS))
    # Neither a job waits nor does a consumer have one.
    assert client.delete("done") == 1
    assert client.keys() == []


def leaderboard(client):
    chance, model = random.Random(17), {}
    for _ in range(ROUNDS):
        with client.pipeline() as pipe:
            expected = []
            for _ in range(PLAYERS):
                player, points = f"p{chance.randrange(PLAYERS):04}", chance.randrange(-200, 1_000)
                if chance.randrange(10):
                    model[player] = model.get(player, 0) + points
                    pipe.zincrby("board", points, player)
                    expected.append(model[player])
                else:
                    expected.append(0 if player in model else 1)
                    model[player] = points
                    pipe.zadd("board", {player: points})
            assert pipe.execute() == expected
        ranks = sorted(model, key=lambda player: (model[player], player))
        best = [(player, model[player]) for player in reversed(ranks)]
        assert client.zrevrange("board", 0, -1, withscores=True) == best
        for rank in range(0, len(ranks), 50):
            assert client.zrank("board", ranks[rank]) == rank
            assert client.zrevrank("board", ranks[rank]) == len(ranks) - 1 - rank
        assert client.zcount("board", 500, "+inf") == sum(score >= 500 for score in model.values())
    assert client.zremrangebyrank("board", 0, -101) == len(model) - 100
    assert client.zrevrange("board", 0, -1, withscores=True) == best[:100]
    assert client.delete("board") == 1


def sessions(client):
    keys = [f"session:{i}" for i in range(SESSIONS)]
    with client.pipeline() as pipe:
        for i, key in enumerate(keys):
            pipe.hset(key, mapping={"user": f"user {i}", "visits": 0})
            pipe.expire(key, 3_600)
        assert pipe.execute() == [2, True] * SESSIONS

    def visit():
        own = connect()
        for key in keys * VISITS:

            def raise_visits(pipe, key=key):
                visits = int(pipe.hget(key, "visits"))
                pipe.multi()
                pipe.hset(key, "visits", visits + 1)
                pipe.expire(key, 1_800)

            assert own.transaction(raise_visits, key) == [0, True]

    visitors = [threading.Thread(target=visit) for _ in range(VISITORS)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    for i, key in enumerate(keys):
        assert client.hgetall(key) == {"user": f"user {i}", "visits": str(VISITORS * VISITS)}
        assert 1_700 < client.ttl(key) <= 1_800
    with client.pipeline() as watching:
        for key in keys[::2]:
            client.pexpire(key, 1_000)
        watching.watch(keys[0])
        until("the end of half of them", lambda: client.exists(*keys) == SESSIONS // 2)
        watching.multi()
        watching.hset(keys[0], "visits", 1)
        # The session has expired, so it must not come back without its user.
        raises(WatchError, "", watching.execute)
    assert client.hgetall(keys[0]) == {} and client.ttl(keys[0]) == -2
    assert client.delete(*keys) == SESSIONS // 2


def fan_out(client):
    listeners = [connect().pubsub() for _ in range(SUBSCRIBERS)]
    for listener in listeners:
        listener.subscribe("news")
        assert listener.get_message(timeout=60)["type"] == "subscribe"
    for i in range(MESSAGES):
        assert client.publish("news", i) == SUBSCRIBERS
    for listener in listeners:
        heard = [listener.get_message(timeout=60)["data"] for _ in range(MESSAGES)]
        assert heard == [str(i) for i in range(MESSAGES)]
        listener.close()
    until("nobody to listen", lambda: client.publish("news", "last") == 0)


def main():
    client = connect()
    times = []
    for part in (queue, leaderboard, sessions, fan_out):
        start = time.monotonic()
        part(client)
        times.append(f"{part.__name__} {time.monotonic() - start:.1f} s")
    assert client.keys() == []
    print(", ".join(times))
    finish(
        f"{JOBS} jobs by {CONSUMERS} consumers of which {KILLS} were killed, a leaderboard of "
        f"{PLAYERS}, {SESSIONS} sessions, {MESSAGES} messages to {SUBSCRIBERS} subscribers"
    )


if sys.argv[1:]:
    consume(sys.argv[1])
else:
    main()
