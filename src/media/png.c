/* PNG in and out, and its text entries, on libpng: it checks every checksum and refuses cut-off
 * files, and it can write text, neither of which FFmpeg's codec does. */
#include "media/media.h"
#include "media/parts.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <strings.h>

#include "base/file.h"

/* Bytes that come one after the other. */
typedef struct png_bytes {
    uint8_t *data;
    size_t size, room;
} png_bytes;

/* One libpng run. libpng reports errors by a jump to `landing`; what must be freed after it is
 * here, not in locals. */
typedef struct png_run {
    zoe_context *ctx;
    zoe_status status;
    const char *doing; /* for sentences: "broken PNG" and the like */
    png_structp png;
    png_infop info;
    zoe_span rest;      /* reading: what is not consumed yet */
    zoe_output *output; /* writing: to a file, */
    png_bytes *bytes;   /* or to memory */
    png_bytep *rows;
    jmp_buf landing;
} png_run;

static void run_error(png_structp png, png_const_charp message)
{
    png_run *run = png_get_error_ptr(png);
    if (run->status == ZOE_OK)
        run->status = zoe_fail(run->ctx, ZOE_FORMAT, "%s: %s", run->doing, message);
    longjmp(run->landing, 1);
}

static void run_warning(png_structp png, png_const_charp message)
{
    png_run *run = png_get_error_ptr(png);
    zoe_log(run->ctx, ZOE_DEBUG, "PNG: %s", message);
}

static png_voidp run_alloc(png_structp png, png_alloc_size_t size)
{
    png_run *run = png_get_mem_ptr(png);
    void *p;
    /* libpng turns NULL into an error where it cannot go on, and the first status stays. */
    const zoe_status status = zoe_alloc(run->ctx, &p, size, 1, "a PNG picture");
    if (status != ZOE_OK && run->status == ZOE_OK)
        run->status = status;
    return p;
}

static void run_free(png_structp png, png_voidp p)
{
    (void)png;
    zoe_free(p);
}

static void run_read(png_structp png, png_bytep to, size_t n)
{
    png_run *run = png_get_io_ptr(png);
    if (n > run->rest.size)
        png_error(png, "the file is cut off");
    memcpy(to, run->rest.data, n);
    run->rest.data += n;
    run->rest.size -= n;
}

static zoe_status append(zoe_context *ctx, png_bytes *bytes, const void *from, size_t n)
{
    if (n > bytes->room - bytes->size) {
        size_t room;
        void *p;
        if (!zoe_size_add(&room, n, bytes->room) || !zoe_size_add(&room, room, bytes->room))
            room = SIZE_MAX;
        TRY(zoe_alloc(ctx, &p, room, 1, "a PNG picture"));
        if (bytes->size > 0)
            memcpy(p, bytes->data, bytes->size);
        zoe_free(bytes->data);
        bytes->data = p;
        bytes->room = room;
    }
    memcpy(bytes->data + bytes->size, from, n);
    bytes->size += n;
    return ZOE_OK;
}

static void run_write(png_structp png, png_bytep from, size_t n)
{
    png_run *run = png_get_io_ptr(png);
    run->status = run->bytes ? append(run->ctx, run->bytes, from, n)
                             : zoe_output_write(run->ctx, run->output, from, n);
    if (run->status != ZOE_OK)
        png_error(png, "cannot write");
}

static void run_flush(png_structp png)
{
    (void)png;
}

/* Calls body with errors caught, and frees everything after it. */
static zoe_status run_all(png_run *run, void (*body)(png_run *run, void *arg), void *arg)
{
    const bool writing = run->output || run->bytes;
    if (setjmp(run->landing) == 0) {
        run->png = writing ? png_create_write_struct_2(PNG_LIBPNG_VER_STRING, run, run_error,
                                                       run_warning, run, run_alloc, run_free)
                           : png_create_read_struct_2(PNG_LIBPNG_VER_STRING, run, run_error,
                                                      run_warning, run, run_alloc, run_free);
        run->info = run->png ? png_create_info_struct(run->png) : NULL;
        if (run->info)
            body(run, arg);
        else if (run->status == ZOE_OK)
            run->status = zoe_fail(run->ctx, ZOE_NOMEM, "no memory for a PNG picture");
    }
    if (writing)
        png_destroy_write_struct(&run->png, &run->info);
    else
        png_destroy_read_struct(&run->png, &run->info, NULL);
    zoe_free(run->rows);
    return run->status;
}

/* ---- reading ---- */

/* libpng takes memory for a whole chunk before it looks whether the file has so much, and its own
 * limit of chunks is only a warning: none may claim more than is there. */
