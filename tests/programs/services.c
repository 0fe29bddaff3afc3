/* A queue whose consumers are killed and return, a leaderboard, sessions, and messages to many
   subscribers. */

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CONSUMERS = 4,
    KILLS = 10,
    BATCH = 100,
    PLAYERS = 1000,
    ROUNDS = 10,
    SESSIONS = 50,
    VISITORS = 4,
    VISITS = 5,
    MESSAGES = 200,
    PATIENCE_MS = 120000,
};

static int port, jobs, subscribers;

#define CHECK(condition, ...)                         \
    do {                                              \
        if (!(condition)) {                           \
            fprintf(stderr, "line %d: ", __LINE__);   \
            fprintf(stderr, __VA_ARGS__);             \
            fputc('\n', stderr);                      \
            exit(1);                                  \
        }                                             \
    } while (0)

static int size(const char *name, int usual)
{
    const char *text = getenv(name);
    return text ? atoi(text) : usual;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static redisContext *connect_to_server(void)
{
    redisContext *context = redisConnect("127.0.0.1", port);
    CHECK(context && !context->err, "cannot connect: %s", context ? context->errstr : "no memory");
    return context;
}

static redisReply *next_reply(redisContext *context)
{
    void *reply = NULL;
    CHECK(redisGetReply(context, &reply) == REDIS_OK, "no reply: %s", context->errstr);
    CHECK(((redisReply *)reply)->type != REDIS_REPLY_ERROR, "%s", ((redisReply *)reply)->str);
    return reply;
}

static redisReply *request(redisContext *context, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    CHECK(redisvAppendCommand(context, format, arguments) == REDIS_OK, "%s", format);
    va_end(arguments);
    return next_reply(context);
}

/* The integer that a reply is, or the number that its text is. */
static long long number_in(redisReply *reply)
{
    int is_text = reply->type == REDIS_REPLY_STRING;
    CHECK(is_text || reply->type == REDIS_REPLY_INTEGER, "a reply of type %d", reply->type);
    long long number = is_text ? atoll(reply->str) : reply->integer;
    freeReplyObject(reply);
    return number;
}

static void expect(redisReply *reply, long long wanted)
{
    long long found = number_in(reply);
    CHECK(found == wanted, "%lld, not %lld", found, wanted);
}

/* Repeats a request until its reply is at least, or exactly, this number. */
static void wait_for(redisContext *context, const char *line, long long wanted, int is_exact)
{
    double end = now() + PATIENCE_MS / 1e3;
    for (;;) {
        long long found = number_in(request(context, line));
        if (found == wanted || (!is_exact && found > wanted))
            return;
        CHECK(now() < end, "%s stays %lld, not %lld", line, found, wanted);
        usleep(5000);
    }
}

static void finish(redisContext *context, int name, const char *job)
{
    redisAppendCommand(context, "MULTI");
    redisAppendCommand(context, "LREM work:%d 1 %s", name, job);
    if (strcmp(job, "end"))
        redisAppendCommand(context, "RPUSH done %s", job);
    redisAppendCommand(context, "EXEC");
    for (int i = strcmp(job, "end") ? 3 : 2; i > 0; i--)
        freeReplyObject(next_reply(context));
    redisReply *replies = next_reply(context);
    CHECK(replies->type == REDIS_REPLY_ARRAY, "a reply of type %d", replies->type);
    CHECK(replies->element[0]->integer == 1, "job %s was not in the list", job);
    freeReplyObject(replies);
}

/* Jobs stay in the consumer's list until they are done: its successor finds them there. */
static void consume(int name)
{
    redisContext *context = connect_to_server();
    freeReplyObject(request(context, "CLIENT SETNAME consumer-%d", name));
    for (;;) {
        redisReply *begun = request(context, "LRANGE work:%d 0 -1", name);
        for (size_t i = 0; i < begun->elements; i++)
            finish(context, name, begun->element[i]->str);
        freeReplyObject(begun);
        for (;;) {
            redisReply *job = request(context, "BLMOVE jobs work:%d LEFT RIGHT 0.5", name);
            if (job->type == REDIS_REPLY_NIL) {
                freeReplyObject(job);
                break;
            }
            finish(context, name, job->str);
            int is_end = !strcmp(job->str, "end");
            freeReplyObject(job);
            if (is_end)
                exit(0);
        }
    }
}

/* A child that ends with its parent, so that a failed check leaves no process behind. */
static pid_t fork_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static pid_t start(int name)
{
    pid_t child = fork_child();
    if (child == 0)
        consume(name);
    return child;
}

static int end_of(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child, "no such process");
    return status;
}

