/* Where libmemcached puts keys. Argument: a file with one key a line. Input: calls, one a line:
 *   set BEHAVIOR VALUE | prefix TEXT | add HOST PORT WEIGHT | stage HOST PORT WEIGHT | push |
 *   eject PLACE | replicate COUNT | ask
 * `replicate` stores each key as its own value, with so many copies.
 * `eject` has a server fail on which nothing listens, until it is out of the ring.
 * `ask` prints the servers in their order as one line and then one byte per key, the server's
 * place, and starts afresh. */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **keys;
static size_t *lengths;
static size_t count;

static void read_keys(const char *path) {
    FILE *file = fopen(path, "r");
    char line[1024];
    size_t room = 0;
    if (file == NULL) exit(2);
    while (fgets(line, sizeof line, file) != NULL) {
        if (count == room) {
            room = room == 0 ? 1024 : room * 2;
            keys = realloc(keys, room * sizeof *keys);
            lengths = realloc(lengths, room * sizeof *lengths);
        }
        lengths[count] = strcspn(line, "\n");
        keys[count] = strndup(line, lengths[count]);
        count++;
    }
    fclose(file);
}

static void ask(memcached_st *memc) {
    for (uint32_t at = 0; at < memcached_server_count(memc); at++) {
        const memcached_instance_st *server = memcached_server_instance_by_position(memc, at);
        printf("%s:%u ", memcached_server_name(server), memcached_server_port(server));
    }
    putchar('\n');
    for (size_t at = 0; at < count; at++) {
        putchar((int)memcached_generate_hash(memc, keys[at], lengths[at]));
    }
}

static void eject(memcached_st *memc, uint32_t place) {
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_AUTO_EJECT_HOSTS, 1);
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_SERVER_FAILURE_LIMIT, 1);
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 3600);
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_DEAD_TIMEOUT, 3600);
    for (size_t at = 0; at < count; at++) {
        for (int tries = 0; memcached_generate_hash(memc, keys[at], lengths[at]) == place; tries++) {
            memcached_return_t result;
            size_t length;
            uint32_t flags;
            if (tries == 10) exit(5);
            free(memcached_get(memc, keys[at], lengths[at], &length, &flags, &result));
        }
    }
}

static memcached_return_t replicate(memcached_st *memc, uint32_t copies) {
    memcached_return_t result = MEMCACHED_SUCCESS;
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1);
    memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_NUMBER_OF_REPLICAS, copies);
    for (size_t at = 0; at < count && result == MEMCACHED_SUCCESS; at++) {
        result = memcached_set(memc, keys[at], lengths[at], keys[at], lengths[at], 0, 0);
    }
    /* Copies are sent without waiting for answers, and perhaps not at once. */
    memcached_quit(memc);
    return result;
}

int main(int argc, char **argv) {
    memcached_st *memc = memcached_create(NULL);
    memcached_server_list_st staged = NULL;
    memcached_return_t result = MEMCACHED_SUCCESS;
    char line[1024], text[512];
    unsigned first, second;

    if (argc != 2) return 2;
    read_keys(argv[1]);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "set %u %u", &first, &second) == 2) {
            result = memcached_behavior_set(memc, (memcached_behavior_t)first, second);
        } else if (sscanf(line, "prefix %500s", text) == 1) {
            result = memcached_callback_set(memc, MEMCACHED_CALLBACK_PREFIX_KEY, text);
        } else if (sscanf(line, "add %500s %u %u", text, &first, &second) == 3) {
            result = memcached_server_add_with_weight(memc, text, (in_port_t)first, second);
        } else if (sscanf(line, "stage %500s %u %u", text, &first, &second) == 3) {
            staged = memcached_server_list_append_with_weight(
                staged, text, (in_port_t)first, second, &result);
        } else if (strcmp(line, "push\n") == 0) {
            result = memcached_server_push(memc, staged);
            memcached_server_list_free(staged);
            staged = NULL;
        } else if (sscanf(line, "replicate %u", &first) == 1) {
            result = replicate(memc, first);
        } else if (sscanf(line, "eject %u", &first) == 1) {
            eject(memc, first);
        } else if (strcmp(line, "ask\n") == 0) {
            ask(memc);
            memcached_free(memc);
            memc = memcached_create(NULL);
        } else {
            return 3;
        }
        if (memcached_failed(result)) {
            fprintf(stderr, "%s: %s", memcached_strerror(memc, result), line);
            return 4;
        }
    }
    return 0;
}
