<?php
// The parts of processes other than phpredis_job.php.

declare(strict_types=1);

require 'common.php';

/** Waits for the other processes, so that all get into each other's way. */
function together(Redis $redis): void
{
    $redis->incr('ready');
    until('the others', fn () => (int) $redis->get('ready') === PROCESSES);
}

/** Raises a number with WATCH. */
function raise(string $key, int $times): void
{
    $redis = connect();
    together($redis);
    while ($times > 0) {
        $redis->watch($key);
        $number = (int) $redis->get($key);
        if ($redis->multi()->set($key, (string) ($number + 1))->exec() !== false) {
            $times--;
        }
    }
}

/** Counts in a session as often as a visitor comes. */
function visit(string $id, int $times): void
{
    together(connect());
    keep_sessions();
    for ($i = 0; $i < $times; $i++) {
        session_id($id);
        session_start();
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        $_SESSION['last'] = ['process' => getmypid(), 'text' => str_repeat('é', 100)];
        session_write_close();
        $_SESSION = [];
    }
}

/** Takes jobs until there is one that says the end; `hangs` keeps the first and does nothing. */
function consume(string $name, bool $hangs): void
{
    $redis = connect();
    $redis->setOption(Redis::OPT_READ_TIMEOUT, -1);
    for (;;) {
        $job = $redis->brpoplpush('jobs', "work:$name", 0);
        if ($hangs) {
            $redis->set('hangs', getmypid());
            sleep(PATIENCE_SECONDS);
        }
        if ($job === 'end') {
            $redis->lRem("work:$name", $job, 1);
            return;
        }
        $redis->multi()->rPush('done', $job)->lRem("work:$name", $job, 1)->exec();
    }
}

/** Notes the messages of a channel or a pattern until the process is ended. */
function listen(string $how): void
{
    $redis = connect();
    $redis->setOption(Redis::OPT_READ_TIMEOUT, -1);
    $notes = connect();
    $note = fn (string $text) => $notes->rPush("heard:$how", $text);
    if ($how === 'pattern') {
        $redis->psubscribe(['n?ws'], fn ($redis, $pattern, $channel, $text) => $note($text));
    } else {
        $redis->subscribe(['news'], fn ($redis, $channel, $text) => $note($text));
    }
}

match ($argv[1]) {
    'raise' => raise($argv[2], (int) $argv[3]),
    'visit' => visit($argv[2], (int) $argv[3]),
    'consume' => consume($argv[2], $argv[2] === 'lost'),
    'listen' => listen($argv[2]),
};
