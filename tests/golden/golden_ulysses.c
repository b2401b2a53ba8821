/* golden_ulysses DIR, or the file in it: what travels between tokens and heads against the layouts of
 * the reference.
 *
 * DIR/ulysses.json   layouts: cases {P, b, s, heads, d, in, heads_sharded}; an element is sequence *
 *                    1e6 + token * 1e4 + head * 1e2 + channel; `in` has of every rank [b, s / P, heads,
 *                    d], heads_sharded [b, s, heads / P, d].
 *                    head_padding: rows {heads, P, pad, local, ok}. Where the reference pads heads, ours
 *                    are uneven: the most of a rank is its local count; where it refuses, they serve
 *                    as well. */
#include <jansson.h>

#include "comm/sequence.h"
#include "ranks.h"

typedef struct layout {
    size_t P, b, s, heads, d, at; /* at: the sequence of the batch that is sent */
    float *in, *sharded;          /* of all ranks */
    float *q, *k, *v, *back;      /* of the heads and, back, of the tokens */
} layout;

static const float K = 0.25f, V = 0.5f; /* added, to tell k and v from q */

static size_t count_of(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static float *memory(golden *g, size_t count)
{
    void *p;
    golden_must(g, zoe_alloc_zero(g->ctx, &p, count, sizeof(float), "a golden case"), "ulysses");
    return p;
}

/* Lists of every rank, end to end. */
static float *numbers(golden *g, const json_t *object, const char *key, size_t n)
{
    float *p = memory(g, n);
    const json_t *list, *number;
    size_t rank, i, count = 0;
    json_array_foreach(json_object_get(object, key), rank, list)
    {
        json_array_foreach(list, i, number)
        {
            if (count < n)
                p[count] = (float)json_number_value(number);
            count++;
        }
    }
    if (count != n)
        golden_check(g, key, false, "%zu numbers, wanted %zu", count, n);
    return p;
}

static float *plus(zoe_context *ctx, const float *values, size_t n, float more)
{
    void *p;
    if (zoe_alloc(ctx, &p, n, sizeof(float), "a golden case") != ZOE_OK)
        return NULL;
    for (size_t i = 0; i < n; i++)
        ((float *)p)[i] = values[i] + more;
    return p;
}

/* [tokens, heads, d] of a run, dense. */
static void copy_out(float *to, zoe_tensor t)
{
    const size_t row = t.shape[1] * t.shape[2];
    for (size_t i = 0; i < t.shape[0]; i++)
        memcpy(to + i * row, (const float *)t.data + i * (size_t)t.stride[0], row * sizeof(float));
}

static zoe_status travel(const layout *c, zoe_context *ctx, const zoe_sequence *sequence,
                         const float *k, const float *v)
{
    const size_t rank = zoe_comm_rank(sequence->ranks), local = c->s / c->P;
    const size_t few = local * c->heads * c->d, many = c->s * (c->heads / c->P) * c->d;
    float *in = c->in + (rank * c->b + c->at) * few;
    const zoe_sequence_attention_args a = {
        .o = zoe_tensor_3d(c->back + rank * few, ZOE_F32, local, c->heads, c->d),
        .q = zoe_tensor_3d(in, ZOE_F32, local, c->heads, c->d),
        .k = zoe_tensor_3d((void *)(uintptr_t)k, ZOE_F32, local, c->heads, c->d),
        .v = zoe_tensor_3d((void *)(uintptr_t)v, ZOE_F32, local, c->heads, c->d),
        .tokens = c->s};
    const zoe_place place = zoe_place_of(sequence);
    zoe_workspace work = {.bytes = zoe_sequence_attention_workspace(ctx, &place, &a)};
    TRY(zoe_alloc(ctx, &work.data, work.bytes, 1, "a workspace"));
    zoe_sequence_run r;
    zoe_status status = zoe_sequence_begin(ctx, &r, sequence, &a, work);
    if (status == ZOE_OK)
        status = zoe_sequence_to_heads(&r);
    if (status == ZOE_OK) {
        copy_out(c->q + rank * many, r.q);
        copy_out(c->k + rank * many, r.k);
        copy_out(c->v + rank * many, r.v);
        copy_out(r.o.data, r.q); /* attention that changes nothing */
        status = zoe_sequence_to_tokens(&r, a.o);
    }
    zoe_free(work.data);
    return status;
}

static zoe_status rank_travels(void *user, zoe_context *ctx, zoe_comm *comm)
{
    const layout *c = user;
    const size_t few = c->s / c->P * c->heads * c->d;
    const float *in = c->in + (zoe_comm_rank(comm) * c->b + c->at) * few;
    float *k = plus(ctx, in, few, K), *v = plus(ctx, in, few, V);
    zoe_sequence sequence;
    TRY(zoe_sequence_new(ctx, &sequence, comm, c->P, 1, false));
    const zoe_status status = k && v ? travel(c, ctx, &sequence, k, v) : ZOE_NOMEM;
    zoe_sequence_free(&sequence);
    zoe_free(k);
    zoe_free(v);
    return status;
}

static void check_sequence(golden *g, layout *c)
{
    const size_t few = c->s / c->P * c->heads * c->d; /* of a rank, before and after */
    golden_run_ranks(g, c->P, rank_travels, c);
    for (size_t rank = 0; rank < c->P; rank++) {
        float *want = c->sharded + (rank * c->b + c->at) * few,
              *in = c->in + (rank * c->b + c->at) * few;
        golden_compare_abs(g, "q of the heads", c->q + rank * few, want, few, 0.0);
        for (size_t i = 0; i < few; i++) {
            c->k[rank * few + i] -= K;
            c->v[rank * few + i] -= V;
        }
        golden_compare_abs(g, "k of the heads", c->k + rank * few, want, few, 0.0);
        golden_compare_abs(g, "v of the heads", c->v + rank * few, want, few, 0.0);
        golden_compare_abs(g, "back to the tokens", c->back + rank * few, in, few, 0.0);
    }
}

static void check_layout(golden *g, const json_t *object)
{
    layout c = {.P = count_of(object, "P"),
                .b = count_of(object, "b"),
                .s = count_of(object, "s"),
                .heads = count_of(object, "heads"),
                .d = count_of(object, "d")};
    const size_t n = c.s * c.heads * c.d;
    c.in = numbers(g, object, "in", c.b * n);
    c.sharded = numbers(g, object, "heads_sharded", c.b * n);
    c.q = memory(g, n);
    c.k = memory(g, n);
    c.v = memory(g, n);
    c.back = memory(g, n);
    for (c.at = 0; c.at < c.b; c.at++)
        check_sequence(g, &c);
    float *const all[] = {c.in, c.sharded, c.q, c.k, c.v, c.back};
    for (size_t i = 0; i < 6; i++)
        zoe_free(all[i]);
}

static void check_heads(golden *g, const json_t *row)
{
    const size_t heads = count_of(row, "heads"), P = count_of(row, "P");
    size_t most = 0, next = 0;
    for (size_t i = 0; i < P; i++) {
        const zoe_span s = zoe_share(heads, P, i);
        if (s.first != next)
            golden_check(g, "heads", false, "rank %zu begins at %zu, wanted %zu", i, s.first, next);
        next += s.count;
        most = s.count > most ? s.count : most;
    }
    const bool whole = next == heads;
    const bool as_theirs =
        !json_is_true(json_object_get(row, "ok")) || most == count_of(row, "local");
    golden_check(g, "heads", whole && as_theirs, "%zu on %zu ranks: at most %zu", heads, P, most);
}

int main(int argc, char **argv)
{
    golden g = golden_begin();
    const char *path = golden_folder(argc, argv);
    if (!golden_ends_with(path, ".json"))
        path = golden_path(path, "ulysses.json");
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!json_is_object(file))
        golden_check(&g, path, false, "%s", file ? "no object" : error.text);
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(file, "layouts"), i, item)
    {
        check_layout(&g, item);
    }
    json_array_foreach(json_object_get(file, "head_padding"), i, item)
    {
        check_heads(&g, item);
    }
    json_decref(file);
    return golden_end(&g);
}
