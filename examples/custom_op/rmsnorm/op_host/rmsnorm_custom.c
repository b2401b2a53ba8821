/* rmsnorm_custom on the host: the shape of its output, and how the work is cut.
 *
 *   x [..., D], gamma [D] or none -> y like x */
#include "op.h"

bool op_infer(op_call *call)
{
    if (op_rank(call, INPUT_X) < 1)
        return op_refuse(call, "x has no axes, wanted at least 1");
    if (op_given(call, INPUT_GAMMA)) {
        const size_t width = op_size(call, INPUT_X, -1);
        if (op_rank(call, INPUT_GAMMA) != 1 || op_size(call, INPUT_GAMMA, 0) != width)
            return op_refuse(
                call, "gamma is not one row of %zu elements, as long as the last axis of x", width);
    }
    return op_output_like(call, OUTPUT_Y, INPUT_X);
}

/* Rows go through registers, so no scratch memory is needed. */
bool op_tile(op_call *call, op_tiling *tiling)
{
    op_tile_rows(call, tiling, INPUT_X);
    return true;
}
