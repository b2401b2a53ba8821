/* zoe_attention_merge and zoe_attention_update: parts of the keys, joined, are attention over all
 * of them; against double; weights of 0; in place. */
#include "op_case.h"

enum { N = 3, D = 300, L = 70, PARTS = 3 };

typedef struct parts {
    zoe_tensor outs[PARTS], lses[PARTS], o, lse; /* [N, L, D], [N, L, 1] */
} parts;

static zoe_tensor rows_new(zoe_dtype dtype, size_t width)
{
    const zoe_tensor t = tensor_new(dtype, (size_t)N * L, width, 0);
    return zoe_tensor_3d(t.data, dtype, N, L, width);
}

static parts parts_new(zoe_dtype in, zoe_dtype out)
{
    parts p = {.o = rows_new(out, D), .lse = rows_new(ZOE_F32, 1)};
    for (size_t i = 0; i < PARTS; i++) {
        p.outs[i] = rows_new(in, D);
        p.lses[i] = rows_new(ZOE_F32, 1);
        for (size_t m = 0; m < (size_t)N * L; m++)
            ((float *)p.lses[i].data)[m] = 20.0f * noise();
    }
    return p;
}

static void parts_free(parts *p)
{
    tensor_free(p->o);
    tensor_free(p->lse);
    for (size_t i = 0; i < PARTS; i++) {
        tensor_free(p->outs[i]);
        tensor_free(p->lses[i]);
    }
}

static zoe_attention_merge_args merge_args(const parts *p)
{
    return (zoe_attention_merge_args){
        .o = p->o, .lse = p->lse, .parts = PARTS, .outs = p->outs, .lses = p->lses};
}

static void merge(const zoe_attention_merge_args *a, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    if (zoe_attention_merge(ctx, a) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    zoe_context_free(ctx);
}

static double number(zoe_tensor t, size_t m, size_t d)
{
    return (double)zoe_load_f32(t.data, t.dtype, m * t.shape[2] + d);
}

/* Row m of the merge against double; parts with an infinite lse do not count. */
static void check_row(const parts *p, size_t m, double invalid)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < PARTS; i++)
        if (!isinf(number(p->lses[i], m, 0)))
            top = fmax(top, number(p->lses[i], m, 0));
    for (size_t i = 0; i < PARTS; i++)
        if (!isinf(number(p->lses[i], m, 0)))
            sum += exp(number(p->lses[i], m, 0) - top);
    for (size_t d = 0; d < D; d++) {
        double o = 0.0;
        for (size_t i = 0; i < PARTS; i++)
            if (!isinf(number(p->lses[i], m, 0)))
                o += number(p->outs[i], m, d) * exp(number(p->lses[i], m, 0) - top) / sum;
        assert_near(p->o.dtype, number(p->o, m, d), o, 1.0, 4e-7);
    }
    if (sum == 0.0)
        assert_true(number(p->lse, m, 0) == invalid);
    else
        assert_near(ZOE_F32, number(p->lse, m, 0), top + log(sum), 1.0, 2e-7);
}

static void merge_against_double(void **state)
{
    static const zoe_dtype types[] = {ZOE_F32, ZOE_BF16};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        parts p = parts_new(types[i % 2], types[i / 2]);
        const zoe_attention_merge_args a = merge_args(&p);
        merge(&a, 1 + (int)i % 3);
        for (size_t m = 0; m < (size_t)N * L; m++)
            check_row(&p, m, -INFINITY);
        parts_free(&p);
    }
}

static void parts_without_weight_are_not_read(void **state)
{
    (void)state;
    parts p = parts_new(ZOE_F32, ZOE_F32);
    for (size_t m = 0; m < (size_t)N * L; m++)
        for (size_t i = 0; i < PARTS; i++)
            if (m >> i & 1) {
                ((float *)p.lses[i].data)[m] = pick(2) ? INFINITY : -INFINITY;
                ((float *)p.outs[i].data)[m * D + 5] = NAN;
            }
    zoe_attention_merge_args a = merge_args(&p);
    a.lse_invalid = INFINITY;
    merge(&a, 2);
    for (size_t m = 0; m < (size_t)N * L; m++)
        check_row(&p, m, INFINITY);
    assert_true(((float *)p.o.data)[7 * D] == 0.0f); /* row 7: no part at all */
    ((float *)p.lses[1].data)[0] = NAN;
    merge(&a, 1);
    assert_true(isnan(((float *)p.o.data)[0]) && isnan(((float *)p.lse.data)[0]));
    assert_true(!isnan(((float *)p.o.data)[D]));
    parts_free(&p);
}

static void merge_in_place_and_with_threads_is_the_same(void **state)
{
    (void)state;
    parts p = parts_new(ZOE_F32, ZOE_F32);
    zoe_attention_merge_args a = merge_args(&p);
    merge(&a, 1);
    a.o = p.outs[1];
    a.lse = p.lses[2];
    merge(&a, 3);
    assert_memory_equal(a.o.data, p.o.data, zoe_tensor_bytes(p.o));
    assert_memory_equal(a.lse.data, p.lse.data, zoe_tensor_bytes(p.lse));
    parts_free(&p);
}

