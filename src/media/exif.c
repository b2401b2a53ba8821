/* What picture files say outside their pixels: orientation, and whether they are complete. */
#include "media/parts.h"

/* ---- numbers inside a span; readers give 0 outside of it ---- */

static uint32_t be(zoe_span s, size_t at, size_t bytes)
{
    uint32_t v = 0;
    if (bytes > s.size || at > s.size - bytes)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | s.data[at + i];
    return v;
}

static uint32_t le(zoe_span s, size_t at, size_t bytes)
{
    uint32_t v = 0;
    if (bytes > s.size || at > s.size - bytes)
        return 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | s.data[at + i];
    return v;
}

/* size bytes at `at`, cut to what is there. */
static zoe_span part(zoe_span s, size_t at, size_t size)
{
    if (at > s.size)
        at = s.size;
    if (size > s.size - at)
        size = s.size - at;
    return (zoe_span){s.data + at, size};
}

static bool starts(zoe_span s, const char *with, size_t n)
{
    return s.size >= n && memcmp(s.data, with, n) == 0;
}

/* ---- EXIF ---- */

/* Some writers keep the introduction that EXIF has in JPEG files. */
static zoe_span after_exif_name(zoe_span s)
{
    return starts(s, "Exif\0\0", 6) ? part(s, 6, SIZE_MAX) : s;
}

typedef uint32_t (*number_reader)(zoe_span s, size_t at, size_t bytes);

/* NULL if this is no TIFF block. */
static number_reader tiff_order(zoe_span tiff)
{
    return starts(tiff, "II*\0", 4) ? le : starts(tiff, "MM\0*", 4) ? be : NULL;
}

int zoe_exif_orientation(zoe_span tiff)
{
    enum { ORIENTATION = 0x0112, SHORT = 3, LONG = 4 };
    const number_reader number = tiff_order(tiff);
    if (!number)
        return 0;
    const zoe_span folder = part(tiff, number(tiff, 4, 4), SIZE_MAX);
    const size_t entries = number(folder, 0, 2);
    for (size_t i = 0; i < entries; i++) {
        const zoe_span entry = part(folder, 2 + 12 * i, 12);
        if (entry.size < 12)
            return 0;
        if (number(entry, 0, 2) != ORIENTATION)
            continue;
        const uint32_t type = number(entry, 2, 2);
        if (number(entry, 4, 4) != 1 || (type != SHORT && type != LONG))
            return 0;
        const uint32_t value = number(entry, 8, type == SHORT ? 2 : 4);
        return value >= 1 && value <= 8 ? (int)value : 0;
    }
    return 0;
}

/* Size, sample layout, compression, strips and tiles, colours. */
static bool tiff_is_needed(uint32_t tag)
{
    static const uint16_t needed[] = {256, 257, 258, 259, 262, 266, 273, 277, 278, 279,
                                      284, 292, 293, 317, 320, 322, 323, 324, 325, 530};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (tag == needed[i])
            return true;
    return false;
}

zoe_status zoe_tiff_reduce(zoe_context *ctx, uint8_t *data, size_t size)
{
    enum { WIDTH = 256, HEIGHT = 257, COMPRESSION = 259, OLD_JPEG = 6, JPEG = 7, LONG = 4 };
    const zoe_span tiff = {data, size};
    const number_reader number = tiff_order(tiff);
    const size_t start = number ? number(tiff, 4, 4) : size;
    if (start > size)
        return ZOE_OK;
    uint8_t *folder = data + start;
    const zoe_span all = part(tiff, start, SIZE_MAX);
    const size_t entries = number ? number(all, 0, 2) : 0;
    if (all.size < 2 || entries > (all.size - 2) / 12)
        return ZOE_OK;
    size_t kept = 0, width = 1, height = 1;
    for (size_t i = 0; i < entries; i++) {
        const zoe_span entry = part(all, 2 + 12 * i, 12);
        const uint32_t tag = number(entry, 0, 2);
        const uint32_t value = number(entry, 8, number(entry, 2, 2) == LONG ? 4 : 2);
        width = tag == WIDTH ? value : width;
        height = tag == HEIGHT ? value : height;
        if (tag == COMPRESSION && (value == JPEG || value == OLD_JPEG))
            return zoe_fail(ctx, ZOE_UNSUPPORTED,
                            "TIFF with JPEG compression is not read; convert it to JPEG or PNG");
        if (tiff_is_needed(tag))
            memmove(folder + 2 + 12 * kept++, entry.data, 12);
    }
    TRY(zoe_picture_check_size(ctx, width, height));
    folder[number == le ? 0 : 1] = (uint8_t)kept;
    folder[number == le ? 1 : 0] = (uint8_t)(kept >> 8);
    /* No next folder. */
    if (all.size - 2 - 12 * kept >= 4)
        memset(folder + 2 + 12 * kept, 0, 4);
    return ZOE_OK;
}

