/* What zoe plan prints for programs. */
#include "answer.h"
#include "message.h"
#include "plan.h"

static json_t *bytes(uint64_t n)
{
    return n > INT64_MAX ? json_null() : json_integer((json_int_t)n);
}

static json_t *memory_object(const zoe_planned *r)
{
    json_t *object = json_object();
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        json_object_set_new(object, zoe_phase_name((zoe_phase)i),
                            json_pack("{s:o, s:o, s:o, s:o}", "weights", bytes(r->bytes.weights[i]),
                                      "rest", bytes(r->bytes.work[i]), "streamed_weights",
                                      bytes(r->bytes.least[i]), "streamed_rest",
                                      bytes(r->bytes.streaming[i])));
    json_object_set_new(object, "rank", bytes(r->largest));
    json_object_set_new(object, "peak", bytes(r->peaks.resident));
    json_object_set_new(object, "streamed_peak", bytes(r->peaks.streamed));
    json_object_set_new(object, "one_host_peak", bytes(r->together));
    json_object_set_new(object, "text_keys_values", bytes(r->bytes.texts));
    json_object_set_new(object, "step_cache", bytes(r->bytes.cache));
    json_object_set_new(object, "whole_run", bytes(r->bytes.fixed));
    return object;
}

static json_t *sent_object(const zoe_rank_sent *s)
{
    const struct {
        const char *key;
        uint64_t value;
    } all[] = {
        {"contexts", s->contexts},
        {"features", s->features},
        {"encode_edges", s->encode_edges},
        {"encode_keys", s->encode_keys},
        {"latent", s->latent},
        {"ulysses", s->ulysses},
        {"ring", s->ring},
        {"head", s->head},
        {"weights", s->weights},
        {"branches", s->branches},
        {"guided_step", s->guided_step},
        {"plain_step", s->plain_step},
        {"decode_edges", s->decode_edges},
        {"decode_keys", s->decode_keys},
        {"frames", s->frames},
        {"text", s->phase[ZOE_PHASE_TEXT]},
        {"encode", s->phase[ZOE_PHASE_ENCODE]},
        {"steps", s->phase[ZOE_PHASE_STEPS]},
        {"decode", s->phase[ZOE_PHASE_DECODE]},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        json_object_set_new(object, all[i].key, bytes(all[i].value));
    return object;
}

static json_t *time_object(const zoe_planned *r)
{
    const zoe_run_time *t = &r->time;
    const zoe_pass_time *p = &t->pass;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "text", t->phase[ZOE_PHASE_TEXT], "encode", t->phase[ZOE_PHASE_ENCODE],
                     "steps", t->phase[ZOE_PHASE_STEPS], "decode", t->phase[ZOE_PHASE_DECODE],
                     "run", t->total, "step", t->step, "pass", p->total, "products", p->products,
                     "weights", p->weights, "attention", p->attention, "ulysses", p->ulysses,
                     "ring", p->ring, "ring_hidden", p->hidden, "head", p->head, "branches",
                     t->branches);
}

static json_t *row_object(const zoe_planned *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:f, s:s, s:o, s:o, s:o, s:o}", "ranks",
                     bytes(r->ranks), "cfg_ranks", bytes(r->layout.cfg), "ulysses",
                     bytes(r->layout.ulysses), "ring", bytes(r->layout.ring), "vae_ranks",
                     bytes(r->layout.vae), "efficiency", r->efficiency, "limit", r->limit,
                     "seconds", time_object(r), "bytes", memory_object(r), "most_sent",
                     sent_object(&r->most), "sent", sent_object(&r->sum));
}

int zoe_plan_print_json(const zoe_planning *plan, const zoe_planned *rows, size_t n)
{
    const zoe_plan *p = zoe_job_plan(plan->job);
    const zoe_speeds *s = &plan->speeds;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, row_object(&rows[i]));
    return zoe_answer_json(json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "model", p->model.name,
        "width", bytes(p->width), "height", bytes(p->height), "frames", bytes(p->frames), "tokens",
        bytes(p->tokens), "threads_per_rank", zoe_context_threads(plan->ctx), "products_per_second",
        s->product, "attention_per_second", s->attention, "convolution_per_second", s->convolution,
        "seconds_per_weight", s->weight, "bandwidth", s->bandwidth, "latency", s->latency, "plans",
        list));
}
