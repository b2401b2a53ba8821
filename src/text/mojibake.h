/* Mojibake: UTF-8 that someone decoded with another encoding. How to see it and how to undo it.
 * For this room only. */
#ifndef ZOE_MOJIBAKE_H
#define ZOE_MOJIBAKE_H

#include "text/unicode.h"

/* Undoes mojibake in one line until nothing more is found. The rules are in docs/TEXT.md. */
zoe_status zoe_mojibake_repair(zoe_context *ctx, zoe_chars *line);

/* Does the text hold a word that looks like mojibake, or U+FFFD where something was lost? */
bool zoe_mojibake_remains(const zoe_chars *text);

/* How many pairs of neighbours in the text are such as people hardly write, some counted twice. */
size_t zoe_oddity(const uint32_t *at, size_t count);

/* ---- code pages: single-byte encodings with ASCII below 0x80 ---- */

typedef struct zoe_codepage {
    uint16_t upper[128]; /* characters of 0x80 to 0xff */
    /* Where in upper the characters with this last byte are: the first one's place and each
     * one's successor, counted from 1; 0 ends. */
    uint8_t first[256], next[128];
} zoe_codepage;

enum { ZOE_CODEPAGE_COUNT = 10 };

/* Fills all pages in the order in which they are tried. Bytes to which a page gives no character
 * have the character of their own number, as browsers do. */
void zoe_codepages_read(zoe_codepage pages[ZOE_CODEPAGE_COUNT]);

/* The byte of c in the page, or 0 if it has none above 0x7f. */
unsigned char zoe_codepage_byte(const zoe_codepage *page, uint32_t c);

uint32_t zoe_windows_1252_char(unsigned char byte);

#endif
