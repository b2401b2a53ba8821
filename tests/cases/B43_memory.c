/* B43: memory over many runs. Fifty jobs in one process; the memory that is the process's own, without mapped files, must
 * be flat after the second. The tolerance is half of what one latent a job would come to if it leaked, so that even this
 * smallest array of a run cannot get lost each time. Open files are counted as well.
 *
 *     case_b43 CHECKPOINT PICTURE FOLDER */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "zoetrope/job.h"

enum { JOBS = 50, SETTLED = 2, PATH = 4096 };

static size_t own_bytes(void)
{
    unsigned long resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    malloc_trim(0);
    const bool good = f && fscanf(f, "%*u %lu %lu", &resident, &shared) == 2;
    if (f)
        fclose(f);
    return good ? (resident - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static zoe_status job(zoe_context *ctx, const zoe_job_params *params, zoe_plan *plan)
{
    zoe_job *j = NULL;
    zoe_status status = zoe_job_new(ctx, &j, params);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, j);
    if (status == ZOE_OK) {
        *plan = *zoe_job_plan(j);
        status = zoe_job_run(ctx, j);
    }
    zoe_job_free(j);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    char out[PATH], frames[PATH], latents[PATH];
    zoe_context *ctx = zoe_context_new(1);
    zoe_job_params params;
    zoe_plan plan;
    if (!ctx)
        return 1;
    snprintf(out, sizeof out, "%s/v.mp4", argv[3]);
    snprintf(frames, sizeof frames, "%s/frames", argv[3]);
    snprintf(latents, sizeof latents, "%s/latents.safetensors", argv[3]);
    zoe_job_params_init(&params);
    params.model = argv[1];
    params.image = argv[2];
    params.out = out;
    params.frames_out = frames;
    params.latents_out = latents;
    params.prompt = "A white cat sits.";
    params.negative_prompt = "blurry";
    params.width = params.height = 64;
    params.frames = 13;
    params.steps = 1;
    size_t bytes = 0, files = 0, most = 0, most_files = 0;
    for (int i = 1; i <= JOBS; i++) {
        params.seed = i;
        if (job(ctx, &params, &plan) != ZOE_OK) {
            fprintf(stderr, "FAIL: job %d: %s\n", i, zoe_context_message(ctx));
            return 1;
        }
        const size_t now = own_bytes(), now_files = open_files();
        if (i == SETTLED) {
            bytes = now;
            files = now_files;
        }
        if (i >= SETTLED) {
            most = now > most ? now : most;
            most_files = now_files > most_files ? now_files : most_files;
        }
    }
    const size_t channels = 16;
    const size_t latent =
        channels * plan.latent_frames * plan.latent_height * plan.latent_width * sizeof(float);
    const size_t tolerance = (JOBS - SETTLED) * latent / 2;
    printf("%zu bytes after job %d, at most %zu later, tolerance %zu\n", bytes, SETTLED, most,
           tolerance);
    zoe_context_free(ctx);
    if (bytes == 0 || most > bytes + tolerance || most_files != files) {
        fprintf(stderr, "FAIL: memory grew by %zu bytes, open files by %zu\n", most - bytes,
                most_files - files);
        return 1;
    }
    return 0;
}
