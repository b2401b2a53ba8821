/* The plan before the work and the closing line after it. */
#include "report.h"

#include <stdio.h>
#include <string.h>

#include "log.h"
#include "message.h"

typedef struct readable {
    char text[32];
} readable;

static readable bytes_text(size_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    readable r;
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(r.text, sizeof r.text, unit && value < 9.95 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return r;
}

static readable rate_text(const zoe_job_params *params)
{
    readable r;
    if (params->fps_den == 1)
        snprintf(r.text, sizeof r.text, "%d", params->fps_num);
    else
        snprintf(r.text, sizeof r.text, "%d/%d", params->fps_num, params->fps_den);
    return r;
}

static const char *solver_text(zoe_solver_kind solver)
{
    switch (solver) {
    case ZOE_SOLVER_UNIPC: return "UniPC";
    case ZOE_SOLVER_DPMPP: return "DPM++";
    case ZOE_SOLVER_EULER: return "Euler";
    }
    return "?";
}

static void plan_json(const zoe_job_params *params, const zoe_plan *plan, int threads)
{
    zoe_json_begin("plan");
    zoe_json_text("model", plan->model.name);
    zoe_json_text("task", plan->model.task);
    zoe_json_size("picture_width", plan->picture_width);
    zoe_json_size("picture_height", plan->picture_height);
    zoe_json_size("width", plan->width);
    zoe_json_size("height", plan->height);
    zoe_json_size("frames", plan->frames);
    zoe_json_text("fps", rate_text(params).text);
    zoe_json_size("latent_frames", plan->latent_frames);
    zoe_json_size("latent_height", plan->latent_height);
    zoe_json_size("latent_width", plan->latent_width);
    zoe_json_size("tokens", plan->tokens);
    zoe_json_size("prompt_tokens", plan->prompt_tokens);
    zoe_json_size("negative_tokens", plan->negative_tokens);
    zoe_json_size("high_steps", plan->high_steps);
    zoe_json_size("low_steps", plan->low_steps);
    zoe_json_size("passes", plan->passes);
    zoe_json_size("steps_done", plan->steps_done);
    for (int phase = 0; phase < ZOE_PHASE_COUNT; phase++) {
        char key[32];
        snprintf(key, sizeof key, "%s_bytes", zoe_phase_name((zoe_phase)phase));
        zoe_json_size(key, plan->bytes[phase]);
    }
    zoe_json_size("peak_bytes", plan->peak);
    zoe_json_size("text_layers", plan->text_residency.layers);
    zoe_json_size("text_resident", plan->text_residency.resident);
    zoe_json_size("layers", plan->steps_residency.layers);
    zoe_json_size("resident", plan->steps_residency.resident);
    zoe_json_int("threads", threads);
    zoe_json_size("ranks", plan->ranks);
    zoe_json_size("cfg_ranks", plan->cfg_ranks);
    zoe_json_size("ulysses", plan->ulysses);
    zoe_json_size("ring", plan->ring);
    zoe_json_size("vae_ranks", plan->vae_ranks);
    zoe_json_size("host_ranks", plan->host_ranks);
    zoe_json_size("host_peak_bytes", plan->host_peak);
    zoe_json_int("seed", plan->seed);
    zoe_json_end();
}

typedef struct clause {
    char text[160];
} clause;

/* What the video is made of, and how its size came about. */
static clause picture_text(const zoe_plan *plan)
{
    clause c = {""};
    if (plan->picture_width > 0)
        snprintf(c.text, sizeof c.text, "picture %zux%zu; ", plan->picture_width,
                 plan->picture_height);
    return c;
}

static clause size_text(const zoe_job_params *params, const zoe_plan *plan)
{
    clause c = {""};
    if (plan->width != params->width || plan->height != params->height)
        snprintf(c.text, sizeof c.text,
                 "size: the area of %zux%zu in the shape of the picture, in multiples of %zu\n",
                 params->width, params->height, 2 * plan->width / plan->latent_width);
    return c;
}

static clause steps_text(const zoe_job_params *params, const zoe_plan *plan)
{
    clause c;
    const char *solver = solver_text(params->solver);
    if (plan->model.transformers == 1)
        snprintf(c.text, sizeof c.text, "%s steps: %zu", solver, plan->high_steps);
    else
        snprintf(c.text, sizeof c.text,
                 "%s steps: %zu with the high-noise expert, %zu with the low-noise expert", solver,
                 plan->high_steps, plan->low_steps);
    return c;
}

/* How several ranks share the work. */
static clause ranks_text(const zoe_plan *plan)
{
    clause c = {""};
    if (plan->ranks > 1)
        snprintf(c.text, sizeof c.text, "%zu ranks: CFG %zu x Ulysses %zu x ring %zu, VAE on %zu\n",
                 plan->ranks, plan->cfg_ranks, plan->ulysses, plan->ring, plan->vae_ranks);
    return c;
}

/* What those on one host hold, after the peak of each. */
static clause host_text(const zoe_plan *plan)
{
    clause c = {""};
    if (plan->host_ranks > 1)
        snprintf(c.text, sizeof c.text, "; %zu ranks on this host: %s", plan->host_ranks,
                 bytes_text(plan->host_peak).text);
    return c;
}

/* A line that says how a network that does not fit is run; "" if it does. */
static clause stay_text(const zoe_residency *stay, const char *what)
{
    clause c = {""};
    if (stay->resident < stay->layers)
        snprintf(c.text, sizeof c.text,
                 "\n%s: %zu of %zu layers stay in memory, the others are streamed", what,
                 stay->resident, stay->layers);
    return c;
}

static void plan_text(char *text, size_t room, const zoe_job_params *params, const zoe_plan *plan,
                      int threads)
{
    char kept[64] = "";
    if (plan->steps_done > 0)
        snprintf(kept, sizeof kept, "; %zu steps are done", plan->steps_done);
    snprintf(text, room,
             "%svideo %zux%zu, %zu frame%s at %s a second\n%s"
             "model of the %s kind; latent %zu frame%s of %zux%zu, %zu tokens; text tokens: prompt "
             "%zu, negative %zu\n"
             "%s; %zu passes%s\n"
             "%smemory%s: text %s, encode %s, steps %s, decode %s; peak %s%s%s%s\n"
             "seed %lld, %d thread%s",
             picture_text(plan).text, plan->width, plan->height, plan->frames,
             plan->frames == 1 ? "" : "s", rate_text(params).text, size_text(params, plan).text,
             plan->model.name, plan->latent_frames, plan->latent_frames == 1 ? "" : "s",
             plan->latent_width, plan->latent_height, plan->tokens, plan->prompt_tokens,
             plan->negative_tokens, steps_text(params, plan).text, plan->passes, kept,
             ranks_text(plan).text, plan->ranks > 1 ? " of each" : "",
             bytes_text(plan->bytes[ZOE_PHASE_TEXT]).text,
             bytes_text(plan->bytes[ZOE_PHASE_ENCODE]).text,
             bytes_text(plan->bytes[ZOE_PHASE_STEPS]).text,
             bytes_text(plan->bytes[ZOE_PHASE_DECODE]).text, bytes_text(plan->peak).text,
             host_text(plan).text, stay_text(&plan->text_residency, "text encoder").text,
             stay_text(&plan->steps_residency, "transformer").text, (long long)plan->seed, threads,
             threads == 1 ? "" : "s");
}

void zoe_report_plan(const zoe_job_params *params, const zoe_plan *plan, int threads, bool say)
{
    char text[2048];
    plan_text(text, sizeof text, params, plan, threads);
    if (say && !zoe_message_is_json()) {
        zoe_note("%s", text);
        return;
    }
    zoe_log_note("%s", text);
    if (say)
        plan_json(params, plan, threads);
}

/* "clip.mp4, frames/ and clip.safetensors"; as much of it as fits. */
static void list_outputs(char *list, size_t room, const zoe_job_params *params)
{
    const char *const names[] = {params->out, params->frames_out, params->latents_out,
                                 params->report, params->trace};
    enum { NAMES = sizeof names / sizeof names[0] };
    size_t count = 0, written = 0, used = 0;
    for (size_t i = 0; i < NAMES; i++)
        count += names[i] != NULL;
    list[0] = '\0';
    for (size_t i = 0; i < NAMES; i++) {
        if (!names[i] || used >= room)
            continue;
        const char *name =
            strcmp(names[i], "-") == 0 && i == 0 ? "the video to standard output" : names[i];
        const char *joint = written == 0 ? "" : written + 1 == count ? " and " : ", ";
        const int n = snprintf(list + used, room - used, "%s%s%s", joint, name,
                               i == 1   ? " (PNG)"
                               : i == 2 ? " (latents)"
                               : i == 3 ? " (report)"
                               : i == 4 ? " (trace)"
                                        : "");
        used += n > 0 ? (size_t)n : 0;
        written++;
    }
}

static void cache_json(const zoe_cache_outcome *cache)
{
    if (!cache->used)
        return;
    zoe_json_begin("cache");
    zoe_json_size("high_computed", cache->high_computed);
    zoe_json_size("high_skipped", cache->high_skipped);
    zoe_json_size("low_computed", cache->low_computed);
    zoe_json_size("low_skipped", cache->low_skipped);
    zoe_json_figure("smallest_distance", (double)cache->smallest);
    zoe_json_figure("median_distance", (double)cache->median);
    zoe_json_figure("largest_distance", (double)cache->largest);
    zoe_json_end();
}

/* "; cache: ..." or "". */
static void cache_text(char *text, size_t room, const zoe_cache_outcome *cache)
{
    const size_t computed = cache->high_computed + cache->low_computed;
    const size_t skipped = cache->high_skipped + cache->low_skipped;
    text[0] = '\0';
    if (!cache->used)
        return;
    const size_t high = cache->high_computed + cache->high_skipped;
    int used =
        snprintf(text, room, "; the cache skipped %zu of %zu steps", skipped, computed + skipped);
    if (high > 0 && high < computed + skipped)
        used += snprintf(text + used, room - (size_t)used,
                         " (high-noise expert %zu of %zu, low-noise expert %zu of %zu)",
                         cache->high_skipped, high, cache->low_skipped, computed + skipped - high);
    if (skipped == 0 && cache->smallest >= 0.0f)
        snprintf(text + used, room - (size_t)used, ", the smallest distance was %.3g",
                 (double)cache->smallest);
}

static void done_json(const zoe_job_params *params, const zoe_plan *plan,
                      const zoe_progress *progress, double seconds)
{
    zoe_json_begin("done");
    zoe_json_text("out", params->out);
    zoe_json_text("frames_out", params->frames_out);
    zoe_json_text("latents_out", params->latents_out);
    zoe_json_text("report", params->report);
    zoe_json_text("trace", params->trace);
    zoe_json_size("width", plan->width);
    zoe_json_size("height", plan->height);
    zoe_json_size("frames", plan->frames);
    zoe_json_int("seed", plan->seed);
    zoe_json_real("seconds", seconds);
    for (int phase = 0; phase < ZOE_PHASE_COUNT; phase++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", zoe_phase_name((zoe_phase)phase));
        zoe_json_real(key, progress->seconds[phase]);
    }
    zoe_json_end();
}

void zoe_report_done(const zoe_job_params *params, const zoe_plan *plan,
                     const zoe_progress *progress, double seconds, const zoe_cache_outcome *cache)
{
    char names[12288], total[32], skips[256], text[sizeof names + 1024];
    list_outputs(names, sizeof names, params);
    zoe_duration_print(total, sizeof total, seconds);
    cache_text(skips, sizeof skips, cache);
    snprintf(text, sizeof text,
             "wrote %s: %zu frame%s of %zux%zu, seed %lld, in %s (text %.1f s, encode %.1f s, "
             "steps %.1f s, decode %.1f s)%s",
             names, plan->frames, plan->frames == 1 ? "" : "s", plan->width, plan->height,
             (long long)plan->seed, total, progress->seconds[ZOE_PHASE_TEXT],
             progress->seconds[ZOE_PHASE_ENCODE], progress->seconds[ZOE_PHASE_STEPS],
             progress->seconds[ZOE_PHASE_DECODE], skips);
    if (!zoe_message_is_json()) {
        zoe_note("%s", text);
        return;
    }
    zoe_log_note("%s", text);
    cache_json(cache);
    done_json(params, plan, progress, seconds);
}

void zoe_report_checkpoint(const zoe_job_params *params, size_t steps)
{
    if (!zoe_message_is_json())
        return;
    zoe_json_begin("checkpoint");
    zoe_json_text("path", params->checkpoint);
    zoe_json_size("steps", steps);
    zoe_json_end();
}

void zoe_report_preview(const zoe_job_params *params, size_t step, size_t width, size_t height)
{
    if (!zoe_message_is_json())
        return;
    zoe_json_begin("preview");
    zoe_json_size("step", step);
    zoe_json_text("path", params->preview);
    zoe_json_size("width", width);
    zoe_json_size("height", height);
    zoe_json_end();
}
