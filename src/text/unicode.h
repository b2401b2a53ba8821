/* Text as code points: growable runs, UTF-8, character classes, normal forms. For this room
 * only. */
#ifndef ZOE_UNICODE_H
#define ZOE_UNICODE_H

#include "base/base.h"

/* What zoe_utf8_next reports for bytes that are no character. */
#define ZOE_NO_CHAR UINT32_MAX

/* A run of code points that owns its memory; all zero is an empty one. Surrogates may occur in a
 * text that is being cleaned, nothing else that is no Unicode code point. */
typedef struct zoe_chars {
    uint32_t *at;
    size_t count, room;
} zoe_chars;

zoe_status zoe_chars_add(zoe_context *ctx, zoe_chars *chars, const uint32_t *at, size_t count);
zoe_status zoe_chars_add_one(zoe_context *ctx, zoe_chars *chars, uint32_t c);
void zoe_chars_free(zoe_chars *chars);
/* Gives *chars what *other holds, and frees what it had; *other is empty after that. */
void zoe_chars_take(zoe_chars *chars, zoe_chars *other);
bool zoe_chars_equal(const zoe_chars *a, const zoe_chars *b);
bool zoe_chars_are_ascii(const zoe_chars *chars);

/* Bytes of the character at s (n of them left, at least 1), which goes to *c. Surrogates are
 * passed on. Bytes that are no character give ZOE_NO_CHAR and the length of the longest start of
 * one (Unicode 15, section 3.9), at least 1. */
size_t zoe_utf8_next(uint32_t *c, const unsigned char *s, size_t n);
/* Writes c (no surrogate) and returns 1 to 4. */
size_t zoe_utf8_put(unsigned char out[4], uint32_t c);

/* Appends the characters of UTF-8 text; bytes that are no character become U+FFFD. */
zoe_status zoe_chars_decode(zoe_context *ctx, zoe_chars *chars, const char *text, size_t bytes);
/* A new NUL-terminated UTF-8 string; surrogates become U+FFFD. *bytes may be NULL. */
zoe_status zoe_chars_encode(zoe_context *ctx, char **text, size_t *bytes, const uint32_t *at,
                            size_t count);

/* The property White_Space. */
bool zoe_char_is_space(uint32_t c);
/* A decimal digit of any script (general category Nd). */
bool zoe_char_is_digit(uint32_t c);
bool zoe_char_is_surrogate(uint32_t c);

typedef enum zoe_normal_form { ZOE_NFC, ZOE_NFD, ZOE_NFKC, ZOE_NFKD } zoe_normal_form;

/* Appends the normal form of count characters, none of them a surrogate. */
zoe_status zoe_chars_normalize(zoe_context *ctx, zoe_chars *out, const uint32_t *at, size_t count,
                               zoe_normal_form form);

#endif
