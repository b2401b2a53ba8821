/* CLIP's image tower: names of transformers and ComfyUI to those of open-clip. There q, k and v are
 * one matrix, here three; the model takes either. */
#include "store/names.h"

#include <stddef.h>

static const zoe_name_rule rules[] = {
    {"vision_model.embeddings.class_embedding", "visual.cls_embedding"},
    {"vision_model.embeddings.position_embedding.weight", "visual.pos_embedding"},
    {"vision_model.embeddings.patch_embedding.weight", "visual.patch_embedding.weight"},
    {"vision_model.pre_layrnorm.*", "visual.pre_norm.*"}, /* spelled so */
    {"vision_model.post_layernorm.*", "visual.post_norm.*"},
    {"vision_model.encoder.layers.#.@", "visual.transformer.#.@"},
    {NULL, NULL},
};

static const zoe_name_rule parts[] = {
    {"layer_norm1.*", "norm1.*"},
    {"layer_norm2.*", "norm2.*"},
    {"self_attn.q_proj.*", "attn.q.*"},
    {"self_attn.k_proj.*", "attn.k.*"},
    {"self_attn.v_proj.*", "attn.v.*"},
    {"self_attn.out_proj.*", "attn.proj.*"},
    {"mlp.fc1.*", "mlp.0.*"},
    {"mlp.fc2.*", "mlp.2.*"},
    {NULL, NULL},
};

const zoe_name_table zoe_names_transformers_clip = {
    .signs = {"vision_model.encoder.*", NULL},
    .rules = {rules, NULL},
    .parts = parts,
};
