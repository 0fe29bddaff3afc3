// Every command that @upstash/redis has a method for, once: the server understands the request, and
// the reply is the expected one. Methods of later versions must be called here, or listed as
// omitted.

import assert from 'node:assert/strict';

/** Methods that send no command of their own. */
const NO_COMMANDS = ['use', 'addTelemetry', 'pipeline', 'autoPipeline', 'multi'];
/** Called by other parts of the job. */
const ELSEWHERE = ['subscribe', 'psubscribe'];
/** About a connection, which a request does not have. */
const OF_CONNECTIONS = ['clientSetinfo'];
/** Of servers after Redis 8.0: the commands of arrays, and two of streams. */
const LATER = (name) => /^ar[a-z]+$/.test(name) || ['xackdel', 'xdelex'].includes(name);

const any = () => {};
const has = (...members) => (found) => assert.deepEqual([...found].sort(), members);
const soon = Math.floor(Date.now() / 1000) + 1000;

const GENERIC = [
  ['ping', [], 'PONG'],
  ['echo', ['é'], 'é'],
  ['time', [], (time) => assert.equal(time.length, 2)],
  ['set', ['g', 'text'], 'OK'],
  ['type', ['g'], 'string'],
  ['exists', ['g', 'none'], 1],
  ['touch', ['g'], 1],
  ['expire', ['g', 100], 1],
  ['expireat', ['g', soon], 1],
  ['pexpire', ['g', 100_000], 1],
  ['pexpireat', ['g', soon * 1000], 1],
  ['ttl', ['g'], (ttl) => assert.ok(ttl > 0)],
  ['pttl', ['g'], (ttl) => assert.ok(ttl > 1000)],
  ['persist', ['g'], 1],
  ['copy', ['g', 'g2'], any],
  ['rename', ['g2', 'g3'], 'OK'],
  ['renamenx', ['g3', 'g'], 0],
  ['keys', ['g*'], has('g', 'g3')],
  ['scan', [0, { match: 'g*', count: 1000 }], ([, keys]) => has('g', 'g3')(keys)],
  ['randomkey', [], (key) => assert.match(key, /^g3?$/)],
  ['dbsize', [], 2],
  ['unlink', ['g3'], 1],
  ['del', ['g'], 1],
  ['publish', ['nobody', 'x'], 0],
  ['exec', [['SET', 'g', '1']], 'OK'],
  ['flushdb', [], 'OK'],
  ['flushall', [], 'OK'],
];

const STRINGS = [
  ['append', ['s', 'ab'], 2],
  ['strlen', ['s'], 2],
  ['getrange', ['s', 0, 0], 'a'],
  ['setrange', ['s', 1, 'cd'], 3],
  ['getset', ['s', 'x'], 'acd'],
  ['get', ['s'], 'x'],
  ['getex', ['s', { ex: 100 }], 'x'],
  ['getdel', ['s'], 'x'],
  ['setex', ['s', 100, 'y'], 'OK'],
  ['psetex', ['s', 100_000, 'y'], 'OK'],
  ['setnx', ['s', 'z'], 0],
  ['mset', [{ m1: 'a', m2: { b: 1 } }], 'OK'],
  ['msetnx', [{ m1: 'a', m3: 'c' }], 0],
  ['mget', ['m1', 'm2', 'm3'], ['a', { b: 1 }, null]],
  ['incr', ['n'], 1],
  ['incrby', ['n', 4], 5],
  ['incrbyfloat', ['n', 0.5], 5.5],
  ['set', ['n', 5], 'OK'],
  ['decr', ['n'], 4],
  ['decrby', ['n', 3], 1],
  ['setbit', ['b', 7, 1], 0],
  ['getbit', ['b', 7], 1],
  ['bitcount', ['b'], 1],
  ['bitpos', ['b', 1], 7],
  ['bitop', ['not', 'b2', 'b'], 1],
  ['pfadd', ['p', 'a', 'b'], 1],
  ['pfcount', ['p'], 2],
  ['pfmerge', ['p2', 'p'], 'OK'],
];

