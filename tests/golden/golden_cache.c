/* golden_cache DIR: step caches against the traces of the references.
 *
 * DIR/sequences.json     {L, D, blocks, sequences: {NAME: {steps, first_low_step}}}
 * DIR/seq_NAME.f32       a scripted network: 2 steps records, x[L,D], R[blocks,L,D], e[D], e0[6,D];
 * block k adds R[k] to the hidden state, which starts as x and is the output DIR/cache_NAME.json
 * {uncached_out, traces: [{impl, method, params, compute, out, ...}]} DIR/mag_ratios_wan22.json
 * tables that the traces of MagCache were made from DIR/taylorseer.json    {schedules, values} of
 * TaylorSeer
 *
 * Decisions must be equal, values within 1e-6 of the size of what they are. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "golden.h"
#include "sample/cache.h"

static const double LIMIT = 1e-6;

enum { KEYS = 24, VALUE = 8192 };

typedef struct sequence {
    size_t L, D, blocks, steps, first_low, floats;
    float *data;
} sequence;

/* ---- parameters ---- */

/* Settings in the making: texts of their own. */
typedef struct settings {
    zoe_cache_setting row[KEYS];
    char text[KEYS][VALUE];
    size_t n;
} settings;

static void put(golden *g, settings *s, const char *key, const char *value)
{
    if (s->n == KEYS || strlen(value) >= VALUE) {
        golden_check(g, key, false, "too many or too long parameters");
        return;
    }
    strcpy(s->text[s->n], value);
    s->row[s->n] = (zoe_cache_setting){.key = key, .value = s->text[s->n]};
    s->n++;
}

/* A JSON value as the text of a setting; numbers keep all digits. */
static void put_json(golden *g, settings *s, const char *key, const json_t *value)
{
    char *text;
    if (json_is_string(value)) {
        put(g, s, key, json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (text)
        put(g, s, key, text);
    free(text);
}

/* Names of the references' parameters that are none of our keys. */
static const char *our_key(const char *impl, const char *key)
{
    static const struct {
        const char *impl, *key, *ours;
    } names[] = {
        {"ParaAttention", "thr", "residual_diff_threshold"},
        {"ParaAttention", "taylorseer_kwargs", "taylorseer_order"},
        {"TeaCache4Wan2.1", "thr", "thresh"},
        {"TeaCache4Wan2.1", "set", NULL},
        {"MagCache4Wan2.2", "thr", "thresh"},
        {"MagCache4Wan2.2", "high_noise_steps", NULL},
        {"MagCache4Wan2.2", "ratios_used", NULL},
        {"EasyCache4Wan2.1", "thr", "thresh"},
        {"EasyCache4Wan2.1", "ret_steps_calls", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].impl, impl) == 0 && strcmp(names[i].key, key) == 0)
            return names[i].ours;
    return key;
}

static const char *rule_of(const char *impl)
{
    static const char *const rules[][2] = {
        {"cann-recipes-infer", "recipe"}, {"ParaAttention", "paraattention"},
        {"diffusers", "diffusers"},       {"cache-dit", "cache-dit"},
        {"TeaCache4Wan2.1", "official"},  {"MagCache4Wan2.2", "official"},
        {"EasyCache4Wan2.1", "official"}, {"TaylorSeer", "official"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i][0], impl) == 0)
            return rules[i][1];
    return NULL;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The digits in a text like "{'n_derivatives': 1}". */
static void put_digits(golden *g, settings *s, const char *key, const char *text)
{
    char digits[16];
    const char *first = text + strcspn(text, "0123456789");
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(first, "0123456789"), first);
    put(g, s, key, digits);
}

static void put_extras(golden *g, settings *s, const json_t *trace, const json_t *tables)
{
    const json_t *params = json_object_get(trace, "params");
    const json_t *calls = json_object_get(params, "ret_steps_calls");
    const json_t *calibrator = json_object_get(trace, "calibrator");
    const char *method = text_at(trace, "method"), *impl = text_at(trace, "impl");
    char number[32];
    if (strcmp(impl, "cann-recipes-infer") == 0) {
        put(g, s, "enable_separate_cfg",
            json_is_false(json_object_get(trace, "separate_cfg")) ? "false" : "true");
        put(g, s, "judge", "hidden");
    }
    if (calls) {
        snprintf(number, sizeof number, "%lld", json_integer_value(calls) / 2);
        put(g, s, "ret_steps", number);
    }
    if (json_is_array(calibrator)) {
        const json_t *order = json_array_get(calibrator, 1);
        put(g, s, "calibrator", json_string_value(json_array_get(calibrator, 0)));
        if (json_integer_value(order) > 0)
            put_json(g, s, "taylorseer_order", order);
    }
    if (strcmp(method, "MagCache") == 0 && strcmp(impl, "diffusers") != 0) {
        char name[32];
        snprintf(name, sizeof name, "%s_A14B", text_at(params, "mode"));
        json_t *list = json_deep_copy(json_object_get(tables, name));
        for (int i = 0; i < 2; i++)
            json_array_insert_new(list, 0, json_real(1.0));
        put_json(g, s, "mag_ratios", list);
        json_decref(list);
    }
}

