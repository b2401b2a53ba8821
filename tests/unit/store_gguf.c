/* GGUF files: what is accepted, what it becomes, and what is refused with which words. */
#include "store_case.h"

/* ---- making files ---- */

typedef struct bytes {
    unsigned char data[8192];
    size_t n;
} bytes;

static void put(bytes *b, const void *data, size_t n)
{
    assert_in_range(n, 0, sizeof b->data - b->n);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_number(bytes *b, uint64_t v, size_t size)
{
    unsigned char p[8];
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)(v >> 8 * i);
    put(b, p, size);
}

static void put_text(bytes *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put(b, text, strlen(text));
}

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static void put_key(bytes *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_number(b, type, 4);
}

static void put_u32(bytes *b, const char *key, uint32_t v)
{
    put_key(b, key, U32);
    put_number(b, v, 4);
}

static void put_string(bytes *b, const char *key, const char *text)
{
    put_key(b, key, STRING);
    put_text(b, text);
}

static void put_shape(bytes *b, const char *tensor, size_t rank, const int32_t *extents)
{
    char key[128];
    snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", tensor);
    put_key(b, key, ARRAY);
    put_number(b, I32, 4);
    put_number(b, rank, 8);
    for (size_t i = 0; i < rank; i++)
        put_number(b, (uint32_t)extents[i], 4);
}

static void put_head(bytes *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    put(b, "GGUF", 4);
    put_number(b, version, 4);
    put_number(b, tensors, 8);
    put_number(b, keys, 8);
}

/* An entry of the table; extents fastest first. */
static void put_tensor(bytes *b, const char *name, uint32_t type, uint64_t offset, uint32_t rank,
                       const uint64_t *extents)
{
    put_text(b, name);
    put_number(b, rank, 4);
    for (uint32_t i = 0; i < rank; i++)
        put_number(b, extents[i], 8);
    put_number(b, type, 4);
    put_number(b, offset, 8);
}

#define EXTENTS(...)                                                                               \
    (uint64_t[])                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Zeros up to a multiple of `alignment`, then bytes 0, 1, 2 ... */
static void put_data(bytes *b, size_t alignment, size_t n)
{
    while (b->n % alignment)
        put_number(b, 0, 1);
    for (size_t i = 0; i < n; i++)
        put_number(b, i, 1);
}

static const char *written(store_case *c, const bytes *b)
{
    return case_write(c, "m.gguf", b->data, b->n);
}

/* "a" f32 [2, 3] at 0 and "b" q8_0 [2, 32] at 32, 68 bytes, with every kind of key before them. */
static bytes usual(uint32_t version)
{
    bytes b = {.n = 0};
    put_head(&b, version, 2, 12);
    put_string(&b, "general.architecture", "wan");
    put_u32(&b, "general.quantization_version", 2);
    put_key(&b, "k.bool", BOOL);
    put_number(&b, 1, 1);
    put_key(&b, "k.u8", U8);
    put_number(&b, 1, 1);
    put_key(&b, "k.i16", I16);
    put_number(&b, 1, 2);
    put_key(&b, "k.f32", F32);
    put_number(&b, 0, 4);
    put_key(&b, "k.f64", F64);
    put_number(&b, 0, 8);
    put_key(&b, "k.u64", U64);
    put_number(&b, 0, 8);
    put_key(&b, "k.texts", ARRAY);
    put_number(&b, STRING, 4);
    put_number(&b, 2, 8);
    put_text(&b, "one");
    put_text(&b, "");
    put_key(&b, "k.numbers", ARRAY);
    put_number(&b, U16, 4);
    put_number(&b, 3, 8);
    put_number(&b, 0, 6);
    put_key(&b, "k.none", ARRAY);
    put_number(&b, F32, 4);
    put_number(&b, 0, 8);
    put_string(&b, "k.text", "x");
    put_tensor(&b, "a", 0, 0, 2, EXTENTS(3, 2));
    put_tensor(&b, "b", 8, 32, 2, EXTENTS(32, 2));
    put_data(&b, 32, 32 + 68);
    return b;
}

