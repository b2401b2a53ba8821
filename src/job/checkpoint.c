/* The folder that keeps the state of a run. See docs/RESUME.md.
 *
 *   request.json            the record of the run with paths and outputs, the seed included
 *   context.safetensors     text context of both prompts
 *   condition.safetensors   mask and latent of the pictures, or the latent alone, with CLIP features
 *   step.safetensors        latent, history of the solver and state of the step cache after the last
 *                           finished step
 *   lock                    held by the process that works here
 *
 * Each file is written aside, synced and renamed, so that the folder is valid at every moment. */
#define _GNU_SOURCE
#include "job/ranks.h"
#include "job/record.h"
#include "job/step_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef enum stage { STAGE_CONTEXT, STAGE_CONDITION, STAGE_STEP, STAGES } stage;

static const struct {
    const char *name, *file, *without; /* what a run does that does not find the file */
} stages[STAGES] = {
    [STAGE_CONTEXT] = {"context", "context.safetensors", "encodes the prompts again"},
    [STAGE_CONDITION] = {"condition", "condition.safetensors", "encodes the picture again"},
    [STAGE_STEP] = {"step", "step.safetensors", "begins its steps anew"},
};
static const char request_file[] = ZOE_REQUEST_FILE, lock_file[] = "lock";
static const char stage_key[] = "zoetrope_checkpoint";

enum { STAGE_FORMAT = 1, STEP_TENSORS = ZOE_SOLVER_HISTORY + 2 };

struct zoe_checkpoint {
    const char *folder;
    zoe_context *writer; /* has the sentences of failures that the run survives */
    int fd, lock;        /* -1: not open */
    bool made_folder;    /* it was not there before */
    bool made_lock;      /* likewise */
    bool kept_request;   /* a request that nothing was worked out of was there before */
    bool begun;          /* the run */
    char letters[ZOE_PART_LETTERS];
    zoe_record *old; /* of the run that goes on; NULL: a new one */
    char identity[ZOE_DIGEST_TEXT];
    zoe_store *step; /* open from load to the first step */
    size_t done;     /* steps in it */
};

bool zoe_checkpoint_takes(const char *name)
{
    for (size_t i = 0; i < STAGES; i++)
        if (strcmp(name, stages[i].file) == 0)
            return true;
    return strcmp(name, request_file) == 0 || strcmp(name, lock_file) == 0;
}

/* ---- the folder ---- */

static bool has_file(const zoe_checkpoint *c, const char *name)
{
    struct stat st;
    return fstatat(c->fd, name, &st, 0) == 0;
}

static bool has_stage(const zoe_checkpoint *c)
{
    for (size_t i = 0; i < STAGES; i++)
        if (has_file(c, stages[i].file))
            return true;
    return false;
}

static zoe_status open_folder(zoe_context *ctx, zoe_checkpoint *c)
{
    const bool there = zoe_folder_exists(c->folder);
    TRY(zoe_folder_make(ctx, c->folder));
    c->made_folder = !there;
    c->fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot open this folder: %s", c->folder, strerror(errno));
    return ZOE_OK;
}

