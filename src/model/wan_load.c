/* Wan DiT: from a store to a network. Official names and shapes; what the config leaves out comes
 * from the shapes. */
#include "model/wan.h"

#include <stdio.h>

enum { HEAD_WIDTH = 128 }; /* of every published Wan model */

/* Tensors that tell a relative of Wan which needs inputs that this engine does not make. */
static const struct {
    const char *name, *kind;
} relatives[] = {
    {"vace_blocks.0.before_proj.weight", "VACE"},
    {"vace_patch_embedding.weight", "VACE"},
    {"casual_audio_encoder.weights", "S2V (speech to video)"},
    {"cond_encoder.weight", "S2V (speech to video)"},
    {"face_adapter.fuser_blocks.0.linear1_kv.weight", "Animate"},
    {"pose_patch_embedding.weight", "Animate"},
    {"motion_encoder.enc.net_app.convs.0.0.weight", "Animate"},
    {"control_adapter.conv.weight", "camera control"},
};

/* Every tensor of the network: at top level, and inside a block. */
static const char *const top_names[] = {
    "patch_embedding.weight",
    "patch_embedding.bias",
    "text_embedding.0.weight",
    "text_embedding.0.bias",
    "text_embedding.2.weight",
    "text_embedding.2.bias",
    "time_embedding.0.weight",
    "time_embedding.0.bias",
    "time_embedding.2.weight",
    "time_embedding.2.bias",
    "time_projection.1.weight",
    "time_projection.1.bias",
    "head.head.weight",
    "head.head.bias",
    "head.modulation",
    /* the image branch */
    "img_emb.proj.0.weight",
    "img_emb.proj.0.bias",
    "img_emb.proj.1.weight",
    "img_emb.proj.1.bias",
    "img_emb.proj.3.weight",
    "img_emb.proj.3.bias",
    "img_emb.proj.4.weight",
    "img_emb.proj.4.bias",
    "img_emb.emb_pos",
};
static const char *const block_names[] = {
    "modulation",
    "self_attn.q.weight",
    "self_attn.q.bias",
    "self_attn.k.weight",
    "self_attn.k.bias",
    "self_attn.v.weight",
    "self_attn.v.bias",
    "self_attn.o.weight",
    "self_attn.o.bias",
    "self_attn.norm_q.weight",
    "self_attn.norm_k.weight",
    "norm3.weight",
    "norm3.bias",
    "cross_attn.q.weight",
    "cross_attn.q.bias",
    "cross_attn.k.weight",
    "cross_attn.k.bias",
    "cross_attn.v.weight",
    "cross_attn.v.bias",
    "cross_attn.o.weight",
    "cross_attn.o.bias",
    "cross_attn.norm_q.weight",
    "cross_attn.norm_k.weight",
    "ffn.0.weight",
    "ffn.0.bias",
    "ffn.2.weight",
    "ffn.2.bias",
    /* the image branch */
    "cross_attn.k_img.weight",
    "cross_attn.k_img.bias",
    "cross_attn.v_img.weight",
    "cross_attn.v_img.bias",
    "cross_attn.norm_k_img.weight",
};
enum {
    TOP_NAMES = sizeof top_names / sizeof *top_names,
    BLOCK_NAMES = sizeof block_names / sizeof *block_names,
    IMAGE_TOP = 9, /* of them belong to the image branch */
    IMAGE_BLOCK = 5
};
static const zoe_names_known plain_names = {top_names, TOP_NAMES - IMAGE_TOP, block_names,
                                            BLOCK_NAMES - IMAGE_BLOCK, 0};
static const zoe_names_known image_names = {top_names, TOP_NAMES, block_names, BLOCK_NAMES, 1};

static bool has_image_branch(const zoe_store *store)
{
    zoe_tensor t;
    return zoe_store_find(store, "img_emb.proj.0.weight", &t) ||
           zoe_store_find(store, "img_emb.proj.0.bias", &t);
}

const zoe_names_known *zoe_wan_names(const zoe_store *store)
{
    return has_image_branch(store) ? &image_names : &plain_names;
}

const char *zoe_wan_relative(const zoe_store *store, const char **sign)
{
    zoe_tensor t;
    for (size_t i = 0; i < sizeof relatives / sizeof *relatives; i++)
        if (zoe_store_find(store, relatives[i].name, &t)) {
            *sign = relatives[i].name;
            return relatives[i].kind;
        }
    return NULL;
}

static zoe_status refuse_relatives(zoe_context *ctx, const zoe_store *store)
{
    const char *sign, *kind = zoe_wan_relative(store, &sign);
    return kind ? zoe_fail(ctx, ZOE_UNSUPPORTED,
                           "%s: this is a relative of Wan, %s (it has %s), which is not supported",
                           zoe_store_path(store), kind, sign)
                : ZOE_OK;
}

