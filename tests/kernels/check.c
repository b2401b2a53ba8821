/* Memory, values, comparison and time for the checks of kernels. */
#define _GNU_SOURCE
#include "check.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

check_state now;

zoe_dtype dtype_in(const char *name)
{
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        if (strstr(name, zoe_dtype_name(dtype)))
            return dtype;
    return strstr(name, "bf16")   ? ZOE_BF16
           : strstr(name, "e4m3") ? ZOE_F8_E4M3
           : strstr(name, "e5m2") ? ZOE_F8_E5M2
           : strstr(name, "f16")  ? ZOE_F16
                                  : ZOE_F32;
}

/* ---- failures ---- */

void check_fail(const char *format, ...)
{
    if (now.failed)
        return;
    now.failed = true;
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fprintf(stderr, "FAILED %s on %s, seed %llu: ", now.kernel, now.rung,
            (unsigned long long)now.seed);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

/* ---- memory ---- */

/* Mappings are used again: a check makes thousands. */
typedef struct slot {
    unsigned char *map;
    size_t mapped, bytes;
    unsigned char *data;
    bool taken;
} slot;
enum { SLOTS = 64, PATTERN = 0xa5 };
static slot slots[SLOTS];

static void stop(const char *what)
{
    perror(what);
    exit(3);
}

static void slot_map(slot *s, size_t inner, size_t page)
{
    if (s->map && munmap(s->map, s->mapped) != 0)
        stop("munmap");
    s->mapped = inner + 2 * page;
    s->map = mmap(NULL, s->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->map == MAP_FAILED)
        stop("mmap");
    if (inner > 0 && mprotect(s->map + page, inner, PROT_READ | PROT_WRITE) != 0)
        stop("mprotect");
}

guarded guarded_new(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (bytes + page - 1) / page * page;
    size_t i = 0, idle = SLOTS;
    for (; i < SLOTS && (slots[i].taken || slots[i].mapped != inner + 2 * page); i++)
        if (!slots[i].taken && (idle == SLOTS || slots[i].map == NULL))
            idle = i;
    if (i == SLOTS) {
        if (idle == SLOTS)
            stop("more buffers in a check than there are slots");
        i = idle;
        slot_map(&slots[i], inner, page);
    }
    slot *s = &slots[i];
    s->taken = true;
    s->bytes = bytes;
    s->data = s->map + page + (now.behind ? 0 : inner - bytes);
    if (inner > 0)
        memset(s->map + page, PATTERN, inner);
    return (guarded){.data = s->data, .slot = i};
}

guarded guarded_copy(guarded from, size_t bytes)
{
    guarded g = guarded_new(bytes);
    if (bytes > 0)
        memcpy(g.data, from.data, bytes);
    return g;
}

void guarded_free(guarded g)
{
    slot *s = &slots[g.slot];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *first = s->map + page, *end = s->map + s->mapped - page;
    for (const unsigned char *p = first; p < end; p++) {
        if (p == s->data)
            p += s->bytes;
        if (p == end)
            break;
        if (*p != PATTERN) {
            check_fail("wrote at byte %td of a buffer of %zu bytes", p - s->data, s->bytes);
            break;
        }
    }
    s->taken = false;
}

void check_fault(const void *address)
{
    const unsigned char *p = address;
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].taken && p >= slots[i].map && p < slots[i].map + slots[i].mapped) {
            check_fail("touched byte %td of a buffer of %zu bytes", p - slots[i].data,
                       slots[i].bytes);
            return;
        }
    check_fail("touched address %p, which is in no buffer of this check", address);
}

/* ---- values ---- */

static void bench_begin(void);

static uint32_t random_state;

uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Seeded by the kernel's name as well, so that one that runs alone sees the same values. */
void check_begin(void)
{
    uint64_t h = now.seed + 0x9e3779b97f4a7c15u;
    for (const char *p = now.kernel; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    random_state = (uint32_t)(h ^ (h >> 32)) | 1u;
    now.failed = false;
    bench_begin();
}

void check_end(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        slots[i].taken = false;
}

float random_value(void)
{
    const float v = ((float)(random_word() >> 8) * 0x1p-23f - 1.0f) * 4.0f;
    switch (random_word() % 16) {
    case 0: return v * 0x1p-20f;
    case 1: return v * 8.0f;
    default: return v;
    }
}

float special_value(void)
{
    static const float specials[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,      3e38f,  -3e38f,
                                     1e-40f, -1e-40f, 1e-38f,   65504.0f,  65520.0f, 1e19f,  -1e19f,
                                     88.0f,  -88.0f,  104.0f,   -104.0f,   0.625f,   200.0f, 5e-8f};
    return random_word() % 4 ? random_value()
                             : specials[random_word() % (sizeof specials / sizeof *specials)];
}

guarded values(size_t n, bool special)
{
    guarded g = guarded_new(n * sizeof(float));
    float *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = special ? special_value() : random_value();
    return g;
}

guarded bf16_values(size_t n, bool special)
{
    guarded g = values(n, special);
    float *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = zoe_bf16_round(p[i]);
    return g;
}

guarded typed_values(zoe_dtype dtype, size_t n, bool special)
{
    guarded v = values(n, special), g = guarded_new(n * zoe_dtype_bytes(dtype));
    zoe_narrow(g.data, dtype, v.data, n);
    uint32_t *bits = g.data;
    for (size_t i = 0; i < n && special && dtype == ZOE_F32; i++)
        if ((bits[i] & 0x7fffffffu) > 0x7f800000u)
            bits[i] |= random_word() | 0x7f800001u;
    guarded_free(v);
    return g;
}

guarded random_bytes(size_t n)
{
    guarded g = guarded_new(n);
    unsigned char *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)random_word();
    return g;
}

