/* The state of a step cache whose tokens, or branches, lie on several ranks, as one rank would have
 * it. The arrays are put together by those who have the ranks; here are the numbers in front. */
#include "sample/cache_method.h"

/* EasyCache keeps what it decides by in the state of the branch that comes first: on a rank that has
 * the other branch alone, in that one. */
static void copy_decider(cache_branch *to, const cache_branch *from)
{
    to->outputs = from->outputs;
    to->rate = from->rate;
    to->accumulated = from->accumulated;
}

void zoe_cache_join_heads(void *whole, size_t bytes, const void *cond, const void *uncond)
{
    cache_memory m;
    memcpy(&m, cond, sizeof m);
    if (uncond) {
        cache_memory other;
        memcpy(&other, uncond, sizeof other);
        m.branch[1] = other.branch[1];
        m.calls += m.mask != other.mask ? other.calls : 0; /* both count what each ran */
        m.mask |= other.mask;
    }
    m.bytes = bytes;
    memset(whole, 0, ZOE_CACHE_HEAD);
    memcpy(whole, &m, sizeof m);
}

zoe_status zoe_cache_split_head(zoe_context *ctx, zoe_cache *cache, const void *whole, size_t bytes,
                                size_t branch)
{
    cache_memory m;
    memcpy(&m, whole, sizeof m);
    if (m.bytes != bytes)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "the kept state of the step cache has %llu bytes, %zu are wanted",
                        (unsigned long long)m.bytes, bytes);
    m.bytes = cache->state_bytes;
    if (branch < ZOE_CACHE_BRANCHES && m.mask == 3) {
        m.mask = 1u << branch;
        if (branch == 1 && cache->params.method == ZOE_CACHE_EASY)
            copy_decider(&m.branch[1], &m.branch[0]);
    }
    *cache->memory = m;
    return ZOE_OK;
}

void zoe_cache_put_trace(zoe_cache *cache, size_t step, size_t branch, const zoe_cache_trace *trace)
{
    cache->traces[step * ZOE_CACHE_BRANCHES + branch] = *trace;
}
