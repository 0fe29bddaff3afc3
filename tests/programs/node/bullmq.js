// BullMQ: two processes of workers, delays, retries, priorities, repetition, rates, flows, events,
// and the jobs of a worker that is killed.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import Redis from 'ioredis';
import { host, port, range, run, until } from './common.js';

const JOBS = 200;
const HELD = 10;

const connection = { host, port };

/** What opened during a part, closed at its end. */
const opened = [];
const open = async (thing) => {
  opened.push(thing);
  thing.on('error', (error) => console.error(error));
  await thing.waitUntilReady();
  return thing;
};
const closeAll = async () => {
  for (const thing of opened.splice(0).reverse()) {
    if (thing instanceof Queue) await thing.obliterate({ force: true });
    await thing.close();
  }
};

const openQueue = (name) => open(new Queue(name, { connection }));
const openWorker = (name, processor, options = {}) =>
  open(new Worker(name, processor, { connection, ...options }));
const openEvents = (name) => open(new QueueEvents(name, { connection, lastEventId: '0' }));

/** A process with a worker, which has connected. */
async function startWorkerProcess(queue, options) {
  const child = fork('bullmq-worker.js', [queue, JSON.stringify(options)]);
  assert.deepEqual(await once(child, 'message'), ['ready', undefined]);
  return child;
}

async function twoProcesses() {
  const queue = await openQueue('work');
  const events = await openEvents('work');
  const results = new Map();
  const seen = { added: 0, active: 0 };
  events.on('added', () => { seen.added += 1; });
  events.on('active', () => { seen.active += 1; });
  events.on('completed', ({ jobId, returnvalue }) => {
    assert.ok(!results.has(jobId), `job ${jobId} was completed twice`);
    results.set(jobId, returnvalue);
  });
  const children = await Promise.all(
    range(2).map(() => startWorkerProcess('work', { concurrency: 4 })),
  );
  const jobs = await queue.addBulk(
    range(JOBS).map((i) => ({ name: 'square', data: { number: i } })),
  );
  await until('all jobs', () => results.size === JOBS);
  jobs.forEach((job, i) => assert.equal(results.get(job.id).square, i * i));
  const processes = new Set([...results.values()].map((result) => result.pid));
  assert.deepEqual(processes, new Set(children.map((child) => child.pid)));
  await until('all events', () => seen.added === JOBS && seen.active === JOBS);
  const counts = await queue.getJobCounts('wait', 'active', 'completed', 'failed');
  assert.deepEqual(counts, { wait: 0, active: 0, completed: JOBS, failed: 0 });
  const done = await queue.getJob(jobs[7].id);
  assert.deepEqual([done.progress, done.returnvalue.square], [100, 49]);
  const { logs } = await queue.getJobLogs(jobs[7].id);
  assert.deepEqual(logs, ['squares 7']);
  children.forEach((child) => child.kill('SIGTERM'));
  const codes = await Promise.all(children.map((child) => once(child, 'exit')));
  assert.deepEqual(codes, [[0, null], [0, null]]);
}

async function delays() {
  const queue = await openQueue('later');
  const taken = [];
  await openWorker('later', async (job) => taken.push([job.data, Date.now() - job.timestamp]));
  for (const delay of [600, 200, 400]) await queue.add('wait', delay, { delay });
  const far = await queue.add('wait', 3_600_000, { delay: 3_600_000 });
  assert.equal(await far.getState(), 'delayed');
  await until('three delayed jobs', () => taken.length === 3);
  assert.deepEqual(taken.map(([delay]) => delay), [200, 400, 600]);
  // A timer of Node.js may be a millisecond early.
  for (const [delay, waited] of taken) assert.ok(waited >= delay - 2, `${waited} of ${delay} ms`);
  assert.equal(await queue.getDelayedCount(), 1);
  await far.promote();
  await until('the promoted job', () => taken.length === 4);
}

async function retries() {
  const queue = await openQueue('flaky');
  const events = await openEvents('flaky');
  const begun = [];
  await openWorker('flaky', async (job) => {
    begun.push([job.name, Date.now()]);
    if (job.attemptsMade < job.data.failures) throw new Error(`attempt ${job.attemptsMade}`);
    return job.attemptsMade;
  });
  const backoff = { type: 'exponential', delay: 100 };
  const late = await queue.add('late', { failures: 3 }, { attempts: 5, backoff });
  assert.equal(await late.waitUntilFinished(events), 3);
  const times = begun.map(([, time]) => time);
  const pauses = range(3).map((i) => times[i + 1] - times[i]);
  [100, 200, 400].forEach((pause, i) => assert.ok(pauses[i] >= pause - 2, `${pauses}`));
  const never = await queue.add('never', { failures: 4 }, { attempts: 2, backoff: 10 });
  await assert.rejects(never.waitUntilFinished(events), /attempt 1/);
  assert.equal(begun.filter(([name]) => name === 'never').length, 2);
  const [failed] = await queue.getFailed();
  assert.deepEqual([failed.id, failed.failedReason], [never.id, 'attempt 1']);
  await failed.updateData({ failures: 0 });
  await failed.retry();
  await until('the job that was put back', async () => (await failed.getState()) === 'completed');
  assert.equal(await queue.getFailedCount(), 0);
}

