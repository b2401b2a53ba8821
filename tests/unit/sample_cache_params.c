/* Step caches: keys and values, as files and command lines have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sample/cache.h"

static int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

static zoe_cache_params parsed(zoe_context *ctx, const char *text)
{
    zoe_cache_params p;
    if (zoe_cache_params_parse(ctx, &p, text) != ZOE_OK)
        fail_msg("%s: %s", text, zoe_context_message(ctx));
    return p;
}

static void refused(zoe_context *ctx, const char *text, const char *word)
{
    zoe_cache_params p;
    assert_int_equal(zoe_cache_params_parse(ctx, &p, text), ZOE_INVALID);
    if (!strstr(zoe_context_message(ctx), word))
        fail_msg("%s: \"%s\" does not name %s", text, zoe_context_message(ctx), word);
    zoe_context_clear(ctx);
}

/* The section dit_cache: of the seed's YAML files: same keys, same defaults. */
static void seed_keys_and_defaults(void **state)
{
    static const double seed[] = {733.226126, -401.131952, 67.5869174, -3.149879, 0.0961237896};
    zoe_cache_params p = parsed(*state, "FBCache");
    assert_true(p.threshold == 0.05 && p.separate && p.joint && p.store == ZOE_F32);
    assert_int_equal(p.warmup, 1);
    assert_int_equal(p.cooldown, 1);
    assert_int_equal(p.max_skips, 3);
    p = parsed(*state, "TeaCache");
    assert_true(p.threshold == 0.15);
    assert_int_equal(p.warmup, 2);
    assert_int_equal(p.coefficient_count, 5);
    assert_memory_equal(p.coefficients, seed, sizeof seed);
    p = parsed(*state, "TaylorSeer");
    assert_int_equal(p.order, 3);
    assert_int_equal(p.interval, 4);
    assert_int_equal(p.warmup, 3);
    assert_int_equal(p.cooldown, 1);
    p = parsed(*state, "NoCache,enable_separate_cfg=true,cache_name=NoCache");
    assert_int_equal(p.method, ZOE_CACHE_NONE);
    const zoe_cache_setting all[] = {{"cache_name", "TaylorSeer", "1"}, {"n_derivatives", "2", "2"},
                                     {"skip_interval_steps", "3", "3"}, {"warmup", "4", NULL},
                                     {"cutoff_steps", "2", NULL},       {"offload", "true", NULL}};
    assert_int_equal(zoe_cache_params_set(*state, &p, "TaylorSeer", all, 6), ZOE_OK);
    assert_true(p.order == 2 && p.interval == 3 && p.warmup == 4 && p.cooldown == 2);
    p = parsed(*state, "TeaCache,rel_l1_thresh=0.1,coefficients=[733.226126, -401.131952, "
                       "67.5869174, -3.149879, 0.0961237896],warmup=2,latent=latent,"
                       "judge_input=modulated_inp");
    assert_true(p.threshold == 0.1 && p.judge == ZOE_CACHE_JUDGE_MODULATED);
    assert_memory_equal(p.coefficients, seed, sizeof seed);
}

/* A rule changes defaults, wherever it stands, and nothing that is given. */
static void rule_comes_first(void **state)
{
    const zoe_cache_params a = parsed(*state, "FBCache,rel_l1_thresh=0.3,rule=recipe,max_skips=7");
    const zoe_cache_params b = parsed(*state, "fbcache,rule=recipe,max_skips=7,rel_l1_thresh=0.3");
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.threshold == 0.3 && a.judge == ZOE_CACHE_JUDGE_HIDDEN && !a.joint);
    assert_int_equal(a.max_skips, 7);
    assert_int_equal(a.warmup, 0);
    refused(*state, "FBCache,rule=official", "rule");
    refused(*state, "FBCache,rule=mine", "paraattention");
}

static void published_tables_by_name(void **state)
{
    zoe_cache_params p = parsed(*state, "MagCache,mag_ratios=i2v_A14B");
    assert_int_equal(p.ratio_count, 80);
    assert_true(p.ratios[0] == 1.0 && p.ratios[1] == 1.0 && p.ratios[2] != 1.0);
    p = parsed(*state, "MagCache,mag_ratios=ti2v_5B_image");
    assert_int_equal(p.ratio_count, 100);
    p = parsed(*state, "TeaCache,judge=projection,coefficients=wan2.1-i2v-720p");
    assert_int_equal(p.judge, ZOE_CACHE_JUDGE_PROJECTION);
    p = parsed(*state, "TeaCache,coefficients=wan2.1-i2v-720p");
    assert_int_equal(p.judge, ZOE_CACHE_JUDGE_EMBEDDING);
    p = parsed(*state, "TeaCache,coefficients=wan2.2-ti2v-5b");
    assert_int_equal(p.coefficient_count, 6);
    refused(*state, "TeaCache,coefficients=wan2.2-a14b", "wan2.1-i2v-480p");
    refused(*state, "MagCache,mag_ratios=other", "i2v_A14B");
}

