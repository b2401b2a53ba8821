/* A look at the run after each step: the clean latent that the velocity points to, projected to
 * colours, as a picture of a few frames in a row. It reads what the steps make and changes nothing.
 * See docs/PREVIEW.md. */
#include "job/job.h"

#include "model/preview.h"

enum {
    MOST_FRAMES = 5,  /* in the row */
    GAP = 2,          /* pixels between them */
    MOST_SCALE = 8,   /* pixels for a latent position: the size of the video */
    MOST_WIDTH = 1600 /* of the row, unless one position a pixel is more */
};

static const char factors_name[] = "preview.json";

typedef struct zoe_preview {
    zoe_context *ctx; /* of its own: what fails here does not concern the run */
    bool have_factors, warned;
    zoe_projection projection;
    size_t frames, scale; /* of the row */
    zoe_picture row;
    float *x0;    /* [z, h, w] of one latent frame */
    float *cells; /* [h, w, 3], its colours */
} zoe_preview;

void zoe_preview_free(zoe_preview *preview)
{
    if (!preview)
        return;
    zoe_free(preview->row.rgb);
    zoe_free(preview->x0);
    zoe_free(preview->cells);
    zoe_context_free(preview->ctx);
    zoe_free(preview);
}

/* ---- before the work ---- */

/* preview.json in the folder, if there is one. */
static zoe_status find_in_folder(zoe_context *ctx, char **path, const char *folder)
{
    char *candidate;
    TRY(zoe_path_join(ctx, &candidate, folder, factors_name));
    if (zoe_file_exists(candidate))
        *path = candidate;
    else
        zoe_free(candidate);
    return ZOE_OK;
}

/* The file given, or the one beside or in what the VAE is, or in the model's folder; NULL if there
 * is none. */
static zoe_status find_factors(zoe_context *ctx, char **path, const zoe_job *job)
{
    const char *given = job->params.preview_factors, *vae = job->parts.vae;
    *path = NULL;
    if (given)
        return zoe_strdup(ctx, path, given);
    if (zoe_folder_exists(vae)) {
        TRY(find_in_folder(ctx, path, vae));
    } else {
        char *folder;
        const int length = (int)(zoe_path_name(vae) - vae);
        TRY(zoe_strf(ctx, &folder, "%.*s", length ? length : 1, length ? vae : "."));
        const zoe_status status = find_in_folder(ctx, path, folder);
        zoe_free(folder);
        TRY(status);
    }
    if (!*path && job->params.model)
        TRY(find_in_folder(ctx, path, job->params.model));
    return ZOE_OK;
}

static zoe_status load_factors(zoe_context *ctx, zoe_preview *preview, const zoe_job *job)
{
    char *path;
    TRY(find_factors(ctx, &path, job));
    if (!path)
        return ZOE_OK;
    const zoe_status status = zoe_projection_read(
        ctx, &preview->projection, path, zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim);
    preview->have_factors = status == ZOE_OK;
    zoe_free(path);
    return status;
}

static size_t row_width(const zoe_preview *preview, const zoe_plan *plan, size_t scale)
{
    return preview->frames * plan->latent_width * scale + (preview->frames - 1) * GAP;
}

static zoe_status make_room(zoe_context *ctx, zoe_preview *preview, const zoe_job *job)
{
    const zoe_plan *plan = &job->plan;
    const size_t plane = plan->latent_height * plan->latent_width;
    void *p;
    preview->frames = plan->latent_frames < MOST_FRAMES ? plan->latent_frames : MOST_FRAMES;
    preview->scale = MOST_SCALE;
    while (preview->scale > 1 && row_width(preview, plan, preview->scale) > MOST_WIDTH)
        preview->scale--;
    preview->row.width = row_width(preview, plan, preview->scale);
    preview->row.height = plan->latent_height * preview->scale;
    TRY(zoe_alloc_zero(ctx, &p, 3 * preview->row.width, preview->row.height, "preview"));
    preview->row.rgb = p;
    TRY(zoe_alloc(ctx, &p, plane * zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim,
                  sizeof(float), "preview"));
    preview->x0 = p;
    TRY(zoe_alloc(ctx, &p, 3 * plane, sizeof(float), "preview"));
    preview->cells = p;
    preview->ctx = zoe_context_new(1);
    if (!preview->ctx)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for the preview");
    zoe_checkpoint_name_parts(preview->ctx, job, true);
    return ZOE_OK;
}

zoe_status zoe_preview_open(zoe_context *ctx, zoe_job *job)
{
    void *p;
    if (!job->params.preview && !job->params.show_preview)
        return ZOE_OK;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof *job->preview, "preview"));
    job->preview = p;
    TRY(load_factors(ctx, job->preview, job));
    return make_room(ctx, job->preview, job);
}

/* ---- after each step ---- */

/* Without factors for this VAE: those that explain the picture of the run, whose latent is the
 * first frame of the condition. A run of text alone has none. */
