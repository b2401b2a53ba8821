/* zoe version: what this program was built with and what it runs on. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <png.h>

#include "base/base.h"
#include "commands.h"
#include "message.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

static void print_library(const char *name, unsigned version)
{
    printf("  %-12s %u.%u.%u\n", name, version >> 16, version >> 8 & 0xffu, version & 0xffu);
}

static int run(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: zoe version takes no argument", argv[1]);
    printf("zoe %s\n", ZOE_VERSION);
    printf("  %-12s %s\n", "compiler", COMPILER);
    printf("  %-12s %s, %d threads\n", "cpu", zoe_isa_name(zoe_cpu_isa()), zoe_cpu_threads());
    print_library("libavformat", avformat_version());
    print_library("libavcodec", avcodec_version());
    print_library("libavutil", avutil_version());
    printf("  %-12s %s\n", "libpng", png_get_libpng_ver(NULL));
    printf("  %-12s %s\n", "jansson", jansson_version_str());
    return ZOE_EXIT_DONE;
}

const zoe_command zoe_version_command = {
    .name = "version",
    .summary = "what this program was built with",
    .usage = "",
    .operands = ZOE_OPERANDS_NONE,
    .run = run,
};
