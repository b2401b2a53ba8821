/* zoe_fused_infer_attention_score against a plain evaluation in double: every layout with every
 * mode, lengths, shared heads, masks; and the equalities that it promises. */
#include "op_case.h"

enum { MOST_B = 4, COMPRESSED = 2048 };

typedef zoe_fused_infer_attention_score_args fused_args;

/* Axes of q, k, v and of o; H is N and D in one, T is B and S in one. */
static const char *const in_axes[] = {"BSH",  "BSND", "BNSD", "BNSD", "BSH",
                                      "BSND", "BNSD", "TND",  "TND",  "NTD"};
static const char *const out_axes[] = {"BSH",  "BSND", "BNSD", "BSND", "NBSD",
                                       "NBSD", "NBSD", "TND",  "NTD",  "TND"};
enum { LAYOUTS = 10 };

typedef struct config {
    zoe_attention_layout layout;
    zoe_attention_sparse mode;
    size_t B, N, kv_N, S, kv_S, D, Dv;
    int64_t pre, next;
    int mask_rank; /* 0: none */
    bool mask_batched, with_lengths, one_length, positive;
    zoe_dtype in, out;
    int threads;
    size_t gap;
} config;

/* A call with what it points to. */
typedef struct call {
    config c;
    fused_args a;
    int64_t q_lengths[MOST_B], kv_lengths[MOST_B];
    size_t q_begin[MOST_B + 1], k_begin[MOST_B + 1]; /* of layouts with T */
    bool cumulative;
} call;

/* A tensor of these axes; rows lie `gap` elements apart. */
static zoe_tensor operand(const char *axes, zoe_dtype dtype, size_t B, size_t N, size_t S, size_t D,
                          size_t gap)
{
    size_t rows = 1;
    zoe_tensor t = {.dtype = dtype, .rank = (int)strlen(axes)};
    for (int i = 0; i < t.rank; i++) {
        const char axis = axes[i];
        t.shape[i] = axis == 'B' ? B : axis == 'N' ? N : axis == 'D' ? D : axis == 'H' ? N * D : S;
        rows *= i + 1 < t.rank ? t.shape[i] : 1;
    }
    t.stride[t.rank - 1] = 1;
    t.stride[t.rank - 2] = (ptrdiff_t)(t.shape[t.rank - 1] + gap);
    for (int i = t.rank - 3; i >= 0; i--)
        t.stride[i] = t.stride[i + 1] * (ptrdiff_t)t.shape[i + 1];
    t.data = tensor_new(dtype, rows, t.shape[t.rank - 1], gap).data;
    return t;
}

static size_t place(const char *axes, zoe_tensor t, size_t D, size_t begin, size_t b, size_t n,
                    size_t s, size_t d)
{
    size_t at = 0;
    for (int i = 0; i < t.rank; i++) {
        const char axis = axes[i];
        const size_t index = axis == 'B'   ? b
                             : axis == 'N' ? n
                             : axis == 'D' ? d
                             : axis == 'H' ? n * D + d
                             : axis == 'T' ? begin + s
                                           : s;
        at += index * (size_t)t.stride[i];
    }
    return at;
}

static double value_of(const char *axes, zoe_tensor t, size_t D, size_t begin, size_t b, size_t n,
                       size_t s, size_t d)
{
    return (double)zoe_load_f32(t.data, t.dtype, place(axes, t, D, begin, b, n, s, d));
}

static zoe_tensor mask_new(const config *c, size_t rows, size_t columns, bool causal)
{
    const size_t batch = c->mask_batched ? c->B : 1;
    zoe_tensor t = {.dtype = ZOE_U8, .rank = c->mask_rank};
    const size_t shape[4] = {batch, 1, rows, columns};
    size_t count = 1;
    for (int i = c->mask_rank - 1; i >= 0; i--) {
        const int from = c->mask_rank == 3 && i == 0 ? 0 : 4 - c->mask_rank + i;
        t.shape[i] = shape[from];
        t.stride[i] = (ptrdiff_t)count;
        count *= t.shape[i];
    }
    unsigned char *p = malloc(count + 1);
    assert_non_null(p);
    for (size_t i = 0; i < count; i++)
        p[i] = (unsigned char)(causal ? i % columns > i / columns % rows : pick(3) == 0 ? 7 : 0);
    t.data = p;
    return t;
}

