/* What a checkpoint is: which parts it has, whether they fit together, and, if asked, whether every
 * byte of them is in order. */
#include "job/inspect.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/digest.h"

/* ---- lists ---- */

/* Room for one more of n elements of this size: lists double, from 8 on. */
static zoe_status make_room(zoe_context *ctx, void **list, size_t n, size_t size)
{
    void *bigger;
    if (n > 0 && (n < 8 || (n & (n - 1)) != 0))
        return ZOE_OK;
    TRY(zoe_alloc(ctx, &bigger, n ? 2 * n : 8, size, "list of findings"));
    if (n)
        memcpy(bigger, *list, n * size);
    zoe_free(*list);
    *list = bigger;
    return ZOE_OK;
}

zoe_status zoe_texts_add(zoe_context *ctx, zoe_texts *texts, const char *text)
{
    if (texts->n < ZOE_TEXTS_KEPT) {
        void *list = texts->text;
        TRY(make_room(ctx, &list, texts->n, sizeof *texts->text));
        texts->text = list;
        TRY(zoe_strdup(ctx, &texts->text[texts->n], text));
        texts->n++;
    }
    texts->total++;
    return ZOE_OK;
}

void zoe_texts_free(zoe_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        zoe_free(texts->text[i]);
    zoe_free(texts->text);
    *texts = (zoe_texts){0};
}

/* What a trial logs is of interest once, however often the file is opened. */
static void note_log(void *user, zoe_level level, const char *text)
{
    zoe_inspection *in = user;
    if (level != ZOE_WARNING)
        return;
    for (size_t i = 0; i < in->remarks.n; i++)
        if (strcmp(in->remarks.text[i], text) == 0)
            return;
    zoe_texts_add(NULL, &in->remarks, text); /* without memory it is left out */
}

zoe_status zoe_trial_sentence(zoe_inspection *in, char **sentence)
{
    const zoe_status status = zoe_strdup(in->ctx, sentence, zoe_context_message(in->trial));
    zoe_context_clear(in->trial);
    return status;
}

static zoe_status add_problem(zoe_inspection *in)
{
    const zoe_status status = zoe_texts_add(in->ctx, &in->problems, zoe_context_message(in->trial));
    zoe_context_clear(in->trial);
    return status;
}

static zoe_status add_part(zoe_inspection *in, const char *path, const char *role,
                           zoe_content content)
{
    void *list = in->parts;
    TRY(make_room(in->ctx, &list, in->n_parts, sizeof *in->parts));
    in->parts = list;
    zoe_part_info *part = &in->parts[in->n_parts];
    *part = (zoe_part_info){.role = role, .content = content};
    TRY(zoe_strdup(in->ctx, &part->path, path));
    in->n_parts++;
    return ZOE_OK;
}

/* ---- the layouts of a run ---- */

static const struct {
    const char *name;
    zoe_content content; /* wanted */
} roles[ZOE_ROLES] = {
    [ZOE_ROLE_HIGH] = {"high-noise transformer", ZOE_CONTENT_WAN_DIT},
    [ZOE_ROLE_LOW] = {"low-noise transformer", ZOE_CONTENT_WAN_DIT},
    [ZOE_ROLE_TRANSFORMER] = {"transformer", ZOE_CONTENT_WAN_DIT},
    [ZOE_ROLE_VAE] = {"VAE", ZOE_CONTENT_WAN_VAE_21},
    [ZOE_ROLE_TEXT] = {"text encoder", ZOE_CONTENT_UMT5},
    [ZOE_ROLE_TOKENIZER] = {"tokenizer", ZOE_CONTENT_TOKENIZER},
    [ZOE_ROLE_CLIP] = {"CLIP image tower", ZOE_CONTENT_CLIP},
};

static bool is_wanted(zoe_role role, zoe_content found)
{
    return found == roles[role].content ||
           (role == ZOE_ROLE_VAE && found == ZOE_CONTENT_WAN_VAE_22);
}

