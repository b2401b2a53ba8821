/* What one part of a checkpoint is, told by the names and shapes of its tensors. Whether it is whole
 * and can be used is asked of the loaders that a run uses. */
#include "job/inspect.h"

#include <stdio.h>

/* ---- the store, and what is in it ---- */

static bool has(const zoe_store *store, const char *name)
{
    zoe_tensor t;
    return zoe_store_find(store, name, &t);
}

/* Tensors of each network whose names differ between the official files and those of others. */
static const char *const signs_dit[] = {"blocks.0.self_attn.q.weight", "head.modulation",
                                        "time_embedding.0.weight",     "text_embedding.0.weight",
                                        "blocks.0.ffn.0.weight",       NULL};
static const char *const signs_vae[] = {"decoder.conv1.weight", "encoder.conv1.weight",
                                        "decoder.head.2.weight", NULL};
static const char *const signs_umt5[] = {"blocks.0.attn.q.weight", "blocks.0.ffn.gate.0.weight",
                                         "token_embedding.weight", NULL};

static const char *const signs_clip[] = {"visual.patch_embedding.weight", "visual.cls_embedding",
                                         NULL};

static const struct family {
    zoe_content content;
    zoe_names names;
    zoe_network network; /* whose gaps are listed; not for CLIP and the Wan 2.2 VAE */
    const char *const *signs;
    int rank;            /* of the signs; 0: not looked at. A VAE of pictures has four */
    const char *foreign; /* whose other names the table knows */
} families[] = {
    {ZOE_CONTENT_WAN_DIT, ZOE_NAMES_WAN_DIT, ZOE_NETWORK_WAN, signs_dit, 0, "diffusers"},
    {ZOE_CONTENT_WAN_VAE_21, ZOE_NAMES_WAN_VAE, ZOE_NETWORK_VAE, signs_vae, 5, "diffusers"},
    {ZOE_CONTENT_UMT5, ZOE_NAMES_UMT5, ZOE_NETWORK_UMT5, signs_umt5, 0, "transformers"},
    {ZOE_CONTENT_CLIP, ZOE_NAMES_CLIP, ZOE_NETWORK_UMT5, signs_clip, 0, "transformers"},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* The sign that is there; NULL for none. */
static const char *sign_of(const zoe_store *store, const struct family *family)
{
    for (const char *const *sign = family->signs; *sign; sign++) {
        zoe_tensor t;
        if (zoe_store_find(store, *sign, &t) && (family->rank == 0 || t.rank == family->rank))
            return *sign;
    }
    return NULL;
}

/* Whose names: those of `stored` are as in the file, in which the sign has another name or not. */
static zoe_status tell_names(zoe_context *ctx, zoe_part_info *part, const zoe_store *stored,
                             const char *sign, const struct family *family)
{
    const size_t length = strlen(sign);
    if (has(stored, sign))
        return zoe_strdup(ctx, &part->names, "official");
    for (size_t i = 0; i < zoe_store_count(stored); i++) {
        const char *name = zoe_store_name(stored, i);
        const size_t n = strlen(name);
        if (n > length && name[n - length - 1] == '.' && strcmp(name + n - length, sign) == 0)
            return zoe_strf(ctx, &part->names, "official behind \"%.*s\"", (int)(n - length), name);
    }
    return zoe_strdup(ctx, &part->names, family->foreign);
}

/* Opens the part under the names of the family that it is of; without one, as it is stored. */
static zoe_status open_store(zoe_inspection *in, zoe_part_info *part, const struct family **family)
{
    zoe_store *stored = NULL;
    zoe_status status = ZOE_OK;
    *family = NULL;
    TRY(zoe_store_open(in->trial, &stored, part->path, ZOE_NAMES_AS_STORED));
    for (size_t i = 0; i < FAMILIES && !*family; i++) {
        zoe_store *store;
        TRY_GOTO(zoe_store_open(in->trial, &store, part->path, families[i].names));
        const char *sign = sign_of(store, &families[i]);
        if (!sign) {
            zoe_store_close(store);
            continue;
        }
        part->store = store;
        *family = &families[i];
        TRY_GOTO(tell_names(in->trial, part, stored, sign, *family));
    }
    if (!part->store) {
        part->store = stored;
        stored = NULL;
    }
done:
    zoe_store_close(stored);
    return status;
}

static void add_up(zoe_part_info *part)
{
    part->tensors = zoe_store_count(part->store);
    part->bytes = zoe_store_bytes(part->store);
    for (size_t i = 0; i < part->tensors; i++) {
        const zoe_tensor t = zoe_store_tensor(part->store, i);
        size_t k = 0;
        while (k < part->n_shares && part->shares[k].dtype != t.dtype)
            k++;
        if (k == ZOE_TYPE_SHARES)
            continue;
        if (k == part->n_shares)
            part->shares[part->n_shares++] = (zoe_type_share){.dtype = t.dtype};
        part->shares[k].tensors++;
        part->shares[k].bytes += zoe_tensor_bytes(t);
    }
}

/* ---- dimensions, of what is there ---- */

static void add_dim(zoe_part_info *part, const char *name, size_t value)
{
    if (value > 0 && part->n_dims < ZOE_DIMENSIONS)
        part->dims[part->n_dims++] = (zoe_dimension){name, value};
}

/* An extent of a tensor, axis counted from the end if negative; 0 if there is none. */
static size_t extent(const zoe_store *store, const char *name, int axis)
{
    zoe_tensor t;
    if (!zoe_store_find(store, name, &t))
        return 0;
    if (axis < 0)
        axis += t.rank;
    return axis >= 0 && axis < t.rank ? t.shape[axis] : 0;
}

static void tell_dims(zoe_part_info *part)
{
    const zoe_store *s = part->store;
    switch (part->content) {
    case ZOE_CONTENT_WAN_DIT:
        add_dim(part, "dim", extent(s, "head.modulation", -1));
        add_dim(part, "ffn_dim", extent(s, "blocks.0.ffn.0.weight", 0));
        add_dim(part, "layers", zoe_network_blocks(s, "blocks."));
        add_dim(part, "in_channels", extent(s, "patch_embedding.weight", 1));
        add_dim(part, "out_channels", extent(s, "head.head.weight", 0) / 4);
        add_dim(part, "text_dim", extent(s, "text_embedding.0.weight", 1));
        add_dim(part, "freq_dim", extent(s, "time_embedding.0.weight", 1));
        add_dim(part, "image_dim", extent(s, "img_emb.proj.1.weight", 1));
        add_dim(part, "image_positions", extent(s, "img_emb.emb_pos", 1));
        break;
    case ZOE_CONTENT_CLIP:
        add_dim(part, "dim", extent(s, "visual.patch_embedding.weight", 0));
        add_dim(part, "layers", zoe_network_blocks(s, "visual.transformer."));
        add_dim(part, "positions", extent(s, "visual.pos_embedding", -2));
        break;
    case ZOE_CONTENT_WAN_VAE_21:
    case ZOE_CONTENT_WAN_VAE_22:
        add_dim(part, "latent_channels", extent(s, "conv2.weight", 0));
        add_dim(part, "width", extent(s, "encoder.conv1.weight", 0));
        break;
    case ZOE_CONTENT_UMT5:
        add_dim(part, "vocabulary", extent(s, "token_embedding.weight", 0));
        add_dim(part, "dim", extent(s, "token_embedding.weight", 1));
        add_dim(part, "ffn_dim", extent(s, "blocks.0.ffn.gate.0.weight", 0));
        add_dim(part, "heads", extent(s, "blocks.0.pos_embedding.embedding.weight", 1));
        add_dim(part, "layers", zoe_network_blocks(s, "blocks."));
        break;
    case ZOE_CONTENT_LATENTS:
        add_dim(part, "channels", extent(s, "latents", 0));
        add_dim(part, "frames", extent(s, "latents", 1));
        add_dim(part, "height", extent(s, "latents", 2));
        add_dim(part, "width", extent(s, "latents", 3));
        break;
    default: break;
    }
}

static size_t dim_of(const zoe_part_info *part, const char *name)
{
    for (size_t i = 0; i < part->n_dims; i++)
        if (strcmp(part->dims[i].name, name) == 0)
            return part->dims[i].value;
    return 0;
}

/* ---- in words ---- */

/* The published models. Sizes as in their configurations. */
static const struct published {
    size_t dim, ffn_dim, layers, in, out;
    bool clip; /* the image branch of Wan 2.1 */
    const char *name;
} published[] = {
    {5120, 13824, 40, 36, 16, false, "Wan 2.2 I2V-A14B transformer, one of its two experts"},
    {5120, 13824, 40, 16, 16, false,
     "Wan T2V transformer: one of the two experts of Wan 2.2 T2V-A14B, or Wan 2.1 T2V-14B"},
    {3072, 14336, 30, 48, 48, false, "Wan 2.2 TI2V-5B transformer"},
    {1536, 8960, 30, 16, 16, false, "Wan 2.1 T2V-1.3B transformer"},
    {5120, 13824, 40, 36, 16, true, "Wan 2.1 I2V-14B transformer"},
};

static const char *kind_of_dit(const zoe_part_info *part, bool clip)
{
    const size_t in = dim_of(part, "in_channels"), out = dim_of(part, "out_channels");
    if (clip && in == 2 * out + ZOE_MASK_CHANNELS)
        return "Wan 2.1 image-to-video transformer (with a CLIP branch), of no published size";
    if (clip)
        return "Wan transformer of an unknown kind (with a CLIP branch)";
    if (out && in == 2 * out + ZOE_MASK_CHANNELS)
        return "Wan 2.2 image-to-video transformer (I2V-A14B kind), of no published size";
    if (out == 48 && in == out)
        return "Wan 2.2 text-and-image-to-video transformer (TI2V-5B kind), of no published size";
    if (out && in == out)
        return "Wan text-to-video transformer, of no published size";
    return "Wan transformer of an unknown kind";
}

static zoe_status describe_dit(zoe_context *ctx, zoe_part_info *part)
{
    const char *sign, *relative = zoe_wan_relative(part->store, &sign);
    const bool clip = has(part->store, "img_emb.proj.1.weight");
    if (relative)
        return zoe_strf(ctx, &part->what, "Wan relative: %s (it has %s)", relative, sign);
    if (has(part->store, "img_emb.emb_pos"))
        return zoe_strdup(
            ctx, &part->what,
            dim_of(part, "dim") == 5120 && dim_of(part, "layers") == 40
                ? "Wan 2.1 FLF2V-14B transformer (first and last frame to video)"
                : "Wan 2.1 transformer of the FLF2V-14B kind (first and last frame to "
                  "video), of no published size");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct published *p = &published[i];
        if (p->dim == dim_of(part, "dim") && p->ffn_dim == dim_of(part, "ffn_dim") &&
            p->layers == dim_of(part, "layers") && p->in == dim_of(part, "in_channels") &&
            p->out == dim_of(part, "out_channels") && p->clip == clip)
            return zoe_strdup(ctx, &part->what, p->name);
    }
    return zoe_strdup(ctx, &part->what, kind_of_dit(part, clip));
}

