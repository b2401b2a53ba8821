/* Peak signal-to-noise ratio. */
#include "media/media.h"

double zoe_psnr_of(double squares, double n, double peak)
{
    return squares == 0.0 ? INFINITY : 10.0 * log10(peak * peak * n / squares);
}

double zoe_psnr(const float *a, const float *b, size_t n, double peak)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        squares += d * d;
    }
    return zoe_psnr_of(squares, (double)n, peak);
}

uint64_t zoe_squares_u8(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint64_t squares = 0;
    for (size_t i = 0; i < n; i++) {
        const int d = a[i] - b[i];
        squares += (unsigned)(d * d);
    }
    return squares;
}

double zoe_psnr_u8(const uint8_t *a, const uint8_t *b, size_t n)
{
    return zoe_psnr_of((double)zoe_squares_u8(a, b, n), (double)n, 255.0);
}
