/* zoe_rms_norm_linear and zoe_layer_norm_linear: the bytes of the norm and the product in turn. */
#include "op_case.h"

static const zoe_dtype halves[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
static const size_t widths[] = {1, 3, 15, 16, 17, 65, 256, 260, 530};
static const size_t outputs[] = {0, 1, 5, 16, 17, 33, 70};
enum { PARTS = 3 };

/* Rows [B, L, D] that lie apart, of a memory of their own. */
static zoe_tensor rows_new(zoe_dtype dtype, size_t B, size_t L, size_t D)
{
    const size_t gap = pick(3), between = pick(2);
    zoe_tensor t = tensor_new(dtype, B * (L + between), D, gap);
    t.rank = 3;
    t.shape[0] = B;
    t.shape[1] = L;
    t.shape[2] = D;
    t.stride[1] = (ptrdiff_t)(D + gap);
    t.stride[0] = (ptrdiff_t)((L + between) * (D + gap));
    t.stride[2] = 1;
    return t;
}

static zoe_tensor maybe_vector(size_t D)
{
    if (pick(3) == 0)
        return zoe_tensor_none();
    const zoe_dtype dtype = halves[pick(3)];
    return zoe_tensor_1d(tensor_new(dtype, 1, D, 0).data, dtype, D);
}

typedef struct parts_case {
    zoe_linear_args parts[PARTS];
    size_t n;
} parts_case;

/* Parts without x. */
static void parts_new(parts_case *c, size_t B, size_t L, size_t D)
{
    static const zoe_dtype weights[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E5M2};
    c->n = 1 + pick(PARTS);
    for (size_t i = 0; i < c->n; i++) {
        const size_t N = outputs[pick(7)];
        zoe_linear_args *part = &c->parts[i];
        *part =
            (zoe_linear_args){.y = rows_new(halves[pick(3)], B, L, N),
                              .w = tensor_new(weights[pick(4)], N, D, pick(2)),
                              .bias = pick(2) ? vector_new(N) : zoe_tensor_none(),
                              .gate = pick(2) ? tensor_new(ZOE_F32, B, N, 1) : zoe_tensor_none(),
                              .round_weights = pick(2),
                              .activation = (zoe_activation)pick(ZOE_ACT_LAST + 1)};
        part->residual = pick(2) ? rows_new(halves[pick(3)], B, L, N) : zoe_tensor_none();
    }
}

static void parts_free(parts_case *c)
{
    for (size_t i = 0; i < c->n; i++) {
        tensor_free(c->parts[i].y);
        tensor_free(c->parts[i].w);
        tensor_free(c->parts[i].bias);
        tensor_free(c->parts[i].gate);
        tensor_free(c->parts[i].residual);
    }
}

/* The product of stored rows against what stands in the parts' y. */
static void check_parts(zoe_context *ctx, const parts_case *c, zoe_tensor x)
{
    for (size_t i = 0; i < c->n; i++) {
        zoe_linear_args one = c->parts[i];
        const zoe_tensor y = one.y;
        one.x = x;
        one.y = rows_new(y.dtype, y.shape[0], y.shape[1], y.shape[2]);
        zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, &one));
        if (zoe_linear(ctx, &one, work) != ZOE_OK)
            fail_msg("%s", zoe_context_message(ctx));
        const size_t bytes = zoe_dtype_bytes(y.dtype);
        for (size_t b = 0; b < y.shape[0]; b++)
            for (size_t l = 0; l < y.shape[1]; l++) {
                const size_t want = b * (size_t)one.y.stride[0] + l * (size_t)one.y.stride[1];
                const size_t got = b * (size_t)y.stride[0] + l * (size_t)y.stride[1];
                assert_memory_equal((char *)y.data + got * bytes, (char *)one.y.data + want * bytes,
                                    y.shape[2] * bytes);
            }
        tensor_free(one.y);
        free(work.data);
    }
}