/* Attention over all keys in one call, and over three runs of keys. */
static void merged_parts_are_the_whole(void **state)
{
    (void)state;
    enum { KEYS = 250, WIDTH = 32 };
    static const size_t ends[PARTS + 1] = {0, 30, 190, KEYS};
    zoe_context *ctx = zoe_context_new(2);
    const zoe_tensor q = tensor_new(ZOE_F32, L, N * WIDTH, 0);
    const zoe_tensor k = tensor_new(ZOE_F32, KEYS, N * WIDTH, 0);
    const zoe_tensor v = tensor_new(ZOE_F32, KEYS, N * WIDTH, 0);
    zoe_tensor o[PARTS + 2], lse[PARTS + 2], views[PARTS];
    for (size_t i = 0; i < PARTS + 2; i++) {
        const size_t shape[4] = {1, L, N, WIDTH};
        o[i] = zoe_tensor_of(tensor_new(ZOE_F32, L, N * WIDTH, 0).data, ZOE_F32, 4, shape);
        lse[i] = zoe_tensor_4d(vector_new((size_t)L * N).data, ZOE_F32, 1, N, L, 1);
        if (i > PARTS)
            continue;
        const size_t from = i < PARTS ? ends[i] : 0, keys = i < PARTS ? ends[i + 1] - from : KEYS;
        const zoe_fused_infer_attention_score_args a = {
            .o = o[i],
            .lse = lse[i],
            .q = zoe_tensor_4d(q.data, ZOE_F32, 1, L, N, WIDTH),
            .k = zoe_tensor_4d((float *)k.data + from * N * WIDTH, ZOE_F32, 1, keys, N, WIDTH),
            .v = zoe_tensor_4d((float *)v.data + from * N * WIDTH, ZOE_F32, 1, keys, N, WIDTH),
            .layout = ZOE_LAYOUT_BSND,
            .scale = 0.3f};
        zoe_workspace work = workspace_new(zoe_fused_infer_attention_score_workspace(ctx, &a));
        assert_int_equal(zoe_fused_infer_attention_score(ctx, &a, work), ZOE_OK);
        free(work.data);
    }
    for (size_t i = 0; i < PARTS + 2; i++) { /* [1, L, N, D] seen as [1, N, L, D] */
        const zoe_tensor t = o[i];
        o[i].shape[1] = N;
        o[i].shape[2] = L;
        o[i].stride[1] = t.stride[2];
        o[i].stride[2] = t.stride[1];
        if (i < PARTS)
            views[i] = o[i];
    }
    const zoe_attention_merge_args a = {
        .o = o[PARTS + 1], .lse = lse[PARTS + 1], .parts = PARTS, .outs = views, .lses = lse};
    merge(&a, 2);
    const float *got = o[PARTS + 1].data, *want = o[PARTS].data;
    for (size_t i = 0; i < (size_t)L * N * WIDTH; i++)
        assert_near(ZOE_F32, (double)got[i], (double)want[i], 1.0, 2e-6);
    for (size_t i = 0; i < (size_t)L * N; i++)
        assert_near(ZOE_F32, (double)((float *)lse[PARTS + 1].data)[i],
                    (double)((float *)lse[PARTS].data)[i], 1.0, 2e-6);
    for (size_t i = 0; i < PARTS + 2; i++) {
        tensor_free(o[i]);
        tensor_free(lse[i]);
    }
    tensor_free(q);
    tensor_free(k);
    tensor_free(v);
    zoe_context_free(ctx);
}

/* ---- with maximum and sum apart ---- */

enum { COPIES = 8 };

static zoe_tensor numbers_new(float low, float high)
{
    zoe_tensor t = rows_new(ZOE_F32, COPIES);
    float *p = t.data;
    for (size_t i = 0; i < (size_t)N * L * COPIES; i += COPIES)
        p[i] = low + (high - low) * (0.5f + 0.5f * noise()); /* the others are not read */
    return t;
}

static zoe_attention_update_args update_new(void)
{
    return (zoe_attention_update_args){.o = rows_new(ZOE_F32, D),
                                       .max = numbers_new(0.0f, 1.0f),
                                       .sum = numbers_new(0.0f, 1.0f),
                                       .prev_o = rows_new(ZOE_F32, D),
                                       .prev_max = numbers_new(-5.0f, 5.0f),
                                       .prev_sum = numbers_new(1.0f, 50.0f),
                                       .cur_o = rows_new(ZOE_BF16, D),
                                       .cur_max = numbers_new(-5.0f, 5.0f),
                                       .cur_sum = numbers_new(1.0f, 50.0f)};
}

static void update_free(zoe_attention_update_args *a)
{
    const zoe_tensor all[] = {a->o,        a->max,   a->sum,     a->prev_o, a->prev_max,
                              a->prev_sum, a->cur_o, a->cur_max, a->cur_sum};
    for (size_t i = 0; i < 9; i++)
        tensor_free(all[i]);
}

