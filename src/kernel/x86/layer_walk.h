/* How LayerNorm's guests walk through a row, or two at a time, whatever the width of their vectors.
 *
 * To be included once, in a file that has defined INLINE, STEP (elements of one turn, a divisor of 64), and
 *   apply_step(y, y_type, x, x_type, form, i, weighted, stream, exact)
 *   gate_step(y, x, x_type, h, h_type, gate, i)
 * for elements i .. i + STEP of a row. */

/* Elements of one round of prefetches. */
enum { FAR_STEP = 64 };

INLINE size_t element_bytes(const zoe_dtype dtype)
{
    return dtype == ZOE_F32 ? 4 : 2;
}

INLINE void prefetch(const zoe_layer_form *f, size_t i)
{
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        if (!f->ahead[j])
            continue;
        const char *p = (const char *)f->ahead[j] + i * f->ahead_bytes[j];
        for (size_t o = 0; o < FAR_STEP * f->ahead_bytes[j]; o += 64)
            _mm_prefetch(p + o, _MM_HINT_T1);
    }
}

/* The last n < STEP elements, by way of memory that has room for STEP. */
INLINE void apply_rest(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                       const zoe_layer_form *f, size_t i, size_t n, const bool weighted,
                       const bool exact)
{
    float in[STEP] = {0.0f}, out[STEP], weight[STEP] = {0.0f}, bias[STEP] = {0.0f};
    zoe_layer_form g = *f;
    memcpy(in, (const unsigned char *)x + i * element_bytes(x_type), n * element_bytes(x_type));
    if (weighted) {
        memcpy(weight, f->weight + i, n * sizeof *weight);
        memcpy(bias, f->bias + i, n * sizeof *bias);
        g.weight = weight;
        g.bias = bias;
    }
    apply_step(out, y_type, in, x_type, &g, 0, weighted, false, exact);
    memcpy((unsigned char *)y + i * element_bytes(y_type), out, n * element_bytes(y_type));
}

INLINE void apply_all(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                      const zoe_layer_form *form, size_t n, const bool weighted, const bool stream,
                      const bool exact)
{
    const zoe_layer_form f = *form;
    size_t i = 0;
    for (; i + FAR_STEP <= n; i += FAR_STEP) {
        prefetch(&f, i);
        for (size_t j = 0; j < FAR_STEP; j += STEP)
            apply_step(y, y_type, x, x_type, &f, i + j, weighted, stream, exact);
    }
    for (; i + STEP <= n; i += STEP)
        apply_step(y, y_type, x, x_type, &f, i, weighted, stream, exact);
    if (i < n)
        apply_rest(y, y_type, x, x_type, &f, i, n - i, weighted, exact);
}

/* Two rows, from their ends to their beginnings: the first cache still has the end of what was summed
 * before, and each piece of the vectors serves twice while it is there. What is soon read is asked for at
 * the pace of what is written, so that memory is busy both ways. */
INLINE void apply_groups(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                         const zoe_layer_form *form, size_t n, const bool weighted,
                         const bool stream, const bool exact)
{
    const zoe_layer_form f[2] = {*form, zoe_layer_form_of_other(form)};
    void *const to[2] = {y, form->other->y};
    const void *const from[2] = {x, form->other->x};
    const char *soon[2] = {f[0].ahead[0] ? f[0].ahead[0] : x, f[1].ahead[0] ? f[1].ahead[0] : x};
    const size_t more = form->ahead[1] ? FAR_STEP * form->ahead_bytes[1] : 0;
    for (size_t i = n, far = 0; i > 0; far += FAR_STEP) {
        i -= FAR_STEP;
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
#pragma GCC unroll 4
            for (size_t o = 0; o < FAR_STEP * element_bytes(x_type); o += 64)
                _mm_prefetch(soon[r] + far * element_bytes(x_type) + o, _MM_HINT_T1);
            for (size_t o = 0; o < more; o += 64)
                _mm_prefetch((const char *)f[r].ahead[1] + far * form->ahead_bytes[1] + o,
                             _MM_HINT_T1);
#pragma GCC unroll 4
            for (size_t j = 0; j < FAR_STEP; j += STEP)
                apply_step(to[r], y_type, from[r], x_type, &f[r], i + j, weighted, stream, exact);
        }
    }
}

INLINE void apply_one(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                      const zoe_layer_form *f, size_t n, const bool exact)
{
    const bool stream = f->stream && (uintptr_t)y % 64 == 0;
    if (f->weight && stream)
        apply_all(y, y_type, x, x_type, f, n, true, true, exact);
    else if (f->weight)
        apply_all(y, y_type, x, x_type, f, n, true, false, exact);
    else if (stream)
        apply_all(y, y_type, x, x_type, f, n, false, true, exact);
    else
        apply_all(y, y_type, x, x_type, f, n, false, false, exact);
}

INLINE void apply_two(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                      const zoe_layer_form *f, size_t n, const bool exact)
{
    const bool stream = f->stream && ((uintptr_t)y | (uintptr_t)f->other->y) % 64 == 0;
    const size_t whole = n - n % FAR_STEP;
    if (f->weight && stream)
        apply_groups(y, y_type, x, x_type, f, whole, true, true, exact);
    else if (f->weight)
        apply_groups(y, y_type, x, x_type, f, whole, true, false, exact);
    else if (stream)
        apply_groups(y, y_type, x, x_type, f, whole, false, true, exact);
    else
        apply_groups(y, y_type, x, x_type, f, whole, false, false, exact);
    if (whole == n)
        return;
    const zoe_layer_form rest[2] = {*f, zoe_layer_form_of_other(f)};
    for (int r = 0; r < 2; r++) {
        zoe_layer_form g = rest[r];
        g.other = NULL;
        g.ahead[0] = g.ahead[1] = NULL;
        g.weight = f->weight ? f->weight + whole : NULL;
        g.bias = f->weight ? f->bias + whole : NULL;
        apply_one((unsigned char *)(r ? f->other->y : y) + whole * element_bytes(y_type), y_type,
                  (const unsigned char *)(r ? f->other->x : x) + whole * element_bytes(x_type),
                  x_type, &g, n - whole, exact);
    }
}

INLINE void apply_of(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                     const zoe_layer_form *f, size_t n)
{
    const bool exact = y_type == ZOE_F32 && f->exact;
    if (f->other && exact)
        apply_two(y, y_type, x, x_type, f, n, true);
    else if (f->other)
        apply_two(y, y_type, x, x_type, f, n, false);
    else if (exact)
        apply_one(y, y_type, x, x_type, f, n, true);
    else
        apply_one(y, y_type, x, x_type, f, n, false);
}

INLINE void gate_of(void *y, const void *x, const zoe_dtype x_type, const void *h,
                    const zoe_dtype h_type, const float *gate, size_t n)
{
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        gate_step(y, x, x_type, h, h_type, gate, i);
    if (i == n)
        return;
    float in[STEP] = {0.0f}, other[STEP] = {0.0f}, factor[STEP] = {0.0f}, out[STEP];
    memcpy(in, (const unsigned char *)x + i * element_bytes(x_type),
           (n - i) * element_bytes(x_type));
    memcpy(other, (const unsigned char *)h + i * element_bytes(h_type),
           (n - i) * element_bytes(h_type));
    memcpy(factor, gate + i, (n - i) * sizeof *factor);
    gate_step(out, in, x_type, other, h_type, factor, 0);
    memcpy((unsigned char *)y + i * element_bytes(x_type), out, (n - i) * element_bytes(x_type));
}
