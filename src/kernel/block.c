/* Block-quantised types: the definitions, which are those of base. */
#include "kernel/kernel.h"

static void widen_q4_0_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q4_0, n);
}

static void widen_q4_1_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q4_1, n);
}

static void widen_q5_0_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q5_0, n);
}

static void widen_q5_1_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q5_1, n);
}

static void widen_q8_0_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q8_0, n);
}

static void widen_q2_k_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q2_K, n);
}

static void widen_q3_k_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q3_K, n);
}

static void widen_q4_k_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q4_K, n);
}

static void widen_q5_k_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q5_K, n);
}

static void widen_q6_k_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_Q6_K, n);
}

void zoe_kernels_fill_block_c(zoe_kernels *k)
{
    k->widen_q4_0 = widen_q4_0_c;
    k->widen_q4_1 = widen_q4_1_c;
    k->widen_q5_0 = widen_q5_0_c;
    k->widen_q5_1 = widen_q5_1_c;
    k->widen_q8_0 = widen_q8_0_c;
    k->widen_q2_k = widen_q2_k_c;
    k->widen_q3_k = widen_q3_k_c;
    k->widen_q4_k = widen_q4_k_c;
    k->widen_q5_k = widen_q5_k_c;
    k->widen_q6_k = widen_q6_k_c;
}