/* The name must still lead to what is locked: its former owner may have removed it. */
static bool lock_stands(const zoe_checkpoint *c)
{
    struct stat named, held;
    return fstatat(c->fd, lock_file, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(c->lock, &held) == 0 && named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

static zoe_status take_lock(zoe_context *ctx, zoe_checkpoint *c)
{
    c->made_lock = !has_file(c, lock_file);
    for (;;) {
        c->lock = openat(c->fd, lock_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (c->lock < 0)
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write in this folder: %s", c->folder,
                            strerror(errno));
        if (flock(c->lock, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK) {
                close(c->lock);
                c->lock = -1;
                return zoe_fail(ctx, ZOE_IO,
                                "%s: another run is at work in this checkpoint folder; wait for "
                                "its end, or name another folder",
                                c->folder);
            }
            zoe_log(
                ctx, ZOE_WARNING,
                "%s: the file system knows no locks (%s): take care that only one run uses this "
                "folder",
                c->folder, strerror(errno));
            return ZOE_OK;
        }
        if (lock_stands(c))
            return ZOE_OK;
        close(c->lock);
        c->lock = -1;
    }
}

/* "NAME.LETTERS.part" of one of the files of a checkpoint. */
static bool is_part_of_ours(const char *name)
{
    static const char suffix[] = ".part";
    const char *const files[] = {request_file, stages[0].file, stages[1].file, stages[2].file};
    const size_t n = strlen(name), end = ZOE_PART_LETTERS + sizeof suffix - 1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const size_t length = strlen(files[i]);
        char letters[ZOE_PART_LETTERS];
        if (n != length + end || strncmp(name, files[i], length) != 0 || name[length] != '.' ||
            strcmp(name + n - (sizeof suffix - 1), suffix) != 0)
            continue;
        memcpy(letters, name + length + 1, ZOE_PART_LETTERS - 1);
        letters[ZOE_PART_LETTERS - 1] = '\0';
        return zoe_part_letters_check(letters);
    }
    return false;
}

static void sweep_folder(const zoe_checkpoint *c)
{
    DIR *d = opendir(c->folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_part_of_ours(e->d_name))
            unlinkat(c->fd, e->d_name, 0);
    if (d)
        closedir(d);
}

/* What a killed run left of its outputs. */
static void sweep_outputs(const zoe_record *old)
{
    const zoe_job_params *p = &old->params;
    const char *const files[] = {p->out, p->latents_out, p->preview, p->report, p->trace};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] && strcmp(files[i], "-") != 0)
            zoe_output_sweep(files[i], old->letters);
    if (p->frames_out)
        zoe_folder_sweep(p->frames_out, old->letters);
}

/* After a rename: the folder's entry must outlive a power failure too. */
static zoe_status sync_folder(zoe_context *ctx, const zoe_checkpoint *c)
{
    if (fsync(c->fd) != 0 && errno != EINVAL && errno != EROFS)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", c->folder, strerror(errno));
    return ZOE_OK;
}

static zoe_status write_request(zoe_context *ctx, const zoe_job *job)
{
    const zoe_checkpoint *c = job->checkpoint;
    char *path = NULL, *text = NULL;
    zoe_output out = {.fd = -1};
    zoe_status status;
    TRY_GOTO(zoe_path_join(ctx, &path, c->folder, request_file));
    TRY_GOTO(zoe_record_make(ctx, &text, job, c->letters));
    TRY_GOTO(zoe_output_open(ctx, &out, path));
    TRY_GOTO(zoe_output_write(ctx, &out, text, strlen(text)));
    TRY_GOTO(zoe_output_commit(ctx, &out));
    status = sync_folder(ctx, c);
done:
    zoe_output_abort(&out);
    zoe_free(path);
    zoe_free(text);
    return status;
}

/* ---- before the work: what is there, and does it fit the request? ---- */

static zoe_status check_request(zoe_context *ctx, const zoe_job *job)
{
    const zoe_record *old = job->checkpoint->old;
    zoe_differences d = {.used = 0};
    zoe_request_differences(&d, &old->params, &job->params);
    if (d.used > 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: the run in this checkpoint is another one: %s; leave these options as "
                        "they were, or begin in another folder",
                        job->checkpoint->folder, d.text);
    return ZOE_OK;
}

/* A folder with things that are not ours is hardly meant: it may be that of the model. */
static zoe_status refuse_foreign(zoe_context *ctx, const zoe_checkpoint *c)
{
    DIR *d = opendir(c->folder);
    zoe_status status = ZOE_OK;
    for (const struct dirent *e; d && status == ZOE_OK && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "lost+found") != 0 &&
            !zoe_checkpoint_takes(e->d_name) && !is_part_of_ours(e->d_name))
            status =
                zoe_fail(ctx, ZOE_INVALID,
                         "%s: holds other things, such as %s; a checkpoint wants a folder of its "
                         "own: name a new one",
                         c->folder, e->d_name);
    if (d)
        closedir(d);
    return status;
}

