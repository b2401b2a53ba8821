/* What the name of a LoRA or a model lets one suppose: distilled to few steps, and for which expert. */
#include <ctype.h>
#include <stdio.h>

#include "base/file.h"
#include "store/store.h"

/* Words in names of LoRAs that are distilled to few steps without guidance. */
static const char *const words[] = {"lightning", "lightx2v", "distill", "causvid",
                                    "accvid",    "fusionx",  "fastwan"};
enum { USUAL_STEPS = 4 };

/* Where a title may be, in the header's metadata. */
static const char *const titles[] = {"modelspec.title", "ss_output_name", "name", "title"};

static char lower(char c)
{
    return (char)tolower((unsigned char)c);
}

/* Finds a word in lower case, whatever the case of the text. */
static const char *find_word(const char *text, const char *word)
{
    for (; *text; text++) {
        size_t n = 0;
        while (word[n] && lower(text[n]) == word[n])
            n++;
        if (!word[n])
            return text;
    }
    return NULL;
}

/* "4steps", "8-step", "4_step": the number before the word, 0 if there is none of 1 to 16. */
static size_t steps_in(const char *text)
{
    for (const char *p = text; (p = find_word(p, "step")); p++) {
        const char *end = p, *behind = p + strlen("step");
        if (isdigit((unsigned char)behind[*behind == 's']))
            continue; /* "epoch8_step3000" is of another kind */
        if (end > text && (end[-1] == '-' || end[-1] == '_' || end[-1] == ' '))
            end--;
        const char *begin = end;
        size_t n = 0, place = 1;
        while (begin > text && isdigit((unsigned char)begin[-1]) && end - begin < 4) {
            n += place * (size_t)(*--begin - '0');
            place *= 10;
        }
        if (n >= 1 && n <= 16)
            return n;
    }
    return 0;
}

/* "high" or "low" as a word of its own: not in "flow" or "slow". */
static bool has_side(const char *text, const char *side)
{
    for (const char *p = text; (p = find_word(p, side)); p++)
        if ((p == text || !isalpha((unsigned char)p[-1])) &&
            (!isalpha((unsigned char)p[strlen(side)]) || find_word(p, "noise") == p + strlen(side)))
            return true;
    return false;
}

static void read_text(zoe_lora_hint *hint, const char *text)
{
    const size_t steps = steps_in(text);
    const char *word = steps ? "step" : NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (find_word(text, words[i]))
            word = words[i];
    if (word && hint->steps == 0) {
        hint->steps = steps ? steps : USUAL_STEPS;
        snprintf(hint->word, sizeof hint->word, "%s", word);
    }
    hint->high = hint->high || has_side(text, "high");
    hint->low = hint->low || has_side(text, "low");
}

/* The name at the end of a path; folders before it are the user's own. */
static const char *last_part(char *name, size_t room, const char *path)
{
    size_t length;
    const char *last = zoe_path_last(path, &length);
    snprintf(name, room, "%.*s", (int)(length < room ? length : room - 1), last);
    return name;
}

zoe_status zoe_lora_hint_of(zoe_context *ctx, zoe_lora_hint *hint, const char *path)
{
    char name[256];
    zoe_context *aside; /* that there is no title is no failure of the caller's */
    *hint = (zoe_lora_hint){0};
    read_text(hint, last_part(name, sizeof name, path));
    aside = zoe_context_new(1);
    zoe_status status = aside ? ZOE_OK : ZOE_NOMEM;
    for (size_t i = 0; status != ZOE_NOMEM && i < sizeof titles / sizeof *titles; i++) {
        char *value;
        status = zoe_safetensors_metadata(aside, &value, path, titles[i]);
        if (status == ZOE_OK)
            read_text(hint, value);
        zoe_free(value);
    }
    zoe_context_free(aside);
    return status == ZOE_NOMEM ? zoe_fail(ctx, status, "%s: no memory for its header", path)
                               : ZOE_OK;
}
