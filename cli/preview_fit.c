/* zoe preview-fit: what `zoe generate --preview` needs to know of a VAE, learned from pictures. */
#include <math.h>
#include <stdio.h>

#include "commands.h"
#include "job/job.h"
#include "message.h"
#include "model/preview.h"
#include "session.h"

typedef struct request {
    const char *model, *vae, *out;
    size_t width, height; /* their product is the area to which larger pictures are scaled down */
    size_t threads;
    bool help;
} request;

#define AT(member) .at = offsetof(request, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_TEXT, "model", AT(model), .value = "DIR",
     .help = "checkpoint whose VAE is meant"},
    {ZOE_OPTION_TEXT, "vae", AT(vae), .value = "PATH", .help = "the VAE itself, instead"},
    {ZOE_OPTION_TEXT, "out", 'o', AT(out), .value = "FILE",
     .help = "where the factors go; generate finds them by themselves as\n"
             "preview.json in the checkpoint's folder or beside the VAE"},
    {ZOE_OPTION_SIZE, "size", 's', AT(width), .at2 = offsetof(request, height), .low = 16,
     .high = 4096.0 * 4096.0, .value = "WxH",
     .help = "area to which larger pictures are scaled down [832x480]"},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]; the\nresult does not depend on it"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
#define ROWS (sizeof rows / sizeof rows[0])

/* A picture stands still for so many frames: the latent of a first frame is made in another way
 * than that of later ones, and the factors serve both. */
enum { FRAMES = 9, LATENT_FRAMES = 3 };

typedef struct still {
    const float *frame;
    size_t count; /* values of it */
} still;

static zoe_status read_still(void *user, float *frame, size_t index)
{
    const still *s = user;
    (void)index;
    memcpy(frame, s->frame, s->count * sizeof *frame);
    return ZOE_OK;
}

/* frame [H, W, 3] and its latents. */
static zoe_status add_frame(zoe_context *ctx, zoe_projection_fit *fit, zoe_vae *vae,
                            const float *frame, size_t H, size_t W)
{
    const size_t stride = zoe_vae_stride(vae), h = H / stride, w = W / stride;
    const size_t cells = LATENT_FRAMES * h * w;
    void *latent = NULL, *colours = NULL;
    zoe_status status;
    still s = {.frame = frame, .count = 3 * H * W};
    TRY_GOTO(zoe_alloc(ctx, &latent, zoe_vae_channels(vae) * cells, sizeof(float), "latent"));
    TRY_GOTO(zoe_alloc(ctx, &colours, 3 * h * w, sizeof(float), "colours"));
    TRY_GOTO(zoe_vae_encode(ctx, vae, latent, FRAMES, H, W, read_still, &s, NULL, NULL));
    zoe_cell_colours(colours, h, w, frame, H, W);
    for (size_t t = 0; t < LATENT_FRAMES; t++)
        zoe_projection_fit_add(fit, (const float *)latent + t * h * w, cells, colours, h * w);
done:
    zoe_free(latent);
    zoe_free(colours);
    return status;
}

