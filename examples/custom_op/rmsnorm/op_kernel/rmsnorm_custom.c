/* The kernel of rmsnorm_custom: y = x / sqrt(mean(x^2) + eps) * gamma over rows of `width`
 * elements.
 *
 * Everything between load and store is f32, so y is rounded once. With and without gamma are two
 * kernels. */

static void KERNEL(const op_block *block)
{
    const size_t width = block->tiling->width, at = block->first * width;
    const float eps = (float)block->attr[ATTR_EPS].f;
    const DTYPE_X *x = (const DTYPE_X *)block->input[INPUT_X] + at;
    DTYPE_Y *y = (DTYPE_Y *)block->output[OUTPUT_Y] + at;
#if HAS_GAMMA
    const DTYPE_GAMMA *gamma = (const DTYPE_GAMMA *)block->input[INPUT_GAMMA];
#endif
    for (size_t row = 0; row < block->rows; row++, x += width, y += width) {
        const float mean = tile_sum_squares(x, width) / (float)width;
        const float scale = 1.0f / sqrtf(mean + eps);
#if HAS_GAMMA
        tile_map2(y, width, a, x, g, gamma, a * scale * g);
#else
        tile_map(y, width, a, x, a * scale);
#endif
    }
}
