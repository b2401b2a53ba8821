/* Weights that are streamed: the same bytes as from memory, reading beside computing, no more in memory
 * than was said, and what happens when a file goes bad meanwhile. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "model/feed.h"

enum { LAYERS = 6, LAYER = 8 << 20, MIB = 1 << 20 };

typedef struct feed_case {
    zoe_context *ctx;
    char path[64];
    zoe_store *store;
    zoe_feed *feed;
} feed_case;

static void must(const feed_case *c, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(c->ctx));
}

/* ---- a file of layers ---- */

static void layer_name(char name[40], size_t i)
{
    snprintf(name, 40, "layer%zu.weight", i);
}

static void write_layers(feed_case *c)
{
    zoe_named_tensor list[LAYERS];
    char names[LAYERS][40];
    unsigned char *data[LAYERS];
    for (size_t i = 0; i < LAYERS; i++) {
        data[i] = malloc(LAYER);
        assert_non_null(data[i]);
        memset(data[i], (int)i + 1, LAYER);
        layer_name(names[i], i);
        list[i] =
            (zoe_named_tensor){names[i], zoe_tensor_2d(data[i], ZOE_BF16, LAYER / 2048, 1024)};
    }
    must(c, zoe_safetensors_write(c->ctx, c->path, list, LAYERS, NULL, 0));
    for (size_t i = 0; i < LAYERS; i++)
        free(data[i]);
}

static zoe_tensor layer(const feed_case *c, size_t i)
{
    char name[40];
    zoe_tensor t;
    layer_name(name, i);
    assert_true(zoe_store_find(c->store, name, &t));
    return t;
}

static void start(feed_case *c, zoe_stream_plan plan)
{
    must(c, zoe_feed_new(c->ctx, &c->feed, c->store, LAYERS, plan));
    for (size_t i = 0; i < LAYERS; i++)
        must(c, zoe_feed_add(c->ctx, c->feed, i, layer(c, i)));
    must(c, zoe_feed_start(c->ctx, c->feed));
}

static int set_up(void **state)
{
    feed_case *c = *state = calloc(1, sizeof *c);
    if (!c)
        return -1;
    c->ctx = zoe_context_new(1);
    snprintf(c->path, sizeof c->path, "/tmp/zoe-feed-%ld.safetensors", (long)getpid());
    write_layers(c);
    must(c, zoe_store_open(c->ctx, &c->store, c->path, ZOE_NAMES_AS_STORED));
    return 0;
}

static int tear_down(void **state)
{
    feed_case *c = *state;
    zoe_feed_free(c->feed);
    zoe_store_close(c->store);
    zoe_context_free(c->ctx);
    unlink(c->path);
    free(c);
    return 0;
}

/* ---- what is in memory ---- */

/* Bytes of the mapped file that count as this process's memory. */
static size_t mapped(const feed_case *c)
{
    char line[512];
    size_t sum = 0, kib;
    bool here = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strstr(line, " r"))
            here = strstr(line, c->path) != NULL;
        if (here && sscanf(line, "Rss: %zu kB", &kib) == 1)
            sum += kib << 10;
    }
    fclose(f);
    return sum;
}

/* Touches all of a layer, as computing does. */
static void use(const feed_case *c, size_t i)
{
    const zoe_tensor t = layer(c, i);
    const unsigned char *p = t.data;
    for (size_t k = 0; k < LAYER; k += 512)
        assert_int_equal(p[k], i + 1);
}

/* Waits until so many bytes have been read since the beginning; false after ten seconds. */
static bool comes_to(feed_case *c, size_t bytes)
{
    const double begun = zoe_now();
    while (zoe_feed_count(c->feed).bytes < bytes && zoe_now() - begun < 10.0)
        usleep(1000);
    return zoe_feed_count(c->feed).bytes >= bytes;
}

static size_t whole(size_t layers)
{
    return layers * (size_t)LAYER; /* runs begin at pages, a little before their tensors */
}

static void a_pass(feed_case *c, size_t resident)
{
    const size_t most = whole(resident + ZOE_FEED_AHEAD) + 12 * MIB;
    zoe_feed_begin(c->ctx, c->feed);
    for (size_t i = 0; i < LAYERS; i++) {
        must(c, zoe_feed_take(c->ctx, c->feed, i));
        use(c, i);
        assert_in_range(mapped(c), LAYER, most);
        zoe_feed_release(c->feed, i);
    }
    zoe_feed_end(c->feed);
    assert_in_range(mapped(c), whole(resident), whole(resident) + 4 * MIB);
}

