/* Picture preparation against the official formulas: caseN.safetensors with srcN.png beside it, and
 * sizes.json. */
#include "golden.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "media/media.h"
#include "zoetrope/store.h"

static const char *labelled(const char *file, const char *tensor)
{
    static char label[512];
    snprintf(label, sizeof label, "%s %s", file, tensor);
    return label;
}

/* A tensor of the file, which must have this type and rank. */
static zoe_tensor tensor_of(golden *g, const zoe_store *store, const char *name, zoe_dtype dtype,
                            int rank)
{
    zoe_tensor t;
    if (!zoe_store_find(store, name, &t) || t.dtype != dtype || t.rank != rank) {
        char text[128] = "nothing";
        if (zoe_store_find(store, name, &t))
            zoe_tensor_describe(text, sizeof text, t);
        zoe_fail(g->ctx, ZOE_MISSING, "%s: %s is %s, %s of rank %d is wanted",
                 zoe_store_path(store), name, text, zoe_dtype_name(dtype), rank);
        golden_must(g, ZOE_MISSING, name);
    }
    return t;
}

/* An i64 of the file, which may lie unaligned. */
static size_t number_of(golden *g, const zoe_store *store, const char *name, size_t i)
{
    const zoe_tensor t = tensor_of(g, store, name, ZOE_I64, 1);
    int64_t v = 0;
    if (i < t.shape[0])
        memcpy(&v, (const char *)t.data + i * sizeof v, sizeof v);
    return (size_t)v;
}

/* A picture must equal an u8 tensor [H, W, 3] exactly. */
static void compare_picture(golden *g, const char *file, const zoe_store *store, const char *name,
                            const zoe_picture *got)
{
    const zoe_tensor t = tensor_of(g, store, name, ZOE_U8, 3);
    const bool fits = t.shape[0] == got->height && t.shape[1] == got->width && t.shape[2] == 3;
    size_t differ = 0;
    for (size_t i = 0; fits && i < 3 * got->width * got->height; i++)
        differ += got->rgb[i] != ((const uint8_t *)t.data)[i];
    golden_check(g, labelled(file, name), fits && differ == 0, "%zux%zu, %zu differ", got->width,
                 got->height, differ);
}

static void compare_i2v(golden *g, const char *file, const zoe_store *store,
                        const zoe_picture *picture)
{
    size_t H, W, n;
    golden_must(g,
                zoe_size_i2v(g->ctx, &H, &W, picture->height, picture->width,
                             number_of(g, store, "i2v.area", 0)),
                file);
    const size_t want_h = number_of(g, store, "i2v.latent_hw", 0);
    const size_t want_w = number_of(g, store, "i2v.latent_hw", 1);
    golden_check(g, labelled(file, "i2v.latent_hw"), H == 8 * want_h && W == 8 * want_w, "%zux%zu",
                 H / 8, W / 8);
    const zoe_tensor t = tensor_of(g, store, "i2v.bicubic", ZOE_F32, 3);
    if (t.shape[0] != 3 || t.shape[1] != H || t.shape[2] != W) {
        golden_check(g, labelled(file, "i2v.bicubic"), false, "another shape");
        return;
    }
    void *planes, *resized;
    float *want = golden_load(g, store, "i2v.bicubic", &n);
    const size_t pixels = picture->width * picture->height;
    golden_must(g, zoe_alloc(g->ctx, &planes, 3 * pixels, sizeof(float), "planes"), file);
    golden_must(g, zoe_alloc(g->ctx, &resized, n, sizeof(float), "planes"), file);
    zoe_picture_to_planes(planes, picture);
    golden_must(
        g, zoe_resize_bicubic(g->ctx, resized, H, W, planes, 3, picture->height, picture->width),
        file);
    golden_compare(g, labelled(file, "i2v.bicubic"), resized, want, n, 1e-5);
    zoe_free(planes);
    zoe_free(resized);
    zoe_free(want);
}

static void compare_ti2v(golden *g, const char *file, const zoe_store *store,
                         const zoe_picture *picture)
{
    size_t H, W, h, w;
    golden_must(g,
                zoe_size_ti2v(g->ctx, &H, &W, picture->height, picture->width,
                              number_of(g, store, "i2v.area", 0)),
                file);
    golden_check(g, labelled(file, "ti2v.size_wh"),
                 W == number_of(g, store, "ti2v.size_wh", 0) &&
                     H == number_of(g, store, "ti2v.size_wh", 1),
                 "%zux%zu", W, H);
    zoe_picture scaled, middle;
    golden_must(g, zoe_size_cover(g->ctx, &h, &w, H, W, picture->height, picture->width), file);
    golden_must(g, zoe_resize_lanczos(g->ctx, &scaled, w, h, picture), file);
    compare_picture(g, file, store, "ti2v.lanczos", &scaled);
    golden_must(g, zoe_picture_cover(g->ctx, &middle, W, H, picture), file);
    compare_picture(g, file, store, "ti2v.crop", &middle);
    zoe_picture_free(&scaled);
    zoe_picture_free(&middle);
}

static void compare_case(golden *g, const char *dir, const char *file)
{
    zoe_store *store;
    zoe_picture picture;
    char source[256];
    /* caseN.safetensors -> srcN.png */
    snprintf(source, sizeof source, "src%.*s.png", (int)(strrchr(file, '.') - file - 4), file + 4);
    golden_must(g, zoe_store_open(g->ctx, &store, golden_path(dir, file), ZOE_NAMES_AS_STORED),
                file);
    golden_must(g, zoe_picture_read(g->ctx, &picture, golden_path(dir, source), false), source);
    compare_picture(g, file, store, "in.rgb", &picture);
    compare_i2v(g, file, store, &picture);
    compare_ti2v(g, file, store, &picture);
    zoe_picture_free(&picture);
    zoe_store_close(store);
}

static size_t member(const json_t *row, const char *key)
{
    return (size_t)json_integer_value(json_object_get(row, key));
}

static void compare_sizes(golden *g, const char *path)
{
    json_error_t error;
    json_t *rows = json_load_file(path, 0, &error);
    if (!rows) {
        golden_check(g, "sizes.json", false, "%s", error.text);
        return;
    }
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        char name[128];
        const size_t w = member(row, "w"), h = member(row, "h"), area = member(row, "max_area");
        size_t H, W;
        snprintf(name, sizeof name, "sizes.json %zux%zu at %zu", w, h, area);
        golden_must(g, zoe_size_i2v(g->ctx, &H, &W, h, w, area), name);
        const bool i2v = H == member(row, "i2v_h") && W == member(row, "i2v_w") &&
                         H / 8 == member(row, "i2v_lat_h") && W / 8 == member(row, "i2v_lat_w");
        golden_check(g, name, i2v, "i2v %zux%zu", W, H);
        golden_must(g, zoe_size_ti2v(g->ctx, &H, &W, h, w, area), name);
        golden_check(g, name, H == member(row, "ti2v_h") && W == member(row, "ti2v_w"),
                     "ti2v %zux%zu", W, H);
    }
    json_decref(rows);
}

static int is_case(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return strncmp(entry->d_name, "case", 4) == 0 && dot && strcmp(dot, ".safetensors") == 0;
}

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    struct dirent **cases;
    const int n = scandir(dir, &cases, is_case, alphasort);
    for (int i = 0; i < n; i++) {
        compare_case(&g, dir, cases[i]->d_name);
        free(cases[i]);
    }
    if (n >= 0)
        free(cases);
    compare_sizes(&g, golden_path(dir, "sizes.json"));
    return golden_end(&g);
}
