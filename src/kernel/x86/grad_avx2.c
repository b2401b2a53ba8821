/* Gradients of norms: guests for AVX2. Nothing is fused, so that elements have the bits of the definition. */
#include "kernel/x86/vector_avx2.h"

static __m256 normed(__m256 x, float mean, float rstd)
{
    return _mm256_mul_ps(_mm256_sub_ps(x, _mm256_set1_ps(mean)), _mm256_set1_ps(rstd));
}

static __m256d widened_sum(__m256d sum, __m256 v)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    return _mm256_add_pd(sum, _mm256_add_pd(low, high));
}

static double total(__m256d v)
{
    double lane[4];
    _mm256_storeu_pd(lane, v);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static void grad_sums_avx2(double sums[2], const float *dy, const float *x, const float *w,
                           float mean, float rstd, size_t n)
{
    __m256d plain = _mm256_setzero_pd(), along = _mm256_setzero_pd();
    for (size_t i = 0; i < n; i += 8) {
        const size_t left = n - i;
        const __m256 g = _mm256_mul_ps(load_part(dy + i, left), load_part(w + i, left));
        __m256 v = normed(load_part(x + i, left), mean, rstd);
        if (left <
            8) /* lanes beyond the end are no elements: 0, also where the mean is not finite */
            v = _mm256_and_ps(v, _mm256_castsi256_ps(lanes(left)));
        plain = widened_sum(plain, g);
        along = widened_sum(along, _mm256_mul_ps(g, v));
    }
    sums[0] += total(plain);
    sums[1] += total(along);
}

static void add_part(float *sums, __m256 v, size_t n)
{
    store_part(sums, _mm256_add_ps(load_part(sums, n), v), n);
}

static void grad_apply_avx2(float *dx, const float *dy, const float *x, const float *w,
                            const zoe_grad_form *f, size_t n)
{
    const __m256 plain = _mm256_set1_ps(f->plain), along = _mm256_set1_ps(f->along);
    const __m256 rstd = _mm256_set1_ps(f->rstd);
    for (size_t i = 0; i < n; i += 8) {
        const size_t left = n - i;
        const __m256 d = load_part(dy + i, left);
        const __m256 v = normed(load_part(x + i, left), f->mean, f->rstd);
        const __m256 g = _mm256_sub_ps(_mm256_mul_ps(d, load_part(w + i, left)), plain);
        store_part(dx + i, _mm256_mul_ps(rstd, _mm256_sub_ps(g, _mm256_mul_ps(v, along))), left);
        if (f->dyv) {
            add_part(f->dyv + i, _mm256_mul_ps(d, v), left);
            add_part(f->dys + i, d, left);
        }
    }
}

void zoe_kernels_fill_grad_avx2(zoe_kernels *k)
{
    k->grad_sums = grad_sums_avx2;
    k->grad_apply = grad_apply_avx2;
}
