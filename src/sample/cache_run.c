/* Step caches: the life of a cache, and the way of a pass through it. What to leave out is decided
 * by the methods; what is put in for it comes from cache_taylor.c. */
#include "sample/cache_method.h"

static const uint64_t MAGIC = 0x315f6568636163ull; /* "cache_1" */

const cache_method *zoe_cache_method_of(zoe_cache_method method)
{
    static const cache_method *const methods[ZOE_CACHE_METHODS] = {
        [ZOE_CACHE_NONE] = &zoe_cache_none, [ZOE_CACHE_FIRST] = &zoe_cache_first,
        [ZOE_CACHE_TEA] = &zoe_cache_tea,   [ZOE_CACHE_TAYLOR] = &zoe_cache_taylor,
        [ZOE_CACHE_EASY] = &zoe_cache_easy, [ZOE_CACHE_DUAL] = &zoe_cache_dual,
        [ZOE_CACHE_MAG] = &zoe_cache_mag,
    };
    return methods[method];
}

/* ---- memory ---- */

static bool works_on_hidden(const zoe_cache_params *p)
{
    return p->method != ZOE_CACHE_NONE && p->method != ZOE_CACHE_EASY;
}

/* Is the judge a share of the tokens, or the same on every rank? */
static bool judge_is_shared(const zoe_cache *c)
{
    return c->params.judge != ZOE_CACHE_JUDGE_EMBEDDING &&
           c->params.judge != ZOE_CACHE_JUDGE_PROJECTION;
}

static void judge_shape(zoe_cache *c)
{
    c->judge_type = ZOE_F32;
    c->judge_rows = 1;
    switch (c->params.judge) {
    case ZOE_CACHE_JUDGE_EMBEDDING: c->judge_width = c->shape.width; break;
    case ZOE_CACHE_JUDGE_PROJECTION: c->judge_width = 6 * c->shape.width; break;
    case ZOE_CACHE_JUDGE_RESIDUAL:
    case ZOE_CACHE_JUDGE_HIDDEN:
    case ZOE_CACHE_JUDGE_MODULATED:
        c->judge_rows = c->shape.tokens;
        c->judge_width = c->shape.width;
        c->judge_type = c->params.store;
        break;
    default: c->judge_rows = 0; c->judge_width = 0;
    }
}

void *zoe_cache_take(zoe_cache *c, size_t count, size_t size, size_t row, size_t branch)
{
    c->pieces[c->n_pieces++] =
        (zoe_cache_piece){.at = c->arena.used, .bytes = count * size, .row = row, .branch = branch};
    return zoe_arena_take(&c->arena, count, size);
}

static void lay_out_hidden(zoe_cache *c)
{
    const size_t states = c->params.separate ? ZOE_CACHE_BRANCHES : 1;
    const size_t n = c->shape.tokens * c->shape.width;
    const size_t judge = zoe_dtype_bytes(c->judge_type), kept = zoe_dtype_bytes(c->params.store);
    for (size_t b = 0; b < states; b++) {
        if (c->judge_width > 0)
            c->buffers[b].judge =
                zoe_cache_take(c, c->judge_rows * c->judge_width, judge,
                               judge_is_shared(c) ? c->judge_width * judge : 0, b);
        for (size_t k = 0; k < c->factors; k++)
            c->buffers[b].factor[k] = zoe_cache_take(c, n, kept, c->shape.width * kept, b);
    }
}

/* First what a checkpoint keeps, then scratch. */
static void lay_out(zoe_cache *c)
{
    const bool hidden = works_on_hidden(&c->params);
    _Static_assert(sizeof *c->memory <= ZOE_CACHE_HEAD, "the head of a state has its room");
    c->memory = zoe_arena_take(&c->arena, 1, ZOE_CACHE_HEAD);
    c->n_pieces = 0;
    judge_shape(c);
    c->factors = hidden ? zoe_cache_series_factors(&c->params) : 0;
    if (hidden)
        lay_out_hidden(c);
    if (c->params.method == ZOE_CACHE_EASY)
        zoe_cache_easy_buffers(c);
    c->state_bytes = c->arena.used;
    if (hidden)
        c->scratch = zoe_arena_take(&c->arena, c->shape.tokens * c->shape.width, sizeof(float));
    const size_t parts = zoe_cache_measure_parts(c->judge_rows, c->judge_width);
    c->partial = zoe_arena_take(&c->arena, (parts > 0 ? parts : 1) * CACHE_SUMS, sizeof(double));
    c->traces = zoe_arena_take(&c->arena, c->shape.steps * ZOE_CACHE_BRANCHES, sizeof *c->traces);
}

