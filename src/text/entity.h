/* HTML character references in a text. For this room only. */
#ifndef ZOE_ENTITY_H
#define ZOE_ENTITY_H

#include "text/unicode.h"

/* Replaces references with care: only those that end in a semicolon, a numeric one only if it
 * is wholly understood, and lower-case names also when written in capitals (&EACUTE; is U+00C9). */
zoe_status zoe_entities_replace_closed(zoe_context *ctx, zoe_chars *text);

/* Replaces references as HTML5 has it (Python's html.unescape): old names also without a
 * semicolon, by their longest start; numbers out of range are U+FFFD, 0x80 to 0x9f mean
 * windows-1252, other controls vanish. */
zoe_status zoe_entities_replace_all(zoe_context *ctx, zoe_chars *text);

#endif
