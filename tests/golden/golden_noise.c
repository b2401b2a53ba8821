/* golden_noise DIR: the random generator against torch's on the CPU.
 *
 * DIR/noise.safetensors  uniform.SEED, raw31.SEED, raw63.SEED: the stream; normal.SEED.SHAPE:
 * randn, then.SEED.SHAPE: what the next call gives DIR/large.json         SEED:SHAPE: {first, last,
 * sum, sumsq, sha256_f32le} of large latents; sha256_by_vector_path.avx2: SEED:SHAPE: sha256 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "golden.h"
#include "store/store.h"

/* From 16 values on, torch's bits depend on its cpu path: by up to 2.2e-6. Below, only libm's last
 * bit is free. */
static const double BLOCK_LIMIT = 3e-6;
static const size_t LARGEST = (size_t)1 << 28;

/* ---- SHA-256 (FIPS 180-4) ---- */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void sha256_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (size_t i = 0; i < 64; i++) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                            ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
        const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                            ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[0] = t1 + t2;
        s[4] += t1;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += s[i];
}

/* The digest as 64 hexadecimal digits. */
static void sha256(char hex[65], const void *data, size_t bytes)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *p = data;
    const size_t whole = bytes / 64, left = bytes % 64;
    for (size_t i = 0; i < whole; i++)
        sha256_block(state, p + 64 * i);
    unsigned char tail[128] = {0};
    const size_t tail_bytes = left < 56 ? 64 : 128;
    memcpy(tail, p + 64 * whole, left);
    tail[left] = 0x80;
    for (size_t i = 0; i < 8; i++)
        tail[tail_bytes - 1 - i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    for (size_t i = 0; i < tail_bytes; i += 64)
        sha256_block(state, tail + i);
    for (size_t i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08" PRIx32, state[i]);
}

/* ---- the stream ---- */

static uint64_t wide_word(zoe_random *r)
{
    const uint64_t high = zoe_random_word(r);
    return high << 32 | zoe_random_word(r);
}

static void compare_stream(golden *g, const char *name, const char *kind, zoe_tensor t,
                           uint64_t seed)
{
    const size_t n = zoe_tensor_count(t);
    size_t equal = 0;
    zoe_random r;
    zoe_random_seed(&r, seed);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(kind, "uniform") == 0 && t.dtype == ZOE_F32)
            equal += (float)(zoe_random_word(&r) & 0xffffffu) * 0x1p-24f == ((float *)t.data)[i];
        else if (strcmp(kind, "raw31") == 0 && t.dtype == ZOE_I32)
            equal += (zoe_random_word(&r) & 0x7fffffffu) == (uint32_t)((int32_t *)t.data)[i];
        else if (strcmp(kind, "raw63") == 0 && t.dtype == ZOE_I64)
            equal += (wide_word(&r) & INT64_MAX) == (uint64_t)((int64_t *)t.data)[i];
    }
    golden_check(g, name, n > 0 && equal == n, "%zu of %zu equal", equal, n);
}

/* ---- normals ---- */

static double farthest_ulps(const float *a, const float *b, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const int32_t x = (int32_t)zoe_bits_of_f32(a[i]), y = (int32_t)zoe_bits_of_f32(b[i]);
        const double d = (x ^ y) < 0 ? (double)INFINITY : fabs((double)x - (double)y);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static float *draw(golden *g, zoe_random *r, size_t n)
{
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, n, sizeof(float), "normals"), "normals");
    zoe_random_normal(r, p, n);
    return p;
}

static void compare_normals(golden *g, const char *name, const float *got, const float *want,
                            size_t n)
{
    if (n < 16) {
        const double far = farthest_ulps(got, want, n);
        golden_check(g, name, n > 0 && far <= 1.0, "%g ulp", far);
    } else {
        golden_compare_abs(g, name, got, want, n, BLOCK_LIMIT);
    }
}

/* normal.SEED.SHAPE and, from the same generator, then.SEED.SHAPE. */
static void compare_call(golden *g, const zoe_store *store, const char *name, const char *rest,
                         uint64_t seed)
{
    size_t n, n_then;
    zoe_random r;
    zoe_random_seed(&r, seed);
    float *want = golden_load(g, store, name, &n), *got = draw(g, &r, n);
    compare_normals(g, name, got, want, n);
    zoe_free(got);
    zoe_free(want);

    char then[256];
    zoe_tensor t;
    snprintf(then, sizeof then, "then.%s", rest);
    if (!zoe_store_find(store, then, &t))
        return;
    want = golden_load(g, store, then, &n_then);
    got = draw(g, &r, n_then);
    compare_normals(g, then, got, want, n_then);
    zoe_free(got);
    zoe_free(want);
}