/* A config value must agree with the shape it describes. */
static zoe_status agree(zoe_context *ctx, const zoe_store *store, const zoe_config *config,
                        const char *key, size_t found)
{
    size_t said = found;
    if (config)
        TRY(zoe_config_size(ctx, config, key, 1, 1u << 24, &said));
    if (said != found)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: config.json says %s %zu, the tensors have %zu",
                        zoe_store_path(store), key, said, found);
    return ZOE_OK;
}

static zoe_status infer_dims(zoe_context *ctx, zoe_wan_dims *d, const zoe_store *store,
                             const zoe_config *config)
{
    zoe_tensor t;
    *d = (zoe_wan_dims){.eps = 1e-6f, .text_len = 512};
    if (!zoe_store_find(store, "patch_embedding.weight", &t))
        return zoe_fail(
            ctx, ZOE_MISSING,
            "%s: no Wan model: tensor patch_embedding.weight is not there (%zu tensors, "
            "the first is %s)",
            zoe_store_path(store), zoe_store_count(store),
            zoe_store_count(store) ? zoe_store_name(store, 0) : "none");
    if (t.rank != 5 || t.shape[2] != 1 || t.shape[3] != 2 || t.shape[4] != 2) {
        char shape[96];
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: patch_embedding.weight is %s, [dim, channels, 1, 2, 2] is wanted",
                        zoe_store_path(store), zoe_tensor_describe(shape, sizeof shape, t));
    }
    d->dim = t.shape[0];
    d->in_dim = t.shape[1];
    TRY(zoe_matrix(ctx, store, &t, "", "blocks.0.ffn.0.weight", 0, d->dim));
    d->ffn_dim = t.shape[0];
    TRY(zoe_matrix(ctx, store, &t, "", "text_embedding.0.weight", d->dim, 0));
    d->text_dim = t.shape[1];
    TRY(zoe_matrix(ctx, store, &t, "", "time_embedding.0.weight", d->dim, 0));
    d->freq_dim = t.shape[1];
    TRY(zoe_matrix(ctx, store, &t, "", "head.head.weight", 0, d->dim));
    d->out_dim = t.shape[0] / 4;
    d->layers = zoe_count_blocks(store);
    if (has_image_branch(store)) {
        TRY(zoe_matrix(ctx, store, &t, "", "img_emb.proj.1.weight", 0, 0));
        d->image_dim = t.shape[1];
        if (zoe_store_find(store, "img_emb.emb_pos", &t) && t.rank == 3)
            d->image_positions = t.shape[1];
    }
    d->heads = d->dim / HEAD_WIDTH;
    if (!config && d->dim % HEAD_WIDTH)
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: there is no config.json beside it that tells num_heads, and the width "
                        "%zu is no multiple of the usual head width %d",
                        zoe_store_path(store), d->dim, (int)HEAD_WIDTH);
    if (config) {
        double eps = 1e-6;
        TRY(zoe_config_size(ctx, config, "num_heads", 1, 4096, &d->heads));
        TRY(zoe_config_size(ctx, config, "num_attention_heads", 1, 4096,
                            &d->heads)); /* diffusers */
        TRY(zoe_config_size(ctx, config, "text_len", 1, 65536, &d->text_len));
        TRY(zoe_config_real(ctx, config, "eps", &eps));
        d->eps = (float)eps;
    }
    TRY(agree(ctx, store, config, "dim", d->dim));
    TRY(agree(ctx, store, config, "ffn_dim", d->ffn_dim));
    TRY(agree(ctx, store, config, "in_dim", d->in_dim));
    TRY(agree(ctx, store, config, "out_dim", d->out_dim));
    TRY(agree(ctx, store, config, "freq_dim", d->freq_dim));
    TRY(agree(ctx, store, config, "text_dim", d->text_dim));
    TRY(agree(ctx, store, config, "num_layers", d->layers));
    TRY(agree(ctx, store, config, "in_channels", d->in_dim)); /* this and the next two: diffusers */
    TRY(agree(ctx, store, config, "out_channels", d->out_dim));
    return agree(ctx, store, config, "attention_head_dim", d->heads ? d->dim / d->heads : 0);
}

