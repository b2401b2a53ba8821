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

/* What the codes mean, for people; ends with NULL. */
typedef struct zoe_exit_meaning {
    int code;
    const char *text;
} zoe_exit_meaning;
extern const zoe_exit_meaning zoe_exit_meanings[];

/* What may stand beside the options, for the completions of shells. */
typedef enum zoe_operands {
    ZOE_OPERANDS_FILES,
    ZOE_OPERANDS_COMMANDS, /* names of commands */
    ZOE_OPERANDS_WORDS,    /* operand_words */
    ZOE_OPERANDS_ACTION,   /* one of operand_words, what is to be done, then files */
    ZOE_OPERANDS_NONE
} zoe_operands;

typedef struct zoe_command {
    const char *name;
    const char *summary; /* one line, begins with a verb: "makes a video from ..." */
    const char *usage;   /* what follows "zoe NAME"; lines are alternatives */
    const char *text;    /* paragraphs after the options; NULL for none. A line that begins with two
                            blanks is shown as it stands */
    const char *examples; /* of the same form: what it does, and indented the command line */
    const zoe_option *rows;
    size_t n_rows;
    zoe_operands operands;
    const char *const *operand_words; /* ends with NULL */
    zoe_command_fn run;
    bool alone; /* refused as one of several processes of a launcher: it measures or writes */
} zoe_command;

extern const zoe_command zoe_generate_command;
extern const zoe_command zoe_sweep_command;
extern const zoe_command zoe_calibrate_command;
extern const zoe_command zoe_plan_command;
extern const zoe_command zoe_compare_command;
extern const zoe_command zoe_info_command;
extern const zoe_command zoe_convert_command;
extern const zoe_command zoe_doctor_command;
extern const zoe_command zoe_bench_command;
extern const zoe_command zoe_preview_fit_command;
extern const zoe_command zoe_op_command;
extern const zoe_command zoe_version_command;
extern const zoe_command zoe_completion_command;

/* All of them, in the order of the help text; ends with NULL. */
extern const zoe_command *const zoe_commands[];

/* NULL if there is none of that name. */
const zoe_command *zoe_command_find(const char *name);
/* Prints the command's help text to standard output. */
void zoe_command_help(const zoe_command *command);
/* Prints the page zoe(1) for man, about all commands, to standard output. */
void zoe_manual_print(void);
/* Is the option one that help, manual and completions show? */
bool zoe_option_shown(const zoe_option *row);

#endif
