/* zoe(1), in the language of man: made from what the commands say of themselves, and from the
 * sections below. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "message.h"

/* ---- letters and lines ---- */

/* One character; returns its bytes. What troff would take for itself is written by name. */
static size_t put_character(const char *text)
{
    static const struct {
        const char *bytes, *roff;
    } names[] = {
        {"\\", "\\e"},  {"-", "\\-"},   {"'", "\\(aq"},        {"`", "\\(ga"},
        {"^", "\\(ha"}, {"~", "\\(ti"}, {"\xc3\x97", "\\(mu"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i].bytes);
        if (strncmp(text, names[i].bytes, length) == 0) {
            fputs(names[i].roff, stdout);
            return length;
        }
    }
    putchar(*text);
    return 1;
}

static void put_characters(const char *text, size_t n)
{
    for (size_t i = 0; i < n;)
        i += put_character(text + i);
}

/* A word of running text; options stand out. */
static void put_word(const char *word, size_t n)
{
    size_t begin = 0, end = n;
    while (begin < n && strchr("([\"", word[begin]))
        begin++;
    while (end > begin && strchr(".,;:)]\"?", word[end - 1]))
        end--;
    const bool option = end > begin + 1 && word[begin] == '-' &&
                        (word[begin + 1] == '-' || isalpha((unsigned char)word[begin + 1]));
    put_characters(word, begin);
    if (option)
        fputs("\\fB", stdout);
    put_characters(word + begin, end - begin);
    if (option)
        fputs("\\fR", stdout);
    put_characters(word + end, n - end);
}