static zoe_cache dry(const zoe_cache_params *params, const zoe_cache_shape *shape)
{
    return (zoe_cache){
        .params = *params, .shape = *shape, .method = zoe_cache_method_of(params->method)};
}

static bool sizes_fit(const zoe_cache_shape *s)
{
    size_t n;
    return zoe_size_mul(&n, s->tokens, s->width) && zoe_size_mul(&n, n, sizeof(double)) &&
           zoe_size_mul(&n, s->width, 6 * sizeof(float)) &&
           zoe_size_mul(&n, s->latent, sizeof(float)) &&
           zoe_size_mul(&n, s->steps, ZOE_CACHE_BRANCHES * sizeof(zoe_cache_trace));
}

size_t zoe_cache_bytes(const zoe_cache_params *params, const zoe_cache_shape *shape)
{
    if (!sizes_fit(shape))
        return SIZE_MAX;
    zoe_cache c = dry(params, shape);
    lay_out(&c);
    return c.arena.used;
}

size_t zoe_cache_pieces(const zoe_cache_params *params, const zoe_cache_shape *shape,
                        zoe_cache_piece pieces[ZOE_CACHE_PIECES], size_t *bytes)
{
    zoe_cache c = dry(params, shape);
    lay_out(&c);
    memcpy(pieces, c.pieces, c.n_pieces * sizeof *pieces);
    *bytes = c.state_bytes;
    return c.n_pieces;
}

/* The first field that no reader of keys would have filled like this; NULL: none. */
static const char *illegal_field(const zoe_cache_params *p)
{
    const struct {
        const char *name;
        bool legal;
    } fields[] = {
        {"method", (unsigned)p->method < ZOE_CACHE_METHODS},
        {"rule", (unsigned)p->rule < ZOE_CACHE_RULES},
        {"judge", (unsigned)p->judge < ZOE_CACHE_JUDGES},
        {"forecast", (unsigned)p->forecast < ZOE_CACHE_FORECASTS},
        {"span", (unsigned)p->span < ZOE_CACHE_SPANS},
        {"store", p->store == ZOE_F32 || p->store == ZOE_BF16},
        {"threshold", isfinite(p->threshold) && p->threshold >= 0.0},
        {"max_accumulated", isfinite(p->max_accumulated)},
        {"retention", p->retention >= 0.0 && p->retention <= 1.0},
        {"order", p->order <= ZOE_CACHE_ORDER},
        {"downsample", p->downsample > 0},
        {"interval", p->interval > 0},
        {"warmup_interval", p->warmup_interval > 0},
        {"coefficient_count", p->coefficient_count <= ZOE_CACHE_COEFFICIENTS},
        {"ratio_count", p->ratio_count <= ZOE_CACHE_RATIOS},
        {"mask_count", p->mask_count <= ZOE_CACHE_MASK},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!fields[i].legal)
            return fields[i].name;
    return NULL;
}

zoe_status zoe_cache_check(zoe_context *ctx, const zoe_cache_params *params,
                           const zoe_cache_shape *shape)
{
    const char *illegal = illegal_field(params);
    if (illegal)
        return zoe_fail(ctx, ZOE_INVALID,
                        "step cache: %s is out of its range; begin with zoe_cache_params_init",
                        illegal);
    if (params->method == ZOE_CACHE_NONE)
        return ZOE_OK;
    const cache_method *m = zoe_cache_method_of(params->method);
    if (!(m->rules & cache_bit(params->rule)))
        return zoe_fail(ctx, ZOE_INVALID, "%s has no rule \"%s\"", m->name,
                        zoe_cache_rule_name(params->rule));
    if (!params->force && shape->steps < ZOE_CACHE_FEWEST)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s with %zu steps: so few steps are too far apart for any to be left out; "
                        "take at least %d steps, or NoCache, or set force",
                        m->name, shape->steps, ZOE_CACHE_FEWEST);
    if (!params->force && shape->distilled)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s with a model that was distilled for few steps: each of them counts; "
                        "take NoCache, or set force",
                        m->name);
    if (!params->separate && params->rule == ZOE_CACHE_ZOETROPE)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s with enable_separate_cfg false compares the prompt's branch with the "
                        "other one; set it to true (only rule recipe has such a mode)",
                        m->name);
    if (!sizes_fit(shape))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu tokens of width %zu are too many", m->name,
                        shape->tokens, shape->width);
    return m->check ? m->check(ctx, params, shape) : ZOE_OK;
}

