/* recast IN OUT [KEY=VALUE ...]: writes the tensors of a checkpoint in another form, for the
 * scripts: OUT is a .gguf or a .safetensors file. Matrices of the blocks "blocks.N." take the type,
 * the rest becomes f32.
 *
 *   type=f32|bf16|q8_0|f8_e4m3    f8_e4m3 only in safetensors, q8_0 only in GGUF
 *   scales=old|new|rows|none      names and fineness of the scales beside f8_e4m3
 *   arch=NAME                     general.architecture; without it the key is not there
 *   fold=yes|wrong                patch_embedding.weight with 4 dimensions; wrong: of other elements
 *   fold=bare|rows                the same without the key of its shape; rows: as [dim * channels, 1, 2, 2]
 *   prefix=TEXT                   before every name
 *   calm=X                        the time's modulations and the output are X times as large: random weights whose
 *                                 passes are as alike from step to step as those of a trained model */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "store/store.h"

typedef struct options {
    zoe_dtype type;
    const char *scales, *arch, *fold, *prefix;
    float calm;
} options;

/* A tensor in its new form. */
typedef struct piece {
    char name[256];
    zoe_tensor tensor;
} piece;

typedef struct pieces {
    piece *list;
    size_t n, room;
} pieces;

static zoe_context *ctx;

static void must(zoe_status status)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "recast: %s\n", zoe_context_message(ctx));
    exit(1);
}

/* What was taken, each with a pointer to the one before in front; all is given back at the end. */
static void *taken;
enum { FRONT = 64 };

static void *memory(size_t n)
{
    void *p;
    must(zoe_alloc_zero(ctx, &p, FRONT + n, 1, "recast"));
    memcpy(p, &taken, sizeof taken);
    taken = p;
    return (char *)p + FRONT;
}

static void give_back(void)
{
    while (taken) {
        void *p = taken;
        memcpy(&taken, p, sizeof taken);
        zoe_free(p);
    }
}

static void add(pieces *p, const char *prefix, const char *name, const char *end, zoe_tensor t)
{
    if (p->n == p->room) {
        fprintf(stderr, "recast: too many tensors\n");
        exit(1);
    }
    piece *q = &p->list[p->n++];
    snprintf(q->name, sizeof q->name, "%s%s%s", prefix, name, end);
    q->tensor = t;
}

/* ---- values ---- */

static float most_of(const float *x, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

static void *to_q8_0(const float *x, size_t n)
{
    unsigned char *p = memory(n / 32 * 34), *block = p;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        const float d = most_of(x + i, 32) / 127.0f;
        const uint16_t half = zoe_f16_of_f32(d);
        block[0] = (unsigned char)half;
        block[1] = (unsigned char)(half >> 8);
        for (size_t k = 0; k < 32; k++)
            block[2 + k] = (unsigned char)(int)rintf(d > 0.0f ? x[i + k] / d : 0.0f);
    }
    return p;
}

/* The nearest e4m3; magnitudes rise with the pattern. */
static uint8_t to_e4m3(float v)
{
    const float magnitude = fabsf(v);
    uint8_t best = 0;
    float least = INFINITY;
    for (unsigned b = 0; b < 0x7f; b++) {
        const uint8_t pattern = (uint8_t)b;
        const float distance = fabsf(zoe_load_f32(&pattern, ZOE_F8_E4M3, 0) - magnitude);
        if (distance < least) {
            least = distance;
            best = pattern;
        }
    }
    return v < 0.0f ? best | 0x80 : best;
}

