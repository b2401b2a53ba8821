/* Which instruction set the kernels may use. */
#include "base/base.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

const char *zoe_isa_name(zoe_isa isa)
{
    static const char *const names[ZOE_ISA_COUNT] = {"c", "avx2", "avx512", "neon"};
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

bool zoe_cpu_has(zoe_isa isa)
{
    switch (isa) {
    case ZOE_ISA_C: return true;
#if defined(__x86_64__)
    case ZOE_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case ZOE_ISA_AVX512:
        return zoe_cpu_has(ZOE_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    case ZOE_ISA_NEON: return true;
#endif
    default: return false;
    }
}

zoe_cpu_extras zoe_cpu_extras_get(void)
{
    zoe_cpu_extras extras = {.vnni = false};
#if defined(__x86_64__)
    extras.vnni = __builtin_cpu_supports("avx512vnni");
    extras.bf16 = __builtin_cpu_supports("avx512bf16");
#endif
    return extras;
}

zoe_isa zoe_cpu_best(void)
{
    for (int isa = ZOE_ISA_COUNT - 1; isa > ZOE_ISA_C; isa--)
        if (zoe_cpu_has((zoe_isa)isa))
            return (zoe_isa)isa;
    return ZOE_ISA_C;
}

zoe_isa zoe_cpu_isa(void)
{
    const char *wish = getenv("ZOE_CPU");
    for (int isa = 0; wish && isa < ZOE_ISA_COUNT; isa++)
        if (strcmp(wish, zoe_isa_name((zoe_isa)isa)) == 0 && zoe_cpu_has((zoe_isa)isa))
            return (zoe_isa)isa;
    return zoe_cpu_best();
}