/* ---- what is accepted ---- */

static void both_versions_open(void **state)
{
    store_case *c = *state;
    for (uint32_t version = 2; version <= 3; version++)
        for (int padded = 0; padded < 2; padded++) {
            bytes b = usual(version);
            if (padded)
                put_data(&b, 32, 0);
            zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
            zoe_tensor t;
            assert_int_equal(zoe_store_count(s), 2);
            assert_true(zoe_store_find(s, "a", &t));
            assert_int_equal(t.dtype, ZOE_F32);
            assert_int_equal(t.rank, 2);
            assert_int_equal(t.shape[0], 2);
            assert_int_equal(t.shape[1], 3);
            assert_int_equal(((unsigned char *)t.data)[23], 23);
            assert_true(zoe_store_find(s, "b", &t));
            assert_int_equal(t.dtype, ZOE_Q8_0);
            assert_int_equal(t.shape[0], 2);
            assert_int_equal(t.shape[1], 32);
            assert_int_equal(((unsigned char *)t.data)[67], 99);
            assert_int_equal(zoe_store_bytes(s), 24 + 68);
            zoe_store_close(s);
        }
}

static void every_type_has_its_bytes(void **state)
{
    store_case *c = *state;
    static const struct {
        uint32_t id;
        zoe_dtype dtype;
        size_t bytes; /* of 256 elements */
    } rows[] = {{0, ZOE_F32, 1024},  {1, ZOE_F16, 512},   {30, ZOE_BF16, 512}, {2, ZOE_Q4_0, 144},
                {3, ZOE_Q4_1, 160},  {6, ZOE_Q5_0, 176},  {7, ZOE_Q5_1, 192},  {8, ZOE_Q8_0, 272},
                {10, ZOE_Q2_K, 84},  {11, ZOE_Q3_K, 110}, {12, ZOE_Q4_K, 144}, {13, ZOE_Q5_K, 176},
                {14, ZOE_Q6_K, 210}, {24, ZOE_I8, 256},   {25, ZOE_I16, 512},  {26, ZOE_I32, 1024},
                {27, ZOE_I64, 2048}, {28, ZOE_F64, 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = {.n = 0};
        put_head(&b, 3, 1, 0);
        put_tensor(&b, "w", rows[i].id, 0, 1, EXTENTS(256));
        put_data(&b, 32, rows[i].bytes);
        zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_tensor(s, 0).dtype, rows[i].dtype);
        assert_int_equal(zoe_store_bytes(s), rows[i].bytes);
        zoe_store_close(s);
        b.n--;
        REFUSED(c, written(c, &b), ZOE_FORMAT, "m.gguf", "cut off", "has", "need");
    }
}

static void shapes_of_all_ranks(void **state)
{
    store_case *c = *state;
    bytes b = {.n = 0};
    put_head(&b, 3, 4, 0);
    put_tensor(&b, "patch", 0, 64, 5, EXTENTS(2, 2, 1, 3, 4)); /* in any order of places */
    put_tensor(&b, "one", 0, 0, 0, NULL);
    put_tensor(&b, "empty", 0, 32, 2, EXTENTS(7, 0));
    put_tensor(&b, "line", 0, 32, 1, EXTENTS(1));
    put_data(&b, 32, 64 + 192);
    zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
    zoe_tensor t;
    assert_true(zoe_store_find(s, "patch", &t));
    assert_int_equal(t.rank, 5);
    const size_t wanted[] = {4, 3, 1, 2, 2};
    assert_memory_equal(t.shape, wanted, sizeof wanted);
    assert_int_equal(t.stride[0], 12);
    assert_true(zoe_store_find(s, "one", &t));
    assert_int_equal(t.rank, 0);
    assert_true(zoe_store_find(s, "empty", &t));
    assert_int_equal(zoe_tensor_count(t), 0);
    zoe_store_close(s);
}

