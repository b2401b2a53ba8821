/* Attention over a sequence on thread ranks against one rank: Ulysses, the ring in both forms, their
 * product; uneven shares, ranks without tokens or heads, volumes, failures, overlap. */
#include "rank_case.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/trace.h"
#include "op_case.h"

typedef struct sequence_case {
    size_t U, R, tokens, N, D, gap;
    bool stepwise;
    zoe_dtype dtype;
    float scale;
    zoe_tensor o, q, k, v; /* [tokens, N D], of all ranks */
    uint64_t sent[MOST_RANKS], received[MOST_RANKS];
    double seconds[MOST_RANKS];
} sequence_case;

static zoe_tensor heads(zoe_tensor t, zoe_span tokens, size_t N, size_t D)
{
    zoe_tensor h = zoe_tensor_3d((char *)t.data +
                                     tokens.first * (size_t)t.stride[0] * zoe_dtype_bytes(t.dtype),
                                 t.dtype, tokens.count, N, D);
    h.stride[0] = t.stride[0];
    return h;
}

static void case_new(sequence_case *c, float factor)
{
    zoe_tensor *const all[] = {&c->o, &c->q, &c->k, &c->v};
    for (size_t i = 0; i < 4; i++)
        *all[i] = tensor_new(c->dtype, c->tokens, c->N * c->D, c->gap);
    c->scale = factor / sqrtf((float)c->D);
}

static void case_free(const sequence_case *c)
{
    tensor_free(c->o);
    tensor_free(c->q);
    tensor_free(c->k);
    tensor_free(c->v);
}

static zoe_status attend(const sequence_case *c, zoe_context *ctx, zoe_comm *comm,
                         const zoe_sequence *sequence)
{
    const zoe_span tokens = zoe_sequence_tokens(sequence, c->tokens);
    const zoe_place place = zoe_place_of(sequence);
    const zoe_sequence_attention_args a = {.o = heads(c->o, tokens, c->N, c->D),
                                           .q = heads(c->q, tokens, c->N, c->D),
                                           .k = heads(c->k, tokens, c->N, c->D),
                                           .v = heads(c->v, tokens, c->N, c->D),
                                           .tokens = c->tokens,
                                           .scale = c->scale};
    const size_t bytes = zoe_sequence_attention_workspace(ctx, &place, &a), room = bytes + 64;
    zoe_workspace work = {.bytes = bytes};
    double ready = 0.0;
    TRY(zoe_alloc(ctx, &work.data, room, 1, "workspace"));
    memset(work.data, 0xff, room);
    zoe_status status = zoe_comm_sum(ctx, comm, &ready, 1); /* all begin together */
    const double begun = zoe_now();
    const zoe_traffic before = zoe_comm_traffic(comm);
    if (status == ZOE_OK)
        status = zoe_sequence_attention(ctx, sequence, &a, work);
    const zoe_traffic after = zoe_comm_traffic(comm);
    for (size_t i = bytes; i < room && status == ZOE_OK; i++)
        if (((unsigned char *)work.data)[i] != 0xff)
            status = zoe_fail(ctx, ZOE_INTERNAL, "written behind the workspace");
    const uint64_t planned =
        zoe_sequence_attention_sent(&place, c->tokens, c->N, c->D, zoe_dtype_bytes(c->dtype));
    if (status == ZOE_OK && after.sent - before.sent != planned)
        status = zoe_fail(ctx, ZOE_INTERNAL, "%zu bytes sent, planned %zu",
                          (size_t)(after.sent - before.sent), (size_t)planned);
    sequence_case *results = (sequence_case *)(uintptr_t)c;
    results->sent[place.rank] = after.sent - before.sent;
    results->received[place.rank] = after.received - before.received;
    results->seconds[place.rank] = zoe_now() - begun;
    zoe_free(work.data);
    return status;
}

static zoe_status rank_attends(void *user, zoe_context *ctx, zoe_comm *comm)
{
    const sequence_case *c = user;
    zoe_sequence sequence;
    TRY(zoe_sequence_new(ctx, &sequence, comm, c->U, c->R, c->stepwise));
    const zoe_status status = attend(c, ctx, comm, &sequence);
    zoe_sequence_free(&sequence);
    return status;
}