const HASHES = [
  ['hset', ['h', { a: 1, b: 'x' }], 2],
  ['hsetnx', ['h', 'a', 2], 0],
  ['hget', ['h', 'a'], 1],
  ['hmget', ['h', 'a', 'none'], { a: 1, none: null }],
  ['hmset', ['h', { c: 3 }], 'OK'],
  ['hgetall', ['h'], { a: 1, b: 'x', c: 3 }],
  ['hexists', ['h', 'a'], 1],
  ['hincrby', ['h', 'a', 2], 3],
  ['hincrbyfloat', ['h', 'a', 0.5], 3.5],
  ['hkeys', ['h'], has('a', 'b', 'c')],
  ['hvals', ['h'], (values) => assert.equal(values.length, 3)],
  ['hlen', ['h'], 3],
  ['hstrlen', ['h', 'b'], 1],
  ['hrandfield', ['h', 3, true], { a: 3.5, b: 'x', c: 3 }],
  ['hscan', ['h', 0], ([, found]) => assert.equal(found.length, 6)],
  ['hexpire', ['h', 'a', 100], [1]],
  ['hexpireat', ['h', 'a', soon], [1]],
  ['hexpiretime', ['h', 'a'], [soon]],
  ['httl', ['h', 'a'], ([ttl]) => assert.ok(ttl > 0)],
  ['hpexpire', ['h', 'a', 100_000], [1]],
  ['hpexpireat', ['h', 'a', soon * 1000], [1]],
  ['hpexpiretime', ['h', 'a'], [soon * 1000]],
  ['hpttl', ['h', 'a'], ([ttl]) => assert.ok(ttl > 1000)],
  ['hpersist', ['h', 'a'], [1]],
  ['hgetex', ['h', { ex: 100 }, 'a'], any],
  ['hsetex', ['h', { expiration: { ex: 100 } }, { d: 4 }], any],
  ['hgetdel', ['h', 'c'], any],
  ['hdel', ['h', 'a', 'none'], 1],
];

const LISTS = [
  ['rpush', ['l', 'a', 'b', 'c'], 3],
  ['rpushx', ['l', 'd'], 4],
  ['lpush', ['l', 'x'], 5],
  ['lpushx', ['l', 'y'], 6],
  ['llen', ['l'], 6],
  ['lindex', ['l', 2], 'a'],
  ['linsert', ['l', 'before', 'a', 'z'], 7],
  ['lpos', ['l', 'a'], 3],
  ['lset', ['l', 0, 'first'], 'OK'],
  ['lrem', ['l', 1, 'z'], 1],
  ['ltrim', ['l', 0, 4], 'OK'],
  ['lrange', ['l', 0, -1], ['first', 'x', 'a', 'b', 'c']],
  ['lmove', ['l', 'l2', 'left', 'right'], 'first'],
  ['lmpop', [1, ['l'], 'LEFT', 1], ['l', ['x']]],
  ['lpop', ['l'], 'a'],
  ['rpop', ['l'], 'c'],
];

const SETS = [
  ['sadd', ['t', 'a', 'b', 'c'], 3],
  ['sadd', ['t2', 'b', 'd'], 2],
  ['scard', ['t'], 3],
  ['sismember', ['t', 'a'], 1],
  ['smismember', ['t', ['a', 'z']], [1, 0]],
  ['smembers', ['t'], has('a', 'b', 'c')],
  ['sdiff', ['t', 't2'], has('a', 'c')],
  ['sdiffstore', ['t3', 't', 't2'], 2],
  ['sinter', ['t', 't2'], ['b']],
  ['sintercard', [['t', 't2']], 1],
  ['sinterstore', ['t3', 't', 't2'], 1],
  ['sunion', ['t', 't2'], has('a', 'b', 'c', 'd')],
  ['sunionstore', ['t3', 't', 't2'], 4],
  ['smove', ['t', 't2', 'a'], 1],
  ['srandmember', ['t'], any],
  ['sscan', ['t', 0], ([, found]) => has('b', 'c')(found)],
  ['srem', ['t', 'b'], 1],
  ['spop', ['t'], 'c'],
];

