package programs;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.api.BatchResult;
import org.redisson.api.RBatch;
import org.redisson.api.RBitSet;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBloomFilter;
import org.redisson.api.RBucket;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RTimeSeries;
import org.redisson.api.RTransaction;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.api.map.event.EntryExpiredListener;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/** Redisson: what it builds of scripts and messages, shared by two clients as if of two machines. */
final class RedissonJob {
    private static final int JOBS = 1_000;
    private static final int MESSAGES = 500;
    private static final long WATCHDOG_MS = 1_500;

    private final Protocol protocol;
    private final RedissonClient[] clients;

    private RedissonJob(Protocol protocol) {
        this.protocol = protocol;
        clients = new RedissonClient[] {client(), client()};
    }

    public static void main(String[] arguments) {
        Common.run(() -> {
            for (Protocol protocol : List.of(Protocol.RESP2, Protocol.RESP3)) {
                RedissonJob job = new RedissonJob(protocol);
                job.all();
                job.clients[0].getKeys().deleteByPattern("*");
                Common.same(0L, job.clients[1].getKeys().count(), "keys that are left");
                for (RedissonClient client : job.clients) client.shutdown();
            }
            return "locks and their watchdog, a rate limiter, " + JOBS + " jobs of a blocking queue, "
                    + MESSAGES + " messages, maps, transactions, over RESP2 and RESP3";
        });
    }

    private RedissonClient client() {
        Config config = new Config().setProtocol(protocol).setLockWatchdogTimeout(WATCHDOG_MS)
                .setThreads(8).setNettyThreads(4);
        config.useSingleServer().setAddress("redis://" + Common.HOST + ":" + Common.PORT)
                .setConnectionPoolSize(24).setConnectionMinimumIdleSize(2).setSubscriptionConnectionPoolSize(8)
                .setTimeout(60_000);
        return Redisson.create(config);
    }

    private void all() throws Exception {
        locks();
        watchdog();
        readWriteLock();
        rateLimiter();
        semaphores();
        maps();
        localMaps();
        queue();
        delayedQueue();
        topics();
        batches();
        transactions();
        collections();
    }

    /** Plain and fair locks around a counter that is read and written apart. */
    private void locks() throws Exception {
        for (boolean isFair : List.of(false, true)) {
            clients[0].getBucket("counter").set(0);
            Common.Worker.joinAll(IntStream.range(0, 8).mapToObj(i -> new Common.Worker(() -> {
                RedissonClient client = clients[i % 2];
                RLock lock = isFair ? client.getFairLock("lock") : client.getLock("lock");
                RBucket<Integer> counter = client.getBucket("counter");
                for (int n = 0; n < 15; n++) {
                    lock.lock();
                    try {
                        lock.lock();
                        counter.set(counter.get() + 1);
                        lock.unlock();
                    } finally {
                        lock.unlock();
                    }
                }
            })).toList());
            Common.same(120, clients[0].getBucket("counter").getAndDelete(), "a counter under a lock");
            Common.check(!clients[0].getLock("lock").isLocked(), "the lock is free at the end");
        }
        RLock one = clients[0].getLock("one");
        RLock two = clients[0].getLock("two");
        RLock both = clients[0].getMultiLock(one, two);
        both.lock();
        Common.check(!clients[1].getLock("two").tryLock(), "a lock of two that is taken");
        both.unlock();
    }

    /** A lock lives as long as its owner, who makes it live on, and not much longer. */
    private void watchdog() throws Exception {
        RLock lock = clients[0].getLock("watched");
        lock.lock();
        long least = WATCHDOG_MS;
        int renewals = 0;
        while (renewals < 4) {
            long left = lock.remainTimeToLive();
            Common.check(left > 0, "a lock that the watchdog let go");
            if (left > least + 100) {
                renewals++;
                least = left;
            }
            least = Math.min(least, left);
            Thread.sleep(10);
        }
        Common.check(!clients[1].getLock("watched").tryLock(), "a lock that the watchdog holds");
        lock.unlock();

        RedissonClient mortal = client();
        mortal.getLock("watched").lock();
        mortal.shutdown();
        Common.check(clients[1].getLock("watched").tryLock(60, TimeUnit.SECONDS), "the lock of one that is gone");
        clients[1].getLock("watched").unlock();
    }

