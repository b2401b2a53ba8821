/* A walk over the rows of several tensors at once, whatever their leading axes are, for operators
 * whose time is that of memory; and the question whether results should bypass the caches. */
#ifndef ZOE_WALK_H
#define ZOE_WALK_H

#include "device/cpu/rows.h"

/* Tensors that one walk may follow. */
enum { ZOE_WALK_MOST = 13 };

/* Where rows lie. Axes that all tensors have one behind the other are merged, so that most walks
 * have one axis. */
typedef struct zoe_walk {
    size_t rows; /* in all */
    int rank, tensors;
    size_t shape[ZOE_MAX_RANK];
    unsigned char *data[ZOE_WALK_MOST];
    ptrdiff_t step[ZOE_WALK_MOST][ZOE_MAX_RANK]; /* bytes from one index to the next */
} zoe_walk;

/* A place in a walk: the addresses of the current row in each tensor. */
typedef struct zoe_walker {
    const zoe_walk *walk;
    size_t index[ZOE_MAX_RANK];
    unsigned char *at[ZOE_WALK_MOST]; /* NULL for tensors that are none */
} zoe_walker;

/* A walk over the first `rank` axes of a tensor like x. */
static inline zoe_walk zoe_walk_over(zoe_tensor x, int rank)
{
    zoe_walk w = {.rows = 1, .rank = rank};
    for (int i = 0; i < rank; i++) {
        w.shape[i] = x.shape[i];
        w.rows *= x.shape[i];
    }
    return w;
}

/* Takes t along, at the next place of zoe_walker.at: its first axes are those of the walk, an extent
 * of 1 stands for all indices, and missing last ones likewise. t may be none. */
static inline void zoe_walk_add(zoe_walk *w, zoe_tensor t)
{
    const int n = w->tensors++;
    w->data[n] = t.dtype == ZOE_NONE ? NULL : t.data;
    for (int i = 0; i < w->rank; i++)
        w->step[n][i] = t.dtype == ZOE_NONE || i >= t.rank || t.shape[i] <= 1
                            ? 0
                            : t.stride[i] * (ptrdiff_t)zoe_dtype_bytes(t.dtype);
}

/* Can axis i + 1 be counted on within axis i, for every tensor? */
static inline bool zoe_walk_joins(const zoe_walk *w, int i)
{
    for (int n = 0; n < w->tensors; n++)
        if (w->step[n][i] != w->step[n][i + 1] * (ptrdiff_t)w->shape[i + 1])
            return false;
    return true;
}

/* Merges what can be merged; after the last zoe_walk_add. */
static inline void zoe_walk_merge(zoe_walk *w)
{
    for (int i = w->rank - 2; i >= 0; i--) {
        const bool outer_single = w->shape[i] == 1, inner_single = w->shape[i + 1] == 1;
        if (!outer_single && !inner_single && !zoe_walk_joins(w, i))
            continue;
        for (int n = 0; n < w->tensors; n++)
            w->step[n][i] = inner_single ? w->step[n][i] : w->step[n][i + 1];
        w->shape[i] *= w->shape[i + 1];
        w->rank--;
        for (int j = i + 1; j < w->rank; j++) {
            w->shape[j] = w->shape[j + 1];
            for (int n = 0; n < w->tensors; n++)
                w->step[n][j] = w->step[n][j + 1];
        }
    }
}

/* The walker at row m. */
static inline zoe_walker zoe_walk_at(const zoe_walk *w, size_t m)
{
    zoe_walker p = {.walk = w};
    for (int n = 0; n < w->tensors; n++)
        p.at[n] = w->data[n];
    for (int i = w->rank - 1; i >= 0; i--) {
        p.index[i] = m % w->shape[i];
        m /= w->shape[i];
        for (int n = 0; n < w->tensors; n++)
            if (p.at[n])
                p.at[n] += (ptrdiff_t)p.index[i] * w->step[n][i];
    }
    return p;
}

/* On to the next row; behind the last one, to the first. */
static inline void zoe_walker_next(zoe_walker *p)
{
    const zoe_walk *w = p->walk;
    for (int i = w->rank - 1; i >= 0; i--) {
        const bool more = p->index[i] + 1 < w->shape[i];
        const ptrdiff_t by = more ? 1 : -(ptrdiff_t)p->index[i];
        p->index[i] = more ? p->index[i] + 1 : 0;
        for (int n = 0; n < w->tensors; n++)
            if (p->at[n])
                p->at[n] += by * w->step[n][i];
        if (more)
            return;
    }
}

/* A number for each row of x, dense. */
static inline zoe_tensor zoe_row_numbers(zoe_tensor x, float *numbers)
{
    zoe_tensor t = {.data = numbers, .dtype = ZOE_F32, .rank = x.rank - 1};
    ptrdiff_t step = 1;
    for (int i = t.rank - 1; i >= 0; i--) {
        t.shape[i] = x.shape[i];
        t.stride[i] = step;
        step *= (ptrdiff_t)x.shape[i];
    }
    return t;
}

static inline size_t zoe_row_numbers_bytes(zoe_tensor x)
{
    size_t rows = 1;
    for (int i = 0; i + 1 < x.rank; i++)
        rows *= x.shape[i];
    return zoe_arena_bytes(rows, sizeof(float));
}

/* Should a result of so many bytes go past the caches? Stores that do (kernels call it `stream`) save
 * the read of the lines that they replace, which is a third of the traffic of a copy; but what
 * follows must then read the result from memory. Kernels give the same bytes either way. */
enum { ZOE_STREAM_BYTES = 8 << 20 };
static inline bool zoe_streams(size_t bytes)
{
    return bytes >= ZOE_STREAM_BYTES;
}

/* After the last streaming store of a task, so that other threads see the results. */
static inline void zoe_stream_end(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif
