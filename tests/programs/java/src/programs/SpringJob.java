package programs;

import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.context.ApplicationListener;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.core.task.SyncTaskExecutor;
import org.springframework.dao.DataAccessException;
import org.springframework.data.annotation.Id;
import org.springframework.data.geo.Distance;
import org.springframework.data.geo.Metrics;
import org.springframework.data.geo.Point;
import org.springframework.data.redis.cache.BatchStrategies;
import org.springframework.data.redis.cache.RedisCacheConfiguration;
import org.springframework.data.redis.cache.RedisCacheManager;
import org.springframework.data.redis.cache.RedisCacheWriter;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.connection.stream.StreamRecords;
import org.springframework.data.redis.core.Cursor;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.RedisHash;
import org.springframework.data.redis.core.RedisKeyExpiredEvent;
import org.springframework.data.redis.core.RedisKeyValueAdapter.EnableKeyspaceEvents;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.core.ScanOptions;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.TimeToLive;
import org.springframework.data.redis.core.index.GeoIndexed;
import org.springframework.data.redis.core.index.Indexed;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.repository.configuration.EnableRedisRepositories;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamMessageListenerContainerOptions;
import org.springframework.data.repository.CrudRepository;

/** Spring Data Redis, as an application's context configures it, over Lettuce. */
public class SpringJob {
    private static final int MESSAGES = 1_000;
    private static final int EVENTS = 600;

    private final AnnotationConfigApplicationContext context =
            new AnnotationConfigApplicationContext(Application.class);
    private final StringRedisTemplate redis = context.getBean(StringRedisTemplate.class);

    public static void main(String[] arguments) {
        Common.run(() -> {
            SpringJob job = new SpringJob();
            job.templates();
            job.pipelines();
            job.transactions();
            job.scripts();
            job.messages();
            job.streams();
            job.caches();
            job.repositories();
            job.expiry();
            Common.same(0L, job.redis.execute((RedisCallback<Long>) c -> c.serverCommands().dbSize()),
                    "keys that are left");
            job.context.close();
            return MESSAGES + " messages, " + EVENTS + " events of a stream, cached methods, a repository "
                    + "with indexes and the expiry of what it holds";
        });
    }

    @Configuration
    @EnableCaching
    @EnableRedisRepositories(considerNestedRepositories = true, enableKeyspaceEvents = EnableKeyspaceEvents.ON_STARTUP)
    public static class Application {
        @Bean
        public LettuceConnectionFactory connections() {
            return new LettuceConnectionFactory(new RedisStandaloneConfiguration(Common.HOST, Common.PORT));
        }

        @Bean
        public RedisTemplate<Object, Object> redisTemplate(RedisConnectionFactory connections) {
            RedisTemplate<Object, Object> template = new RedisTemplate<>();
            template.setConnectionFactory(connections);
            return template;
        }

        @Bean
        public StringRedisTemplate strings(RedisConnectionFactory connections) {
            return new StringRedisTemplate(connections);
        }

        @Bean
        public RedisCacheManager caches(RedisConnectionFactory connections) {
            RedisCacheConfiguration base = RedisCacheConfiguration.defaultCacheConfig().prefixCacheNameWith("cache:");
            return RedisCacheManager
                    .builder(RedisCacheWriter.lockingRedisCacheWriter(connections, Duration.ofMillis(5),
                            RedisCacheWriter.TtlFunction.persistent(), BatchStrategies.scan(100)))
                    .cacheDefaults(base.entryTtl(Duration.ofMinutes(10)))
                    .withCacheConfiguration("short", base.entryTtl(Duration.ofMillis(300)))
                    .enableStatistics().build();
        }

        @Bean
        public Prices prices() {
            return new SlowPrices();
        }

        @Bean
        public Expired expired() {
            return new Expired();
        }
    }

    /** Something worth caching. */
    public record Price(String article, int cents) implements Serializable {}

    /** What is asked for prices; its calls are counted. */
    public interface Prices {
        @Cacheable("prices")
        Price of(String article);

        @Cacheable(cacheNames = "together", sync = true)
        Price together(String article);

        @Cacheable("short")
        Price soonOld(String article);

        @CacheEvict("prices")
        void change(String article);

        @CacheEvict(cacheNames = {"prices", "together"}, allEntries = true)
        void changeAll();

        int calls();
    }

    /** Prices that are not cached. */
    public static class SlowPrices implements Prices {
        private final AtomicInteger calls = new AtomicInteger();

        @Override
        public Price of(String article) {
            return new Price(article, calls.incrementAndGet());
        }

        @Override
        public Price together(String article) {
            return of(article);
        }

        @Override
        public Price soonOld(String article) {
            return of(article);
        }

        @Override
        public void change(String article) {}

