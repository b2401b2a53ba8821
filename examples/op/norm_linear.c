/* The operators without the engine: y = gelu(rms_norm(x) w^T + bias), compared with plain loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <zoetrope/op.h>

/* Rows (M), width of a row (K), outputs of a row (N). */
enum { M = 33, K = 96, N = 50 };
static const float eps = 1e-6f;

static float x[M * K], weight[K], w[N * K], bias[N], normed[M * K], y[M * N];

static void fill(float *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f; /* -1 .. 1 */
    }
}

/* What the two operators mean. */
static double wanted(size_t m, size_t n)
{
    double squares = 0.0, sum = (double)bias[n];
    for (size_t k = 0; k < K; k++)
        squares += (double)x[m * K + k] * (double)x[m * K + k];
    const double rstd = 1.0 / sqrt(squares / K + (double)eps);
    for (size_t k = 0; k < K; k++)
        sum += (double)x[m * K + k] * rstd * (double)weight[k] * (double)w[n * K + k];
    return 0.5 * sum * (1.0 + erf(sum / sqrt(2.0)));
}

static zoe_status run(zoe_context *ctx)
{
    const zoe_rms_norm_args norm = {.y = zoe_tensor_2d(normed, ZOE_F32, M, K),
                                    .x = zoe_tensor_2d(x, ZOE_F32, M, K),
                                    .gamma = zoe_tensor_1d(weight, ZOE_F32, K),
                                    .eps = eps};
    zoe_status status = zoe_rms_norm(ctx, &norm);
    if (status != ZOE_OK)
        return status;

    const zoe_linear_args linear = {.y = zoe_tensor_2d(y, ZOE_F32, M, N),
                                    .x = zoe_tensor_2d(normed, ZOE_F32, M, K),
                                    .w = zoe_tensor_2d(w, ZOE_F32, N, K),
                                    .bias = zoe_tensor_1d(bias, ZOE_F32, N),
                                    .activation = ZOE_ACT_GELU_ERF};
    /* Scratch memory is the caller's: asked for once, used for as many calls as it suits. */
    const size_t bytes = (zoe_linear_workspace(ctx, &linear) + 63) / 64 * 64;
    zoe_workspace work = {.data = bytes ? aligned_alloc(64, bytes) : NULL, .bytes = bytes};
    if (bytes && !work.data)
        return ZOE_NOMEM;
    status = zoe_linear(ctx, &linear, work);
    free(work.data);
    return status;
}

int main(void)
{
    fill(x, M * K, 1);
    fill(weight, K, 2);
    fill(w, N * K, 3);
    fill(bias, N, 4);
    zoe_context *ctx = zoe_context_new(0);
    if (!ctx) {
        fputs("no memory\n", stderr);
        return 1;
    }
    const zoe_status status = run(ctx);
    if (status != ZOE_OK)
        fprintf(stderr, "%s: %s\n", zoe_status_name(status), zoe_context_message(ctx));
    zoe_context_free(ctx);
    if (status != ZOE_OK)
        return 1;

    double worst = 0.0;
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            const double error = fabs((double)y[m * N + n] - wanted(m, n));
            if (!(error <= worst))
                worst = isnan(error) ? INFINITY : error;
        }
    printf("largest difference from plain loops: %.2g\n", worst);
    return worst < 1e-5 ? 0 : 1;
}
