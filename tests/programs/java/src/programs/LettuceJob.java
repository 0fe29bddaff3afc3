package programs;

import static java.util.stream.Collectors.toSet;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyScanArgs;
import io.lettuce.core.KillArgs;
import io.lettuce.core.LMoveArgs;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScanStream;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.XAutoClaimArgs;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.ConnectionPoolSupport;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.apache.commons.pool2.impl.GenericObjectPool;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import reactor.core.publisher.Flux;

/** Lettuce: every way in which it talks to a server, over both versions of the protocol. */
final class LettuceJob {
    private static final int JOBS = 4_000;
    private static final int CONSUMERS = 6;
    private static final int MESSAGES = 2_000;

    private final RedisClient client;
    private final RedisCommands<String, String> redis;
    private final boolean isResp3;

    private LettuceJob(ProtocolVersion protocol) {
        client = RedisClient.create(RedisURI.builder().withHost(Common.HOST).withPort(Common.PORT)
                .withClientName("lettuce-job").withTimeout(Duration.ofSeconds(60)).build());
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        isResp3 = protocol == ProtocolVersion.RESP3;
        redis = client.connect().sync();
    }

    public static void main(String[] arguments) {
        Common.run(() -> {
            for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
                LettuceJob job = new LettuceJob(protocol);
                job.all();
                Common.same(0L, job.redis.dbsize(), "keys that are left");
                job.client.shutdown(0, 5, TimeUnit.SECONDS);
            }
            return JOBS + " jobs by " + CONSUMERS + " consumers, " + MESSAGES + " messages, a stream, "
                    + "scripts, transactions and scans, over RESP2 and RESP3";
        });
    }

    private void all() throws Exception {
        values();
        pipelines();
        transactions();
        queue();
        messages();
        scripts();
        scans();
        streams();
        reactive();
        pool();
        users();
        reconnects();
        if (isResp3) {
            caching();
            broadcastTracking();
        }
    }

    private void values() {
        Common.same("lettuce-job", redis.clientGetname(), "the connection's name");
        Common.same("OK", redis.set("v:lock", "mine", SetArgs.Builder.nx().px(60_000)), "SET NX PX");
        Common.same(null, redis.set("v:lock", "other", SetArgs.Builder.nx().px(60_000)), "SET NX again");
        Common.check(redis.pttl("v:lock") > 1_000, "the lock's time to live");
        Common.same("mine", redis.setGet("v:lock", "next"), "SET GET");
        redis.hset("v:hash", Map.of("name", "Ann", "age", "30", "town", "Ghent"));
        Common.same(Map.of("name", "Ann", "age", "30", "town", "Ghent"), redis.hgetall("v:hash"), "HGETALL");
        Common.same(31L, redis.hincrby("v:hash", "age", 1), "HINCRBY");
        redis.zadd("v:board", ScoredValue.just(1.5, "a"), ScoredValue.just(-2, "b"),
                ScoredValue.just(Double.POSITIVE_INFINITY, "c"));
        Common.same(List.of(ScoredValue.just(-2, "b"), ScoredValue.just(1.5, "a"),
                ScoredValue.just(Double.POSITIVE_INFINITY, "c")),
                redis.zrangeWithScores("v:board", 0, -1), "scores");
        Common.same(null, redis.zscore("v:board", "none"), "a missing score");
        Common.same(2L, redis.sadd("v:set", "x", "y"), "SADD");
        Common.same(List.of(true, false), redis.smismember("v:set", "x", "z"), "SMISMEMBER");
        redis.geoadd("v:towns", 3.72, 51.05, "Ghent");
        redis.geoadd("v:towns", 4.40, 51.22, "Antwerp");
        Common.check(Math.abs(redis.geodist("v:towns", "Ghent", "Antwerp",
                io.lettuce.core.GeoArgs.Unit.km) - 51) < 3, "the distance of two towns");
        Common.fails("WRONGTYPE", () -> redis.incr("v:hash"));
        Common.fails("not an integer", () -> redis.incr("v:lock"));
        try (StatefulRedisConnection<byte[], byte[]> bytes = client.connect(ByteArrayCodec.INSTANCE)) {
            byte[] large = new byte[5_000_000];
            new Random(1).nextBytes(large);
            bytes.sync().set("v:large".getBytes(), large);
            Common.check(Arrays.equals(large, bytes.sync().get("v:large".getBytes())), "5 MB of bytes");
        }
        Common.same(6L, redis.unlink("v:lock", "v:hash", "v:board", "v:set", "v:towns", "v:large"), "UNLINK");
    }

    /** Requests that are written only when they are flushed. */
    private void pipelines() {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            RedisAsyncCommands<String, String> commands = connection.async();
            connection.setAutoFlushCommands(false);
            for (int round = 0; round < 5; round++) {
                List<RedisFuture<?>> futures = new ArrayList<>();
                for (int i = 0; i < 1_000; i++) {
                    futures.add(commands.set("p:" + i, Integer.toString(i)));
                    futures.add(commands.incrby("p:" + i, round));
                }
                connection.flushCommands();
                Common.check(LettuceFutures.awaitAll(Duration.ofSeconds(60),
                        futures.toArray(RedisFuture[]::new)), "a pipeline's replies");
                for (int i = 0; i < 1_000; i++) {
                    Common.same((long) i + round, futures.get(2 * i + 1).toCompletableFuture().join(),
                            "a counter in a pipeline");
                }
            }
            RedisFuture<Long> removed = commands.del(
                    IntStream.range(0, 1_000).mapToObj(i -> "p:" + i).toArray(String[]::new));
            connection.flushCommands();
            Common.same(1_000L, removed.toCompletableFuture().join(), "keys of the pipelines");
        }
    }

    private void transactions() throws Exception {
        redis.multi();
        redis.set("t", "word");
        redis.incr("t");
        redis.hset("t:hash", "a", "1");
        redis.hgetall("t:hash");
        TransactionResult result = redis.exec();
        Common.same("OK", result.get(0), "SET in MULTI");
        Common.check(result.get(1) instanceof Exception, "an error in a transaction's replies");
        Common.same(Map.of("a", "1"), result.get(3), "HGETALL in MULTI");
        redis.multi();
        Common.same("OK", redis.discard(), "DISCARD");

        // Eight threads that read, decide and write only if nothing has changed since.
        redis.set("t", "0");
        List<Common.Worker> workers = IntStream.range(0, 8).mapToObj(i -> new Common.Worker(() -> {
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                RedisCommands<String, String> own = connection.sync();
                for (int done = 0; done < 25;) {
                    own.watch("t");
                    long next = Long.parseLong(own.get("t")) + 1;
                    own.multi();
                    own.set("t", Long.toString(next));
                    if (!own.exec().wasDiscarded()) done++;
                }
            }
        })).toList();
        Common.Worker.joinAll(workers);
        Common.same("200", redis.get("t"), "a counter of eight threads with WATCH");
        redis.del("t", "t:hash");
    }

    /** Consumers that block, some of them in a move to a list of what is being worked on. */
    private void queue() throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        List<Common.Worker> consumers = IntStream.range(0, CONSUMERS).mapToObj(i -> new Common.Worker(() -> {
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                RedisCommands<String, String> own = connection.sync();
                for (;;) {
                    String job = i % 2 == 0
                            ? own.blpop(0, "q:jobs", "q:urgent").getValue()
                            : own.blmove("q:jobs", "q:taken:" + i, LMoveArgs.Builder.leftRight(), 30);
                    if (job.equals("end")) break;
                    Common.check(seen.add(job), "job " + job + " came twice");
                    if (i % 2 == 1) Common.same(1L, own.lrem("q:taken:" + i, 1, job), "a job that was moved");
                }
                own.del("q:taken:" + i);
            }
        })).toList();
        RedisAsyncCommands<String, String> async = redis.getStatefulConnection().async();
        for (int i = 0; i < JOBS; i++) async.rpush(i % 7 == 0 ? "q:urgent" : "q:jobs", Integer.toString(i));
        Common.until("all jobs", () -> seen.size() == JOBS);
        for (int i = 0; i < CONSUMERS; i++) redis.rpush("q:jobs", "end");
        Common.Worker.joinAll(consumers);
        Common.same(null, redis.blpop(0.01, "q:jobs"), "a BLPOP that times out");
        redis.zadd("q:scores", 3, "c");
        Common.same("c", redis.bzpopmin(1, "q:scores").getValue().getValue(), "BZPOPMIN");
    }

    private void messages() throws Exception {
        List<String> exact = Collections.synchronizedList(new ArrayList<>());
        List<String> pattern = Collections.synchronizedList(new ArrayList<>());
        try (StatefulRedisPubSubConnection<String, String> connection = client.connectPubSub()) {
            connection.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    exact.add(message);
                }

                @Override
                public void message(String found, String channel, String message) {
                    pattern.add(message);
                }
            });
            connection.sync().subscribe("news");
            connection.sync().psubscribe("n*");
            // Several publishers at once: each one's messages stay in order.
            RedisAsyncCommands<String, String> async = redis.getStatefulConnection().async();
            List<RedisFuture<Long>> receivers = new ArrayList<>();
            for (int i = 0; i < MESSAGES; i++) receivers.add(async.publish("news", Integer.toString(i)));
            for (RedisFuture<Long> count : receivers) Common.same(2L, count.get(), "receivers");
            Common.until("all messages", () -> pattern.size() == MESSAGES && exact.size() == MESSAGES);
            Common.same(Common.numbers(MESSAGES), exact, "messages of a channel");
            Common.same(Common.numbers(MESSAGES), pattern, "messages of a pattern");
            Common.same(Map.of("news", 1L), redis.pubsubNumsub("news"), "PUBSUB NUMSUB");
            connection.sync().unsubscribe("news");
            connection.sync().punsubscribe("n*");
            Common.same("PONG", connection.sync().ping(), "PING after unsubscribing");
        }
    }

    private void scripts() {
        String script = "redis.call('incrby', KEYS[1], ARGV[1]) return {KEYS[1], redis.call('get', KEYS[1])}";
        String sha = redis.scriptLoad(script);
        for (int i = 1; i <= 100; i++) {
            List<String> reply = redis.evalsha(sha, ScriptOutputType.MULTI, new String[] {"s"}, "3");
            Common.same(List.of("s", Integer.toString(3 * i)), reply, "EVALSHA");
        }
        redis.scriptFlush();
        Common.fails("NOSCRIPT", () -> redis.evalsha(sha, ScriptOutputType.MULTI, new String[] {"s"}, "3"));
        Common.same(true, redis.eval("return redis.call('get', KEYS[1]) == ARGV[1]",
                ScriptOutputType.BOOLEAN, new String[] {"s"}, "300"), "a boolean of a script");
        Common.fails("my own error", () -> redis.eval("return redis.error_reply('my own error')",
                ScriptOutputType.STATUS));
        redis.functionLoad("#!lua name=jobs\nredis.register_function('twice', function(keys, arguments) "
                + "return 2 * arguments[1] end)", true);
        Long twice = redis.fcall("twice", ScriptOutputType.INTEGER, new String[0], "21");
        Common.same(42L, twice, "FCALL");
        redis.functionFlush(io.lettuce.core.FlushMode.SYNC);
        redis.del("s");
    }

    private void scans() {
        Map<String, String> fields = new HashMap<>();
        for (int i = 0; i < 3_000; i++) fields.put("scan:" + i, Integer.toString(i));
        redis.mset(fields);
        redis.hset("other:hash", fields);
        redis.sadd("other:set", fields.keySet().toArray(String[]::new));
        Common.same(fields.keySet(), ScanIterator.scan(redis, KeyScanArgs.Builder.matches("scan:*").limit(100))
                .stream().collect(toSet()), "SCAN");
        Common.same(Set.of("other:hash"), ScanIterator.scan(redis, KeyScanArgs.Builder.type("hash"))
                .stream().collect(toSet()), "SCAN TYPE");
        Map<String, String> found = new HashMap<>();
        ScanIterator.hscan(redis, "other:hash").forEachRemaining(pair -> found.put(pair.getKey(), pair.getValue()));
        Common.same(fields, found, "HSCAN");
        Common.same(fields.keySet(), ScanIterator.sscan(redis, "other:set", ScanArgs.Builder.limit(500))
                .stream().collect(toSet()), "SSCAN");
        redis.unlink(fields.keySet().toArray(String[]::new));
        redis.unlink("other:hash", "other:set");
    }

    /** A group of consumers of which one ends with messages that it has not acknowledged. */
    private void streams() throws Exception {
        redis.xgroupCreate(StreamOffset.from("events", "$"), "readers", XGroupCreateArgs.Builder.mkstream());
        Set<String> handled = ConcurrentHashMap.newKeySet();
        List<Common.Worker> readers = IntStream.range(0, 3).mapToObj(i -> new Common.Worker(() -> {
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                RedisCommands<String, String> own = connection.sync();
                while (handled.size() < 990) {
                    for (StreamMessage<String, String> message : own.xreadgroup(
                            Consumer.from("readers", "reader" + i),
                            XReadArgs.Builder.block(50).count(32), StreamOffset.lastConsumed("events"))) {
                        Common.check(handled.add(message.getBody().get("number")), "an event came twice");
                        Common.same(1L, own.xack("events", "readers", message.getId()), "XACK");
                    }
                }
            }
        })).toList();
        // The consumer that disappears takes the first ten before the others have seen any.
        redis.multi();
        for (int i = 0; i < 10; i++) redis.xadd("events", Map.of("number", Integer.toString(i)));
        redis.xreadgroup(Consumer.from("readers", "gone"), XReadArgs.Builder.count(10),
                StreamOffset.lastConsumed("events"));
        redis.exec();
        RedisAsyncCommands<String, String> async = redis.getStatefulConnection().async();
        for (int i = 10; i < 1_000; i++) async.xadd("events", Map.of("number", Integer.toString(i)));
        Common.Worker.joinAll(readers);
        Common.same(10L, redis.xpending("events", "readers").getCount(), "messages of the one that is gone");
        List<StreamMessage<String, String>> claimed = redis.xautoclaim("events", XAutoClaimArgs.Builder
                .xautoclaim(Consumer.from("readers", "heir"), Duration.ZERO, "0-0")).getMessages();
        for (StreamMessage<String, String> message : claimed) {
            handled.add(message.getBody().get("number"));
            redis.xack("events", "readers", message.getId());
        }
        Common.same(new HashSet<>(Common.numbers(1_000)), handled, "events");
        Common.same(0L, redis.xpending("events", "readers").getCount(), "XPENDING at the end");
        redis.xtrim("events", 100);
        Common.same(100L, redis.xlen("events"), "XTRIM");
        Common.same(100L, (long) redis.xrevrange("events", io.lettuce.core.Range.unbounded()).size(), "XREVRANGE");
        Common.same(1L, (long) redis.xinfoGroups("events").size(), "XINFO GROUPS");
        redis.del("events");
    }

    private void reactive() {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            var commands = connection.reactive();
            Long sum = Flux.range(0, 2_000)
                    .flatMap(i -> commands.set("r:" + i, Integer.toString(i)).then(commands.get("r:" + i)), 64)
                    .map(Long::parseLong).reduce(0L, Long::sum).block(Duration.ofSeconds(60));
            Common.same(1_999_000L, sum, "values that came back");
            Long removed = ScanStream.scan(commands, KeyScanArgs.Builder.matches("r:*")).buffer(200)
                    .flatMap(keys -> commands.del(keys.toArray(String[]::new)))
                    .reduce(0L, Long::sum).block(Duration.ofSeconds(60));
            Common.same(2_000L, removed, "keys that were found and removed");
        }
    }

    private void pool() throws Exception {
        GenericObjectPoolConfig<StatefulRedisConnection<String, String>> limits = new GenericObjectPoolConfig<>();
        limits.setMaxTotal(8);
        limits.setTestOnBorrow(true);
        try (GenericObjectPool<StatefulRedisConnection<String, String>> pool =
                ConnectionPoolSupport.createGenericObjectPool(client::connect, limits)) {
            Common.Worker.joinAll(IntStream.range(0, 20).mapToObj(i -> new Common.Worker(() -> {
                for (int turn = 0; turn < 50; turn++) {
                    try (StatefulRedisConnection<String, String> connection = pool.borrowObject()) {
                        connection.sync().incr("pool");
                    }
                }
            })).toList());
        }
        Common.same("1000", redis.getdel("pool"), "a counter of twenty threads");
    }

    private void users() {
        redis.aclSetuser("ann", io.lettuce.core.AclSetuserArgs.Builder.on().addPassword("secret")
                .keyPattern("ann:*").addCategory(io.lettuce.core.AclCategory.STRING)
                .addCommand(io.lettuce.core.protocol.CommandType.PING));
        RedisURI own = RedisURI.builder().withHost(Common.HOST).withPort(Common.PORT)
                .withAuthentication("ann", "secret").build();
        try (StatefulRedisConnection<String, String> connection = client.connect(own)) {
            connection.sync().set("ann:key", "1");
            Common.fails("NOPERM", () -> connection.sync().set("other", "1"));
            Common.fails("NOPERM", () -> connection.sync().del("ann:key"));
        }
        RedisURI wrong = RedisURI.builder().withHost(Common.HOST).withPort(Common.PORT)
                .withAuthentication("ann", "guess").build();
        Common.fails("WRONGPASS", () -> client.connect(wrong));
        Common.same(1L, redis.aclDeluser("ann"), "ACL DELUSER");
        redis.del("ann:key");
    }

    /** The library comes back by itself, with its name and what it has subscribed to. */
    private void reconnects() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        try (StatefulRedisConnection<String, String> cut = client.connect();
                StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(message);
                }
            });
            listener.sync().subscribe("again");
            Common.same(1L, redis.clientKill(KillArgs.Builder.id(cut.sync().clientId())), "CLIENT KILL ID");
            Common.same(1L, redis.clientKill(KillArgs.Builder.typePubsub()), "CLIENT KILL TYPE pubsub");
            Common.same("OK", cut.sync().set("after", "cut"), "SET after the cut");
            Common.same("lettuce-job", cut.sync().clientGetname(), "the name after the cut");
            Common.until("the subscription again", () -> redis.publish("again", "hello") == 1);
            Common.until("a message", () -> !heard.isEmpty());
            redis.del("after");
        }
    }

    /** A local map that the server keeps true by its invalidations, while another client writes. */
    private void caching() throws Exception {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            Map<String, String> local = new ConcurrentHashMap<>();
            CacheFrontend<String, String> cache = ClientSideCaching.enable(
                    CacheAccessor.forMap(local), connection, TrackingArgs.Builder.enabled().noloop());
            redis.set("c:one", "first");
            Common.same("first", cache.get("c:one"), "a value through the cache");
            Common.same("first", local.get("c:one"), "the value in the local map");
            redis.set("c:one", "second");
            Common.until("the invalidation", () -> !local.containsKey("c:one"));
            Common.same("second", cache.get("c:one"), "the new value");
            redis.pexpire("c:one", 20);
            Common.until("the invalidation of a key that expires", () -> cache.get("c:one") == null);

            Random random = new Random(2);
            for (int i = 0; i < 100; i++) redis.set("c:" + i, "0");
            for (int i = 0; i < 5_000; i++) {
                String key = "c:" + random.nextInt(100);
                if (i % 3 == 0) redis.set(key, Integer.toString(i));
                else Common.check(cache.get(key) != null, "a value through the cache");
            }
            for (int i = 0; i < 100; i++) {
                String key = "c:" + i;
                Common.until("the last value of " + key, () -> cache.get(key).equals(redis.get(key)));
            }
            // Not FLUSHDB: Lettuce's map does not understand its invalidation without keys.
            for (int i = 0; i < 100; i++) redis.del("c:" + i);
            Common.until("the invalidation of all", local::isEmpty);
        }
    }

    /** Every key of a prefix, read or not, and at last all of them in one. */
    private void broadcastTracking() throws Exception {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            Set<String> invalidated = ConcurrentHashMap.newKeySet();
            AtomicBoolean isFlushed = new AtomicBoolean();
            connection.addListener(message -> {
                if (!message.getType().equals("invalidate")) return;
                List<Object> content = message.getContent(io.lettuce.core.codec.StringCodec.UTF8::decodeKey);
                if (content.get(1) instanceof List<?> keys) keys.forEach(key -> invalidated.add((String) key));
                else isFlushed.set(content.get(1) == null);
            });
            connection.sync().clientTracking(TrackingArgs.Builder.enabled().bcast().prefixes("b:", "d:"));
            for (int i = 0; i < 500; i++) redis.set("b:" + i, "1");
            redis.set("e:0", "1");
            redis.set("d:0", "1");
            Common.until("all invalidations", () -> invalidated.size() >= 501);
            Common.same(false, invalidated.contains("e:0"), "an invalidation of another prefix");
            redis.flushdb();
            Common.until("the invalidation of everything", isFlushed::get);
            connection.sync().clientTracking(TrackingArgs.Builder.enabled(false));
        }
    }
}