/* f8 with its scales, and what else such files have. */
static void add_f8(pieces *p, const options *o, const char *layer, const float *x, size_t rows,
                   size_t columns)
{
    const bool by_row = strcmp(o->scales, "rows") == 0, old = strcmp(o->scales, "old") == 0;
    const size_t n_scales = by_row ? rows : 1, share = rows / n_scales * columns;
    float *scales = memory(n_scales * sizeof *scales);
    uint8_t *values = memory(rows * columns);
    for (size_t s = 0; s < n_scales; s++) {
        scales[s] = strcmp(o->scales, "none") == 0 ? 1.0f : most_of(x + s * share, share) / 448.0f;
        for (size_t i = s * share; i < (s + 1) * share; i++)
            values[i] = to_e4m3(x[i] / scales[s]);
    }
    add(p, o->prefix, layer, ".weight", zoe_tensor_2d(values, ZOE_F8_E4M3, rows, columns));
    if (strcmp(o->scales, "none") == 0)
        return;
    const zoe_tensor scale =
        by_row ? zoe_tensor_2d(scales, ZOE_F32, rows, 1) : zoe_tensor_of(scales, ZOE_F32, 0, NULL);
    add(p, o->prefix, layer, old ? ".scale_weight" : ".weight_scale", scale);
    float *input = memory(sizeof *input);
    *input = 0.5f;
    add(p, o->prefix, layer, old ? ".scale_input" : ".input_scale",
        zoe_tensor_of(input, ZOE_F32, 0, NULL));
    static const char format[] = "{\"format\":\"float8_e4m3fn\"}";
    char *text = memory(sizeof format);
    memcpy(text, format, sizeof format);
    if (!old && !by_row)
        add(p, o->prefix, layer, ".comfy_quant", zoe_tensor_1d(text, ZOE_U8, sizeof format - 1));
}

static void recast(pieces *p, const options *o, const char *name, zoe_tensor t)
{
    const size_t n = zoe_tensor_count(t), length = strlen(name);
    const size_t end = length > 7 && strcmp(name + length - 7, ".weight") == 0 ? length - 7 : 0;
    float *x = memory((n + 1) * sizeof *x);
    zoe_tensor_widen(x, t, 0, n);
    if (strncmp(name, "time_projection.", 16) == 0 || strncmp(name, "head.head.", 10) == 0)
        for (size_t i = 0; i < n; i++)
            x[i] *= o->calm;
    zoe_tensor y = zoe_tensor_of(x, ZOE_F32, t.rank, t.shape);
    const bool matrix = t.rank == 2 && end && strncmp(name, "blocks.", 7) == 0;
    if (matrix && o->type == ZOE_F8_E4M3) {
        char layer[200];
        snprintf(layer, sizeof layer, "%.*s", (int)end, name);
        add_f8(p, o, layer, x, t.shape[0], t.shape[1]);
        return;
    }
    if (matrix && o->type == ZOE_Q8_0 && t.shape[1] % 32 == 0) {
        y = zoe_tensor_2d(to_q8_0(x, n), ZOE_Q8_0, t.shape[0], t.shape[1]);
    } else if (matrix && o->type == ZOE_BF16) {
        y = zoe_tensor_2d(memory(2 * n), ZOE_BF16, t.shape[0], t.shape[1]);
        zoe_narrow(y.data, ZOE_BF16, x, n);
    }
    add(p, o->prefix, name, "", y);
}

/* ---- GGUF ---- */

static void put(FILE *f, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        putc((int)(v >> 8 * i & 0xff), f);
}

static void put_text(FILE *f, const char *text)
{
    put(f, strlen(text), 8);
    fputs(text, f);
}

static bool is_folded(const options *o, const piece *p)
{
    return o->fold && strcmp(p->name + strlen(o->prefix), "patch_embedding.weight") == 0;
}

/* Does a key tell the shape? */
static bool has_key(const options *o)
{
    return o->fold && strcmp(o->fold, "bare") != 0 && strcmp(o->fold, "rows") != 0;
}

static size_t padded(size_t n)
{
    return (n + 31) / 32 * 32;
}

static void put_keys(FILE *f, const options *o, const pieces *p)
{
    put(f, 1u + (o->arch != NULL) + has_key(o), 8);
    put_text(f, "general.quantization_version");
    put(f, 4, 4);
    put(f, 2, 4);
    if (o->arch) {
        put_text(f, "general.architecture");
        put(f, 8, 4);
        put_text(f, o->arch);
    }
    for (size_t i = 0; i < p->n; i++) {
        if (!is_folded(o, &p->list[i]) || !has_key(o))
            continue;
        char key[300];
        const zoe_tensor t = p->list[i].tensor;
        snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", p->list[i].name);
        put_text(f, key);
        put(f, 9, 4);
        put(f, 5, 4);
        put(f, (uint64_t)t.rank, 8);
        for (int k = 0; k < t.rank; k++)
            put(f, t.shape[k] + (k == 0 && strcmp(o->fold, "wrong") == 0), 4);
    }
}

