/* LoRA files: every spelling of keys, what comes of them, what is left out and what is refused. */
#include "store_case.h"

#include <math.h>

enum { MOST = 16 };

/* What a file is made of: keys and shapes; values are 1, 2, 3 ... in f32 unless said otherwise. */
typedef struct key {
    const char *name;
    int rank;
    size_t shape[ZOE_MAX_RANK];
    zoe_dtype dtype; /* 0: f32 */
    float value;     /* 0: counting up */
} key;

/* One of f32, counting up. */
#define F32(text, axes, ...)                                                                       \
    {                                                                                              \
        .name = (text), .rank = (axes), .shape = { __VA_ARGS__ }                                   \
    }

static const key model[] = {
    F32("blocks.0.modulation", 3, 1, 6, 4),
    F32("blocks.0.self_attn.q.weight", 2, 4, 6),
    F32("blocks.0.self_attn.q.bias", 1, 4),
    F32("blocks.0.self_attn.norm_q.weight", 1, 4),
    F32("blocks.0.norm3.weight", 1, 4),
    F32("blocks.0.norm3.bias", 1, 4),
    F32("blocks.0.cross_attn.k_img.weight", 2, 4, 4),
    F32("blocks.0.ffn.0.weight", 2, 8, 4),
    F32("blocks.12.ffn.2.weight", 2, 4, 8),
    F32("head.head.weight", 2, 8, 4),
    F32("head.head.bias", 1, 8),
    F32("head.modulation", 3, 1, 2, 4),
    F32("patch_embedding.weight", 5, 4, 9, 1, 2, 2),
    F32("text_embedding.0.weight", 2, 4, 5),
    F32("time_projection.1.weight", 2, 24, 4),
};
enum { MODEL = sizeof model / sizeof *model };

static const char *file_of(store_case *c, const char *name, const key *keys, size_t n,
                           const char *peft)
{
    zoe_named_tensor tensors[MOST];
    void *data[MOST];
    const char *const metadata[][2] = {{"lora_adapter_metadata", peft}};
    const char *path = case_path(c, name);
    assert_in_range(n, 0, MOST);
    for (size_t i = 0; i < n; i++) {
        const zoe_dtype dtype = keys[i].dtype ? keys[i].dtype : ZOE_F32;
        const zoe_tensor shape = zoe_tensor_of(NULL, dtype, keys[i].rank, keys[i].shape);
        data[i] = calloc(zoe_tensor_count(shape) + 1, 8);
        assert_non_null(data[i]);
        for (size_t k = 0; k < zoe_tensor_count(shape); k++) {
            const float value = keys[i].value != 0.0f ? keys[i].value : (float)(k + 1);
            if (dtype == ZOE_I64)
                ((int64_t *)data[i])[k] = (int64_t)value;
            else if (zoe_dtype_bytes(dtype) > 1)
                zoe_store_f32(data[i], dtype, k, value);
            else
                ((uint8_t *)data[i])[k] = 0x38; /* 1 in e4m3 */
        }
        tensors[i] = (zoe_named_tensor){keys[i].name,
                                        zoe_tensor_of(data[i], dtype, keys[i].rank, keys[i].shape)};
    }
    assert_int_equal(zoe_safetensors_write(c->ctx, path, tensors, n, metadata, peft ? 1 : 0),
                     ZOE_OK);
    for (size_t i = 0; i < n; i++)
        free(data[i]);
    return path;
}

static zoe_store *model_open(store_case *c)
{
    return case_open(c, file_of(c, "model.safetensors", model, MODEL, NULL), ZOE_NAMES_WAN_DIT);
}

static zoe_lora *lora_open(store_case *c, const key *keys, size_t n, const char *peft)
{
    zoe_store *target = model_open(c);
    zoe_lora *lora;
    c->warning[0] = '\0';
    if (zoe_lora_open(c->ctx, &lora, file_of(c, "lora.safetensors", keys, n, peft), target) !=
        ZOE_OK)
        fail_msg("%s: %s", keys[0].name, zoe_context_message(c->ctx));
    zoe_store_close(target);
    return lora;
}

