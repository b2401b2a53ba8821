/* VAE patches on ranks: the grid, the bytes of a single rank with every grid, and the traffic that
 * plans tell. Ranks are threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "model_vae_case.h"

enum { RANKS = 8, NAMES = 64 };

/* ---- the grid ---- */

static void check_grid(size_t ranks, size_t h, size_t w, size_t rows, size_t columns)
{
    const zoe_vae_grid g = zoe_vae_grid_choose(ranks, h, w);
    if (g.rows != rows || g.columns != columns)
        fail_msg("%zu ranks on %zu x %zu: found %zu x %zu, wanted %zu x %zu", ranks, h, w, g.rows,
                 g.columns, rows, columns);
}

static void chooses_a_grid(void **state)
{
    (void)state;
    check_grid(1, 60, 104, 1, 1);
    check_grid(2, 60, 104, 1, 2); /* the shorter border */
    check_grid(4, 60, 104, 2, 2);
    check_grid(8, 60, 104, 2, 4);
    check_grid(5, 60, 104, 5, 1); /* 12 x 104 is less than 60 x 22 */
    check_grid(6, 60, 104, 3, 2);
    check_grid(7, 60, 104, 1, 7); /* 60 x 16 is less than 20 x 52 */
    check_grid(2, 8, 8, 2, 1);    /* equal borders: more rows */
    check_grid(8, 2, 2, 1, 1);    /* more ranks than patches */
    check_grid(8, 3, 2, 2, 1);
    check_grid(1024, 90, 160, 23, 40);
    check_grid(SIZE_MAX, 4, 6, 2, 3);
}

/* The best of all grids by the rule, tried one by one, and every position in one patch. */
static void grids_follow_the_rule(void **state)
{
    (void)state;
    for (size_t h = 1; h < 20; h += 3)
        for (size_t w = 1; w < 24; w += 5)
            for (size_t ranks = 1; ranks <= 24; ranks++) {
                const zoe_vae_grid g = zoe_vae_grid_choose(ranks, h, w);
                size_t largest = 0, least = SIZE_MAX, sum = 0;
                assert_true(g.rows * g.columns >= 1 && g.rows * g.columns <= ranks);
                for (size_t i = 0; i < g.rows * g.columns; i++) {
                    const zoe_span r = zoe_vae_grid_share(h, g.rows, i / g.columns);
                    const zoe_span c = zoe_vae_grid_share(w, g.columns, i % g.columns);
                    assert_true(r.count > 0 && c.count > 0);
                    assert_int_equal(r.first % 2 + c.first % 2, 0);
                    if (r.count * c.count > largest)
                        largest = r.count * c.count;
                    sum += r.count * c.count;
                }
                assert_int_equal(sum, h * w);
                for (size_t rows = 1; rows <= ranks && 2 * rows <= h + 1; rows++)
                    for (size_t cols = 1; rows * cols <= ranks && 2 * cols <= w + 1; cols++) {
                        const size_t area = zoe_vae_grid_share(h, rows, 0).count *
                                            zoe_vae_grid_share(w, cols, 0).count;
                        least = area < least ? area : least;
                    }
                assert_int_equal(largest, least);
            }
}

/* Patches of the reference (golden data: vae_grid.json), which cuts at single positions: ours of an
 * axis twice as long are twice theirs. */