static bytes folded(size_t rank, const int32_t *extents)
{
    bytes b = {.n = 0};
    put_head(&b, 3, 1, 1);
    put_shape(&b, "p.weight", rank, extents);
    put_tensor(&b, "p.weight", 0, 0, 4, EXTENTS(2, 2, 3, 4));
    put_data(&b, 32, 192);
    return b;
}

static void folded_tensors_get_their_shape_back(void **state)
{
    store_case *c = *state;
    bytes b = folded(5, (const int32_t[]){4, 3, 1, 2, 2});
    zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
    const zoe_tensor t = zoe_store_tensor(s, 0);
    const size_t wanted[] = {4, 3, 1, 2, 2};
    assert_int_equal(t.rank, 5);
    assert_memory_equal(t.shape, wanted, sizeof wanted);
    assert_int_equal(t.stride[1], 4);
    zoe_store_close(s);
    b = folded(5, (const int32_t[]){4, 3, 1, 2, 3});
    REFUSED(c, written(c, &b), ZOE_FORMAT, "p.weight", "f32 [4, 3, 2, 2]", "orig_shape");
    b = folded(5, (const int32_t[]){4, 3, 1, 2, -2});
    REFUSED(c, written(c, &b), ZOE_FORMAT, "comfy.gguf.orig_shape.p.weight", "negative");
    b = folded(5, (const int32_t[]){INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, 2});
    REFUSED(c, written(c, &b), ZOE_FORMAT, "p.weight", "orig_shape");
    b = folded(6, (const int32_t[]){4, 3, 1, 1, 2, 2});
    REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "6 dimensions", "at most 5");
    b = folded(0, NULL);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "orig_shape", "no list of integers");
}

/* A weight w of four dimensions, and its bias of `outputs`. */
static bytes folded_convolution(const char *name, size_t outputs, const uint64_t *extents)
{
    bytes b = {.n = 0};
    char bias[64];
    const uint64_t n[] = {outputs};
    snprintf(bias, sizeof bias, "%s.bias", name);
    put_head(&b, 3, 2, 0);
    put_tensor(&b, bias, 0, 0, 1, n);
    snprintf(bias, sizeof bias, "%s.weight", name);
    put_tensor(&b, bias, 0, 32, 4, extents);
    put_data(&b, 32, 32 + 192);
    return b;
}

/* stable-diffusion.cpp keeps no shape beside its weights of five dimensions: the bias tells it. */
static void folded_convolutions_get_their_shape_from_the_bias(void **state)
{
    static const struct {
        const char *name;
        zoe_names names;
        size_t outputs;
        uint64_t extents[4]; /* fastest first */
        int rank;
        size_t shape[5];
    } rows[] = {
        {"patch_embedding", ZOE_NAMES_WAN_DIT, 4, {2, 2, 1, 12}, 5, {4, 3, 1, 2, 2}},
        {"patch_embedding", ZOE_NAMES_WAN_DIT, 4, {2, 2, 3, 4}, 5, {4, 3, 1, 2, 2}},
        {"patch_embedding", ZOE_NAMES_WAN_DIT, 5, {2, 2, 1, 12}, 4, {12, 1, 2, 2}},
        {"patch_embedding", ZOE_NAMES_AS_STORED, 4, {2, 2, 1, 12}, 4, {12, 1, 2, 2}},
        {"patch_embedding", ZOE_NAMES_CLIP, 4, {2, 2, 3, 4}, 4, {4, 3, 2, 2}},
        {"decoder.conv1", ZOE_NAMES_WAN_VAE, 2, {2, 2, 3, 4}, 5, {2, 2, 3, 2, 2}},
        {"decoder.conv1", ZOE_NAMES_WAN_VAE, 4, {2, 2, 3, 4}, 4, {4, 3, 2, 2}},
    };
    store_case *c = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bytes b = folded_convolution(rows[i].name, rows[i].outputs, rows[i].extents);
        zoe_store *s = case_open(c, written(c, &b), rows[i].names);
        char name[64];
        zoe_tensor t;
        snprintf(name, sizeof name, "%s.weight", rows[i].name);
        assert_true(zoe_store_find(s, name, &t));
        assert_int_equal(t.rank, rows[i].rank);
        for (int k = 0; k < t.rank; k++)
            assert_int_equal(t.shape[k], rows[i].shape[k]);
        assert_true(zoe_tensor_dense(t));
        assert_int_equal(((const unsigned char *)t.data)[1], 33);
        zoe_store_close(s);
    }
}

