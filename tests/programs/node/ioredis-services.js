// ioredis: a queue whose consumers are killed and return, a leaderboard, sessions, and messages to
// many subscribers.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import Redis from 'ioredis';
import { host, port, range, run, until } from './common.js';

const JOBS = Number(process.env.NAGI_JOBS ?? 5_000);
const SUBSCRIBERS = Number(process.env.NAGI_SUBSCRIBERS ?? 100);
const CONSUMERS = 4;
const KILLS = 10;
const BATCH = 100;
const PLAYERS = 1_000;
const ROUNDS = 10;
const SESSIONS = 50;
const VISITORS = 4;
const VISITS = 5;
const MESSAGES = 200;

const connect = () => new Redis({ host, port });

/** The replies of a pipeline or a transaction, of which none is an error. */
function replies(executed) {
  executed.forEach(([error]) => assert.equal(error, null));
  return executed.map(([, reply]) => reply);
}

/** Jobs stay in the consumer's list until they are done: its successor finds them there. */
async function consume(name) {
  const redis = connect();
  const own = `work:${name}`;
  const end = async (job) => {
    const work = redis.multi().lrem(own, 1, job);
    if (job !== 'end') work.rpush('done', job);
    assert.equal(replies(await work.exec())[0], 1);
  };
  for (;;) {
    for (const job of await redis.lrange(own, 0, -1)) await end(job);
    for (let job; (job = await redis.blmove('jobs', own, 'LEFT', 'RIGHT', 0.5)); ) {
      await end(job);
      if (job === 'end') process.exit(0);
    }
  }
}

function start(name) {
  const child = fork(fileURLToPath(import.meta.url), [`${name}`]);
  return { child, ended: new Promise((resolve) => child.on('exit', resolve)) };
}

async function queue(redis) {
  const consumers = range(CONSUMERS).map(start);
  const part = JOBS / KILLS;
  for (const kill of range(KILLS)) {
    for (let first = kill * part; first < (kill + 1) * part; first += BATCH) {
      await redis.rpush('jobs', range(BATCH).map((i) => first + i));
    }
    // Consumers are killed in turn at work and in BLMOVE.
    const wanted = kill % 2 ? (kill + 1) * part : kill * part + part / 2;
    await until('jobs', async () => (await redis.llen('done')) >= wanted);
    const victim = consumers[kill % CONSUMERS];
    victim.child.kill('SIGKILL');
    await victim.ended;
    consumers[kill % CONSUMERS] = start(kill % CONSUMERS);
  }
  await until('all jobs', async () => (await redis.llen('done')) >= JOBS);
  await redis.rpush('jobs', range(CONSUMERS).map(() => 'end'));
  for (const { ended } of consumers) assert.equal(await ended, 0);
  const done = (await redis.lrange('done', 0, -1)).map(Number).sort((a, b) => a - b);
  assert.deepEqual(done, range(JOBS));
  // Neither a job waits nor does a consumer have one.
  assert.equal(await redis.del('done'), 1);
  assert.deepEqual(await redis.keys('*'), []);
}

