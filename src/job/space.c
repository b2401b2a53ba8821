/* Is there room on the disks for what a run will write? Told before the work, since a full disk
 * at the end of it costs the work. */
#include "job/job.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { OUTPUTS = 3 };

/* What goes to one place: bytes that it takes for sure, and bytes that it takes at least in most
 * cases (compressed frames). */
typedef struct demand {
    const char *path; /* NULL: nothing */
    double sure, likely;
    bool known; /* device and room are */
    dev_t device;
    double room;
} demand;

static bool has_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

/* Room on the file system of the folder that the path is in, or of the path if it is a folder. */
static zoe_status look(zoe_context *ctx, demand *d)
{
    struct statvfs system;
    struct stat st;
    char *folder;
    const size_t n = (size_t)(zoe_path_name(d->path) - d->path);
    if (zoe_folder_exists(d->path))
        TRY(zoe_strdup(ctx, &folder, d->path));
    else
        TRY(zoe_strf(ctx, &folder, "%.*s", n ? (int)n : 1, n ? d->path : "."));
    d->known = stat(folder, &st) == 0 && statvfs(folder, &system) == 0 && system.f_blocks > 0;
    zoe_free(folder);
    if (!d->known)
        return ZOE_OK; /* some network file systems do not tell */
    d->device = st.st_dev;
    d->room =
        (double)system.f_frsize *
        (double)(geteuid() == 0 ? system.f_bfree : system.f_bavail); /* root has the reserve */
    return ZOE_OK;
}

static void list_demands(demand *d, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    const zoe_plan *plan = &job->plan;
    const double frames = 3.0 * (double)plan->width * (double)plan->height * (double)plan->frames;
    const double latents = 4.0 * (double)zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim *
                           (double)plan->latent_frames * (double)plan->latent_height *
                           (double)plan->latent_width;
    enum { PNG_RATIO = 8, VIDEO_RATIO = 200 }; /* of easy frames */
    if (p->out && strcmp(p->out, "-") != 0) {
        d[0].path = p->out;
        d[0].sure = has_suffix(p->out, ".y4m") ? frames : 0;
        d[0].likely = d[0].sure > 0 ? frames : frames / VIDEO_RATIO;
    }
    if (p->frames_out)
        d[1] = (demand){.path = p->frames_out, .likely = frames / PNG_RATIO};
    if (p->latents_out)
        d[2] = (demand){.path = p->latents_out, .sure = latents, .likely = latents};
}

zoe_status zoe_space_check(zoe_context *ctx, const zoe_job *job)
{
    demand d[OUTPUTS] = {{.path = NULL}};
    list_demands(d, job);
    for (size_t i = 0; i < OUTPUTS; i++)
        if (d[i].path)
            TRY(look(ctx, &d[i]));
    for (size_t i = 0; i < OUTPUTS; i++) {
        double sure = 0, likely = 0;
        for (size_t j = 0; d[i].known && j < OUTPUTS; j++)
            if (d[j].known && d[j].device == d[i].device) {
                sure += d[j].sure;
                likely += d[j].likely;
            }
        const double mib = 1024 * 1024;
        if (d[i].known && sure > d[i].room)
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: its disk has room for %.3g MiB, and the run will write %.3g MiB "
                            "there; make room, or name another place",
                            d[i].path, d[i].room / mib, sure / mib);
        if (d[i].known && likely > d[i].room) {
            zoe_log(ctx, ZOE_WARNING,
                    "%s: its disk has room for %.3g MiB only, which may be too little: make room "
                    "before the run ends",
                    d[i].path, d[i].room / mib);
            break;
        }
    }
    return ZOE_OK;
}
