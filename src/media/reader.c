/* Frames in: what stands at a path, and the common course from open to close. */
#include "media/media.h"
#include "media/parts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

/* A picture of a folder; number is that of frame_NUMBER.png, SIZE_MAX for other names. */
typedef struct still {
    char *path;
    size_t number;
} still;

struct zoe_video_reader {
    zoe_video_info info;
    char *path;
    zoe_av_reader *av; /* or else: */
    still *stills;
    size_t n_stills, room;
    zoe_picture first; /* read to know the size; given away with frame 0 */
    size_t next;       /* frame */
    bool told_alpha;
};

/* ---- folders ---- */

/* The number in "frame_00012.png", five digits or more; SIZE_MAX if it is no such name. */
static size_t number_of(const char *name)
{
    static const char begin[] = "frame_";
    if (strncmp(name, begin, sizeof begin - 1) != 0)
        return SIZE_MAX;
    name += sizeof begin - 1;
    const size_t digits = strspn(name, "0123456789");
    if (digits < 5 || digits > 15 || strcmp(name + digits, ".png") != 0)
        return SIZE_MAX;
    return (size_t)strtoull(name, NULL, 10);
}

static bool is_picture_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot != name &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
            strcasecmp(dot, ".jpeg") == 0);
}

static zoe_status add_still(zoe_context *ctx, zoe_video_reader *r, const char *folder,
                            const char *name)
{
    if (r->n_stills == r->room) {
        void *bigger;
        const size_t room = r->room ? 2 * r->room : 64;
        TRY(zoe_alloc(ctx, &bigger, room, sizeof *r->stills, "names of pictures"));
        if (r->n_stills)
            memcpy(bigger, r->stills, r->n_stills * sizeof *r->stills);
        zoe_free(r->stills);
        r->stills = bigger;
        r->room = room;
    }
    still *s = &r->stills[r->n_stills];
    s->number = number_of(name);
    if (folder)
        TRY(zoe_path_join(ctx, &s->path, folder, name));
    else
        TRY(zoe_strdup(ctx, &s->path, name));
    r->n_stills++;
    return ZOE_OK;
}

