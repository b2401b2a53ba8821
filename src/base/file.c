/* Files: maps, small texts, outputs written aside and renamed. */
#define _GNU_SOURCE
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/context.h"

static zoe_status open_failed(zoe_context *ctx, const char *path)
{
    const int e = errno;
    if (e == ENOENT || e == ENOTDIR)
        return zoe_fail(ctx, ZOE_MISSING, "%s: no such file", path);
    return zoe_fail(ctx, ZOE_IO, "%s: cannot open: %s", path, strerror(e));
}

/* ---- places that a signal handler looks at: taken, filled, then shown ---- */

enum { FREE, TAKEN, SHOWN };

static bool take_place(atomic_int *state)
{
    int free_place = FREE;
    return atomic_compare_exchange_strong(state, &free_place, TAKEN);
}

/* ---- maps ---- */

enum { MAPS = 256 };

static struct {
    atomic_int state;
    _Atomic(const unsigned char *)
        data; /* another thread that looks for its own place reads it too */
    size_t size;
    const char *path;
} open_maps[MAPS];

static void show_map(const zoe_map *map)
{
    for (size_t i = 0; i < MAPS && map->size; i++)
        if (take_place(&open_maps[i].state)) {
            open_maps[i].data = map->data;
            open_maps[i].size = map->size;
            open_maps[i].path = map->path;
            atomic_store(&open_maps[i].state, SHOWN);
            return;
        }
}

static void hide_map(const zoe_map *map)
{
    for (size_t i = 0; i < MAPS && map->size; i++)
        if (atomic_load(&open_maps[i].state) == SHOWN && open_maps[i].data == map->data) {
            atomic_store(&open_maps[i].state, FREE);
            return;
        }
}

const char *zoe_map_path_at(const void *address)
{
    for (size_t i = 0; i < MAPS; i++) {
        const uintptr_t at = (uintptr_t)address, begin = (uintptr_t)open_maps[i].data;
        if (atomic_load(&open_maps[i].state) == SHOWN && at >= begin &&
            at - begin < open_maps[i].size)
            return open_maps[i].path;
    }
    return NULL;
}

/* What a clone without Git LFS holds in the place of every large file is never what is wanted. */
static zoe_status refuse_pointer(zoe_context *ctx, const char *path, const void *data, size_t size)
{
    static const char pointer[] = "version https://git-lfs";
    if (size < sizeof pointer - 1 || memcmp(data, pointer, sizeof pointer - 1) != 0)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_FORMAT,
                    "%s: is a Git LFS pointer of %zu bytes, not the file that it stands for; fetch "
                    "that with git lfs pull, or download it",
                    path, size);
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
            status =
                zoe_fail(ctx, errno == ENOMEM ? ZOE_NOMEM : ZOE_IO, "%s: cannot map %lld bytes: %s",
                         path, (long long)st.st_size, strerror(errno));
        else
            map->data = p;
    }
    if (status == ZOE_OK) {
        map->size = (size_t)st.st_size;
        status = refuse_pointer(ctx, path, map->data, map->size);
    }
    if (status == ZOE_OK)
        status = zoe_strdup(ctx, &map->path, path);
    if (status == ZOE_OK) {
        map->fd = fd;
        show_map(map);
        return ZOE_OK;
    }
    close(fd);
    zoe_map_close(map);
    return status;
}

void zoe_map_close(zoe_map *map)
{
    hide_map(map);
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    if (map->path)
        close(map->fd);
    zoe_free(map->path);
    *map = (zoe_map){0};
}

zoe_status zoe_map_check(zoe_context *ctx, const zoe_map *map)
{
    struct stat st;
    if (fstat(map->fd, &st) != 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot stat: %s", map->path, strerror(errno));
    if ((size_t)st.st_size < map->size)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: shrank from %zu to %lld bytes while in use",
                        map->path, map->size, (long long)st.st_size);
    return ZOE_OK;
}

/* ---- files and pipes that are read from their beginning ---- */

/* Somebody who is about to write to a named pipe opens it at the same moment as we do. */
enum { PIPE_WAIT_MS = 2000, PIPE_LOOK_MS = 20 };