/* Signs of what is none of ours, anywhere in a name. */
static const struct {
    const char *sign;
    zoe_content content;
    const char *what;
} others[] = {
    {"lora_", ZOE_CONTENT_LORA, "LoRA"},
    {"joint_blocks.0.", ZOE_CONTENT_UNKNOWN, "transformer of Stable Diffusion 3's kind"},
    {"double_blocks.0.", ZOE_CONTENT_UNKNOWN, "transformer of Flux's or HunyuanVideo's kind"},
    {"transformer_blocks.0.", ZOE_CONTENT_UNKNOWN,
     "diffusion model of another family (LTX, CogVideoX, Flux, a U-Net ...)"},
    {"input_blocks.0.", ZOE_CONTENT_UNKNOWN, "U-Net of Stable Diffusion's kind"},
    {"decoder.conv_in.", ZOE_CONTENT_UNKNOWN, "VAE of another family"},
    {"relative_attention_bias", ZOE_CONTENT_UNKNOWN, "T5 text encoder of another kind"},
    {"layers.0.self_attn.", ZOE_CONTENT_UNKNOWN, "language model"},
};

static zoe_status describe_other(zoe_context *ctx, zoe_part_info *part)
{
    const size_t n = zoe_store_count(part->store);
    if (n == 1 && has(part->store, "latents")) {
        part->content = ZOE_CONTENT_LATENTS;
        tell_dims(part);
        return zoe_strdup(ctx, &part->what, "latents");
    }
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (size_t i = 0; i < n; i++)
            if (strstr(zoe_store_name(part->store, i), others[k].sign)) {
                part->content = others[k].content;
                return zoe_strdup(ctx, &part->what, others[k].what);
            }
    return zoe_strf(ctx, &part->what, "weights of an unknown kind (first tensor: %s)",
                    n ? zoe_store_name(part->store, 0) : "none");
}