zoe_span zoe_png_exif(zoe_span file)
{
    for (size_t at = 8; at < file.size && file.size - at >= 12;) {
        const size_t size = be(file, at, 4);
        if (size > file.size - at - 12)
            break;
        if (starts(part(file, at + 4, 4), "eXIf", 4))
            return after_exif_name(part(file, at + 8, size));
        at += 12 + size;
    }
    return (zoe_span){0};
}

zoe_span zoe_webp_exif(zoe_span file)
{
    for (size_t at = 12; at < file.size && file.size - at >= 8;) {
        const size_t size = le(file, at + 4, 4);
        if (size > file.size - at - 8)
            break;
        if (starts(part(file, at, 4), "EXIF", 4))
            return after_exif_name(part(file, at + 8, size));
        at += 8 + size + (size & 1);
    }
    return (zoe_span){0};
}

/* ---- JPEG ---- */

/* The place of the next marker's code at or after `at`, past entropy-coded bytes and fill bytes;
 * file.size if none. */
static size_t jpeg_marker(zoe_span file, size_t at)
{
    while (at < file.size) {
        const uint8_t *ff = memchr(file.data + at, 0xff, file.size - at);
        if (!ff)
            break;
        at = (size_t)(ff - file.data);
        while (at < file.size && file.data[at] == 0xff)
            at++;
        if (at < file.size && file.data[at] != 0x00)
            return at;
    }
    return file.size;
}

/* Frame headers: SOF0 to SOF15 without the three codes between them that mean something else. */
static bool jpeg_is_frame(uint8_t code)
{
    return code >= 0xc0 && code <= 0xcf && code != 0xc4 && code != 0xc8 && code != 0xcc;
}

zoe_status zoe_jpeg_parse(zoe_context *ctx, zoe_jpeg *jpeg, zoe_span file)
{
    enum { START = 0xd8, END = 0xd9, RESTART = 0xd0, TEM = 0x01, APP1 = 0xe1, APP14 = 0xee };
    *jpeg = (zoe_jpeg){.adobe_transform = -1};
    for (size_t at = jpeg_marker(file, 0); at < file.size; at = jpeg_marker(file, at)) {
        const uint8_t code = file.data[at++];
        if (code == END) {
            jpeg->picture = part(file, 0, at);
            return ZOE_OK;
        }
        if ((code & 0xf8) == RESTART || code == START || code == TEM)
            continue; /* these have no content */
        const size_t size = be(file, at, 2);
        if (size < 2 || size > file.size - at)
            break;
        const zoe_span content = part(file, at + 2, size - 2);
        if (code == APP1 && jpeg->exif.size == 0 && starts(content, "Exif\0\0", 6))
            jpeg->exif = part(content, 6, SIZE_MAX);
        if (jpeg_is_frame(code) && content.size >= 5)
            TRY(zoe_picture_check_size(ctx, be(content, 3, 2), be(content, 1, 2)));
        if (code == APP14 && content.size >= 12 && starts(content, "Adobe", 5))
            jpeg->adobe_transform = content.data[11];
        at += size;
    }
    return zoe_fail(ctx, ZOE_FORMAT, "JPEG picture is cut off: no end marker in %zu bytes",
                    file.size);
}

/* ---- GIF, WebP, BMP: complete? ---- */

enum { GIF_EXTENSION = 0x21, GIF_IMAGE = 0x2c };

/* Past the colour table that the flags of its header announce. */
static size_t gif_past_colours(size_t at, uint8_t flags)
{
    return flags & 0x80 ? at + ((size_t)3 << ((flags & 7) + 1)) : at;
}

