/* What a terminal would show, for the tests of previews.
 *
 *     cli_shown kitty|iterm|sixel RAW OUT.png   the last picture in what was written to a terminal; prints how many
 *                                               there were, and fails if one breaks the rules of its protocol
 *     cli_shown psnr A.png B.png                of two pictures of one size, in whole dB
 *     cli_shown cells ROW.png TILE FRAME.png    the same of the means over 8x8 pixels of a tile of a preview (tiles have
 *                                               the frame's size, 2 pixels apart) and of a frame
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/file.h"
#include "media/media.h"

static zoe_context *ctx;

static void fail(const char *what)
{
    fprintf(stderr, "cli_shown: %s %s\n", what, zoe_context_message(ctx));
    exit(1);
}

/* ---- PNG in base64 ---- */

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Appends what text[0..n-1] stands for. */
static void decode_base64(bytes *out, const char *text, size_t n)
{
    if (n % 4)
        fail("base64 that is no multiple of four");
    out->data = realloc(out->data, out->size + n);
    if (!out->data)
        fail("no memory");
    for (size_t i = 0; i < n; i += 4) {
        const int pad = (text[i + 3] == '=') + (text[i + 2] == '=');
        unsigned v = 0;
        if (pad && i + 4 < n)
            fail("padding amid base64");
        for (size_t j = 0; j < 4; j++) {
            const int digit = j >= 4 - (size_t)pad ? 0 : digit_of(text[i + j]);
            if (digit < 0)
                fail("no letter of base64");
            v = v << 6 | (unsigned)digit;
        }
        for (int j = 0; j < 3 - pad; j++)
            out->data[out->size++] = (unsigned char)(v >> (16 - 8 * j));
    }
}

static void take_png(zoe_picture *picture, bytes *png)
{
    zoe_picture_free(picture);
    if (zoe_picture_decode(ctx, picture, png->data, png->size, false) != ZOE_OK)
        fail("no PNG:");
    free(png->data);
    *png = (bytes){0};
}

static const char *end_of(const char *text, const char *mark)
{
    const char *end = strstr(text, mark);
    if (!end)
        fail("a sequence without an end");
    return end;
}

static size_t read_kitty(zoe_picture *picture, const char *text)
{
    enum { LONGEST = 4096 };
    size_t count = 0;
    bytes png = {0};
    bool more = false;
    while ((text = strstr(text, "\033_G"))) {
        const char *begin = strchr(text, ';') + 1, *end = end_of(text, "\033\\");
        const char *m = strstr(text, "m=");
        int piece = -1;
        if (!more && (strncmp(text + 3, "a=T,f=100,", 10) != 0 || !strstr(text, ",q=2,")))
            fail("a first piece without its keys");
        if (!m || m > begin || sscanf(m, "m=%d", &piece) != 1 || piece < 0 || piece > 1)
            fail("a piece that does not say whether more follow");
        if (end - begin > LONGEST || (piece && end - begin != LONGEST))
            fail("a piece of the wrong length");
        decode_base64(&png, begin, (size_t)(end - begin));
        more = piece == 1;
        if (!more) {
            take_png(picture, &png);
            count++;
        }
        text = end;
    }
    if (more)
        fail("the last piece is missing");
    return count;
}

static size_t read_iterm(zoe_picture *picture, const char *text)
{
    static const char start[] = "\033]1337;File=inline=1;size=";
    size_t count = 0;
    bytes png = {0};
    while ((text = strstr(text, start))) {
        const size_t size = (size_t)strtoull(text + sizeof start - 1, NULL, 10);
        const char *begin = strchr(text, ':') + 1, *end = end_of(text, "\a");
        decode_base64(&png, begin, (size_t)(end - begin));
        if (png.size != size)
            fail("another size than was said");
        take_png(picture, &png);
        count++;
        text = end;
    }
    return count;
}

/* ---- sixel ---- */

typedef struct screen {
    zoe_picture *picture;
    bool *drawn;
    size_t x, y;
    unsigned palette[256][3], colour;
} screen;

static size_t number(const char **text)
{
    char *end;
    const size_t n = (size_t)strtoull(*text, &end, 10);
    if (end == *text)
        fail("a number is wanted in a sixel picture");
    *text = end;
    return n;
}

static void expect(const char **text, char c)
{
    if (*(*text)++ != c)
        fail("a sixel picture that cannot be read");
}

static void draw_column(screen *s, unsigned bits, size_t count)
{
    for (; count > 0; count--, s->x++)
        for (size_t j = 0; j < 6; j++) {
            const size_t at = (s->y + j) * s->picture->width + s->x;
            if (!(bits >> j & 1))
                continue;
            if (s->x >= s->picture->width || s->y + j >= s->picture->height)
                fail("a sixel outside the picture");
            s->drawn[at] = true;
            for (size_t k = 0; k < 3; k++)
                s->picture->rgb[3 * at + k] =
                    (uint8_t)((s->palette[s->colour][k] * 255 + 50) / 100);
        }
}

