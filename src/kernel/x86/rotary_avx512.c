/* Rotary position embedding of one head: guests for AVX-512 of what qk_norm_rope asks for, f32 values
 * whose pairs lie side by side, with a table entry an element. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512bf16")
#else
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#endif
#include "kernel/x86/row_avx512.h"

/* a cos - b sin and b cos + a sin of pairs (a, b) side by side; `even` are the places of a. */
INLINE __m512 turned(__m512 v, const float *cosines, const float *sines)
{
    const __mmask16 even = 0x5555;
    const __m512 straight = _mm512_mul_ps(v, _mm512_loadu_ps(cosines));
    const __m512 crossed =
        _mm512_mul_ps(_mm512_shuffle_ps(v, v, _MM_SHUFFLE(2, 3, 0, 1)), _mm512_loadu_ps(sines));
    return _mm512_mask_sub_ps(_mm512_add_ps(straight, crossed), even, straight, crossed);
}

INLINE void turn32(void *y, const float *x, const float *cosines, const float *sines,
                   zoe_dtype type, bool stream)
{
    const v32 v = load32(x, ZOE_F32);
    store32(y, (v32){turned(v.a, cosines, sines), turned(v.b, cosines + 16, sines + 16)}, type,
            stream);
}

INLINE void turn(unsigned char *y, const float *x, const float *cosines, const float *sines,
                 zoe_dtype type, bool stream, size_t width)
{
    for (size_t i = 0; i < width; i += STEP)
        turn32(y + i * bytes_of(type), x + i, cosines + i, sines + i, type, stream);
}

/* What AVX2 does with the other forms. */
static zoe_kernel_rotate *any_form;

static void rotate_avx512(void *y, const void *x, const void *cosines, const void *sines,
                          const zoe_rotation *r, size_t width)
{
    const bool stream = r->stream && (uintptr_t)y % 64 == 0;
    if (r->x != ZOE_F32 || r->y == ZOE_F16 || r->trig != ZOE_F32 || r->cast != ZOE_NONE ||
        r->half || !r->full || width % STEP != 0)
        any_form(y, x, cosines, sines, r, width);
    else if (r->y == ZOE_BF16 && stream)
        turn(y, x, cosines, sines, ZOE_BF16, true, width);
    else if (r->y == ZOE_BF16)
        turn(y, x, cosines, sines, ZOE_BF16, false, width);
    else if (stream)
        turn(y, x, cosines, sines, ZOE_F32, true, width);
    else
        turn(y, x, cosines, sines, ZOE_F32, false, width);
}

void zoe_kernels_fill_rotary_avx512(zoe_kernels *k)
{
    if (!zoe_cpu_extras_get().bf16)
        return;
    any_form = k->rotate;
    k->rotate = rotate_avx512;
}
#if !(defined(__GNUC__) && !defined(__clang__))
#pragma clang attribute pop
#endif