/* Past a chain of blocks, each led by its size, the last of size 0; over file.size when it is not
 * complete. */
static size_t gif_past_blocks(zoe_span file, size_t at)
{
    while (at < file.size) {
        const size_t size = file.data[at];
        at += 1 + size;
        if (size == 0)
            return at;
    }
    return file.size + 1;
}

/* at: of a block. Does a picture come before the end or something broken? */
static bool gif_has_more(zoe_span file, size_t at)
{
    while (at < file.size && file.data[at] == GIF_EXTENSION)
        at = gif_past_blocks(file, at + 2);
    return at < file.size && file.data[at] == GIF_IMAGE;
}

zoe_status zoe_gif_check(zoe_context *ctx, zoe_span file)
{
    if (file.size >= 10)
        TRY(zoe_picture_check_size(ctx, le(file, 6, 2), le(file, 8, 2)));
    size_t at = gif_past_colours(13, (uint8_t)be(file, 10, 1));
    while (at < file.size) {
        const uint8_t kind = file.data[at];
        if (kind == GIF_EXTENSION) {
            at = gif_past_blocks(file, at + 2);
            continue;
        }
        if (kind != GIF_IMAGE)
            return zoe_fail(ctx, ZOE_FORMAT, "broken GIF: block of kind 0x%02x at byte %zu", kind,
                            at);
        at = gif_past_colours(at + 10, (uint8_t)be(file, at + 9, 1));
        at = gif_past_blocks(file, at + 1);
        if (at > file.size)
            break;
        if (gif_has_more(file, at))
            zoe_log(ctx, ZOE_WARNING, "the GIF holds several pictures; the first one is used");
        return ZOE_OK;
    }
    return zoe_fail(ctx, ZOE_FORMAT, "GIF is cut off inside its first picture");
}

zoe_status zoe_webp_check(zoe_context *ctx, zoe_span file)
{
    const size_t size = le(file, 4, 4);
    if (file.size < 8 || size > file.size - 8)
        return zoe_fail(ctx, ZOE_FORMAT, "WebP is cut off: %zu of %zu bytes are there", file.size,
                        size + 8);
    return ZOE_OK;
}

zoe_status zoe_bmp_check(zoe_context *ctx, zoe_span file)
{
    const size_t pixels = le(file, 10, 4), width = le(file, 18, 4), bits = le(file, 28, 2);
    const uint32_t height = le(file, 22, 4), compression = le(file, 30, 4);
    const size_t rows = height >> 31 ? 0u - height : height; /* negative: from the top */
    if (le(file, 14, 4) < 40 || (compression != 0 && compression != 3))
        return ZOE_OK; /* an old header, or run lengths, which have an end of their own */
    TRY(zoe_picture_check_size(ctx, width, rows));
    const size_t bytes =
        (width * bits + 31) / 32 * 4 * rows; /* at most 2^28 pixels of 65535 bits */
    if (pixels > file.size || bytes > file.size - pixels)
        return zoe_fail(ctx, ZOE_FORMAT, "BMP is cut off: %zu of %zu bytes are there", file.size,
                        pixels + bytes);
    return ZOE_OK;
}

zoe_status zoe_pnm_check(zoe_context *ctx, zoe_span file)
{
    uint64_t size[2] = {0, 0};
    size_t at = 2;
    for (int i = 0; i < 2; i++) {
        while (at < file.size && (file.data[at] <= ' ' || file.data[at] == '#')) {
            const uint8_t *line = file.data + at;
            const uint8_t *stop = *line == '#' ? memchr(line, '\n', file.size - at) : line;
            at = stop ? (size_t)(stop - file.data) + 1 : file.size;
        }
        for (; at < file.size && file.data[at] >= '0' && file.data[at] <= '9'; at++)
            size[i] = size[i] > ZOE_MAX_PIXELS ? size[i] : 10 * size[i] + file.data[at] - '0';
    }
    if (at >= file.size)
        return zoe_fail(ctx, ZOE_FORMAT, "PNM is cut off inside its header");
    return zoe_picture_check_size(ctx, size[0], size[1]);
}
