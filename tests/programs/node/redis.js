// node-redis: pipelines, transactions, scripts, publish and subscribe, a queue taken from by a pool
// of connections, streams, scans, its cache of tracked keys, and reconnecting.

import assert from 'node:assert/strict';
import {
  BasicClientSideCache, WatchError, createClient, createClientPool, defineScript,
} from 'redis';
import { host, port, range, run, until } from './common.js';

const JOBS = 3_000;
const CONSUMERS = 8;
const MESSAGES = 1_000;

const raise = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
  parseCommand(parser, key, amount) {
    parser.pushKey(key);
    parser.push(`${amount}`);
  },
  transformReply: undefined,
});

const settings = (options = {}) => ({ socket: { host, port }, scripts: { raise }, ...options });

async function connect(options) {
  const client = createClient(settings(options));
  client.on('error', (error) => console.log(`${error}`));
  return client.connect();
}

async function pipelines(redis) {
  // Requests of one turn of the event loop are sent together.
  const replies = await Promise.all(range(2_000).map((i) => redis.set(`p:${i}`, `${i}`)));
  assert.ok(replies.every((reply) => reply === 'OK'));
  const values = await redis.mGet(range(2_000).map((i) => `p:${i}`));
  assert.deepEqual(values, range(2_000).map((i) => `${i}`));
  const some = range(2_000).map((i) => `p:${i}`);
  const read = await some.reduce((multi, key) => multi.get(key), redis.multi()).execAsPipeline();
  assert.deepEqual(read, values);
  assert.equal(await redis.unlink(some), 2_000);
}

async function transactions(redis) {
  const replies = await redis.multi().set('t', '1').incr('t').hSet('h', { a: 1, b: 2 }).exec();
  assert.deepEqual(replies, ['OK', 2, 2]);
  assert.deepEqual({ ...(await redis.hGetAll('h')) }, { a: '1', b: '2' });
  await assert.rejects(redis.multi().set('t', 'word').incr('t').exec(), (error) => {
    assert.deepEqual(error.errorIndexes, [1]);
    return /not an integer/.test(error.replies[1].message);
  });
  const other = await connect();
  await redis.watch('t');
  await other.set('t', 'changed');
  await assert.rejects(redis.multi().set('t', 'mine').exec(), WatchError);
  assert.equal(await redis.get('t'), 'changed');
  await redis.del(['t', 'h']);
  other.destroy();
}

/** Raises one number from many connections, each by WATCH, MULTI and EXEC until it succeeds. */
async function contention(redis) {
  const pool = await createClientPool(settings(), { minimum: 4, maximum: 4 }).connect();
  await redis.set('total', '0');
  let refused = 0;
  const add = () => pool.execute(async (client) => {
    for (;;) {
      await client.watch('total');
      const total = Number(await client.get('total'));
      try {
        return await client.multi().set('total', `${total + 1}`).exec();
      } catch (error) {
        if (!(error instanceof WatchError)) throw error;
        refused += 1;
      }
    }
  });
  await Promise.all(range(200).map(add));
  assert.equal(await redis.getDel('total'), '200');
  assert.ok(refused > 0, 'no transaction was refused');
  await pool.close();
}

async function scripts(redis) {
  await redis.scriptFlush();
  const replies = await Promise.all(range(100).map(() => redis.raise('raised', 2)));
  assert.equal(Math.max(...replies), 200);
  await redis.scriptFlush();
  assert.deepEqual(await redis.multi().raise('raised', 1).raise('raised', 1).exec(), [201, 202]);
  const reply = await redis.eval("return {KEYS[1], ARGV[1], {1, 'two'}}", {
    keys: ['k'], arguments: ['a'],
  });
  assert.deepEqual(reply, ['k', 'a', [1, 'two']]);
  await redis.del('raised');
}

async function queue(redis) {
  const pool = createClientPool(settings(), { minimum: CONSUMERS, maximum: CONSUMERS });
  await pool.connect();
  const seen = new Set();
  const consume = () => pool.execute(async (client) => {
    for (;;) {
      const taken = await client.blMove('jobs', 'taken', 'LEFT', 'RIGHT', 0);
      if (taken === 'end') return;
      assert.ok(!seen.has(taken), `job ${taken} came twice`);
      seen.add(taken);
    }
  });
  const consumers = range(CONSUMERS).map(consume);
  for (const i of range(JOBS)) redis.rPush('jobs', `${i}`);
  await until('all jobs', () => seen.size === JOBS);
  await redis.rPush('jobs', range(CONSUMERS).map(() => 'end'));
  await Promise.all(consumers);
  assert.equal(await redis.lLen('taken'), JOBS + CONSUMERS);
  const emptied = await pool.execute((client) => client.blPop('jobs', 0.01));
  assert.equal(emptied, null);
  await redis.zAdd('ranks', range(100).map((i) => ({ score: 100 - i, value: `m${i}` })));
  const lowest = await pool.bzPopMin('ranks', 1);
  assert.deepEqual({ ...lowest }, { key: 'ranks', value: 'm99', score: 1 });
  await redis.del(['taken', 'ranks']);
  await pool.close();
}

