/* umT5 and the Wan transformer on weights that a formula makes, against numbers that the official code gave for them. Needs no
 * files, so it also shows that a model can be opened without a config. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"

/* Element i of tensor n: offset + amplitude * sin(...), in f64, rounded once. */
static float formula(size_t i, size_t n, double offset, double amplitude)
{
    const double x =
        0.7 * (double)i + 1.3 * (double)n + 0.001 * (double)(i % 97) * (double)(i % 89);
    return (float)(offset + amplitude * sin(x));
}

static float *values(zoe_context *ctx, size_t count, size_t n, double offset, double amplitude)
{
    void *p;
    assert_int_equal(zoe_alloc(ctx, &p, count, sizeof(float), "values"), ZOE_OK);
    for (size_t i = 0; i < count; i++)
        ((float *)p)[i] = formula(i, n, offset, amplitude);
    return p;
}

typedef struct list {
    zoe_context *ctx;
    zoe_named_tensor tensors[96];
    size_t count;
} list;

static void add(list *l, const char *name, int rank, const size_t *extents)
{
    char *copy;
    assert_true(l->count < sizeof l->tensors / sizeof *l->tensors);
    assert_int_equal(zoe_strdup(l->ctx, &copy, name), ZOE_OK);
    l->tensors[l->count++] = (zoe_named_tensor){copy, zoe_tensor_of(NULL, ZOE_F32, rank, extents)};
}

static void add1(list *l, const char *name, size_t n)
{
    add(l, name, 1, &n);
}

static void add2(list *l, const char *name, size_t rows, size_t columns)
{
    add(l, name, 2, (const size_t[]){rows, columns});
}

static void add_linear(list *l, const char *name, size_t out, size_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    add2(l, full, out, in);
    snprintf(full, sizeof full, "%s.bias", name);
    add1(l, full, out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zoe_named_tensor *)a)->name, ((const zoe_named_tensor *)b)->name);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

typedef void amplitude_fn(const char *name, double *offset, double *amplitude);

/* Fills by the rule: tensor n is the n-th by name; writes a file and opens it. */
static zoe_store *make_store(list *l, amplitude_fn *rule)
{
    char path[] = "/tmp/zoe_model_XXXXXX";
    zoe_store *store;
    qsort(l->tensors, l->count, sizeof *l->tensors, by_name);
    for (size_t n = 0; n < l->count; n++) {
        zoe_tensor *t = &l->tensors[n].tensor;
        double fan_in = 1.0, offset = 0.0;
        for (int i = 1; i < t->rank; i++)
            fan_in *= (double)t->shape[i];
        double amplitude = 1.0 / sqrt(fan_in);
        rule(l->tensors[n].name, &offset, &amplitude);
        t->data = values(l->ctx, zoe_tensor_count(*t), n, offset, amplitude);
    }
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(zoe_safetensors_write(l->ctx, path, l->tensors, l->count, NULL, 0), ZOE_OK);
    assert_int_equal(zoe_store_open(l->ctx, &store, path, ZOE_NAMES_AS_STORED), ZOE_OK);
    unlink(path);
    for (size_t n = 0; n < l->count; n++) {
        zoe_free(l->tensors[n].tensor.data);
        zoe_free((void *)(uintptr_t)l->tensors[n].name);
    }
    return store;
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.8g instead of %.8g", got, want);
}

static void check(const float *got, size_t n, const double *first, size_t n_first,
                  const double *last, size_t n_last, double sum, double squares)
{
    double s = 0.0, q = 0.0;
    for (size_t i = 0; i < n; i++) {
        s += (double)got[i];
        q += (double)got[i] * (double)got[i];
    }
    for (size_t i = 0; i < n_first; i++)
        assert_near((double)got[i], first[i], 3e-6 * (1.0 + fabs(first[i])));
    for (size_t i = 0; i < n_last; i++)
        assert_near((double)got[n - n_last + i], last[i], 3e-6 * (1.0 + fabs(last[i])));
    assert_near(s, sum, 1e-3);
    assert_near(q, squares, 1e-5 * squares);
}

static void transformer_rule(const char *name, double *offset, double *amplitude)
{
    if (ends_with(name, "norm_q.weight") || ends_with(name, "norm_k.weight") ||
        ends_with(name, "norm3.weight")) {
        *offset = 1.0;
        *amplitude = 0.2;
    } else if (ends_with(name, "bias") || strstr(name, "modulation"))
        *amplitude = 0.1;
}