        @Override
        public void changeAll() {}

        @Override
        public int calls() {
            return calls.get();
        }
    }

    /** What is kept in a hash, found by its indexes, and may expire. */
    @RedisHash("people")
    public static class Person {
        @Id
        public String id;
        @Indexed
        public String town;
        @Indexed
        public String name;
        @GeoIndexed
        public Point home;
        @TimeToLive
        public Long secondsToLive;

        static Person of(String id, String name, String town, Point home, Long secondsToLive) {
            Person person = new Person();
            person.id = id;
            person.name = name;
            person.town = town;
            person.home = home;
            person.secondsToLive = secondsToLive;
            return person;
        }
    }

    /** Queries that are answered by indexes. */
    public interface People extends CrudRepository<Person, String> {
        List<Person> findByTown(String town);

        List<Person> findByTownAndName(String town, String name);

        List<Person> findByTownOrName(String town, String name);

        List<Person> findByHomeNear(Point point, Distance distance);
    }

    /** Keeps the people of whom an event said that they have expired. */
    public static class Expired implements ApplicationListener<RedisKeyExpiredEvent<?>> {
        final Set<String> names = ConcurrentHashMap.newKeySet();

        @Override
        public void onApplicationEvent(RedisKeyExpiredEvent<?> event) {
            if (event.getValue() instanceof Person person) names.add(person.name);
        }
    }

    private void templates() {
        Common.same(true, redis.opsForValue().setIfAbsent("lock", "mine", Duration.ofSeconds(60)), "a lock");
        Common.same(false, redis.opsForValue().setIfAbsent("lock", "other", Duration.ofSeconds(60)), "a taken lock");
        Common.check(redis.getExpire("lock") > 1, "the lock's time to live");
        Common.same("mine", redis.opsForValue().getAndDelete("lock"), "GETDEL");
        Common.same(5L, redis.opsForValue().increment("count", 5), "INCRBY");
        Common.same(5.5, redis.opsForValue().increment("count", 0.5), "INCRBYFLOAT");
        redis.opsForHash().putAll("hash", Map.of("a", "1", "b", "2"));
        Common.same(3L, redis.opsForHash().increment("hash", "b", 1), "HINCRBY");
        Common.same(Map.of("a", "1", "b", "3"), redis.opsForHash().entries("hash"), "HGETALL");
        for (int i = 0; i < 10; i++) redis.opsForZSet().add("board", "player" + i, i * 1.5);
        Common.same(List.of("player9", "player8"),
                List.copyOf(redis.opsForZSet().reverseRange("board", 0, 1)), "the best two");
        Common.same(13.5, redis.opsForZSet().score("board", "player9"), "a score");
        redis.opsForList().rightPushAll("list", Common.numbers(5));
        Common.same("0", redis.opsForList().leftPop("list", Duration.ofSeconds(5)), "BLPOP");
        Common.same(null, redis.opsForList().leftPop("none", Duration.ofMillis(1_000)), "BLPOP of nothing");
        redis.opsForSet().add("set", "a", "b");
        Common.same(Map.<Object, Boolean>of("a", true, "z", false), redis.opsForSet().isMember("set", "a", "z"),
                "SMISMEMBER");
        redis.opsForGeo().add("towns", new Point(3.72, 51.05), "Ghent");
        redis.opsForGeo().add("towns", new Point(4.40, 51.22), "Antwerp");
        Common.check(Math.abs(redis.opsForGeo().distance("towns", "Ghent", "Antwerp", Metrics.KILOMETERS)
                .getValue() - 51) < 3, "the distance of two towns");
        try {
            redis.opsForValue().increment("hash");
            throw new AssertionError("INCR of a hash did not fail");
        } catch (DataAccessException error) {
            Common.check(error.getCause().getMessage().startsWith("WRONGTYPE"), "the error of INCR of a hash");
        }
        Common.same(6L, redis.unlink(List.of("count", "hash", "board", "list", "set", "towns")), "UNLINK");

        RedisTemplate<Object, Object> objects = context.getBean("redisTemplate", RedisTemplate.class);
        objects.opsForValue().set(new Price("key", 1), new Price("value", 2));
        Common.same(new Price("value", 2), objects.opsForValue().get(new Price("key", 1)), "a Java object");
        objects.delete(new Price("key", 1));
    }

    private void pipelines() {
        List<Object> replies = redis.executePipelined((RedisCallback<Object>) connection -> {
            for (int i = 0; i < 1_000; i++) {
                connection.stringCommands().set(("p:" + i).getBytes(), Integer.toString(i).getBytes());
                connection.stringCommands().incr(("p:" + i).getBytes());
            }
            return null;
        });
        for (int i = 0; i < 1_000; i++) Common.same(i + 1L, replies.get(2 * i + 1), "a counter in a pipeline");
        Set<String> found = new HashSet<>();
        try (Cursor<String> cursor = redis.scan(ScanOptions.scanOptions().match("p:*").count(50).build())) {
            cursor.forEachRemaining(found::add);
        }
        Common.same(1_000, found.size(), "SCAN");
        redis.delete(found);
    }

