/* Classifier-free guidance and the choice of the expert. */
#include "sample/sample.h"

void zoe_guide(float *cond, const float *uncond, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cond[i] = uncond[i] + scale * (cond[i] - uncond[i]);
}

zoe_expert zoe_expert_of(float timestep, double boundary)
{
    return (double)timestep >= boundary * 1000.0 ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
}
