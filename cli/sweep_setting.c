/* What a sweep tries. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"
#include "sweep.h"

static int no_memory(void)
{
    return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
}

static int refuse(const char *text, const char *what)
{
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "setting \"%s\": %s", text,
                      what);
}

/* ---- words, as a shell takes them ---- */

/* The next word of *text to *out, which ends with a zero and moves on. Blanks divide; quotes of both
 * kinds and backslashes keep them. False: a quote has no end. */
static bool take_word(const char **text, char **out)
{
    char quote = 0;
    for (; **text && (quote || !strchr(" \t", **text)); ++*text) {
        const char c = **text;
        if (c == quote)
            quote = 0;
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
        else if (c == '\\' && quote != '\'' && (*text)[1])
            *(*out)++ = *++*text;
        else
            *(*out)++ = c;
    }
    *(*out)++ = '\0';
    return quote == 0;
}

enum { STEPS_WORD = 32 };

/* A step list brings its number and its solver along, whatever the request says of them. Before the
 * setting's own words, so that what contradicts there is refused. `word` has room for one. */
static int add_implied(const zoe_sweep *sweep, zoe_setting *setting, char *word)
{
    static char solver[] = "--solver=euler";
    const zoe_command *command = &zoe_generate_command;
    const size_t first = sweep->n_request + 1, n = (size_t)setting->argc - first;
    zoe_request *own = calloc(1, sizeof *own);
    if (!own)
        return no_memory();
    if (zoe_options_parse(&own->found, own, command->rows, command->n_rows, setting->argc,
                          setting->argv, (int)first, "zoe generate") &&
        own->job.step_list_count > 0) {
        char **at = setting->argv + first;
        memmove(at + 2, at, n * sizeof *at);
        snprintf(word, STEPS_WORD, "--steps=%zu", own->job.step_list_count);
        at[0] = solver;
        at[1] = word;
        setting->argc += 2;
    }
    free(own);
    return ZOE_EXIT_DONE;
}

/* options to words, after those of the request. */
static int split(const zoe_sweep *sweep, zoe_setting *setting)
{
    const char *in = setting->options;
    const size_t room = strlen(in) + 1;
    /* A word takes two characters of the text at least, but for the last. */
    setting->words = malloc(room + 1 + STEPS_WORD);
    setting->argv = calloc(sweep->n_request + room / 2 + 5, sizeof *setting->argv);
    if (!setting->words || !setting->argv)
        return no_memory();
    static char command[] = "generate";
    char *out = setting->words;
    setting->argv[setting->argc++] = command;
    for (size_t i = 0; i < sweep->n_request; i++)
        setting->argv[setting->argc++] = (char *)(uintptr_t)sweep->request[i]; /* only read */
    for (in += strspn(in, " \t"); *in; in += strspn(in, " \t")) {
        setting->argv[setting->argc++] = out;
        if (!take_word(&in, &out))
            return refuse(setting->name, "a quote without its end");
    }
    return add_implied(sweep, setting, out);
}

/* ---- the list ---- */

static char *copy_of(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

static int add(zoe_sweep *sweep, const char *name, size_t n_name, const char *options,
               bool optional)
{
    if (sweep->n == ZOE_SWEEP_SETTINGS)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "too many settings, at most %d are tried, that of the request included",
                          ZOE_SWEEP_SETTINGS);
    zoe_setting *s = &sweep->settings[sweep->n++];
    *s = (zoe_setting){.optional = optional};
    s->name = copy_of(name, n_name);
    s->options = copy_of(options, strlen(options));
    if (!s->name || !s->options)
        return no_memory();
    for (size_t i = 0; i + 1 < sweep->n; i++)
        if (strcmp(sweep->settings[i].name, s->name) == 0)
            return refuse(s->name, "there are two of this name");
    return split(sweep, s);
}

/* "NAME: options", or options alone, which are their own name. */
static int add_text(zoe_sweep *sweep, const char *text)
{
    text += strspn(text, " \t");
    if (text[0] == '-')
        return add(sweep, text, strlen(text), text, false);
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    while (n > 0 && strchr(" \t", text[n - 1]))
        n--;
    if (n == 0)
        return refuse(text, "\"NAME: options of zoe generate\" is wanted");
    return add(sweep, text, n, colon + 1, false);
}

