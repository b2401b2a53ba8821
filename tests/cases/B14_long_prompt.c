/* B14: 600 words for a model of 512 tokens: 512 ids, the end token last, and the full count told.
 *
 *     case_B14_long_prompt DATA */
#include "case.h"

enum { WORDS = 600, LIMIT = 512, CAT = 501, END = 1 };

static void check(zoe_context *ctx, const char *file, const char *text)
{
    zoe_tokenizer *tokenizer;
    int32_t ids[WORDS + 2];
    size_t count, full;
    case_must(ctx, zoe_tokenizer_open(ctx, &tokenizer, file), file);
    case_must(ctx, zoe_tokenizer_encode(ctx, tokenizer, ids, &count, &full, LIMIT, text), file);
    case_expect(count == LIMIT && full == WORDS + 1, "%s: %zu of %zu ids", file, count, full);
    for (size_t i = 0; i < LIMIT; i++)
        case_expect(ids[i] == (i + 1 < LIMIT ? CAT : END), "%s: id %zu is %d", file, i,
                    (int)ids[i]);

    /* At the limit itself nothing is cut; one word more, and the end token takes its place. */
    char *rest = case_memory(strlen(text) + 1, 1);
    for (size_t words = LIMIT - 2; words <= LIMIT; words++) {
        memcpy(rest, text, 4 * words);
        rest[4 * words] = '\0';
        case_must(ctx, zoe_tokenizer_encode(ctx, tokenizer, ids, &count, &full, LIMIT, rest), file);
        case_expect(full == words + 1 && count == (full < LIMIT ? full : LIMIT) &&
                        ids[count - 1] == END && ids[count - 2] == CAT,
                    "%s: %zu words: %zu of %zu ids", file, words, count, full);
    }
    free(rest);
    zoe_tokenizer_close(tokenizer);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    char text[4 * WORDS + 1] = "", *clean;
    bool suspect;
    for (size_t i = 0; i < WORDS; i++)
        memcpy(text + 4 * i, "cat ", 5);
    zoe_context *ctx = case_context(1);
    case_must(ctx, zoe_text_clean(ctx, &clean, &suspect, text, strlen(text)), "cleaning");
    case_expect(strlen(clean) == 4 * WORDS - 1, "cleaned to %zu bytes", strlen(clean));
    check(ctx, case_path(argv[1], "tokenizer/tokenizer.json"), clean);
    check(ctx, case_path(argv[1], "tokenizer/spiece.model"), clean);
    zoe_free(clean);
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
