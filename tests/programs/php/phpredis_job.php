<?php
// phpredis: sessions with locks, pipelines, MULTI and WATCH by several processes, a queue with a
// consumer that is killed, publish and subscribe, scans, scripts, streams, values that it encodes,
// connections that are closed by the server, and persistent ones.

declare(strict_types=1);

require 'common.php';

const JOBS = 1000;
const MESSAGES = 500;
const VISITS = 50;

function pipelines(Redis $redis): void
{
    $pipeline = $redis->multi(Redis::PIPELINE);
    for ($i = 0; $i < 1000; $i++) {
        $pipeline->set("p:$i", (string) $i)->incrBy("p:$i", 1);
    }
    $replies = $pipeline->exec();
    same('replies', count($replies), 2000);
    for ($i = 0; $i < 1000; $i++) {
        same('a reply', [$replies[2 * $i], $replies[2 * $i + 1]], [true, $i + 1]);
    }
    $keys = array_map(fn ($i) => "p:$i", range(0, 999));
    same('values', $redis->mGet($keys), array_map(fn ($i) => (string) ($i + 1), range(0, 999)));
    same('deleted', $redis->del($keys), 1000);
}

function transactions(Redis $redis): void
{
    $replies = $redis->multi()->set('t', 'word')->incr('t')->get('t')->exec();
    same('replies', $replies, [true, false, 'word']);
    $redis->watch('t');
    connect()->set('t', '0');
    same('a transaction that came too late', $redis->multi()->set('t', 'mine')->exec(), false);
    finish(array_map(fn () => start('raise', 't', '100'), range(1, PROCESSES)));
    same('the sum', $redis->get('t'), (string) (100 * PROCESSES));
    same('deleted', $redis->del('t', 'ready'), 2);
}

/** Visits of one session at the same time: its lock lets none be lost. */
function sessions(Redis $redis): void
{
    finish(array_map(fn () => start('visit', 'visitor', (string) VISITS), range(1, PROCESSES)));
    same('deleted', $redis->del('ready'), 1);
    same('keys', $redis->keys('*'), ['session:visitor']);
    $left = $redis->ttl('session:visitor');
    if ($left < 1000 || $left > 1440) {
        throw new RuntimeException("the session has $left seconds left");
    }
    keep_sessions();
    session_id('visitor');
    session_start();
    same('visits', $_SESSION['visits'], PROCESSES * VISITS);
    same('the text', $_SESSION['last']['text'], str_repeat('é', 100));
    session_destroy();
    same('sessions left', $redis->exists('session:visitor'), 0);
}

function queue(Redis $redis): void
{
    $lost = start('consume', 'lost');
    $redis->lPush('jobs', ...array_map('strval', range(0, JOBS - 1)));
    $pid = (int) until('a job that hangs', fn () => $redis->get('hangs'));
    proc_terminate($lost, 9);
    until('its end', fn () => !proc_get_status($lost)['running']);
    same('the process', file_exists("/proc/$pid"), false);
    $consumers = array_map(fn ($i) => start('consume', (string) $i), range(1, 3));
    until('all but one', fn () => $redis->lLen('done') === JOBS - 1);
    same('what was lost', $redis->lRange('work:lost', 0, -1), ['0']);
    same('moved back', $redis->rpoplpush('work:lost', 'jobs'), '0');
    until('all', fn () => $redis->lLen('done') === JOBS);
    $redis->lPush('jobs', 'end', 'end', 'end');
    finish($consumers);
    $done = array_map('intval', $redis->lRange('done', 0, -1));
    sort($done);
    same('done', $done, range(0, JOBS - 1));
    same('nothing to take', $redis->blPop(['jobs'], 1), []);
    same('deleted', $redis->del('done', 'hangs'), 2);
}

