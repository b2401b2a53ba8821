/* Findings about a checkpoint as rows and as JSON. */
#include "inspection.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"

enum { NAMES_SHOWN = 8 };

/* "dim 5120, layers 40". */
static void print_dims(const zoe_part_info *part)
{
    char text[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < part->n_dims && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %zu", i ? ", " : "",
                                 part->dims[i].name, part->dims[i].value);
    if (part->n_dims)
        zoe_answer_row("sizes", "%s", text);
}

static void print_shares(const zoe_part_info *part)
{
    zoe_answer_row("tensors", "%zu, %s", part->tensors, zoe_amount_of(part->bytes).text);
    for (size_t i = 0; i < part->n_shares; i++)
        zoe_answer_row("", "%s: %zu, %s", zoe_dtype_name(part->shares[i].dtype),
                       part->shares[i].tensors, zoe_amount_of(part->shares[i].bytes).text);
}

static void print_names(const char *label, const zoe_texts *names)
{
    if (names->total == 0)
        return;
    zoe_answer_row(label, "%zu tensor%s", names->total, names->total == 1 ? "" : "s");
    for (size_t i = 0; i < names->n && i < NAMES_SHOWN; i++)
        zoe_answer_row("", "%s", names->text[i]);
    if (names->total > NAMES_SHOWN)
        zoe_answer_row("", "and %zu more", names->total - NAMES_SHOWN);
}

static void print_files(const zoe_part_info *part)
{
    for (size_t i = 0; i < part->n_files; i++) {
        const zoe_file_info *file = &part->files[i];
        const char *label = i ? "" : "files";
        if (*file->sha256)
            zoe_answer_row(label, "%s  %s", file->sha256, file->path);
        else
            zoe_answer_row(label, "%s, %s", file->path, zoe_amount_of(file->bytes).text);
    }
}

static void print_verified(const zoe_part_info *part)
{
    if (!part->verified || !part->store)
        return;
    if (*part->fingerprint)
        zoe_answer_row("fingerprint", "%s", part->fingerprint);
    if (part->n_nonfinite == 0)
        zoe_answer_row("NaN and inf", "none");
    for (size_t i = 0; i < part->n_nonfinite; i++) {
        const zoe_nonfinite *n = &part->nonfinite[i];
        zoe_answer_row(i ? "" : "NaN and inf", "%s: %zu NaN, %zu inf, in %s", n->name, n->nans,
                       n->infs, n->file);
    }
}

static void print_tensors(const zoe_part_info *part)
{
    char shape[160];
    for (size_t i = 0; part->store && i < zoe_store_count(part->store); i++)
        zoe_answer_line("    %s  %s", zoe_store_name(part->store, i),
                        zoe_tensor_describe(shape, sizeof shape, zoe_store_tensor(part->store, i)));
}

static void print_part(const zoe_part_info *part, bool titled, const zoe_inspection_view *view)
{
    if (titled) {
        putchar('\n');
        zoe_answer_line("%s: %s", part->role ? part->role : zoe_content_name(part->content),
                        part->path);
        zoe_answer_row("is", "%s", part->what);
    }
    if (part->names)
        zoe_answer_row("names", "%s", part->names);
    print_dims(part);
    if (part->store)
        print_shares(part);
    print_names("missing", &part->missing);
    print_names("not known", &part->unknown);
    if (part->refusal && part->content != ZOE_CONTENT_LATENTS)
        zoe_answer_row(part->sound ? "cannot use" : "at fault", "%s", part->refusal);
    print_files(part);
    print_verified(part);
    if (view->tensors)
        print_tensors(part);
}

static bool all_verified(const zoe_inspection *in)
{
    bool all = true;
    for (size_t i = 0; i < zoe_inspection_parts(in); i++)
        all = all && zoe_inspection_part(in, i)->verified;
    return all;
}

static void print_texts(const char *label, const zoe_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        zoe_answer_row(i ? "" : label, "%s", texts->text[i]);
}

