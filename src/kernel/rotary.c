/* Rotary position embedding of one head: the definition. */
#include "kernel/kernel.h"

static float trig_at(const void *table, const zoe_rotation *r, size_t i)
{
    const float v = zoe_load_f32(table, r->trig, i);
    return r->cast == ZOE_BF16  ? zoe_bf16_round(v)
           : r->cast == ZOE_F16 ? zoe_f32_of_f16(zoe_f16_of_f32(v))
                                : v;
}

static void rotate_c(void *y, const void *x, const void *cosines, const void *sines,
                     const zoe_rotation *r, size_t width)
{
    const size_t half = width / 2;
    for (size_t j = 0; j < half; j++) {
        const size_t first = r->half ? j : 2 * j, second = r->half ? j + half : 2 * j + 1;
        const size_t one = r->full ? first : j, two = r->full ? second : j;
        const float a = zoe_load_f32(x, r->x, first), b = zoe_load_f32(x, r->x, second);
        zoe_store_f32(y, r->y, first, a * trig_at(cosines, r, one) - b * trig_at(sines, r, one));
        zoe_store_f32(y, r->y, second, b * trig_at(cosines, r, two) + a * trig_at(sines, r, two));
    }
}

void zoe_kernels_fill_rotary_c(zoe_kernels *k)
{
    k->rotate = rotate_c;
}