/* What one rank gives, o in this type. Free with tensor_free. */
static zoe_tensor alone(const sequence_case *c, zoe_dtype type)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_span all = {0, c->tokens};
    zoe_tensor o = tensor_new(type, c->tokens, c->N * c->D, 0);
    const zoe_attention_args a = {.o = heads(o, all, c->N, c->D),
                                  .q = heads(c->q, all, c->N, c->D),
                                  .k = heads(c->k, all, c->N, c->D),
                                  .v = heads(c->v, all, c->N, c->D),
                                  .scale = c->scale,
                                  .last_count = 1};
    zoe_workspace work = workspace_new(zoe_attention_workspace(ctx, &a));
    if (c->tokens > 0)
        succeeded(ctx, zoe_attention(ctx, &a, work));
    free(work.data);
    zoe_context_free(ctx);
    return o;
}

static void spoil(zoe_tensor o)
{
    for (size_t i = 0; i < o.shape[0]; i++)
        for (size_t j = 0; j < o.shape[1]; j++)
            put(o, i, j, NAN);
}

/* o against that of one rank: the same bytes, or near it, rounded once. */
static void check_output(const sequence_case *c, zoe_tensor exact, zoe_tensor wide, double limit)
{
    double error = 0.0, size = 0.0;
    assert_gaps_untouched(c->o);
    if (c->R == 1) {
        assert_same_bytes(c->o, exact);
        return;
    }
    const double unit = c->dtype == ZOE_BF16 ? 0x1p-8 : c->dtype == ZOE_F16 ? 0x1p-11 : 0.0;
    for (size_t i = 0; i < c->tokens; i++)
        for (size_t j = 0; j < c->N * c->D; j++) {
            const double got = (double)value_at(c->o, i, j), want = (double)value_at(wide, i, j);
            if (!(fabs(got - want) <= unit * fabs(want) + 10.0 * limit))
                fail_msg("%zu x %zu ranks%s, %zu tokens, %zu heads: got %.9g, wanted %.9g", c->U,
                         c->R, c->stepwise ? " stepwise" : "", c->tokens, c->N, got, want);
            error += (got - want) * (got - want);
            size += want * want;
        }
    if (unit == 0.0 && !(error <= limit * limit * size))
        fail_msg("%zu x %zu ranks%s, %zu tokens, %zu heads: rel L2 %.3g", c->U, c->R,
                 c->stepwise ? " stepwise" : "", c->tokens, c->N, sqrt(error / size));
}

static void check_volume(const sequence_case *c)
{
    uint64_t sent = 0, received = 0;
    for (size_t i = 0; i < c->U * c->R; i++) {
        sent += c->sent[i];
        received += c->received[i];
    }
    assert_int_equal(sent, received);
}

static void every_grid(sequence_case *c, float factor, double limit)
{
    case_new(c, factor);
    const zoe_tensor exact = alone(c, c->dtype), wide = alone(c, ZOE_F32);
    for (c->U = 1; c->U <= 4; c->U++)
        for (c->R = 1; c->R <= 3; c->R++)
            for (int form = 0; form < (c->R > 1 ? 2 : 1) && c->U * c->R <= 8; form++) {
                c->stepwise = form;
                spoil(c->o);
                run_ranks(c->U * c->R, NULL, rank_attends, c, NULL);
                check_output(c, exact, wide, limit);
                check_volume(c);
            }
    tensor_free(exact);
    tensor_free(wide);
    case_free(c);
}

static void every_grid_gives_the_result_of_one_rank(void **state)
{
    static const size_t tokens[] = {0, 1, 2, 7, 31, 100}, N[] = {1, 3, 4, 12};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 4; j++)
            for (size_t type = 0; type < 3; type++) {
                sequence_case c = {.tokens = tokens[i],
                                   .N = N[j],
                                   .D = 5 + pick(12),
                                   .gap = pick(3),
                                   .dtype = float_types[type]};
                if (c.dtype != ZOE_F16 || c.N == 3)
                    every_grid(&c, 1.0f, 1e-6);
            }
}

static void sharp_weights_stay_near(void **state)
{
    static const zoe_dtype types[] = {ZOE_F32, ZOE_BF16};
    (void)state;
    for (size_t type = 0; type < 2; type++) {
        sequence_case c = {.tokens = 67, .N = 3, .D = 16, .dtype = types[type]};
        every_grid(&c, 30.0f, 5e-6);
    }
}

static void a_grid(sequence_case *c)
{
    case_new(c, 1.0f);
    const zoe_tensor exact = alone(c, c->dtype), wide = alone(c, ZOE_F32);
    spoil(c->o);
    run_ranks(c->U * c->R, NULL, rank_attends, c, NULL);
    check_output(c, exact, wide, 1e-6);
    check_volume(c);
    tensor_free(exact);
    tensor_free(wide);
    case_free(c);
}

