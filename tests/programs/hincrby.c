/* Adds one to a field ten thousand times and prints the result. */

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s PORT\n", arguments[0]);
        return 2;
    }
    redisContext *context = redisConnect("127.0.0.1", atoi(arguments[1]));
    if (context == NULL || context->err != 0) {
        fprintf(stderr, "cannot connect: %s\n", context ? context->errstr : "no memory");
        return 1;
    }
    for (int turn = 0; turn < 10000; turn++) {
        redisReply *reply = redisCommand(context, "HINCRBY foo bar 1");
        if (reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer != turn + 1) {
            fprintf(stderr, "turn %d: an unexpected reply\n", turn);
            return 1;
        }
        freeReplyObject(reply);
    }
    redisReply *reply = redisCommand(context, "HGET foo bar");
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        fprintf(stderr, "HGET: an unexpected reply\n");
        return 1;
    }
    printf("%s\n", reply->str);
    freeReplyObject(reply);
    redisFree(context);
    return 0;
}
