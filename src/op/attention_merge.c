/* The contracts of joining attention over parts of the keys. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

#include <stdio.h>

#define TYPES (ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16))

/* The name of one of several tensors. */
typedef struct part_name {
    char text[32];
} part_name;

static part_name name_of(const char *list, size_t p)
{
    part_name n;
    snprintf(n.text, sizeof n.text, "%s[%zu]", list, p);
    return n;
}

/* o as wanted of everything else: at least one axis before the width. */
static zoe_status check_output(zoe_context *ctx, const char *op, zoe_tensor o)
{
    static const size_t any[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY};
    if (o.rank < 2 || o.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: o has rank %d, wanted 2 to %d", op, o.rank,
                        ZOE_MAX_RANK);
    return zoe_check_tensor(ctx, op, "o", o, TYPES, o.rank, any);
}

/* t [leading axes of o, last] f32 */
static zoe_status check_numbers(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                zoe_tensor o, size_t last, unsigned or_none)
{
    size_t shape[ZOE_MAX_RANK];
    memcpy(shape, o.shape, sizeof shape);
    shape[o.rank - 1] = last;
    return zoe_check_tensor(ctx, op, name, t, ZOE_TYPE(ZOE_F32) | or_none, o.rank, shape);
}

zoe_status zoe_attention_merge(zoe_context *ctx, const zoe_attention_merge_args *a)
{
    static const char op[] = "attention_merge";
    TRY(check_output(ctx, op, a->o));
    TRY(check_numbers(ctx, op, "lse", a->lse, a->o, 1, ZOE_TYPES_OR_NONE));
    if (a->parts == 0 || !a->outs || !a->lses)
        return zoe_fail(ctx, ZOE_INVALID, "attention_merge: there are no parts");
    if (a->lse_invalid != 0.0f && !isinf(a->lse_invalid))
        return zoe_fail(ctx, ZOE_INVALID, "attention_merge: lse_invalid is %g, wanted -inf or inf",
                        (double)a->lse_invalid);
    TRY(zoe_check_apart(ctx, op, "o", a->o, "lse", a->lse, false));
    for (size_t p = 0; p < a->parts; p++) {
        const part_name out = name_of("outs", p), lse = name_of("lses", p);
        TRY(zoe_check_tensor(ctx, op, out.text, a->outs[p], TYPES, a->o.rank, a->o.shape));
        TRY(check_numbers(ctx, op, lse.text, a->lses[p], a->o, 1, 0));
        TRY(zoe_check_apart(ctx, op, "o", a->o, out.text, a->outs[p], true));
        TRY(zoe_check_apart(ctx, op, "o", a->o, lse.text, a->lses[p], false));
        TRY(zoe_check_apart(ctx, op, "lse", a->lse, out.text, a->outs[p], false));
        TRY(zoe_check_apart(ctx, op, "lse", a->lse, lse.text, a->lses[p], true));
    }
    if (zoe_tensor_count(a->o) == 0)
        return ZOE_OK;
    return ZOE_RUN(ATTENTION, attention_merge(ctx, a));
}

zoe_status zoe_attention_update(zoe_context *ctx, const zoe_attention_update_args *a)
{
    static const char op[] = "attention_update";
    TRY(check_output(ctx, op, a->o));
    const struct {
        const char *name;
        zoe_tensor t;
    } inputs[] = {{"prev_o", a->prev_o},   {"cur_o", a->cur_o},       {"prev_max", a->prev_max},
                  {"cur_max", a->cur_max}, {"prev_sum", a->prev_sum}, {"cur_sum", a->cur_sum}},
      outputs[] = {{"o", a->o}, {"max", a->max}, {"sum", a->sum}};
    const size_t copies = a->max.rank == a->o.rank ? a->max.shape[a->max.rank - 1] : 1;
    for (size_t i = 0; i < 2; i++)
        TRY(zoe_check_tensor(ctx, op, inputs[i].name, inputs[i].t, TYPES, a->o.rank, a->o.shape));
    for (size_t i = 2; i < 6; i++)
        TRY(check_numbers(ctx, op, inputs[i].name, inputs[i].t, a->o, copies, 0));
    for (size_t i = 1; i < 3; i++)
        TRY(check_numbers(ctx, op, outputs[i].name, outputs[i].t, a->o, copies, 0));
    if (copies == 0)
        return zoe_fail(ctx, ZOE_INVALID, "attention_update: max has no copies, wanted at least 1");
    for (size_t y = 0; y < 3; y++) {
        for (size_t z = y + 1; z < 3; z++)
            TRY(zoe_check_apart(ctx, op, outputs[y].name, outputs[y].t, outputs[z].name,
                                outputs[z].t, false));
        for (size_t x = 0; x < 6; x++)
            TRY(zoe_check_apart(ctx, op, outputs[y].name, outputs[y].t, inputs[x].name, inputs[x].t,
                                x / 2 == y));
    }
    if (zoe_tensor_count(a->o) == 0)
        return ZOE_OK;
    return ZOE_RUN(ATTENTION, attention_update(ctx, a));
}
