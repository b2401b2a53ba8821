/* What zoe plan prints for people. */
#include <stdio.h>

#include "answer.h"
#include "plan.h"

typedef struct cell {
    char text[48];
} cell;

static cell seconds(double s)
{
    cell c;
    if (s < 0.9995)
        snprintf(c.text, sizeof c.text, "%.3g ms", 1e3 * s);
    else if (s < 600)
        snprintf(c.text, sizeof c.text, "%.3g s", s);
    else if (s < 36000)
        snprintf(c.text, sizeof c.text, "%.0f min", s / 60);
    else
        snprintf(c.text, sizeof c.text, "%.1f h", s / 3600);
    return c;
}

static cell layout_text(const zoe_layout *l)
{
    cell c;
    snprintf(c.text, sizeof c.text, "%zu x %zu x %zu", l->cfg, l->ulysses, l->ring);
    return c;
}

static void print_head(const zoe_planning *plan)
{
    const zoe_plan *p = zoe_job_plan(plan->job);
    const zoe_speeds *s = &plan->speeds;
    const int threads = zoe_context_threads(plan->ctx);
    zoe_answer_line("%s: %zux%zu, %zu frames, %zu tokens; %zu steps, %zu passes", p->model.name,
                    p->width, p->height, p->frames, p->tokens, p->high_steps + p->low_steps,
                    p->passes);
    zoe_answer_line("a rank: %d thread%s of this machine: products %.4g GFLOP/s, attention %.4g, "
                    "convolution %.4g",
                    threads, threads == 1 ? "" : "s", 1e-9 * s->product, 1e-9 * s->attention,
                    1e-9 * s->convolution);
    zoe_answer_line("network: %g GB/s each way and rank, %g us a message", plan->bandwidth,
                    plan->latency);
}

/* Does it fit the memory that is allowed? */
static const char *fit(const zoe_planning *plan, const zoe_planned *row)
{
    if (!plan->memory || row->peaks.resident <= plan->memory)
        return "";
    return row->peaks.streamed <= plan->memory ? " *" : " !";
}

void zoe_plan_print_table(const zoe_planning *plan, const zoe_planned *rows, size_t n)
{
    const zoe_plan *p = zoe_job_plan(plan->job);
    bool streams = false, fails = false;
    print_head(plan);
    zoe_answer_line("%s", "");
    zoe_answer_line("%6s  %-14s %10s %10s %6s  %12s  %12s  %s", "ranks", "CFG x U x ring", "step",
                    "run", "eff.", "memory", "sent a step", "what limits");
    for (size_t i = 0; i < n; i++) {
        const zoe_planned *r = &rows[i];
        const uint64_t guided = r->most.guided_step, plain = r->most.plain_step;
        const uint64_t sent = p->passes > p->high_steps + p->low_steps ? guided : plain;
        const char *mark = fit(plan, r);
        streams = streams || (mark[0] && mark[1] == '*');
        fails = fails || (mark[0] && mark[1] == '!');
        zoe_answer_line("%6zu  %-14s %10s %10s %5.0f%%  %10s%-2s  %12s  %s", r->ranks,
                        layout_text(&r->layout).text, seconds(r->time.step).text,
                        seconds(r->time.total).text, 100 * r->efficiency,
                        zoe_amount_of(r->peaks.resident).text, mark,
                        zoe_amount_of((size_t)sent).text, r->limit);
    }
    zoe_answer_line("%s", "");
    zoe_answer_line("Memory and bytes sent are those of the rank that has most.");
    if (streams)
        zoe_answer_line("* more than --memory: weights are streamed, which the times do not count");
    if (fails)
        zoe_answer_line("! more than --memory, even with streamed weights");
}

/* ---- one layout ---- */

static void print_layout(const zoe_planning *plan, const zoe_planned *r)
{
    const zoe_layout *l = &r->layout;
    const zoe_plan *p = zoe_job_plan(plan->job);
    const zoe_vae_grid grid = zoe_vae_grid_choose(l->vae, p->latent_height, p->latent_width);
    const zoe_pass_sizes *z = zoe_forecast_pass(plan->forecast);
    const size_t shares = l->ulysses * l->ring;
    zoe_answer_line("%s", "");
    zoe_answer_line("%zu rank%s: --cfg-ranks %zu --ulysses %zu --ring %zu --vae-ranks %zu",
                    r->ranks, r->ranks == 1 ? "" : "s", l->cfg, l->ulysses, l->ring, l->vae);
    zoe_answer_row("tokens", "%zu of %zu on the first rank, %zu on the last",
                   zoe_share(z->tokens, shares, 0).count, z->tokens,
                   zoe_share(z->tokens, shares, shares - 1).count);
    zoe_answer_row("heads", "%zu of %zu on the first rank, %zu on the last",
                   zoe_share(z->heads, l->ulysses, 0).count, z->heads,
                   zoe_share(z->heads, l->ulysses, l->ulysses - 1).count);
    zoe_answer_row("VAE", "%zu x %zu patches of at most %zu x %zu latent positions", grid.rows,
                   grid.columns, zoe_vae_grid_share(p->latent_height, grid.rows, 0).count,
                   zoe_vae_grid_share(p->latent_width, grid.columns, 0).count);
}