/* What the config says that the network is for must suit its channels. */
static zoe_status check_type(zoe_context *ctx, const zoe_wan_dims *d, const zoe_store *store,
                             const zoe_config *config)
{
    const char *type = config ? zoe_config_text(config, "model_type") : NULL;
    if (!type)
        return ZOE_OK;
    const bool image = strcmp(type, "i2v") == 0 || strcmp(type, "flf2v") == 0;
    if (!image && strcmp(type, "t2v") != 0 && strcmp(type, "ti2v") != 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: config.json says model_type \"%s\", which is not supported",
                        zoe_store_path(store), type);
    if (image != (d->in_dim > d->out_dim))
        return zoe_fail(
            ctx, ZOE_FORMAT,
            "%s: config.json says model_type \"%s\", but the network takes %zu channels "
            "and gives %zu",
            zoe_store_path(store), type, d->in_dim, d->out_dim);
    return ZOE_OK;
}

static zoe_status check_dims(zoe_context *ctx, const zoe_wan_dims *d, const zoe_store *store)
{
    const bool sound = d->dim > 0 && d->heads > 0 && d->dim % d->heads == 0 &&
                       d->dim / d->heads % 2 == 0 && d->ffn_dim > 0 && d->layers > 0 &&
                       d->in_dim > 0 && d->out_dim > 0 && d->in_dim >= d->out_dim &&
                       d->freq_dim >= 2 && d->freq_dim % 2 == 0 && d->text_dim > 0 &&
                       d->eps > 0.0f && d->eps <= 0.01f;
    if (!sound)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: sizes do not fit together: dim %zu, heads %zu, ffn %zu, layers %zu, "
                        "channels %zu in and %zu out, freq_dim %zu, text_dim %zu, eps %g",
                        zoe_store_path(store), d->dim, d->heads, d->ffn_dim, d->layers, d->in_dim,
                        d->out_dim, d->freq_dim, d->text_dim, (double)d->eps);
    return ZOE_OK;
}

/* ---- every layer and vector ---- */

typedef struct walk {
    zoe_wan *m;
    const wan_visitor *visitor;
} walk;

static zoe_status visit_linear(const walk *l, wan_linear *linear, const char *prefix,
                               const char *name, size_t out, size_t in)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return l->visitor->linear(l->visitor->user, linear, full, out, in);
}

static zoe_status visit_vector(const walk *l, float **values, const char *prefix, const char *name,
                               size_t n)
{
    return l->visitor->vector(l->visitor->user, values, prefix, name, n);
}

static zoe_status visit_attention(const walk *l, wan_attention *a, const char *prefix)
{
    const size_t D = l->m->dims.dim;
    TRY(visit_linear(l, &a->q, prefix, "q", D, D));
    TRY(visit_linear(l, &a->k, prefix, "k", D, D));
    TRY(visit_linear(l, &a->v, prefix, "v", D, D));
    TRY(visit_linear(l, &a->o, prefix, "o", D, D));
    TRY(visit_vector(l, &a->norm_q, prefix, "norm_q.weight", D));
    return visit_vector(l, &a->norm_k, prefix, "norm_k.weight", D);
}

/* What a picture's features go through. Source: Wan2.1 wan/modules/model.py, class MLPProj. */
static zoe_status visit_image(const walk *l)
{
    zoe_wan *m = l->m;
    const size_t I = m->dims.image_dim, D = m->dims.dim;
    if (m->dims.image_positions > 0)
        TRY(visit_vector(l, &m->image.positions, "", "img_emb.emb_pos",
                         m->dims.image_positions * I));
    TRY(visit_vector(l, &m->image.norm_in[0], "", "img_emb.proj.0.weight", I));
    TRY(visit_vector(l, &m->image.norm_in[1], "", "img_emb.proj.0.bias", I));
    TRY(visit_linear(l, &m->image.up, "", "img_emb.proj.1", I, I));
    TRY(visit_linear(l, &m->image.down, "", "img_emb.proj.3", D, I));
    TRY(visit_vector(l, &m->image.norm_out[0], "", "img_emb.proj.4.weight", D));
    return visit_vector(l, &m->image.norm_out[1], "", "img_emb.proj.4.bias", D);
}

static zoe_status visit_image_attention(const walk *l, wan_attention *a, const char *prefix)
{
    const size_t D = l->m->dims.dim;
    TRY(visit_linear(l, &a->k_img, prefix, "k_img", D, D));
    TRY(visit_linear(l, &a->v_img, prefix, "v_img", D, D));
    return visit_vector(l, &a->norm_k_img, prefix, "norm_k_img.weight", D);
}

