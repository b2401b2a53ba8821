/* Fuzz target: a checkpoint of several files. The first byte chooses the table of names; the input
 * up to the first NUL is the index, what follows is the file c.safetensors beside it. The files
 * a.safetensors and b.safetensors are sound, so that an index can be right. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/content.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void write_file(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void remove_folder(void)
{
    static const char *const names[] = {"a.safetensors", "b.safetensors", "c.safetensors",
                                        "index.json"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    static const char a[] = "\x38\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[2],"
                            "\"data_offsets\":[0,2]}}   ab";
    static const char b[] = "\x76\0\0\0\0\0\0\0{\"y\":{\"dtype\":\"U8\",\"shape\":[1],"
                            "\"data_offsets\":[0,1]},\"shared.weight\":{\"dtype\":\"U8\","
                            "\"shape\":[],\"data_offsets\":[1,2]}}  ab";
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/zoe-fuzz-XXXXXX", base);
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    write_file("a.safetensors", a, sizeof a - 1);
    write_file("b.safetensors", b, sizeof b - 1);
}

static void run(zoe_context *ctx, zoe_names names)
{
    char path[128];
    zoe_store *store;
    snprintf(path, sizeof path, "%s/index.json", folder);
    if (zoe_store_open(ctx, &store, path, names) == ZOE_OK) {
        for (size_t i = 0; i < zoe_store_count(store); i++) {
            zoe_tensor found;
            if (!zoe_store_find(store, zoe_store_name(store, i), &found))
                abort();
        }
        if (zoe_store_count(store) == 0 || zoe_store_check(ctx, store) != ZOE_OK)
            abort();
    } else if (zoe_context_message(ctx)[0] == '\0') {
        abort(); /* refused without a reason */
    }
    zoe_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (!folder[0])
        make_folder();
    const uint8_t *text = data + 1, *end = memchr(text, '\0', size - 1);
    const size_t length = end ? (size_t)(end - text) : size - 1;
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        abort();
    write_file("index.json", text, length);
    write_file("c.safetensors", end ? (const void *)(end + 1) : "",
               end ? size - 1 - length - 1 : 0);
    run(ctx, (zoe_names)(data[0] % (ZOE_NAMES_UMT5 + 1)));
    zoe_context_free(ctx);
    return 0;
}
