/* B38 on ranks: what a step cache keeps belongs to one expert and one branch, also if each branch has
 * ranks of its own.
 *
 *     case_B38_ranks DATA */
#include "../unit/job_ranks_case.h"
#include "case.h"

enum { STEPS = 14 };

static const char *const methods[] = {
    "FBCache,threshold=10",
    "TeaCache,threshold=10,coefficients=[1,0]",
    "TaylorSeer",
    "EasyCache,threshold=10",
    "MagCache,threshold=10,mag_ratios=i2v_A14B",
    "DBCache,threshold=10,Fn_compute_blocks=1,max_warmup_steps=1",
};
enum { METHODS = sizeof methods / sizeof methods[0] };

typedef struct sight {
    size_t unlike; /* steps in which the branches differ */
    float cond[CASE_LATENT];
} sight;

static void compare_branches(void *user, size_t rank, const char *name, size_t step,
                             zoe_tensor value)
{
    sight *s = user;
    (void)step;
    if (rank > 0)
        return;
    if (strcmp(name, "v_cond") == 0)
        memcpy(s->cond, value.data, zoe_tensor_bytes(value));
    else if (strcmp(name, "v_uncond") == 0)
        s->unlike += memcmp(s->cond, value.data, zoe_tensor_bytes(value)) != 0;
}

/* With the same text in both branches, one cannot be told from the other. */
static void branches(const char *data, const char *method)
{
    sight s = {0};
    case_job *j = case_job_new(data);
    j->params.steps = STEPS;
    j->params.cache = method;
    j->params.negative_prompt = j->params.prompt;
    j->audit = true;
    j->observe = compare_branches;
    j->observer = &s;
    case_set(j, 2, 2, 1, 0);
    case_job_run(j);
    case_expect(case_job_ok(j, method), "%s fails", method);
    case_expect(s.unlike == 0, "%s: the branches differ in %zu steps", method, s.unlike);
    free(j);
}

/* Guidance of both experts, of one, of none; the switch is at step 5. */
static void experts(const char *data, const char *method)
{
    static const double scales[][2] = {{3.5, 3.5}, {1.0, 3.5}, {3.5, 1.0}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        case_job *one = case_job_new(data), *j = case_job_new(data);
        one->params.steps = STEPS;
        one->params.cache = method;
        one->params.guide_low = scales[i][0];
        one->params.guide_high = scales[i][1];
        case_job_run(one);
        case_expect(case_job_ok(one, method), "%s fails on one rank", method);
        case_expect(one->outcome[0].high_computed > 0 && one->outcome[0].low_computed > 0 &&
                        one->outcome[0].high_skipped + one->outcome[0].low_skipped > 0,
                    "%s leaves out nothing, or an expert computes nothing", method);
        j->params = one->params;
        j->audit = true;
        case_set(j, 2, 1, 1, 0);
        case_job_run(j);
        case_expect(case_job_ok(j, method), "%s fails", method);
        case_expect(case_job_error(j, one->latent[0]) == 0.0,
                    "%s, guidance %g,%g: two ranks give another video than one", method,
                    scales[i][0], scales[i][1]);
        free(one);
        free(j);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < METHODS; i++) {
        branches(argv[1], methods[i]);
        experts(argv[1], methods[i]);
    }
    return case_failures > 0;
}
