/* A stack machine over the operations of pickle protocol 2 that torch.save emits for a state dict.
 *
 * A pickle is a program, and a hostile one could run anything under Python. Here a class is only a
 * row of a table; calling one that is not in the table, or in any other way than state dicts do, is
 * refused by name. Each operation makes at most one object and takes what it needs from the stack,
 * so that memory is bounded by the pickle's length. */
#include "store/pickle.h"

#include <stdio.h>

struct zoe_pickle_class {
    const char *module, *name;
    enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, STORAGE } role;
    zoe_dtype dtype;
};

static const zoe_pickle_class classes[] = {
    {"collections", "OrderedDict", ORDERED_DICT, ZOE_NONE},
    {"torch._utils", "_rebuild_tensor_v2", REBUILD_TENSOR, ZOE_NONE},
    {"torch._utils", "_rebuild_parameter", REBUILD_PARAMETER, ZOE_NONE},
    {"torch", "FloatStorage", STORAGE, ZOE_F32},
    {"torch", "HalfStorage", STORAGE, ZOE_F16},
    {"torch", "BFloat16Storage", STORAGE, ZOE_BF16},
    {"torch", "DoubleStorage", STORAGE, ZOE_F64},
    {"torch", "LongStorage", STORAGE, ZOE_I64},
    {"torch", "IntStorage", STORAGE, ZOE_I32},
    {"torch", "ShortStorage", STORAGE, ZOE_I16},
    {"torch", "CharStorage", STORAGE, ZOE_I8},
    {"torch", "ByteStorage", STORAGE, ZOE_U8},
    {"torch", "BoolStorage", STORAGE, ZOE_BOOL},
};

typedef zoe_pickle_value value;
typedef zoe_pickle_object object;

typedef struct machine {
    zoe_context *ctx;
    const char *path;
    const unsigned char *begin, *p, *end; /* p: the next byte */
    value *stack, *memo;
    size_t n, room, n_memo;
    zoe_pickle *pickle;
} machine;

static zoe_status broken(machine *m, const char *what)
{
    return zoe_fail(m->ctx, ZOE_FORMAT, "%s: data.pkl is broken at byte %zu: %s", m->path,
                    (size_t)(m->p - m->begin), what);
}

static zoe_status refuse(machine *m, const char *what)
{
    return zoe_fail(
        m->ctx, ZOE_UNSUPPORTED,
        "%s: data.pkl does at byte %zu what a state dict has no use for, and is not executed: %s",
        m->path, (size_t)(m->p - m->begin), what);
}

/* ---- memory ---- */

static zoe_status grow(machine *m, value **items, size_t *room, size_t wanted)
{
    if (wanted <= *room)
        return ZOE_OK;
    size_t bigger = *room ? *room : 4;
    while (bigger < wanted)
        bigger *= 2; /* wanted is bounded by the pickle's length */
    void *p;
    TRY(zoe_alloc_zero(m->ctx, &p, bigger, sizeof **items, "state dict"));
    if (*room)
        memcpy(p, *items, *room * sizeof **items);
    zoe_free(*items);
    *items = p;
    *room = bigger;
    return ZOE_OK;
}

static zoe_status push(machine *m, value v)
{
    TRY(grow(m, &m->stack, &m->room, m->n + 1));
    m->stack[m->n++] = v;
    return ZOE_OK;
}

static zoe_status pop(machine *m, value *v)
{
    if (m->n == 0 || m->stack[m->n - 1].kind == ZOE_PICKLE_MARK)
        return broken(m, "the stack is empty");
    *v = m->stack[--m->n];
    return ZOE_OK;
}

static zoe_status append(machine *m, object *o, const value *items, size_t n)
{
    TRY(grow(m, &o->items, &o->room, o->n + n));
    if (n)
        memcpy(o->items + o->n, items, n * sizeof *items);
    o->n += n;
    return ZOE_OK;
}

static zoe_status push_object(machine *m, zoe_pickle_kind kind, const value *items, size_t n)
{
    void *p;
    TRY(zoe_alloc_zero(m->ctx, &p, 1, sizeof(object), "state dict"));
    object *o = p;
    o->next = m->pickle->objects;
    m->pickle->objects = o;
    TRY(append(m, o, items, n));
    return push(m, (value){.kind = kind, .object = o});
}

/* ---- operands ---- */

static zoe_status take(machine *m, const unsigned char **bytes, size_t n)
{
    if (n > (size_t)(m->end - m->p))
        return broken(m, "it ends inside an operation");
    *bytes = m->p;
    m->p += n;
    return ZOE_OK;
}

