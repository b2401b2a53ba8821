/* Wan VAE: from a store to two lines of layers. The number of levels and blocks and all widths come
 * from the names and shapes of the tensors. */
#include "model/vae.h"

#include <stdio.h>

static bool is_resample(vae_kind kind)
{
    return kind == VAE_DOWN2D || kind == VAE_DOWN3D || kind == VAE_UP2D || kind == VAE_UP3D;
}

typedef struct loader {
    zoe_context *ctx;
    zoe_vae *m;
    const zoe_store *store;
    bool again; /* the layers are known, only their convolutions are made anew */
    bool pack;  /* with their weights, not their extents alone */
} loader;

static bool has(const loader *l, const char *prefix, const char *name)
{
    char full[160];
    zoe_tensor t;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return zoe_store_find(l->store, full, &t);
}

/* Rows first .. first + rows - 1 of t, in a form that a convolution takes: where they lie, or, of f8,
 * blocks and weights with scales, as f32 in *copy, which is to be freed. */
static zoe_status take_rows(zoe_context *ctx, zoe_tensor *t, void **copy, size_t first, size_t rows)
{
    const size_t row = t->shape[0] ? zoe_tensor_count(*t) / t->shape[0] : 0;
    const bool plain =
        (t->dtype == ZOE_F32 || t->dtype == ZOE_F16 || t->dtype == ZOE_BF16) && !t->scaling;
    t->shape[0] = rows;
    if (plain) {
        t->data = (unsigned char *)t->data + zoe_run_bytes(t->dtype, first * row);
        return ZOE_OK;
    }
    TRY(zoe_alloc(ctx, copy, rows * row, sizeof(float), "weights of a convolution"));
    zoe_tensor_widen(*copy, *t, first * row, rows * row);
    *t = zoe_tensor_of(*copy, ZOE_F32, t->rank, t->shape);
    return ZOE_OK;
}

/* The weight and bias prefix+name with this many channels and kernel kt x kh x kw (kt 0: a 2-D
 * convolution), packed, or their extents alone. Outputs first .. first + count - 1 only; count 0 means
 * all. */
static zoe_status load_conv(const loader *l, zoe_conv_weights **packed, const char *prefix,
                            const char *name, size_t out, size_t in, size_t kt, size_t k,
                            size_t first, size_t count)
{
    char full[160];
    zoe_tensor w, bias;
    void *copies[2] = {NULL, NULL};
    zoe_status status;
    const size_t shape3[] = {out, in, kt, k, k}, shape2[] = {out, in, k, k};
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    TRY(zoe_store_get(l->ctx, l->store, &w, full, kt ? 5 : 4, kt ? shape3 : shape2));
    if (w.dtype == ZOE_F64)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s is f64; a float type up to f32 is wanted",
                        zoe_store_path(l->store), full);
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    TRY(zoe_store_get(l->ctx, l->store, &bias, full, 1, &out));
    if (bias.dtype == ZOE_F64)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s is f64; a float type up to f32 is wanted",
                        zoe_store_path(l->store), full);
    if (l->pack) {
        TRY_GOTO(take_rows(l->ctx, &w, &copies[0], first, count ? count : out));
        TRY_GOTO(take_rows(l->ctx, &bias, &copies[1], first, count ? count : out));
    } else {
        w.shape[0] = bias.shape[0] = count ? count : out;
        w.data = NULL;
        w.scaling = bias.scaling = NULL;
    }
    zoe_conv_weights_free(*packed);
    TRY_GOTO(zoe_conv_weights_new(l->ctx, packed, w, bias));
done:
    zoe_free(copies[0]);
    zoe_free(copies[1]);
    return status;
}

static zoe_status load_all(const loader *l, zoe_conv_weights **packed, const char *prefix,
                           const char *name, size_t out, size_t in, size_t kt, size_t k)
{
    return load_conv(l, packed, prefix, name, out, in, kt, k, 0, 0);
}

static zoe_status load_vector(const loader *l, float **values, const char *prefix, const char *name,
                              size_t n)
{
    return l->again ? ZOE_OK
                    : zoe_vector(l->ctx, &l->m->vectors, l->store, values, prefix, name, n);
}

