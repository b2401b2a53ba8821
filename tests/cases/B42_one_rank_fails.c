/* B42: a rank that cannot open the model file, and one that gets no memory; all end soon, and each
 * knows which rank it was. B42_killed.sh has the rest.
 *
 *     case_B42_one_rank_fails DATA */
#include "../unit/job_ranks_case.h"
#include "case.h"

static zoe_status lose_model(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    if (rank == 1)
        job->params.model = "/nowhere/model";
    return ZOE_OK;
}

static zoe_status lose_part(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    if (rank == 1)
        job->params.vae = "/nowhere/vae.pth";
    return ZOE_OK;
}

static void expect_told(const case_job *j, const char *what, size_t victim, zoe_status own,
                        const char *sentence)
{
    char wanted[200];
    snprintf(wanted, sizeof wanted, "rank %zu: %s", victim, sentence);
    for (size_t r = 0; r < j->ranks; r++) {
        const ranks_result *result = &j->results[r];
        const char *says = r == victim ? sentence : wanted;
        case_expect(result->status == (r == victim ? own : ZOE_PEER) &&
                        strncmp(result->message, says, strlen(says)) == 0,
                    "%s: rank %zu: %s: %s", what, r, zoe_status_name(result->status),
                    result->message);
        case_expect(result->ended - j->begun < 10.0, "%s: rank %zu ended after %.1f s", what, r,
                    result->ended - j->begun);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t ranks = 2; ranks <= 4; ranks += 2) {
        case_job *j = case_job_new(argv[1]);
        case_set(j, 2, ranks / 2, 1, 0);
        j->before = lose_model;
        case_job_run(j);
        expect_told(j, "no model", 1, ZOE_MISSING, "/nowhere/model");
        j->before = lose_part;
        case_job_run(j);
        expect_told(j, "no VAE", 1, ZOE_MISSING, "/nowhere/vae.pth");
        j->before = NULL;
        j->fault = (zoe_fault){.kind = ZOE_FAULT_NOMEM, .rank = ranks - 1, .exchange = 12};
        case_job_run(j);
        expect_told(j, "no memory", ranks - 1, ZOE_NOMEM, "");
        free(j);
    }
    return case_failures > 0;
}
