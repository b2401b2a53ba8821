/* zoe completion: scripts for shells that complete commands, options and their values. Made from
 * the same tables as the help. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

/* What completes the value of an option. */
typedef enum value_kind {
    VALUE_NONE,
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_WORD,
    VALUE_OTHER
} value_kind;

static value_kind kind_of(const zoe_option *row)
{
    if (row->type == ZOE_OPTION_FLAG)
        return VALUE_NONE;
    if (row->type == ZOE_OPTION_WORD)
        return VALUE_WORD;
    if ((row->type == ZOE_OPTION_TEXT || row->type == ZOE_OPTION_LIST) && row->value) {
        if (strcmp(row->value, "FILE") == 0 || strcmp(row->value, "PATH") == 0)
            return VALUE_FILE;
        if (strcmp(row->value, "DIR") == 0)
            return VALUE_FOLDER;
    }
    return VALUE_OTHER;
}

static void put_words(const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        printf("%s%s", i == 0 ? "" : " ", words[i]);
}

static void put_command_names(void)
{
    for (size_t i = 0; zoe_commands[i]; i++)
        printf("%s%s", i == 0 ? "" : " ", zoe_commands[i]->name);
}

/* The first clause of a help text between single quotes, in the notation of zsh, whose lists are
 * parted by colons and brackets, or of fish. A default at its end is left out. */
static void put_clause(const char *help, bool zsh)
{
    for (const char *c = help; *c && *c != ';' && !(*c == '[' && c > help); c++) {
        const bool blank = *c == ' ' || *c == '\n';
        if (blank && (c[1] == '[' || c[1] == '\0'))
            break;
        if (blank)
            putchar(' ');
        else if (*c == '\'')
            fputs(zsh ? "'\\''" : "\\'", stdout);
        else
            printf("%s%c", strchr(zsh ? ":[]\\" : "\\", *c) ? "\\" : "", *c);
    }
}

/* ---- bash ---- */

/* A branch of `case "$command $option"` for every option that takes a value; official names count
 * as the options that they stand for. */
static void bash_values(const zoe_command *command)
{
    for (size_t i = 0; i < command->n_rows; i++) {
        const zoe_option *row = &command->rows[i];
        if (!zoe_option_shown(row) || row->type == ZOE_OPTION_FLAG)
            continue;
        printf("    '%s --%s'", command->name, row->name);
        if (row->letter)
            printf(" | '%s -%c'", command->name, row->letter);
        for (size_t j = 0; j < command->n_rows; j++)
            if (command->rows[j].type == ZOE_OPTION_ALIAS &&
                strcmp(command->rows[j].same_as, row->name) == 0)
                printf(" | '%s --%s'", command->name, command->rows[j].name);
        fputs(") ", stdout);
        switch (kind_of(row)) {
        case VALUE_FILE: fputs("kind=file", stdout); break;
        case VALUE_FOLDER: fputs("kind=folder", stdout); break;
        case VALUE_WORD:
            fputs("kind=words words='", stdout);
            put_words(row->words);
            putchar('\'');
            break;
        case VALUE_NONE:
        case VALUE_OTHER: fputs("kind=other", stdout); break;
        }
        puts(" ;;");
    }
}

static void bash_options(const zoe_command *command)
{
    printf("        %s) words='", command->name);
    for (size_t i = 0; i < command->n_rows; i++)
        if (zoe_option_shown(&command->rows[i]))
            printf("%s--%s", i == 0 ? "" : " ", command->rows[i].name);
    puts("' ;;");
}

static void bash_operands(const zoe_command *command)
{
    printf("        %s) ", command->name);
    switch (command->operands) {
    case ZOE_OPERANDS_FILES: fputs("kind=file", stdout); break;
    case ZOE_OPERANDS_NONE: fputs("kind=other", stdout); break;
    case ZOE_OPERANDS_COMMANDS:
        fputs("kind=words words='", stdout);
        put_command_names();
        putchar('\'');
        break;
    case ZOE_OPERANDS_WORDS:
        fputs("kind=words words='", stdout);
        put_words(command->operand_words);
        putchar('\'');
        break;
    case ZOE_OPERANDS_ACTION:
        fputs("kind=file; [ \"$COMP_CWORD\" -gt 2 ] || { kind=words; words='", stdout);
        put_words(command->operand_words);
        fputs("'; }", stdout);
        break;
    }
    puts(" ;;");
}