static void check_rms(size_t B, size_t L, size_t D)
{
    parts_case c;
    zoe_context *ctx = zoe_context_new(1 + (int)pick(3));
    zoe_rms_norm_args norm = {.x = rows_new(halves[pick(3)], B, L, D),
                              .gamma = maybe_vector(D),
                              .eps = 1e-5f,
                              .order = (zoe_rms_order)pick(5),
                              .round_gamma = pick(2)};
    if (norm.order == ZOE_RMS_PIXELNORM) {
        tensor_free(norm.gamma);
        norm.gamma = zoe_tensor_none();
    }
    parts_new(&c, B, L, D);
    const zoe_rms_norm_linear_args args = {
        .norm = norm, .type = halves[pick(3)], .parts = c.parts, .n_parts = c.n};
    zoe_workspace work = workspace_new(zoe_rms_norm_linear_workspace(ctx, &args));
    if (zoe_rms_norm_linear(ctx, &args, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    norm.y = rows_new(args.type, B, L, D);
    assert_int_equal(zoe_rms_norm(ctx, &norm), ZOE_OK);
    check_parts(ctx, &c, norm.y);
    parts_free(&c);
    tensor_free(norm.x);
    tensor_free(norm.y);
    tensor_free(norm.gamma);
    free(work.data);
    zoe_context_free(ctx);
}

static void rms_norm_and_product_in_turn(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++)
        check_rms(pick(4), pick(12), widths[pick(9)]);
    check_rms(2, 410, 530);
}

/* Vectors of all rows, of each sample, of each row, or of groups. */
enum { ALL, SAMPLE, TOKEN, GROUPS };
static zoe_tensor modulation_new(size_t kind, size_t B, size_t L, size_t D)
{
    zoe_tensor t = maybe_vector(D);
    if (t.dtype == ZOE_NONE || kind == ALL)
        return t;
    tensor_free(t);
    if (kind == GROUPS)
        return tensor_new(t.dtype, 2, D, 1);
    return rows_new(t.dtype, B, kind == SAMPLE ? 1 : L, D);
}

static zoe_tensor group_new(size_t B, size_t L)
{
    zoe_tensor t = zoe_tensor_2d(malloc(B * L * sizeof(int32_t) + 1), ZOE_I32, B, L);
    assert_non_null(t.data);
    for (size_t i = 0; i < B * L; i++)
        ((int32_t *)t.data)[i] = (int32_t)pick(2);
    return t;
}

static void check_layer(size_t B, size_t L, size_t D)
{
    static const zoe_dtype roundings[] = {ZOE_NONE, ZOE_F32, ZOE_F16, ZOE_BF16};
    const size_t kind = pick(4);
    parts_case c;
    zoe_context *ctx = zoe_context_new(1 + (int)pick(3));
    zoe_layer_norm_modulate_args norm = {.x = rows_new(halves[pick(3)], B, L, D),
                                         .gamma = maybe_vector(D),
                                         .beta = maybe_vector(D),
                                         .scale = modulation_new(kind, B, L, D),
                                         .shift = modulation_new(kind, B, L, D),
                                         .eps = 1e-6f,
                                         .kind = (zoe_norm_kind)pick(2),
                                         .round_norm = roundings[pick(4)],
                                         .maths = roundings[pick(4)]};
    norm.group = kind == GROUPS ? group_new(B, L) : zoe_tensor_none();
    parts_new(&c, B, L, D);
    const zoe_layer_norm_linear_args args = {
        .norm = norm, .type = halves[pick(3)], .parts = c.parts, .n_parts = c.n};
    zoe_workspace work = workspace_new(zoe_layer_norm_linear_workspace(ctx, &args));
    if (zoe_layer_norm_linear(ctx, &args, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    norm.y = rows_new(args.type, B, L, D);
    assert_int_equal(zoe_layer_norm_modulate(ctx, &norm), ZOE_OK);
    check_parts(ctx, &c, norm.y);
    parts_free(&c);
    const zoe_tensor all[] = {norm.x,     norm.y,     norm.gamma, norm.beta,
                              norm.scale, norm.shift, norm.group};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    free(work.data);
    zoe_context_free(ctx);
}

static void layer_norm_modulation_and_product_in_turn(void **state)
{
    (void)state;
    for (int round = 0; round < 250; round++)
        check_layer(pick(4), pick(12), widths[pick(9)]);
    check_layer(2, 410, 530);
}

/* Terms have rows of their own; a row of zeroes and one with a NaN stay themselves. */
static void terms_and_odd_rows(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    zoe_tensor x = tensor_new(ZOE_F32, 9, 40, 0), low = tensor_new(ZOE_BF16, 9, 4, 0);
    const zoe_linear_term term = {low, tensor_new(ZOE_F16, 20, 4, 0), 0.5f};
    zoe_linear_args part = {.y = tensor_new(ZOE_F32, 9, 20, 0),
                            .w = tensor_new(ZOE_F32, 20, 40, 0),
                            .terms = &term,
                            .n_terms = 1};
    zoe_layer_norm_linear_args args = {
        .norm = {.x = x, .eps = 1e-6f}, .type = ZOE_F32, .parts = &part, .n_parts = 1};
    for (size_t d = 0; d < 40; d++)
        put(x, 3, d, 0.0f);
    put(x, 5, 39, NAN);
    zoe_workspace work = workspace_new(zoe_layer_norm_linear_workspace(ctx, &args));
    assert_int_equal(zoe_layer_norm_linear(ctx, &args, work), ZOE_OK);
    args.norm.y = tensor_new(ZOE_F32, 9, 40, 0);
    assert_int_equal(zoe_layer_norm_modulate(ctx, &args.norm), ZOE_OK);
    zoe_linear_args plain = part;
    plain.x = args.norm.y;
    plain.y = tensor_new(ZOE_F32, 9, 20, 0);
    assert_int_equal(zoe_linear(ctx, &plain, work), ZOE_OK);
    for (size_t m = 0; m < 9; m++)
        for (size_t n = 0; n < 20; n++) {
            const float a = value_at(part.y, m, n), b = value_at(plain.y, m, n);
            assert_true(m == 5 ? isnan(a) && isnan(b) : a == b);
        }
    const zoe_tensor all[] = {x, low, term.w, part.y, part.w, plain.x, plain.y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    free(work.data);
    zoe_context_free(ctx);
}

/* Does the sentence begin with the operator that was called? */
static void assert_named(zoe_context *ctx, zoe_status status, const char *op)
{
    assert_int_not_equal(status, ZOE_OK);
    if (strncmp(zoe_context_message(ctx), op, strlen(op)) != 0)
        fail_msg("\"%s\" does not begin with %s", zoe_context_message(ctx), op);
    zoe_context_clear(ctx);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    const zoe_tensor x = tensor_new(ZOE_F32, 6, 8, 0), gamma = vector_new(8);
    const zoe_linear_args part_good = {.y = tensor_new(ZOE_F32, 6, 8, 0),
                                       .w = tensor_new(ZOE_BF16, 8, 8, 0)};
    zoe_linear_args part;
    zoe_rms_norm_linear_args rms;
    zoe_layer_norm_linear_args layer;
    const zoe_rms_norm_linear_args rms_good = {.norm = {.x = x, .gamma = gamma, .eps = 1e-6f},
                                               .type = ZOE_F32,
                                               .parts = &part,
                                               .n_parts = 1};
    const zoe_layer_norm_linear_args layer_good = {
        .norm = {.x = x, .scale = gamma}, .type = ZOE_F32, .parts = &part, .n_parts = 1};
    part = part_good;
    zoe_workspace work = workspace_new(zoe_layer_norm_linear_workspace(ctx, &layer_good));
    assert_true(work.bytes > zoe_rms_norm_linear_workspace(ctx, &rms_good));
#define REFUSED(change, status, word)                                                              \
    part = part_good;                                                                              \
    rms = rms_good;                                                                                \
    layer = layer_good;                                                                            \
    change;                                                                                        \
    assert_refused(ctx, zoe_rms_norm_linear(ctx, &rms, work), status, word);                       \
    assert_named(ctx, zoe_rms_norm_linear(ctx, &rms, work), "rms_norm_linear: ");                  \
    assert_refused(ctx, zoe_layer_norm_linear(ctx, &layer, work), status, word);                   \
    assert_named(ctx, zoe_layer_norm_linear(ctx, &layer, work), "layer_norm_linear: ")
    REFUSED(rms.type = layer.type = ZOE_F64, ZOE_INVALID, "the norm's type is f64, wanted f32");
    REFUSED(rms.type = layer.type = ZOE_NONE, ZOE_INVALID, "the norm's type is none");
    REFUSED(rms.norm.y = layer.norm.y = x, ZOE_INVALID, "y of the norm is given");
    REFUSED(part.x = x, ZOE_INVALID, "x of part 0 is given");
    REFUSED(part.w.rank = 3, ZOE_INVALID, "w of part 0 has rank 3");
    REFUSED(part.w.shape[1] = 7, ZOE_INVALID, "w is bf16 [8, 7]");
    REFUSED(part.y.data = x.data, ZOE_INVALID, "y overlaps x of the norm");
    REFUSED((part.residual = part.y = x), ZOE_INVALID, "y overlaps x of the norm");
    REFUSED(rms.norm.gamma.data = layer.norm.scale.data = part.y.data, ZOE_INVALID,
            "y overlaps a vector of the norm");
    REFUSED(rms.norm.gamma.shape[0] = layer.norm.scale.shape[0] = 7, ZOE_INVALID, "[7]");
    REFUSED(rms.norm.x.rank = layer.norm.x.rank = 1, ZOE_INVALID, "");
    REFUSED(rms.norm.x.rank = layer.norm.x.rank = 9, ZOE_INVALID, "rank 9");
    REFUSED(rms.norm.x.dtype = layer.norm.x.dtype = ZOE_I8, ZOE_INVALID, "x is i8");
    REFUSED(rms.n_parts = layer.n_parts = 9, ZOE_INVALID, "9 parts");
    REFUSED(part.y.rank = 100, ZOE_INVALID, "y has rank 100");
    rms = rms_good;
    layer = layer_good;
    rms.norm.x.rank = layer.norm.x.rank = -1;
    assert_int_equal(zoe_rms_norm_linear_workspace(ctx, &rms), 0);
    assert_int_equal(zoe_layer_norm_linear_workspace(ctx, &layer), 0);
    rms.parts = NULL;
    assert_int_equal(zoe_rms_norm_linear_workspace(ctx, &rms), 0);
    zoe_workspace whole = work;
    work.bytes = zoe_rms_norm_linear_workspace(ctx, &rms_good) - 1;
    REFUSED((void)0, ZOE_NOMEM, "workspace");
    work = whole;
#undef REFUSED
    part = part_good;
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_rms_norm_linear(ctx, &rms_good, work), ZOE_CANCELLED, "interrupted");
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_layer_norm_linear(ctx, &layer_good, work), ZOE_CANCELLED,
                   "interrupted");
    tensor_free(x);
    tensor_free(gamma);
    tensor_free(part_good.y);
    tensor_free(part_good.w);
    free(work.data);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_and_product_in_turn),
        cmocka_unit_test(layer_norm_modulation_and_product_in_turn),
        cmocka_unit_test(terms_and_odd_rows),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
