/* Fuzz target: the Wan transformer from a hostile checkpoint and config.json. The first byte: bit 0,
 * the names of diffusers; bit 2, in bf16; bit 3, without a config; a pass is run too from 0xe0 on. The second
 * says how many edits of a sound transformer follow (fuzz_edit.h); what is left is config.json. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_edit.h"
#include "model/model.h"

static zoe_status config_of(zoe_context *ctx, zoe_config **config, const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    if (fd < 0)
        fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return zoe_config_open(ctx, config, path);
}

static void use(zoe_context *ctx, const zoe_wan *wan, bool bf16)
{
    enum { f = 1, h = 2, w = 2, ROWS = 3, IMAGE_ROWS = 4, MOST = 64 << 20 };
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    zoe_wan_text *text = NULL;
    zoe_wan_work *work = NULL;
    if (d->dim == 0 || d->heads == 0 || d->dim % d->heads != 0 || d->in_dim < d->out_dim)
        __builtin_trap();
    const size_t image_rows = d->image_positions ? d->image_positions : IMAGE_ROWS;
    if (d->dim > 1024 || d->text_dim > 4096 || d->image_dim > 4096 || d->in_dim > 4096 ||
        image_rows > 600 || d->layers > 64 || zoe_wan_work_bytes(ctx, d, bf16, f, h, w) > MOST)
        return;
    const size_t rows = d->text_len < ROWS ? d->text_len : ROWS;
    float *context = fuzz_values(rows * d->text_dim),
          *image = fuzz_values(image_rows * d->image_dim), *latent = fuzz_values(d->in_dim * h * w),
          *velocity = fuzz_values(d->out_dim * h * w);
    zoe_status status =
        zoe_wan_text_new_with_image(ctx, &text, wan, context, rows, d->image_dim ? image : NULL,
                                    d->image_dim ? image_rows : 0, NULL);
    if (status == ZOE_OK)
        status = zoe_wan_work_new(ctx, &work, d, bf16, f, h, w);
    if (status == ZOE_OK)
        status = zoe_wan_forward(ctx, wan, work, velocity, latent,
                                 d->in_dim > d->out_dim ? latent : NULL, text, 500.0, NULL);
    fuzz_reason(ctx, status);
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    free(context);
    free(image);
    free(latent);
    free(velocity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_checkpoint *base;
    fuzz_store_case s = {0};
    zoe_config *config = NULL;
    zoe_wan *wan = NULL;
    if (!base)
        base = fuzz_checkpoint_open("../data/e2e_i2v/ckpt/low_noise_model", ZOE_NAMES_WAN_DIT,
                                    "../data/names/dit_i2v_a14b.json");
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx || size < 2) {
        zoe_context_free(ctx);
        return 0;
    }
    const bool bf16 = data[0] & 4;
    const size_t wanted = 2 + (size_t)data[1] % 32 * FUZZ_EDIT, end = wanted < size ? wanted : size;
    zoe_status status = ZOE_OK;
    if (!(data[0] & 8))
        status = config_of(ctx, &config, data + end, size - end);
    if (status == ZOE_OK)
        status =
            fuzz_store_edited(ctx, &s, base, ZOE_NAMES_WAN_DIT, data[0] & 1, data + 2, end - 2);
    if (status == ZOE_OK) {
        status = zoe_wan_open(ctx, &wan, s.store, config, bf16);
        if ((status == ZOE_OK) != (wan != NULL))
            __builtin_trap();
    }
    fuzz_reason(ctx, status);
    if (wan && fuzz_runs(data[0]))
        use(ctx, wan, bf16);
    zoe_wan_close(wan);
    zoe_config_close(config);
    fuzz_store_close(&s);
    zoe_context_free(ctx);
    return 0;
}