static void uneven_lengths(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        a_grid(&(sequence_case){
            .U = 1, .R = 8, .tokens = 7, .N = 2, .D = 8, .dtype = ZOE_F32, .stepwise = form});
        a_grid(&(sequence_case){
            .U = 1, .R = 7, .tokens = 1001, .N = 2, .D = 8, .dtype = ZOE_F32, .stepwise = form});
    }
    a_grid(&(sequence_case){.U = 8, .R = 1, .tokens = 7, .N = 3, .D = 8, .dtype = ZOE_F32});
    a_grid(&(sequence_case){.U = 7, .R = 1, .tokens = 1001, .N = 2, .D = 8, .dtype = ZOE_F32});
}

/* Scores of -inf for whole chunks: these have no weight. */
static void chunks_without_weight(void **state)
{
    (void)state;
    for (size_t R = 2; R <= 3; R++)
        for (int form = 0; form < 2; form++)
            for (size_t dead = 0; dead <= R; dead++) { /* chunk `dead`, or all */
                sequence_case c = {.U = 1,
                                   .R = R,
                                   .tokens = 6 * R,
                                   .N = 1,
                                   .D = 4,
                                   .dtype = ZOE_F32,
                                   .stepwise = form};
                case_new(&c, 1.0f);
                for (size_t i = 0; i < c.tokens; i++) {
                    put(c.q, i, 0, 1.0f);
                    if (i / 6 == dead || dead == R)
                        put(c.k, i, 0, -INFINITY);
                }
                const zoe_tensor want = alone(&c, ZOE_F32);
                spoil(c.o);
                run_ranks(R, NULL, rank_attends, &c, NULL);
                check_output(&c, want, want, 1e-6);
                tensor_free(want);
                case_free(&c);
            }
}

static void late_messages_change_no_byte(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        sequence_case c = {
            .U = 2, .R = 4, .tokens = 53, .N = 3, .D = 8, .dtype = ZOE_F32, .stepwise = form};
        case_new(&c, 1.0f);
        run_ranks(8, NULL, rank_attends, &c, NULL);
        const zoe_tensor want = tensor_copy(c.o, 0);
        for (size_t late = 0; late < 8; late += 3) {
            const zoe_fault fault = {.kind = ZOE_FAULT_DELAY, .rank = late, .seconds = 0.003};
            spoil(c.o);
            run_ranks(8, &fault, rank_attends, &c, NULL);
            assert_same_bytes(c.o, want);
        }
        tensor_free(want);
        case_free(&c);
    }
}

static void a_rank_that_fails_ends_all(void **state)
{
    (void)state;
    const zoe_fault_kind kinds[] = {ZOE_FAULT_DEATH, ZOE_FAULT_NOMEM};
    for (int form = 0; form < 2; form++)
        for (size_t kind = 0; kind < 2; kind++)
            for (size_t at = 0; at < 4; at++) {
                sequence_case c = {.U = 2,
                                   .R = 3,
                                   .tokens = 50,
                                   .N = 3,
                                   .D = 8,
                                   .dtype = ZOE_F32,
                                   .stepwise = form};
                const zoe_fault fault = {.kind = kinds[kind], .rank = 4, .exchange = at};
                ranks_result results[6];
                case_new(&c, 1.0f);
                run_ranks(6, &fault, rank_attends, &c, results);
                for (size_t i = 0; i < 6; i++) {
                    /* ranks that were through already need not know */
                    if (results[i].status == ZOE_OK)
                        continue;
                    assert_int_equal(results[i].status, i == 4 && kinds[kind] == ZOE_FAULT_NOMEM
                                                            ? ZOE_NOMEM
                                                            : ZOE_PEER);
                    if (i != 4)
                        assert_non_null(strstr(results[i].message, "rank 4"));
                }
                assert_int_not_equal(results[4].status, ZOE_OK);
                case_free(&c);
            }
}

