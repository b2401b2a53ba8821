/* What a run takes in time, from sizes and speeds: numbers in, numbers out. Nothing here knows a job. */
#ifndef ZOE_ESTIMATE_H
#define ZOE_ESTIMATE_H

#include "comm/comm.h"

/* What one rank does in a second, and its share of the network. */
typedef struct zoe_speeds {
    double product;     /* operations a second, of many rows with a weight */
    double weight;      /* seconds for an element of a weight, however few rows meet it */
    double attention;   /* operations a second */
    double convolution; /* the same, as the textbook counts them */
    double bandwidth;   /* bytes a second that it sends, and that it receives */
    double latency;     /* seconds for each message that it sends */
} zoe_speeds;

/* One pass of the transformer. */
typedef struct zoe_pass_sizes {
    size_t tokens, dim, ffn_dim, heads, layers;
    size_t in, out; /* features of a token: 4 in_dim and 4 out_dim of zoe_wan_dims */
    size_t keys;    /* of cross-attention: text, and the picture's features */
    size_t element; /* bytes of a query's, key's or value's element */
} zoe_pass_sizes;

/* Where the time of a pass goes, on the rank that has most to do. Seconds; total is their sum but for
 * `hidden`. */
typedef struct zoe_pass_time {
    double products, attention; /* at work */
    double weights;             /* of products: what they would take without any rows */
    double ulysses, ring, head; /* waiting for others */
    double hidden;              /* exchanges of the ring under attention */
    double total;
} zoe_pass_time;
zoe_pass_time zoe_estimate_pass(const zoe_pass_sizes *sizes, const zoe_place *place,
                                const zoe_speeds *speeds);

/* Messages one after the other and bytes, from one rank. */
double zoe_estimate_exchange(const zoe_speeds *speeds, double messages, double bytes);
/* `bytes` to all of `ranks` ranks, by a tree. */
double zoe_estimate_broadcast(const zoe_speeds *speeds, size_t ranks, double bytes);
/* Products of `rows` rows with weights of so many elements. */
double zoe_estimate_products(const zoe_speeds *speeds, double rows, double elements);

#endif