/* Of a folder in a known layout, what is there becomes a part, what is not a problem. */
static zoe_status find_by_layout(zoe_inspection *in)
{
    for (zoe_role role = 0; role < ZOE_ROLES; role++) {
        char *path;
        zoe_status status = zoe_role_locate(in->trial, &path, in->path, role);
        if (zoe_is_grave(status))
            return zoe_fail(in->ctx, status, "%s", zoe_context_message(in->trial));
        if (status != ZOE_OK) {
            TRY(add_problem(in));
            continue;
        }
        if (!path)
            continue; /* no part of this layout */
        status = add_part(in, path, roles[role].name,
                          role == ZOE_ROLE_TOKENIZER ? ZOE_CONTENT_TOKENIZER : ZOE_CONTENT_UNKNOWN);
        zoe_free(path);
        TRY(status);
    }
    return ZOE_OK;
}

/* ---- other folders: whatever weights are in them ---- */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* "model-00001-of-00003.safetensors": a part of what its index stands for. */
static bool is_shard(const char *name)
{
    const char *of = strstr(name, "-of-");
    return of && of > name && of[-1] >= '0' && of[-1] <= '9' && of[4] >= '0' && of[4] <= '9';
}

static bool is_weights(const char *name, bool with_index)
{
    static const char *const ends[] = {".safetensors", ".pth", ".pt", ".ckpt", ".gguf"};
    if (ends_with(name, ".safetensors.index.json"))
        return true;
    if (with_index && is_shard(name))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder in order, without hidden ones; what cannot be read is empty. */
static zoe_status list_folder(zoe_context *ctx, zoe_texts *names, const char *path)
{
    zoe_status status = ZOE_OK;
    const struct dirent *entry;
    DIR *folder = opendir(path);
    *names = (zoe_texts){0};
    if (!folder)
        return ZOE_OK;
    while (status == ZOE_OK && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            status = zoe_texts_add(ctx, names, entry->d_name);
    closedir(folder);
    if (status != ZOE_OK)
        zoe_texts_free(names);
    else if (names->n)
        qsort(names->text, names->n, sizeof *names->text, by_bytes);
    return status;
}

enum { DEPTH = 3, PARTS_MOST = 64 };

static zoe_status find_in_folder(zoe_inspection *in, const char *path, int depth)
{
    zoe_texts names;
    bool with_index = false;
    zoe_status status;
    TRY(zoe_check_cancel(in->ctx));
    TRY(list_folder(in->ctx, &names, path));
    for (size_t i = 0; i < names.n; i++)
        with_index |= ends_with(names.text[i], ".safetensors.index.json");
    status = ZOE_OK;
    for (size_t i = 0; i < names.n && status == ZOE_OK && in->n_parts < PARTS_MOST; i++) {
        char *inner;
        const char *name = names.text[i];
        TRY_GOTO(zoe_path_join(in->ctx, &inner, path, name));
        if (zoe_folder_exists(inner)) {
            if (depth + 1 < DEPTH)
                status = find_in_folder(in, inner, depth + 1);
        } else if (is_weights(name, with_index)) {
            status = add_part(in, inner, NULL, ZOE_CONTENT_UNKNOWN);
        } else if (strcmp(name, "tokenizer.json") == 0 || strcmp(name, "spiece.model") == 0) {
            /* one tokenizer may have both */
            const bool again = in->n_parts &&
                               in->parts[in->n_parts - 1].content == ZOE_CONTENT_TOKENIZER &&
                               strcmp(in->parts[in->n_parts - 1].path, path) == 0;
            if (!again)
                status = add_part(in, path, NULL, ZOE_CONTENT_TOKENIZER);
        }
        zoe_free(inner);
    }
done:
    zoe_texts_free(&names);
    return status;
}

static zoe_status find_parts(zoe_inspection *in)
{
    struct stat st;
    if (stat(in->path, &st) != 0)
        return zoe_fail(in->ctx, errno == ENOENT || errno == ENOTDIR ? ZOE_MISSING : ZOE_IO,
                        "%s: %s", in->path,
                        errno == ENOENT ? "no such file or folder" : strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        TRY(zoe_layout_find(in->ctx, &in->layout, in->path));
        if (in->layout)
            return find_by_layout(in);
        in->layout = "other";
        TRY(find_in_folder(in, in->path, 0));
        if (in->n_parts == 0)
            return zoe_fail(in->ctx, ZOE_MISSING, "%s: no weights in this folder or in those in it",
                            in->path);
    } else {
        TRY(add_part(in, in->path, NULL, ZOE_CONTENT_UNKNOWN));
    }
    if (in->n_parts == 1)
        in->layout = "single";
    return ZOE_OK;
}

/* ---- do the parts fit together? ---- */

static size_t dim_of(const zoe_part_info *part, const char *name)
{
    for (size_t i = 0; part && i < part->n_dims; i++)
        if (strcmp(part->dims[i].name, name) == 0)
            return part->dims[i].value;
    return 0;
}

/* The part of a role, if it holds what it should. */
static const zoe_part_info *usable(const zoe_inspection *in, zoe_role role)
{
    for (size_t i = 0; i < in->n_parts; i++)
        if (in->parts[i].role == roles[role].name)
            return in->parts[i].supported ? &in->parts[i] : NULL;
    return NULL;
}

/* In a place where a run looks for one thing, something else may lie. */
static zoe_status check_places(zoe_inspection *in)
{
    for (size_t i = 0; i < in->n_parts; i++)
        for (zoe_role role = 0; role < ZOE_ROLES; role++) {
            zoe_part_info *part = &in->parts[i];
            if (part->role != roles[role].name || !part->store || is_wanted(role, part->content))
                continue;
            part->supported = false;
            zoe_fail(in->trial, ZOE_FORMAT, "%s: stands in the place of the %s, but is: %s",
                     part->path, part->role, part->what);
            TRY(add_problem(in));
        }
    return ZOE_OK;
}

static zoe_status must_agree(zoe_inspection *in, const zoe_part_info *a, const char *dim_a,
                             const zoe_part_info *b, const char *dim_b)
{
    const size_t x = dim_of(a, dim_a), y = dim_of(b, dim_b);
    if (!a || !b || x == y)
        return ZOE_OK;
    zoe_fail(in->trial, ZOE_FORMAT,
             "%s and %s do not belong together: %s is %zu in one, %s is %zu "
             "in the other",
             a->path, b->path, dim_a, x, dim_b, y);
    return add_problem(in);
}

static bool same_tensor(const zoe_part_info *a, const zoe_part_info *b, const char *name)
{
    zoe_tensor x, y;
    if (!zoe_store_find(a->store, name, &x) || !zoe_store_find(b->store, name, &y) ||
        x.dtype != y.dtype || zoe_tensor_count(x) != zoe_tensor_count(y))
        return false;
    return memcmp(x.data, y.data, zoe_tensor_bytes(x)) == 0;
}

static zoe_status check_fit(zoe_inspection *in)
{
    static const char *const sizes[] = {"dim", "ffn_dim", "layers", "out_channels", "in_channels"};
    const zoe_part_info *single = usable(in, ZOE_ROLE_TRANSFORMER);
    const zoe_part_info *high = single ? single : usable(in, ZOE_ROLE_HIGH);
    const zoe_part_info *low = single ? NULL : usable(in, ZOE_ROLE_LOW);
    const zoe_part_info *vae = usable(in, ZOE_ROLE_VAE), *text = usable(in, ZOE_ROLE_TEXT);
    const zoe_part_info *tokenizer = usable(in, ZOE_ROLE_TOKENIZER);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(must_agree(in, high, sizes[i], low, sizes[i]));
    TRY(must_agree(in, high, "text_dim", text, "dim"));
    TRY(must_agree(in, low, "text_dim", text, "dim"));
    TRY(must_agree(in, high, "out_channels", vae, "latent_channels"));
    if (high && dim_of(high, "image_dim"))
        TRY(must_agree(in, high, "image_dim", usable(in, ZOE_ROLE_CLIP), "dim"));
    if (tokenizer && text && dim_of(tokenizer, "vocabulary") > dim_of(text, "vocabulary")) {
        zoe_fail(in->trial, ZOE_FORMAT, "%s has %zu tokens, the text encoder %s knows only %zu",
                 tokenizer->path, dim_of(tokenizer, "vocabulary"), text->path,
                 dim_of(text, "vocabulary"));
        TRY(add_problem(in));
    }
    /* Training never leaves two experts with one and the same output layer. */
    if (high && low && same_tensor(high, low, "head.modulation") &&
        same_tensor(high, low, "head.head.bias") && same_tensor(high, low, "patch_embedding.bias"))
        TRY(zoe_texts_add(in->ctx, &in->remarks,
                          "the two experts seem to be the same weights: is one of them in the "
                          "wrong place?"));
    return ZOE_OK;
}

/* The transformer's part, of a folder in a known layout; *n is how many the model has. */
static const zoe_part_info *transformer_of(const zoe_inspection *in, size_t *n)
{
    const zoe_part_info *one = usable(in, ZOE_ROLE_TRANSFORMER);
    *n = one ? 1 : ZOE_EXPERTS;
    return one ? one : usable(in, ZOE_ROLE_HIGH);
}

static zoe_wan_dims dims_of(const zoe_part_info *part)
{
    return (zoe_wan_dims){.dim = dim_of(part, "dim"),
                          .in_dim = dim_of(part, "in_channels"),
                          .out_dim = dim_of(part, "out_channels"),
                          .image_dim = dim_of(part, "image_dim"),
                          .image_positions = dim_of(part, "image_positions")};
}

/* The family of a whole model; NULL, and a problem, if its transformers are none. */
static zoe_status find_family(zoe_inspection *in, const zoe_family **family)
{
    size_t n;
    const zoe_part_info *part = transformer_of(in, &n);
    *family = NULL;
    if (!part)
        return ZOE_OK;
    const zoe_wan_dims dims = dims_of(part);
    if (zoe_family_find(in->trial, family, &dims, n, part->path) != ZOE_OK)
        return add_problem(in);
    if (!(*family)->clip || usable(in, ZOE_ROLE_CLIP))
        return ZOE_OK;
    zoe_fail(in->trial, ZOE_MISSING, "%s: %s wants a CLIP image tower, which is not there",
             in->path, (*family)->model.name);
    return add_problem(in);
}

/* Has the model the size of the one that its family is named after? Told by the words for its
 * transformer. */
static bool is_published(const zoe_part_info *transformer)
{
    return strstr(transformer->what, "no published size") == NULL;
}

static zoe_status name_model(zoe_inspection *in)
{
    const zoe_family *family;
    size_t n;
    if (in->n_parts == 1 && strcmp(in->layout, "single") == 0) {
        in->supported = in->parts[0].supported;
        return zoe_strdup(in->ctx, &in->model, in->parts[0].what);
    }
    const size_t before = in->problems.total;
    TRY(find_family(in, &family));
    in->supported = family && before == 0 && in->problems.total == 0;
    for (size_t i = 0; i < in->n_parts; i++)
        in->supported = in->supported && in->parts[i].supported;
    if (family && is_published(transformer_of(in, &n)))
        return zoe_strdup(in->ctx, &in->model, family->model.name);
    if (family)
        return zoe_strf(in->ctx, &in->model, "%s model of the %s kind, of no published size",
                        family->model.image == ZOE_PICTURE_NONE     ? "text-to-video"
                        : family->model.image == ZOE_PICTURE_NEEDED ? "image-to-video"
                                                                    : "text-and-image-to-video",
                        family->model.name);
    for (size_t i = 0; i < in->n_parts; i++)
        if (in->parts[i].content == ZOE_CONTENT_WAN_DIT)
            return zoe_strdup(in->ctx, &in->model, in->parts[i].what);
    return zoe_strdup(in->ctx, &in->model, "no diffusion model that is known");
}

/* ---- the files of a part ---- */

static zoe_status add_file(zoe_inspection *in, zoe_part_info *part, const char *path)
{
    struct stat st;
    for (size_t i = 0; i < part->n_files; i++)
        if (strcmp(part->files[i].path, path) == 0)
            return ZOE_OK;
    void *list = part->files;
    TRY(make_room(in->ctx, &list, part->n_files, sizeof *part->files));
    part->files = list;
    zoe_file_info *file = &part->files[part->n_files];
    *file = (zoe_file_info){.bytes = stat(path, &st) == 0 ? (size_t)st.st_size : 0};
    TRY(zoe_strdup(in->ctx, &file->path, path));
    part->n_files++;
    return ZOE_OK;
}

/* The small files that go with the weights. */
static bool belongs(const zoe_part_info *part, const char *name)
{
    if (part->content == ZOE_CONTENT_TOKENIZER)
        return strcmp(name, "tokenizer.json") == 0 || strcmp(name, "spiece.model") == 0 ||
               strcmp(name, "tokenizer_config.json") == 0 ||
               strcmp(name, "special_tokens_map.json") == 0;
    return strcmp(name, "config.json") == 0 || ends_with(name, ".safetensors.index.json");
}

static zoe_status find_files(zoe_inspection *in, zoe_part_info *part)
{
    zoe_texts names;
    zoe_status status = ZOE_OK;
    if (zoe_folder_exists(part->path)) {
        TRY(list_folder(in->ctx, &names, part->path));
        for (size_t i = 0; i < names.n && status == ZOE_OK; i++) {
            char *path;
            if (!belongs(part, names.text[i]))
                continue;
            status = zoe_path_join(in->ctx, &path, part->path, names.text[i]);
            if (status == ZOE_OK)
                status = add_file(in, part, path);
            zoe_free(path);
        }
        zoe_texts_free(&names);
        TRY(status);
    } else {
        TRY(add_file(in, part, part->path));
    }
    const char *last = NULL;
    for (size_t i = 0; part->store && i < zoe_store_count(part->store); i++) {
        const char *file = zoe_store_file(part->store, i);
        if (file != last)
            TRY(add_file(in, part, file));
        last = file;
    }
    return ZOE_OK;
}

/* ---- opening ---- */

static zoe_status look(zoe_inspection *in)
{
    TRY(find_parts(in));
    for (size_t i = 0; i < in->n_parts; i++) {
        TRY(zoe_part_inspect(in, &in->parts[i]));
        TRY(find_files(in, &in->parts[i]));
    }
    if (strcmp(in->layout, "single") == 0 && !in->parts[0].store &&
        in->parts[0].content != ZOE_CONTENT_TOKENIZER)
        return zoe_fail(in->ctx, ZOE_FORMAT, "%s", in->parts[0].refusal);
    TRY(check_places(in));
    TRY(check_fit(in));
    return name_model(in);
}

zoe_status zoe_inspect(zoe_context *ctx, zoe_inspection **inspection, const char *path)
{
    void *p;
    *inspection = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **inspection, "findings"));
    zoe_inspection *in = p;
    zoe_status status;
    in->ctx = ctx;
    in->trial = zoe_context_new(zoe_context_threads(ctx));
    if (!in->trial)
        TRY_GOTO(zoe_fail(ctx, ZOE_NOMEM, "no memory for a context"));
    zoe_context_set_log(in->trial, note_log, in);
    TRY_GOTO(zoe_strdup(ctx, &in->path, path));
    TRY_GOTO(look(in));
    *inspection = in;
    in = NULL;
done:
    zoe_inspection_free(in);
    return status;
}