async function messages(redis) {
  const subscriber = await connect();
  const heard = { exact: [], pattern: [], bytes: [] };
  await subscriber.subscribe('news', (text) => heard.exact.push(text));
  await subscriber.pSubscribe('n*', (text, channel) => heard.pattern.push([text, channel]));
  await subscriber.subscribe('raw', (bytes) => heard.bytes.push(bytes), true);
  const numbers = range(MESSAGES).map((i) => `${i}`);
  const receivers = await Promise.all(numbers.map((text) => redis.publish('news', text)));
  assert.ok(receivers.every((count) => count === 2));
  await redis.publish('raw', Buffer.from([0, 255, 13, 10]));
  await until('all messages', () => heard.bytes.length === 1);
  assert.deepEqual(heard.exact, numbers);
  assert.deepEqual(heard.pattern, numbers.map((text) => [text, 'news']));
  assert.deepEqual(heard.bytes, [Buffer.from([0, 255, 13, 10])]);
  await subscriber.unsubscribe(['news', 'raw']);
  await subscriber.pUnsubscribe('n*');
  assert.equal(await redis.publish('news', 'gone'), 0);
  subscriber.destroy();
}

async function streams() {
  // With RESP3 this library returns replies of streams unconverted.
  const redis = await connect({ RESP: 2 });
  await redis.xGroupCreate('events', 'readers', '$', { MKSTREAM: true });
  await Promise.all(range(500).map((i) => redis.xAdd('events', '*', { number: `${i}` })));
  const read = (consumer, count) => redis.xReadGroup(
    'readers', consumer, { key: 'events', id: '>' }, { COUNT: count, BLOCK: 1_000 },
  );
  // A consumer that reads and never acknowledges; its entries are claimed afterwards.
  const [lost] = await read('lost', 100);
  assert.equal(lost.messages.length, 100);
  const numbers = [];
  while (numbers.length < 400) {
    const [{ messages: entries }] = await read('one', 64);
    for (const { id, message } of entries) {
      numbers.push(Number(message.number));
      assert.equal(await redis.xAck('events', 'readers', id), 1);
    }
  }
  assert.deepEqual(numbers, range(400).map((i) => i + 100));
  const pending = await redis.xPending('events', 'readers');
  assert.equal(pending.pending, 100);
  const [{ name, deliveriesCounter }] = pending.consumers;
  assert.deepEqual([name, deliveriesCounter], ['lost', 100]);
  const claimed = await redis.xAutoClaim('events', 'readers', 'one', 0, '0-0', { COUNT: 200 });
  assert.deepEqual(claimed.messages.map(({ message }) => Number(message.number)), range(100));
  assert.equal(await redis.xAck('events', 'readers', claimed.messages.map(({ id }) => id)), 100);
  assert.equal((await redis.xInfoGroups('events'))[0].pending, 0);
  await redis.del('events');
  redis.destroy();
}

async function scans(redis) {
  await redis.mSet(range(3_000).map((i) => [`scan:${i}`, `${i}`]));
  const found = new Set();
  for await (const keys of redis.scanIterator({ MATCH: 'scan:*', COUNT: 100 })) {
    keys.forEach((key) => found.add(key));
  }
  assert.equal(found.size, 3_000);
  await redis.unlink([...found]);
  await redis.hSet('h', range(1_000).flatMap((i) => [`f${i}`, `${i}`]));
  const fields = new Map();
  for await (const entries of redis.hScanIterator('h', { COUNT: 50 })) {
    entries.forEach(({ field, value }) => fields.set(field, value));
  }
  assert.equal(fields.size, 1_000);
  assert.equal(fields.get('f7'), '7');
  await redis.del('h');
}

async function cache(redis) {
  const clientSideCache = new BasicClientSideCache({ ttl: 0, maxEntries: 100, evictPolicy: 'LRU' });
  const cached = await connect({ RESP: 3, clientSideCache });
  await redis.set('c', 'first');
  for (const _ of range(10)) assert.equal(await cached.get('c'), 'first');
  const { hitCount, missCount } = clientSideCache.stats();
  assert.deepEqual([hitCount, missCount], [9, 1]);
  await redis.set('c', 'second');
  await until('the new value', async () => (await cached.get('c')) === 'second');
  await redis.zAdd('z', { score: 1.5, value: 'm' });
  assert.equal(await cached.zScore('z', 'm'), 1.5);
  await redis.del(['c', 'z']);
  await until('the value is gone', async () => (await cached.get('c')) === null);
  cached.destroy();
}

async function reconnects(redis) {
  const cut = await connect({ name: 'cut', socket: { host, port, reconnectStrategy: () => 1 } });
  const listener = await connect({ socket: { host, port, reconnectStrategy: () => 1 } });
  const heard = [];
  await listener.subscribe('again', (text) => heard.push(text));
  const id = await cut.clientId();
  assert.equal(await redis.clientKill({ filter: 'ID', id }), 1);
  assert.equal(await redis.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub']), 1);
  await until('a connection again', async () => {
    try {
      return (await cut.set('after', 'cut')) === 'OK';
    } catch {
      return false;
    }
  });
  assert.equal(await cut.clientGetName(), 'cut');
  assert.notEqual(await cut.clientId(), id);
  await until('the subscription again', () => redis.publish('again', 'hello'));
  await until('a message', () => heard.length > 0);
  await redis.del('after');
  cut.destroy();
  listener.destroy();
}

const PARTS = [
  pipelines, transactions, contention, scripts, queue, messages, streams, scans, cache, reconnects,
];

run(async () => {
  for (const options of [{ RESP: 2 }, { RESP: 3 }]) {
    const redis = await connect(options);
    for (const part of PARTS) await part(redis);
    assert.equal(await redis.dbSize(), 0);
    redis.destroy();
  }
  return `by RESP2 and RESP3: ${JOBS} jobs by ${CONSUMERS} consumers, ${MESSAGES} messages`;
});