const SORTED_SETS = [
  ['zadd', ['z', { score: 1, member: 'a' }, { score: 2, member: 'b' }], 2],
  ['zadd', ['z2', { score: 3, member: 'b' }], 1],
  ['zcard', ['z'], 2],
  ['zcount', ['z', 0, 1], 1],
  ['zlexcount', ['z', '-', '+'], 2],
  ['zscore', ['z', 'b'], 2],
  ['zmscore', ['z', ['a', 'none']], [1, null]],
  ['zrank', ['z', 'b'], 1],
  ['zrevrank', ['z', 'b'], 0],
  ['zincrby', ['z', 0.5, 'a'], 1.5],
  ['zrange', ['z', 0, -1, { withScores: true }], ['a', 1.5, 'b', 2]],
  ['zscan', ['z', 0], ([, found]) => assert.equal(found.length, 4)],
  ['zdiffstore', ['z3', 2, 'z', 'z2'], 1],
  ['zinterstore', ['z3', 2, ['z', 'z2']], 1],
  ['zunion', [2, ['z', 'z2']], ['a', 'b']],
  ['zunionstore', ['z3', 2, ['z', 'z2']], 2],
  ['zrem', ['z3', 'a'], 1],
  ['zremrangebylex', ['z3', '[x', '[y'], 0],
  ['zremrangebyrank', ['z3', 5, 6], 0],
  ['zremrangebyscore', ['z3', 5, 5], 1],
  ['zpopmin', ['z'], ['a', 1.5]],
  ['zpopmax', ['z'], ['b', 2]],
  ['geoadd', ['geo', { longitude: 13.361389, latitude: 38.115556, member: 'Palermo' }], 1],
  ['geohash', ['geo', 'Palermo'], ['sqc8b49rny0']],
  ['geopos', ['geo', 'Palermo'], ([place]) => assert.ok(Math.abs(place.lng - 13.36) < 0.01)],
  ['geodist', ['geo', 'Palermo', 'Palermo'], (distance) => assert.equal(Number(distance), 0)],
  ['geosearch', ['geo', { type: 'FROMMEMBER', member: 'Palermo' },
    { type: 'BYRADIUS', radius: 1, radiusType: 'KM' }, 'ASC'], [{ member: 'Palermo' }]],
  ['geosearchstore', ['geo2', 'geo', { type: 'FROMMEMBER', member: 'Palermo' },
    { type: 'BYRADIUS', radius: 1, radiusType: 'KM' }, 'ASC'], 1],
];

const STREAMS = [
  ['xadd', ['x', '1-1', { a: 'b' }], '1-1'],
  ['xadd', ['x', '2-1', { c: 'd' }], '2-1'],
  ['xlen', ['x'], 2],
  ['xrange', ['x', '-', '+'], { '1-1': { a: 'b' }, '2-1': { c: 'd' } }],
  ['xrevrange', ['x', '+', '-', 1], { '2-1': { c: 'd' } }],
  ['xread', ['x', '1-1'], [['x', [['2-1', ['c', 'd']]]]]],
  ['xgroup', ['x', { type: 'CREATE', group: 'g', id: '0' }], 'OK'],
  ['xreadgroup', ['g', 'one', 'x', '>'], any],
  ['xpending', ['x', 'g', '-', '+', 10], (pending) => assert.equal(pending.length, 2)],
  ['xclaim', ['x', 'g', 'two', 0, '1-1'], any],
  ['xautoclaim', ['x', 'g', 'two', 0, '0-0'], any],
  ['xinfo', ['x', { type: 'GROUPS' }], any],
  ['xack', ['x', 'g', '1-1'], 1],
  ['xdel', ['x', '1-1'], 1],
  ['xtrim', ['x', { strategy: 'MAXLEN', exactness: '=', threshold: 0 }], 1],
];

const SCRIPTS = (sha) => [
  ['eval', ['return ARGV[1]', [], ['é']], 'é'],
  ['evalRo', ['return KEYS[1]', ['k'], []], 'k'],
  ['scriptLoad', ['return 7'], sha],
  ['scriptExists', [sha], [1]],
  ['evalsha', [sha, [], []], 7],
  ['evalshaRo', [sha, [], []], 7],
  ['scriptFlush', [], 'OK'],
];

/** Runs all of them; how many methods those are. */
export async function commands(redis) {
  const sha = await redis.scriptLoad('return 7');
  const calls = [GENERIC, STRINGS, HASHES, LISTS, SETS, SORTED_SETS, STREAMS, SCRIPTS(sha)].flat();
  for (const [name, words, expected] of calls) {
    try {
      const found = await redis[name](...words);
      if (typeof expected === 'function') expected(found);
      else assert.deepEqual(found, expected);
    } catch (error) {
      throw new Error(`${name} ${JSON.stringify(words)}: ${error.message}`);
    }
  }
  // It is built up step by step, which automatic pipelines do not support.
  const fields = redis.pipeline();
  fields.bitfield('bf').set('u8', 0, 7).get('u8', 0).exec();
  assert.deepEqual(await fields.exec(), [[0, 7]]);
  await redis.flushdb();
  const called = new Set([...calls.map(([name]) => name), 'bitfield']);
  const known = (name) =>
    [...NO_COMMANDS, ...ELSEWHERE, ...OF_CONNECTIONS].includes(name) || LATER(name);
  const methods = Object.keys(redis).filter((name) => typeof redis[name] === 'function');
  assert.deepEqual(methods.filter((name) => !called.has(name) && !known(name)), []);
  return called.size;
}