static zoe_status visit_block(const walk *l, size_t i)
{
    const size_t D = l->m->dims.dim, N = l->m->dims.ffn_dim;
    wan_block *b = &l->m->blocks[i];
    char prefix[64], part[96];
    snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
    TRY(visit_vector(l, &b->modulation, prefix, "modulation", 6 * D));
    snprintf(part, sizeof part, "%sself_attn.", prefix);
    TRY(visit_attention(l, &b->self, part));
    snprintf(part, sizeof part, "%scross_attn.", prefix);
    TRY(visit_attention(l, &b->cross, part));
    if (l->m->dims.image_dim > 0)
        TRY(visit_image_attention(l, &b->cross, part));
    TRY(visit_vector(l, &b->norm3_weight, prefix, "norm3.weight", D));
    TRY(visit_vector(l, &b->norm3_bias, prefix, "norm3.bias", D));
    TRY(visit_linear(l, &b->ffn0, prefix, "ffn.0", N, D));
    return visit_linear(l, &b->ffn2, prefix, "ffn.2", D, N);
}

zoe_status zoe_wan_visit(zoe_wan *m, const wan_visitor *visitor)
{
    const zoe_wan_dims *d = &m->dims;
    const walk *l = &(walk){m, visitor};
    TRY(visit_linear(l, &m->patch, "", "patch_embedding", d->dim, 4 * d->in_dim));
    TRY(visit_linear(l, &m->text0, "", "text_embedding.0", d->dim, d->text_dim));
    TRY(visit_linear(l, &m->text2, "", "text_embedding.2", d->dim, d->dim));
    TRY(visit_linear(l, &m->time0, "", "time_embedding.0", d->dim, d->freq_dim));
    TRY(visit_linear(l, &m->time2, "", "time_embedding.2", d->dim, d->dim));
    TRY(visit_linear(l, &m->time_projection, "", "time_projection.1", 6 * d->dim, d->dim));
    TRY(visit_linear(l, &m->head, "", "head.head", 4 * d->out_dim, d->dim));
    TRY(visit_vector(l, &m->head_modulation, "", "head.modulation", 2 * d->dim));
    if (d->image_dim > 0)
        TRY(visit_image(l));
    for (size_t i = 0; i < d->layers; i++)
        TRY(visit_block(l, i));
    return ZOE_OK;
}

/* ---- opening ---- */

typedef struct loader {
    zoe_context *ctx;
    zoe_wan *m;
    const zoe_store *store;
} loader;

static zoe_status load_linear(void *user, wan_linear *linear, const char *name, size_t out,
                              size_t in)
{
    const loader *l = user;
    TRY(zoe_matrix(l->ctx, l->store, &linear->w, name, ".weight", out, in));
    return zoe_vector(l->ctx, &l->m->vectors, l->store, &linear->bias, name, ".bias", out);
}

static zoe_status load_vector(void *user, float **values, const char *prefix, const char *name,
                              size_t n)
{
    const loader *l = user;
    return zoe_vector(l->ctx, &l->m->vectors, l->store, values, prefix, name, n);
}

static zoe_status load(loader *l)
{
    const wan_visitor visitor = {.linear = load_linear, .vector = load_vector, .user = l};
    void *p;
    TRY(zoe_alloc_zero(l->ctx, &p, l->m->dims.layers, sizeof *l->m->blocks, "transformer"));
    l->m->blocks = p;
    return zoe_wan_visit(l->m, &visitor);
}

zoe_status zoe_wan_open(zoe_context *ctx, zoe_wan **wan, const zoe_store *store,
                        const zoe_config *config, bool bf16)
{
    zoe_wan_dims dims;
    void *p;
    *wan = NULL;
    TRY(refuse_relatives(ctx, store));
    TRY(infer_dims(ctx, &dims, store, config));
    TRY(check_dims(ctx, &dims, store));
    TRY(check_type(ctx, &dims, store, config));
    TRY(zoe_refuse_unknown(ctx, store, zoe_wan_names(store), dims.layers));
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **wan, "transformer"));
    zoe_wan *m = p;
    m->dims = dims;
    m->bf16 = bf16;
    m->vectors.round = bf16;
    const zoe_status status = load(&(loader){.ctx = ctx, .m = m, .store = store});
    if (status != ZOE_OK)
        zoe_wan_close(m);
    else
        *wan = m;
    return status;
}

void zoe_wan_close(zoe_wan *wan)
{
    if (!wan)
        return;
    zoe_wan_stream_end(wan);
    zoe_wan_unquantise(wan);
    zoe_vectors_free(&wan->vectors);
    zoe_wan_adapters_free(wan);
    zoe_free(wan->blocks);
    zoe_free(wan);
}

const zoe_wan_dims *zoe_wan_dims_of(const zoe_wan *wan)
{
    return &wan->dims;
}

size_t zoe_wan_weight_bytes(const zoe_wan *wan)
{
    return wan->vectors.bytes + wan->adapter_bytes;
}
