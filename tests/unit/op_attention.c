/* zoe_attention against a plain evaluation in double, and the equalities that it promises. */
#include "op_case.h"

typedef struct config {
    size_t Lq, Lk, N, D;
    zoe_dtype dtype;
    bool bias, round_scores;
    size_t last_count;
    int threads;
    bool fused; /* q, k, v are columns of one buffer */
} config;

static zoe_tensor heads(zoe_tensor t, size_t N, size_t D)
{
    zoe_tensor h = zoe_tensor_3d(t.data, t.dtype, t.shape[0], N, D);
    h.stride[0] = t.stride[0];
    return h;
}

static void *offset(zoe_tensor t, size_t elements)
{
    return (char *)t.data + elements * zoe_dtype_bytes(t.dtype);
}

static zoe_attention_args args_new(const config *c)
{
    zoe_attention_args a = {.scale = 1.0f / sqrtf((float)c->D),
                            .last_count = c->last_count,
                            .round_scores = c->round_scores,
                            .bias = zoe_tensor_none()};
    const size_t width = c->N * c->D, L = c->Lq > c->Lk ? c->Lq : c->Lk;
    a.o = heads(tensor_new(c->dtype, c->Lq, width, 0), c->N, c->D);
    if (c->fused) {
        const zoe_tensor all = tensor_new(c->dtype, L, 3 * width, 0);
        a.q = a.k = a.v = heads(all, c->N, c->D);
        a.q.stride[0] = a.k.stride[0] = a.v.stride[0] = (ptrdiff_t)(3 * width);
        a.q.shape[0] = c->Lq;
        a.k.shape[0] = a.v.shape[0] = c->Lk;
        a.k.data = offset(all, width);
        a.v.data = offset(all, 2 * width);
    } else {
        a.q = heads(tensor_new(c->dtype, c->Lq, width, 0), c->N, c->D);
        a.k = heads(tensor_new(c->dtype, c->Lk, width, 0), c->N, c->D);
        a.v = heads(tensor_new(c->dtype, c->Lk, width, 0), c->N, c->D);
    }
    if (c->bias)
        a.bias = tensor_new(ZOE_F32, c->N, c->Lq + c->Lk - 1, 2);
    return a;
}

static void args_free(const config *c, zoe_attention_args a)
{
    tensor_free(a.o);
    tensor_free(a.q);
    if (!c->fused) {
        tensor_free(a.k);
        tensor_free(a.v);
    }
    tensor_free(a.bias);
}

