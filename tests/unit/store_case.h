/* What the tests of the store share: a folder of their own, files made from bytes, and the look of
 * a refusal. */
#ifndef STORE_CASE_H
#define STORE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/content.h"

typedef struct store_case {
    zoe_context *ctx;
    char folder[32];
    char warning[512]; /* the last one logged */
} store_case;

static inline void case_note(void *user, zoe_level level, const char *text)
{
    store_case *c = user;
    if (level == ZOE_WARNING)
        snprintf(c->warning, sizeof c->warning, "%s", text);
}

static inline int case_setup(void **state)
{
    static store_case c;
    c = (store_case){.folder = "/tmp/zoe-store-XXXXXX", .ctx = zoe_context_new(1)};
    if (!c.ctx || !mkdtemp(c.folder))
        return -1;
    zoe_context_set_log(c.ctx, case_note, &c);
    *state = &c;
    return 0;
}

static inline int case_teardown(void **state)
{
    store_case *c = *state;
    char command[64];
    zoe_context_free(c->ctx);
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    return system(command);
}

/* A path in the test's folder; good until the fourth call after. */
static inline const char *case_path(const store_case *c, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", c->folder, name);
    return p;
}

static inline const char *case_write(const store_case *c, const char *name, const void *bytes,
                                     size_t n)
{
    const char *path = case_path(c, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* A whole file; free it. */
static inline unsigned char *case_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *bytes = malloc(1 << 16);
    assert_non_null(bytes);
    *n = fread(bytes, 1, 1 << 16, f);
    assert_in_range(*n, 1, (1 << 16) - 1);
    fclose(f);
    return bytes;
}

/* A safetensors file of this header and n bytes 0, 1, 2, ... of data. */
static inline const char *case_safetensors(const store_case *c, const char *name,
                                           const char *header, size_t n)
{
    unsigned char bytes[4096];
    const size_t length = strlen(header);
    assert_in_range(length + n, 0, sizeof bytes - 8);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < n; i++)
        bytes[8 + length + i] = (unsigned char)i;
    return case_write(c, name, bytes, 8 + length + n);
}

/* Opening must end with this status and a sentence that holds every one of the words, which end
 * with NULL. */
static inline void case_refused(store_case *c, const char *path, zoe_status wanted,
                                const char *const *words)
{
    zoe_store *store;
    zoe_context_clear(c->ctx);
    const zoe_status status = zoe_store_open(c->ctx, &store, path, ZOE_NAMES_AS_STORED);
    const char *message = zoe_context_message(c->ctx);
    if (status != wanted)
        print_error("%s: %s\n", zoe_status_name(status), message);
    assert_int_equal(status, wanted);
    assert_null(store);
    for (; *words; words++) {
        if (!strstr(message, *words))
            print_error("\"%s\" is not in: %s\n", *words, message);
        assert_non_null(strstr(message, *words));
    }
}

#define REFUSED(c, path, status, ...)                                                              \
    case_refused(c, path, status, (const char *const[]){__VA_ARGS__, NULL})

static inline zoe_store *case_open(store_case *c, const char *path, zoe_names names)
{
    zoe_store *store;
    zoe_context_clear(c->ctx);
    if (zoe_store_open(c->ctx, &store, path, names) != ZOE_OK)
        print_error("%s\n", zoe_context_message(c->ctx));
    assert_non_null(store);
    return store;
}

/* Opens with the n-th allocation failing, for n = 1, 2, ... until it succeeds; each time the status
 * must be ZOE_NOMEM. */
static inline void case_without_memory(store_case *c, const char *path, zoe_names names)
{
    zoe_store *store;
    zoe_status status = ZOE_NOMEM;
    size_t n;
    for (n = 1; status == ZOE_NOMEM && n < 100000; n++) {
        zoe_context_clear(c->ctx);
        zoe_alloc_fail_at(n);
        status = zoe_store_open(c->ctx, &store, path, names);
        zoe_alloc_fail_at(0);
    }
    assert_int_equal(status, ZOE_OK);
    assert_in_range(n, 4, 100000);
    zoe_store_close(store);
}

#endif