/* Of a T5 v1.1 encoder, which is no umT5, only the first block has a table of positions. */
static bool is_plain_t5(const zoe_store *store)
{
    return has(store, "blocks.0.pos_embedding.embedding.weight") &&
           has(store, "blocks.1.attn.q.weight") &&
           !has(store, "blocks.1.pos_embedding.embedding.weight") &&
           !has(store, "blocks.2.pos_embedding.embedding.weight");
}

static zoe_status describe(zoe_context *ctx, zoe_part_info *part, const struct family *family)
{
    if (!family)
        return describe_other(ctx, part);
    part->content = family->content;
    if (family->content == ZOE_CONTENT_WAN_VAE_21 &&
        (zoe_network_blocks(part->store, "decoder.upsamples.0.upsamples.") ||
         zoe_network_blocks(part->store, "encoder.downsamples.0.downsamples.")))
        part->content = ZOE_CONTENT_WAN_VAE_22;
    if (is_plain_t5(part->store))
        part->content = ZOE_CONTENT_UNKNOWN;
    tell_dims(part);
    switch (part->content) {
    case ZOE_CONTENT_WAN_DIT: return describe_dit(ctx, part);
    case ZOE_CONTENT_WAN_VAE_21: return zoe_strdup(ctx, &part->what, "Wan 2.1 VAE");
    case ZOE_CONTENT_WAN_VAE_22: return zoe_strdup(ctx, &part->what, "Wan 2.2 VAE (of TI2V-5B)");
    case ZOE_CONTENT_UMT5: return zoe_strdup(ctx, &part->what, "umT5 text encoder");
    case ZOE_CONTENT_CLIP: return zoe_strdup(ctx, &part->what, "CLIP image tower");
    default: return zoe_strdup(ctx, &part->what, "T5 v1.1 text encoder, which is no umT5");
    }
}

