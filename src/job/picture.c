/* The pictures that a video begins and ends with, and the sizes that follow from them. */
#include "job/job.h"

#include <errno.h>
#include <unistd.h>

static const char *const end_names[ZOE_ENDS] = {[ZOE_FIRST] = "image", [ZOE_LAST] = "last image"};

static const char *path_of(const zoe_job *job, zoe_end end)
{
    return end == ZOE_FIRST ? job->params.image : job->params.last_image;
}

/* [H, W, 3] from planes [3, H, W]. */
static void to_frame(float *frame, const float *planes, size_t H, size_t W)
{
    for (size_t i = 0; i < H * W; i++)
        for (size_t c = 0; c < 3; c++)
            frame[3 * i + c] = planes[c * H * W + i];
}

/* The picture as planes [3, H, W] in about [-1, 1], bicubic. */
static zoe_status to_planes(zoe_context *ctx, float **out, size_t H, size_t W,
                            const zoe_picture *picture)
{
    const size_t pixels = picture->width * picture->height;
    void *p, *planes = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(ctx, &planes, 3 * pixels, sizeof(float), "picture"));
    TRY_GOTO(zoe_alloc(ctx, &p, 3 * H * W, sizeof(float), "picture"));
    *out = p;
    zoe_picture_to_planes(planes, picture);
    TRY_GOTO(zoe_resize_bicubic(ctx, *out, H, W, planes, 3, picture->height, picture->width));
done:
    zoe_free(planes);
    return status;
}

zoe_status zoe_picture_to_frame(zoe_context *ctx, float **frame, size_t H, size_t W,
                                const zoe_picture *picture)
{
    float *planes = NULL;
    void *p;
    zoe_status status;
    TRY_GOTO(to_planes(ctx, &planes, H, W, picture));
    TRY_GOTO(zoe_alloc(ctx, &p, 3 * H * W, sizeof(float), "picture"));
    *frame = p;
    to_frame(*frame, planes, H, W);
done:
    zoe_free(planes);
    return status;
}

/* Read once, for the digest too: it may come through a pipe. */
static zoe_status decode_picture(zoe_context *ctx, zoe_job *job, zoe_end end, zoe_picture *picture)
{
    enum { PICTURE_BYTES = 1 << 30 };
    const char *path = path_of(job, end);
    char *digest = end == ZOE_FIRST ? job->sources.image : job->sources.last_image, *file;
    size_t size;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: no such file; a picture is wanted there: check its name and the "
                        "current folder",
                        path);
    if (zoe_folder_exists(path))
        return zoe_fail(ctx, ZOE_IO, "%s: this is a folder; give the file of one picture", path);
    TRY(zoe_file_read(ctx, &file, &size, path, PICTURE_BYTES));
    zoe_status status = zoe_digest_of(ctx, digest, file, size);
    if (status == ZOE_OK) {
        status = zoe_picture_decode(ctx, picture, file, size, job->params.keep_orientation);
        if (status != ZOE_OK)
            zoe_fail_in(ctx, "%s", path);
    }
    zoe_free(file);
    if (status == ZOE_OK && picture->had_alpha)
        zoe_log(ctx, ZOE_WARNING, "%s: transparency is ignored", path);
    return status;
}

/* ---- sizes ---- */

static size_t nearest(size_t side, size_t step)
{
    const size_t n = (side + step / 2) / step;
    return step * (n ? n : 1);
}

static zoe_status literal_size(zoe_context *ctx, const zoe_job *job)
{
    const size_t step = 2 * job->stride, w = job->params.width, h = job->params.height;
    if (w % step == 0 && h % step == 0)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID,
                    "size: %zux%zu; without a picture %s wants multiples of %zu: the nearest is "
                    "%zux%zu",
                    w, h, job->family->model.name, step, nearest(w, step), nearest(h, step));
}

zoe_status zoe_job_size(zoe_context *ctx, const zoe_job *job, size_t area, size_t *height,
                        size_t *width)
{
    const zoe_plan *plan = &job->plan;
    const bool shaped = plan->picture_width > 0;
    const size_t w = shaped ? plan->picture_width : job->params.width;
    const size_t h = shaped ? plan->picture_height : job->params.height;
    if (!shaped && area == w * h) {
        *height = h;
        *width = w;
        return ZOE_OK;
    }
    return 2 * job->stride == 32 ? zoe_size_ti2v(ctx, height, width, h, w, area)
                                 : zoe_size_i2v(ctx, height, width, h, w, area);
}