static void refresh(zoe_cache *c)
{
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++)
        c->memory->branch[b] = (cache_branch){.product = 1.0, .rate = (double)NAN};
}

zoe_status zoe_cache_new(zoe_context *ctx, zoe_cache **cache, const zoe_cache_params *params,
                         const zoe_cache_shape *shape)
{
    void *p;
    *cache = NULL;
    TRY(zoe_cache_check(ctx, params, shape));
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **cache, "step cache"));
    zoe_cache *c = p;
    zoe_status status;
    *c = dry(params, shape);
    TRY_GOTO(zoe_arena_new(ctx, &c->arena, zoe_cache_bytes(params, shape), "step cache"));
    lay_out(c);
    TRY_GOTO(zoe_arena_status(ctx, &c->arena, "step cache"));
    memset(c->arena.base, 0, c->arena.size);
    *c->memory = (cache_memory){.magic = MAGIC, .bytes = c->state_bytes};
    refresh(c);
    c->from = params->method == ZOE_CACHE_FIRST  ? 1
              : params->method == ZOE_CACHE_DUAL ? params->first_blocks
                                                 : 0;
    c->to = shape->blocks - (params->method == ZOE_CACHE_DUAL ? params->last_blocks : 0);
    *cache = c;
done:
    if (status != ZOE_OK)
        zoe_cache_free(c);
    return status;
}

void zoe_cache_free(zoe_cache *cache)
{
    if (!cache)
        return;
    zoe_arena_free(&cache->arena);
    zoe_free(cache);
}

void zoe_cache_set_group(zoe_cache *cache, const zoe_cache_group *group)
{
    cache->group = *group;
}

/* ---- a step ---- */

zoe_status zoe_cache_step(zoe_context *ctx, zoe_cache *c, size_t step, zoe_expert expert,
                          unsigned branches)
{
    cache_memory *m = c->memory;
    if (step >= c->shape.steps || branches == 0 || branches >= 1u << ZOE_CACHE_BRANCHES)
        return zoe_fail(ctx, ZOE_INVALID, "step cache: no step %zu of %zu with branches %u", step,
                        c->shape.steps, branches);
    const bool carried = c->method->carries & cache_bit(c->params.rule);
    const bool other = step <= m->step || m->expert != (uint64_t)expert || m->mask != branches;
    if (m->begun && !carried && other) {
        refresh(c);
        m->since = 0;
    } else if (m->begun) {
        m->since++;
    }
    m->begun = 1;
    m->step = step;
    m->expert = (uint64_t)expert;
    m->mask = branches;
    c->due = branches;
    c->done = c->left = 0;
    c->any_computed = c->again = c->open = false;
    if (c->params.method == ZOE_CACHE_MAG && c->params.rule == ZOE_CACHE_ZOETROPE)
        zoe_cache_mag_step(c);
    return ZOE_OK;
}

/* Under a joint decision, a branch that was left out before the other one computed comes again. */
static void require_the_rest(zoe_cache *c)
{
    if (!c->params.joint || !c->any_computed || !c->left)
        return;
    c->due = c->left;
    c->left = 0;
    c->again = true;
}

bool zoe_cache_next(zoe_cache *c, size_t *branch)
{
    if (!c->due)
        require_the_rest(c);
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++)
        if (c->due & 1u << b) {
            *branch = c->branch = b;
            return true;
        }
    return false;
}

cache_verdict zoe_cache_foresee_ends(const zoe_cache *c)
{
    const cache_memory *m = c->memory;
    const bool end = m->since < c->params.warmup || c->shape.steps - m->step <= c->params.cooldown;
    return end ? CACHE_COMPUTE : CACHE_MEASURE;
}

zoe_status zoe_cache_agree(zoe_cache *c, const cache_branch *s, double value,
                           cache_verdict *verdict)
{
    const zoe_cache_params *p = &c->params;
    if (p->joint && c->group.max)
        TRY(c->group.max(c->group.user, &value, 1));
    const bool skip =
        p->rule == ZOE_CACHE_DIFFUSERS ? !(value > p->threshold) : value < p->threshold;
    *verdict = skip && s->streak < p->max_skips ? CACHE_SKIP : CACHE_COMPUTE;
    return ZOE_OK;
}