void zoe_inspection_free(zoe_inspection *in)
{
    if (!in)
        return;
    for (size_t i = 0; i < in->n_parts; i++)
        zoe_part_info_free(&in->parts[i]);
    zoe_free(in->parts);
    zoe_texts_free(&in->problems);
    zoe_texts_free(&in->remarks);
    zoe_context_free(in->trial);
    zoe_free(in->path);
    zoe_free(in->model);
    zoe_free(in);
}

/* ---- reading everything ---- */

typedef struct reading {
    zoe_inspection *in;
    zoe_part_info *part;
    zoe_inspect_progress_fn progress;
    void *user;
    zoe_status status;
} reading;

static void note_nonfinite(void *user, size_t tensor, size_t nans, size_t infs)
{
    reading *r = user;
    void *list = r->part->nonfinite;
    if (r->status != ZOE_OK)
        return;
    r->status = make_room(r->in->ctx, &list, r->part->n_nonfinite, sizeof *r->part->nonfinite);
    if (r->status != ZOE_OK)
        return;
    r->part->nonfinite = list;
    r->part->nonfinite[r->part->n_nonfinite++] = (zoe_nonfinite){
        zoe_store_name(r->part->store, tensor), zoe_store_file(r->part->store, tensor), nans, infs};
}

/* The trial context does not hear of a cancelling by itself. */
static void note_done(void *user, size_t bytes, size_t total)
{
    reading *r = user;
    if (zoe_cancelled(r->in->ctx))
        zoe_cancel(r->in->trial);
    if (r->progress)
        r->progress(r->user, "NaN and inf", r->part->path, bytes, total);
}

