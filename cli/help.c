/* The help text of a command. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

const zoe_exit_meaning zoe_exit_meanings[] = {
    {ZOE_EXIT_DONE, "done"},
    {ZOE_EXIT_FAILED, "the run failed"},
    {ZOE_EXIT_USAGE, "the command line is wrong, or an output cannot be where it says"},
    {ZOE_EXIT_INPUT, "a model or input file is missing or unfit"},
    {ZOE_EXIT_MEMORY, "memory ran out, or a plan does not fit"},
    {ZOE_EXIT_INTERRUPTED, "interrupted"},
    {0, NULL},
};

bool zoe_option_shown(const zoe_option *row)
{
    return row->type != ZOE_OPTION_GROUP && row->type != ZOE_OPTION_MUTE &&
           row->type != ZOE_OPTION_REFUSE && row->help;
}

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
        else if (zoe_option_shown(&rows[i]))
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

/* Every line of a text, indented. */
static void help_text(const char *text, const char *indent)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        printf("%s%.*s\n", length ? indent : "", (int)length, text);
        text += length + (text[length] != '\0');
    }
}

/* One paragraph, broken between words. */
static void help_exit_codes(void)
{
    enum { WIDTH = 88 };
    char text[512];
    size_t used = 0;
    for (size_t i = 0; zoe_exit_meanings[i].text && used < sizeof text; i++) {
        const zoe_exit_meaning *m = &zoe_exit_meanings[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d %s",
                                 i == 0 ? "Exit codes: " : "; ", m->code, m->text);
    }
    size_t column = 0;
    for (const char *word = text; *word;) {
        const size_t blank = *word == ' ', length = blank + strcspn(word + blank, " ");
        if (column + length > WIDTH) {
            printf("\n%.*s", (int)(length - blank), word + blank);
            column = length - blank;
        } else {
            printf("%.*s", (int)length, word);
            column += length;
        }
        word += length;
    }
    puts(".");
}

void zoe_command_help(const zoe_command *command)
{
    printf("zoe %s: %s.\n\n", command->name, command->summary);
    help_usage(command);
    if (command->n_rows > 0 && command->rows[0].type != ZOE_OPTION_GROUP)
        putchar('\n');
    help_rows(command->rows, command->n_rows);
    if (command->text) {
        putchar('\n');
        help_text(command->text, "");
    }
    if (command->examples) {
        puts("\nExamples");
        help_text(command->examples, "  ");
    }
    if (command->n_rows > 0) {
        putchar('\n');
        help_exit_codes();
    }
}
