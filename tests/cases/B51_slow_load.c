/* B51: weights that are not in memory come as fast as plain reads bring the file, and what is asked for
 * ahead comes without being touched.
 *
 *     case_B51_slow_load FILE [MIB]     makes FILE; exit 77 if its pages cannot be put out of memory */
#define _GNU_SOURCE
#include "case.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    TENSOR = 16 << 20, /* bytes */
    PIECE = 128 << 10, /* what cat takes at once */
    PAIRS = 8          /* of measurements at most */
};
static const double limit = 1.2;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Tensors of bf16, one behind the other as in a checkpoint. */
static void write_file(zoe_context *ctx, const char *path, size_t mebibytes)
{
    const size_t n = mebibytes * ((size_t)1 << 20) / TENSOR;
    zoe_named_tensor *list = case_memory(n, sizeof *list);
    char(*names)[40] = case_memory(n, sizeof *names);
    uint32_t *values = case_memory(TENSOR, 1), x = 1;
    for (size_t i = 0; i < TENSOR / sizeof *values; i++)
        values[i] = x = x * 1664525u + 1013904223u;
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "blocks.%zu.weight", i);
        list[i] =
            (zoe_named_tensor){names[i], zoe_tensor_2d(values, ZOE_BF16, TENSOR / 2 / 1024, 1024)};
    }
    case_must(ctx, zoe_safetensors_write(ctx, path, list, n, NULL, 0), path);
    free(values);
    free(names);
    free(list);
}

/* Bytes of these that are in memory. */
static size_t in_memory(const void *data, size_t n)
{
    const size_t page = page_bytes(), lead = (size_t)((uintptr_t)data % page);
    const size_t pages = (lead + n + page - 1) / page;
    unsigned char *there = case_memory(pages, 1);
    size_t count = 0;
    if (mincore((void *)((uintptr_t)data - lead), lead + n, there) != 0)
        exit(1);
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    free(there);
    return count * page;
}

/* Puts the file's pages out of memory. */
static void put_out(int fd)
{
    if (fdatasync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        exit(1);
}

static double time_reads(int fd)
{
    char *buffer = case_memory(PIECE, 1);
    put_out(fd);
    const double begin = now();
    for (off_t at = 0;;) {
        const ssize_t n = pread(fd, buffer, PIECE, at);
        if (n < 0)
            exit(1);
        if (n == 0)
            break;
        at += n;
    }
    const double took = now() - begin;
    free(buffer);
    return took;
}

/* Opens the checkpoint and takes every weight once, in the order of the file. faults: how often that
 * had to wait for the disk. */
static double time_store(zoe_context *ctx, int fd, const char *path, long *faults)
{
    struct rusage before, after;
    char *buffer = case_memory(PIECE, 1);
    zoe_store *store;
    put_out(fd);
    getrusage(RUSAGE_SELF, &before);
    const double begin = now();
    case_must(ctx, zoe_store_open(ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        char name[40];
        zoe_tensor t;
        snprintf(name, sizeof name, "blocks.%zu.weight", i);
        if (!zoe_store_find(store, name, &t))
            exit(1);
        for (size_t at = 0; at < TENSOR; at += PIECE)
            memcpy(buffer, (const char *)t.data + at, PIECE);
    }
    const double took = now() - begin;
    getrusage(RUSAGE_SELF, &after);
    *faults = after.ru_majflt - before.ru_majflt;
    zoe_store_close(store);
    free(buffer);
    return took;
}

/* Other programs may take the disk or the processor at any time: one good pair of measurements shows
 * what is possible. */
static void check_times(zoe_context *ctx, int fd, const char *path, size_t bytes)
{
    double best = INFINITY, reads = 0;
    long faults = 0, fewest = 0;
    for (size_t i = 0; i < PAIRS && best > limit; i++) {
        const double cat = time_reads(fd), store = time_store(ctx, fd, path, &faults);
        if (store / cat < best) {
            best = store / cat;
            reads = cat;
            fewest = faults;
        }
    }
    printf("%zu MiB: reads %.3f s, weights %.2f times that, %ld waits\n", bytes >> 20, reads, best,
           fewest);
    case_expect(best <= limit, "cold weights take %.2f times as long as reading the file", best);
    case_expect((size_t)fewest < bytes / PIECE * 2, "the disk was waited for %ld times", fewest);
}

/* All of a large tensor comes, not only its first part. */
static void check_asked_for(zoe_context *ctx, int fd, const char *path)
{
    zoe_store *store;
    zoe_tensor t;
    put_out(fd);
    case_must(ctx, zoe_store_open(ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    if (!zoe_store_find(store, "blocks.1.weight", &t))
        exit(1);
    size_t there = in_memory(t.data, TENSOR);
    case_expect(there <= TENSOR / 8, "%zu of %d bytes were there before", there, (int)TENSOR);
    zoe_store_will_need(store, t);
    for (int i = 0; i < 1000 && there < TENSOR; i++) {
        there = in_memory(t.data, TENSOR);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    case_expect(there >= TENSOR, "%zu of %d bytes came", there, (int)TENSOR);
    zoe_store_close(store);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const size_t mebibytes = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 128;
    zoe_context *ctx = case_context(1);
    write_file(ctx, argv[1], mebibytes);
    const int fd = open(argv[1], O_RDONLY);
    if (fd < 0)
        return 1;
    const size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
    put_out(fd);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 1;
    const size_t stays = in_memory(map, bytes);
    munmap(map, bytes);
    if (stays > bytes / 16) {
        printf("skipped: the pages of %s stay in memory, whatever is advised\n", argv[1]);
        return 77;
    }
    check_times(ctx, fd, argv[1], bytes);
    check_asked_for(ctx, fd, argv[1]);
    close(fd);
    zoe_context_free(ctx);
    return case_failures > 0;
}
