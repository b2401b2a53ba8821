/* Which models there are, told by the sizes of their transformers, and what the official code has
 * for each. */
#include "job/job.h"

enum {
    STILL_CHANNELS = 48, /* of the latent that TI2V-5B works on */
    NARROW = 2048,       /* T2V-1.3B has width 1536, T2V-14B 5120 */
    SMALL_AREA = 832 * 480
};

/* Sources: Wan2.2 wan/configs, Wan2.1 wan/configs and generate.py. */
static const zoe_family families[] = {
    {.model = {"i2v-A14B", "Wan 2.2 I2V-A14B", ZOE_PICTURE_NEEDED, ZOE_PICTURE_OPTIONAL, 2},
     .masked = true,
     .rule = ZOE_SIZE_I2V,
     .width = 1280,
     .height = 720,
     .frames = 81,
     .steps = 40,
     .shift = 5.0,
     .shift_832x480 = 5.0,
     .guide_low = 3.5,
     .guide_high = 3.5,
     .boundary = 0.9,
     .fps = 16,
     .negative = ""},
    {.model = {"t2v-A14B", "Wan 2.2 T2V-A14B", ZOE_PICTURE_NONE, ZOE_PICTURE_NONE, 2},
     .rule = ZOE_SIZE_LITERAL,
     .width = 1280,
     .height = 720,
     .frames = 81,
     .steps = 40,
     .shift = 12.0,
     .shift_832x480 = 12.0,
     .guide_low = 3.0,
     .guide_high = 4.0,
     .boundary = 0.875,
     .fps = 16,
     .negative = ""},
    {.model = {"ti2v-5B", "Wan 2.2 TI2V-5B", ZOE_PICTURE_OPTIONAL, ZOE_PICTURE_NONE, 1},
     .still = true,
     .rule = ZOE_SIZE_TI2V,
     .width = 1280,
     .height = 704,
     .frames = 121,
     .steps = 50,
     .shift = 5.0,
     .shift_832x480 = 5.0,
     .guide_low = 5.0,
     .guide_high = 5.0,
     .fps = 24,
     .negative = ""},
    {.model = {"t2v-1.3B", "Wan 2.1 T2V-1.3B", ZOE_PICTURE_NONE, ZOE_PICTURE_NONE, 1},
     .narrow = true,
     .rule = ZOE_SIZE_LITERAL,
     .width = 832,
     .height = 480,
     .frames = 81,
     .steps = 50,
     .shift = 5.0,
     .shift_832x480 = 5.0,
     .guide_low = 5.0,
     .guide_high = 5.0,
     .fps = 16,
     .negative = ""},
    {.model = {"t2v-14B", "Wan 2.1 T2V-14B", ZOE_PICTURE_NONE, ZOE_PICTURE_NONE, 1},
     .rule = ZOE_SIZE_LITERAL,
     .width = 1280,
     .height = 720,
     .frames = 81,
     .steps = 50,
     .shift = 5.0,
     .shift_832x480 = 5.0,
     .guide_low = 5.0,
     .guide_high = 5.0,
     .fps = 16,
     .negative = ""},
    {.model = {"i2v-14B", "Wan 2.1 I2V-14B", ZOE_PICTURE_NEEDED, ZOE_PICTURE_NONE, 1},
     .masked = true,
     .clip = true,
     .rule = ZOE_SIZE_I2V,
     .width = 1280,
     .height = 720,
     .frames = 81,
     .steps = 40,
     .shift = 5.0,
     .shift_832x480 = 3.0,
     .guide_low = 5.0,
     .guide_high = 5.0,
     .fps = 16,
     .negative = "镜头晃动，"},
    {.model = {"flf2v-14B", "Wan 2.1 FLF2V-14B", ZOE_PICTURE_NEEDED, ZOE_PICTURE_NEEDED, 1},
     .masked = true,
     .clip = true,
     .rule = ZOE_SIZE_I2V,
     .width = 1280,
     .height = 720,
     .frames = 81,
     .steps = 50,
     .shift = 16.0,
     .shift_832x480 = 16.0,
     .guide_low = 5.0,
     .guide_high = 5.0,
     .fps = 16,
     .negative = "镜头切换，镜头晃动，"},
};
enum { FAMILIES = sizeof families / sizeof *families };

