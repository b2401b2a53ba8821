/* Command lines by table: long options as "--name value" or "--name=value", "-x value", "--", and
 * operands. Names are compared with '-' and '_' as the same letter. The last mention of an option
 * counts; of a list, all of them do. A mistake is one sentence that names the option, what was
 * found and what is wanted. */
#ifndef ZOE_OPTIONS_H
#define ZOE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum zoe_option_type {
    ZOE_OPTION_GROUP, /* no option: a heading of the help text */
    ZOE_OPTION_FLAG,  /* bool, no value; but --name=false takes back what a file has set */
    ZOE_OPTION_TEXT,  /* const char * */
    ZOE_OPTION_LIST,  /* high const char *, one a mention, and in at2 a size_t: their number */
    ZOE_OPTION_COUNT, /* size_t, low..high */
    ZOE_OPTION_BYTES, /* size_t, at least low: 1000, 24G, 1.5GiB, 24GB; see zoe_bytes_read */
    ZOE_OPTION_WHOLE, /* int64_t, any */
    ZOE_OPTION_REAL,  /* double, low..high, finite */
    ZOE_OPTION_SIZE,  /* two size_t, 832x480 or with * or ×; sides from low, area to high */
    ZOE_OPTION_PAIR,  /* two double: A,B or one for both, low..high */
    ZOE_OPTION_REALS, /* double[ZOE_NUMBERS_MAX]: A,B,... from low to high; in at2 a size_t: how
                           many, 0 for "none" */
    ZOE_OPTION_RATE,  /* two int: 24, 23.976 or 24000/1001, reduced; low..high */
    ZOE_OPTION_WORD,  /* int: the index of the word, case ignored */
    ZOE_OPTION_ALIAS, /* another name of the option same_as */
    ZOE_OPTION_MUTE, /* accepted without meaning; takes a value if `value` is set, of words if any */
    ZOE_OPTION_REFUSE /* known, but not offered: help says why */
} zoe_option_type;

typedef struct zoe_option {
    zoe_option_type type;
    const char *name; /* without dashes */
    char letter;      /* or 0 */
    size_t at, at2;   /* offsetof into the target; at2 for types with two parts */
    double low, high;
    const char *const *words; /* ends with NULL */
    const char *same_as;
    const char *value; /* how the help text calls the value; of texts it also tells what completes
                          it: "FILE" and "PATH" by files, "DIR" by folders, others by nothing */
    const char *help;  /* NULL: not listed. MUTE: the note that goes with it */
    const char *more;  /* sentences that only the manual page adds; NULL for none */
} zoe_option;

enum { ZOE_OPTIONS_MAX = 100, ZOE_OPERANDS_MAX = 1024, ZOE_NUMBERS_MAX = 64 };

/* What a command line held. */
typedef struct zoe_options {
    bool given[ZOE_OPTIONS_MAX];    /* by row; aliases also mark the row that they stand for */
    size_t listed[ZOE_OPTIONS_MAX]; /* texts of a list so far, by row */
    size_t operands;
    const char *operand[ZOE_OPERANDS_MAX];
    char mistake[8192]; /* "" if there was none */
} zoe_options;

/* Reads argv[first..argc-1] into *target after the n rows (n <= ZOE_OPTIONS_MAX). `command` is
 * named where help is recommended. Stops early, as if the line ended there, after the flag named
 * "help". false: see found->mistake. */
bool zoe_options_parse(zoe_options *found, void *target, const zoe_option *rows, size_t n, int argc,
                       char **argv, int first, const char *command);

/* Row of an option's name, n if there is none. */
size_t zoe_options_find(const zoe_option *rows, size_t n, const char *name);
/* One option more, as if `--name=value` had stood on the line; of a flag, value is "true" or "false",
 * and of a name without a value it is not looked at. shown: how messages call it. *found is that of a
 * line before, or zeroed. false: see found->mistake. */
bool zoe_options_give(zoe_options *found, void *target, const zoe_option *rows, size_t n,
                      const char *name, const char *shown, const char *value);
/* How many letters are wrong (Levenshtein's distance); '-' and '_' are the same letter. At least 40:
 * far away. */
size_t zoe_name_distance(const char *name, const char *text);

/* Bytes from a text: a number, also with a fraction, and a unit in letters of either size: none or B
 * for bytes; K, M, G, T or KiB, MiB, GiB, TiB for powers of 1024; KB, MB, GB, TB for powers of 1000.
 * A part of a byte is dropped. false: it is no such text, or more than a size_t holds. */
bool zoe_bytes_read(size_t *bytes, const char *text);

#endif
