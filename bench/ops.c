/* Operators, one line a case: operator, shape, milliseconds (median), rate, and the rate of the
 * plain C definitions of the same case (with fewer rows) as its fraction.
 *
 *   bench_ops [--threads N] [--no-c] [word ...]
 *
 * Words choose the cases whose names contain one of them. With one thread, times are the processor
 * time that the thread got, so that other work on the machine spoils them little; with more they
 * are wall times. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "zoetrope/op.h"

enum { MOST_CASES = 64, REPEATS = 7 };

typedef enum kind {
    LINEAR,
    ATTENTION,
    LAYER_NORM,
    RMS_NORM,
    RMS_NORM_ROPE,
    L2_NORM,
    ACTIVATE,
    GEGLU,
    CAST
} kind;

/* M rows (queries), N columns (heads), K (keys), D width; types of x, w and y. */
typedef struct bench_case {
    const char *name;
    kind kind;
    size_t M, N, K, D;
    zoe_dtype x, w, y;
    zoe_activation activation;
} bench_case;

static const bench_case cases[] = {
    {"linear f32", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_F32, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w bf16", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w f16", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_F16, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w e4m3", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_F8_E4M3, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q8_0", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q8_0, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q4_0", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q4_0, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q5_1", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q5_1, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q2_k", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q2_K, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q3_k", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q3_K, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q4_k", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q4_K, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 w q6_k", LINEAR, 4096, 1536, 1536, 0, ZOE_F32, ZOE_Q6_K, ZOE_F32, ZOE_ACT_NONE},
    {"linear bf16", LINEAR, 4096, 1536, 1536, 0, ZOE_BF16, ZOE_BF16, ZOE_BF16, ZOE_ACT_NONE},
    {"linear f32 gelu", LINEAR, 1560, 8960, 1536, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_GELU_TANH},
    {"linear f32 deep", LINEAR, 1560, 1536, 8960, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"linear f32 wide", LINEAR, 1560, 5120, 5120, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"linear 1 row w f32", LINEAR, 1, 5120, 5120, 0, ZOE_F32, ZOE_F32, ZOE_F32, ZOE_ACT_NONE},
    {"linear 1 row w bf16", LINEAR, 1, 5120, 5120, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"linear 1 row w q8_0", LINEAR, 1, 5120, 5120, 0, ZOE_F32, ZOE_Q8_0, ZOE_F32, ZOE_ACT_NONE},
    {"linear 1 row w q4_k", LINEAR, 1, 5120, 5120, 0, ZOE_F32, ZOE_Q4_K, ZOE_F32, ZOE_ACT_NONE},
    {"linear 8 rows w bf16", LINEAR, 8, 5120, 5120, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"linear 64 rows w bf16", LINEAR, 64, 5120, 5120, 0, ZOE_F32, ZOE_BF16, ZOE_F32, ZOE_ACT_NONE},
    {"attention f32", ATTENTION, 1560, 12, 1560, 128, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"attention f32 long", ATTENTION, 4096, 4, 4096, 128, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"attention bf16 long", ATTENTION, 4096, 4, 4096, 128, ZOE_BF16, 0, ZOE_BF16, ZOE_ACT_NONE},
    {"attention f32 cross", ATTENTION, 1560, 12, 512, 128, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"layer_norm f32", LAYER_NORM, 8192, 0, 0, 5120, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"layer_norm bf16", LAYER_NORM, 8192, 0, 0, 5120, ZOE_BF16, 0, ZOE_BF16, ZOE_ACT_NONE},
    {"layer_norm f32 short", LAYER_NORM, 4680, 0, 0, 1536, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"rms_norm f32", RMS_NORM, 8192, 0, 0, 5120, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"rms_norm bf16", RMS_NORM, 8192, 0, 0, 5120, ZOE_BF16, 0, ZOE_BF16, ZOE_ACT_NONE},
    {"rms_norm_rope f32", RMS_NORM_ROPE, 4680, 0, 0, 1536, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"rms_norm_rope bf16", RMS_NORM_ROPE, 4680, 0, 0, 1536, ZOE_BF16, 0, ZOE_BF16, ZOE_ACT_NONE},
    {"l2_norm silu", L2_NORM, 99840, 0, 0, 96, ZOE_F32, 0, ZOE_F32, ZOE_ACT_SILU},
    {"silu f32", ACTIVATE, 1560, 0, 0, 8960, ZOE_F32, 0, ZOE_F32, ZOE_ACT_SILU},
    {"gelu_tanh f32", ACTIVATE, 1560, 0, 0, 8960, ZOE_F32, 0, ZOE_F32, ZOE_ACT_GELU_TANH},
    {"gelu_erf f32", ACTIVATE, 1560, 0, 0, 8960, ZOE_F32, 0, ZOE_F32, ZOE_ACT_GELU_ERF},
    {"geglu f32", GEGLU, 512, 0, 0, 10240, ZOE_F32, 0, ZOE_F32, ZOE_ACT_NONE},
    {"geglu bf16", GEGLU, 512, 0, 0, 10240, ZOE_BF16, 0, ZOE_BF16, ZOE_ACT_NONE},
    {"cast bf16 f32", CAST, 4096, 0, 0, 4096, ZOE_BF16, 0, ZOE_F32, ZOE_ACT_NONE},
    {"cast f32 bf16", CAST, 4096, 0, 0, 4096, ZOE_F32, 0, ZOE_BF16, ZOE_ACT_NONE},
};
static const size_t case_count = sizeof cases / sizeof *cases;