    /** Eight threads, each with its own session of WATCH, MULTI and EXEC. */
    private void transactions() throws Exception {
        redis.opsForValue().set("t", "0");
        Common.Worker.joinAll(IntStream.range(0, 8).mapToObj(i -> new Common.Worker(() -> {
            for (int done = 0; done < 20;) {
                List<Object> replies = redis.execute(new SessionCallback<List<Object>>() {
                    @Override
                    @SuppressWarnings({"unchecked", "rawtypes"})
                    public List<Object> execute(RedisOperations operations) {
                        operations.watch("t");
                        long next = Long.parseLong((String) operations.opsForValue().get("t")) + 1;
                        operations.multi();
                        operations.opsForValue().set("t", Long.toString(next));
                        operations.opsForValue().get("t");
                        return operations.exec();
                    }
                });
                if (!replies.isEmpty()) done++;
            }
        })).toList());
        Common.same("160", redis.opsForValue().getAndDelete("t"), "a counter of eight threads with WATCH");
    }

    /** A limit on requests, counted by a script that many threads call. */
    private void scripts() throws Exception {
        RedisScript<Boolean> limit = RedisScript.of("local count = redis.call('INCR', KEYS[1]) "
                + "if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
                + "return count <= tonumber(ARGV[1])", Boolean.class);
        AtomicInteger allowed = new AtomicInteger();
        Common.Worker.joinAll(IntStream.range(0, 6).mapToObj(i -> new Common.Worker(() -> {
            for (int n = 0; n < 50; n++) {
                if (n == 25) redis.execute((RedisCallback<Object>) c -> {
                    c.scriptingCommands().scriptFlush();
                    return null;
                });
                if (redis.execute(limit, List.of("limit"), "100", "60000")) allowed.incrementAndGet();
            }
        })).toList());
        Common.same(100, allowed.get(), "requests that a script allowed");
        Common.check(redis.getExpire("limit") > 1, "the time to live that the script gave");
        RedisScript<List> list = RedisScript.of("return {KEYS[1], ARGV[1], redis.call('TTL', 'none')}", List.class);
        Common.same(3, redis.execute(list, List.of("a"), "b").size(), "a script's list");
        redis.delete("limit");
    }

    private void messages() throws Exception {
        List<String> exact = Collections.synchronizedList(new ArrayList<>());
        List<String> pattern = Collections.synchronizedList(new ArrayList<>());
        RedisMessageListenerContainer container = new RedisMessageListenerContainer();
        container.setConnectionFactory(context.getBean(LettuceConnectionFactory.class));
        container.setTaskExecutor(new SyncTaskExecutor());
        container.setSubscriptionExecutor(new SimpleAsyncTaskExecutor());
        container.addMessageListener((message, by) -> exact.add(new String(message.getBody())), new ChannelTopic("news"));
        container.addMessageListener((message, by) -> pattern.add(new String(message.getBody())), new PatternTopic("n*s"));
        container.afterPropertiesSet();
        container.start();
        Common.until("the subscriptions", () -> redis.convertAndSend("news", "first") == 2);
        Common.until("the first message", () -> exact.contains("first") && pattern.contains("first"));
        exact.clear();
        pattern.clear();
        for (int i = 0; i < MESSAGES; i++) {
            Common.same(2L, redis.convertAndSend("news", Integer.toString(i)), "receivers");
        }
        Common.until("all messages", () -> exact.size() == MESSAGES && pattern.size() == MESSAGES);
        Common.same(Common.numbers(MESSAGES), exact, "messages of a channel");
        Common.same(Common.numbers(MESSAGES), pattern, "messages of a pattern");
        container.destroy();
    }