static void put_trace(golden *g, settings *s, json_t *trace, const json_t *tables)
{
    const char *impl = text_at(trace, "impl"), *key;
    json_t *value;
    s->n = 0;
    put(g, s, "rule", rule_of(impl) ? rule_of(impl) : "?");
    json_object_foreach(json_object_get(trace, "params"), key, value)
    {
        const char *ours = our_key(impl, key);
        if (ours && strcmp(key, "taylorseer_kwargs") == 0)
            put_digits(g, s, ours, json_string_value(value));
        else if (ours)
            put_json(g, s, ours, value);
    }
    put_extras(g, s, trace, tables);
}

/* ---- the scripted network ---- */

/* A run in progress: what is remembered of the pass that was last. */
typedef struct run {
    golden *g;
    const sequence *q;
    zoe_cache *cache;
    float *hidden, *out[2];
    double sums[3]; /* of the output: sum, sum of magnitudes, first value */
    size_t ran;     /* blocks */
} run;

static float *take(golden *g, size_t n)
{
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, n, sizeof(float), "run"), "run");
    return p;
}

static run run_begin(golden *g, const sequence *q, zoe_cache *cache)
{
    const size_t n = q->L * q->D;
    return (run){
        .g = g, .q = q, .cache = cache, .hidden = take(g, n), .out = {take(g, n), take(g, n)}};
}

static void run_end(run *r)
{
    zoe_free(r->hidden);
    zoe_free(r->out[0]);
    zoe_free(r->out[1]);
    zoe_cache_free(r->cache);
}

static void run_pass(run *r, size_t step, size_t branch)
{
    const sequence *q = r->q;
    const size_t n = q->L * q->D;
    const float *x = q->data + (2 * step + branch) * q->floats, *residual = x + n;
    const float *e = residual + q->blocks * n, *e0 = e + q->D;
    float *out = r->out[branch];
    bool made;
    r->ran = 0;
    golden_must(r->g, zoe_cache_begin(r->g->ctx, r->cache, x, out, &made), "begin");
    if (!made) {
        zoe_cache_point p = {.hidden = r->hidden, .embedding = e, .projection = e0};
        memcpy(r->hidden, x, n * sizeof *x);
        for (p.block = 0;; p.block++) {
            golden_must(r->g, zoe_cache_at(r->g->ctx, r->cache, &p, &p.block), "block");
            if (p.block == q->blocks)
                break;
            for (size_t i = 0; i < n; i++)
                r->hidden[i] += residual[p.block * n + i];
            r->ran++;
        }
        memcpy(out, r->hidden, n * sizeof *out);
    }
    golden_must(r->g, zoe_cache_end(r->g->ctx, r->cache, x, out), "end");
    r->sums[0] = r->sums[1] = 0.0;
    r->sums[2] = (double)out[0];
    for (size_t i = 0; i < n; i++) {
        r->sums[0] += (double)out[i];
        r->sums[1] += fabs((double)out[i]);
    }
}

/* ---- one trace ---- */

/* How far the run is from a trace so far. */
typedef struct match {
    size_t wrong; /* first pass that was decided otherwise, SIZE_MAX: none */
    double out, metric;
    size_t computed, compared;
    bool bad; /* the trace has not what it must have */
} match;

static void note_error(double *worst, double got, double want, double size)
{
    const double error = fabs(got - want) / (size > 0.0 ? size : 1.0);
    if (!(error <= *worst)) /* a NaN counts as well */
        *worst = error;
}

static double size_of(double value)
{
    return fabs(value) > 1.0 ? fabs(value) : 1.0;
}

/* A number of the trace against ours; null means: there is none. */
static void match_number(match *m, const json_t *want, bool there, double got)
{
    if (json_is_null(want) || !want) {
        m->bad = m->bad || there;
        return;
    }
    m->bad = m->bad || !there || !json_is_number(want);
    if (!m->bad)
        note_error(&m->metric, got, json_number_value(want), size_of(json_number_value(want)));
    m->compared++;
}