static void take_colour(screen *s, const char **text)
{
    s->colour = (unsigned)number(text);
    if (s->colour > 255)
        fail("more than 256 colours");
    if (**text != ';')
        return;
    expect(text, ';');
    if (number(text) != 2)
        fail("a colour that is not RGB");
    for (size_t k = 0; k < 3; k++) {
        expect(text, ';');
        s->palette[s->colour][k] = (unsigned)number(text);
    }
}

static void draw_sixels(screen *s, const char *text)
{
    while (*text != '\033') {
        const char c = *text++;
        if (c == '#')
            take_colour(s, &text);
        else if (c == '!') {
            const size_t count = number(&text);
            draw_column(s, (unsigned)(*text++ - '?'), count);
        } else if (c == '$') {
            s->x = 0;
        } else if (c == '-') {
            s->x = 0;
            s->y += 6;
        } else if (c >= '?' && c <= '~') {
            draw_column(s, (unsigned)(c - '?'), 1);
        } else {
            fail("an unknown sixel letter");
        }
    }
}

static size_t read_sixel(zoe_picture *picture, const char *text)
{
    static const char start[] = "\033P0;1q\"1;1;";
    size_t count = 0;
    while ((text = strstr(text, start))) {
        screen s = {.picture = picture};
        void *p;
        text += sizeof start - 1;
        zoe_picture_free(picture);
        picture->width = number(&text);
        expect(&text, ';');
        picture->height = number(&text);
        const size_t pixels = picture->width * picture->height;
        if (zoe_alloc_zero(ctx, &p, pixels, 3, "picture") != ZOE_OK)
            fail("");
        picture->rgb = p;
        s.drawn = calloc(pixels + 1, 1);
        if (!s.drawn)
            fail("no memory");
        draw_sixels(&s, text);
        for (size_t i = 0; i < pixels; i++)
            if (!s.drawn[i])
                fail("a pixel was left out");
        free(s.drawn);
        text = end_of(text, "\033\\");
        count++;
    }
    return count;
}

static int show(const char *kind, const char *raw, const char *out)
{
    zoe_picture picture = {0};
    char *text;
    size_t size;
    if (zoe_file_read(ctx, &text, &size, raw, (size_t)1 << 28) != ZOE_OK)
        fail("");
    const size_t count = strcmp(kind, "kitty") == 0   ? read_kitty(&picture, text)
                         : strcmp(kind, "iterm") == 0 ? read_iterm(&picture, text)
                                                      : read_sixel(&picture, text);
    if (count > 0 && zoe_picture_write_png(ctx, out, &picture, NULL, 0) != ZOE_OK)
        fail("");
    printf("%zu\n", count);
    zoe_picture_free(&picture);
    zoe_free(text);
    return 0;
}

/* ---- comparing ---- */

static zoe_picture read_picture(const char *path)
{
    zoe_picture picture;
    if (zoe_picture_read(ctx, &picture, path, false) != ZOE_OK)
        fail("");
    return picture;
}

static int print_psnr(double psnr)
{
    printf("%.0f\n", psnr < 999 ? floor(psnr) : 999);
    return 0;
}

static int psnr(const char *path_a, const char *path_b)
{
    zoe_picture a = read_picture(path_a), b = read_picture(path_b);
    if (a.width != b.width || a.height != b.height)
        fail("pictures of two sizes");
    const int code = print_psnr(zoe_psnr_u8(a.rgb, b.rgb, 3 * a.width * a.height));
    zoe_picture_free(&a);
    zoe_picture_free(&b);
    return code;
}

static double mean_of(const zoe_picture *p, size_t left, size_t top, size_t k)
{
    double sum = 0.0;
    for (size_t y = 0; y < 8; y++)
        for (size_t x = 0; x < 8; x++)
            sum += p->rgb[3 * ((top + y) * p->width + left + x) + k];
    return sum / 64.0;
}

static int cells(const char *path_row, size_t tile, const char *path_frame)
{
    zoe_picture row = read_picture(path_row), frame = read_picture(path_frame);
    const size_t left = tile * (frame.width + 2);
    double squares = 0.0, n = 0.0;
    if (row.height != frame.height || left + frame.width > row.width)
        fail("no such tile");
    for (size_t y = 0; y + 8 <= frame.height; y += 8)
        for (size_t x = 0; x + 8 <= frame.width; x += 8)
            for (size_t k = 0; k < 3; k++, n++) {
                const double d = mean_of(&row, left + x, y, k) - mean_of(&frame, x, y, k);
                squares += d * d;
            }
    zoe_picture_free(&row);
    zoe_picture_free(&frame);
    return print_psnr(10.0 * log10(255.0 * 255.0 * n / (squares + 1e-9)));
}

int main(int argc, char **argv)
{
    int code = 2;
    ctx = zoe_context_new(1);
    if (!ctx)
        return 1;
    if (argc == 4 && strcmp(argv[1], "psnr") == 0)
        code = psnr(argv[2], argv[3]);
    else if (argc == 5 && strcmp(argv[1], "cells") == 0)
        code = cells(argv[2], (size_t)strtoull(argv[3], NULL, 10), argv[4]);
    else if (argc == 4)
        code = show(argv[1], argv[2], argv[3]);
    else
        fprintf(stderr, "cli_shown: see the head of shown.c\n");
    zoe_context_free(ctx);
    return code;
}
