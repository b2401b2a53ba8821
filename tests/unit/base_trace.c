/* Traces: what is recorded, that it can be moved between processes, and the file. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/trace.h"

static char path[] = "/tmp/zoe_trace_XXXXXX";

static char *written(zoe_context *ctx, const zoe_trace *t)
{
    char *text;
    size_t size;
    assert_int_equal(zoe_trace_write(ctx, t, path), ZOE_OK);
    assert_int_equal(zoe_file_read(ctx, &text, &size, path, 1 << 26), ZOE_OK);
    assert_int_equal(strlen(text), size);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void without_a_trace_nothing_happens(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    zoe_trace_add(NULL, ZOE_TRACK_COMPUTE, "x", 0, 0.0);
    zoe_trace_add(ctx, ZOE_TRACK_COMPUTE, "x", 0, 0.0);
    zoe_trace_free(NULL);
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    zoe_context_set_trace(ctx, NULL);
    zoe_trace_add(ctx, ZOE_TRACK_COMPUTE, "x", 0, 0.0);
    char *text = written(ctx, t);
    assert_string_equal(text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost\":0},"
                              "\"traceEvents\":[\n"
                              "{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"tid\":0,"
                              "\"args\":{}}\n]}\n");
    zoe_free(text);
    zoe_trace_free(t);
}

static void events_are_written(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    zoe_trace_add_ended(ctx, ZOE_TRACK_COMPUTE, "attention", 3, 100.0, 100.5);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "keys", SIZE_MAX, 100.0, 100.25);
    zoe_trace_add_ended(ctx, ZOE_TRACK_READ, "\"a\\b\"\n\x7f\xc3", 0, 99.0, 98.0);
    zoe_context_set_trace(ctx, NULL);
    char *text = written(ctx, t);
    assert_non_null(strstr(text,
                           "{\"ph\":\"X\",\"name\":\"attention\",\"cat\":\"compute\",\"pid\":0,"
                           "\"tid\":0,\"ts\":1000000.000,\"dur\":500000.000,"
                           "\"args\":{\"number\":3}},\n"));
    assert_non_null(strstr(text, "{\"ph\":\"X\",\"name\":\"keys\",\"cat\":\"exchange\",\"pid\":0,"
                                 "\"tid\":16,\"ts\":1000000.000,\"dur\":250000.000},\n"));
    /* ends before it begins: of no length */
    assert_non_null(strstr(text,
                           "\"name\":\"\\\"a\\\\b\\\"\\u000a\\ufffd\\ufffd\",\"cat\":\"read\","
                           "\"pid\":0,\"tid\":32,\"ts\":0.000,\"dur\":0.000,"));
    assert_int_equal(count(text, "\"thread_name\""), 3);
    assert_int_equal(count(text, "\"args\":{\"name\":\"rank 0\"}"), 1);
    assert_non_null(strstr(text, "\"tid\":16,\"args\":{\"name\":\"exchange\"}"));
    zoe_free(text);
    zoe_trace_free(t);
}

/* Exchanges that are under way at once get lanes; what lies within another stays beside it. */
static void overlapping_events_get_lanes(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "a", SIZE_MAX, 1.0, 2.0);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "b", SIZE_MAX, 1.5, 2.5);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "c", SIZE_MAX, 2.0, 3.0);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "d", SIZE_MAX, 2.2, 2.3);
    for (size_t i = 0; i < 40; i++) /* more than there are lanes */
        zoe_trace_add_ended(ctx, ZOE_TRACK_READ, "r", i, 1.0 + 0.01 * (double)i,
                            2.0 + 0.01 * (double)i);
    zoe_context_set_trace(ctx, NULL);
    char *text = written(ctx, t);
    assert_non_null(strstr(text, "\"name\":\"a\",\"cat\":\"exchange\",\"pid\":0,\"tid\":16,"));
    assert_non_null(strstr(text, "\"name\":\"b\",\"cat\":\"exchange\",\"pid\":0,\"tid\":17,"));
    assert_non_null(strstr(text, "\"name\":\"c\",\"cat\":\"exchange\",\"pid\":0,\"tid\":16,"));
    assert_non_null(strstr(text, "\"name\":\"d\",\"cat\":\"exchange\",\"pid\":0,\"tid\":16,"));
    assert_non_null(strstr(text, "\"tid\":17,\"args\":{\"name\":\"exchange 2\"}"));
    assert_int_equal(count(text, "\"name\":\"r\""), 40);
    assert_int_equal(count(text, "{\"name\":\"read"), 16);
    zoe_free(text);
    zoe_trace_free(t);
}

