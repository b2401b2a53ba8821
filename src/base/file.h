/* Files: read-only maps, small texts, and outputs that appear under their name only when complete.
 */
#ifndef ZOE_FILE_H
#define ZOE_FILE_H

#include "base/base.h"

/* A whole file, mapped read-only. Any path bytes are fine. */
typedef struct zoe_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
    char *path;
    int fd; /* of what is mapped, whatever may stand at path by now; meaningless without a path */
} zoe_map;

/* Errors: ZOE_MISSING (no such file), ZOE_IO (cannot open, is a folder, cannot map), ZOE_FORMAT (a Git
 * LFS pointer in the place of the file). */
zoe_status zoe_map_open(zoe_context *ctx, zoe_map *map, const char *path);
void zoe_map_close(zoe_map *map);
/* What is mapped must still have its size: reading beyond a shrunken file would be a SIGBUS. A file
 * that took its place under the same name does not matter. Errors: ZOE_FORMAT, ZOE_IO. */
zoe_status zoe_map_check(zoe_context *ctx, const zoe_map *map);
/* The path of the open map that has this address, NULL if none has. Async-signal-safe; for a
 * handler of SIGBUS. At most 256 maps are known. */
const char *zoe_map_path_at(const void *address);

/* A file to read from its beginning, to be closed with close; never waits for one that is none. With
 * pipe_too also a pipe, such as /dev/fd/63 of <(...), that somebody writes to within 2 s. Errors:
 * ZOE_MISSING (no such file), ZOE_IO (cannot open, is a folder, a device, a pipe), ZOE_CANCELLED. */
zoe_status zoe_file_open(zoe_context *ctx, int *fd, const char *path, bool pipe_too);
/* A whole file, or what comes through a pipe, as a NUL-terminated text, at most `limit` bytes; free
 * with zoe_free. Errors: those of zoe_file_open; ZOE_FORMAT (longer, a Git LFS pointer). */
zoe_status zoe_file_read(zoe_context *ctx, char **text, size_t *size, const char *path,
                         size_t limit);

bool zoe_file_exists(
    const char *path); /* a regular file, or something readable that is no folder */
bool zoe_folder_exists(const char *path);
/* "folder/name" in a new string. */
zoe_status zoe_path_join(zoe_context *ctx, char **path, const char *folder, const char *name);
/* The part after the last '/'. */
const char *zoe_path_name(const char *path);
/* Where in the path the name at its end begins, and how long it is, without '/' behind it. */
const char *zoe_path_last(const char *path, size_t *length);
/* Makes the folder (not its parents) unless it is there. */
zoe_status zoe_folder_make(zoe_context *ctx, const char *path);
/* Makes a hidden folder of a new name, ".zoe-RANDOM.part", in `folder`, and remembers it; to be
 * forgotten before it stops being something half made. */
zoe_status zoe_folder_make_part(zoe_context *ctx, char **path, const char *folder);
/* A folder that zoe_outputs_unlink removes too, until it is forgotten: with the files in it, or
 * only if it is empty. */
void zoe_folder_remember(const char *path, bool with_files);
void zoe_folder_forget(const char *path);

/* An output file: written beside its place under a name of its own, "NAME.RANDOM.part", then fsync
 * and rename. What stands at the place must be a regular file, or a link to one, which is then
 * replaced where it is: devices, pipes, sockets, folders and links to nothing are refused. */
typedef struct zoe_output {
    int fd;
    char *path, *part; /* path: links followed */
} zoe_output;

zoe_status zoe_output_open(zoe_context *ctx, zoe_output *out, const char *path);
zoe_status zoe_output_write(zoe_context *ctx, zoe_output *out, const void *data, size_t bytes);
/* After this, the file stands under its name, complete. */
zoe_status zoe_output_commit(zoe_context *ctx, zoe_output *out);
/* Removes what was written; no-op after commit or on a zeroed struct. */
void zoe_output_abort(zoe_output *out);
/* What the system says of a failed write, and what to do about it. */
const char *zoe_write_reason(int error);
/* Can this file be written? Leaves nothing behind. For checks before long work. Errors: ZOE_IO,
 * ZOE_NOMEM. */
zoe_status zoe_output_probe(zoe_context *ctx, const char *path);
/* Parts have random letters in their names. A run that wants to find again what it left when it was
 * killed draws letters beforehand, notes them, and has the context use them for all parts that it
 * opens (NULL: random again). A name that is taken gets random letters all the same. */
enum { ZOE_PART_LETTERS = 9 }; /* with the end */
zoe_status zoe_part_letters_draw(zoe_context *ctx, char letters[ZOE_PART_LETTERS]);
bool zoe_part_letters_check(const char *letters); /* can these be such letters? */
void zoe_part_letters_use(zoe_context *ctx, const char *letters);
/* Removes, if it is there, the part with these letters of an output (a regular file that nobody writes
 * to any more), or of a folder with the files in it. */
void zoe_output_sweep(const char *path, const char *letters);
void zoe_folder_sweep(const char *folder, const char *letters);

/* Removes the parts of all outputs that this process has open, and the folders remembered; from then
 * on no output can be opened. Async-signal-safe; for a handler that ends the process. */
void zoe_outputs_unlink(void);

#endif
