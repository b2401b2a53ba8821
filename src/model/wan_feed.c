/* Wan DiT: streaming of its weights. A step runs through eight large layers of each block; the keys and
 * values of the texts, which are made before it, come from others. The rest, a few layers outside the
 * blocks, stays. */
#include "model/feed.h"
#include "model/wan.h"

struct wan_streams {
    zoe_feed *blocks, *texts; /* blocks NULL: shard has them */
    struct wan_shard *shard;
    zoe_context *ctx; /* of the walk */
};

enum { TEXT_LAYERS = 4 };

/* Layers of a block that make the keys and values of texts and of the picture. */
static size_t text_layers(const wan_linear *layers[TEXT_LAYERS], const zoe_wan *m, size_t i)
{
    const wan_attention *a = &m->blocks[i].cross;
    layers[0] = &a->k;
    layers[1] = &a->v;
    layers[2] = &a->k_img;
    layers[3] = &a->v_img;
    return m->dims.image_dim > 0 ? TEXT_LAYERS : 2;
}

/* ---- how much ---- */

typedef struct counting {
    const zoe_wan *m;
    const zoe_store *store;
} counting;

static size_t block_bytes(const void *user, size_t i)
{
    const counting *c = user;
    wan_linear *layers[WAN_LARGE];
    size_t sum = 0;
    wan_large_layers(layers, &c->m->blocks[i]);
    for (size_t j = 0; j < WAN_LARGE; j++)
        sum += zoe_feed_tensor_bytes(c->store, layers[j]->w);
    return sum;
}

static size_t text_bytes(const void *user, size_t i)
{
    const counting *c = user;
    const wan_linear *layers[TEXT_LAYERS];
    const size_t n = text_layers(layers, c->m, i);
    size_t sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += zoe_feed_tensor_bytes(c->store, layers[j]->w);
    return sum;
}

size_t zoe_wan_streamed_bytes(const zoe_wan *wan, const zoe_store *store, size_t resident)
{
    const counting c = {wan, store};
    const size_t layers = wan->dims.layers;
    size_t rest = zoe_store_bytes(store), sum;
    for (size_t i = 0; i < layers; i++) {
        const size_t streamed = block_bytes(&c, i) + text_bytes(&c, i);
        rest -= streamed < rest ? streamed : rest;
    }
    const size_t held = zoe_max(zoe_feed_held(block_bytes, &c, layers, resident),
                                zoe_feed_held(text_bytes, &c, layers, 0));
    return zoe_size_add(&sum, rest, held) ? sum : SIZE_MAX;
}

/* ---- setting up ---- */

static zoe_status add_layers(zoe_context *ctx, const struct wan_streams *s, const zoe_wan *m)
{
    for (size_t i = 0; i < m->dims.layers; i++) {
        wan_linear *large[WAN_LARGE];
        const wan_linear *of_text[TEXT_LAYERS];
        const size_t n = text_layers(of_text, m, i);
        wan_large_layers(large, &m->blocks[i]);
        for (size_t j = 0; j < WAN_LARGE && s->blocks; j++)
            TRY(zoe_feed_add(ctx, s->blocks, i, large[j]->w));
        for (size_t j = 0; j < n; j++)
            TRY(zoe_feed_add(ctx, s->texts, i, of_text[j]->w));
    }
    return ZOE_OK;
}

/* What texts are made from is read once, and nothing of it stays. The blocks come from the other ranks,
 * or from the store. */
static zoe_status fill_streams(zoe_context *ctx, struct wan_streams *s, const zoe_wan *m,
                               const zoe_store *store, zoe_stream_plan plan, zoe_comm *comm)
{
    const zoe_stream_plan none_stay = {.forget = plan.forget};
    const size_t layers = m->dims.layers;
    TRY(zoe_feed_new(ctx, &s->texts, store, layers, none_stay));
    if (comm)
        TRY(zoe_wan_shard_new(ctx, &s->shard, m, comm));
    else
        TRY(zoe_feed_new(ctx, &s->blocks, store, layers, plan));
    TRY(add_layers(ctx, s, m));
    if (s->blocks)
        TRY(zoe_feed_start(ctx, s->blocks));
    return zoe_feed_start(ctx, s->texts);
}

