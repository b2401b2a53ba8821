/* What the files of this room share: the solver's inside, its scalars, and how a step is cut into
 * blocks.
 *
 * Scalars are single precision, rounded after every operation, because the official code keeps them
 * in f32 tensors. Logarithms and exponentials are taken in double precision and rounded once, so
 * that they do not depend on libm. */
#ifndef ZOE_SOLVER_H
#define ZOE_SOLVER_H

#include "sample/sample.h"

struct zoe_solver {
    zoe_solver_kind kind;
    size_t steps, n;
    size_t next;  /* the step that is due */
    float *sigma; /* [steps + 1] */
    /* UniPC: x0 of even steps, x0 of odd steps, the last corrected latent. DPM++: the last x0.
     * Euler: none. */
    float *history[ZOE_SOLVER_HISTORY];
};

/* Half the logarithmic signal-to-noise ratio, ln(1 - sigma) - ln(sigma): -inf at sigma 1, inf at
 * sigma 0. */
static inline float zoe_half_log_snr(float sigma)
{
    return (float)log((double)(1.0f - sigma)) - (float)log((double)sigma);
}

/* Calls fn(arg, begin, end) for pieces of 0..n whose borders depend on n only. */
typedef void (*zoe_piece_fn)(const void *arg, size_t begin, size_t end);
void zoe_solver_sweep(const zoe_context *ctx, size_t n, zoe_piece_fn fn, const void *arg);

/* One step of each kind; i < steps was checked. */
void zoe_solver_step_unipc(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i);
void zoe_solver_step_dpmpp(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i);
void zoe_solver_step_euler(const zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i);

/* Coefficients of one UniPC update from level s to level t. With m0 the x0 prediction at s, m1 the
 * one before it, and the terms with r only at order 2:
 *
 *   predictor  x_t = keep x_s - lean m0 - lean (m1 - m0) / (2 r)
 *   corrector  x_t = keep x_s - lean m0 - lean (rho1 (m1 - m0) / r + rho (m_t - m0)) */
typedef struct zoe_unipc_update {
    int order;
    float h, phi; /* the step in half log SNR, and expm1(-h) */
    float keep;   /* sigma_t / sigma_s */
    float lean;   /* alpha_t phi */
    float r;      /* order 2: (lambda of m1 - lambda_s) / h */
    float rho1, rho;
} zoe_unipc_update;

/* The update from sigma[s] to sigma[s + 1]; order 2 needs s >= 1. */
zoe_unipc_update zoe_unipc_update_of(const float *sigma, size_t s, int order);

#endif
