/* Step caches: parameters from keys and values, as they stand in a YAML file or on a command line.
 * One table of keys serves both. */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "sample/cache_method.h"
#include "sample/cache_tables.h"

static const char *const rule_names[ZOE_CACHE_RULES + 1] = {
    "zoetrope", "recipe", "paraattention", "diffusers", "official", "cache-dit", NULL};
static const char *const judge_names[] = {"none",      "residual",   "hidden", "modulated",
                                          "embedding", "projection", NULL};
static const char *const forecast_names[] = {"none", "taylorseer", "foca", NULL};
static const char *const span_names[] = {"i2v", "t2v", "ti2v", NULL};
static const char *const store_names[] = {"f32", "bf16", NULL};
static const zoe_dtype store_types[] = {ZOE_F32, ZOE_BF16};
static const char *const policy_names[] = {"dynamic", "static", NULL};

const char *zoe_cache_method_name(zoe_cache_method method)
{
    return zoe_cache_method_of(method)->name;
}

const char *zoe_cache_rule_name(zoe_cache_rule rule)
{
    return rule_names[rule];
}

void zoe_cache_params_init(zoe_cache_params *p, zoe_cache_method method, zoe_cache_rule rule)
{
    const bool ours = rule == ZOE_CACHE_ZOETROPE;
    memset(p, 0, sizeof *p);
    p->method = method;
    p->rule = rule;
    p->separate = true;
    p->joint = ours;
    p->store = ZOE_F32;
    p->warmup = ours ? 1 : 0;
    p->cooldown = ours ? 1 : 0;
    p->max_skips = ours ? 3 : SIZE_MAX;
    p->downsample = 1;
    p->warmup_interval = 1;
    p->max_cached = SIZE_MAX;
    p->interval = 1;
    zoe_cache_method_of(method)->defaults(p);
}

/* ---- the table of keys ---- */

typedef enum kind {
    KIND_FLAG,
    KIND_COUNT,
    KIND_LIMIT, /* size_t; -1 and none: no limit */
    KIND_REAL,
    KIND_WORD,
    KIND_STORE,
    KIND_COEFFICIENTS,
    KIND_RATIOS,
    KIND_MASK,
    KIND_POLICY,
    KIND_RETAIN, /* use_ret_steps: the other judge, and its ends */
    KIND_SERIES, /* enable_taylorseer */
    KIND_MUTE    /* known, and read by nobody */
} kind;

enum {
    FIRST = 1u << ZOE_CACHE_FIRST,
    TEA = 1u << ZOE_CACHE_TEA,
    TAYLOR = 1u << ZOE_CACHE_TAYLOR,
    EASY = 1u << ZOE_CACHE_EASY,
    DUAL = 1u << ZOE_CACHE_DUAL,
    MAG = 1u << ZOE_CACHE_MAG,
    NONE = 1u << ZOE_CACHE_NONE,
    ADAPTIVE = FIRST | TEA | EASY | DUAL | MAG,
    ALL = ADAPTIVE | TAYLOR | NONE
};

typedef struct key {
    const char *name;
    unsigned methods;
    kind kind;
    size_t at;
    double low, high;
    const char *const *words;
} key;

#define AT(field) offsetof(zoe_cache_params, field)
#define MOST 1e6

