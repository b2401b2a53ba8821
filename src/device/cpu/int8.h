/* What the int8 files of this folder share. */
#ifndef ZOE_CPU_INT8_H
#define ZOE_CPU_INT8_H

#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

/* Packed weights: panels of ZOE_PANEL output channels, each [K / 4, rounded up][ZOE_PANEL][4] bytes,
 * 0 behind N and K; and the scales of each panel, [groups][ZOE_PANEL], 0 behind N. */
typedef struct int8_packed {
    zoe_int8_weights head;
    size_t groups;       /* at least 1 */
    size_t panel_bytes;  /* from panel to panel */
    size_t panel_scales; /* the same for the scales */
    int8_t *panels;
    float *scales;
} int8_packed;

/* Runs of a row of K elements that have scales of their own. */
static inline size_t int8_groups(size_t K, size_t group)
{
    return group ? zoe_ceil_div(K, group) : 1;
}

/* Quantises n elements and returns their scale; spare takes n floats and may be x. */
float zoe_cpu_int8_quantise(const zoe_kernels *k, int8_t *q, const float *x, size_t n,
                            float *spare);

/* The same for each group of a row. */
void zoe_cpu_int8_quantise_row(const zoe_kernels *k, int8_t *q, float *scale, const float *x,
                               size_t K, size_t group, float *spare);

#endif