async function priorities() {
  const queue = await openQueue('ranked');
  await queue.pause();
  const priority = (i) => (i * 7) % 10 + 1;
  const wanted = range(40).map((i) => ({ name: 'rank', data: i, opts: { priority: priority(i) } }));
  await queue.addBulk(wanted);
  const raised = await queue.add('rank', 40, { priority: 50 });
  await raised.changePriority({ priority: 1 });
  await queue.add('rank', 41, { lifo: true });
  const taken = [];
  await openWorker('ranked', async (job) => taken.push(job.data));
  assert.ok(await queue.isPaused());
  assert.deepEqual(taken, []);
  await queue.resume();
  await until('jobs in the order of their ranks', () => taken.length === 42);
  const sorted = range(40).sort((a, b) => priority(a) - priority(b) || a - b);
  // The job whose priority was raised comes last among the four of the first rank.
  assert.deepEqual(taken, [41, ...sorted.slice(0, 4), 40, ...sorted.slice(4)]);
}

async function repetition() {
  const queue = await openQueue('clock');
  const ticks = [];
  await openWorker('clock', async (job) => ticks.push(job.data));
  await queue.upsertJobScheduler('tick', { every: 100, limit: 5 }, { name: 'tick', data: 'tock' });
  await queue.upsertJobScheduler('midnight', { pattern: '0 0 0 * * *' }, { name: 'daily' });
  const schedulers = await queue.getJobSchedulers();
  assert.deepEqual(schedulers.map(({ key }) => key).sort(), ['midnight', 'tick']);
  await until('five ticks', () => ticks.length === 5);
  assert.ok(await queue.removeJobScheduler('midnight'));
  assert.ok(!(await queue.removeJobScheduler('midnight')));
  await until('its end', async () => (await queue.getJobCountByTypes('delayed', 'active')) === 0);
  assert.deepEqual(ticks, range(5).map(() => 'tock'));
}

async function rates() {
  const queue = await openQueue('slow');
  const limiter = { max: 5, duration: 300 };
  const times = [];
  await openWorker('slow', async () => times.push(Date.now()), { limiter, concurrency: 5 });
  const start = Date.now();
  await queue.addBulk(range(15).map((i) => ({ name: 'limited', data: i })));
  await until('limited jobs', () => times.length === 15);
  // The sixth may begin when the window of the first has ended, and so on.
  for (const windows of [1, 2]) assert.ok(times[windows * 5] - start >= windows * 298, `${times}`);
  const options = { deduplication: { id: 'same' }, delay: 60_000 };
  const twice = [await queue.add('one', 1, options), await queue.add('one', 2, options)];
  assert.equal(twice[0].id, twice[1].id);
  assert.equal(await queue.getDelayedCount(), 1);
}

async function flows() {
  for (const name of ['parts', 'whole', 'bad']) await openQueue(name);
  const producer = await open(new FlowProducer({ connection }));
  const events = await openEvents('whole');
  const sum = async (job) => {
    const values = Object.values(await job.getChildrenValues());
    return values.reduce((total, value) => total + value, job.data);
  };
  const leaf = (i) => ({ name: 'leaf', data: i, queueName: 'parts' });
  const flow = await producer.add({
    name: 'root', data: 1_000, queueName: 'whole',
    children: [
      ...range(20).map(leaf),
      { name: 'branch', data: 500, queueName: 'whole', children: range(10).map(leaf) },
    ],
  });
  assert.equal(await flow.job.getState(), 'waiting-children');
  assert.equal((await flow.job.getDependenciesCount()).unprocessed, 21);
  await openWorker('parts', sum, { concurrency: 3 });
  await openWorker('whole', sum);
  assert.equal(await flow.job.waitUntilFinished(events), 1_000 + 190 + 500 + 45);
  assert.equal((await flow.job.getDependenciesCount()).processed, 21);
  const tree = await producer.getFlow({ id: flow.job.id, queueName: 'whole' });
  assert.equal(tree.children.length, 21);
  const broken = await producer.add({
    name: 'root', data: 0, queueName: 'whole',
    children: [{ name: 'leaf', queueName: 'bad', opts: { failParentOnFailure: true } }],
  });
  await openWorker('bad', async () => { throw new Error('no'); });
  await assert.rejects(broken.job.waitUntilFinished(events), /failed/);
}

async function killed() {
  const queue = await openQueue('fragile');
  const events = await openEvents('fragile');
  const stalled = new Set();
  const finished = [];
  events.on('stalled', ({ jobId }) => stalled.add(jobId));
  events.on('completed', ({ jobId, returnvalue }) => finished.push([jobId, returnvalue]));
  const times = { lockDuration: 2_000, stalledInterval: 500 };
  const victim = await startWorkerProcess('fragile', { ...times, concurrency: HELD, hangs: true });
  const wanted = range(HELD * 2).map((i) => ({ name: 'hold', data: { number: i } }));
  const jobs = await queue.addBulk(wanted);
  await until('jobs in work', async () => (await queue.getActiveCount()) === HELD);
  victim.kill('SIGKILL');
  await once(victim, 'exit');
  const rescuer = await startWorkerProcess('fragile', times);
  await until('the jobs of both', () => finished.length === HELD * 2);
  const ids = jobs.map((job) => job.id);
  assert.deepEqual(new Set(finished.map(([id]) => id)), new Set(ids));
  assert.ok(finished.every(([, result]) => result.pid === rescuer.pid));
  assert.deepEqual(stalled, new Set(ids.slice(0, HELD)));
  const found = await Promise.all(ids.map((id) => queue.getJob(id)));
  assert.deepEqual(
    found.map((job) => job.stalledCounter),
    range(HELD * 2).map((i) => (i < HELD ? 1 : 0)),
  );
  rescuer.kill('SIGTERM');
  await once(rescuer, 'exit');
}

const PARTS = [
  twoProcesses, delays, retries, priorities, repetition, rates, flows, killed,
];

run(async () => {
  for (const part of PARTS) {
    await part();
    await closeAll();
  }
  const redis = new Redis(connection);
  assert.deepEqual(await redis.keys('*'), []);
  return `${JOBS} jobs by two processes, ${HELD} of one that was killed done by another`;
});
