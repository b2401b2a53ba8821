/* Times zoe_conv3d on the shapes of the Wan VAEs and of the demo model, beside the machine's fused
 * multiply-add peak.
 *
 *   bench_conv [threads] [seconds a case] [word in the case's name]
 * ZOE_CPU=c gives the plain kernels, which are some 20 times slower: ask for "demo" alone.
 *
 * One line a case: best time, GFLOP/s of the multiplications that the result needs, and their share
 * of the peak measured in the same run on the same number of threads. Time is that of the calling
 * thread's cpu with one thread, so other load on the machine does not count, and wall time with
 * more. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "zoetrope/op.h"

typedef struct bench_case {
    const char *name;
    size_t T, H, W, Cin, Cout, kernel[3];
    size_t past, front; /* frames */
    size_t step;        /* in space, 2: downsample */
    bool upsample, residual;
} bench_case;

static const bench_case cases[] = {
    {"causal 3x3x3", 4, 60, 104, 384, 384, {3, 3, 3}, 2, 0, 1, false, true},
    {"causal 3x3x3", 4, 120, 208, 192, 192, {3, 3, 3}, 2, 0, 1, false, true},
    {"causal 3x3x3", 4, 240, 416, 96, 96, {3, 3, 3}, 2, 0, 1, false, true},
    {"causal 3x3x3", 1, 60, 104, 1024, 1024, {3, 3, 3}, 2, 0, 1, false, true},
    {"first frame", 1, 60, 104, 384, 384, {3, 3, 3}, 0, 2, 1, false, true},
    {"upsample 3x3", 4, 120, 208, 192, 96, {1, 3, 3}, 0, 0, 1, true, false},
    {"downsample 3x3", 4, 240, 416, 96, 96, {1, 3, 3}, 0, 0, 2, false, false},
    {"time 3x1x1", 2, 60, 104, 384, 768, {3, 1, 1}, 2, 0, 1, false, false},
    {"shortcut 1x1x1", 4, 120, 208, 192, 384, {1, 1, 1}, 0, 0, 1, false, false},
    {"in 3 channels", 4, 240, 416, 3, 96, {3, 3, 3}, 2, 0, 1, false, false},
    {"out 3 channels", 4, 240, 416, 96, 3, {3, 3, 3}, 2, 0, 1, false, false},
    {"demo", 4, 8, 8, 64, 64, {3, 3, 3}, 2, 0, 1, false, true},
    {"demo", 4, 16, 16, 32, 32, {3, 3, 3}, 2, 0, 1, false, true},
    {"demo", 4, 64, 64, 16, 16, {3, 3, 3}, 2, 0, 1, false, true},
    {"demo", 1, 8, 8, 16, 16, {3, 3, 3}, 0, 2, 1, false, false},
};

static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t count)
{
    void *p;
    if (zoe_alloc(NULL, &p, count, sizeof(float), "bench") != ZOE_OK)
        exit(1);
    for (size_t i = 0; i < count; i++)
        ((float *)p)[i] = (float)(i * 2654435761u % 1000u) * 1e-3f - 0.5f;
    return p;
}

#if defined(__x86_64__) && defined(__GNUC__)
enum { CHAINS = 12, LANES = 8 };

/* Chains of dependent fused operations, enough of them to hide the latency; assembly, so that
 * nothing is merged. */
__attribute__((target("avx2,fma"))) static void fused_task(void *arg, size_t i, size_t worker)
{
    size_t n = *(const size_t *)arg;
    (void)i, (void)worker;
#define CHAIN(k) "vfmadd213ps %%ymm13, %%ymm12, %%ymm" #k "\n\t"
    __asm__ volatile("vxorps %%ymm12, %%ymm12, %%ymm12\n\tvxorps %%ymm13, %%ymm13, %%ymm13\n\t"
                     "1:\n\t" CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6)
                         CHAIN(7) CHAIN(8) CHAIN(9) CHAIN(10) CHAIN(11) "dec %0\n\tjnz 1b\n\t"
                     : "+r"(n)
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "cc");
}

static double peak(const zoe_context *ctx)
{
    const int threads = zoe_context_threads(ctx);
    size_t n = 20000000;
    double best = 0;
    for (int repeat = 0; repeat < 5; repeat++) {
        const double start = now(threads);
        zoe_parallel_for(ctx, (size_t)threads, fused_task, &n);
        const double rate = 2e-9 * CHAINS * LANES * (double)n * threads / (now(threads) - start);
        best = rate > best ? rate : best;
    }
    return best;
}
#else
static double peak(const zoe_context *ctx)
{
    (void)ctx;
    return 0;
}
#endif