static void compare_tensors(golden *g, const char *folder)
{
    zoe_store *store;
    const char *path = golden_path(folder, "noise.safetensors");
    golden_must(g, zoe_store_open(g->ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *name = zoe_store_name(store, i), *dot = strchr(name, '.');
        char kind[16] = "", *end = NULL;
        if (dot && dot - name < (ptrdiff_t)sizeof kind)
            memcpy(kind, name, (size_t)(dot - name));
        const uint64_t seed = dot ? strtoull(dot + 1, &end, 10) : 0;
        const bool normal = strcmp(kind, "normal") == 0;
        if (strcmp(kind, "then") == 0)
            continue; /* goes with its normal */
        if (!dot || end == dot + 1 || *end != (normal ? '.' : '\0'))
            golden_check(g, name, false, "not KIND.SEED or normal.SEED.SHAPE");
        else if (normal)
            compare_call(g, store, name, dot + 1, seed);
        else
            compare_stream(g, name, kind, zoe_store_tensor(store, i), seed);
    }
    zoe_store_close(store);
}

/* ---- large latents ---- */

/* SEED:AxBxC */
static bool parse_key(const char *key, uint64_t *seed, size_t *n)
{
    char *end;
    *seed = strtoull(key, &end, 10);
    if (end == key || *end != ':')
        return false;
    *n = 1;
    do {
        const char *digits = end + 1;
        const unsigned long long extent = strtoull(digits, &end, 10);
        if (end == digits || !zoe_size_mul(n, *n, (size_t)extent) || *n > LARGEST)
            return false;
    } while (*end == 'x');
    return *end == '\0';
}

/* The numbers of a JSON array against got; they were printed from f32. */
static double farthest_of(const json_t *array, const float *got)
{
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const double d = fabs(json_number_value(json_array_get(array, i)) - (double)got[i]);
        worst = d <= worst ? worst : d;
    }
    return worst;
}

static void compare_large(golden *g, const char *key, const json_t *want, const char *hash)
{
    const json_t *first = json_object_get(want, "first"), *last = json_object_get(want, "last");
    const size_t n_first = json_array_size(first), n_last = json_array_size(last);
    uint64_t seed;
    size_t n;
    if (!parse_key(key, &seed, &n) || (want && (n < n_first || n < n_last))) {
        golden_check(g, key, false, "not SEED:SHAPE of this content");
        return;
    }
    zoe_random r;
    zoe_random_seed(&r, seed);
    float *got = draw(g, &r, n);
    if (want) {
        double far = farthest_of(first, got);
        const double far_last = farthest_of(last, got + (n - n_last));
        far = far_last > far ? far_last : far;
        double sum = 0.0, squares = 0.0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)got[i];
            squares += (double)got[i] * (double)got[i];
        }
        const double sum_error = fabs(sum - json_number_value(json_object_get(want, "sum")));
        const double sumsq = json_number_value(json_object_get(want, "sumsq"));
        golden_check(g, key,
                     n_first > 0 && far <= BLOCK_LIMIT && sum_error <= 1e-7 * (double)n &&
                         fabs(squares - sumsq) <= 1e-6 * sumsq,
                     "%.1e, sum %.1e", far, sum_error);
    }
    if (hash) {
        char hex[65], name[128];
        sha256(hex, got, n * sizeof *got);
        snprintf(name, sizeof name, "sha256.%s", key);
        golden_check(g, name, strcmp(hex, hash) == 0, "%.16s", hex);
    }
    zoe_free(got);
}

static void compare_large_all(golden *g, const char *folder)
{
    json_error_t error;
    json_t *root = json_load_file(golden_path(folder, "large.json"), 0, &error);
    if (!json_is_object(root))
        golden_check(g, "large.json", false, "%s", root ? "no object" : error.text);
    json_t *paths = json_object_get(root, "sha256_by_vector_path");
    json_t *hashes = json_object_get(paths, "avx2");
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (value != paths)
            compare_large(g, key, value, json_string_value(json_object_get(hashes, key)));
    }
    json_object_foreach(hashes, key, value)
    {
        if (!json_object_get(root, key))
            compare_large(g, key, NULL, json_string_value(value));
    }
    json_decref(root);
}

int main(int argc, char **argv)
{
    const char *folder = golden_folder(argc, argv);
    golden g = golden_begin();
    compare_tensors(&g, folder);
    compare_large_all(&g, folder);
    return golden_end(&g);
}