static void shares_and_volumes(void **state)
{
    enum { L = 31668, P = 7, N = 40, D = 128 };
    (void)state;
    size_t next = 0;
    for (size_t r = 0; r < P; r++) {
        const zoe_place place = {.ulysses = P, .ring = 1, .rank = r};
        const zoe_span mine = zoe_place_tokens(&place, L);
        assert_int_equal(mine.first, next);
        assert_int_equal(mine.count, L / P);
        next += mine.count;
    }
    assert_int_equal(next, L);
    /* 5 of 40 heads for each of 8 ranks: 7 / 8 of q, k, v, o travel */
    const zoe_place eight = {.ulysses = 8, .ring = 1, .rank = 3};
    assert_int_equal(zoe_sequence_attention_sent(&eight, 75600, N, D, 2),
                     4 * 7 * (uint64_t)(75600 / 8) * (N / 8) * D * 2);
    /* both forms of a ring pass all others' keys on */
    for (int form = 0; form < 2; form++) {
        const zoe_place ring = {.ulysses = 1, .ring = 4, .rank = 2, .stepwise = form};
        assert_int_equal(zoe_sequence_attention_sent(&ring, 75600, N, D, 2),
                         2 * 3 * (uint64_t)(75600 / 4) * N * D * 2);
    }
    const zoe_place one = {.ulysses = 1, .ring = 1};
    assert_int_equal(zoe_sequence_attention_sent(&one, 75600, N, D, 2), 0);
    /* chunk 1 of two: two ranks with 7 of 30 tokens each */
    const zoe_place at = {.ulysses = 2, .ring = 2, .rank = 3};
    const zoe_span chunk = zoe_place_chunk(&at, 1, 30);
    assert_int_equal(chunk.first, 16);
    assert_int_equal(chunk.count, 14);
}

static zoe_status wrong_number(void *user, zoe_context *ctx, zoe_comm *comm)
{
    zoe_sequence sequence;
    (void)user;
    return zoe_sequence_new(ctx, &sequence, comm, 2, 2, false);
}

static zoe_status wrong_tokens(void *user, zoe_context *ctx, zoe_comm *comm)
{
    const sequence_case *c = user;
    zoe_sequence sequence;
    TRY(zoe_sequence_new(ctx, &sequence, comm, 2, 1, false));
    const zoe_sequence_attention_args a = {.o = heads(c->o, (zoe_span){0, 4}, 2, 4),
                                           .q = heads(c->q, (zoe_span){0, 3}, 2, 4),
                                           .k = heads(c->k, (zoe_span){0, 4}, 2, 4),
                                           .v = heads(c->v, (zoe_span){0, 4}, 2, 4),
                                           .tokens = 8};
    const zoe_status status = zoe_sequence_attention(ctx, &sequence, &a, (zoe_workspace){0});
    zoe_sequence_free(&sequence);
    return status;
}

static void wrong_arguments_are_refused(void **state)
{
    sequence_case c = {.tokens = 8, .N = 2, .D = 4, .dtype = ZOE_F32};
    ranks_result results[2];
    (void)state;
    case_new(&c, 1.0f);
    run_ranks(2, NULL, wrong_number, &c, results);
    assert_int_equal(results[0].status, ZOE_INVALID);
    assert_non_null(strstr(results[0].message, "2 x 2 ranks wanted, there are 2"));
    run_ranks(2, NULL, wrong_tokens, &c, results);
    assert_int_equal(results[0].status, ZOE_INVALID);
    assert_non_null(strstr(results[0].message, "q is f32 [3, 2, 4], wanted"));
    case_free(&c);
}

/* ---- overlap ---- */

/* What the step of the slower rank takes when messages are so late. */
static double step_seconds(sequence_case *c, double delay)
{
    const zoe_fault fault = {.kind = ZOE_FAULT_DELAY, .rank = SIZE_MAX, .seconds = delay};
    run_ranks(2, delay > 0.0 ? &fault : NULL, rank_attends, c, NULL);
    return fmax(c->seconds[0], c->seconds[1]);
}

/* Best time of attention to one chunk, while another one is attended to beside. */
static zoe_status rank_attends_alone(void *user, zoe_context *ctx, zoe_comm *comm)
{
    sequence_case *c = user;
    sequence_case half = *c;
    const size_t rank = zoe_comm_rank(comm);
    half.tokens = c->tokens / 2;
    c->seconds[rank] = INFINITY;
    for (int i = 0; i < 3; i++) {
        TRY(attend(&half, ctx, NULL, NULL));
        c->seconds[rank] = fmin(c->seconds[rank], half.seconds[0]);
    }
    return ZOE_OK;
}

