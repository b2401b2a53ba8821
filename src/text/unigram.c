/* See unigram.h. The pieces lie sorted, so that all those that a text begins with are found by
 * narrowing a range. */
#include "text/unigram.h"

#include <stdio.h>
#include <stdlib.h>

#include "text/unicode.h"

zoe_status zoe_ids_add(zoe_context *ctx, zoe_ids *ids, int32_t id)
{
    if (ids->count == ids->room) {
        const size_t room = 2 * ids->room + 64;
        void *p;
        TRY(zoe_alloc(ctx, &p, room, sizeof *ids->at, "token ids"));
        if (ids->count)
            memcpy(p, ids->at, ids->count * sizeof *ids->at);
        zoe_free(ids->at);
        ids->at = p;
        ids->room = room;
    }
    ids->at[ids->count++] = id;
    return ZOE_OK;
}

void zoe_ids_free(zoe_ids *ids)
{
    zoe_free(ids->at);
    *ids = (zoe_ids){0};
}

/* What an unknown character costs more than the least likely piece. */
static const double UNKNOWN_PENALTY = 10.0;

typedef struct entry {
    const char *text;
    size_t bytes;
    double score;
    int32_t id;
} entry;

struct zoe_unigram {
    char *texts;
    entry *entries; /* sorted by text */
    size_t count;
    size_t first[257]; /* entries whose first byte is b are first[b] up to first[b + 1] */
    double unknown_score;
    int32_t unk;
    bool byte_fallback; /* and all 256 pieces are there */
    int32_t byte_ids[256];
};

static int by_text(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* Of equal texts the last id stays. */
static void drop_repeated(zoe_unigram *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->count; i++)
        if (i + 1 == model->count ||
            strcmp(model->entries[i].text, model->entries[i + 1].text) != 0)
            model->entries[n++] = model->entries[i];
    model->count = n;
}

static void find_bytes(zoe_unigram *model)
{
    for (unsigned byte = 0; byte < 256 && model->byte_fallback; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        model->byte_ids[byte] = zoe_unigram_find(model, name, 6);
    }
}

static zoe_status copy_pieces(zoe_context *ctx, zoe_unigram *model, const zoe_piece *pieces,
                              size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i].text[0])
            return zoe_fail(ctx, ZOE_FORMAT, "vocab: piece %zu is empty", i);
        if (!zoe_size_add(&bytes, bytes, strlen(pieces[i].text) + 1))
            return zoe_fail(ctx, ZOE_NOMEM, "vocab: its texts are more than memory can address");
    }
    void *p;
    TRY(zoe_alloc(ctx, &p, bytes, 1, "vocab"));
    model->texts = p;
    TRY(zoe_alloc(ctx, &p, count, sizeof(entry), "vocab"));
    model->entries = p;
    char *text = model->texts;
    double lowest = pieces[0].score;
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(pieces[i].text);
        memcpy(text, pieces[i].text, n + 1);
        model->entries[i] = (entry){text, n, pieces[i].score, (int32_t)i};
        text += n + 1;
        lowest = fmin(lowest, pieces[i].score);
    }
    model->count = count;
    model->unknown_score = lowest - UNKNOWN_PENALTY;
    return ZOE_OK;
}

zoe_status zoe_unigram_new(zoe_context *ctx, zoe_unigram **model, const zoe_piece *pieces,
                           size_t count, int32_t unk, bool byte_fallback)
{
    void *p;
    *model = NULL;
    if (count == 0 || count > INT32_MAX || unk < 0 || (size_t)unk >= count)
        return zoe_fail(ctx, ZOE_FORMAT, "vocab: unk_id %d with %zu pieces", unk, count);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_unigram), "vocab"));
    zoe_unigram *m = p;
    m->unk = unk;
    m->byte_fallback = byte_fallback;
    const zoe_status status = copy_pieces(ctx, m, pieces, count);
    if (status != ZOE_OK) {
        zoe_unigram_free(m);
        return status;
    }
    qsort(m->entries, m->count, sizeof *m->entries, by_text);
    drop_repeated(m);
    for (size_t i = 0; i < m->count; i++)
        m->first[(unsigned char)m->entries[i].text[0] + 1] = i + 1;
    for (size_t byte = 1; byte <= 256; byte++)
        if (m->first[byte] < m->first[byte - 1])
            m->first[byte] = m->first[byte - 1];
    find_bytes(m);
    *model = m;
    return ZOE_OK;
}