static zoe_status verify_weights(reading *r)
{
    zoe_inspection *in = r->in;
    zoe_part_info *part = r->part;
    if (r->progress)
        r->progress(r->user, "fingerprint", part->path, 0, 0);
    zoe_status status = zoe_store_fingerprint(in->trial, part->store, part->fingerprint);
    if (status == ZOE_OK)
        status = zoe_store_verify(in->trial, part->store, note_nonfinite, note_done, r);
    TRY(r->status);
    TRY(zoe_check_cancel(in->ctx));
    if (zoe_is_grave(status))
        return zoe_fail(in->ctx, status, "%s", zoe_context_message(in->trial));
    if (status == ZOE_OK)
        return ZOE_OK;
    part->sound = false;
    return add_problem(in);
}

static zoe_status digest_files(const reading *r)
{
    zoe_inspection *in = r->in;
    for (size_t i = 0; i < r->part->n_files; i++) {
        zoe_file_info *file = &r->part->files[i];
        if (r->progress)
            r->progress(r->user, "SHA-256", file->path, 0, file->bytes);
        const zoe_status status = zoe_file_digest(in->ctx, file->sha256, file->path);
        if (zoe_is_grave(status))
            return status;
        if (status == ZOE_OK)
            continue;
        r->part->sound = false;
        zoe_fail(in->trial, status, "%s: cannot be read through", file->path);
        TRY(add_problem(in));
    }
    return ZOE_OK;
}