zoe_status zoe_cache_audit(zoe_context *ctx, const zoe_cache *c, cache_verdict verdict)
{
    if (!c->group.audit || !c->group.sum)
        return ZOE_OK;
    double votes[2] = {verdict == CACHE_SKIP ? 1.0 : 0.0, 1.0};
    TRY(c->group.sum(c->group.user, votes, 2));
    if (votes[0] > 0.0 && votes[0] < votes[1])
        return zoe_fail(ctx, ZOE_INTERNAL,
                        "step %zu, branch %zu: %g of %g ranks leave the step out, the others "
                        "compute it",
                        (size_t)c->memory->step + 1, c->branch, votes[0], votes[1]);
    return ZOE_OK;
}

void zoe_cache_note(zoe_cache *c, cache_branch *s, cache_verdict verdict)
{
    zoe_cache_trace *trace = cache_trace(c);
    const bool skip = verdict == CACHE_SKIP;
    c->skip = skip;
    c->settled = true;
    if (c->again && s->skipped > 0)
        s->skipped--; /* it was counted when it was left out */
    if (skip) {
        s->streak++;
        s->skipped++;
        c->left |= 1u << c->branch;
    } else {
        s->streak = 0;
        c->any_computed = true;
        if (c->method->clears)
            s->accumulated = 0.0;
    }
    trace->seen = true;
    trace->computed = !skip;
    trace->expert = (uint8_t)c->memory->expert;
    trace->accumulated = c->params.method == ZOE_CACHE_MAG ? s->error : s->accumulated;
}

/* ---- a pass ---- */

static cache_branch *state(zoe_cache *c)
{
    return &c->memory->branch[cache_state_of(c, c->branch)];
}

zoe_status zoe_cache_begin(zoe_context *ctx, zoe_cache *c, const float *latent, float *velocity,
                           bool *made)
{
    *made = false;
    if (!(c->due & 1u << c->branch) || c->open)
        return zoe_fail(ctx, ZOE_INTERNAL, "step cache: no pass is due");
    c->open = true;
    c->settled = c->skip = false;
    if (!c->again)
        *cache_trace(c) = (zoe_cache_trace){.rate = (double)NAN};
    else
        c->repeated++;
    if (c->params.method == ZOE_CACHE_NONE)
        zoe_cache_note(c, state(c), CACHE_COMPUTE);
    if (c->params.method == ZOE_CACHE_EASY) {
        TRY(zoe_cache_easy_begin(ctx, c, latent, velocity));
        *made = c->skip;
    }
    return ZOE_OK;
}

zoe_status zoe_cache_end(zoe_context *ctx, zoe_cache *c, const float *latent, const float *velocity)
{
    if (!c->open || !c->settled)
        return zoe_fail(ctx, ZOE_INTERNAL, "step cache: the pass ended before block %zu", c->from);
    if (c->params.method == ZOE_CACHE_EASY)
        zoe_cache_easy_end(ctx, c, latent, velocity);
    c->open = false;
    c->due &= ~(1u << c->branch);
    c->done |= 1u << c->branch;
    c->memory->calls++;
    return ZOE_OK;
}

/* What is compared, [judge_rows, judge_width]: in the scratch, or where it lies. */
static zoe_status find_judge(zoe_context *ctx, zoe_cache *c, const zoe_cache_point *p,
                             const float **now)
{
    const size_t n = c->shape.tokens * c->shape.width;
    *now = NULL;
    switch (c->params.judge) {
    case ZOE_CACHE_JUDGE_RESIDUAL: /* the scratch holds the input of block 0 */
        zoe_cache_subtract(ctx, c->scratch, p->hidden, n);
        *now = c->scratch;
        break;
    case ZOE_CACHE_JUDGE_HIDDEN: *now = p->hidden; break;
    case ZOE_CACHE_JUDGE_EMBEDDING: *now = p->embedding; break;
    case ZOE_CACHE_JUDGE_PROJECTION: *now = p->projection; break;
    case ZOE_CACHE_JUDGE_MODULATED:
        if (p->shift && p->scale) {
            zoe_cache_modulate(ctx, c->scratch, p, c->shape.tokens, c->shape.width,
                               c->params.rule == ZOE_CACHE_RECIPE ? 2 : 1);
            *now = c->scratch;
        }
        break;
    default: return ZOE_OK;
    }
    if (!*now)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the network does not give what is to be compared",
                        c->method->name);
    return ZOE_OK;
}

