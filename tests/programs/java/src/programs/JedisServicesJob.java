package programs;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.IntStream;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.resps.Tuple;

/**
 * Jedis: a queue whose consumers are cut off and return, a leaderboard, sessions, and messages to
 * many subscribers.
 */
final class JedisServicesJob {
    private static final int JOBS = size("NAGI_JOBS", 5_000);
    private static final int SUBSCRIBERS = size("NAGI_SUBSCRIBERS", 100);
    private static final int CONSUMERS = 4;
    private static final int KILLS = 10;
    private static final int BATCH = 100;
    private static final int PLAYERS = 1_000;
    private static final int ROUNDS = 10;
    private static final int SESSIONS = 50;
    private static final int VISITORS = 4;
    private static final int VISITS = 5;
    private static final int MESSAGES = 200;

    private final Jedis redis = connect();

    public static void main(String[] arguments) {
        Common.run(() -> {
            JedisServicesJob job = new JedisServicesJob();
            time("queue", job::queue);
            time("leaderboard", job::leaderboard);
            time("sessions", job::sessions);
            time("fan-out", job::fanOut);
            Common.same(0L, job.redis.dbSize(), "keys that are left");
            return JOBS + " jobs by " + CONSUMERS + " consumers of which " + KILLS + " were cut off, a leaderboard of "
                    + PLAYERS + ", " + SESSIONS + " sessions, " + MESSAGES + " messages to " + SUBSCRIBERS
                    + " subscribers";
        });
    }

    private static int size(String name, int usual) {
        String text = System.getenv(name);
        return text == null ? usual : Integer.parseInt(text);
    }

    private static void time(String name, Common.Step part) throws Exception {
        long begun = System.nanoTime();
        part.run();
        System.out.printf("%s %.1f s%n", name, (System.nanoTime() - begun) / 1e9);
    }

    private static Jedis connect() {
        return new Jedis(new HostAndPort(Common.HOST, Common.PORT));
    }

    /** Jobs stay in the consumer's list until they are done: it finds them there when it returns. */
    private static void consume(Jedis redis, String own) {
        for (;;) {
            for (String job : redis.lrange(own, 0, -1)) end(redis, own, job);
            for (;;) {
                String job = redis.blmove("jobs", own, ListDirection.LEFT, ListDirection.RIGHT, 0.5);
                if (job == null) break;
                end(redis, own, job);
                if (job.equals("end")) return;
            }
        }
    }

    private static void end(Jedis redis, String own, String job) {
        Transaction work = redis.multi();
        work.lrem(own, 1, job);
        if (!job.equals("end")) work.rpush("done", job);
        Common.same(1L, work.exec().get(0), "a job that was moved");
    }

    private void queue() throws Exception {
        AtomicLongArray connections = new AtomicLongArray(CONSUMERS);
        AtomicInteger returns = new AtomicInteger();
        List<Common.Worker> consumers = IntStream.range(0, CONSUMERS).mapToObj(i -> new Common.Worker(() -> {
            for (;;) {
                try (Jedis own = connect()) {
                    connections.set(i, own.clientId());
                    consume(own, "work:" + i);
                    return;
                } catch (JedisConnectionException cut) {
                    returns.incrementAndGet();
                }
            }
        })).toList();
        int part = JOBS / KILLS;
        for (int kill = 0; kill < KILLS; kill++) {
            int first = kill * part;
            for (int i = first; i < first + part; i += BATCH) {
                redis.rpush("jobs", IntStream.range(i, i + BATCH).mapToObj(Integer::toString).toArray(String[]::new));
            }
            // Consumers are cut off in turn at work and in BLMOVE.
            int wanted = first + (kill % 2 == 0 ? part / 2 : part);
            Common.until("jobs", () -> redis.llen("done") >= wanted);
            int victim = kill % CONSUMERS;
            Common.until("a consumer", () -> connections.get(victim) != 0);
            String id = Long.toString(connections.getAndSet(victim, 0));
            Common.same(1L, redis.clientKill(ClientKillParams.clientKillParams().id(id)), "connections cut");
        }
        Common.until("all jobs", () -> redis.llen("done") >= JOBS);
        Common.until("all consumers", () -> returns.get() == KILLS);
        for (int i = 0; i < CONSUMERS; i++) redis.rpush("jobs", "end");
        Common.Worker.joinAll(consumers);
        List<Integer> done = redis.lrange("done", 0, -1).stream().map(Integer::valueOf).sorted().toList();
        Common.same(IntStream.range(0, JOBS).boxed().toList(), done, "jobs that are done");
        // Neither a job waits nor does a consumer have one.
        Common.same(1L, redis.del("done"), "lists");
        Common.same(0L, redis.dbSize(), "keys that are left");
    }

