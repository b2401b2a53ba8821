/* Files: maps, small texts, outputs written aside and renamed. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static zoe_status open_failed(zoe_context *ctx, const char *path)
{
    const int e = errno;
    if (e == ENOENT || e == ENOTDIR)
        return zoe_fail(ctx, ZOE_MISSING, "%s: no such file", path);
    return zoe_fail(ctx, ZOE_IO, "%s: cannot open: %s", path, strerror(e));
}

zoe_status zoe_map_open(zoe_context *ctx, zoe_map *map, const char *path)
{
    *map = (zoe_map){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return open_failed(ctx, path);
    zoe_status status = ZOE_OK;
    struct stat st;
    if (fstat(fd, &st) != 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot stat: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = zoe_fail(ctx, ZOE_IO, "%s: is %s, not a file", path,
                          S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
    else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            status = zoe_fail(ctx, ZOE_IO, "%s: cannot map %lld bytes: %s", path,
                              (long long)st.st_size, strerror(errno));
        else
            map->data = p;
    }
    close(fd);
    TRY(status);
    map->size = (size_t)st.st_size;
    status = zoe_strdup(ctx, &map->path, path);
    if (status != ZOE_OK)
        zoe_map_close(map);
    return status;
}

void zoe_map_close(zoe_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    zoe_free(map->path);
    *map = (zoe_map){0};
}

zoe_status zoe_map_check(zoe_context *ctx, const zoe_map *map)
{
    struct stat st;
    if (stat(map->path, &st) == 0 && (size_t)st.st_size < map->size)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: shrank from %zu to %lld bytes while in use",
                        map->path, map->size, (long long)st.st_size);
    return ZOE_OK;
}

zoe_status zoe_file_read(zoe_context *ctx, char **text, size_t *size, const char *path,
                         size_t limit)
{
    *text = NULL;
    *size = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(ctx, path);
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
        close(fd);
        return zoe_fail(ctx, ZOE_IO, "%s: is a folder or a device, not a file", path);
    }
    zoe_status status = ZOE_OK;
    void *buffer = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used + 1 >= room) {
            void *bigger;
            room = room ? 2 * room : 65536;
            TRY_GOTO(zoe_alloc(ctx, &bigger, room, 1, path));
            if (used)
                memcpy(bigger, buffer, used);
            zoe_free(buffer);
            buffer = bigger;
        }
        const ssize_t n = read(fd, (char *)buffer + used, room - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = zoe_fail(ctx, ZOE_IO, "%s: cannot read: %s", path, strerror(errno));
            goto done;
        }
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > limit) {
            status = zoe_fail(ctx, ZOE_FORMAT, "%s: longer than the %zu bytes such a file may have",
                              path, limit);
            goto done;
        }
    }
    ((char *)buffer)[used] = '\0';
    *text = buffer;
    *size = used;
    buffer = NULL;
done:
    zoe_free(buffer);
    close(fd);
    return status;
}

bool zoe_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool zoe_folder_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

zoe_status zoe_path_join(zoe_context *ctx, char **path, const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    return zoe_strf(ctx, path, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

const char *zoe_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

zoe_status zoe_folder_make(zoe_context *ctx, const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && zoe_folder_exists(path)))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_IO, "%s: cannot make this folder: %s", path, strerror(errno));
}

/* ---- names that nobody else uses ---- */

enum { RANDOM_LETTERS = 8, RANDOM_TRIES = 100 };

static zoe_status random_letters(zoe_context *ctx, char letters[RANDOM_LETTERS + 1])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char bytes[RANDOM_LETTERS];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return zoe_fail(ctx, ZOE_IO, "no random bytes from the system: %s", strerror(errno));
    for (size_t i = 0; i < RANDOM_LETTERS; i++)
        letters[i] = alphabet[bytes[i] % 32];
    letters[RANDOM_LETTERS] = '\0';
    return ZOE_OK;
}

zoe_status zoe_folder_make_part(zoe_context *ctx, char **path, const char *folder)
{
    char letters[RANDOM_LETTERS + 1], name[32];
    *path = NULL;
    for (int i = 0; i < RANDOM_TRIES; i++) {
        TRY(random_letters(ctx, letters));
        snprintf(name, sizeof name, ".zoe-%s.part", letters);
        TRY(zoe_path_join(ctx, path, folder, name));
        if (mkdir(*path, 0777) == 0)
            return ZOE_OK;
        const int e = errno;
        zoe_free(*path);
        *path = NULL;
        errno = e;
        if (e != EEXIST)
            break;
    }
    return zoe_fail(ctx, ZOE_IO, "%s: cannot write in this folder: %s", folder, strerror(errno));
}

/* "folder/NAME.RANDOM.part" beside path, NAME cut between characters so that it all is a legal
 * name. */
