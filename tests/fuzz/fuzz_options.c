/* Fuzz target: command lines. The first byte chooses the command; the rest are its arguments, each
 * ended by a NUL. The tables of all commands are read, and the request of `zoe generate` is checked
 * as far as that touches no file. */
#define _GNU_SOURCE /* strcasestr */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "request.h"
#include "zoetrope/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS = 64, TARGET = 1 << 14 };

typedef struct line {
    int argc;
    char *argv[ARGUMENTS + 2];
    char *text;
} line;

static void split(line *l, const char *name, const uint8_t *data, size_t size)
{
    static char command[32];
    strncpy(command, name, sizeof command - 1);
    l->argv[0] = command;
    l->argc = 1;
    l->text = malloc(size + 1);
    if (!l->text)
        abort();
    memcpy(l->text, data, size);
    l->text[size] = '\0';
    for (size_t at = 0; at < size && l->argc <= ARGUMENTS; at += strlen(l->text + at) + 1)
        l->argv[l->argc++] = l->text + at;
    l->argv[l->argc] = NULL;
}

static void parse_table(const zoe_command *command, const line *l)
{
    static zoe_options found;
    void *target = calloc(1, TARGET);
    if (!target)
        abort();
    const bool good = zoe_options_parse(&found, target, command->rows, command->n_rows, l->argc,
                                        (char **)(uintptr_t)l->argv, 1, "zoe");
    if (good ? found.mistake[0] != '\0' : found.mistake[0] == '\0')
        abort();
    if (good && found.operands > (size_t)l->argc)
        abort();
    free(target);
}

/* Files are not opened, nor made: lines that name a log, a config, a checkpoint or a record are left
 * out. */
static void complete_request(line *l)
{
    static zoe_request request;
    for (int i = 1; i < l->argc; i++)
        if (strcasestr(l->argv[i], "log") || strcasestr(l->argv[i], "config"))
            return;
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        abort();
    const int code = zoe_request_parse(&request, l->argc, l->argv);
    if (code == ZOE_EXIT_DONE && !request.help && !request.resume && !request.from &&
        zoe_request_complete(ctx, &request, l->argc, l->argv) == ZOE_EXIT_DONE &&
        (!request.job.prompt || !request.job.image))
        abort();
    zoe_request_free(&request);
    zoe_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t commands = 0;
    line l;
    if (size == 0)
        return 0;
    while (zoe_commands[commands])
        commands++;
    const zoe_command *command = zoe_commands[data[0] % commands];
    split(&l, command->name, data + 1, size - 1);
    parse_table(command, &l);
    if (command == &zoe_generate_command)
        complete_request(&l);
    free(l.text);
    return 0;
}
