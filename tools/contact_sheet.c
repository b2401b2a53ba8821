/* contact_sheet OUT.png SCALE PICTURE...: pictures of one size side by side, each pixel SCALE times as large. */
#include <stdio.h>
#include <stdlib.h>

#include "media/media.h"

static int fail(const zoe_context *ctx, const char *what)
{
    fprintf(stderr, "contact_sheet: %s\n", ctx ? zoe_context_message(ctx) : what);
    return 1;
}

static void paste(zoe_picture *sheet, size_t left, const zoe_picture *picture, size_t scale)
{
    for (size_t y = 0; y < picture->height * scale; y++)
        for (size_t x = 0; x < picture->width * scale; x++)
            memcpy(sheet->rgb + 3 * (y * sheet->width + left + x),
                   picture->rgb + 3 * (y / scale * picture->width + x / scale), 3);
}

int main(int argc, char **argv)
{
    enum { GAP = 4, MAX_SCALE = 16 };
    const size_t count = argc > 3 ? (size_t)(argc - 3) : 0;
    const size_t scale = argc > 3 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || scale == 0 || scale > MAX_SCALE) {
        fprintf(stderr, "usage: contact_sheet OUT.png SCALE(1..%d) PICTURE...\n", MAX_SCALE);
        return 2;
    }
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        return fail(NULL, "no memory");
    zoe_picture sheet = {0};
    size_t step = 0;
    for (size_t i = 0; i < count; i++) {
        zoe_picture picture;
        if (zoe_picture_read(ctx, &picture, argv[3 + i], false) != ZOE_OK)
            return fail(ctx, NULL);
        if (i == 0) {
            void *rgb;
            step = picture.width * scale + GAP;
            sheet.width = count * step - GAP;
            sheet.height = picture.height * scale;
            if (zoe_alloc(ctx, &rgb, sheet.width * sheet.height, 3, "sheet") != ZOE_OK)
                return fail(ctx, NULL);
            sheet.rgb = rgb;
            memset(rgb, 255, sheet.width * sheet.height * 3);
        }
        if (picture.width * scale + GAP != step || picture.height * scale != sheet.height) {
            fprintf(stderr, "contact_sheet: %s: %zux%zu, another size than the first picture's\n",
                    argv[3 + i], picture.width, picture.height);
            return 1;
        }
        paste(&sheet, i * step, &picture, scale);
        zoe_picture_free(&picture);
    }
    if (zoe_picture_write_png(ctx, argv[1], &sheet, NULL, 0) != ZOE_OK)
        return fail(ctx, NULL);
    zoe_free(sheet.rgb);
    zoe_context_free(ctx);
    return 0;
}
