/* --resume and --from: a request as an earlier run noted it. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "commands.h"
#include "lora.h"
#include "message.h"
#include "request.h"

static int failed(const zoe_context *ctx, zoe_status status)
{
    const int code = status == ZOE_NOMEM       ? ZOE_EXIT_MEMORY
                     : status == ZOE_CANCELLED ? ZOE_EXIT_INTERRUPTED
                                               : ZOE_EXIT_INPUT;
    return zoe_refuse(code, zoe_status_name(status), "%s%s", zoe_context_message(ctx),
                      status == ZOE_MISSING
                          ? "; --from wants a video, PNG or latents file made by zoe, and not with "
                            "--no-metadata"
                          : "");
}

/* The record's settings in place of the defaults; the line is read once more on top of them. */
static void take_settings(zoe_request *request)
{
    request->job = *zoe_record_params(request->record);
    request->solver = (int)request->job.solver;
    request->dtype = request->job.bf16;
    request->compute = request->job.int8;
}

/* ---- --from: names without folders ---- */

/* A picture that a record notes. */
typedef struct noted_picture {
    const char *option, *noted, *digest;
    const char **path; /* of the request */
    char **owned;      /* its text, if it was found */
} noted_picture;

/* Is the file name in folder the picture that was noted? Then it is the request's. */
static zoe_status try_image(zoe_context *ctx, const noted_picture *picture, const char *folder,
                            const char *name, bool *other)
{
    char digest[ZOE_DIGEST_TEXT], *path;
    TRY(zoe_path_join(ctx, &path, folder, name));
    zoe_status status = ZOE_OK;
    if (zoe_file_exists(path)) {
        status = zoe_file_digest(ctx, digest, path);
        if (status == ZOE_OK && *picture->digest && strcmp(digest, picture->digest) == 0) {
            *picture->owned = path;
            return ZOE_OK;
        }
        *other = true;
    }
    zoe_free(path);
    return status;
}

static zoe_status folder_of(zoe_context *ctx, char **folder, const char *path)
{
    const size_t n = (size_t)(zoe_path_name(path) - path);
    return n == 0 ? zoe_strdup(ctx, folder, ".") : zoe_strf(ctx, folder, "%.*s", (int)n, path);
}

static int find_image(zoe_context *ctx, const zoe_request *request, const noted_picture *picture,
                      bool given)
{
    const char *name = picture->noted ? zoe_path_name(picture->noted) : "";
    char *beside = NULL;
    bool other = false;
    zoe_status status;
    *picture->path = NULL;
    if (given || !*name)
        return ZOE_EXIT_DONE; /* if the model wants one, the check of inputs says so */
    TRY_GOTO(folder_of(ctx, &beside, request->from));
    TRY_GOTO(try_image(ctx, picture, beside, name, &other));
    if (!*picture->owned)
        TRY_GOTO(try_image(ctx, picture, ".", name, &other));
done:
    zoe_free(beside);
    if (status != ZOE_OK)
        return failed(ctx, status);
    *picture->path = *picture->owned;
    if (*picture->owned)
        return ZOE_EXIT_DONE;
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                      "--%s is missing: %s was made from the picture %s%s%s; %s, so say with "
                      "--%s where it is",
                      picture->option, request->from, name, *picture->digest ? ", SHA-256 " : "",
                      picture->digest,
                      other && *picture->digest ? "the file of that name here is another picture"
                      : other ? "whether the file of that name here is that picture was not noted"
                              : "it is neither beside that file nor in the current folder",
                      picture->option);
}

static int find_images(zoe_context *ctx, zoe_request *request)
{
    const zoe_job_params *noted = zoe_record_params(request->record);
    const noted_picture first = {"image", noted->image, zoe_record_image_digest(request->record),
                                 &request->job.image, &request->image};
    const noted_picture last = {"last-image", noted->last_image,
                                zoe_record_last_image_digest(request->record),
                                &request->job.last_image, &request->last_image};
    const int code =
        find_image(ctx, request, &first,
                   request->found.operands > 0 || zoe_request_gave(request, first.option));
    return code == ZOE_EXIT_DONE
               ? find_image(ctx, request, &last, zoe_request_gave(request, last.option))
               : code;
}

/* A part of the model is taken if something of its name is in the current folder. */
static int find_parts(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    const struct {
        const char *option, **path;
    } parts[] = {
        {"model", &p->model},
        {"high-noise", &p->high_noise},
        {"low-noise", &p->low_noise},
        {"transformer", &p->transformer},
        {"vae", &p->vae},
        {"text-encoder", &p->text_encoder},
        {"tokenizer", &p->tokenizer},
        {"clip", &p->clip},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *noted = *parts[i].path;
        if (!noted || !*noted || zoe_request_gave(request, parts[i].option)) {
            *parts[i].path = NULL;
            continue;
        }
        *parts[i].path = zoe_path_name(noted);
        if (!zoe_folder_exists(*parts[i].path) && !zoe_file_exists(*parts[i].path))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--%s is missing: %s was made with %s, which is not in the current "
                              "folder; say with --%s where it is",
                              parts[i].option, request->from, zoe_path_name(noted),
                              parts[i].option);
    }
    return ZOE_EXIT_DONE;
}

int zoe_request_recall(zoe_context *ctx, zoe_request *request)
{
    const char *path = request->resume ? request->resume : request->from;
    if (request->from && zoe_folder_exists(request->from))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--from %s: a folder; a video, PNG or latents file made by zoe is wanted "
                          "(--resume goes on with the run that a folder of --checkpoint keeps)",
                          request->from);
    const zoe_status status = zoe_record_read(ctx, &request->record, path);
    if (status == ZOE_MISSING && request->resume)
        zoe_context_clear(ctx);
    else if (status != ZOE_OK)
        return failed(ctx, status);
    else
        take_settings(request);
    if (request->resume) {
        request->job.checkpoint = request->resume;
        request->job.resume = true;
        return ZOE_EXIT_DONE;
    }
    int code = find_parts(request);
    if (code == ZOE_EXIT_DONE)
        code = zoe_request_recall_loras(request);
    return code == ZOE_EXIT_DONE ? find_images(ctx, request) : code;
}
