/* What step, vae and text share: checkpoints of random weights, passes through a few blocks, memory. */
#define _GNU_SOURCE /* mkstemps */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

/* ---- checkpoints ---- */

static zoe_status append(bench_bag *bag, const char *name, zoe_tensor tensor, bool owned)
{
    if (bag->count == bag->room) {
        const size_t room = bag->room ? 2 * bag->room : 256;
        void *items = realloc(bag->items, room * sizeof *bag->items);
        if (!items)
            return zoe_fail(bag->ctx, ZOE_NOMEM, "no memory for the names of %zu tensors", room);
        bag->items = items;
        bag->room = room;
    }
    char *copy;
    TRY(zoe_strdup(bag->ctx, &copy, name));
    bag->items[bag->count++] = (struct bench_bag_item){copy, tensor, owned};
    return ZOE_OK;
}

zoe_status zoe_bench_bag_add(bench_bag *bag, const char *name, int rank, const size_t *extents)
{
    static uint32_t state = 1;
    size_t n;
    void *p;
    TRY(zoe_check_cancel(bag->ctx));
    if (!zoe_size_product(&n, extents, (size_t)rank))
        return zoe_fail(bag->ctx, ZOE_INVALID, "%s: too many elements", name);
    TRY(zoe_alloc(bag->ctx, &p, n, zoe_dtype_bytes(bag->dtype), name));
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        zoe_store_f32(p, bag->dtype, i, ((float)(state >> 8) * 0x1p-24f - 0.5f) * 0.05f);
    }
    const zoe_status status = append(bag, name, zoe_tensor_of(p, bag->dtype, rank, extents), true);
    if (status != ZOE_OK)
        zoe_free(p);
    return status;
}

zoe_status zoe_bench_bag_repeat(bench_bag *bag, const char *prefix, size_t layers)
{
    char first[64];
    const size_t n = bag->count;
    const int length = snprintf(first, sizeof first, "%s0.", prefix);
    for (size_t layer = 1; layer < layers; layer++)
        for (size_t i = 0; i < n; i++) {
            char name[160];
            if (strncmp(bag->items[i].name, first, (size_t)length) != 0)
                continue;
            snprintf(name, sizeof name, "%s%zu.%s", prefix, layer, bag->items[i].name + length);
            TRY(append(bag, name, bag->items[i].tensor, false));
        }
    return ZOE_OK;
}

void zoe_bench_bag_free(bench_bag *bag)
{
    for (size_t i = 0; i < bag->count; i++) {
        zoe_free(bag->items[i].name);
        if (bag->items[i].owned)
            zoe_free(bag->items[i].tensor.data);
    }
    free(bag->items);
    *bag = (bench_bag){.ctx = bag->ctx};
}

/* A new file of this ending in the folder for such; its name is of zoe_strf. */
static zoe_status temporary(zoe_context *ctx, char **path, const char *ending)
{
    const char *folder = getenv("TMPDIR");
    TRY(zoe_strf(ctx, path, "%s/zoe-bench-XXXXXX%s", folder && *folder ? folder : "/tmp", ending));
    const int fd = mkostemps(*path, (int)strlen(ending), O_CLOEXEC);
    if (fd < 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot be made: %s", *path, strerror(errno));
    close(fd);
    return ZOE_OK;
}

static zoe_status write_plain(bench_bag *bag, const char *path)
{
    void *list;
    TRY(zoe_alloc(bag->ctx, &list, bag->count, sizeof(zoe_named_tensor), "list of tensors"));
    zoe_named_tensor *tensors = list;
    for (size_t i = 0; i < bag->count; i++)
        tensors[i] = (zoe_named_tensor){bag->items[i].name, bag->items[i].tensor};
    const zoe_status status = zoe_safetensors_write(bag->ctx, path, tensors, bag->count, NULL, 0);
    zoe_free(list);
    return status;
}

zoe_status zoe_bench_bag_open(bench_bag *bag, zoe_store **store, zoe_names names, zoe_dtype weights)
{
    char *plain = NULL, *blocks = NULL;
    zoe_status status;
    *store = NULL;
    TRY_GOTO(temporary(bag->ctx, &plain, ".safetensors"));
    TRY_GOTO(write_plain(bag, plain));
    if (weights != bag->dtype) {
        zoe_conversion conversion = {.type = weights};
        TRY_GOTO(temporary(bag->ctx, &blocks, ".gguf"));
        TRY_GOTO(zoe_checkpoint_convert(bag->ctx, blocks, plain, &conversion));
    }
    status = zoe_store_open(bag->ctx, store, blocks ? blocks : plain, names);
done:
    if (plain)
        unlink(plain);
    if (blocks)
        unlink(blocks);
    zoe_free(plain);
    zoe_free(blocks);
    return status;
}

/* ---- passes ---- */

zoe_status zoe_bench_time_model(bench *b, void *self, size_t calls, double *seconds)
{
    bench_model *m = self;
    *seconds = 0;
    for (size_t i = 0; i < calls; i++) {
        const double begin = zoe_bench_now(b);
        TRY(m->run(b->ctx, m->self, m->measured));
        const double many = zoe_bench_now(b) - begin;
        double whole = many, block = many / (double)m->blocks;
        if (m->measured < m->blocks) {
            TRY(m->run(b->ctx, m->self, 1));
            const double one = zoe_bench_now(b) - begin - many;
            block = (many - one) / (double)(m->measured - 1);
            whole = one + (double)(m->blocks - 1) * block;
        }
        *seconds += whole;
        m->seconds[m->n < BENCH_REPEATS + 2 ? m->n++ : BENCH_REPEATS + 1] = block;
    }
    return zoe_check_cancel(b->ctx);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double zoe_bench_model_block(bench_model *m)
{
    const size_t n = m->n > 1 ? m->n - 1 : m->n; /* the first time touches memory */
    double *seconds = m->seconds + (m->n - n);
    if (n == 0)
        return 0;
    qsort(seconds, n, sizeof *seconds, by_value);
    return seconds[n / 2];
}

/* ---- memory ---- */

void zoe_bench_memory_reset(void)
{
    malloc_trim(0); /* what was freed, and is kept for the next time, is not the model's */
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file)
        return;
    fputs("5", file);
    fclose(file);
}

size_t zoe_bench_memory_peak(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %zu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}
