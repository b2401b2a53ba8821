/* Where records are: in checkpoint folders, videos, pictures and latents. */
#include "job/record.h"

static zoe_status read_folder(zoe_context *ctx, zoe_record **record, const char *folder)
{
    char *path, *text = NULL;
    size_t size;
    TRY(zoe_path_join(ctx, &path, folder, ZOE_REQUEST_FILE));
    zoe_status status = ZOE_OK;
    if (!zoe_file_exists(path))
        status = zoe_fail(ctx, ZOE_MISSING, "%s: holds no checkpoint: %s is not there", folder,
                          ZOE_REQUEST_FILE);
    if (status == ZOE_OK)
        status = zoe_file_read(ctx, &text, &size, path, ZOE_RECORD_BYTES);
    if (status == ZOE_OK)
        status = zoe_record_parse(ctx, record, text, size, path, true);
    zoe_free(text);
    zoe_free(path);
    return status;
}

/* Is it one of the kinds whose metadata the media room reads? */
static zoe_status is_media(zoe_context *ctx, bool *media, const char *path)
{
    zoe_map map;
    TRY(zoe_map_open(ctx, &map, path));
    *media = map.size >= 8 &&
             (memcmp(map.data, "\x89PNG", 4) == 0 || memcmp(map.data + 4, "ftyp", 4) == 0 ||
              memcmp(map.data, "\x1a\x45\xdf\xa3", 4) == 0);
    const bool tensors = map.size > 8 && map.data[8] == '{';
    zoe_map_close(&map);
    if (*media || tensors)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_MISSING,
                    "%s: nothing is noted in it: an MP4, WebM or PNG file, a safetensors file with "
                    "latents, or a checkpoint folder is wanted",
                    path);
}

zoe_status zoe_record_read(zoe_context *ctx, zoe_record **record, const char *path)
{
    char *text;
    bool media;
    *record = NULL;
    if (zoe_folder_exists(path))
        return read_folder(ctx, record, path);
    TRY(is_media(ctx, &media, path));
    TRY(media ? zoe_media_metadata_read(ctx, path, ZOE_RECORD_KEY, &text)
              : zoe_safetensors_metadata(ctx, &text, path, ZOE_RECORD_KEY));
    const zoe_status status = zoe_record_parse(ctx, record, text, strlen(text), path, false);
    zoe_free(text);
    return status;
}

void zoe_record_free(zoe_record *record)
{
    if (!record)
        return;
    for (size_t i = 0; i < ZOE_RECORD_PATHS; i++)
        zoe_free(record->paths[i]);
    for (size_t i = 0; i < ZOE_JOB_LORAS; i++)
        zoe_free(record->loras[i]);
    json_decref(record->root);
    zoe_free(record->json);
    zoe_free(record);
}

const zoe_job_params *zoe_record_params(const zoe_record *record)
{
    return &record->params;
}

const char *zoe_record_json(const zoe_record *record)
{
    return record->json;
}

const char *zoe_record_image_digest(const zoe_record *record)
{
    return record->sources.image;
}

const char *zoe_record_last_image_digest(const zoe_record *record)
{
    return record->sources.last_image;
}