static void cuts_as_the_reference_does(void **state)
{
    static const struct {
        size_t n, parts, sizes[5];
    } rows[] = {
        {104, 3, {35, 35, 34}}, {60, 4, {15, 15, 15, 15}}, {104, 4, {26, 26, 26, 26}},
        {60, 3, {20, 20, 20}},  {7, 3, {3, 2, 2}},         {8, 3, {3, 3, 2}},
        {9, 2, {5, 4}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t part = 0, first = 0; part < rows[i].parts; part++) {
            const zoe_span s = zoe_vae_grid_share(2 * rows[i].n, rows[i].parts, part);
            assert_int_equal(s.first, first);
            assert_int_equal(s.count, 2 * rows[i].sizes[part]);
            first += s.count;
        }
    assert_int_equal(zoe_vae_grid_share(7, 4, 3).first, 6); /* the odd one is the last */
    assert_int_equal(zoe_vae_grid_share(7, 4, 3).count, 1);
}

/* ---- one clip, on some ranks ---- */

typedef struct clip {
    const char *path; /* of the VAE */
    size_t h, w, F;
    bool probed;
    size_t ranks;
    zoe_vae_grid grid; /* no rows: as it chooses */
    enum {
        GOOD,
        BAD_SOURCE,
        BAD_SINK
    } trouble; /* with the last frame on rank 1; with the first on rank 0 */
    zoe_fault fault;
} clip;

/* What comes of it. */
typedef struct result {
    zoe_status status;
    char message[256];
    float *latent, *frames;
    size_t n_latent, n_frames; /* floats */
    size_t taken, patches;
    zoe_traffic traffic[2]; /* of encoding and decoding */
    zoe_vae_need need[2];
    uint32_t seen[NAMES]; /* sums of what the probe saw, by call */
    size_t calls;
} result;

typedef struct rank {
    const clip *clip;
    zoe_context *ctx;
    zoe_world *world;
    size_t number;
    size_t stride;
    result r;
} rank;

/* Frames of any kind, the same whenever they are asked for. */
static zoe_status make_frame(void *user, float *frame, size_t index)
{
    const rank *k = user;
    const size_t n = 3 * k->clip->h * k->clip->w * k->stride * k->stride;
    if (k->clip->trouble == BAD_SOURCE && k->number == 1 && index + 1 == k->clip->F)
        return zoe_fail(k->ctx, ZOE_IO, "no more frames");
    for (size_t i = 0; i < n; i++)
        frame[i] = (float)((i * 2654435761u + index * 40503u) % 2003u) / 1001.0f - 1.0f;
    return ZOE_OK;
}

static zoe_status take_frames(void *user, const float *frames, size_t index, size_t count)
{
    rank *k = user;
    const size_t n = k->r.n_frames / k->clip->F;
    if (k->number > 0 || index != k->r.taken || index + count > k->clip->F)
        return ZOE_INTERNAL;
    if (k->clip->trouble == BAD_SINK)
        return zoe_fail(k->ctx, ZOE_IO, "no more room");
    memcpy(k->r.frames + index * n, frames, count * n * sizeof *frames);
    k->r.taken += count;
    return ZOE_OK;
}

static void see(void *user, const char *name, zoe_tensor value)
{
    rank *k = user;
    uint32_t sum = 2166136261u;
    for (const char *p = name; *p; p++)
        sum = (sum ^ (unsigned char)*p) * 16777619u;
    for (size_t t = 0; t < value.shape[0]; t++) {
        const float *frame = (const float *)value.data + (ptrdiff_t)t * value.stride[0];
        for (size_t i = 0; i < value.shape[1] * value.shape[2] * value.shape[3]; i++)
            sum = (sum ^ zoe_bits_of_f32(frame[i])) * 16777619u;
    }
    k->r.seen[k->r.calls++ % NAMES] += sum;
}

static zoe_traffic since(const zoe_comm *comm, zoe_traffic before)
{
    const zoe_traffic now = zoe_comm_traffic(comm);
    return (zoe_traffic){now.sent - before.sent, now.received - before.received,
                         now.exchanges - before.exchanges};
}

static zoe_status run_vae(zoe_context *ctx, zoe_vae *vae, rank *k, zoe_comm *comm)
{
    const clip *c = k->clip;
    result *r = &k->r;
    const size_t f = (c->F - 1) / 4 + 1, side = k->stride = zoe_vae_stride(vae);
    const size_t patches = c->grid.rows ? c->grid.rows * c->grid.columns : c->ranks;
    const zoe_probe probe = {see, k};
    void *p;
    r->n_latent = zoe_vae_channels(vae) * f * c->h * c->w;
    r->n_frames = 3 * c->F * c->h * c->w * side * side;
    TRY(zoe_alloc_zero(ctx, &p, 2 * r->n_latent + r->n_frames, sizeof(float), "test"));
    r->latent = p;
    r->frames = r->latent + r->n_latent;
    float *noise = r->frames + r->n_frames;
    for (size_t i = 0; i < r->n_latent; i++)
        noise[i] = (float)(i * 2654435761u % 1999u) / 999.0f - 1.0f;
    TRY(zoe_vae_set_ranks(ctx, vae, comm, 0));
    if (c->grid.rows)
        TRY(zoe_vae_set_grid(ctx, vae, c->grid));
    const zoe_traffic before = zoe_comm_traffic(comm);
    TRY(zoe_vae_encode(ctx, vae, r->latent, c->F, c->h * side, c->w * side, make_frame, k, NULL,
                       c->probed ? &probe : NULL));
    r->traffic[0] = since(comm, before);
    const zoe_traffic between = zoe_comm_traffic(comm);
    TRY(zoe_vae_decode(ctx, vae, noise, f, c->h, c->w, take_frames, k, NULL,
                       c->probed ? &probe : NULL));
    r->traffic[1] = since(comm, between);
    if (c->grid.rows) /* plans choose the grid */
        return ZOE_OK;
    r->need[0] =
        zoe_vae_encode_need(ctx, vae, c->F, c->h * side, c->w * side, c->ranks, patches, k->number);
    r->need[1] = zoe_vae_decode_need(ctx, vae, f, c->h, c->w, c->ranks, patches, k->number);
    const bool same =
        zoe_vae_encode_bytes(ctx, vae, c->F, c->h * side, c->w * side) == r->need[0].bytes &&
        zoe_vae_decode_bytes(ctx, vae, f, c->h, c->w) == r->need[1].bytes;
    return same ? ZOE_OK : zoe_fail(ctx, ZOE_INTERNAL, "bytes differ from those of the plan");
}

static void *run_rank(void *arg)
{
    rank *k = arg;
    zoe_context *ctx = k->ctx = zoe_context_new(1);
    zoe_comm *comm = k->world ? zoe_world_comm(k->world, k->number) : NULL;
    zoe_store *store = NULL;
    zoe_vae *vae = NULL;
    zoe_status status;
    TRY_GOTO(zoe_store_open(ctx, &store, k->clip->path, ZOE_NAMES_WAN_VAE));
    TRY_GOTO(zoe_vae_open(ctx, &vae, store));
    status = run_vae(ctx, vae, k, comm);
done:
    k->r.status = status;
    snprintf(k->r.message, sizeof k->r.message, "%s", zoe_context_message(ctx));
    zoe_vae_close(vae);
    zoe_store_close(store);
    zoe_context_free(ctx);
    return NULL;
}

/* All ranks; results[ranks] are to be freed. */
static void run_clip(const clip *c, result *results)
{
    static rank ranks[RANKS];
    pthread_t threads[RANKS];
    zoe_context *ctx = zoe_context_new(1);
    zoe_world *world = NULL;
    if (c->ranks > 1)
        assert_int_equal(zoe_world_new(ctx, &world, c->ranks), ZOE_OK);
    if (world)
        zoe_world_set_fault(world, &c->fault);
    for (size_t i = 0; i < c->ranks; i++) {
        ranks[i] = (rank){.clip = c, .world = world, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (size_t i = 0; i < c->ranks; i++) {
        pthread_join(threads[i], NULL);
        results[i] = ranks[i].r;
    }
    zoe_world_free(world);
    zoe_context_free(ctx);
}

static void check_rank(const clip *c, const result *r, const result *one, size_t i)
{
    char where[128];
    snprintf(where, sizeof where,
             "latent frames of %zu x %zu, %zu of them, rank %zu of %zu (%zu x "
             "%zu)",
             c->h, c->w, (c->F + 3) / 4, i, c->ranks, c->grid.rows, c->grid.columns);
    if (r->status != ZOE_OK)
        fail_msg("%s: %s", where, r->message);
    if (memcmp(r->latent, one->latent, one->n_latent * sizeof(float)) != 0)
        fail_msg("%s: another latent than that of one rank", where);
    if (i == 0 && memcmp(r->frames, one->frames, one->n_frames * sizeof(float)) != 0)
        fail_msg("%s: other frames than those of one rank", where);
    if (r->taken != (i ? 0 : c->F))
        fail_msg("%s: got %zu frames", where, r->taken);
    if (i == 0 && c->probed &&
        (r->calls != one->calls || memcmp(r->seen, one->seen, sizeof r->seen) != 0))
        fail_msg("%s: the probe saw something else, or not as often", where);
    for (size_t way = 0; way < 2 && !c->grid.rows && !c->probed; way++) {
        const zoe_traffic is = r->traffic[way], want = r->need[way].traffic;
        if (is.sent != want.sent || is.received != want.received || is.exchanges != want.exchanges)
            fail_msg("%s, %s: sent %zu of %zu bytes, received %zu of %zu, %zu exchanges of %zu",
                     where, way ? "decoding" : "encoding", (size_t)is.sent, (size_t)want.sent,
                     (size_t)is.received, (size_t)want.received, (size_t)is.exchanges,
                     (size_t)want.exchanges);
    }
}

static void check_clip(const clip *c, const result *one)
{
    static result results[RANKS];
    run_clip(c, results);
    for (size_t i = 0; i < c->ranks; i++) {
        check_rank(c, &results[i], one, i);
        zoe_free(results[i].latent);
    }
}

static result run_alone(clip c)
{
    result one;
    c.ranks = 1;
    c.grid = (zoe_vae_grid){0, 0};
    run_clip(&c, &one);
    if (one.status != ZOE_OK)
        fail_msg("one rank: %s", one.message);
    return one;
}

/* Every grid for these frames on up to RANKS ranks. */
static void check_grids(clip c)
{
    const result one = run_alone(c);
    for (size_t rows = 1; 2 * rows <= c.h + 1; rows++)
        for (size_t columns = 1; 2 * columns <= c.w + 1; columns++) {
            c.grid = (zoe_vae_grid){rows, columns};
            c.ranks = rows * columns;
            if (c.ranks > 1 && c.ranks <= RANKS)
                check_clip(&c, &one);
        }
    zoe_free(one.latent);
}

/* What is chosen for 1 to RANKS ranks. */
static void check_choices(clip c)
{
    const result one = run_alone(c);
    for (c.ranks = 2; c.ranks <= RANKS; c.ranks++)
        check_clip(&c, &one);
    zoe_free(one.latent);
}

static char folder[] = "/tmp/zoe-vae-XXXXXX", paths[2][64];

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/wan2%zu.safetensors", folder, i + 1);
        if (!vae_case_write(paths[i], i == 1))
            return -1;
    }
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(paths[0]) + unlink(paths[1]) + rmdir(folder);
}

static void all_grids_wan21(void **state)
{
    (void)state;
    check_grids((clip){.path = paths[0], .h = 7, .w = 6, .F = 9});
}

static void all_grids_wan22(void **state)
{
    (void)state;
    check_grids((clip){.path = paths[1], .h = 5, .w = 3, .F = 9});
}

static void strips(void **state)
{
    (void)state;
    check_grids((clip){.path = paths[0], .h = 15, .w = 2, .F = 1});
    check_grids((clip){.path = paths[0], .h = 1, .w = 16, .F = 1});
    check_grids((clip){.path = paths[1], .h = 1, .w = 13, .F = 1});
}

/* Frames that are large enough for Winograd's way at every level: its squares must lie as in the whole
 * frame. */
static void squares(void **state)
{
    static const zoe_vae_grid grids[] = {{1, 3}, {3, 1}, {3, 2}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        clip c = {.path = paths[i], .h = 16 + i, .w = 17 - i, .F = 1};
        const result one = run_alone(c);
        for (size_t k = 0; k < sizeof grids / sizeof *grids; k++) {
            c.grid = grids[k];
            c.ranks = c.grid.rows * c.grid.columns;
            check_clip(&c, &one);
        }
        zoe_free(one.latent);
    }
}

/* Also more ranks than patches, and the traffic. */
static void chosen_grids(void **state)
{
    (void)state;
    check_choices((clip){.path = paths[0], .h = 5, .w = 3, .F = 9});
    check_choices((clip){.path = paths[1], .h = 3, .w = 3, .F = 5});
    check_choices((clip){.path = paths[0], .h = 4, .w = 4, .F = 1});
}

static void probes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        clip c = {.path = paths[i], .h = 3, .w = 4, .F = 5, .probed = true};
        const result one = run_alone(c);
        assert_true(one.calls > 20);
        c.ranks = 5;
        check_clip(&c, &one);
        zoe_free(one.latent);
    }
}

