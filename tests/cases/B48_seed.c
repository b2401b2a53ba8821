/* B48: the noise of a run, bit for bit: prints a digest of it and of the latents that come out, for
 * the script to compare between threads and instruction sets. The noise itself is held against
 * torch's by golden_noise.
 *
 *     case_B48_seed DATA SEED THREADS LATENTS */
#include "case.h"

typedef struct digests {
    uint64_t noise, latent;
    size_t seen;
} digests;

/* FNV-1a, 64 bits. */
static uint64_t digest(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    digests *d = user;
    const uint64_t h = digest(value.data, zoe_tensor_count(value) * sizeof(float));
    (void)step;
    if (strcmp(name, "noise") == 0)
        d->noise = h;
    else if (strcmp(name, "latent_final") == 0)
        d->latent = h;
    else
        return;
    d->seen++;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    digests d = {0, 0, 0};
    zoe_context *ctx = case_context(atoi(argv[3]));
    zoe_job_params params =
        case_params(case_path(argv[1], "e2e_i2v/ckpt"), case_path(argv[1], "e2e_i2v/input.png"));
    params.seed = strtoll(argv[2], NULL, 10);
    params.latents_out = argv[4];
    params.observe = observe;
    params.user = &d;
    case_must(ctx, case_run(ctx, &params), "run");
    if (!case_expect(d.seen == 2, "%zu of 2 seen", d.seen))
        return 1;
    printf("%016llx %016llx\n", (unsigned long long)d.noise, (unsigned long long)d.latent);
    zoe_context_free(ctx);
    return 0;
}
