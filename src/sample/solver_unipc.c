/* UniPC of order 2 with B(h) = e^-h - 1 ("bh2"), on x0 predictions.
 *
 * Step i takes the x0 prediction from the latent that the network saw, then corrects that latent
 * with it (the corrector costs no network call), then predicts the next latent from the corrected
 * one. The order is 1 in the first step (no history) and in the last; a corrector has the order of
 * the predictor that it corrects.
 *
 * At the last step sigma is 0: h = inf, e^-h - 1 = -1, and the result is exactly the x0 prediction.
 *
 * Source: Zhao et al. 2023 (arXiv 2302.04867); order of operations as in Wan's
 * FlowUniPCMultistepScheduler. */
#include "sample/solver.h"

/* rho1 + rho = b1, r rho1 + rho = b2, by elimination with the larger pivot first. */
static void solve_weights(float *rho1, float *rho, float r, float b1, float b2)
{
    if (fabsf(r) > 1.0f) {
        const float l = 1.0f / r;
        *rho = (b1 - l * b2) / (1.0f - l);
        *rho1 = (b2 - *rho) / r;
    } else {
        *rho = (b2 - r * b1) / (1.0f - r);
        *rho1 = b1 - *rho;
    }
}

zoe_unipc_update zoe_unipc_update_of(const float *sigma, size_t s, int order)
{
    const float here = zoe_half_log_snr(sigma[s]);
    zoe_unipc_update u = {.order = order, .h = zoe_half_log_snr(sigma[s + 1]) - here, .rho = 0.5f};
    u.phi = (float)expm1((double)-u.h);
    u.keep = sigma[s + 1] / sigma[s];
    u.lean = (1.0f - sigma[s + 1]) * u.phi;
    if (order == 2) {
        u.r = (zoe_half_log_snr(sigma[s - 1]) - here) / u.h;
        const float k1 = u.phi / -u.h - 1.0f, k2 = k1 / -u.h - 0.5f;
        solve_weights(&u.rho1, &u.rho, u.r, k1 / u.phi, k2 * 2.0f / u.phi);
    }
    return u;
}

typedef struct step {
    float *latent, *last; /* last: the latent that the predictor started from */
    const float *velocity;
    const float *m0; /* x0 one step before */
    float *m;        /* x0 two steps before in, this step's out */
    float sigma;
    bool corrects;
    zoe_unipc_update correct, predict;
} step;

static float corrected(const zoe_unipc_update *u, float last, float m, float m0, float m1)
{
    const float x = u->keep * last - u->lean * m0;
    const float change = u->rho * (m - m0);
    return x - u->lean * (u->order == 2 ? u->rho1 * ((m1 - m0) / u->r) + change : change);
}

static float predicted(const zoe_unipc_update *u, float x, float m, float m0)
{
    const float next = u->keep * x - u->lean * m;
    return u->order == 2 ? next - u->lean * (0.5f * ((m0 - m) / u->r)) : next;
}

static void step_piece(const void *arg, size_t begin, size_t end)
{
    const step *s = arg;
    for (size_t i = begin; i < end; i++) {
        float x = s->latent[i];
        const float m = x - s->sigma * s->velocity[i];
        if (s->corrects)
            x = corrected(&s->correct, s->last[i], m, s->m0[i], s->m[i]);
        s->latent[i] = predicted(&s->predict, x, m, s->m0[i]);
        s->last[i] = x;
        s->m[i] = m;
    }
}

/* Of the predictor of step i. */
static int order_of(const zoe_solver *solver, size_t i)
{
    return i > 0 && i + 1 < solver->steps ? 2 : 1;
}

void zoe_solver_step_unipc(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i)
{
    step s = {.latent = latent,
              .last = solver->history[2],
              .velocity = velocity,
              .m0 = solver->history[(i + 1) % 2],
              .m = solver->history[i % 2],
              .sigma = solver->sigma[i],
              .corrects = i > 0,
              .predict = zoe_unipc_update_of(solver->sigma, i, order_of(solver, i))};
    if (s.corrects)
        s.correct = zoe_unipc_update_of(solver->sigma, i - 1, order_of(solver, i - 1));
    zoe_solver_sweep(ctx, solver->n, step_piece, &s);
}
