/* The dispatch table: C definitions first, then guests, later rungs over earlier ones. */
#include "kernel/kernel.h"

#include <pthread.h>

static void fill_c(zoe_kernels *k)
{
    zoe_kernels_fill_convert_c(k);
    zoe_kernels_fill_block_c(k);
    zoe_kernels_fill_activation_c(k);
    zoe_kernels_fill_rms_c(k);
    zoe_kernels_fill_rotary_c(k);
    zoe_kernels_fill_grad_c(k);
    zoe_kernels_fill_layer_c(k);
    zoe_kernels_fill_gemm_c(k);
    zoe_kernels_fill_softmax_c(k);
    zoe_kernels_fill_attention_c(k);
    zoe_kernels_fill_conv_c(k);
    zoe_kernels_fill_int8_c(k);
}

#if defined(__x86_64__)
static void fill_avx2(zoe_kernels *k)
{
    zoe_kernels_fill_convert_avx2(k);
    zoe_kernels_fill_block_avx2(k);
    zoe_kernels_fill_activation_avx2(k);
    zoe_kernels_fill_rms_avx2(k);
    zoe_kernels_fill_rotary_avx2(k);
    zoe_kernels_fill_grad_avx2(k);
    zoe_kernels_fill_layer_avx2(k);
    zoe_kernels_fill_gemm_avx2(k);
    zoe_kernels_fill_softmax_avx2(k);
    zoe_kernels_fill_attention_avx2(k);
    zoe_kernels_fill_conv_avx2(k);
    zoe_kernels_fill_int8_avx2(k);
}

static void fill_avx512(zoe_kernels *k)
{
    zoe_kernels_fill_softmax_avx512(k);
    zoe_kernels_fill_attention_avx512(k);
    zoe_kernels_fill_layer_avx512(k);
    zoe_kernels_fill_rms_avx512(k);
    zoe_kernels_fill_rotary_avx512(k);
    zoe_kernels_fill_int8_avx512(k);
}
#elif defined(__aarch64__)
static void fill_neon(zoe_kernels *k)
{
    zoe_kernels_fill_convert_neon(k);
    zoe_kernels_fill_block_neon(k);
    zoe_kernels_fill_activation_neon(k);
    zoe_kernels_fill_rms_neon(k);
    zoe_kernels_fill_rotary_neon(k);
    zoe_kernels_fill_layer_neon(k);
    zoe_kernels_fill_gemm_neon(k);
    zoe_kernels_fill_softmax_neon(k);
    zoe_kernels_fill_attention_neon(k);
    zoe_kernels_fill_conv_neon(k);
    zoe_kernels_fill_int8_neon(k);
}
#endif

void zoe_kernels_fill(zoe_kernels *k, zoe_isa isa)
{
    fill_c(k);
#if defined(__x86_64__)
    if (isa == ZOE_ISA_AVX2 || isa == ZOE_ISA_AVX512)
        fill_avx2(k);
    if (isa == ZOE_ISA_AVX512)
        fill_avx512(k);
#elif defined(__aarch64__)
    if (isa == ZOE_ISA_NEON)
        fill_neon(k);
#else
    (void)isa;
#endif
}

static zoe_kernels table;
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_init(void)
{
    zoe_kernels_fill(&table, zoe_cpu_isa());
}

const zoe_kernels *zoe_kernels_get(void)
{
    pthread_once(&table_once, table_init);
    return &table;
}
