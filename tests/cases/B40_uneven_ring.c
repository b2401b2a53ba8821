/* B40: 7 tokens on 2, 3, 4 and 8 ranks, of which one has none; rings, Ulysses and both.
 *
 *     case_B40_uneven_ring DATA */
#include "../unit/job_ranks_case.h"
#include "case.h"

static void set(case_job *j)
{
    j->params.width = j->params.height = 20; /* makes 16x16: one token a latent frame */
    j->params.frames = 25;
    j->params.steps = 2;
}

int main(int argc, char **argv)
{
    static const size_t splits[][2] = {/* Ulysses, ring */
                                       {1, 2}, {1, 3}, {1, 4}, {1, 8}, {2, 1},
                                       {4, 1}, {8, 1}, {2, 2}, {2, 4}, {4, 2}};
    if (argc != 2)
        return 2;
    case_job *one = case_job_new(argv[1]);
    set(one);
    case_job_run(one);
    if (!case_expect(case_job_ok(one, "one rank") && one->values == 16 * 7 * 2 * 2,
                     "one rank fails, or has not 7 tokens"))
        return 1;
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        for (int steps = 0; steps < 2; steps++) {
            case_job *j = case_job_new(argv[1]);
            set(j);
            case_set(j, 1, splits[i][0], splits[i][1], 0);
            j->params.ring_steps = steps == 1;
            case_job_run(j);
            case_expect(case_job_ok(j, "7 tokens"), "Ulysses %zu x ring %zu fails", splits[i][0],
                        splits[i][1]);
            const double error = case_job_error(j, one->latent[0]);
            case_expect(splits[i][1] == 1 ? error == 0.0 : error <= 1e-5,
                        "Ulysses %zu x ring %zu: off by %g", splits[i][0], splits[i][1], error);
            case_expect(case_job_alike(j), "Ulysses %zu x ring %zu: ranks differ", splits[i][0],
                        splits[i][1]);
            free(j);
        }
    free(one);
    return case_failures > 0;
}