static const key keys[] = {
    /* all methods */
    {"rule", ALL, KIND_WORD, AT(rule), 0, 0, rule_names},
    {"enable_separate_cfg", ALL, KIND_FLAG, AT(separate), 0, 0, NULL},
    {"cache_name", ALL, KIND_MUTE, 0, 0, 0, NULL},
    {"latent", FIRST | TEA, KIND_MUTE, 0, 0, 0, NULL},
    {"judge_input", FIRST | TEA, KIND_MUTE, 0, 0, 0, NULL},
    {"joint", ALL, KIND_FLAG, AT(joint), 0, 0, NULL},
    {"force", ALL, KIND_FLAG, AT(force), 0, 0, NULL},
    {"store", ALL, KIND_STORE, 0, 0, 0, store_names},
    {"warmup", ALL & ~DUAL, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    {"cooldown", ADAPTIVE, KIND_COUNT, AT(cooldown), 0, MOST, NULL},
    {"max_skips", ADAPTIVE, KIND_LIMIT, AT(max_skips), 0, MOST, NULL},
    {"judge", FIRST | TEA, KIND_WORD, AT(judge), 0, 0, judge_names},
    /* the threshold, by everyone's name */
    {"rel_l1_thresh", FIRST | TEA, KIND_REAL, AT(threshold), 0, MOST, NULL},
    {"residual_diff_threshold", FIRST | DUAL, KIND_REAL, AT(threshold), 0, MOST, NULL},
    {"threshold", ADAPTIVE, KIND_REAL, AT(threshold), 0, MOST, NULL},
    {"thresh", TEA | EASY | MAG, KIND_REAL, AT(threshold), 0, MOST, NULL},
    /* FBCache */
    {"downsample_factor", FIRST, KIND_COUNT, AT(downsample), 1, MOST, NULL},
    {"warmup_steps", FIRST, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    {"enable_taylorseer", FIRST, KIND_SERIES, AT(forecast), 0, 0, NULL},
    /* TeaCache */
    {"coefficients", TEA, KIND_COEFFICIENTS, 0, -1e12, 1e12, NULL},
    {"use_ret_steps", TEA, KIND_RETAIN, 0, 0, 0, NULL},
    /* TaylorSeer */
    {"n_derivatives", TAYLOR | FIRST | DUAL, KIND_COUNT, AT(order), 0, ZOE_CACHE_ORDER, NULL},
    {"max_order", TAYLOR, KIND_COUNT, AT(order), 0, ZOE_CACHE_ORDER, NULL},
    {"skip_interval_steps", TAYLOR, KIND_COUNT, AT(interval), 1, MOST, NULL},
    {"fresh_threshold", TAYLOR, KIND_COUNT, AT(interval), 1, MOST, NULL},
    {"cache_interval", TAYLOR, KIND_COUNT, AT(interval), 1, MOST, NULL},
    {"first_enhance", TAYLOR, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    {"disable_cache_before_step", TAYLOR, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    {"disable_cache_after_step", TAYLOR, KIND_LIMIT, AT(cooldown), 0, MOST, NULL},
    {"cutoff_steps", TAYLOR, KIND_COUNT, AT(cooldown), 0, MOST, NULL},
    {"offload", TAYLOR, KIND_MUTE, 0, 0, 0, NULL},
    /* DBCache */
    {"Fn_compute_blocks", DUAL, KIND_COUNT, AT(first_blocks), 1, MOST, NULL},
    {"Bn_compute_blocks", DUAL, KIND_COUNT, AT(last_blocks), 0, MOST, NULL},
    {"max_warmup_steps", DUAL | TAYLOR, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    {"warmup_interval", DUAL, KIND_COUNT, AT(warmup_interval), 1, MOST, NULL},
    {"max_cached_steps", DUAL, KIND_LIMIT, AT(max_cached), 0, MOST, NULL},
    {"max_continuous_cached_steps", DUAL, KIND_LIMIT, AT(max_skips), 0, MOST, NULL},
    {"max_accumulated_residual_diff_threshold", DUAL, KIND_REAL, AT(max_accumulated), 0, MOST,
     NULL},
    {"reuse_distance", DUAL, KIND_FLAG, AT(reuse_distance), 0, 0, NULL},
    {"steps_computation_mask", DUAL, KIND_MASK, 0, 0, 1, NULL},
    {"steps_computation_policy", DUAL, KIND_POLICY, 0, 0, 0, policy_names},
    {"calibrator", DUAL | FIRST, KIND_WORD, AT(forecast), 0, 0, forecast_names},
    {"taylorseer_order", DUAL | FIRST, KIND_COUNT, AT(order), 0, ZOE_CACHE_ORDER, NULL},
    /* EasyCache */
    {"ret_steps", EASY, KIND_COUNT, AT(warmup), 0, MOST, NULL},
    /* MagCache */
    {"K", MAG, KIND_LIMIT, AT(max_skips), 0, MOST, NULL},
    {"max_skip_steps", MAG, KIND_LIMIT, AT(max_skips), 0, MOST, NULL},
    {"retention_ratio", MAG, KIND_REAL, AT(retention), 0, 1, NULL},
    {"mag_ratios", MAG, KIND_RATIOS, 0, 0, 1e3, NULL},
    {"mode", MAG, KIND_WORD, AT(span), 0, 0, span_names},
};
enum { KEYS = sizeof keys / sizeof *keys };

/* ---- values ---- */

/* One value on its way in. */
typedef struct reading {
    zoe_context *ctx;
    zoe_cache_params *p;
    const key *k;
    const zoe_cache_setting *s;
    const char *method;
} reading;

static zoe_status refuse(const reading *r, const char *wanted)
{
    const char *where = r->s->where;
    return zoe_fail(r->ctx, ZOE_INVALID, "%.200s%s%s: %s is \"%.100s\", but %s is wanted",
                    where ? where : "", where ? ": " : "", r->method, r->s->key, r->s->value,
                    wanted);
}

static bool read_flag(bool *flag, const char *text)
{
    *flag = strcasecmp(text, "true") == 0;
    return *flag || strcasecmp(text, "false") == 0;
}

/* A number that ends at one of the characters of `ends` or with the text. */
static bool read_real(double *value, const char **text, const char *ends)
{
    char *end;
    if (isspace((unsigned char)**text) || **text == '\0')
        return false;
    *value = strtod(*text, &end);
    if (end == *text || !isfinite(*value) || (*end != '\0' && !strchr(ends, *end)))
        return false;
    *text = end;
    return true;
}

static zoe_status read_number(const reading *r, double *value)
{
    const char *text = r->s->value;
    char wanted[80];
    snprintf(wanted, sizeof wanted, "%s from %g to %g",
             r->k->kind == KIND_REAL ? "a number" : "a whole number", r->k->low, r->k->high);
    if (!read_real(value, &text, "") || *value < r->k->low || *value > r->k->high ||
        (r->k->kind != KIND_REAL && *value != floor(*value)))
        return refuse(r, wanted);
    return ZOE_OK;
}

static zoe_status read_word(const reading *r, size_t *index)
{
    char wanted[160] = "one of";
    for (*index = 0; r->k->words[*index]; ++*index) {
        if (strcasecmp(r->k->words[*index], r->s->value) == 0)
            return ZOE_OK;
        const size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, " %s", r->k->words[*index]);
    }
    return refuse(r, wanted);
}

/* "[1, 2.5]" */
static zoe_status read_list(const reading *r, double *values, size_t most, size_t *count)
{
    const char *text = r->s->value;
    char wanted[100];
    snprintf(wanted, sizeof wanted, "a list \"[a, b, ...]\" of 1 to %zu numbers from %g to %g",
             most, r->k->low, r->k->high);
    *count = 0;
    if (*text++ != '[')
        return refuse(r, wanted);
    for (;; text++) {
        text += strspn(text, " \t\n");
        if (*count == most || !read_real(&values[*count], &text, " \t\n,]") ||
            values[*count] < r->k->low || values[*count] > r->k->high)
            return refuse(r, wanted);
        ++*count;
        text += strspn(text, " \t\n");
        if (*text != ',')
            break;
    }
    return *text == ']' && text[1] == '\0' ? ZOE_OK : refuse(r, wanted);
}

/* A list, or the name of a published one. */
static zoe_status read_table(const reading *r, const zoe_cache_table *tables, double *values,
                             size_t most, size_t *count, const zoe_cache_table **found)
{
    char wanted[400] = "a list or one of";
    *found = NULL;
    if (*r->s->value == '[')
        return read_list(r, values, most, count);
    for (const zoe_cache_table *t = tables; t->name; t++) {
        if (strcasecmp(t->name, r->s->value) == 0) {
            memcpy(values, t->values, t->count * sizeof *values);
            *count = t->count;
            *found = t;
            return ZOE_OK;
        }
        const size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, " %s", t->name);
    }
    return refuse(r, wanted);
}

static zoe_status read_coefficients(const reading *r)
{
    const zoe_cache_table *t;
    TRY(read_table(r, zoe_cache_coefficient_tables, r->p->coefficients, ZOE_CACHE_COEFFICIENTS,
                   &r->p->coefficient_count, &t));
    if (t)
        r->p->judge = t->judge;
    return ZOE_OK;
}

static zoe_status read_mask(const reading *r)
{
    double values[ZOE_CACHE_MASK];
    TRY(read_list(r, values, ZOE_CACHE_MASK, &r->p->mask_count));
    for (size_t i = 0; i < r->p->mask_count; i++)
        r->p->mask[i] = values[i] != 0.0;
    return ZOE_OK;
}

static void retain(zoe_cache_params *p)
{
    p->judge = ZOE_CACHE_JUDGE_PROJECTION;
    p->warmup = 5;
    p->cooldown = 0;
}

static zoe_status read_value(const reading *r)
{
    zoe_cache_params *p = r->p;
    void *field = (unsigned char *)p + r->k->at;
    const zoe_cache_table *unused;
    const char *text = r->s->value;
    double number = 0.0;
    size_t word = 0;
    bool flag = false;
    switch (r->k->kind) {
    case KIND_FLAG:
    case KIND_RETAIN:
    case KIND_SERIES:
        if (!read_flag(&flag, text))
            return refuse(r, "true or false");
        if (r->k->kind == KIND_FLAG)
            *(bool *)field = flag;
        else if (flag && r->k->kind == KIND_RETAIN)
            retain(p);
        else if (r->k->kind == KIND_SERIES)
            p->forecast = flag ? ZOE_CACHE_SERIES : ZOE_CACHE_LAST;
        return ZOE_OK;
    case KIND_LIMIT:
        if (strcmp(text, "-1") == 0 || strcasecmp(text, "none") == 0) {
            *(size_t *)field = SIZE_MAX;
            return ZOE_OK;
        }
        TRY(read_number(r, &number));
        *(size_t *)field = (size_t)number;
        return ZOE_OK;
    case KIND_COUNT:
        TRY(read_number(r, &number));
        *(size_t *)field = (size_t)number;
        return ZOE_OK;
    case KIND_REAL: return read_number(r, (double *)field);
    case KIND_WORD:
        TRY(read_word(r, &word));
        *(unsigned *)field = (unsigned)word; /* every enumeration of the table is one */
        return ZOE_OK;
    case KIND_STORE:
        TRY(read_word(r, &word));
        p->store = store_types[word];
        return ZOE_OK;
    case KIND_POLICY:
        TRY(read_word(r, &word));
        p->mask_static = word == 1;
        return ZOE_OK;
    case KIND_COEFFICIENTS: return read_coefficients(r);
    case KIND_RATIOS:
        return read_table(r, zoe_cache_ratio_tables, p->ratios, ZOE_CACHE_RATIOS, &p->ratio_count,
                          &unused);
    case KIND_MASK: return read_mask(r);
    case KIND_MUTE: return ZOE_OK;
    }
    return ZOE_OK;
}

/* ---- settings ---- */

const char *zoe_cache_key(zoe_cache_method method, size_t index)
{
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].methods & 1u << (unsigned)method && index-- == 0)
            return keys[i].name;
    return NULL;
}

static zoe_status find_key(zoe_context *ctx, const key **found, const zoe_cache_params *p,
                           const zoe_cache_setting *s)
{
    const unsigned method = 1u << (unsigned)p->method;
    const char *where = s->where;
    char known[1200] = "";
    for (size_t i = 0; i < KEYS; i++) {
        if (!(keys[i].methods & method))
            continue;
        if (strcmp(keys[i].name, s->key) == 0) {
            *found = &keys[i];
            return ZOE_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", keys[i].name);
    }
    return zoe_fail(ctx, ZOE_INVALID, "%.200s%s%s has no key \"%.60s\"; it has %s",
                    where ? where : "", where ? ": " : "", zoe_cache_method_name(p->method), s->key,
                    known);
}

static zoe_status find_method(zoe_context *ctx, zoe_cache_method *method, const char *name)
{
    char known[160] = "";
    for (size_t i = 0; i < ZOE_CACHE_METHODS; i++) {
        const char *one = zoe_cache_method_name((zoe_cache_method)i);
        if (strcasecmp(one, name) == 0) {
            *method = (zoe_cache_method)i;
            return ZOE_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", one);
    }
    return zoe_fail(ctx, ZOE_INVALID, "there is no step cache \"%.60s\"; there are %s", name,
                    known);
}

/* Keys of one pass: those that set defaults of others (rule, coefficients by name, use_ret_steps)
 * come first, wherever they stand. */
static bool is_early(const key *k)
{
    return k->kind == KIND_COEFFICIENTS || k->kind == KIND_RETAIN;
}

static zoe_status read_rule(zoe_context *ctx, zoe_cache_params *p, zoe_cache_method method,
                            const zoe_cache_setting *settings, size_t n)
{
    zoe_cache_params_init(p, method, ZOE_CACHE_ZOETROPE);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(settings[i].key, "rule") != 0)
            continue;
        size_t rule;
        const reading r = {ctx, p, &keys[0], &settings[i], zoe_cache_method_name(method)};
        TRY(read_word(&r, &rule));
        if (!(zoe_cache_method_of(method)->rules & 1u << rule))
            return refuse(&r, "a rule that this method has");
        zoe_cache_params_init(p, method, (zoe_cache_rule)rule);
    }
    return ZOE_OK;
}

/* Are they two names of one setting? What has no place in the parameters is told by its kind. */
static bool same_target(const key *a, const key *b)
{
    return a != b && a->kind != KIND_MUTE && a->at == b->at && (a->at > 0 || a->kind == b->kind);
}

/* That no two names of one setting are given. Of one name the last mention counts. */
static zoe_status check_names(zoe_context *ctx, const zoe_cache_params *p,
                              const zoe_cache_setting *settings, size_t n)
{
    const key *found[KEYS];
    for (size_t i = 0; i < n; i++) {
        const zoe_cache_setting *s = &settings[i];
        if (i == KEYS)
            return zoe_fail(ctx, ZOE_INVALID, "step cache: more than %d settings", (int)KEYS);
        TRY(find_key(ctx, &found[i], p, s));
        for (size_t j = 0; j < i; j++) {
            const char *where = s->where, *before = found[j]->name, *now = found[i]->name;
            if (same_target(found[i], found[j]))
                return zoe_fail(ctx, ZOE_INVALID,
                                "%.200s%s%s: %s and %s are two names of one setting; give one of "
                                "them",
                                where ? where : "", where ? ": " : "",
                                zoe_cache_method_name(p->method), before, now);
        }
    }
    return ZOE_OK;
}

zoe_status zoe_cache_params_set(zoe_context *ctx, zoe_cache_params *params, const char *method,
                                const zoe_cache_setting *settings, size_t n)
{
    zoe_cache_method m;
    bool ordered = false;
    TRY(find_method(ctx, &m, method));
    TRY(read_rule(ctx, params, m, settings, n));
    TRY(check_names(ctx, params, settings, n));
    for (int early = 1; early >= 0; early--)
        for (size_t i = 0; i < n; i++) {
            const key *k;
            TRY(find_key(ctx, &k, params, &settings[i]));
            if (strcmp(k->name, "rule") == 0 || is_early(k) != (early == 1))
                continue;
            const reading r = {ctx, params, k, &settings[i], zoe_cache_method_name(m)};
            TRY(read_value(&r));
            ordered = ordered || (k->kind == KIND_COUNT && k->at == AT(order));
        }
    if (ordered && params->forecast != ZOE_CACHE_SERIES)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: an order was given, but no forecast that has one; set calibrator to "
                        "taylorseer",
                        zoe_cache_method_name(m));
    return ZOE_OK;
}