static void check_chunks(png_run *run)
{
    enum { SIGNATURE = 8, FRAME = 12 }; /* length, name and checksum of a chunk */
    for (size_t at = SIGNATURE; at < run->rest.size;) {
        const uint8_t *p = run->rest.data + at;
        const size_t left = run->rest.size - at;
        const size_t length =
            left < FRAME ? 0 : (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (left < FRAME || length > left - FRAME)
            png_error(run->png, "the file is cut off");
        if (memcmp(p + 4, "IEND", 4) == 0)
            return;
        at += FRAME + length;
    }
}

static void begin_reading(png_run *run)
{
    check_chunks(run);
    png_set_read_fn(run->png, run, run_read);
    png_set_user_limits(run->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* checked after the header */
    png_set_chunk_malloc_max(run->png, (png_alloc_size_t)64 << 20);
    png_set_crc_action(run->png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
    png_read_info(run->png, run->info);
}

/* Asks for 8-bit RGB, or RGBA if the file has any transparency. Grey of 16 bits without an alpha
 * channel is left as it is, for widen_grey; true is returned then. */
static bool choose_rgb(png_run *run)
{
    png_structp png = run->png;
    const int depth = png_get_bit_depth(png, run->info);
    const int colour = png_get_color_type(png, run->info);
    const bool grey16 = depth == 16 && colour == PNG_COLOR_TYPE_GRAY;
    if (!grey16) {
        if (depth == 16)
            png_set_strip_16(png);
        png_set_expand(png);
        if (!(colour & PNG_COLOR_MASK_COLOR))
            png_set_gray_to_rgb(png);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, run->info);
    return grey16;
}

/* 16-bit grey in the first two thirds of the memory to RGB, from the end. */
static bool widen_grey(png_run *run, uint8_t *pixels, size_t n, const uint8_t *background)
{
    png_color_16p clear = NULL;
    bool had_alpha = false;
    png_get_tRNS(run->png, run->info, NULL, NULL, &clear);
    for (size_t i = n; i-- > 0;) {
        const unsigned v = (unsigned)pixels[2 * i] << 8 | pixels[2 * i + 1];
        const bool is_clear = clear && v == clear->gray;
        had_alpha |= is_clear;
        memset(pixels + 3 * i, zoe_grey16_to_8(v), 3);
        zoe_lay_over(pixels + 3 * i, is_clear ? 0 : 255, background);
    }
    zoe_log(run->ctx, ZOE_WARNING, ZOE_GREY16_WARNING);
    return had_alpha;
}

/* Drops the fourth channel in place. */
static bool drop_alpha(uint8_t *pixels, size_t n, const uint8_t *background)
{
    bool had_alpha = false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t alpha = pixels[4 * i + 3];
        had_alpha |= alpha != 255;
        memmove(pixels + 3 * i, pixels + 4 * i, 3);
        zoe_lay_over(pixels + 3 * i, alpha, background);
    }
    return had_alpha;
}

typedef struct png_target {
    zoe_picture *picture;
    const uint8_t *background;
} png_target;

static void decode_body(png_run *run, void *arg)
{
    const png_target *target = arg;
    zoe_picture *picture = target->picture;
    begin_reading(run);
    const size_t w = png_get_image_width(run->png, run->info);
    const size_t h = png_get_image_height(run->png, run->info);
    run->status = zoe_picture_check_size(run->ctx, w, h);
    if (run->status != ZOE_OK)
        return;
    const bool grey16 = choose_rgb(run);
    const size_t bytes = png_get_rowbytes(run->png, run->info) / w; /* 2, 3 or 4 a pixel */
    void *pixels, *rows;
    run->status = zoe_alloc(run->ctx, &pixels, w * h, bytes < 3 ? 3 : bytes, "a picture");
    if (run->status != ZOE_OK)
        return;
    *picture = (zoe_picture){w, h, pixels, false};
    run->status = zoe_alloc(run->ctx, &rows, h, sizeof(png_bytep), "the rows of a picture");
    if (run->status != ZOE_OK)
        return;
    run->rows = rows;
    for (size_t y = 0; y < h; y++)
        run->rows[y] = picture->rgb + y * w * bytes;
    png_read_image(run->png, run->rows);
    png_read_end(run->png, NULL);
    if (grey16)
        picture->had_alpha = widen_grey(run, picture->rgb, w * h, target->background);
    else if (bytes == 4)
        picture->had_alpha = drop_alpha(picture->rgb, w * h, target->background);
}

zoe_status zoe_png_decode(zoe_context *ctx, zoe_picture *picture, zoe_span file,
                          const uint8_t *background)
{
    png_target target = {picture, background};
    png_run run = {.ctx = ctx, .rest = file, .doing = "broken PNG"};
    *picture = (zoe_picture){0};
    const zoe_status status = run_all(&run, decode_body, &target);
    if (status != ZOE_OK)
        zoe_picture_free(picture);
    return status;
}

/* ---- text entries ---- */

typedef struct text_search {
    const char *key;
    char **value;
} text_search;

/* tEXt and zTXt hold Latin-1: a copy in UTF-8, which has up to two bytes for one. */
static zoe_status utf8_of_latin1(zoe_context *ctx, char **copy, const char *text)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, strlen(text) + 1, 2, "a text of a PNG picture"));
    char *out = *copy = p;
    for (; *text; text++) {
        const unsigned c = (unsigned char)*text;
        if (c >= 0x80)
            *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    *out = '\0';
    return ZOE_OK;
}

