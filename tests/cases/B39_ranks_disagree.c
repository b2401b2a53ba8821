/* B39: 2 to 4 ranks with uneven shares of the tokens, and a threshold that is one of the values that
 * they measure. One decision of all; ranks that disagree are found by the audit, or hang, which ends
 * the program.
 *
 *     case_B39_ranks_disagree DATA */
#include "../unit/job_ranks_case.h"
#include "case.h"

static case_job *new_job(const char *data, const char *cache)
{
    case_job *j = case_job_new(data);
    j->params.width = j->params.height = 20; /* makes 16x16: 7 tokens, uneven on any ranks */
    j->params.frames = 25;
    j->params.steps = 12;
    j->params.cache = cache;
    j->audit = true;
    return j;
}

static void at_threshold(const char *data, const char *method, float threshold)
{
    static const size_t splits[][3] = {{1, 2, 1}, {1, 3, 1}, {1, 1, 3}, {2, 1, 1},
                                       {2, 2, 1}, {1, 4, 1}, {1, 2, 2}, {1, 2, 4}};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s,threshold=%.9g", method, (double)threshold);
        case_job *j = new_job(data, text);
        case_set(j, splits[i][0], splits[i][1], splits[i][2], 1);
        case_job_run(j);
        case_expect(case_job_ok(j, text), "%s on %zu ranks", text, j->ranks);
        case_expect(case_job_alike(j), "%s on %zu ranks: they end with different latents", text,
                    j->ranks);
        for (size_t r = 1; r < j->ranks; r++)
            case_expect(memcmp(&j->outcome[r].high_computed, &j->outcome[0].high_computed,
                               4 * sizeof(size_t)) == 0,
                        "%s on %zu ranks: rank %zu counts other steps", text, j->ranks, r);
        free(j);
    }
}

int main(int argc, char **argv)
{
    static const char *const methods[] = {"FBCache", "TeaCache,coefficients=[1,0]", "EasyCache"};
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s,threshold=0", methods[i]);
        case_job *one = new_job(argv[1], text);
        case_job_run(one);
        case_expect(case_job_ok(one, text), "%s fails", text);
        const float median = one->outcome[0].median;
        if (case_expect(median > 0.0f, "%s measures nothing", methods[i]))
            for (int side = -1; side <= 1; side++)
                at_threshold(argv[1], methods[i],
                             side == 0 ? median : nextafterf(median, side < 0 ? 0.0f : 1.0f));
        free(one);
    }
    return case_failures > 0;
}
