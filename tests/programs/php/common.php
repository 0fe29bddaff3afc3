<?php
// Shared by the job and its processes: the server's address, waiting for a condition, and
// processes.

declare(strict_types=1);

const PATIENCE_SECONDS = 120;
const PROCESSES = 4;

error_reporting(E_ALL);
set_error_handler(function (int $kind, string $text, string $file, int $line) {
    throw new ErrorException($text, 0, $kind, $file, $line);
});

function connect(): Redis
{
    $redis = new Redis();
    $redis->connect(getenv('NAGI_HOST'), (int) getenv('NAGI_PORT'));
    return $redis;
}

/** Has PHP keep sessions at the server, each of which one process at a time may have. */
function keep_sessions(): void
{
    $settings = [
        'session.save_handler' => 'redis',
        'session.save_path' => sprintf('tcp://%s:%s?prefix=session:', getenv('NAGI_HOST'), getenv('NAGI_PORT')),
        'session.use_cookies' => '0',
        'session.cache_limiter' => '',
        'redis.session.locking_enabled' => '1',
        'redis.session.lock_expire' => '60',
        'redis.session.lock_retries' => '-1',
        'redis.session.lock_wait_time' => '2000',
    ];
    foreach ($settings as $name => $value) {
        ini_set($name, $value);
    }
}

/** Looks until `$condition` gives something true, and returns that. */
function until(string $what, callable $condition)
{
    $end = microtime(true) + PATIENCE_SECONDS;
    while (!($found = $condition())) {
        if (microtime(true) > $end) {
            throw new RuntimeException("waited in vain for $what");
        }
        usleep(5000);
    }
    return $found;
}

function same(string $what, $got, $wanted): void
{
    if ($got !== $wanted) {
        throw new RuntimeException("$what: got " . var_export($got, true) . ', not '
            . var_export($wanted, true));
    }
}

/** Runs a part of `phpredis_parts.php` in a process of its own. */
function start(string ...$words)
{
    $process = proc_open([PHP_BINARY, 'phpredis_parts.php', ...$words], [1 => STDOUT, 2 => STDERR], $pipes);
    if ($process === false) {
        throw new RuntimeException('no process');
    }
    return $process;
}

function finish(array $processes): void
{
    foreach ($processes as $process) {
        same('the end of a process', proc_close($process), 0);
    }
}