static zoe_status fit_to_picture(zoe_context *ctx, zoe_preview *preview, const zoe_job *job)
{
    const zoe_plan *plan = &job->plan;
    const size_t h = plan->latent_height, w = plan->latent_width;
    const size_t cells = plan->latent_frames * h * w;
    const bool masked = job->family->masked;
    zoe_projection_fit *fit;
    if (!job->picture[ZOE_FIRST])
        return zoe_fail(
            ctx, ZOE_MISSING,
            "there are no colours for this VAE, and no picture to fit them to: make some "
            "with preview-fit");
    TRY(zoe_projection_fit_new(ctx, &fit, job->latent_count / cells));
    zoe_cell_colours(preview->cells, h, w, job->picture[ZOE_FIRST], plan->height, plan->width);
    zoe_projection_fit_add(fit, job->condition + (masked ? ZOE_MASK_CHANNELS * cells : 0),
                           masked ? cells : h * w, preview->cells, h * w);
    const zoe_status status = zoe_projection_fit_solve(ctx, fit, &preview->projection, NULL);
    preview->have_factors = status == ZOE_OK;
    zoe_projection_fit_free(fit);
    return status;
}

static uint8_t to_byte(float v)
{
    return v > 0.0f ? v < 1.0f ? (uint8_t)(v * 255.0f + 0.5f) : 255 : 0;
}

/* Where pixel i of an axis of n positions lies between two of them. */
typedef struct between {
    size_t low, high;
    float part; /* of the way from low to high */
} between;

static between find_between(size_t i, size_t scale, size_t n)
{
    const float at = ((float)i + 0.5f) / (float)scale - 0.5f;
    const size_t low = at > 0.0f ? (size_t)at : 0;
    return (between){.low = low,
                     .high = low + 1 < n ? low + 1 : low,
                     .part = at > 0.0f ? at - (float)low : 0.0f};
}

/* cells [h, w, 3], enlarged bilinearly, as one frame of the row. */
static void draw(zoe_preview *preview, size_t place, size_t h, size_t w)
{
    const size_t scale = preview->scale, left = place * (w * scale + GAP);
    for (size_t y = 0; y < h * scale; y++) {
        const between v = find_between(y, scale, h);
        uint8_t *out = preview->row.rgb + 3 * (y * preview->row.width + left);
        for (size_t x = 0; x < w * scale; x++) {
            const between u = find_between(x, scale, w);
            const float *a = preview->cells + 3 * (v.low * w),
                        *b = preview->cells + 3 * (v.high * w);
            for (size_t k = 0; k < 3; k++) {
                const float top =
                    a[3 * u.low + k] + u.part * (a[3 * u.high + k] - a[3 * u.low + k]);
                const float base =
                    b[3 * u.low + k] + u.part * (b[3 * u.high + k] - b[3 * u.low + k]);
                *out++ = to_byte(top + v.part * (base - top));
            }
        }
    }
}

/* The whole row from the latent before the solver's step: x0 = x - sigma v; frames that are given
 * have no noise. */
static void draw_row(zoe_preview *preview, const zoe_job *job, size_t step)
{
    const zoe_plan *plan = &job->plan;
    const size_t h = plan->latent_height, w = plan->latent_width, f = plan->latent_frames;
    const size_t plane = h * w, n = preview->frames;
    const float *velocity = job->velocity[ZOE_COND];
    for (size_t place = 0; place < n; place++) {
        const size_t t = n > 1 ? place * (f - 1) / (n - 1) : 0;
        const float sigma = t < zoe_still_frames(job) ? 0.0f : job->schedule.sigma[step];
        for (size_t c = 0; c < preview->projection.channels; c++)
            for (size_t i = 0; i < plane; i++) {
                const size_t at = (c * f + t) * plane + i;
                preview->x0[c * plane + i] = job->latent[at] - sigma * velocity[at];
            }
        zoe_projection_apply(&preview->projection, preview->cells, preview->x0, plane, plane);
        draw(preview, place, h, w);
    }
}

static zoe_status write_row(const zoe_preview *preview, const char *path)
{
    void *png;
    size_t size;
    zoe_output out = {.fd = -1};
    zoe_status status;
    TRY(zoe_picture_encode_png(preview->ctx, &png, &size, &preview->row));
    TRY_GOTO(zoe_output_open(preview->ctx, &out, path));
    TRY_GOTO(zoe_output_write(preview->ctx, &out, png, size));
    status = zoe_output_commit(preview->ctx, &out);
done:
    zoe_output_abort(&out);
    zoe_free(png);
    return status;
}

void zoe_preview_step(zoe_context *ctx, const zoe_job *job, size_t step)
{
    zoe_preview *preview = job->preview;
    if (!preview)
        return;
    zoe_status status = ZOE_OK;
    if (!preview->have_factors)
        status = fit_to_picture(preview->ctx, preview, job);
    if (status == ZOE_OK) {
        draw_row(preview, job, step);
        if (job->params.preview)
            status = write_row(preview, job->params.preview);
        /* After the file: programs that are told of it look at once. */
        if (job->params.show_preview)
            job->params.show_preview(job->params.user, step, preview->row.rgb, preview->row.width,
                                     preview->row.height);
    }
    if (status == ZOE_OK)
        return;
    /* A run of hours does not end for want of a preview. */
    if (!preview->warned && !zoe_cancelled(ctx))
        zoe_log(ctx, ZOE_WARNING, "step %zu: no preview: %s; the run goes on without it", step + 1,
                zoe_context_message(preview->ctx));
    preview->warned = preview->warned || !zoe_cancelled(ctx);
    zoe_context_clear(preview->ctx);
}