static void match_metrics(match *m, const run *r, const json_t *trace, size_t step, size_t branch)
{
    const zoe_cache_trace *t = zoe_cache_trace_at(r->cache, step, branch);
    const size_t pass = 2 * step + branch;
    const json_t *diff = json_object_get(trace, "diff"), *acc = json_object_get(trace, "acc");
    const json_t *acc_k = json_array_get(json_object_get(trace, "acc_k"), pass);
    const json_t *by_step = json_object_get(trace, branch == 0 ? "diff_cond" : "diff_uncond");
    if (json_is_array(diff))
        match_number(m, json_array_get(diff, pass), t->measured, (double)t->distance);
    if (json_array_size(acc) > 0)
        match_number(m, json_array_get(acc, pass), true, t->accumulated);
    if (json_is_array(acc_k)) {
        match_number(m, json_array_get(acc_k, 0), true, t->accumulated);
        match_number(m, json_array_get(acc_k, 1), !isnan(t->rate), t->rate);
    }
    if (json_is_object(by_step)) {
        char key[24];
        snprintf(key, sizeof key, "%zu", step);
        match_number(m, json_object_get(by_step, key), t->measured, (double)t->distance);
    }
}

static void match_pass(match *m, const run *r, const json_t *trace, size_t step, size_t branch)
{
    const size_t pass = 2 * step + branch;
    const json_t *out = json_array_get(json_object_get(trace, "out"), pass);
    const char *compute = text_at(trace, "compute");
    const zoe_cache_trace *t = zoe_cache_trace_at(r->cache, step, branch);
    if (t->computed != (r->ran == r->q->blocks))
        m->bad = true;
    if (m->wrong == SIZE_MAX && (compute[pass] == '1') != t->computed)
        m->wrong = pass;
    m->computed += t->computed;
    const double size = json_number_value(json_array_get(out, 1));
    for (size_t k = 0; k < 3; k++)
        note_error(&m->out, r->sums[k], json_number_value(json_array_get(out, k)), size_of(size));
    match_metrics(m, r, trace, step, branch);
}

static void replay(run *r, match *m, const json_t *trace, size_t steps)
{
    for (size_t step = 0; step < steps; step++) {
        const zoe_expert expert =
            step < r->q->first_low && strcmp(text_at(trace, "impl"), "cann-recipes-infer") == 0
                ? ZOE_HIGH_NOISE
                : ZOE_LOW_NOISE; /* the other references see one model */
        golden_must(r->g, zoe_cache_step(r->g->ctx, r->cache, step, expert, 3), "step");
        for (size_t branch; zoe_cache_next(r->cache, &branch);) {
            run_pass(r, step, branch);
            if (m)
                match_pass(m, r, trace, step, branch);
        }
    }
}

/* Where the reference dies because it has nothing to put in, ours says so and computes. */
static void check_failing(run *r, const char *name, const json_t *trace)
{
    size_t call, empty = SIZE_MAX;
    const char *text = text_at(trace, "error"), *at = strstr(text, "call ");
    if (!at || sscanf(at, "call %zu", &call) != 1) {
        golden_check(r->g, name, false, "an error without its call");
        return;
    }
    replay(r, NULL, trace, r->q->steps);
    for (size_t i = 2 * r->q->steps; i-- > 0;)
        if (zoe_cache_trace_at(r->cache, i / 2, i % 2)->empty)
            empty = i;
    golden_check(r->g, name, empty == call, "nothing kept at call %zu", empty);
}

static void check_trace(golden *g, const sequence *q, size_t number, json_t *trace,
                        const json_t *tables)
{
    static settings s;
    char name[96];
    zoe_cache_params params;
    zoe_cache *cache;
    const json_t *split = json_object_get(json_object_get(trace, "params"), "high_noise_steps");
    const zoe_cache_shape shape = {.steps = q->steps,
                                   .high_steps =
                                       split ? (size_t)json_integer_value(split) : q->first_low,
                                   .tokens = q->L,
                                   .width = q->D,
                                   .blocks = q->blocks,
                                   .latent = q->L * q->D};
    snprintf(name, sizeof name, "%zu.%s.%s", number, text_at(trace, "impl"),
             text_at(trace, "method"));
    put_trace(g, &s, trace, tables);
    golden_must(g, zoe_cache_params_set(g->ctx, &params, text_at(trace, "method"), s.row, s.n),
                name);
    golden_must(g, zoe_cache_new(g->ctx, &cache, &params, &shape), name);
    run r = run_begin(g, q, cache);
    match m = {.wrong = SIZE_MAX};
    if (json_object_get(trace, "error")) {
        check_failing(&r, name, trace);
    } else if (strlen(text_at(trace, "compute")) != 2 * q->steps ||
               json_array_size(json_object_get(trace, "out")) != 2 * q->steps) {
        golden_check(g, name, false, "not a trace of %zu steps", q->steps);
    } else {
        replay(&r, NULL, trace,
               (size_t)json_integer_value(json_object_get(trace, "prewarm_steps")));
        replay(&r, &m, trace, q->steps);
        golden_check(g, name, m.wrong == SIZE_MAX && !m.bad && m.out <= LIMIT && m.metric <= LIMIT,
                     "%zu/%zu out %.1e, %zu metrics %.1e%s", m.computed, 2 * q->steps, m.out,
                     m.compared, m.metric, m.bad ? " bad" : "");
        if (m.wrong != SIZE_MAX)
            printf("    first decided otherwise: pass %zu\n", m.wrong);
    }
    run_end(&r);
}