/* ---- what the loaders say ---- */

typedef struct gaps {
    zoe_context *ctx;
    zoe_part_info *part;
    bool base_only; /* names beyond the base model belong to a relative and are not unknown */
    zoe_status status;
} gaps;

static void note_gap(void *user, const char *name, bool missing)
{
    gaps *g = user;
    if (g->status == ZOE_OK && (missing || !g->base_only))
        g->status = zoe_texts_add(g->ctx, missing ? &g->part->missing : &g->part->unknown, name);
}

static zoe_status load_dit(zoe_context *ctx, const zoe_part_info *part)
{
    zoe_config *config = NULL;
    zoe_wan *wan = NULL;
    char *beside = NULL;
    zoe_status status;
    TRY(zoe_config_locate(ctx, &beside, part->path));
    if (beside)
        TRY_GOTO(zoe_config_open(ctx, &config, beside));
    TRY_GOTO(zoe_wan_open(ctx, &wan, part->store, config, false));
    TRY_GOTO(zoe_expert_check(ctx, zoe_wan_dims_of(wan), part->path));
done:
    zoe_wan_close(wan);
    zoe_config_close(config);
    zoe_free(beside);
    return status;
}

static zoe_status load_vae(zoe_context *ctx, const zoe_part_info *part)
{
    zoe_vae *vae;
    const zoe_status status = zoe_vae_open(ctx, &vae, part->store);
    zoe_vae_close(vae);
    return status;
}

static zoe_status load_umt5(zoe_context *ctx, const zoe_part_info *part)
{
    zoe_umt5 *umt5;
    const zoe_status status = zoe_umt5_open(ctx, &umt5, part->store, false);
    zoe_umt5_close(umt5);
    return status;
}

static zoe_status load_clip(zoe_context *ctx, const zoe_part_info *part)
{
    zoe_clip *clip;
    const zoe_status status = zoe_clip_open(ctx, &clip, part->store);
    zoe_clip_close(clip);
    return status;
}

/* Whether a LoRA fits, the model tells; that it is none, the file itself. */
static zoe_status check_lora(zoe_context *ctx, const zoe_part_info *part)
{
    for (size_t i = 0; i < zoe_store_count(part->store); i++) {
        const char *key = zoe_store_name(part->store, i), *kind = zoe_lora_key_foreign(key);
        if (kind)
            return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: is a %s (it has %s), which is not supported",
                            part->path, kind, key);
    }
    return ZOE_OK;
}