    private void readWriteLock() throws Exception {
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        AtomicInteger mostReaders = new AtomicInteger();
        Common.Worker.joinAll(IntStream.range(0, 6).mapToObj(i -> new Common.Worker(() -> {
            RReadWriteLock lock = clients[i % 2].getReadWriteLock("rw");
            for (int n = 0; n < 10; n++) {
                RLock own = i < 4 ? lock.readLock() : lock.writeLock();
                own.lock(30, TimeUnit.SECONDS);
                if (i < 4) {
                    mostReaders.accumulateAndGet(readers.incrementAndGet(), Math::max);
                    Common.same(0, writers.get(), "writers beside a reader");
                    readers.decrementAndGet();
                } else {
                    Common.same(1, writers.incrementAndGet(), "writers at once");
                    Common.same(0, readers.get(), "readers beside a writer");
                    writers.decrementAndGet();
                }
                own.unlock();
            }
        })).toList());
        Common.check(mostReaders.get() >= 1, "readers");
    }

    private void rateLimiter() throws Exception {
        RRateLimiter limiter = clients[0].getRateLimiter("rate");
        Common.check(limiter.trySetRate(RateType.OVERALL, 30, Duration.ofMinutes(10)), "a rate");
        AtomicInteger allowed = new AtomicInteger();
        Common.Worker.joinAll(IntStream.range(0, 6).mapToObj(i -> new Common.Worker(() -> {
            RRateLimiter own = clients[i % 2].getRateLimiter("rate");
            for (int n = 0; n < 10; n++) if (own.tryAcquire()) allowed.incrementAndGet();
        })).toList());
        Common.same(30, allowed.get(), "permits of ten minutes");
        Common.same(0L, limiter.availablePermits(), "permits that are left");
        limiter.setRate(RateType.OVERALL, 5, Duration.ofMillis(100));
        for (int n = 0; n < 20; n++) limiter.acquire();
        limiter.delete();
    }

    private void semaphores() throws Exception {
        Common.check(clients[0].getSemaphore("seats").trySetPermits(3), "permits");
        AtomicInteger taken = new AtomicInteger();
        Common.Worker.joinAll(IntStream.range(0, 8).mapToObj(i -> new Common.Worker(() -> {
            for (int n = 0; n < 10; n++) {
                clients[i % 2].getSemaphore("seats").acquire();
                Common.check(taken.incrementAndGet() <= 3, "more than three have a permit");
                taken.decrementAndGet();
                clients[i % 2].getSemaphore("seats").release();
            }
        })).toList());
        Common.same(3, clients[1].getSemaphore("seats").availablePermits(), "permits at the end");

        RPermitExpirableSemaphore lent = clients[0].getPermitExpirableSemaphore("lent");
        lent.trySetPermits(1);
        Common.check(lent.acquire(200, TimeUnit.MILLISECONDS) != null, "a permit that expires");
        String next = clients[1].getPermitExpirableSemaphore("lent").acquire();
        Common.check(clients[1].getPermitExpirableSemaphore("lent").tryRelease(next), "the permit after it");

        clients[0].getCountDownLatch("latch").trySetCount(5);
        Common.Worker waiting = new Common.Worker(() -> clients[1].getCountDownLatch("latch").await());
        for (int i = 0; i < 5; i++) clients[0].getCountDownLatch("latch").countDown();
        waiting.join();
    }

    private void maps() throws Exception {
        RMapCache<String, Integer> map = clients[0].getMapCache("map");
        Set<String> expired = ConcurrentHashMap.newKeySet();
        map.addListener((EntryExpiredListener<String, Integer>) event -> expired.add(event.getKey()));
        for (int i = 0; i < 100; i++) map.put("stays" + i, i);
        for (int i = 0; i < 10; i++) map.put("goes" + i, i, 200, TimeUnit.MILLISECONDS);
        Common.until("the entries to expire", () -> map.get("goes9") == null);
        Common.same(100, map.readAllMap().size(), "entries that are left");
        Common.same(null, map.putIfAbsent("new", 1), "PUTIFABSENT");
        Common.same(1, map.putIfAbsent("new", 2), "PUTIFABSENT again");
        Common.check(map.replace("new", 1, 3), "a comparison and exchange");
        Common.check(!map.replace("new", 1, 4), "a comparison that fails");
        Common.Worker.joinAll(IntStream.range(0, 4).mapToObj(i -> new Common.Worker(() -> {
            for (int n = 0; n < 50; n++) clients[i % 2].<String, Integer>getMap("sums", StringCodec.INSTANCE).addAndGet("sum", 2);
        })).toList());
        Common.same("400", clients[0].getMap("sums", StringCodec.INSTANCE).get("sum"), "a sum of many threads");
        // Expired entries are taken out by a task that comes every few seconds.
        Common.until("the events of expiry", () -> expired.size() == 10);
        int merged = map.merge("new", 10, Integer::sum);
        Common.same(13, merged, "a merge");
        map.delete();
    }

