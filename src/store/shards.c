/* Checkpoints of several files under an index, and which file of a folder is the checkpoint. */
#include "store/content.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- lists of file names ---- */

typedef struct files {
    char **names;
    size_t n, room;
} files;

static void files_free(files *f)
{
    for (size_t i = 0; i < f->n; i++)
        zoe_free(f->names[i]);
    zoe_free(f->names);
    *f = (files){0};
}

static zoe_status files_add(zoe_context *ctx, files *f, const char *name)
{
    if (f->n == f->room) {
        const size_t room = f->room ? 2 * f->room : 16;
        void *p;
        TRY(zoe_alloc(ctx, &p, room, sizeof *f->names, "list of file names"));
        if (f->n)
            memcpy(p, f->names, f->n * sizeof *f->names);
        zoe_free(f->names);
        f->names = p;
        f->room = room;
    }
    TRY(zoe_strdup(ctx, &f->names[f->n], name));
    f->n++;
    return ZOE_OK;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void files_sort(files *f)
{
    if (f->n)
        qsort(f->names, f->n, sizeof *f->names, name_order);
}

/* Drops repeated names of a sorted list. */
static void files_unique(files *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (kept && strcmp(f->names[kept - 1], f->names[i]) == 0)
            zoe_free(f->names[i]);
        else
            f->names[kept++] = f->names[i];
    }
    f->n = kept;
}

/* ---- the index ---- */

/* The file names that the index gives, each once. They must lie beside it: a name with a folder in
 * it could point anywhere. */
static zoe_status list_shards(zoe_context *ctx, files *shards, json_t *weight_map, const char *path)
{
    const char *tensor;
    json_t *value;
    const char *last = NULL;
    if (json_object_size(weight_map) == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: its weight_map is missing or empty", path);
    json_object_foreach(weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !*name || strchr(name, '/') || strcmp(name, "..") == 0 ||
            strcmp(name, ".") == 0)
            return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: \"%.80s\" is no file name", path,
                            tensor, name ? name : "");
        if (!last || strcmp(last, name) != 0) /* neighbours mostly share their shard */
            TRY(files_add(ctx, shards, name));
        last = name;
    }
    files_sort(shards);
    files_unique(shards);
    return ZOE_OK;
}

static size_t tensors_of(json_t *weight_map, const char *shard)
{
    const char *tensor;
    json_t *value;
    size_t n = 0;
    json_object_foreach(weight_map, tensor, value) n +=
        strcmp(json_string_value(value), shard) == 0;
    return n;
}

/* All shards are looked for before any is opened, so that one sentence tells the whole gap. */
static zoe_status check_shards(zoe_context *ctx, char *const *paths, const files *shards,
                               json_t *weight_map, const char *index_path)
{
    size_t absent = 0, tensors = 0;
    const char *first = NULL;
    for (size_t i = 0; i < shards->n; i++) {
        if (zoe_file_exists(paths[i]))
            continue;
        if (!first)
            first = shards->names[i];
        absent++;
        tensors += tensors_of(weight_map, shards->names[i]);
    }
    if (absent == 0)
        return ZOE_OK;
    char more[64] = "which is not there";
    if (absent > 1)
        snprintf(more, sizeof more, "which is not there, nor %s %zu other%s",
                 absent > 2 ? "are" : "is", absent - 1, absent > 2 ? "s" : "");
    return zoe_fail(ctx, ZOE_MISSING,
                    "%s names %s, %s. %zu of %zu tensors would be missing. Download %s again, or "
                    "remove the index to use another layout.",
                    index_path, first, more, tensors, json_object_size(weight_map),
                    absent > 1 ? "these files" : "that file");
}

/* Of the tensors that files[file] has added, from entry `begin` on, keeps those that the index puts
 * there and takes them off the weight map. */
static void match_index(zoe_context *ctx, zoe_store *store, size_t begin, json_t *weight_map,
                        const char *shard, const char *index_path)
{
    size_t kept = begin, extra = 0;
    char example[256] = "";
    for (size_t i = begin; i < store->n; i++) {
        zoe_entry *entry = &store->entries[i];
        const char *named = json_string_value(json_object_get(weight_map, entry->stored));
        if (named && strcmp(named, shard) == 0) {
            json_object_del(weight_map, entry->stored);
            store->entries[kept++] = *entry;
            continue;
        }
        if (extra++ == 0)
            snprintf(example, sizeof example, "%s", entry->stored);
        zoe_entry_free(entry);
    }
    store->n = kept;
    if (extra)
        zoe_log(ctx, ZOE_WARNING,
                "%s: %zu tensors of %s are not listed for it and are left out, such as %s",
                index_path, extra, shard, example);
}

