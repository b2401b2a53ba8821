/* golden_ring_lse DIR, or the file in it: attention in parts, as ring ranks compute it, and on such
 * ranks, against the references.
 *
 * DIR/ring_lse.json   cases {P, s_local, heads, d, scale, q, k, v, full, full_lse, ranks}; q, k, v
 *                     and full are [1, P * s_local, heads, d], lse is [1, heads, queries]; of
 *                     every rank its own part and that of the others (in others_order), one merge
 *                     of the two (merged_overlap), and a merge step by step (merged_ring,
 *                     lse_ring) */
#include <jansson.h>

#include "ranks.h"

static const double LIMIT = 2e-6;

/* A case in memory. */
typedef struct ring_case {
    size_t P, s, heads, d;
    float scale;
    float *q, *k, *v;
} ring_case;

static void *memory(golden *g, size_t bytes)
{
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, bytes, 1, "a golden case"), "ring_lse");
    return p;
}

static float *numbers(golden *g, const json_t *object, const char *key, size_t n)
{
    const json_t *list = json_object_get(object, key);
    float *p = memory(g, n * sizeof *p);
    if (json_array_size(list) != n)
        golden_check(g, key, false, "%zu numbers, wanted %zu", json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)json_number_value(json_array_get(list, i));
    return p;
}

static zoe_tensor rows(const ring_case *c, float *data, size_t tokens)
{
    return zoe_tensor_4d(data, ZOE_F32, 1, tokens, c->heads, c->d);
}

/* Attention of queries with keys, both dense runs of tokens. */
static void attend(golden *g, const ring_case *c, float *o, float *lse, float *q, size_t queries,
                   float *k, float *v, size_t keys)
{
    const zoe_fused_infer_attention_score_args a = {
        .o = rows(c, o, queries),
        .lse = zoe_tensor_4d(lse, ZOE_F32, 1, c->heads, queries, 1),
        .q = rows(c, q, queries),
        .k = rows(c, k, keys),
        .v = rows(c, v, keys),
        .layout = ZOE_LAYOUT_BSND,
        .scale = c->scale};
    zoe_workspace work = {.bytes = zoe_fused_infer_attention_score_workspace(g->ctx, &a)};
    work.data = memory(g, work.bytes);
    golden_must(g, zoe_fused_infer_attention_score(g->ctx, &a, work), "attention");
    zoe_free(work.data);
}

/* o [tokens, heads, d] as the merge wants it beside lse [heads, tokens, 1] */
static zoe_tensor by_heads(const ring_case *c, float *data)
{
    zoe_tensor t = zoe_tensor_3d(data, ZOE_F32, c->heads, c->s, c->d);
    t.stride[0] = (ptrdiff_t)c->d;
    t.stride[1] = (ptrdiff_t)(c->heads * c->d);
    return t;
}

static void merge(golden *g, const ring_case *c, float *o, float *lse, float *const *outs,
                  float *const *lses, size_t parts)
{
    zoe_tensor o_parts[2], lse_parts[2];
    for (size_t i = 0; i < parts; i++) {
        o_parts[i] = by_heads(c, outs[i]);
        lse_parts[i] = zoe_tensor_3d(lses[i], ZOE_F32, c->heads, c->s, 1);
    }
    const zoe_attention_merge_args a = {.o = by_heads(c, o),
                                        .lse = zoe_tensor_3d(lse, ZOE_F32, c->heads, c->s, 1),
                                        .parts = parts,
                                        .outs = o_parts,
                                        .lses = lse_parts};
    golden_must(g, zoe_attention_merge(g->ctx, &a), "merge");
}

static void compare(golden *g, const json_t *object, const char *key, const float *got, size_t n)
{
    float *want = numbers(g, object, key, n);
    golden_compare(g, key, got, want, n, LIMIT);
    zoe_free(want);
}

static void check_rank(golden *g, const ring_case *c, const json_t *rank)
{
    const size_t chunk = c->s * c->heads * c->d, few = c->heads * c->s, others = c->P - 1;
    const size_t own = (size_t)json_integer_value(json_object_get(rank, "rank"));
    const json_t *order = json_object_get(rank, "others_order");
    float *buffer = memory(g, (2 * others + 3) * chunk * sizeof *buffer);
    float *lses = memory(g, 3 * few * sizeof *lses);
    float *k = buffer + 3 * chunk, *v = k + others * chunk, *q = c->q + own * chunk;
    float *const outs[2] = {buffer, buffer + chunk}, *const sums[2] = {lses, lses + few};
    float *merged = buffer + 2 * chunk, *merged_lse = lses + 2 * few;
    for (size_t i = 0; i < others; i++) {
        const size_t from = (size_t)json_integer_value(json_array_get(order, i));
        memcpy(k + i * chunk, c->k + from * chunk, chunk * sizeof *k);
        memcpy(v + i * chunk, c->v + from * chunk, chunk * sizeof *v);
    }
    attend(g, c, outs[0], sums[0], q, c->s, c->k + own * chunk, c->v + own * chunk, c->s);
    compare(g, rank, "out_local", outs[0], chunk);
    compare(g, rank, "lse_local", sums[0], few);
    attend(g, c, outs[1], sums[1], q, c->s, k, v, others * c->s);
    compare(g, rank, "out_others", outs[1], chunk);
    compare(g, rank, "lse_others", sums[1], few);
    merge(g, c, merged, merged_lse, outs, sums, 2);
    compare(g, rank, "merged_overlap", merged, chunk);
    for (size_t i = 0; i < others; i++) { /* step by step into the own part */
        attend(g, c, outs[1], sums[1], q, c->s, k + i * chunk, v + i * chunk, c->s);
        merge(g, c, outs[0], sums[0], outs, sums, 2);
    }
    compare(g, rank, "merged_ring", outs[0], chunk);
    compare(g, rank, "lse_ring", sums[0], few);
    zoe_free(buffer);
    zoe_free(lses);
}