static void print_bash(void)
{
    puts("# bash completion for zoe, made by `zoe completion bash`\n"
         "\n"
         "_zoe()\n"
         "{\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
         "    local option=${COMP_WORDS[COMP_CWORD - 1]} kind= words=\n"
         "    # bash makes three words of --name=value\n"
         "    if [ \"$current\" = '=' ]; then\n"
         "        current=\n"
         "    elif [ \"$option\" = '=' ] && [ \"$COMP_CWORD\" -gt 3 ]; then\n"
         "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "    fi\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "        kind=words");
    fputs("        words='", stdout);
    put_command_names();
    puts(" --help --version'\n"
         "    fi\n"
         "    [ -n \"$kind\" ] || case \"$command $option\" in");
    for (size_t i = 0; zoe_commands[i]; i++)
        bash_values(zoe_commands[i]);
    puts("    esac\n"
         "    if [ -z \"$kind\" ] && [ \"${current:0:1}\" = '-' ]; then\n"
         "        kind=words\n"
         "        case $command in");
    for (size_t i = 0; zoe_commands[i]; i++)
        bash_options(zoe_commands[i]);
    puts("        esac\n"
         "    fi\n"
         "    if [ -z \"$kind\" ]; then\n"
         "        kind=other\n"
         "        case $command in");
    for (size_t i = 0; zoe_commands[i]; i++)
        bash_operands(zoe_commands[i]);
    puts("        esac\n"
         "    fi\n"
         "    case $kind in\n"
         "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
         "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
         "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
         "    esac\n"
         "    case $kind in\n"
         "    file | folder) compopt -o filenames 2>/dev/null ;;\n"
         "    *) compopt +o default 2>/dev/null ;;\n"
         "    esac\n"
         "    return 0\n"
         "}\n"
         "complete -o default -F _zoe zoe");
}

/* ---- zsh ---- */

static void zsh_action(const zoe_option *row)
{
    switch (kind_of(row)) {
    case VALUE_NONE: return;
    case VALUE_FILE: printf(":%s:_files", row->value); return;
    case VALUE_FOLDER: printf(":%s:_files -/", row->value); return;
    case VALUE_WORD:
        printf(":%s:(", row->value);
        put_words(row->words);
        putchar(')');
        return;
    case VALUE_OTHER: printf(":%s: ", row->value ? row->value : "VALUE"); return;
    }
}

static void zsh_option(const zoe_option *row)
{
    const char *joint = row->type == ZOE_OPTION_FLAG ? "" : "=";
    fputs("            ", stdout);
    if (row->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'", row->letter, row->name, row->letter,
               *joint ? "+" : "", row->name, joint);
    else
        printf("'--%s%s", row->name, joint);
    putchar('[');
    put_clause(row->help, true);
    putchar(']');
    zsh_action(row);
    puts("' \\");
}

static void zsh_command(const zoe_command *command)
{
    printf("    %s)\n        _arguments -s \\\n", command->name);
    for (size_t i = 0; i < command->n_rows; i++)
        if (zoe_option_shown(&command->rows[i]))
            zsh_option(&command->rows[i]);
    switch (command->operands) {
    case ZOE_OPERANDS_FILES: puts("            '*:FILE:_files'"); break;
    case ZOE_OPERANDS_NONE: puts("            '*: : '"); break;
    case ZOE_OPERANDS_COMMANDS:
        fputs("            '1:COMMAND:(", stdout);
        put_command_names();
        puts(")'");
        break;
    case ZOE_OPERANDS_WORDS:
        fputs("            '1:WORD:(", stdout);
        put_words(command->operand_words);
        puts(")'");
        break;
    case ZOE_OPERANDS_ACTION:
        fputs("            '1:ACTION:(", stdout);
        put_words(command->operand_words);
        puts(")' \\\n            '*:FILE:_files'");
        break;
    }
    puts("        ;;");
}

static void print_zsh(void)
{
    puts("#compdef zoe\n"
         "# zsh completion for zoe, made by `zoe completion zsh`\n"
         "\n"
         "_zoe()\n"
         "{\n"
         "    local -a commands\n"
         "    if (( CURRENT == 2 )); then\n"
         "        commands=(");
    for (size_t i = 0; zoe_commands[i]; i++) {
        printf("            '%s:", zoe_commands[i]->name);
        put_clause(zoe_commands[i]->summary, true);
        puts("'");
    }
    puts("        )\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $command in");
    for (size_t i = 0; zoe_commands[i]; i++)
        zsh_command(zoe_commands[i]);
    puts("    esac\n"
         "}\n"
         "\n"
         "# As a file in fpath it is called; from `source <(zoe completion zsh)` it registers "
         "itself.\n"
         "if [[ $funcstack[1] == _zoe ]]; then\n"
         "    _zoe \"$@\"\n"
         "else\n"
         "    compdef _zoe zoe\n"
         "fi");
}

