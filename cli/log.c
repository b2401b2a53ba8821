/* The file of --log. Each line is one write to the end of the file, so that several programs may
 * share it. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "message.h"
#include "zoetrope/status.h"

enum { TEXT_ROOM = 16384, LINE_ROOM = 4 * TEXT_ROOM };

static struct {
    bool open, made;
    int fd;
    const char *path;
    struct stat file;
} log_file;

bool zoe_log_is_open(void)
{
    return log_file.open;
}

bool zoe_log_is_file(const char *path)
{
    struct stat file;
    return log_file.open && path && stat(path, &file) == 0 && file.st_dev == log_file.file.st_dev &&
           file.st_ino == log_file.file.st_ino;
}

/* Does the file begin with a time stamp, "2026-01-31T12:00:00"? Only a log is appended to: one line
 * more would spoil a picture, a config.json or a tokenizer. */
static bool is_log_file(const char *path, const struct stat *file)
{
    static const char stamp[] = "dddd-dd-ddTdd:dd:dd";
    char head[sizeof stamp - 1];
    if (!S_ISREG(file->st_mode) || file->st_size == 0)
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* it may be a log that only its owner reads */
    const ssize_t n = read(fd, head, sizeof head);
    close(fd);
    bool stamped = n == (ssize_t)sizeof head;
    for (size_t i = 0; stamped && i < sizeof head; i++)
        stamped = stamp[i] == 'd' ? head[i] >= '0' && head[i] <= '9' : head[i] == stamp[i];
    return stamped;
}

static int refuse(const char *path, const char *what)
{
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_IO), "--log %s: %s", path, what);
}

int zoe_log_open(const char *path)
{
    struct stat before;
    const bool there = stat(path, &before) == 0;
    char reason[128];
    if (there && !is_log_file(path, &before))
        return refuse(path,
                      "this is no log of zoe; name a new file, or an older log to go on with");
    /* A pipe without a reader must not stop the program here. */
    const int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0 || fstat(fd, &log_file.file) != 0 || fcntl(fd, F_SETFL, O_APPEND) != 0) {
        snprintf(reason, sizeof reason, "the log cannot be written there: %s; name another file",
                 strerror(errno));
        if (fd >= 0)
            close(fd);
        return refuse(path, reason);
    }
    log_file.fd = fd;
    log_file.open = true;
    log_file.made = !there;
    log_file.path = path;
    return ZOE_EXIT_DONE;
}

void zoe_log_close(bool remove)
{
    if (!log_file.open)
        return;
    log_file.open = false;
    if (close(log_file.fd) != 0 && !remove)
        zoe_warn("%s: the log may lack its end: %s", log_file.path, strerror(errno));
    if (remove && log_file.made)
        unlink(log_file.path);
}

/* ---- lines ---- */

typedef struct line {
    char text[LINE_ROOM];
    size_t used;
} line;

static void put(line *l, const char *bytes, size_t n)
{
    if (n > sizeof l->text - 1 - l->used) /* the last byte is kept for the line feed */
        n = sizeof l->text - 1 - l->used;
    memcpy(l->text + l->used, bytes, n);
    l->used += n;
}

static void put_stamp(line *l)
{
    struct timespec now;
    struct tm utc;
    char stamp[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%03ldZ ", now.tv_nsec / 1000000);
    put(l, stamp, strlen(stamp));
}

static void put_text(line *l, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        char escape[8];
        if (c == '\n') {
            put(l, "\n     ", 6);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof escape, "\\x%02x", c);
            put(l, escape, strlen(escape));
        } else {
            put(l, text, 1);
        }
    }
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

void zoe_log_write(const char *kind, const char *text)
{
    static line l;
    if (!log_file.open)
        return;
    l.used = 0;
    put_stamp(&l);
    put(&l, kind, strlen(kind));
    put(&l, ": ", 2);
    put_text(&l, text);
    l.text[l.used++] = '\n';
    if (write_all(log_file.fd, l.text, l.used))
        return;
    const int error = errno;
    log_file.open = false;
    close(log_file.fd);
    zoe_warn("%s: the log ends here: %s; the run goes on", log_file.path, strerror(error));
}

void zoe_log_note(const char *format, ...)
{
    char text[TEXT_ROOM];
    va_list args;
    if (!log_file.open)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    zoe_log_write("note", text);
}

/* A word as a shell would take it. */
static void put_word(line *l, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+,./:@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        put(l, word, strlen(word));
        return;
    }
    put(l, "'", 1);
    for (; *word; word++)
        if (*word == '\'')
            put(l, "'\\''", 4);
        else
            put(l, word, 1);
    put(l, "'", 1);
}

void zoe_log_command(int argc, char **argv)
{
    static line l;
    if (!log_file.open)
        return;
    l.used = 0;
    put(&l, "zoe " ZOE_VERSION ":", strlen("zoe " ZOE_VERSION ":"));
    for (int i = 0; i < argc; i++) {
        put(&l, " ", 1);
        put_word(&l, argv[i]);
    }
    l.text[l.used] = '\0';
    zoe_log_write("begin", l.text);
}
