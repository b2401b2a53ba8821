/* DPM-Solver++ (2M): multistep, second order, midpoint form, on x0 predictions.
 *
 *   m   = x - sigma_s v                                                   the x0 prediction
 *   x_t = (sigma_t / sigma_s) x - a m - a/2 (m - m_before) / r            a = alpha_t (e^-h - 1)
 *
 * with h the step and h r the step before it in half log SNR. The first and the last step leave out
 * the last term. At sigma 1 and 0 that ratio is infinite and IEEE arithmetic gives the limits:
 * e^-inf = 0, and 1/r = 0 when the step before began at sigma 1.
 *
 * Source: Lu et al. 2022 (arXiv 2211.01095); order of operations as in Wan's
 * FlowDPMSolverMultistepScheduler. */
#include "sample/solver.h"

typedef struct step {
    float *latent, *before; /* before: the last x0 in, this one out */
    const float *velocity;
    bool second_order;
    float sigma, keep, lean, inverse_r;
} step;

static void step_piece(const void *arg, size_t begin, size_t end)
{
    const step *s = arg;
    for (size_t i = begin; i < end; i++) {
        const float m = s->latent[i] - s->sigma * s->velocity[i];
        float x = s->keep * s->latent[i] - s->lean * m;
        if (s->second_order)
            x -= 0.5f * s->lean * (s->inverse_r * (m - s->before[i]));
        s->latent[i] = x;
        s->before[i] = m;
    }
}

void zoe_solver_step_dpmpp(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i)
{
    const float *sigma = solver->sigma;
    const float here = zoe_half_log_snr(sigma[i]), h = zoe_half_log_snr(sigma[i + 1]) - here;
    step s = {.latent = latent,
              .before = solver->history[0],
              .velocity = velocity,
              .second_order = i > 0 && i + 1 < solver->steps,
              .sigma = sigma[i],
              .keep = sigma[i + 1] / sigma[i],
              .lean = (1.0f - sigma[i + 1]) * ((float)exp((double)-h) - 1.0f)};
    if (s.second_order) {
        const float r = (here - zoe_half_log_snr(sigma[i - 1])) / h;
        s.inverse_r = 1.0f / r;
    }
    zoe_solver_sweep(ctx, solver->n, step_piece, &s);
}