/** Numbers that look random and are the same in each run. */
function chance(seed) {
  let state = seed;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

async function leaderboard(redis) {
  const random = chance(17);
  const model = new Map();
  let best;
  for (const _ of range(ROUNDS)) {
    const updates = redis.pipeline();
    const expected = [];
    for (const _ of range(PLAYERS)) {
      const player = `p${random(PLAYERS)}`.padStart(5, '0');
      const points = random(1_200) - 200;
      const known = model.get(player);
      if (random(10)) {
        model.set(player, (known ?? 0) + points);
        updates.zincrby('board', points, player);
        expected.push(`${model.get(player)}`);
      } else {
        model.set(player, points);
        updates.zadd('board', points, player);
        expected.push(known === undefined ? 1 : 0);
      }
    }
    assert.deepEqual(replies(await updates.exec()), expected);
    best = [...model].sort(([a, x], [b, y]) => y - x || (a < b ? 1 : -1));
    const shown = await redis.zrevrange('board', 0, -1, 'WITHSCORES');
    assert.deepEqual(shown, best.flatMap(([player, score]) => [player, `${score}`]));
    for (let rank = 0; rank < best.length; rank += 50) {
      assert.equal(await redis.zrevrank('board', best[rank][0]), rank);
      assert.equal(await redis.zrank('board', best[rank][0]), best.length - 1 - rank);
    }
    const good = best.filter(([, score]) => score >= 500).length;
    assert.equal(await redis.zcount('board', 500, '+inf'), good);
  }
  assert.equal(await redis.zremrangebyrank('board', 0, -101), best.length - 100);
  const left = best.slice(0, 100).map(([player]) => player);
  assert.deepEqual(await redis.zrevrange('board', 0, -1), left);
  assert.equal(await redis.del('board'), 1);
}

async function visit(keys) {
  const redis = connect();
  for (const key of range(VISITS).flatMap(() => keys)) {
    let executed = null;
    while (executed === null) {
      await redis.watch(key);
      const visits = Number(await redis.hget(key, 'visits'));
      executed = await redis.multi().hset(key, 'visits', visits + 1).expire(key, 1_800).exec();
    }
    assert.deepEqual(replies(executed), [0, 1]);
  }
  redis.disconnect();
}

async function sessions(redis) {
  const keys = range(SESSIONS).map((i) => `session:${i}`);
  const created = redis.pipeline();
  keys.forEach((key, i) => created.hset(key, { user: `user ${i}`, visits: 0 }).expire(key, 3_600));
  assert.deepEqual(replies(await created.exec()), keys.flatMap(() => [2, 1]));
  await Promise.all(range(VISITORS).map(() => visit(keys)));
  for (const [i, key] of keys.entries()) {
    const wanted = { user: `user ${i}`, visits: `${VISITORS * VISITS}` };
    assert.deepEqual({ ...(await redis.hgetall(key)) }, wanted);
    const seconds = await redis.ttl(key);
    assert.ok(seconds > 1_700 && seconds <= 1_800);
  }
  for (const i of range(SESSIONS / 2)) await redis.pexpire(keys[2 * i], 1_000);
  const late = connect();
  await late.watch(keys[0]);
  await until('the end of half', async () => (await redis.exists(keys)) === SESSIONS / 2);
  // The session has expired, so it must not come back without its user.
  assert.equal(await late.multi().hset(keys[0], 'visits', 1).exec(), null);
  late.disconnect();
  assert.deepEqual({ ...(await redis.hgetall(keys[0])) }, {});
  assert.equal(await redis.ttl(keys[0]), -2);
  assert.equal(await redis.del(keys), SESSIONS / 2);
}

async function fanOut(redis) {
  const listeners = range(SUBSCRIBERS).map(() => ({ redis: connect(), heard: [] }));
  for (const { redis: listener, heard } of listeners) {
    listener.on('message', (channel, text) => heard.push(text));
    assert.equal(await listener.subscribe('news'), 1);
  }
  for (const i of range(MESSAGES)) assert.equal(await redis.publish('news', i), SUBSCRIBERS);
  await until('all messages', () => listeners.every(({ heard }) => heard.length >= MESSAGES));
  for (const { redis: listener, heard } of listeners) {
    assert.deepEqual(heard, range(MESSAGES).map(String));
    listener.disconnect();
  }
  await until('nobody to listen', async () => (await redis.publish('news', 'last')) === 0);
}

if (process.argv[2]) {
  await consume(process.argv[2]);
} else {
  run(async () => {
    const redis = connect();
    const times = [];
    for (const part of [queue, leaderboard, sessions, fanOut]) {
      const begun = Date.now();
      await part(redis);
      times.push(`${part.name} ${((Date.now() - begun) / 1_000).toFixed(1)} s`);
    }
    assert.equal(await redis.dbsize(), 0);
    console.log(times.join(', '));
    return `${JOBS} jobs by ${CONSUMERS} consumers of which ${KILLS} were killed, a leaderboard of `
      + `${PLAYERS}, ${SESSIONS} sessions, ${MESSAGES} messages to ${SUBSCRIBERS} subscribers`;
  });
}