static bool masked(const call *k, size_t b, size_t i, size_t j)
{
    const zoe_tensor m = k->a.mask;
    size_t at = i * (size_t)m.stride[m.rank - 2] + j;
    if (m.rank > 2 && m.shape[0] > 1)
        at += b * (size_t)m.stride[0];
    return ((const unsigned char *)m.data)[at] != 0;
}

static bool sees(const call *k, size_t b, size_t i, size_t j, size_t queries, size_t keys)
{
    const int64_t distance = (int64_t)j - (int64_t)i, shift = (int64_t)keys - (int64_t)queries;
    const bool given = k->a.mask.dtype != ZOE_NONE;
    switch (k->c.mode) {
    case ZOE_SPARSE_BAND:
        return !given || (-distance <= k->c.pre && distance <= k->c.next && !masked(k, b, i, j));
    case ZOE_SPARSE_MASK: return !masked(k, b, i, j);
    case ZOE_SPARSE_CAUSAL: return distance <= 0;
    case ZOE_SPARSE_CAUSAL_END: return distance <= shift;
    case ZOE_SPARSE_BAND_END: return -distance <= k->c.pre - shift && distance <= k->c.next + shift;
    }
    return false;
}

/* Lengths, or ends of sequences, at random. Returns the sum. */
static size_t lengths_new(const config *c, bool cumulative, size_t S, int64_t *lengths,
                          size_t *begin)
{
    size_t sum = 0;
    for (size_t b = 0; b < c->B; b++) {
        begin[b] = sum;
        const size_t n = pick(5) == 0 ? 0 : 1 + pick(S);
        sum += n;
        lengths[b] = (int64_t)(cumulative ? sum : n);
    }
    begin[c->B] = sum;
    return sum;
}

static call call_new(const config *c)
{
    call k = {.c = *c, .cumulative = c->layout >= ZOE_LAYOUT_TND};
    const char *in = in_axes[c->layout], *out = out_axes[c->layout];
    size_t q = c->S, kv = c->kv_S;
    if (k.cumulative || c->with_lengths) {
        const size_t qs = lengths_new(c, k.cumulative, c->S, k.q_lengths, k.q_begin);
        const size_t kvs = lengths_new(c, k.cumulative, c->kv_S, k.kv_lengths, k.k_begin);
        q = k.cumulative ? qs : q;
        kv = k.cumulative ? kvs : kv;
    }
    k.a = (fused_args){.layout = c->layout,
                       .heads = in[2] == 'H' ? c->N : 0,
                       .kv_heads = c->kv_N == c->N && in[2] != 'H' ? 0 : c->kv_N,
                       .scale = 1.0f / sqrtf((float)c->D),
                       .sparse_mode = c->mode,
                       .pre_tokens = c->pre,
                       .next_tokens = c->next,
                       .mask = zoe_tensor_none(),
                       .lse_invalid = c->positive ? INFINITY : 0.0f};
    k.a.q = operand(in, c->in, c->B, c->N, q, c->D, c->gap);
    k.a.k = operand(in, c->in, c->B, c->kv_N, kv, c->D, c->gap);
    k.a.v = operand(in, c->in, c->B, c->kv_N, kv, c->Dv, 2 * c->gap);
    k.a.o = operand(out, c->out, c->B, c->N, q, c->Dv, c->gap);
    k.a.lse = operand(k.cumulative ? "TND" : "BNSD", ZOE_F32, c->B, c->N, q, 1, 0);
    if (c->mask_rank > 0 && c->mode <= ZOE_SPARSE_MASK)
        k.a.mask = mask_new(c, c->S, c->kv_S, false);
    else if (c->mask_rank > 0)
        k.a.mask = mask_new(c, COMPRESSED, COMPRESSED, true);
    return k;
}

