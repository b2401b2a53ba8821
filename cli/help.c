/* The help text of a command. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

static void help_row(const zoe_option *row)
{
    enum { COLUMN = 28 };
    char left[80];
    const char *separator = row->value ? " " : "";
    const char *label = row->value ? row->value : "";
    if (row->letter)
        snprintf(left, sizeof left, "  -%c, --%s%s%s", row->letter, row->name, separator, label);
    else
        snprintf(left, sizeof left, "  --%s%s%s", row->name, separator, label);
    const char *text = row->help;
    if (strlen(left) >= COLUMN - 1)
        printf("%s\n%*s", left, COLUMN, "");
    else
        printf("%-*s", COLUMN, left);
    for (;;) {
        const size_t line = strcspn(text, "\n");
        printf("%.*s\n", (int)line, text);
        if (text[line] == '\0')
            break;
        text += line + 1;
        printf("%*s", COLUMN, "");
    }
}

static void help_rows(const zoe_option *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].type == ZOE_OPTION_GROUP)
            printf("\n%s\n", rows[i].help);
        else if (rows[i].help && rows[i].type != ZOE_OPTION_MUTE &&
                 rows[i].type != ZOE_OPTION_REFUSE)
            help_row(&rows[i]);
    }
}

static void help_usage(const zoe_command *command)
{
    const char *line = command->usage;
    do {
        const size_t length = strcspn(line, "\n");
        printf("    zoe %s%s%.*s\n", command->name, length ? " " : "", (int)length, line);
        line += length + (line[length] != '\0');
    } while (*line);
}

void zoe_command_help(const zoe_command *command)
{
    printf("zoe %s: %s.\n\n", command->name, command->summary);
    help_usage(command);
    help_rows(command->rows, command->n_rows);
    if (command->text)
        printf("\n%s", command->text);
}