/* Has somebody the empty pipe open for writing? A read would tell too, but take a byte if there were
 * one by then; what tee puts into `aside` is only a copy. */
static bool is_written_to(int pipe_fd, const int aside[2])
{
    return tee(pipe_fd, aside[1], 1, SPLICE_F_NONBLOCK) != 0;
}

/* Waits until somebody writes to the pipe, or did. */
static zoe_status await_writer(zoe_context *ctx, int fd, const char *path)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int aside[2];
    if (pipe2(aside, O_CLOEXEC) != 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot look into this pipe: %s", path, strerror(errno));
    zoe_status status = ZOE_OK;
    bool found = false;
    for (int waited = 0; !found && waited < PIPE_WAIT_MS; waited += PIPE_LOOK_MS) {
        TRY_GOTO(zoe_check_cancel(ctx));
        found = poll(&p, 1, PIPE_LOOK_MS) > 0 || is_written_to(fd, aside);
    }
    if (!found)
        status = zoe_fail(ctx, ZOE_IO, "%s: is a pipe to which nobody writes", path);
done:
    close(aside[0]);
    close(aside[1]);
    return status;
}

/* What was opened without blocking, as something to read from. */
static zoe_status check_input(zoe_context *ctx, int fd, const char *path, bool pipe_too)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot stat: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode))
        return ZOE_OK;
    if (!S_ISFIFO(st.st_mode) || !pipe_too)
        return zoe_fail(ctx, ZOE_IO, "%s: is %s, not a file", path,
                        S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
    TRY(await_writer(ctx, fd, path));
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot read: %s", path, strerror(errno));
    return ZOE_OK;
}

zoe_status zoe_file_open(zoe_context *ctx, int *fd, const char *path, bool pipe_too)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return open_failed(ctx, path);
    const zoe_status status = check_input(ctx, *fd, path, pipe_too);
    if (status != ZOE_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

zoe_status zoe_file_read(zoe_context *ctx, char **text, size_t *size, const char *path,
                         size_t limit)
{
    int fd;
    *text = NULL;
    *size = 0;
    TRY(zoe_file_open(ctx, &fd, path, true));
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
        if (n < 0 && errno == EINTR) {
            TRY_GOTO(zoe_check_cancel(ctx));
            continue;
        }
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
    TRY_GOTO(refuse_pointer(ctx, path, buffer, used));
    ((char *)buffer)[used] = '\0';
    *text = buffer;
    *size = used;
    buffer = NULL;
done:
    zoe_free(buffer);
    close(fd);
    return status;
}

const char *zoe_write_reason(int error)
{
    switch (error) {
    case ENOSPC: return "No space left on device; make room there or name another place";
    case EDQUOT: return "Disk quota exceeded; make room there or name another place";
    case EFBIG: return "File too large for this place; name another one";
    case EACCES:
    case EPERM: return "Permission denied; name a place where you may write";
    case EROFS: return "Read-only file system; name a place where you may write";
    case ENOENT: return "No such file or directory; its folder must be there";
    default: return strerror(error);
    }
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

const char *zoe_path_last(const char *path, size_t *length)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *length = end - begin;
    return path + begin;
}

zoe_status zoe_folder_make(zoe_context *ctx, const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && zoe_folder_exists(path)))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_IO, "%s: cannot make this folder: %s", path, zoe_write_reason(errno));
}

/* ---- names that nobody else uses ---- */

static atomic_bool ending; /* zoe_outputs_unlink was called: nothing more is made */

static zoe_status refuse_ending(zoe_context *ctx, const char *path)
{
    return zoe_fail(ctx, ZOE_CANCELLED, "%s: not written, the program is being ended", path);
}

enum { RANDOM_LETTERS = ZOE_PART_LETTERS - 1, RANDOM_TRIES = 100 };

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz012345";