static void text_body(png_run *run, void *arg)
{
    const text_search *search = arg;
    begin_reading(run);
    png_textp texts;
    int n = 0;
    png_get_text(run->png, run->info, &texts, &n);
    for (int i = 0; i < n; i++)
        if (strcasecmp(texts[i].key, search->key) == 0) {
            const char *text = texts[i].text ? texts[i].text : "";
            run->status = texts[i].compression < PNG_ITXT_COMPRESSION_NONE
                              ? utf8_of_latin1(run->ctx, search->value, text)
                              : zoe_strdup(run->ctx, search->value, text);
            return;
        }
    run->status = zoe_fail(run->ctx, ZOE_MISSING, "has no metadata named \"%s\"", search->key);
}

zoe_status zoe_png_text(zoe_context *ctx, zoe_span file, const char *key, char **value)
{
    png_run run = {.ctx = ctx, .rest = file, .doing = "broken PNG"};
    text_search search = {key, value};
    *value = NULL;
    return run_all(&run, text_body, &search);
}

/* ---- writing ---- */

typedef struct write_job {
    const zoe_picture *picture;
    const char *const (*metadata)[2];
    size_t n_meta;
} write_job;

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return false;
    return true;
}

static void write_body(png_run *run, void *arg)
{
    const write_job *job = arg;
    const zoe_picture *p = job->picture;
    png_set_write_fn(run->png, run, run_write, run_flush);
    png_set_user_limits(run->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(run->png, run->info, (png_uint_32)p->width, (png_uint_32)p->height, 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (run->bytes) { /* to be looked at and forgotten: speed goes before size */
        png_set_compression_level(run->png, 1);
        png_set_filter(run->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_UP);
    }
    for (size_t i = 0; i < job->n_meta; i++) {
        /* libpng's struct lacks const, but it copies and does not write. */
        png_text text = {.compression = is_ascii(job->metadata[i][1]) ? PNG_TEXT_COMPRESSION_NONE
                                                                      : PNG_ITXT_COMPRESSION_NONE,
                         .key = (char *)(uintptr_t)job->metadata[i][0],
                         .text = (char *)(uintptr_t)job->metadata[i][1]};
        png_set_text(run->png, run->info, &text, 1);
    }
    png_write_info(run->png, run->info);
    for (size_t y = 0; y < p->height; y++)
        png_write_row(run->png, p->rgb + 3 * y * p->width);
    png_write_end(run->png, NULL);
}

/* A key must be what PNG allows: 1 to 79 printable characters, no blank at the ends. libpng would
 * only warn. */
static zoe_status check_keys(zoe_context *ctx, const char *const (*metadata)[2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *key = metadata[i][0];
        const size_t length = strlen(key);
        bool good = length >= 1 && length <= 79 && key[0] != ' ' && key[length - 1] != ' ';
        for (size_t j = 0; good && j < length; j++)
            good = key[j] >= ' ' && key[j] <= '~';
        if (!good)
            return zoe_fail(ctx, ZOE_INVALID,
                            "metadata key \"%s\": 1 to 79 printable ASCII characters without "
                            "blanks at the ends are wanted",
                            key);
    }
    return ZOE_OK;
}

zoe_status zoe_picture_write_png(zoe_context *ctx, const char *path, const zoe_picture *picture,
                                 const char *const (*metadata)[2], size_t n_meta)
{
    TRY(zoe_picture_check_size(ctx, picture->width, picture->height));
    TRY(check_keys(ctx, metadata, n_meta));
    zoe_output output;
    TRY(zoe_output_open(ctx, &output, path));
    png_run run = {.ctx = ctx, .output = &output, .doing = "cannot write PNG"};
    write_job job = {picture, metadata, n_meta};
    zoe_status status = run_all(&run, write_body, &job);
    if (status == ZOE_OK)
        status = zoe_output_commit(ctx, &output);
    zoe_output_abort(&output);
    return status;
}

zoe_status zoe_picture_encode_png(zoe_context *ctx, void **data, size_t *size,
                                  const zoe_picture *picture)
{
    *data = NULL;
    TRY(zoe_picture_check_size(ctx, picture->width, picture->height));
    png_bytes bytes = {0};
    png_run run = {.ctx = ctx, .bytes = &bytes, .doing = "cannot make a PNG"};
    write_job job = {.picture = picture};
    const zoe_status status = run_all(&run, write_body, &job);
    if (status != ZOE_OK) {
        zoe_free(bytes.data);
        return status;
    }
    *data = bytes.data;
    *size = bytes.size;
    return ZOE_OK;
}
