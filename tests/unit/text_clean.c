/* Cleaning of prompts: one row a case, then limits, bytes that are no UTF-8, and memory that
 * runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "text/text.h"

typedef struct row {
    const char *name, *text, *want;
    bool suspect;
} row;

static const row rows[] = {
    {"empty", "", "", 0},
    {"blanks", " \n\t ", "", 0},
    {"every kind of space", "a\u00a0b\u3000c\u2003d\u202f\u1680e\r\nf\u2028g\vh\fi",
     "a b c d e f gh i", 0},
    {"joiners and zero width stay", "a\u200bb\u200dc", "a\u200bb\u200dc", 0},
    {"curly quotes", "“curly” ’quote ‚low‘ ‛ „x‟ ʼ", "\"curly\" 'quote 'low' ' \"x\" '", 0},
    {"other quotes stay", "«a» ‹b› `c´", "«a» ‹b› `c´", 0},
    {"ligatures", "ﬁre ﬀ ﬃ ﬅ ǆ ŉ", "fire ff ffi ſt dž 'n", 0},
    {"fullwidth", "ＡＢＣ，！～￥", "ABC,!~¥", 0},
    {"halfwidth katakana join their marks", "ﾊﾟｶﾞ", "パガ", 0},
    {"composition", "e\u0301 a\u030a \u1112\u1161\u11ab", "é å 한", 0},
    {"terminal escapes", "\x1b[1;31mred\x1b[0m \x1b[x \x1b[1;", "red [1;", 0},
    {"controls",
     "a\x01"
     "b\x7f"
     "c\ufeffd\u206ae\ufffcf",
     "abcdef", 0},
    {"entities, once and twice", "&amp;amp;lt;b&gt; &eacute; &EACUTE; &SZLIG; &hearts;",
     "<b> é É SS ♥", 0},
    {"entities without semicolon", "AT&T &copy2 &notit; &notin; &ampx", "AT&T ©2 ¬it; ∉ &x", 0},
    {"entities in HTML", "<b> &eacute; &amp;eacute;", "<b> é é", 0},
    {"html from one line on", "&#x92;\n<\n&#x92;", "' < ’", 0},
    {"numbers", "&#65;&#x42;&#67 &#0; &#xd800; &#x110000; &#99999999999999999999; &#1;x &#59;",
     "ABC \ufffd \ufffd \ufffd \ufffd x ;", 1},
    {"windows-1252 numbers", "&#128; &#x99;", "€ ™", 0},
    {"no entities", "& &; &#; &#x; &unknown; &x", "& &; &#; &#x; &unknown; &x", 0},
    {"mojibake", "schÃ¶n â€œquotedâ€\xc2\x9d", "schön \"quoted\"", 0},
    {"mojibake twice over", "schÃƒÂ¶n", "schön", 0},
    {"mojibake four times over", "schÃƒÆ’Ã†â€™Ãƒâ€šÃ‚Â¶n", "schön", 0},
    {"mojibake of capitals", "Ãœber KÃ–LN CAFÃ‰", "Über KÖLN CAFÉ", 0},
    {"mojibake of signs", "25Â°C Â© 1920 Ã— 1080 Â£5 â†’ â„¢", "25°C © 1920 × 1080 £5 → ™", 0},
    {"mojibake of Cyrillic, windows-1251", "РїСЂРёРІРµС‚", "привет", 0},
    {"mojibake of Cyrillic, windows-1252", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "привет", 0},
    {"mojibake of Polish, windows-1250", "maĹ‚a Ĺ‚Ăłdka, ĹĽĂłĹ‚w", "mała łódka, żółw", 0},
    {"mojibake of Greek, windows-1253",
     "ΞΊΞ±Ξ»Ξ·ΞΌΞ\u00adΟ\xc2\x81"
     "Ξ±",
     "καλημέρα", 0},
    {"mojibake of Chinese and pictures", "çŒ«å’Œç‹— ðŸ˜€", "猫和狗 😀", 0},
    {"mojibake, Mac Roman", "√©t√© don‚Äôt", "été don't", 0},
    {"mojibake, code page 437", "fran├ºais donΓÇÖt", "français don't", 0},
    {"mojibake with lost spaces", "voilÃ le travail", "voilà le travail", 0},
    {"mojibake with lost bytes", "â€œ like this â€\ufffd", "\" like this \ufffd", 1},
    {"mojibake in parts", "日本 schÃ¶n schön", "日本 schön schön", 0},
    {"half of a dash left over", "a â€ b", "a â€ b", 0},
    {"C1 controls", "it\xc2\x92s\xc2\x85", "it's…", 0},
    {"real words stay", "Ångström à la mode São Paulo naïve £50 25° ½ «Œuvre» ¿Qué?",
     "Ångström à la mode São Paulo naïve £50 25° ½ «Œuvre» ¿Qué?", 0},
    {"well-formed by accident", "«CAFÉ» CAFÉ™ AMANHÃ… KRÍŽ MÔŽE Він Її Её Γ² Δ° 5 Å² √π weiß…",
     "«CAFÉ» CAFÉ™ AMANHÃ… KRÍŽ MÔŽE Він Її Её Γ² Δ° 5 Å² √π weiß…", 0},
    {"quotes after accents", "gagné…” l’été ┌──┐ ═╗", "gagné…\" l'été ┌──┐ ═╗", 0},
    {"left, but suspect: a space may be missing", "В«да»", "В«да»", 1},
    {"not to be repaired", "¦¨¬", "¦¨¬", 1},
    {"ill-formed bytes",
     "a\xff\xfe"
     "b\xe2\x82"
     "c\xf0\x9f\x90",
     "a\ufffd\ufffdb\ufffdc\ufffd", 1},
    {"surrogate pair in UTF-8", "\xed\xa0\xbd\xed\xb8\x80 \xed\xa0\xbd", "😀 \ufffd", 1},
    {"emoji", "🐈‍⬛ 👨‍👩‍👧", "🐈‍⬛ 👨‍👩‍👧", 0},
    {"right to left", "مرحبا \u200fעולם", "مرحبا \u200fעולם", 0},
};

static void cleans(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *clean;
        bool suspect;
        assert_int_equal(zoe_text_clean(ctx, &clean, &suspect, rows[i].text, strlen(rows[i].text)),
                         ZOE_OK);
        if (strcmp(clean, rows[i].want) != 0 || suspect != rows[i].suspect)
            print_error("%s: \"%s\", suspect %d\n", rows[i].name, clean, suspect);
        assert_string_equal(clean, rows[i].want);
        assert_int_equal(suspect, rows[i].suspect);
        zoe_free(clean);
    }
    zoe_context_free(ctx);
}

static void drops_nul(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    char *clean;
    bool suspect;
    assert_int_equal(zoe_text_clean(ctx, &clean, &suspect, "null\0byte", 9), ZOE_OK);
    assert_string_equal(clean, "nullbyte");
    zoe_free(clean);
    zoe_context_free(ctx);
}

/* A prompt of 2^20 + 1 bytes, and one whose entities are nested without end, are refused in a
 * sentence. */