static zoe_status random_letters(zoe_context *ctx, char letters[RANDOM_LETTERS + 1])
{
    unsigned char bytes[RANDOM_LETTERS];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return zoe_fail(ctx, ZOE_IO, "no random bytes from the system: %s", strerror(errno));
    for (size_t i = 0; i < RANDOM_LETTERS; i++)
        letters[i] = alphabet[bytes[i] % 32];
    letters[RANDOM_LETTERS] = '\0';
    return ZOE_OK;
}

/* The letters that the context gives to its parts, if it does; random ones once these are taken. */
static zoe_status part_letters(zoe_context *ctx, char letters[RANDOM_LETTERS + 1], int attempt)
{
    if (attempt > 0 || !ctx || !ctx->part_letters[0])
        return random_letters(ctx, letters);
    memcpy(letters, ctx->part_letters, RANDOM_LETTERS + 1);
    return ZOE_OK;
}

zoe_status zoe_part_letters_draw(zoe_context *ctx, char letters[ZOE_PART_LETTERS])
{
    return random_letters(ctx, letters);
}

bool zoe_part_letters_check(const char *letters)
{
    return strlen(letters) == RANDOM_LETTERS && strspn(letters, alphabet) == RANDOM_LETTERS;
}

void zoe_part_letters_use(zoe_context *ctx, const char *letters)
{
    snprintf(ctx->part_letters, sizeof ctx->part_letters, "%s", letters ? letters : "");
}

static const char folder_part_format[] = ".zoe-%s.part";

zoe_status zoe_folder_make_part(zoe_context *ctx, char **path, const char *folder)
{
    char letters[RANDOM_LETTERS + 1], name[32];
    *path = NULL;
    for (int i = 0; i < RANDOM_TRIES; i++) {
        TRY(part_letters(ctx, letters, i));
        snprintf(name, sizeof name, folder_part_format, letters);
        TRY(zoe_path_join(ctx, path, folder, name));
        zoe_folder_remember(*path, true); /* before it is there: no signal may come between */
        const bool refused = atomic_load(&ending);
        if (!refused && mkdir(*path, 0777) == 0)
            return ZOE_OK;
        const int e = errno;
        zoe_folder_forget(*path);
        zoe_free(*path);
        *path = NULL;
        if (refused)
            return refuse_ending(ctx, folder);
        errno = e;
        if (e != EEXIST)
            break;
    }
    return zoe_fail(ctx, ZOE_IO, "%s: cannot write in this folder: %s", folder,
                    zoe_write_reason(errno));
}

/* "folder/NAME.RANDOM.part" beside path, NAME cut between characters so that it all is a legal
 * name. */
static zoe_status name_part(zoe_context *ctx, char **part, const char *path, const char *letters)
{
    const char *name = zoe_path_name(path);
    size_t kept = strlen(name);
    const size_t most = NAME_MAX - ZOE_PART_LETTERS - strlen(".part");
    if (kept > most)
        for (kept = most; kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80;)
            kept--;
    return zoe_strf(ctx, part, "%.*s%.*s.%s.part", (int)(name - path), path, (int)kept, name,
                    letters);
}

/* ---- what is half made, for whoever must end the process at once ---- */

enum { PARTS = 16 }; /* more are not remembered */

typedef enum part_kind { PART_FILE, PART_FOLDER, PART_EMPTY_FOLDER } part_kind;

/* Copies of the names: a handler may read them while another thread frees its own. */
static struct {
    atomic_int state;
    part_kind kind;
    char path[PATH_MAX];
} parts[PARTS];

static void remember_part(const char *path, part_kind kind)
{
    const size_t length = strlen(path);
    for (size_t i = 0; i < PARTS && length < sizeof parts[i].path; i++)
        if (take_place(&parts[i].state)) {
            parts[i].kind = kind;
            memcpy(parts[i].path, path, length + 1);
            atomic_store(&parts[i].state, SHOWN);
            return;
        }
}

static void forget_part(const char *path)
{
    for (size_t i = 0; i < PARTS; i++)
        if (atomic_load(&parts[i].state) == SHOWN && strcmp(parts[i].path, path) == 0) {
            atomic_store(&parts[i].state, FREE);
            return;
        }
}