/* A request that is no regular file could hold us up, one that is no record of ours belongs to
 * someone else. */
static zoe_status check_kept_request(zoe_context *ctx, const zoe_checkpoint *c)
{
    struct stat st;
    zoe_record *record = NULL;
    if (fstatat(c->fd, request_file, &st, 0) == 0 && !S_ISREG(st.st_mode))
        return zoe_fail(ctx, ZOE_FORMAT, "%s/%s: is no file; name another folder", c->folder,
                        request_file);
    const zoe_status status = zoe_record_read(ctx, &record, c->folder);
    zoe_record_free(record);
    return status;
}

/* A folder that holds a request and nothing that was worked out is as good as empty to a new run. */
static zoe_status look_for_old(zoe_context *ctx, zoe_job *job)
{
    zoe_checkpoint *c = job->checkpoint;
    const bool request = has_file(c, request_file), kept = has_stage(c);
    if (kept && !job->params.resume)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: holds a checkpoint; --resume %s goes on with it; a new run wants "
                        "another folder",
                        c->folder, c->folder);
    if (kept && !request)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: the checkpoint is broken: %s, which says what the run was, is not "
                        "there; name another folder",
                        c->folder, request_file);
    if (!request && !kept)
        TRY(refuse_foreign(ctx, c));
    if (request)
        TRY(check_kept_request(ctx, c));
    c->kept_request = request;
    if (!request && job->params.resume)
        zoe_log(ctx, ZOE_WARNING, "%s: holds no checkpoint yet: the run begins anew", c->folder);
    if (request && job->params.resume) {
        TRY(zoe_record_read(ctx, &c->old, c->folder));
        return check_request(ctx, job);
    }
    return ZOE_OK;
}

/* What a killed run left, of this checkpoint or of one that is to be replaced. */
static void sweep(zoe_checkpoint *c)
{
    zoe_record *replaced = NULL;
    sweep_folder(c);
    if (c->old)
        sweep_outputs(c->old);
    else if (zoe_record_read(c->writer, &replaced, c->folder) == ZOE_OK)
        sweep_outputs(replaced);
    zoe_record_free(replaced);
    zoe_context_clear(c->writer);
}

zoe_status zoe_checkpoint_attach(zoe_context *ctx, zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    void *made;
    if (!p->checkpoint && p->resume)
        return zoe_fail(ctx, ZOE_INVALID, "resume: from which checkpoint folder?");
    if (!p->checkpoint)
        return ZOE_OK;
    if (!*p->checkpoint)
        return zoe_fail(ctx, ZOE_INVALID, "the path of the checkpoint folder is empty");
    TRY(zoe_alloc_zero(ctx, &made, 1, sizeof *job->checkpoint, "checkpoint"));
    zoe_checkpoint *c = job->checkpoint = made;
    c->folder = p->checkpoint;
    c->fd = c->lock = -1;
    c->writer = zoe_context_new(1);
    if (!c->writer)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for the checkpoint");
    TRY(open_folder(ctx, c));
    TRY(take_lock(ctx, c));
    TRY(look_for_old(ctx, job));
    sweep(c);
    if (c->old) {
        job->plan.seed = c->old->params.seed;
        memcpy(c->letters, c->old->letters, sizeof c->letters);
    } else {
        TRY(zoe_part_letters_draw(ctx, c->letters));
        if (!c->kept_request)
            TRY(write_request(ctx, job));
    }
    zoe_part_letters_use(c->writer, c->letters);
    return ZOE_OK;
}

/* ---- stages ---- */

/* Over what the file says, so that a flipped bit anywhere shows. Tensors in byte-wise order of
 * names. */