/* NoCache, and every method with threshold 0, give what is computed without a cache. */
static void check_uncached(golden *g, const sequence *q, const json_t *want)
{
    static const char *const texts[] = {
        "NoCache",
        "FBCache,rel_l1_thresh=0",
        "TeaCache,rel_l1_thresh=0,judge=hidden",
        "TaylorSeer,skip_interval_steps=1",
        "EasyCache,thresh=0",
        "DBCache,residual_diff_threshold=0,Fn_compute_blocks=1",
        "MagCache,thresh=0,mag_ratios=i2v_A14B",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        zoe_cache_params params;
        zoe_cache *cache;
        const zoe_cache_shape shape = {.steps = q->steps,
                                       .high_steps = q->first_low,
                                       .tokens = q->L,
                                       .width = q->D,
                                       .blocks = q->blocks,
                                       .latent = q->L * q->D};
        golden_must(g, zoe_cache_params_parse(g->ctx, &params, texts[i]), texts[i]);
        golden_must(g, zoe_cache_new(g->ctx, &cache, &params, &shape), texts[i]);
        run r = run_begin(g, q, cache);
        double worst = 0.0;
        size_t skipped = 0;
        for (size_t step = 0; step < q->steps; step++) {
            const zoe_expert expert = step < q->first_low ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
            golden_must(g, zoe_cache_step(g->ctx, cache, step, expert, 3), "step");
            for (size_t branch; zoe_cache_next(cache, &branch);) {
                run_pass(&r, step, branch);
                const json_t *out = json_array_get(want, 2 * step + branch);
                const double size = json_number_value(json_array_get(out, 1));
                for (size_t k = 0; k < 3; k++)
                    note_error(&worst, r.sums[k], json_number_value(json_array_get(out, k)),
                               size_of(size));
                skipped += !zoe_cache_trace_at(cache, step, branch)->computed;
            }
        }
        golden_check(g, texts[i], worst <= LIMIT && skipped == 0, "%zu left out, %.1e", skipped,
                     worst);
        run_end(&r);
    }
}

/* ---- files ---- */

static json_t *load(golden *g, const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (!json)
        golden_check(g, path, false, "%s", error.text);
    return json;
}

static size_t whole(const json_t *object, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 && value < 100000 ? (size_t)value : 0;
}

static bool read_sequence(golden *g, sequence *q, const char *folder, const char *name)
{
    char file[128];
    const size_t wanted = 2 * q->steps * q->floats;
    snprintf(file, sizeof file, "seq_%s.f32", name);
    q->data = take(g, wanted);
    FILE *f = fopen(golden_path(folder, file), "rb");
    const bool ok = f && fread(q->data, sizeof *q->data, wanted, f) == wanted && fgetc(f) == EOF;
    if (f)
        fclose(f);
    if (!ok)
        golden_check(g, file, false, "not %zu floats", wanted);
    return ok;
}

static void check_sequence(golden *g, const char *folder, const char *name, sequence q,
                           const json_t *tables)
{
    char file[128];
    q.floats = (1 + q.blocks) * q.L * q.D + 7 * q.D;
    if (!q.L || !q.D || !q.blocks || !q.steps) {
        golden_check(g, name, false, "a sequence without its sizes");
        return;
    }
    snprintf(file, sizeof file, "cache_%s.json", name);
    json_t *cache = load(g, golden_path(folder, file));
    if (cache && read_sequence(g, &q, folder, name)) {
        size_t i;
        json_t *trace;
        const json_t *traces = json_object_get(cache, "traces");
        check_uncached(g, &q, json_object_get(cache, "uncached_out"));
        if (json_array_size(traces) == 0)
            golden_check(g, file, false, "no traces");
        json_array_foreach(traces, i, trace)
        {
            check_trace(g, &q, i, trace, tables);
        }
    }
    zoe_free(q.data);
    json_decref(cache);
}

