/* Rotary embedding: every form against its formula, step by step in f32, and against angles in
 * double. */
#include "op_case.h"

static size_t offset_of(zoe_tensor t, const size_t *index)
{
    size_t at = 0;
    for (int i = 0; i < t.rank; i++)
        at += (t.shape[i] == 1 ? 0 : index[i]) * (size_t)t.stride[i];
    return at;
}

static float at(zoe_tensor t, const size_t *index)
{
    return zoe_load_f32(t.data, t.dtype, offset_of(t, index));
}

/* A tensor of random values whose axes lie in memory in the order of `places`, with a gap. */
static zoe_tensor random_tensor(zoe_dtype type, int rank, const size_t *shape, const int *places)
{
    zoe_tensor t = zoe_tensor_of(NULL, type, rank, shape);
    size_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        const int axis = i == rank - 1 ? i : places[i];
        t.stride[axis] = (ptrdiff_t)step;
        step *= shape[axis];
        step += i == rank - 1 ? pick(3) : 0;
    }
    t.data = malloc((step + 1) * zoe_dtype_bytes(type));
    assert_non_null(t.data);
    for (size_t i = 0; i < step; i++)
        zoe_store_f32(t.data, type, i, noise());
    return t;
}

/* The place of the partner of element d, and whether d comes second, among the R that are turned. */
static size_t partner_of(zoe_rotary_pairing pairing, size_t d, size_t R, bool *second)
{
    if (pairing == ZOE_ROTARY_INTERLEAVE) {
        *second = d % 2;
        return d ^ 1;
    }
    const size_t width = pairing == ZOE_ROTARY_QUARTER ? R / 2 : R, within = d % width;
    *second = within >= width / 2;
    return *second ? d - width / 2 : d + width / 2;
}

/* The entry of a half table for element d. */
static size_t entry_of(zoe_rotary_pairing pairing, size_t d, size_t R)
{
    if (pairing == ZOE_ROTARY_INTERLEAVE)
        return d / 2;
    const size_t width = pairing == ZOE_ROTARY_QUARTER ? R / 2 : R;
    return d / width * (width / 2) + d % width % (width / 2);
}

static float expected(const zoe_rotary_mul_args *a, zoe_tensor x, const size_t *index, int last)
{
    const size_t d = index[last], entries = a->cos.shape[last];
    const size_t R = a->half_tables ? 2 * entries : entries;
    if (d >= R)
        return rounded_to(a->y.dtype, at(x, index));
    bool second;
    size_t other[ZOE_MAX_RANK], entry[ZOE_MAX_RANK];
    memcpy(other, index, sizeof other);
    memcpy(entry, index, sizeof entry);
    other[last] = partner_of(a->pairing, d, R, &second);
    entry[last] = a->half_tables ? entry_of(a->pairing, d, R) : d;
    float c = at(a->cos, entry), s = at(a->sin, entry);
    if (a->trig_in_x_dtype) {
        c = rounded_to(x.dtype, c);
        s = rounded_to(x.dtype, s);
    }
    const float p = at(x, index) * c, q = at(x, other) * s;
    return rounded_to(a->y.dtype, second ? p + q : p - q);
}

static void check_all(const zoe_rotary_mul_args *a, zoe_tensor x)
{
    const int last = x.rank - 1;
    size_t index[ZOE_MAX_RANK] = {0};
    for (size_t n = 0; n < zoe_tensor_count(x); n++) {
        const float got = at(a->y, index), want = expected(a, x, index, last);
        if (zoe_bits_of_f32(got) != zoe_bits_of_f32(want))
            fail_msg("pairing %d, element %zu of %zu: got %.9g, wanted %.9g", (int)a->pairing,
                     index[last], x.shape[last], (double)got, (double)want);
        for (int i = last; i >= 0 && ++index[i] == x.shape[i]; i--)
            index[i] = 0;
    }
}