zoe_status zoe_inspection_verify(zoe_context *ctx, zoe_inspection *in,
                                 zoe_inspect_progress_fn progress, void *user)
{
    in->ctx = ctx;
    for (size_t i = 0; i < in->n_parts; i++) {
        reading r = {.in = in, .part = &in->parts[i], .progress = progress, .user = user};
        if (r.part->verified)
            continue;
        if (r.part->store)
            TRY(verify_weights(&r));
        TRY(digest_files(&r));
        r.part->verified = true;
    }
    return ZOE_OK;
}

/* ---- asking ---- */

const char *zoe_content_name(zoe_content content)
{
    switch (content) {
    case ZOE_CONTENT_UNKNOWN: return "unknown";
    case ZOE_CONTENT_WAN_DIT: return "wan-dit";
    case ZOE_CONTENT_WAN_VAE_21: return "wan-vae-2.1";
    case ZOE_CONTENT_WAN_VAE_22: return "wan-vae-2.2";
    case ZOE_CONTENT_UMT5: return "umt5";
    case ZOE_CONTENT_CLIP: return "clip";
    case ZOE_CONTENT_LORA: return "lora";
    case ZOE_CONTENT_LATENTS: return "latents";
    case ZOE_CONTENT_TOKENIZER: return "tokenizer";
    }
    return "unknown";
}

