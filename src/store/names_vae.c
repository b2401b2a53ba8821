/* The Wan autoencoders: diffusers names to official ones. */
#include "store/names.h"

#include <stddef.h>

/* Inside a residual block. */
static const zoe_name_rule parts[] = {
    {"norm1.*", "residual.0.*"}, {"conv1.*", "residual.2.*"},       {"norm2.*", "residual.3.*"},
    {"conv2.*", "residual.6.*"}, {"conv_shortcut.*", "shortcut.*"}, {NULL, NULL},
};

static const zoe_name_rule common[] = {
    {"quant_conv.*", "conv1.*"},
    {"post_quant_conv.*", "conv2.*"},
    {"encoder.conv_in.*", "encoder.conv1.*"},
    {"encoder.mid_block.resnets.0.@", "encoder.middle.0.@"},
    {"encoder.mid_block.attentions.0.*", "encoder.middle.1.*"},
    {"encoder.mid_block.resnets.1.@", "encoder.middle.2.@"},
    {"encoder.norm_out.*", "encoder.head.0.*"},
    {"encoder.conv_out.*", "encoder.head.2.*"},
    {"decoder.conv_in.*", "decoder.conv1.*"},
    {"decoder.mid_block.resnets.0.@", "decoder.middle.0.@"},
    {"decoder.mid_block.attentions.0.*", "decoder.middle.1.*"},
    {"decoder.mid_block.resnets.1.@", "decoder.middle.2.@"},
    {"decoder.norm_out.*", "decoder.head.0.*"},
    {"decoder.conv_out.*", "decoder.head.2.*"},
    {NULL, NULL},
};

/* Wan 2.1: the encoder's list is flat on both sides; the decoder's is flat officially, with three
 * residual blocks and an upsampler to each level. */
static const zoe_name_rule levels_21[] = {
    {"encoder.down_blocks.#.@", "encoder.downsamples.#.@"},
    {"decoder.up_blocks.0.resnets.0.@", "decoder.upsamples.0.@"},
    {"decoder.up_blocks.0.resnets.1.@", "decoder.upsamples.1.@"},
    {"decoder.up_blocks.0.resnets.2.@", "decoder.upsamples.2.@"},
    {"decoder.up_blocks.0.upsamplers.0.*", "decoder.upsamples.3.*"},
    {"decoder.up_blocks.1.resnets.0.@", "decoder.upsamples.4.@"},
    {"decoder.up_blocks.1.resnets.1.@", "decoder.upsamples.5.@"},
    {"decoder.up_blocks.1.resnets.2.@", "decoder.upsamples.6.@"},
    {"decoder.up_blocks.1.upsamplers.0.*", "decoder.upsamples.7.*"},
    {"decoder.up_blocks.2.resnets.0.@", "decoder.upsamples.8.@"},
    {"decoder.up_blocks.2.resnets.1.@", "decoder.upsamples.9.@"},
    {"decoder.up_blocks.2.resnets.2.@", "decoder.upsamples.10.@"},
    {"decoder.up_blocks.2.upsamplers.0.*", "decoder.upsamples.11.*"},
    {"decoder.up_blocks.3.resnets.0.@", "decoder.upsamples.12.@"},
    {"decoder.up_blocks.3.resnets.1.@", "decoder.upsamples.13.@"},
    {"decoder.up_blocks.3.resnets.2.@", "decoder.upsamples.14.@"},
    {NULL, NULL},
};

/* Wan 2.2: levels on both sides. */
static const zoe_name_rule levels_22[] = {
    {"encoder.down_blocks.#.resnets.#.@", "encoder.downsamples.#.downsamples.#.@"},
    {"encoder.down_blocks.#.downsampler.*", "encoder.downsamples.#.downsamples.2.*"},
    {"decoder.up_blocks.#.resnets.#.@", "decoder.upsamples.#.upsamples.#.@"},
    {"decoder.up_blocks.#.upsampler.*", "decoder.upsamples.#.upsamples.3.*"},
    {NULL, NULL},
};

const zoe_name_table zoe_names_diffusers_vae21 = {
    .signs = {"decoder.up_blocks.#.upsamplers.0.*", "encoder.down_blocks.#.conv1.*"},
    .rules = {common, levels_21},
    .parts = parts,
};

const zoe_name_table zoe_names_diffusers_vae22 = {
    .signs = {"decoder.up_blocks.#.upsampler.*", "encoder.down_blocks.#.resnets.#.*"},
    .rules = {common, levels_22},
    .parts = parts,
};