static bytes with_alignment(uint32_t alignment, size_t place)
{
    bytes b = {.n = 0};
    put_head(&b, 3, 2, 1);
    put_u32(&b, "general.alignment", alignment);
    put_tensor(&b, "a", 0, 0, 1, EXTENTS(1));
    put_tensor(&b, "b", 0, place, 1, EXTENTS(1));
    return b;
}

static void alignment_is_the_files(void **state)
{
    store_case *c = *state;
    static const uint32_t good[] = {1, 4, 64, 1024}, bad[] = {0, 3, 48, 0x80000000u};
    for (size_t i = 0; i < 4; i++) {
        const size_t place = good[i] < 4 ? 4 : good[i];
        bytes b = with_alignment(good[i], place);
        put_data(&b, good[i], place + 4);
        zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
        const zoe_tensor t = zoe_store_tensor(s, 1);
        assert_int_equal((uintptr_t)t.data % sizeof(float), 0); /* copied where it has to be */
        assert_int_equal(*(unsigned char *)t.data, place % 256);
        zoe_store_close(s);
        b = with_alignment(bad[i], 32);
        put_data(&b, 32, 36);
        REFUSED(c, written(c, &b), ZOE_FORMAT, "general.alignment", "power of two");
    }
    bytes b = {.n = 0};
    put_head(&b, 3, 0, 2);
    put_u32(&b, "general.alignment", 32);
    put_u32(&b, "general.alignment", 64);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "general.alignment", "twice");
}

static void llama_names_become_official(void **state)
{
    store_case *c = *state;
    static const char *const names[][2] = {
        {"token_embd.weight", "token_embedding.weight"},
        {"enc.blk.0.attn_norm.weight", "blocks.0.norm1.weight"},
        {"enc.blk.0.attn_q.weight", "blocks.0.attn.q.weight"},
        {"enc.blk.0.attn_k.weight", "blocks.0.attn.k.weight"},
        {"enc.blk.0.attn_v.weight", "blocks.0.attn.v.weight"},
        {"enc.blk.11.attn_o.weight", "blocks.11.attn.o.weight"},
        {"enc.blk.0.attn_rel_b.weight", "blocks.0.pos_embedding.embedding.weight"},
        {"enc.blk.0.ffn_norm.weight", "blocks.0.norm2.weight"},
        {"enc.blk.0.ffn_gate.weight", "blocks.0.ffn.gate.0.weight"},
        {"enc.blk.0.ffn_up.weight", "blocks.0.ffn.fc1.weight"},
        {"enc.blk.0.ffn_down.weight", "blocks.0.ffn.fc2.weight"},
        {"enc.output_norm.weight", "norm.weight"},
    };
    enum { NAMES = sizeof names / sizeof *names };
    bytes b = {.n = 0};
    put_head(&b, 3, NAMES, 1);
    put_string(&b, "general.architecture", "t5encoder");
    for (size_t i = 0; i < NAMES; i++)
        put_tensor(&b, names[i][0], 0, 32 * i, 1, EXTENTS(1));
    put_data(&b, 32, 32 * NAMES);
    zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_UMT5);
    for (size_t i = 0; i < NAMES; i++) {
        zoe_tensor t;
        if (!zoe_store_find(s, names[i][1], &t))
            fail_msg("%s is not there", names[i][1]);
        assert_int_equal(*(unsigned char *)t.data, 32 * i % 256);
    }
    zoe_store_close(s);
}

/* ---- what is refused ---- */

