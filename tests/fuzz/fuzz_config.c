/* Fuzz target: config.json, with every kind of question that is asked of one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK && zoe_context_message(ctx)[0] == '\0')
        abort(); /* refused without a reason */
}

static void ask(zoe_context *ctx, const zoe_config *config)
{
    static const char *const keys[] = {"dim", "eps", "model_type", ""};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t value = 7;
        double real = 0, reals[6] = {0};
        check(ctx, zoe_config_size(ctx, config, keys[i], 1, 4096, &value));
        if (value < 1 || value > 4096)
            abort();
        zoe_context_clear(ctx);
        check(ctx, zoe_config_real(ctx, config, keys[i], &real));
        zoe_context_clear(ctx);
        check(ctx, zoe_config_reals(ctx, config, keys[i], reals, 1, 3));
        zoe_context_clear(ctx);
        check(ctx, zoe_config_reals(ctx, config, keys[i], reals, 2, 3));
        zoe_context_clear(ctx);
        const char *text = zoe_config_text(config, keys[i]);
        if (text && strlen(text) > 1u << 20)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    zoe_config *config;
    zoe_context *ctx = zoe_context_new(1);
    if (fd < 0)
        fd = memfd_create("config", MFD_CLOEXEC);
    if (!ctx || fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
        pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const zoe_status status = zoe_config_open(ctx, &config, path);
    check(ctx, status);
    if (status == ZOE_OK)
        ask(ctx, config);
    zoe_config_close(config);
    zoe_context_free(ctx);
    return 0;
}
