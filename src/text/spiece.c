/* See spiece.h. The message is ModelProto of sentencepiece_model.proto: 1 pieces {1 piece, 2
 * score, 3 type}, 2 trainer {3 model_type}, 3 normalizer and 5 denormalizer {2
 * precompiled_charsmap}. */
#include "text/spiece.h"

#include "text/charsmap.h"
#include "text/unicode.h"

/* A stretch of the message that is being read. */
typedef struct reader {
    const unsigned char *at;
    size_t left;
} reader;

typedef struct field {
    uint32_t number;
    uint64_t value; /* of a varint or a fixed 32 or 64 bit field */
    reader content; /* of a field with a length */
    bool has_length;
} field;

static bool take_varint(reader *r, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && r->left > 0; shift += 7) {
        const unsigned char byte = *r->at++;
        r->left--;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool take_fixed(reader *r, uint64_t *value, size_t bytes)
{
    if (r->left < bytes)
        return false;
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    r->left -= bytes;
    return true;
}

/* Takes one field; false if it is cut off or of a kind that does not occur. */
static bool take_field(reader *r, field *f)
{
    uint64_t tag;
    *f = (field){0};
    if (!take_varint(r, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    f->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case 0: return take_varint(r, &f->value);
    case 1: return take_fixed(r, &f->value, 8);
    case 5: return take_fixed(r, &f->value, 4);
    case 2:
        if (!take_varint(r, &f->value) || f->value > r->left)
            return false;
        f->has_length = true;
        f->content = (reader){r->at, (size_t)f->value};
        r->at += f->content.left;
        r->left -= f->content.left;
        return true;
    default: return false;
    }
}

static zoe_status fail_cut(zoe_context *ctx)
{
    return zoe_fail(ctx, ZOE_FORMAT,
                    "no whole SentencePiece model: a field is cut off or of a wrong kind");
}

static bool is_text(const reader *r)
{
    for (size_t i = 0; i < r->left;) {
        uint32_t c;
        i += zoe_utf8_next(&c, r->at + i, r->left - i);
        if (c == 0 || c == ZOE_NO_CHAR || zoe_char_is_surrogate(c))
            return false;
    }
    return true;
}

static zoe_status check_piece(zoe_context *ctx, reader r, size_t i)
{
    field f;
    while (r.left > 0) {
        if (!take_field(&r, &f))
            return fail_cut(ctx);
        if (f.number == 1 && (!f.has_length || !is_text(&f.content)))
            return zoe_fail(ctx, ZOE_FORMAT, "piece %zu is no UTF-8 text", i);
        if (f.number == 2 && !isfinite(zoe_f32_from_bits((uint32_t)f.value)))
            return zoe_fail(ctx, ZOE_FORMAT, "piece %zu has a score that is not finite", i);
    }
    return ZOE_OK;
}

static zoe_status check_trainer(zoe_context *ctx, reader r)
{
    field f;
    while (r.left > 0) {
        if (!take_field(&r, &f))
            return fail_cut(ctx);
        if (f.number == 3 && f.value != 1)
            return zoe_fail(ctx, ZOE_UNSUPPORTED, "model_type %llu, only 1 (unigram) is known",
                            (unsigned long long)f.value);
    }
    return ZOE_OK;
}

static zoe_status check_normalizer(zoe_context *ctx, bool *has_map, reader r)
{
    field f;
    while (r.left > 0) {
        if (!take_field(&r, &f))
            return fail_cut(ctx);
        if (f.number != 2)
            continue;
        zoe_charsmap map;
        TRY(zoe_charsmap_read(ctx, &map, f.content.at, f.content.left));
        *has_map = f.content.left > 0;
    }
    return ZOE_OK;
}

zoe_status zoe_spiece_check(zoe_context *ctx, bool *silent, const void *model, size_t bytes)
{
    reader r = {model, bytes};
    field f;
    bool unused;
    size_t pieces = 0;
    *silent = false;
    while (r.left > 0) {
        if (!take_field(&r, &f))
            return fail_cut(ctx);
        if (f.number <= 5 && !f.has_length)
            return fail_cut(ctx);
        switch (f.number) {
        case 1: TRY(check_piece(ctx, f.content, pieces++)); break;
        case 2: TRY(check_trainer(ctx, f.content)); break;
        case 3: TRY(check_normalizer(ctx, silent, f.content)); break;
        case 5: TRY(check_normalizer(ctx, &unused, f.content)); break;
        default: break;
        }
    }
    if (pieces == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "no SentencePiece model: it has no pieces");
    return ZOE_OK;
}

/* A later normalizer field is merged into the first, so it adds only its character map. */
zoe_status zoe_spiece_silence(zoe_context *ctx, void **copy, size_t *bytes, const void *model)
{
    enum { TRIE = 1024, MAP = 4 + TRIE + 1 };
    /* Field 3 with its length, in it field 2 with its length; the map has an empty trie and one
     * empty text. */
    static const unsigned char head[] = {0x1a,
                                         ((MAP + 3) & 0x7f) | 0x80,
                                         (MAP + 3) >> 7,
                                         0x12,
                                         (MAP & 0x7f) | 0x80,
                                         MAP >> 7,
                                         TRIE & 0xff,
                                         TRIE >> 8,
                                         0,
                                         0};
    size_t size;
    if (!zoe_size_add(&size, *bytes, sizeof head + TRIE + 1))
        return zoe_fail(ctx, ZOE_NOMEM, "a model of %zu bytes is too long", *bytes);
    TRY(zoe_alloc_zero(ctx, copy, size, 1, "SentencePiece model"));
    memcpy(*copy, model, *bytes);
    memcpy((unsigned char *)*copy + *bytes, head, sizeof head);
    *bytes = size;
    return ZOE_OK;
}