static void a_file_cut_anywhere_is_refused(void **state)
{
    store_case *c = *state;
    const bytes whole = usual(3);
    for (size_t n = 11; n < whole.n; n++) {
        zoe_store *s;
        zoe_context_clear(c->ctx);
        assert_int_equal(
            zoe_store_open_memory(c->ctx, &s, whole.data, n, "cut", ZOE_NAMES_AS_STORED),
            ZOE_FORMAT);
        assert_non_null(strstr(zoe_context_message(c->ctx), "cut off"));
    }
}

static void other_versions_and_orders(void **state)
{
    store_case *c = *state;
    static const struct {
        uint32_t version;
        const char *word;
    } rows[] = {{0, "version 0"}, {1, "version 1"}, {4, "version 4"}, {0x03000000u, "big-endian"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = {.n = 0};
        put_head(&b, rows[i].version, 0, 0);
        REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "m.gguf", rows[i].word);
    }
}

static void types_that_are_not_read(void **state)
{
    store_case *c = *state;
    static const struct {
        uint32_t id;
        const char *word;
    } rows[] = {{9, "Q8_1"},
                {15, "Q8_K"},
                {16, "IQ2_XXS"},
                {20, "IQ4_NL"},
                {23, "IQ4_XS"},
                {29, "IQ1_M"},
                {34, "TQ1_0"},
                {39, "MXFP4"},
                {4, "unknown type 4"},
                {31, "unknown type 31"},
                {0xffffffffu, "unknown type 4294967295"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = {.n = 0};
        put_head(&b, 3, 1, 0);
        put_tensor(&b, "w", rows[i].id, 0, 1, EXTENTS(256));
        put_data(&b, 32, 300);
        REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "tensor w", rows[i].word);
    }
}

/* One tensor "w" of these extents; `n` bytes of data. */
static bytes single(uint32_t type, uint64_t place, uint32_t rank, const uint64_t *extents, size_t n)
{
    bytes b = {.n = 0};
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "w", type, place, rank, extents);
    put_data(&b, 32, n);
    return b;
}

static void absurd_tensors(void **state)
{
    store_case *c = *state;
    bytes b = single(0, 0, 3, EXTENTS(1ull << 40, 1ull << 40, 1), 64);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "larger than any memory");
    b = single(8, 0, 2, EXTENTS(1ull << 62, 2), 64);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "larger than any memory");
    b = single(0, 0, 1, EXTENTS(1ull << 60), 64);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "cut off");
    b = single(0, UINT64_MAX - 31, 1, EXTENTS(1), 64);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "begins at byte 18446744073709551584");
    b = single(8, 0, 2, EXTENTS(40, 4), 170);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "40", "q8_0 blocks of 32");
    b = single(12, 0, 1, EXTENTS(32), 18);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "q4_k blocks of 256");
    b = single(8, 0, 0, NULL, 34);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "no whole q8_0 blocks");
    b = single(0, 0, 6, EXTENTS(1, 1, 1, 1, 1, 1), 4);
    REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "tensor w", "6 dimensions");
    b = single(0, 0, 1, EXTENTS(1), 4 + 29);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "29 bytes behind its last tensor");
}

static bytes pair(uint64_t second)
{
    bytes b = {.n = 0};
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "a", 0, 0, 1, EXTENTS(10));
    put_tensor(&b, "b", 0, second, 1, EXTENTS(10));
    put_data(&b, 32, 64 + 40);
    return b;
}

static void overlaps_and_holes(void **state)
{
    store_case *c = *state;
    bytes b = pair(64);
    zoe_store_close(case_open(c, written(c, &b), ZOE_NAMES_AS_STORED));
    b = pair(32);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor b", "inside tensor a", "ends at 40");
    b = pair(0);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "inside tensor");
    b = pair(96);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor b", "begins at byte 96", "64 is wanted");
    b = pair(60);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor b", "begins at byte 60", "64 is wanted");
}

