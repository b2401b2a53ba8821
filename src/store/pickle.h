/* The small part of Python's pickle that state dicts use, as values; nothing is ever executed. For
 * this room only. */
#ifndef ZOE_STORE_PICKLE_H
#define ZOE_STORE_PICKLE_H

#include "base/base.h"

typedef enum zoe_pickle_kind {
    ZOE_PICKLE_UNSET, /* of the memo */
    ZOE_PICKLE_MARK,  /* of the stack */
    ZOE_PICKLE_NONE,
    ZOE_PICKLE_BOOL,
    ZOE_PICKLE_INT,
    ZOE_PICKLE_REAL, /* its value is not kept */
    ZOE_PICKLE_TEXT,
    ZOE_PICKLE_CLASS,
    ZOE_PICKLE_TUPLE,
    ZOE_PICKLE_LIST,
    ZOE_PICKLE_DICT,    /* items are key, value, key, value, ... */
    ZOE_PICKLE_STORAGE, /* "storage", class, key text, device text, number of elements */
    ZOE_PICKLE_TENSOR /* storage, offset, tuple of extents, tuple of strides (all in elements), ...
                       */
} zoe_pickle_kind;

typedef struct zoe_pickle_object zoe_pickle_object;
typedef struct zoe_pickle_class zoe_pickle_class;

typedef struct zoe_pickle_value {
    zoe_pickle_kind kind;
    union {
        int64_t integer;
        struct {
            const char *bytes; /* in the pickle, not terminated */
            size_t length;
        } text;
        const zoe_pickle_class *class;
        zoe_pickle_object *object; /* TUPLE and all after it; may contain itself */
    };
} zoe_pickle_value;

struct zoe_pickle_object {
    zoe_pickle_object *next;
    zoe_pickle_value *items;
    size_t n, room;
};

typedef struct zoe_pickle {
    zoe_pickle_value root;
    zoe_pickle_object *objects;
} zoe_pickle;

/* Errors: ZOE_FORMAT (broken), ZOE_UNSUPPORTED (an operation or a class that a state dict has no
 * use for), ZOE_NOMEM. The bytes must outlive the pickle. In a TENSOR, items 0 to 3 have the kinds
 * said above, and the tuples hold integers. */
zoe_status zoe_pickle_read(zoe_context *ctx, zoe_pickle *pickle, const unsigned char *data,
                           size_t size, const char *path);
void zoe_pickle_free(zoe_pickle *pickle);

/* The element type of a STORAGE. */
zoe_dtype zoe_pickle_dtype(zoe_pickle_value storage);
bool zoe_pickle_text_is(zoe_pickle_value value, const char *text);

#endif