/* ---- failures ---- */

/* All ranks end with an error that says what happened where. */
static void check_failure(const clip *c, const char *words)
{
    static result results[RANKS];
    run_clip(c, results);
    for (size_t i = 0; i < c->ranks; i++) {
        if (results[i].status == ZOE_OK || !strstr(results[i].message, words))
            fail_msg("rank %zu: %s: \"%s\" is not in: %s", i, zoe_status_name(results[i].status),
                     words, results[i].message);
        zoe_free(results[i].latent);
    }
}

static void failures_end_all(void **state)
{
    clip c = {.path = paths[0], .h = 4, .w = 3, .F = 5, .ranks = 4};
    (void)state;
    c.trouble = BAD_SOURCE;
    check_failure(&c, "no more frames");
    c.trouble = BAD_SINK;
    c.F = 13; /* others still compute when the first frames are refused */
    check_failure(&c, "no more room");
    c.F = 5;
    c.trouble = GOOD;
    c.fault = (zoe_fault){.kind = ZOE_FAULT_NOMEM};
    for (c.fault.exchange = 0; c.fault.exchange < 60; c.fault.exchange += 7) {
        c.fault.rank = c.fault.exchange % 4;
        check_failure(&c, "no memory");
    }
    c.fault = (zoe_fault){.kind = ZOE_FAULT_DEATH, .rank = 2, .exchange = 11};
    check_failure(&c, "rank");
}

