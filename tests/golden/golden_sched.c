/* golden_sched DIR: noise levels, timesteps and trajectories of the samplers.
 *
 * DIR/schedules.json             rows {steps, shift, SOLVER: {sigmas, timesteps}, ...}
 * DIR/trajectories.safetensors   x_init, and per run SOLVER.STEPS.SHIFT.v, the velocity given to
 *                                every step, and SOLVER.STEPS.SHIFT.x, the latent after it
 * DIR/unipc_random_v.safetensors x_init, v, x: one run of UniPC with shift 5 and velocities that
 *                                do not depend on x */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "golden.h"
#include "sample/sample.h"
#include "store/store.h"

static const double TRAJECTORY_LIMIT = 3e-6;

typedef struct method {
    const char *name;
    zoe_solver_kind solver;
    zoe_schedule_form form;
} method;

/* Euler has no official code; the plain name means that of diffusers. */
static const method methods[] = {
    {"unipc", ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN},
    {"dpmpp", ZOE_SOLVER_DPMPP, ZOE_SCHEDULE_WAN},
    {"euler", ZOE_SOLVER_EULER, ZOE_SCHEDULE_DIFFUSERS},
    {"diffusers_unipc", ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_DIFFUSERS},
    {"diffusers_dpmpp", ZOE_SOLVER_DPMPP, ZOE_SCHEDULE_DIFFUSERS},
    {"diffusers_euler", ZOE_SOLVER_EULER, ZOE_SCHEDULE_DIFFUSERS},
};

static const method *method_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strlen(methods[i].name) == length && strncmp(methods[i].name, name, length) == 0)
            return &methods[i];
    return NULL;
}

/* ---- schedules ---- */

/* Steps between two floats of one sign, in units of the last place. */
static double ulps(float a, float b)
{
    return fabs((double)(int32_t)zoe_bits_of_f32(a) - (double)(int32_t)zoe_bits_of_f32(b));
}

/* The farthest distance of got[i] from the numbers of a JSON array, or -1 if that is no array of n
 * numbers. */
static double farthest(const json_t *array, const float *got, size_t n)
{
    double worst = 0.0;
    if (!json_is_array(array) || json_array_size(array) != n)
        return -1.0;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_number(item))
            return -1.0;
        const double d = ulps((float)json_number_value(item), got[i]);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static bool first_two_equal(const json_t *timesteps)
{
    const json_t *a = json_array_get(timesteps, 0), *b = json_array_get(timesteps, 1);
    return json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b);
}

static void compare_schedule(golden *g, const char *name, const method *m, size_t steps,
                             double shift, const json_t *want)
{
    const json_t *sigmas = json_object_get(want, "sigmas");
    const json_t *timesteps = json_object_get(want, "timesteps");
    zoe_schedule s;
    const zoe_status status = zoe_schedule_new(g->ctx, &s, m->solver, m->form, steps, shift);
    if (status == ZOE_INVALID && first_two_equal(timesteps)) {
        zoe_context_clear(g->ctx); /* the reference has such a table, but cannot run it */
        golden_check(g, name, true, "refused, as it must be");
        return;
    }
    golden_must(g, status, name);
    const double far_sigma = farthest(sigmas, s.sigma, steps + 1);
    const double far_timestep = farthest(timesteps, s.timestep, steps);
    golden_check(g, name, far_sigma >= 0.0 && far_sigma <= 1.0 && far_timestep == 0.0,
                 "sigma %g, t %g ulp", far_sigma, far_timestep);
    zoe_schedule_free(&s);
}

static void compare_row(golden *g, json_t *row)
{
    const json_t *steps = json_object_get(row, "steps"), *shift = json_object_get(row, "shift");
    if (!json_is_integer(steps) || json_integer_value(steps) < 1 || !json_is_number(shift)) {
        golden_check(g, "schedules.json", false, "a row without steps or shift");
        return;
    }
    const char *key;
    json_t *want;
    json_object_foreach(row, key, want)
    {
        if (strcmp(key, "steps") == 0 || strcmp(key, "shift") == 0)
            continue;
        char name[128];
        const size_t n = (size_t)json_integer_value(steps);
        snprintf(name, sizeof name, "schedule.%s.%zu.%g", key, n, json_number_value(shift));
        const method *m = method_of(key, strlen(key));
        if (m)
            compare_schedule(g, name, m, n, json_number_value(shift), want);
        else
            golden_check(g, name, false, "not a known solver");
    }
}

