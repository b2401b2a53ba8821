/* Peak signal-to-noise ratio. */
#include "media/media.h"

static double psnr(double squares, size_t n, double peak)
{
    return squares == 0.0 ? INFINITY : 10.0 * log10(peak * peak * (double)n / squares);
}

double zoe_psnr(const float *a, const float *b, size_t n, double peak)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        squares += d * d;
    }
    return psnr(squares, n, peak);
}

double zoe_psnr_u8(const uint8_t *a, const uint8_t *b, size_t n)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        squares += d * d;
    }
    return psnr(squares, n, 255.0);
}
