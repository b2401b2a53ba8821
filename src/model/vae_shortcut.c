/* Wan 2.2 VAE: the way around a level, without weights.
 * Source: Wan2.2 wan/modules/vae2_2.py, classes AvgDown3D and DupUp3D. */
#include "model/vae.h"

typedef struct shortcut {
    zoe_tensor y, kept;
    size_t y_first, kept_first; /* rows of the whole frame */
    size_t frames, side;        /* factors */
    size_t skip; /* averaging: zero frames before the first; repeating: frames left out */
} shortcut;

static float *row_of(zoe_tensor t, size_t frame, size_t row)
{
    return (float *)t.data + (ptrdiff_t)frame * t.stride[0] + (ptrdiff_t)row * t.stride[1];
}

/* The kept channels c, frame offsets a, row offsets i and column offsets j of each position are one
 * list, in this order; its consecutive groups of `group` are averaged into one channel. */
static void add_average(void *arg, size_t row, size_t worker)
{
    const shortcut *a = arg;
    const size_t *out = a->y.shape, C = a->kept.shape[3], side = a->side;
    const size_t t = row / out[1], y = (row % out[1] + a->y_first) * side - a->kept_first;
    const size_t group = C * a->frames * side * side / out[3];
    float *to = row_of(a->y, t, row % out[1]);
    (void)worker;
    for (size_t x = 0; x < out[2]; x++)
        for (size_t o = 0; o < out[3]; o++) {
            float sum = 0.0f;
            for (size_t v = o * group; v < (o + 1) * group; v++) {
                const size_t frame = t * a->frames + v / (side * side) % a->frames;
                const size_t c = v / (a->frames * side * side);
                if (frame < a->skip)
                    continue;
                const float *kept = row_of(a->kept, frame - a->skip, y + v / side % side);
                sum += kept[(x * side + v % side) * C + c];
            }
            to[x * out[3] + o] += sum / (float)group;
        }
}

/* The mirror image: each kept channel is repeated over a group of (channel, frame, row, column)
 * offsets. */
static void add_repeated(void *arg, size_t row, size_t worker)
{
    const shortcut *a = arg;
    const size_t *out = a->y.shape, C = a->kept.shape[3], side = a->side;
    const size_t t = row / out[1] + a->skip, y = row % out[1] + a->y_first;
    const size_t group = out[3] * a->frames * side * side / C;
    const float *kept = row_of(a->kept, t / a->frames, y / side - a->kept_first);
    float *to = row_of(a->y, row / out[1], row % out[1]);
    (void)worker;
    for (size_t x = 0; x < out[2]; x++)
        for (size_t o = 0; o < out[3]; o++) {
            const size_t v = ((o * a->frames + t % a->frames) * side + y % side) * side + x % side;
            to[x * out[3] + o] += kept[x / side * C + v / group];
        }
}

void zoe_vae_add_kept(const zoe_context *ctx, const vae_layer *level, zoe_tensor y, size_t y_first,
                      zoe_tensor kept, size_t kept_first, bool up, bool first_chunk)
{
    shortcut a = {.y = y,
                  .kept = kept,
                  .y_first = y_first,
                  .kept_first = kept_first,
                  .frames = level->frame_factor,
                  .side = level->side_factor};
    if (!up)
        a.skip = (a.frames - kept.shape[0] % a.frames) % a.frames;
    else
        a.skip = first_chunk ? a.frames - 1 : 0;
    zoe_parallel_for(ctx, y.shape[0] * y.shape[1], up ? add_repeated : add_average, &a);
}