static void print_memory(const zoe_planning *plan, const zoe_planned *r)
{
    static const char *const phases[ZOE_PHASE_COUNT] = {"text", "condition", "steps", "decode"};
    const zoe_rank_bytes *b = &r->bytes;
    const char *mark = fit(plan, r);
    zoe_answer_line("memory of rank %zu, which holds most:", r->largest);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        if (b->weights[i] + b->work[i] == 0)
            continue;
        zoe_answer_row(phases[i], "%s: weights %s%s%s%s, the rest %s",
                       zoe_amount_of(b->weights[i] + b->work[i]).text,
                       zoe_amount_of(b->weights[i]).text,
                       b->least[i] < b->weights[i] ? " (streamed " : "",
                       b->least[i] < b->weights[i] ? zoe_amount_of(b->least[i]).text : "",
                       b->least[i] < b->weights[i] ? ")" : "", zoe_amount_of(b->work[i]).text);
    }
    zoe_answer_row("",
                   "of the steps' rest: activations %s, text keys and values %s, step cache "
                   "%s, all through the run %s",
                   zoe_amount_of(b->work[ZOE_PHASE_STEPS] - b->texts - b->cache - b->fixed).text,
                   zoe_amount_of(b->texts).text, zoe_amount_of(b->cache).text,
                   zoe_amount_of(b->fixed).text);
    if (r->ranks > 1)
        zoe_answer_row("", "with all %zu ranks on this host: %s together", r->ranks,
                       zoe_amount_of(r->together).text);
    if (mark[0])
        zoe_answer_row("", "--memory is %s: %s", zoe_amount_of(plan->memory).text,
                       mark[1] == '*' ? "weights are streamed, which the times do not count"
                                      : "too little, even with streamed weights");
}

static void print_sent(const char *what, uint64_t most, uint64_t sum)
{
    if (sum > 0)
        zoe_answer_row(what, "%14llu  %16llu", (unsigned long long)most, (unsigned long long)sum);
}

static void print_traffic(const zoe_planned *r)
{
    const zoe_rank_sent *m = &r->most, *s = &r->sum;
    if (r->ranks == 1)
        return;
    zoe_answer_line("bytes sent:           most by a rank            by all");
    print_sent("text", m->phase[ZOE_PHASE_TEXT], s->phase[ZOE_PHASE_TEXT]);
    print_sent("condition", m->phase[ZOE_PHASE_ENCODE], s->phase[ZOE_PHASE_ENCODE]);
    print_sent("- edges", m->encode_edges, s->encode_edges);
    print_sent("- k, v", m->encode_keys, s->encode_keys);
    print_sent("- latent", m->latent, s->latent);
    print_sent("- CLIP", m->features, s->features);
    print_sent("a pass", m->plain_step, s->plain_step);
    print_sent("- Ulysses", m->ulysses, s->ulysses);
    print_sent("- ring", m->ring, s->ring);
    print_sent("- head", m->head, s->head);
    print_sent("- weights", m->weights, s->weights);
    print_sent("CFG a step", m->branches, s->branches);
    print_sent("guided step", m->guided_step, s->guided_step);
    print_sent("all steps", m->phase[ZOE_PHASE_STEPS], s->phase[ZOE_PHASE_STEPS]);
    print_sent("decode", m->phase[ZOE_PHASE_DECODE], s->phase[ZOE_PHASE_DECODE]);
    print_sent("- edges", m->decode_edges, s->decode_edges);
    print_sent("- k, v", m->decode_keys, s->decode_keys);
    print_sent("- frames", m->frames, s->frames);
}

static void print_time(const zoe_planned *r)
{
    const zoe_run_time *t = &r->time;
    const zoe_pass_time *p = &t->pass;
    zoe_answer_line("time, estimated:");
    zoe_answer_row("run", "%s: text %s, condition %s, steps %s, decode %s", seconds(t->total).text,
                   seconds(t->phase[ZOE_PHASE_TEXT]).text, seconds(t->phase[ZOE_PHASE_ENCODE]).text,
                   seconds(t->phase[ZOE_PHASE_STEPS]).text,
                   seconds(t->phase[ZOE_PHASE_DECODE]).text);
    zoe_answer_row("step", "%s, efficiency %.0f %%; what limits: %s", seconds(t->step).text,
                   100 * r->efficiency, r->limit);
    zoe_answer_row("pass", "%s: products %s (of it, weights %s), attention %s",
                   seconds(p->total).text, seconds(p->products).text, seconds(p->weights).text,
                   seconds(p->attention).text);
    if (t->weights > 0)
        zoe_answer_row("", "shared weights %s a pass, beyond what lies under it",
                       seconds(t->weights).text);
    if (r->ranks > 1)
        zoe_answer_row("waiting",
                       "Ulysses %s, ring %s (and %s under attention), head %s; CFG %s a step",
                       seconds(p->ulysses).text, seconds(p->ring).text, seconds(p->hidden).text,
                       seconds(p->head).text, seconds(t->branches).text);
}

void zoe_plan_print_one(const zoe_planning *plan, const zoe_planned *row)
{
    print_head(plan);
    print_layout(plan, row);
    print_memory(plan, row);
    print_traffic(row);
    print_time(row);
}
