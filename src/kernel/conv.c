/* One tile of a convolution: a few output pixels times one panel of output channels. */
#include "kernel/kernel.h"

static void conv_c(float *sums, const float *const *x, const float *w, size_t taps, size_t C,
                   size_t width)
{
    for (size_t r = 0; r < ZOE_CONV_ROWS; r++)
        for (size_t n = 0; n < width; n++) {
            float sum = 0.0f;
            for (size_t tap = 0; tap < taps; tap++)
                for (size_t c = 0; c < C; c++)
                    sum += x[tap * ZOE_CONV_ROWS + r][c] * w[(tap * C + c) * width + n];
            sums[r * width + n] += sum;
        }
}

/* G w: the rows of G are (1, 0, 0), (1, 1, 1) / 2, (1, -1, 1) / 2, (0, 0, 1). */
static void turn_three(float out[4], float w0, float w1, float w2)
{
    out[0] = w0;
    out[1] = 0.5f * ((w0 + w2) + w1);
    out[2] = 0.5f * ((w0 + w2) - w1);
    out[3] = w2;
}

static void winograd_weights_c(float *u, size_t distance, const float *w, size_t w_distance,
                               size_t n)
{
    for (size_t c = 0; c < n; c++) {
        float columns[3][4], out[4];
        for (size_t j = 0; j < 3; j++)
            turn_three(columns[j], w[j * w_distance + c], w[(3 + j) * w_distance + c],
                       w[(6 + j) * w_distance + c]);
        for (size_t i = 0; i < 4; i++) {
            turn_three(out, columns[0][i], columns[1][i], columns[2][i]);
            for (size_t j = 0; j < 4; j++)
                u[(4 * i + j) * distance + c] = out[j];
        }
    }
}

/* B^T d: the rows of B^T are (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1). */
static void turn_four(float out[4], float d0, float d1, float d2, float d3)
{
    out[0] = d0 - d2;
    out[1] = d1 + d2;
    out[2] = d2 - d1;
    out[3] = d1 - d3;
}

static void winograd_input_c(float *v, size_t distance, const float *const *x, size_t C)
{
    for (size_t c = 0; c < C; c++) {
        float rows[4][4], out[4];
        for (size_t i = 0; i < 4; i++)
            turn_four(rows[i], x[4 * i][c], x[4 * i + 1][c], x[4 * i + 2][c], x[4 * i + 3][c]);
        for (size_t j = 0; j < 4; j++) {
            turn_four(out, rows[0][j], rows[1][j], rows[2][j], rows[3][j]);
            for (size_t i = 0; i < 4; i++)
                v[(4 * i + j) * distance + c] = out[i];
        }
    }
}

/* The rows of A^T are (1, 1, 1, 0), (0, 1, -1, -1). */
static void winograd_output_c(float *y, const float *m, size_t distance, const float *bias,
                              size_t width)
{
    for (size_t n = 0; n < width; n++) {
        float rows[4][2];
        for (size_t i = 0; i < 4; i++) {
            const float *at = m + 4 * i * distance + n;
            rows[i][0] = at[0] + at[distance] + at[2 * distance];
            rows[i][1] = at[distance] - at[2 * distance] - at[3 * distance];
        }
        for (size_t j = 0; j < 2; j++) {
            y[j * width + n] = rows[0][j] + rows[1][j] + rows[2][j] + bias[n];
            y[(2 + j) * width + n] = rows[1][j] - rows[2][j] - rows[3][j] + bias[n];
        }
    }
}

void zoe_kernels_fill_conv_c(zoe_kernels *k)
{
    k->conv = conv_c;
    k->winograd_weights = winograd_weights_c;
    k->winograd_input = winograd_input_c;
    k->winograd_output = winograd_output_c;
}