/* An unsigned little-endian number. */
static zoe_status take_number(machine *m, size_t *number, size_t bytes)
{
    const unsigned char *p;
    TRY(take(m, &p, bytes));
    *number = 0;
    for (size_t i = bytes; i-- > 0;)
        *number = *number << 8 | p[i];
    return ZOE_OK;
}

/* A signed little-endian number of up to 8 bytes. */
static zoe_status push_integer(machine *m, size_t bytes, bool is_signed)
{
    size_t u;
    if (bytes > 8)
        return refuse(m, "an integer of more than 64 bits");
    TRY(take_number(m, &u, bytes));
    uint64_t bits = u;
    if (is_signed && bytes > 0 && bytes < 8 && bits >> (8 * bytes - 1))
        bits |= UINT64_MAX << 8 * bytes;
    return push(m, (value){.kind = ZOE_PICKLE_INT, .integer = (int64_t)bits});
}

static zoe_status take_line(machine *m, value *line)
{
    const unsigned char *stop = memchr(m->p, '\n', (size_t)(m->end - m->p));
    if (!stop)
        return broken(m, "it ends inside a class name");
    *line = (value){.kind = ZOE_PICKLE_TEXT,
                    .text = {.bytes = (const char *)m->p, .length = (size_t)(stop - m->p)}};
    m->p = stop + 1;
    return ZOE_OK;
}

/* ---- operations ---- */

static zoe_status push_class(machine *m)
{
    value module, name;
    char text[224];
    TRY(take_line(m, &module));
    TRY(take_line(m, &name));
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (zoe_pickle_text_is(module, classes[i].module) &&
            zoe_pickle_text_is(name, classes[i].name))
            return push(m, (value){.kind = ZOE_PICKLE_CLASS, .class = &classes[i]});
    const size_t a = module.text.length, b = name.text.length;
    snprintf(text, sizeof text, "it asks for %.*s.%.*s", a < 100 ? (int)a : 100, module.text.bytes,
             b < 100 ? (int)b : 100, name.text.bytes);
    return refuse(m, text);
}

static zoe_status push_text(machine *m)
{
    size_t length;
    const unsigned char *p;
    TRY(take_number(m, &length, 4));
    TRY(take(m, &p, length));
    return push(
        m, (value){.kind = ZOE_PICKLE_TEXT, .text = {.bytes = (const char *)p, .length = length}});
}

static zoe_status put(machine *m, size_t index_bytes)
{
    size_t i;
    TRY(take_number(m, &i, index_bytes));
    if (m->n == 0 || m->stack[m->n - 1].kind == ZOE_PICKLE_MARK)
        return broken(m, "the stack is empty");
    if (i >= (size_t)(m->end - m->begin))
        return broken(m, "a memo index is larger than the pickle");
    TRY(grow(m, &m->memo, &m->n_memo, i + 1));
    m->memo[i] = m->stack[m->n - 1];
    return ZOE_OK;
}

static zoe_status get(machine *m, size_t index_bytes)
{
    size_t i;
    TRY(take_number(m, &i, index_bytes));
    if (i >= m->n_memo || m->memo[i].kind == ZOE_PICKLE_UNSET)
        return broken(m, "nothing was memorised under this index");
    return push(m, m->memo[i]);
}

/* Where the items above the topmost mark begin; the mark itself lies one below. */
static zoe_status find_mark(machine *m, size_t *first)
{
    for (size_t i = m->n; i-- > 0;)
        if (m->stack[i].kind == ZOE_PICKLE_MARK) {
            *first = i + 1;
            return ZOE_OK;
        }
    return broken(m, "no mark is on the stack");
}

/* A tuple of the topmost n values, in place of them and of `below` marks under them. */
static zoe_status make_tuple(machine *m, size_t n, size_t below)
{
    for (size_t i = 0; i < n; i++)
        if (m->n - below < n || m->stack[m->n - 1 - i].kind == ZOE_PICKLE_MARK)
            return broken(m, "the stack is empty");
    /* push_object leaves the tuple above its items; then it moves down onto them */
    TRY(push_object(m, ZOE_PICKLE_TUPLE, m->stack + m->n - n, n));
    m->stack[m->n - 1 - n - below] = m->stack[m->n - 1];
    m->n -= n + below;
    return ZOE_OK;
}

static zoe_status make_tuple_to_mark(machine *m)
{
    size_t first;
    TRY(find_mark(m, &first));
    return make_tuple(m, m->n - first, 1);
}

