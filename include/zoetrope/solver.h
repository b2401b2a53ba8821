/* Names of the solvers of the sampling equation. */
#ifndef ZOETROPE_SOLVER_H
#define ZOETROPE_SOLVER_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum zoe_solver_kind {
    ZOE_SOLVER_UNIPC, /* UniPC, order 2 (arXiv 2302.04867): the official default */
    ZOE_SOLVER_DPMPP, /* DPM-Solver++ 2M (arXiv 2211.01095) */
    ZOE_SOLVER_EULER
} zoe_solver_kind;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