static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(zoe_context *ctx, zoe_status status)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "bench_ops: %s\n", zoe_context_message(ctx));
    exit(1);
}

/* A tensor of values between -1 and 1. */
static zoe_tensor filled(zoe_context *ctx, zoe_dtype dtype, size_t n0, size_t n1)
{
    void *p;
    static uint32_t state = 1;
    const size_t bytes = zoe_run_bytes(dtype, n0 * n1);
    must(ctx, zoe_alloc(ctx, &p, bytes, 1, "benchmark"));
    if (zoe_block_elements(dtype) > 1) { /* bytes that keep every f16 field small */
        for (size_t i = 0; i < bytes; i++) {
            state = state * 1664525u + 1013904223u;
            ((uint8_t *)p)[i] = state >> 24 & 0x37;
        }
        return zoe_tensor_2d(p, dtype, n0, n1);
    }
    for (size_t i = 0; i < n0 * n1; i++) {
        state = state * 1664525u + 1013904223u;
        const float v = (float)(state >> 8) * 0x1p-23f - 1.0f;
        if (zoe_dtype_bytes(dtype) == 1)
            ((uint8_t *)p)[i] = (uint8_t)((state >> 24) % 0x38 | (state >> 9 & 0x80));
        else
            zoe_store_f32(p, dtype, i, v);
    }
    return zoe_tensor_2d(p, dtype, n0, n1);
}

static zoe_tensor heads(zoe_tensor t, size_t N, size_t D)
{
    return zoe_tensor_3d(t.data, t.dtype, t.shape[0], N, D);
}

typedef struct operands {
    zoe_tensor y, x, a, b, c;
    zoe_workspace work;
} operands;

static zoe_tensor vector(zoe_tensor t)
{
    return zoe_tensor_1d(t.data, t.dtype, zoe_tensor_count(t));
}

static zoe_linear_args linear_args(const bench_case *c, const operands *o)
{
    return (zoe_linear_args){
        .y = o->y, .x = o->x, .w = o->a, .bias = vector(o->b), .activation = c->activation};
}

static zoe_attention_args attention_args(const bench_case *c, const operands *o)
{
    return (zoe_attention_args){.o = heads(o->y, c->N, c->D),
                                .q = heads(o->x, c->N, c->D),
                                .k = heads(o->a, c->N, c->D),
                                .v = heads(o->b, c->N, c->D),
                                .scale = 1.0f / sqrtf((float)c->D),
                                .last_count = 1};
}

