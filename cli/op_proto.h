/* The prototype of an operator: its tensors, the types that they may have together, and its attributes, as msopgen's
 * JSON has them. */
#ifndef ZOE_OP_PROTO_H
#define ZOE_OP_PROTO_H

#include "base/base.h"

enum {
    ZOE_PROTO_NAME = 64, /* bytes of a name with its end */
    ZOE_PROTO_TENSORS = 16,
    ZOE_PROTO_ATTRS = 16,
    ZOE_PROTO_FLAGS = 6,
    ZOE_PROTO_COMBINATIONS = 64,
    ZOE_PROTO_KERNELS = 256, /* combinations of types, times those of flags */
    ZOE_PROTO_BYTES = 1 << 20
};

/* An optional input and a bool attribute are flags: each set of flags has a kernel of its own. */
typedef struct zoe_proto_tensor {
    char name[ZOE_PROTO_NAME];
    bool optional;
    int flag; /* its bit; -1 if it is always there */
    zoe_dtype type[ZOE_PROTO_COMBINATIONS];
    const char *format[ZOE_PROTO_COMBINATIONS];
} zoe_proto_tensor;

typedef enum zoe_proto_kind { ZOE_PROTO_FLOAT, ZOE_PROTO_INT, ZOE_PROTO_BOOL } zoe_proto_kind;

typedef struct zoe_proto_attr {
    char name[ZOE_PROTO_NAME];
    zoe_proto_kind kind;
    int flag;  /* the bit of a bool; -1 for the others */
    int input; /* has_<input>: it is that input's presence and no argument; -1 for the others */
    bool has_value; /* there is a default */
    double real;    /* the default of a float */
    int64_t whole;  /* of an int, or a bool */
} zoe_proto_attr;

typedef struct zoe_proto {
    char title[ZOE_PROTO_NAME];    /* as the file writes it: RmsNorm */
    char name[2 * ZOE_PROTO_NAME]; /* in snake case: rms_norm */
    size_t inputs, outputs, attrs, flags, combinations;
    zoe_proto_tensor tensor[ZOE_PROTO_TENSORS]; /* inputs, then outputs */
    zoe_proto_attr attr[ZOE_PROTO_ATTRS];
} zoe_proto;

/* The operator `op` (as written or in snake case; NULL: the only one) of the prototypes in `text`. Accepted are a list
 * of operators or one; types as lists or, for all combinations alike, as one name; defaults as "default_value" or
 * "default", as text or as JSON values. `file` is how messages call the text. Every message names the member at fault.
 * Errors: ZOE_FORMAT, ZOE_UNSUPPORTED (other types than floating numbers of 16 and 32 bits, and what needs such),
 * ZOE_NOMEM. */
zoe_status zoe_proto_parse(zoe_context *ctx, zoe_proto *proto, const char *text, size_t size,
                           const char *file, const char *op);
/* The same of a file. Errors: as zoe_file_read besides. */
zoe_status zoe_proto_read(zoe_context *ctx, zoe_proto *proto, const char *file, const char *op);

#endif