/* Pointers into the call; it stays where it is from here on. */
static void give_lengths(call *k)
{
    if (!k->cumulative && !k->c.with_lengths)
        return;
    k->a.q_lengths = k->q_lengths;
    k->a.kv_lengths = k->kv_lengths;
    k->a.q_length_count = k->a.kv_length_count = k->c.one_length && !k->cumulative ? 1 : k->c.B;
}

static void call_free(call *k)
{
    tensor_free(k->a.q);
    tensor_free(k->a.k);
    tensor_free(k->a.v);
    tensor_free(k->a.o);
    tensor_free(k->a.lse);
    tensor_free(k->a.mask);
}

static void run(const fused_args *a, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    zoe_workspace work = workspace_new(zoe_fused_infer_attention_score_workspace(ctx, a));
    if (zoe_fused_infer_attention_score(ctx, a, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    free(work.data);
    zoe_context_free(ctx);
}

static size_t length_at(const call *k, const int64_t *lengths, const size_t *begin, size_t b,
                        size_t all)
{
    if (k->cumulative)
        return begin[b + 1] - begin[b];
    return k->c.with_lengths ? (size_t)lengths[k->c.one_length ? 0 : b] : all;
}

static void near(double got, double want, zoe_dtype dtype, const call *k, size_t b, size_t n,
                 size_t i)
{
    const double unit = dtype == ZOE_F32 ? 0x1p-24 : dtype == ZOE_F16 ? 0x1p-10 : 0x1p-7;
    if (!(fabs(got - want) <= 4e-6 + (dtype == ZOE_F16 ? 0x1p-24 : 0.0) + unit * fabs(want)))
        fail_msg(
            "layout %d mode %d B %zu N %zu/%zu S %zu/%zu D %zu/%zu: batch %zu head %zu query %zu "
            "is %.9g, wanted %.9g",
            (int)k->c.layout, (int)k->c.mode, k->c.B, k->c.N, k->c.kv_N, k->c.S, k->c.kv_S, k->c.D,
            k->c.Dv, b, n, i, got, want);
}

/* The row of query i against double; p has room for a weight a key. */
static void check_row(const call *k, double *p, size_t b, size_t n, size_t i, size_t queries,
                      size_t keys)
{
    const config *c = &k->c;
    const char *in = in_axes[c->layout], *out = out_axes[c->layout];
    const size_t kv = n / (c->N / c->kv_N), q0 = k->q_begin[b], k0 = k->k_begin[b];
    double top = -INFINITY, sum = 0.0;
    for (size_t j = 0; j < keys && i < queries; j++) {
        double s = 0.0;
        p[j] = -INFINITY;
        if (!sees(k, b, i, j, queries, keys))
            continue;
        for (size_t d = 0; d < c->D; d++)
            s += value_of(in, k->a.q, c->D, q0, b, n, i, d) *
                 value_of(in, k->a.k, c->D, k0, b, kv, j, d);
        p[j] = s * (double)k->a.scale;
        top = fmax(top, p[j]);
    }
    const bool seen = top > -INFINITY;
    for (size_t j = 0; j < keys && seen; j++)
        sum += p[j] = exp(p[j] - top);
    for (size_t d = 0; d < c->Dv; d++) {
        double o = 0.0;
        for (size_t j = 0; j < keys && seen; j++)
            o += p[j] / sum * value_of(in, k->a.v, c->Dv, k0, b, kv, j, d);
        near(value_of(out, k->a.o, c->Dv, q0, b, n, i, d), o, c->out, k, b, n, i);
    }
    const double lse = value_of(k->cumulative ? "TND" : "BNSD", k->a.lse, 1, q0, b, n, i, 0);
    if (!seen)
        assert_true(lse == (c->positive ? (double)INFINITY : (double)-INFINITY));
    else if (!(fabs(lse - (top + log(sum))) <= 1e-5 + 1e-6 * fabs(lse)))
        fail_msg("lse is %.9g, wanted %.9g", lse, top + log(sum));
}

static void check_gaps(zoe_tensor t)
{
    zoe_tensor rows = zoe_tensor_2d(t.data, t.dtype, zoe_tensor_count(t) / t.shape[t.rank - 1],
                                    t.shape[t.rank - 1]);
    rows.stride[0] = t.stride[t.rank - 2];
    assert_gaps_untouched(rows);
}

static void check_config(const config *c)
{
    call k = call_new(c);
    give_lengths(&k);
    run(&k.a, c->threads);
    double *p = malloc((c->kv_S + 1) * sizeof *p);
    for (size_t b = 0; b < c->B; b++) {
        const size_t queries = length_at(&k, k.q_lengths, k.q_begin, b, c->S);
        const size_t keys = length_at(&k, k.kv_lengths, k.k_begin, b, c->kv_S);
        for (size_t n = 0; n < c->N; n++)
            for (size_t i = 0; i < (k.cumulative ? queries : c->S); i++)
                check_row(&k, p, b, n, i, queries, keys);
    }
    if (zoe_tensor_count(k.a.o) > 0)
        check_gaps(k.a.o);
    free(p);
    call_free(&k);
}

static config random_config(size_t layout, size_t mode)
{
    static const size_t widths[] = {1, 3, 16, 20, 64}, ratios[] = {1, 2, 3};
    static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
    config c = {.layout = (zoe_attention_layout)layout,
                .mode = (zoe_attention_sparse)mode,
                .B = 1 + pick(3),
                .kv_N = 1 + pick(2),
                .S = 1 + pick(30),
                .kv_S = 1 + pick(pick(3) == 0 ? 300 : 40),
                .D = widths[pick(5)],
                .pre = (int64_t)pick(30),
                .next = (int64_t)pick(30),
                .with_lengths = pick(2),
                .one_length = pick(3) == 0,
                .positive = pick(2),
                .in = types[pick(3)],
                .out = types[pick(3)],
                .threads = 1 + (int)pick(3),
                .gap = pick(2) * 3};
    c.N = c.kv_N * ratios[pick(3)];
    c.Dv = pick(3) == 0 ? widths[pick(5)] : c.D;
    if (pick(4) == 0) /* a band that does not hold the diagonal */
        c.pre = -(int64_t)pick((size_t)c.next + 1);
    const bool cumulative = c.layout >= ZOE_LAYOUT_TND;
    if (c.mode == ZOE_SPARSE_MASK || (c.mode == ZOE_SPARSE_BAND && pick(2)))
        c.mask_rank = 2 + (int)pick(3);
    c.mask_batched = c.mask_rank > 2 && !cumulative && pick(2);
    return c;
}

static void every_layout_with_every_mode(void **state)
{
    (void)state;
    for (size_t layout = 0; layout < LAYOUTS; layout++)
        for (size_t mode = 0; mode <= ZOE_SPARSE_BAND_END; mode++)
            for (int round = 0; round < 4; round++) {
                const config c = random_config(layout, mode);
                check_config(&c);
            }
}

/* Lengths around stripes, tiles and blocks, and the widths of models. */
static void longer_sequences(void **state)
{
    static const size_t lengths[][2] = {{97, 257}, {200, 513}, {193, 96}, {5, 1030}},
                        widths[] = {64, 128, 192};
    (void)state;
    for (size_t l = 0; l < 4; l++)
        for (size_t mode = 0; mode <= ZOE_SPARSE_BAND_END; mode++) {
            config c = {.layout = ZOE_LAYOUT_BSND,
                        .mode = (zoe_attention_sparse)mode,
                        .B = 1,
                        .N = 1,
                        .kv_N = 1,
                        .S = lengths[l][0],
                        .kv_S = lengths[l][1],
                        .D = mode == l ? widths[l % 3] : 7,
                        .Dv = 5,
                        .pre = 60,
                        .next = 70,
                        .mask_rank = mode == ZOE_SPARSE_MASK ? 2 : 0,
                        .threads = 2};
            c.in = c.out = ZOE_F32;
            check_config(&c);
        }
    for (size_t w = 0; w < 3; w++) {
        const config c = {.layout = ZOE_LAYOUT_TND,
                          .B = 2,
                          .N = 2,
                          .kv_N = 1,
                          .S = 20,
                          .kv_S = 90,
                          .D = widths[w],
                          .Dv = widths[2 - w],
                          .in = ZOE_BF16,
                          .out = ZOE_F32,
                          .threads = 2};
        check_config(&c);
    }
}

static void compressed_masks_are_only_looked_at(void **state)
{
    (void)state;
    for (size_t mode = ZOE_SPARSE_CAUSAL; mode <= ZOE_SPARSE_BAND_END; mode++) {
        config c = random_config(ZOE_LAYOUT_BNSD, mode);
        c.mask_rank = 2 + (int)mode - 2;
        c.mask_batched = false;
        check_config(&c);
    }
}

static config plain(size_t S, size_t kv_S, size_t D)
{
    return (config){.layout = ZOE_LAYOUT_BSND,
                    .B = 1,
                    .N = 2,
                    .kv_N = 1,
                    .S = S,
                    .kv_S = kv_S,
                    .D = D,
                    .Dv = D,
                    .in = ZOE_F32,
                    .out = ZOE_F32};
}

static void threads_and_alignment_change_no_byte(void **state)
{
    (void)state;
    for (size_t mode = 0; mode <= ZOE_SPARSE_BAND_END; mode++) {
        config c = plain(230, 390, 24);
        c.mode = (zoe_attention_sparse)mode;
        c.mask_rank = mode < 2 ? 2 : 0;
        c.pre = 100;
        c.next = 30;
        call k = call_new(&c);
        run(&k.a, 1);
        const size_t bytes = zoe_tensor_bytes(k.a.o), lse_bytes = zoe_tensor_bytes(k.a.lse);
        const zoe_tensor o = k.a.o, lse = k.a.lse;
        char *other = malloc(bytes + 8), *other_lse = malloc(lse_bytes + 8);
        char *q = malloc(zoe_tensor_bytes(k.a.q) + 4);
        memcpy(q + 4, k.a.q.data, zoe_tensor_bytes(k.a.q));
        free(k.a.q.data);
        for (int threads = 1; threads <= 3; threads++) {
            k.a.q.data = q + 4;
            k.a.o.data = other + 4;
            k.a.lse.data = other_lse + 4;
            run(&k.a, threads);
            assert_memory_equal(other + 4, o.data, bytes);
            assert_memory_equal(other_lse + 4, lse.data, lse_bytes);
        }
        k.a.q.data = q;
        k.a.o = o;
        k.a.lse = lse;
        call_free(&k);
        free(other);
        free(other_lse);
    }
}

static void fewer_queries_give_the_same_rows(void **state)
{
    (void)state;
    config c = plain(300, 280, 16);
    call k = call_new(&c);
    run(&k.a, 2);
    float *o = k.a.o.data, *few = malloc(300 * 32 * sizeof *few);
    static const size_t counts[] = {1, 7, 96, 101};
    for (size_t i = 0; i < 4; i++) {
        k.a.o.data = few;
        k.a.q.shape[1] = k.a.o.shape[1] = k.a.lse.shape[2] = counts[i];
        run(&k.a, 1);
        assert_memory_equal(few, o, counts[i] * 32 * sizeof *few);
    }
    free(few);
    k.a.o.data = o;
    call_free(&k);
}

static double mean_of_values(const call *k, size_t from, size_t to, size_t d)
{
    double sum = 0.0;
    for (size_t j = from; j < to; j++)
        sum += value_of("BSND", k->a.v, k->c.Dv, 0, 0, 0, j, d);
    return sum / (double)(to - from);
}

static void equal_large_scores_weigh_alike(void **state)
{
    (void)state;
    config c = plain(3, 300, 16);
    call k = call_new(&c);
    float *q = k.a.q.data, *keys = k.a.k.data;
    for (size_t i = 0; i < 3 * 2 * 16; i++)
        q[i] = 25.0f;
    for (size_t i = 0; i < 300 * 16; i++)
        keys[i] = 25.0f;
    k.a.scale = 1.0f; /* all scores 1e4 */
    run(&k.a, 1);
    for (size_t d = 0; d < 16; d++)
        near(value_of("BSND", k.a.o, 16, 0, 0, 1, 2, d), mean_of_values(&k, 0, 300, d), ZOE_F32, &k,
             0, 1, 2);
    assert_true(fabs((double)((float *)k.a.lse.data)[4] - (1e4 + log(300.0))) <= 1e-5 + 1e-2);
    call_free(&k);
}

static void what_is_not_finite_stays_in_its_rows(void **state)
{
    (void)state;
    config c = plain(5, 300, 16);
    c.mode = ZOE_SPARSE_CAUSAL_END;
    call k = call_new(&c);
    float *q = k.a.q.data, *keys = k.a.k.data, *lse = k.a.lse.data;
    q[1 * 32 + 3] = NAN;            /* query 1, head 0 */
    keys[299 * 16 + 2] = NAN;       /* only the last query sees it */
    for (size_t d = 0; d < 16; d++) /* query 2 of head 0: all scores -inf */
        q[2 * 32 + d] = d == 0 ? -INFINITY : 0.0f;
    for (size_t j = 0; j < 299; j++)
        keys[j * 16] = 1.0f + (float)j;
    q[3 * 32 + 16] = INFINITY; /* query 3, head 1: scores +inf */
    run(&k.a, 2);
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 0; n < 2; n++) {
            const bool bad = i == 4 || (n == 0 && i == 1) || (n == 1 && i == 3);
            const double o = value_of("BSND", k.a.o, 16, 0, 0, n, i, 7);
            assert_int_equal(!!isnan(o), bad);
            assert_int_equal(!!isnan(lse[n * 5 + i]), bad);
            if (n == 0 && i == 2)
                assert_true(o == 0.0 && lse[i] == -INFINITY);
        }
    call_free(&k);
}

static void keys_beyond_the_length_are_not_read(void **state)
{
    (void)state;
    config c = plain(4, 200, 8);
    call k = call_new(&c);
    const int64_t length = 77;
    float *keys = k.a.k.data, *values = k.a.v.data;
    for (size_t i = 77 * 8; i < 200 * 8; i++)
        keys[i] = values[i] = NAN;
    k.a.kv_lengths = &length;
    k.a.kv_length_count = 1;
    run(&k.a, 1);
    for (size_t i = 0; i < 4 * 2 * 8; i++)
        assert_true(isfinite(((float *)k.a.o.data)[i]));
    call_free(&k);
}

static void without_keys_or_queries(void **state)
{
    (void)state;
    config c = plain(6, 3, 8);
    call k = call_new(&c);
    fused_args a = k.a;
    a.k.shape[1] = a.v.shape[1] = 0;
    a.k.data = a.v.data = NULL;
    run(&a, 2);
    for (size_t i = 0; i < 6 * 2 * 8; i++)
        assert_true(((float *)a.o.data)[i] == 0.0f);
    for (size_t i = 0; i < 6 * 2; i++)
        assert_true(((float *)a.lse.data)[i] == -INFINITY);
    for (int axis = 0; axis < 2; axis++) {
        a = k.a;
        a.q.shape[axis] = a.o.shape[axis] = a.lse.shape[axis == 1 ? 2 : 0] = 0;
        if (axis == 0)
            a.k.shape[0] = a.v.shape[0] = 0;
        a.q.data = a.o.data = a.lse.data = NULL;
        run(&a, 1);
    }
    call_free(&k);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    config c = plain(5, 6, 8);
    c.mask_rank = 2;
    c.pre = c.next = 3;
    call k = call_new(&c);
    c.layout = ZOE_LAYOUT_TND;
    c.mask_rank = 0;
    c.B = 2;
    call packed = call_new(&c);
    give_lengths(&packed);
    c.layout = ZOE_LAYOUT_BSH;
    call fused = call_new(&c);
    zoe_context *ctx = zoe_context_new(1);
    zoe_workspace work = workspace_new(zoe_fused_infer_attention_score_workspace(ctx, &k.a) +
                                       zoe_fused_infer_attention_score_workspace(ctx, &packed.a));
    int64_t lengths[2] = {7, 1};
    fused_args a;
#define REFUSED(good, change, word)                                                                \
    a = good.a;                                                                                    \
    change;                                                                                        \
    assert_refused(ctx, zoe_fused_infer_attention_score(ctx, &a, work), ZOE_INVALID, word)
    REFUSED(k, a.layout = (zoe_attention_layout)10, "layout is 10");
    REFUSED(k, a.sparse_mode = (zoe_attention_sparse)5, "sparse_mode is 5");
    REFUSED(k, a.heads = 3, "heads is 3, but q has 2");
    REFUSED(k, a.kv_heads = 4, "2 heads cannot share 4");
    REFUSED(k, a.q.dtype = ZOE_I32, "q is i32");
    REFUSED(k, a.k.dtype = ZOE_F16, "k is f16");
    REFUSED(k, a.k.shape[2] = 2, "k is");
    REFUSED(k, a.v.shape[1] = 5, "v is");
    REFUSED(k, a.v.shape[3] = 7, "o is");
    REFUSED(k, a.o.rank = 3, "o is");
    REFUSED(k, a.lse.shape[1] = 1, "lse is");
    REFUSED(k, a.lse_invalid = 1.0f, "lse_invalid");
    REFUSED(k, a.mask.shape[1] = 5, "mask is");
    REFUSED(k, a.mask.rank = 5, "mask is");
    REFUSED(k, a.mask.rank = -1, "mask has rank -1");
    assert_int_equal(zoe_fused_infer_attention_score_workspace(ctx, &a),
                     zoe_fused_infer_attention_score_workspace(ctx, &k.a));
    REFUSED(k, a.mask.dtype = ZOE_F32, "mask is");
    REFUSED(k, a.sparse_mode = ZOE_SPARSE_CAUSAL, "wanted i8, u8 or bool [2048, 2048]");
    REFUSED(k, (a.mask = zoe_tensor_none(), a.sparse_mode = ZOE_SPARSE_MASK), "mask");
    REFUSED(k, a.pre_tokens = -4, "empty");
    REFUSED(k, a.next_tokens = INT64_MIN, "empty");
    REFUSED(k, (a.q_lengths = lengths, a.q_length_count = 1), "q_lengths[0] is 7, wanted 0 to 5");
    REFUSED(k, (a.q_lengths = lengths, a.q_length_count = 0), "there are 0 q_lengths");
    REFUSED(k, a.o = a.q, "o overlaps q");
    REFUSED(k, a.q.stride[3] = 2, "stride");
    REFUSED(packed, a.q_lengths = NULL, "q_lengths is not given");
    REFUSED(packed, a.q_lengths = lengths, "q_lengths[");
    REFUSED(packed, (lengths[0] = 0, lengths[1] = 0, a.kv_lengths = lengths), "wanted all");
    REFUSED(fused, a.heads = 0, "heads is 0");
    REFUSED(fused, a.heads = 5, "no whole number");
#undef REFUSED
    work.bytes = zoe_fused_infer_attention_score_workspace(ctx, &k.a) - 1;
    assert_refused(ctx, zoe_fused_infer_attention_score(ctx, &k.a, work), ZOE_NOMEM, "workspace");
    work.bytes++;
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_fused_infer_attention_score(ctx, &k.a, work), ZOE_CANCELLED,
                   "interrupted");
    free(work.data);
    zoe_context_free(ctx);
    call_free(&k);
    call_free(&packed);
    call_free(&fused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_with_every_mode),
        cmocka_unit_test(longer_sequences),
        cmocka_unit_test(compressed_masks_are_only_looked_at),
        cmocka_unit_test(threads_and_alignment_change_no_byte),
        cmocka_unit_test(fewer_queries_give_the_same_rows),
        cmocka_unit_test(equal_large_scores_weigh_alike),
        cmocka_unit_test(what_is_not_finite_stays_in_its_rows),
        cmocka_unit_test(keys_beyond_the_length_are_not_read),
        cmocka_unit_test(without_keys_or_queries),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