static void make_operands(zoe_context *ctx, const bench_case *c, operands *o)
{
    void *p = NULL;
    *o = (operands){.a = zoe_tensor_none()};
    if (c->kind == LINEAR) {
        o->y = filled(ctx, c->y, c->M, c->N);
        o->x = filled(ctx, c->x, c->M, c->K);
        o->a = filled(ctx, c->w, c->N, c->K);
        o->b = filled(ctx, ZOE_F32, 1, c->N);
        const zoe_linear_args args = linear_args(c, o);
        o->work.bytes = zoe_linear_workspace(ctx, &args);
    } else if (c->kind == ATTENTION) {
        o->y = filled(ctx, c->y, c->M, c->N * c->D);
        o->x = filled(ctx, c->x, c->M, c->N * c->D);
        o->a = filled(ctx, c->x, c->K, c->N * c->D);
        o->b = filled(ctx, c->x, c->K, c->N * c->D);
        const zoe_attention_args args = attention_args(c, o);
        o->work.bytes = zoe_attention_workspace(ctx, &args);
    } else {
        o->y = filled(ctx, c->y, c->M, c->D);
        o->x = filled(ctx, c->x, c->M, c->D);
        o->a = filled(ctx, c->kind == GEGLU ? c->x : ZOE_F32, c->kind == GEGLU ? c->M : 1, c->D);
        o->b = filled(ctx, ZOE_F32, c->kind == RMS_NORM_ROPE ? c->M : 1,
                      c->kind == RMS_NORM_ROPE ? 64 : c->D);
        o->c = filled(ctx, ZOE_F32, c->kind == RMS_NORM_ROPE ? c->M : 1,
                      c->kind == RMS_NORM_ROPE ? 64 : c->D);
    }
    must(ctx, zoe_alloc(ctx, &p, o->work.bytes, 1, "workspace"));
    o->work.data = p;
}

static void free_operands(operands *o)
{
    zoe_free(o->y.data);
    zoe_free(o->x.data);
    zoe_free(o->a.data);
    zoe_free(o->b.data);
    zoe_free(o->c.data);
    zoe_free(o->work.data);
}

static zoe_status run_case(zoe_context *ctx, const bench_case *c, const operands *o)
{
    switch (c->kind) {
    case LINEAR: {
        const zoe_linear_args args = linear_args(c, o);
        return zoe_linear(ctx, &args, o->work);
    }
    case ATTENTION: {
        const zoe_attention_args args = attention_args(c, o);
        return zoe_attention(ctx, &args, o->work);
    }
    case LAYER_NORM: {
        const zoe_layer_norm_args args = {
            .y = o->y, .x = o->x, .scale = vector(o->b), .shift = vector(o->c), .eps = 1e-6f};
        return zoe_layer_norm(ctx, &args);
    }
    case RMS_NORM: return zoe_rms_norm(ctx, o->y, o->x, vector(o->a), 1e-6f);
    case RMS_NORM_ROPE: return zoe_rms_norm_rope(ctx, o->y, o->x, vector(o->a), 1e-6f, o->b, o->c);
    case L2_NORM: return zoe_l2_norm(ctx, o->y, o->x, vector(o->a), true);
    case ACTIVATE: return zoe_activate(ctx, o->y, o->x, c->activation);
    case GEGLU: return zoe_geglu(ctx, o->y, o->x, o->a);
    case CAST: return zoe_cast(ctx, o->y, o->x);
    }
    return ZOE_INTERNAL;
}