/* Adds the items from stack position `first` on to the list or dict that lies under them and under
 * `below` marks. */
static zoe_status extend(machine *m, size_t first, size_t below, zoe_pickle_kind kind)
{
    if (first < 1 + below || m->stack[first - 1 - below].kind != kind)
        return broken(m, kind == ZOE_PICKLE_DICT ? "no dict is there to set items of"
                                                 : "no list is there to append to");
    if (kind == ZOE_PICKLE_DICT && (m->n - first) % 2 != 0)
        return broken(m, "a key has no value");
    TRY(append(m, m->stack[first - 1 - below].object, m->stack + first, m->n - first));
    m->n = first - below;
    return ZOE_OK;
}

static zoe_status extend_from_mark(machine *m, zoe_pickle_kind kind)
{
    size_t first;
    TRY(find_mark(m, &first));
    return extend(m, first, 1, kind);
}

static zoe_status extend_by(machine *m, size_t n, zoe_pickle_kind kind)
{
    if (m->n <= n)
        return broken(m, "the stack is empty");
    for (size_t i = m->n - n; i < m->n; i++)
        if (m->stack[i].kind == ZOE_PICKLE_MARK)
            return broken(m, "the stack is empty");
    return extend(m, m->n - n, 0, kind);
}

/* ("storage", class, key, device, elements) becomes a storage. */
static zoe_status push_storage(machine *m)
{
    value v;
    TRY(pop(m, &v));
    const value *item = v.kind == ZOE_PICKLE_TUPLE ? v.object->items : NULL;
    if (!item || v.object->n != 5 || !zoe_pickle_text_is(item[0], "storage") ||
        item[1].kind != ZOE_PICKLE_CLASS || item[1].class->role != STORAGE ||
        item[2].kind != ZOE_PICKLE_TEXT || item[4].kind != ZOE_PICKLE_INT || item[4].integer < 0)
        return refuse(m, "a persistent id that is no storage");
    v.kind = ZOE_PICKLE_STORAGE;
    return push(m, v);
}

/* One that is longer than torch has dimensions is refused at once: many tensors may share it. */
static bool is_tuple_of_integers(value v)
{
    enum { DIMENSIONS = 64 };
    if (v.kind != ZOE_PICKLE_TUPLE || v.object->n > DIMENSIONS)
        return false;
    for (size_t i = 0; i < v.object->n; i++)
        if (v.object->items[i].kind != ZOE_PICKLE_INT)
            return false;
    return true;
}

static zoe_status call(machine *m)
{
    value args, callee;
    TRY(pop(m, &args));
    TRY(pop(m, &callee));
    if (callee.kind != ZOE_PICKLE_CLASS || args.kind != ZOE_PICKLE_TUPLE)
        return refuse(m, "a call of something that is no class");
    const value *arg = args.object->items;
    const size_t n = args.object->n;
    switch (callee.class->role) {
    case ORDERED_DICT:
        if (n != 0)
            return refuse(m, "an OrderedDict with arguments");
        return push_object(m, ZOE_PICKLE_DICT, NULL, 0);
    case REBUILD_TENSOR:
        if (n < 4 || arg[0].kind != ZOE_PICKLE_STORAGE || arg[1].kind != ZOE_PICKLE_INT ||
            !is_tuple_of_integers(arg[2]) || !is_tuple_of_integers(arg[3]))
            return broken(m, "a tensor without storage, offset, extents and strides");
        args.kind = ZOE_PICKLE_TENSOR;
        return push(m, args);
    case REBUILD_PARAMETER:
        if (n < 1 || arg[0].kind != ZOE_PICKLE_TENSOR)
            return broken(m, "a parameter without a tensor");
        return push(m, arg[0]);
    case STORAGE: break;
    }
    return refuse(m, "a call of a storage class");
}

/* Attributes of an OrderedDict (PyTorch hangs version numbers on it) are dropped. */
static zoe_status build(machine *m)
{
    value state;
    TRY(pop(m, &state));
    if (m->n == 0 || m->stack[m->n - 1].kind != ZOE_PICKLE_DICT)
        return refuse(m, "attributes of something that is no OrderedDict");
    return ZOE_OK;
}

static zoe_status check_protocol(machine *m)
{
    size_t protocol;
    TRY(take_number(m, &protocol, 1));
    return protocol == 2 ? ZOE_OK : refuse(m, "another pickle protocol than 2");
}

static zoe_status push_real(machine *m)
{
    const unsigned char *p;
    TRY(take(m, &p, 8));
    return push(m, (value){.kind = ZOE_PICKLE_REAL});
}