static zoe_status set_sizes(zoe_context *ctx, zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    if (plan->picture_width == 0)
        TRY(literal_size(ctx, job));
    const zoe_status status =
        zoe_job_size(ctx, job, job->params.width * job->params.height, &plan->height, &plan->width);
    if (status != ZOE_OK) {
        zoe_fail_in(ctx, "%s", job->params.image);
        return status;
    }
    plan->frames = job->params.frames;
    plan->latent_frames = (plan->frames - 1) / 4 + 1;
    plan->latent_height = plan->height / job->stride;
    plan->latent_width = plan->width / job->stride;
    plan->tokens = plan->latent_frames * (plan->latent_height / 2) * (plan->latent_width / 2);
    return ZOE_OK;
}

/* ---- what the networks see ---- */

static zoe_status make_frame(zoe_context *ctx, zoe_job *job, zoe_end end,
                             const zoe_picture *picture)
{
    const zoe_plan *plan = &job->plan;
    zoe_picture covering = {0};
    zoe_status status;
    if (job->family->rule == ZOE_SIZE_TI2V) {
        TRY_GOTO(zoe_picture_cover(ctx, &covering, plan->width, plan->height, picture));
        picture = &covering;
    }
    TRY_GOTO(zoe_picture_to_frame(ctx, &job->picture[end], plan->height, plan->width, picture));
done:
    zoe_picture_free(&covering);
    return status;
}

/* Of another shape, the last picture is stretched to the video's. */
static void note_shape(zoe_context *ctx, const zoe_job *job, const zoe_picture *last)
{
    const double wanted = (double)job->plan.picture_width / (double)job->plan.picture_height;
    const double found = (double)last->width / (double)last->height;
    if (found > 1.02 * wanted || wanted > 1.02 * found)
        zoe_log(ctx, ZOE_WARNING,
                "%s: %zux%zu, another shape than the first picture's %zux%zu; it is stretched to "
                "the video's %zux%zu",
                job->params.last_image, last->width, last->height, job->plan.picture_width,
                job->plan.picture_height, job->plan.width, job->plan.height);
}

static zoe_status read_picture(zoe_context *ctx, zoe_job *job, zoe_end end)
{
    zoe_picture picture = {0};
    zoe_status status;
    TRY(decode_picture(ctx, job, end, &picture));
    if (end == ZOE_FIRST) {
        job->plan.picture_width = picture.width;
        job->plan.picture_height = picture.height;
        TRY_GOTO(set_sizes(ctx, job));
    } else {
        note_shape(ctx, job, &picture);
    }
    TRY_GOTO(make_frame(ctx, job, end, &picture));
    if (job->clip) {
        const size_t side = zoe_clip_side(job->clip);
        TRY_GOTO(to_planes(ctx, &job->clip_picture[end], side, side, &picture));
    }
done:
    zoe_picture_free(&picture);
    return status;
}

static zoe_status check_use(zoe_context *ctx, const zoe_job *job, zoe_end end)
{
    const zoe_job_model *m = &job->family->model;
    const zoe_picture_use use = end == ZOE_FIRST ? m->image : m->last_image;
    const char *path = path_of(job, end);
    if (!path && use == ZOE_PICTURE_NEEDED)
        return zoe_fail(ctx, ZOE_INVALID, "no %s: %s wants the picture that the video %s",
                        end_names[end], m->name, end == ZOE_FIRST ? "begins with" : "ends with");
    if (path && use == ZOE_PICTURE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s %s: %s takes no such picture; leave it out",
                        end_names[end], path, m->name);
    if (path && end == ZOE_LAST && !job->params.image)
        return zoe_fail(ctx, ZOE_INVALID,
                        "last image %s: the picture that the video begins with is wanted as well",
                        path);
    return ZOE_OK;
}

zoe_status zoe_pictures_read(zoe_context *ctx, zoe_job *job)
{
    for (zoe_end end = 0; end < ZOE_ENDS; end++)
        TRY(check_use(ctx, job, end));
    if (!job->params.image)
        return set_sizes(ctx, job);
    TRY(read_picture(ctx, job, ZOE_FIRST));
    return job->params.last_image ? read_picture(ctx, job, ZOE_LAST) : ZOE_OK;
}