static void update(const zoe_attention_update_args *a, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    if (zoe_attention_update(ctx, a) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    zoe_context_free(ctx);
}

static void update_against_double(void **state)
{
    (void)state;
    zoe_attention_update_args a = update_new();
    float *prev_max = a.prev_max.data, *cur_max = a.cur_max.data, *cur_sum = a.cur_sum.data;
    prev_max[1 * COPIES] = -INFINITY;
    cur_max[2 * COPIES] = INFINITY;
    cur_sum[3 * COPIES] = 0.0f;
    prev_max[4 * COPIES] = cur_max[4 * COPIES] = -INFINITY;
    ((float *)a.prev_o.data)[1 * D + 8] = NAN;
    ((float *)a.prev_o.data)[4 * D + 8] = NAN;
    update(&a, 2);
    for (size_t m = 0; m < (size_t)N * L; m++) {
        const double maxima[2] = {number(a.prev_max, m, 0), number(a.cur_max, m, 0)};
        const bool first = m != 1 && m != 4, second = m < 2 || m > 4;
        double top = -INFINITY;
        top = first ? fmax(top, maxima[0]) : top;
        top = second ? fmax(top, maxima[1]) : top;
        const double w0 = first ? number(a.prev_sum, m, 0) * exp(maxima[0] - top) : 0.0;
        const double w1 = second ? number(a.cur_sum, m, 0) * exp(maxima[1] - top) : 0.0;
        for (size_t i = 0; i < COPIES; i++) {
            assert_true(number(a.max, m, i) == top);
            assert_near(ZOE_F32, number(a.sum, m, i), w0 + w1, 1.0, 1e-7);
        }
        for (size_t d = 0; d < D; d++) {
            const double o = (first ? number(a.prev_o, m, d) * w0 / (w0 + w1) : 0.0) +
                             (second ? number(a.cur_o, m, d) * w1 / (w0 + w1) : 0.0);
            assert_near(ZOE_F32, number(a.o, m, d), o, 1.0, 4e-7);
        }
    }
    zoe_attention_update_args in_place = a;
    in_place.o = a.prev_o;
    in_place.max = a.prev_max;
    in_place.sum = a.prev_sum;
    update(&in_place, 1);
    assert_memory_equal(in_place.o.data, a.o.data, zoe_tensor_bytes(a.o));
    assert_memory_equal(in_place.max.data, a.max.data, zoe_tensor_bytes(a.max));
    assert_memory_equal(in_place.sum.data, a.sum.data, zoe_tensor_bytes(a.sum));
    update_free(&a);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    parts p = parts_new(ZOE_F32, ZOE_F32);
    zoe_attention_update_args u = update_new();
    zoe_context *ctx = zoe_context_new(1);
    const zoe_attention_merge_args good = merge_args(&p);
    zoe_attention_merge_args a;
    zoe_attention_update_args b;
#define REFUSED(change, word)                                                                      \
    a = good;                                                                                      \
    b = u;                                                                                         \
    change;                                                                                        \
    assert_refused(ctx, zoe_attention_merge(ctx, &a), ZOE_INVALID, word)
    REFUSED(a.parts = 0, "there are no parts");
    REFUSED(a.outs = NULL, "there are no parts");
    REFUSED(a.o.rank = 1, "o has rank 1");
    REFUSED(a.o.dtype = ZOE_I32, "o is i32");
    REFUSED(a.o.shape[2] = 7, "outs[0] is");
    REFUSED(a.lse.shape[2] = 2, "lse is");
    REFUSED(a.lses = p.outs, "lses[0] is");
    REFUSED(a.lse_invalid = 3.0f, "lse_invalid is 3");
    REFUSED(a.o.data = (float *)p.outs[1].data + 1, "o overlaps outs[1]");
    REFUSED(a.lse.data = (float *)p.lses[2].data + 1, "lse overlaps lses[2]");
#undef REFUSED
#define REFUSED(change, word)                                                                      \
    b = u;                                                                                         \
    change;                                                                                        \
    assert_refused(ctx, zoe_attention_update(ctx, &b), ZOE_INVALID, word)
    REFUSED(b.cur_o.shape[0] = 1, "cur_o is");
    REFUSED(b.max.shape[2] = 1, "prev_max is");
    REFUSED(b.sum.dtype = ZOE_F16, "sum is");
    REFUSED(b.max = b.cur_sum, "max overlaps cur_sum");
    REFUSED(b.sum = b.max, "max overlaps sum");
    REFUSED((b.max.shape[2] = b.sum.shape[2] = b.prev_max.shape[2] = b.prev_sum.shape[2] = 0,
             b.cur_max.shape[2] = b.cur_sum.shape[2] = 0),
            "no copies");
#undef REFUSED
    a = good;
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_attention_merge(ctx, &a), ZOE_CANCELLED, "interrupted");
    zoe_context_free(ctx);
    parts_free(&p);
    update_free(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_against_double),
        cmocka_unit_test(parts_without_weight_are_not_read),
        cmocka_unit_test(merge_in_place_and_with_threads_is_the_same),
        cmocka_unit_test(merged_parts_are_the_whole),
        cmocka_unit_test(update_against_double),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
