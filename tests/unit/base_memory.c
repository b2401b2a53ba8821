/* Sizes, allocation, the failing allocation, arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

static void sizes_refuse_overflow(void **state)
{
    (void)state;
    size_t r = 7;
    assert_true(zoe_size_mul(&r, 6, 7));
    assert_int_equal(r, 42);
    assert_true(zoe_size_mul(&r, SIZE_MAX, 0));
    assert_int_equal(r, 0);
    assert_true(zoe_size_mul(&r, SIZE_MAX, 1));
    assert_false(zoe_size_mul(&r, SIZE_MAX / 2 + 1, 2));
    assert_true(zoe_size_add(&r, SIZE_MAX - 1, 1));
    assert_true(r == SIZE_MAX);
    assert_false(zoe_size_add(&r, SIZE_MAX, 1));

    r = 7;
    assert_true(zoe_size_product(&r, (const size_t[]){2, 3, 5}, 3));
    assert_int_equal(r, 30);
    assert_true(zoe_size_product(&r, NULL, 0));
    assert_int_equal(r, 1);
    r = 7;
    assert_false(zoe_size_product(&r, (const size_t[]){SIZE_MAX, 2, 0}, 3));
    assert_int_equal(r, 7);
}

static void memory_is_aligned_and_cleared(void **state)
{
    zoe_context *ctx = *state;
    for (size_t n = 0; n < 200; n += 13) {
        void *p;
        assert_int_equal(zoe_alloc_zero(ctx, &p, n, 3, "test"), ZOE_OK);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < 3 * n; i++)
            assert_int_equal(((unsigned char *)p)[i], 0);
        zoe_free(p);
    }
    zoe_free(NULL);
}

static void too_much_memory_is_refused(void **state)
{
    zoe_context *ctx = *state;
    void *p = ctx;
    assert_int_equal(zoe_alloc(ctx, &p, SIZE_MAX / 2, 3, "latent"), ZOE_NOMEM);
    assert_null(p);
    assert_non_null(strstr(zoe_context_message(ctx), "latent"));
    zoe_context_clear(ctx);
    assert_int_equal(zoe_alloc(ctx, &p, SIZE_MAX, 1, "latent"), ZOE_NOMEM);
    assert_null(p);
}

static void the_asked_allocation_fails_and_all_after(void **state)
{
    zoe_context *ctx = *state;
    void *p[4] = {0};
    zoe_alloc_fail_at(3);
    const zoe_status s0 = zoe_alloc(ctx, &p[0], 1, 8, "a"), s1 = zoe_alloc(ctx, &p[1], 1, 8, "b");
    const zoe_status s2 = zoe_alloc(ctx, &p[2], 1, 8, "c"), s3 = zoe_alloc(ctx, &p[3], 1, 8, "d");
    char *text = NULL;
    const zoe_status s4 = zoe_strdup(ctx, &text, "x"), s5 = zoe_strf(ctx, &text, "%d", 1);
    zoe_alloc_fail_at(0);
    assert_int_equal(s0, ZOE_OK);
    assert_int_equal(s1, ZOE_OK);
    assert_int_equal(s2, ZOE_NOMEM);
    assert_int_equal(s3, ZOE_NOMEM);
    assert_int_equal(s4, ZOE_NOMEM);
    assert_int_equal(s5, ZOE_NOMEM);
    assert_null(p[2]);
    assert_null(p[3]);
    assert_null(text);
    assert_string_equal(zoe_context_message(ctx), "c: no memory for 8 bytes");
    zoe_free(p[0]);
    zoe_free(p[1]);
    assert_int_equal(zoe_alloc(ctx, &p[0], 1, 8, "e"), ZOE_OK);
    zoe_free(p[0]);
}

static void strings_are_copied_and_formatted(void **state)
{
    zoe_context *ctx = *state;
    char *text;
    assert_int_equal(zoe_strdup(ctx, &text, ""), ZOE_OK);
    assert_string_equal(text, "");
    zoe_free(text);
    assert_int_equal(zoe_strf(ctx, &text, "%s of %d", "blocks", 40), ZOE_OK);
    assert_string_equal(text, "blocks of 40");
    zoe_free(text);
}

static void arenas_count_and_hand_out(void **state)
{
    zoe_context *ctx = *state;
    zoe_arena arena, dry = {0};
    assert_int_equal(zoe_arena_new(ctx, &arena, 256, "test arena"), ZOE_OK);
    unsigned char *a = zoe_arena_take(&arena, 10, 4), *b = zoe_arena_take(&arena, 65, 1);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_int_equal(b - a, 64);
    assert_int_equal(arena.used, 192);
    const zoe_tensor t = zoe_arena_2d(&arena, ZOE_BF16, 4, 8);
    assert_ptr_equal(t.data, a + 192);
    assert_int_equal(zoe_arena_status(ctx, &arena, "test"), ZOE_OK);
    assert_null(zoe_arena_take(&arena, 1, 1));
    assert_int_equal(zoe_arena_status(ctx, &arena, "test"), ZOE_INTERNAL);
    assert_string_equal(zoe_context_message(ctx), "test: 256 bytes planned, 320 needed");
    zoe_arena_free(&arena);
    assert_null(arena.base);

    assert_null(zoe_arena_take(&dry, 10, 4)); /* only counts */
    assert_null(zoe_arena_2d(&dry, ZOE_F32, 3, 100).data);
    assert_int_equal(dry.used, 64 + 1216);
    assert_int_equal(zoe_arena_status(ctx, &dry, "test"), ZOE_OK);
    zoe_arena_2d(&dry, ZOE_F32, SIZE_MAX, 2);
    assert_true(dry.used == SIZE_MAX);

    assert_int_equal(zoe_arena_bytes(0, 4), 0);
    assert_int_equal(zoe_arena_bytes(1, 1), 64);
    assert_int_equal(zoe_arena_bytes(16, 4), 64);
    assert_int_equal(zoe_arena_bytes(17, 4), 128);
    assert_true(zoe_arena_bytes(SIZE_MAX, 2) == SIZE_MAX);
    assert_true(zoe_arena_bytes(SIZE_MAX, 1) == SIZE_MAX);

    zoe_context_clear(ctx);
    zoe_alloc_fail_at(1);
    const zoe_status status = zoe_arena_new(ctx, &arena, 256, "test arena");
    zoe_alloc_fail_at(0);
    assert_int_equal(status, ZOE_NOMEM);
    assert_null(arena.base);
    zoe_arena_free(&arena);
}