static void run(zoe_context *ctx, const bench_case *c, double seconds, double limit)
{
    const int threads = zoe_context_threads(ctx);
    const size_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2], scale = c->upsample ? 2 : 1;
    const size_t H = c->H * scale / c->step, W = c->W * scale / c->step;
    const size_t T = c->T + c->past + c->front - c->kernel[0] + 1, outputs = T * H * W * c->Cout;
    const size_t frame = c->H * c->W * c->Cin, side = c->step == 1 && c->kernel[1] == 3;
    float *x = take((c->past + c->T) * frame), *w = take(c->Cout * c->Cin * taps);
    float *y = take(outputs), *bias = take(c->Cout);
    zoe_conv_weights *packed = NULL;
    const size_t shape[] = {c->Cout, c->Cin, c->kernel[0], c->kernel[1], c->kernel[2]};
    zoe_status status = zoe_conv_weights_new(ctx, &packed, zoe_tensor_of(w, ZOE_F32, 5, shape),
                                             zoe_tensor_1d(bias, ZOE_F32, c->Cout));
    zoe_conv3d_args args = {
        .y = zoe_tensor_4d(y, ZOE_F32, T, H, W, c->Cout),
        .x = zoe_tensor_4d(x + c->past * frame, ZOE_F32, c->T, c->H, c->W, c->Cin),
        .weights = packed,
        .pad_front = c->front,
        .pad_top = side,
        .pad_left = side,
        .pad_bottom = side || c->step == 2,
        .pad_right = side || c->step == 2,
        .stride_t = 1,
        .stride_h = c->step,
        .stride_w = c->step,
        .upsample = c->upsample,
    };
    if (c->past)
        args.past = zoe_tensor_4d(x, ZOE_F32, c->past, c->H, c->W, c->Cin);
    if (c->residual)
        args.residual = args.y;
    zoe_workspace work = {.bytes = status == ZOE_OK ? zoe_conv3d_workspace(ctx, &args) : 0};
    work.data = take(work.bytes / sizeof(float) + 1);
    double best = 1e30;
    const double begin = now(threads);
    do {
        const double start = now(threads);
        if (status == ZOE_OK)
            status = zoe_conv3d(ctx, &args, work);
        const double time = now(threads) - start;
        best = time < best ? time : best;
    } while (status == ZOE_OK && now(threads) - begin < seconds);
    if (status != ZOE_OK) {
        fprintf(stderr, "%s: %s\n", c->name, zoe_context_message(ctx));
        exit(1);
    }
    /* Frames before the timeline cost nothing: for output frame t, front - t of the kt taps are
     * left out. */
    double frames = 0;
    for (size_t t = 0; t < T; t++)
        frames += (double)(c->kernel[0] - (c->front > t ? c->front - t : 0)) / (double)c->kernel[0];
    const double work_done =
        2e-9 * frames * (double)(H * W) * (double)c->Cout * (double)c->Cin * (double)taps;
    printf("%-15s %4zu > %4zu  [%zu, %3zu, %3zu]  %9.3f ms  %7.1f GFLOP/s  %3.0f %%\n", c->name,
           c->Cin, c->Cout, T, H, W, 1e3 * best, work_done / best,
           limit > 0 ? 100 * work_done / best / limit : 0.0);
    fflush(stdout);
    zoe_conv_weights_free(packed);
    zoe_free(x), zoe_free(w), zoe_free(y), zoe_free(bias), zoe_free(work.data);
}

int main(int argc, char **argv)
{
    zoe_context *ctx = zoe_context_new(argc > 1 ? atoi(argv[1]) : 1);
    const double seconds = argc > 2 ? atof(argv[2]) : 1;
    if (!ctx)
        return 1;
    const double limit = zoe_cpu_isa() >= ZOE_ISA_AVX2 ? peak(ctx) : 0;
    printf("%s kernels, %d threads, fused multiply-add peak %.1f GFLOP/s\n",
           zoe_isa_name(zoe_cpu_isa()), zoe_context_threads(ctx), limit);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 4 || strstr(cases[i].name, argv[3]))
            run(ctx, &cases[i], seconds, limit);
    zoe_context_free(ctx);
    return 0;
}