/* ---- comparison ---- */

/* " (of WHAT)" where a check names more than its kernel. */
static const char *part_of(const char *name, char *room, size_t bytes)
{
    room[0] = '\0';
    if (strcmp(name, now.kernel) != 0)
        snprintf(room, bytes, " (%s)", name);
    return room;
}

void close_to_double(const char *name, size_t n, size_t i, double got, double want, double scale,
                     double tolerance)
{
    if (got == want || (isnan(want) && isnan(got)))
        return;
    const double size = fabs(want) > scale ? fabs(want) : scale;
    if (tolerance > 0.0 && fabs(got - want) <= tolerance * size)
        return;
    char part[64];
    check_fail("size %zu, element %zu%s: got %.17g, wanted %.17g (scale %g)", n, i,
               part_of(name, part, sizeof part), got, want, scale);
}

void close_to(const char *name, size_t n, size_t i, float got, float want, double scale,
              double tolerance)
{
    if (zoe_bits_of_f32(got) == zoe_bits_of_f32(want) || (isnan(want) && isnan(got)))
        return;
    const double size = fabs((double)want) > scale ? fabs((double)want) : scale;
    if (tolerance > 0.0 && fabs((double)got - (double)want) <= tolerance * size)
        return;
    char part[64];
    check_fail("size %zu, element %zu%s: got %.9g, wanted %.9g (scale %g)", n, i,
               part_of(name, part, sizeof part), (double)got, (double)want, scale);
}

void all_close(const char *name, size_t n, const float *got, const float *want, double scale,
               double tolerance)
{
    for (size_t i = 0; i < n && !now.failed; i++)
        close_to(name, n, i, got[i], want[i], scale, tolerance);
}

void all_close_as(const char *name, size_t n, zoe_dtype dtype, const void *got, const void *want,
                  double scale, double tolerance)
{
    for (size_t i = 0; i < n && !now.failed; i++)
        close_to(name, n, i, zoe_load_f32(got, dtype, i), zoe_load_f32(want, dtype, i), scale,
                 tolerance);
}

/* Bytes as one number, most significant digit first. */
static const char *number(char *room, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n && i < 16; i++)
        snprintf(room + 2 * i, 3, "%02x", bytes[n - 1 - i]);
    return room;
}

void same_bytes(const char *name, size_t n, const void *got, const void *want, size_t count,
                size_t element_bytes)
{
    const unsigned char *g = got, *w = want;
    for (size_t i = 0; i < count; i++, g += element_bytes, w += element_bytes) {
        if (memcmp(g, w, element_bytes) == 0)
            continue;
        char part[64], a[40], b[40];
        check_fail("size %zu, element %zu%s: got 0x%s, wanted 0x%s", n, i,
                   part_of(name, part, sizeof part), number(a, g, element_bytes),
                   number(b, w, element_bytes));
        return;
    }
}

/* ---- time ---- */

enum { LINES = 16, BATCHES = 25 };
/* Nanoseconds a call of each BENCH of a kernel, by rung; 0: not taken. */
static struct line {
    size_t elements;
    double ns[ZOE_ISA_COUNT];
} lines[LINES];
static size_t line_count, line; /* line: that of the BENCH that runs in this check */
static size_t calls, taken;     /* calls a batch; batches measured */
static double batches[BATCHES], started, *timed;

static void bench_begin(void)
{
    line = 0;
}

static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int bench_next(size_t elements, bool guest)
{
    if (!now.bench || now.behind)
        return -1;
    if (line == LINES)
        return -1;
    if (line == line_count)
        lines[line_count++] = (struct line){.elements = elements};
    double *ns = lines[line].ns;
    calls = taken = 0;
    timed = ns[ZOE_ISA_C] == 0.0 ? &ns[ZOE_ISA_C] : &ns[now.isa];
    if (*timed != 0.0) {
        line++;
        return -1;
    }
    return guest && timed != &ns[ZOE_ISA_C];
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Batches grow until one takes 0.2 ms; then the median of some is taken. */
size_t bench_calls(void)
{
    const double end = processor_ns();
    if (calls == 0) {
        calls = 1;
    } else if (end - started < 2e5 && taken == 0) {
        calls *= 2;
    } else {
        batches[taken++] = (end - started) / (double)calls;
        /* a slow definition is not worth more */
        if (taken == BATCHES || (taken >= 3 && end - started > 2e6)) {
            qsort(batches, taken, sizeof *batches, compare_doubles);
            *timed = batches[taken / 2];
            return 0;
        }
    }
    started = processor_ns();
    return calls;
}

void bench_print(void)
{
    for (size_t i = 0; i < line_count; i++) {
        const double *ns = lines[i].ns, n = (double)lines[i].elements;
        printf("%-24s %9zu  c %9.4f", now.kernel, lines[i].elements, ns[ZOE_ISA_C] / n);
        for (int isa = ZOE_ISA_C + 1; isa < ZOE_ISA_COUNT; isa++)
            if (ns[isa] > 0.0)
                printf("   %s %8.4f (%.1fx)", zoe_isa_name((zoe_isa)isa), ns[isa] / n,
                       ns[ZOE_ISA_C] / ns[isa]);
        putchar('\n');
    }
    line_count = 0;
}
