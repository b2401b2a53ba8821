/* B18: the text encoder with weights in f16 and with activations rounded to bf16. Its residual
 * stream is made to pass what f16 can hold, as that of the real umT5 does: it must be f32 (or bf16,
 * where everything is rounded to that), and the context finite and right.
 *
 *     case_B18_half_precision DATA */
#include "case.h"

#include <unistd.h>

enum { TOKENS = 12 };

/* The encoder's second layer of the feed-forward part, times this, passes 65504. */
static const float gain = 49152.0f;

static zoe_status copy(zoe_context *ctx, const zoe_store *from, const char *path, zoe_dtype dtype)
{
    const size_t n = zoe_store_count(from);
    zoe_named_tensor *tensors = case_memory(n, sizeof *tensors);
    for (size_t i = 0; i < n; i++) {
        const zoe_tensor t = zoe_store_tensor(from, i);
        const size_t count = zoe_tensor_count(t);
        void *values = case_memory(count, zoe_dtype_bytes(dtype));
        const float factor = strstr(zoe_store_name(from, i), "ffn.fc2") ? gain : 1.0f;
        for (size_t k = 0; k < count; k++) /* through f16 in any case: the same numbers */
            zoe_store_f32(
                values, dtype, k,
                zoe_f32_of_f16(zoe_f16_of_f32(factor * zoe_load_f32(t.data, t.dtype, k))));
        tensors[i].name = zoe_store_name(from, i);
        tensors[i].tensor = zoe_tensor_of(values, dtype, t.rank, t.shape);
    }
    const zoe_status status = zoe_safetensors_write(ctx, path, tensors, n, NULL, 0);
    for (size_t i = 0; i < n; i++)
        free(tensors[i].tensor.data);
    free(tensors);
    return status;
}

/* The largest value in the residual stream behind a block; whether it is of a type of that range,
 * and finite. */
typedef struct stream {
    double largest;
    bool sound;
} stream;

static void see(void *user, const char *name, zoe_tensor value)
{
    stream *s = user;
    const size_t length = strlen(name);
    if (length < 5 || strncmp(name, "block", 5) != 0 || strcmp(name + length - 4, ".out") != 0)
        return;
    s->sound = s->sound && (value.dtype == ZOE_F32 || value.dtype == ZOE_BF16);
    for (size_t i = 0; i < zoe_tensor_count(value); i++) {
        const double v = fabs((double)zoe_load_f32(value.data, value.dtype, i));
        s->sound = s->sound && isfinite(v);
        s->largest = v > s->largest ? v : s->largest;
    }
}

static float *encode(zoe_context *ctx, const char *path, bool bf16, size_t *width)
{
    static const int32_t ids[TOKENS] = {5, 17, 99, 3, 42, 150, 7, 64, 33, 12, 120, 1};
    zoe_store *store;
    zoe_umt5 *umt5;
    stream s = {0.0, true};
    const zoe_probe probe = {see, &s};
    case_must(ctx, zoe_store_open(ctx, &store, path, ZOE_NAMES_UMT5), path);
    case_must(ctx, zoe_umt5_open(ctx, &umt5, store, bf16), path);
    *width = zoe_umt5_dim(umt5);
    float *context = case_memory(TOKENS * *width, sizeof *context);
    case_must(ctx, zoe_umt5_encode(ctx, umt5, context, ids, TOKENS, TOKENS, &probe), path);
    case_expect(s.sound, "%s, bf16 %d: the residual stream is f16 or not finite", path, bf16);
    case_expect(s.largest > 2 * 65504.0, "%s, bf16 %d: at most %g: f16 would do", path, bf16,
                s.largest);
    zoe_umt5_close(umt5);
    zoe_store_close(store);
    return context;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    zoe_context *ctx = case_context(1);
    zoe_store *store;
    char folder[] = "/tmp/zoe-case-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    const char *wide = case_path(folder, "wide.safetensors");
    const char *half = case_path(folder, "half.safetensors");
    const char *source = case_path(argv[1], "t5/model.safetensors");
    case_must(ctx, zoe_store_open(ctx, &store, source, ZOE_NAMES_UMT5), source);
    case_must(ctx, copy(ctx, store, wide, ZOE_F32), wide);
    case_must(ctx, copy(ctx, store, half, ZOE_F16), half);
    zoe_store_close(store);

    size_t width;
    float *want = encode(ctx, wide, false, &width), *got = encode(ctx, half, false, &width);
    float *rounded = encode(ctx, half, true, &width);
    case_expect(memcmp(want, got, TOKENS * width * sizeof *want) == 0,
                "the same numbers in f16 give another context than in f32");
    double apart = 0.0, size = 0.0;
    for (size_t i = 0; i < TOKENS * width; i++) {
        case_expect(isfinite(got[i]) && isfinite(rounded[i]), "value %zu is not finite", i);
        apart += ((double)rounded[i] - want[i]) * ((double)rounded[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    case_expect(size > 0.0 && sqrt(apart / size) < 5e-2, "bf16 is off by %g", sqrt(apart / size));
    free(want);
    free(got);
    free(rounded);
    unlink(wide);
    unlink(half);
    rmdir(folder);
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