/* Layouts by strides, tables spread over any axes, all pairings, types and widths, in place or not. */
static void every_form_gives_its_formula(void **state)
{
    static const size_t widths[] = {2, 4, 6, 8, 20, 32, 36, 64, 68, 128, 132};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int n = 0; n < 600; n++) {
        const size_t D = widths[pick(11)], shape[4] = {1 + pick(3), 1 + pick(4), 1 + pick(3), D};
        const int rank = 1 + (int)pick(4);
        const size_t *used = shape + 4 - rank;
        int places[4] = {0, 1, 2, 3};
        if (rank == 4 && pick(2)) { /* BSND seen as BNSD */
            places[1] = 2;
            places[2] = 1;
        }
        zoe_rotary_mul_args a = {.pairing = (zoe_rotary_pairing)pick(3),
                                 .half_tables = pick(2),
                                 .trig_in_x_dtype = pick(2)};
        const size_t unit = a.pairing == ZOE_ROTARY_QUARTER ? 4 : 2;
        if (D < unit)
            continue;
        const size_t R = pick(3) ? D / unit * unit : unit + pick(D / unit) * unit;
        size_t table[4];
        for (int i = 0; i + 1 < rank; i++)
            table[i] = pick(2) ? 1 : used[i];
        table[rank - 1] = a.half_tables ? R / 2 : R;
        const int order[4] = {0, 1, 2, 3};
        const zoe_dtype trig = float_types[pick(3)];
        zoe_tensor x = random_tensor(float_types[pick(3)], rank, used, places);
        a.cos = random_tensor(trig, rank, table, order);
        a.sin = random_tensor(trig, rank, table, order);
        a.x = x;
        a.y = random_tensor(float_types[pick(3)], rank, used, order);
        succeeded(ctx, zoe_rotary_mul(ctx, &a));
        check_all(&a, x);
        zoe_rotary_mul_args same = a;
        same.x = random_tensor(a.y.dtype, rank, used, order);
        zoe_tensor kept = random_tensor(a.y.dtype, rank, used, order);
        size_t index[ZOE_MAX_RANK] = {0};
        for (size_t i = 0; i < zoe_tensor_count(x); i++) {
            zoe_store_f32(kept.data, kept.dtype, offset_of(kept, index), at(same.x, index));
            for (int k = rank - 1; k >= 0 && ++index[k] == used[k]; k--)
                index[k] = 0;
        }
        zoe_tensor own = a.y;
        same.y = same.x;
        succeeded(ctx, zoe_rotary_mul(ctx, &same));
        check_all(&same, kept);
        free(x.data);
        free(own.data);
        free(a.cos.data);
        free(a.sin.data);
        free(same.x.data);
        free(kept.data);
    }
    zoe_context_free(ctx);
}

/* Against angles and products in double: 1.5 units of the larger side's last place. */
static void far_positions_keep_their_digits(void **state)
{
    enum { D = 128 };
    static const double far[] = {0.0, 1.0, 1559.0, 131071.0};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    float c[4][D / 2], s[4][D / 2], x[4][D], y[4][D];
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < D / 2; j++) {
            const double angle = far[i] * pow(10000.0, -2.0 * (double)j / D);
            c[i][j] = (float)cos(angle);
            s[i][j] = (float)sin(angle);
            x[i][2 * j] = noise();
            x[i][2 * j + 1] = noise();
        }
    const zoe_rotary_mul_args a = {.y = zoe_tensor_2d(y, ZOE_F32, 4, D),
                                   .x = zoe_tensor_2d(x, ZOE_F32, 4, D),
                                   .cos = zoe_tensor_2d(c, ZOE_F32, 4, D / 2),
                                   .sin = zoe_tensor_2d(s, ZOE_F32, 4, D / 2),
                                   .pairing = ZOE_ROTARY_INTERLEAVE,
                                   .half_tables = true};
    succeeded(ctx, zoe_rotary_mul(ctx, &a));
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < D / 2; j++) {
            const double angle = far[i] * pow(10000.0, -2.0 * (double)j / D);
            const double p = (double)x[i][2 * j], q = (double)x[i][2 * j + 1];
            const double most = 1.5 * 0x1p-23 * hypot(p, q);
            assert_true(fabs((double)y[i][2 * j] - (p * cos(angle) - q * sin(angle))) <= most);
            assert_true(fabs((double)y[i][2 * j + 1] - (p * sin(angle) + q * cos(angle))) <= most);
        }
    zoe_context_free(ctx);
}