static void run(const zoe_attention_args *a, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    zoe_workspace work = workspace_new(zoe_attention_workspace(ctx, a));
    if (zoe_attention(ctx, a, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    free(work.data);
    zoe_context_free(ctx);
}

static float at(zoe_tensor t, size_t l, size_t n, size_t d)
{
    return zoe_load_f32(t.data, t.dtype, l * (size_t)t.stride[0] + n * (size_t)t.stride[1] + d);
}

/* The weights of query i for all keys; the logarithm of their sum is given back. */
static double weights_of(const zoe_attention_args *a, size_t n, size_t i, double *p)
{
    const size_t Lq = a->q.shape[0], Lk = a->k.shape[0];
    const bool round = a->round_scores;
    double max = -INFINITY, sum = 0.0;
    for (size_t j = 0; j < Lk; j++) {
        double s = 0.0;
        for (size_t d = 0; d < a->q.shape[2]; d++)
            s += (double)at(a->q, i, n, d) * (double)at(a->k, j, n, d);
        s = bf16_if(round, s * (double)a->scale);
        if (a->bias.dtype != ZOE_NONE)
            s = bf16_if(round, s + (double)value_at(a->bias, n, j + Lq - 1 - i));
        if (j == Lk - 1)
            s += log((double)a->last_count);
        p[j] = s;
        max = fmax(max, s);
    }
    for (size_t j = 0; j < Lk; j++)
        sum += p[j] = exp(p[j] - max);
    for (size_t j = 0; j < Lk; j++)
        p[j] = bf16_if(round, p[j] / sum);
    return max + log(sum);
}

static void check_config(const config *c)
{
    zoe_attention_args a = args_new(c);
    double *p = malloc(c->Lk * sizeof *p);
    const zoe_tensor lse = tensor_new(ZOE_F32, c->Lq, c->N, 3);
    if (!c->round_scores)
        a.lse = heads(lse, c->N, 1);
    run(&a, c->threads);
    assert_gaps_untouched(lse);
    /* a score that falls just beyond a tie is rounded the other way: a whole unit of bf16, for all
     * weights */
    const double tolerance = c->round_scores ? 0.02 : 4e-6;
    for (size_t n = 0; n < c->N; n++)
        for (size_t i = 0; i < c->Lq; i++) {
            const double sum = weights_of(&a, n, i, p);
            if (!c->round_scores)
                assert_near(ZOE_F32, (double)value_at(lse, i, n), sum, 1.0, 1e-6);
            for (size_t d = 0; d < c->D; d++) {
                double o = 0.0;
                for (size_t j = 0; j < c->Lk; j++)
                    o += p[j] * (double)at(a.v, j, n, d);
                assert_near(c->dtype, (double)at(a.o, i, n, d), o, 1.0, tolerance);
            }
        }
    free(p);
    tensor_free(lse);
    args_free(c, a);
}

static void every_pair_of_lengths(void **state)
{
    static const size_t lengths[] = {1, 2, 17, 63, 64, 65, 257}, widths[] = {24, 64, 128};
    (void)state;
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++) {
            const config c = {.Lq = lengths[i],
                              .Lk = lengths[j],
                              .N = 1 + pick(2),
                              .D = widths[pick(3)],
                              .dtype = pick(2) ? ZOE_F32 : ZOE_BF16,
                              .bias = pick(2),
                              .round_scores = pick(3) == 0,
                              .last_count = 1 + pick(2) * 100,
                              .threads = 2,
                              .fused = pick(2)};
            check_config(&c);
        }
}

static void odd_widths(void **state)
{
    static const size_t widths[] = {1, 2, 7, 15, 17, 80, 131, 192};
    (void)state;
    for (size_t i = 0; i < 8; i++)
        for (int round = 0; round < 2; round++) {
            const config c = {.Lq = 20,
                              .Lk = 150,
                              .N = 2,
                              .D = widths[i],
                              .dtype = ZOE_F32,
                              .last_count = 1,
                              .bias = round,
                              .threads = 1,
                              .fused = round};
            check_config(&c);
        }
}

static void many_keys_with_whole_rows(void **state)
{
    (void)state;
    const config c = {.Lq = 40,
                      .Lk = 5000,
                      .N = 1,
                      .D = 16,
                      .dtype = ZOE_BF16,
                      .bias = true,
                      .round_scores = true,
                      .last_count = 1,
                      .threads = 2};
    check_config(&c);
}

static void a_key_that_counts_often_is_that_many_keys(void **state)
{
    (void)state;
    enum { KEYS = 9, COUNT = 300, D = 32 };
    const config c = {
        .Lq = 7, .Lk = KEYS - 1 + COUNT, .N = 1, .D = D, .dtype = ZOE_F32, .last_count = 1};
    zoe_attention_args a = args_new(&c);
    float *k = a.k.data, *v = a.v.data, wanted[7 * D];
    for (size_t j = KEYS; j < c.Lk; j++) {
        memcpy(k + j * D, k + (KEYS - 1) * D, D * sizeof *k);
        memcpy(v + j * D, v + (KEYS - 1) * D, D * sizeof *v);
    }
    run(&a, 1);
    memcpy(wanted, a.o.data, sizeof wanted);
    a.k.shape[0] = a.v.shape[0] = KEYS;
    a.last_count = COUNT;
    run(&a, 1);
    for (size_t i = 0; i < 7 * D; i++)
        assert_near(ZOE_F32, (double)((float *)a.o.data)[i], (double)wanted[i], 1.0, 4e-6);
    args_free(&c, a);
}

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
    (void)state;
    const config c = {.Lq = 200, .Lk = 300, .N = 3, .D = 40, .dtype = ZOE_F32, .last_count = 1};
    zoe_attention_args a = args_new(&c);
    const zoe_tensor first = a.o;
    run(&a, 1);
    for (int threads = 2; threads <= 3; threads++) {
        a.o = heads(tensor_new(ZOE_F32, c.Lq, c.N * c.D, 0), c.N, c.D);
        run(&a, threads);
        assert_memory_equal(a.o.data, first.data, c.Lq * c.N * c.D * sizeof(float));
        tensor_free(a.o);
    }
    a.o = first;
    args_free(&c, a);
}