/* A 1x1x1 convolution on the latent, [channels, channels]: small, and used value by value. */
static zoe_status load_latent_conv(const loader *l, zoe_tensor *w, float **bias, const char *name,
                                   size_t channels)
{
    char full[64];
    float *values;
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(zoe_matrix(l->ctx, l->store, w, "", full, channels, channels));
    TRY(load_vector(l, &values, "", full, channels * channels));
    *w = zoe_tensor_2d(values, ZOE_F32, channels, channels);
    snprintf(full, sizeof full, "%s.bias", name);
    return load_vector(l, bias, "", full, channels);
}

/* Output channels of the convolution prefix+name. */
static zoe_status outputs_of(const loader *l, size_t *out, const char *prefix, const char *name)
{
    zoe_tensor w;
    TRY(zoe_matrix(l->ctx, l->store, &w, prefix, name, 0, 0));
    *out = w.shape[0];
    return ZOE_OK;
}

static zoe_status load_residual(const loader *l, vae_layer *y, const char *prefix)
{
    TRY(outputs_of(l, &y->out, prefix, "residual.2.weight"));
    TRY(load_vector(l, &y->norm1, prefix, "residual.0.gamma", y->in));
    TRY(load_all(l, &y->conv1, prefix, "residual.2", y->out, y->in, 3, 3));
    TRY(load_vector(l, &y->norm2, prefix, "residual.3.gamma", y->out));
    TRY(load_all(l, &y->conv2, prefix, "residual.6", y->out, y->out, 3, 3));
    if (has(l, prefix, "shortcut.weight"))
        return load_all(l, &y->shortcut, prefix, "shortcut", y->out, y->in, 1, 1);
    if (y->in != y->out)
        return zoe_fail(l->ctx, ZOE_MISSING,
                        "%s: tensor %sshortcut.weight is not there, though the block goes from %zu "
                        "to %zu channels",
                        zoe_store_path(l->store), prefix, y->in, y->out);
    return ZOE_OK;
}

static zoe_status load_attention(const loader *l, vae_layer *y, const char *prefix)
{
    const size_t C = y->out = y->in;
    TRY(load_vector(l, &y->norm1, prefix, "norm.gamma", C));
    TRY(zoe_matrix(l->ctx, l->store, &y->qkv, prefix, "to_qkv.weight", 3 * C, C));
    TRY(load_vector(l, &y->qkv_bias, prefix, "to_qkv.bias", 3 * C));
    TRY(zoe_matrix(l->ctx, l->store, &y->proj, prefix, "proj.weight", C, C));
    return load_vector(l, &y->proj_bias, prefix, "proj.bias", C);
}

static zoe_status load_resample(const loader *l, vae_layer *y, const char *prefix)
{
    const size_t C = y->in;
    TRY(outputs_of(l, &y->out, prefix, "resample.1.weight"));
    TRY(load_all(l, &y->conv1, prefix, "resample.1", y->out, C, 0, 3));
    if (y->kind == VAE_DOWN3D)
        return load_all(l, &y->time, prefix, "time_conv", y->out, y->out, 3, 1);
    if (y->kind == VAE_UP3D) {
        TRY(load_conv(l, &y->time, prefix, "time_conv", 2 * C, C, 3, 1, 0, C));
        return load_conv(l, &y->time_odd, prefix, "time_conv", 2 * C, C, 3, 1, C, C);
    }
    return ZOE_OK;
}

static zoe_status load_plain(const loader *l, vae_layer *y, const char *prefix)
{
    char name[96]; /* the prefix without its dot */
    snprintf(name, sizeof name, "%.*s", (int)strlen(prefix) - 1, prefix);
    TRY(outputs_of(l, &y->out, prefix, "weight"));
    return load_all(l, &y->conv1, "", name, y->out, y->in, 3, 3);
}

