/* Status names, the sentence of the first failure, the log, cancelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static void codes_and_names_are_pinned(void **state)
{
    (void)state;
    const struct {
        zoe_status status;
        int code;
        const char *name;
    } rows[] = {{ZOE_OK, 0, "OK"},
                {ZOE_INVALID, -1, "INVALID"},
                {ZOE_NOMEM, -2, "NOMEM"},
                {ZOE_IO, -3, "IO"},
                {ZOE_FORMAT, -4, "FORMAT"},
                {ZOE_MISSING, -5, "MISSING"},
                {ZOE_UNSUPPORTED, -6, "UNSUPPORTED"},
                {ZOE_NONFINITE, -7, "NONFINITE"},
                {ZOE_CANCELLED, -8, "CANCELLED"},
                {ZOE_PEER, -9, "PEER"},
                {ZOE_DEVICE, -10, "DEVICE"},
                {ZOE_INTERNAL, -11, "INTERNAL"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rows[i].status, rows[i].code);
        assert_string_equal(zoe_status_name(rows[i].status), rows[i].name);
    }
    assert_string_equal(zoe_status_name((zoe_status)-99), "UNKNOWN");
}

static void the_first_sentence_stands(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    assert_non_null(ctx);
    assert_string_equal(zoe_context_message(ctx), "");
    assert_int_equal(zoe_fail(ctx, ZOE_FORMAT, "row %d is short", 3), ZOE_FORMAT);
    assert_int_equal(zoe_fail(ctx, ZOE_IO, "later"), ZOE_IO);
    assert_string_equal(zoe_context_message(ctx), "row 3 is short");
    zoe_fail_in(ctx, "%s", "table.csv");
    assert_string_equal(zoe_context_message(ctx), "table.csv: row 3 is short");
    zoe_context_clear(ctx);
    assert_string_equal(zoe_context_message(ctx), "");
    assert_int_equal(zoe_fail(NULL, ZOE_IO, "nobody listens"), ZOE_IO);
    zoe_context_free(ctx);
    zoe_context_free(NULL);
}

static void long_sentences_are_cut(void **state)
{
    (void)state;
    static char longest[9000];
    memset(longest, 'x', sizeof longest - 1);
    zoe_context *ctx = zoe_context_new(1);
    assert_non_null(ctx);
    zoe_fail(ctx, ZOE_FORMAT, "%s", longest);
    const size_t most = strlen(zoe_context_message(ctx));
    assert_in_range(most, 1000, sizeof longest - 2);
    zoe_fail_in(ctx, "here");
    assert_int_equal(strlen(zoe_context_message(ctx)), most);
    assert_memory_equal(zoe_context_message(ctx), "here: xxx", 9);
    zoe_fail_in(ctx, "%s", longest);
    assert_int_equal(strlen(zoe_context_message(ctx)), most);
    assert_non_null(strstr(zoe_context_message(ctx), "x: here: x"));
    zoe_context_free(ctx);
}

typedef struct heard {
    int times;
    zoe_level level;
    char text[64];
} heard;

static void hear(void *user, zoe_level level, const char *text)
{
    heard *h = user;
    h->times++;
    h->level = level;
    h->text[0] = '\0';
    strncat(h->text, text, sizeof h->text - 1);
}

static void the_log_goes_to_the_host(void **state)
{
    (void)state;
    heard h = {0};
    zoe_context *ctx = zoe_context_new(1);
    assert_non_null(ctx);
    zoe_log(ctx, ZOE_INFO, "into the void");
    zoe_context_set_log(ctx, hear, &h);
    zoe_log(ctx, ZOE_WARNING, "%d tensors", 5);
    assert_int_equal(h.times, 1);
    assert_int_equal(h.level, ZOE_WARNING);
    assert_string_equal(h.text, "5 tensors");
    zoe_context_free(ctx);
}

static void cancel_ends_the_next_check(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    assert_non_null(ctx);
    assert_false(zoe_cancelled(ctx));
    assert_int_equal(zoe_check_cancel(ctx), ZOE_OK);
    zoe_cancel(ctx);
    assert_true(zoe_cancelled(ctx));
    assert_int_equal(zoe_check_cancel(ctx), ZOE_CANCELLED);
    assert_string_equal(zoe_context_message(ctx), "interrupted");
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_names_are_pinned), cmocka_unit_test(the_first_sentence_stands),
        cmocka_unit_test(long_sentences_are_cut),     cmocka_unit_test(the_log_goes_to_the_host),
        cmocka_unit_test(cancel_ends_the_next_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