static zoe_status make_streams(zoe_context *ctx, zoe_wan *m, const zoe_store *store,
                               zoe_stream_plan plan, zoe_comm *comm)
{
    void *p;
    zoe_wan_stream_end(m);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof *m->streams, "weights that are streamed"));
    m->streams = p;
    const zoe_status status = fill_streams(ctx, m->streams, m, store, plan, comm);
    if (status != ZOE_OK)
        zoe_wan_stream_end(m);
    return status;
}

zoe_status zoe_wan_stream(zoe_context *ctx, zoe_wan *wan, const zoe_store *store,
                          zoe_stream_plan plan)
{
    return make_streams(ctx, wan, store, plan, NULL);
}

zoe_status zoe_wan_shard(zoe_context *ctx, zoe_wan *wan, const zoe_store *store, zoe_comm *comm)
{
    return comm ? make_streams(ctx, wan, store, (zoe_stream_plan){0}, comm) : ZOE_OK;
}

void zoe_wan_stream_end(zoe_wan *wan)
{
    struct wan_streams *s = wan->streams;
    if (!s)
        return;
    zoe_feed_free(s->texts);
    zoe_feed_free(s->blocks);
    zoe_wan_shard_free(s->shard);
    zoe_free(s);
    wan->streams = NULL;
}

zoe_stream_count zoe_wan_stream_count(const zoe_wan *wan)
{
    const struct wan_streams *s = wan->streams;
    return s && s->blocks ? zoe_feed_count(s->blocks) : (zoe_stream_count){0};
}

/* ---- walking ---- */

/* The feed of the blocks, if it is needed. */
static zoe_feed *blocks_of(const zoe_wan *m)
{
    return m->streams && !m->dims.int8 ? m->streams->blocks : NULL;
}

static zoe_feed *texts_of(const zoe_wan *m)
{
    return m->streams ? m->streams->texts : NULL;
}

static struct wan_shard *shard_of(const zoe_wan *m)
{
    return m->streams && !m->dims.int8 ? m->streams->shard : NULL;
}

void zoe_wan_walk_begin(zoe_context *ctx, const zoe_wan *m)
{
    if (m->streams)
        m->streams->ctx = ctx;
    zoe_feed_begin(ctx, blocks_of(m));
}

zoe_status zoe_wan_walk_take(zoe_context *ctx, const zoe_wan *m, size_t i, wan_block *block)
{
    struct wan_shard *shard = shard_of(m);
    if (shard)
        return zoe_wan_shard_take(ctx, shard, m, i, block);
    *block = m->blocks[i];
    return zoe_feed_take(ctx, blocks_of(m), i);
}

void zoe_wan_walk_release(const zoe_wan *m, size_t i)
{
    zoe_feed_release(blocks_of(m), i);
}

void zoe_wan_walk_end(const zoe_wan *m)
{
    struct wan_streams *s = m->streams;
    if (!s)
        return;
    if (s->shard)
        zoe_wan_shard_end(s->ctx, s->shard);
    zoe_feed_end(s->blocks);
}

void zoe_wan_texts_begin(zoe_context *ctx, const zoe_wan *m)
{
    zoe_feed_begin(ctx, texts_of(m));
}

zoe_status zoe_wan_text_take(zoe_context *ctx, const zoe_wan *m, size_t i)
{
    return zoe_feed_take(ctx, texts_of(m), i);
}

void zoe_wan_text_release(const zoe_wan *m, size_t i)
{
    zoe_feed_release(texts_of(m), i);
}

void zoe_wan_texts_end(const zoe_wan *m)
{
    zoe_feed_end(texts_of(m));
}