static zoe_status load_layer(const loader *l, vae_layer *y, const char *prefix)
{
    switch (y->kind) {
    case VAE_CONV: return load_plain(l, y, prefix);
    case VAE_RESIDUAL: return load_residual(l, y, prefix);
    case VAE_ATTENTION: return load_attention(l, y, prefix);
    case VAE_DOWN2D:
    case VAE_DOWN3D:
    case VAE_UP2D:
    case VAE_UP3D: return load_resample(l, y, prefix);
    case VAE_LEVEL:
    case VAE_LEVEL_END: y->out = y->in; return ZOE_OK;
    case VAE_HEAD:
        TRY(outputs_of(l, &y->out, prefix, "2.weight"));
        TRY(load_vector(l, &y->norm1, prefix, "0.gamma", y->in));
        return load_all(l, &y->conv1, prefix, "2", y->out, y->in, 3, 3);
    }
    return ZOE_OK;
}

/* What kind of layer stands at this prefix of a level? False: none. */
static bool kind_at(const loader *l, const char *prefix, bool down, vae_kind *kind)
{
    if (has(l, prefix, "residual.0.gamma"))
        *kind = VAE_RESIDUAL;
    else if (has(l, prefix, "to_qkv.weight"))
        *kind = VAE_ATTENTION;
    else if (has(l, prefix, "resample.1.weight"))
        *kind = has(l, prefix, "time_conv.weight") ? (down ? VAE_DOWN3D : VAE_UP3D)
                                                   : (down ? VAE_DOWN2D : VAE_UP2D);
    else
        return false;
    return true;
}

/* Appends the layer `name` of `part` ("encoder" or "decoder"). */
static zoe_status append(const loader *l, vae_net *net, size_t room, const char *part,
                         const char *name, vae_kind kind, size_t in)
{
    char prefix[96];
    if (net->count == room)
        return zoe_fail(l->ctx, ZOE_INTERNAL, "%s: too many layers", part);
    vae_layer *y = &net->layers[net->count++];
    *y = (vae_layer){.kind = kind, .in = net->count > 1 ? y[-1].out : in};
    snprintf(y->name, sizeof y->name, "%s", name);
    snprintf(prefix, sizeof prefix, "%s.%s.", part, name);
    return load_layer(l, y, prefix);
}

static zoe_status append_numbered(const loader *l, vae_net *net, size_t room, const char *part,
                                  const char *group, bool down)
{
    for (size_t i = 0;; i++) {
        char name[48], prefix[80];
        vae_kind kind;
        snprintf(name, sizeof name, "%s.%zu", group, i);
        snprintf(prefix, sizeof prefix, "%s.%s.", part, name);
        if (!kind_at(l, prefix, down, &kind))
            return ZOE_OK;
        TRY(append(l, net, room, part, name, kind, 0));
    }
}

static size_t count_layers(const loader *l, const char *part, const char *group)
{
    for (size_t i = 0;; i++) {
        char prefix[96];
        vae_kind kind;
        snprintf(prefix, sizeof prefix, "%s.%s.%zu.", part, group, i);
        if (!kind_at(l, prefix, true, &kind))
            return i;
    }
}

/* Wan 2.2 has a list of layers in each level: "downsamples.2.downsamples.0". */
typedef struct level_name {
    char text[64];
} level_name;

static level_name level_at(const char *group, size_t b)
{
    level_name name;
    snprintf(name.text, sizeof name.text, "%s.%zu.%s", group, b, group);
    return name;
}

static size_t count_levels(const loader *l, const char *part, const char *group)
{
    size_t levels = 0;
    while (count_layers(l, part, level_at(group, levels).text) > 0)
        levels++;
    return levels;
}

/* How much smaller or larger the layers from number `first` on make a clip. */
static void level_factors(vae_layer *end, const vae_net *net, size_t first, bool down)
{
    bool resamples = false;
    end->frame_factor = end->side_factor = 1;
    for (size_t i = first; i < net->count; i++) {
        const vae_kind kind = net->layers[i].kind;
        if (kind == VAE_DOWN3D || kind == VAE_UP3D)
            end->frame_factor = 2;
        if (is_resample(kind))
            end->side_factor = 2;
        resamples = resamples || is_resample(kind);
    }
    if (!down && !resamples)
        end->frame_factor = end->side_factor = 0;
}

