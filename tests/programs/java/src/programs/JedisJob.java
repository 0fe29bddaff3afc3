package programs;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.csc.Cache;
import redis.clients.jedis.csc.DefaultCache;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.StreamEntry;

/** Jedis: a pool used by many threads, over both versions of the protocol. */
final class JedisJob {
    private static final HostAndPort SERVER = new HostAndPort(Common.HOST, Common.PORT);
    private static final int JOBS = 3_000;
    private static final int THREADS = 16;
    private static final int MESSAGES = 2_000;

    private final RedisProtocol protocol;
    private final RedisClient redis;

    private JedisJob(RedisProtocol protocol) {
        this.protocol = protocol;
        redis = client(null);
    }

    public static void main(String[] arguments) {
        Common.run(() -> {
            for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
                JedisJob job = new JedisJob(protocol);
                job.all();
                Common.same(0L, job.redis.dbSize(), "keys that are left");
                job.redis.close();
            }
            return "a pool of " + THREADS + " threads, " + JOBS + " jobs, " + MESSAGES
                    + " messages, a stream, scripts, transactions and scans, over RESP2 and RESP3";
        });
    }

    private RedisClient client(Cache cache) {
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(THREADS);
        pool.setMaxWait(Duration.ofSeconds(60));
        pool.setTestOnBorrow(true);
        var builder = RedisClient.builder().hostAndPort(SERVER).poolConfig(pool)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol)
                        .clientName("jedis-job").socketTimeoutMillis(60_000).build());
        return (cache == null ? builder : builder.cache(cache)).build();
    }

    private void all() throws Exception {
        pooled();
        pipelines();
        transactions();
        queue();
        messages();
        scripts();
        scans();
        streams();
        cuts();
        if (protocol == RedisProtocol.RESP3) cache();
    }

    /** Many threads that share connections: no reply may come to the wrong one. */
    private void pooled() throws Exception {
        Common.Worker.joinAll(IntStream.range(0, 2 * THREADS).mapToObj(thread -> new Common.Worker(() -> {
            String key = "pool:" + thread;
            for (int i = 0; i < 200; i++) {
                redis.set(key, thread + "/" + i);
                Common.same(thread + "/" + i, redis.get(key), "a value of a thread");
                redis.hset(key + ":hash", Map.of("a", Integer.toString(i), "b", "x".repeat(i)));
                Common.same(Map.of("a", Integer.toString(i), "b", "x".repeat(i)),
                        redis.hgetAll(key + ":hash"), "a hash of a thread");
                redis.incr("pool:count");
            }
            Common.same(2L, redis.del(key, key + ":hash"), "keys of a thread");
        })).toList());
        Common.same(Integer.toString(2 * THREADS * 200), redis.getDel("pool:count"), "the counter of all");
        Common.same("OK", redis.set("lock", "mine", SetParams.setParams().nx().ex(60)), "SET NX EX");
        Common.same(null, redis.set("lock", "other", SetParams.setParams().nx().ex(60)), "SET NX again");
        Common.check(redis.ttl("lock") > 1, "the lock's time to live");
        redis.zadd("board", Map.of("a", 1.5, "b", -2.0, "c", Double.POSITIVE_INFINITY));
        Common.same(List.of("b", "a", "c"), redis.zrange("board", 0, -1), "ZRANGE");
        Common.same(Double.POSITIVE_INFINITY, redis.zscore("board", "c"), "an infinite score");
        Common.fails("WRONGTYPE", () -> redis.incr("board"));
        redis.del("lock", "board");
    }

    private void pipelines() {
        List<Response<Long>> counters = new ArrayList<>();
        try (Pipeline pipeline = redis.pipelined()) {
            for (int i = 0; i < 2_000; i++) {
                pipeline.set("p:" + i, Integer.toString(i));
                counters.add(pipeline.incrBy("p:" + i, 1));
            }
            pipeline.lpush("p:0", "not a list");
            Response<Map<String, String>> none = pipeline.hgetAll("p:none");
            List<Object> all = pipeline.syncAndReturnAll();
            Common.same(4_002, all.size(), "replies of a pipeline");
            Common.check(all.get(4_000) instanceof Exception, "an error in a pipeline's replies");
            Common.same(Map.of(), none.get(), "HGETALL of no key");
        }
        for (int i = 0; i < 2_000; i++) Common.same(i + 1L, counters.get(i).get(), "a counter");
        Common.same(2_000L, redis.del(IntStream.range(0, 2_000).mapToObj(i -> "p:" + i)
                .toArray(String[]::new)), "keys of the pipeline");
    }

    /** An account from which eight threads take only what is there. */
    private void transactions() throws Exception {
        redis.set("account", "100");
        Common.Worker.joinAll(IntStream.range(0, 8).mapToObj(i -> new Common.Worker(() -> {
            for (;;) {
                try (AbstractTransaction transaction = redis.transaction(false)) {
                    transaction.watch("account");
                    int left = Integer.parseInt(redis.get("account"));
                    if (left == 0) return;
                    transaction.multi();
                    Response<Long> now = transaction.decr("account");
                    transaction.rpush("taken", Integer.toString(left));
                    if (transaction.exec() != null) Common.same(left - 1L, now.get(), "what is left");
                }
            }
        })).toList());
        Common.same("0", redis.get("account"), "the account");
        List<String> taken = redis.lrange("taken", 0, -1);
        Common.same(100, new HashSet<>(taken).size(), "different amounts");
        Common.same(100, taken.size(), "withdrawals");
        try (AbstractTransaction transaction = redis.multi()) {
            transaction.set("account", "word");
            transaction.incr("account");
            Response<String> value = transaction.get("account");
            List<Object> replies = transaction.exec();
            Common.check(replies.get(1) instanceof Exception, "an error in a transaction");
            Common.same("word", value.get(), "GET in a transaction");
        }
        redis.del("account", "taken");
    }

    private void queue() throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        List<Common.Worker> consumers = IntStream.range(0, 6).mapToObj(i -> new Common.Worker(() -> {
            for (;;) {
                String job = i % 2 == 0
                        ? redis.blpop(0.0, "q:urgent", "q:jobs").getValue()
                        : redis.blmove("q:jobs", "q:taken:" + i, ListDirection.LEFT, ListDirection.RIGHT, 0);
                if (job.equals("end")) break;
                Common.check(seen.add(job), "job " + job + " came twice");
                if (i % 2 == 1) Common.same(1L, redis.lrem("q:taken:" + i, 1, job), "a job that was moved");
            }
            redis.del("q:taken:" + i);
        })).toList();
        for (int i = 0; i < JOBS; i++) redis.rpush(i % 7 == 0 ? "q:urgent" : "q:jobs", Integer.toString(i));
        Common.until("all jobs", () -> seen.size() == JOBS);
        for (int i = 0; i < consumers.size(); i++) redis.rpush("q:jobs", "end");
        Common.Worker.joinAll(consumers);
        Common.same(null, redis.blpop(0.01, "q:jobs"), "a BLPOP that times out");
    }

    private void messages() throws Exception {
        List<String> exact = Collections.synchronizedList(new ArrayList<>());
        List<String> pattern = Collections.synchronizedList(new ArrayList<>());
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                exact.add(message);
            }

            @Override
            public void onPMessage(String found, String channel, String message) {
                pattern.add(message);
            }

            @Override
            public void onSubscribe(String channel, int count) {
                psubscribe("n*");
            }
        };
        Common.Worker listener = new Common.Worker(() -> redis.subscribe(subscriber, "news"));
        Common.until("the subscriptions", () -> redis.publish("news", "first") == 2);
        Common.until("the first message", () -> pattern.contains("first"));
        exact.clear();
        pattern.clear();
        for (int i = 0; i < MESSAGES; i++) {
            Common.same(2L, redis.publish("news", Integer.toString(i)), "receivers");
        }
        Common.until("all messages", () -> exact.size() == MESSAGES && pattern.size() == MESSAGES);
        Common.same(Common.numbers(MESSAGES), exact, "messages of a channel");
        Common.same(Common.numbers(MESSAGES), pattern, "messages of a pattern");
        subscriber.unsubscribe();
        subscriber.punsubscribe();
        listener.join();
    }

    private void scripts() {
        String script = "local left = redis.call('decrby', KEYS[1], ARGV[1]) "
                + "if left < 0 then return redis.error_reply('NONE nothing is left') end "
                + "return {left, tostring(left / 2), false, 'after'}";
        String sha = redis.scriptLoad(script);
        redis.set("s", "7");
        Common.same(List.of(4L, "2"), ((List<?>) redis.evalsha(sha, 1, "s", "3")).subList(0, 2), "EVALSHA");
        Common.fails("NONE nothing is left", () -> redis.evalsha(sha, 1, "s", "5"));
        redis.scriptFlush();
        Common.fails("NOSCRIPT", () -> redis.evalsha(sha, 1, "s", "5"));
        redis.set("s", "7");
        List<?> reply = (List<?>) redis.eval(script, List.of("s"), List.of("2"));
        Common.same(4, reply.size(), "a reply with a null in it");
        Common.same(null, reply.get(2), "false in a script's reply");
        redis.functionLoad("#!lua name=jobs\nredis.register_function{function_name='look', "
                + "callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}");
        Common.same("5", redis.fcallReadonly("look", List.of("s"), List.of()), "FCALL_RO");
        redis.functionDelete("jobs");
        redis.del("s");
    }

    private void scans() {
        Map<String, String> fields = new HashMap<>();
        for (int i = 0; i < 2_000; i++) fields.put("scan:" + i, Integer.toString(i));
        redis.mset(fields.entrySet().stream().flatMap(pair -> java.util.stream.Stream.of(pair.getKey(),
                pair.getValue())).toArray(String[]::new));
        redis.hset("other:hash", fields);
        Common.same(fields.keySet(), new HashSet<>(redis.scanIteration(100, "scan:*").collect(new ArrayList<>())),
                "SCAN");
        Map<String, String> found = new HashMap<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<Map.Entry<String, String>> part = redis.hscan("other:hash", cursor, new ScanParams().count(50));
            part.getResult().forEach(pair -> found.put(pair.getKey(), pair.getValue()));
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        Common.same(fields, found, "HSCAN");
        redis.unlink(fields.keySet().toArray(String[]::new));
        redis.unlink("other:hash");
    }

    private void streams() throws Exception {
        redis.xgroupCreate("events", "readers", StreamEntryID.XGROUP_LAST_ENTRY, true);
        for (int i = 0; i < 5; i++) redis.xadd("events", XAddParams.xAddParams(), Map.of("number", Integer.toString(i)));
        redis.xreadGroup("readers", "gone", XReadGroupParams.xReadGroupParams().count(5),
                Map.of("events", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        Set<String> handled = ConcurrentHashMap.newKeySet();
        List<Common.Worker> readers = IntStream.range(0, 3).mapToObj(i -> new Common.Worker(() -> {
            while (handled.size() < 495) {
                var read = redis.xreadGroup("readers", "reader" + i,
                        XReadGroupParams.xReadGroupParams().count(20).block(50),
                        Map.of("events", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
                if (read == null) continue;
                for (StreamEntry entry : read.get(0).getValue()) {
                    Common.check(handled.add(entry.getFields().get("number")), "an event came twice");
                    Common.same(1L, redis.xack("events", "readers", entry.getID()), "XACK");
                }
            }
        })).toList();
        for (int i = 5; i < 500; i++) {
            redis.xadd("events", XAddParams.xAddParams().maxLen(10_000).approximateTrimming(),
                    Map.of("number", Integer.toString(i)));
        }
        Common.Worker.joinAll(readers);
        var pending = redis.xpending("events", "readers");
        Common.same(5L, pending.getTotal(), "messages of the one that is gone");
        Common.same(Map.of("gone", 5L), pending.getConsumerMessageCount(), "the consumer that has them");
        for (StreamEntry entry : redis.xautoclaim("events", "readers", "heir", 0, new StreamEntryID("0-0"),
                XAutoClaimParams.xAutoClaimParams()).getValue()) {
            handled.add(entry.getFields().get("number"));
            redis.xack("events", "readers", entry.getID());
        }
        Common.same(new HashSet<>(Common.numbers(500)), handled, "events");
        Common.same("readers", redis.xinfoGroups("events").get(0).getName(), "XINFO GROUPS");
        Common.same(500L, redis.xinfoStream("events").getLength(), "XINFO STREAM");
        redis.del("events");
    }

    /** Connections of the pool that the server has cut are replaced when they are borrowed. */
    private void cuts() {
        try (Jedis other = new Jedis(SERVER)) {
            for (int round = 0; round < 20; round++) {
                other.clientKill(ClientKillParams.clientKillParams().type(ClientType.NORMAL));
                Common.same("OK", redis.set("cut", Integer.toString(round)), "SET after the cut");
            }
            Common.same("19", redis.getDel("cut"), "GETDEL");
        }
    }

    /** Jedis' own cache takes a server of a version below 7.4 only when it is told that it can. */
    private static final class OwnCache extends DefaultCache {
        OwnCache(int maxSize) {
            super(maxSize);
        }

        @Override
        public boolean compatibilityMode() {
            return true;
        }
    }

    private void cache() throws Exception {
        Cache cache = new OwnCache(1_000);
        try (RedisClient cached = client(cache)) {
            redis.set("c:one", "first");
            redis.hset("c:hash", "field", "1");
            for (int i = 0; i < 10; i++) {
                Common.same("first", cached.get("c:one"), "a value through the cache");
                Common.same(Map.of("field", "1"), cached.hgetAll("c:hash"), "a hash through the cache");
            }
            Common.same(18L, cache.getStats().getHitCount(), "hits");
            redis.set("c:one", "second");
            Common.until("the new value", () -> cached.get("c:one").equals("second"));
            redis.del("c:one", "c:hash");
            Common.until("no value", () -> cached.get("c:one") == null && cached.hgetAll("c:hash").isEmpty());

            for (int i = 0; i < 50; i++) redis.set("c:" + i, "0");
            List<Common.Worker> readers = IntStream.range(0, 4).mapToObj(thread -> new Common.Worker(() -> {
                Random random = new Random(thread);
                for (int i = 0; i < 3_000; i++) {
                    Common.check(cached.get("c:" + random.nextInt(50)) != null, "a value through the cache");
                }
            })).toList();
            for (int i = 0; i < 500; i++) redis.set("c:" + i % 50, Integer.toString(i));
            Common.Worker.joinAll(readers);
            for (int i = 0; i < 50; i++) {
                String key = "c:" + i;
                Common.until("the last value of " + key, () -> cached.get(key).equals(redis.get(key)));
            }
            Common.check(cache.getStats().getInvalidationCount() > 0, "invalidations");
            redis.flushDB();
            Common.until("no value after FLUSHDB", () -> cached.get("c:0") == null);
        }
    }
}