void zoe_inspection_print(const zoe_inspection *in, const zoe_inspection_view *view)
{
    const char *layout = zoe_inspection_layout(in);
    const bool single = strcmp(layout, "single") == 0;
    zoe_answer_line("%s: %s", view->path, zoe_inspection_model(in));
    if (!single)
        zoe_answer_row("layout", "%s",
                       strcmp(layout, "other") == 0 ? "none that this program knows" : layout);
    if (!single || zoe_inspection_part(in, 0)->content != ZOE_CONTENT_LATENTS)
        zoe_answer_row("for zoe", "%s",
                       !zoe_inspection_supported(in) ? "cannot be used by zoe generate"
                       : single && zoe_inspection_part(in, 0)->content == ZOE_CONTENT_LORA
                           ? "can be used by zoe generate --lora, with a model that it was made for"
                       : single ? "can be used by zoe generate as a part"
                                : "can be used by zoe generate --model");
    zoe_answer_row("sound", "%s",
                   !zoe_inspection_sound(in) ? "no"
                   : all_verified(in)        ? "yes"
                                             : "yes, as far as headers tell; --verify reads all");
    print_texts("at fault", zoe_inspection_problems(in));
    print_texts("remark", zoe_inspection_remarks(in));
    for (size_t i = 0; i < zoe_inspection_parts(in); i++)
        print_part(zoe_inspection_part(in, i), !single, view);
}

/* ---- JSON; every function gives NULL without memory, which json_object_set_new refuses ---- */

/* Adds a member; false without memory. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *texts_json(const zoe_texts *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < texts->n; i++)
        if (json_array_append_new(list, zoe_answer_text(texts->text[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Makes a list of n objects, which fill fills. */