static void refuses_endless(void **state)
{
    (void)state;
    enum { BYTES = (1 << 20) + 1 };
    zoe_context *ctx = zoe_context_new(1);
    char *text = malloc(BYTES), *clean;
    bool suspect;
    assert_non_null(text);
    memset(text, 'a', BYTES);
    assert_int_equal(zoe_text_clean(ctx, &clean, &suspect, text, BYTES), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "1048577"));
    assert_null(clean);

    zoe_context_clear(ctx);
    const size_t layers = 300;
    text[0] = '&';
    for (size_t i = 0; i < layers; i++)
        memcpy(text + 1 + 4 * i, "amp;", 4);
    assert_int_equal(zoe_text_clean(ctx, &clean, &suspect, text, 1 + 4 * layers), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "nested"));
    free(text);
    zoe_context_free(ctx);
}

/* Whichever allocation fails, the call says so and leaks nothing (the sanitizers watch). */
static void survives_no_memory(void **state)
{
    (void)state;
    static const char text[] = "&eacute; schÃ¶n日本 ﬁ “x” e\u0301 \x1b[1m \xff";
    zoe_context *ctx = zoe_context_new(1);
    zoe_status status = ZOE_NOMEM;
    size_t n = 1;
    for (; status == ZOE_NOMEM; n++) {
        char *clean;
        bool suspect;
        zoe_context_clear(ctx);
        zoe_alloc_fail_at(n);
        status = zoe_text_clean(ctx, &clean, &suspect, text, sizeof text - 1);
        zoe_alloc_fail_at(0);
        assert_true(status == ZOE_OK ||
                    (status == ZOE_NOMEM && !clean && zoe_context_message(ctx)[0]));
        zoe_free(clean);
    }
    assert_int_equal(status, ZOE_OK);
    assert_true(n > 20);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleans),
        cmocka_unit_test(drops_nul),
        cmocka_unit_test(refuses_endless),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