/* ---- fish ---- */

static void fish_option(const zoe_command *command, const zoe_option *row)
{
    printf("complete -c zoe -n '__fish_seen_subcommand_from %s' -l %s", command->name, row->name);
    if (row->letter)
        printf(" -s %c", row->letter);
    switch (kind_of(row)) {
    case VALUE_NONE: break;
    case VALUE_FILE: fputs(" -r -F", stdout); break;
    case VALUE_FOLDER: fputs(" -x -a '(__fish_complete_directories)'", stdout); break;
    case VALUE_OTHER: fputs(" -x", stdout); break;
    case VALUE_WORD:
        fputs(" -x -a '", stdout);
        put_words(row->words);
        putchar('\'');
        break;
    }
    fputs(" -d '", stdout);
    put_clause(row->help, false);
    puts("'");
}

static void fish_operands(const zoe_command *command)
{
    if (command->operands == ZOE_OPERANDS_NONE)
        return;
    if (command->operands == ZOE_OPERANDS_ACTION) {
        printf(
            "complete -c zoe -n '__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from ",
            command->name);
        put_words(command->operand_words);
        printf("' -F\ncomplete -c zoe -n '__fish_seen_subcommand_from %s; and not "
               "__fish_seen_subcommand_from ",
               command->name);
        put_words(command->operand_words);
        putchar('\'');
    } else {
        printf("complete -c zoe -n '__fish_seen_subcommand_from %s'", command->name);
    }
    if (command->operands == ZOE_OPERANDS_FILES) {
        puts(" -F");
        return;
    }
    fputs(" -a '", stdout);
    if (command->operands == ZOE_OPERANDS_COMMANDS)
        put_command_names();
    else
        put_words(command->operand_words);
    puts("'");
}

static void print_fish(void)
{
    puts("# fish completion for zoe, made by `zoe completion fish`\n"
         "\n"
         "complete -c zoe -f");
    for (size_t i = 0; zoe_commands[i]; i++) {
        printf("complete -c zoe -n __fish_use_subcommand -a %s -d '", zoe_commands[i]->name);
        put_clause(zoe_commands[i]->summary, false);
        puts("'");
    }
    for (size_t i = 0; zoe_commands[i]; i++) {
        const zoe_command *command = zoe_commands[i];
        for (size_t j = 0; j < command->n_rows; j++)
            if (zoe_option_shown(&command->rows[j]))
                fish_option(command, &command->rows[j]);
        fish_operands(command);
    }
}

/* ---- the command ---- */

typedef struct completion_request {
    bool help;
} completion_request;

static const zoe_option rows[] = {
    {ZOE_OPTION_FLAG, "help", 'h', .at = offsetof(completion_request, help),
     .help = "print this text"},
};

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static int run(int argc, char **argv)
{
    static void (*const print[])(void) = {print_bash, print_zsh, print_fish};
    completion_request request = {0};
    zoe_options found;
    int code;
    if (!zoe_command_read(&zoe_completion_command, &found, &request, &request.help, argc, argv,
                          &code))
        return code;
    for (size_t i = 0; found.operands == 1 && shells[i]; i++)
        if (strcmp(found.operand[0], shells[i]) == 0) {
            print[i]();
            return ZOE_EXIT_DONE;
        }
    return zoe_refuse(ZOE_EXIT_USAGE, "INVALID",
                      "%s: wanted is the name of one shell: bash, zsh or fish",
                      found.operands ? found.operand[found.operands - 1] : "zoe completion");
}

static const char examples[] =
    "For this session of bash:\n"
    "  source <(zoe completion bash)\n"
    "For all sessions of bash, zsh or fish, where the installation did not do it:\n"
    "  zoe completion bash >~/.local/share/bash-completion/completions/zoe\n"
    "  zoe completion zsh >~/.zfunc/_zoe    # a folder in fpath\n"
    "  zoe completion fish >~/.config/fish/completions/zoe.fish\n";

const zoe_command zoe_completion_command = {
    .name = "completion",
    .summary = "prints a script with which a shell completes zoe's options",
    .usage = "bash|zsh|fish",
    .examples = examples,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .operands = ZOE_OPERANDS_WORDS,
    .operand_words = shells,
    .run = run,
};
