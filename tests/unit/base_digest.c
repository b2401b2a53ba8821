/* SHA-256 against the examples of FIPS 180-4, whole, in pieces and from a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"

static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void test_known(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char text[ZOE_DIGEST_TEXT];
    (void)state;
    assert_int_equal(zoe_digest_of(ctx, text, "abc", 3), ZOE_OK);
    assert_string_equal(text, abc);
    assert_int_equal(zoe_digest_of(ctx, text, NULL, 0), ZOE_OK);
    assert_string_equal(text, nothing);
    zoe_context_free(ctx);
}

static void test_pieces(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char text[ZOE_DIGEST_TEXT];
    zoe_digest *digest;
    (void)state;
    assert_int_equal(zoe_digest_new(ctx, &digest), ZOE_OK);
    zoe_digest_add(digest, "a", 1);
    zoe_digest_add(digest, "", 0);
    zoe_digest_add(digest, "bc", 2);
    assert_int_equal(zoe_digest_end(ctx, digest, text), ZOE_OK);
    assert_string_equal(text, abc);
    zoe_digest_free(digest);
    zoe_context_free(ctx);
}

/* "ab", "c" and "a", "bc" are different lists. */
static void test_texts(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char text[2][ZOE_DIGEST_TEXT];
    const char *const lists[2][2] = {{"ab", "c"}, {"a", "bc"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        zoe_digest *digest;
        assert_int_equal(zoe_digest_new(ctx, &digest), ZOE_OK);
        zoe_digest_add_text(digest, lists[i][0]);
        zoe_digest_add_text(digest, lists[i][1]);
        assert_int_equal(zoe_digest_end(ctx, digest, text[i]), ZOE_OK);
        zoe_digest_free(digest);
    }
    assert_string_not_equal(text[0], text[1]);
    zoe_context_free(ctx);
}

static void test_file(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char text[ZOE_DIGEST_TEXT], path[] = "/tmp/zoe-digest-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    assert_int_equal(zoe_file_digest(ctx, text, path), ZOE_OK);
    assert_string_equal(text, abc);
    unlink(path);
    assert_int_equal(zoe_file_digest(ctx, text, path), ZOE_MISSING);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_file_digest(ctx, text, "/"), ZOE_IO);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