/* Floating-point operations of a product, else bytes read and written once. */
static double work_of(const bench_case *c)
{
    const double M = (double)c->M, N = (double)c->N, K = (double)c->K, D = (double)c->D;
    if (c->kind == LINEAR)
        return 2.0 * M * N * K;
    if (c->kind == ATTENTION)
        return 4.0 * M * N * K * D;
    const double read = (c->kind == GEGLU ? 2.0 : 1.0) * (double)zoe_dtype_bytes(c->x);
    return M * D * (read + (double)zoe_dtype_bytes(c->y));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a call; short calls are repeated until they take a millisecond. */
static double measure(zoe_context *ctx, const bench_case *c, int repeats)
{
    operands o;
    double seconds[REPEATS];
    const int threads = zoe_context_threads(ctx);
    make_operands(ctx, c, &o);
    must(ctx, run_case(ctx, c, &o));
    double begin = now(threads);
    must(ctx, run_case(ctx, c, &o));
    const double once = now(threads) - begin;
    const int calls = once > 2e-3 ? 1 : (int)(2e-3 / (once + 1e-7)) + 1;
    for (int r = 0; r < repeats; r++) {
        begin = now(threads);
        for (int i = 0; i < calls; i++)
            must(ctx, run_case(ctx, c, &o));
        seconds[r] = (now(threads) - begin) / calls;
    }
    free_operands(&o);
    qsort(seconds, (size_t)repeats, sizeof *seconds, by_value);
    return seconds[repeats / 2];
}

/* Rates of the definitions, found by a child that has no guests. */
static void measure_definitions(double *rates, const bool *chosen)
{
    int ends[2];
    if (pipe(ends) != 0)
        return;
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        setenv("ZOE_CPU", "c", 1);
        zoe_context *ctx = zoe_context_new(1);
        for (size_t i = 0; i < case_count && ctx; i++) {
            bench_case c = cases[i];
            const size_t most = c.kind == LINEAR || c.kind == ATTENTION ? 24 : 256;
            c.M = c.M < most ? c.M : most;
            const double rate = chosen[i] ? work_of(&c) / measure(ctx, &c, 1) : 0.0;
            if (write(ends[1], &rate, sizeof rate) != (ssize_t)sizeof rate)
                break;
        }
        _exit(0);
    }
    close(ends[1]);
    for (size_t i = 0; i < case_count && child > 0; i++)
        if (read(ends[0], &rates[i], sizeof rates[i]) != (ssize_t)sizeof rates[i])
            break;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void report(zoe_context *ctx, const bench_case *c, double c_rate)
{
    const double seconds = measure(ctx, c, REPEATS), rate = work_of(c) / seconds;
    char shape[64];
    if (c->kind == LINEAR)
        snprintf(shape, sizeof shape, "%zux%zux%zu", c->M, c->N, c->K);
    else if (c->kind == ATTENTION)
        snprintf(shape, sizeof shape, "%zux%zu N%zu D%zu", c->M, c->K, c->N, c->D);
    else
        snprintf(shape, sizeof shape, "%zux%zu", c->M, c->D);
    printf("%-22s %-18s %9.3f ms  %7.2f %s", c->name, shape, seconds * 1e3, rate * 1e-9,
           c->kind <= ATTENTION ? "GFLOP/s" : "GB/s   ");
    if (c_rate > 0.0)
        printf("  C: %.4f", c_rate / rate);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int threads = 1, words = 0;
    bool with_c = true, chosen[MOST_CASES] = {false};
    double c_rates[MOST_CASES] = {0.0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--no-c") == 0)
            with_c = false;
        else {
            words++;
            for (size_t n = 0; n < case_count; n++)
                chosen[n] = chosen[n] || strstr(cases[n].name, argv[i]);
        }
    }
    for (size_t n = 0; n < case_count && words == 0; n++)
        chosen[n] = true;
    if (with_c)
        measure_definitions(c_rates, chosen);
    zoe_context *ctx = zoe_context_new(threads);
    if (!ctx)
        return 1;
    printf("threads %d, kernels %s\n", zoe_context_threads(ctx), zoe_isa_name(zoe_cpu_isa()));
    for (size_t n = 0; n < case_count; n++)
        if (chosen[n])
            report(ctx, &cases[n], c_rates[n]);
    zoe_context_free(ctx);
    return 0;
}
