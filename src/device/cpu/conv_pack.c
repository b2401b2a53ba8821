/* Packing of convolution weights: [Cout, Cin, taps] as stored becomes panels that a kernel reads
 * front to back. */
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"

enum { EXTENTS = 5 };

/* Floats of the three parts, panels first. false: more than can be addressed. */
static bool part_sizes(const size_t extents[EXTENTS], size_t *panels, size_t *bias, size_t *zeros,
                       size_t *total)
{
    const size_t Cout = extents[0], Cin = extents[1];
    const size_t full = Cout / CONV_PANEL * CONV_PANEL;
    const size_t rest = Cout > full ? conv_panel_width(Cout, full / CONV_PANEL) : 0;
    size_t width, bytes;
    *zeros = Cin;
    return zoe_size_add(&width, full, rest) &&
           zoe_size_product(panels, (size_t[]){width, Cin, extents[2], extents[3], extents[4]},
                            EXTENTS) &&
           zoe_size_mul(bias, conv_panels(Cout), CONV_PANEL) &&
           zoe_size_add(total, *panels, *bias) && zoe_size_add(total, *total, *zeros) &&
           zoe_size_mul(&bytes, *total, sizeof(float));
}

size_t zoe_cpu_conv_weights_bytes(const size_t extents[EXTENTS])
{
    size_t panels, bias, zeros, total;
    if (!part_sizes(extents, &panels, &bias, &zeros, &total) ||
        total > (SIZE_MAX - sizeof(conv_packed)) / sizeof(float))
        return SIZE_MAX;
    return total * sizeof(float) + sizeof(conv_packed);
}

/* Output channel `o` of w, as row[Cin][taps], into column `column` of its panel. */
static void pack_channel(float *panel, size_t width, size_t column, const float *row, size_t Cin,
                         size_t taps)
{
    for (size_t c = 0; c < Cin; c++)
        for (size_t tap = 0; tap < taps; tap++)
            panel[(tap * Cin + c) * width + column] = row[c * taps + tap];
}

typedef struct packing {
    conv_packed *packed;
    zoe_tensor w;
    float *rows; /* one widened [Cin][taps] per worker */
} packing;

static void pack_panel(void *arg, size_t i, size_t worker)
{
    const packing *p = arg;
    const zoe_conv_weights *head = &p->packed->head;
    const size_t taps = head->kt * head->kh * head->kw;
    const size_t row_size = taps * head->Cin;
    const size_t width = conv_panel_width(head->Cout, i);
    float *panel = p->packed->panels + i * CONV_PANEL * row_size;
    float *row = p->rows + worker * row_size;
    for (size_t column = 0; column < width; column++) {
        const size_t o = i * CONV_PANEL + column;
        if (o < head->Cout)
            zoe_tensor_widen(row, p->w, o * row_size, row_size);
        else
            memset(row, 0, row_size * sizeof *row);
        pack_channel(panel, width, column, row, head->Cin, taps);
    }
}

zoe_status zoe_cpu_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                    const size_t extents[EXTENTS], zoe_tensor bias)
{
    size_t panels, bias_count, zeros, total, row_size, rows_count;
    zoe_status status = ZOE_OK;
    void *self = NULL, *memory = NULL, *rows = NULL;
    *packed = NULL;
    if (!part_sizes(extents, &panels, &bias_count, &zeros, &total) ||
        !zoe_size_product(&row_size, extents + 1, EXTENTS - 1) ||
        !zoe_size_mul(&rows_count, row_size, (size_t)zoe_context_threads(ctx)))
        return zoe_fail(ctx, ZOE_NOMEM, "convolution weights: more than memory can address");
    TRY_GOTO(zoe_alloc(ctx, &self, 1, sizeof(conv_packed), "convolution weights"));
    if (w.data)
        TRY_GOTO(zoe_alloc(ctx, &memory, total, sizeof(float), "packed convolution weights"));
    if (w.data)
        TRY_GOTO(zoe_alloc(ctx, &rows, rows_count, sizeof(float), "convolution weights to pack"));
    conv_packed *made = self;
    *made = (conv_packed){
        .head = {.device = &zoe_device_cpu,
                 .Cout = extents[0],
                 .Cin = extents[1],
                 .kt = extents[2],
                 .kh = extents[3],
                 .kw = extents[4],
                 .empty = !w.data},
        .panels = memory,
    };
    *packed = &made->head;
    if (!w.data)
        goto done;
    made->bias = made->panels + panels;
    made->zeros = made->bias + bias_count;
    memset(made->bias, 0, (bias_count + zeros) * sizeof(float));
    if (bias.dtype != ZOE_NONE)
        zoe_widen(made->bias, bias.data, bias.dtype, made->head.Cout);
    packing job = {.packed = made, .w = w, .rows = rows};
    zoe_parallel_for(ctx, conv_panels(made->head.Cout), pack_panel, &job);
done:
    zoe_free(rows);
    if (status != ZOE_OK) {
        zoe_free(memory);
        zoe_free(self);
    }
    return status;
}

void zoe_cpu_conv_weights_free(zoe_conv_weights *packed)
{
    if (!packed)
        return;
    zoe_free(((conv_packed *)packed)->panels);
    zoe_free(packed);
}
