/* A solver's life: its buffers, the order of its steps, the way to the method of its kind. */
#include "sample/solver.h"

enum { PIECE = 1 << 16 };

typedef struct sweep {
    size_t n;
    zoe_piece_fn fn;
    const void *arg;
} sweep;

static void sweep_piece(void *arg, size_t i, size_t worker)
{
    const sweep *s = arg;
    const size_t begin = i * PIECE, left = s->n - begin;
    (void)worker;
    s->fn(s->arg, begin, begin + (left < PIECE ? left : PIECE));
}

void zoe_solver_sweep(const zoe_context *ctx, size_t n, zoe_piece_fn fn, const void *arg)
{
    sweep s = {.n = n, .fn = fn, .arg = arg};
    zoe_parallel_for(ctx, n / PIECE + (n % PIECE != 0), sweep_piece, &s);
}

static size_t history_count(zoe_solver_kind kind)
{
    switch (kind) {
    case ZOE_SOLVER_UNIPC: return 3;
    case ZOE_SOLVER_DPMPP: return 1;
    case ZOE_SOLVER_EULER: return 0;
    }
    return 0;
}

size_t zoe_solver_bytes(zoe_solver_kind kind, size_t n)
{
    size_t bytes;
    return zoe_size_mul(&bytes, history_count(kind), zoe_arena_bytes(n, sizeof(float))) ? bytes
                                                                                        : SIZE_MAX;
}

zoe_status zoe_solver_new(zoe_context *ctx, zoe_solver **solver, const zoe_schedule *schedule,
                          size_t n)
{
    zoe_status status;
    zoe_solver *s = NULL;
    void *p;
    *solver = NULL;
    if (schedule->steps < 1 || !schedule->sigma)
        return zoe_fail(ctx, ZOE_INVALID, "a solver needs a schedule of at least 1 step");
    TRY_GOTO(zoe_alloc_zero(ctx, &p, 1, sizeof *s, "solver"));
    s = p;
    s->kind = schedule->solver;
    s->steps = schedule->steps;
    s->n = n;
    TRY_GOTO(zoe_alloc(ctx, &p, s->steps + 1, sizeof(float), "solver's noise levels"));
    s->sigma = p;
    memcpy(s->sigma, schedule->sigma, (s->steps + 1) * sizeof(float));
    for (size_t k = 0; k < history_count(s->kind); k++) {
        TRY_GOTO(zoe_alloc_zero(ctx, &p, n, sizeof(float), "solver's history"));
        s->history[k] = p;
    }
    *solver = s;
done:
    if (status != ZOE_OK)
        zoe_solver_free(s);
    return status;
}

void zoe_solver_free(zoe_solver *solver)
{
    if (!solver)
        return;
    for (size_t k = 0; k < ZOE_SOLVER_HISTORY; k++)
        zoe_free(solver->history[k]);
    zoe_free(solver->sigma);
    zoe_free(solver);
}

zoe_status zoe_solver_step(zoe_context *ctx, zoe_solver *solver, float *latent,
                           const float *velocity, size_t i)
{
    if (i >= solver->steps || i != solver->next)
        return zoe_fail(ctx, ZOE_INVALID, "solver step %zu was asked for, step %zu of %zu is due",
                        i, solver->next, solver->steps);
    switch (solver->kind) {
    case ZOE_SOLVER_UNIPC: zoe_solver_step_unipc(ctx, solver, latent, velocity, i); break;
    case ZOE_SOLVER_DPMPP: zoe_solver_step_dpmpp(ctx, solver, latent, velocity, i); break;
    case ZOE_SOLVER_EULER: zoe_solver_step_euler(ctx, solver, latent, velocity, i); break;
    }
    solver->next++;
    return ZOE_OK;
}

size_t zoe_solver_history(zoe_solver *solver, float *history[ZOE_SOLVER_HISTORY])
{
    for (size_t k = 0; k < ZOE_SOLVER_HISTORY; k++)
        history[k] = solver->history[k];
    return history_count(solver->kind);
}

zoe_status zoe_solver_resume(zoe_context *ctx, zoe_solver *solver, size_t done)
{
    if (done > solver->steps)
        return zoe_fail(ctx, ZOE_INVALID, "cannot resume after %zu of %zu steps", done,
                        solver->steps);
    solver->next = done;
    return ZOE_OK;
}