/* The input is averaged over groups of channels and pixels, or repeated: their numbers must divide. */
static zoe_status check_level(const loader *l, const vae_layer *end, const char *part, bool down)
{
    const size_t cells = end->frame_factor * end->side_factor * end->side_factor;
    const size_t many = (down ? end->in : end->out) * cells, few = down ? end->out : end->in;
    if (cells > 0 && many % few != 0)
        return zoe_fail(l->ctx, ZOE_FORMAT,
                        "%s: level %s.%s goes from %zu to %zu channels, which its shortcut cannot",
                        zoe_store_path(l->store), part, end->name, end->in, end->out);
    return ZOE_OK;
}

static zoe_status append_levels(const loader *l, vae_net *net, size_t room, const char *part,
                                const char *group, bool down)
{
    const size_t levels = count_levels(l, part, group);
    for (size_t b = 0; b < levels; b++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%zu", group, b);
        TRY(append(l, net, room, part, "", VAE_LEVEL, 0));
        const size_t first = net->count;
        TRY(append_numbered(l, net, room, part, level_at(group, b).text, down));
        TRY(append(l, net, room, part, name, VAE_LEVEL_END, 0));
        vae_layer *end = &net->layers[net->count - 1];
        end->in = net->layers[first - 1].out;
        level_factors(end, net, first, down);
        TRY(check_level(l, end, part, down));
    }
    return ZOE_OK;
}

static size_t count_all(const loader *l, const char *part, const char *group)
{
    const size_t levels = count_levels(l, part, group);
    size_t n = 2 + count_layers(l, part, "middle");
    for (size_t b = 0; b < levels; b++)
        n += 2 + count_layers(l, part, level_at(group, b).text);
    return levels ? n : n + count_layers(l, part, group);
}

/* The layers that change the size, in either form. */
static zoe_status append_group(const loader *l, vae_net *net, size_t room, const char *part,
                               const char *group, bool down)
{
    return count_levels(l, part, group) > 0 ? append_levels(l, net, room, part, group, down)
                                            : append_numbered(l, net, room, part, group, down);
}

static zoe_status load_net(const loader *l, vae_net *net, bool encoder, size_t in)
{
    const char *part = encoder ? "encoder" : "decoder";
    const char *group = encoder ? "downsamples" : "upsamples";
    const size_t room = count_all(l, part, group);
    void *p;
    TRY(zoe_alloc_zero(l->ctx, &p, room, sizeof *net->layers, part));
    net->layers = p;
    TRY(append(l, net, room, part, "conv1", VAE_CONV, in));
    if (encoder)
        TRY(append_group(l, net, room, part, group, true));
    TRY(append_numbered(l, net, room, part, "middle", encoder));
    if (!encoder)
        TRY(append_group(l, net, room, part, group, false));
    return append(l, net, room, part, "head", VAE_HEAD, 0);
}

/* Eight pixels a side to one latent, four frames to one. */
static zoe_status check_strides(const loader *l, const vae_net *net, const char *part)
{
    size_t space = 0, time = 0;
    for (size_t i = 0; i < net->count; i++) {
        const vae_kind kind = net->layers[i].kind;
        space += is_resample(kind);
        time += kind == VAE_DOWN3D || kind == VAE_UP3D;
    }
    if (space != 3 || time != 2)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED,
                        "%s: the %s changes size %zu times and frame rate %zu times; the %s VAE "
                        "does 3 and 2",
                        zoe_store_path(l->store), part, space, time, l->m->form->name);
    return ZOE_OK;
}

/* Every level has as many residual blocks as the others, and the middle has three layers: a shortened list of layers, which
 * the names alone do not show, would decode other pictures. */