static zoe_status compare(zoe_context *ctx, zoe_cache *c, cache_branch *s, const float *now,
                          cache_verdict *verdict)
{
    zoe_cache_trace *trace = cache_trace(c);
    const cache_buffers *b = &c->buffers[cache_state_of(c, c->branch)];
    const bool by_now =
        c->params.judge == ZOE_CACHE_JUDGE_HIDDEN && c->params.method == ZOE_CACHE_FIRST;
    const bool recipe = c->params.rule == ZOE_CACHE_RECIPE;
    double sums[CACHE_SUMS];
    zoe_cache_measure(ctx, c->partial, sums, now, b->judge, c->judge_type, c->judge_rows,
                      c->judge_width, c->params.downsample);
    if (judge_is_shared(c) && c->group.sum)
        TRY(c->group.sum(c->group.user, sums, CACHE_SUMS));
    trace->distance =
        zoe_cache_ratio(sums, by_now ? SUM_NOW : SUM_BEFORE, recipe || by_now ? 1e-8f : 0.0f);
    trace->measured = true;
    trace->bad = !isfinite(trace->distance) || !(sums[SUM_CHANGE] > 0.0);
    double value = c->method->weigh(c, s, trace->distance);
    if (c->params.rule == ZOE_CACHE_ZOETROPE && (trace->bad || !isfinite(value)))
        value = (double)INFINITY;
    return zoe_cache_agree(c, s, value, verdict);
}

/* Is the judge of this pass the one to compare the next with? */
static bool keeps_judge(const zoe_cache *c, cache_verdict foreseen, cache_verdict verdict)
{
    if (c->params.method != ZOE_CACHE_TEA)
        return verdict == CACHE_COMPUTE;
    if (c->params.rule == ZOE_CACHE_RECIPE) /* it does not, on the passes that always compute */
        return verdict == CACHE_COMPUTE && foreseen == CACHE_MEASURE;
    return true; /* changes are added up from step to step */
}

static zoe_status decide(zoe_context *ctx, zoe_cache *c, const zoe_cache_point *point)
{
    cache_branch *s = state(c);
    zoe_cache_trace *trace = cache_trace(c);
    const cache_buffers *b = &c->buffers[cache_state_of(c, c->branch)];
    const cache_verdict foreseen = c->again ? CACHE_COMPUTE : c->method->foresee(c, s, trace);
    const float *now;
    cache_verdict verdict = foreseen;
    TRY(find_judge(ctx, c, point, &now));
    if (verdict == CACHE_MEASURE) {
        verdict = CACHE_COMPUTE;
        if (s->judged)
            TRY(compare(ctx, c, s, now, &verdict));
    }
    if (c->params.joint && c->any_computed)
        verdict = CACHE_COMPUTE;
    if (verdict == CACHE_SKIP && s->points == 0) {
        trace->empty = true;
        verdict = CACHE_COMPUTE;
    }
    TRY(zoe_cache_audit(ctx, c, verdict));
    if (now && keeps_judge(c, foreseen, verdict)) {
        zoe_cache_keep(ctx, b->judge, c->judge_type, now, c->judge_rows * c->judge_width);
        s->judged = 1;
    }
    zoe_cache_note(c, s, verdict);
    return ZOE_OK;
}

zoe_status zoe_cache_at(zoe_context *ctx, zoe_cache *c, const zoe_cache_point *point, size_t *next)
{
    const size_t n = c->shape.tokens * c->shape.width;
    *next = point->block;
    if (!works_on_hidden(&c->params))
        return ZOE_OK;
    if (point->block == 0 && c->from > 0 && c->params.judge == ZOE_CACHE_JUDGE_RESIDUAL)
        memcpy(c->scratch, point->hidden, n * sizeof *c->scratch);
    cache_branch *s = state(c);
    const cache_buffers *b = &c->buffers[cache_state_of(c, c->branch)];
    if (point->block == c->from && !c->settled) {
        TRY(decide(ctx, c, point));
        if (c->skip) {
            zoe_cache_series_add(ctx, c, s, b, point->hidden);
            *next = c->to;
        } else {
            memcpy(c->scratch, point->hidden, n * sizeof *c->scratch);
        }
    }
    if (point->block == c->to && !c->skip)
        zoe_cache_series_update(ctx, c, s, b, point->hidden, c->scratch);
    return ZOE_OK;
}

/* ---- what will happen, and what did ---- */