static zoe_status digest_stage(zoe_context *ctx, char text[ZOE_DIGEST_TEXT], stage s,
                               const char *identity, size_t done, const zoe_named_tensor *tensors,
                               size_t n)
{
    zoe_digest *digest;
    char shape[160];
    TRY(zoe_digest_new(ctx, &digest));
    snprintf(shape, sizeof shape, "%zu", done);
    zoe_digest_add_text(digest, stages[s].name);
    zoe_digest_add_text(digest, identity);
    zoe_digest_add_text(digest, shape);
    for (size_t i = 0; i < n; i++) {
        const zoe_tensor t = tensors[i].tensor;
        zoe_digest_add_text(digest, tensors[i].name);
        zoe_digest_add_text(digest, zoe_tensor_describe(shape, sizeof shape, t));
        zoe_digest_add(digest, t.data, zoe_tensor_count(t) * zoe_dtype_bytes(t.dtype));
    }
    const zoe_status status = zoe_digest_end(ctx, digest, text);
    zoe_digest_free(digest);
    return status;
}

static zoe_status write_stage(zoe_context *ctx, const zoe_checkpoint *c, stage s, size_t done,
                              const zoe_named_tensor *tensors, size_t n)
{
    char digest[ZOE_DIGEST_TEXT], *note = NULL, *path = NULL;
    zoe_status status;
    TRY(digest_stage(ctx, digest, s, c->identity, done, tensors, n));
    TRY_GOTO(zoe_strf(ctx, &note,
                      "{\"format\": %d, \"stage\": \"%s\", \"run\": \"%s\", \"steps_done\": %zu, "
                      "\"sha256\": \"%s\"}",
                      STAGE_FORMAT, stages[s].name, c->identity, done, digest));
    TRY_GOTO(zoe_path_join(ctx, &path, c->folder, stages[s].file));
    const char *const metadata[1][2] = {{stage_key, note}};
    TRY_GOTO(zoe_safetensors_write(ctx, path, tensors, n, metadata, 1));
    status = sync_folder(ctx, c);
done:
    zoe_free(note);
    zoe_free(path);
    return status;
}

/* A full disk must not cost the run: the last state that could be written stays. */
static zoe_status save(zoe_context *ctx, const zoe_job *job, stage s, size_t done,
                       const zoe_named_tensor *tensors, size_t n)
{
    const zoe_checkpoint *c = job->checkpoint;
    if (!c)
        return ZOE_OK;
    zoe_context_clear(c->writer);
    const zoe_status status = write_stage(c->writer, c, s, done, tensors, n);
    if (status == ZOE_IO)
        zoe_log(ctx, ZOE_WARNING,
                "the checkpoint could not be written and stays as it was; the run goes on: %s",
                zoe_context_message(c->writer));
    else if (status != ZOE_OK)
        return zoe_fail(ctx, status, "%s", zoe_context_message(c->writer));
    return ZOE_OK;
}

typedef struct stage_note {
    const char *name, *run, *sha256;
    json_int_t format, done;
} stage_note;

static zoe_status read_note(zoe_context *ctx, json_t **root, stage_note *note, const char *path)
{
    char *text;
    TRY(zoe_safetensors_metadata(ctx, &text, path, stage_key));
    *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    zoe_free(text);
    if (json_unpack(*root, "{s:I, s:s, s:s, s:I, s:s}", "format", &note->format, "stage",
                    &note->name, "run", &note->run, "steps_done", &note->done, "sha256",
                    &note->sha256) != 0) {
        TRY(zoe_alloc_probe(ctx, 4096, path)); /* jansson does not tell a lack of memory */
        return zoe_fail(ctx, ZOE_FORMAT, "%s: the note on what it holds cannot be read", path);
    }
    if (note->format > STAGE_FORMAT)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: written by a later version", path);
    return ZOE_OK;
}