    /** A map that is kept in two processes, and made true in both by messages. */
    private void localMaps() throws Exception {
        List<RLocalCachedMap<String, String>> maps = new ArrayList<>();
        for (RedissonClient client : clients) {
            maps.add(client.getLocalCachedMap(LocalCachedMapOptions.<String, String>name("local")
                    .syncStrategy(LocalCachedMapOptions.SyncStrategy.INVALIDATE)
                    .reconnectionStrategy(LocalCachedMapOptions.ReconnectionStrategy.CLEAR)));
        }
        for (int round = 0; round < 20; round++) {
            String value = "value" + round;
            maps.get(round % 2).put("key", value);
            RLocalCachedMap<String, String> other = maps.get(1 - round % 2);
            Common.until("the value in the other process", () -> value.equals(other.get("key")));
        }
        maps.get(0).delete();
    }

    private void queue() throws Exception {
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        List<Common.Worker> consumers = IntStream.range(0, 4).mapToObj(i -> new Common.Worker(() -> {
            RBlockingQueue<Integer> own = clients[i % 2].getBlockingQueue("jobs");
            for (;;) {
                Integer job = i < 2 ? own.take() : own.poll(30, TimeUnit.SECONDS);
                if (job < 0) return;
                Common.check(seen.add(job), "job " + job + " came twice");
            }
        })).toList();
        RBlockingQueue<Integer> jobs = clients[0].getBlockingQueue("jobs");
        for (int i = 0; i < JOBS; i++) jobs.offer(i);
        Common.until("all jobs", () -> seen.size() == JOBS);
        for (int i = 0; i < consumers.size(); i++) jobs.offer(-1);
        Common.Worker.joinAll(consumers);
        Common.same(null, jobs.poll(10, TimeUnit.MILLISECONDS), "a poll that times out");
    }

    private void delayedQueue() throws Exception {
        RBlockingQueue<String> ready = clients[0].getBlockingQueue("ready");
        RDelayedQueue<String> delayed = clients[0].getDelayedQueue(ready);
        for (int i = 0; i < 20; i++) delayed.offer("job" + i, 100 + 10 * i, TimeUnit.MILLISECONDS);
        List<String> came = new ArrayList<>();
        for (int i = 0; i < 20; i++) came.add(ready.poll(60, TimeUnit.SECONDS));
        Common.same(IntStream.range(0, 20).mapToObj(i -> "job" + i).toList(), came, "delayed jobs");
        delayed.destroy();
    }

    private void topics() throws Exception {
        List<String> exact = Collections.synchronizedList(new ArrayList<>());
        List<String> pattern = Collections.synchronizedList(new ArrayList<>());
        clients[1].getTopic("news", StringCodec.INSTANCE).addListener(String.class, (channel, text) -> exact.add(text));
        clients[1].getPatternTopic("n*s", StringCodec.INSTANCE)
                .addListener(String.class, (found, channel, text) -> pattern.add(text));
        for (int i = 0; i < MESSAGES; i++) {
            Common.same(2L, clients[0].getTopic("news", StringCodec.INSTANCE).publish(Integer.toString(i)), "receivers");
        }
        Common.until("all messages", () -> exact.size() == MESSAGES && pattern.size() == MESSAGES);
        // Redisson hands messages to several threads, so they may be seen in another order.
        Common.same(new HashSet<>(Common.numbers(MESSAGES)), new HashSet<>(exact), "messages of a topic");
        Common.same(new HashSet<>(Common.numbers(MESSAGES)), new HashSet<>(pattern), "messages of a pattern");
        clients[1].getTopic("news", StringCodec.INSTANCE).removeAllListeners();
        clients[1].getPatternTopic("n*s", StringCodec.INSTANCE).removeAllListeners();

        Set<String> reliable = ConcurrentHashMap.newKeySet();
        clients[1].getReliableTopic("sure", StringCodec.INSTANCE)
                .addListener(String.class, (channel, text) -> reliable.add(text));
        for (int i = 0; i < 100; i++) {
            clients[0].getReliableTopic("sure", StringCodec.INSTANCE).publish(Integer.toString(i));
        }
        Common.until("all messages of a stream", () -> reliable.size() == 100);
        clients[1].getReliableTopic("sure", StringCodec.INSTANCE).removeAllListeners();
    }

