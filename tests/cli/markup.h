/* Is a text well-formed XML of the simple kind that the program writes? */
#ifndef ZOE_TEST_MARKUP_H
#define ZOE_TEST_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

/* One element around everything, tags that close in order, attributes in double quotes, each name
 * once in a tag, entities that exist, no control characters, UTF-8 not checked. A doctype in front
 * and comments are fine. *fault says where it ends. */
bool markup_check(const char *text, const char **fault);
/* Does an attribute or a style refer to anything but data in the text itself? src, href, url(...),
 * @import. */
bool markup_refers(const char *text, const char **where);

#endif
