/* Euler's method along the velocity: x + (sigma_t - sigma_s) v. */
#include "sample/solver.h"

typedef struct step {
    float *latent;
    const float *velocity;
    float change;
} step;

static void step_piece(const void *arg, size_t begin, size_t end)
{
    const step *s = arg;
    for (size_t i = begin; i < end; i++)
        s->latent[i] = s->latent[i] + s->change * s->velocity[i];
}

void zoe_solver_step_euler(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i)
{
    const step s = {
        .latent = latent, .velocity = velocity, .change = solver->sigma[i + 1] - solver->sigma[i]};
    zoe_solver_sweep(ctx, solver->n, step_piece, &s);
}