static zoe_status name_part(zoe_context *ctx, char **part, const char *path)
{
    char letters[RANDOM_LETTERS + 1];
    const char *name = zoe_path_name(path);
    size_t kept = strlen(name);
    const size_t most = NAME_MAX - sizeof letters - strlen(".part");
    if (kept > most)
        for (kept = most; kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80;)
            kept--;
    TRY(random_letters(ctx, letters));
    return zoe_strf(ctx, part, "%.*s%.*s.%s.part", (int)(name - path), path, (int)kept, name,
                    letters);
}

/* ---- the parts that are open, for whoever must end the process at once ---- */

enum { PARTS = 16 }; /* more are not remembered */

static char *_Atomic open_parts[PARTS];

static void remember_part(char *part)
{
    for (size_t i = 0; i < PARTS; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&open_parts[i], &none, part))
            return;
    }
}

static void forget_part(char *part)
{
    for (size_t i = 0; i < PARTS; i++) {
        char *found = part;
        if (atomic_compare_exchange_strong(&open_parts[i], &found, NULL))
            return;
    }
}

void zoe_outputs_unlink(void)
{
    for (size_t i = 0; i < PARTS; i++) {
        const char *part = atomic_load(&open_parts[i]);
        if (part)
            unlink(part);
    }
}

/* ---- outputs ---- */

static zoe_status refuse_kind(zoe_context *ctx, const char *path, mode_t mode)
{
    if (S_ISREG(mode))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_IO, "%s: is %s, the name of a file is wanted", path,
                    S_ISDIR(mode)    ? "a folder"
                    : S_ISFIFO(mode) ? "a pipe"
                    : S_ISSOCK(mode) ? "a socket"
                                     : "a device");
}

/* The place that an output of this name takes: links are followed, so that the file is replaced and
 * the link stays. */
static zoe_status find_place(zoe_context *ctx, char **place, const char *path)
{
    struct stat st;
    *place = NULL;
    if (lstat(path, &st) != 0) {
        if (errno != ENOENT)
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", path, strerror(errno));
        return zoe_strdup(ctx, place, path);
    }
    if (!S_ISLNK(st.st_mode)) {
        TRY(refuse_kind(ctx, path, st.st_mode));
        return zoe_strdup(ctx, place, path);
    }
    if (stat(path, &st) != 0)
        return zoe_fail(ctx, ZOE_IO, "%s: is a link that leads nowhere: %s", path, strerror(errno));
    TRY(refuse_kind(ctx, path, st.st_mode));
    char *real = realpath(path, NULL);
    if (!real)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot follow this link: %s", path, strerror(errno));
    const zoe_status status = zoe_strdup(ctx, place, real);
    free(real);
    return status;
}

static zoe_status open_part(zoe_context *ctx, zoe_output *out)
{
    for (int i = 0; i < RANDOM_TRIES; i++) {
        TRY(name_part(ctx, &out->part, out->path));
        out->fd = open(out->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (out->fd >= 0) {
            struct stat old;
            if (stat(out->path, &old) == 0) /* who could not read the old file cannot read this */
                (void)!fchmod(out->fd, old.st_mode & 0777);
            remember_part(out->part);
            return ZOE_OK;
        }
        const int e = errno;
        zoe_free(out->part);
        out->part = NULL;
        errno = e;
        if (e != EEXIST && e != EINTR)
            break;
    }
    return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, strerror(errno));
}

/* Closes and forgets; the file stays. */
static void release(zoe_output *out)
{
    if (out->fd >= 0)
        close(out->fd);
    if (out->part)
        forget_part(out->part);
    zoe_free(out->path);
    zoe_free(out->part);
    *out = (zoe_output){.fd = -1};
}

zoe_status zoe_output_open(zoe_context *ctx, zoe_output *out, const char *path)
{
    *out = (zoe_output){.fd = -1};
    zoe_status status;
    TRY_GOTO(find_place(ctx, &out->path, path));
    TRY_GOTO(open_part(ctx, out));
done:
    if (status != ZOE_OK)
        release(out);
    return status;
}

zoe_status zoe_output_write(zoe_context *ctx, zoe_output *out, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(out->fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return ZOE_OK;
}

zoe_status zoe_output_commit(zoe_context *ctx, zoe_output *out)
{
    zoe_status status = ZOE_OK;
    if (fsync(out->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, strerror(errno));
    if (close(out->fd) != 0 && status == ZOE_OK)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, strerror(errno));
    out->fd = -1;
    if (status == ZOE_OK && rename(out->part, out->path) != 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot rename to %s: %s", out->part, out->path,
                          strerror(errno));
    if (status == ZOE_OK)
        release(out);
    else
        zoe_output_abort(out);
    return status;
}

void zoe_output_abort(zoe_output *out)
{
    if (!out->part)
        return;
    unlink(out->part);
    release(out);
}

zoe_status zoe_output_probe(zoe_context *ctx, const char *path)
{
    zoe_output out;
    TRY(zoe_output_open(ctx, &out, path));
    zoe_output_abort(&out);
    return ZOE_OK;
}