static void hostile_headers(void **state)
{
    store_case *c = *state;
    bytes b = {.n = 0};
    put_head(&b, 3, UINT64_MAX, 0);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "table of tensors", "cut off");
    b.n = 0;
    put_head(&b, 3, 0, UINT64_MAX);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "a key", "cut off");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_number(&b, UINT64_MAX, 8); /* length of the key */
    REFUSED(c, written(c, &b), ZOE_FORMAT, "a key", "cut off");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_key(&b, "k", ARRAY);
    put_number(&b, U64, 4);
    put_number(&b, 1ull << 61, 8); /* times 8 is 0 */
    REFUSED(c, written(c, &b), ZOE_FORMAT, "a list", "cut off");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_key(&b, "k", ARRAY);
    put_number(&b, ARRAY, 4);
    put_number(&b, 1, 8);
    REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "key k", "lists of lists");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_key(&b, "k", 13);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "key k", "type 13");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_key(&b, "split.count", U16);
    put_number(&b, 3, 2);
    REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "one of 3 parts", "merge");
    b.n = 0;
    put_head(&b, 3, 1, 1);
    put_u32(&b, "general.quantization_version", 1);
    put_tensor(&b, "w", 8, 0, 1, EXTENTS(32));
    put_data(&b, 32, 34);
    REFUSED(c, written(c, &b), ZOE_UNSUPPORTED, "version 1");
    b.n = 0;
    put_head(&b, 3, 1, 0);
    put_number(&b, 3, 8);
    put(&b, "a\0b", 3);
    put_number(&b, 0, 4 + 4);
    put_number(&b, 0, 8);
    put_data(&b, 32, 4);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "name", "no text");
    b.n = 0;
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "w", 0, 0, 1, EXTENTS(1));
    put_tensor(&b, "w", 0, 32, 1, EXTENTS(1));
    put_data(&b, 32, 36);
    REFUSED(c, written(c, &b), ZOE_FORMAT, "tensor w", "twice");
}

static void no_memory(void **state)
{
    store_case *c = *state;
    const bytes b = folded(5, (const int32_t[]){4, 3, 1, 2, 2});
    case_without_memory(c, written(c, &b), ZOE_NAMES_WAN_DIT);
}

/* ---- what a folder offers, and the checks over the whole ---- */

static void folders_offer_gguf(void **state)
{
    store_case *c = *state;
    const bytes b = usual(3);
    written(c, &b);
    zoe_store_close(case_open(c, c->folder, ZOE_NAMES_AS_STORED));
}

static void verify_sees_blocks_widened(void **state)
{
    store_case *c = *state;
    enum { ROWS = 30 };
    bytes b = {.n = 0};
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "w", 8, 0, 2, EXTENTS(64, ROWS));
    put_data(&b, 32, 0);
    const size_t begin = b.n;
    for (size_t i = 0; i < 2 * ROWS * 34; i++)
        put_number(&b, i % 34 < 2 ? 0x11 : 3, 1);
    zoe_store *s = case_open(c, written(c, &b), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_verify(c->ctx, s, NULL, NULL, NULL), ZOE_OK);
    zoe_store_close(s);
    for (size_t block = 0; block < 2 * ROWS; block += 7) {
        bytes bad = b;
        bad.data[begin + 34 * block + 1] = 0x7c; /* 0x7c11 is a NaN */
        s = case_open(c, written(c, &bad), ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_verify(c->ctx, s, NULL, NULL, NULL), ZOE_NONFINITE);
        assert_non_null(strstr(zoe_context_message(c->ctx), "32 NaN"));
        zoe_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_versions_open, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(every_type_has_its_bytes, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(shapes_of_all_ranks, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(folded_convolutions_get_their_shape_from_the_bias,
                                        case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(folded_tensors_get_their_shape_back, case_setup,
                                        case_teardown),
        cmocka_unit_test_setup_teardown(alignment_is_the_files, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(llama_names_become_official, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(a_file_cut_anywhere_is_refused, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(other_versions_and_orders, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(types_that_are_not_read, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(absurd_tensors, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(overlaps_and_holes, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(hostile_headers, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(no_memory, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(folders_offer_gguf, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(verify_sees_blocks_widened, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