/* ---- TaylorSeer ---- */

static const char *const taylor_keys[] = {"fresh_threshold",
                                          "first_enhance",
                                          "cache_interval",
                                          "disable_cache_before_step",
                                          "disable_cache_after_step",
                                          "skip_interval_steps",
                                          "warmup",
                                          "cutoff_steps",
                                          "max_warmup_steps"};

/* A network of one block on one value: the block adds y(step). */
static void check_taylor(golden *g, size_t number, const json_t *row)
{
    static settings s;
    char name[64];
    zoe_cache_params params;
    zoe_cache *cache;
    const char *full = text_at(row, "full");
    const json_t *want = json_object_get(row, "y");
    const zoe_cache_shape shape = {
        .steps = strlen(full), .tokens = 1, .width = 1, .blocks = 1, .latent = 1};
    snprintf(name, sizeof name, "taylorseer.%zu.%s", number, text_at(row, "impl"));
    s.n = 0;
    put(g, &s, "rule", rule_of(text_at(row, "impl")) ? rule_of(text_at(row, "impl")) : "?");
    for (size_t i = 0; i < sizeof taylor_keys / sizeof *taylor_keys; i++)
        if (json_is_integer(json_object_get(row, taylor_keys[i])))
            put_json(g, &s, taylor_keys[i], json_object_get(row, taylor_keys[i]));
    if (want)
        put_json(g, &s, "max_order", json_object_get(row, "order"));
    golden_must(g, zoe_cache_params_set(g->ctx, &params, "TaylorSeer", s.row, s.n), name);
    golden_must(g, zoe_cache_new(g->ctx, &cache, &params, &shape), name);
    size_t wrong = 0;
    double worst = 0.0;
    for (size_t step = 0; step < shape.steps; step++) {
        float x = 0.0f;
        size_t branch;
        bool made;
        zoe_cache_point p = {.hidden = &x};
        golden_must(g, zoe_cache_step(g->ctx, cache, step, ZOE_LOW_NOISE, 1), name);
        wrong += !zoe_cache_next(cache, &branch);
        golden_must(g, zoe_cache_begin(g->ctx, cache, &x, &x, &made), name);
        golden_must(g, zoe_cache_at(g->ctx, cache, &p, &p.block), name);
        const bool computed = p.block == 0;
        if (computed) {
            x += (float)(sin(0.3 * (double)step) + 0.01 * (double)step * (double)step);
            p.block = 1;
            golden_must(g, zoe_cache_at(g->ctx, cache, &p, &p.block), name);
        }
        golden_must(g, zoe_cache_end(g->ctx, cache, &x, &x), name);
        wrong += computed != (full[step] == '1');
        if (want) {
            const double y = json_number_value(json_array_get(want, step));
            note_error(&worst, (double)x, y, size_of(y));
        }
    }
    golden_check(g, name, wrong == 0 && worst <= LIMIT, "%zu steps, %zu wrong, %.1e", shape.steps,
                 wrong, worst);
    zoe_cache_free(cache);
}

static void check_taylors(golden *g, const char *folder)
{
    static const char *const lists[] = {"schedules", "values"};
    json_t *json = load(g, golden_path(folder, "taylorseer.json"));
    for (size_t k = 0; k < 2; k++) {
        size_t i;
        json_t *row;
        const json_t *list = json_object_get(json, lists[k]);
        if (json_array_size(list) == 0)
            golden_check(g, "taylorseer.json", false, "no %s", lists[k]);
        json_array_foreach(list, i, row)
        {
            check_taylor(g, i, row);
        }
    }
    json_decref(json);
}

int main(int argc, char **argv)
{
    const char *folder = golden_folder(argc, argv);
    golden g = golden_begin();
    json_t *head = load(&g, golden_path(folder, "sequences.json"));
    json_t *tables = load(&g, golden_path(folder, "mag_ratios_wan22.json")), *one;
    const char *name;
    json_object_foreach(json_object_get(head, "sequences"), name, one)
    {
        const sequence q = {.L = whole(head, "L"),
                            .D = whole(head, "D"),
                            .blocks = whole(head, "blocks"),
                            .steps = whole(one, "steps"),
                            .first_low = whole(one, "first_low_step")};
        check_sequence(&g, folder, name, q, tables);
    }
    check_taylors(&g, folder);
    json_decref(head);
    json_decref(tables);
    return golden_end(&g);
}
