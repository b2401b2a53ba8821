/* MT19937 and normals against known values of torch's CPU generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"

static void words_and_uniforms(void **state)
{
    (void)state;
    static const uint32_t words[] = {1608637542u, 3421126067u, 4083286876u, 787846414u,
                                     3143890026u, 3348747335u, 2571218620u, 2563451924u};
    static const float uniforms[] = {0.882269263f, 0.915003955f, 0.38286376f,  0.959305644f,
                                     0.390448213f, 0.600895345f, 0.256572485f, 0.793641329f};
    zoe_random r;
    zoe_random_seed(&r, 42);
    for (size_t i = 0; i < 8; i++) {
        const uint32_t w = zoe_random_word(&r);
        assert_int_equal(w, words[i]);
        assert_true((float)(w & 0xffffffu) * 0x1p-24f == uniforms[i]);
    }
    /* The 10000th word from seed 5489 is the check number of the C++ standard's mt19937. */
    zoe_random_seed(&r, 5489);
    for (size_t i = 0; i < 9999; i++)
        zoe_random_word(&r);
    assert_int_equal(zoe_random_word(&r), 4123659995u);
}

static void first_values(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        size_t n;
        float first[8];
    } rows[] = {
        {42,
         16,
         {1.92691529f, 1.48728406f, 0.900717199f, -2.10552096f, 0.678418458f, -1.23454487f,
          -0.0430674776f, -1.60466695f}},
        {42,
         100,
         {1.92691529f, 1.48728406f, 0.900717199f, -2.10552096f, 0.678418458f, -1.23454487f,
          -0.0430674776f, -1.60466695f}},
        {0,
         16,
         {-1.12583983f, -1.1523602f, -0.250578582f, -0.433878809f, 0.848710358f, 0.692009151f,
          -0.31601277f, -2.11521935f}},
        {1234,
         16,
         {-0.111718565f, -0.496590108f, 0.163073704f, -0.88168776f, 0.0539001934f, 0.668373704f,
          -0.0596576072f, -0.467497945f}},
        {42,
         17,
         {1.92691529f, -0.159597471f, -0.497397542f, 0.439589262f, -0.758131146f, 1.07831764f,
          0.800800562f, 1.68062055f}},
        {42,
         8,
         {0.336690366f, 0.128809407f, 0.234462366f, 0.23033303f, -1.12285638f, -0.186328292f,
          2.20820141f, -0.637997031f}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        float values[100];
        zoe_random r;
        zoe_random_seed(&r, rows[k].seed);
        zoe_random_normal(&r, values, rows[k].n);
        assert_memory_equal(values, rows[k].first, sizeof rows[k].first);
    }
}

static void pairs_are_kept_across_calls(void **state)
{
    (void)state;
    float whole[8], parts[8], block[16];
    zoe_random r;
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, whole, 8);
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, parts, 3);
    zoe_random_normal(&r, parts + 3, 0);
    zoe_random_normal(&r, parts + 3, 5);
    assert_memory_equal(whole, parts, sizeof whole);

    /* A long call in between leaves the kept value alone. */
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, parts, 1);
    zoe_random_normal(&r, block, 16);
    zoe_random_normal(&r, parts + 1, 1);
    assert_memory_equal(whole, parts, 2 * sizeof *whole);

    /* Seeding forgets it. */
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, parts, 1);
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, parts, 1);
    assert_memory_equal(whole, parts, sizeof *whole);
}

static void seeds_count_modulo_two_to_the_32(void **state)
{
    (void)state;
    static const float known[] = {1.842329860f, 0.518887162f, -1.711921334f};
    float a[16], b[16];
    zoe_random r;
    zoe_random_seed(&r, 5);
    zoe_random_normal(&r, a, 16);
    zoe_random_seed(&r, (UINT64_C(1) << 40) + 5);
    zoe_random_normal(&r, b, 16);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(a, known, sizeof known);
}

/* A uniform of exactly 0 gives radius -0; torch adds a mean of 0 and so has no negative zeros. */
static void zeros_are_positive(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {1753191, 2934939, 3109716};
    for (size_t k = 0; k < 3; k++) {
        float values[16];
        size_t zeros = 0;
        zoe_random r;
        zoe_random_seed(&r, seeds[k]);
        zoe_random_normal(&r, values, 16);
        for (size_t i = 0; i < 16; i++) {
            zeros += values[i] == 0.0f;
            assert_true(values[i] != 0.0f || !signbit(values[i]));
        }
        assert_int_equal(zeros, 2);
    }
}

static void a_video_latent(void **state)
{
    (void)state;
    enum { N = 16 * 21 * 60 * 104 };
    static const float middle[] = {-0.752135277f, 1.648723006f,  -0.392478645f, -1.403607130f,
                                   -0.727881312f, -0.559430182f, -0.768838882f, 0.762445390f};
    static const float last[] = {1.162924528f, -0.800113916f, -0.666932881f, 1.653827667f};
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    zoe_random r;
    zoe_random_seed(&r, 42);
    zoe_random_normal(&r, x, N);
    assert_memory_equal(x + 8, middle, sizeof middle);
    assert_memory_equal(x + N - 4, last, sizeof last);
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum - -579.8836715717) < 1e-6);
    assert_true(fabs(squares / N - 0.9998781471) < 1e-9);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_uniforms),
        cmocka_unit_test(first_values),
        cmocka_unit_test(pairs_are_kept_across_calls),
        cmocka_unit_test(seeds_count_modulo_two_to_the_32),
        cmocka_unit_test(zeros_are_positive),
        cmocka_unit_test(a_video_latent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
