/* B17, and B13 for no words at all: context rows after the last real token are zero, not what the
 * encoder gives for padding. The engine does not keep such rows; that they count as zeros is shown
 * by giving the transformer a whole context, once with zeros and once with the encoder's rows.
 *
 *     case_B17_padded_rows DATA */
#include "case.h"

#include <unistd.h>

/* What a run showed. */
typedef struct seen {
    float *context;
    size_t rows, width;
} seen;

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    seen *s = user;
    (void)step;
    if (strcmp(name, "context") != 0)
        return;
    s->rows = value.shape[0];
    s->width = value.shape[1];
    s->context = case_memory(s->rows * s->width, sizeof(float));
    memcpy(s->context, value.data, s->rows * s->width * sizeof(float));
}

static double difference(const float *a, const float *b, size_t n)
{
    double apart = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(apart / size);
}

static float *velocity(const case_network *n, const float *context, size_t rows)
{
    zoe_wan_text *text;
    float *v = case_memory(n->count, sizeof *v);
    case_must(n->ctx, zoe_wan_text_new(n->ctx, &text, n->wan, context, rows, NULL), "text");
    case_must(
        n->ctx,
        zoe_wan_forward(n->ctx, n->wan, n->work, v, n->latent, n->condition, text, 900.0, NULL),
        "forward");
    zoe_wan_text_free(text);
    return v;
}

/* The encoder's rows of all `length` places, of which `valid` are real. */
static float *encode_all(zoe_context *ctx, const char *path, const int32_t *ids, size_t length,
                         size_t valid)
{
    zoe_store *store;
    zoe_umt5 *umt5;
    case_must(ctx, zoe_store_open(ctx, &store, path, ZOE_NAMES_UMT5), path);
    case_must(ctx, zoe_umt5_open(ctx, &umt5, store, false), path);
    float *rows = case_memory(length * zoe_umt5_dim(umt5), sizeof *rows);
    case_must(ctx, zoe_umt5_encode(ctx, umt5, rows, ids, length, valid, NULL), path);
    zoe_umt5_close(umt5);
    zoe_store_close(store);
    return rows;
}

static void check(zoe_context *ctx, const char *data, const char *prompt, const int32_t *ids,
                  size_t valid)
{
    char folder[] = "/tmp/zoe-case-XXXXXX";
    if (!case_expect(mkdtemp(folder) != NULL, "no folder"))
        return;
    const char *latents = case_path(folder, "l.safetensors");
    const char *checkpoint = case_path(data, "e2e_i2v/ckpt");
    seen s = {NULL, 0, 0};
    zoe_job_params params = case_params(checkpoint, case_path(data, "e2e_i2v/input.png"));
    params.prompt = prompt;
    params.frames = 1;
    params.latents_out = latents;
    params.observe = observe;
    params.user = &s;
    zoe_job *job;
    case_must(ctx, zoe_job_new(ctx, &job, &params), "new");
    case_must(ctx, zoe_job_open(ctx, job), "open");
    case_expect(zoe_job_plan(job)->prompt_tokens == valid, "\"%s\": %zu tokens", prompt,
                zoe_job_plan(job)->prompt_tokens);
    case_must(ctx, zoe_job_run(ctx, job), "run");
    zoe_job_free(job);
    unlink(latents);
    rmdir(folder);
    if (!case_expect(s.rows == valid, "\"%s\": %zu rows of context, wanted %zu", prompt, s.rows,
                     valid))
        return;

    case_network n = case_network_open(ctx, case_path(checkpoint, "high_noise_model"), 2, 8, 8);
    const size_t length = zoe_wan_dims_of(n.wan)->text_len;
    float *rows = encode_all(ctx, case_path(checkpoint, "models_t5_umt5-xxl-enc-bf16.pth"), ids,
                             length, valid);
    case_expect(difference(s.context, rows, valid * s.width) < 1e-5,
                "\"%s\": the run's context is not the encoder's", prompt);
    float *wrong = velocity(&n, rows, length);
    memset(rows + valid * s.width, 0, (length - valid) * s.width * sizeof *rows);
    float *zeros = velocity(&n, rows, length), *short_one = velocity(&n, s.context, valid);
    const double apart = difference(short_one, zeros, n.count);
    const double far = difference(wrong, zeros, n.count);
    case_expect(apart < 1e-5, "\"%s\": left out rows are no zeros: %g", prompt, apart);
    case_expect(far > 1e-3, "\"%s\": this model does not see its padding: %g", prompt, far);
    free(wrong);
    free(zeros);
    free(short_one);
    free(rows);
    free(s.context);
    case_network_close(&n);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    /* Padding is id 0, the end token 1. */
    static const int32_t cat[32] = {501, 1}, nothing[32] = {1};
    zoe_context *ctx = case_context(1);
    check(ctx, argv[1], "cat", cat, 2);
    check(ctx, argv[1], "", nothing, 1);
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