static zoe_status check_note(zoe_context *ctx, const zoe_job *job, const stage_note *note, stage s,
                             const char *path)
{
    const json_int_t most = s == STAGE_STEP ? (json_int_t)job->schedule.steps : 0;
    if (note->format < 1 || strcmp(note->name, stages[s].name) != 0 ||
        note->done < (s == STAGE_STEP) || note->done > most)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: it does not hold what its name says", path);
    if (strcmp(note->run, job->checkpoint->identity) != 0)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: it belongs to another run", path);
    return ZOE_OK;
}

static zoe_status check_digest(zoe_context *ctx, const zoe_store *store, const stage_note *note,
                               stage s)
{
    const size_t n = zoe_store_count(store);
    char digest[ZOE_DIGEST_TEXT];
    void *p;
    TRY(zoe_alloc(ctx, &p, n, sizeof(zoe_named_tensor), "tensors"));
    zoe_named_tensor *tensors = p;
    for (size_t i = 0; i < n; i++)
        tensors[i] = (zoe_named_tensor){zoe_store_name(store, i), zoe_store_tensor(store, i)};
    zoe_status status = digest_stage(ctx, digest, s, note->run, (size_t)note->done, tensors, n);
    zoe_free(tensors);
    if (status == ZOE_OK && strcmp(digest, note->sha256) != 0)
        status = zoe_fail(ctx, ZOE_FORMAT, "%s: its data are not those that were written",
                          zoe_store_path(store));
    return status;
}

/* A stage's file, checked; *store is NULL if it is not there. Close the store. */
static zoe_status read_stage(zoe_context *ctx, const zoe_job *job, stage s, const char *path,
                             zoe_store **store, size_t *done)
{
    stage_note note;
    json_t *root = NULL;
    zoe_status status;
    TRY_GOTO(read_note(ctx, &root, &note, path));
    TRY_GOTO(check_note(ctx, job, &note, s, path));
    TRY_GOTO(zoe_store_open(ctx, store, path, ZOE_NAMES_AS_STORED));
    TRY_GOTO(check_digest(ctx, *store, &note, s));
    *done = (size_t)note.done;
done:
    json_decref(root);
    return status;
}

static zoe_status broken(zoe_context *ctx, const zoe_job *job, stage s, zoe_status status)
{
    if (status == ZOE_FORMAT || status == ZOE_MISSING)
        zoe_fail_in(ctx, "the checkpoint is broken; if you remove %s from %s, the run %s",
                    stages[s].file, job->checkpoint->folder, stages[s].without);
    return status == ZOE_MISSING ? ZOE_FORMAT : status;
}

static zoe_status open_stage(zoe_context *ctx, const zoe_job *job, stage s, zoe_store **store,
                             size_t *done)
{
    char *path;
    *store = NULL;
    if (!has_file(job->checkpoint, stages[s].file))
        return ZOE_OK;
    TRY(zoe_path_join(ctx, &path, job->checkpoint->folder, stages[s].file));
    const zoe_status status = read_stage(ctx, job, s, path, store, done);
    zoe_free(path);
    if (status != ZOE_OK) {
        zoe_store_close(*store);
        *store = NULL;
    }
    return broken(ctx, job, s, status);
}

/* Copies a tensor that must have this shape and type. */
static zoe_status copy_tensor(zoe_context *ctx, const zoe_store *store, const char *name,
                              zoe_tensor to)
{
    zoe_tensor from;
    if (to.dtype == ZOE_F32)
        TRY(zoe_store_get(ctx, store, &from, name, to.rank, to.shape));
    else if (!zoe_store_find(store, name, &from) || zoe_tensor_bytes(from) != zoe_tensor_bytes(to))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: %s is missing or not of %zu bytes",
                        zoe_store_path(store), name, zoe_tensor_bytes(to));
    if (from.dtype != to.dtype)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: %s is %s, %s is wanted", zoe_store_path(store), name,
                        zoe_dtype_name(from.dtype), zoe_dtype_name(to.dtype));
    memcpy(to.data, from.data, zoe_tensor_bytes(to));
    return ZOE_OK;
}