/* Words of a line of running text. Blanks within are kept as they are. */
static void put_line(const char *line, size_t n)
{
    if (n > 0 && (line[0] == '.' || line[0] == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < n;) {
        size_t length = 0;
        while (i + length < n && line[i + length] != ' ')
            length++;
        put_word(line + i, length);
        for (i += length; i < n && line[i] == ' '; i++)
            putchar(' ');
    }
    putchar('\n');
}

static void put_verbatim(const char *line, size_t n)
{
    if (n > 0 && (line[0] == '.' || line[0] == '\''))
        fputs("\\&", stdout);
    put_characters(line, n);
    putchar('\n');
}

/* Paragraphs; lines that begin with two blanks stand as they are. `first`: after a heading, where
 * no paragraph is to be begun. */
static void put_text(const char *text, bool first)
{
    bool begin = !first, verbatim = false;
    while (*text) {
        const size_t n = strcspn(text, "\n");
        const bool indented = strncmp(text, "  ", 2) == 0;
        if (verbatim && !indented) {
            puts(".fi\n.RE");
            verbatim = false;
            begin = true;
        }
        if (n == 0) {
            begin = true;
        } else if (indented) {
            if (!verbatim)
                puts(".RS 4\n.nf");
            verbatim = true;
            put_verbatim(text + 2, n - 2);
        } else {
            if (begin)
                puts(".PP");
            begin = false;
            put_line(text, n);
        }
        text += n + (text[n] != '\0');
    }
    if (verbatim)
        puts(".fi\n.RE");
}

/* A phrase of the help as a sentence. Its first word gets a capital if it is one, and no name. */
static void put_phrase(const char *phrase, bool capital)
{
    char text[512];
    const size_t n = strlen(phrase), word = strspn(phrase, "abcdefghijklmnopqrstuvwxyz");
    snprintf(text, sizeof text, "%s%s", phrase, n > 0 && phrase[n - 1] == '.' ? "" : ".");
    if (capital && word > 0 && (phrase[word] == '\0' || strchr(" \n,;:'", phrase[word])))
        text[0] = (char)toupper((unsigned char)text[0]);
    put_text(text, true);
}

/* ---- options ---- */

/* Does the help begin with a word that is typed so? */
static bool begins_with_word(const zoe_option *row)
{
    for (size_t i = 0; row->type == ZOE_OPTION_WORD && row->words[i]; i++)
        if (strncmp(row->help, row->words[i], strlen(row->words[i])) == 0)
            return true;
    return false;
}

static void put_option(const zoe_option *row)
{
    fputs(".TP\n", stdout);
    if (row->letter)
        printf("\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", stdout);
    put_characters(row->name, strlen(row->name));
    fputs("\\fR", stdout);
    if (row->value) {
        fputs(" \\fI", stdout);
        put_characters(row->value, strlen(row->value));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_phrase(row->help, !begins_with_word(row));
    if (row->more)
        put_line(row->more, strlen(row->more));
}

static void put_options(const zoe_command *command)
{
    for (size_t i = 0; i < command->n_rows; i++) {
        const zoe_option *row = &command->rows[i];
        if (row->type == ZOE_OPTION_GROUP) {
            fputs(".PP\n\\fI", stdout);
            put_characters(row->help, strlen(row->help));
            puts("\\fR");
        } else if (zoe_option_shown(row)) {
            put_option(row);
        }
    }
}

/* ---- commands ---- */

/* "--model DIR [options]": options stand out, so do values. */
static void put_usage_line(const char *name, const char *line, size_t n)
{
    printf("\\fBzoe ");
    put_characters(name, strlen(name));
    fputs("\\fR", stdout);
    for (size_t i = 0; i < n;) {
        size_t length = 0;
        while (i + length < n && line[i + length] != ' ')
            length++;
        const char *letter = line + i + strspn(line + i, "[(");
        const bool value = isupper((unsigned char)*letter);
        fputs(value ? " \\fI" : line[i] == '-' ? " \\fB" : " ", stdout);
        put_characters(line + i, length);
        if (value || line[i] == '-')
            fputs("\\fR", stdout);
        for (i += length; i < n && line[i] == ' ';)
            i++;
    }
    putchar('\n');
}

static void put_usage(const zoe_command *command, bool first)
{
    const char *line = command->usage;
    do {
        const size_t n = strcspn(line, "\n");
        if (!first)
            puts(".br");
        first = false;
        put_usage_line(command->name, line, n);
        line += n + (line[n] != '\0');
    } while (*line);
}

static void put_command(const zoe_command *command)
{
    fputs(".SS zoe ", stdout);
    put_characters(command->name, strlen(command->name));
    putchar('\n');
    put_phrase(command->summary, true);
    put_options(command);
    if (command->text)
        put_text(command->text, false);
}

/* ---- what belongs to no single command ---- */

typedef struct item {
    const char *term, *text;
} item;

static void put_items(const item *items)
{
    for (; items->term; items++) {
        fputs(".TP\n\\fB", stdout);
        put_characters(items->term, strlen(items->term));
        puts("\\fR");
        put_text(items->text, true);
    }
}

static const char description[] =
    "zoe runs image-to-video models of the Wan 2.2 A14B kind on the CPU. It reads the official\n"
    "checkpoint, or that of diffusers, from disk as it stands, and writes a video that begins "
    "with\n"
    "the given picture and does what the prompt says.\n"
    "\n"
    "Everything is checked before the work begins: options first, then the headers of the model's\n"
    "files, the picture and the outputs. The plan is printed: sizes, steps, memory. The same "
    "request\n"
    "gives the same bytes, for any number of threads, interrupted or not.\n"
    "\n"
    "Options are written --name value or --name=value; the last mention of an option counts. In\n"
    "names, - and _ are the same. A value that itself begins with -- needs the form with =. After "
    "a\n"
    "lone --, everything is an operand. Numbers are written with a point, whatever the locale.\n";

static const char progress_text[] =
    "With --progress json, each line on standard error is a JSON object with a member event. Its\n"
    "values are listed below with the other members, in the order in which they come. Members may\n"
    "be added without notice; schema grows when one changes its meaning or goes away.\n";

static const item progress_items[] = {
    {"begin", "The first line. schema, 1; version, that of the program.\n"},
    {"plan",
     "What the run will be. model and task (texts); picture_width, picture_height; width,\n"
     "height, frames, fps (a text: 16 or 24000/1001) of the video; latent_frames,\n"
     "latent_height, latent_width; tokens;\n"
     "prompt_tokens, negative_tokens; high_steps, low_steps; passes; steps_done, by an\n"
     "earlier run; text_bytes, encode_bytes, steps_bytes, decode_bytes, peak_bytes; text_layers,\n"
     "text_resident, layers, resident (of the text encoder and the transformer: if fewer are\n"
     "resident, the others are streamed); threads; ranks, cfg_ranks, ulysses, ring, vae_ranks "
     "(how\n"
     "many processes share the work and how; bytes and threads are those of the first one);\n"
     "host_ranks and host_peak_bytes: those on the host of the first one, and what they hold\n"
     "together; seed.\n"},
    {"progress",
     "At the beginning of a phase and after each unit of it. phase: text, encode, steps, decode,\n"
     "in this order; done and total, units of it; seconds since the phase began; eta, seconds\n"
     "until it ends, null while unknown. A run that goes on begins a phase with what was done\n"
     "before, and leaves out phases that are whole.\n"},
    {"checkpoint", "A step is kept. path, that of --checkpoint or --resume; steps, kept in all.\n"},
    {"preview",
     "The file of --preview is new. step, the number of the step that was done, from 0; path;\n"
     "width, height.\n"},
    {"note, warning", "message, a sentence. At any time.\n"},
    {"cache", "What --cache did, once, before done. high_computed, high_skipped, low_computed,\n"
              "low_skipped, steps of each expert in this run; smallest_distance, median_distance,\n"
              "largest_distance of what it measured, null if it measured nothing.\n"},
    {"done",
     "The last line of a run that succeeded. out, frames_out, latents_out, report, trace, null if\n"
     "not asked for; width, height, frames, seed; seconds; text_seconds, encode_seconds,\n"
     "steps_seconds, decode_seconds.\n"},
    {"error", "The last line of a run that failed. code, such as MISSING; exit, the exit status; "
              "message.\n"},
    {NULL, NULL},
};

static const item files[] = {
    {"NAME.RANDOM.part",
     "An output that is being written, beside its place. It gets its name when it is complete. A\n"
     "program that was killed may leave it behind.\n"},
    {".zoe-RANDOM.part", "The same for --frames-out: a folder in DIR.\n"},
    {NULL, NULL},
};

static const item environment[] = {
    {"ZOE_CPU", "c, avx2 or avx512: use no instruction set beyond this.\n"},
    {"ZOE_PYTHON", "The python that zoe bench --compare torch runs; else python3.\n"},
    {"TERM", "A terminal called dumb, or none at all, gets plain lines.\n"},
    {NULL, NULL},
};

static const char signals[] =
    "SIGINT, SIGTERM and SIGHUP end the run soon and remove what was half made; what --checkpoint\n"
    "keeps stays. A second one ends it at once, removes the files that are being written, but may\n"
    "leave the hidden folder of --frames-out. A signal that is ignored when the program starts "
    "stays\n"
    "ignored.\n";

static void put_exit_status(void)
{
    for (const zoe_exit_meaning *m = zoe_exit_meanings; m->text; m++) {
        printf(".TP\n\\fB%d\\fR\n", m->code);
        put_phrase(m->text, true);
    }
}

void zoe_manual_print(void)
{
    puts(".TH ZOE 1 \"\" \"zoetrope " ZOE_VERSION "\" \"User Commands\"\n"
         ".nh\n"
         ".ad l\n"
         ".SH NAME\n"
         "zoe \\- turns a picture and a prompt into a video\n"
         ".SH SYNOPSIS");
    for (size_t i = 0; zoe_commands[i]; i++)
        put_usage(zoe_commands[i], i == 0);
    puts(".SH DESCRIPTION");
    put_text(description, true);
    puts(".SH COMMANDS");
    for (size_t i = 0; zoe_commands[i]; i++)
        put_command(zoe_commands[i]);
    puts(".SH PROGRESS FOR PROGRAMS");
    put_text(progress_text, true);
    put_items(progress_items);
    puts(".SH EXIT STATUS");
    put_exit_status();
    puts(".SH SIGNALS");
    put_text(signals, true);
    puts(".SH FILES");
    put_items(files);
    puts(".SH ENVIRONMENT");
    put_items(environment);
    puts(".SH EXAMPLES");
    bool first = true;
    for (size_t i = 0; zoe_commands[i]; i++) {
        if (zoe_commands[i]->examples)
            put_text(zoe_commands[i]->examples, first);
        first = first && !zoe_commands[i]->examples;
    }
}
