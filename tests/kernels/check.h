/* What the checks of kernels share.
 *
 * How to add a check: check_kernels runs every row KERNEL(name, family, tolerance) of kernels.def on
 * every instruction set of this cpu by calling
 *     void check_<family>(const char *name, zoe_kernel_<family> *c, zoe_kernel_<family> *g,
 *                         double tolerance)
 * with the definition c and the guest g (or c again). Write that function, not static, in the file
 * of its group here (check_norm.c, check_gemm.c ...; a new file is found by itself); it is declared
 * below by the list, and a family without one does not link. Within: loop over odd sizes (`widths`),
 * take inputs from values(), bf16_values() or random_bytes() and results from guarded_new() or
 * guarded_copy(), call c and g, compare with all_close(), close_to() or same_bytes(), free with
 * guarded_free(), and end with a line BENCH(elements, c, g, arguments...) on the size that matters.
 * Include NaN and inf (values(n, true)) and y == x where the family allows it. Every check is run
 * twice: with the data in front of a page that faults, and behind one.
 * Try it: check_kernels --function 'name*' --bench. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/kernel.h"

/* ---- sizes ---- */

static const size_t widths[] = {0,  1,  2,  3,  5,  7,  8,  9,   15,  16,
                                17, 24, 31, 33, 63, 64, 65, 100, 257, 1025};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* The element type that a kernel's name ends with or mentions; F32 without one. */
zoe_dtype dtype_in(const char *name);

/* ---- memory beside a page that faults; what lies around the data must stay as it is ---- */

typedef struct guarded {
    void *data;
    size_t slot;
} guarded;

/* So many bytes of some constant pattern. */
guarded guarded_new(size_t bytes);
guarded guarded_copy(guarded from, size_t bytes);
/* Also looks whether something was written around the data, which is a failure. */
void guarded_free(guarded g);

/* ---- values, the same for the same seed and kernel ---- */

uint32_t random_word(void);
/* Most between -4 and 4, some of other sizes. */
float random_value(void);
/* One in four is a special one: zeroes, NaN, inf, subnormal, very large, limits of f16. */
float special_value(void);
guarded values(size_t n, bool special);
/* The same, each rounded to bf16 but stored as float. */
guarded bf16_values(size_t n, bool special);
guarded random_bytes(size_t n);
/* Values rounded to dtype (F32, F16 or BF16) and stored as that; a special NaN has any bits. */
guarded typed_values(zoe_dtype dtype, size_t n, bool special);

/* ---- comparison; n is the size that a failure names. Of a check, the first failure is told ---- */

/* NaN equals NaN; otherwise the same bits, or |got - want| <= tolerance * max(|want|, scale). */
void close_to(const char *name, size_t n, size_t i, float got, float want, double scale,
              double tolerance);
void all_close(const char *name, size_t n, const float *got, const float *want, double scale,
               double tolerance);
/* The same of elements of dtype. */
void all_close_as(const char *name, size_t n, zoe_dtype dtype, const void *got, const void *want,
                  double scale, double tolerance);
/* The same in double. */
void close_to_double(const char *name, size_t n, size_t i, double got, double want, double scale,
                     double tolerance);
/* count elements of so many bytes each, told as numbers in base 16. */
void same_bytes(const char *name, size_t n, const void *got, const void *want, size_t count,
                size_t element_bytes);

/* ---- time, with --bench ---- */

/* Which function is to be timed next in this check: 0 the definition, 1 the guest; -1 none. */
int bench_next(size_t elements, bool guest);
/* Calls to make before asking again; 0: the time is known. */
size_t bench_calls(void);

/* Times c and g on the arguments that follow. elements: what a time is divided by, such as outputs,
 * or multiply-adds of a product. */
#define BENCH(elements, c, g, ...)                                                                 \
    do {                                                                                           \
        for (int bench_which; (bench_which = bench_next(elements, (c) != (g))) >= 0;)              \
            for (size_t bench_left; (bench_left = bench_calls()) > 0;)                             \
                while (bench_left-- > 0)                                                           \
                    (void)(bench_which ? (g)(__VA_ARGS__) : (c)(__VA_ARGS__));                     \
    } while (0)

/* ---- the checks ---- */

#define KERNEL(name, family, tolerance)                                                            \
    void check_##family(const char *name_, zoe_kernel_##family *c, zoe_kernel_##family *g,         \
                        double tolerance_);
#include "kernel/kernels.def"
#undef KERNEL

/* ---- between check.c and check_kernels.c ---- */

/* What runs now. */
typedef struct check_state {
    const char *kernel, *rung;
    uint64_t seed;
    zoe_isa isa;
    bool behind; /* data lies behind the page that faults, not in front of it */
    bool bench;
    bool failed;
} check_state;
extern check_state now;

/* Starts a check; after it (or after it was left by a jump), check_end frees what it left. */
void check_begin(void);
void check_end(void);
/* Tells a failure, once a check. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The failure that an access to this address is. */
void check_fault(const void *address);
/* Times of a kernel that were taken: printed and forgotten. */
void bench_print(void);

#endif