/* A server with threads may execute the last requests of a killed consumer after the first of its
   successor, which must therefore not start before the server has closed that connection. */
static void wait_until_closed(redisContext *context, int name)
{
    char field[32];
    int is_open = 1;
    snprintf(field, sizeof field, " name=consumer-%d ", name);
    for (double end = now() + PATIENCE_MS / 1e3; is_open; usleep(1000)) {
        redisReply *clients = request(context, "CLIENT LIST");
        is_open = strstr(clients->str, field) != NULL;
        freeReplyObject(clients);
        CHECK(now() < end, "the connection of consumer %d stays open", name);
    }
}

static void check_done(redisContext *context)
{
    char *seen = calloc(jobs, 1);
    redisReply *done = request(context, "LRANGE done 0 -1");
    CHECK((int)done->elements == jobs, "%zu jobs are done", done->elements);
    for (size_t i = 0; i < done->elements; i++) {
        int job = atoi(done->element[i]->str);
        CHECK(job >= 0 && job < jobs && !seen[job], "job %d came twice", job);
        seen[job] = 1;
    }
    freeReplyObject(done);
    free(seen);
}

static void queue(redisContext *context)
{
    pid_t consumers[CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++)
        consumers[i] = start(i);
    int part = jobs / KILLS;
    for (int kills = 0; kills < KILLS; kills++) {
        int first = kills * part;
        for (int job = first; job < first + part; job++) {
            redisAppendCommand(context, "RPUSH jobs %d", job);
            if (job % BATCH == BATCH - 1)
                for (int i = 0; i < BATCH; i++)
                    freeReplyObject(next_reply(context));
        }
        /* Consumers are killed in turn at work and in BLMOVE. */
        wait_for(context, "LLEN done", first + (kills % 2 ? part : part / 2), 0);
        int name = kills % CONSUMERS;
        kill(consumers[name], SIGKILL);
        CHECK(WIFSIGNALED(end_of(consumers[name])), "it ended by itself");
        wait_until_closed(context, name);
        consumers[name] = start(name);
    }
    wait_for(context, "LLEN done", jobs, 0);
    for (int i = 0; i < CONSUMERS; i++)
        freeReplyObject(request(context, "RPUSH jobs end"));
    for (int i = 0; i < CONSUMERS; i++)
        CHECK(end_of(consumers[i]) == 0, "consumer %d failed", i);
    check_done(context);
    /* Neither a job waits nor does a consumer have one. */
    expect(request(context, "DEL done"), 1);
    expect(request(context, "DBSIZE"), 0);
}

/* A number that looks random and is the same in each run. */
static int chance(int below)
{
    static unsigned long long state = 17;
    state = state * 48271 % 2147483647;
    return state % below;
}

struct player {
    int number, score, is_known;
};

/* The best first; among equals, the last name. */
static int compare_players(const void *one, const void *other)
{
    const struct player *a = one, *b = other;
    if (a->is_known != b->is_known)
        return b->is_known - a->is_known;
    return a->score != b->score ? b->score - a->score : b->number - a->number;
}

