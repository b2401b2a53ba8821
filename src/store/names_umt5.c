/* The umT5 encoder: transformers names to official ones. The embedding is stored under one of two
 * names, or both. */
#include "store/names.h"

#include <stddef.h>

static const zoe_name_rule rules[] = {
    {"shared.weight", "token_embedding.weight"},
    {"encoder.embed_tokens.weight", "token_embedding.weight"},
    {"encoder.block.#.layer.0.layer_norm.*", "blocks.#.norm1.*"},
    {"encoder.block.#.layer.0.SelfAttention.relative_attention_bias.*",
     "blocks.#.pos_embedding.embedding.*"},
    {"encoder.block.#.layer.0.SelfAttention.*", "blocks.#.attn.*"},
    {"encoder.block.#.layer.1.layer_norm.*", "blocks.#.norm2.*"},
    {"encoder.block.#.layer.1.DenseReluDense.wi_0.*", "blocks.#.ffn.gate.0.*"},
    {"encoder.block.#.layer.1.DenseReluDense.wi_1.*", "blocks.#.ffn.fc1.*"},
    {"encoder.block.#.layer.1.DenseReluDense.wo.*", "blocks.#.ffn.fc2.*"},
    {"encoder.final_layer_norm.*", "norm.*"},
    {NULL, NULL},
};

const zoe_name_table zoe_names_transformers_umt5 = {
    .signs = {"encoder.block.#.layer.0.SelfAttention.q.*", NULL},
    .rules = {rules, NULL},
};
