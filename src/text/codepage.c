/* Code pages in which UTF-8 gets misread; see mojibake.h. What they hold is public fact: the
 * WHATWG Encoding Standard, ISO 8859-2, Apple's and IBM's charts. */
#include "text/mojibake.h"

/* Each page is a chart of the bytes from 0x80, 16 a row. A dot is a byte whose character has its
 * own number; what is missing at the end is dots. */
static const char windows_1252[] = "€.‚ƒ„…†‡ˆ‰Š‹Œ.Ž."
                                   ".‘’“”•–—˜™š›œ.žŸ";

static const char *const charts[ZOE_CODEPAGE_COUNT] = {
    "", /* ISO 8859-1 */
    windows_1252,
    /* windows-1251 */
    "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏ"
    "ђ‘’“”•–—.™љ›њќћџ"
    ".ЎўЈ.Ґ..Ё.Є....Ї"
    "..Ііґ...ё№є.јЅѕї"
    "АБВГДЕЖЗИЙКЛМНОП"
    "РСТУФХЦЧШЩЪЫЬЭЮЯ"
    "абвгдежзийклмноп"
    "рстуфхцчшщъыьэюя",
    /* windows-1250 */
    "€.‚.„…†‡.‰Š‹ŚŤŽŹ"
    ".‘’“”•–—.™š›śťžź"
    ".ˇ˘Ł.Ą....Ş....Ż"
    "..˛ł.....ąş.Ľ˝ľż"
    "Ŕ..Ă.ĹĆ.Č.Ę.Ě..Ď"
    "ĐŃŇ..Ő..ŘŮ.Ű..Ţ."
    "ŕ..ă.ĺć.č.ę.ě..ď"
    "đńň..ő..řů.ű..ţ˙",
    /* windows-1253 */
    "€.‚ƒ„…†‡.‰.‹...."
    ".‘’“”•–—.™.›...."
    ".΅Ά............―"
    "....΄...ΈΉΊ.Ό.ΎΏ"
    "ΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟ"
    "ΠΡ.ΣΤΥΦΧΨΩΪΫάέήί"
    "ΰαβγδεζηθικλμνξο"
    "πρςστυφχψωϊϋόύώ.",
    /* windows-1254 */
    "€.‚ƒ„…†‡ˆ‰Š‹Œ..."
    ".‘’“”•–—˜™š›œ..Ÿ"
    "................"
    "................"
    "................"
    "Ğ............İŞ."
    "................"
    "ğ............ış.",
    /* windows-1257 */
    "€.‚.„…†‡.‰.‹.¨ˇ¸"
    ".‘’“”•–—.™.›.¯˛."
    "........Ø.Ŗ....Æ"
    "........ø.ŗ....æ"
    "ĄĮĀĆ..ĘĒČ.ŹĖĢĶĪĻ"
    "ŠŃŅ.Ō...ŲŁŚŪ.ŻŽ."
    "ąįāć..ęēč.źėģķīļ"
    "šńņ.ō...ųłśū.żž˙",
    /* ISO 8859-2 */
    "................"
    "................"
    ".Ą˘Ł.ĽŚ..ŠŞŤŹ.ŽŻ"
    ".ą˛ł.ľśˇ.šşťź˝žż"
    "Ŕ..Ă.ĹĆ.Č.Ę.Ě..Ď"
    "ĐŃŇ..Ő..ŘŮ.Ű..Ţ."
    "ŕ..ă.ĺć.č.ę.ě..ď"
    "đńň..ő..řů.ű..ţ˙",
    /* Mac Roman */
    "ÄÅÇÉÑÖÜáàâäãåçéè"
    "êëíìîïñóòôöõúùûü"
    "†°..§•¶ß®.™´¨≠ÆØ"
    "∞.≤≥¥.∂∑∏π∫ªºΩæø"
    "¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ"
    "–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ"
    "‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ"
    "\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ",
    /* code page 437 */
    "ÇüéâäàåçêëèïîìÄÅ"
    "ÉæÆôöòûùÿÖÜ¢£¥₧ƒ"
    "áíóúñÑªº¿⌐¬½¼¡«»"
    "░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧"
    "╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "αßΓπΣσµτΦΘΩδ∞φε∩"
    "≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0",
};

static void read_chart(zoe_codepage *page, const char *chart)
{
    const unsigned char *s = (const unsigned char *)chart;
    for (size_t i = 0, left = strlen(chart); i < 128; i++) {
        uint32_t c = '.';
        const size_t length = left ? zoe_utf8_next(&c, s, left) : 0;
        page->upper[i] = (uint16_t)(c == '.' ? 0x80 + i : c);
        s += length;
        left -= length;
    }
    memset(page->first, 0, sizeof page->first);
    for (size_t i = 128; i-- > 0;) {
        uint8_t *first = &page->first[page->upper[i] & 0xff];
        page->next[i] = *first;
        *first = (uint8_t)(i + 1);
    }
}

void zoe_codepages_read(zoe_codepage pages[ZOE_CODEPAGE_COUNT])
{
    for (size_t k = 0; k < ZOE_CODEPAGE_COUNT; k++)
        read_chart(&pages[k], charts[k]);
}

unsigned char zoe_codepage_byte(const zoe_codepage *page, uint32_t c)
{
    for (size_t i = page->first[c & 0xff]; i; i = page->next[i - 1])
        if (page->upper[i - 1] == c)
            return (unsigned char)(0x7f + i);
    return 0;
}

uint32_t zoe_windows_1252_char(unsigned char byte)
{
    zoe_codepage page;
    read_chart(&page, windows_1252);
    return byte < 0x80 ? byte : page.upper[byte - 0x80];
}