static void messages_travel_under_local_attention(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        sequence_case c = {
            .U = 1, .R = 2, .tokens = 400, .N = 1, .D = 64, .dtype = ZOE_F32, .stepwise = form};
        double local = 0.0;
        while (local < 0.02 && c.N < 512) { /* long enough to be told from noise, on any machine */
            c.N = local > 0.0 ? c.N * 2 : 1;
            case_new(&c, 1.0f);
            spoil(c.o);
            run_ranks(2, NULL, rank_attends_alone, &c, NULL);
            local = fmin(c.seconds[0], c.seconds[1]);
            case_free(&c);
        }
        case_new(&c, 1.0f);
        const double delay = 0.8 * local;
        double prompt = INFINITY, late = INFINITY;
        /* The best of several; of more while others want the machine as well. */
        for (int i = 0; i < 3 || (i < 30 && !(late - prompt < 0.75 * delay)); i++) {
            prompt = fmin(prompt, step_seconds(&c, 0.0));
            late = fmin(late, step_seconds(&c, delay));
        }
        print_message("local attention %.1f ms, delay %.1f ms: step %.1f ms, without it %.1f ms\n",
                      local * 1e3, delay * 1e3, late * 1e3, prompt * 1e3);
        if (!(late - prompt < 0.75 * delay))
            fail_msg("a delay of %g s lengthens the step from %g to %g s", delay, prompt, late);
        case_free(&c);
    }
}

/* ---- the trace ---- */

typedef struct traced {
    sequence_case c;
    char path[2][40];
} traced;

static zoe_status rank_is_traced(void *user, zoe_context *ctx, zoe_comm *comm)
{
    traced *t = user;
    zoe_trace *trace;
    TRY(zoe_trace_new(ctx, &trace));
    zoe_context_set_trace(ctx, trace);
    zoe_status status = rank_attends(&t->c, ctx, comm);
    zoe_context_set_trace(ctx, NULL);
    if (status == ZOE_OK)
        status = zoe_trace_write(ctx, trace, t->path[zoe_comm_rank(comm)]);
    zoe_trace_free(trace);
    return status;
}

typedef struct interval {
    double begun, ended; /* microseconds */
} interval;

/* Of the first event of this name. */
static interval event_of(const char *text, const char *name)
{
    char wanted[64];
    interval i = {0};
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    const char *at = strstr(text, wanted), *ts = at ? strstr(at, "\"ts\":") : NULL;
    double length = 0.0;
    if (!ts || sscanf(ts, "\"ts\":%lf,\"dur\":%lf", &i.begun, &length) != 2)
        fail_msg("no event %s in %s", name, text);
    i.ended = i.begun + length;
    return i;
}

/* How much of the exchange lies under the attention to what is at hand, of what could. */
static double share_under_attention(const char *path)
{
    zoe_context *ctx = zoe_context_new(1);
    char *text;
    size_t size;
    succeeded(ctx, zoe_file_read(ctx, &text, &size, path, 1 << 20));
    const interval e = event_of(text, "ring k v"), a = event_of(text, "attention local");
    const interval after = event_of(text, "attention remote");
    assert_true(after.begun >= a.ended - 1.0 && after.begun >= e.ended - 1.0);
    zoe_free(text);
    zoe_context_free(ctx);
    return (fmin(e.ended, a.ended) - fmax(e.begun, a.begun)) /
           fmin(e.ended - e.begun, a.ended - a.begun);
}

static void the_trace_shows_the_exchange_under_local_attention(void **state)
{
    const zoe_fault fault = {.kind = ZOE_FAULT_DELAY, .rank = SIZE_MAX, .seconds = 0.002};
    double least = 0.0;
    (void)state;
    traced t = {.c = {.U = 1, .R = 2, .tokens = 800, .N = 6, .D = 64, .dtype = ZOE_F32}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(t.path[i], sizeof t.path[i], "/tmp/zoe-sequence-XXXXXX");
        const int fd = mkstemp(t.path[i]);
        assert_true(fd >= 0);
        close(fd);
    }
    case_new(&t.c, 1.0f);
    for (int i = 0; i < 20 && least < 0.8; i++) { /* again where others took the processor */
        run_ranks(2, &fault, rank_is_traced, &t, NULL);
        least = fmin(share_under_attention(t.path[0]), share_under_attention(t.path[1]));
    }
    if (!(least >= 0.8))
        fail_msg("of the exchange, %g is under the local attention", least);
    case_free(&t.c);
    for (size_t i = 0; i < 2; i++)
        unlink(t.path[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_grid_gives_the_result_of_one_rank),
        cmocka_unit_test(sharp_weights_stay_near),
        cmocka_unit_test(uneven_lengths),
        cmocka_unit_test(chunks_without_weight),
        cmocka_unit_test(late_messages_change_no_byte),
        cmocka_unit_test(a_rank_that_fails_ends_all),
        cmocka_unit_test(shares_and_volumes),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(messages_travel_under_local_attention),
        cmocka_unit_test(the_trace_shows_the_exchange_under_local_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