/* Files of a machine in a folder of their own: NAME and CONTENT in turn, ended by NULL. */
static size_t limit_with(const char *const *files)
{
    char folder[] = "/tmp/zoe-cgroup-XXXXXX", path[256], command[512];
    assert_non_null(mkdtemp(folder));
    for (; *files; files += 2) {
        snprintf(command, sizeof command, "mkdir -p $(dirname %s/%s)", folder, files[0]);
        assert_int_equal(system(command), 0);
        snprintf(path, sizeof path, "%s/%s", folder, files[0]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(files[1], f);
        fclose(f);
    }
    const size_t limit = zoe_memory_limit(folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return limit;
}

static void cgroups_limit_memory(void **state)
{
    (void)state;
    assert_int_equal(limit_with((const char *const[]){NULL}), 0);
    assert_int_equal(limit_with((const char *const[]){
                         "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "max\n",
                         "sys/fs/cgroup/a/memory.max", "9000000000\n", NULL}),
                     9000000000);
    assert_int_equal(limit_with((const char *const[]){
                         "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max",
                         "4096000\n", "sys/fs/cgroup/a/b/memory.high", "max\n",
                         "sys/fs/cgroup/a/memory.max", "9000000000\n", NULL}),
                     4096000);
    assert_int_equal(limit_with((const char *const[]){
                         "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "5000\n",
                         "sys/fs/cgroup/a/memory.high", "4000\n", NULL}),
                     4000);
    assert_int_equal(
        limit_with((const char *const[]){
            "proc/self/cgroup", "5:cpu:/x\n4:memory:/box\n0::/\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "123456789\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", NULL}),
        123456789);
    /* a container that does not see its own group: the mount is the group */
    assert_int_equal(
        limit_with((const char *const[]){"proc/self/cgroup", "0::/docker/0123\n",
                                         "sys/fs/cgroup/memory.max", "777777\n", NULL}),
        777777);
    assert_true(zoe_memory_bytes() > 0);
}

static int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_refuse_overflow),
        cmocka_unit_test(cgroups_limit_memory),
        cmocka_unit_test_setup_teardown(memory_is_aligned_and_cleared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_much_memory_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_asked_allocation_fails_and_all_after, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(strings_are_copied_and_formatted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(arenas_count_and_hand_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