static void add_transformer(list *l, size_t D, size_t ffn, size_t layers)
{
    add(l, "patch_embedding.weight", 5, (const size_t[]){D, 36, 1, 2, 2});
    add1(l, "patch_embedding.bias", D);
    add_linear(l, "text_embedding.0", D, 64);
    add_linear(l, "text_embedding.2", D, D);
    add_linear(l, "time_embedding.0", D, 256);
    add_linear(l, "time_embedding.2", D, D);
    add_linear(l, "time_projection.1", 6 * D, D);
    add_linear(l, "head.head", 64, D);
    add(l, "head.modulation", 3, (const size_t[]){1, 2, D});
    for (size_t i = 0; i < layers; i++) {
        static const char *const parts[] = {"self_attn", "cross_attn"}, *const maps[] = {"q", "k",
                                                                                         "v", "o"};
        char name[96];
        for (size_t p = 0; p < 2; p++) {
            for (size_t m = 0; m < 4; m++) {
                snprintf(name, sizeof name, "blocks.%zu.%s.%s", i, parts[p], maps[m]);
                add_linear(l, name, D, D);
            }
            snprintf(name, sizeof name, "blocks.%zu.%s.norm_q.weight", i, parts[p]);
            add1(l, name, D);
            snprintf(name, sizeof name, "blocks.%zu.%s.norm_k.weight", i, parts[p]);
            add1(l, name, D);
        }
        snprintf(name, sizeof name, "blocks.%zu.norm3.weight", i);
        add1(l, name, D);
        snprintf(name, sizeof name, "blocks.%zu.norm3.bias", i);
        add1(l, name, D);
        snprintf(name, sizeof name, "blocks.%zu.modulation", i);
        add(l, name, 3, (const size_t[]){1, 6, D});
        snprintf(name, sizeof name, "blocks.%zu.ffn.0", i);
        add_linear(l, name, ffn, D);
        snprintf(name, sizeof name, "blocks.%zu.ffn.2", i);
        add_linear(l, name, D, ffn);
    }
}

static void transformer(void **state)
{
    static const double first[] = {0.2353798, 0.6605641, 0.102123, 0.3690428, 0.1712146, 0.5921096};
    static const double last[] = {0.5983788, -1.583955, 0.7423449};
    zoe_context *ctx = *state;
    list l = {.ctx = ctx};
    add_transformer(&l, 256, 512, 2);
    assert_int_equal(l.count, 69);
    zoe_store *store = make_store(&l, transformer_rule);
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    assert_int_equal(zoe_wan_open(ctx, &wan, store, NULL, false), ZOE_OK);
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    assert_int_equal(d->heads, 2);
    assert_int_equal(d->layers, 2);
    assert_int_equal(d->text_len, 512);
    float *x = values(ctx, 16 * 3 * 4 * 6, 101, 0.0, 1.0),
          *y = values(ctx, 20 * 3 * 4 * 6, 102, 0.0, 1.0);
    float *context = values(ctx, 5 * 64, 103, 0.0, 1.0), out[16 * 3 * 4 * 6];
    assert_int_equal(zoe_wan_text_new(ctx, &text, wan, context, 5, NULL), ZOE_OK);
    assert_int_equal(zoe_wan_work_new(ctx, &work, d, false, 3, 4, 6), ZOE_OK);
    assert_int_equal(zoe_wan_forward(ctx, wan, work, out, x, y, text, 937.0, NULL), ZOE_OK);
    check(out, sizeof out / sizeof *out, first, 6, last, 3, 44.403616, 961.33958);

    /* The condition belongs to this model. */
    zoe_context_clear(ctx);
    assert_int_equal(zoe_wan_forward(ctx, wan, work, out, x, NULL, text, 937.0, NULL), ZOE_INVALID);
    zoe_wan_work_free(work);
    assert_int_equal(zoe_wan_work_new(ctx, &work, d, false, 3, 5, 6), ZOE_INVALID);
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    zoe_store_close(store);
    zoe_free(x);
    zoe_free(y);
    zoe_free(context);
}

static void encoder_rule(const char *name, double *offset, double *amplitude)
{
    if (strstr(name, "norm")) {
        *offset = 1.0;
        *amplitude = 0.2;
    } else if (strstr(name, "embedding"))
        *amplitude = 1.0;
}

