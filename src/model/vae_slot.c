/* Wan VAE: the plan of a pass: which rows each layer has in each band, and the memory for it.
 *
 * A band is a run of output rows. Going back from it through the layers tells how many rows of each
 * input must have come by then: a 3x3 convolution looks one row further down. Each layer keeps the
 * few rows above that the next band will ask for, so nothing is computed twice and every value is
 * that of the whole frame. Ends are even (or the end of the frame), so that Winograd's squares lie
 * as in the whole. */
#include "model/vae_walk.h"

size_t zoe_vae_height(const vae_layer *layer, size_t H)
{
    switch (layer->kind) {
    case VAE_UP2D:
    case VAE_UP3D: return 2 * H;
    case VAE_DOWN2D:
    case VAE_DOWN3D: return H / 2;
    default: return H;
    }
}

static size_t even(size_t n)
{
    return n + n % 2;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t zoe_vae_middle(const vae_run *run, size_t i, size_t end)
{
    return end == 0 ? 0 : least(run->heights[i], even(end + 1));
}

/* Rows of input that layer i must have for `end` rows of output. */
static size_t wanted(const vae_run *run, size_t i, size_t end)
{
    const size_t H = run->heights[i];
    switch (run->part.net->layers[i].kind) {
    case VAE_CONV:
    case VAE_HEAD: return zoe_vae_middle(run, i, end);
    case VAE_RESIDUAL: return zoe_vae_middle(run, i, zoe_vae_middle(run, i, end));
    case VAE_DOWN2D:
    case VAE_DOWN3D: return least(H, even(2 * end + 1));
    case VAE_UP2D:
    case VAE_UP3D: return least(H, even(end / 2 + 1));
    case VAE_ATTENTION: return H;
    case VAE_LEVEL:
    case VAE_LEVEL_END: break;
    }
    return end;
}

size_t zoe_vae_first_row(const vae_run *run, size_t i, size_t end)
{
    const vae_layer *l = &run->part.net->layers[i];
    if (end == 0)
        return 0;
    switch (l->kind) {
    case VAE_CONV:
    case VAE_HEAD: return end - 1;
    case VAE_DOWN2D:
    case VAE_DOWN3D: return 2 * end;
    case VAE_UP2D:
    case VAE_UP3D: return end / 2 - 1;
    case VAE_LEVEL_END:
        if (l->side_factor < 2)
            return end;
        return zoe_vae_is_up(run, i) ? end / 2 : 2 * end;
    default: return end;
    }
}

bool zoe_vae_is_up(const vae_run *run, size_t i)
{
    const size_t begin = zoe_vae_level_begin(run, i);
    return run->heights[i] > run->heights[begin];
}

size_t zoe_vae_level_begin(const vae_run *run, size_t i)
{
    while (run->part.net->layers[i].kind != VAE_LEVEL)
        i--;
    return i;
}

size_t zoe_vae_level_end(const vae_run *run, size_t i)
{
    while (run->part.net->layers[i].kind != VAE_LEVEL_END)
        i++;
    return i;
}

size_t zoe_vae_run_bands(const vae_run *run)
{
    const size_t H = run->heights[run->part.to], band = run->part.band;
    return band ? H / band + (H % band != 0) : 1;
}

void zoe_vae_run_band(vae_run *run, size_t band)
{
    const vae_part *p = &run->part;
    const size_t H = run->heights[p->to];
    for (size_t i = p->from; i <= p->to; i++)
        run->before[i] = band ? run->ends[i] : 0;
    run->ends[p->to] = p->band ? least(H, (band + 1) * p->band) : H;
    for (size_t i = p->to; i > p->from; i--)
        run->ends[i - 1] = wanted(run, i - 1, run->ends[i]);
    for (size_t i = p->from; i < p->to; i++)
        for (size_t slot = 0; slot < VAE_SLOTS; slot++)
            run->slots[i][slot].count = run->slots[i][slot].seen = 0;
    run->chunk = 0;
}

vae_rows zoe_vae_run_takes(const vae_run *run)
{
    return (vae_rows){run->before[run->part.from], run->ends[run->part.from]};
}

vae_rows zoe_vae_run_gives(const vae_run *run)
{
    return (vae_rows){run->before[run->part.to], run->ends[run->part.to]};
}

/* a * b, or more than can be had. */
static size_t times(size_t a, size_t b)
{
    size_t n;
    return zoe_size_mul(&n, a, b) ? n : SIZE_MAX;
}

static void lay_out(vae_run *run)
{
    zoe_arena *l = &run->arena;
    for (size_t i = 0; i < 3; i++)
        run->buffers[i] = zoe_arena_take(l, run->room, sizeof(float));
    run->kept = zoe_arena_take(l, run->kept_room, sizeof(float));
    run->post.data = zoe_arena_take(l, run->post.room, sizeof(float));
    for (size_t i = run->part.from; i < run->part.to; i++)
        for (size_t slot = 0; slot < VAE_SLOTS; slot++) {
            vae_slot *s = &run->slots[i][slot];
            s->past = zoe_arena_take(l, times(s->past_frames, s->past_room), sizeof(float));
            s->rows =
                zoe_arena_take(l, times(times(s->frames, s->row_room), s->row_size), sizeof(float));
        }
    run->work.data = zoe_arena_take(l, run->work.bytes, 1);
}

/* Sizes of a run: of each band two dry chunks, the first and one in the steady state. */
static zoe_status measure(zoe_context *ctx, vae_run *run)
{
    const vae_part *p = &run->part;
    const size_t C = p->net->layers[p->from].in, bands = zoe_vae_run_bands(run);
    const size_t W = run->widths[p->from];
    for (size_t band = 0; band < bands; band++) {
        zoe_vae_run_band(run, band);
        const vae_rows rows = zoe_vae_run_takes(run);
        for (size_t i = 0; i < 2 && i < p->chunks; i++) {
            const size_t T = i ? p->frames : p->first_frames;
            TRY(zoe_vae_walk(ctx, run,
                             zoe_tensor_4d(NULL, ZOE_F32, T, rows.end - rows.first, W, C)));
        }
    }
    return ZOE_OK;
}

/* The arrays and the plan, without buffers. */
static zoe_status prepare(zoe_context *ctx, vae_run *run, const vae_part *part)
{
    const size_t n = part->net->count + 1;
    void *p;
    *run = (vae_run){.part = *part};
    TRY(zoe_alloc_zero(ctx, &p, n, sizeof *run->slots + 5 * sizeof(size_t), "VAE"));
    run->arrays = p;
    run->slots = p;
    run->scales = (size_t *)(void *)(run->slots + n);
    run->heights = run->scales + n;
    run->widths = run->heights + n;
    run->before = run->widths + n;
    run->ends = run->before + n;
    for (size_t i = part->from; i <= part->to; i++) {
        run->scales[i] = i == part->from
                             ? part->scale
                             : zoe_vae_height(&part->net->layers[i - 1], run->scales[i - 1]);
        const vae_area area = zoe_vae_patch_area(&part->patch, part->patch.rank, run->scales[i]);
        run->heights[i] = area.rows;
        run->widths[i] = area.columns;
    }
    return measure(ctx, run);
}

static void add_traffic(zoe_traffic *sum, const zoe_traffic *t)
{
    if (!sum)
        return;
    sum->sent += t->sent;
    sum->received += t->received;
    sum->exchanges += t->exchanges;
}

size_t zoe_vae_run_bytes(const zoe_context *ctx, const vae_part *part, zoe_traffic *traffic,
                         zoe_traffic *keys)
{
    zoe_context *writable = (zoe_context *)(uintptr_t)ctx;
    vae_run run;
    size_t bytes = SIZE_MAX;
    if (prepare(writable, &run, part) == ZOE_OK) {
        lay_out(&run);
        bytes = run.arena.used;
    }
    add_traffic(traffic, &run.post.traffic);
    add_traffic(keys, &run.post.keys);
    zoe_free(run.arrays);
    return bytes;
}

zoe_status zoe_vae_run_new(zoe_context *ctx, vae_run *run, const vae_part *part)
{
    zoe_status status;
    TRY_GOTO(prepare(ctx, run, part));
    TRY_GOTO(
        zoe_arena_new(ctx, &run->arena, zoe_vae_run_bytes(ctx, part, NULL, NULL), "VAE buffers"));
    lay_out(run);
    run->post.planned = 0;
    TRY_GOTO(zoe_arena_status(ctx, &run->arena, "VAE buffers"));
    zoe_vae_run_band(run, 0);
done:
    if (status != ZOE_OK)
        zoe_vae_run_free(run);
    return status;
}

void zoe_vae_run_free(vae_run *run)
{
    zoe_arena_free(&run->arena);
    zoe_free(run->arrays);
    *run = (vae_run){0};
}
