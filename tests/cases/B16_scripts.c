/* B16: emoji, joiners, Chinese, Arabic, Hebrew, marks, both forms of an accent, names of special
 * tokens, bytes that are no UTF-8: the ids are those of the SentencePiece library (spiece.model) and
 * of the official tokenizer (tokenizer.json), which has no pieces for single bytes.
 *
 *     case_B16_scripts DATA */
#include "case.h"

enum { MOST = 64 };

typedef struct row {
    const char *text;
    const int32_t *json, *sentence; /* end with the end token, 1 */
} row;

#define IDS(...)                                                                                   \
    (const int32_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__, 1                                                                             \
    }
#define UNKNOWN IDS(261, 3)

static const row rows[] = {
    {"", (const int32_t[]){1}, (const int32_t[]){1}},
    {"🐈\u200d⬛", UNKNOWN, IDS(261, 244, 163, 148, 140, 230, 132, 145, 230, 176, 159)},
    {"👨\u200d👩\u200d👧", UNKNOWN,
     IDS(261, 244, 163, 149, 172, 230, 132, 145, 244, 163, 149, 173, 230, 132, 145, 244, 163, 149,
         171)},
    {"掬", UNKNOWN, IDS(261, 234, 146, 176)},
    {"日本語の猫", IDS(261, 716, 717, 718, 713, 873), IDS(261, 716, 717, 718, 713, 873)},
    {"\u00e9", IDS(261, 406), IDS(261, 406)},
    {"e\u0301", IDS(261, 406), IDS(261, 406)},
    {"שלום עולם", IDS(261, 3, 261, 3),
     IDS(261, 219, 173, 219, 160, 219, 153, 219, 161, 261, 219, 166, 219, 153, 219, 160, 219, 161)},
    {"مرحبا بالعالم", IDS(261, 3, 261, 3),
     IDS(261, 221, 137, 220, 181, 220, 177, 220, 172, 220, 171, 261, 220, 172, 220, 171, 221, 136,
         220, 189, 220, 171, 221, 136, 221, 137)},
    {"क्षि नमस्ते", IDS(261, 3, 261, 3),
     IDS(261, 228, 168, 153, 228, 169, 145, 228, 168, 187, 228, 168, 195, 261, 228, 168, 172, 228,
         168, 178, 228, 168, 188, 228, 169, 145, 228, 168, 168, 228, 169, 139)},
    {"a \xff\xfe cat", IDS(283, 501), IDS(283, 501)},
};

static size_t length_of(const int32_t *ids)
{
    size_t n = 0;
    while (ids[n] != 1)
        n++;
    return n + 1;
}

static void check(zoe_context *ctx, const zoe_tokenizer *tokenizer, const char *text, size_t i,
                  const int32_t *want)
{
    int32_t ids[MOST];
    size_t count, full;
    case_must(ctx, zoe_tokenizer_encode(ctx, tokenizer, ids, &count, &full, MOST, text), text);
    if (case_expect(count == length_of(want) && full == count, "row %zu: %zu ids", i, count))
        for (size_t k = 0; k < count; k++)
            case_expect(ids[k] == want[k], "row %zu: id %zu is %d, wanted %d", i, k, (int)ids[k],
                        (int)want[k]);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    zoe_context *ctx = case_context(1);
    zoe_tokenizer *json, *sentence;
    case_must(ctx, zoe_tokenizer_open(ctx, &json, case_path(argv[1], "tokenizer/tokenizer.json")),
              "tokenizer.json");
    case_must(ctx, zoe_tokenizer_open(ctx, &sentence, case_path(argv[1], "tokenizer/spiece.model")),
              "spiece.model");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *clean;
        bool suspect;
        const char *text = rows[i].text;
        case_must(ctx, zoe_text_clean(ctx, &clean, &suspect, text, strlen(text)), text);
        case_expect(suspect == (strchr(text, '\xff') != NULL), "row %zu: suspect %d", i, suspect);
        check(ctx, json, clean, i, rows[i].json);
        check(ctx, sentence, clean, i, rows[i].sentence);
        zoe_free(clean);
    }
    zoe_tokenizer_close(json);
    zoe_tokenizer_close(sentence);
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