static void text_encoder(void **state)
{
    static const double first[] = {-0.01438615, 2.242627, 1.047386, -2.904391, -0.01756441};
    static const double last[] = {1.25836, -0.4479711};
    static const int32_t ids[] = {5, 17, 3, 42, 9, 28, 11, 1, 0, 0, 0, 0};
    enum { REAL = 8, PADDED = 12, D = 64 };
    zoe_context *ctx = *state;
    list l = {.ctx = ctx};
    add2(&l, "token_embedding.weight", 50, D);
    add1(&l, "norm.weight", D);
    for (size_t i = 0; i < 2; i++) {
        static const char *const squares[] = {"attn.q", "attn.k", "attn.v", "attn.o"};
        char name[96];
        for (size_t j = 0; j < 4; j++) {
            snprintf(name, sizeof name, "blocks.%zu.%s.weight", i, squares[j]);
            add2(&l, name, D, D);
        }
        snprintf(name, sizeof name, "blocks.%zu.norm1.weight", i);
        add1(&l, name, D);
        snprintf(name, sizeof name, "blocks.%zu.norm2.weight", i);
        add1(&l, name, D);
        snprintf(name, sizeof name, "blocks.%zu.pos_embedding.embedding.weight", i);
        add2(&l, name, 32, 4);
        snprintf(name, sizeof name, "blocks.%zu.ffn.gate.0.weight", i);
        add2(&l, name, 96, D);
        snprintf(name, sizeof name, "blocks.%zu.ffn.fc1.weight", i);
        add2(&l, name, 96, D);
        snprintf(name, sizeof name, "blocks.%zu.ffn.fc2.weight", i);
        add2(&l, name, D, 96);
    }
    zoe_store *store = make_store(&l, encoder_rule);
    zoe_umt5 *umt5;
    float out[PADDED * D], alone[REAL * D];
    assert_int_equal(zoe_umt5_open(ctx, &umt5, store, false), ZOE_OK);
    assert_int_equal(zoe_umt5_encode(ctx, umt5, out, ids, PADDED, REAL, NULL), ZOE_OK);
    check(out, REAL * D, first, 5, last, 2, -3.9893343, 517.26181);
    assert_int_equal(zoe_umt5_encode(ctx, umt5, alone, ids, REAL, REAL, NULL), ZOE_OK);
    check(alone, REAL * D, first, 5, last, 2, -3.9893343, 517.26181);

    const int32_t wrong[] = {5, 50};
    zoe_context_clear(ctx);
    assert_int_equal(zoe_umt5_encode(ctx, umt5, out, wrong, 2, 2, NULL), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "id 50"));
    zoe_umt5_close(umt5);
    zoe_store_close(store);
}

static void buckets(void **state)
{
    static const ptrdiff_t starts[] = {8, 12, 16, 23, 32, 46, 64, 91};
    (void)state;
    for (size_t b = 0; b < 8; b++) {
        assert_int_equal(zoe_umt5_bucket(-starts[b]), 8 + b);
        assert_int_equal(zoe_umt5_bucket(starts[b]), 24 + b);
        assert_int_equal(zoe_umt5_bucket(-(starts[b] - 1)), 7 + b);
    }
    assert_int_equal(zoe_umt5_bucket(0), 0);
    assert_int_equal(zoe_umt5_bucket(1), 17);
    assert_int_equal(zoe_umt5_bucket(PTRDIFF_MAX), 31);
}

/* Cross-attention over repeated rows equals attention over all of them: 5 rows of 512 stand against all 512 given. */
static void padding_counts(void **state)
{
    zoe_context *ctx = *state;
    list l = {.ctx = ctx};
    add_transformer(&l, 128, 96, 1);
    zoe_store *store = make_store(&l, transformer_rule);
    zoe_wan *wan;
    zoe_wan_text *some, *all;
    zoe_wan_work *work;
    void *p;
    enum { CELLS = 2 * 4 * 4 };
    float a[16 * CELLS], b[16 * CELLS];
    assert_int_equal(zoe_wan_open(ctx, &wan, store, NULL, false), ZOE_OK);
    float *x = values(ctx, 16 * CELLS, 1, 0.0, 1.0), *y = values(ctx, 20 * CELLS, 2, 0.0, 1.0);
    assert_int_equal(zoe_alloc_zero(ctx, &p, 512 * 64, sizeof(float), "context"), ZOE_OK);
    for (size_t i = 0; i < 5 * 64; i++)
        ((float *)p)[i] = formula(i, 3, 0.0, 1.0);
    assert_int_equal(zoe_wan_text_new(ctx, &some, wan, p, 5, NULL), ZOE_OK);
    assert_int_equal(zoe_wan_text_new(ctx, &all, wan, p, 512, NULL), ZOE_OK);
    assert_int_equal(zoe_wan_work_new(ctx, &work, zoe_wan_dims_of(wan), false, 2, 4, 4), ZOE_OK);
    assert_int_equal(zoe_wan_forward(ctx, wan, work, a, x, y, some, 500.0, NULL), ZOE_OK);
    assert_int_equal(zoe_wan_forward(ctx, wan, work, b, x, y, all, 500.0, NULL), ZOE_OK);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        assert_near((double)a[i], (double)b[i], 2e-5);
    zoe_wan_work_free(work);
    zoe_wan_text_free(some);
    zoe_wan_text_free(all);
    zoe_wan_close(wan);
    zoe_store_close(store);
    zoe_free(x);
    zoe_free(y);
    zoe_free(p);
}

