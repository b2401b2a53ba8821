/* The sub-commands of `zoe`, one file each. Each gets argv from its own name on and returns the
 * program's exit code. */
#ifndef ZOE_COMMANDS_H
#define ZOE_COMMANDS_H

enum {
    ZOE_EXIT_DONE = 0,
    ZOE_EXIT_FAILED = 1, /* the run failed, or an output could not be written */
    ZOE_EXIT_USAGE = 2,  /* the command line asks for something illegal */
    ZOE_EXIT_INPUT = 3,  /* a model or input file is missing or unfit */
    ZOE_EXIT_MEMORY = 4, /* memory ran out */
    ZOE_EXIT_INTERRUPTED = 130
};

int zoe_generate_main(int argc, char **argv);
int zoe_version_main(int argc, char **argv);

#endif