static void compare_board(redisContext *context, const struct player *best, int count)
{
    int good = 0;
    redisReply *shown = request(context, "ZREVRANGE board 0 -1 WITHSCORES");
    CHECK((int)shown->elements == 2 * count, "%zu replies for %d players", shown->elements, count);
    for (int rank = 0; rank < count; rank++) {
        int number = atoi(shown->element[2 * rank]->str + 1);
        int score = atoi(shown->element[2 * rank + 1]->str);
        CHECK(number == best[rank].number && score == best[rank].score, "rank %d is wrong", rank);
        good += score >= 500;
    }
    freeReplyObject(shown);
    for (int rank = 0; rank < count; rank += 50) {
        expect(request(context, "ZREVRANK board p%04d", best[rank].number), rank);
        expect(request(context, "ZRANK board p%04d", best[rank].number), count - 1 - rank);
    }
    expect(request(context, "ZCOUNT board 500 +inf"), good);
}

static void leaderboard(redisContext *context)
{
    struct player model[PLAYERS], best[PLAYERS];
    int expected[PLAYERS], count = 0;
    for (int i = 0; i < PLAYERS; i++)
        model[i] = (struct player){.number = i};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PLAYERS; i++) {
            struct player *player = &model[chance(PLAYERS)];
            int points = chance(1200) - 200;
            if (chance(10)) {
                redisAppendCommand(context, "ZINCRBY board %d p%04d", points, player->number);
                expected[i] = player->score += points;
            } else {
                redisAppendCommand(context, "ZADD board %d p%04d", points, player->number);
                expected[i] = !player->is_known;
                player->score = points;
            }
            count += !player->is_known;
            player->is_known = 1;
        }
        for (int i = 0; i < PLAYERS; i++)
            expect(next_reply(context), expected[i]);
        memcpy(best, model, sizeof model);
        qsort(best, PLAYERS, sizeof *best, compare_players);
        compare_board(context, best, count);
    }
    expect(request(context, "ZREMRANGEBYRANK board 0 -101"), count - 100);
    compare_board(context, best, 100);
    expect(request(context, "DEL board"), 1);
}

/* A process that raises the visits of each session under WATCH. */
static void visit(void)
{
    redisContext *context = connect_to_server();
    for (int i = 0; i < VISITS * SESSIONS; i++) {
        int key = i % SESSIONS, is_done = 0;
        while (!is_done) {
            freeReplyObject(request(context, "WATCH session:%d", key));
            long long visits = number_in(request(context, "HGET session:%d visits", key));
            redisAppendCommand(context, "MULTI");
            redisAppendCommand(context, "HSET session:%d visits %lld", key, visits + 1);
            redisAppendCommand(context, "EXPIRE session:%d 1800", key);
            redisAppendCommand(context, "EXEC");
            for (int reply = 0; reply < 3; reply++)
                freeReplyObject(next_reply(context));
            redisReply *replies = next_reply(context);
            is_done = replies->type == REDIS_REPLY_ARRAY;
            CHECK(is_done || replies->type == REDIS_REPLY_NIL, "a reply of type %d", replies->type);
            freeReplyObject(replies);
        }
    }
    exit(0);
}

static void check_session(redisContext *context, int key)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "user-%d", key);
    redisReply *user = request(context, "HGET session:%d user", key);
    CHECK(user->str && !strcmp(user->str, wanted), "session %d has lost its user", key);
    freeReplyObject(user);
    expect(request(context, "HGET session:%d visits", key), VISITORS * VISITS);
    expect(request(context, "HLEN session:%d", key), 2);
    long long seconds = number_in(request(context, "TTL session:%d", key));
    CHECK(seconds > 1700 && seconds <= 1800, "session %d lives for %lld s", key, seconds);
}

/* The number of sessions that have not expired. */
static int count_sessions(redisContext *context)
{
    int count = 0;
    for (int key = 0; key < SESSIONS; key++)
        redisAppendCommand(context, "EXISTS session:%d", key);
    for (int key = 0; key < SESSIONS; key++)
        count += number_in(next_reply(context));
    return count;
}

