/* B15: the cleaning rules, each input of the list by itself and all in one text. What is wanted is
 * what ftfy 6.3.1, two rounds of html.unescape and the folding of white space give. */
#include "case.h"

typedef struct row {
    const char *text, *want;
    size_t bytes; /* 0: up to the NUL */
} row;

static const row rows[] = {
    {"“curly” ’quote", "\"curly\" 'quote", 0},
    {"ﬁre ＡＢＣ", "fire ABC", 0},
    {"&amp;amp;lt;b&gt;", "<b>", 0},
    {"\u3000", "", 0},
    {"a\u3000b", "a b", 0},
    {"\u00a0a\u00a0\u00a0b\u3000", "a b", 0},
    {"a\0b", "ab", 3},
    {"\0", "", 1},
    {"a\u200bb", "a\u200bb", 0},
    {"🐈\u200d⬛", "🐈\u200d⬛", 0},
    {"“ﬁre”\u3000&amp;amp;lt;ＡＢＣ&gt;\u00a0\0’\u200bx\u200d", "\"fire\" <ABC> '\u200bx\u200d",
     52},
};

int main(void)
{
    zoe_context *ctx = case_context(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        const size_t bytes = r->bytes ? r->bytes : strlen(r->text);
        char *clean;
        bool suspect;
        case_must(ctx, zoe_text_clean(ctx, &clean, &suspect, r->text, bytes), "cleaning");
        case_expect(strcmp(clean, r->want) == 0, "row %zu: \"%s\", wanted \"%s\"", i, clean,
                    r->want);
        case_expect(!suspect, "row %zu is called suspect", i);
        zoe_free(clean);
    }
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
