/* The sub-commands of `zoe`, one file each. What a command says of itself here is what its help,
 * its manual page and the completions of the shells are made of. */
#ifndef ZOE_COMMANDS_H
#define ZOE_COMMANDS_H

#include "options.h"

enum {
    ZOE_EXIT_DONE = 0,
    ZOE_EXIT_FAILED = 1, /* the run failed, or an output could not be written */
    ZOE_EXIT_USAGE = 2,  /* the command line asks for something illegal */
    ZOE_EXIT_INPUT = 3,  /* a model or input file is missing or unfit */
    ZOE_EXIT_MEMORY = 4, /* memory ran out */
    ZOE_EXIT_INTERRUPTED = 130
};

/* Gets argv from the command's own name on; returns the program's exit code. */
typedef int (*zoe_command_fn)(int argc, char **argv);

typedef struct zoe_command {
    const char *name;
    const char *summary; /* one line, begins with a verb: "makes a video from ..." */
    const char *usage;   /* what follows "zoe NAME"; lines are alternatives */
    const char *text;    /* paragraphs and examples after the options; NULL for none. A paragraph
                            that begins with two blanks is shown as it stands */
    const zoe_option *rows;
    size_t n_rows;
    zoe_command_fn run;
} zoe_command;

extern const zoe_command zoe_generate_command;
extern const zoe_command zoe_version_command;

/* All of them, in the order of the help text; ends with NULL. */
extern const zoe_command *const zoe_commands[];

/* Prints the command's help text to standard output. */
void zoe_command_help(const zoe_command *command);

#endif
