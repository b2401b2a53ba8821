/* Room 1, base: what every other room stands on. Errors, memory, threads, cpu features, element
 * types. Knows nothing of models, media or operators. */
#ifndef ZOE_BASE_H
#define ZOE_BASE_H

#include <math.h>
#include <string.h>

#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

/* ---- errors ---- */

/* Runs expr; leaves the function with its status if that is not ZOE_OK. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        const zoe_status try_status = (expr);                                                      \
        if (try_status != ZOE_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

/* The same, for functions that have something to clean up: sets `status` and goes to `done`. */
#define TRY_GOTO(expr)                                                                             \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != ZOE_OK)                                                                      \
            goto done;                                                                             \
    } while (0)

/* Notes the sentence (unless an earlier one stands) and has the value status. A macro, so that the
 * compiler sees that a failure leaves the caller. */
#define zoe_fail(ctx, status, ...) (zoe_note_failure(ctx, __VA_ARGS__), zoe_failed(status))
static inline zoe_status zoe_failed(zoe_status status)
{
    return status;
}
void zoe_note_failure(zoe_context *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the sentence that stands, to say in which file or stage it happened.
 */
void zoe_fail_in(zoe_context *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

void zoe_log(zoe_context *ctx, zoe_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ZOE_CANCELLED with a sentence if the context was cancelled, else ZOE_OK. */
zoe_status zoe_check_cancel(zoe_context *ctx);

/* ---- sizes from outside: false means overflow, *r is then not set ---- */

bool zoe_size_mul(size_t *r, size_t a, size_t b);
bool zoe_size_add(size_t *r, size_t a, size_t b);
/* Product of n extents. */
bool zoe_size_product(size_t *r, const size_t *extents, size_t n);

/* ---- memory ---- */

/* count*size bytes, 64-byte aligned, not cleared. count 0 gives a valid pointer. `what` is named in
 * the refusal. *p is NULL on failure. */
zoe_status zoe_alloc(zoe_context *ctx, void **p, size_t count, size_t size, const char *what);
/* The same, cleared. */
zoe_status zoe_alloc_zero(zoe_context *ctx, void **p, size_t count, size_t size, const char *what);
void zoe_free(void *p); /* NULL is fine */
/* ZOE_NOMEM unless so many bytes can be had at this moment: for libraries that report a lack of
 * memory as something else. */
zoe_status zoe_alloc_probe(zoe_context *ctx, size_t bytes, const char *what);

/* A copy of a string; free with zoe_free. */
zoe_status zoe_strdup(zoe_context *ctx, char **copy, const char *text);
/* printf into a new string; free with zoe_free. */
zoe_status zoe_strf(zoe_context *ctx, char **text, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Memory that this process can have, in bytes: that of the machine, or less if its cgroup or one
 * above it has a limit. SIZE_MAX if it cannot be told. */
size_t zoe_memory_bytes(void);
/* What the system could give to a program that starts now, without swap; SIZE_MAX if it cannot be told. */
size_t zoe_memory_available(void);
/* The limit of the cgroups alone; 0 without one. root: as for zoe_cpu_quota. */
size_t zoe_memory_limit(const char *root);

/* For tests: the n-th zoe_alloc from now (1 = next) of the process fails, and every later one; 0
 * ends that. */
void zoe_alloc_fail_at(size_t n);

/* An arena owns the scratch memory of one stage and hands it out piece by piece. The same walk over
 * the pieces serves planning and running: an arena of zeroes has no memory and only counts. */
typedef struct zoe_arena {
    unsigned char *base; /* NULL: only count */
    size_t size, used;   /* bytes; used is SIZE_MAX after an overflow */
} zoe_arena;

zoe_status zoe_arena_new(zoe_context *ctx, zoe_arena *arena, size_t bytes, const char *what);
void zoe_arena_free(zoe_arena *arena);
/* count*size bytes, 64-byte aligned; NULL while only counting, or when they do not fit. */
void *zoe_arena_take(zoe_arena *arena, size_t count, size_t size);
/* A dense tensor in the arena. */
zoe_tensor zoe_arena_2d(zoe_arena *arena, zoe_dtype dtype, size_t n0, size_t n1);
/* Did everything fit? If not, the plan was wrong: ZOE_INTERNAL. */
zoe_status zoe_arena_status(zoe_context *ctx, const zoe_arena *arena, const char *what);
/* Bytes that one take of count*size occupies; SIZE_MAX on overflow. */
size_t zoe_arena_bytes(size_t count, size_t size);

/* ---- threads ---- */

/* Runs fn(arg, i, worker) for i = 0..n-1 on the context's threads. worker is in 0..threads-1 and
 * unique among those that run at once: index for scratch memory. Which worker gets which i is not
 * fixed, so results must not depend on it. Nested calls run in the calling thread as worker 0. */
typedef void (*zoe_task_fn)(void *arg, size_t i, size_t worker);
void zoe_parallel_for(const zoe_context *ctx, size_t n, zoe_task_fn fn, void *arg);

/* Threads that affinity and cgroup quota leave to this process, at least 1. */
int zoe_cpu_threads(void);
/* CPUs that the quotas of this process's cgroup and of those above it are worth, rounded up; 0
 * without a limit. Versions 1 and 2. root: "" for this machine; tests give a folder with proc/ and
 * sys/ in it. */
int zoe_cpu_quota(const char *root);

/* ---- cpu ---- */

/* Instruction sets that there are kernels for. AVX2 includes FMA and F16C; AVX512 is F, BW, DQ and VL on
 * top of AVX2; NEON is that of aarch64. */
typedef enum zoe_isa {
    ZOE_ISA_C = 0,
    ZOE_ISA_AVX2,
    ZOE_ISA_AVX512,
    ZOE_ISA_NEON,
    ZOE_ISA_COUNT
} zoe_isa;

/* Does this cpu run it? */
bool zoe_cpu_has(zoe_isa isa);
/* The last one that this cpu runs. */
zoe_isa zoe_cpu_best(void);
/* The same, or the lower one that ZOE_CPU=c|avx2|avx512|neon names. */
zoe_isa zoe_cpu_isa(void);
/* Instructions beyond AVX512 that this cpu has; guests of that rung ask for them one by one. */
typedef struct zoe_cpu_extras {
    bool vnni; /* AVX512_VNNI: products of bytes summed in 32 bits */
    bool bf16; /* AVX512_BF16 */
} zoe_cpu_extras;
zoe_cpu_extras zoe_cpu_extras_get(void);
const char *zoe_isa_name(zoe_isa isa);

/* ---- element types ---- */

static inline float zoe_f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t zoe_bits_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float zoe_f32_of_bf16(uint16_t h)
{
    return zoe_f32_from_bits((uint32_t)h << 16);
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t zoe_bf16_of_f32(float f)
{
    const uint32_t u = zoe_bits_of_f32(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* f rounded to the nearest bf16. */
static inline float zoe_bf16_round(float f)
{
    return zoe_f32_of_bf16(zoe_bf16_of_f32(f));
}

float zoe_f32_of_f16(uint16_t h);
uint16_t zoe_f16_of_f32(float f);

/* Element i of a dense run of floating type dtype, widened. */
float zoe_load_f32(const void *data, zoe_dtype dtype, size_t i);
/* Rounds value to dtype (F32, F16, BF16, F64) and stores it as element i. */
void zoe_store_f32(void *data, zoe_dtype dtype, size_t i, float value);
/* n elements of floating type dtype, widened into dst. Exact for every type but F64; of blocks, what
 * their definition gives (base/block.h). */
void zoe_widen(float *dst, const void *src, zoe_dtype dtype, size_t n);
/* The elements first .. first + n - 1 of a dense tensor of floating type, widened, times their
 * factors in f32. */
void zoe_tensor_widen(float *dst, zoe_tensor t, size_t first, size_t n);
/* n floats rounded into dst of type dtype (F32, F16, BF16). */
void zoe_narrow(void *dst, zoe_dtype dtype, const float *src, size_t n);
bool zoe_dtype_is_float(zoe_dtype dtype);

#endif
