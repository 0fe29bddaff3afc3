"""RQ: jobs by two workers, dependencies, retries, the registry of failures, jobs for later, and a
job whose process is killed."""

import os
import signal
import time
from datetime import timedelta

from common import Process, finish, raises, until, url
from redis import Redis
from rq import Queue, Retry, Worker
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq_tasks import fails_at_first, hangs, note, notes, square

JOBS = 100

redis = Redis.from_url(url(0))


def start_worker(name):
    worker = Process(
        "-m", "rq.cli", "worker", "high", "default", "--url", url(0), "--name", name,
        "--with-scheduler", "--quiet",
    )  # fmt: skip
    until("the worker", lambda: any(found.name == name for found in Worker.all(redis)))
    return worker


def wait_for(job, status=JobStatus.FINISHED):
    until(f"{job.id} to be {status}", lambda: job.get_status() == status)
    return job


def priorities(queue):
    """Before any worker runs: jobs of the first queue are done first."""
    for i in range(5):
        queue.enqueue(note, "order", f"default {i}")
    high = Queue("high", connection=redis)
    for i in range(5):
        high.enqueue(note, "order", f"high {i}")
    queue.enqueue(note, "order", "first", at_front=True)
    assert queue.count == 6 and high.count == 5
    assert Worker([high, queue], connection=redis).work(burst=True)
    expected = [*(f"high {i}" for i in range(5)), "first", *(f"default {i}" for i in range(5))]
    assert notes.lrange("order", 0, -1) == expected


def many(queue):
    with redis.pipeline() as pipeline:
        data = [Queue.prepare_data(square, args=(i,), job_id=f"job-{i}") for i in range(JOBS)]
        jobs = queue.enqueue_many(data, pipeline=pipeline)
        pipeline.execute()
    for i, job in enumerate(jobs):
        assert wait_for(job).return_value() == i * i
    assert set(queue.finished_job_registry.get_job_ids()) >= {job.id for job in jobs}
    workers = {found.name: found.successful_job_count for found in Worker.all(redis)}
    assert workers.keys() == {"first", "second"}, workers
    assert 0 < redis.ttl(jobs[0].key) <= 500


def dependencies(queue):
    parts = [queue.enqueue(note, "parts", f"{i}") for i in range(5)]
    last = queue.enqueue(note, "parts", "last", depends_on=parts)
    wait_for(last)
    noted = notes.lrange("parts", 0, -1)
    assert sorted(noted[:5]) == [f"{i}" for i in range(5)] and noted[5:] == ["last"], noted


def retries(queue):
    job = queue.enqueue(fails_at_first, "attempts", 2, retry=Retry(max=3))
    assert wait_for(job).return_value() == 3
    failed = queue.enqueue(fails_at_first, "failures", 2, retry=Retry(max=1))
    wait_for(failed, JobStatus.FAILED)
    assert "attempt 2" in failed.latest_result().exc_string
    registry = queue.failed_job_registry
    assert failed.id in registry
    registry.requeue(failed.id)
    assert wait_for(failed).return_value() == 3
    assert failed.id not in registry


def later(queue):
    start = time.time()
    job = queue.enqueue_in(timedelta(seconds=2), note, "later", "done")
    assert job.id in queue.scheduled_job_registry
    far = queue.enqueue_in(timedelta(hours=1), note, "later", "never")
    # The registry counts whole seconds.
    assert wait_for(job).return_value() - start >= 1
    assert far.get_status() == JobStatus.SCHEDULED
    far.delete()
    raises(NoSuchJobError, far.id, lambda: Job.fetch(far.id, connection=redis))
    assert notes.lrange("later", 0, -1) == ["done"]


def killed(queue):
    """A job's process dies: its worker records the failure and continues."""
    job = queue.enqueue(hangs, "hanging")
    pid = until("the job to hang", lambda: notes.lindex("hanging", 0))
    os.kill(int(pid), signal.SIGKILL)
    wait_for(job, JobStatus.FAILED)
    assert "signal 9" in job.latest_result().exc_string
    assert wait_for(queue.enqueue(square, 4)).return_value() == 16


def main():
    queue = Queue("default", connection=redis)
    priorities(queue)
    workers = [start_worker(name) for name in ("first", "second")]
    for part in (many, dependencies, retries, later, killed):
        part(queue)
    assert queue.count == 0
    for worker in workers:
        assert worker.stop() == 0
    assert Worker.all(redis) == []
    redis.flushdb()
    notes.flushdb()
    finish(f"{JOBS} jobs by two workers, retries, jobs for later, and one whose process was killed")


main()
