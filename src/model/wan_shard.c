/* Wan DiT: weights shared out over ranks. Each rank keeps its part of every block in memory, mapped; a
 * block's bytes are gathered just before it runs, into one of two buffers, while the block before
 * computes from the other. */
#include "model/feed.h"
#include "model/wan.h"

enum { ALIGNMENT = 64, BUFFERS = 2 };

struct wan_shard {
    zoe_comm *comm;
    size_t layers;
    unsigned char *buffer[BUFFERS];
    size_t *bytes; /* of each rank's part of the block under way */
    zoe_exchange exchange;
    size_t coming; /* the block that is under way or has come; SIZE_MAX: none */
    bool failed;
};

/* ---- where things lie in a buffer ---- */

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t block_bytes(wan_block *b)
{
    wan_linear *layers[WAN_LARGE];
    size_t sum = 0;
    wan_large_layers(layers, b);
    for (size_t j = 0; j < WAN_LARGE; j++)
        sum += padded(zoe_tensor_bytes(layers[j]->w));
    return sum;
}

static size_t largest_block(const zoe_wan *m)
{
    size_t most = 0;
    for (size_t i = 0; i < m->dims.layers; i++)
        most = zoe_max(most, block_bytes(&m->blocks[i]));
    return most;
}

size_t zoe_wan_shard_bytes(const zoe_wan *wan)
{
    return BUFFERS * largest_block(wan);
}

uint64_t zoe_wan_shard_sent(const zoe_wan *wan, size_t ranks, size_t rank)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < wan->dims.layers; i++)
        lines += zoe_share(block_bytes(&wan->blocks[i]) / ALIGNMENT, ranks, rank).count;
    return (ranks - 1) * ALIGNMENT * lines;
}

/* Copies bytes [first, first + count) of the block, as it lies in a buffer, from the map. */
static void copy_part(unsigned char *buffer, wan_block *b, size_t first, size_t count)
{
    wan_linear *layers[WAN_LARGE];
    size_t at = 0;
    wan_large_layers(layers, b);
    for (size_t j = 0; j < WAN_LARGE; j++) {
        const size_t bytes = zoe_tensor_bytes(layers[j]->w);
        const size_t begin = zoe_max(first, at);
        const size_t end = first + count < at + bytes ? first + count : at + bytes;
        if (begin < end)
            memcpy(buffer + begin, (const unsigned char *)layers[j]->w.data + (begin - at),
                   end - begin);
        at += padded(bytes);
    }
}

/* *block is b with its weights in the buffer. */
static void point_into(wan_block *block, const wan_block *b, unsigned char *buffer)
{
    wan_linear *layers[WAN_LARGE];
    *block = *b;
    wan_large_layers(layers, block);
    for (size_t j = 0; j < WAN_LARGE; j++) {
        layers[j]->w.data = buffer;
        buffer += padded(zoe_tensor_bytes(layers[j]->w));
    }
}

/* ---- making ---- */

void zoe_wan_shard_free(struct wan_shard *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < BUFFERS; i++)
        zoe_free(s->buffer[i]);
    zoe_free(s->bytes);
    zoe_free(s);
}

zoe_status zoe_wan_shard_new(zoe_context *ctx, struct wan_shard **shard, const zoe_wan *m,
                             zoe_comm *comm)
{
    const size_t most = largest_block(m);
    zoe_status status;
    void *p;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **shard, "weights of several ranks"));
    struct wan_shard *s = p;
    *s = (struct wan_shard){.comm = comm, .layers = m->dims.layers, .coming = SIZE_MAX};
    for (size_t i = 0; i < BUFFERS; i++) {
        TRY_GOTO(zoe_alloc_zero(ctx, &p, most, 1, "weights of several ranks"));
        s->buffer[i] = p;
    }
    TRY_GOTO(zoe_alloc(ctx, &p, zoe_comm_size(comm), sizeof *s->bytes, "weights of several ranks"));
    s->bytes = p;
done:
    if (status != ZOE_OK)
        zoe_wan_shard_free(s);
    else
        *shard = s;
    return status;
}

/* ---- walking ---- */

/* Starts to gather block i: the own part goes to its place first. */
static zoe_status start(zoe_context *ctx, struct wan_shard *s, const zoe_wan *m, size_t i)
{
    const size_t parts = zoe_comm_size(s->comm), lines = block_bytes(&m->blocks[i]) / ALIGNMENT;
    unsigned char *buffer = s->buffer[i % BUFFERS];
    for (size_t r = 0; r < parts; r++)
        s->bytes[r] = zoe_share(lines, parts, r).count * ALIGNMENT;
    const zoe_span mine = zoe_share(lines, parts, zoe_comm_rank(s->comm));
    const size_t first = mine.first * ALIGNMENT;
    copy_part(buffer, &m->blocks[i], first, mine.count * ALIGNMENT);
    TRY(zoe_comm_gather_start(ctx, s->comm, &s->exchange, buffer, buffer + first, s->bytes,
                              "weights of a block"));
    s->coming = i;
    return ZOE_OK;
}

static zoe_status finish(zoe_context *ctx, struct wan_shard *s)
{
    return zoe_exchange_wait(ctx, s->comm, &s->exchange);
}

zoe_status zoe_wan_shard_take(zoe_context *ctx, struct wan_shard *s, const zoe_wan *m, size_t i,
                              wan_block *block)
{
    if (s->coming != i) {
        TRY(finish(ctx, s));
        TRY(start(ctx, s, m, i));
    }
    TRY(finish(ctx, s));
    point_into(block, &m->blocks[i], s->buffer[i % BUFFERS]);
    return i + 1 < s->layers ? start(ctx, s, m, i + 1) : ZOE_OK;
}

void zoe_wan_shard_end(zoe_context *ctx, struct wan_shard *s)
{
    finish(ctx, s);
    s->coming = SIZE_MAX;
}
