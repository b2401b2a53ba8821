/* Pieces of HTML and SVG. */
#include "markup.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "message.h"

void zoe_markup_text(FILE *to, const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const size_t bytes = strlen(text);
    for (size_t i = 0, length; i < bytes; i += length) {
        const unsigned char c = (unsigned char)text[i];
        bool valid;
        length = zoe_character_length(&valid, text + i, bytes - i);
        /* U+FFFE and U+FFFF are UTF-8, but no characters of XML. */
        const bool none = length == 3 && memcmp(text + i, "\xef\xbf", 2) == 0 &&
                          (unsigned char)text[i + 2] >= 0xbe;
        if (!valid || none || (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f)
            fputs(replacement, to);
        else if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else if (c == '\'')
            fputs("&#39;", to);
        else
            fwrite(text + i, 1, length, to);
    }
}

void zoe_markup_base64(FILE *to, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const unsigned v = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0u) |
                           (left > 2 ? (unsigned)in[i + 2] : 0u);
        const char four[4] = {digits[v >> 18], digits[v >> 12 & 63u],
                              left > 1 ? digits[v >> 6 & 63u] : '=',
                              left > 2 ? digits[v & 63u] : '='};
        fwrite(four, 1, sizeof four, to);
    }
}

/* ---- axes ---- */

zoe_axis zoe_axis_of(double low, double high, int marks)
{
    if (!(high > low)) {
        const double around = low != 0.0 ? fabs(low) / 10 : 1.0;
        high += around;
        low = low >= 0.0 && low < around ? 0.0 : low - around;
    }
    const double rough = (high - low) / marks, power = pow(10.0, floor(log10(rough)));
    const double part = rough / power;
    const double each = power * (part <= 1.0 ? 1.0 : part <= 2.0 ? 2.0 : part <= 5.0 ? 5.0 : 10.0);
    const double lowest = floor(low / each + 1e-9), highest = ceil(high / each - 1e-9);
    const double digits = ceil(-log10(each) - 1e-9);
    return (zoe_axis){.from = lowest * each,
                      .to = highest * each,
                      .each = each,
                      .decimals = digits > 0.0 ? (int)digits : 0};
}

size_t zoe_axis_marks(const zoe_axis *axis)
{
    return (size_t)lround((axis->to - axis->from) / axis->each) + 1;
}

double zoe_axis_mark(const zoe_axis *axis, size_t i)
{
    return axis->from + (double)i * axis->each;
}
