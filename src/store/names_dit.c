/* The Wan transformer: diffusers names to official ones.
 *
 * Two traps: norm2 and norm3 trade their names (the norm with weights, before cross-attention, is
 * norm3 officially), and scale_shift_table is the head's modulation at the top level but a block's
 * modulation inside a block. */
#include "store/names.h"

#include <stddef.h>

static const zoe_name_rule rules[] = {
    {"condition_embedder.text_embedder.linear_1.*", "text_embedding.0.*"},
    {"condition_embedder.text_embedder.linear_2.*", "text_embedding.2.*"},
    {"condition_embedder.time_embedder.linear_1.*", "time_embedding.0.*"},
    {"condition_embedder.time_embedder.linear_2.*", "time_embedding.2.*"},
    {"condition_embedder.time_proj.*", "time_projection.1.*"},

    {"blocks.#.scale_shift_table", "blocks.#.modulation"},
    {"blocks.#.norm2.*", "blocks.#.norm3.*"},
    {"blocks.#.attn1.to_q.*", "blocks.#.self_attn.q.*"},
    {"blocks.#.attn1.to_k.*", "blocks.#.self_attn.k.*"},
    {"blocks.#.attn1.to_v.*", "blocks.#.self_attn.v.*"},
    {"blocks.#.attn1.to_out.0.*", "blocks.#.self_attn.o.*"},
    {"blocks.#.attn1.norm_q.*", "blocks.#.self_attn.norm_q.*"},
    {"blocks.#.attn1.norm_k.*", "blocks.#.self_attn.norm_k.*"},
    {"blocks.#.attn2.to_q.*", "blocks.#.cross_attn.q.*"},
    {"blocks.#.attn2.to_k.*", "blocks.#.cross_attn.k.*"},
    {"blocks.#.attn2.to_v.*", "blocks.#.cross_attn.v.*"},
    {"blocks.#.attn2.to_out.0.*", "blocks.#.cross_attn.o.*"},
    {"blocks.#.attn2.norm_q.*", "blocks.#.cross_attn.norm_q.*"},
    {"blocks.#.attn2.norm_k.*", "blocks.#.cross_attn.norm_k.*"},
    {"blocks.#.ffn.net.0.proj.*", "blocks.#.ffn.0.*"},
    {"blocks.#.ffn.net.2.*", "blocks.#.ffn.2.*"},

    {"scale_shift_table", "head.modulation"},
    {"proj_out.*", "head.head.*"},

    /* the image branch of Wan 2.1 */
    {"blocks.#.attn2.add_k_proj.*", "blocks.#.cross_attn.k_img.*"},
    {"blocks.#.attn2.add_v_proj.*", "blocks.#.cross_attn.v_img.*"},
    {"blocks.#.attn2.norm_added_k.*", "blocks.#.cross_attn.norm_k_img.*"},
    {"condition_embedder.image_embedder.norm1.*", "img_emb.proj.0.*"},
    {"condition_embedder.image_embedder.ff.net.0.proj.*", "img_emb.proj.1.*"},
    {"condition_embedder.image_embedder.ff.net.2.*", "img_emb.proj.3.*"},
    {"condition_embedder.image_embedder.norm2.*", "img_emb.proj.4.*"},
    {"condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos"},
    {NULL, NULL},
};

const zoe_name_table zoe_names_diffusers_dit = {
    .signs = {"blocks.#.attn1.to_q.*", "condition_embedder.*"},
    .rules = {rules, NULL},
};
