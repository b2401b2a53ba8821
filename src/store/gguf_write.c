/* Writing GGUF files (version 3, the usual alignment). See gguf.c for the format. */
#include "store/content.h"

enum { ALIGNMENT = 32, TEXT = 8, WORD = 4 };

static const struct {
    zoe_dtype dtype;
    uint32_t id;
} types[] = {
    {ZOE_F32, 0},  {ZOE_F16, 1},   {ZOE_BF16, 30}, {ZOE_F64, 28},  {ZOE_I8, 24},   {ZOE_I16, 25},
    {ZOE_I32, 26}, {ZOE_I64, 27},  {ZOE_Q4_0, 2},  {ZOE_Q4_1, 3},  {ZOE_Q5_0, 6},  {ZOE_Q5_1, 7},
    {ZOE_Q8_0, 8}, {ZOE_Q2_K, 10}, {ZOE_Q3_K, 11}, {ZOE_Q4_K, 12}, {ZOE_Q5_K, 13}, {ZOE_Q6_K, 14},
};

typedef struct writer {
    zoe_context *ctx;
    zoe_output out;
    size_t at; /* bytes written */
} writer;

static zoe_status put(writer *w, const void *data, size_t n)
{
    w->at += n;
    return zoe_output_write(w->ctx, &w->out, data, n);
}

static zoe_status put_number(writer *w, uint64_t v, size_t bytes)
{
    unsigned char p[8];
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
    return put(w, p, bytes);
}

static zoe_status put_text(writer *w, const char *text)
{
    TRY(put_number(w, strlen(text), 8));
    return put(w, text, strlen(text));
}

static size_t aligned(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static zoe_status put_padding(writer *w)
{
    static const char zeros[ALIGNMENT];
    return put(w, zeros, aligned(w->at) - w->at);
}

static zoe_status put_keys(writer *w, size_t tensors, const char *architecture)
{
    TRY(put(w, "GGUF", 4));
    TRY(put_number(w, 3, 4));
    TRY(put_number(w, tensors, 8));
    TRY(put_number(w, architecture ? 2 : 1, 8));
    if (architecture) {
        TRY(put_text(w, "general.architecture"));
        TRY(put_number(w, TEXT, 4));
        TRY(put_text(w, architecture));
    }
    TRY(put_text(w, "general.quantization_version"));
    TRY(put_number(w, WORD, 4));
    return put_number(w, 2, 4);
}

static zoe_status put_entry(writer *w, const zoe_named_tensor *named, size_t offset,
                            const char *path)
{
    const zoe_tensor t = named->tensor;
    const size_t n = sizeof types / sizeof *types;
    size_t i = 0;
    while (i < n && types[i].dtype != t.dtype)
        i++;
    if (i == n)
        return zoe_fail(w->ctx, ZOE_INVALID, "%s: tensor %s: GGUF has no type for %s", path,
                        named->name, zoe_dtype_name(t.dtype));
    TRY(put_text(w, named->name));
    TRY(put_number(w, (uint64_t)t.rank, 4));
    for (int k = t.rank; k-- > 0;)
        TRY(put_number(w, t.shape[k], 8));
    TRY(put_number(w, types[i].id, 4));
    return put_number(w, offset, 8);
}

zoe_status zoe_gguf_stream(zoe_context *ctx, const char *path, const zoe_named_tensor *tensors,
                           size_t n, const char *architecture, zoe_tensor_writer write, void *user)
{
    writer w = {.ctx = ctx};
    size_t offset = 0;
    zoe_status status;
    TRY(zoe_output_open(ctx, &w.out, path));
    TRY_GOTO(put_keys(&w, n, architecture));
    for (size_t i = 0; i < n; i++) {
        TRY_GOTO(put_entry(&w, &tensors[i], offset, path));
        offset += aligned(zoe_tensor_bytes(tensors[i].tensor));
    }
    TRY_GOTO(put_padding(&w));
    for (size_t i = 0; i < n; i++) {
        TRY_GOTO(write(user, &w.out, i));
        w.at += zoe_tensor_bytes(tensors[i].tensor);
        TRY_GOTO(put_padding(&w));
    }
    TRY_GOTO(zoe_output_commit(ctx, &w.out));
done:
    zoe_output_abort(&w.out);
    return status;
}
