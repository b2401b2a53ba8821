/* Convolution of frames enlarged by repeating pixels, with fewer products.
 *
 * Where two taps of the kernel fall on copies of one pixel, their weights can be added first: a 3 x
 * 3 kernel on the enlarged frame is a 2 x 2 kernel on the frame itself, 2.25 times less work. Which
 * taps fall together depends on whether the output's row and column are even or odd, so that there
 * are four kernels, each of which makes a quarter of the output (Shi et al. 2016, arXiv
 * 1609.07009). The added weights are made for each call, in the workspace. */
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

/* Along one axis: outputs first, first + 2, ... use a kernel of `taps`, into which tap p goes at (p
 * + odd) / 2. */
typedef struct parity {
    size_t first, outputs, odd, taps, pad;
} parity;

static parity parity_of(size_t first, size_t extent, size_t pad, size_t kernel)
{
    const size_t odd = (first + pad) % 2;
    return (parity){.first = first,
                    .outputs = extent > first ? (extent - first + 1) / 2 : 0,
                    .odd = odd,
                    .taps = (odd + kernel - 1) / 2 + 1,
                    .pad = (pad + odd - first) / 2};
}

bool zoe_cpu_conv_is_enlarged(const zoe_conv3d_args *args)
{
    return args->upsample && args->stride_h == 1 && args->stride_w == 1 && args->dilation_h == 1 &&
           args->dilation_w == 1 && (args->weights->kh > 1 || args->weights->kw > 1);
}

/* Bytes of the merged weights of the largest of the four. */
static size_t merged_bytes(const zoe_conv_weights *w)
{
    /* Not more than the packed weights have, which exist. */
    const size_t taps = w->kt * (w->kh / 2 + 1) * (w->kw / 2 + 1);
    return zoe_arena_bytes(conv_columns(w->Cout) * taps * w->Cin, sizeof(float));
}

typedef struct merging {
    const conv_packed *from;
    conv_packed *to;
    parity row, column;
} merging;

static void merge_panel(void *arg, size_t i, size_t worker)
{
    const merging *m = arg;
    const zoe_conv_weights *from = &m->from->head, *to = &m->to->head;
    const size_t size = from->Cin * conv_panel_width(from->Cout, i); /* of one tap */
    const float *w = conv_panel(m->from, i);
    float *merged = conv_panel(m->to, i);
    (void)worker;
    memset(merged, 0, to->kt * to->kh * to->kw * size * sizeof *merged);
    for (size_t a = 0; a < from->kt; a++)
        for (size_t p = 0; p < from->kh; p++)
            for (size_t q = 0; q < from->kw; q++, w += size) {
                const size_t down = (p + m->row.odd) / 2, right = (q + m->column.odd) / 2;
                float *sum = merged + ((a * to->kh + down) * to->kw + right) * size;
                for (size_t n = 0; n < size; n++)
                    sum[n] += w[n];
            }
}

/* Every second row and column of t, from the first of each on. */
static zoe_tensor every_second(zoe_tensor t, const parity *row, const parity *column)
{
    if (t.dtype == ZOE_NONE)
        return t;
    if (t.data && row->outputs && column->outputs)
        t.data = (unsigned char *)t.data +
                 ((size_t)t.stride[1] * row->first + (size_t)t.stride[2] * column->first) *
                     zoe_dtype_bytes(t.dtype);
    t.shape[1] = row->outputs;
    t.shape[2] = column->outputs;
    t.stride[1] *= 2;
    t.stride[2] *= 2;
    return t;
}

/* One of the four: its kernel's extents in `part`, which has the weights elsewhere, and its
 * arguments. */
typedef struct quarter {
    parity row, column;
    conv_packed part;
    zoe_conv3d_args args; /* but for the weights */
} quarter;

static quarter quarter_of(const zoe_conv3d_args *args, size_t i)
{
    const zoe_conv_weights *w = args->weights;
    quarter q = {.row = parity_of(i / 2, args->y.shape[1], args->pad_top, w->kh),
                 .column = parity_of(i % 2, args->y.shape[2], args->pad_left, w->kw),
                 .part = *(const conv_packed *)w,
                 .args = *args};
    q.part.head.kh = q.row.taps;
    q.part.head.kw = q.column.taps;
    q.args.upsample = false;
    q.args.pad_top = q.row.pad;
    q.args.pad_left = q.column.pad;
    q.args.y = every_second(args->y, &q.row, &q.column);
    q.args.residual = every_second(args->residual, &q.row, &q.column);
    return q;
}

size_t zoe_cpu_conv_enlarged_bytes(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    size_t most = 0, bytes;
    for (size_t i = 0; i < 4; i++) {
        quarter q = quarter_of(args, i);
        q.args.weights = &q.part.head;
        const size_t direct = zoe_cpu_conv_direct_bytes(ctx, &q.args);
        most = direct > most ? direct : most;
    }
    return zoe_size_add(&bytes, most, merged_bytes(args->weights)) ? bytes : SIZE_MAX;
}

zoe_status zoe_cpu_conv_enlarged(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    const zoe_conv_weights *w = args->weights;
    unsigned char *behind = work.data;
    float *merged = (float *)(void *)behind; /* and then the work of the direct way */
    const zoe_workspace rest = {.data = behind + merged_bytes(w),
                                .bytes = work.bytes - merged_bytes(w)};
    for (size_t i = 0; i < 4; i++) {
        quarter q = quarter_of(args, i);
        if (q.row.outputs == 0 || q.column.outputs == 0)
            continue;
        q.part.panels = merged;
        q.args.weights = &q.part.head;
        merging job = {
            .from = (const conv_packed *)w, .to = &q.part, .row = q.row, .column = q.column};
        zoe_parallel_for(ctx, conv_panels(w->Cout), merge_panel, &job);
        TRY(zoe_cpu_conv_direct(ctx, &q.args, rest));
    }
    return ZOE_OK;
}
