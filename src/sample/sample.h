/* Room 10, sample: sigma schedules, solvers and guidance. Arithmetic on latents; knows no model. */
#ifndef ZOE_SAMPLE_H
#define ZOE_SAMPLE_H

#include "base/base.h"
#include "zoetrope/solver.h"

/* Whose schedule: the official Wan code's, that of diffusers' scheduler of the same name, or a list of
 * steps (zoe_schedule_new_list). */
typedef enum zoe_schedule_form {
    ZOE_SCHEDULE_WAN,
    ZOE_SCHEDULE_DIFFUSERS,
    ZOE_SCHEDULE_LIST
} zoe_schedule_form;

/* Noise levels of a run. sigma[0..steps], strictly falling, the last one 0; timestep[0..steps-1] as
 * the network is given it: whole numbers (cut, not rounded) for UniPC and DPM++, 1000 sigma for
 * Euler. */
typedef struct zoe_schedule {
    zoe_solver_kind solver;
    zoe_schedule_form form;
    size_t steps;
    double shift;
    float *sigma, *timestep;
} zoe_schedule;

/* steps >= 1, shift > 0 and finite. Levels that coincide in f32 are refused, and so are schedules
 * that the official code cannot run (its first two timesteps are equal).
 * Errors: ZOE_INVALID, ZOE_NOMEM; *schedule is then zeroed. */
zoe_status zoe_schedule_new(zoe_context *ctx, zoe_schedule *schedule, zoe_solver_kind solver,
                            zoe_schedule_form form, size_t steps, double shift);

/* Are these steps of a distilled model: n >= 1 numbers above 0 and up to 1000, strictly falling?
 * ZOE_INVALID if not. */
zoe_status zoe_step_list_check(zoe_context *ctx, const double *list, size_t n);
/* The schedule of a distilled model, for Euler: with s = list[i] / 1000, which stands before the shift,
 *
 *   sigma[i] = shift s / (1 + (shift - 1) s), timestep[i] = 1000 sigma[i], sigma[n] = 0
 *
 * Source: denoising_step_list of LightX2V (lightx2v/models/schedulers/wan/step_distill/scheduler.py),
 * which reads the same levels from a table of 1000 in f32; these are computed in f64 and rounded once.
 * Errors: those of zoe_step_list_check; ZOE_INVALID (shift, levels that coincide), ZOE_NOMEM;
 * *schedule is then zeroed. */
zoe_status zoe_schedule_new_list(zoe_context *ctx, zoe_schedule *schedule, const double *list,
                                 size_t n, double shift);
void zoe_schedule_free(zoe_schedule *schedule);

/* A multistep solver's state for latents of n values. All buffers are allocated here, none in a
 * step. The schedule is copied.
 * Errors: ZOE_INVALID, ZOE_NOMEM. */
typedef struct zoe_solver zoe_solver;
zoe_status zoe_solver_new(zoe_context *ctx, zoe_solver **solver, const zoe_schedule *schedule,
                          size_t n);
void zoe_solver_free(zoe_solver *solver); /* NULL is fine */
/* Bytes that zoe_solver_new takes for n values, less the few for the solver itself. Saturates at
 * SIZE_MAX. */
size_t zoe_solver_bytes(zoe_solver_kind kind, size_t n);

/* One step, i = 0, 1, ... in order: latent (n values) at sigma[i] and the network's velocity become
 * the latent at sigma[i + 1]. NaN and inf stay in their element. The bytes do not depend on the
 * number of threads.
 * Errors: ZOE_INVALID if i is not the step that is due. */
zoe_status zoe_solver_step(zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i);

/* What a checkpoint has to keep: pointers to the solver's buffers of n values each into history,
 * their number returned. Together with the number of steps done they are the whole state. */
enum { ZOE_SOLVER_HISTORY = 3 };
size_t zoe_solver_history(zoe_solver *solver, float *history[ZOE_SOLVER_HISTORY]);
/* Says that the history was filled from a checkpoint after `done` steps; step `done` is due next.
 * Errors: ZOE_INVALID if there are not so many steps. */
zoe_status zoe_solver_resume(zoe_context *ctx, zoe_solver *solver, size_t done);

/* Classifier-free guidance: cond = uncond + scale * (cond - uncond), in this order of f32
 * operations. */
void zoe_guide(float *cond, const float *uncond, float scale, size_t n);

typedef enum zoe_expert { ZOE_LOW_NOISE, ZOE_HIGH_NOISE } zoe_expert;
/* t >= boundary * 1000 belongs to the high-noise expert. */
zoe_expert zoe_expert_of(float timestep, double boundary);

#endif