static void lora_refused(store_case *c, const key *keys, size_t n, const char *peft,
                         zoe_status wanted, const char *const *words)
{
    zoe_store *target = model_open(c);
    zoe_lora *lora;
    const zoe_status status =
        zoe_lora_open(c->ctx, &lora, file_of(c, "lora.safetensors", keys, n, peft), target);
    const char *message = zoe_context_message(c->ctx);
    if (status != wanted)
        fail_msg("%s: %s", zoe_status_name(status), message);
    assert_null(lora);
    for (; *words; words++)
        if (!strstr(message, *words))
            fail_msg("\"%s\" is not in: %s", *words, message);
    zoe_context_clear(c->ctx);
    zoe_store_close(target);
}

#define KEYS(...) (const key[]){__VA_ARGS__}, sizeof((const key[]){__VA_ARGS__}) / sizeof(key)
#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* ---- what is understood ---- */

static void every_spelling_of_a_product(void **state)
{
    store_case *c = *state;
    static const struct {
        const char *down, *up, *alpha, *tensor;
    } rows[] = {
        {"diffusion_model.blocks.0.self_attn.q.lora_down.weight",
         "diffusion_model.blocks.0.self_attn.q.lora_up.weight",
         "diffusion_model.blocks.0.self_attn.q.alpha", "blocks.0.self_attn.q.weight"},
        {"diffusion_model.blocks.0.self_attn.q.lora_A.weight",
         "diffusion_model.blocks.0.self_attn.q.lora_B.weight", NULL, "blocks.0.self_attn.q.weight"},
        {"blocks.0.self_attn.q.lora_A.default.weight", "blocks.0.self_attn.q.lora_B.default.weight",
         NULL, "blocks.0.self_attn.q.weight"},
        {"model.diffusion_model.blocks.0.self_attn.q.lora_A",
         "model.diffusion_model.blocks.0.self_attn.q.lora_B", NULL, "blocks.0.self_attn.q.weight"},
        {"unet.blocks.0.self_attn.q.lora.down.weight", "unet.blocks.0.self_attn.q.lora.up.weight",
         NULL, "blocks.0.self_attn.q.weight"},
        {"base_model.model.blocks.0.self_attn.q.lora_A.weight",
         "base_model.model.blocks.0.self_attn.q.lora_B.weight",
         "base_model.model.blocks.0.self_attn.q.alpha", "blocks.0.self_attn.q.weight"},
        {"transformer.blocks.0.attn1.to_q.lora_A.weight",
         "transformer.blocks.0.attn1.to_q.lora_B.weight", NULL, "blocks.0.self_attn.q.weight"},
        {"transformer.blocks.0.attn1.to_q_lora.down.weight",
         "transformer.blocks.0.attn1.to_q_lora.up.weight", NULL, "blocks.0.self_attn.q.weight"},
        {"blocks.0.attn1.to_q.lora_linear_layer.down.weight",
         "blocks.0.attn1.to_q.lora_linear_layer.up.weight", NULL, "blocks.0.self_attn.q.weight"},
        {"lora_unet_blocks_0_self_attn_q.lora_down.weight",
         "lora_unet_blocks_0_self_attn_q.lora_up.weight", "lora_unet_blocks_0_self_attn_q.alpha",
         "blocks.0.self_attn.q.weight"},
        {"lora_unet_blocks_0_attn1_to_q.lora_down.weight",
         "lora_unet_blocks_0_attn1_to_q.lora_up.weight", NULL, "blocks.0.self_attn.q.weight"},
        {"lora_unet_blocks_0_cross_attn_k_img.lora_down.weight",
         "lora_unet_blocks_0_cross_attn_k_img.lora_up.weight",
         "lora_unet_blocks_0_cross_attn_k_img.alpha", "blocks.0.cross_attn.k_img.weight"},
        {"transformer.blocks.0.attn2.add_k_proj.lora_A.weight",
         "transformer.blocks.0.attn2.add_k_proj.lora_B.weight", NULL,
         "blocks.0.cross_attn.k_img.weight"},
        {"transformer.blocks.0.ffn.net.0.proj.lora_A.weight",
         "transformer.blocks.0.ffn.net.0.proj.lora_B.weight", NULL, "blocks.0.ffn.0.weight"},
        {"lora_unet_blocks_12_ffn_2.lora_down.weight", "lora_unet_blocks_12_ffn_2.lora_up.weight",
         NULL, "blocks.12.ffn.2.weight"},
        {"transformer.blocks.12.ffn.net.2.lora_A.weight",
         "transformer.blocks.12.ffn.net.2.lora_B.weight", NULL, "blocks.12.ffn.2.weight"},
        {"transformer.proj_out.lora_A.weight", "transformer.proj_out.lora_B.weight", NULL,
         "head.head.weight"},
        {"diffusion_model.head.head.lora_down.weight", "diffusion_model.head.head.lora_up.weight",
         "diffusion_model.head.head.alpha", "head.head.weight"},
        {"transformer.condition_embedder.time_proj.lora_A.weight",
         "transformer.condition_embedder.time_proj.lora_B.weight", NULL,
         "time_projection.1.weight"},
        {"text_embedding.0.lora_down.weight", "text_embedding.0.lora_up.weight", NULL,
         "text_embedding.0.weight"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t N = 0, K = 0;
        for (size_t k = 0; k < MODEL; k++)
            if (strcmp(model[k].name, rows[i].tensor) == 0) {
                N = model[k].shape[0];
                K = model[k].shape[1];
            }
        const key keys[] = {{rows[i].down, 2, {3, K}, ZOE_BF16, 0},
                            {rows[i].up, 2, {N, 3}, ZOE_F16, 0},
                            {rows[i].alpha, 0, {0}, ZOE_F32, 6}};
        zoe_lora *lora = lora_open(c, keys, rows[i].alpha ? 3 : 2, NULL);
        assert_string_equal(c->warning, "");
        assert_int_equal(zoe_lora_count(lora), 1);
        const zoe_lora_part part = zoe_lora_at(lora, 0);
        assert_string_equal(part.name, rows[i].tensor);
        assert_true(part.factor == (rows[i].alpha ? 2.0f : 1.0f));
        assert_int_equal(part.down.dtype, ZOE_BF16);
        assert_int_equal(part.down.shape[0], 3);
        assert_int_equal(part.down.shape[1], K);
        assert_int_equal(part.up.shape[0], N);
        assert_int_equal(part.up.shape[1], 3);
        assert_true(zoe_load_f32(part.up.data, ZOE_F16, 3) == 4.0f);
        const zoe_lora_summary sum = zoe_lora_summary_of(lora);
        assert_int_equal(sum.products, 1);
        assert_int_equal(sum.rank, 3);
        assert_int_equal(sum.unmatched + sum.skipped + sum.differences, 0);
        zoe_lora_close(lora);
    }
}

static void every_spelling_of_a_difference(void **state)
{
    store_case *c = *state;
    static const struct {
        key key;
        const char *tensor;
    } rows[] = {
        {F32("diffusion_model.blocks.0.self_attn.q.diff_b", 1, 4), "blocks.0.self_attn.q.bias"},
        {F32("transformer.blocks.0.attn1.to_q.lora_B.bias", 1, 4), "blocks.0.self_attn.q.bias"},
        {F32("diffusion_model.blocks.0.self_attn.norm_q.diff", 1, 4),
         "blocks.0.self_attn.norm_q.weight"},
        {F32("diffusion_model.blocks.0.norm3.diff", 1, 4), "blocks.0.norm3.weight"},
        {F32("transformer.blocks.0.norm2.diff", 1, 4), "blocks.0.norm3.weight"},
        {F32("diffusion_model.blocks.0.norm3.diff_b", 1, 4), "blocks.0.norm3.bias"},
        {F32("diffusion_model.blocks.0.diff_m", 3, 1, 6, 4), "blocks.0.modulation"},
        {F32("lora_unet_blocks_0.diff_m", 2, 6, 4), "blocks.0.modulation"},
        {F32("diffusion_model.head.diff_m", 3, 1, 2, 4), "head.modulation"},
        {F32("transformer.scale_shift_table.diff", 3, 1, 2, 4), "head.modulation"},
        {F32("diffusion_model.head.head.diff", 2, 8, 4), "head.head.weight"},
        {F32("lora_unet_head_head.diff_b", 1, 8), "head.head.bias"},
        {F32("diffusion_model.patch_embedding.diff", 5, 4, 9, 1, 2, 2), "patch_embedding.weight"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zoe_lora *lora = lora_open(c, &rows[i].key, 1, NULL);
        assert_int_equal(zoe_lora_count(lora), 1);
        assert_string_equal(zoe_lora_at(lora, 0).name, rows[i].tensor);
        assert_int_equal(zoe_lora_at(lora, 0).down.dtype, ZOE_NONE);
        assert_true(zoe_lora_at(lora, 0).factor == 1.0f);
        assert_int_equal(zoe_lora_summary_of(lora).differences, 1);
        zoe_lora_close(lora);
    }
}

/* A convolution's factors have its trailing axes. */
static void a_convolution_counts_as_a_matrix(void **state)
{
    store_case *c = *state;
    zoe_lora *lora = lora_open(c,
                               KEYS(F32("patch_embedding.lora_down.weight", 5, 2, 9, 1, 2, 2),
                                    F32("patch_embedding.lora_up.weight", 5, 4, 2, 1, 1, 1)),
                               NULL);
    const zoe_lora_part part = zoe_lora_at(lora, 0);
    assert_int_equal(part.down.rank, 2);
    assert_int_equal(part.down.shape[1], 36);
    assert_int_equal(part.up.shape[1], 2);
    zoe_lora_close(lora);
}

static void parts_are_found_by_name(void **state)
{
    store_case *c = *state;
    zoe_lora *lora =
        lora_open(c,
                  KEYS(F32("head.head.lora_down.weight", 2, 2, 4),
                       F32("head.head.lora_up.weight", 2, 8, 2), F32("head.head.diff", 2, 8, 4),
                       F32("head.head.diff_b", 1, 8), F32("blocks.0.norm3.diff", 1, 4)),
                  NULL);
    assert_int_equal(zoe_lora_count(lora), 4);
    const size_t first = zoe_lora_find(lora, "head.head.weight");
    assert_in_range(first, 0, 2);
    assert_int_equal(zoe_lora_at(lora, first).down.dtype, ZOE_F32);
    assert_string_equal(zoe_lora_at(lora, first + 1).name, "head.head.weight");
    assert_int_equal(zoe_lora_at(lora, first + 1).down.dtype, ZOE_NONE);
    assert_int_equal(zoe_lora_find(lora, "head.modulation"), 4);
    assert_int_equal(zoe_lora_find(lora, "z"), 4);
    assert_int_equal(zoe_store_count(zoe_lora_store(lora)), 5);
    zoe_lora_close(lora);
}

/* ---- strength ---- */

static void alpha_may_be_of_any_type(void **state)
{
    store_case *c = *state;
    static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F64, ZOE_I64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int rank = 0; rank < 2; rank++) {
            zoe_lora *lora = lora_open(c,
                                       KEYS(F32("head.head.lora_down.weight", 2, 4, 4),
                                            F32("head.head.lora_up.weight", 2, 8, 4),
                                            {"head.head.alpha", rank, {1}, types[i], 8}),
                                       NULL);
            assert_true(zoe_lora_at(lora, 0).factor == 2.0f);
            zoe_lora_close(lora);
        }
    lora_refused(c,
                 KEYS(F32("head.head.lora_down.weight", 2, 4, 4),
                      F32("head.head.lora_up.weight", 2, 8, 4), F32("head.head.alpha", 1, 2)),
                 NULL, ZOE_FORMAT, WORDS("head.head.alpha is f32 [2]", "one number is wanted"));
}

static void alpha_of_pefts_configuration(void **state)
{
    store_case *c = *state;
    static const key keys[] = {F32("transformer.proj_out.lora_A.weight", 2, 4, 4),
                               F32("transformer.proj_out.lora_B.weight", 2, 8, 4),
                               {"transformer.proj_out.alpha", 0, {0}, ZOE_F32, 1}};
    zoe_lora *lora =
        lora_open(c, keys, 2, "{\"transformer.lora_alpha\": 12, \"transformer.r\": 4}");
    assert_true(zoe_lora_at(lora, 0).factor == 3.0f);
    char three[65], one[65];
    assert_int_equal(zoe_lora_digest(c->ctx, lora, three), ZOE_OK);
    zoe_lora_close(lora);
    lora = lora_open(c, keys, 2, "{\"lora_alpha\": 4}"); /* the same tensors are another LoRA */
    assert_int_equal(zoe_lora_digest(c->ctx, lora, one), ZOE_OK);
    assert_string_not_equal(three, one);
    zoe_lora_close(lora);
    lora = lora_open(c, keys, 3, "{\"lora_alpha\": 12}"); /* the layer's own goes before */
    assert_true(zoe_lora_at(lora, 0).factor == 0.25f);
    zoe_lora_close(lora);
    lora_refused(c, keys, 2, "{\"transformer.use_rslora\": true}", ZOE_UNSUPPORTED,
                 WORDS("use_rslora"));
    lora_refused(c, keys, 2, "{\"transformer.alpha_pattern\": {\"proj_out\": 1}}", ZOE_UNSUPPORTED,
                 WORDS("alpha_pattern"));
    lora_refused(c, keys, 2, "{\"lora_alpha\": 1e300}", ZOE_NONFINITE, WORDS("1e+300"));
    lora_refused(c, keys, 2, "{\"lora_alpha\": \"8\"}", ZOE_FORMAT, WORDS("is no number"));
    lora_refused(c, keys, 2, "{\"lora_alpha\"", ZOE_FORMAT, WORDS("JSON"));
}

/* ---- what is left out ---- */

static void what_does_not_fit_is_counted_and_named(void **state)
{
    store_case *c = *state;
    zoe_lora *lora = lora_open(
        c,
        KEYS(F32("head.head.lora_down.weight", 2, 2, 4), F32("head.head.lora_up.weight", 2, 8, 2),
             F32("blocks.40.ffn.0.lora_up.weight", 2, 8, 2),
             F32("blocks.40.ffn.0.lora_down.weight", 2, 2, 4),
             F32("lora_te_text_model.lora_up.weight", 2, 2, 4), F32("blocks.0.ffn.0.alpha", 0, 0),
             F32("scaled", 1, 4), F32("_lora.down.weight", 1, 4),
             F32("lora_unet_lora.down.weight", 1, 4)),
        NULL);
    const zoe_lora_summary sum = zoe_lora_summary_of(lora);
    assert_int_equal(sum.keys, 9);
    assert_int_equal(sum.products, 1);
    assert_int_equal(sum.unmatched, 7);
    assert_string_equal(zoe_lora_unmatched(lora, 0), "_lora.down.weight");
    assert_string_equal(zoe_lora_unmatched(lora, 6), "scaled");
    assert_non_null(strstr(c->warning, "7 of 9 keys fit nothing in"));
    assert_non_null(strstr(c->warning, "blocks.0.ffn.0.alpha"));
    assert_non_null(strstr(c->warning, ", ..."));
    zoe_lora_close(lora);
}

static void patches_of_other_channels_are_skipped(void **state)
{
    store_case *c = *state;
    zoe_lora *lora = lora_open(c,
                               KEYS(F32("head.head.diff_b", 1, 8),
                                    F32("diffusion_model.patch_embedding.diff", 5, 4, 4, 1, 2, 2)),
                               NULL);
    assert_int_equal(zoe_lora_count(lora), 1);
    assert_int_equal(zoe_lora_summary_of(lora).skipped, 1);
    assert_non_null(strstr(c->warning, "patch_embedding.diff is left out: it is f32 "
                                       "[4, 4, 1, 2, 2], for patch_embedding.weight of the model, "
                                       "f32 [4, 9, 1, 2, 2]"));
    zoe_lora_close(lora);
    lora = lora_open(c,
                     KEYS(F32("head.head.diff_b", 1, 8),
                          F32("patch_embedding.lora_down.weight", 5, 2, 4, 1, 2, 2),
                          F32("patch_embedding.lora_up.weight", 5, 4, 2, 1, 1, 1),
                          F32("patch_embedding.alpha", 0, 0)),
                     NULL);
    assert_int_equal(zoe_lora_summary_of(lora).skipped, 3);
    assert_int_equal(zoe_lora_count(lora), 1);
    zoe_lora_close(lora);
}

/* ---- what is refused ---- */

static void a_file_of_which_nothing_fits(void **state)
{
    store_case *c = *state;
    lora_refused(c,
                 KEYS(F32("lora_unet_double_blocks_0_img.lora_up.weight", 2, 8, 2),
                      F32("lora_unet_double_blocks_0_img.lora_down.weight", 2, 2, 4)),
                 NULL, ZOE_FORMAT,
                 WORDS("lora.safetensors: none of its 2 keys fits", "model.safetensors",
                       "lora_unet_double_blocks_0_img.lora_", "blocks.0.self_attn.q.weight",
                       "another kind of model"));
    lora_refused(c, model, MODEL, NULL, ZOE_FORMAT, WORDS("is a checkpoint and no LoRA"));
    lora_refused(c, model, 0, NULL, ZOE_FORMAT, WORDS("holds no tensors"));
    /* all that there is, is skipped */
    lora_refused(c, KEYS(F32("patch_embedding.diff", 5, 4, 4, 1, 2, 2)), NULL, ZOE_FORMAT,
                 WORDS("none of its 1 keys"));
}

static void shapes_that_do_not_fit(void **state)
{
    store_case *c = *state;
#define UNFIT(down_N, down_K, up_N, up_R, ...)                                                     \
    lora_refused(c,                                                                                \
                 KEYS(F32("head.head.lora_down.weight", 2, down_N, down_K),                        \
                      F32("head.head.lora_up.weight", 2, up_N, up_R)),                             \
                 NULL, ZOE_FORMAT, WORDS(__VA_ARGS__))
    UNFIT(2, 5, 8, 2, "head.head.lora_down.weight is f32 [2, 5]", "head.head.weight of the model",
          "f32 [8, 4]");
    UNFIT(2, 4, 9, 2, "head.head.lora_up.weight is f32 [9, 2]");
    UNFIT(2, 4, 8, 3, "lora_down.weight has rank 2", "lora_up.weight has rank 3");
    UNFIT(0, 4, 8, 0, "head.head.lora_up.weight is f32 [8, 0]");
    UNFIT(0, 4, 8, 1, "head.head.lora_down.weight is f32 [0, 4]");
#undef UNFIT
    lora_refused(c, KEYS(F32("head.head.diff", 2, 8, 5)), NULL, ZOE_FORMAT,
                 WORDS("head.head.diff is f32 [8, 5]"));
    lora_refused(c, KEYS(F32("head.head.diff", 2, 4, 8)), NULL, ZOE_FORMAT,
                 WORDS("head.head.diff is f32 [4, 8]"));
    lora_refused(c, KEYS(F32("blocks.0.norm3.diff_b", 1, 5)), NULL, ZOE_FORMAT,
                 WORDS("blocks.0.norm3.diff_b is f32 [5]", "norm3.bias"));
    lora_refused(c,
                 KEYS(F32("blocks.0.norm3.lora_A.weight", 2, 1, 4),
                      F32("blocks.0.norm3.lora_B.weight", 2, 4, 1)),
                 NULL, ZOE_FORMAT, WORDS("blocks.0.norm3.weight"));
    lora_refused(c, KEYS({"head.head.diff", 2, {8, 4}, ZOE_F64, 1}), NULL, ZOE_UNSUPPORTED,
                 WORDS("head.head.diff is f64 [8, 4], f32, f16, bf16 or fp8 is wanted"));
}

static void halves_and_twins(void **state)
{
    store_case *c = *state;
    lora_refused(c, KEYS(F32("head.head.lora_down.weight", 2, 2, 4)), NULL, ZOE_FORMAT,
                 WORDS("has head.head.lora_down.weight, but not the other factor"));
    lora_refused(c, KEYS(F32("head.head.lora_B", 2, 8, 2)), NULL, ZOE_FORMAT,
                 WORDS("has head.head.lora_B, but not the other factor"));
    lora_refused(c,
                 KEYS(F32("head.head.lora_down.weight", 2, 2, 4),
                      F32("head.head.lora_up.weight", 2, 8, 2),
                      F32("transformer.proj_out.lora_A.weight", 2, 2, 4)),
                 NULL, ZOE_FORMAT,
                 WORDS("head.head.lora_down.weight and transformer.proj_out.lora_A.weight are both "
                       "meant for head.head.weight"));
}

static void other_adapters(void **state)
{
    store_case *c = *state;
    static const char *const rows[][2] = {
        {"head.head.dora_scale", "DoRA"},         {"head.head.lora_magnitude_vector", "DoRA"},
        {"head.head.hada_w1_a", "LoHa"},          {"head.head.lokr_w1", "LoKr"},
        {"head.head.lora_mid.weight", "middle"},  {"head.head.oft_blocks", "OFT"},
        {"head.head.lora_A.scale_weight", "fp8"}, {"head.head.set_weight", "replaces"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        lora_refused(c, KEYS(F32("head.head.diff", 2, 8, 4), F32(rows[i][0], 1, 8)), NULL,
                     ZOE_UNSUPPORTED, WORDS(rows[i][0], rows[i][1], "not supported"));
}

static void values_that_are_not_finite(void **state)
{
    store_case *c = *state;
    lora_refused(c,
                 KEYS(F32("head.head.diff_b", 1, 8), {"head.head.diff", 2, {8, 4}, ZOE_BF16, NAN}),
                 NULL, ZOE_NONFINITE, WORDS("head.head.diff", "32 NaN"));
    lora_refused(c,
                 KEYS(F32("head.head.lora_down.weight", 2, 4, 4),
                      F32("head.head.lora_up.weight", 2, 8, 4),
                      {"head.head.alpha", 0, {0}, ZOE_F32, INFINITY}),
                 NULL, ZOE_NONFINITE, WORDS("alpha of head.head.lora_down.weight is inf"));
}

static void without_memory(void **state)
{
    store_case *c = *state;
    zoe_store *target = model_open(c);
    const char *path = file_of(c, "lora.safetensors",
                               KEYS(F32("lora_unet_head_head.lora_down.weight", 2, 4, 4),
                                    F32("lora_unet_head_head.lora_up.weight", 2, 8, 4),
                                    F32("lora_unet_head_head.diff_b", 1, 8), F32("x", 1, 1)),
                               "{\"lora_alpha\": 2}");
    zoe_status status = ZOE_NOMEM;
    zoe_lora *lora = NULL;
    zoe_lora_hint hint;
    size_t n;
    for (n = 1; status == ZOE_NOMEM && n < 10000; n++) {
        zoe_context_clear(c->ctx);
        zoe_alloc_fail_at(n);
        status = zoe_lora_open(c->ctx, &lora, path, target);
        zoe_alloc_fail_at(0);
    }
    assert_int_equal(status, ZOE_OK);
    assert_in_range(n, 20, 10000);
    assert_true(zoe_lora_at(lora, 0).factor != 0.0f);
    zoe_lora_close(lora);
    zoe_store_close(target);
    zoe_alloc_fail_at(1);
    status = zoe_lora_hint_of(c->ctx, &hint, path);
    zoe_alloc_fail_at(0);
    assert_int_equal(status, ZOE_NOMEM);
    zoe_context_clear(c->ctx);
}

/* ---- what names tell ---- */

static void names_tell_distilled_ones(void **state)
{
    store_case *c = *state;
    static const struct {
        const char *path;
        zoe_lora_hint wanted;
    } rows[] = {
        {"/m/wan2.2_i2v_lightx2v_4steps_lora_v1_high_noise.safetensors",
         {4, true, false, "lightx2v"}},
        {"Wan2.2-Lightning/I2V-A14B-4steps-rank64-Seko-V1/low_noise_model.safetensors",
         {0, false, true, ""}},
        {"Wan2.2-I2V-A14B-Lightning_LOW.safetensors", {4, false, true, "lightning"}},
        {"Wan21_I2V_14B_lightx2v_cfg_step_distill_lora_rank64.safetensors",
         {4, false, false, "distill"}},
        {"turbo-8-step.safetensors", {8, false, false, "step"}},
        {"Wan21_CausVid_14B.safetensors", {4, false, false, "causvid"}},
        {"cat_slow_flow_highland.safetensors", {0, false, false, ""}},
        {"cat-epoch8_step3000.safetensors", {0, false, false, ""}},
        {"cat-step00000400.safetensors", {0, false, false, ""}},
        {"cat_100steps.safetensors", {0, false, false, ""}},
        {"cat_highnoise.safetensors", {0, true, false, ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const zoe_lora_hint *w = &rows[i].wanted;
        zoe_lora_hint hint;
        assert_int_equal(zoe_lora_hint_of(c->ctx, &hint, rows[i].path), ZOE_OK);
        if (hint.steps != w->steps || hint.high != w->high || hint.low != w->low ||
            strcmp(hint.word, w->word) != 0)
            fail_msg("%s: %zu steps, high %d, low %d, word %s", rows[i].path, hint.steps, hint.high,
                     hint.low, hint.word);
        assert_string_equal(zoe_context_message(c->ctx), "");
    }
}

static void titles_tell_them_too(void **state)
{
    store_case *c = *state;
    const float one = 1.0f;
    const zoe_named_tensor tensor = {"x", zoe_tensor_1d((void *)(uintptr_t)&one, ZOE_F32, 1)};
    const char *const metadata[][2] = {{"modelspec.title", "Lightning, 6 steps, high noise"}};
    const char *path = case_path(c, "mine.safetensors");
    zoe_lora_hint hint;
    assert_int_equal(zoe_safetensors_write(c->ctx, path, &tensor, 1, metadata, 1), ZOE_OK);
    assert_int_equal(zoe_lora_hint_of(c->ctx, &hint, path), ZOE_OK);
    assert_int_equal(hint.steps, 6);
    assert_true(hint.high && !hint.low);
    assert_string_equal(hint.word, "lightning");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_a_product),
        cmocka_unit_test(every_spelling_of_a_difference),
        cmocka_unit_test(a_convolution_counts_as_a_matrix),
        cmocka_unit_test(parts_are_found_by_name),
        cmocka_unit_test(alpha_may_be_of_any_type),
        cmocka_unit_test(alpha_of_pefts_configuration),
        cmocka_unit_test(what_does_not_fit_is_counted_and_named),
        cmocka_unit_test(patches_of_other_channels_are_skipped),
        cmocka_unit_test(a_file_of_which_nothing_fits),
        cmocka_unit_test(shapes_that_do_not_fit),
        cmocka_unit_test(halves_and_twins),
        cmocka_unit_test(other_adapters),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(names_tell_distilled_ones),
        cmocka_unit_test(titles_tell_them_too),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
