/* Which instruction set the kernels may use. */
#include "base/base.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

const char *zoe_isa_name(zoe_isa isa)
{
    static const char *const names[ZOE_ISA_COUNT] = {"c", "avx2"};
    return (unsigned)isa < ZOE_ISA_COUNT ? names[isa] : "unknown";
}

#if defined(__x86_64__)
/* __builtin_cpu_supports does not know F16C in every compiler. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

zoe_isa zoe_cpu_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        return ZOE_ISA_AVX2;
    return ZOE_ISA_C;
#else
    return ZOE_ISA_C;
#endif
}

zoe_isa zoe_cpu_isa(void)
{
    const zoe_isa found = zoe_cpu_best();
    const char *wish = getenv("ZOE_CPU");
    if (wish)
        for (int isa = 0; isa < (int)found; isa++)
            if (strcmp(wish, zoe_isa_name((zoe_isa)isa)) == 0)
                return (zoe_isa)isa;
    return found;
}