/* Wan's split of a head of 128: 22, 21 and 21 pairs for frame, row and column. */
static void tables_turn_by_place_on_the_grid(void **state)
{
    enum { F = 2, H = 3, W = 5, PAIRS = 64 };
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        zoe_context *ctx = zoe_context_new(threads);
        zoe_tensor c = tensor_new(ZOE_F32, F * H * W, PAIRS, 3),
                   s = tensor_new(ZOE_F32, F * H * W, PAIRS, 0);
        const zoe_rotary_table_args a = {
            .cos = c, .sin = s, .frames = F, .rows = H, .columns = W, .base = 10000.0};
        succeeded(ctx, zoe_rotary_table(ctx, &a));
        for (size_t m = 0; m < F * H * W; m++)
            for (size_t j = 0; j < PAIRS; j++) {
                const size_t n = j < 22 ? 22 : 21, p = j < 22 ? j : (j - 22) % 21;
                const size_t place = j < 22 ? m / (H * W) : j < 43 ? m / W % H : m % W;
                const double angle = (double)place * pow(10000.0, -(double)p / (double)n);
                assert_true(fabs((double)value_at(c, m, j) - cos(angle)) <= 0x1p-24);
                assert_true(fabs((double)value_at(s, m, j) - sin(angle)) <= 0x1p-24);
            }
        assert_gaps_untouched(c);
        for (size_t first = 0; first <= F * H * W; first++) { /* a run of them */
            const size_t n = pick(F * H * W - first + 1);
            zoe_tensor some = tensor_new(ZOE_F32, n, PAIRS, 1),
                       other = tensor_new(ZOE_F32, n, PAIRS, 2);
            zoe_rotary_table_args run = a;
            run.cos = some;
            run.sin = other;
            run.first = first;
            succeeded(ctx, zoe_rotary_table(ctx, &run));
            for (size_t m = 0; m < n; m++)
                for (size_t j = 0; j < PAIRS; j++) {
                    assert_true(value_at(some, m, j) == value_at(c, first + m, j));
                    assert_true(value_at(other, m, j) == value_at(s, first + m, j));
                }
            assert_gaps_untouched(some);
            tensor_free(some);
            tensor_free(other);
        }
        tensor_free(c);
        tensor_free(s);
        zoe_context_free(ctx);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    float data[3][64];
    zoe_tensor x = zoe_tensor_2d(data[0], ZOE_F32, 4, 8), y = zoe_tensor_2d(data[1], ZOE_F32, 4, 8);
    zoe_tensor c = zoe_tensor_2d(data[2], ZOE_F32, 4, 8), t;
    const zoe_rotary_mul_args good = {.y = y, .x = x, .cos = c, .sin = c};
    memset(data, 0, sizeof data);
    succeeded(ctx, zoe_rotary_mul(ctx, &good));
    zoe_rotary_mul_args a = good;
    a.cos = a.sin = (t = c, t.shape[1] = 7, t);
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "multiple of 2 up to 8");
    a.half_tables = true;
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "multiple of 1 up to 4");
    a = good;
    a.sin = (t = c, t.shape[0] = 1, t);
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "sin is f32 [1, 8]");
    a.cos = a.sin = (t = c, t.shape[0] = 3, t);
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "or 1 before the last");
    a = good;
    a.y = c;
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "y overlaps cos");
    a = good;
    a.x = (t = x, t.dtype = ZOE_I8, t);
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "x is i8");
    a = good;
    a.pairing = (zoe_rotary_pairing)3;
    assert_refused(ctx, zoe_rotary_mul(ctx, &a), ZOE_INVALID, "pairing 3");
    a = good; /* nothing to do: nothing is touched */
    a.x = a.y = zoe_tensor_2d(NULL, ZOE_F32, 0, 8);
    a.cos = a.sin = zoe_tensor_2d(NULL, ZOE_F32, 1, 8);
    a.cos.data = a.sin.data = data[2];
    succeeded(ctx, zoe_rotary_mul(ctx, &a));
    const zoe_rotary_table_args table = {
        .cos = x, .sin = y, .frames = 1, .rows = 2, .columns = 3, .first = 3, .base = 10000.0};
    assert_refused(ctx, zoe_rotary_table(ctx, &table), ZOE_INVALID, "4 tokens from number 3 on");
    zoe_rotary_table_args based = table;
    based.first = 2;
    based.base = 0.0;
    assert_refused(ctx, zoe_rotary_table(ctx, &based), ZOE_INVALID, "base is 0");
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_its_formula),
        cmocka_unit_test(far_positions_keep_their_digits),
        cmocka_unit_test(tables_turn_by_place_on_the_grid),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