/* Of one name the last mention counts. */
static void two_names_of_one_key_are_refused(void **state)
{
    static const zoe_cache_setting twice[] = {{"rel_l1_thresh", "0.1", "x.yaml:4:3"},
                                              {"residual_diff_threshold", "0.2", "x.yaml:5:3"}};
    zoe_cache_params p;
    assert_int_equal(zoe_cache_params_set(*state, &p, "FBCache", twice, 2), ZOE_INVALID);
    assert_string_equal(zoe_context_message(*state),
                        "x.yaml:5:3: FBCache: rel_l1_thresh and residual_diff_threshold are two "
                        "names of one setting; give one of them");
    zoe_context_clear(*state);
    refused(*state, "FBCache,threshold=0.1,rel_l1_thresh=0.1", "threshold and rel_l1_thresh");
    refused(*state, "EasyCache,thresh=0.1,threshold=0.1", "thresh and threshold");
    refused(*state, "FBCache,warmup_steps=2,warmup=2", "warmup_steps and warmup");
    refused(*state, "FBCache,calibrator=foca,enable_taylorseer=true",
            "calibrator and enable_taylorseer");
    refused(*state, "FBCache,calibrator=taylorseer,n_derivatives=1,taylorseer_order=1",
            "n_derivatives and taylorseer_order");
    refused(*state, "TaylorSeer,cutoff_steps=1,disable_cache_after_step=1",
            "cutoff_steps and disable_cache_after_step");
    refused(*state, "DBCache,max_skips=1,max_continuous_cached_steps=1",
            "max_skips and max_continuous_cached_steps");
    refused(*state, "MagCache,mag_ratios=i2v_A14B,K=1,max_skip_steps=1", "K and max_skip_steps");
    assert_float_equal(parsed(*state, "FBCache,threshold=0.1,threshold=0.3").threshold, 0.3, 1e-9);
    parsed(*state, "FBCache,rule=recipe,rule=recipe");
    /* What is read by nobody contradicts nothing, and the kinds without a place are several. */
    parsed(*state, "TeaCache,latent=x,judge_input=x,cache_name=x,use_ret_steps=true,store=bf16,"
                   "coefficients=[1,0]");
}

static void mistakes_are_named(void **state)
{
    static const zoe_cache_setting unknown[] = {{"rel_l1_tresh", "0.1", "x.yaml:17:3"}};
    zoe_cache_params p;
    assert_int_equal(zoe_cache_params_set(*state, &p, "FBCache", unknown, 1), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(*state), "x.yaml:17:3: FBCache has no key"));
    assert_non_null(strstr(zoe_context_message(*state), "rel_l1_tresh"));
    assert_non_null(strstr(zoe_context_message(*state), "rel_l1_thresh"));
    zoe_context_clear(*state);
    refused(*state, "", "FBCache");
    refused(*state, "XCache", "MagCache");
    refused(*state, "FBCache,", "key=value");
    refused(*state, "FBCache,=3", "key=value");
    refused(*state, "FBCache,rel_l1_thresh", "key=value");
    refused(*state, "FBCache,rel_l1_thresh=", "number");
    refused(*state, "FBCache,rel_l1_thresh=-0.1", "number");
    refused(*state, "FBCache,rel_l1_thresh=nan", "number");
    refused(*state, "FBCache,rel_l1_thresh=1e999", "number");
    refused(*state, "FBCache,rel_l1_thresh= 1", "number");
    refused(*state, "FBCache,rel_l1_thresh=0.1x", "number");
    refused(*state, "FBCache,warmup=1.5", "whole");
    refused(*state, "FBCache,warmup=-1", "whole");
    refused(*state, "FBCache,warmup=1e30", "whole");
    refused(*state, "FBCache,enable_separate_cfg=yes", "true or false");
    refused(*state, "FBCache,store=f8", "bf16");
    refused(*state, "FBCache,Fn_compute_blocks=2", "Fn_compute_blocks");
    refused(*state, "FBCache,n_derivatives=2", "calibrator");
    refused(*state, "TaylorSeer,n_derivatives=9", "n_derivatives");
    refused(*state, "TaylorSeer,skip_interval_steps=0", "skip_interval_steps");
    refused(*state, "TeaCache,coefficients=[]", "list");
    refused(*state, "TeaCache,coefficients=[1", "list");
    refused(*state, "TeaCache,coefficients=[1,]", "list");
    refused(*state, "TeaCache,coefficients=[1]x", "list");
    refused(*state, "TeaCache,coefficients=[1,2,3,4,5,6,7,8,9]", "list");
    refused(*state, "DBCache,steps_computation_mask=[0,2]", "list");
    char text[4000] = "FBCache";
    for (size_t i = 0; i < 200; i++)
        strcat(text, ",warmup=1");
    refused(*state, text, "settings");
}

