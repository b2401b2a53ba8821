/* Pictures in a terminal.
 *
 * All three protocols are text that a terminal which does not know it should ignore. Lines for the
 * picture are made first, so that nothing scrolls while it is drawn; then it is drawn over them with
 * the cursor put back, which leaves the cursor where it was for every terminal.
 * Sources: kitty's "Terminal graphics protocol", iTerm2's "Inline Images Protocol", DEC's VT330/340
 * Programmer Reference Manual, volume 2 (sixel). */
#include "picture_terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "markup.h"
#include "media/media.h"
#include "message.h"

/* ---- which terminal ---- */

static bool variable_is(const char *name, const char *const *values)
{
    const char *value = getenv(name);
    for (; value && *values; values++)
        if (strcmp(value, *values) == 0)
            return true;
    return false;
}

static bool variable_begins(const char *name, const char *const *values)
{
    const char *value = getenv(name);
    for (; value && *values; values++)
        if (strncmp(value, *values, strlen(*values)) == 0)
            return true;
    return false;
}

static bool variable_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

zoe_terminal_kind zoe_terminal_detect(void)
{
    static const char *const inside[] = {"screen", "tmux", NULL};
    static const char *const kitty[] = {"xterm-kitty", "xterm-ghostty", NULL};
    static const char *const kitty_programs[] = {"ghostty", NULL};
    static const char *const iterm_programs[] = {"iTerm.app", "WezTerm", NULL};
    static const char *const sixel[] = {"foot", "mlterm", "yaft", "contour", NULL};
    if (!zoe_message_on_terminal())
        return ZOE_TERMINAL_NONE;
    /* These keep the variables of the terminal outside, but do not pass pictures on to it. */
    if (variable_set("TMUX") || variable_set("STY") || variable_begins("TERM", inside))
        return ZOE_TERMINAL_NONE;
    if (variable_set("KITTY_WINDOW_ID") || variable_begins("TERM", kitty) ||
        variable_is("TERM_PROGRAM", kitty_programs))
        return ZOE_TERMINAL_KITTY;
    if (variable_is("TERM_PROGRAM", iterm_programs) || variable_is("LC_TERMINAL", iterm_programs))
        return ZOE_TERMINAL_ITERM;
    return variable_begins("TERM", sixel) ? ZOE_TERMINAL_SIXEL : ZOE_TERMINAL_NONE;
}

/* ---- its size ---- */

/* What the picture takes: character cells, and the pixels that fill them at most. */
typedef struct area {
    size_t columns, rows, width, height;
} area;

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* The largest area of the picture's ratio, not larger than the picture, that leaves a column and
 * half of the lines free. */
static area find_area(size_t width, size_t height)
{
    /* Terminals that do not tell their pixels; a small cell makes room enough on others. */
    enum { COLUMNS = 80, ROWS = 24, CELL_WIDTH = 8, CELL_HEIGHT = 16 };
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 || size.ws_row < 2)
        size = (struct winsize){.ws_col = COLUMNS, .ws_row = ROWS};
    size_t cell_width = size.ws_xpixel / size.ws_col, cell_height = size.ws_ypixel / size.ws_row;
    if (cell_width == 0 || cell_height == 0) {
        cell_width = CELL_WIDTH;
        cell_height = CELL_HEIGHT;
    }
    const size_t most_width = (size_t)(size.ws_col - 1) * cell_width;
    const size_t most_height = (size_t)(size.ws_row / 2) * cell_height;
    double scale = 1.0;
    scale = fmin(scale, (double)most_width / (double)width);
    scale = fmin(scale, (double)most_height / (double)height);
    area a = {.width = (size_t)((double)width * scale), .height = (size_t)((double)height * scale)};
    a.width = a.width ? a.width : 1;
    a.height = a.height ? a.height : 1;
    a.columns = divide_up(a.width, cell_width);
    a.rows = divide_up(a.height, cell_height);
    return a;
}

/* ---- kitty and iTerm: a PNG in base64 ---- */

/* One image number for the process: sending it anew replaces the picture. q=2: no answers, which
 * would be read as keys. C=1: the cursor stays. At most 4096 letters a piece. */
static void put_kitty(const unsigned char *png, size_t size, area a)
{
    enum { PIECE = 3072 };
    const unsigned number = (unsigned)getpid() % 0xffffffu + 1;
    fprintf(stderr, "\033_Ga=T,f=100,i=%u,p=1,q=2,C=1,c=%zu,r=%zu,m=%d;", number, a.columns, a.rows,
            size > PIECE);
    for (size_t at = 0; at < size; at += PIECE) {
        const size_t left = size - at;
        if (at > 0)
            fprintf(stderr, "\033_Gm=%d;", left > PIECE);
        zoe_markup_base64(stderr, png + at, left < PIECE ? left : PIECE);
        fputs("\033\\", stderr);
    }
}

static void put_iterm(const unsigned char *png, size_t size, area a)
{
    fprintf(stderr,
            "\033]1337;File=inline=1;size=%zu;width=%zu;height=%zu;preserveAspectRatio=1:", size,
            a.columns, a.rows);
    zoe_markup_base64(stderr, png, size);
    fputc('\a', stderr);
}

/* ---- sixel: six lines at a time, one colour after the other ---- */

enum { LEVELS = 6, COLOURS = LEVELS * LEVELS * LEVELS, BAND = 6 };

/* The thresholds of an ordered dither in 1/16 of a level (Bayer 1973), less half a level: six levels
 * of each colour would otherwise show as steps. */
