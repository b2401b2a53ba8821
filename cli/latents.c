/* Comparing latents. */
#include "latents.h"

#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "figures.h"
#include "media/media.h"
#include "store/store.h"

bool zoe_latents_are_at(const char *path)
{
    static const char suffix[] = ".safetensors";
    const size_t n = strlen(path);
    if (n >= sizeof suffix - 1 && strcasecmp(path + n - (sizeof suffix - 1), suffix) == 0)
        return true;
    struct stat st;
    unsigned char head[9]; /* the header's size in 8 bytes, then JSON */
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (!file)
        return false;
    const bool whole = fread(head, 1, sizeof head, file) == sizeof head;
    fclose(file);
    return whole && head[8] == '{' && (head[4] | head[5] | head[6] | head[7]) == 0;
}

/* ---- sums over elements ---- */

typedef struct sums {
    double squares, worst; /* of the difference */
    double aa, bb, ab;
} sums;

static void add(sums *to, const sums *more)
{
    to->squares += more->squares;
    to->worst = more->worst > to->worst ? more->worst : to->worst;
    to->aa += more->aa;
    to->bb += more->bb;
    to->ab += more->ab;
}

static double value_at(zoe_tensor t, size_t i)
{
    return t.dtype == ZOE_F64 ? ((const double *)t.data)[i]
                              : (double)zoe_load_f32(t.data, t.dtype, i);
}

enum { COLUMNS = 4 };
static const zoe_column columns[COLUMNS] = {
    {"psnr", "PSNR dB", "%.3f"},
    {"rel_l2", "rel L2", "%.3e"},
    {"max_abs", "max abs", "%.3e"},
    {"cosine", "cosine", "%.8f"},
};

static void figures_of(double values[COLUMNS], const sums *s, double n, double peak)
{
    const bool equal = s->squares == 0.0;
    values[0] = equal || peak > 0.0 ? zoe_psnr_of(s->squares, n, peak) : NAN;
    values[1] = equal ? 0.0 : s->aa > 0.0 ? sqrt(s->squares / s->aa) : NAN;
    values[2] = s->worst;
    values[3] = equal ? 1.0 : s->aa > 0.0 && s->bb > 0.0 ? s->ab / sqrt(s->aa * s->bb) : NAN;
}

/* ---- two files ---- */

typedef struct latents_run {
    zoe_context *ctx;
    const zoe_latents_request *request;
    zoe_store *store[2];
    zoe_tensor tensor[2];
    size_t channels, frames[2], cells, compared;
    double peak;
    zoe_figures figures;
} latents_run;

static zoe_status find_latents(latents_run *run, int which)
{
    const char *path = run->request->path[which];
    zoe_tensor *t = &run->tensor[which];
    char text[128];
    TRY(zoe_store_open(run->ctx, &run->store[which], path, ZOE_NAMES_AS_STORED));
    if (!zoe_store_find(run->store[which], "latents", t))
        return zoe_fail(run->ctx, ZOE_MISSING,
                        "%s holds %zu tensors, none is named \"latents\" as --latents-out names it",
                        path, zoe_store_count(run->store[which]));
    if (!zoe_dtype_is_float(t->dtype) || zoe_tensor_count(*t) == 0)
        return zoe_fail(run->ctx, ZOE_FORMAT,
                        "%s: latents are %s; floating numbers, at least one, are wanted", path,
                        zoe_tensor_describe(text, sizeof text, *t));
    return ZOE_OK;
}

/* [1, C, F, H, W] and [C, F, H, W] have frames; anything else is one frame as a whole. */
static void split(const latents_run *run, int which, size_t *channels, size_t *frames,
                  size_t *cells)
{
    const zoe_tensor *t = &run->tensor[which];
    const int lead = t->rank == 5 && t->shape[0] == 1;
    const bool framed = t->rank - lead == 4;
    *channels = framed ? t->shape[lead] : 1;
    *frames = framed ? t->shape[lead + 1] : 1;
    *cells = zoe_tensor_count(*t) / *channels / *frames;
}

static bool same_shape(const latents_run *run)
{
    const zoe_tensor *a = &run->tensor[0], *b = &run->tensor[1];
    if (a->rank != b->rank)
        return false;
    /* --frames makes frames comparable whose number differs. */
    const int lead = a->rank == 5 && a->shape[0] == 1;
    const int free = run->request->frames && a->rank - lead == 4 ? lead + 1 : -1;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i] && i != free)
            return false;
    return true;
}