static void extreme_scores(void **state)
{
    (void)state;
    const config c = {.Lq = 3, .Lk = 200, .N = 1, .D = 16, .dtype = ZOE_F32, .last_count = 1};
    zoe_attention_args a = args_new(&c);
    float *q = a.q.data, *k = a.k.data;
    for (size_t i = 0; i < 3 * 16; i++)
        q[i] = 100.0f;
    for (size_t i = 0; i < 200 * 16; i++)
        k[i] = 100.0f; /* all scores 160000: uniform weights */
    run(&a, 1);
    for (size_t d = 0; d < 16; d++) {
        double mean = 0.0;
        for (size_t j = 0; j < 200; j++)
            mean += (double)at(a.v, j, 0, d) / 200.0;
        assert_near(ZOE_F32, (double)at(a.o, 1, 0, d), mean, 1.0, 2e-6);
    }
    /* the first block of keys is at -inf: it has no weight */
    for (size_t j = 0; j < 140; j++)
        k[j * 16] = -INFINITY;
    run(&a, 1);
    for (size_t d = 0; d < 16; d++) {
        double mean = 0.0;
        for (size_t j = 140; j < 200; j++)
            mean += (double)at(a.v, j, 0, d) / 60.0;
        assert_near(ZOE_F32, (double)at(a.o, 1, 0, d), mean, 1.0, 2e-6);
    }
    for (size_t i = 0; i < 3 * 16; i += 16) /* no key has weight */
        q[i] = INFINITY;
    float sums[3];
    for (size_t j = 0; j < 200; j++)
        k[j * 16] = -INFINITY;
    a.lse = zoe_tensor_3d(sums, ZOE_F32, 3, 1, 1);
    run(&a, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_true(sums[i] == -INFINITY);
        assert_true(at(a.o, i, 0, 3) == 0.0f);
        q[i * 16] = 100.0f;
    }
    a.lse = zoe_tensor_none();
    for (size_t j = 0; j < 200; j++)
        k[j * 16] = 100.0f;
    /* a NaN in a query is in its row only, one in a key is everywhere */
    q[16 + 3] = NAN;
    run(&a, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(!!isnan(at(a.o, i, 0, 5)), i == 1);
    k[150 * 16] = NAN;
    run(&a, 1);
    for (size_t i = 0; i < 3; i++)
        assert_true(isnan(at(a.o, i, 0, 5)));
    args_free(&c, a);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const config c = {
        .Lq = 3, .Lk = 4, .N = 2, .D = 8, .dtype = ZOE_F32, .bias = true, .last_count = 1};
    const zoe_attention_args good = args_new(&c);
    zoe_context *ctx = zoe_context_new(1);
    zoe_workspace work = workspace_new(zoe_attention_workspace(ctx, &good));
    float sums[6];
    zoe_attention_args a;
#define REFUSED(change, status, word)                                                              \
    a = good;                                                                                      \
    change;                                                                                        \
    assert_refused(ctx, zoe_attention(ctx, &a, work), status, word)
    REFUSED(a.q.dtype = ZOE_I32, ZOE_INVALID, "q is i32");
    REFUSED(a.k.dtype = ZOE_BF16, ZOE_INVALID, "k is bf16 [4, 2, 8], wanted f32 [any, 2, 8]");
    REFUSED(a.k.shape[1] = 1, ZOE_INVALID, "k is");
    REFUSED(a.v.shape[0] = 5, ZOE_INVALID, "v is");
    REFUSED(a.o.shape[2] = 9, ZOE_INVALID, "o is");
    REFUSED(a.k.shape[0] = a.v.shape[0] = 0, ZOE_INVALID, "no keys");
    REFUSED(a.bias.shape[1] = 7, ZOE_INVALID, "bias is f32 [2, 7], wanted f32 [2, 6] or none");
    REFUSED(a.last_count = 0, ZOE_INVALID, "last_count");
    REFUSED(a.o = a.q, ZOE_INVALID, "o overlaps q");
    REFUSED(a.lse = zoe_tensor_3d(a.bias.data, ZOE_F32, 3, 1, 1), ZOE_INVALID, "lse is");
    REFUSED(a.lse = zoe_tensor_3d(a.bias.data, ZOE_F32, 3, 2, 1), ZOE_INVALID, "lse overlaps bias");
    REFUSED((a.lse = zoe_tensor_3d(sums, ZOE_F32, 3, 2, 1), a.round_scores = true), ZOE_INVALID,
            "rounded scores");
    REFUSED(a.q.stride[1] = 0, ZOE_INVALID, "q has stride 0");
    work.bytes -= 1;
    REFUSED((void)0, ZOE_NOMEM, "workspace");
    work.bytes += 1;
    zoe_cancel(ctx);
    REFUSED((void)0, ZOE_CANCELLED, "interrupted");
#undef REFUSED
    a = good;
    a.q.shape[0] = a.o.shape[0] = 0; /* nothing to do, also when cancelled */
    assert_int_equal(zoe_attention(ctx, &a, work), ZOE_OK);
    free(work.data);
    zoe_context_free(ctx);
    args_free(&c, good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_lengths),
        cmocka_unit_test(odd_widths),
        cmocka_unit_test(many_keys_with_whole_rows),
        cmocka_unit_test(a_key_that_counts_often_is_that_many_keys),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(extreme_scores),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