static zoe_status load(zoe_context *ctx, const zoe_part_info *part)
{
    switch (part->content) {
    case ZOE_CONTENT_WAN_DIT: return load_dit(ctx, part);
    case ZOE_CONTENT_WAN_VAE_21:
    case ZOE_CONTENT_WAN_VAE_22: return load_vae(ctx, part);
    case ZOE_CONTENT_UMT5: return load_umt5(ctx, part);
    case ZOE_CONTENT_CLIP: return load_clip(ctx, part);
    case ZOE_CONTENT_LORA: return check_lora(ctx, part);
    default: return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: of no use for a run", part->path);
    }
}

/* A part that a run cannot use is sound all the same if it is whole; one that lacks tensors, or
 * whose shapes or configuration contradict, is not. */
static zoe_status judge(zoe_inspection *in, zoe_part_info *part, const struct family *family)
{
    const bool looked_at = family && part->content != ZOE_CONTENT_UNKNOWN &&
                           part->content != ZOE_CONTENT_WAN_VAE_22 &&
                           part->content != ZOE_CONTENT_CLIP;
    const char *sign;
    if (looked_at) {
        gaps g = {.ctx = in->ctx, .part = part};
        g.base_only = part->content == ZOE_CONTENT_WAN_DIT && zoe_wan_relative(part->store, &sign);
        zoe_network_gaps(part->store, family->network, note_gap, &g);
        TRY(g.status);
    }
    const zoe_status status = load(in->trial, part);
    part->supported = status == ZOE_OK;
    part->sound = (status == ZOE_OK || status == ZOE_UNSUPPORTED) && part->missing.total == 0;
    if (status == ZOE_OK)
        return ZOE_OK;
    TRY(zoe_trial_sentence(in, &part->refusal));
    return zoe_is_grave(status) ? zoe_fail(in->ctx, status, "%s", part->refusal) : ZOE_OK;
}

/* ---- tokenizer ---- */

static zoe_status inspect_tokenizer(zoe_inspection *in, zoe_part_info *part)
{
    zoe_tokenizer *tokenizer;
    const zoe_status status = zoe_tokenizer_open(in->trial, &tokenizer, part->path);
    part->content = ZOE_CONTENT_TOKENIZER;
    part->supported = part->sound = status == ZOE_OK;
    TRY(zoe_strdup(in->ctx, &part->what, "tokenizer"));
    if (status == ZOE_OK)
        add_dim(part, "vocabulary", zoe_tokenizer_size(tokenizer));
    zoe_tokenizer_close(tokenizer);
    if (status == ZOE_OK)
        return ZOE_OK;
    TRY(zoe_trial_sentence(in, &part->refusal));
    return zoe_is_grave(status) ? zoe_fail(in->ctx, status, "%s", part->refusal) : ZOE_OK;
}

/* ---- the whole ---- */

zoe_status zoe_part_inspect(zoe_inspection *in, zoe_part_info *part)
{
    const struct family *family;
    TRY(zoe_check_cancel(in->ctx));
    if (part->content == ZOE_CONTENT_TOKENIZER)
        return inspect_tokenizer(in, part);
    const zoe_status status = open_store(in, part, &family);
    if (status != ZOE_OK) {
        TRY(zoe_trial_sentence(in, &part->refusal));
        part->sound = status == ZOE_UNSUPPORTED;
        TRY(zoe_strdup(in->ctx, &part->what,
                       part->sound ? "a file of a kind that is not read" : "cannot be read"));
        return zoe_is_grave(status) ? zoe_fail(in->ctx, status, "%s", part->refusal) : ZOE_OK;
    }
    add_up(part);
    TRY(describe(in->ctx, part, family));
    return judge(in, part, family);
}

void zoe_part_info_free(zoe_part_info *part)
{
    zoe_store_close(part->store);
    zoe_free(part->path);
    zoe_free(part->what);
    zoe_free(part->names);
    zoe_free(part->refusal);
    zoe_texts_free(&part->missing);
    zoe_texts_free(&part->unknown);
    for (size_t i = 0; i < part->n_files; i++)
        zoe_free(part->files[i].path);
    zoe_free(part->files);
    zoe_free(part->nonfinite);
    *part = (zoe_part_info){0};
}