static void traces_travel(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *own, *other;
    void *data;
    size_t bytes;
    assert_int_equal(zoe_trace_new(ctx, &own), ZOE_OK);
    assert_int_equal(zoe_trace_new(ctx, &other), ZOE_OK);
    zoe_context_set_trace(ctx, own);
    zoe_trace_add_ended(ctx, ZOE_TRACK_COMPUTE, "block", 1, 5.0, 6.0);
    zoe_context_set_trace(ctx, other);
    zoe_trace_add_ended(ctx, ZOE_TRACK_COMPUTE, "block", 1, 15.5, 16.0);
    zoe_trace_add_ended(ctx, ZOE_TRACK_COMPUTE, "block", 2, 16.0, 16.5);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, "", SIZE_MAX, 15.0, 16.5);
    zoe_context_set_trace(ctx, NULL);
    assert_int_equal(zoe_trace_pack(ctx, other, &data, &bytes), ZOE_OK);
    zoe_trace_free(other);
    assert_int_equal(zoe_trace_unpack(ctx, own, data, bytes, 7, 10.0), ZOE_OK);
    memset(data, 'x', bytes); /* it keeps its own names */
    zoe_free(data);
    char *text = written(ctx, own);
    assert_non_null(strstr(text, "\"name\":\"block\",\"cat\":\"compute\",\"pid\":0,\"tid\":0,"
                                 "\"ts\":0.000,\"dur\":1000000.000"));
    assert_non_null(strstr(text, "\"name\":\"block\",\"cat\":\"compute\",\"pid\":7,\"tid\":0,"
                                 "\"ts\":500000.000,\"dur\":500000.000,\"args\":{\"number\":1}"));
    assert_non_null(strstr(text, "\"name\":\"\",\"cat\":\"exchange\",\"pid\":7,\"tid\":16,"
                                 "\"ts\":0.000,\"dur\":1500000.000}"));
    assert_int_equal(count(text, "\"args\":{\"name\":\"rank 7\"}"), 1);
    zoe_free(text);
    zoe_trace_free(own);
}

static void broken_bytes_are_refused(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    void *data;
    size_t bytes;
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    zoe_trace_add_ended(ctx, ZOE_TRACK_COMPUTE, "one", 1, 5.0, 6.0);
    zoe_trace_add_ended(ctx, ZOE_TRACK_READ, "two", 1, 5.0, 6.0);
    zoe_context_set_trace(ctx, NULL);
    assert_int_equal(zoe_trace_pack(ctx, t, &data, &bytes), ZOE_OK);
    for (size_t n = 0; n < bytes; n++) { /* cut */
        void *copy = malloc(n + 1);
        memcpy(copy, data, n);
        zoe_context_clear(ctx);
        assert_int_equal(zoe_trace_unpack(ctx, t, copy, n, 1, 0.0), ZOE_FORMAT);
        free(copy);
    }
    size_t refused = 0;
    for (size_t i = 0; i < bytes; i++)
        for (unsigned bit = 0; bit < 8; bit++) { /* any bit: refused, or harmless */
            unsigned char *b = data;
            b[i] ^= (unsigned char)(1u << bit);
            zoe_context_clear(ctx);
            const zoe_status status = zoe_trace_unpack(ctx, t, data, bytes, 1, 0.0);
            assert_true(status == ZOE_OK || status == ZOE_FORMAT);
            refused += status != ZOE_OK;
            b[i] ^= (unsigned char)(1u << bit);
        }
    assert_true(refused > 100);
    zoe_context_clear(ctx);
    zoe_free(written(ctx, t));
    zoe_free(data);
    zoe_trace_free(t);
}

enum { THREADS = 4, EVENTS = 2000 };

static void *add_many(void *ctx)
{
    for (size_t i = 0; i < EVENTS; i++)
        zoe_trace_add(ctx, ZOE_TRACK_READ, "many", i, zoe_now());
    return NULL;
}

static void any_thread_may_add(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    pthread_t threads[THREADS];
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, ctx), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    zoe_context_set_trace(ctx, NULL);
    char *text = written(ctx, t);
    assert_int_equal(count(text, "\"name\":\"many\""), THREADS * EVENTS);
    zoe_free(text);
    zoe_trace_free(t);
}

static void without_memory_events_are_lost(void **state)
{
    zoe_context *ctx = *state;
    zoe_trace *t;
    assert_int_equal(zoe_trace_new(ctx, &t), ZOE_OK);
    zoe_context_set_trace(ctx, t);
    zoe_alloc_fail_at(1);
    zoe_trace_add(ctx, ZOE_TRACK_READ, "lost", 1, 0.0);
    zoe_trace_add(ctx, ZOE_TRACK_READ, "lost", 2, 0.0);
    zoe_alloc_fail_at(0);
    zoe_trace_add(ctx, ZOE_TRACK_READ, "kept", 3, 0.0);
    zoe_context_set_trace(ctx, NULL);
    char *text = written(ctx, t);
    assert_non_null(strstr(text, "\"lost\":2"));
    assert_non_null(strstr(text, "\"kept\""));
    assert_null(strstr(text, "\"name\":\"lost\""));
    zoe_free(text);
    /* Also for the bytes and the file. */
    void *data;
    size_t bytes;
    assert_string_equal(zoe_context_message(ctx), "");
    for (size_t n = 1; n <= 2; n++) {
        zoe_alloc_fail_at(n);
        const zoe_status status = zoe_trace_write(ctx, t, path);
        zoe_alloc_fail_at(0);
        assert_int_equal(status, ZOE_NOMEM);
        zoe_context_clear(ctx);
    }
    zoe_alloc_fail_at(1);
    assert_int_equal(zoe_trace_pack(ctx, t, &data, &bytes), ZOE_NOMEM);
    assert_null(data);
    zoe_alloc_fail_at(0);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_trace_write(ctx, t, "/nowhere/trace.json"), ZOE_IO);
    zoe_trace_free(t);
}

static int set_up(void **state)
{
    const int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int clear(void **state)
{
    zoe_context_clear(*state);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    zoe_context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_trace_nothing_happens, clear),
        cmocka_unit_test_setup(events_are_written, clear),
        cmocka_unit_test_setup(overlapping_events_get_lanes, clear),
        cmocka_unit_test_setup(traces_travel, clear),
        cmocka_unit_test_setup(broken_bytes_are_refused, clear),
        cmocka_unit_test_setup(any_thread_may_add, clear),
        cmocka_unit_test_setup(without_memory_events_are_lost, clear),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
