/* Pieces of HTML and SVG. */
#ifndef ZOE_MARKUP_H
#define ZOE_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* A text as it may stand between tags and in quoted attributes: & < > " ' as entities, other control
 * characters than tab and line feed and what is no UTF-8 as U+FFFD. */
void zoe_markup_text(FILE *to, const char *text);
/* bytes as base64. n is a multiple of 3 for all pieces of a text but the last. */
void zoe_markup_base64(FILE *to, const void *bytes, size_t n);

/* An axis from `from` to `to` with a mark at every multiple of `each` (1, 2 or 5 times a power of 10):
 * about `marks` of them. */
typedef struct zoe_axis {
    double from, to, each;
    int decimals; /* that its numbers need */
} zoe_axis;
/* Of values from low to high; its ends are marks. low == high gives an axis around it. */
zoe_axis zoe_axis_of(double low, double high, int marks);
/* Number of marks. */
size_t zoe_axis_marks(const zoe_axis *axis);
double zoe_axis_mark(const zoe_axis *axis, size_t i);

#endif