/* What the files hold of a job, in byte-wise order of names. */

static void context_tensors(const zoe_job *job, zoe_named_tensor list[ZOE_BRANCHES])
{
    static const char *const names[ZOE_BRANCHES] = {
        [ZOE_COND] = "context", [ZOE_UNCOND] = "context_null"};
    const size_t width = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->text_dim;
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        list[b] = (zoe_named_tensor){
            names[b], zoe_tensor_2d(job->context[b], ZOE_F32, job->id_count[b], width)};
}

static zoe_named_tensor latent_tensor(const zoe_job *job, const char *name, float *data,
                                      size_t channels)
{
    const zoe_plan *p = &job->plan;
    return (zoe_named_tensor){name, zoe_tensor_4d(data, ZOE_F32, channels, p->latent_frames,
                                                  p->latent_height, p->latent_width)};
}

/* condition, features; the latter only with an image tower. */
static size_t condition_tensors(const zoe_job *job, zoe_named_tensor list[2])
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    list[0] = (zoe_named_tensor){"condition", zoe_condition_tensor(job)};
    list[1] = (zoe_named_tensor){
        "features", zoe_tensor_2d(job->features, ZOE_F32, job->feature_rows, d->image_dim)};
    return job->feature_rows ? 2 : 1;
}

/* cache, history_0, history_1, ..., latents */
static size_t step_tensors(const zoe_job *job, zoe_solver *solver,
                           zoe_named_tensor list[STEP_TENSORS])
{
    static const char *const names[ZOE_SOLVER_HISTORY] = {"history_0", "history_1", "history_2"};
    const size_t channels = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim;
    float *history[ZOE_SOLVER_HISTORY];
    const size_t n = zoe_solver_history(solver, history);
    size_t used = 0;
    zoe_tensor state;
    if (zoe_step_cache_state(job, &state))
        list[used++] = (zoe_named_tensor){"cache", state};
    for (size_t k = 0; k < n; k++)
        list[used++] = latent_tensor(job, names[k], history[k], channels);
    list[used++] = latent_tensor(job, "latents", job->latent, channels);
    return used;
}

/* Takes n tensors out of a stage's file into `list`. */
static zoe_status copy_tensors(zoe_context *ctx, const zoe_job *job, stage s,
                               const zoe_store *store, const zoe_named_tensor *list, size_t n)
{
    zoe_status status = ZOE_OK;
    for (size_t i = 0; i < n && status == ZOE_OK; i++)
        status = copy_tensor(ctx, store, list[i].name, list[i].tensor);
    return broken(ctx, job, s, status);
}

static zoe_status take_floats(zoe_context *ctx, float **values, const zoe_tensor shape,
                              const char *what)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, zoe_tensor_count(shape), sizeof(float), what));
    *values = p;
    return ZOE_OK;
}

static zoe_status load_context(zoe_context *ctx, zoe_job *job)
{
    zoe_named_tensor list[ZOE_BRANCHES];
    zoe_store *store;
    size_t done;
    TRY(open_stage(ctx, job, STAGE_CONTEXT, &store, &done));
    if (!store)
        return ZOE_OK;
    zoe_status status;
    context_tensors(job, list);
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        TRY_GOTO(take_floats(ctx, &job->context[b], list[b].tensor, "text context"));
    context_tensors(job, list);
    status = copy_tensors(ctx, job, STAGE_CONTEXT, store, list, ZOE_BRANCHES);
done:
    zoe_store_close(store);
    return status;
}