/* A case on ranks. */
typedef struct ring_run {
    const ring_case *c;
    float *o; /* [P * s, heads, d] */
    bool stepwise;
} ring_run;

static zoe_status attend_on(const ring_run *run, zoe_context *ctx, const zoe_sequence *sequence)
{
    const ring_case *c = run->c;
    const zoe_place place = zoe_place_of(sequence);
    const size_t first = place.rank * c->s * c->heads * c->d;
    const zoe_sequence_attention_args a = {
        .o = zoe_tensor_3d(run->o + first, ZOE_F32, c->s, c->heads, c->d),
        .q = zoe_tensor_3d(c->q + first, ZOE_F32, c->s, c->heads, c->d),
        .k = zoe_tensor_3d(c->k + first, ZOE_F32, c->s, c->heads, c->d),
        .v = zoe_tensor_3d(c->v + first, ZOE_F32, c->s, c->heads, c->d),
        .tokens = c->P * c->s,
        .scale = c->scale};
    zoe_workspace work = {.bytes = zoe_sequence_attention_workspace(ctx, &place, &a)};
    TRY(zoe_alloc(ctx, &work.data, work.bytes, 1, "a workspace"));
    const zoe_status status = zoe_sequence_attention(ctx, sequence, &a, work);
    zoe_free(work.data);
    return status;
}

static zoe_status rank_attends(void *user, zoe_context *ctx, zoe_comm *comm)
{
    const ring_run *run = user;
    zoe_sequence sequence;
    TRY(zoe_sequence_new(ctx, &sequence, comm, 1, run->c->P, run->stepwise));
    const zoe_status status = attend_on(run, ctx, &sequence);
    zoe_sequence_free(&sequence);
    return status;
}

/* Both forms of the ring on ranks, against the merges of the reference and against the whole. */
static void check_ranks(golden *g, const ring_case *c, const json_t *object)
{
    const size_t chunk = c->s * c->heads * c->d;
    ring_run run = {.c = c, .o = memory(g, c->P * chunk * sizeof(float))};
    const json_t *rank;
    size_t i;
    for (int form = 0; form < 2; form++) {
        run.stepwise = form;
        golden_run_ranks(g, c->P, rank_attends, &run);
        compare(g, object, "full", run.o, c->P * chunk);
        json_array_foreach(json_object_get(object, "ranks"), i, rank)
        {
            compare(g, rank, form ? "merged_ring" : "merged_overlap", run.o + i * chunk, chunk);
        }
    }
    zoe_free(run.o);
}

static size_t count_of(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static void check_case(golden *g, const json_t *object)
{
    ring_case c = {.P = count_of(object, "P"),
                   .s = count_of(object, "s_local"),
                   .heads = count_of(object, "heads"),
                   .d = count_of(object, "d"),
                   .scale = (float)json_number_value(json_object_get(object, "scale"))};
    const size_t tokens = c.P * c.s, n = tokens * c.heads * c.d;
    const json_t *rank;
    size_t i;
    c.q = numbers(g, object, "q", n);
    c.k = numbers(g, object, "k", n);
    c.v = numbers(g, object, "v", n);
    float *full = memory(g, n * sizeof *full), *lse = memory(g, tokens * c.heads * sizeof *lse);
    attend(g, &c, full, lse, c.q, tokens, c.k, c.v, tokens);
    compare(g, object, "full", full, n);
    compare(g, object, "full_lse", lse, tokens * c.heads);
    json_array_foreach(json_object_get(object, "ranks"), i, rank)
    {
        check_rank(g, &c, rank);
    }
    check_ranks(g, &c, object);
    zoe_free(c.q);
    zoe_free(c.k);
    zoe_free(c.v);
    zoe_free(full);
    zoe_free(lse);
}

int main(int argc, char **argv)
{
    golden g = golden_begin();
    const char *path = golden_folder(argc, argv);
    if (!golden_ends_with(path, ".json"))
        path = golden_path(path, "ring_lse.json");
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!json_is_array(cases))
        golden_check(&g, path, false, "%s", cases ? "no list" : error.text);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(&g, json_array_get(cases, i));
    json_decref(cases);
    return golden_end(&g);
}