static void put_entry(FILE *f, const options *o, const piece *p, size_t offset)
{
    zoe_tensor t = p->tensor;
    if (is_folded(o, p) && strcmp(o->fold, "rows") == 0)
        t = zoe_tensor_4d(t.data, t.dtype, t.shape[0] * t.shape[1], 1, t.shape[3], t.shape[4]);
    else if (is_folded(o, p)) /* [dim, channels, 1, 2, 2] as [dim, channels, 2, 2] */
        t = zoe_tensor_4d(t.data, t.dtype, t.shape[0], t.shape[1], t.shape[3], t.shape[4]);
    put_text(f, p->name);
    put(f, (uint64_t)t.rank, 4);
    for (int k = t.rank; k-- > 0;)
        put(f, t.shape[k], 8);
    put(f, t.dtype == ZOE_Q8_0 ? 8 : t.dtype == ZOE_BF16 ? 30 : 0, 4);
    put(f, offset, 8);
}

static void write_gguf(const char *path, const options *o, const pieces *p)
{
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        exit(1);
    }
    fputs("GGUF", f);
    put(f, 3, 4);
    put(f, p->n, 8);
    put_keys(f, o, p);
    size_t offset = 0;
    for (size_t i = 0; i < p->n; i++) {
        put_entry(f, o, &p->list[i], offset);
        offset += padded(zoe_tensor_bytes(p->list[i].tensor));
    }
    for (size_t at = (size_t)ftell(f); at % 32; at++)
        putc(0, f);
    for (size_t i = 0; i < p->n; i++) {
        const size_t bytes = zoe_tensor_bytes(p->list[i].tensor);
        fwrite(p->list[i].tensor.data, 1, bytes, f);
        put(f, 0, padded(bytes) - bytes);
    }
    if (ferror(f) || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* ---- safetensors ---- */

static void write_safetensors(const char *path, const pieces *p)
{
    zoe_named_tensor *named = memory(p->n * sizeof *named);
    for (size_t i = 0; i < p->n; i++)
        named[i] = (zoe_named_tensor){p->list[i].name, p->list[i].tensor};
    must(zoe_safetensors_write(ctx, path, named, p->n, NULL, 0));
}

static options parse(int argc, char **argv)
{
    static const zoe_dtype types[] = {ZOE_F32, ZOE_BF16, ZOE_Q8_0, ZOE_F8_E4M3};
    options o = {.type = ZOE_F32, .scales = "new", .prefix = "", .calm = 1.0f};
    for (int i = 3; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : "";
        if (strncmp(argv[i], "scales=", 7) == 0)
            o.scales = value;
        else if (strncmp(argv[i], "arch=", 5) == 0)
            o.arch = value;
        else if (strncmp(argv[i], "fold=", 5) == 0)
            o.fold = value;
        else if (strncmp(argv[i], "prefix=", 7) == 0)
            o.prefix = value;
        else if (strncmp(argv[i], "calm=", 5) == 0)
            o.calm = strtof(value, NULL);
        for (size_t k = 0; k < 4 && strncmp(argv[i], "type=", 5) == 0; k++)
            if (strcmp(value, zoe_dtype_name(types[k])) == 0)
                o.type = types[k];
    }
    return o;
}

int main(int argc, char **argv)
{
    ctx = zoe_context_new(1);
    if (argc < 3 || !ctx)
        return 2;
    const options o = parse(argc, argv);
    zoe_store *store;
    must(zoe_store_open(ctx, &store, argv[1], ZOE_NAMES_WAN_DIT));
    const size_t n = zoe_store_count(store);
    pieces p = {.room = 4 * n + 1};
    p.list = memory(p.room * sizeof *p.list);
    for (size_t i = 0; i < n; i++)
        recast(&p, &o, zoe_store_name(store, i), zoe_store_tensor(store, i));
    if (o.type == ZOE_F8_E4M3 && strcmp(o.scales, "old") == 0)
        add(&p, o.prefix, "scaled_fp8", "", zoe_tensor_1d(memory(2), ZOE_F8_E4M3, 2));
    const size_t length = strlen(argv[2]);
    if (length > 5 && strcmp(argv[2] + length - 5, ".gguf") == 0)
        write_gguf(argv[2], &o, &p);
    else
        write_safetensors(argv[2], &p);
    give_back();
    zoe_store_close(store);
    zoe_context_free(ctx);
    return 0;
}