static zoe_status load_condition(zoe_context *ctx, zoe_job *job)
{
    zoe_store *store;
    size_t done;
    if (!zoe_job_has_condition(job))
        return ZOE_OK;
    TRY(open_stage(ctx, job, STAGE_CONDITION, &store, &done));
    if (!store)
        return ZOE_OK;
    zoe_status status;
    zoe_named_tensor list[2];
    const size_t n = condition_tensors(job, list);
    TRY_GOTO(take_floats(ctx, &job->condition, list[0].tensor, "condition"));
    if (n > 1)
        TRY_GOTO(take_floats(ctx, &job->features, list[1].tensor, "picture features"));
    condition_tensors(job, list);
    status = copy_tensors(ctx, job, STAGE_CONDITION, store, list, n);
done:
    zoe_store_close(store);
    return status;
}

static zoe_status check_sources(zoe_context *ctx, const zoe_job *job)
{
    const zoe_record *old = job->checkpoint->old;
    zoe_differences d = {.used = 0};
    zoe_source_differences(&d, old, job);
    if (d.used > 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: the checkpoint does not go on with this: %s; mend that, or begin in "
                        "another folder",
                        job->checkpoint->folder, d.text);
    if (strcmp(old->version, ZOE_VERSION) != 0)
        zoe_log(ctx, ZOE_WARNING,
                "%s: begun by zoetrope %.40s, this is %s: the result may differ in its last bits "
                "from a run of one version",
                job->checkpoint->folder, old->version, ZOE_VERSION);
    return ZOE_OK;
}

zoe_status zoe_checkpoint_load(zoe_context *ctx, zoe_job *job)
{
    zoe_checkpoint *c = job->checkpoint;
    if (!c)
        return ZOE_OK;
    TRY(zoe_sources_weights(ctx, job));
    TRY(zoe_sources_tokens(ctx, job));
    TRY(zoe_sources_identity(ctx, job, c->identity));
    if (!c->old || !has_stage(c))
        return ZOE_OK;
    TRY(zoe_sources_digests(ctx, job, &c->old->sources));
    TRY(check_sources(ctx, job));
    TRY(load_context(ctx, job));
    TRY(load_condition(ctx, job));
    TRY(open_stage(ctx, job, STAGE_STEP, &c->step, &c->done));
    job->plan.steps_done = c->done;
    zoe_log(ctx, ZOE_INFO, "%s: text %s, picture %s, %zu of %zu steps done", c->folder,
            job->context[0] ? "done" : "to do",
            job->condition               ? "done"
            : zoe_job_has_condition(job) ? "to do"
                                         : "none",
            c->done, job->schedule.steps);
    return ZOE_OK;
}

/* ---- the work ---- */

/* Room for all stages that are not there yet, and for one more step, written beside the last. */
static zoe_status check_room(zoe_context *ctx, const zoe_job *job)
{
    const zoe_checkpoint *c = job->checkpoint;
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const size_t step = zoe_solver_bytes(job->params.solver, job->latent_count) +
                        job->latent_count * sizeof(float) + zoe_step_cache_kept_bytes(job);
    size_t bytes = c->done < job->schedule.steps ? step : 0;
    struct statvfs fs;
    if (!has_file(c, stages[STAGE_CONTEXT].file))
        bytes += (job->id_count[0] + job->id_count[1]) * d->text_dim * sizeof(float);
    if (!has_file(c, stages[STAGE_CONDITION].file) && zoe_job_has_condition(job))
        bytes += (zoe_tensor_count(zoe_condition_tensor(job)) + job->feature_rows * d->image_dim) *
                 sizeof(float);
    if (!has_file(c, stages[STAGE_STEP].file))
        bytes += step;
    if (fstatvfs(c->fd, &fs) != 0 || fs.f_blocks == 0) /* it cannot tell */
        return ZOE_OK;
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= bytes)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_IO,
                    "%s: the checkpoint takes %zu MiB, the disk has %llu MiB left; free some, or "
                    "name a folder on another disk",
                    c->folder, (bytes >> 20) + 1, (unsigned long long)(room >> 20));
}