static void compare_schedules(golden *g, const char *folder)
{
    json_error_t error;
    json_t *rows = json_load_file(golden_path(folder, "schedules.json"), 0, &error);
    if (!json_is_array(rows))
        golden_check(g, "schedules.json", false, "%s", rows ? "no list" : error.text);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        compare_row(g, row);
    }
    json_decref(rows);
}

/* ---- trajectories ---- */

static float *new_floats(golden *g, size_t n, const char *what)
{
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, n, sizeof(float), what), what);
    return p;
}

/* Runs the solver over the given velocities and compares the latent after every step. */
static void compare_trajectory(golden *g, const zoe_store *store, const char *name, const method *m,
                               size_t steps, double shift, const char *v_name, const char *x_name)
{
    size_t n, n_v, n_x;
    float *x = golden_load(g, store, "x_init", &n);
    float *v = golden_load(g, store, v_name, &n_v), *want = golden_load(g, store, x_name, &n_x);
    if (n == 0 || n_v != n_x || n_x / n != steps || n_x % n != 0) {
        golden_check(g, name, false, "not %zu steps of %zu values", steps, n);
    } else {
        zoe_schedule schedule;
        zoe_solver *solver;
        float *got = new_floats(g, n_x, name);
        golden_must(g, zoe_schedule_new(g->ctx, &schedule, m->solver, m->form, steps, shift), name);
        golden_must(g, zoe_solver_new(g->ctx, &solver, &schedule, n), name);
        for (size_t i = 0; i < steps; i++) {
            golden_must(g, zoe_solver_step(g->ctx, solver, x, v + i * n, i), name);
            memcpy(got + i * n, x, n * sizeof *x);
        }
        golden_compare(g, name, got, want, n_x, TRAJECTORY_LIMIT);
        zoe_solver_free(solver);
        zoe_schedule_free(&schedule);
        zoe_free(got);
    }
    zoe_free(x);
    zoe_free(v);
    zoe_free(want);
}

/* SOLVER.STEPS.SHIFT.x; the shift may have a point of its own. */
static void compare_named(golden *g, const zoe_store *store, const char *name)
{
    char stem[128], v_name[136], *end;
    const size_t length = strlen(name) - strlen(".x"), head = strcspn(name, ".");
    const method *m = method_of(name, head);
    if (!m || length >= sizeof stem) {
        golden_check(g, name, false, "not a known solver");
        return;
    }
    memcpy(stem, name, length);
    stem[length] = '\0';
    snprintf(v_name, sizeof v_name, "%s.v", stem);
    const unsigned long long steps = head < length ? strtoull(stem + head + 1, &end, 10) : 0;
    const double shift = steps > 0 && *end == '.' ? strtod(end + 1, &end) : 0.0;
    if (!(shift > 0.0) || *end != '\0')
        golden_check(g, name, false, "not SOLVER.STEPS.SHIFT.x");
    else
        compare_trajectory(g, store, name, m, (size_t)steps, shift, v_name, name);
}

static void compare_trajectories(golden *g, const char *folder)
{
    zoe_store *store;
    const char *path = golden_path(folder, "trajectories.safetensors");
    golden_must(g, zoe_store_open(g->ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *name = zoe_store_name(store, i);
        const size_t length = strlen(name);
        if (length > 2 && strcmp(name + length - 2, ".x") == 0)
            compare_named(g, store, name);
    }
    zoe_store_close(store);
}

static void compare_random(golden *g, const char *folder)
{
    zoe_store *store;
    const char *path = golden_path(folder, "unipc_random_v.safetensors");
    if (!zoe_file_exists(path))
        return;
    golden_must(g, zoe_store_open(g->ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    zoe_tensor x = zoe_tensor_none();
    const bool there = zoe_store_find(store, "x", &x) && x.rank > 0 && x.shape[0] > 0;
    if (there)
        compare_trajectory(g, store, "unipc_random_v.x", &methods[0], x.shape[0], 5.0, "v", "x");
    else
        golden_check(g, "unipc_random_v.x", false, "not there");
    zoe_store_close(store);
}

int main(int argc, char **argv)
{
    const char *folder = golden_folder(argc, argv);
    golden g = golden_begin();
    compare_schedules(&g, folder);
    compare_trajectories(&g, folder);
    compare_random(&g, folder);
    return golden_end(&g);
}
