/* The files of a calibration: YAML for --config, and all samples as CSV. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/file.h"
#include "calibrate.h"
#include "job/job.h"
#include "message.h"

#ifndef ZOE_VERSION
#define ZOE_VERSION "unknown"
#endif

/* ---- texts ---- */

/* In quotes. What YAML does not have, or what would end a remark, is written by its bytes. */
static void put_text(FILE *to, const char *text)
{
    static const char *const breaks[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf",
                                         "\xef\xbf\xbe", "\xef\xbf\xbf"};
    putc('"', to);
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        bool valid;
        n = zoe_character_length(&valid, text, left);
        const unsigned char first = (unsigned char)text[0];
        bool plain = valid && first >= 0x20 && first != 0x7f && first != '"' && first != '\\';
        plain = plain && !(first == 0xc2 && (unsigned char)text[1] < 0xa0);
        for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++)
            plain = plain && strncmp(text, breaks[i], 3) != 0;
        if (plain)
            fwrite(text, 1, n, to);
        for (size_t i = 0; i < n && !plain; i++)
            fprintf(to, "\\x%02X", (unsigned char)text[i]);
    }
    putc('"', to);
}

/* The fewest digits that give the number back. */
static void put_real(FILE *to, double value)
{
    char text[40];
    for (int digits = 5; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, to);
}

/* The day, UTC. */
static void put_date(FILE *to)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH"); /* reproducible-builds.org */
    time_t now = time(NULL);
    struct tm day;
    char *end, text[32] = "?";
    if (fixed && *fixed) {
        errno = 0;
        const long long seconds = strtoll(fixed, &end, 10);
        if (errno == 0 && *end == '\0')
            now = (time_t)seconds;
    }
    if (gmtime_r(&now, &day))
        strftime(text, sizeof text, "%Y-%m-%d", &day);
    fputs(text, to);
}

/* ---- how it was made ---- */

void zoe_calibrate_note_model(FILE *to, const zoe_calibration *c, const zoe_job *job)
{
    static const char *const solvers[] = {"unipc", "dpm++", "euler"};
    const zoe_job_params *p = &c->line->job;
    const zoe_plan *plan = &c->plan;
    zoe_job_part parts[ZOE_JOB_PARTS];
    zoe_job_list_parts(job, parts);
    fprintf(to, "# model: %s (%s)", plan->model.name, plan->model.task);
    if (p->model) {
        char *path = strdup(p->model);
        size_t n = path ? strlen(path) : 0;
        while (n > 1 && path[n - 1] == '/')
            path[--n] = '\0';
        fputs(", ", to);
        put_text(to, path ? zoe_path_name(path) : "");
        free(path);
    }
    putc('\n', to);
    for (size_t i = 0; i < ZOE_JOB_PARTS; i++)
        if (parts[i].path) {
            fprintf(to, "#   %s: ", parts[i].role);
            put_text(to, zoe_path_name(parts[i].path));
            fprintf(to, "%s%s\n", *parts[i].fingerprint ? ", fingerprint " : "",
                    parts[i].fingerprint);
        }
    for (size_t i = 0; i < p->lora_count; i++) {
        fputs("#   LoRA: ", to);
        put_text(to, zoe_path_name(p->loras[i].path));
        fprintf(to, ", strength %g, %g\n", p->loras[i].high, p->loras[i].low);
    }
    fprintf(to, "# size: %zux%zu, %zu frames, %zu tokens\n", plan->width, plan->height,
            plan->frames, plan->tokens);
    fprintf(to, "# steps: %zu", c->steps);
    if (plan->model.transformers == 2)
        fprintf(to, " (high-noise expert %zu, low-noise expert %zu, boundary %g", plan->high_steps,
                plan->low_steps, p->boundary);
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP)
        fprintf(to, ", boundary step %zu", p->boundary_step);
    if (plan->model.transformers == 2)
        fputc(')', to);
    for (size_t i = 0; i < p->step_list_count; i++)
        fprintf(to, "%s%.9g", i == 0 ? ", step list " : " ", p->step_list[i]);
    fprintf(to, ", solver %s, shift %g, guidance %g,%g, %s%s\n", solvers[p->solver], p->shift,
            p->guide_low, p->guide_high, p->bf16 ? "bf16" : "f32", p->int8 ? ", int8" : "");
    fputs("# negative prompt: ", to);
    if (p->negative_prompt && *p->negative_prompt)
        put_text(to, p->negative_prompt);
    else
        fputs("the model's own", to);
    fprintf(to, "\n# runs: %zu\n", c->n);
}

