// ioredis: pipelines, transactions, a queue with blocking consumers, publish and subscribe,
// scripts, streams, and its behaviour when its connection is closed.

import assert from 'node:assert/strict';
import Redis from 'ioredis';
import { host, port, range, run, until } from './common.js';

const JOBS = 5_000;
const CONSUMERS = 8;
const MESSAGES = 2_000;

const connect = (options = {}) => new Redis({ host, port, ...options });

async function pipelines(redis) {
  const writes = redis.pipeline();
  for (const i of range(1_000)) writes.set(`p:${i}`, i).incrby(`p:${i}`, 1);
  const written = await writes.exec();
  assert.equal(written.length, 2_000);
  written.forEach(([error, reply], i) => {
    assert.equal(error, null);
    assert.equal(reply, i % 2 === 0 ? 'OK' : (i - 1) / 2 + 1);
  });
  const values = await redis.mget(range(1_000).map((i) => `p:${i}`));
  assert.deepEqual(values, range(1_000).map((i) => `${i + 1}`));
  assert.equal(await redis.del(range(1_000).map((i) => `p:${i}`)), 1_000);
}

async function transactions(redis) {
  const replies = await redis.multi().set('t', 'word').incr('t').get('t').exec();
  assert.deepEqual([replies[0], replies[2]], [[null, 'OK'], [null, 'word']]);
  assert.match(replies[1][0].message, /^ERR value is not an integer/);
  await assert.rejects(redis.multi().call('NOSUCH', 'x').exec(), /EXECABORT/);
  const other = connect();
  await redis.watch('t');
  await other.set('t', 'changed');
  assert.equal(await redis.multi().set('t', 'mine').exec(), null);
  assert.equal(await redis.get('t'), 'changed');
  await redis.del('t');
  other.disconnect();
}

async function queue(redis) {
  const seen = new Set();
  const consumers = range(CONSUMERS).map(() => connect());
  const work = consumers.map(async (consumer) => {
    for (;;) {
      const taken = await consumer.blpop('jobs', 'urgent', 0);
      if (taken[1] === 'end') return;
      assert.ok(!seen.has(taken[1]), `job ${taken[1]} came twice`);
      seen.add(taken[1]);
    }
  });
  for (const i of range(JOBS)) redis.rpush(i % 7 ? 'jobs' : 'urgent', `${i}`);
  await until('all jobs', () => seen.size === JOBS);
  await redis.rpush('jobs', ...range(CONSUMERS).map(() => 'end'));
  await Promise.all(work);
  assert.equal(await redis.blpop('jobs', 0.01), null);
  consumers.forEach((consumer) => consumer.disconnect());
}

async function messages(redis) {
  const subscriber = connect();
  const heard = { exact: [], pattern: [] };
  subscriber.on('message', (channel, text) => heard.exact.push(text));
  subscriber.on('pmessage', (pattern, channel, text) => heard.pattern.push(text));
  assert.equal(await subscriber.subscribe('news'), 1);
  assert.equal(await subscriber.psubscribe('n*'), 2);
  const receivers = await Promise.all(range(MESSAGES).map((i) => redis.publish('news', `${i}`)));
  assert.ok(receivers.every((count) => count === 2));
  await until('all messages', () => heard.pattern.length === MESSAGES);
  const all = range(MESSAGES).map((i) => `${i}`);
  assert.deepEqual(heard, { exact: all, pattern: all });
  await subscriber.unsubscribe('news');
  await subscriber.punsubscribe('n*');
  assert.equal(await subscriber.ping(), 'PONG');
  subscriber.disconnect();
}

async function scripts(redis) {
  redis.defineCommand('raise', {
    numberOfKeys: 1,
    lua: "return redis.call('incrby', KEYS[1], ARGV[1])",
  });
  await redis.script('FLUSH');
  const replies = await Promise.all(range(100).map(() => redis.raise('raised', 2)));
  assert.equal(Math.max(...replies), 200);
  await redis.script('FLUSH');
  const replied = await redis.pipeline().raise('raised', 1).raise('raised', 1).exec();
  assert.deepEqual(replied, [[null, 201], [null, 202]]);
  await redis.del('raised');
}

async function streams(redis) {
  await redis.xgroup('CREATE', 'events', 'readers', '$', 'MKSTREAM');
  const writes = redis.pipeline();
  range(500).forEach((i) => writes.xadd('events', '*', 'number', i));
  await writes.exec();
  const numbers = [];
  while (numbers.length < 500) {
    const read = await redis.xreadgroup(
      'GROUP', 'readers', 'one', 'COUNT', 64, 'BLOCK', 1000, 'STREAMS', 'events', '>',
    );
    for (const [id, fields] of read[0][1]) {
      numbers.push(Number(fields[1]));
      assert.equal(await redis.xack('events', 'readers', id), 1);
    }
  }
  assert.deepEqual(numbers, range(500));
  assert.equal((await redis.xpending('events', 'readers'))[0], 0);
  await redis.del('events');
}

async function scans(redis) {
  await redis.mset(Object.fromEntries(range(3_000).map((i) => [`scan:${i}`, i])));
  const found = new Set();
  for await (const keys of redis.scanStream({ match: 'scan:*', count: 100 })) {
    keys.forEach((key) => found.add(key));
  }
  assert.equal(found.size, 3_000);
  await redis.unlink([...found]);
}

async function reconnects(redis) {
  const cut = connect({ retryStrategy: () => 1, connectionName: 'cut' });
  const listener = connect({ retryStrategy: () => 1 });
  const heard = [];
  listener.on('message', (channel, text) => heard.push(text));
  await listener.subscribe('again');
  const id = await cut.client('ID');
  assert.equal(await redis.client('KILL', 'ID', id), 1);
  assert.equal(await redis.client('KILL', 'TYPE', 'pubsub'), 1);
  assert.equal(await cut.set('after', 'cut'), 'OK');
  assert.equal(await cut.client('GETNAME'), 'cut');
  await until('the subscription again', () => redis.publish('again', 'hello'));
  await until('a message', () => heard.length > 0);
  await redis.del('after');
  cut.disconnect();
  listener.disconnect();
}

run(async () => {
  const redis = connect();
  for (const part of [pipelines, transactions, queue, messages, scripts, streams, scans]) {
    await part(redis);
  }
  await reconnects(redis);
  assert.match(await redis.info('cluster'), /cluster_enabled:0/);
  assert.equal(await redis.dbsize(), 0);
  return `${JOBS} jobs by ${CONSUMERS} consumers, ${MESSAGES} messages, each once and in order`;
});