static void limits_and_lists(void **state)
{
    zoe_cache_params p = parsed(*state, "DBCache,max_cached_steps=-1,max_continuous_cached_steps=5,"
                                        "steps_computation_mask=[ 1, 0,1 ],"
                                        "steps_computation_policy=static,calibrator=taylorseer");
    assert_true(p.max_cached == SIZE_MAX && p.max_skips == 5 && p.order == 1);
    assert_true(p.mask_count == 3 && p.mask[0] == 1 && p.mask[1] == 0 && p.mask_static);
    p = parsed(*state, "FBCache,max_skips=none");
    assert_true(p.max_skips == SIZE_MAX);
    p = parsed(*state, "TeaCache,rule=official,coefficients=[1e3,-2],use_ret_steps=true");
    assert_true(p.warmup == 5 && p.cooldown == 0 && p.judge == ZOE_CACHE_JUDGE_PROJECTION);
}

static void settings_that_do_not_suit(void **state)
{
    static const char *const texts[] = {
        "DBCache",                                         /* 8 of 5 blocks */
        "DBCache,Fn_compute_blocks=3,Bn_compute_blocks=3", /* 6 of 5 blocks */
        "DBCache,Fn_compute_blocks=1,warmup_interval=2",   /* leaves warm-up steps out */
        "FBCache,enable_separate_cfg=false",               /* one state for two prompts */
        "FBCache,judge=embedding",
        "TeaCache,judge=residual",
        "MagCache",
        "MagCache,mag_ratios=[1,1,1]",
        "TeaCache,rule=official"};
    const zoe_cache_shape shape = {
        .steps = 20, .high_steps = 8, .tokens = 2, .width = 2, .blocks = 5, .latent = 4};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const zoe_cache_params p = parsed(*state, texts[i]);
        zoe_cache *c;
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_INVALID);
        assert_true(strlen(zoe_context_message(*state)) > 30);
        zoe_context_clear(*state);
    }
    const zoe_cache_params p = parsed(*state, "DBCache,Fn_compute_blocks=3,Bn_compute_blocks=2");
    zoe_cache *c;
    assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
    zoe_cache_free(c);
}

/* A host may fill the structure without the keys. */
static void fields_out_of_range(void **state)
{
    const zoe_cache_shape shape = {
        .steps = 20, .high_steps = 8, .tokens = 2, .width = 2, .blocks = 5, .latent = 4};
    const zoe_cache_params good = parsed(*state, "FBCache");
    for (size_t k = 0; k < 8; k++) {
        zoe_cache_params p = good;
        if (k == 0)
            memset(&p.method, 0xff, sizeof p.method);
        if (k == 1)
            p.order = ZOE_CACHE_ORDER + 1;
        if (k == 2)
            p.downsample = 0;
        if (k == 3)
            p.threshold = (double)NAN;
        if (k == 4)
            p.store = ZOE_F64;
        if (k == 5)
            p.coefficient_count = ZOE_CACHE_COEFFICIENTS + 1;
        if (k == 6)
            p.mask_count = SIZE_MAX;
        if (k == 7)
            memset(&p, 0, sizeof p); /* that is NoCache, but not from zoe_cache_params_init */
        assert_int_equal(zoe_cache_check(*state, &p, &shape), ZOE_INVALID);
        zoe_context_clear(*state);
    }
    assert_int_equal(zoe_cache_check(*state, &good, &shape), ZOE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_keys_and_defaults),
        cmocka_unit_test(rule_comes_first),
        cmocka_unit_test(published_tables_by_name),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(limits_and_lists),
        cmocka_unit_test(settings_that_do_not_suit),
        cmocka_unit_test(fields_out_of_range),
        cmocka_unit_test(two_names_of_one_key_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
