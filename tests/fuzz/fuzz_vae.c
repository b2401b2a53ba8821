/* Fuzz target: the two Wan VAEs from a hostile checkpoint. The first byte: bit 0, the names of
 * diffusers; bit 2, Wan 2.2; frames are encoded and decoded too from 0xe0 on. Edits of a sound VAE follow
 * (fuzz_edit.h). */
#include "fuzz_edit.h"
#include "model/model.h"

static zoe_status give_frame(void *user, float *frame, size_t index)
{
    const size_t n = *(const size_t *)user;
    for (size_t i = 0; i < n; i++)
        frame[i] = (float)((i + index) % 17) / 8.0f - 1.0f;
    return ZOE_OK;
}

static zoe_status take_frames(void *user, const float *frames, size_t index, size_t count)
{
    const size_t n = *(const size_t *)user;
    volatile float sink;
    if (count > 0 && index + count > 0) {
        sink = frames[0];
        sink = frames[n * count - 1];
        (void)sink;
    }
    return ZOE_OK;
}

static void use(zoe_context *ctx, zoe_vae *vae)
{
    enum { MOST = 64 << 20 };
    const size_t side = zoe_vae_stride(vae), z = zoe_vae_channels(vae);
    size_t pixels = 3 * side * side;
    if (zoe_vae_encode_bytes(ctx, vae, 1, side, side) > MOST ||
        zoe_vae_decode_bytes(ctx, vae, 2, 1, 1) > MOST || zoe_vae_weight_bytes(vae) > MOST)
        return;
    float *latent = fuzz_values(2 * z);
    fuzz_reason(ctx,
                zoe_vae_encode(ctx, vae, latent, 1, side, side, give_frame, &pixels, NULL, NULL));
    zoe_context_clear(ctx);
    fuzz_reason(ctx, zoe_vae_decode(ctx, vae, latent, 2, 1, 1, take_frames, &pixels, NULL, NULL));
    free(latent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_checkpoint *bases[2];
    fuzz_store_case s;
    zoe_vae *vae = NULL;
    if (!bases[0]) {
        bases[0] = fuzz_checkpoint_open("../data/vae21/model.safetensors", ZOE_NAMES_WAN_VAE,
                                        "../data/names/vae21.json");
        bases[1] = fuzz_checkpoint_open("../data/e2e_ti2v/ckpt_safetensors/vae.safetensors",
                                        ZOE_NAMES_WAN_VAE, "../data/names/vae22.json");
    }
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx || size == 0) {
        zoe_context_free(ctx);
        return 0;
    }
    const bool wan22 = data[0] & 4;
    zoe_status status = fuzz_store_edited(ctx, &s, bases[wan22], ZOE_NAMES_WAN_VAE, data[0] & 1,
                                          data + 1, size - 1);
    fuzz_reason(ctx, status);
    if (status == ZOE_OK) {
        status = zoe_vae_open(ctx, &vae, s.store);
        fuzz_reason(ctx, status);
        if ((status == ZOE_OK) != (vae != NULL) || (size == 1 && !vae))
            __builtin_trap();
    }
    if (vae && fuzz_runs(data[0]))
        use(ctx, vae);
    zoe_vae_close(vae);
    fuzz_store_close(&s);
    zoe_context_free(ctx);
    return 0;
}