static zoe_status check_levels(const loader *l, const vae_net *net, const char *part)
{
    size_t middle = 0, first = 0, blocks = 0, levels = 0;
    bool even = true;
    for (size_t i = 0; i < net->count; i++) {
        const vae_layer *y = &net->layers[i];
        if (strncmp(y->name, "middle.", 7) == 0)
            middle++;
        else if (y->kind == VAE_LEVEL || y->kind == VAE_LEVEL_END)
            continue;
        else
            blocks += y->kind == VAE_RESIDUAL;
        const bool last = i + 1 == net->count;
        if (!is_resample(y->kind) && !last)
            continue;
        first = levels == 0 ? blocks : first;
        even = even && blocks == first;
        levels++;
        blocks = 0;
    }
    if (middle != 3 || !even || first == 0)
        return zoe_fail(l->ctx, ZOE_MISSING,
                        "%s: the %s lacks layers: its middle has %zu of 3, its levels have %s "
                        "residual blocks",
                        zoe_store_path(l->store), part, middle,
                        even ? "equal numbers of" : "unequal numbers of");
    return ZOE_OK;
}

#define RESAMPLE "resample.1.weight", "resample.1.bias"
#define TIME "time_conv.weight", "time_conv.bias"
const char *const zoe_vae_names[][VAE_NAMES] = {
    [VAE_CONV] = {"weight", "bias"},
    [VAE_RESIDUAL] = {"residual.0.gamma", "residual.2.weight", "residual.2.bias",
                      "residual.3.gamma", "residual.6.weight", "residual.6.bias"},
    [VAE_ATTENTION] = {"norm.gamma", "to_qkv.weight", "to_qkv.bias", "proj.weight", "proj.bias"},
    [VAE_DOWN2D] = {RESAMPLE},
    [VAE_DOWN3D] = {RESAMPLE, TIME},
    [VAE_UP2D] = {RESAMPLE},
    [VAE_UP3D] = {RESAMPLE, TIME},
    [VAE_HEAD] = {"0.gamma", "2.weight", "2.bias"},
    [VAE_LEVEL] = {NULL},
    [VAE_LEVEL_END] = {NULL},
};
const char *const zoe_vae_shortcut_names[2] = {"shortcut.weight", "shortcut.bias"};

static size_t tensors_of(const vae_net *net)
{
    size_t n = 0;
    for (size_t i = 0; i < net->count; i++) {
        for (size_t k = 0; k < VAE_NAMES && zoe_vae_names[net->layers[i].kind][k]; k++)
            n++;
        n += net->layers[i].shortcut ? 2 : 0;
    }
    return n;
}

/* Layers are found by name until one is not there: what is left over shows a gap, or a file of another kind. */
static zoe_status check_all_used(const loader *l)
{
    const size_t top = 4, used = top + tensors_of(&l->m->encoder) + tensors_of(&l->m->decoder);
    if (zoe_store_count(l->store) != used)
        return zoe_fail(l->ctx, ZOE_FORMAT,
                        "%s: has %zu tensors, of which %zu make an unbroken VAE: a layer is "
                        "missing, or there is something that does not belong to it",
                        zoe_store_path(l->store), zoe_store_count(l->store), used);
    return ZOE_OK;
}

/* Where the part with attention ends (decoder) or begins (encoder). */
static void find_split(vae_net *net, bool encoder)
{
    net->split = encoder ? net->count : 0;
    for (size_t n = 0; n < net->count; n++) {
        const size_t i = encoder ? net->count - 1 - n : n;
        if (net->layers[i].kind == VAE_ATTENTION)
            net->split = encoder ? i : i + 1;
    }
}

static zoe_status load(const loader *l)
{
    zoe_vae *m = l->m;
    m->form = &zoe_vae_forms[count_levels(l, "decoder", "upsamples") > 0];
    const size_t colours = 3 * m->form->patch * m->form->patch;
    TRY(zoe_matrix(l->ctx, l->store, &m->post_quant, "", "conv2.weight", 0, 0));
    m->z = m->post_quant.shape[0];
    if (m->z != m->form->z)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED,
                        "%s: conv2.weight says %zu latent channels, the %s VAE has %zu",
                        zoe_store_path(l->store), m->z, m->form->name, m->form->z);
    TRY(load_latent_conv(l, &m->post_quant, &m->post_quant_bias, "conv2", m->z));
    TRY(load_latent_conv(l, &m->quant, &m->quant_bias, "conv1", 2 * m->z));
    TRY(load_net(l, &m->encoder, true, colours));
    TRY(load_net(l, &m->decoder, false, m->z));
    TRY(check_strides(l, &m->encoder, "encoder"));
    TRY(check_strides(l, &m->decoder, "decoder"));
    find_split(&m->encoder, true);
    find_split(&m->decoder, false);
    TRY(check_levels(l, &m->encoder, "encoder"));
    TRY(check_levels(l, &m->decoder, "decoder"));
    if (m->encoder.layers[m->encoder.count - 1].out != 2 * m->z ||
        m->decoder.layers[m->decoder.count - 1].out != colours)
        return zoe_fail(l->ctx, ZOE_FORMAT,
                        "%s: encoder.head.2 gives %zu channels (%zu are wanted), decoder.head.2 "
                        "gives %zu (%zu are wanted)",
                        zoe_store_path(l->store), m->encoder.layers[m->encoder.count - 1].out,
                        2 * m->z, m->decoder.layers[m->decoder.count - 1].out, colours);
    return check_all_used(l);
}

