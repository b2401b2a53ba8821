/* Time by kind of operator: counted where somebody asked for it, and nowhere else. */
#include "op_case.h"
#include "op/clock.h"

static void run(zoe_context *ctx)
{
    zoe_tensor x = tensor_new(ZOE_F32, 8, 1000, 0), y = tensor_new(ZOE_F32, 8, 1000, 0);
    for (size_t m = 0; m < 8; m++)
        for (size_t j = 0; j < 1000; j++)
            put(x, m, j, noise());
    assert_int_equal(zoe_softmax(ctx, y, x), ZOE_OK);
    assert_int_equal(
        zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = y, .x = x, .axes = 1, .eps = 1e-6f}),
        ZOE_OK);
    assert_int_equal(zoe_cast(ctx, y, x), ZOE_OK);
    tensor_free(x);
    tensor_free(y);
}

static void counts(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_clock first = {.calls = {0}}, second = {.calls = {0}};
    run(ctx);
    zoe_clock_use(ctx, &first);
    run(ctx);
    run(ctx);
    zoe_clock_use(ctx, &second);
    run(ctx);
    zoe_clock_use(ctx, NULL);
    run(ctx);
    assert_int_equal(first.calls[ZOE_KIND_ELEMENT], 4);
    assert_int_equal(first.calls[ZOE_KIND_NORM], 2);
    assert_int_equal(second.calls[ZOE_KIND_ELEMENT], 2);
    assert_int_equal(second.calls[ZOE_KIND_NORM], 1);
    assert_int_equal(first.calls[ZOE_KIND_LINEAR], 0);
    assert_true(first.seconds[ZOE_KIND_ELEMENT] > 0.0 && first.seconds[ZOE_KIND_NORM] > 0.0);
    assert_true(first.seconds[ZOE_KIND_LINEAR] == 0.0);
    zoe_context_free(ctx);
}

/* What is refused, and what has nothing to do, is no call of the device. */
static void refusals(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_clock clock = {.calls = {0}};
    zoe_clock_use(ctx, &clock);
    zoe_tensor x = tensor_new(ZOE_F32, 2, 8, 0), y = tensor_new(ZOE_F32, 2, 9, 0);
    assert_int_equal(zoe_softmax(ctx, y, x), ZOE_INVALID);
    y.shape[0] = x.shape[0] = 0;
    y.shape[1] = 8;
    assert_int_equal(zoe_softmax(ctx, y, x), ZOE_OK);
    for (size_t k = 0; k < ZOE_KINDS; k++)
        assert_int_equal(clock.calls[k], 0);
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
}

static void names(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZOE_KINDS; i++)
        for (size_t j = 0; j <= i; j++)
            assert_int_equal(
                strcmp(zoe_op_kind_name((zoe_op_kind)i), zoe_op_kind_name((zoe_op_kind)j)) == 0,
                i == j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(refusals),
                                       cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
