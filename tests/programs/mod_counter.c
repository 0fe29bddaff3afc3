/* A module for Apache that counts its requests in a cache: it opens a connection for each. */

#include <hiredis/hiredis.h>
#include <httpd.h>
#include <http_config.h>
#include <http_log.h>
#include <http_protocol.h>
#include <stdlib.h>

/* Over the socket at a path, or else over TCP. */
static redisContext *connect_to_cache(void)
{
    const char *path = getenv("CACHE_SOCKET");
    const char *host = getenv("CACHE_HOST"), *port = getenv("CACHE_PORT");
    if (path != NULL)
        return redisConnectUnix(path);
    return host == NULL || port == NULL ? NULL : redisConnect(host, atoi(port));
}

static int count(request_rec *request)
{
    redisContext *context;
    redisReply *reply;
    int status = HTTP_BAD_GATEWAY;

    if (request->handler == NULL || strcmp(request->handler, "counter") != 0)
        return DECLINED;
    context = connect_to_cache();
    if (context == NULL)
        return HTTP_SERVICE_UNAVAILABLE;
    reply = context->err != 0 ? NULL : redisCommand(context, "HINCRBY counter field 1");
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        ap_set_content_type(request, "text/plain");
        ap_rprintf(request, "%lld\n", reply->integer);
        status = OK;
    } else {
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, request, "the cache: %s", context->errstr);
    }
    if (reply != NULL)
        freeReplyObject(reply);
    redisFree(context);
    return status;
}

static void register_hooks(apr_pool_t *pool)
{
    (void)pool;
    ap_hook_handler(count, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(counter) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