/* The end of a setting: the next comma outside of brackets. */
static char *end_of_setting(char *text)
{
    int depth = 0;
    for (; *text != '\0'; text++) {
        depth += *text == '[' ? 1 : *text == ']' ? -1 : 0;
        if (*text == ',' && depth <= 0)
            break;
    }
    return text;
}

static zoe_status parse(zoe_context *ctx, zoe_cache_params *params, char *text)
{
    zoe_cache_setting settings[KEYS];
    size_t n = 0;
    char *end = end_of_setting(text);
    bool more = *end != '\0';
    const char *method = text;
    *end = '\0';
    while (more) {
        char *start = end + 1;
        end = end_of_setting(start);
        more = *end != '\0';
        *end = '\0';
        char *equals = strchr(start, '=');
        if (!equals || equals == start)
            return zoe_fail(ctx, ZOE_INVALID,
                            "step cache: \"%.60s\" is not key=value; wanted is "
                            "METHOD,key=value,key=[a,b],...",
                            start);
        if (n == KEYS)
            return zoe_fail(ctx, ZOE_INVALID, "step cache: more than %d settings", (int)KEYS);
        *equals = '\0';
        settings[n++] = (zoe_cache_setting){.key = start, .value = equals + 1};
    }
    return zoe_cache_params_set(ctx, params, method, settings, n);
}

zoe_status zoe_cache_params_parse(zoe_context *ctx, zoe_cache_params *params, const char *text)
{
    char *copy;
    TRY(zoe_strdup(ctx, &copy, text));
    const zoe_status status = parse(ctx, params, copy);
    zoe_free(copy);
    return status;
}
