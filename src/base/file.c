/* Files: maps, small texts, outputs written aside and renamed. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
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
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
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

zoe_status zoe_output_open(zoe_context *ctx, zoe_output *out, const char *path)
{
    *out = (zoe_output){.fd = -1};
    zoe_status status;
    TRY_GOTO(zoe_strdup(ctx, &out->path, path));
    TRY_GOTO(zoe_strf(ctx, &out->part, "%s.part", path));
    out->fd = open(out->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out->fd < 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->part, strerror(errno));
done:
    if (status != ZOE_OK) {
        zoe_free(out->path);
        zoe_free(out->part);
        *out = (zoe_output){.fd = -1};
    }
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
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->part, strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return ZOE_OK;
}

zoe_status zoe_output_commit(zoe_context *ctx, zoe_output *out)
{
    zoe_status status = ZOE_OK;
    if (fsync(out->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->part, strerror(errno));
    if (close(out->fd) != 0 && status == ZOE_OK)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->part, strerror(errno));
    out->fd = -1;
    if (status == ZOE_OK && rename(out->part, out->path) != 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot rename to %s: %s", out->part, out->path,
                          strerror(errno));
    if (status != ZOE_OK) {
        zoe_output_abort(out);
        return status;
    }
    zoe_free(out->path);
    zoe_free(out->part);
    *out = (zoe_output){.fd = -1};
    return ZOE_OK;
}

void zoe_output_abort(zoe_output *out)
{
    if (!out->part)
        return;
    if (out->fd >= 0)
        close(out->fd);
    unlink(out->part);
    zoe_free(out->path);
    zoe_free(out->part);
    *out = (zoe_output){.fd = -1};
}

zoe_status zoe_output_probe(zoe_context *ctx, const char *path)
{
    if (zoe_folder_exists(path))
        return zoe_fail(ctx, ZOE_IO, "%s: is a folder, a file name is wanted", path);
    zoe_output out;
    TRY(zoe_output_open(ctx, &out, path));
    zoe_output_abort(&out);
    return ZOE_OK;
}