static zoe_status check_shapes(latents_run *run)
{
    const zoe_latents_request *r = run->request;
    char a[128], b[128];
    if (!same_shape(run))
        return zoe_fail(run->ctx, ZOE_INVALID,
                        "%s has latents of %s, %s of %s; only equal shapes can be compared",
                        r->path[0], zoe_tensor_describe(a, sizeof a, run->tensor[0]), r->path[1],
                        zoe_tensor_describe(b, sizeof b, run->tensor[1]));
    for (int i = 0; i < 2; i++)
        split(run, i, &run->channels, &run->frames[i], &run->cells);
    run->compared = r->frames ? r->frames : run->frames[0];
    for (int i = 0; i < 2; i++)
        if (run->frames[i] < run->compared)
            return zoe_fail(run->ctx, ZOE_INVALID,
                            "%s has latents of %zu frames, --frames asks for %zu", r->path[i],
                            run->frames[i], run->compared);
    return ZOE_OK;
}

static void describe_place(char *text, size_t size, zoe_tensor t, size_t i)
{
    size_t at[ZOE_MAX_RANK] = {0}, used = 0;
    for (int k = t.rank - 1; k >= 0; i /= t.shape[k], k--)
        at[k] = i % t.shape[k];
    text[0] = '\0';
    for (int k = 0; k < t.rank && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, k ? ", %zu" : "%zu", at[k]);
}

/* Also finds the range of the first one's values. */
static zoe_status check_finite(latents_run *run, int which)
{
    const zoe_tensor t = run->tensor[which];
    const size_t n = zoe_tensor_count(t);
    size_t nans = 0, infs = 0, first = n;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double v = value_at(t, i);
        nans += isnan(v) ? 1 : 0;
        infs += isinf(v) ? 1 : 0;
        first = first == n && !isfinite(v) ? i : first;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if (which == 0)
        run->peak = high - low;
    if (first == n)
        return ZOE_OK;
    char place[128];
    describe_place(place, sizeof place, t, first);
    return zoe_fail(run->ctx, ZOE_NONFINITE,
                    "%s: of the %zu values of its latents, %zu are NaN and %zu infinite, the first "
                    "at [%s]; nothing can be compared",
                    run->request->path[which], n, nans, infs, place);
}

static sums sums_of_frame(const latents_run *run, size_t frame)
{
    sums s = {0};
    for (size_t c = 0; c < run->channels; c++)
        for (size_t i = 0; i < run->cells; i++) {
            const double a =
                value_at(run->tensor[0], (c * run->frames[0] + frame) * run->cells + i);
            const double b =
                value_at(run->tensor[1], (c * run->frames[1] + frame) * run->cells + i);
            const sums one = {(a - b) * (a - b), fabs(a - b), a * a, b * b, a * b};
            add(&s, &one);
        }
    return s;
}

static json_t *about(const latents_run *run, bool equal)
{
    return json_pack("{s:s, s:I, s:f, s:b}", "kind", "latents", "count", (json_int_t)run->compared,
                     "peak", run->peak, "equal", (int)equal);
}

static zoe_status compare(latents_run *run, double *psnr)
{
    double values[COLUMNS];
    sums total = {0};
    const double n = (double)run->channels * (double)run->cells;
    TRY(zoe_figures_begin(run->ctx, &run->figures, columns, COLUMNS, run->request->json));
    for (size_t f = 0; f < run->compared; f++) {
        TRY(zoe_check_cancel(run->ctx));
        const sums s = sums_of_frame(run, f);
        figures_of(values, &s, n, run->peak);
        zoe_figures_frame(&run->figures, f, values);
        add(&total, &s);
    }
    figures_of(values, &total, n * (double)run->compared, run->peak);
    *psnr = values[0];
    TRY(zoe_figures_total(run->ctx, &run->figures, about(run, total.squares == 0.0), values));
    if (!run->request->json)
        printf("The peak of the PSNR is the range of the first one's values, %.6g.\n", run->peak);
    return ZOE_OK;
}

zoe_status zoe_latents_compare(zoe_context *ctx, double *psnr, const zoe_latents_request *request)
{
    latents_run run = {.ctx = ctx, .request = request};
    zoe_status status;
    for (int i = 0; i < 2; i++)
        TRY_GOTO(find_latents(&run, i));
    TRY_GOTO(check_shapes(&run));
    for (int i = 0; i < 2; i++)
        TRY_GOTO(check_finite(&run, i));
    TRY_GOTO(compare(&run, psnr));
done:
    zoe_figures_free(&run.figures);
    for (int i = 0; i < 2; i++)
        zoe_store_close(run.store[i]);
    return status;
}