static void sessions(redisContext *context)
{
    pid_t visitors[VISITORS];
    for (int key = 0; key < SESSIONS; key++) {
        redisAppendCommand(context, "HSET session:%d user user-%d visits 0", key, key);
        redisAppendCommand(context, "EXPIRE session:%d 3600", key);
    }
    for (int i = 0; i < 2 * SESSIONS; i++)
        expect(next_reply(context), i % 2 ? 1 : 2);
    for (int i = 0; i < VISITORS; i++)
        if ((visitors[i] = fork_child()) == 0)
            visit();
    for (int i = 0; i < VISITORS; i++)
        CHECK(end_of(visitors[i]) == 0, "visitor %d failed", i);
    for (int key = 0; key < SESSIONS; key++)
        check_session(context, key);
    for (int key = 0; key < SESSIONS; key += 2)
        expect(request(context, "PEXPIRE session:%d 1000", key), 1);
    redisContext *late = connect_to_server();
    freeReplyObject(request(late, "WATCH session:0"));
    double end = now() + PATIENCE_MS / 1e3;
    while (count_sessions(context) != SESSIONS / 2) {
        CHECK(now() < end, "the sessions do not expire");
        usleep(5000);
    }
    freeReplyObject(request(late, "MULTI"));
    freeReplyObject(request(late, "HSET session:0 visits 1"));
    redisReply *refused = request(late, "EXEC");
    /* The session has expired, so it must not come back without its user. */
    CHECK(refused->type == REDIS_REPLY_NIL, "a reply of type %d", refused->type);
    freeReplyObject(refused);
    redisFree(late);
    expect(request(context, "TTL session:0"), -2);
    for (int key = 1; key < SESSIONS; key += 2)
        expect(request(context, "DEL session:%d", key), 1);
}

static void fan_out(redisContext *context)
{
    redisContext **listeners = calloc(subscribers, sizeof *listeners);
    for (int i = 0; i < subscribers; i++) {
        listeners[i] = connect_to_server();
        freeReplyObject(request(listeners[i], "SUBSCRIBE news"));
    }
    for (int i = 0; i < MESSAGES; i++)
        expect(request(context, "PUBLISH news %d", i), subscribers);
    for (int i = 0; i < subscribers; i++) {
        for (int message = 0; message < MESSAGES; message++) {
            redisReply *heard = next_reply(listeners[i]);
            CHECK(heard->elements == 3 && atoi(heard->element[2]->str) == message,
                  "subscriber %d did not hear message %d", i, message);
            freeReplyObject(heard);
        }
        redisFree(listeners[i]);
    }
    free(listeners);
    wait_for(context, "PUBLISH news last", 0, 1);
}

int main(int count, char **arguments)
{
    CHECK(count == 2, "usage: %s PORT", arguments[0]);
    port = atoi(arguments[1]);
    jobs = size("NAGI_JOBS", 5000);
    subscribers = size("NAGI_SUBSCRIBERS", 100);
    redisContext *context = connect_to_server();
    struct {
        const char *name;
        void (*run)(redisContext *);
    } parts[] = {
        {"queue", queue},
        {"leaderboard", leaderboard},
        {"sessions", sessions},
        {"fan-out", fan_out},
    };
    for (int i = 0; i < 4; i++) {
        double begun = now();
        parts[i].run(context);
        fprintf(stderr, "%s %.1f s\n", parts[i].name, now() - begun);
    }
    expect(request(context, "DBSIZE"), 0);
    redisFree(context);
    printf("%d jobs by %d consumers of which %d were killed, a leaderboard of %d, %d sessions, "
           "%d messages to %d subscribers\n",
           jobs, CONSUMERS, KILLS, PLAYERS, SESSIONS, MESSAGES, subscribers);
    return 0;
}