zoe_status zoe_checkpoint_begin(zoe_context *ctx, zoe_job *job)
{
    zoe_checkpoint *c = job->checkpoint;
    if (!c)
        return ZOE_OK;
    TRY(check_room(ctx, job));
    TRY(zoe_sources_digests(ctx, job, c->old ? &c->old->sources : NULL));
    TRY(write_request(ctx, job));
    c->begun = true;
    return ZOE_OK;
}

void zoe_checkpoint_name_parts(zoe_context *ctx, const zoe_job *job, bool on)
{
    if (job->checkpoint)
        zoe_part_letters_use(ctx, on ? job->checkpoint->letters : NULL);
}

zoe_status zoe_checkpoint_save_context(zoe_context *ctx, const zoe_job *job)
{
    zoe_named_tensor list[ZOE_BRANCHES];
    context_tensors(job, list);
    return save(ctx, job, STAGE_CONTEXT, 0, list, ZOE_BRANCHES);
}

zoe_status zoe_checkpoint_save_condition(zoe_context *ctx, const zoe_job *job)
{
    zoe_named_tensor list[2];
    const size_t n = condition_tensors(job, list);
    return save(ctx, job, STAGE_CONDITION, 0, list, n);
}

zoe_status zoe_checkpoint_save_step(zoe_context *ctx, const zoe_job *job, zoe_solver *solver,
                                    size_t done)
{
    zoe_named_tensor list[STEP_TENSORS];
    if (!job->params.checkpoint)
        return ZOE_OK;
    TRY(zoe_step_cache_gather(ctx, job));
    if (!zoe_ranks_first(job))
        return ZOE_OK;
    const size_t n = step_tensors(job, solver, list);
    return save(ctx, job, STAGE_STEP, done, list, n);
}

/* What the first rank has of a step, to all. */
static zoe_status share_step(zoe_context *ctx, zoe_job *job, zoe_solver *solver)
{
    const size_t bytes = job->latent_count * sizeof(float);
    float *history[ZOE_SOLVER_HISTORY];
    const size_t n = zoe_solver_history(solver, history);
    for (size_t k = 0; k < n; k++)
        TRY(zoe_ranks_share(ctx, job, history[k], bytes, 0, "history of the solver"));
    TRY(zoe_ranks_share(ctx, job, job->latent, bytes, 0, "latent"));
    if (!job->cache || !zoe_step_cache_is_on(job))
        return ZOE_OK;
    return job->ranks.count > 1 ? zoe_step_cache_scatter(ctx, job)
                                : zoe_cache_restored(ctx, job->cache);
}

zoe_status zoe_checkpoint_load_step(zoe_context *ctx, zoe_job *job, zoe_solver *solver,
                                    size_t *done)
{
    zoe_checkpoint *c = job->checkpoint;
    zoe_named_tensor list[STEP_TENSORS];
    *done = job->plan.steps_done;
    if (*done == 0)
        return ZOE_OK;
    if (c) {
        const size_t n = step_tensors(job, solver, list);
        TRY(copy_tensors(ctx, job, STAGE_STEP, c->step, list, n));
        zoe_store_close(c->step);
        c->step = NULL;
    }
    zoe_status status = share_step(ctx, job, solver);
    if (c)
        status = broken(ctx, job, STAGE_STEP, status);
    TRY(status);
    return zoe_solver_resume(ctx, solver, *done);
}

void zoe_checkpoint_close(zoe_checkpoint *c)
{
    if (!c)
        return;
    /* A run that never began leaves nothing behind; an old checkpoint stays as it was. */
    if (!c->begun && !c->old && c->lock >= 0) {
        if (c->letters[0] && !c->kept_request)
            unlinkat(c->fd, request_file, 0);
        if (c->made_lock)
            unlinkat(c->fd, lock_file, 0);
        if (c->made_folder)
            rmdir(c->folder);
    }
    if (c->lock >= 0)
        close(c->lock);
    if (c->fd >= 0)
        close(c->fd);
    zoe_store_close(c->step);
    zoe_record_free(c->old);
    zoe_context_free(c->writer);
    zoe_free(c);
}