static void no_more_than_said_is_in_memory(void **state)
{
    feed_case *c = *state;
    for (size_t resident = 0; resident < LAYERS; resident += 2) {
        start(c, (zoe_stream_plan){.resident = resident, .forget = resident == 2});
        zoe_store_drop(c->store);
        for (size_t pass = 0; pass < 3; pass++) {
            const size_t before = zoe_feed_count(c->feed).bytes;
            a_pass(c, resident);
            const size_t read = zoe_feed_count(c->feed).bytes - before;
            const size_t wanted = whole(pass ? LAYERS - resident : LAYERS);
            assert_in_range(read, wanted, wanted + LAYERS * 8192);
        }
        zoe_feed_free(c->feed);
        c->feed = NULL;
    }
}

/* While a layer is held, the next one comes, and no other. */
static void reading_goes_on_beside_computing(void **state)
{
    feed_case *c = *state;
    start(c, (zoe_stream_plan){.resident = 0});
    zoe_feed_begin(c->ctx, c->feed);
    must(c, zoe_feed_take(c->ctx, c->feed, 0));
    assert_true(comes_to(c, whole(2)));
    usleep(50000);
    assert_in_range(zoe_feed_count(c->feed).bytes, whole(2), whole(3) - 1);
    zoe_feed_release(c->feed, 0);
    assert_true(comes_to(c, whole(3)));
    const double waited = zoe_feed_count(c->feed).waiting;
    must(c, zoe_feed_take(c->ctx, c->feed, 1));
    assert_true(zoe_feed_count(c->feed).waiting - waited < 0.05);
    zoe_feed_end(c->feed);
}

static void layers_can_be_left_out(void **state)
{
    feed_case *c = *state;
    start(c, (zoe_stream_plan){.resident = 1});
    for (size_t pass = 0; pass < 20; pass++) {
        zoe_feed_begin(c->ctx, c->feed);
        for (size_t i = 0; i < LAYERS; i += 1 + pass % 4) {
            must(c, zoe_feed_take(c->ctx, c->feed, i));
            use(c, i);
            zoe_feed_release(c->feed, i);
        }
        zoe_feed_end(c->feed);
    }
    assert_in_range(mapped(c), LAYER, LAYER + 4 * MIB);
}

static void a_file_that_shrank_is_an_error(void **state)
{
    feed_case *c = *state;
    zoe_status status = ZOE_OK;
    size_t i = 0;
    start(c, (zoe_stream_plan){.resident = 0});
    zoe_feed_begin(c->ctx, c->feed);
    must(c, zoe_feed_take(c->ctx, c->feed, 0));
    assert_int_equal(truncate(c->path, 3 * (off_t)LAYER + LAYER / 2), 0);
    for (; i < LAYERS && status == ZOE_OK; i++) {
        status = zoe_feed_take(c->ctx, c->feed, i);
        zoe_feed_release(c->feed, i);
    }
    assert_int_equal(status, ZOE_FORMAT);
    assert_int_equal(i, 4); /* the fourth layer is only half there */
    assert_non_null(strstr(zoe_context_message(c->ctx), "shrank"));
    zoe_feed_end(c->feed);
}

static void cancelling_ends_the_wait(void **state)
{
    feed_case *c = *state;
    start(c, (zoe_stream_plan){.resident = 0});
    zoe_cancel(c->ctx);
    zoe_feed_begin(c->ctx, c->feed);
    assert_int_equal(zoe_feed_take(c->ctx, c->feed, LAYERS - 1), ZOE_CANCELLED);
    zoe_feed_end(c->feed);
}

/* Without a feed, and for tensors that are not mapped, there is nothing to do. */
static void nothing_to_stream(void **state)
{
    feed_case *c = *state;
    float values[4] = {0};
    zoe_feed_begin(c->ctx, NULL);
    must(c, zoe_feed_take(c->ctx, NULL, 3));
    zoe_feed_release(NULL, 3);
    zoe_feed_end(NULL);
    must(c, zoe_feed_new(c->ctx, &c->feed, c->store, 2, (zoe_stream_plan){0}));
    must(c, zoe_feed_add(c->ctx, c->feed, 1, zoe_tensor_1d(values, ZOE_F32, 4)));
    must(c, zoe_feed_start(c->ctx, c->feed));
    zoe_feed_begin(c->ctx, c->feed);
    for (size_t i = 0; i < 2; i++) {
        must(c, zoe_feed_take(c->ctx, c->feed, i));
        zoe_feed_release(c->feed, i);
    }
    assert_int_equal(zoe_feed_count(c->feed).bytes, 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(no_more_than_said_is_in_memory), CASE(reading_goes_on_beside_computing),
        CASE(layers_can_be_left_out),         CASE(a_file_that_shrank_is_an_error),
        CASE(cancelling_ends_the_wait),       CASE(nothing_to_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