static bool fits(const zoe_family *f, const zoe_wan_dims *d, size_t transformers)
{
    const bool masked = d->in_dim == 2 * d->out_dim + ZOE_MASK_CHANNELS;
    const bool both_ends = f->model.last_image == ZOE_PICTURE_NEEDED;
    const bool text_only = f->rule == ZOE_SIZE_LITERAL;
    if (f->model.transformers != transformers || f->clip != (d->image_dim > 0) ||
        both_ends != (d->image_positions > 0) || f->masked != masked ||
        (!masked && d->in_dim != d->out_dim) ||
        f->still != (!masked && d->out_dim == STILL_CHANNELS))
        return false;
    return !text_only || transformers > 1 || f->narrow == (d->dim <= NARROW);
}

static const zoe_family *search(const zoe_wan_dims *dims, size_t transformers)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (fits(&families[i], dims, transformers))
            return &families[i];
    return NULL;
}

zoe_status zoe_family_find(zoe_context *ctx, const zoe_family **family, const zoe_wan_dims *dims,
                           size_t transformers, const char *path)
{
    *family = search(dims, transformers);
    if (*family)
        return ZOE_OK;
    const zoe_family *other = search(dims, ZOE_EXPERTS + 1 - transformers);
    if (other && transformers == 1)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: this is one of the two transformers of %s; give both, for high and "
                        "for low noise",
                        path, other->model.name);
    if (other)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: this is the transformer of %s, which has only one; give it alone",
                        path, other->model.name);
    return zoe_fail(ctx, ZOE_UNSUPPORTED,
                    "%s: takes %zu channels and gives %zu%s; no Wan model that is supported is so",
                    path, dims->in_dim, dims->out_dim,
                    dims->image_dim ? ", and takes CLIP features" : "");
}

zoe_status zoe_expert_check(zoe_context *ctx, const zoe_wan_dims *dims, const char *path)
{
    const zoe_family *family;
    return search(dims, ZOE_EXPERTS) ? ZOE_OK : zoe_family_find(ctx, &family, dims, 1, path);
}

/* ---- defaults ---- */

static zoe_status find_of_params(zoe_context *ctx, const zoe_family **family, double *boundary,
                                 const zoe_job_params *params)
{
    zoe_parts parts;
    zoe_store *store = NULL;
    zoe_wan *wan = NULL;
    zoe_status status;
    TRY(zoe_params_check_model(ctx, params));
    TRY(zoe_parts_locate(ctx, &parts, params));
    TRY_GOTO(zoe_expert_open(ctx, &store, &wan, parts.expert[ZOE_HIGH_NOISE],
                             parts.expert_config[ZOE_HIGH_NOISE], false));
    status = zoe_family_find(ctx, family, zoe_wan_dims_of(wan), parts.transformers,
                             parts.expert[ZOE_HIGH_NOISE]);
    *boundary = parts.boundary;
done:
    zoe_wan_close(wan);
    zoe_store_close(store);
    zoe_parts_free(&parts);
    return status;
}

zoe_status zoe_job_params_suit(zoe_context *ctx, zoe_job_params *params, bool keep_size,
                               zoe_job_model *model)
{
    const zoe_family *f = NULL;
    double boundary = 0.0;
    TRY(find_of_params(ctx, &f, &boundary, params));
    if (!keep_size) {
        params->width = f->width;
        params->height = f->height;
    }
    params->frames = f->frames;
    params->steps = f->steps;
    params->shift = params->width * params->height == SMALL_AREA ? f->shift_832x480 : f->shift;
    params->guide_low = f->guide_low;
    params->guide_high = f->guide_high;
    params->boundary = boundary > 0.0 && f->model.transformers > 1 ? boundary : f->boundary;
    params->fps_num = f->fps;
    params->fps_den = 1;
    if (model)
        *model = f->model;
    return ZOE_OK;
}