    /** Two members of a group, as containers poll for them. */
    private void streams() throws Exception {
        redis.opsForStream().createGroup("events", ReadOffset.from("0"), "readers");
        Set<String> handled = ConcurrentHashMap.newKeySet();
        AtomicInteger doubled = new AtomicInteger();
        var options = StreamMessageListenerContainerOptions.builder()
                .batchSize(20).pollTimeout(Duration.ofMillis(100)).build();
        StreamMessageListenerContainer<String, MapRecord<String, String, String>> container =
                StreamMessageListenerContainer.create(context.getBean(RedisConnectionFactory.class), options);
        for (String name : List.of("one", "two")) {
            container.receive(Consumer.from("readers", name), StreamOffset.create("events", ReadOffset.lastConsumed()),
                    message -> {
                        if (!handled.add(message.getValue().get("number"))) doubled.incrementAndGet();
                        redis.opsForStream().acknowledge("readers", message);
                    });
        }
        container.start();
        for (int i = 0; i < EVENTS; i++) {
            redis.opsForStream().add(StreamRecords.string(Map.of("number", Integer.toString(i))).withStreamKey("events"));
        }
        Common.until("all events", () -> handled.size() == EVENTS);
        Common.until("all acknowledgements",
                () -> redis.opsForStream().pending("events", "readers").getTotalPendingMessages() == 0);
        Common.same(0, doubled.get(), "events that came twice");
        Common.same(2L, (long) redis.opsForStream().consumers("events", "readers").size(), "XINFO CONSUMERS");
        container.stop();
        Common.until("the end of the container", () -> !container.isRunning());
        redis.delete("events");
    }

    private void caches() throws Exception {
        Prices prices = context.getBean(Prices.class);
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 300; i++) Common.same("a" + i, prices.of("a" + i).article(), "a cached price");
        }
        Common.same(300, prices.calls(), "calls of a method that is cached");
        Common.check(redis.getExpire("cache:prices::a7") > 60, "the time to live of what is cached");
        prices.change("a7");
        // The eviction from the cache is asynchronous.
        Common.until("the price after its change", () -> prices.of("a7").cents() == 301);

        // Many threads request a missing value at once: with the cache's lock only one computes it.
        int before = prices.calls();
        Common.Worker.joinAll(IntStream.range(0, 10).mapToObj(i -> new Common.Worker(() -> {
            for (int n = 0; n < 20; n++) Common.same("b" + n, prices.together("b" + n).article(), "a price");
        })).toList());
        Common.same(20, prices.calls() - before, "prices that were computed once each");

        int first = prices.soonOld("c").cents();
        Common.until("the cached price to get old", () -> prices.soonOld("c").cents() > first);
        prices.changeAll();
        Common.until("the short cache to be empty", () -> redis.keys("cache:*").isEmpty());
        var statistics = ((org.springframework.data.redis.cache.RedisCache)
                context.getBean(RedisCacheManager.class).getCache("prices")).getStatistics();
        Common.check(statistics.getHits() >= 1_200, "hits that the cache counted: " + statistics.getHits());
    }

    private void repositories() {
        People people = context.getBean(People.class);
        List<Person> all = IntStream.range(0, 60).mapToObj(i -> Person.of("id" + i, "name" + i % 6,
                "town" + i % 5, new Point(3 + i * 0.01, 51), null)).toList();
        people.saveAll(all);
        Common.same(60L, people.count(), "people");
        Common.same(12, people.findByTown("town3").size(), "people of a town");
        Common.same(Set.of("id3", "id33"), ids(people.findByTownAndName("town3", "name3")), "a town and a name");
        Common.same(20, people.findByTownOrName("town3", "name3").size(), "a town or a name");
        Common.same(Set.of("id0", "id1", "id2"),
                ids(people.findByHomeNear(new Point(3, 51), new Distance(1.5, Metrics.KILOMETERS))), "people near");
        Person moved = people.findById("id3").orElseThrow();
        moved.town = "elsewhere";
        people.save(moved);
        Common.same(Set.of("id33"), ids(people.findByTownAndName("town3", "name3")), "an index after a change");
        Common.same(Set.of("id3"), ids(people.findByTown("elsewhere")), "the index of the new value");
        people.deleteById("id3");
        Common.same(0, people.findByTown("elsewhere").size(), "an index after a removal");
        Common.check(!people.existsById("id3"), "one that was removed");
        people.deleteAll(people.findByTown("town0"));
        Common.same(47L, people.count(), "people that are left");
        people.deleteAll(people.findAll());
    }

    private static Set<String> ids(List<Person> people) {
        return people.stream().map(person -> person.id).collect(Collectors.toSet());
    }

    /** The server's events of expired keys bring what was there, and clean its indexes. */
    private void expiry() throws Exception {
        People people = context.getBean(People.class);
        Expired expired = context.getBean(Expired.class);
        for (int i = 0; i < 20; i++) people.save(Person.of("e" + i, "mortal" + i, "here", new Point(1, 1), 1L));
        people.save(Person.of("stays", "immortal", "here", new Point(1, 1), null));
        Common.until("the events of expiry", () -> expired.names.size() == 20);
        Common.same(Set.of("stays"), ids(people.findByTown("here")), "an index after expiry");
        Common.until("the indexes' cleaning", () -> redis.opsForSet().size("people:town:here") == 1);
        people.deleteById("stays");
        Common.until("no keys", () -> redis.keys("*").isEmpty());
    }
}
