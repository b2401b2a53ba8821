/* Weights in int8: each row quantised, rows packed into panels that the kernels read front to back. */
#include "device/cpu/int8.h"

typedef struct sizes {
    size_t panels, groups, panel_bytes, panel_scales, bytes, scales;
} sizes;

/* false: more than can be addressed. */
static bool sizes_of(sizes *s, size_t N, size_t K, size_t group)
{
    size_t fours, both;
    s->panels = zoe_ceil_div(N, ZOE_PANEL);
    s->groups = int8_groups(K, group);
    fours = zoe_ceil_div(K, 4);
    return zoe_size_mul(&s->panel_bytes, fours, 4 * (size_t)ZOE_PANEL) &&
           zoe_size_mul(&s->bytes, s->panel_bytes, s->panels) &&
           zoe_size_mul(&s->panel_scales, s->groups, ZOE_PANEL) &&
           zoe_size_product(&s->scales, (size_t[]){s->panel_scales, s->panels, sizeof(float)}, 3) &&
           zoe_size_add(&both, s->bytes, s->scales) &&
           zoe_size_add(&both, both, sizeof(int8_packed));
}

size_t zoe_cpu_int8_weights_bytes(size_t N, size_t K, size_t group)
{
    sizes s;
    return sizes_of(&s, N, K, group) ? s.bytes + s.scales + sizeof(int8_packed) : SIZE_MAX;
}

typedef struct packing {
    int8_packed *packed;
    zoe_tensor w;
    unsigned char *work; /* of each worker a row, widened and quantised, and its scales */
    size_t worker_bytes;
} packing;

/* Row r of w, quantised. */
static const int8_t *quantised_row(const packing *p, size_t r, unsigned char *work, float **scale)
{
    const zoe_int8_weights *head = &p->packed->head;
    const zoe_kernels *k = zoe_kernels_get();
    float *row = (float *)work;
    *scale = row + zoe_arena_bytes(head->K, sizeof(float)) / sizeof(float);
    int8_t *q =
        (int8_t *)(*scale + zoe_arena_bytes(p->packed->groups, sizeof(float)) / sizeof(float));
    if (p->w.dtype == ZOE_I8) {
        for (size_t g = 0; g < p->packed->groups; g++)
            (*scale)[g] = 1.0f;
        return zoe_row(p->w, r, 0);
    }
    if (p->w.scaling)
        zoe_tensor_widen(row, p->w, r * head->K, head->K);
    else
        zoe_row_widen(k, row, zoe_row(p->w, r, 0), p->w.dtype, head->K);
    zoe_cpu_int8_quantise_row(k, q, *scale, row, head->K, head->group, row);
    return q;
}

static void pack_panel(void *arg, size_t i, size_t worker)
{
    const packing *p = arg;
    const int8_packed *to = p->packed;
    const size_t K = to->head.K, first = i * ZOE_PANEL;
    int8_t *panel = to->panels + i * to->panel_bytes;
    float *scales = to->scales + i * to->panel_scales;
    memset(panel, 0, to->panel_bytes);
    memset(scales, 0, to->panel_scales * sizeof *scales);
    for (size_t j = 0; j < zoe_min(ZOE_PANEL, to->head.N - first); j++) {
        float *scale;
        const int8_t *q = quantised_row(p, first + j, p->work + worker * p->worker_bytes, &scale);
        for (size_t at = 0; at < K; at += 4)
            memcpy(panel + at * ZOE_PANEL + 4 * j, q + at, zoe_min(4, K - at));
        for (size_t g = 0; g < to->groups; g++)
            scales[g * ZOE_PANEL + j] = scale[g];
    }
}

static zoe_status check_finite(zoe_context *ctx, const int8_packed *p)
{
    const size_t panels = zoe_ceil_div(p->head.N, ZOE_PANEL);
    for (size_t i = 0; i < panels * p->panel_scales; i++)
        if (!isfinite(p->scales[i]))
            return zoe_fail(ctx, ZOE_NONFINITE, "int8 weights: row %zu holds NaN or inf",
                            i / p->panel_scales * ZOE_PANEL + i % ZOE_PANEL);
    return ZOE_OK;
}

zoe_status zoe_cpu_int8_weights_new(zoe_context *ctx, zoe_int8_weights **packed, zoe_tensor w,
                                    size_t group)
{
    static const char what[] = "int8 weights";
    const size_t N = w.shape[0], K = w.shape[1];
    void *self = NULL, *panels = NULL, *scales = NULL, *work = NULL;
    zoe_status status;
    sizes s;
    if (!sizes_of(&s, N, K, group))
        return zoe_fail(ctx, ZOE_NOMEM, "int8 weights: more than memory can address");
    packing job = {.w = w};
    job.worker_bytes = zoe_arena_bytes(K, sizeof(float)) +
                       zoe_arena_bytes(s.groups, sizeof(float)) + zoe_arena_bytes(K, 1);
    TRY_GOTO(zoe_alloc(ctx, &self, 1, sizeof(int8_packed), what));
    TRY_GOTO(zoe_alloc(ctx, &panels, s.bytes, 1, what));
    TRY_GOTO(zoe_alloc(ctx, &scales, s.scales, 1, what));
    TRY_GOTO(zoe_alloc(ctx, &work, (size_t)zoe_context_threads(ctx), job.worker_bytes, what));
    job.packed = self;
    job.work = work;
    *job.packed = (int8_packed){
        .head = {.device = &zoe_device_cpu, .N = N, .K = K, .group = group},
        .groups = s.groups,
        .panel_bytes = s.panel_bytes,
        .panel_scales = s.panel_scales,
        .panels = panels,
        .scales = scales,
    };
    zoe_parallel_for(ctx, s.panels, pack_panel, &job);
    status = check_finite(ctx, job.packed);
done:
    zoe_free(work);
    if (status == ZOE_OK) {
        *packed = self;
        return ZOE_OK;
    }
    zoe_free(scales);
    zoe_free(panels);
    zoe_free(self);
    return status;
}

void zoe_cpu_int8_weights_free(zoe_int8_weights *packed)
{
    int8_packed *p = (int8_packed *)packed;
    zoe_free(p->scales);
    zoe_free(p->panels);
    zoe_free(p);
}