static int add_file(zoe_sweep *sweep)
{
    enum { LIMIT = 1 << 20 };
    char *text;
    size_t size;
    const zoe_status status = zoe_file_read(sweep->ctx, &text, &size, sweep->file, LIMIT);
    if (status != ZOE_OK)
        return zoe_refuse(ZOE_EXIT_INPUT, zoe_status_name(status), "%s",
                          zoe_context_message(sweep->ctx));
    const size_t before = sweep->n;
    int code = ZOE_EXIT_DONE;
    if (strlen(text) != size)
        code = zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: a zero byte at %zu; a text is wanted", sweep->file, strlen(text));
    char *rest = NULL, *begin = text;
    if (strncmp(begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3; /* a byte order mark */
    for (char *line = strtok_r(begin, "\r\n", &rest); line && code == ZOE_EXIT_DONE;
         line = strtok_r(NULL, "\r\n", &rest)) {
        line += strspn(line, " \t");
        if (*line && *line != '#')
            code = add_text(sweep, line);
    }
    if (code == ZOE_EXIT_DONE && sweep->n == before)
        code = zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s: no setting in it",
                          sweep->file);
    zoe_free(text);
    return code;
}

int zoe_sweep_list(zoe_sweep *sweep)
{
    static const char name[] = "uncached";
    sweep->settings = calloc(ZOE_SWEEP_SETTINGS, sizeof *sweep->settings);
    sweep->line = calloc(1, sizeof *sweep->line);
    if (!sweep->settings || !sweep->line)
        return no_memory();
    int code = add(sweep, name, sizeof name - 1, "", false);
    for (size_t i = 0; i < sweep->n_setting && code == ZOE_EXIT_DONE; i++)
        code = add_text(sweep, sweep->setting[i]);
    if (code == ZOE_EXIT_DONE && sweep->file)
        code = add_file(sweep);
    return code;
}

void zoe_sweep_free(zoe_sweep *sweep)
{
    for (size_t i = 0; i < sweep->n; i++) {
        free(sweep->settings[i].name);
        free(sweep->settings[i].options);
        free(sweep->settings[i].words);
        free(sweep->settings[i].argv);
    }
    free(sweep->settings);
    free(sweep->line);
}

/* ---- the default table ---- */

/* MagCache's published table for this kind of model, NULL if there is none. */
static const char *ratios_of(const char *task)
{
    return strcmp(task, "i2v-A14B") == 0   ? "i2v_A14B"
           : strcmp(task, "t2v-A14B") == 0 ? "t2v_A14B"
           : strcmp(task, "ti2v-5B") == 0  ? "ti2v_5B_image"
                                           : NULL;
}

static int add_caches(zoe_sweep *sweep)
{
    static const struct {
        const char *name, *options;
    } rows[] = {
        {"FBCache", "--cache FBCache"},
        {"FBCache 0.1", "--cache FBCache,rel_l1_thresh=0.1"},
        {"FBCache series", "--cache FBCache,calibrator=taylorseer"},
        {"FBCache 0.1 series", "--cache FBCache,rel_l1_thresh=0.1,calibrator=taylorseer"},
        {"TeaCache", "--cache TeaCache"},
        {"TeaCache 0.3", "--cache TeaCache,rel_l1_thresh=0.3"},
        {"TaylorSeer", "--cache TaylorSeer"},
        {"TaylorSeer order 1", "--cache TaylorSeer,n_derivatives=1"},
        {"EasyCache 0.02", "--cache EasyCache,thresh=0.02"},
        {"EasyCache", "--cache EasyCache"},
        {"EasyCache 5 in a row", "--cache EasyCache,max_skips=5"},
        {"DBCache F1", "--cache DBCache,Fn_compute_blocks=1,max_warmup_steps=4"},
        {"DBCache F8", "--cache DBCache"},
        {"int8", "--compute int8"},
        {"int8, EasyCache 0.02", "--compute int8 --cache EasyCache,thresh=0.02"},
    };
    const char *ratios = ratios_of(sweep->plan.model.task);
    char options[80];
    int code = ZOE_EXIT_DONE;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && code == ZOE_EXIT_DONE; i++)
        code = add(sweep, rows[i].name, strlen(rows[i].name), rows[i].options, true);
    if (!ratios || code != ZOE_EXIT_DONE)
        return code;
    snprintf(options, sizeof options, "--cache MagCache,mag_ratios=%s", ratios);
    code = add(sweep, "MagCache", strlen("MagCache"), options, true);
    if (code != ZOE_EXIT_DONE)
        return code;
    snprintf(options, sizeof options, "--cache MagCache,mag_ratios=%s,threshold=0.12,K=3", ratios);
    return add(sweep, "MagCache 0.12", strlen("MagCache 0.12"), options, true);
}

/* The other way to spare steps, and both. */
static int add_fewer_steps(zoe_sweep *sweep)
{
    const size_t steps = sweep->plan.high_steps + sweep->plan.low_steps;
    char options[80], name[48];
    int code = ZOE_EXIT_DONE;
    if (sweep->line->job.step_list_count > 0) /* as many as there are */
        return ZOE_EXIT_DONE;
    for (size_t part = 2; part <= 4 && steps / part > 0 && code == ZOE_EXIT_DONE; part++) {
        if (part > 2 && steps / part == steps / (part - 1))
            continue; /* of few steps, a third and a quarter are as many */
        snprintf(options, sizeof options, "--steps %zu", steps / part);
        snprintf(name, sizeof name, "%zu steps", steps / part);
        code = add(sweep, name, strlen(name), options, true);
    }
    if (steps < 2 || code != ZOE_EXIT_DONE)
        return code;
    snprintf(options, sizeof options, "--steps %zu --cache EasyCache,thresh=0.02", steps / 2);
    snprintf(name, sizeof name, "%zu steps, EasyCache 0.02", steps / 2);
    return add(sweep, name, strlen(name), options, true);
}

int zoe_sweep_list_default(zoe_sweep *sweep)
{
    const int code = add_caches(sweep);
    return code == ZOE_EXIT_DONE ? add_fewer_steps(sweep) : code;
}