static size_t level_of(unsigned value, size_t x, size_t y)
{
    static const unsigned char order[4][4] = {
        {0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}};
    const unsigned scaled = value * (LEVELS - 1) * 32 / 255; /* 1/32 of a level */
    return (scaled + 2 * order[y % 4][x % 4] + 1) / 32;
}

/* Index of the palette for the pixel of the picture that lies at (x, y) of the area. */
static unsigned char colour_at(const zoe_picture *picture, area a, size_t x, size_t y)
{
    const size_t from_x = (2 * x + 1) * picture->width / (2 * a.width);
    const size_t from_y = (2 * y + 1) * picture->height / (2 * a.height);
    const uint8_t *rgb = picture->rgb + 3 * (from_y * picture->width + from_x);
    size_t index = 0;
    for (size_t k = 0; k < 3; k++)
        index = index * LEVELS + level_of(rgb[k], x, y);
    return (unsigned char)index;
}

/* `count` times the same column of six: three letters or fewer as they are, more as "!COUNT". */
static void put_run(size_t count, unsigned bits)
{
    const int letter = (int)(bits + '?');
    if (count > 3)
        fprintf(stderr, "!%zu%c", count, letter);
    for (; count > 0 && count <= 3; count--)
        fputc(letter, stderr);
}

/* The pixels of one colour in a band of `lines` lines [lines, width] of indices. */
static void put_colour(const unsigned char *band, size_t width, size_t lines, unsigned colour)
{
    size_t count = 0;
    unsigned last = 0;
    fprintf(stderr, "#%u", colour);
    for (size_t x = 0; x < width; x++) {
        unsigned bits = 0;
        for (size_t y = 0; y < lines; y++)
            bits |= (unsigned)(band[y * width + x] == colour) << y;
        if (bits != last) {
            put_run(count, last);
            count = 0;
        }
        last = bits;
        count++;
    }
    if (last)
        put_run(count, last);
}

static void put_band(const unsigned char *band, size_t width, size_t lines)
{
    bool used[COLOURS] = {false};
    bool first = true;
    for (size_t i = 0; i < width * lines; i++)
        used[band[i]] = true;
    for (unsigned colour = 0; colour < COLOURS; colour++) {
        if (!used[colour])
            continue;
        if (!first)
            fputc('$', stderr); /* back to the left edge */
        first = false;
        put_colour(band, width, lines, colour);
    }
}

/* The header says: square pixels, and how many. Colours are in percent. */
static zoe_status put_sixel(zoe_context *ctx, const zoe_picture *picture, area a)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, a.width, BAND, "a picture for the terminal"));
    unsigned char *band = p;
    fprintf(stderr, "\033P0;1q\"1;1;%zu;%zu", a.width, a.height);
    for (unsigned i = 0; i < COLOURS; i++)
        fprintf(stderr, "#%u;2;%u;%u;%u", i, i / 36 * 20, i / 6 % 6 * 20, i % 6 * 20);
    for (size_t top = 0; top < a.height; top += BAND) {
        const size_t lines = a.height - top < BAND ? a.height - top : BAND;
        for (size_t y = 0; y < lines; y++)
            for (size_t x = 0; x < a.width; x++)
                band[y * a.width + x] = colour_at(picture, a, x, top + y);
        if (top > 0)
            fputc('-', stderr); /* the next band */
        put_band(band, a.width, lines);
    }
    fputs("\033\\", stderr);
    zoe_free(band);
    return ZOE_OK;
}

/* ---- all of them ---- */

/* Lines below the cursor for the picture, or up again over the last one if nothing came after it:
 * either way the cursor ends on the first of them. */
static void make_room(area a)
{
    static size_t last_rows, last_count;
    static bool shown;
    const bool again = shown && last_rows == a.rows && last_count == zoe_message_count();
    for (size_t i = 0; i < a.rows && !again; i++)
        fputc('\n', stderr);
    fprintf(stderr, "\033[%zuA", a.rows);
    shown = true;
    last_rows = a.rows;
    last_count = zoe_message_count();
}

static zoe_status put_png(zoe_context *ctx, zoe_terminal_kind kind, const zoe_picture *picture,
                          area a)
{
    void *png;
    size_t size;
    TRY(zoe_picture_encode_png(ctx, &png, &size, picture));
    (kind == ZOE_TERMINAL_KITTY ? put_kitty : put_iterm)(png, size, a);
    zoe_free(png);
    return ZOE_OK;
}

void zoe_terminal_show(zoe_terminal_kind kind, const unsigned char *rgb, size_t width,
                       size_t height)
{
    static bool warned;
    if (kind == ZOE_TERMINAL_NONE || !zoe_message_on_terminal() || zoe_message_is_json() ||
        width == 0 || height == 0)
        return;
    zoe_context *ctx = zoe_context_new(1);
    const area a = find_area(width, height);
    /* The picture is only read. */
    const zoe_picture picture = {
        .width = width, .height = height, .rgb = (uint8_t *)(uintptr_t)rgb};
    zoe_live_line(NULL);
    make_room(a);
    fputs("\0337", stderr); /* keeps the cursor's place */
    const zoe_status status = !ctx                         ? ZOE_NOMEM
                              : kind == ZOE_TERMINAL_SIXEL ? put_sixel(ctx, &picture, a)
                                                           : put_png(ctx, kind, &picture, a);
    fprintf(stderr, "\0338\033[%zuB", a.rows);
    fflush(stderr);
    zoe_context_free(ctx);
    if (status != ZOE_OK && !warned)
        zoe_warn("memory ran out for a picture in the terminal");
    warned = warned || status != ZOE_OK;
}