static json_t *list_json(const zoe_part_info *part, size_t n,
                         bool (*fill)(json_t *object, const zoe_part_info *part, size_t i))
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        json_t *object = json_object();
        if (!object || !fill(object, part, i)) {
            json_decref(object);
            json_decref(list);
            return NULL;
        }
        if (json_array_append_new(list, object) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool fill_share(json_t *object, const zoe_part_info *part, size_t i)
{
    const zoe_type_share *s = &part->shares[i];
    return put(object, "dtype", json_string(zoe_dtype_name(s->dtype))) &&
           put(object, "tensors", zoe_answer_size(s->tensors)) &&
           put(object, "bytes", zoe_answer_size(s->bytes));
}

static bool fill_file(json_t *object, const zoe_part_info *part, size_t i)
{
    const zoe_file_info *f = &part->files[i];
    return put(object, "path", zoe_answer_text(f->path)) &&
           put(object, "bytes", zoe_answer_size(f->bytes)) &&
           (!*f->sha256 || put(object, "sha256", json_string(f->sha256)));
}

static bool fill_nonfinite(json_t *object, const zoe_part_info *part, size_t i)
{
    const zoe_nonfinite *n = &part->nonfinite[i];
    return put(object, "name", zoe_answer_text(n->name)) &&
           put(object, "file", zoe_answer_text(n->file)) &&
           put(object, "nan", zoe_answer_size(n->nans)) &&
           put(object, "inf", zoe_answer_size(n->infs));
}

static bool fill_tensor(json_t *object, const zoe_part_info *part, size_t i)
{
    const zoe_tensor t = zoe_store_tensor(part->store, i);
    json_t *shape = json_array();
    for (int d = 0; shape && d < t.rank; d++)
        json_array_append_new(shape, zoe_answer_size(t.shape[d]));
    return put(object, "name", zoe_answer_text(zoe_store_name(part->store, i))) &&
           put(object, "dtype", json_string(zoe_dtype_name(t.dtype))) &&
           put(object, "shape", shape) &&
           put(object, "file", zoe_answer_text(zoe_store_file(part->store, i)));
}

static json_t *dims_json(const zoe_part_info *part)
{
    json_t *object = json_object();
    for (size_t i = 0; object && i < part->n_dims; i++)
        if (!put(object, part->dims[i].name, zoe_answer_size(part->dims[i].value))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static bool fill_part(json_t *o, const zoe_part_info *part, const zoe_inspection_view *view)
{
    bool fine = put(o, "role", zoe_answer_text(part->role)) &&
                put(o, "path", zoe_answer_text(part->path)) &&
                put(o, "content", json_string(zoe_content_name(part->content))) &&
                put(o, "what", zoe_answer_text(part->what)) &&
                put(o, "names", zoe_answer_text(part->names)) &&
                put(o, "supported", json_boolean(part->supported)) &&
                put(o, "sound", json_boolean(part->sound)) &&
                put(o, "refusal", zoe_answer_text(part->refusal)) &&
                put(o, "tensors", zoe_answer_size(part->tensors)) &&
                put(o, "bytes", zoe_answer_size(part->bytes)) &&
                put(o, "dtypes", list_json(part, part->n_shares, fill_share)) &&
                put(o, "sizes", dims_json(part)) &&
                put(o, "missing_count", zoe_answer_size(part->missing.total)) &&
                put(o, "missing", texts_json(&part->missing)) &&
                put(o, "unknown_count", zoe_answer_size(part->unknown.total)) &&
                put(o, "unknown", texts_json(&part->unknown)) &&
                put(o, "files", list_json(part, part->n_files, fill_file)) &&
                put(o, "verified", json_boolean(part->verified));
    if (part->verified && part->store)
        fine = fine && put(o, "fingerprint", json_string(part->fingerprint)) &&
               put(o, "nonfinite", list_json(part, part->n_nonfinite, fill_nonfinite));
    if (view->tensors && part->store)
        fine = fine && put(o, "list", list_json(part, zoe_store_count(part->store), fill_tensor));
    return fine;
}

static json_t *parts_json(const zoe_inspection *in, const zoe_inspection_view *view)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < zoe_inspection_parts(in); i++) {
        json_t *object = json_object();
        const bool fine = object && fill_part(object, zoe_inspection_part(in, i), view);
        if (!fine)
            json_decref(object);
        if (!fine || json_array_append_new(list, object) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *zoe_inspection_json(const zoe_inspection *in, const zoe_inspection_view *view)
{
    json_t *o = json_object();
    const bool fine = o && put(o, "kind", json_string("model")) &&
                      put(o, "path", zoe_answer_text(view->path)) &&
                      put(o, "model", zoe_answer_text(zoe_inspection_model(in))) &&
                      put(o, "layout", json_string(zoe_inspection_layout(in))) &&
                      put(o, "supported", json_boolean(zoe_inspection_supported(in))) &&
                      put(o, "sound", json_boolean(zoe_inspection_sound(in))) &&
                      put(o, "verified", json_boolean(all_verified(in))) &&
                      put(o, "problems", texts_json(zoe_inspection_problems(in))) &&
                      put(o, "remarks", texts_json(zoe_inspection_remarks(in))) &&
                      put(o, "parts", parts_json(in, view));
    if (fine)
        return o;
    json_decref(o);
    return NULL;
}

/* ---- the verdict ---- */

void zoe_inspection_verdict(const zoe_inspection *in, zoe_verdict *verdict)
{
    const zoe_texts *problems = zoe_inspection_problems(in);
    const char *first = problems->n ? problems->text[0] : NULL;
    size_t count = problems->total;
    for (size_t i = 0; i < zoe_inspection_parts(in); i++) {
        const zoe_part_info *part = zoe_inspection_part(in, i);
        if (part->sound || !part->refusal)
            continue;
        count++;
        if (!first)
            first = part->refusal;
    }
    verdict->text[0] = '\0';
    if (count == 1)
        snprintf(verdict->text, sizeof verdict->text, "%s", first);
    else if (count > 1)
        snprintf(verdict->text, sizeof verdict->text, "%s; and %zu more finding%s", first,
                 count - 1, count == 2 ? "" : "s");
}
