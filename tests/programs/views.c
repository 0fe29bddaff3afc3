/* Counts a view of a page: a CGI program, which opens a connection for each request. */

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const char *host = getenv("CACHE_HOST"), *port = getenv("CACHE_PORT");
    if (host == NULL || port == NULL) {
        fputs("CACHE_HOST and CACHE_PORT say where the cache is\n", stderr);
        return 2;
    }
    printf("Content-Type: text/plain\r\n");
    redisContext *context = redisConnect(host, atoi(port));
    if (context == NULL || context->err != 0) {
        printf("Status: 503\r\n\r\n%s\n", context ? context->errstr : "no memory");
        return 0;
    }
    redisReply *reply = redisCommand(context, "INCR views");
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) {
        printf("Status: 502\r\n\r\nan unexpected reply\n");
        return 0;
    }
    printf("\r\n%lld views\n", reply->integer);
    freeReplyObject(reply);
    redisFree(context);
    return 0;
}
