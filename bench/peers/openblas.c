/* OpenBLAS: products of f32, C = A B^T. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "peer.h"

static struct {
    float *y, *x, *w;
    int M, N, K;
} job;

void peer_name(char *text, size_t room)
{
    snprintf(text, room, "%s", openblas_get_config());
}

const char *peer_prepare(const peer_case *c, const char **dtype)
{
    if (strcmp(c->op, "linear") != 0)
        return "it has products only";
    if (strcmp(c->x, "f32") != 0 || strcmp(c->w, "f32") != 0 || c->rank != 3)
        return "it has products of f32 only";
    const size_t M = c->shape[0], N = c->shape[1], K = c->shape[2];
    peer_release();
    job.M = (int)M;
    job.N = (int)N;
    job.K = (int)K;
    job.y = peer_values(M * N);
    job.x = peer_values(M * K);
    job.w = peer_values(N * K);
    openblas_set_num_threads(c->threads);
    *dtype = "f32";
    return job.y && job.x && job.w ? NULL : "no memory";
}

bool peer_run(void)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, job.M, job.N, job.K, 1.0f, job.x, job.K,
                job.w, job.K, 0.0f, job.y, job.N);
    return true;
}

void peer_release(void)
{
    free(job.y);
    free(job.x);
    free(job.w);
    memset(&job, 0, sizeof job);
}