static int in_order(const void *a, const void *b)
{
    const still *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Numbered frames stand in front after sorting; if there are any, the others go, and no number may
 * lack or come twice. */
static zoe_status keep_numbered(zoe_context *ctx, zoe_video_reader *r)
{
    size_t n = 0;
    while (n < r->n_stills && r->stills[n].number != SIZE_MAX)
        n++;
    for (size_t i = 1; i < n; i++) {
        const size_t last = r->stills[i - 1].number, number = r->stills[i].number;
        if (number == last)
            return zoe_fail(ctx, ZOE_FORMAT, "%s and %s have the same number",
                            r->stills[i - 1].path, zoe_path_name(r->stills[i].path));
        if (number != last + 1)
            return zoe_fail(ctx, ZOE_MISSING, "%s: frame_%05zu.png is missing after %s", r->path,
                            last + 1, zoe_path_name(r->stills[i - 1].path));
    }
    for (; n > 0 && r->n_stills > n; r->n_stills--)
        zoe_free(r->stills[r->n_stills - 1].path);
    return ZOE_OK;
}

static zoe_status read_folder(zoe_context *ctx, zoe_video_reader *r)
{
    DIR *folder = opendir(r->path);
    if (!folder)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot read this folder: %s", r->path, strerror(errno));
    zoe_status status = ZOE_OK;
    const struct dirent *entry;
    while (status == ZOE_OK && (errno = 0, entry = readdir(folder)))
        if (is_picture_name(entry->d_name))
            status = add_still(ctx, r, r->path, entry->d_name);
    if (status == ZOE_OK && errno != 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot read this folder: %s", r->path, strerror(errno));
    closedir(folder);
    TRY(status);
    if (r->n_stills == 0)
        return zoe_fail(ctx, ZOE_MISSING, "%s: there is no .png, .jpg or .jpeg in this folder",
                        r->path);
    qsort(r->stills, r->n_stills, sizeof *r->stills, in_order);
    return keep_numbered(ctx, r);
}

/* ---- pictures ---- */

static zoe_status read_still(zoe_context *ctx, zoe_video_reader *r, zoe_picture *picture, size_t i)
{
    TRY(zoe_picture_read(ctx, picture, r->stills[i].path, false));
    if (picture->had_alpha && !r->told_alpha)
        zoe_log(ctx, ZOE_WARNING, "%s: the picture's transparency is left out", r->stills[i].path);
    r->told_alpha |= picture->had_alpha;
    return ZOE_OK;
}

static zoe_status open_stills(zoe_context *ctx, zoe_video_reader *r)
{
    TRY(read_still(ctx, r, &r->first, 0));
    r->info = (zoe_video_info){r->first.width, r->first.height, 0, 1, r->n_stills};
    return ZOE_OK;
}

static zoe_status next_still(zoe_context *ctx, zoe_video_reader *r, uint8_t *rgb)
{
    zoe_picture picture = r->first;
    r->first = (zoe_picture){0};
    if (!picture.rgb)
        TRY(read_still(ctx, r, &picture, r->next));
    zoe_status status = ZOE_OK;
    if (picture.width == r->info.width && picture.height == r->info.height)
        memcpy(rgb, picture.rgb, 3 * picture.width * picture.height);
    else
        status = zoe_fail(ctx, ZOE_FORMAT, "%s: the picture is %zux%zu, those before are %zux%zu",
                          r->stills[r->next].path, picture.width, picture.height, r->info.width,
                          r->info.height);
    zoe_picture_free(&picture);
    return status;
}

/* ---- files ---- */

/* The first bytes, as many as there are. */
static zoe_status read_head(zoe_context *ctx, int fd, uint8_t *head, size_t *n)
{
    *n = 0;
    while (*n < ZOE_HEAD_BYTES) {
        const ssize_t got = read(fd, head + *n, ZOE_HEAD_BYTES - *n);
        if (got < 0 && errno == EINTR) {
            TRY(zoe_check_cancel(ctx));
            continue;
        }
        if (got < 0)
            return zoe_fail(ctx, ZOE_IO, "cannot read: %s", strerror(errno));
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return ZOE_OK;
}

/* A video is opened; of anything else, fd is closed and *picture set. */
static zoe_status open_content(zoe_context *ctx, zoe_video_reader *r, int fd, bool *picture)
{
    uint8_t head[ZOE_HEAD_BYTES];
    size_t n;
    zoe_status status = read_head(ctx, fd, head, &n);
    const bool pipe = lseek(fd, 0, SEEK_SET) != 0;
    const char *demuxer = status == ZOE_OK ? zoe_demuxer_of((zoe_span){head, n}) : NULL;
    /* Of other kinds it could not be told whether the pipe brought all. */
    if (status == ZOE_OK && pipe && !(demuxer && strcmp(demuxer, "yuv4mpegpipe") == 0))
        status = zoe_fail(ctx, ZOE_UNSUPPORTED,
                          "only Y4M is read from a pipe, other videos and pictures from files");
    if (status == ZOE_OK && n > 0 && !pipe && !zoe_kind_is_known((zoe_span){head, n}))
        status = zoe_fail(ctx, ZOE_UNSUPPORTED,
                          "no known kind of picture or video; MP4, WebM, Y4M, GIF, AVI, PNG, JPEG, "
                          "WebP, BMP, TIFF or PNM is wanted");
    if (status == ZOE_OK && demuxer && !pipe)
        status = zoe_video_check_whole(ctx, fd, demuxer);
    if (status == ZOE_OK && demuxer) {
        const zoe_av_source source = {fd, {head, n}, demuxer};
        return zoe_av_read_open(ctx, &r->av, &r->info, &source);
    }
    close(fd);
    *picture = true;
    return status;
}

static zoe_status open_file(zoe_context *ctx, zoe_video_reader *r)
{
    bool picture = false;
    int fd;
    TRY(zoe_file_open(ctx, &fd, r->path, true));
    const zoe_status status = open_content(ctx, r, fd, &picture);
    if (status != ZOE_OK) {
        zoe_fail_in(ctx, "%s", r->path);
        return status;
    }
    if (!picture)
        return ZOE_OK;
    TRY(add_still(ctx, r, NULL, r->path));
    return open_stills(ctx, r);
}

/* ---- the course ---- */

zoe_status zoe_video_read_open(zoe_context *ctx, zoe_video_reader **reader, const char *path)
{
    void *p;
    zoe_status status;
    *reader = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **reader, "a video reader"));
    zoe_video_reader *r = p;
    TRY_GOTO(zoe_strdup(ctx, &r->path, path));
    if (zoe_folder_exists(path)) {
        TRY_GOTO(read_folder(ctx, r));
        TRY_GOTO(open_stills(ctx, r));
    } else {
        TRY_GOTO(open_file(ctx, r));
    }
    *reader = r;
    r = NULL;
done:
    zoe_video_read_close(r);
    return status;
}

const zoe_video_info *zoe_video_read_info(const zoe_video_reader *reader)
{
    return &reader->info;
}

static zoe_status next_of_video(zoe_context *ctx, zoe_video_reader *r, uint8_t *rgb, bool *got)
{
    zoe_picture picture = {r->info.width, r->info.height, rgb, false};
    const zoe_status status = zoe_av_read_frame(ctx, r->av, &picture, got);
    if (status != ZOE_OK)
        zoe_fail_in(ctx, "%s", r->path);
    else if (*got && picture.had_alpha && !r->told_alpha)
        zoe_log(ctx, ZOE_WARNING, "%s: the video's transparency is left out", r->path);
    r->told_alpha |= picture.had_alpha;
    return status;
}

zoe_status zoe_video_read_frame(zoe_context *ctx, zoe_video_reader *reader, uint8_t *rgb, bool *got)
{
    *got = false;
    TRY(zoe_check_cancel(ctx));
    if (reader->av) {
        TRY(next_of_video(ctx, reader, rgb, got));
    } else if (reader->next < reader->n_stills) {
        TRY(next_still(ctx, reader, rgb));
        *got = true;
    }
    reader->next += *got;
    return ZOE_OK;
}

void zoe_video_read_close(zoe_video_reader *reader)
{
    if (!reader)
        return;
    zoe_av_read_close(reader->av);
    zoe_picture_free(&reader->first);
    for (size_t i = 0; i < reader->n_stills; i++)
        zoe_free(reader->stills[i].path);
    zoe_free(reader->stills);
    zoe_free(reader->path);
    zoe_free(reader);
}