    private void batches() {
        RBatch batch = clients[0].createBatch();
        for (int i = 0; i < 500; i++) {
            batch.getAtomicLong("batch").addAndGetAsync(2);
            batch.getMap("batch:map").fastPutAsync(i, "value" + i);
        }
        BatchResult<?> result = batch.execute();
        Common.same(1_000, result.getResponses().size(), "replies of a batch");
        Common.same(1_000L, clients[1].getAtomicLong("batch").get(), "a counter of a batch");
        Common.same("value499", clients[1].getMap("batch:map").get(499), "a map of a batch");
        Common.same(2L, clients[0].getKeys().delete("batch", "batch:map"), "DEL");
    }

    private void transactions() {
        clients[0].<String, Integer>getMap("accounts").putAll(Map.of("ann", 100, "bob", 0));
        for (boolean isKept : List.of(false, true)) {
            RTransaction transaction = clients[0].createTransaction(TransactionOptions.defaults());
            var accounts = transaction.<String, Integer>getMap("accounts");
            accounts.put("ann", accounts.get("ann") - 30);
            accounts.put("bob", accounts.get("bob") + 30);
            transaction.getBucket("note").set("moved");
            if (isKept) transaction.commit();
            else transaction.rollback();
            Common.same(isKept ? Map.of("ann", 70, "bob", 30) : Map.of("ann", 100, "bob", 0),
                    clients[1].getMap("accounts").readAllMap(), "accounts");
            Common.same(isKept ? "moved" : null, clients[1].getBucket("note").get(), "a note");
        }
    }

    private void collections() {
        RBloomFilter<String> filter = clients[0].getBloomFilter("bloom");
        filter.tryInit(10_000, 0.001);
        for (int i = 0; i < 500; i++) filter.add("in" + i);
        for (int i = 0; i < 500; i++) Common.check(filter.contains("in" + i), "what was added is in the filter");
        int wrong = 0;
        for (int i = 0; i < 500; i++) if (filter.contains("out" + i)) wrong++;
        Common.check(wrong < 10, "what was not added is in the filter " + wrong + " times");

        RScoredSortedSet<String> board = clients[0].getScoredSortedSet("board");
        for (int i = 0; i < 100; i++) board.add(i, "player" + i);
        Common.same(List.of("player99", "player98"), List.copyOf(board.valueRangeReversed(0, 1)), "the best two");
        Common.same(5, board.rank("player5"), "a rank");
        Common.same("player0", board.pollFirst(), "ZPOPMIN");
        Common.same(101.0, board.addScore("player1", 100), "ZINCRBY");

        RTimeSeries<String, Object> series = clients[0].getTimeSeries("series");
        for (int i = 0; i < 50; i++) series.add(1_000 + i, "at" + i);
        Common.same("at10", series.get(1_010), "a value of a time");
        Common.same(11, series.range(1_010, 1_020).size(), "a range of times");
        Common.same(10, series.removeRange(1_000, 1_009), "a range that is removed");

        Common.check(clients[0].getIdGenerator("ids").tryInit(1, 100), "a generator");
        Set<Long> ids = new HashSet<>();
        for (int i = 0; i < 500; i++) ids.add(clients[i % 2].getIdGenerator("ids").nextId());
        Common.same(500, ids.size(), "different numbers");
        var geo = clients[0].<String>getGeo("geo");
        geo.add(3.72, 51.05, "Ghent");
        geo.add(4.40, 51.22, "Antwerp");
        Common.same(List.of("Ghent"), geo.search(org.redisson.api.geo.GeoSearchArgs.from(3.7, 51)
                .radius(20, org.redisson.api.geo.GeoUnit.KILOMETERS)), "towns near");
        RBitSet bits = clients[0].getBitSet("bits");
        Common.check(!bits.set(5) && !bits.set(900) && bits.set(5), "bits as they were before");
        Common.same(2L, bits.cardinality(), "bits that are set");
    }
}