static zoe_status read_shards(zoe_context *ctx, zoe_store *store, char *const *paths,
                              const files *shards, json_t *weight_map, const char *index_path)
{
    const size_t listed = json_object_size(weight_map);
    TRY(zoe_store_files(ctx, store, shards->n));
    for (size_t i = 0; i < shards->n; i++) {
        const size_t begin = store->n;
        TRY(zoe_map_open(ctx, &store->files[i], paths[i]));
        TRY(zoe_safetensors_read(ctx, store, i));
        match_index(ctx, store, begin, weight_map, shards->names[i], index_path);
    }
    void *first = json_object_iter(weight_map);
    if (!first)
        return ZOE_OK;
    return zoe_fail(
        ctx, ZOE_MISSING,
        "%s puts tensor %s into %s, which does not hold it; %zu of %zu tensors are missing",
        index_path, json_object_iter_key(first), json_string_value(json_object_iter_value(first)),
        json_object_size(weight_map), listed);
}

zoe_status zoe_shards_open(zoe_context *ctx, zoe_store *store, const char *index_path)
{
    json_t *root = NULL;
    char *folder = NULL;
    files shards = {0}, paths = {0};
    zoe_status status;
    TRY_GOTO(zoe_json_read(ctx, &root, index_path));
    json_t *weight_map = json_object_get(root, "weight_map");
    TRY_GOTO(list_shards(ctx, &shards, weight_map, index_path));
    const int length = (int)(zoe_path_name(index_path) - index_path);
    TRY_GOTO(zoe_strf(ctx, &folder, "%.*s", length, index_path));
    for (size_t i = 0; i < shards.n; i++) {
        char *path;
        TRY_GOTO(zoe_strf(ctx, &path, "%s%s", folder, shards.names[i]));
        status = files_add(ctx, &paths, path);
        zoe_free(path);
        if (status != ZOE_OK)
            goto done;
    }
    TRY_GOTO(check_shards(ctx, paths.names, &shards, weight_map, index_path));
    TRY_GOTO(read_shards(ctx, store, paths.names, &shards, weight_map, index_path));
done:
    files_free(&paths);
    files_free(&shards);
    zoe_free(folder);
    json_decref(root);
    return status;
}

/* ---- folders ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Names of the folder that end so, sorted; hidden files do not count. */
static zoe_status list_folder(zoe_context *ctx, files *found, const char *folder, const char *end)
{
    DIR *dir = opendir(folder);
    zoe_status status = ZOE_OK;
    if (!dir)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot list this folder: %s", folder, strerror(errno));
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, end))
            TRY_GOTO(files_add(ctx, found, entry->d_name));
    }
    if (errno)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot list this folder: %s", folder, strerror(errno));
done:
    closedir(dir);
    files_sort(found);
    return status;
}

static zoe_status refuse_several(zoe_context *ctx, const char *folder, const files *found)
{
    char text[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < found->n && i < 6 && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                                 found->names[i]);
    return zoe_fail(ctx, ZOE_FORMAT,
                    "%s: holds %zu files that could be meant: %s%s; name one, or add the index",
                    folder, found->n, text, found->n > 6 ? ", ..." : "");
}

zoe_status zoe_folder_pick(zoe_context *ctx, char **path, bool *is_index, const char *folder)
{
    static const char *const ends[] = {".safetensors.index.json", ".safetensors", ".gguf", ".pth"};
    files found = {0};
    zoe_status status = ZOE_OK;
    *path = NULL;
    for (size_t k = 0; k < sizeof ends / sizeof *ends && found.n == 0; k++) {
        TRY_GOTO(list_folder(ctx, &found, folder, ends[k]));
        *is_index = k == 0;
    }
    if (found.n == 0)
        status = zoe_fail(ctx, ZOE_MISSING,
                          "%s: holds no .safetensors file, no index of such files, no .gguf and no "
                          ".pth file; download the files of this folder again",
                          folder);
    else if (found.n > 1)
        status = refuse_several(ctx, folder, &found);
    else
        status = zoe_path_join(ctx, path, folder, found.names[0]);
done:
    files_free(&found);
    return status;
}
