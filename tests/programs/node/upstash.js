// @upstash/redis: the HTTP gateway in the form of Upstash's REST interface, as serverless functions
// use it: JSON values, pipelines, transactions, scripts and limits on rates.

import assert from 'node:assert/strict';
import { Redis } from '@upstash/redis';
import { range, run, until } from './common.js';
import { commands } from './upstash-commands.js';

const VALUES = 500;
const FUNCTIONS = 32;
const MESSAGES = 100;

const connect = (options = {}) => new Redis({
  url: process.env.NAGI_HTTP, token: process.env.NAGI_PASSWORD, enableTelemetry: false, ...options,
});

async function values(redis) {
  const user = { name: 'Ada', tags: ['x', 'ü', '\u0000'], nested: { deep: [1, null, true] } };
  assert.equal(await redis.set('user', user, { ex: 60 }), 'OK');
  assert.deepEqual(await redis.get('user'), user);
  assert.ok((await redis.ttl('user')) > 0);
  assert.equal(await redis.set('user', 'other', { nx: true }), null);
  assert.equal(await redis.get('missing'), null);
  const long = 'é/ %+?&'.repeat(50_000);
  await redis.set('long', long);
  assert.equal(await redis.get('long'), long);
  assert.deepEqual(await redis.mget('user', 'missing', 'long'), [user, null, long]);
  assert.equal(await redis.del('user', 'long'), 2);
  const plain = connect({ responseEncoding: false, automaticDeserialization: false });
  await plain.set('text', '{"é": [1]}');
  assert.equal(await plain.get('text'), '{"é": [1]}');
  assert.deepEqual(await redis.getdel('text'), { é: [1] });
}

async function collections(redis) {
  await redis.hset('hash', { a: 1, b: { c: 2 }, d: 'text' });
  assert.deepEqual(await redis.hgetall('hash'), { a: 1, b: { c: 2 }, d: 'text' });
  await redis.zadd('board', { score: 2, member: 'two' }, { score: 1.5, member: 'one' });
  assert.deepEqual(
    await redis.zrange('board', 0, -1, { withScores: true }), ['one', 1.5, 'two', 2],
  );
  await redis.rpush('list', 'a', 'b', 'c');
  assert.deepEqual(await redis.lrange('list', 0, -1), ['a', 'b', 'c']);
  assert.equal(await redis.lpop('list'), 'a');
  const id = await redis.xadd('stream', '*', { field: 'value' });
  assert.deepEqual(await redis.xrange('stream', '-', '+'), { [id]: { field: 'value' } });
  assert.equal(await redis.del('hash', 'board', 'list', 'stream'), 4);
}

async function pipelines(redis) {
  const writes = redis.pipeline();
  for (const i of range(VALUES)) writes.set(`p:${i}`, { number: i }).incr('count');
  const replies = await writes.exec();
  assert.deepEqual(replies, range(VALUES * 2).map((i) => (i % 2 ? (i + 1) / 2 : 'OK')));
  // Requests of one turn of the event loop are sent as one pipeline.
  const read = await Promise.all(range(VALUES).map((i) => redis.get(`p:${i}`)));
  assert.deepEqual(read, range(VALUES).map((i) => ({ number: i })));
  const mixed = redis.pipeline().set('p:0', 'word').lpush('p:0', 'x').get('p:0');
  const outcomes = await mixed.exec({ keepErrors: true });
  assert.deepEqual([outcomes[0].result, outcomes[2].result], ['OK', 'word']);
  assert.match(outcomes[1].error, /^WRONGTYPE/);
  let cursor = '0';
  const found = new Set();
  do {
    const [next, keys] = await redis.scan(cursor, { match: 'p:*', count: 100 });
    keys.forEach((key) => found.add(key));
    cursor = next;
  } while (cursor !== '0');
  assert.equal(found.size, VALUES);
  await redis.del('count', ...found);
}

async function transactions(redis) {
  const functions = range(FUNCTIONS).map(() => connect());
  const replies = await Promise.all(functions.map(async (own) => {
    const multi = own.multi();
    multi.incr('t').incr('t').get('t');
    return multi.exec();
  }));
  // The requests of different ones were not interleaved.
  const totals = replies.map(([first, second, read]) => {
    assert.deepEqual([second, read], [first + 1, first + 1]);
    return read;
  });
  assert.deepEqual(totals.sort((a, b) => a - b), range(FUNCTIONS).map((i) => i * 2 + 2));
  await redis.del('t');
}

/** A window of requests, counted by a script that the server may have forgotten. */
async function limits(redis) {
  const script = redis.createScript(`
    local count = redis.call('INCR', KEYS[1])
    if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
    return count <= tonumber(ARGV[2]) and 1 or 0`);
  await redis.scriptFlush();
  const allowed = await Promise.all(
    range(FUNCTIONS).map(() => connect()).map((own) =>
      own.createScript(script.script).exec(['limit'], ['60000', '10'])),
  );
  assert.equal(allowed.filter((one) => one === 1).length, 10);
  assert.ok((await redis.pttl('limit')) > 0);
  assert.equal(await script.exec(['limit'], ['60000', '1000']), 1);
  await redis.del('limit');
}

/** Hears messages as server-sent events. */
async function subscriptions(redis) {
  const heard = [];
  const channels = redis.subscribe(['news', 'a+b.json']);
  const patterns = redis.psubscribe('ev*');
  const ready = [[channels, 'subscribe', 2], [patterns, 'psubscribe', 1]].map(
    ([subscriber, type, count]) => new Promise((resolve) => {
      subscriber.on(type, () => { if (--count === 0) resolve(); });
    }),
  );
  await Promise.all(ready);
  const wanted = range(MESSAGES).map((i) => ['news', { number: i, text: 'é,\n' }]);
  wanted.push(['a+b.json', 'plain, text'], ['events', [1, 'two']]);
  const all = new Promise((resolve, reject) => {
    const hear = ({ channel, message }) => {
      heard.push([channel, message]);
      if (heard.length === wanted.length) resolve();
    };
    channels.on('message', hear);
    patterns.on('pmessage', hear);
    [channels, patterns].forEach((subscriber) => subscriber.on('error', reject));
  });
  for (const [channel, message] of wanted) {
    assert.equal(await redis.publish(channel, message), 1);
  }
  await all;
  const of = (name) => (list) => list.filter(([channel]) => channel === name);
  for (const list of ['news', 'a+b.json', 'events'].map(of)) {
    assert.deepEqual(list(heard), list(wanted));
  }
  await Promise.all([channels.unsubscribe(), patterns.unsubscribe()]);
  for (const channel of ['news', 'a+b.json', 'events']) {
    await until(`no subscriber of ${channel}`, async () => await redis.publish(channel, '') === 0);
  }
}

async function errors(redis) {
  await redis.set('text', 'abc');
  await assert.rejects(redis.incr('text'), /not an integer/);
  await assert.rejects(redis.hget('text', 'x'), /WRONGTYPE/);
  await redis.del('text');
  const refused = connect({ token: 'wrong', retry: false });
  await assert.rejects(refused.set('text', 'x'), /a password is needed/);
  await assert.rejects(refused.pipeline().set('text', 'x').exec(), /a password is needed/);
}

run(async () => {
  const redis = connect();
  const parts = [values, collections, pipelines, transactions, limits, subscriptions, errors];
  for (const part of parts) await part(redis);
  const methods = await commands(redis);
  assert.equal(await redis.dbsize(), 0);
  return `${VALUES} values each way, ${FUNCTIONS} transactions and scripts side by side, ` +
    `${MESSAGES} messages as events, ${methods} methods`;
});