void zoe_calibrate_note_run(FILE *to, const zoe_calibration *c)
{
    const zoe_job_params *p = &c->line->job;
    fprintf(to, "#   seed %" PRId64 ": ", p->seed);
    put_text(to, p->prompt);
    const char *const pictures[] = {p->image, p->last_image};
    for (size_t i = 0; i < 2; i++)
        if (pictures[i]) {
            fputs(", ", to);
            put_text(to, zoe_path_name(pictures[i]));
        }
    putc('\n', to);
}

static void put_error(FILE *to, const char *name, const zoe_calibrate_error *e)
{
    if (e->n > 0)
        fprintf(to, "#   %s: %zu samples, x %.5g to %.5g, R2 %.4f, RMSE %.4g\n", name, e->n, e->low,
                e->high, e->r2, e->rmse);
}

static void put_quality(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    const bool experts = c->plan.model.transformers == 2;
    fprintf(
        to,
        "# TeaCache: y, the relative L1 change of the %s, as a polynomial of x, that of the %s\n",
        c->target == 0 ? "model's output" : "residual of all blocks",
        c->judge == 0   ? "modulated input"
        : c->judge == 1 ? "time embedding"
                        : "projected time embedding");
    put_error(to, "all", &r->all);
    if (experts) {
        put_error(to, "high-noise expert", &r->expert[0]);
        put_error(to, "low-noise expert", &r->expert[1]);
    }
    fprintf(to,
            "# MagCache: mean over tokens and runs of |residual| / |residual of the step before|,\n"
            "#   conditional and unconditional, step by step%s; the runs differ by a standard\n"
            "#   deviation of %.2g at most (step %zu)\n",
            r->guided ? ""
                      : " (where there is no guidance, the\n#   conditional figure stands twice)",
            r->spread, r->ratio_step + 1);
}

/* ---- the caches ---- */

/* "[a, b, ...]"; in lines of so many values, if several. */
static void put_list(FILE *to, const double *values, size_t n, size_t in_line, const char *indent)
{
    putc('[', to);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            fputs(i % in_line == 0 ? "," : ", ", to);
        if (i > 0 && i % in_line == 0)
            fprintf(to, "\n%s", indent);
        put_real(to, values[i]);
    }
    putc(']', to);
}

static void put_section(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    fprintf(to, "dit_cache:\n  method: \"%s\"\n  enable_separate_cfg: true\n  params:\n",
            zoe_calibrate_methods[c->method]);
    fputs("    rule: \"zoetrope\"\n", to);
    fprintf(to, "    threshold: %g # about %.0f of %zu steps are left out\n",
            r->threshold[c->method].value, r->threshold[c->method].skipped, c->steps);
    if (c->method == 0) {
        fprintf(to, "    judge: \"%s\"\n    coefficients: ", zoe_calibrate_judges[c->judge]);
        put_list(to, r->coefficients, ZOE_CALIBRATE_TERMS, ZOE_CALIBRATE_TERMS, "");
    } else {
        fputs("    mag_ratios: ", to);
        put_list(to, r->ratios, 2 * c->steps, 10, "      ");
    }
    putc('\n', to);
}

/* What --cache takes. */
static void put_tea(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    fprintf(to, "TeaCache,judge=%s,threshold=%g,coefficients=", zoe_calibrate_judges[c->judge],
            r->threshold[0].value);
    put_list(to, r->coefficients, ZOE_CALIBRATE_TERMS, SIZE_MAX, "");
}

static void put_mag(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    fprintf(to, "MagCache,threshold=%g,mag_ratios=", r->threshold[1].value);
    put_list(to, r->ratios, 2 * c->steps, SIZE_MAX, "");
}

