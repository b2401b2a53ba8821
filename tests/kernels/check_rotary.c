/* Rotary position embedding. */
#include "check.h"

void check_rotate(const char *name, zoe_kernel_rotate *c, zoe_kernel_rotate *g, double tolerance)
{
    static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_NONE};
    for (size_t width = 0; width <= 260; width += width < 72 ? 2 : 62)
        for (size_t round = 0; round < 108; round++) {
            const zoe_rotation r = {.x = types[round % 3],
                                    .y = types[round / 3 % 3],
                                    .trig = types[round / 9 % 3],
                                    .cast = types[1 + random_word() % 3],
                                    .half = round / 27 % 2,
                                    .full = round / 54,
                                    .stream = random_word() % 2};
            const size_t angles = r.full ? width : width / 2;
            guarded x = typed_values(r.x, width, round % 5 == 0);
            guarded cosines = typed_values(r.trig, angles, false);
            guarded sines = typed_values(r.trig, angles, false);
            guarded want = guarded_new(width * zoe_dtype_bytes(r.y));
            guarded got = guarded_new(width * zoe_dtype_bytes(r.y));
            c(want.data, x.data, cosines.data, sines.data, &r, width);
            g(got.data, x.data, cosines.data, sines.data, &r, width);
            all_close_as(name, width, r.y, got.data, want.data, 0.0, tolerance);
            if (r.x == r.y) { /* in place */
                g(x.data, x.data, cosines.data, sines.data, &r, width);
                all_close_as(name, width, r.y, x.data, want.data, 0.0, tolerance);
            }
            guarded_free(x);
            guarded_free(cosines);
            guarded_free(sines);
            guarded_free(want);
            guarded_free(got);
        }
    enum { D = 128 };
    const zoe_rotation r = {.x = ZOE_F32, .y = ZOE_F32, .trig = ZOE_F32};
    guarded x = values(D, false), angles = values(D, false), y = guarded_new(D * 4);
    BENCH(D, c, g, y.data, x.data, angles.data, angles.data, &r, D);
    guarded_free(x);
    guarded_free(angles);
    guarded_free(y);
}