static zoe_status push_long(machine *m)
{
    size_t bytes;
    TRY(take_number(m, &bytes, 1));
    return push_integer(m, bytes, true);
}

static zoe_status step(machine *m, unsigned char op)
{
    char text[64];
    switch (op) {
    case 0x80: return check_protocol(m);                        /* PROTO */
    case '(': return push(m, (value){.kind = ZOE_PICKLE_MARK}); /* MARK */
    case 'N': return push(m, (value){.kind = ZOE_PICKLE_NONE}); /* NONE */
    case 0x88:                                                  /* NEWTRUE */
    case 0x89:
        return push(m, (value){.kind = ZOE_PICKLE_BOOL, .integer = op == 0x88}); /* NEWFALSE */
    case 'K': return push_integer(m, 1, false);                                  /* BININT1 */
    case 'M': return push_integer(m, 2, false);                                  /* BININT2 */
    case 'J': return push_integer(m, 4, true);                                   /* BININT */
    case 0x8a: return push_long(m);                                              /* LONG1 */
    case 'G': return push_real(m);                                               /* BINFLOAT */
    case 'X': return push_text(m);                                               /* BINUNICODE */
    case 'c': return push_class(m);                                              /* GLOBAL */
    case ')': return push_object(m, ZOE_PICKLE_TUPLE, NULL, 0);                  /* EMPTY_TUPLE */
    case ']': return push_object(m, ZOE_PICKLE_LIST, NULL, 0);                   /* EMPTY_LIST */
    case '}': return push_object(m, ZOE_PICKLE_DICT, NULL, 0);                   /* EMPTY_DICT */
    case 0x85: return make_tuple(m, 1, 0);                                       /* TUPLE1 */
    case 0x86: return make_tuple(m, 2, 0);                                       /* TUPLE2 */
    case 0x87: return make_tuple(m, 3, 0);                                       /* TUPLE3 */
    case 't': return make_tuple_to_mark(m);                                      /* TUPLE */
    case 'a': return extend_by(m, 1, ZOE_PICKLE_LIST);                           /* APPEND */
    case 'e': return extend_from_mark(m, ZOE_PICKLE_LIST);                       /* APPENDS */
    case 's': return extend_by(m, 2, ZOE_PICKLE_DICT);                           /* SETITEM */
    case 'u': return extend_from_mark(m, ZOE_PICKLE_DICT);                       /* SETITEMS */
    case 'q': return put(m, 1);                                                  /* BINPUT */
    case 'r': return put(m, 4);                                                  /* LONG_BINPUT */
    case 'h': return get(m, 1);                                                  /* BINGET */
    case 'j': return get(m, 4);                                                  /* LONG_BINGET */
    case 'Q': return push_storage(m);                                            /* BINPERSID */
    case 'R': return call(m);                                                    /* REDUCE */
    case 'b': return build(m);                                                   /* BUILD */
    default: break;
    }
    snprintf(text, sizeof text, "operation 0x%02x", op);
    return refuse(m, text);
}

static zoe_status run(machine *m)
{
    for (;;) {
        const unsigned char *op;
        TRY(take(m, &op, 1));
        if (*op != '.') { /* STOP */
            TRY(step(m, *op));
            continue;
        }
        TRY(pop(m, &m->pickle->root));
        return m->n == 0 ? ZOE_OK : broken(m, "more than one value is left at its end");
    }
}

zoe_status zoe_pickle_read(zoe_context *ctx, zoe_pickle *pickle, const unsigned char *data,
                           size_t size, const char *path)
{
    machine m = {
        .ctx = ctx, .path = path, .begin = data, .p = data, .end = data + size, .pickle = pickle};
    *pickle = (zoe_pickle){0};
    const zoe_status status = run(&m);
    zoe_free(m.stack);
    zoe_free(m.memo);
    if (status != ZOE_OK)
        zoe_pickle_free(pickle);
    return status;
}

void zoe_pickle_free(zoe_pickle *pickle)
{
    for (object *o = pickle->objects, *next; o; o = next) {
        next = o->next;
        zoe_free(o->items);
        zoe_free(o);
    }
    *pickle = (zoe_pickle){0};
}

zoe_dtype zoe_pickle_dtype(zoe_pickle_value storage)
{
    return storage.object->items[1].class->dtype;
}

bool zoe_pickle_text_is(zoe_pickle_value v, const char *text)
{
    const size_t n = strlen(text);
    return v.kind == ZOE_PICKLE_TEXT && v.text.length == n && memcmp(v.text.bytes, text, n) == 0;
}