static void put_calibration(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    fputs("# Step caches of a model, measured by zoe calibrate (zoe " ZOE_VERSION ") on ", to);
    put_date(to);
    fputs(".\n# For zoe generate --config, or as the section dit_cache of another file.\n#\n", to);
    fwrite(c->made, 1, c->made_size, to);
    put_quality(to, c, r);
    putc('\n', to);
    put_section(to, c, r);
    fputs("\n# The same on a command line, and the other method:\n#   --cache \"", to);
    put_tea(to, c, r);
    fputs("\"\n#   --cache \"", to);
    put_mag(to, c, r);
    fputs("\"\n", to);
}

/* ---- all samples ---- */

static void put_sample(FILE *to, const zoe_calibration *c, size_t i)
{
    const zoe_sample *s = &c->samples[i];
    const zoe_cache_change *k = &s->change;
    const double values[] = {k->modulated, k->embedding, k->projection,
                             k->residual,  k->output,    k->magnitude};
    const bool experts = c->plan.model.transformers == 2;
    fprintf(to, "%zu,%" PRId64 ",%zu,%s,%s", i / (2 * c->steps) + 1,
            c->seed + (int64_t)(i / (2 * c->steps)), i / 2 % c->steps + 1,
            !experts       ? ""
            : s->low_noise ? "low"
                           : "high",
            i % 2 == 0 ? "cond" : "uncond");
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        putc(',', to);
        if (!isnan(values[v]))
            put_real(to, values[v]);
    }
    putc('\n', to);
}

static void put_samples(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r)
{
    (void)r;
    fputs("run,seed,step,expert,branch,modulated,embedding,projection,residual,output,magnitude\n",
          to);
    for (size_t i = 0; i < c->n * c->steps * 2; i++)
        if (c->samples[i].seen)
            put_sample(to, c, i);
}

/* ---- files ---- */

typedef void (*putter)(FILE *to, const zoe_calibration *c, const zoe_calibrate_result *r);

static zoe_status print(const zoe_calibration *c, const zoe_calibrate_result *r, putter put,
                        char **text, size_t *size)
{
    FILE *to = open_memstream(text, size);
    if (!to)
        return zoe_fail(c->ctx, ZOE_NOMEM, "memory ran out");
    put(to, c, r);
    const bool broken = ferror(to) != 0;
    if (fclose(to) != 0 || broken)
        return zoe_fail(c->ctx, ZOE_NOMEM, "memory ran out");
    return ZOE_OK;
}

/* Would --cache take it? */
static zoe_status check(const zoe_calibration *c, const zoe_calibrate_result *r, putter put)
{
    zoe_cache_params params;
    char *text = NULL;
    size_t size;
    zoe_status status = print(c, r, put, &text, &size);
    if (status == ZOE_OK)
        status = zoe_cache_params_parse(c->ctx, &params, text);
    if (status != ZOE_OK)
        zoe_fail_in(c->ctx, "the calibration is out of the ranges of a step cache");
    free(text);
    return status;
}

static zoe_status write_file(const zoe_calibration *c, const zoe_calibrate_result *r, putter put,
                             const char *path)
{
    zoe_output out = {.fd = -1};
    char *text = NULL;
    size_t size;
    zoe_status status;
    TRY_GOTO(print(c, r, put, &text, &size));
    TRY_GOTO(zoe_output_open(c->ctx, &out, path));
    TRY_GOTO(zoe_output_write(c->ctx, &out, text, size));
    TRY_GOTO(zoe_check_cancel(c->ctx));
    status = zoe_output_commit(c->ctx, &out);
done:
    zoe_output_abort(&out);
    free(text);
    return status;
}

zoe_status zoe_calibrate_write(const zoe_calibration *c, const zoe_calibrate_result *r)
{
    TRY(check(c, r, put_tea));
    TRY(check(c, r, put_mag));
    if (c->csv)
        TRY(write_file(c, r, put_samples, c->csv));
    return write_file(c, r, put_calibration, c->out);
}
