/* The umT5 encoder: transformers and llama.cpp names to official ones. transformers stores the
 * embedding under one of two names, or both. */
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

static const zoe_name_rule llama_rules[] = {
    {"token_embd.weight", "token_embedding.weight"},
    {"enc.blk.#.attn_norm.*", "blocks.#.norm1.*"},
    {"enc.blk.#.attn_rel_b.*", "blocks.#.pos_embedding.embedding.*"},
    {"enc.blk.#.attn_q.*", "blocks.#.attn.q.*"},
    {"enc.blk.#.attn_k.*", "blocks.#.attn.k.*"},
    {"enc.blk.#.attn_v.*", "blocks.#.attn.v.*"},
    {"enc.blk.#.attn_o.*", "blocks.#.attn.o.*"},
    {"enc.blk.#.ffn_norm.*", "blocks.#.norm2.*"},
    {"enc.blk.#.ffn_gate.*", "blocks.#.ffn.gate.0.*"},
    {"enc.blk.#.ffn_up.*", "blocks.#.ffn.fc1.*"},
    {"enc.blk.#.ffn_down.*", "blocks.#.ffn.fc2.*"},
    {"enc.output_norm.*", "norm.*"},
    {NULL, NULL},
};

const zoe_name_table zoe_names_llama_umt5 = {
    .signs = {"enc.blk.#.attn_q.*", NULL},
    .rules = {llama_rules, NULL},
};