const char *zoe_inspection_model(const zoe_inspection *in)
{
    return in->model;
}

const char *zoe_inspection_layout(const zoe_inspection *in)
{
    return in->layout;
}

bool zoe_inspection_supported(const zoe_inspection *in)
{
    return in->supported;
}

bool zoe_inspection_sound(const zoe_inspection *in)
{
    bool sound = in->problems.total == 0;
    for (size_t i = 0; i < in->n_parts; i++)
        sound = sound && in->parts[i].sound;
    return sound;
}

size_t zoe_inspection_parts(const zoe_inspection *in)
{
    return in->n_parts;
}

const zoe_part_info *zoe_inspection_part(const zoe_inspection *in, size_t i)
{
    return &in->parts[i];
}

const zoe_texts *zoe_inspection_problems(const zoe_inspection *in)
{
    return &in->problems;
}

const zoe_texts *zoe_inspection_remarks(const zoe_inspection *in)
{
    return &in->remarks;
}

zoe_status zoe_part_blame(zoe_context *ctx, zoe_status status, const char *path, const char *role,
                          int wanted)
{
    if (status != ZOE_MISSING && status != ZOE_FORMAT && status != ZOE_UNSUPPORTED)
        return status;
    zoe_inspection *inspection = NULL;
    zoe_context *own = zoe_context_new(1); /* the sentence of the failure stays */
    if (own && zoe_inspect(own, &inspection, path) == ZOE_OK &&
        zoe_inspection_parts(inspection) == 1) {
        const zoe_part_info *part = zoe_inspection_part(inspection, 0);
        if (is_shard(zoe_path_name(path)) && (int)part->content == wanted)
            zoe_fail_in(ctx,
                        "this is one shard of several; give the index beside it, or the folder");
        else if ((int)part->content != wanted && part->what)
            zoe_fail_in(ctx, "the %s is wanted, this is something else (%s)", role, part->what);
    }
    zoe_inspection_free(inspection);
    zoe_context_free(own);
    return status;
}