void zoe_unigram_free(zoe_unigram *model)
{
    if (!model)
        return;
    zoe_free(model->entries);
    zoe_free(model->texts);
    zoe_free(model);
}

/* The first entry in low..high-1 whose byte at `depth` is at least `byte` (they agree before
 * it). */
static size_t lower_bound(const zoe_unigram *model, size_t low, size_t high, size_t depth,
                          unsigned byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((unsigned char)model->entries[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Narrows low..high-1, entries that begin with the depth bytes before text[depth], to those that
 * go on with it. */
static void narrow(const zoe_unigram *model, size_t *low, size_t *high, size_t depth,
                   unsigned char byte)
{
    *low = lower_bound(model, *low, *high, depth, byte);
    *high = lower_bound(model, *low, *high, depth, byte + 1u);
}

int32_t zoe_unigram_find(const zoe_unigram *model, const char *text, size_t bytes)
{
    size_t low = 0, high = model->count;
    for (size_t depth = 0; depth < bytes && low < high; depth++)
        narrow(model, &low, &high, depth, (unsigned char)text[depth]);
    return low < high && model->entries[low].bytes == bytes ? model->entries[low].id : -1;
}

/* The best split up to one place of the text. */
typedef struct node {
    double score;
    size_t start; /* of its last piece */
    size_t next;  /* end of the piece that follows in the best split of the whole */
    int32_t id;   /* of its last piece */
    bool reached;
} node;

static void offer(node *n, double score, size_t start, int32_t id)
{
    if (!n->reached || score > n->score)
        *n = (node){.score = score, .start = start, .id = id, .reached = true};
}

static void search(const zoe_unigram *model, node *nodes, const unsigned char *s, size_t bytes)
{
    nodes[0] = (node){.reached = true};
    for (size_t start = 0; start < bytes;) {
        uint32_t c;
        const size_t width = zoe_utf8_next(&c, s + start, bytes - start);
        bool covered = false;
        size_t low = model->first[s[start]], high = model->first[s[start] + 1];
        for (size_t depth = 1; low < high; depth++) {
            const entry *e = &model->entries[low];
            if (e->bytes == depth) { /* the shortest is first */
                offer(&nodes[start + depth], e->score + nodes[start].score, start, e->id);
                covered |= depth == width;
            }
            if (start + depth == bytes)
                break;
            narrow(model, &low, &high, depth, s[start + depth]);
        }
        if (!covered)
            offer(&nodes[start + width], model->unknown_score + nodes[start].score, start,
                  model->unk);
        start += width;
    }
}

/* Adds the ids of an unknown run. */
static zoe_status add_unknown(zoe_context *ctx, const zoe_unigram *model, zoe_ids *ids,
                              const unsigned char *s, size_t bytes)
{
    bool spelled = model->byte_fallback;
    const int32_t id = zoe_unigram_find(model, (const char *)s, bytes);
    for (size_t i = 0; i < bytes && spelled; i++)
        spelled = model->byte_ids[s[i]] >= 0;
    if (id >= 0 || !spelled)
        return zoe_ids_add(ctx, ids, id >= 0 ? id : model->unk);
    for (size_t i = 0; i < bytes; i++)
        TRY(zoe_ids_add(ctx, ids, model->byte_ids[s[i]]));
    return ZOE_OK;
}

zoe_status zoe_unigram_encode(zoe_context *ctx, const zoe_unigram *model, zoe_ids *ids,
                              const char *text, size_t bytes)
{
    void *p;
    size_t n;
    if (!zoe_size_add(&n, bytes, 1))
        return zoe_fail(ctx, ZOE_NOMEM, "a text of %zu bytes is too long", bytes);
    TRY(zoe_alloc_zero(ctx, &p, n, sizeof(node), "word"));
    node *nodes = p;
    const unsigned char *s = (const unsigned char *)text;
    search(model, nodes, s, bytes);
    for (size_t end = bytes; end > 0; end = nodes[end].start)
        nodes[nodes[end].start].next = end;
    zoe_status status = ZOE_OK;
    for (size_t start = 0, end; start < bytes && status == ZOE_OK; start = end) {
        end = nodes[start].next;
        if (nodes[end].id != model->unk) {
            status = zoe_ids_add(ctx, ids, nodes[end].id);
            continue;
        }
        while (end < bytes && nodes[nodes[end].next].id == model->unk)
            end = nodes[end].next;
        status = add_unknown(ctx, model, ids, s + start, end - start);
    }
    zoe_free(p);
    return status;
}