enum { CONVS = 5 };

static zoe_conv_weights **conv_of(vae_layer *y, size_t i)
{
    zoe_conv_weights **const all[CONVS] = {&y->conv1, &y->conv2, &y->shortcut, &y->time,
                                           &y->time_odd};
    return all[i];
}

static void free_net(vae_net *net)
{
    for (size_t i = 0; i < net->count; i++)
        for (size_t k = 0; k < CONVS; k++)
            zoe_conv_weights_free(*conv_of(&net->layers[i], k));
    zoe_free(net->layers);
}

zoe_status zoe_vae_open(zoe_context *ctx, zoe_vae **vae, const zoe_store *store)
{
    zoe_vae *m;
    void *p;
    *vae = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **vae, "VAE"));
    m = p;
    m->store = store;
    const zoe_status status = load(&(loader){.ctx = ctx, .m = m, .store = store});
    if (status != ZOE_OK)
        zoe_vae_close(m);
    else
        *vae = m;
    return status;
}

/* All layers of a net once more, for their convolutions. */
static zoe_status load_again(const loader *l, vae_net *net, const char *part)
{
    net->packed = false;
    for (size_t i = 0; i < net->count; i++) {
        char prefix[96];
        if (net->layers[i].kind == VAE_LEVEL || net->layers[i].kind == VAE_LEVEL_END)
            continue;
        snprintf(prefix, sizeof prefix, "%s.%s.", part, net->layers[i].name);
        TRY(load_layer(l, &net->layers[i], prefix));
    }
    return ZOE_OK;
}

zoe_status zoe_vae_pack(zoe_context *ctx, zoe_vae *vae, bool encoder)
{
    vae_net *const net = encoder ? &vae->encoder : &vae->decoder;
    vae_net *const other = encoder ? &vae->decoder : &vae->encoder;
    loader l = {.ctx = ctx, .m = vae, .store = vae->store, .again = true};
    if (other->packed)
        TRY(load_again(&l, other, encoder ? "decoder" : "encoder"));
    if (net->packed)
        return ZOE_OK;
    l.pack = true;
    TRY(load_again(&l, net, encoder ? "encoder" : "decoder"));
    net->packed = true;
    zoe_store_drop(vae->store);
    return ZOE_OK;
}

/* Bytes of the packed weights of a net, known from their extents. */
static size_t packed_bytes(const vae_net *net)
{
    size_t bytes = 0;
    for (size_t i = 0; i < net->count; i++)
        for (size_t k = 0; k < CONVS; k++)
            bytes += zoe_conv_weights_size(*conv_of(&net->layers[i], k));
    return bytes;
}

void zoe_vae_close(zoe_vae *vae)
{
    if (!vae)
        return;
    free_net(&vae->encoder);
    free_net(&vae->decoder);
    zoe_vectors_free(&vae->vectors);
    zoe_free(vae);
}

size_t zoe_vae_channels(const zoe_vae *vae)
{
    return vae->z;
}

size_t zoe_vae_stride(const zoe_vae *vae)
{
    return vae->form->stride;
}

size_t zoe_vae_weight_bytes(const zoe_vae *vae)
{
    return zoe_max(packed_bytes(&vae->encoder), packed_bytes(&vae->decoder)) + vae->vectors.bytes;
}