void zoe_folder_remember(const char *path, bool with_files)
{
    remember_part(path, with_files ? PART_FOLDER : PART_EMPTY_FOLDER);
}

void zoe_folder_forget(const char *path)
{
    forget_part(path);
}

/* opendir allocates, which a signal handler must not; hence the system call. */
static void remove_files_in(const char *folder)
{
    _Alignas(struct dirent64) char buffer[4096];
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    for (bool found = true; found && lseek(fd, 0, SEEK_SET) == 0;) {
        found = false;
        for (long n; (n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;)
            for (long at = 0; at < n;) {
                const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
                found = unlinkat(fd, entry->d_name, 0) == 0 || found;
                at += entry->d_reclen;
            }
    }
    close(fd);
}

static void unlink_parts(void)
{
    for (part_kind kind = PART_FILE; kind <= PART_EMPTY_FOLDER; kind++)
        for (size_t i = 0; i < PARTS; i++) {
            if (atomic_load(&parts[i].state) != SHOWN || parts[i].kind != kind)
                continue;
            if (kind == PART_FOLDER)
                remove_files_in(parts[i].path);
            if (kind == PART_FILE)
                unlink(parts[i].path);
            else
                rmdir(parts[i].path);
        }
}

void zoe_outputs_unlink(void)
{
    /* Another thread may be just about to make a file: from here on it must not, and what it had
     * begun is there a moment later. */
    atomic_store(&ending, true);
    unlink_parts();
    poll(NULL, 0, 2);
    unlink_parts();
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
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", path, zoe_write_reason(errno));
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

/* Whoever writes a part holds its lock, which ends with the process; where there are no locks, nobody
 * seems to write. */
static bool take_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static zoe_status open_part(zoe_context *ctx, zoe_output *out)
{
    for (int i = 0; i < RANDOM_TRIES; i++) {
        char letters[ZOE_PART_LETTERS];
        TRY(part_letters(ctx, letters, i));
        TRY(name_part(ctx, &out->part, out->path, letters));
        remember_part(out->part, PART_FILE); /* before it is there: no signal may come between */
        const bool refused = atomic_load(&ending);
        if (!refused)
            out->fd = open(out->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (out->fd >= 0) {
            struct stat old;
            (void)take_lock(out->fd);
            if (stat(out->path, &old) == 0) /* who could not read the old file cannot read this */
                (void)!fchmod(out->fd, old.st_mode & 0777);
            return ZOE_OK;
        }
        const int e = errno;
        forget_part(out->part);
        zoe_free(out->part);
        out->part = NULL;
        if (refused)
            return refuse_ending(ctx, out->path);
        errno = e;
        if (e != EEXIST && e != EINTR)
            break;
    }
    return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, zoe_write_reason(errno));
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
            return zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path,
                            zoe_write_reason(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return ZOE_OK;
}

zoe_status zoe_output_commit(zoe_context *ctx, zoe_output *out)
{
    zoe_status status = ZOE_OK;
    if (fsync(out->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, zoe_write_reason(errno));
    if (close(out->fd) != 0 && status == ZOE_OK)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot write: %s", out->path, zoe_write_reason(errno));
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

/* ---- what a killed process left ---- */

/* A regular file that nobody writes to? */
static bool is_left(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool left = fd < 0 || take_lock(fd);
    if (fd >= 0)
        close(fd);
    return left;
}

void zoe_output_sweep(const char *path, const char *letters)
{
    char *place = NULL, *part = NULL;
    if (zoe_part_letters_check(letters) && find_place(NULL, &place, path) == ZOE_OK &&
        name_part(NULL, &part, place, letters) == ZOE_OK && is_left(part))
        unlink(part);
    zoe_free(part);
    zoe_free(place);
}

void zoe_folder_sweep(const char *folder, const char *letters)
{
    char name[32], *part = NULL;
    if (!zoe_part_letters_check(letters))
        return;
    snprintf(name, sizeof name, folder_part_format, letters);
    if (zoe_path_join(NULL, &part, folder, name) == ZOE_OK) {
        remove_files_in(part);
        rmdir(part);
    }
    zoe_free(part);
}