/* One pass of a network without tokens. */
static zoe_status rehearse(zoe_context *ctx, zoe_cache *c)
{
    float nothing = 0.0f;
    zoe_cache_point point = {.hidden = &nothing};
    bool made;
    TRY(zoe_cache_begin(ctx, c, &nothing, &nothing, &made));
    TRY(zoe_cache_at(ctx, c, &point, &point.block));
    point.block = c->shape.blocks;
    TRY(zoe_cache_at(ctx, c, &point, &point.block));
    return zoe_cache_end(ctx, c, &nothing, &nothing);
}

zoe_status zoe_cache_foretell(zoe_context *ctx, const zoe_cache_params *params,
                              const zoe_cache_shape *shape, bool *known, bool *computed)
{
    zoe_cache_shape bare = *shape;
    zoe_cache *c;
    zoe_status status = ZOE_OK;
    *known = params->method == ZOE_CACHE_MAG || params->method == ZOE_CACHE_TAYLOR;
    if (!*known)
        return zoe_cache_check(ctx, params, shape);
    bare.tokens = bare.width = bare.latent = 0;
    TRY(zoe_cache_new(ctx, &c, params, &bare));
    for (size_t step = 0; step < shape->steps; step++) {
        const zoe_expert expert = step < shape->high_steps ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
        TRY_GOTO(zoe_cache_step(ctx, c, step, expert, 3));
        for (size_t branch; zoe_cache_next(c, &branch);)
            TRY_GOTO(rehearse(ctx, c));
        computed[step] = zoe_cache_trace_at(c, step, 0)->computed;
    }
done:
    zoe_cache_free(c);
    return status;
}

const zoe_cache_trace *zoe_cache_trace_at(const zoe_cache *cache, size_t step, size_t branch)
{
    return &cache->traces[step * ZOE_CACHE_BRANCHES + branch];
}

static bool counts(const zoe_cache_trace *t)
{
    return t->seen && t->measured && isfinite(t->distance) && t->distance >= 0.0f;
}

/* The k-th smallest distance, without memory: traces are few. */
static float ranked(const zoe_cache *c, size_t k)
{
    const size_t n = c->shape.steps * ZOE_CACHE_BRANCHES;
    for (size_t i = 0; i < n; i++) {
        if (!counts(&c->traces[i]))
            continue;
        size_t below = 0, equal = 0;
        for (size_t j = 0; j < n; j++)
            if (counts(&c->traces[j])) {
                below += c->traces[j].distance < c->traces[i].distance;
                equal += c->traces[j].distance == c->traces[i].distance;
            }
        if (below <= k && k < below + equal)
            return c->traces[i].distance;
    }
    return NAN;
}

void zoe_cache_report_of(const zoe_cache *cache, zoe_cache_report *report)
{
    *report = (zoe_cache_report){.repeated = cache->repeated, .bytes = cache->arena.size};
    for (size_t i = 0; i < cache->shape.steps * ZOE_CACHE_BRANCHES; i++) {
        const zoe_cache_trace *t = &cache->traces[i];
        const size_t b = i % ZOE_CACHE_BRANCHES;
        if (!t->seen)
            continue;
        ++*(t->computed ? &report->computed[t->expert][b] : &report->skipped[t->expert][b]);
        report->bad += t->bad;
        report->empty += t->empty;
        report->measured += counts(t);
    }
    report->smallest = ranked(cache, 0);
    report->median = ranked(cache, report->measured / 2);
    report->largest = ranked(cache, report->measured > 0 ? report->measured - 1 : 0);
}

void zoe_cache_state(zoe_cache *cache, void **data, size_t *bytes)
{
    *data = cache->memory;
    *bytes = cache->state_bytes;
}

zoe_status zoe_cache_restored(zoe_context *ctx, zoe_cache *cache)
{
    const cache_memory *m = cache->memory;
    bool ok = m->magic == MAGIC && m->bytes == cache->state_bytes && m->begun <= 1 &&
              m->step < cache->shape.steps && m->expert < ZOE_CACHE_EXPERTS &&
              m->mask < 1u << ZOE_CACHE_BRANCHES;
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++)
        ok = ok && m->branch[b].points <= UINT32_MAX && m->branch[b].values <= UINT32_MAX;
    if (!ok) {
        *cache->memory = (cache_memory){.magic = MAGIC, .bytes = cache->state_bytes};
        refresh(cache);
        return zoe_fail(ctx, ZOE_FORMAT, "the kept state is not that of such a step cache");
    }
    return ZOE_OK;
}