/* Sequences of more than one chunk, with tails of many lengths: they run, and give the same bytes from one and two threads. */
static void long_sequences(void **state)
{
    static const size_t rows[] = {257, 306, 311, 360, 425, 470, 512, 600}; /* of 4 tokens each */
    zoe_context *ctx = *state, *alone = zoe_context_new(1);
    list l = {.ctx = ctx};
    assert_non_null(alone);
    add_transformer(&l, 128, 96, 1);
    zoe_store *store = make_store(&l, transformer_rule);
    zoe_wan *wan;
    zoe_wan_text *text;
    assert_int_equal(zoe_wan_open(ctx, &wan, store, NULL, false), ZOE_OK);
    float *context = values(ctx, 5 * 64, 3, 0.0, 1.0);
    assert_int_equal(zoe_wan_text_new(ctx, &text, wan, context, 5, NULL), ZOE_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t h = 2 * rows[i], w = 8, cells = h * w;
        zoe_wan_work *work;
        float *x = values(ctx, 16 * cells, 1, 0.0, 1.0), *y = values(ctx, 20 * cells, 2, 0.0, 1.0);
        float *out[2];
        for (size_t j = 0; j < 2; j++) {
            zoe_context *c = j ? alone : ctx;
            out[j] = values(ctx, 16 * cells, 4, 0.0, 1.0);
            assert_int_equal(zoe_wan_work_new(c, &work, zoe_wan_dims_of(wan), false, 1, h, w),
                             ZOE_OK);
            if (zoe_wan_forward(c, wan, work, out[j], x, y, text, 500.0, NULL) != ZOE_OK)
                fail_msg("%zu tokens: %s", 4 * rows[i], zoe_context_message(c));
            zoe_wan_work_free(work);
        }
        assert_memory_equal(out[0], out[1], 16 * cells * sizeof(float));
        for (size_t j = 0; j < 16 * cells; j++)
            assert_true(isfinite(out[0][j]));
        zoe_free(out[0]);
        zoe_free(out[1]);
        zoe_free(x);
        zoe_free(y);
    }
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    zoe_store_close(store);
    zoe_free(context);
    zoe_context_free(alone);
}

/* Opens a small transformer with one tensor more; what is said must hold `words`. */
static void refuse(zoe_context *ctx, const char *name, zoe_status wanted, const char *words)
{
    list l = {.ctx = ctx};
    zoe_wan *wan;
    add_transformer(&l, 128, 32, 1);
    add1(&l, name, 1);
    zoe_store *store = make_store(&l, transformer_rule);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_wan_open(ctx, &wan, store, NULL, false), wanted);
    assert_null(wan);
    if (!strstr(zoe_context_message(ctx), words))
        fail_msg("\"%s\" lacks \"%s\"", zoe_context_message(ctx), words);
    zoe_store_close(store);
}

static void foreign_tensors_are_refused(void **state)
{
    zoe_context *ctx = *state;
    refuse(ctx, "blocks.0.ffn.0.scale_weight", ZOE_UNSUPPORTED, "separate scales");
    refuse(ctx, "scaled_fp8", ZOE_UNSUPPORTED, "scaled_fp8");
    refuse(ctx, "blocks.0.self_attn.q.lora_A.weight", ZOE_UNSUPPORTED, "LoRA");
    refuse(ctx, "blocks.00.ffn.0.weight", ZOE_UNSUPPORTED, "blocks.00");
    refuse(ctx, "something.else", ZOE_UNSUPPORTED, "something.else");
    refuse(ctx, "blocks.2.modulation", ZOE_MISSING, "blocks.1.modulation"); /* a gap */
    refuse(ctx, "vace_blocks.0.before_proj.weight", ZOE_UNSUPPORTED, "VACE");
    refuse(ctx, "img_emb.proj.0.bias", ZOE_MISSING, "img_emb.proj.1.weight");
}

static int set_up(void **state)
{
    *state = zoe_context_new(2);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(transformer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(padding_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_encoder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_sequences, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_tensors_are_refused, set_up, tear_down),
        cmocka_unit_test(buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
