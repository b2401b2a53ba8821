/* Fuzz target: videos in, the first frames of them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "media/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK && zoe_context_message(ctx)[0] == '\0')
        abort(); /* refused without a reason */
}

static void read_frames(zoe_context *ctx, zoe_video_reader *reader)
{
    enum { FRAMES = 4 };
    const zoe_video_info *info = zoe_video_read_info(reader);
    const size_t bytes = 3 * info->width * info->height;
    uint8_t *rgb = malloc(bytes);
    if (bytes == 0 || !rgb)
        abort();
    bool got = true;
    for (int i = 0; i < FRAMES && got; i++) {
        memset(rgb, 0x55, bytes);
        const zoe_status status = zoe_video_read_frame(ctx, reader, rgb, &got);
        check(ctx, status);
        if (status != ZOE_OK)
            break;
    }
    free(rgb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    zoe_video_reader *reader;
    zoe_context *ctx = zoe_context_new(1);
    if (fd < 0)
        fd = memfd_create("video", MFD_CLOEXEC);
    if (!ctx || fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
        pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const zoe_status status = zoe_video_read_open(ctx, &reader, path);
    check(ctx, status);
    if (status == ZOE_OK)
        read_frames(ctx, reader);
    zoe_video_read_close(reader);
    zoe_context_free(ctx);
    return 0;
}