    private void leaderboard() {
        Random random = new Random(17);
        Map<String, Double> model = new HashMap<>();
        List<Tuple> best = List.of();
        for (int round = 0; round < ROUNDS; round++) {
            List<Object> expected = new ArrayList<>();
            Pipeline updates = redis.pipelined();
            for (int i = 0; i < PLAYERS; i++) {
                String player = String.format("p%04d", random.nextInt(PLAYERS));
                double points = random.nextInt(1_200) - 200;
                Double known = model.get(player);
                if (random.nextInt(10) > 0) {
                    updates.zincrby("board", points, player);
                    model.merge(player, points, Double::sum);
                    expected.add(model.get(player));
                } else {
                    updates.zadd("board", points, player);
                    model.put(player, points);
                    expected.add(known == null ? 1L : 0L);
                }
            }
            Common.same(expected, updates.syncAndReturnAll(), "replies of a pipeline");
            best = model.entrySet().stream().map(pair -> new Tuple(pair.getKey(), pair.getValue()))
                    .sorted(Comparator.comparing(Tuple::getScore).thenComparing(Tuple::getElement).reversed()).toList();
            compare(best);
        }
        Common.same(best.size() - 100L, redis.zremrangeByRank("board", 0, -101), "players who are removed");
        Common.same(best.subList(0, 100), redis.zrevrangeWithScores("board", 0, -1), "the best");
        Common.same(1L, redis.del("board"), "boards");
    }

    private void compare(List<Tuple> best) {
        Common.same(best, redis.zrevrangeWithScores("board", 0, -1), "the board");
        for (int rank = 0; rank < best.size(); rank += 50) {
            String player = best.get(rank).getElement();
            Common.same((long) rank, redis.zrevrank("board", player), "a rank");
            Common.same(best.size() - 1L - rank, redis.zrank("board", player), "a rank");
        }
        long good = best.stream().filter(player -> player.getScore() >= 500).count();
        Common.same(good, redis.zcount("board", "500", "+inf"), "the good");
    }

    private static void visit(String[] keys) {
        try (Jedis own = connect()) {
            for (int i = 0; i < VISITS * SESSIONS; i++) {
                String key = keys[i % SESSIONS];
                List<Object> replies = null;
                while (replies == null) {
                    own.watch(key);
                    int visits = Integer.parseInt(own.hget(key, "visits"));
                    Transaction raise = own.multi();
                    raise.hset(key, "visits", Integer.toString(visits + 1));
                    raise.expire(key, 1_800);
                    replies = raise.exec();
                }
                Common.same(List.of(0L, 1L), replies, "replies of a transaction");
            }
        }
    }

    private void sessions() throws Exception {
        String[] keys = IntStream.range(0, SESSIONS).mapToObj(i -> "session:" + i).toArray(String[]::new);
        Pipeline created = redis.pipelined();
        for (int i = 0; i < SESSIONS; i++) {
            created.hset(keys[i], Map.of("user", "user " + i, "visits", "0"));
            created.expire(keys[i], 3_600);
        }
        created.sync();
        Common.Worker.joinAll(
                IntStream.range(0, VISITORS).mapToObj(i -> new Common.Worker(() -> visit(keys))).toList());
        for (int i = 0; i < SESSIONS; i++) {
            Map<String, String> wanted = Map.of("user", "user " + i, "visits", Integer.toString(VISITORS * VISITS));
            Common.same(wanted, redis.hgetAll(keys[i]), "a session");
            long seconds = redis.ttl(keys[i]);
            Common.check(seconds > 1_700 && seconds <= 1_800, "the time of a session");
        }
        for (int i = 0; i < SESSIONS; i += 2) redis.pexpire(keys[i], 1_000);
        try (Jedis late = connect()) {
            late.watch(keys[0]);
            Common.until("the end of half", () -> redis.exists(keys) == SESSIONS / 2);
            Transaction transaction = late.multi();
            transaction.hset(keys[0], "visits", "1");
            // The session has expired, so it must not come back without its user.
            Common.same(null, transaction.exec(), "a transaction on a session that has expired");
        }
        Common.same(Map.of(), redis.hgetAll(keys[0]), "a session that has expired");
        Common.same(-2L, redis.ttl(keys[0]), "its time");
        Common.same(SESSIONS / 2L, redis.del(keys), "sessions that are left");
    }

    /** Notes what it hears, and ends after the last message. */
    private static final class Listener extends JedisPubSub {
        private final List<String> heard = Collections.synchronizedList(new ArrayList<>());

        @Override
        public void onMessage(String channel, String message) {
            heard.add(message);
            if (heard.size() == MESSAGES) unsubscribe();
        }
    }

    private void fanOut() throws Exception {
        List<Listener> listeners = IntStream.range(0, SUBSCRIBERS).mapToObj(i -> new Listener()).toList();
        List<Common.Worker> threads = listeners.stream().map(listener -> new Common.Worker(() -> {
            try (Jedis own = connect()) {
                own.subscribe(listener, "news");
            }
        })).toList();
        Common.until("all subscribers", () -> redis.pubsubNumSub("news").get("news") == SUBSCRIBERS);
        for (int i = 0; i < MESSAGES; i++) {
            Common.same((long) SUBSCRIBERS, redis.publish("news", Integer.toString(i)), "receivers");
        }
        Common.Worker.joinAll(threads);
        for (Listener listener : listeners) Common.same(Common.numbers(MESSAGES), listener.heard, "messages");
        Common.same(0L, redis.publish("news", "last"), "receivers at the end");
    }
}