static zoe_status add_picture(zoe_context *ctx, zoe_projection_fit *fit, zoe_vae *vae,
                              const char *path, size_t most_area)
{
    zoe_picture picture;
    float *frame = NULL;
    size_t H, W;
    zoe_status status;
    if (zoe_folder_exists(path))
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: this is a folder; name its pictures one by one, such as %s/*.jpg",
                        path, path);
    TRY(zoe_picture_read(ctx, &picture, path, false));
    const size_t own = picture.width * picture.height;
    const size_t area = own < most_area ? own : most_area;
    TRY_GOTO(zoe_vae_stride(vae) == 16
                 ? zoe_size_ti2v(ctx, &H, &W, picture.height, picture.width, area)
                 : zoe_size_i2v(ctx, &H, &W, picture.height, picture.width, area));
    TRY_GOTO(zoe_picture_to_frame(ctx, &frame, H, W, &picture));
    status = add_frame(ctx, fit, vae, frame, H, W);
done:
    if (status != ZOE_OK)
        zoe_fail_in(ctx, "%s", path);
    zoe_picture_free(&picture);
    zoe_free(frame);
    return status;
}

static zoe_status fit_pictures(zoe_context *ctx, const request *r, zoe_vae *vae,
                               const zoe_options *found)
{
    zoe_projection_fit *fit;
    zoe_projection projection;
    double error;
    zoe_status status;
    TRY(zoe_projection_fit_new(ctx, &fit, zoe_vae_channels(vae)));
    for (size_t i = 0; i < found->operands; i++) {
        TRY_GOTO(zoe_check_cancel(ctx));
        TRY_GOTO(add_picture(ctx, fit, vae, found->operand[i], r->width * r->height));
    }
    TRY_GOTO(zoe_projection_fit_solve(ctx, fit, &projection, &error));
    TRY_GOTO(zoe_projection_write(ctx, r->out, &projection));
    zoe_note("wrote %s: fitted to %zu picture%s, %zu latent positions; colours are met to %.1f dB",
             r->out, found->operands, found->operands == 1 ? "" : "s",
             zoe_projection_fit_cells(fit), error > 0.0 ? -20.0 * log10(error) : INFINITY);
done:
    zoe_projection_fit_free(fit);
    return status;
}

/* What stands under the output's name may only be factors for the same VAE: the name may be that of
 * a picture, when the shell wrote it out, or of a file of the model. */
static zoe_status check_out(zoe_context *ctx, const char *path, const zoe_vae *vae)
{
    zoe_projection old;
    if (!zoe_file_exists(path))
        return ZOE_OK;
    const zoe_status status = zoe_projection_read(ctx, &old, path, zoe_vae_channels(vae));
    if (status == ZOE_OK || status == ZOE_NOMEM)
        return status;
    zoe_context_clear(ctx);
    return zoe_fail(ctx, ZOE_INVALID,
                    "--out %s: is there already and holds no factors for this VAE; name another "
                    "file, or remove it",
                    path);
}

static zoe_status fit_vae(zoe_context *ctx, const request *r, const zoe_options *found)
{
    zoe_parts parts = {.vae = NULL};
    zoe_job_params params;
    zoe_store *store = NULL;
    zoe_vae *vae = NULL;
    zoe_status status;
    zoe_job_params_init(&params);
    params.model = r->model;
    status = zoe_output_probe(ctx, r->out);
    if (status == ZOE_IO) /* the fault of the line, not of the run */
        status = ZOE_INVALID;
    TRY_GOTO(status);
    if (!r->vae)
        TRY_GOTO(zoe_parts_locate(ctx, &parts, &params));
    TRY_GOTO(zoe_store_open(ctx, &store, r->vae ? r->vae : parts.vae, ZOE_NAMES_WAN_VAE));
    TRY_GOTO(zoe_vae_open(ctx, &vae, store));
    TRY_GOTO(check_out(ctx, r->out, vae));
    status = fit_pictures(ctx, r, vae, found);
done:
    zoe_vae_close(vae);
    zoe_store_close(store);
    zoe_parts_free(&parts);
    return status;
}

static int run_fit(const request *r, const zoe_options *found)
{
    zoe_context *ctx = zoe_session_begin(r->threads);
    return ctx ? zoe_session_end(ctx, fit_vae(ctx, r, found), true) : ZOE_EXIT_MEMORY;
}

static int preview_fit_main(int argc, char **argv)
{
    static zoe_options found;
    request r = {.width = 832, .height = 480};
    int code;
    if (!zoe_command_read(&zoe_preview_fit_command, &found, &r, &r.help, argc, argv, &code))
        return code;
    if (!r.model && !r.vae)
        return zoe_refuse_line("--model or --vae is missing: the checkpoint, or its VAE alone");
    if (!r.out)
        return zoe_refuse_line("--out is missing: the file for the factors, such as preview.json");
    if (found.operands == 0)
        return zoe_refuse_line(
            "no pictures: a few that show all colours are wanted, a dozen is plenty");
    return run_fit(&r, &found);
}

static const char text[] =
    "Between the steps of a run, a latent is shown without the VAE's decoder: each of its\n"
    "positions becomes one colour by a linear map. This command learns the map from\n"
    "pictures, by least squares, and writes it as a small JSON file. Without such a file a\n"
    "run learns it from its own picture, which is enough in most cases.\n";

static const char examples[] = "For a checkpoint, from photographs:\n"
                               "  zoe preview-fit --model Wan2.2-I2V-A14B photos/*.jpg \\\n"
                               "    --out Wan2.2-I2V-A14B/preview.json\n";

const zoe_command zoe_preview_fit_command = {
    .name = "preview-fit",
    .summary = "learns from pictures how to show latents",
    .usage = "--model DIR PICTURE... --out FILE",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .run = preview_fit_main,
    .alone = true,
};