function messages(Redis $redis): void
{
    $listeners = [start('listen', 'channel'), start('listen', 'pattern')];
    until('listeners', fn () => $redis->publish('news', 'first') === 2);
    for ($i = 0; $i < MESSAGES; $i++) {
        same('receivers', $redis->publish('news', (string) $i), 2);
    }
    same('channels', $redis->pubsub('channels', 'n*'), ['news']);
    same('patterns', $redis->pubsub('numpat'), 1);
    $redis->publish('news', 'end');
    foreach (['heard:channel', 'heard:pattern'] as $key) {
        until('the last message', fn () => $redis->lIndex($key, -1) === 'end');
        $is_counted = fn ($text) => !in_array($text, ['first', 'end'], true);
        $heard = array_values(array_filter($redis->lRange($key, 0, -1), $is_counted));
        same($key, $heard, array_map('strval', range(0, MESSAGES - 1)));
    }
    foreach ($listeners as $listener) {
        proc_terminate($listener, 9);
    }
    until('nobody to listen', fn () => $redis->publish('news', 'last') === 0);
    $redis->del('heard:channel', 'heard:pattern');
}

function scans(Redis $redis): void
{
    $values = [];
    for ($i = 0; $i < 3000; $i++) {
        $values["scan:$i"] = (string) $i;
    }
    $redis->mSet($values);
    $redis->hMSet('hash', $values);
    $redis->sAddArray('set', array_keys($values));
    $redis->zAdd('sorted', ...array_merge(...array_map(fn ($i) => [$i, "scan:$i"], range(0, 2999))));
    $redis->setOption(Redis::OPT_SCAN, (string) Redis::SCAN_RETRY);
    $found = [];
    $place = null;
    while ($keys = $redis->scan($place, 'scan:*', 100)) {
        $found += array_flip($keys);
    }
    same('keys', count($found), 3000);
    foreach (['hash' => 'hScan', 'set' => 'sScan', 'sorted' => 'zScan'] as $key => $method) {
        $found = [];
        $place = null;
        while ($members = $redis->$method($key, $place, 'scan:*', 100)) {
            $found += $key === 'set' ? array_flip($members) : $members;
        }
        same($key, count($found), 3000);
    }
    same('a range', $redis->zRangeByScore('sorted', '10', '(13', ['withscores' => true]),
        ['scan:10' => 10.0, 'scan:11' => 11.0, 'scan:12' => 12.0]);
    $redis->flushDB();
}

function scripts(Redis $redis): void
{
    $text = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    $sha = $redis->script('load', $text);
    same('the hash', $sha, sha1($text));
    for ($i = 1; $i <= 100; $i++) {
        same('a sum', $redis->evalSha($sha, ['raised', 2], 1), 2 * $i);
    }
    $redis->script('flush');
    same('known', $redis->script('exists', $sha), [0]);
    same('forgotten', $redis->evalSha($sha, ['raised', 2], 1), false);
    same('the error', $redis->getLastError(), 'NOSCRIPT No matching script. Please use EVAL.');
    $redis->clearLastError();
    same('a sum', $redis->eval($text, ['raised', 2], 1), 202);
    same('known again', $redis->evalSha($sha, ['raised', 2], 1), 204);
    $table = $redis->eval("return {1, 'two', {3, false}, redis.status_reply('fine'), {}}", [], 0);
    same('a table', $table, [1, 'two', [3, false], true, []]);
    same('deleted', $redis->del('raised'), 1);
}

function streams(Redis $redis): void
{
    same('a group', $redis->xGroup('CREATE', 'events', 'readers', '$', true), true);
    $pipeline = $redis->multi(Redis::PIPELINE);
    for ($i = 0; $i < 500; $i++) {
        $pipeline->xAdd('events', '*', ['number' => (string) $i]);
    }
    $ids = $pipeline->exec();
    $lost = $redis->xReadGroup('readers', 'lost', ['events' => '>'], 50)['events'];
    same('entries', array_keys($lost), array_slice($ids, 0, 50));
    $numbers = [];
    while ($read = $redis->xReadGroup('readers', 'one', ['events' => '>'], 64)) {
        foreach ($read['events'] as $id => $fields) {
            $numbers[] = (int) $fields['number'];
            same('acknowledged', $redis->xAck('events', 'readers', [$id]), 1);
        }
    }
    same('numbers', $numbers, range(50, 499));
    same('pending', $redis->xPending('events', 'readers'),
        [50, $ids[0], $ids[49], [['lost', '50']]]);
    $claimed = $redis->xClaim('events', 'readers', 'one', 0, array_keys($lost), ['RETRYCOUNT' => 3]);
    same('claimed', $claimed, $lost);
    same('their consumer', $redis->xPending('events', 'readers', '-', '+', 1, 'one')[0][3], 3);
    same('acknowledged', $redis->xAck('events', 'readers', array_keys($lost)), 50);
    same('the length', $redis->xInfo('STREAM', 'events')['length'], 500);
    same('from the end', array_keys($redis->xRevRange('events', '+', '-', 2)), [$ids[499], $ids[498]]);
    same('trimmed', $redis->xTrim('events', 0), 500);
    same('deleted', $redis->del('events'), 1);
}