static void delays_change_nothing(void **state)
{
    clip c = {.path = paths[1], .h = 3, .w = 4, .F = 5};
    const result one = run_alone(c);
    (void)state;
    c.ranks = 4;
    c.fault = (zoe_fault){.kind = ZOE_FAULT_DELAY, .rank = 1, .exchange = 20, .seconds = 0.001};
    check_clip(&c, &one);
    zoe_free(one.latent);
}

static void refuses_what_cannot_be(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_world *world;
    zoe_store *store;
    zoe_vae *vae;
    float latent = 0.0f;
    (void)state;
    assert_int_equal(zoe_world_new(ctx, &world, 2), ZOE_OK);
    zoe_comm *comm = zoe_world_comm(world, 0);
    assert_int_equal(zoe_store_open(ctx, &store, paths[0], ZOE_NAMES_WAN_VAE), ZOE_OK);
    assert_int_equal(zoe_vae_open(ctx, &vae, store), ZOE_OK);
    assert_int_equal(zoe_vae_set_grid(ctx, vae, (zoe_vae_grid){1, 2}), ZOE_INVALID);
    assert_int_equal(zoe_vae_set_band(ctx, vae, 16), ZOE_OK);
    assert_int_equal(zoe_vae_set_ranks(ctx, vae, comm, 0), ZOE_INVALID);
    assert_int_equal(zoe_vae_set_band(ctx, vae, 0), ZOE_OK);
    assert_int_equal(zoe_vae_set_ranks(ctx, vae, comm, 0), ZOE_OK);
    assert_int_equal(zoe_vae_set_band(ctx, vae, 16), ZOE_INVALID);
    assert_int_equal(zoe_vae_set_grid(ctx, vae, (zoe_vae_grid){0, 2}), ZOE_INVALID);
    assert_int_equal(zoe_vae_set_grid(ctx, vae, (zoe_vae_grid){SIZE_MAX, 2}), ZOE_INVALID);
    assert_int_equal(zoe_vae_set_grid(ctx, vae, (zoe_vae_grid){2, 1}), ZOE_OK);
    /* Two rows of patches want more than two rows. */
    assert_int_equal(zoe_vae_decode(ctx, vae, &latent, 1, 2, 1, NULL, NULL, NULL, NULL),
                     ZOE_INVALID);
    zoe_vae_close(vae);
    zoe_store_close(store);
    zoe_world_free(world);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_a_grid),
        cmocka_unit_test(grids_follow_the_rule),
        cmocka_unit_test(cuts_as_the_reference_does),
        cmocka_unit_test(all_grids_wan21),
        cmocka_unit_test(all_grids_wan22),
        cmocka_unit_test(strips),
        cmocka_unit_test(squares),
        cmocka_unit_test(chosen_grids),
        cmocka_unit_test(probes),
        cmocka_unit_test(failures_end_all),
        cmocka_unit_test(delays_change_nothing),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
