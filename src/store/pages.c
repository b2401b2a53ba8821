/* The pages of mapped weights: brought in ahead of use, let go afterwards. */
#define _GNU_SOURCE
#include "store/content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

/* Runs that are so near to one another are read as one: what lies between are vectors, and reading on is
 * cheaper than beginning anew. */
enum { NEAR = 128 << 10 };

static const zoe_map *file_of(const zoe_store *store, const unsigned char *p)
{
    for (size_t i = 0; i < store->n_files && !store->borrowed; i++)
        if (store->files[i].size > 0 && p >= store->files[i].data &&
            (size_t)(p - store->files[i].data) < store->files[i].size)
            return &store->files[i];
    return NULL;
}

zoe_pages zoe_store_pages(const zoe_store *store, zoe_tensor tensor)
{
    const size_t bytes = zoe_tensor_bytes(tensor), page = (size_t)sysconf(_SC_PAGESIZE);
    const zoe_map *map = bytes ? file_of(store, tensor.data) : NULL;
    if (!map)
        return (zoe_pages){0};
    const size_t first = (size_t)((const unsigned char *)tensor.data - map->data);
    const size_t begin = first - first % page, end = first + bytes;
    return (zoe_pages){.map = map, .begin = begin, .bytes = end - begin};
}

static int by_place(const void *a, const void *b)
{
    const zoe_pages *p = a, *q = b;
    if (p->map != q->map)
        return p->map < q->map ? -1 : 1;
    return (p->begin > q->begin) - (p->begin < q->begin);
}

size_t zoe_pages_merge(zoe_pages *runs, size_t n)
{
    size_t used = 0;
    qsort(runs, n, sizeof *runs, by_place);
    for (size_t i = 0; i < n; i++) {
        zoe_pages *last = used > 0 ? &runs[used - 1] : NULL;
        if (runs[i].bytes == 0)
            continue;
        if (last && last->map == runs[i].map && runs[i].begin <= last->begin + last->bytes + NEAR) {
            const size_t end = runs[i].begin + runs[i].bytes;
            if (end > last->begin + last->bytes)
                last->bytes = end - last->begin;
            continue;
        }
        runs[used++] = runs[i];
    }
    return used;
}

static void *place(zoe_pages run, size_t offset)
{
    return (void *)(uintptr_t)(run.map->data + run.begin + offset);
}

void zoe_pages_advise(zoe_pages run, bool streamed)
{
    madvise(place(run, 0), run.bytes, streamed ? MADV_SEQUENTIAL : MADV_NORMAL);
}

/* For systems that cannot map ahead: into the page cache only. */
static int read_through(zoe_pages run, size_t offset, size_t bytes)
{
    char buffer[32 << 10];
    while (bytes > 0) {
        const size_t want = bytes < sizeof buffer ? bytes : sizeof buffer;
        const ssize_t n = pread(run.map->fd, buffer, want, (off_t)(run.begin + offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EFAULT;
        offset += (size_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int zoe_pages_bring(zoe_pages run, size_t offset, size_t bytes)
{
    while (madvise(place(run, offset), bytes, MADV_POPULATE_READ) != 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return read_through(run, offset, bytes);
        if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
    return 0;
}

void zoe_pages_drop(zoe_pages run, bool forget)
{
    if (run.bytes == 0)
        return;
    madvise(place(run, 0), run.bytes, MADV_DONTNEED);
    if (forget)
        posix_fadvise(run.map->fd, (off_t)run.begin, (off_t)run.bytes, POSIX_FADV_DONTNEED);
}

void zoe_store_drop_tensor(const zoe_store *store, zoe_tensor tensor)
{
    zoe_pages_drop(zoe_store_pages(store, tensor), false);
}