/** phpredis encodes values itself, and takes them for numbers, arrays and objects again. */
function encoded(Redis $redis): void
{
    $values = ['number' => 1.5, 'array' => [1, ['two' => null]], 'bytes' => "\0\r\n\xff"];
    foreach ([Redis::SERIALIZER_PHP, Redis::SERIALIZER_IGBINARY, Redis::SERIALIZER_JSON] as $kind) {
        $redis->setOption(Redis::OPT_SERIALIZER, (string) $kind);
        $redis->setOption(Redis::OPT_PREFIX, "own:$kind:");
        $kept = $kind === Redis::SERIALIZER_JSON ? array_slice($values, 0, 2) : $values;
        $redis->hMSet('hash', $kept);
        same('values', $redis->hGetAll('hash'), $kept);
        $redis->set('value', $kept, ['nx', 'ex' => 100]);
        same('a value', $redis->get('value'), $kept);
        same('deleted', $redis->del('hash', 'value'), 2);
    }
    $redis->setOption(Redis::OPT_SERIALIZER, (string) Redis::SERIALIZER_NONE);
    $redis->setOption(Redis::OPT_PREFIX, '');
}

function reconnects(Redis $redis): void
{
    $id = $redis->rawCommand('CLIENT', 'ID');
    same('killed', connect()->rawCommand('CLIENT', 'KILL', 'ID', (string) $id), 1);
    // A request that is sent before the connection is closed fails, and is not executed.
    $raised = until('another connection', function () use ($redis) {
        try {
            return $redis->incr('after');
        } catch (RedisException) {
            return false;
        }
    });
    same('raised', $raised, 1);
    same('another', $redis->rawCommand('CLIENT', 'ID') > $id, true);
    same('deleted', $redis->del('after'), 1);
}

/** Connections that PHP keeps when a program has done with them, and takes again if they live. */
function persistent(Redis $redis): void
{
    $take = function () {
        $kept = new Redis();
        $kept->pconnect(getenv('NAGI_HOST'), (int) getenv('NAGI_PORT'), 0, 'kept');
        return $kept;
    };
    $ids = [];
    for ($i = 0; $i < 20; $i++) {
        $kept = $take();
        $ids[] = $kept->rawCommand('CLIENT', 'ID');
        unset($kept);
    }
    same('connections', count(array_unique($ids)), 1);
    same('killed', $redis->rawCommand('CLIENT', 'KILL', 'ID', (string) $ids[0]), 1);
    until('its end', fn () => !str_contains($redis->rawCommand('CLIENT', 'LIST'), "id=$ids[0] "));
    $kept = $take();
    same('another', $kept->rawCommand('CLIENT', 'ID') > $ids[0], true);
    same('a value', [$kept->set('kept', 'value'), $kept->get('kept'), $kept->del('kept')], [true, 'value', 1]);
}

try {
    $redis = connect();
    $parts = [
        'pipelines', 'transactions', 'sessions', 'queue', 'messages', 'scans', 'scripts', 'streams', 'encoded',
        'reconnects', 'persistent',
    ];
    foreach ($parts as $part) {
        $part($redis);
    }
    same('keys left', $redis->dbSize(), 0);
    printf("phpredis %s: %d visits to a session by %d processes, %d jobs with a consumer that was killed, "
        . "%d messages\n", phpversion('redis'), PROCESSES * VISITS, PROCESSES, JOBS, MESSAGES);
} catch (Throwable $error) {
    echo $error, "\n";
    exit(1);
}
